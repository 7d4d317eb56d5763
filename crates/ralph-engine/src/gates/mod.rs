//! Gates: checks that the harness runs itself, in a checkout of its own, at exactly the commit that is judged.
//!
//! [`pin`] holds the gates still while an item is worked on, [`built_in`] runs the loop's own checks, [`workbench`] makes a checkout ready with the caches of [`kept_caches`], [`runner`] runs one
//! command in it, [`checks`] lays the anchor's checks over a candidate, [`assess`] runs what is wanted until every gate's result can be attributed, [`start`] tries
//! them before anything is paid for, [`verify`] does it again
//! from a receipt. What results mean is `ralph_model::gate`'s to say; nothing is concluded here.
//!
//! Invariant: nothing that the workspace's own files, index, refs or objects say takes part, but the objects that the
//! private mirror hashed when it took them in.

pub mod assess;
mod built_in;
mod check_users;
mod checks;
mod kept_caches;
pub mod pin;
pub mod receipt;
mod repository;
mod runner;
pub mod start;
mod tail;
pub mod verify;
mod workbench;

use std::io;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::journal::JournalEvent;
use ralph_proc::signal::SignalPipe;

use self::assess::Extent;
use crate::boundary::{CacheSet, InForce, prepare_set};
use crate::clock::Clock;
use crate::config::SandboxConfig;
use crate::files::PathError;
use crate::files::lock::LockError;
use crate::git::checkout::CheckoutError;
use crate::git::copied::{CopiedFiles, CopyList};
use crate::git::mirror::{Mirror, MirrorError};
use crate::git::{Git, GitError, GitProgram, Oid};
use crate::run::{Environment, RunResources};
use crate::state::State;

pub use built_in::BuiltInContext;
pub(crate) use built_in::{CandidateFiles, CommitTree};
pub use checks::ChecksRequest;
pub use repository::JudgedRepository;
pub(crate) use repository::WorkRepository;
pub(crate) use workbench::{SetupPlace, VerifierCheckout, run_setup};

/// What gates are run with: shared by all of one command.
#[derive(Clone, Copy)]
pub struct GateContext<'a> {
    pub state: &'a State,
    pub place: &'a RunResources,
    /// What this process was given, the base of what gates get.
    pub environment: &'a Environment,
    /// Names of the person's variables that gates get in addition to those that every run gets.
    pub pass: &'a [String],
    /// The person's checkout, no program of which gates find on their search path.
    pub workspace: &'a Utf8Path,
    pub boundary: InForce,
    /// What gates see of the person's home directory, and the sockets of those that do not ask for any.
    pub sandbox: &'a SandboxConfig,
    /// Writable paths of gates in addition to their own.
    pub writable: &'a [Utf8PathBuf],
    pub interrupt_grace: Duration,
    pub terminate_grace: Duration,
    /// How many bytes of a gate's output are kept.
    pub log: u64,
    pub clock: &'a dyn Clock,
    /// What the gates are run for; events name it.
    pub item: Option<&'a str>,
    /// What the person typed, for others who find a checkout in use.
    pub command: &'a str,
    pub signals: Option<&'a SignalPipe>,
    /// How many of the gates are run once one has rejected the candidate.
    pub extent: Extent,
    /// Ignored files of the workspace that come along into checkouts.
    pub copy: &'a CopyList,
    /// The number of the clone that the work was done in, for ports and names of databases.
    pub slot: Option<u32>,
    /// What built-in gates look at; `None` where there are none.
    pub built_in: Option<BuiltInContext<'a>>,
}

impl GateContext<'_> {
    /// Makes the toolchain caches ready that agents write; returns where they are.
    pub(crate) fn agents_caches(&self) -> Result<Utf8PathBuf, GateError> {
        let set = CacheSet::Agents.directory(self.state.directory());
        if self.boundary != InForce::Off {
            prepare_set(&set, &|name| self.environment.text(name)).map_err(GateError::Prepare)?;
        }
        Ok(set)
    }
}

/// One repository of the workspace, as gates see it.
#[derive(Clone, Debug)]
pub struct GateRepository {
    /// The repository that work is done in.
    pub git: Git,
    /// The person's own, which receipts are kept in; the same unless work is done in a clone.
    pub(crate) person: Git,
    pub mirror: Mirror,
    /// What belongs to it in private state.
    directory: Utf8PathBuf,
    /// The path of the workspace inside it; empty where it is the repository.
    prefix: Utf8PathBuf,
    /// Its path inside the workspace; empty unless it is one of several.
    below: Utf8PathBuf,
}

impl GateRepository {
    /// Opens a repository of the workspace and its mirror.
    pub fn open(
        program: &GitProgram,
        state: &State,
        repository: &Utf8Path,
        workspace: &Utf8Path,
    ) -> Result<GateRepository, GateError> {
        let git = Git::discover(program.clone(), repository)?;
        let directory = state.repository(&git.place().common_dir);
        let mirror = Mirror::open(program, &directory.join("mirror"), &git)?;
        let worktree = git.place().worktree.as_deref();
        let prefix = worktree.and_then(|tree| workspace.strip_prefix(tree).ok());
        let prefix = prefix.map(Utf8Path::to_owned).unwrap_or_default();
        let below = worktree.and_then(|tree| tree.strip_prefix(workspace).ok());
        let below = below.map(Utf8Path::to_owned).unwrap_or_default();
        Ok(GateRepository { person: git.clone(), git, mirror, directory, prefix, below })
    }

    /// Returns the same with a clone in the place of the person's repository: its mirror and checkouts are shared.
    pub(crate) fn at(&self, git: Git) -> GateRepository {
        GateRepository { git, ..self.clone() }
    }

    /// Returns the ignored files of the person's work tree that come along into checkouts.
    pub(crate) fn copied(&self, list: &CopyList) -> Result<CopiedFiles, GitError> {
        self.person.copied_files(&self.prefix, &list.below(&self.below))
    }

    /// Tells whether work is done in a clone.
    pub(crate) fn is_slot(&self) -> bool {
        self.person.place() != self.git.place()
    }

    /// Brings an accepted commit of a clone into the person's repository.
    pub(crate) fn bring(&self, commit: &Oid) -> Result<(), GitError> {
        if !self.is_slot() {
            return Ok(());
        }
        if self.person.have(std::slice::from_ref(commit))?[0] {
            return Ok(());
        }
        self.person.take_from(&self.mirror.git().place().git_dir, commit)
    }

    /// Returns a path of the repository as the workspace names it, if it is below the workspace.
    pub(crate) fn in_workspace(&self, path: &str) -> Option<String> {
        let inside = match self.prefix.as_str() {
            "" => path,
            prefix => path.strip_prefix(prefix)?.strip_prefix('/')?,
        };
        Some(match self.below.as_str() {
            "" => inside.to_owned(),
            below => format!("{below}/{inside}"),
        })
    }

    /// Returns a path of the repository relative to the workspace, if it is inside.
    fn seen_from_workspace<'p>(&self, path: &'p str) -> &'p str {
        let rest = path.strip_prefix(self.prefix.as_str());
        match rest {
            Some(rest) if !self.prefix.as_str().is_empty() => {
                rest.strip_prefix('/').unwrap_or(path)
            }
            _ => path,
        }
    }
}

/// Records what happens while gates run: `setup_started`, `gate_started`, `gate_finished`.
pub type Tell<'a> = &'a mut dyn FnMut(JournalEvent) -> Result<(), PathError>;

/// The harness could not do its part.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    #[error("interrupted")]
    Interrupted,
    #[error("what `ralph.toml` says has changed, and is not trusted yet")]
    Untrusted,
    #[error("`{commit}` is not a commit here")]
    NoSuchCommit { commit: String },
    #[error("the gates kept for `{item}` cannot be used: {reason}")]
    Pinned { item: String, reason: String },
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    #[error(transparent)]
    Checkout(#[from] CheckoutError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("cannot prepare a gate")]
    Prepare(#[source] io::Error),
}
