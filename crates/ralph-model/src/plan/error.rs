//! Why a change to the plan is refused, in messages that the caller can act on.

use super::flaw::{Problem, ProblemKind};
use super::ids::InvalidTaskId;
use super::task_fields::Status;

/// A refused change; the plan is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("the plan cannot be changed until this is fixed: {}", lines(problems))]
    Unreadable { problems: Vec<Problem> },
    #[error("agents cannot work on the plan until this is fixed: {}", lines(problems))]
    Unworkable { problems: Vec<Problem> },
    #[error("no spec is set; `ralph set-spec <file>` or `ralph plan <spec>` sets one")]
    NoSpec,
    #[error("task `{id}` is not in the plan")]
    UnknownTask { id: String },
    #[error("issue `{id}` is not in the plan")]
    UnknownIssue { id: String },
    #[error("`{id}` is on line {first} and on line {second}; give one of them another id")]
    Ambiguous { id: String, first: usize, second: usize },
    #[error("no task is pending")]
    NothingPending,
    #[error("no task is done, so there is nothing to accept or reject")]
    NothingDone,
    #[error("the plan has no issues")]
    NoIssue,
    #[error("task `{id}` is {status} already")]
    NotPending { id: String, status: Status },
    #[error("task `{id}` is {status}, and only a task that is done is accepted or rejected")]
    NotDone { id: String, status: Status },
    #[error(
        "the next task `{id}` was killed and waits to be decomposed; name it to mark it done anyway"
    )]
    WaitsForDecomposition { id: String },
    #[error("a rejection needs a reason")]
    NoReason,
    #[error("an issue needs a description")]
    NoDescription,
    #[error(
        "the issue cannot be added because of its `{field}`: an issue is text, or a JSON object with `desc` and optionally `priority` (`high`, `medium` or `low`)"
    )]
    BadIssue { field: String },
    #[error("`{spec}` cannot be the name of a spec")]
    BadSpec { spec: String },
    #[error(
        "the plan has unfinished tasks of another spec: {}; finish them, or cancel them with `--yes`",
        list(tasks)
    )]
    Unfinished { tasks: Vec<String> },
    #[error("task {at} cannot be added: {why}")]
    Wish { at: usize, why: WishError },
    #[error("no task to add")]
    NoTask,
    #[error(
        "it looks like JSON but cannot be parsed: {0}; send a name that begins like this as `{{\"name\": \"…\"}}`"
    )]
    BadJson(String),
    #[error("the dependencies would form a cycle: {}", cycle.join(" → "))]
    Cycle { cycle: Vec<String> },
}

/// The problem with one task to add.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WishError {
    #[error("it is not a JSON object")]
    NotAnObject,
    #[error("it has no `name`")]
    NoName,
    #[error("its `{field}` is not {wanted}")]
    WrongType { field: String, wanted: &'static str },
    #[error("it has an unknown field `{field}`; a new task has {}", known.join(", "))]
    UnknownField { field: String, known: &'static [&'static str] },
    #[error("it is for spec `{found}`, and the current one is `{current}`")]
    OtherSpec { found: String, current: String },
    #[error(transparent)]
    BadId(#[from] InvalidTaskId),
    #[error("the id `{id}` is or was in use; leave `id` out to get a new one")]
    IdTaken { id: String },
    #[error("it depends on `{id}`, which was never in this plan")]
    UnknownDependency { id: String },
    #[error(
        "it names `{id}` in `{field}`, which is an issue; what an issue led to names it in `created_from`"
    )]
    IssueForTask { field: &'static str, id: String },
    #[error("its `{field}` is `{id}`, which was never in this plan")]
    UnknownRelation { field: &'static str, id: String },
    #[error(
        "it supersedes `{id}`, which was not rejected; run `ralph task reject {id} \"reason\"` first"
    )]
    NotRejected { id: String },
    #[error("it depends on `{id}`, which it supersedes")]
    DependsOnSuperseded { id: String },
}

/// Groups lines by kind of problem, so that each fix is described once.
fn lines(problems: &[Problem]) -> String {
    const SHOWN: usize = 5;
    let mut kinds: Vec<(&ProblemKind, Vec<String>)> = Vec::new();
    for Problem { line, kind } in problems.iter().take(SHOWN) {
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, lines)) => lines.push(line.to_string()),
            None => kinds.push((kind, vec![line.to_string()])),
        }
    }
    let named = |(kind, lines): (&ProblemKind, Vec<String>)| {
        let line = if lines.len() == 1 { "line" } else { "lines" };
        format!("{line} {}: {kind} ({})", lines.join(", "), kind.mend())
    };
    let mut text: Vec<_> = kinds.into_iter().map(named).collect();
    if problems.len() > SHOWN {
        text.push(format!("and {} more", problems.len() - SHOWN));
    }
    text.join("; ")
}

fn list(tasks: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<_> = tasks.iter().take(SHOWN).map(|id| format!("`{id}`")).collect();
    match tasks.len().checked_sub(SHOWN) {
        None | Some(0) => shown.join(", "),
        Some(more) => format!("{} and {more} more", shown.join(", ")),
    }
}
