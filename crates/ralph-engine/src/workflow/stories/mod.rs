//! `ralph run`: the stories of the PRD, one failing story per iteration, the lowest priority first.
//!
//! [`store`] reads the PRD and keeps how far the judgement of each story has come; [`runs`] makes the task of an agent,
//! [`conclude`] draws the conclusions of its run, [`judging`] has the judge decide on a claim, [`landing`] puts accepted
//! work on the PRD's branch, and [`person`] settles what needs a person. [`notes`] is what agents remember.
//!
//! Stories come from the person's checkout, `passes` from the tip of the branch. That a story passes is an agent's to
//! claim and the harness's to say.

mod conclude;
mod judging;
mod landing;
mod notes;
mod person;
mod runs;
mod store;

use camino::Utf8PathBuf;
use ralph_model::journal::{IterationResult, JournalEvent, Note, StepResult};
use ralph_model::role::Role;
use ralph_model::run::RunOutcome;
use ralph_model::story::{StoryFact, StoryState};

use self::runs::OPINION;
use self::store::{STORIES, StoryHealing};
use super::driver::{Ended, Subject, Turn, Void, Workflow, WorkflowStep, drive, forget_troubles};
use super::pause::RoundPause;
use super::project::Project;
use super::{WorkflowError, equal_claims};
use crate::ask::AskPerson;
use crate::git::commits::Signing;
use crate::run::{RESULTS, RunReport, RunResult};
use crate::session::Session;
use crate::workflow::review::{MeasuredWork, REVIEW};

/// The name of the workflow in the results of its runs.
const WORKFLOW: &str = "run";

/// What `run` was asked for.
#[derive(Clone, Debug)]
pub struct StoriesOptions {
    /// How many runs there are at most.
    pub iterations: u32,
    /// What is between two iterations.
    pub pause: RoundPause,
    /// The PRD, named from home.
    pub prd: Utf8PathBuf,
    /// The branch that stories are implemented on.
    pub branch: String,
    /// Where work may change files: directories, which end in `/`, and files. Empty: anywhere.
    pub allowed: Vec<String>,
}

/// How the run ended by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoriesEnd {
    /// All stories pass.
    Complete,
    /// All iterations are used, and stories fail.
    OutOfIterations { failing: usize },
    /// The person would rather stop here.
    Quit,
}

impl StoriesEnd {
    /// Returns how the log names it.
    pub const fn name(&self) -> &'static str {
        match self {
            StoriesEnd::Complete => "complete",
            StoriesEnd::OutOfIterations { .. } => "out_of_iterations",
            StoriesEnd::Quit => "quit",
        }
    }
}

/// The implementation of a PRD.
pub struct Stories<'r, 's> {
    session: &'r mut Session<'s>,
    project: &'r mut Project,
    person: &'r mut dyn AskPerson,
    options: StoriesOptions,
    signing: Signing,
    /// How many iterations there were.
    used: u32,
    /// An iteration has ended since the last pause.
    pauses: bool,
    /// What the next step is for.
    item: Option<String>,
    /// The current iteration, until its result is recorded.
    step: Option<IterationResult>,
    /// Of work that waits for a verifier's word.
    measured: MeasuredWork,
}

impl<'r, 's> Stories<'r, 's> {
    pub fn new(
        session: &'r mut Session<'s>,
        project: &'r mut Project,
        person: &'r mut dyn AskPerson,
        options: StoriesOptions,
    ) -> Stories<'r, 's> {
        let signing = Signing::allowed(session.context.config.git.sign);
        let (used, pauses, item, step) = (0, false, None, None);
        let measured = MeasuredWork::default();
        Stories { session, project, person, options, signing, used, pauses, item, step, measured }
    }

    /// Has stories tried again that were rejected or in trouble too often: a person wants it.
    pub fn renew(&mut self) -> Result<(), WorkflowError> {
        self.project.sync(self.session)?;
        for (item, _) in self.failing()? {
            forget_troubles(&self.session.context.state, &item)?;
            if matches!(self.state_of(&item)?, StoryState::Exhausted { .. }) {
                self.settle(&item, &StoryFact::Retried { advice: None })?;
                equal_claims::forget(&self.session.context.state, &item)?;
                self.session.questions().withdraw(&item)?;
            }
        }
        Ok(())
    }

    /// Goes from story to story.
    pub fn run(&mut self) -> Result<Ended<StoriesEnd>, WorkflowError> {
        self.project.committer.prepare()?;
        self.return_after_kill()?;
        self.commit_prd()?;
        self.withdraw_settled_questions()?;
        let ended = drive(self);
        // Whatever came of it: between two workflows everything is committed. But a run in place that is still to be judged
        // may have worked on another branch, and the one that it began on takes that in only if it has not moved.
        if !self.project.is_in_place() || self.pending()?.is_none() {
            self.publish()?;
        }
        let ended = ended?;
        self.project.follow_at_end(self.session)?;
        self.session.ending = Some(match &ended {
            Ended::By(end) => end.name(),
            Ended::Stopped(stop) => stop.name(),
        });
        Ok(ended)
    }

    /// Returns to the branches that the last implementer began on, if its Ralph died in the middle of the run.
    fn return_after_kill(&mut self) -> Result<(), WorkflowError> {
        if RESULTS.all(&self.session.context.state)?.is_empty() {
            self.project.is_where_work_began(self.session, Role::Implementer)?;
        }
        Ok(())
    }

    /// No answer is needed about a story that passes, was changed or removed.
    fn withdraw_settled_questions(&mut self) -> Result<(), WorkflowError> {
        let prefix = self.items();
        let open = self.session.journal.board().open_questions();
        let open = open.map(|question| question.item.clone());
        let open: Vec<String> = open.filter(|item| item.starts_with(&prefix)).collect();
        for item in open {
            if matches!(self.state_of(&item)?, StoryState::NotFailing | StoryState::Open) {
                self.session.questions().withdraw(&item)?;
            }
        }
        Ok(())
    }

    fn tell(&mut self, event: impl Into<JournalEvent>) -> Result<(), WorkflowError> {
        Ok(self.session.record(event)?)
    }

    fn note(&mut self, reason: impl Into<String>) -> Result<(), WorkflowError> {
        self.tell(Note { spec: None, task: self.item.clone(), reason: reason.into() })
    }

    /// Records the result of the current iteration, once.
    fn end_step(
        &mut self,
        result: StepResult,
        reason: Option<String>,
    ) -> Result<(), WorkflowError> {
        let Some(step) = self.step.take() else { return Ok(()) };
        self.tell(IterationResult { result, reason, ..step })
    }

    fn next_step(&mut self) -> Result<WorkflowStep<StoriesEnd>, WorkflowError> {
        self.project.sync(self.session)?;
        let failing = self.failing()?;
        let prefix = self.items();
        self.project.leave_decided(self.session, |item| {
            item.starts_with(&prefix) && !failing.iter().any(|(known, _)| known == item)
        })?;
        let Some((item, story)) = failing.first().cloned() else {
            return Ok(WorkflowStep::Turn(Turn::End(StoriesEnd::Complete)));
        };
        self.item = Some(item.clone());
        match self.heal(&item)? {
            StoryHealing::Nothing => {}
            StoryHealing::Writes => return Ok(WorkflowStep::Turn(Turn::Progress)),
            StoryHealing::Refused => return Ok(WorkflowStep::Turn(Turn::Again)),
        }
        let turn = match self.state_of(&item)? {
            StoryState::Open => {
                if self.used >= self.options.iterations {
                    let end = StoriesEnd::OutOfIterations { failing: failing.len() };
                    return Ok(WorkflowStep::Turn(Turn::End(end)));
                }
                match self.pause() {
                    Some(turn) => turn,
                    None => return self.implement(&item, &story),
                }
            }
            StoryState::NoChange { reason } => return self.ask_for_opinion(&item, &story, &reason),
            StoryState::NoChangeReviewed { reason, opinion } => {
                self.decide_no_change(&item, reason, opinion)?
            }
            StoryState::Undecided { works, .. } => {
                if self.is_review_wanted(&item, &works)? {
                    return self.ask_for_review(&item, &story);
                }
                self.judge_again(&item, &works)?
            }
            StoryState::Exhausted { times, last } => self.decide_retry(&item, times, &last)?,
            // It was failing a moment ago.
            StoryState::NotFailing | StoryState::Accepted => Turn::Again,
        };
        Ok(WorkflowStep::Turn(turn))
    }

    /// Pauses, unless no iteration has ended since the last pause.
    fn pause(&mut self) -> Option<Turn<StoriesEnd>> {
        if !std::mem::take(&mut self.pauses) {
            return None;
        }
        let question = "Continue with the next iteration?";
        self.options.pause.take(self.session, self.person, question, StoriesEnd::Quit)
    }
}

impl<'s> Workflow<'s> for Stories<'_, 's> {
    type End = StoriesEnd;

    fn session(&mut self) -> &mut Session<'s> {
        self.session
    }

    fn item(&self) -> Option<String> {
        self.item.clone()
    }

    fn subject(&self) -> Subject {
        Subject { item: self.item.clone(), ..Subject::default() }
    }

    /// Returns the oldest result for a story of this branch that is not recorded.
    fn pending(&mut self) -> Result<Option<RunResult>, WorkflowError> {
        let context = &self.session.context;
        let (prefix, home) = (self.items(), context.home_path());
        let mut results = RESULTS.all(&context.state)?;
        // Several homes can share the private state of a workspace; logs are in the home that a run belongs to.
        results.retain(|result| {
            result.workflow == WORKFLOW
                && result.item.starts_with(&prefix)
                && result.dir.starts_with(home)
        });
        results.sort_by_key(|result| result.at);
        for result in results {
            let record = STORIES.load(&context.state, &result.item)?;
            if record.is_some_and(|record| record.settled_run.as_ref() == Some(&result.run)) {
                RESULTS.forget(&context.state, &result.item)?;
                continue;
            }
            self.item = Some(result.item.clone());
            return Ok(Some(result));
        }
        Ok(None)
    }

    fn next(&mut self) -> Result<WorkflowStep<StoriesEnd>, WorkflowError> {
        self.next_step()
    }

    fn is_claim(&self, result: &RunResult) -> bool {
        result.role == Role::Implementer && self.has_touched_passes_alone(result)
    }

    /// Notes what an implementer left, for the next run of its story.
    fn ended(&mut self, _: RunReport, result: &RunResult) -> Result<(), WorkflowError> {
        if result.role != Role::Implementer {
            return Ok(());
        }
        self.project.repositories.note_left(&self.session.context.state, &result.item)
    }

    fn conclude(&mut self, result: &RunResult) -> Result<Turn<StoriesEnd>, WorkflowError> {
        self.project.sync(self.session)?;
        let turn = match (result.item.strip_suffix(OPINION), result.item.strip_suffix(REVIEW)) {
            (Some(item), _) if result.role == Role::Verifier => {
                self.conclude_opinion(item, result)?
            }
            (_, Some(item)) if result.role == Role::Verifier => {
                self.conclude_review(item, result)?
            }
            _ => {
                self.pauses = true;
                self.project.enter(self.session, &result.item)?;
                self.conclude_implementer(&result.item, result)?
            }
        };
        let step = match &turn {
            Turn::Progress | Turn::Again => StepResult::Progress,
            Turn::Failed => StepResult::Failed,
            Turn::Trouble(_) => StepResult::Trouble,
            Turn::Stop(_) | Turn::End(_) => StepResult::Stopped,
        };
        self.end_step(step, None)?;
        if result.outcome == RunOutcome::Completed && !matches!(turn, Turn::Trouble(_)) {
            forget_troubles(&self.session.context.state, &result.item)?;
        }
        Ok(turn)
    }

    fn discard(&mut self, result: &RunResult, void: Void) -> Result<(), WorkflowError> {
        if result.role == Role::Implementer {
            if matches!(result.outcome, RunOutcome::Trouble { .. }) && void == Void::Ended {
                // Trouble costs no iteration.
                self.used = self.used.saturating_sub(1);
            }
            // Without notes: nothing follows from this run, also if a result is there that could not be made durable.
            self.project.return_to_branches(self.session, &result.item)?;
            if void == Void::Resumed {
                self.begin(&result.item)?;
            }
        }
        self.end_step(StepResult::Trouble, None)
    }

    fn work_left(&self, _: &str) -> Option<String> {
        self.project.repositories.print().ok()
    }

    fn has_lost_work(&mut self, result: &RunResult) -> Result<bool, WorkflowError> {
        self.project.has_lost_clone(self.session, result)
    }

    fn take_up_newer(&mut self) -> Result<(), WorkflowError> {
        self.project.take_up_newer(self.session)
    }

    fn mend_clone(&mut self, error: &WorkflowError) -> Result<bool, WorkflowError> {
        self.project.mend_clone(self.session, error)
    }

    /// A run that is about to end, or to ask a person, does not wait first.
    fn tries_again(&mut self) -> Result<bool, WorkflowError> {
        let Some((item, _)) = self.failing()?.into_iter().next() else { return Ok(false) };
        let is_open = self.state_of(&item)? == StoryState::Open;
        Ok(is_open && self.used < self.options.iterations)
    }
}
