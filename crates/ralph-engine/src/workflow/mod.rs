//! Workflows: they ask a machine of `ralph_model` what is next, do it, and write down what came of it.
//!
//! What all of them need is here: [`desk`] runs agents with limits waited for and results kept, [`keeper`] commits home, [`repositories`] knows what there was
//! before a run and judges what there is after it. No workflow knows another.

pub mod desk;
pub mod keeper;
pub mod pipeline;
pub mod repositories;

use crate::files::PathError;
use crate::gates::GateError;
use crate::gates::receipt::ReceiptFault;
use crate::git::mirror::MirrorError;
use crate::git::{GitError, evidence::EvidenceError};
use crate::judge::JudgeError;
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
    #[error("`{path}`, {reason}")]
    StateFile { path: camino::Utf8PathBuf, reason: String },
}

impl From<EvidenceError> for WorkflowError {
    fn from(error: EvidenceError) -> WorkflowError {
        WorkflowError::Judge(JudgeError::Evidence(error))
    }
}
