//! What a workflow works on beside its agents: the repositories, the prompts and rules that people wrote, and home.

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::journal::Note;
use ralph_model::prompt::{Prompts, RulesSource, SpecSource, Surroundings};
use ralph_model::role::Role;

use super::home_committer::HomeCommitter;
use super::repositories::{BEFORE, Repositories};
use super::spec_text::SpecText;
use super::{WorkflowError, with_causes};
use crate::files::PathError;
use crate::files::note::{clear_note, read_note, write_note};
use crate::prompts::{self, Rules};
use crate::run::RESULTS;
use crate::session::{Opening, Session, SessionContext, SessionError, SessionRequest};

/// The project that a workflow works on.
pub struct Project {
    pub(crate) repositories: Repositories,
    pub(crate) prompts: Prompts,
    pub(crate) committer: HomeCommitter,
    rules: Option<Rules>,
}

/// A session of a workflow, with its project.
pub struct Opened<'a> {
    pub session: Session<'a>,
    pub project: Project,
    pub opening: Opening,
}

impl Project {
    /// Opens a session and everything that a workflow needs in it.
    pub fn open(request: SessionRequest<'_>) -> Result<Opened<'_>, SessionError> {
        request.workspace.require_repository()?;
        let prompts = prompts::load(&request.home.path).map_err(SessionError::Templates)?;
        let rules = prompts::read_rules(&request.workspace.root).map_err(SessionError::Rules)?;
        let (session, opening) = Session::open(request)?;
        let SessionContext { state, workspace, home, config, .. } = &session.context;
        let git = session.context.git();
        let repositories = Repositories::open(&git, state, &workspace.root, &home.path)
            .map_err(|error| SessionError::Repositories(Box::new(error)))?;
        let committer = HomeCommitter::open(&git, &home.path, &config.git);
        let project = Project::of(repositories, prompts, committer, rules);
        Ok(Opened { session, project, opening })
    }

    /// Puts a project together.
    pub(crate) fn of(
        repositories: Repositories,
        prompts: Prompts,
        committer: HomeCommitter,
        rules: Option<Rules>,
    ) -> Project {
        Project { repositories, prompts, committer, rules }
    }

    /// Returns what is changed and uncommitted outside home and is a person's own: no run left it.
    pub fn dirt(&self, context: &SessionContext) -> Result<Vec<String>, WorkflowError> {
        self.repositories.dirt(&BEFORE.all(&context.state)?)
    }

    /// Returns what every prompt has.
    pub(crate) fn surroundings<'p>(
        &'p self,
        context: &'p SessionContext,
        spec: &'p SpecText,
        feedback: Option<&'p str>,
    ) -> Surroundings<'p> {
        Surroundings {
            workspace: context.workspace.root.as_str(),
            home: context.home.path.as_str(),
            spec: SpecSource {
                id: &spec.id,
                path: spec.path.as_str(),
                file: &spec.file,
                text: &spec.text,
            },
            rules: self.rules(),
            feedback,
        }
    }

    fn rules(&self) -> Option<RulesSource<'_>> {
        self.rules.as_ref().map(Rules::source)
    }

    /// Returns to the branches that the last run of a role began on, if its Ralph died before it could.
    ///
    /// Commits on a head that was detached are found by that head alone: it stays until the run's result is concluded.
    pub(crate) fn is_where_work_began(
        &self,
        session: &mut Session<'_>,
        role: Role,
    ) -> Result<bool, WorkflowError> {
        let item = session.journal.board().last_item(role).map(str::to_owned);
        let Some(item) = item else { return Ok(true) };
        let state = &session.context.state;
        let Some(before) = BEFORE.load(state, &item)? else { return Ok(true) };
        let is_pending = RESULTS.load(state, &item)?.is_some();
        if is_pending && self.repositories.is_detached_since(&before)? {
            return Ok(false);
        }
        self.return_to_branches(session, &item)?;
        Ok(true)
    }

    /// Returns to the branches that an item's last run began on.
    pub(crate) fn return_to_branches(
        &self,
        session: &mut Session<'_>,
        item: &str,
    ) -> Result<(), WorkflowError> {
        let Some(mut before) = BEFORE.load(&session.context.state, item)? else {
            return Ok(());
        };
        for reason in self.repositories.return_to_branches(item, &mut before)? {
            session.record(Note { reason, ..Note::default() })?;
        }
        Ok(BEFORE.save(&session.context.state, item, &before)?)
    }

    /// Commits all of home, with whatever a person changed in it.
    pub(crate) fn commit_home(
        &self,
        session: &mut Session<'_>,
        message: &str,
        spec: Option<String>,
    ) -> Result<(), WorkflowError> {
        conclude_commit(session, self.committer.commit(message), spec)
    }

    /// Has files of home written, and commits exactly these.
    ///
    /// They are noted first: a Ralph that dies in between, or cannot commit, leaves them to the next commit.
    pub(crate) fn write_and_commit(
        &self,
        session: &mut Session<'_>,
        mut files: Vec<Utf8PathBuf>,
        write: impl FnOnce() -> Result<(), PathError>,
        message: &str,
        spec: Option<String>,
    ) -> Result<(), WorkflowError> {
        let note = session.context.state.uncommitted(session.context.home_path());
        files.extend(read_files(&note)?);
        files.sort();
        files.dedup();
        write_note(&note, &serde_json::to_string(&files).expect("paths are text"))?;
        write()?;
        conclude_commit(session, self.committer.commit_files(&files, message), spec)
    }

    /// Commits what a Ralph that died had written and not committed.
    pub(crate) fn commit_left(&self, session: &mut Session<'_>) -> Result<(), WorkflowError> {
        let files = read_files(&session.context.state.uncommitted(session.context.home_path()))?;
        let message = "ralph: what was left to commit";
        let committed = self.committer.commit_files(&files, message);
        conclude_commit(session, committed, None)
    }
}

/// Reads which files were being written. A note that is damaged names none: the next commit of all of home has them.
fn read_files(note: &Utf8Path) -> Result<Vec<Utf8PathBuf>, PathError> {
    let text = read_note(note)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

/// A failure to commit does not stop the work, because the files are on disk; it is recorded.
fn conclude_commit(
    session: &mut Session<'_>,
    committed: Result<(), WorkflowError>,
    spec: Option<String>,
) -> Result<(), WorkflowError> {
    match committed {
        Ok(()) => Ok(clear_note(&session.context.state.uncommitted(session.context.home_path()))?),
        Err(problem) => {
            let reason = format!("Ralph's files are not committed: {}", with_causes(&problem));
            Ok(session.record(Note { spec, task: None, reason })?)
        }
    }
}
