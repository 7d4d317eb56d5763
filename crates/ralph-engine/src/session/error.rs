//! Why a session cannot be opened, with advice.

use std::io;

use camino::Utf8PathBuf;

use super::OpenStateError;
use crate::boundary::NotEnforceable;
use crate::files::PathError;
use crate::files::lock::LockError;
use crate::home::WorkspaceError;
use crate::launch::LaunchError;
use crate::prompts::PromptProblem;
use crate::workflow::WorkflowError;

/// A session cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("this repository's `ralph.toml` and prompt templates are not trusted")]
    Untrusted,
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    Boundary(#[from] NotEnforceable),
    #[error(transparent)]
    State(#[from] OpenStateError),
    #[error(
        "private state `{state}` lies inside the workspace `{workspace}`, where agents can write"
    )]
    StateInWorkspace { state: Utf8PathBuf, workspace: Utf8PathBuf },
    #[error("agents may write `{granted}`, and private state is in `{state}`")]
    StateGranted { state: Utf8PathBuf, granted: Utf8PathBuf },
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("{}", list(.0))]
    Templates(Vec<PromptProblem>),
    #[error(transparent)]
    Rules(PromptProblem),
    /// Git tracks files of a home that the person wants to keep out of it.
    #[error("`git.commit_home` is false, but git tracks files of `{home}`")]
    HomeTracked { home: Utf8PathBuf },
    #[error(transparent)]
    Repositories(Box<WorkflowError>),
    #[error("cannot handle signals")]
    Signals(#[source] io::Error),
    #[error("cannot sandbox Ralph itself")]
    OwnBounds(#[source] io::Error),
    #[error("cannot generate an id")]
    NoId(#[source] io::Error),
    #[error("cannot find the running program")]
    Program(#[source] io::Error),
    #[error("the path of `ralph` is not UTF-8")]
    ProgramName,
    #[error(transparent)]
    Path(#[from] PathError),
}

fn list(problems: &[PromptProblem]) -> String {
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    problems.join("\n")
}

impl SessionError {
    /// Whether the person has to change something before it can work.
    pub fn is_usage(&self) -> bool {
        match self {
            SessionError::Untrusted
            | SessionError::Workspace(_)
            | SessionError::Launch(_)
            | SessionError::Boundary(_)
            | SessionError::State(_)
            | SessionError::StateInWorkspace { .. }
            | SessionError::StateGranted { .. }
            | SessionError::Lock(LockError::RunHeld { .. })
            | SessionError::Templates(_)
            | SessionError::Rules(_)
            | SessionError::HomeTracked { .. }
            | SessionError::ProgramName => true,
            SessionError::Lock(_)
            | SessionError::Repositories(_)
            | SessionError::Signals(_)
            | SessionError::NoId(_)
            | SessionError::Program(_)
            | SessionError::OwnBounds(_)
            | SessionError::Path(_) => false,
        }
    }

    /// Returns advice for the person.
    pub fn hint(&self) -> Option<String> {
        match self {
            SessionError::Untrusted => {
                Some("`ralph trust` shows what would take effect, and asks".to_owned())
            }
            SessionError::Workspace(error) => error.hint(),
            SessionError::Launch(error) => Some(error.hint()),
            SessionError::Boundary(_) => Some(
                "`boundary = \"auto\"` runs with detection where the kernel cannot enforce"
                    .to_owned(),
            ),
            SessionError::State(error) => error.hint(),
            SessionError::StateInWorkspace { .. } => Some(
                "name a narrower workspace with --root, or set XDG_STATE_HOME to a place outside it"
                    .to_owned(),
            ),
            SessionError::StateGranted { .. } => {
                Some("grant a narrower path: whoever writes there decides what is done".to_owned())
            }
            SessionError::Lock(LockError::RunHeld { .. }) => {
                Some("wait for it to finish, or stop it".to_owned())
            }
            SessionError::HomeTracked { home } => Some(format!(
                "`git rm -r -q --cached {home}` and a commit untrack them, and leave the files where they are"
            )),
            SessionError::Templates(_) => {
                Some("move a template away to use the built-in one".to_owned())
            }
            _ => None,
        }
    }
}
