//! Workflows: each asks its state machine in `ralph_model` for the next step, performs it, and records the result.
//!
//! [`driver`] is the one loop; a workflow implements its trait. [`project`] is what a workflow works on,
//! [`home_committer`] commits home, [`repositories`] notes what there was before a run and examines what there is after
//! it, [`isolation`] keeps runs in clones of their own and lands what was accepted. No workflow knows another.

pub mod build;
pub mod driver;
mod equal_claims;
mod findings;
pub mod goal;
pub mod home_committer;
pub mod isolation;
mod merge_review;
pub mod overview;
pub mod pause;
pub mod phased;
pub mod pipeline;
pub mod project;
pub mod repeat;
pub(crate) mod repositories;
mod review;
mod spec_text;
mod start_gates;
pub mod stories;
pub(crate) mod written;

use ralph_model::build::IllegalTaskFact;
use ralph_model::goal::IllegalGoalFact;
use ralph_model::phase::IllegalLoopFact;
use ralph_model::pipeline::IllegalFact;
use ralph_model::run::{RunOutcome, Trouble};
use ralph_model::story::IllegalStoryFact;

use self::driver::{Stop, Turn};
use crate::config::approximate_size;
use crate::files::PathError;
use crate::gates::GateError;
use crate::gates::receipt::ReceiptFault;
use crate::gates::start::StartFinding;
use crate::git::commits::CommitError;
use crate::git::home_copy::HomeCopyError;
use crate::git::item_refs::ItemRefError;
use crate::git::landing::LandingError;
use crate::git::mirror::MirrorError;
use crate::git::slot::SlotError;
use crate::git::{GitError, evidence::EvidenceError};
use crate::home::in_persons_words;
use crate::judge::JudgeError;
use crate::plan_file::PlanFileError;
use crate::questions::AnswerError;
use crate::run::RunError;

/// A workflow cannot continue. An agent's behaviour is never such an error.
#[derive(Debug, thiserror::Error)]
pub enum WorkflowError {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    #[error(transparent)]
    Slot(#[from] SlotError),
    #[error(transparent)]
    HomeCopy(#[from] HomeCopyError),
    #[error(transparent)]
    InFlight(#[from] ItemRefError),
    #[error(transparent)]
    Landing(#[from] LandingError),
    /// A person changed a file that accepted work was to change as it lands: it is concluded again.
    #[error("a person changed home while the work was about to land")]
    Overtaken,
    /// The person's newer commits and landed work were not checked together yet: that comes first.
    #[error(
        "your newer commits on `{branch}` have to be checked together with landed work first: start again"
    )]
    Unchecked { branch: String },
    /// A merge could not be measured before it lands.
    #[error("the merge could not be measured: {0}")]
    Measure(Trouble),
    /// The person's branch has become something that nothing can land on.
    #[error("{0}")]
    Branch(String),
    #[error(transparent)]
    Judge(#[from] JudgeError),
    #[error(transparent)]
    Gate(#[from] GateError),
    #[error(transparent)]
    Receipt(#[from] ReceiptFault),
    #[error("cannot commit")]
    Commit(#[from] CommitError),
    #[error(transparent)]
    Plan(#[from] PlanFileError),
    #[error("`{path}`, {reason}")]
    StateFile { path: camino::Utf8PathBuf, reason: String },
    /// What happened does not fit the state on disk; nothing was written.
    #[error(transparent)]
    Spec(#[from] IllegalFact),
    /// A finished run of a spec whose files are not as they were when the run began, as on another branch.
    #[error(
        "a finished run of `{id}` fits no state of the spec here: continue on the branch on which it began, or start the spec over with `ralph pipeline --force {id}`"
    )]
    NotHere { id: String },
    #[error(transparent)]
    Task(#[from] IllegalTaskFact),
    #[error(transparent)]
    Goal(#[from] IllegalGoalFact),
    #[error(transparent)]
    Loop(#[from] IllegalLoopFact),
    /// A task of the loop cannot be taken back.
    #[error("{0}")]
    Rollback(String),
    #[error(transparent)]
    Story(#[from] IllegalStoryFact),
    /// There is not room enough for a clone.
    #[error(
        "a clone for the agents needs {}, and twice that must be free in `{directory}`, where only {} are",
        approximate_size(*.size),
        approximate_size(*.free)
    )]
    NoSpace { directory: camino::Utf8PathBuf, size: u64, needed: u64, free: u64 },
    /// A gate could judge nothing: no agent was run.
    #[error("{0}")]
    GateCannotRun(Box<StartFinding>),
    /// The person chose not to continue.
    #[error("nothing was done")]
    Declined,
    /// A person's answer cannot be taken; their question stays open.
    #[error(transparent)]
    Answer(Box<AnswerError>),
    /// The mailbox cannot be Ralph's.
    #[error("`{path}` belongs to another tool")]
    ForeignMailbox { path: camino::Utf8PathBuf },
}

impl From<EvidenceError> for WorkflowError {
    fn from(error: EvidenceError) -> WorkflowError {
        WorkflowError::Judge(JudgeError::Evidence(error))
    }
}

impl WorkflowError {
    /// Whether a repository that cannot be used may be the cause.
    pub(crate) const fn may_be_of_repository(&self) -> bool {
        match self {
            WorkflowError::Landing(LandingError::Contended { .. }) => false,
            WorkflowError::Mirror(_)
            | WorkflowError::Slot(_)
            | WorkflowError::HomeCopy(_)
            | WorkflowError::InFlight(_)
            | WorkflowError::Landing(_)
            | WorkflowError::Judge(JudgeError::Evidence(_) | JudgeError::Git(_))
            | WorkflowError::Plan(PlanFileError::Git(_) | PlanFileError::Commit(_))
            | WorkflowError::Commit(_)
            | WorkflowError::Git(_) => true,
            WorkflowError::Gate(gate) | WorkflowError::Judge(JudgeError::Gate(gate)) => {
                matches!(gate, GateError::Checkout(_) | GateError::Git(_) | GateError::Mirror(_))
            }
            _ => false,
        }
    }

    /// Returns it with its causes, and with what to do about a lock that is in the way.
    pub(crate) fn explained(&self) -> String {
        let text = with_causes(self);
        let lock = self.git_error().filter(|error| matches!(error, GitError::Locked { .. }));
        match lock.and_then(GitError::hint) {
            Some(advice) => format!("{text}; {advice}"),
            None => text,
        }
    }

    /// Returns what git said, if that is the cause.
    const fn git_error(&self) -> Option<&GitError> {
        match self {
            WorkflowError::Git(error)
            | WorkflowError::Mirror(MirrorError::Git(error))
            | WorkflowError::Slot(SlotError::Git(error))
            | WorkflowError::HomeCopy(HomeCopyError::Git(error))
            | WorkflowError::InFlight(ItemRefError::Git(error))
            | WorkflowError::Commit(CommitError::Git(error))
            | WorkflowError::Landing(
                LandingError::Git(error)
                | LandingError::Mirror(MirrorError::Git(error))
                | LandingError::Commit(CommitError::Git(error)),
            ) => Some(error),
            _ => None,
        }
    }

    /// Whether the person has to trust something first.
    pub fn is_untrusted(&self) -> bool {
        matches!(self, WorkflowError::Gate(GateError::Untrusted))
    }
}

/// Tells an interruption, and what got in the way of judging and may be gone the next time, from what stops the command.
pub(crate) fn interruption_or_trouble<E>(error: WorkflowError) -> Result<Turn<E>, WorkflowError> {
    match &error {
        WorkflowError::Gate(GateError::Interrupted)
        | WorkflowError::Judge(JudgeError::Gate(GateError::Interrupted)) => {
            Ok(Turn::Stop(Stop::Interrupted))
        }
        // Only the person can say that they trust it.
        WorkflowError::Gate(GateError::Untrusted)
        // A signature is asked of a person or their agent, once and not three times.
        | WorkflowError::Commit(CommitError::NotSigned(_))
        | WorkflowError::Run(_)
        | WorkflowError::Path(_)
        | WorkflowError::Branch(_)
        | WorkflowError::Receipt(_)
        | WorkflowError::Plan(_)
        | WorkflowError::Spec(_)
        | WorkflowError::Task(_)
        | WorkflowError::Goal(_)
        | WorkflowError::Loop(_)
        | WorkflowError::Rollback(_)
        | WorkflowError::Story(_)
        | WorkflowError::NoSpace { .. }
        | WorkflowError::GateCannotRun(_)
        | WorkflowError::Declined
        | WorkflowError::Answer(_)
        | WorkflowError::ForeignMailbox { .. }
        | WorkflowError::NotHere { .. }
        | WorkflowError::StateFile { .. } => Err(error),
        WorkflowError::Overtaken | WorkflowError::Unchecked { .. } => Ok(Turn::Again),
        WorkflowError::Measure(trouble) => Ok(Turn::Trouble(trouble.clone())),
        WorkflowError::Mirror(_)
        | WorkflowError::Slot(_)
        | WorkflowError::HomeCopy(_)
        | WorkflowError::InFlight(_)
        | WorkflowError::Landing(_)
        | WorkflowError::Judge(_)
        | WorkflowError::Gate(_)
        | WorkflowError::Commit(_)
        | WorkflowError::Git(_) => {
            Ok(Turn::Trouble(Trouble::Machine { message: error.explained() }))
        }
    }
}

/// Why a run whose clone had to be recreated has no consequences. Such a run counts as failed, otherwise an agent that
/// makes each of its clones unusable would run endlessly.
pub(crate) const CLONE_LOST: &str = "its repository could not be used any more and was recreated without the work that was not judged yet";

/// Returns why a run has no result that counts, if that is so.
pub(crate) fn unfinished(outcome: &RunOutcome) -> Option<String> {
    Some(match outcome {
        RunOutcome::TimedOut { idle: true, .. } => {
            "the run made no progress and was ended".to_owned()
        }
        RunOutcome::TimedOut { idle: false, .. } => {
            "the run took too long and was ended".to_owned()
        }
        RunOutcome::ContextFull => "the run's context was full".to_owned(),
        RunOutcome::Violation { paths } => {
            format!("the run changed what its role must not change: {}", paths.join(", "))
        }
        RunOutcome::Completed
        | RunOutcome::Interrupted
        | RunOutcome::Withdrawn
        | RunOutcome::Trouble { .. } => return None,
    })
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    in_persons_words(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::Holder;

    #[test]
    fn a_lock_that_is_in_the_way_is_explained_wherever_git_met_it() {
        let locked = || GitError::Locked {
            path: "/r/.git/refs/heads/main.lock".into(),
            holder: Holder::Dead,
        };
        for error in [
            WorkflowError::Git(locked()),
            WorkflowError::Commit(CommitError::Git(locked())),
            WorkflowError::Landing(LandingError::Git(locked())),
            WorkflowError::Landing(LandingError::Commit(CommitError::Git(locked()))),
            WorkflowError::HomeCopy(HomeCopyError::Git(locked())),
        ] {
            let Ok(Turn::<()>::Trouble(Trouble::Machine { message })) =
                interruption_or_trouble(error)
            else {
                panic!("it is no trouble");
            };
            assert!(message.ends_with("left it: rm '/r/.git/refs/heads/main.lock'"), "{message}");
            assert_eq!(message.matches("is locked").count(), 1, "{message}");
        }
    }
}
