//! Describes a change to the plan: for its commit message and for the reply.

use std::fmt;

use super::task_fields::Kill;
use crate::shown::shown;

/// How many characters of a name a commit message shows.
const NAME: usize = 50;

/// The maximum number of lines after the subject of a commit message, and of characters per line.
const LINES: usize = 50;
const LINE: usize = 100;

/// Subjects of commits that remove done tasks without accepting them; histories recognise them by it.
pub(crate) const DELETES: &str = "ralph: task delete";
pub(crate) const CANCELS: &str = "ralph: cancel";
pub(crate) const SETS_SPEC: &str = "ralph: set spec";

/// A task or an issue, with its name or description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub id: String,
    pub name: String,
}

/// A task that was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    pub id: String,
    pub name: String,
    pub deps: Vec<String>,
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing had to change.
    Nothing,
    TasksAdded {
        tasks: Vec<Added>,
        superseded: Vec<String>,
    },
    TaskDone {
        task: Named,
    },
    TasksAccepted {
        tasks: Vec<Named>,
    },
    TaskRejected {
        task: Named,
        reason: String,
    },
    /// `heirs` replaced the task in the dependencies of `dependents`.
    TaskDeleted {
        task: Named,
        heirs: Vec<String>,
        dependents: Vec<String>,
    },
    TaskKilled {
        task: Named,
        kill: Kill,
    },
    Prioritized {
        high: usize,
        medium: usize,
        low: usize,
    },
    IssueAdded {
        issue: Named,
    },
    IssuesDone {
        issues: Vec<Named>,
    },
    SpecSet {
        spec: String,
        cancelled: Vec<Named>,
    },
    TasksCancelled {
        tasks: Vec<Named>,
    },
    TombstonesCleared {
        count: usize,
    },
}

impl Change {
    /// Returns its name in the journal.
    pub const fn name(&self) -> &'static str {
        match self {
            Change::Nothing => "nothing",
            Change::TasksAdded { .. } => "tasks_added",
            Change::TaskDone { .. } => "task_done",
            Change::TasksAccepted { .. } => "tasks_accepted",
            Change::TaskRejected { .. } => "task_rejected",
            Change::TaskDeleted { .. } => "task_deleted",
            Change::TaskKilled { .. } => "task_killed",
            Change::Prioritized { .. } => "prioritized",
            Change::IssueAdded { .. } => "issue_added",
            Change::IssuesDone { .. } => "issues_done",
            Change::SpecSet { .. } => "spec_set",
            Change::TasksCancelled { .. } => "tasks_cancelled",
            Change::TombstonesCleared { .. } => "tombstones_cleared",
        }
    }

    /// Returns the ids of the affected tasks or issues.
    pub fn ids(&self) -> Vec<&str> {
        match self {
            Change::TasksAdded { tasks, .. } => tasks.iter().map(|task| task.id.as_str()).collect(),
            Change::TaskDone { task }
            | Change::TaskRejected { task, .. }
            | Change::TaskDeleted { task, .. }
            | Change::TaskKilled { task, .. }
            | Change::IssueAdded { issue: task } => vec![&task.id],
            Change::TasksAccepted { tasks }
            | Change::TasksCancelled { tasks }
            | Change::IssuesDone { issues: tasks }
            | Change::SpecSet { cancelled: tasks, .. } => {
                tasks.iter().map(|task| task.id.as_str()).collect()
            }
            Change::Nothing | Change::Prioritized { .. } | Change::TombstonesCleared { .. } => {
                Vec::new()
            }
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        *self == Change::Nothing
    }

    /// The subject of the commit for this change; `None` if there is nothing to commit.
    pub(crate) fn subject(&self) -> Option<String> {
        Some(match self {
            Change::Nothing => return None,
            Change::TasksAdded { tasks, .. } => {
                let names = tasks.iter().map(|task| task.name.as_str());
                counted("ralph: task add", "tasks", names)
            }
            Change::TaskDone { task } => format!("ralph: task done - {}", cut(&task.name)),
            Change::TasksAccepted { tasks } => counted("ralph: task accept", "tasks", names(tasks)),
            Change::TaskRejected { task, .. } => {
                format!("ralph: task reject - {}", cut(&task.name))
            }
            Change::TaskDeleted { task, .. } => format!("{DELETES} - {}", cut(&task.name)),
            Change::TaskKilled { task, kill } => {
                format!("ralph: task killed by {} - {}", kill.name(), cut(&task.name))
            }
            Change::Prioritized { high, medium, low } => {
                format!("ralph: prioritize {}", plural(high + medium + low, "task", "tasks"))
            }
            Change::IssueAdded { issue } => format!("ralph: issue add - {}", cut(&issue.name)),
            Change::IssuesDone { issues } => counted("ralph: issue done", "issues", names(issues)),
            Change::SpecSet { spec, .. } => format!("{SETS_SPEC} {}", one_line(spec)),
            Change::TasksCancelled { tasks } => {
                format!("{CANCELS} {}", plural(tasks.len(), "task", "tasks"))
            }
            Change::TombstonesCleared { count } => {
                format!("ralph: clear {}", plural(*count, "tombstone", "tombstones"))
            }
        })
    }

    /// The message of the commit for this change; `None` if there is nothing to commit.
    ///
    /// The body names what the subject only counts or omits.
    pub fn message(&self) -> Option<String> {
        Some(with_body(self.subject()?, self.named()))
    }

    /// Names everything, one per line, if there is more than one thing to name.
    fn named(&self) -> Vec<String> {
        let all = self.to_string();
        let lines: Vec<String> = all.lines().map(str::to_owned).collect();
        if lines.len() < 2 { Vec::new() } else { lines }
    }
}

/// Adds lines below the subject of a message, up to a maximum.
fn with_body(subject: String, lines: Vec<String>) -> String {
    let left_out = lines.len().saturating_sub(LINES);
    let lines = lines.into_iter().take(LINES).map(|line| line.chars().take(LINE).collect());
    let more = (left_out > 0).then(|| format!("and {left_out} more"));
    let body: Vec<String> = lines.chain(more).collect();
    if body.is_empty() { subject } else { format!("{subject}\n\n{}", body.join("\n")) }
}

/// The message of one commit for all these changes; `None` if there is nothing to commit.
///
/// A deletion or cancellation must be a separate commit: otherwise the history could not distinguish it from an
/// acceptance.
pub fn commit_message(changes: &[Change]) -> Option<String> {
    let changes: Vec<&Change> = changes.iter().filter(|change| !change.is_nothing()).collect();
    if let [one] = changes.as_slice() {
        return one.message();
    }
    let mut lines = Vec::new();
    for change in &changes {
        let subject = change.subject()?;
        lines.push(format!("- {}", subject.strip_prefix("ralph: ").unwrap_or(&subject)));
        lines.extend(change.named().into_iter().map(|line| format!("  {line}")));
    }
    let subject = format!("ralph: update plan ({} changes)", changes.len());
    (!changes.is_empty()).then(|| with_body(subject, lines) + "\n")
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Nothing => f.write_str("Nothing changed"),
            Change::TasksAdded { tasks, superseded } => {
                for (at, task) in tasks.iter().enumerate() {
                    let between = if at > 0 { "\n" } else { "" };
                    write!(f, "{between}Task added: {} - {}", task.id, one_line(&task.name))?;
                    if !task.deps.is_empty() {
                        write!(f, " (deps: {})", task.deps.join(", "))?;
                    }
                }
                superseded.iter().try_for_each(|id| write!(f, "\nTask superseded: {id}"))
            }
            Change::TaskDone { task } => write!(f, "Task done: {task}"),
            Change::TasksAccepted { tasks } => many(f, "Task accepted", tasks),
            Change::TaskRejected { task, reason } => {
                write!(f, "Task rejected: {task} ({})", one_line(reason))
            }
            Change::TaskDeleted { task, heirs, dependents } => {
                write!(f, "Task deleted: {task}")?;
                match (dependents.as_slice(), heirs.as_slice()) {
                    ([], _) => Ok(()),
                    (waiting, []) => write!(f, "; no longer waited for by {}", waiting.join(", ")),
                    (waiting, heirs) => {
                        write!(f, "; {} now wait for {}", waiting.join(", "), heirs.join(", "))
                    }
                }
            }
            Change::TaskKilled { task, kill } => write!(f, "Task killed: {task} ({})", kill.name()),
            Change::Prioritized { high, medium, low } => {
                write!(f, "Prioritized: {high} high, {medium} medium, {low} low")
            }
            Change::IssueAdded { issue } => write!(f, "Issue added: {issue}"),
            Change::IssuesDone { issues } => many(f, "Issue done", issues),
            Change::SpecSet { spec, cancelled } => {
                write!(f, "Spec set: {}", one_line(spec))?;
                cancelled.iter().try_for_each(|task| write!(f, "\nTask cancelled: {task}"))
            }
            Change::TasksCancelled { tasks } => many(f, "Task cancelled", tasks),
            Change::TombstonesCleared { count } => {
                write!(f, "Cleared {}", plural(*count, "tombstone", "tombstones"))
            }
        }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} - {}", self.id, one_line(&self.name))
    }
}

fn many(f: &mut fmt::Formatter<'_>, what: &str, items: &[Named]) -> fmt::Result {
    for (at, item) in items.iter().enumerate() {
        let between = if at > 0 { "\n" } else { "" };
        write!(f, "{between}{what}: {item}")?;
    }
    Ok(())
}

fn names(items: &[Named]) -> impl ExactSizeIterator<Item = &str> {
    items.iter().map(|item| item.name.as_str())
}

fn counted<'n>(
    what: &str,
    plural: &str,
    mut names: impl ExactSizeIterator<Item = &'n str>,
) -> String {
    match (names.len(), names.next()) {
        (1, Some(name)) => format!("{what} - {}", cut(name)),
        (count, _) => format!("{what} - {count} {plural}"),
    }
}

fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn one_line(text: &str) -> String {
    shown(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

/// Truncates a name to fit into a commit subject.
fn cut(name: &str) -> String {
    one_line(name).chars().take(NAME).collect::<String>().trim_end().to_owned()
}
