//! What a workflow works on beside its agents: the repositories, the prompts and rules that people wrote, and home.

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::journal::Note;
use ralph_model::pipeline::records::Base;
use ralph_model::prompt::{
    GoalSurroundings, PromptKind, Prompts, RulesSource, SpecSource, Surroundings,
};
use ralph_model::role::Role;

use super::home_committer::HomeCommitter;
use super::isolation::landing::{LandingEnd, LandingRequest};
use super::isolation::{Clones, ClonesRequest, slots};
use super::repositories::{BEFORE, Repositories};
use super::spec_text::SpecText;
use super::{WorkflowError, with_causes};
use crate::config::{GitSettings, Isolation};
use crate::files::note::{clear_note, read_note, write_note};
use crate::files::{PathError, create_directory};
use crate::git::commits::Signing;
use crate::git::shown;
use crate::home::{CONFIG_FILE, Home};
use crate::plan_file::PlanFile;
use crate::prompts::{self, PromptProblem, Rules};
use crate::run::RESULTS;
use crate::session::{Opening, Session, SessionContext, SessionError, SessionRequest};

/// The project that a workflow works on.
pub struct Project {
    /// Where runs work: the workspace, or the slot of the item that was entered.
    pub(crate) repositories: Repositories,
    pub(crate) prompts: Prompts,
    pub(crate) committer: HomeCommitter,
    /// Where home is read and written: the person's own, or Ralph's draft of it.
    home: Utf8PathBuf,
    rules: Option<Rules>,
    /// `None` where runs work in the person's checkout.
    clones: Option<Clones>,
}

/// Where the runs of a workflow work.
#[derive(Clone, Copy, Debug)]
pub enum WorkPlace<'a> {
    /// As the configuration has it. `onto` names the branch to land on, if that is not the one that is checked out.
    Configured { onto: Option<&'a str> },
    /// In the person's checkout, whatever the configuration says: the workflow only reads, or cannot land yet.
    Checkout,
}

/// A session of a workflow, with its project.
pub struct Opened<'a> {
    pub session: Session<'a>,
    pub project: Project,
    pub opening: Opening,
}

impl Project {
    /// Opens a session and everything that a workflow needs in it.
    pub fn open<'a>(
        request: SessionRequest<'a>,
        place: WorkPlace<'_>,
    ) -> Result<Opened<'a>, SessionError> {
        request.workspace.require_repository()?;
        let prompts = prompts::load(&request.home.path).map_err(SessionError::Templates)?;
        let rules = prompts::read_rules(&request.workspace.root).map_err(SessionError::Rules)?;
        let (session, opening) = Session::open(request)?;
        let context = &session.context;
        let failed = |error| SessionError::Repositories(Box::new(error));
        let git = context.git();
        let SessionContext { state, workspace, home, config, .. } = context;
        let repositories = Repositories::open(&git, state, &workspace.root, &home.path);
        let repositories = repositories.map_err(failed)?;
        let committer = HomeCommitter::open(&git, &home.path, &config.git);
        let mut project = Project::of(repositories, prompts, committer, home.path.clone(), rules);
        if let WorkPlace::Configured { onto } = place
            && config.isolation == Isolation::Clone
        {
            project.isolate(context, onto).map_err(failed)?;
        }
        Ok(Opened { session, project, opening })
    }

    /// Puts a project together whose runs work in the person's checkout.
    pub(crate) fn of(
        repositories: Repositories,
        prompts: Prompts,
        committer: HomeCommitter,
        home: Utf8PathBuf,
        rules: Option<Rules>,
    ) -> Project {
        Project { repositories, prompts, committer, home, rules, clones: None }
    }

    /// Has runs work in clones from now on.
    fn isolate(
        &mut self,
        context: &SessionContext,
        onto: Option<&str>,
    ) -> Result<(), WorkflowError> {
        let program = &context.git();
        // The first commit of a repository that has none is Ralph's: home has to begin somewhere.
        self.committer.begin_history(&context.workspace.root.join(CONFIG_FILE))?;
        let clones = Clones::open(&ClonesRequest { program, context, onto })?;
        // Before the checkout is looked at: half of a landing is not the person's doing.
        clones.follow_all()?;
        if let Some(home) = clones.home() {
            let settings = GitSettings { sign: false, ..context.config.git.clone() };
            self.home = home.to_owned();
            create_directory(home)?;
            self.committer = HomeCommitter::open(program, home, &settings);
            // What a killed Ralph had written to the draft and not committed is in flight all the same.
            let draft = Home { path: home.to_owned(), exists: true };
            PlanFile::open(program, &context.state, &draft, Signing::Unsigned).commit()?;
            self.committer.commit("ralph: what was left to commit")?;
        }
        clones.sync(&context.state)?;
        self.clones = Some(clones);
        Ok(())
    }

    /// Returns where home is read and written.
    pub fn home(&self) -> &Utf8Path {
        &self.home
    }

    /// Returns whether runs work in the person's checkout.
    pub fn is_in_place(&self) -> bool {
        self.clones.is_none()
    }

    /// Returns the branches that work lands on, each with the directory of its repository; none in place.
    pub fn branches(&self) -> Vec<(&str, &str)> {
        self.clones.as_ref().map(Clones::branches).unwrap_or_default()
    }

    /// Takes up what the person changed in home since the last look. In place home is theirs anyway.
    pub(crate) fn sync(&self, session: &mut Session<'_>) -> Result<(), WorkflowError> {
        let Some(clones) = &self.clones else { return Ok(()) };
        self.commit_left(session)?;
        for path in clones.sync(&session.context.state)? {
            let reason = format!(
                "`{}` was changed by you and by this workflow; your change is in it",
                shown(&path)
            );
            session.record(Note { reason, ..Note::default() })?;
        }
        Ok(())
    }

    /// Has the runs that follow work on an item: in its slot, which is prepared if it has none.
    pub(crate) fn enter(
        &mut self,
        session: &mut Session<'_>,
        item: &str,
    ) -> Result<(), WorkflowError> {
        let Some(clones) = &self.clones else { return Ok(()) };
        let entered = clones.enter(&session.context, item)?;
        if entered.is_new {
            BEFORE.forget(&session.context.state, item)?;
        }
        self.repositories = entered.repositories;
        session.slot = Some(entered.slot);
        Ok(())
    }

    /// Returns where work on an item began, if it has a slot.
    pub(crate) fn slot_base(
        &self,
        session: &Session<'_>,
        item: &str,
    ) -> Result<Option<Base>, WorkflowError> {
        match &self.clones {
            Some(_) => Ok(slots::base_of(&session.context.state, item)?),
            None => Ok(None),
        }
    }

    /// Notes that an item goes on from other commits.
    pub(crate) fn move_base(
        &self,
        session: &Session<'_>,
        item: &str,
        base: &Base,
    ) -> Result<(), WorkflowError> {
        match &self.clones {
            Some(_) => Ok(slots::move_base(&session.context.state, item, base)?),
            None => Ok(()),
        }
    }

    /// Puts accepted work on the run's branch, with what is in flight of home. In place it is there already.
    pub(crate) fn land(
        &self,
        session: &mut Session<'_>,
        request: &LandingRequest<'_>,
    ) -> Result<LandingEnd, WorkflowError> {
        let Some(clones) = &self.clones else { return Ok(LandingEnd::InPlace) };
        self.commit_left(session)?;
        clones.land(session, &self.repositories, request)
    }

    /// Commits what is in flight of home to the run's branch. In place it was committed when it was written.
    pub(crate) fn publish(
        &self,
        session: &mut Session<'_>,
        message: &str,
        with: &[&Utf8Path],
    ) -> Result<(), WorkflowError> {
        let Some(clones) = &self.clones else { return Ok(()) };
        self.commit_left(session)?;
        clones.publish(session, message, with)
    }

    /// Commits what is in flight of home to the run's branch, each change under its own message: the history of the plan
    /// is read from them.
    pub(crate) fn publish_each(&self, session: &mut Session<'_>) -> Result<(), WorkflowError> {
        let Some(clones) = &self.clones else { return Ok(()) };
        clones.publish_each(session)
    }

    /// Lets the person's branches follow what has landed, where that is to happen when a workflow ends.
    pub(crate) fn follow_at_end(&self, session: &mut Session<'_>) -> Result<(), WorkflowError> {
        let Some(clones) = &self.clones else { return Ok(()) };
        for reason in clones.follow_at_end()? {
            session.record(Note { reason, ..Note::default() })?;
        }
        Ok(())
    }

    /// Ends the work on an item, whatever came of it.
    pub(crate) fn leave(
        &mut self,
        session: &mut Session<'_>,
        item: &str,
    ) -> Result<(), WorkflowError> {
        if self.clones.is_some() {
            slots::release(&session.context.state, item)?;
        }
        Ok(())
    }

    /// Uses a file that the person named as the template of one prompt; returns its text.
    pub fn use_template(
        &mut self,
        kind: PromptKind,
        path: &Utf8Path,
    ) -> Result<String, PromptProblem> {
        prompts::replace_from(&mut self.prompts, kind, path)
    }

    /// Returns what is changed and uncommitted outside home and is a person's own: no run left it.
    pub fn dirt(&self, context: &SessionContext) -> Result<Vec<String>, WorkflowError> {
        self.repositories.dirt(&BEFORE.all(&context.state)?)
    }

    /// Returns what every prompt has.
    pub(crate) fn surroundings<'p>(
        &'p self,
        session: &'p Session<'_>,
        spec: &'p SpecText,
        feedback: Option<&'p str>,
    ) -> Surroundings<'p> {
        let workspace = match &session.slot {
            Some(slot) => slot.root.as_str(),
            None => session.context.workspace.root.as_str(),
        };
        Surroundings {
            workspace,
            home: self.home.as_str(),
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

    /// Returns what every prompt of goal-driven work has.
    pub(crate) fn goal_surroundings<'p>(
        &'p self,
        context: &'p SessionContext,
        feedback: Option<&'p str>,
    ) -> GoalSurroundings<'p> {
        GoalSurroundings {
            workspace: context.workspace.root.as_str(),
            home: context.home.path.as_str(),
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
        // A run in a slot has left nothing of the person's to return to.
        if self.clones.is_some() {
            return Ok(true);
        }
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
