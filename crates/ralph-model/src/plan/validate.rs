//! Finds all problems of a plan at once.

use std::collections::HashMap;

use super::flaw::{Flaw, Problem, ProblemKind};
use super::order::{self, Edges};
use super::record::{Record, Task};
use super::remove::closed;
use super::scan;
use super::task_fields::Kill;
use super::{Line, Plan};

impl Plan<'_> {
    /// Returns every problem, by line; `known` says whether an id was ever in the plan.
    pub fn problems(&self, known: &dyn Fn(&str) -> bool) -> Vec<Problem> {
        let mut problems: Vec<Problem> = self.document.broken().collect();
        // The sides of a conflict have the same ids, which is resolved with the conflict.
        let marker = ProblemKind::Broken(Flaw::ConflictMarker);
        if problems.iter().all(|problem| problem.kind != marker) {
            self.doubles(&mut problems);
        }
        self.references(known, &mut problems);
        self.knots(&mut problems);
        problems.sort_by_key(|problem| problem.line);
        problems
    }

    /// Returns what keeps agents from working on a plan whose every line is valid, by line.
    pub fn obstacles(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        self.doubles(&mut problems);
        self.knots(&mut problems);
        problems.retain(|problem| {
            matches!(problem.kind, ProblemKind::DuplicateId { .. } | ProblemKind::Cycle { .. })
        });
        problems.sort_by_key(|problem| problem.line);
        problems
    }

    fn doubles(&self, problems: &mut Vec<Problem>) {
        let mut first_of: HashMap<&str, usize> = HashMap::new();
        let mut first_spec = None;
        for (line, number) in self.document.lines.iter().zip(1..) {
            match &line.record {
                Record::Task(super::TaskHead { id, .. }) | Record::Issue { id } => {
                    let first = *first_of.entry(id).or_insert(number);
                    if first != number {
                        let kind = ProblemKind::DuplicateId { id: id.clone().into_owned(), first };
                        problems.push(Problem { line: number, kind });
                    }
                }
                Record::Spec { .. } => {
                    let first = *first_spec.get_or_insert(number);
                    if first != number {
                        let kind = ProblemKind::SecondSpec { first };
                        problems.push(Problem { line: number, kind });
                    }
                }
                _ => {}
            }
        }
    }

    fn references(&self, known: &dyn Fn(&str) -> bool, problems: &mut Vec<Problem>) {
        let here = self.ids();
        let issues = self.issue_ids();
        let broken =
            self.document.lines.iter().filter(|line| matches!(line.record, Record::Broken(_)));
        let broken: Vec<_> = broken.map(|line| String::from_utf8_lossy(line.content())).collect();
        // An id mentioned in an unparsable line may well exist once the line is fixed.
        let perhaps = |id: &str| broken.iter().any(|text| text.contains(id));
        let unknown = |id: &str| !here.contains(id) && !perhaps(id) && !known(id);
        for (line, number) in self.document.lines.iter().zip(1..) {
            let mut report = |kind| problems.push(Problem { line: number, kind });
            if let Record::Issue { id } = &line.record {
                unknown_priority(line, id).into_iter().for_each(&mut report);
                empty(line, &["id", "desc"]).for_each(&mut report);
            }
            if line.head().is_none() {
                continue;
            }
            let Some(task) = line.task() else { continue };
            let id = || task.id.clone().into_owned();
            for dependency in task.deps.iter().filter(|id| unknown(id)) {
                let dependency = dependency.clone().into_owned();
                report(ProblemKind::UnknownDependency { id: id(), dependency });
            }
            let deps = task.deps.iter().map(|id| ("deps", id));
            let tasks = deps.chain(task.parent.iter().map(|id| ("parent", id)));
            for (field, other) in tasks.filter(|(_, other)| issues.contains(&***other)) {
                let issue = other.clone().into_owned();
                report(ProblemKind::IssueForTask { id: id(), field, issue });
            }
            let relations = [
                ("parent", &task.parent),
                ("created_from", &task.created_from),
                ("supersedes", &task.supersedes),
            ];
            for (field, other) in relations {
                if let Some(other) = other.as_deref().filter(|other| unknown(other)) {
                    let other = other.to_owned();
                    report(ProblemKind::UnknownRelation { id: id(), field, other });
                }
            }
            own(line, &task).into_iter().for_each(report);
        }
    }

    fn knots(&self, problems: &mut Vec<Problem>) {
        let lines = self.document.lines.iter().zip(1..);
        let (numbers, nodes): (Vec<usize>, Vec<Edges<'_>>) = lines
            .filter_map(|(line, number)| Some((number, line.head()?)))
            .map(|(number, head)| {
                let deps = head.deps.iter().map(|id| &**id).collect();
                (number, Edges { id: &head.id, deps })
            })
            .unzip();
        for cycle in order::cycles(&nodes) {
            let first = cycle[0];
            let kind = ProblemKind::Cycle {
                id: nodes[first].id.to_owned(),
                cycle: closed(&nodes, &cycle),
            };
            problems.push(Problem { line: numbers[first], kind });
        }
    }
}

/// Problems of a task that do not depend on the rest of the plan.
fn own(line: &Line<'_>, task: &Task<'_>) -> Vec<ProblemKind> {
    let mut problems: Vec<_> = unknown_priority(line, &task.id).into_iter().collect();
    problems.extend(empty(line, &["id", "name"]));
    let id = || task.id.clone().into_owned();
    if task.killed && member(line, "s").as_deref() == Some("d") {
        problems.push(ProblemKind::KilledAndDone { id: id() });
    }
    if let Some(found) = task.kill.as_deref()
        && Kill::of_name(found).is_none()
    {
        problems.push(ProblemKind::UnknownKill { id: id(), found: found.to_owned() });
    }
    problems
}

/// Returns the members that are present but empty.
fn empty<'a>(
    line: &'a Line<'_>,
    fields: &'a [&'static str],
) -> impl Iterator<Item = ProblemKind> + 'a {
    let says_nothing =
        |field: &&str| member(line, field).is_some_and(|text| text.trim().is_empty());
    fields.iter().copied().filter(says_nothing).map(|field| ProblemKind::Empty { field })
}

fn unknown_priority(line: &Line<'_>, id: &str) -> Option<ProblemKind> {
    let found = member(line, "priority")?;
    let known = super::Priority::of_name(&found).is_some();
    (!known).then(|| ProblemKind::UnknownPriority { id: id.to_owned(), found })
}

/// The raw text of a member.
fn member(line: &Line<'_>, key: &str) -> Option<String> {
    let text = std::str::from_utf8(line.content()).ok()?;
    let mut found = None;
    scan::members(text, |member| {
        if member.key == key {
            found = member.value.text().map(std::borrow::Cow::into_owned);
        }
    })
    .ok()?;
    found
}
