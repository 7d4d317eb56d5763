//! `ralph exec "<goal>"`: the interview, then mapping if it is recommended, then the run; each by the person's consent.
//!
//! `ralph_model::goal::exec` decides the next step; this file asks, and records the answers in transcript and journal.
//! The caller starts the run itself: here it is only consented to.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ralph_model::goal::exec::{
    ComputedCap, Consent, ExecEnd, ExecProgress, ExecStep, IterationCap, Triggers, UnderstandMode,
};
use ralph_model::goal::{GoalState, decision};
use ralph_model::journal::{ConsentAsked, Note};
use ralph_model::prd::Prd;
use serde::{Deserialize, Serialize};

use super::interview::{Interview, InterviewEnd, Start};
use super::store::GoalStore;
use super::understand::{Understand, UnderstandEnd, UnderstandOptions, topics_in};
use crate::ask::{AskPerson, ConsentStep, Inquiry, NoReply};
use crate::session::Session;
use crate::state::Entry;
use crate::workflow::WorkflowError;
use crate::workflow::driver::{Ended, Stop};
use crate::workflow::overview::passing_on_branch;
use crate::workflow::pause::RoundPause;
use crate::workflow::project::Project;

/// The name of the workflow.
const WORKFLOW: &str = "exec";

/// The mapping that has ended since the PRD was approved, by the workflow's name.
const MAPPED: Entry<Mapped> = Entry::new("exec", "whether to map the code is asked again");

/// After a restart the mapping is not repeated.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Mapped {
    approved_prd_at: Timestamp,
}

/// What `exec` was asked for.
#[derive(Clone, Debug)]
pub struct ExecOptions {
    pub understand: UnderstandMode,
    pub understand_cap: IterationCap,
    pub run_cap: IterationCap,
    /// The prompt of mappers, whose topics serve where the map has none.
    pub understand_prompt: String,
    /// The branch that the person named instead of the PRD's; empty: the one that is checked out.
    pub branch: Option<String>,
}

/// What `exec` came to.
#[derive(Clone, Debug, PartialEq)]
pub enum ExecOutcome {
    /// The interview did not end with an approved PRD.
    Planning(Ended<InterviewEnd>),
    /// Mapping was stopped, or its mapper changed what it must not.
    Understanding(Ended<UnderstandEnd>),
    /// The person consented to a run of so many iterations.
    RunConsented {
        cap: ComputedCap,
    },
    Declined,
    AllPassing,
}

/// An `exec` at work.
pub struct Exec<'r, 's> {
    session: &'r mut Session<'s>,
    project: &'r Project,
    person: &'r mut dyn AskPerson,
    options: ExecOptions,
    store: GoalStore,
    /// An answer was written to the transcript that is not committed yet.
    has_asked: bool,
}

impl<'r, 's> Exec<'r, 's> {
    pub fn new(
        session: &'r mut Session<'s>,
        project: &'r Project,
        person: &'r mut dyn AskPerson,
        options: ExecOptions,
    ) -> Exec<'r, 's> {
        let store = GoalStore::new(session.context.home_path());
        Exec { session, project, person, options, store, has_asked: false }
    }

    /// Goes from step to step until it ends, or the person consents to a run.
    pub fn advance(&mut self, start: Start) -> Result<ExecOutcome, WorkflowError> {
        let outcome = self.take_steps(start)?;
        if std::mem::take(&mut self.has_asked) {
            // Between two commands everything is committed.
            let files = [self.store.transcript_path()];
            self.project.committer.commit_files(&files, "ralph: what you decided")?;
        }
        Ok(outcome)
    }

    fn take_steps(&mut self, start: Start) -> Result<ExecOutcome, WorkflowError> {
        let mut interview = Interview::open(self.session, self.project, self.person, start)?;
        let ended = interview.hold()?;
        let state = interview.into_state();
        if ended != Ended::By(InterviewEnd::Approved) {
            return Ok(ExecOutcome::Planning(ended));
        }
        let mapped = MAPPED.load(&self.session.context.state, WORKFLOW)?;
        let mut progress = ExecProgress {
            approved: Some(true),
            understood: mapped.is_some_and(|it| Some(it.approved_prd_at) == state.approved_prd_at),
            ..ExecProgress::default()
        };
        let triggers = self.triggers(&state)?;
        let asks = self.options.understand.asks(&triggers);
        loop {
            let map = self.store.map()?;
            let cap = self.options.understand_cap;
            let understand = cap.for_understand(&map, &self.options.understand_prompt);
            let (prd, branch) = self.stories()?;
            let run = self.options.run_cap.for_run(&prd);
            if asks && !understand.has_work() && progress.understand.is_none() {
                let reason = "no topics are left to map".to_owned();
                self.session.record(Note { reason, ..Note::default() })?;
                progress.understand = Some(Consent::Refused);
            }
            let consent = match progress.next(asks, &understand, &run) {
                ExecStep::Plan => unreachable!("the interview is over"),
                ExecStep::AskUnderstand { cap } => {
                    let mut reasons = triggers.explain();
                    reasons.push(format!("it takes {cap}"));
                    let question = "Run `ralph understand` now?";
                    self.ask(ConsentStep::Understand, &reasons, question)?
                }
                ExecStep::AskRun { cap } => {
                    let reasons = vec![format!("it takes {cap}, on the branch {branch}")];
                    self.ask(ConsentStep::Run, &reasons, "Start `ralph run` now?")?
                }
                ExecStep::Understand { cap } => {
                    let ended = self.understand(cap.iterations)?;
                    let goes_on = matches!(
                        ended,
                        Ended::By(
                            UnderstandEnd::Complete
                                | UnderstandEnd::OutOfIterations { .. }
                                | UnderstandEnd::Quit
                        )
                    );
                    if let Ended::By(UnderstandEnd::OutOfIterations { mapped, left }) = &ended {
                        let left = left.map_or(String::new(), |left| format!(", {left} left"));
                        let reason = format!("mapping: {mapped} topics mapped{left}");
                        self.session.record(Note { reason, ..Note::default() })?;
                    }
                    if !goes_on {
                        return Ok(ExecOutcome::Understanding(ended));
                    }
                    if let Some(approved_prd_at) = state.approved_prd_at {
                        let mapped = Mapped { approved_prd_at };
                        MAPPED.save(&self.session.context.state, WORKFLOW, &mapped)?;
                    }
                    progress.understood = true;
                    continue;
                }
                ExecStep::Run { cap } => return Ok(ExecOutcome::RunConsented { cap }),
                ExecStep::End(ExecEnd::NotApproved) => return Ok(ExecOutcome::Planning(ended)),
                ExecStep::End(ExecEnd::Declined) => return Ok(ExecOutcome::Declined),
                ExecStep::End(ExecEnd::AllPassing) => return Ok(ExecOutcome::AllPassing),
            };
            match consent {
                Ok((ConsentStep::Understand, consent)) => progress.understand = Some(consent),
                Ok((_, consent)) => progress.run = Some(consent),
                Err(NoReply::Interrupted) => {
                    return Ok(ExecOutcome::Planning(Ended::Stopped(Stop::Interrupted)));
                }
                Err(NoReply::Missing(missing)) => {
                    return Ok(ExecOutcome::Planning(Ended::By(InterviewEnd::Missing(missing))));
                }
            }
        }
    }

    /// Returns the stories with what passes on the branch that they are implemented on, and the name of that branch.
    fn stories(&self) -> Result<(Prd, String), WorkflowError> {
        let Some(prd) = self.store.prd()?.valid() else {
            return Err(WorkflowError::StateFile {
                path: self.store.prd_path(),
                reason:
                    "it has no stories any more, although a PRD was approved; restore it, or plan \
                         the goal again"
                        .to_owned(),
            });
        };
        let branch = match &self.options.branch {
            None => prd.branch_name.clone(),
            Some(named) if named.is_empty() => self.project.run_branch()?,
            Some(named) => named.clone(),
        };
        let context = &self.session.context;
        let (path, commits) = (self.store.prd_path(), context.config.git.commit_home);
        let (laid, _) = passing_on_branch(&context.git(), &path, prd, &branch, commits)?;
        Ok((laid, branch))
    }

    fn triggers(&self, state: &GoalState) -> Result<Triggers, WorkflowError> {
        let now = self.session.context.clock.now();
        let today = now.to_zoned(TimeZone::system()).date();
        Ok(Triggers::of(state, &self.store.map()?, today))
    }

    /// Asks for consent, and writes down what was answered.
    fn ask(
        &mut self,
        step: ConsentStep,
        reasons: &[String],
        question: &str,
    ) -> Result<Result<(ConsentStep, Consent), NoReply>, WorkflowError> {
        let inquiry = Inquiry { id: step.name(), context: reasons, question, consent: Some(step) };
        let granted = match self.person.confirm(&inquiry, false) {
            Ok(granted) => granted,
            Err(none) => return Ok(Err(none)),
        };
        let answer = if granted { "yes" } else { "no" };
        let entry = decision(self.session.context.clock.now(), question, reasons, answer);
        self.store.append_transcript(&entry)?;
        self.has_asked = true;
        let (step_name, reasons) = (step.name().to_owned(), reasons.to_vec());
        let answer = answer.to_owned();
        self.session.record(ConsentAsked { step: step_name, reasons, answer })?;
        Ok(Ok((step, if granted { Consent::Given } else { Consent::Refused })))
    }

    fn understand(&mut self, iterations: u32) -> Result<Ended<UnderstandEnd>, WorkflowError> {
        let listed = topics_in(&self.options.understand_prompt);
        let options = UnderstandOptions { iterations, listed, pause: RoundPause::default() };
        Understand::new(self.session, self.project, self.person, options).run()
    }
}
