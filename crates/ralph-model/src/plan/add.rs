//! Adding tasks: one, or a batch whose tasks may refer to each other.

use std::collections::{HashMap, HashSet};

use super::draft::{TaskDraft, task_drafts};
use super::edit::{MemberEdit, NewRecord};
use super::error::{PlanError, WishError};
use super::ids::{IdLength, IssueId, TaskId};
use super::remove::{Heirs, handed_over, inherited, refuse_cycles};
use super::task_fields::{Priority, Status};
use super::{Added, Change, Index, Plan, PlanContext, Record};

/// The file's information about the ids that drafts refer to.
struct Known<'p> {
    ids: HashSet<&'p str>,
    issues: HashSet<&'p str>,
    index: Index<'p>,
    rejected: HashSet<&'p str>,
    ever: &'p dyn Fn(&str) -> bool,
    past_is_whole: &'p dyn Fn() -> bool,
}

impl Known<'_> {
    /// Whether an id may be referred to: it is in the file, in this batch, or was once in the file.
    fn is_known(&self, id: &str, batch: &HashSet<&str>) -> bool {
        self.ids.contains(id) || batch.contains(id) || (self.ever)(id)
    }

    /// Whether an id belongs to an issue, existing or removed: an issue cannot be a dependency or a parent.
    fn is_issue(&self, id: &str) -> bool {
        self.issues.contains(id) || (!self.ids.contains(id) && id.parse::<IssueId>().is_ok())
    }
}

impl Plan<'_> {
    /// Adds the task or tasks that `text` describes, all or none.
    ///
    /// A task that supersedes a rejected one replaces it; the rejected one is removed from the file.
    pub fn add(
        &mut self,
        text: &str,
        surroundings: &mut PlanContext<'_>,
    ) -> Result<Change, PlanError> {
        self.writable()?;
        let spec = self.spec().ok_or(PlanError::NoSpec)?.to_owned();
        let mut task_drafts = task_drafts(text, &spec)?;
        let known = Known {
            ids: self.ids(),
            issues: self.issue_ids(),
            index: Index::of(&self.document.lines),
            rejected: self.rejected(),
            ever: surroundings.known,
            past_is_whole: surroundings.past_is_whole,
        };
        let ids = name_all(&task_drafts, &known, surroundings.random)?;
        check_relations(self, &task_drafts, &ids, &known)?;
        let heirs = heirs(&task_drafts, &ids);
        for (wish, id) in task_drafts.iter_mut().zip(&ids) {
            if let Some(deps) = inherited(id, &wish.deps, &heirs) {
                wish.deps = deps;
            }
            wish.priority = wish.priority.or_else(|| self.inherited_priority(wish));
        }
        let changed = handed_over(&self.document, &heirs);
        let new: Vec<_> =
            ids.iter().cloned().zip(task_drafts.iter().map(|wish| wish.deps.clone())).collect();
        refuse_cycles(&self.document, &changed, &heirs, &new)?;

        for (at, deps) in changed {
            self.document.edit(at, &[MemberEdit::texts("deps", &deps)]);
        }
        let depths = self.depths(&task_drafts, &ids);
        let records: Vec<_> = task_drafts
            .iter()
            .zip(&ids)
            .zip(depths)
            .map(|((wish, id), depth)| record(wish, id, &spec, depth))
            .collect();
        self.document.insert(&records);
        self.document
            .remove(|_, line| line.head().is_some_and(|head| heirs.contains_key(&*head.id)));
        let tasks = task_drafts.into_iter().zip(ids);
        let tasks = tasks.map(|(wish, id)| Added { id, name: wish.name, deps: wish.deps });
        let mut superseded: Vec<String> = heirs.into_keys().collect();
        superseded.sort_unstable();
        let change = Change::TasksAdded { tasks: tasks.collect(), superseded };
        Ok(self.finish(change))
    }

    /// Returns the depth of each new task: one more than its parent, which may be new as well.
    fn depths(&self, task_drafts: &[TaskDraft], ids: &[String]) -> Vec<Option<u32>> {
        let at: HashMap<&str, usize> =
            ids.iter().enumerate().map(|(at, id)| (id.as_str(), at)).collect();
        let depth = |wish: &TaskDraft| {
            let mut above = wish.parent.as_deref()?;
            let mut steps = 1;
            while let Some(parent) = at.get(above).map(|at| &task_drafts[*at])
                && let Some(further) = parent.parent.as_deref()
                && steps <= ids.len()
            {
                above = further;
                steps += 1;
            }
            u32::try_from(self.depth(above) + steps).ok()
        };
        task_drafts.iter().map(depth).collect()
    }

    fn rejected(&self) -> HashSet<&str> {
        let lines = self.document.lines.iter();
        lines
            .filter_map(|line| match &line.record {
                Record::Reject { id } => Some(&**id),
                _ => None,
            })
            .collect()
    }

    /// A task derived from an issue inherits its priority.
    fn inherited_priority(&self, wish: &TaskDraft) -> Option<Priority> {
        let id = wish.created_from.as_deref()?;
        self.issues().find(|issue| issue.id == id)?.priority
    }
}

/// Gives every task its requested id or a new one.
fn name_all(
    task_drafts: &[TaskDraft],
    known: &Known<'_>,
    random: &mut dyn FnMut() -> u64,
) -> Result<Vec<String>, PlanError> {
    let mut taken: HashSet<String> = HashSet::new();
    let is_taken = |id: &str, taken: &HashSet<String>| {
        known.ids.contains(id) || taken.contains(id) || (known.ever)(id)
    };
    for (wish, at) in task_drafts.iter().zip(1..) {
        let Some(id) = &wish.id else { continue };
        if is_taken(id, &taken) {
            return Err(PlanError::Wish { at, why: WishError::IdTaken { id: id.clone() } });
        }
        taken.insert(id.clone());
    }
    let mut ids = Vec::with_capacity(task_drafts.len());
    for wish in task_drafts {
        let id = wish.id.clone().unwrap_or_else(|| {
            let length = IdLength::given((known.past_is_whole)());
            TaskId::generate(random, length, |id| is_taken(id, &taken)).into()
        });
        taken.insert(id.clone());
        ids.push(id);
    }
    Ok(ids)
}

/// Checks that everything a new task refers to exists or existed.
fn check_relations(
    plan: &Plan<'_>,
    task_drafts: &[TaskDraft],
    ids: &[String],
    known: &Known<'_>,
) -> Result<(), PlanError> {
    let batch: HashSet<&str> = ids.iter().map(String::as_str).collect();
    for (wish, at) in task_drafts.iter().zip(1..) {
        let refused = |why| Err(PlanError::Wish { at, why });
        let deps = wish.deps.iter().map(|id| ("deps", id));
        let tasks = deps.chain(wish.parent.iter().map(|id| ("parent", id)));
        if let Some((field, id)) = tasks.into_iter().find(|(_, id)| known.is_issue(id)) {
            return refused(WishError::IssueForTask { field, id: id.clone() });
        }
        if let Some(id) = wish.deps.iter().find(|id| !known.is_known(id, &batch)) {
            return refused(WishError::UnknownDependency { id: id.clone() });
        }
        for (field, id) in [("parent", &wish.parent), ("created_from", &wish.created_from)] {
            if let Some(id) = id
                && !known.is_known(id, &batch)
            {
                return refused(WishError::UnknownRelation { field, id: id.clone() });
            }
        }
        if let Some(id) = &wish.supersedes {
            let redone = known.index.tasks.contains_key(id.as_str())
                && plan.task_at(known.index.get(id)?).status != Status::Pending;
            if redone || !known.rejected.contains(id.as_str()) {
                return refused(WishError::NotRejected { id: id.clone() });
            }
            if wish.deps.contains(id) {
                return refused(WishError::DependsOnSuperseded { id: id.clone() });
            }
        }
    }
    Ok(())
}

fn heirs(task_drafts: &[TaskDraft], ids: &[String]) -> Heirs {
    let mut heirs: Heirs = HashMap::new();
    for (wish, id) in task_drafts.iter().zip(ids) {
        if let Some(superseded) = &wish.supersedes {
            heirs.entry(superseded.clone()).or_default().push(id.clone());
        }
    }
    heirs
}

fn record(wish: &TaskDraft, id: &str, spec: &str, depth: Option<u32>) -> NewRecord {
    let new = NewRecord::new("task")
        .with(MemberEdit::text("id", id))
        .with(MemberEdit::text("spec", spec))
        .with(MemberEdit::text("name", &wish.name))
        .with_text("notes", wish.notes.as_deref())
        .with(MemberEdit::texts("deps", &wish.deps))
        .with_text("accept", wish.accept.as_deref())
        .with(MemberEdit::text("s", "p"))
        .with_text("priority", wish.priority.map(Priority::name))
        .with_text("parent", wish.parent.as_deref());
    let new = match depth {
        Some(depth) => new.with(MemberEdit::number("decompose_depth", depth)),
        None => new,
    };
    new.with_text("created_from", wish.created_from.as_deref())
        .with_text("supersedes", wish.supersedes.as_deref())
}
