//! Removing tasks, and updating their dependents.

use std::collections::{HashMap, HashSet};

use super::edit::MemberEdit;
use super::order::{self, Edges};
use super::task_fields::Status;
use super::{Change, Document, Index, Named, Plan, PlanError, Record};

/// Ids of removed tasks, each with the tasks that replace it in others' dependencies.
pub(super) type Heirs = HashMap<String, Vec<String>>;

/// Returns the dependencies of a task after tasks were removed; `None` if unchanged.
pub(super) fn inherited<D: AsRef<str>>(id: &str, deps: &[D], heirs: &Heirs) -> Option<Vec<String>> {
    if heirs.is_empty() || !deps.iter().any(|dependency| heirs.contains_key(dependency.as_ref())) {
        return None;
    }
    let mut new: Vec<String> = Vec::with_capacity(deps.len());
    let mut add = |dependency: &str| {
        if new.iter().all(|other| other != dependency) {
            new.push(dependency.to_owned());
        }
    };
    for dependency in deps {
        match heirs.get(dependency.as_ref()) {
            None => add(dependency.as_ref()),
            // Tasks that replace the same task do not depend on each other.
            Some(heirs) if heirs.iter().any(|heir| heir == id) => {}
            Some(heirs) => heirs.iter().for_each(|heir| add(heir)),
        }
    }
    Some(new)
}

/// Returns the lines whose dependencies change when tasks are removed, with the new dependencies.
pub(super) fn handed_over(document: &Document<'_>, heirs: &Heirs) -> HashMap<usize, Vec<String>> {
    let tasks = document.lines.iter().enumerate();
    tasks
        .filter_map(|(at, line)| {
            let head = line.head()?;
            Some((at, inherited(&head.id, &head.deps, heirs)?))
        })
        .collect()
}

/// Refuses a change that would create a dependency cycle.
///
/// `changed` are lines with changed dependencies, `gone` ids that will be removed, `new` tasks that will be added.
pub(super) fn refuse_cycles(
    document: &Document<'_>,
    changed: &HashMap<usize, Vec<String>>,
    gone: &Heirs,
    new: &[(String, Vec<String>)],
) -> Result<(), PlanError> {
    fn edges<'p>(id: &'p str, deps: &'p [impl AsRef<str>]) -> Edges<'p> {
        Edges { id, deps: deps.iter().map(AsRef::as_ref).collect() }
    }
    let mut touched: HashSet<&str> = new.iter().map(|(id, _)| id.as_str()).collect();
    let mut nodes: Vec<Edges<'_>> = Vec::with_capacity(document.lines.len() + new.len());
    for (at, line) in document.lines.iter().enumerate() {
        let Some(head) = line.head() else { continue };
        if gone.contains_key(&*head.id) {
            continue;
        }
        nodes.push(match changed.get(&at) {
            Some(deps) => {
                touched.insert(&head.id);
                edges(&head.id, deps)
            }
            None => edges(&head.id, &head.deps),
        });
    }
    nodes.extend(new.iter().map(|(id, deps)| edges(id, deps)));
    // An existing cycle is reported by `validate`; this change is not responsible for it.
    let ours = order::cycles(&nodes)
        .into_iter()
        .find(|cycle| cycle.iter().any(|node| touched.contains(nodes[*node].id)));
    match ours {
        None => Ok(()),
        Some(cycle) => Err(PlanError::Cycle { cycle: closed(&nodes, &cycle) }),
    }
}

/// Returns the ids along a cycle, with the first repeated at the end.
pub(super) fn closed(nodes: &[Edges<'_>], cycle: &[usize]) -> Vec<String> {
    cycle.iter().chain(cycle.first()).map(|node| nodes[*node].id.to_owned()).collect()
}

impl Plan<'_> {
    /// Removes a task; its dependents then depend on the subtasks it was decomposed into.
    pub fn delete(&mut self, id: &str) -> Result<Change, PlanError> {
        self.writable()?;
        let gone_at = Index::of(&self.document.lines).get(id)?;
        let heirs: Vec<String> = self
            .document
            .lines
            .iter()
            .filter(|line| line.head().is_some())
            .filter_map(super::Line::task)
            .filter(|task| task.parent.as_deref() == Some(id) && task.id != id)
            .map(|task| task.id.into_owned())
            .collect();
        let gone = Heirs::from([(id.to_owned(), heirs.clone())]);
        // Without subtasks no dependency remains: one that is not in the file counts as satisfied.
        let changed =
            if heirs.is_empty() { HashMap::new() } else { handed_over(&self.document, &gone) };
        refuse_cycles(&self.document, &changed, &gone, &[])?;
        let dependents = self
            .document
            .lines
            .iter()
            .filter_map(super::Line::head)
            .filter(|head| head.id != id && !heirs.iter().any(|heir| *heir == head.id))
            .filter(|head| head.deps.iter().any(|dependency| dependency == id))
            .map(|head| head.id.clone().into_owned())
            .collect();
        let task = self.named(gone_at);
        for (at, deps) in changed {
            self.document.edit(at, &[MemberEdit::texts("deps", &deps)]);
        }
        self.document.remove(|at, _| at == gone_at);
        Ok(self.finish(Change::TaskDeleted { task, heirs, dependents }))
    }

    /// Removes every task of any spec that is not accepted, for a plan that starts over.
    pub fn cancel_unfinished(&mut self) -> Result<Change, PlanError> {
        self.writable()?;
        let tasks = self.remove_tasks(|_| true);
        Ok(if tasks.is_empty() {
            Change::Nothing
        } else {
            self.finish(Change::TasksCancelled { tasks })
        })
    }

    /// Removes tasks of the specs that `gone` selects and returns the unfinished ones.
    pub(super) fn remove_tasks(&mut self, gone: impl Fn(&str) -> bool) -> Vec<Named> {
        let going = |line: &super::Line<'_>| line.head().is_some_and(|head| gone(&head.spec));
        let unfinished = self.document.lines.iter().enumerate();
        let tasks = unfinished
            .filter(|(_, line)| {
                going(line) && line.head().is_some_and(|head| head.status != Status::Accepted)
            })
            .map(|(at, _)| self.named(at))
            .collect();
        self.document.remove(|_, line| going(line));
        tasks
    }

    /// Removes all tombstones; the history keeps them.
    pub fn clear_tombstones(&mut self) -> Result<Change, PlanError> {
        self.writable()?;
        let before = self.document.lines.len();
        self.document.remove(|_, line| matches!(line.record, Record::Reject { .. }));
        let count = before - self.document.lines.len();
        Ok(if count == 0 {
            Change::Nothing
        } else {
            self.finish(Change::TombstonesCleared { count })
        })
    }
}
