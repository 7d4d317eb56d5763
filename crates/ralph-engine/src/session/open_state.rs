//! Private state and journal, opened together.

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use ralph_model::board::Board;
use ralph_model::journal::{JournalLineError, LimitWaitEnded, StateRebuilt};
use ralph_model::policy::limit::LimitHolder;
use ralph_model::role::Role;

use super::SessionError;
use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::files::PathError;
use crate::git::{Git, GitProgram};
use crate::home::{Home, Workspace};
use crate::init::ignores::hide_logs;
use crate::journal::{Journal, JournalMirror, ReadJournalError, load_board};
use crate::questions::Questions;
use crate::run::Environment;
use crate::state::{State, StateError, StateRequest, state_base};

/// Private state, ready for writing.
pub struct OpenState {
    pub state: State,
    pub journal: Journal,
    /// Set if the state was lost and recreated.
    pub rebuilt: Option<&'static str>,
}

/// Private state cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenStateError {
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    Journal(#[from] ReadJournalError<JournalLineError>),
}

impl OpenStateError {
    /// Returns advice for the person.
    pub fn hint(&self) -> Option<String> {
        match self {
            OpenStateError::State(StateError::NoPlace) => {
                Some("set HOME or XDG_STATE_HOME".to_owned())
            }
            OpenStateError::Journal(_) => {
                Some(
                    "the next workflow sets it aside and continues with the lines that can be read; move a journal of a newer Ralph away"
                        .to_owned(),
                )
            }
            _ => None,
        }
    }
}

impl OpenState {
    /// Opens a workspace's private state, creating it if needed. The journal is mirrored in home.
    pub fn open(
        workspace: &Workspace,
        home: &Home,
        config: &Config,
        environment: &Environment,
        clock: &dyn Clock,
    ) -> Result<OpenState, OpenStateError> {
        if home.exists {
            hide_logs(&home.path)?;
        }
        let mirror = home.exists.then(|| JournalMirror {
            path: home.path.join("ralph.log"),
            format: config.log_format,
        });
        Self::open_mirrored(workspace, home, environment, clock, mirror)
    }

    /// Opens it without a mirror, for a command that writes nothing else to home.
    pub fn open_bare(
        workspace: &Workspace,
        home: &Home,
        environment: &Environment,
        clock: &dyn Clock,
    ) -> Result<OpenState, OpenStateError> {
        Self::open_mirrored(workspace, home, environment, clock, None)
    }

    fn open_mirrored(
        workspace: &Workspace,
        home: &Home,
        environment: &Environment,
        clock: &dyn Clock,
        mirror: Option<JournalMirror>,
    ) -> Result<OpenState, OpenStateError> {
        let base = state_base(&|name| environment.text(name))?;
        let git = || environment.git();
        let (state, fresh) = State::open(&StateRequest {
            base: &base,
            workspace,
            home,
            now: clock.now(),
            root_commit: &|root| root_commit(git(), root),
        })?;
        if mirror.is_some() {
            state.mend_shapes()?;
        }
        let mut journal = Journal::open(&state.journal())?.mirrored(mirror);
        let mut rebuilt = None;
        if fresh.is_some_and(|fresh| fresh.home_has_history) {
            let reason = "private state was missing; rebuilt from the committed files";
            journal.record(clock.now(), None, StateRebuilt { reason: reason.to_owned() })?;
            rebuilt = Some(reason);
        }
        Ok(OpenState { state, journal, rebuilt })
    }

    /// Refuses state that an agent could modify, with write access to the workspace or to what the person granted.
    pub fn refuse_in_reach(
        &self,
        workspace: &Workspace,
        config: &Config,
    ) -> Result<(), SessionError> {
        let state = self.state.directory();
        if state.starts_with(&workspace.root) {
            let (state, workspace) = (state.to_owned(), workspace.root.clone());
            return Err(SessionError::StateInWorkspace { state, workspace });
        }
        // That of other workspaces is next to it.
        let base = state.parent().unwrap_or(state);
        let holds = |granted: &Utf8PathBuf| {
            let real = granted.canonicalize_utf8().unwrap_or_else(|_| granted.clone());
            base.starts_with(&real) || real.starts_with(base)
        };
        let of_agents = Role::ALL.into_iter().flat_map(|role| config.agent_for(role).state);
        match config.writable.iter().cloned().chain(of_agents).find(holds) {
            Some(granted) => Err(SessionError::StateGranted { state: state.to_owned(), granted }),
            None => Ok(()),
        }
    }

    /// Forgets usage limits, of one agent or of all: those that stand, and how often in a row one was waited for, which makes
    /// the next wait longer. Returns whose they were.
    pub fn clear_limits(
        &mut self,
        agent: Option<&str>,
        now: Timestamp,
    ) -> Result<Vec<LimitHolder>, OpenStateError> {
        self.journal.fold()?;
        let limited = self.journal.board().limited();
        let of_agent = limited.filter(|holder| agent.is_none_or(|agent| holder.agent == agent));
        let holders: Vec<LimitHolder> = of_agent.cloned().collect();
        for holder in &holders {
            clear_limit(&mut self.journal, holder, now)?;
        }
        Ok(holders)
    }

    /// Folds the journal, and returns the unanswered questions.
    pub fn questions(&mut self) -> Result<Questions<'_>, OpenStateError> {
        self.journal.fold()?;
        Ok(Questions { journal: &mut self.journal, clock: &SystemClock })
    }

    /// Folds the journal of a workspace for a report, without creating state: without it there is nothing to report.
    pub fn find_board(
        workspace: &Workspace,
        environment: &Environment,
    ) -> Result<Board, OpenStateError> {
        let base = state_base(&|name| environment.text(name))?;
        match State::find(&base, workspace)? {
            Some(state) => {
                // Before and after the journal is read: a run may begin or end in between.
                let mut under_way = state.under_way()?;
                let mut board = load_board(&state.journal())?;
                under_way.extend(state.under_way()?);
                board.abandon_all_but(|run| under_way.iter().any(|id| id == run.as_str()));
                Ok(board)
            }
            None => Ok(Board::default()),
        }
    }
}

/// Forgets a usage limit, if there is one.
pub(super) fn clear_limit(
    journal: &mut Journal,
    holder: &LimitHolder,
    now: Timestamp,
) -> Result<(), PathError> {
    if !journal.board().limited().any(|limited| limited == holder) {
        return Ok(());
    }
    let LimitHolder { agent, account } = holder.clone();
    let ended = LimitWaitEnded { agent, account, interrupted: false, cleared: true };
    journal.record(now, None, ended)
}

/// Returns the root commit from git, which distinguishes two repositories at one path.
fn root_commit(program: GitProgram, root: &Utf8Path) -> Option<String> {
    let roots = Git::discover(program, root).and_then(|git| git.root_commits()).ok()?;
    // Joined histories have several root commits; the smallest is the same in every clone.
    roots.iter().map(ToString::to_string).min()
}
