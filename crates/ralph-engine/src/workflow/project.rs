//! What a workflow works on in addition to its agents: the repositories, the person's prompts and rules, and home.

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::build::Work;
use ralph_model::journal::Note;
use ralph_model::pipeline::records::Base;
use ralph_model::prompt::{
    GoalSurroundings, PromptKind, Prompts, RulesSource, SpecSource, Surroundings,
};
use ralph_model::role::Role;

use super::home_committer::{CommittedFile, HomeCommitter};
use super::isolation::equipment::Equipment;
use super::isolation::landing::{LandingEnd, LandingRequest};
use super::isolation::marks::{RevertEnd, RevertRequest};
use super::isolation::reading::ReadingPlace;
use super::isolation::{
    Clones, ClonesRequest, LeftInFlight, LeftWork, mend, slots, unborn_siblings,
};
use super::overview::read_prd;
use super::repositories::{BEFORE, BeforeAll, Repositories};
use super::spec_text::SpecText;
use super::written::{WrittenFile, note_names, note_written, read_written};
use super::{WorkflowError, with_causes};
use crate::config::{GitSettings, Isolation};
use crate::files::note::clear_note;
use crate::files::{PathError, create_directory, replace_atomically};
use crate::gates::pin::PinnedGates;
use crate::gates::start::{StartGates, StartWatcher};
use crate::git::commits::Signing;
use crate::git::{Git, GitProgram, shown};
use crate::home::{CONFIG_FILE, Home, stands_for};
use crate::plan_file::PlanFile;
use crate::prompts::{self, PromptProblem, Rules};
use crate::run::{RESULTS, ReadWish, RunResult, WantedItem};
use crate::session::{Opening, Session, SessionContext, SessionError, SessionRequest};
use crate::state::State;

/// The project that a workflow works on.
pub struct Project {
    /// Where runs work: the workspace, or the slot of the item that was entered.
    pub(crate) repositories: Repositories,
    pub(crate) prompts: Prompts,
    pub(crate) committer: HomeCommitter,
    /// Where home is read and written: the person's own, or Ralph's draft of it.
    home: Utf8PathBuf,
    rules: Option<Rules>,
    /// `None` where runs work in the person's checkout, or only read.
    clones: Option<Clones>,
    /// Where runs work that only read, if not in the person's checkout.
    reading: Option<ReadingPlace>,
    /// What is worked on now.
    item: Option<String>,
    /// The item that continues in the person's checkout although others work in clones.
    in_place: Option<String>,
    /// What Ralph keeps of the repositories was looked through because something had failed. That is done once.
    was_mended: bool,
}

/// Where the runs of a workflow work.
#[derive(Clone, Copy, Debug)]
pub enum WorkPlace<'a> {
    /// As the configuration has it. `onto` names the branch to land on, if that is not the one that is checked out.
    Configured { onto: Option<&'a str> },
    /// In a clone, whatever the configuration says.
    Slot { onto: Option<&'a str> },
    /// In the person's checkout, whatever the configuration says.
    Checkout,
    /// As the configuration has it, by roles that only read: nothing lands, and home is the person's own.
    Reading,
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
        let (mut session, opening) = Session::open(request)?;
        let context = &session.context;
        let failed = |error| SessionError::Repositories(Box::new(error));
        let git = context.git();
        let SessionContext { state, workspace, home, config, .. } = context;
        let repositories =
            Repositories::open(&git, state, &workspace.root, &home.path, &config.mailbox);
        let repositories = repositories.map_err(failed)?;
        repositories.note_after_kills(state).map_err(failed)?;
        let committer = HomeCommitter::open(&git, &home.path, &config.git);
        if !config.git.commit_home
            && let Some(home) = tracked_home(&git, &home.path).map_err(failed)?
        {
            return Err(SessionError::HomeTracked { home });
        }
        let mut project = Project::of(repositories, prompts, committer, home.path.clone(), rules);
        let onto = match place {
            WorkPlace::Configured { onto } if config.isolation == Isolation::Clone => Some(onto),
            WorkPlace::Slot { onto } => Some(onto),
            WorkPlace::Configured { .. } | WorkPlace::Checkout | WorkPlace::Reading => None,
        };
        if matches!(place, WorkPlace::Reading) && config.isolation == Isolation::Clone {
            project.reading = ReadingPlace::open(&git, context).map_err(failed)?;
        }
        if let Some(onto) = onto {
            let left = match project.isolate(&mut session, onto) {
                // Ralph's own data may be damaged: then it is recreated.
                Err(error)
                    if error.may_be_of_repository()
                        && mend(&git, &session.context).map_err(failed)? =>
                {
                    project.isolate(&mut session, onto)
                }
                isolated => isolated,
            };
            let left = left.map_err(failed)?;
            project.publish_left(&mut session, &left).map_err(failed)?;
            let workspace = session.context.workspace.root.clone();
            for name in unborn_siblings(&git, &workspace).map_err(failed)? {
                let reason = format!(
                    "`{name}` has no commit yet: agents do not see it, and nothing lands in it"
                );
                session.record(Note { reason, ..Note::default() })?;
            }
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
        Project {
            repositories,
            prompts,
            committer,
            home,
            rules,
            clones: None,
            reading: None,
            item: None,
            in_place: None,
            was_mended: false,
        }
    }

    /// Has runs work in clones from now on; returns the items that an earlier workflow left in flight.
    fn isolate(
        &mut self,
        session: &mut Session<'_>,
        onto: Option<&str>,
    ) -> Result<LeftInFlight, WorkflowError> {
        let context = &session.context;
        let program = &context.git();
        // The first commit of a repository that has none is Ralph's: home has to begin somewhere.
        self.committer.begin_history(&context.workspace.root.join(CONFIG_FILE))?;
        let clones = Clones::open(&ClonesRequest { program, context, onto })?;
        self.work_in(session, clones, |context, home| {
            let program = &context.git();
            let settings = GitSettings { sign: false, ..context.config.git.clone() };
            let draft = Home { path: home.to_owned(), exists: true };
            let plan = PlanFile::open(program, &context.state, &draft, Signing::Unsigned);
            (HomeCommitter::open(program, home, &settings), plan)
        })
    }

    /// Has runs work in these clones from now on; `open` opens what commits home in a draft of it.
    pub(crate) fn work_in(
        &mut self,
        session: &mut Session<'_>,
        clones: Clones,
        open: impl FnOnce(&SessionContext, &Utf8Path) -> (HomeCommitter, PlanFile),
    ) -> Result<LeftInFlight, WorkflowError> {
        // Before the checkout is looked at: half of a landing is not the person's doing.
        clones.follow_all()?;
        clones.take_up_newer(session)?;
        let context = &session.context;
        if let Some(home) = clones.home() {
            self.home = home.to_owned();
            stands_for(home, context.home_path());
            create_directory(home)?;
            let (committer, plan) = open(context, home);
            self.committer = committer;
            // What a killed Ralph had written to the draft and not committed is in flight all the same; what anybody else
            // has made of it is not.
            let note = context.state.uncommitted(context.home_path());
            let left = clones.restore_draft(&context.state, &read_written(&note)?)?;
            plan.commit()?;
            self.committer.commit_files(&left, "ralph: save pending state")?;
            clear_note(&note)?;
        }
        let left = clones.begin(&context.state)?;
        self.clones = Some(clones);
        Ok(left)
    }

    /// Commits what a workflow that was killed left in flight, and says so where it was found on refs alone.
    pub(crate) fn publish_left(
        &mut self,
        session: &mut Session<'_>,
        left: &LeftInFlight,
    ) -> Result<(), WorkflowError> {
        // A plan's changes are committed one by one, by the workflow that makes them.
        if left.items.is_empty() {
            return Ok(());
        }
        let items = left.items.join(", ");
        if left.is_rebuilt {
            let reason = format!("the state of {items} was restored from refs/ralph/item");
            session.record(Note { reason, ..Note::default() })?;
        }
        self.publish(session, &format!("ralph: {items} interrupted"), &[])
    }

    /// Says what is worked on from now on: what is in flight is filed under it.
    pub(crate) fn begin_item(&mut self, item: &str) {
        self.item = Some(item.to_owned());
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

    /// Has the gates tried where work begins, before the first run of the session.
    pub fn gates_first(
        &self,
        session: &mut Session<'_>,
        anyway: bool,
        watcher: Box<dyn StartWatcher>,
    ) -> Result<(), WorkflowError> {
        if session.context.config.gates.is_empty() {
            return Ok(());
        }
        let points = match &self.clones {
            Some(clones) => clones.start_points()?,
            None => self.repositories.start_points()?,
        };
        session.start_gates = Some(StartGates { points, anyway, watcher });
        Ok(())
    }

    /// Names the repositories of several whose checkout is not on the branch that work lands on.
    pub fn siblings_elsewhere(&self) -> Result<Vec<String>, WorkflowError> {
        self.clones.as_ref().map_or_else(|| Ok(Vec::new()), Clones::siblings_elsewhere)
    }

    /// Tells whether the person's checkout of the repository that has home is on the branch that work lands on.
    pub fn is_checked_out(&self) -> Result<bool, WorkflowError> {
        match &self.clones {
            Some(clones) => clones.is_home_checked_out(),
            None => Ok(true),
        }
    }

    /// Tells whether home is read from a branch that is not checked out: then changes of the checkout's home are not seen.
    pub fn is_home_elsewhere(&self) -> Result<bool, WorkflowError> {
        self.clones.as_ref().map_or(Ok(false), Clones::is_home_elsewhere)
    }

    /// Returns the branch that work lands on, for people; that of the first repository where there are several.
    pub fn run_branch(&self) -> Result<String, WorkflowError> {
        if let Some((_, branch)) = self.branches().first() {
            return Ok((*branch).to_owned());
        }
        Ok(match self.repositories.branch()? {
            Some(name) => name.strip_prefix("refs/heads/").unwrap_or(&name).to_owned(),
            None => "HEAD".to_owned(),
        })
    }

    /// Checks a branch out where runs work in the person's checkout; it is made where they stand if it is not there.
    /// Returns whether that was another one.
    ///
    /// The PRD of before, `prd` in home, comes along: its stories are what the person wants implemented.
    pub fn check_out(
        &self,
        context: &SessionContext,
        prd: &Utf8Path,
        branch: &str,
    ) -> Result<bool, WorkflowError> {
        let config = context.workspace.root.join(CONFIG_FILE);
        self.committer.begin_history(&config)?;
        let path = context.home_path().join(prd);
        let wanted = read_prd(&path)?;
        if !self.repositories.check_out(&format!("refs/heads/{branch}"))? {
            return Ok(false);
        }
        let there = read_prd(&path).ok();
        let wanted = wanted.with_passes_of(there.as_ref());
        if there.as_ref() != Some(&wanted) {
            replace_atomically(&path, wanted.render().as_bytes())?;
            self.committer.commit_files(&[path], "ralph: the PRD of a run")?;
        }
        Ok(true)
    }

    /// Takes up what the person changed in home since the last look. In place home is theirs anyway.
    pub(crate) fn sync(&self, session: &mut Session<'_>) -> Result<(), WorkflowError> {
        let Some(clones) = &self.clones else { return Ok(()) };
        self.commit_left(session)?;
        clones.take_up_newer(session)?;
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
        if self.clones.is_some() && began_in_place(&session.context.state, item)? {
            return self.go_on_in_place(session, item);
        }
        self.enter_slot(session, item)
    }

    /// Has the runs that follow work in an item's slot, wherever earlier ones did.
    pub(crate) fn enter_slot(
        &mut self,
        session: &mut Session<'_>,
        item: &str,
    ) -> Result<(), WorkflowError> {
        self.begin_item(item);
        let Some(clones) = &self.clones else { return Ok(()) };
        let Session { context, journal, .. } = &mut *session;
        let (clock, gates) = (context.clock, context.gates(item));
        let mut tell = |event| journal.record(clock.now(), None, event);
        let mut equipment = Equipment::new(&gates, &context.config, &mut tell);
        let entered = clones.enter(&context.state, context.home_path(), item, &mut equipment);
        // Said also where something failed in the end.
        for reason in equipment.notes {
            session.record(Note { reason, ..Note::default() })?;
        }
        let entered = entered?;
        // Of judged work that waits to land it is still true.
        if entered.slot.is_new && !clones.has_candidate(item)? {
            BEFORE.forget(&session.context.state, item)?;
        }
        self.repositories = entered.repositories;
        session.slot = Some(entered.slot);
        Ok(())
    }

    /// Makes the person's newer commits part of the tip, once they were checked together with landed work.
    pub(crate) fn take_up_newer(&self, session: &mut Session<'_>) -> Result<(), WorkflowError> {
        self.clones.as_ref().map_or(Ok(()), |clones| clones.take_up_newer(session))
    }

    /// Recreates the clone of the current item if that is the cause of an error: an agent left it unusable. Returns
    /// whether it was recreated.
    pub(crate) fn mend_clone(
        &mut self,
        session: &mut Session<'_>,
        error: &WorkflowError,
    ) -> Result<bool, WorkflowError> {
        let in_slot = self.clones.is_some() && session.slot.is_some();
        let Some(item) = self.item.clone().filter(|_| in_slot && error.may_be_of_repository())
        else {
            return Ok(false);
        };
        if let Some(clones) = self.clones.as_mut().filter(|_| !self.was_mended)
            && {
                self.was_mended = true;
                clones.mend(&session.context.state)?
            }
        {
            let reason = "Ralph's own copy of the repository was damaged and is recreated";
            session.record(Note { reason: reason.to_owned(), ..Note::default() })?;
            self.enter_slot(session, &item)?;
            return Ok(true);
        }
        let Some(problem) = self.repositories.unsound() else { return Ok(false) };
        let reason =
            format!("the clone of {item} cannot be used any more and is recreated: {problem}");
        session.record(Note { reason, ..Note::default() })?;
        slots::release(&session.context.state, &item)?;
        self.enter_slot(session, &item)?;
        Ok(true)
    }

    /// Tells whether the clone is gone that a writing run worked in, with what it did there.
    pub(crate) fn has_lost_clone(
        &self,
        session: &Session<'_>,
        result: &RunResult,
    ) -> Result<bool, WorkflowError> {
        let (state, item) = (&session.context.state, &result.item);
        let Some(clones) = self.clones.as_ref().filter(|_| result.role.writes_workspace()) else {
            return Ok(false);
        };
        Ok(!began_in_place(state, item)? && !clones.has_work_of(state, item)?)
    }

    /// Returns what there was before the last run of an item whose accepted work is to land; `None` if it has landed. That
    /// nothing is known of it proves nothing: it may have been lost.
    pub(crate) fn before_landing(
        &mut self,
        session: &mut Session<'_>,
        item: &str,
        works: &[Work],
    ) -> Result<Option<BeforeAll>, WorkflowError> {
        if let Some(before) = BEFORE.load(&session.context.state, item)? {
            return Ok(Some(before));
        }
        let Some(clones) = &self.clones else { return Ok(None) };
        if clones.has_landed(works)? {
            return Ok(None);
        }
        self.enter_slot(session, item)?;
        let base = slots::base_of(&session.context.state, item)?.unwrap_or_default();
        Ok(Some(self.repositories.note(&base)?))
    }

    /// Has the runs that follow read for an item: in its clone, which is at the commit that is checked out now.
    pub(crate) fn enter_to_read(
        &self,
        session: &mut Session<'_>,
        item: &str,
    ) -> Result<(), WorkflowError> {
        let Some(reading) = &self.reading else { return Ok(()) };
        let (slot, notes) = reading.enter(session, item)?;
        for reason in notes {
            session.record(Note { reason, ..Note::default() })?;
        }
        session.slot = Some(slot);
        Ok(())
    }

    /// Gives the clone back that runs read in for an item.
    pub(crate) fn leave_reading(
        &self,
        session: &mut Session<'_>,
        item: &str,
    ) -> Result<(), WorkflowError> {
        if self.reading.is_some() {
            session.slot = None;
            slots::release(&session.context.state, item)?;
        }
        Ok(())
    }

    /// Tells whether runs that only read have a clone for it.
    pub fn reads_in_clone(&self) -> bool {
        self.reading.is_some()
    }

    /// Has the runs of an item work in the person's checkout, where an earlier workflow began it.
    fn go_on_in_place(
        &mut self,
        session: &mut Session<'_>,
        item: &str,
    ) -> Result<(), WorkflowError> {
        self.begin_item(item);
        let SessionContext { state, workspace, home, config, .. } = &session.context;
        let git = session.context.git();
        self.repositories =
            Repositories::open(&git, state, &workspace.root, &home.path, &config.mailbox)?;
        let was_in_slot = session.slot.take().is_some();
        if was_in_slot || self.in_place.as_deref() != Some(item) {
            self.in_place = Some(item.to_owned());
            let reason = format!(
                "work on {item} began in your checkout and continues there until it ends; later items use clones"
            );
            session.record(Note { reason, ..Note::default() })?;
        }
        Ok(())
    }

    /// Notes what there is before a run of an item, and from where its work counts: in a clone that is where the item began,
    /// also if the clone was made anew at judged work. `first` is where an item begins that has no clone.
    pub(crate) fn note_before(
        &self,
        session: &Session<'_>,
        item: &str,
        first: Option<Base>,
    ) -> Result<BeforeAll, WorkflowError> {
        let (state, repositories) = (&session.context.state, &self.repositories);
        let slot_base = self.slot_base(session, item)?;
        let before = if let Some(earlier) = BEFORE.load(state, item)? {
            repositories.note_further(&earlier, slot_base)?
        } else {
            let base = slot_base.or(first).map_or_else(|| repositories.base(), Ok)?;
            repositories.note_first(&base)?
        };
        BEFORE.save(state, item, &before)?;
        Ok(before)
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

    /// Lets an item whose work could not land continue from the current branches.
    ///
    /// If a branch no longer contains the item's base, its slot is recreated: work there must not lead to what the
    /// person has dropped. This comes after the record that the work is sent back; if a crash prevents it, the item
    /// continues from its old base, and its work is carried over once more.
    pub(crate) fn go_on_from(
        &mut self,
        session: &mut Session<'_>,
        item: &str,
        tips: &Base,
    ) -> Result<(), WorkflowError> {
        let Some(clones) = &self.clones else { return Ok(()) };
        let Some(base) = slots::base_of(&session.context.state, item)? else { return Ok(()) };
        if !clones.is_dropped(&base, tips)? {
            return Ok(slots::move_base(&session.context.state, item, tips)?);
        }
        self.leave_keeping(session, item, LeftWork::Uncommitted)?;
        self.enter(session, item)
    }

    /// Lets an item whose work could not land continue from the current tips of the branches, which are set in its
    /// clone.
    pub(crate) fn go_on_from_tips(
        &mut self,
        session: &mut Session<'_>,
        item: &str,
    ) -> Result<(), WorkflowError> {
        let Some(clones) = &self.clones else { return Ok(()) };
        let tips = clones.tell_tips(&session.context.state, item)?;
        self.go_on_from(session, item, &tips)
    }

    /// Puts accepted work on the run's branch, with what is in flight of home. In place it is there already.
    pub(crate) fn land(
        &self,
        session: &mut Session<'_>,
        request: &LandingRequest<'_>,
    ) -> Result<LandingEnd, WorkflowError> {
        let Some(clones) = &self.clones else { return Ok(LandingEnd::Nothing) };
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

    /// Keeps commits that are in the person's repositories under a ref there. In place there are snapshots instead.
    pub(crate) fn mark(&self, name: &str, commits: &Base) -> Result<(), WorkflowError> {
        self.clones.as_ref().map_or(Ok(()), |clones| clones.mark(name, commits))
    }

    /// Returns what [`Project::mark`] kept under a ref.
    pub(crate) fn marked(&self, name: &str) -> Result<Base, WorkflowError> {
        self.clones.as_ref().map_or_else(|| Ok(Base::new()), |clones| clones.marked(name))
    }

    /// Returns where the person says whether an item is still wanted, while runs work in clones: in files of home, named
    /// from there.
    pub(crate) fn wanted(&self, id: &str, files: &[&str], read: ReadWish) -> Option<WantedItem> {
        self.clones.as_ref()?.wanted(id, files, read)
    }

    /// Keeps judged work of an item that has not landed, for the case that private state is lost.
    pub(crate) fn keep_candidate(
        &self,
        session: &Session<'_>,
        item: &str,
        works: &[Work],
    ) -> Result<(), WorkflowError> {
        let base = self.slot_base(session, item)?;
        match (&self.clones, base) {
            (Some(clones), Some(base)) => clones.keep_candidate(item, works, &base),
            _ => Ok(()),
        }
    }

    /// Keeps the work of an item that is given up; returns the ref that has it, if there is any.
    pub(crate) fn keep_given_up(
        &self,
        item: &str,
        works: &[Work],
        base: &Base,
    ) -> Result<Option<String>, WorkflowError> {
        let Some(clones) = &self.clones else { return Ok(None) };
        clones.keep_given_up(&self.repositories, item, works, base)
    }

    /// Takes landed work back by a commit that reverts it.
    pub(crate) fn revert(
        &self,
        session: &mut Session<'_>,
        request: &RevertRequest<'_>,
    ) -> Result<RevertEnd, WorkflowError> {
        match &self.clones {
            Some(clones) => clones.revert(session, request),
            None => Ok(RevertEnd::Reverted),
        }
    }

    /// Keeps what an item made or left in its slot that has not landed, and ends the work on it.
    pub(crate) fn leave_for_good(
        &mut self,
        session: &mut Session<'_>,
        item: &str,
    ) -> Result<(), WorkflowError> {
        self.leave_keeping(session, item, LeftWork::All)
    }

    fn leave_keeping(
        &mut self,
        session: &mut Session<'_>,
        item: &str,
        what: LeftWork,
    ) -> Result<(), WorkflowError> {
        let left = match &self.clones {
            Some(clones) => clones.keep_left(&session.context.state, item, what),
            None => Ok(None),
        };
        // What is kept of leftovers decides nothing: the item is done, or given up.
        let said = left.unwrap_or_else(|problem| {
            Some(format!("what {item} left could not be kept: {}", with_causes(&problem)))
        });
        if let Some(reason) = said {
            session.record(Note { reason, ..Note::default() })?;
        }
        self.leave(session, item)
    }

    /// Ends the work on every item that has a slot, if a person decided on it while no run of it was under way. What a run has
    /// just left is concluded first.
    pub(crate) fn leave_decided(
        &mut self,
        session: &mut Session<'_>,
        is_decided: impl Fn(&str) -> bool,
    ) -> Result<(), WorkflowError> {
        if self.clones.is_none() {
            return Ok(());
        }
        for item in slots::items(&session.context.state)? {
            let state = &session.context.state;
            if is_decided(&item) && RESULTS.load(state, &item)?.is_none() {
                PinnedGates::forget(state, &item)?;
                self.leave_for_good(session, &item)?;
            }
        }
        Ok(())
    }

    /// Ends the work on an item, whatever came of it.
    pub(crate) fn leave(
        &mut self,
        session: &mut Session<'_>,
        item: &str,
    ) -> Result<(), WorkflowError> {
        let state = &session.context.state;
        if let Some(clones) = &self.clones {
            clones.drop_candidate(item)?;
            slots::release(state, item)?;
            if self.in_place.as_deref() != Some(item) {
                // Without a slot it would say that the item was begun in the person's checkout.
                BEFORE.forget(state, item)?;
            }
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
        Surroundings {
            workspace: work_root(session).as_str(),
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
        session: &'p Session<'_>,
        feedback: Option<&'p str>,
    ) -> GoalSurroundings<'p> {
        GoalSurroundings {
            workspace: work_root(session).as_str(),
            home: self.home.as_str(),
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
        // A run in a slot has left nothing of the person's to return to.
        if self.clones.is_some() && !began_in_place(state, &item)? {
            return Ok(true);
        }
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
        if self.repositories.note_standing(&mut before)? {
            BEFORE.save(&session.context.state, item, &before)?;
        }
        let is_returned = before.is_returned();
        for reason in self.repositories.return_to_branches(item, &mut before)? {
            session.record(Note { reason, ..Note::default() })?;
        }
        if !is_returned {
            self.repositories.note_left_of_others(&session.context.state, &before)?;
        }
        Ok(BEFORE.save(&session.context.state, item, &before)?)
    }

    /// Returns a file of home, named from there, as it is committed where work lands.
    pub(crate) fn committed_file(&self, path: &Utf8Path) -> Result<CommittedFile, WorkflowError> {
        match &self.clones {
            Some(clones) => clones.home_file_at_tip(path),
            None => self.committer.file_at_head(path),
        }
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

    /// Commits home before a run that can write.
    ///
    /// A run in a clone cannot reach the draft of home, no other process writes it, and all of it was checked when the
    /// workflow began: files written since and not committed are recorded.
    pub(crate) fn commit_before_run(
        &self,
        session: &mut Session<'_>,
        message: &str,
        spec: Option<String>,
    ) -> Result<(), WorkflowError> {
        if self.is_in_place() {
            return self.commit_home(session, message, spec);
        }
        let note = session.context.state.uncommitted(session.context.home_path());
        let files: Vec<Utf8PathBuf> =
            read_written(&note)?.into_iter().map(|file| file.path).collect();
        conclude_commit(session, self.committer.commit_own(files, message), spec)
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
        files.extend(read_written(&note)?.into_iter().map(|file| file.path));
        files.sort();
        files.dedup();
        let written: Vec<WrittenFile> = files.iter().cloned().map(WrittenFile::named).collect();
        note_names(&note, &written)?;
        write()?;
        if self.clones.is_some() {
            note_written(&note, &written)?;
        }
        conclude_commit(session, self.committer.commit_files(&files, message), spec)?;
        match (&self.clones, &self.item) {
            (Some(clones), Some(item)) => {
                clones.note_in_flight(&session.context.state, item, message)
            }
            _ => Ok(()),
        }
    }

    /// Commits what a Ralph that died had written and not committed.
    pub(crate) fn commit_left(&self, session: &mut Session<'_>) -> Result<(), WorkflowError> {
        let files = read_written(&session.context.state.uncommitted(session.context.home_path()))?;
        let files: Vec<Utf8PathBuf> = files.into_iter().map(|file| file.path).collect();
        let message = "ralph: save pending state";
        let committed = self.committer.commit_files(&files, message);
        conclude_commit(session, committed, None)
    }
}

/// Returns where runs work: in the slot that was entered, or in the workspace.
pub(crate) fn work_root<'p>(session: &'p Session<'_>) -> &'p Utf8Path {
    match &session.slot {
        Some(slot) => &slot.root,
        None => &session.context.workspace.root,
    }
}

/// Tells whether work on an item was begun in the person's checkout, by a workflow in place or an older Ralph. That a slot is
/// missing says nothing: it may have been removed.
fn began_in_place(state: &State, item: &str) -> Result<bool, PathError> {
    Ok(slots::base_of(state, item)?.is_none()
        && !slots::was_damaged(state, item)
        && BEFORE.load(state, item)?.is_some_and(|before| before.is_in_place()))
}

/// Returns home, named from the root of the work tree, if git has files of it.
fn tracked_home(
    program: &GitProgram,
    home: &Utf8Path,
) -> Result<Option<Utf8PathBuf>, WorkflowError> {
    let Ok(git) = Git::discover(program.clone(), home) else { return Ok(None) };
    let Some(worktree) = &git.place().worktree else { return Ok(None) };
    let Ok(inside) = home.strip_prefix(worktree) else { return Ok(None) };
    let is_tracked = git.has_tracked_within(inside.as_std_path())?;
    Ok(is_tracked.then(|| inside.to_owned()))
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
            let reason = format!("Ralph's files are not committed: {}", problem.explained());
            Ok(session.record(Note { spec, task: None, reason })?)
        }
    }
}
