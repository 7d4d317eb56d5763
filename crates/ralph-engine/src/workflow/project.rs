//! What a workflow works on beside its agents: the repositories, the prompts and rules that people wrote, and home.

use ralph_model::journal::Note;
use ralph_model::prompt::{Prompts, RulesSource, SpecSource, Surroundings};

use super::home_committer::HomeCommitter;
use super::repositories::{BEFORE, BeforeAll, Repositories};
use super::spec_text::SpecText;
use super::{WorkflowError, with_causes};
use crate::prompts::{self, Rules};
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
        let project = Project { repositories, prompts, committer, rules };
        Ok(Opened { session, project, opening })
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

    /// Returns to the branches that a run began on. What cannot be returned to is recorded.
    pub(crate) fn return_to_branches(
        &self,
        session: &mut Session<'_>,
        before: &mut BeforeAll,
    ) -> Result<(), WorkflowError> {
        for reason in self.repositories.return_to_branches(before)? {
            session.record(Note { reason, ..Note::default() })?;
        }
        Ok(())
    }

    /// Commits home. A failure does not stop the work, because the files are on disk; it is recorded.
    pub(crate) fn commit_home(
        &self,
        session: &mut Session<'_>,
        message: &str,
        spec: Option<String>,
    ) -> Result<(), WorkflowError> {
        if let Err(problem) = self.committer.commit(message) {
            let reason = format!("Ralph's files are not committed: {}", with_causes(&problem));
            session.record(Note { spec, task: None, reason })?;
        }
        Ok(())
    }
}
