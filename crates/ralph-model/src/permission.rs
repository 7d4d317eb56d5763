//! The changes to tasks and issues that each role may request while it runs.
//!
//! No agent accepts its own work: no role can both claim a task done and accept one, and a run has one role. A person's
//! own commands are not checked here: outside a run, a change is the person's decision. Whether a change is possible at
//! all (an unknown id, a cycle) is up to the plan.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::RunId;
use crate::role::Role;

/// A change to the plan that can be requested through a run's channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mutation {
    TaskAdd,
    TaskDone,
    TaskAccept,
    TaskReject,
    TaskDelete,
    TaskPrioritize,
    IssueAdd,
    IssueDone,
    IssueDoneAll,
    SetSpec,
}

impl Mutation {
    pub const ALL: [Mutation; 10] = [
        Mutation::TaskAdd,
        Mutation::TaskDone,
        Mutation::TaskAccept,
        Mutation::TaskReject,
        Mutation::TaskDelete,
        Mutation::TaskPrioritize,
        Mutation::IssueAdd,
        Mutation::IssueDone,
        Mutation::IssueDoneAll,
        Mutation::SetSpec,
    ];

    /// The command that requests it.
    pub const fn command(self) -> &'static str {
        match self {
            Mutation::TaskAdd => "ralph task add",
            Mutation::TaskDone => "ralph task done",
            Mutation::TaskAccept => "ralph task accept",
            Mutation::TaskReject => "ralph task reject",
            Mutation::TaskDelete => "ralph task delete",
            Mutation::TaskPrioritize => "ralph task prioritize",
            Mutation::IssueAdd => "ralph issue add",
            Mutation::IssueDone => "ralph issue done",
            Mutation::IssueDoneAll => "ralph issue done-all",
            Mutation::SetSpec => "ralph set-spec",
        }
    }
}

/// What a role may apply a mutation to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Any task or issue, or a new one.
    Any,
    /// Only the items given to the run.
    Given,
}

impl Role {
    /// Returns what this role may apply `mutation` to, if it may request it at all.
    pub const fn reach(self, mutation: Mutation) -> Option<Reach> {
        match (self, mutation) {
            (Role::Builder, Mutation::IssueAdd)
            | (
                Role::Verifier,
                Mutation::TaskAccept
                | Mutation::TaskReject
                | Mutation::TaskAdd
                | Mutation::IssueAdd,
            )
            | (Role::Planner | Role::Investigator | Role::Decomposer, Mutation::TaskAdd) => {
                Some(Reach::Any)
            }
            (Role::Builder, Mutation::TaskDone)
            | (Role::Investigator, Mutation::IssueDone | Mutation::IssueDoneAll)
            | (Role::Decomposer, Mutation::TaskDelete) => Some(Reach::Given),
            _ => None,
        }
    }
}

/// The requesting run.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    pub run: &'a RunId,
    pub role: Role,
    /// The ids of the tasks and issues given to the run.
    pub given: &'a [String],
}

/// One existing task or issue that a mutation affects.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub id: &'a str,
}

/// Checks whether `asker` may apply `mutation` to `target`.
///
/// There is no target for new items, nor for commands that apply to everything given (`ralph issue done-all`): the
/// store applies those to the items given to the run, and checks once per task if several are accepted at once.
pub fn check(
    asker: Asker<'_>,
    mutation: Mutation,
    target: Option<Target<'_>>,
) -> Result<(), Refusal> {
    let role = asker.role;
    let Some(reach) = role.reach(mutation) else {
        return Err(Refusal::NotThisRole { role, mutation });
    };
    let Some(target) = target else { return Ok(()) };
    let id = || target.id.to_owned();
    if reach == Reach::Given && asker.given.iter().all(|given| given != target.id) {
        let given = asker.given.to_vec();
        return Err(Refusal::NotGiven { role, mutation, id: id(), given });
    }
    Ok(())
}

/// Why a mutation is refused, as one sentence that an agent can act on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Refusal {
    NotThisRole { role: Role, mutation: Mutation },
    NotGiven { role: Role, mutation: Mutation, id: String, given: Vec<String> },
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotThisRole { role, mutation } => {
                write!(
                    f,
                    "`{}` is refused to a run as {role}: {}.",
                    mutation.command(),
                    instead(*role)
                )
            }
            Refusal::NotGiven { role, mutation, id, given } => {
                let command = mutation.command();
                write!(f, "`{command} {id}` is refused: this run as {role} was not given `{id}`")?;
                match given.as_slice() {
                    [] => f.write_str(": leave it to a run that is."),
                    given => write!(f, ": name one of `{}` instead.", given.join("`, `")),
                }
            }
        }
    }
}

/// What a role can do instead of a forbidden change.
fn instead(role: Role) -> String {
    let allowed: Vec<_> = Mutation::ALL
        .into_iter()
        .filter(|mutation| role.reach(*mutation).is_some())
        .map(|mutation| format!("`{}`", mutation.command()))
        .collect();
    match (role, allowed.as_slice()) {
        (Role::Implementer, []) => {
            "commit the work and end with the last lines that the prompt asks for".to_owned()
        }
        (_, []) => "write your result to the files in `$RALPH_OUT`".to_owned(),
        (_, [only]) => format!("it may use {only}"),
        (_, [most @ .., last]) => format!("it may use {} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a`: any; `g`: only given items; `.`: refused. One column for each mutation, in the order of `Mutation::ALL`.
    const TABLE: [(Role, &str); 8] = [
        (Role::Planner, "a........."),
        (Role::Interviewer, ".........."),
        (Role::Mapper, ".........."),
        (Role::Investigator, "a......gg."),
        (Role::Decomposer, "a...g....."),
        (Role::Verifier, "a.aa..a..."),
        (Role::Implementer, ".........."),
        (Role::Builder, ".g....a..."),
    ];

    #[test]
    fn every_role_and_mutation_is_decided_as_the_table_says() {
        let me = "20261115-203000Z-00000001".parse().unwrap();
        let given = ["mine".to_owned()];
        assert_eq!(TABLE.map(|(role, _)| role), Role::ALL);
        for (role, row) in TABLE {
            let asker = Asker { run: &me, role, given: &given };
            for (mutation, cell) in Mutation::ALL.into_iter().zip(row.chars()) {
                let mine = Some(Target { id: "mine" });
                let foreign = Some(Target { id: "foreign" });
                let allowed = |target| check(asker, mutation, target).is_ok();
                let got = (allowed(mine), allowed(foreign), allowed(None));
                let expected = match cell {
                    'a' => (true, true, true),
                    'g' => (true, false, true),
                    _ => (false, false, false),
                };
                assert_eq!(got, expected, "{role} {mutation:?}");
            }
        }
    }

    #[test]
    fn no_role_can_accept_what_it_can_claim_done() {
        for role in Role::ALL {
            let may = |mutation| role.reach(mutation).is_some();
            assert!(!(may(Mutation::TaskDone) && may(Mutation::TaskAccept)), "{role}");
        }
    }

    #[test]
    fn every_refusal_is_one_sentence_that_names_the_command_and_a_way_on() {
        for role in Role::ALL {
            for mutation in Mutation::ALL {
                let sentence = Refusal::NotThisRole { role, mutation }.to_string();
                assert!(sentence.contains(mutation.command()), "{sentence}");
                assert!(sentence.ends_with('.') && !sentence.contains('\n'), "{sentence}");
            }
        }
        assert_eq!(
            Refusal::NotThisRole { role: Role::Builder, mutation: Mutation::TaskAccept }
                .to_string(),
            "`ralph task accept` is refused to a run as builder: it may use `ralph task done` and `ralph issue add`."
        );
        assert_eq!(
            Refusal::NotGiven {
                role: Role::Builder,
                mutation: Mutation::TaskDone,
                id: "t-2".to_owned(),
                given: vec!["t-1".to_owned()],
            }
            .to_string(),
            "`ralph task done t-2` is refused: this run as builder was not given `t-2`: name one of `t-1` instead."
        );
    }
}
