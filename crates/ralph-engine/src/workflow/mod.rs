//! Workflows: they ask a machine of `ralph_model` what is next, do it, and write down what came of it.
//!
//! What all of them need is here: [`desk`] runs agents with limits waited for and results kept, [`keeper`] commits home, [`repositories`] knows what there was
//! before a run and judges what there is after it. No workflow knows another.

pub mod build;
pub mod desk;
pub mod keeper;
pub mod pipeline;
pub mod repositories;

use ralph_model::run::Trouble;

use crate::files::PathError;
use crate::gates::GateError;
use crate::gates::receipt::ReceiptFault;
use crate::git::commits::CommitError;
use crate::git::mirror::MirrorError;
use crate::git::{GitError, evidence::EvidenceError};
use crate::judge::JudgeError;
use crate::plan_file::PlanFileError;
use crate::run::RunError;

/// A workflow cannot go on. What an agent did is never such an error.
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
}

impl From<EvidenceError> for WorkflowError {
    fn from(error: EvidenceError) -> WorkflowError {
        WorkflowError::Judge(JudgeError::Evidence(error))
    }
}

/// What got in the way of a step, beside what an agent did.
pub(crate) enum Hindrance {
    Interrupted,
    Trouble(Trouble),
}

/// Tells what got in the way of judging, and may be gone the next time, from what stops the command.
pub(crate) fn hindrance(error: &WorkflowError) -> Option<Hindrance> {
    match error {
        WorkflowError::Gate(GateError::Interrupted)
        | WorkflowError::Judge(JudgeError::Gate(GateError::Interrupted)) => {
            Some(Hindrance::Interrupted)
        }
        // Who signs is a person or their agent, to be asked once and not three times.
        WorkflowError::Commit(CommitError::NotSigned(_))
        | WorkflowError::Run(_)
        | WorkflowError::Path(_)
        | WorkflowError::Receipt(_)
        | WorkflowError::Plan(_)
        | WorkflowError::StateFile { .. } => None,
        WorkflowError::Mirror(_)
        | WorkflowError::Judge(_)
        | WorkflowError::Gate(_)
        | WorkflowError::Commit(_)
        | WorkflowError::Git(_) => {
            Some(Hindrance::Trouble(Trouble::Machine { message: with_causes(error) }))
        }
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
