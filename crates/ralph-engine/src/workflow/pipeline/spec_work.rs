//! The workflow of one spec: read the markers, ask the state machine for the next step, perform it, record the result.

use camino::Utf8PathBuf;
use ralph_model::checks::allow_lines;
use ralph_model::journal::{
    JournalEvent, Note, PersonAnswered, PersonNeeded, PlanAdopted, QuestionKind, SpecFailed,
    SpecSkipped, SpecStart,
};
use ralph_model::pipeline::records::Base;
use ralph_model::pipeline::{Action, Fact, GiveUp, Markers, Phase, Write, heal, next, settle};
use ralph_model::proof::LandedLevel;
use ralph_model::spec::name::SpecPath;
use ralph_model::verdict::PersonQuestion;

use super::{Pipeline, Skip, SpecEnd, list};
use crate::gates::GateError;
use crate::gates::pin::PinnedGates;
use crate::judge::Case;
use crate::run::{RESULTS, RunReport, RunResult};
use crate::session::Session;
use crate::specs::SPECS;
use crate::workflow::WorkflowError;
use crate::workflow::driver::{
    Ended, Stop, Subject, Turn, Void, Workflow, WorkflowStep, drive, forget_troubles,
};
use crate::workflow::repositories::{BEFORE, BeforeAll};

/// Work on one spec. What is not on disk can be lost: that costs time, never truth.
pub(super) struct SpecWork<'p, 'r, 's> {
    pub(super) pipeline: &'p mut Pipeline<'r, 's>,
    pub(super) spec: &'p SpecPath,
    /// What the spec is called in the journal and in private state.
    pub(super) item: String,
    pub(super) pinned: PinnedGates,
    /// What was measured of the candidate, one case for each repository that has work.
    pub(super) cases: Option<Vec<Case>>,
    /// The spec as its verifier was given it: a person may edit it meanwhile.
    pub(super) spec_digest: Option<String>,
    /// The digest of the spec at the last step.
    last_spec: Option<String>,
    /// The phase that it is in, and why the last attempt failed, for events.
    pub(super) phase: Option<Phase>,
    pub(super) failure: Option<&'static str>,
}

impl Pipeline<'_, '_> {
    /// Works on a spec until it is done, or cannot continue.
    pub(super) fn work(&mut self, spec: &SpecPath) -> Result<SpecEnd, WorkflowError> {
        let forced = self.options.forced.contains(spec);
        let item = spec.run_id();
        self.project.begin_item(&item);
        let markers = self.heal(spec)?;
        if markers.done.is_some() && !forced {
            return self.pass_over(spec, &markers);
        }
        self.session.record(SpecStart {
            spec: spec.to_string(),
            item: item.clone(),
            forced: Some(forced),
            already_done: Some(markers.done.is_some()),
        })?;
        let subject = subject(spec, &item, None);
        let pinned = self.session.pin(&item, subject)?;
        if forced {
            // It starts over, without any of its earlier work.
            self.project.leave_for_good(self.session, &item)?;
        }
        match self.project.enter(self.session, &item) {
            // Its clone was being set up.
            Err(WorkflowError::Gate(GateError::Interrupted)) => {
                self.session.record(JournalEvent::Interrupted)?;
                return Ok(SpecEnd::Stopped(Stop::Interrupted));
            }
            entered => entered?,
        }
        self.begin(spec, &markers, forced)?;
        if self.session.slot.as_ref().is_some_and(|slot| slot.is_new) {
            // Agents file sessions by directory, and these were held in another one, or in one that is gone.
            self.store.forget_sessions(spec)?;
        }
        if let Some(problem) = self.store.drop_broken_sessions(spec)? {
            let reason = format!("the sessions were forgotten: {problem}");
            self.session.record(Note { spec: Some(spec.to_string()), task: None, reason })?;
        }
        let mut work = SpecWork {
            pipeline: self,
            spec,
            item,
            pinned,
            cases: None,
            spec_digest: None,
            last_spec: None,
            phase: None,
            failure: None,
        };
        let ended = drive(&mut work);
        let item = work.item;
        // Whatever came of it: between two workflows everything is committed.
        let end = match &ended {
            Ok(Ended::By(end)) => end.name(),
            Ok(Ended::Stopped(stop)) => stop.name(),
            Err(_) => "failed",
        };
        let published = self.publish(spec, end);
        let ended = ended?;
        published?;
        Ok(match ended {
            Ended::Stopped(stop) => SpecEnd::Stopped(stop),
            Ended::By(end) => {
                if matches!(end, SpecEnd::Done { .. } | SpecEnd::Removed) {
                    let state = &self.session.context.state;
                    PinnedGates::forget(state, &item)?;
                    forget_troubles(state, &item)?;
                    self.project.leave_for_good(self.session, &item)?;
                    let state = &self.session.context.state;
                    // What its runs left uncommitted stays known as theirs.
                    if BEFORE.load(state, &item)?.is_some_and(|before| before.left_nothing()) {
                        BEFORE.forget(state, &item)?;
                    }
                }
                end
            }
        })
    }

    /// Returns the markers of a spec that is done, not forced, and has nothing left to put in order.
    pub(super) fn plainly_done(&self, spec: &SpecPath) -> Option<Markers> {
        // One that cannot be read is looked at by itself.
        let markers = self.store.load(spec).ok()?;
        let is_done = markers.done.is_some() && heal(&markers).is_empty();
        (is_done && !self.options.forced.contains(spec)).then_some(markers)
    }

    /// Leaves a spec that is done as it is.
    pub(super) fn pass_over(
        &mut self,
        spec: &SpecPath,
        markers: &Markers,
    ) -> Result<SpecEnd, WorkflowError> {
        let item = spec.run_id();
        let changed_since = list::changed_since_done(&self.store, spec, markers)?;
        RESULTS.forget(&self.session.context.state, &item)?;
        self.session.questions().withdraw(&item)?;
        if self.project.slot_base(self.session, &item)?.is_some() {
            // A person decided on it while no Ralph was at work.
            self.project.leave_for_good(self.session, &item)?;
        }
        self.skip(spec, Skip::Done { changed_since })
    }

    pub(super) fn skip(&mut self, spec: &SpecPath, skip: Skip) -> Result<SpecEnd, WorkflowError> {
        let reason = skip.reason();
        self.session.record(SpecSkipped { spec: spec.to_string(), reason })?;
        Ok(SpecEnd::Skipped(skip))
    }

    /// Takes up what the person changed in home, completes what a crash cut short, and reads the markers.
    pub(super) fn heal(&mut self, spec: &SpecPath) -> Result<Markers, WorkflowError> {
        self.project.sync(self.session)?;
        let markers = self.store.load(spec)?;
        let writes = heal(&markers);
        if writes.is_empty() {
            return Ok(markers);
        }
        self.write(spec, &writes, "is repaired")?;
        self.store.load(spec)
    }

    /// Prepares a spec that is about to be worked on: forced, or with its attempts reset.
    fn begin(
        &mut self,
        spec: &SpecPath,
        markers: &Markers,
        forced: bool,
    ) -> Result<(), WorkflowError> {
        let item = spec.run_id();
        let fact = if forced {
            RESULTS.forget(&self.session.context.state, &item)?;
            self.session.questions().withdraw(&item)?;
            let number = self.store.next_done_archive(spec);
            Fact::Forced { number, base: self.project.repositories.base()? }
        } else if self.options.renewed.contains(spec) {
            let base = match &markers.plan {
                Some(plan) => self.project.repositories.moved_base(&plan.base)?,
                None => None,
            };
            Fact::BudgetRenewed { base }
        } else {
            return Ok(());
        };
        forget_troubles(&self.session.context.state, &item)?;
        let writes = settle(markers, &fact, self.now())?;
        let message = if forced { "starts over" } else { "attempt count reset" };
        self.write(spec, &writes, message)
    }

    /// Commits what is in flight of a spec to the branch: work on it has ended for now.
    fn publish(&mut self, spec: &SpecPath, end: &str) -> Result<(), WorkflowError> {
        let message = format!("ralph: {} {}", spec.id(), end.replace('_', " "));
        let judged = judged_files(spec);
        self.project.publish(self.session, &message, &judged.each_ref().map(|path| &**path))
    }

    /// Performs writes, and commits the files that they changed.
    fn write(
        &mut self,
        spec: &SpecPath,
        writes: &[Write],
        message: &str,
    ) -> Result<(), WorkflowError> {
        let store = &self.store;
        // What an agent noted for the next one goes along.
        let mut files = store.memory();
        files.extend(writes.iter().flat_map(|write| store.files_of(spec, write)));
        let perform = || writes.iter().try_for_each(|write| store.perform(spec, write));
        let message = format!("ralph: {} {message}", spec.id());
        let spec = Some(spec.to_string());
        self.project.write_and_commit(self.session, files, perform, &message, spec)
    }
}

impl<'s> Workflow<'s> for SpecWork<'_, '_, 's> {
    type End = SpecEnd;

    fn session(&mut self) -> &mut Session<'s> {
        self.pipeline.session
    }

    fn item(&self) -> Option<String> {
        Some(self.item.clone())
    }

    fn subject(&self) -> Subject {
        subject(self.spec, &self.item, self.phase)
    }

    fn failure(&self) -> Option<&'static str> {
        self.failure
    }

    /// Returns the spec's result, unless its files have it already.
    fn pending(&mut self) -> Result<Option<RunResult>, WorkflowError> {
        let state = &self.pipeline.session.context.state;
        let Some(result) = RESULTS.load(state, &self.item)? else { return Ok(None) };
        let markers = self.pipeline.store.load(self.spec)?;
        let known = markers.plan.as_ref().and_then(|plan| plan.settled_run.as_deref());
        if known == Some(result.run.as_str()) || markers.done.is_some() {
            RESULTS.forget(state, &self.item)?;
            return Ok(None);
        }
        Ok(Some(result))
    }

    fn next(&mut self) -> Result<WorkflowStep<SpecEnd>, WorkflowError> {
        match self.next_step() {
            Err(error @ WorkflowError::Spec(_)) => {
                self.after_persons_word(error).map(WorkflowStep::Turn)
            }
            step => step,
        }
    }

    fn ended(&mut self, _: RunReport, result: &RunResult) -> Result<(), WorkflowError> {
        self.note_left(result)
    }

    fn conclude(&mut self, result: &RunResult) -> Result<Turn<SpecEnd>, WorkflowError> {
        match self.conclude_run(result) {
            Err(WorkflowError::Spec(_)) => {
                self.after_persons_word(WorkflowError::NotHere { id: self.spec.id().to_owned() })
            }
            turn => turn,
        }
    }

    fn discard(&mut self, result: &RunResult, void: Void) -> Result<(), WorkflowError> {
        self.discard_run(result, void)
    }

    fn has_lost_work(&mut self, result: &RunResult) -> Result<bool, WorkflowError> {
        self.pipeline.project.has_lost_clone(self.pipeline.session, result)
    }

    fn take_up_newer(&mut self) -> Result<(), WorkflowError> {
        self.pipeline.project.take_up_newer(self.pipeline.session)
    }

    fn mend_clone(&mut self, error: &WorkflowError) -> Result<bool, WorkflowError> {
        let pipeline = &mut *self.pipeline;
        let is_anew = pipeline.project.mend_clone(pipeline.session, error)?;
        if is_anew {
            pipeline.store.forget_sessions(self.spec)?;
        }
        Ok(is_anew)
    }

    /// A spec that has nothing left to try does not wait for its next try.
    fn tries_again(&mut self) -> Result<bool, WorkflowError> {
        let markers = self.pipeline.store.load(self.spec)?;
        let action = next(&markers, self.pipeline.options.limits());
        Ok(!matches!(action, Action::GiveUp(_)))
    }
}

impl SpecWork<'_, '_, '_> {
    fn next_step(&mut self) -> Result<WorkflowStep<SpecEnd>, WorkflowError> {
        let markers = self.pipeline.heal(self.spec)?;
        if self.is_removed(&markers)? {
            self.note("the spec was removed; work on it ends".to_owned())?;
            return Ok(WorkflowStep::Turn(Turn::End(SpecEnd::Removed)));
        }
        let digest = list::digest(&self.pipeline.store, self.spec)?;
        let last = self.last_spec.replace(digest.clone());
        if last.is_some_and(|last| last != digest) {
            self.note("you changed the spec during the run; the next run uses it".to_owned())?;
        }
        match next(&markers, self.pipeline.options.limits()) {
            Action::Skip => Ok(WorkflowStep::Turn(Turn::End(done_end(&markers)))),
            Action::Adopt { number } => self.adopt(number).map(WorkflowStep::Turn),
            Action::Plan { number, replan } => self.plan(&markers, number, replan.as_ref()),
            Action::Implement { feedback } => self.implement(&markers, feedback.as_deref()),
            Action::Verify { commit, no_change } => {
                self.verify(&markers, &commit, no_change.as_deref())
            }
            Action::AskPerson { question } => {
                self.ask_person(&markers, question).map(WorkflowStep::Turn)
            }
            Action::GiveUp(why) => {
                let tries = markers.plan.map(|plan| plan.tries).unwrap_or_default();
                let reason = match why {
                    GiveUp::AttemptsSpent => "max attempts exceeded".to_owned(),
                    GiveUp::Repetition { times } => format!("the same result {times} times"),
                };
                self.tell(|spec| SpecFailed { spec, reason })?;
                Ok(WorkflowStep::Turn(Turn::End(SpecEnd::Failed { why, tries })))
            }
        }
    }

    /// Tells whether the person has removed the spec.
    pub(super) fn is_removed(&self, markers: &Markers) -> Result<bool, WorkflowError> {
        Ok(self.pipeline.store.text(self.spec.as_str())?.is_none() && markers.done.is_none())
    }

    /// Continues after a fact that no longer fits, because a person marked the spec as done meanwhile: their decision
    /// takes precedence.
    fn after_persons_word(&mut self, error: WorkflowError) -> Result<Turn<SpecEnd>, WorkflowError> {
        if self.pipeline.store.load(self.spec)?.done.is_none() {
            return Err(error);
        }
        self.note("it was marked as done during the run; the run's work is kept".to_owned())?;
        Ok(Turn::Again)
    }

    /// Takes a plan that a person wrote.
    fn adopt(&mut self, number: u32) -> Result<Turn<SpecEnd>, WorkflowError> {
        let base = self.pipeline.project.repositories.base()?;
        self.settle(&Fact::PlanAdopted { number, base }, "uses the plan written by hand")?;
        let store = &self.pipeline.store;
        let plan_file = store.relative_to_home(&store.path(self.spec.plan_md()));
        self.tell(|spec| PlanAdopted { spec, plan_file })?;
        Ok(Turn::Again)
    }

    fn ask_person(
        &mut self,
        markers: &Markers,
        question: String,
    ) -> Result<Turn<SpecEnd>, WorkflowError> {
        let item = self.item.clone();
        let session = &mut *self.pipeline.session;
        if let Some(answered) = session.journal.board().answered(&item).cloned() {
            let answer = answered.answer.unwrap_or_default();
            let reason = answer.clone();
            self.tell(|spec| PersonAnswered { spec: Some(spec), task: None, reason })?;
            self.take_answer(markers, &answer)?;
            // After acting on it: an answer that was taken before a crash would be lost.
            self.pipeline.session.questions().take_answer(&item)?;
            return Ok(Turn::Again);
        }
        let candidate =
            markers.candidate.as_ref().and_then(|record| record.candidate_commit.clone());
        if let Some(commit) = candidate.clone().filter(|_| PersonQuestion::can_be_fixed(&question))
            && let Some(turn) = self.judge_again(markers, commit)?
        {
            return Ok(turn);
        }
        let commit = candidate.map(String::from);
        let session = &mut *self.pipeline.session;
        session.questions().ask(&item, &question, QuestionKind::Accept, commit.as_deref())?;
        let asked = question.clone();
        self.tell(|spec| PersonNeeded { spec: Some(spec), task: None, question: asked })?;
        Ok(Turn::Stop(Stop::Waiting { item, question, asked: QuestionKind::Accept }))
    }

    /// Writes what a fact comes to, and commits home.
    pub(super) fn settle(&mut self, fact: &Fact, message: &str) -> Result<(), WorkflowError> {
        let markers = self.pipeline.store.load(self.spec)?;
        let writes = settle(&markers, fact, self.pipeline.now())?;
        self.pipeline.write(self.spec, &writes, message)
    }

    /// Records an event that names the spec.
    pub(super) fn tell<E: Into<JournalEvent>>(
        &mut self,
        event: impl FnOnce(String) -> E,
    ) -> Result<(), WorkflowError> {
        Ok(self.pipeline.session.record(event(self.spec.to_string()))?)
    }

    pub(super) fn note(&mut self, reason: String) -> Result<(), WorkflowError> {
        self.tell(|spec| Note { spec: Some(spec), task: None, reason })
    }

    /// Returns the gates as they were pinned; a person's change since then is taken up and recorded.
    pub(super) fn pin(&mut self) -> Result<(), WorkflowError> {
        let subject = subject(self.spec, &self.item, self.phase);
        self.pinned = self.pipeline.session.pin(&self.item, subject)?;
        let spec = self.pipeline.store.text(self.spec.as_str())?.unwrap_or_default();
        self.pinned.allow.extend(allow_lines(&spec));
        Ok(())
    }

    /// Returns what there was before the last run that could write, or at least where work began.
    pub(super) fn before(&self) -> Result<BeforeAll, WorkflowError> {
        if let Some(before) = BEFORE.load(&self.pipeline.session.context.state, &self.item)? {
            return Ok(before);
        }
        let base = self.base()?;
        self.pipeline.project.repositories.note(&base)
    }

    /// Returns where work on the spec began.
    pub(super) fn base(&self) -> Result<Base, WorkflowError> {
        let pipeline = &self.pipeline;
        if let Some(base) = pipeline.project.slot_base(pipeline.session, &self.item)? {
            return Ok(base);
        }
        let plan = self.pipeline.store.load(self.spec)?.plan;
        Ok(plan.map(|plan| plan.base).unwrap_or_default())
    }
}

fn subject(spec: &SpecPath, item: &str, phase: Option<Phase>) -> Subject {
    Subject { spec: Some(spec.to_string()), item: Some(item.to_owned()), phase }
}

/// Returns the files of home by which work on a spec is done and judged, whoever wrote them.
pub(super) fn judged_files(spec: &SpecPath) -> [Utf8PathBuf; 2] {
    [spec.as_str().to_owned(), spec.plan_md()].map(|path| Utf8PathBuf::from(SPECS).join(path))
}

fn done_end(markers: &Markers) -> SpecEnd {
    let done = markers.done.clone().unwrap_or_default();
    let level = done.proof.as_deref().and_then(LandedLevel::from_text);
    let level = level.unwrap_or(LandedLevel::NOT_PROVEN);
    SpecEnd::Done { commit: done.commit.map(String::from), level }
}
