//! Private state and journal, opened together.

use camino::Utf8Path;
use ralph_model::journal::{
    JournalEntry, JournalEvent, JournalLineError, Overview, StateRebuilt, parse_line,
};

use super::SessionError;
use crate::clock::Clock;
use crate::config::Config;
use crate::files::PathError;
use crate::git::{Git, GitProgram};
use crate::home::{Home, Workspace};
use crate::journal::{Journal, JournalMirror, ReadJournalError, for_each_line};
use crate::run::Environment;
use crate::state::{State, StateError, StateRequest, state_base};

/// Private state, ready to be written.
pub struct OpenState {
    pub state: State,
    pub journal: Journal,
    /// Set where the state was lost and made anew.
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
    /// Returns what the person can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            OpenStateError::State(StateError::NoPlace) => {
                Some("set HOME or XDG_STATE_HOME".to_owned())
            }
            OpenStateError::Journal(_) => {
                Some("move the file away to start with an empty journal".to_owned())
            }
            _ => None,
        }
    }
}

impl OpenState {
    /// Opens a workspace's private state, making it if it is not there. The journal is mirrored in home.
    pub fn open(
        workspace: &Workspace,
        home: &Home,
        config: &Config,
        environment: &Environment,
        clock: &dyn Clock,
    ) -> Result<OpenState, OpenStateError> {
        let mirror = home.exists.then(|| JournalMirror {
            path: home.path.join("ralph.log"),
            format: config.log_format,
        });
        Self::open_mirrored(workspace, home, environment, clock, mirror)
    }

    /// Opens it without a mirror, for a command that leaves nothing in home but what it is about.
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
        let git = || GitProgram::new("git", environment.clone().into_variables());
        let (state, fresh) = State::open(&StateRequest {
            base: &base,
            workspace,
            home,
            now: clock.now(),
            root_commit: &|root| root_commit(git(), root),
        })?;
        let mut journal = Journal::open(&state.journal())?.mirrored(mirror);
        let mut rebuilt = None;
        if fresh.is_some_and(|fresh| fresh.home_has_history) {
            let reason = "private state was not there; rebuilt from the committed files";
            let event = JournalEvent::StateRebuilt(StateRebuilt { reason: reason.to_owned() });
            journal.record(&JournalEntry { at: clock.now(), run: None, event })?;
            rebuilt = Some(reason);
        }
        Ok(OpenState { state, journal, rebuilt })
    }

    /// Refuses state that an agent which may write the workspace could rewrite.
    pub fn refuse_in_workspace(&self, workspace: &Workspace) -> Result<(), SessionError> {
        let state = self.state.directory();
        if !state.starts_with(&workspace.root) {
            return Ok(());
        }
        let (state, workspace) = (state.to_owned(), workspace.root.clone());
        Err(SessionError::StateInWorkspace { state, workspace })
    }

    /// Folds the journal of a workspace for a report, which makes no file: without state there is nothing to tell.
    pub fn find_overview(
        workspace: &Workspace,
        environment: &Environment,
    ) -> Result<Overview, OpenStateError> {
        let base = state_base(&|name| environment.text(name))?;
        State::find(&base, workspace)?
            .map_or_else(|| Ok(Overview::default()), |state| overview(&state))
    }

    /// Folds the whole journal.
    pub fn overview(&self) -> Result<Overview, OpenStateError> {
        overview(&self.state)
    }
}

/// Folds the whole journal of a workspace.
pub(super) fn overview(state: &State) -> Result<Overview, OpenStateError> {
    let mut overview = Overview::default();
    for_each_line(&state.journal(), |line| {
        parse_line(line.as_bytes()).map(|entry| overview.apply(&entry))
    })?;
    Ok(overview)
}

/// Asks git where history began, which tells two repositories at one path apart.
fn root_commit(program: GitProgram, root: &Utf8Path) -> Option<String> {
    let roots = Git::discover(program, root).and_then(|git| git.root_commits()).ok()?;
    // Histories that were joined have several beginnings; the smallest is the same on every clone.
    roots.iter().map(ToString::to_string).min()
}
