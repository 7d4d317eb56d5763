//! The one loop of all workflows: conclude the result that is pending, or else do what is next.
//!
//! A workflow says what is next and what follows from a run ([`Workflow`]). Everything that is the same for all of them
//! is here: usage limits are waited for, budgets are checked before each run, failures are paced, trouble is bounded,
//! and an interruption is recorded once. A result that a killed Ralph left is concluded by the same code as one that
//! has just come in, so there is no second way of continuing.
//!
//! A result is pending from before the journal has the end of its run until the workflow has recorded what follows from
//! it. [`Workflow::pending`] leaves out results of runs that are recorded as settled.

use ralph_model::journal::{JournalEvent, Note, QuestionKind, TroubleMet};
use ralph_model::pipeline::Phase;
use ralph_model::policy::budget::BudgetExhausted;
use ralph_model::policy::limit::{LimitHolder, LimitWait, MOST_LIMITS_IN_A_ROW};
use ralph_model::policy::trouble::TroubleStreak;
use ralph_model::run::{RunOutcome, Trouble};
use serde::{Deserialize, Serialize};

use super::start_gates::before_first_run;
use super::{WorkflowError, equal_claims, interruption_or_trouble};
use crate::boundary::persons_side::PersonsSide;
use crate::defect::{Defect, is_put_back};
use crate::files::PathError;
use crate::run::{RESULTS, RunReport, RunResult};
use crate::session::{AgentTask, Session};
use crate::state::{Entry, State};
use crate::wait::Waited;

/// Why a workflow stopped before its end.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    Interrupted,
    /// The usage limit is in force, and waiting is disabled.
    Limited {
        agent: String,
        wait: LimitWait,
    },
    OutOfBudget(BudgetExhausted),
    /// The same trouble three times in a row.
    Stuck {
        trouble: Trouble,
    },
    /// Too much trouble on one item, whatever its kind.
    TooMuchTrouble {
        trouble: Trouble,
        times: u32,
    },
    /// Something changed during a run, and only a person can say whether it was theirs.
    Unexplained {
        item: String,
        question: String,
    },
    /// A person has to decide.
    Waiting {
        item: String,
        question: String,
        asked: QuestionKind,
    },
    /// A person was asked whether an item is to be tried again, and said no.
    Declined {
        item: String,
    },
}

impl Stop {
    /// Returns how the log names it.
    pub const fn name(&self) -> &'static str {
        match self {
            Stop::Interrupted => "interrupted",
            Stop::Limited { .. } => "limited",
            Stop::OutOfBudget(_) => "out_of_budget",
            Stop::Stuck { .. } | Stop::TooMuchTrouble { .. } => "stuck",
            Stop::Waiting { .. } | Stop::Unexplained { .. } => "waiting",
            Stop::Declined { .. } => "declined",
        }
    }
}

/// How a workflow ended: by itself, or stopped.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended<E> {
    By(E),
    Stopped(Stop),
}

/// What follows from one turn of the loop.
pub(crate) enum Turn<E> {
    Again,
    /// Work was done: failures in a row are over.
    Progress,
    /// The work failed: try again after a pause.
    Failed,
    /// Something got in the way: try the same again after a pause.
    Trouble(Trouble),
    Stop(Stop),
    End(E),
}

/// The next step of a workflow.
pub(crate) enum WorkflowStep<E> {
    Run(Box<AgentTask>),
    /// No agent was needed.
    Turn(Turn<E>),
}

/// What becomes of the place that a run worked in when nothing follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Void {
    /// The run has ended.
    Ended,
    /// The same step continues when its usage limit has ended.
    Resumed,
}

/// What an event of the loop is about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subject {
    pub spec: Option<String>,
    pub item: Option<String>,
    pub phase: Option<Phase>,
}

/// A workflow, as the loop sees it.
pub(crate) trait Workflow<'s> {
    type End;

    fn session(&mut self) -> &mut Session<'s>;

    /// Returns what the next step is for. Trouble is counted by it.
    fn item(&self) -> Option<String>;

    /// Returns what the loop's events are about.
    fn subject(&self) -> Subject;

    /// Returns why the last attempt failed, in a word that the log has for it.
    fn failure(&self) -> Option<&'static str> {
        None
    }

    /// Returns the result that is not recorded yet, if there is one.
    fn pending(&mut self) -> Result<Option<RunResult>, WorkflowError>;

    /// Returns what is next. What needs no agent is done here.
    fn next(&mut self) -> Result<WorkflowStep<Self::End>, WorkflowError>;

    /// Tells whether what a run changed of Ralph's files is how its agent makes a claim: that raises no question.
    fn is_claim(&self, _result: &RunResult) -> bool {
        false
    }

    /// Notes what a run left, before anything follows from it. Not called for a result of an earlier process.
    fn ended(&mut self, _report: RunReport, _result: &RunResult) -> Result<(), WorkflowError> {
        Ok(())
    }

    /// Records what follows from a run. Called again for the same result if it ends in trouble, or is cut short.
    fn conclude(&mut self, result: &RunResult) -> Result<Turn<Self::End>, WorkflowError>;

    /// Nothing follows from a run: it hit trouble, its usage limit, or was interrupted.
    fn discard(&mut self, result: &RunResult, void: Void) -> Result<(), WorkflowError>;

    /// Returns what tells one state of the work on an item from another, where claims that leave the same are bounded by that.
    fn work_left(&self, _item: &str) -> Option<String> {
        None
    }

    /// Returns the end of a workflow that does not try again after trouble.
    fn end_on_trouble(&self) -> Option<Self::End> {
        None
    }

    /// Makes the person's newer commits part of the tip, once they were checked together with landed work.
    fn take_up_newer(&mut self) -> Result<(), WorkflowError> {
        Ok(())
    }

    /// Recreates the clone of the item if an agent left it unusable; returns whether it was.
    fn mend_clone(&mut self, _error: &WorkflowError) -> Result<bool, WorkflowError> {
        Ok(false)
    }

    /// Tells whether what a run did is gone with the clone that it worked in. Asked once, of a result of an earlier process.
    fn has_lost_work(&mut self, _result: &RunResult) -> Result<bool, WorkflowError> {
        Ok(false)
    }

    /// Tells whether there will be another try, so that a pause before it makes sense.
    fn tries_again(&mut self) -> Result<bool, WorkflowError> {
        Ok(true)
    }
}

/// Troubles of one item, kept in private state so that a restart does not forget them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct TroubleCount {
    troubles: u32,
    last: Option<Trouble>,
}

const TROUBLES: Entry<TroubleCount> = Entry::new("troubles", "its troubles are counted from zero");

/// Resets the trouble count of an item: it is done, or a person allows another try.
pub(crate) fn forget_troubles(state: &State, item: &str) -> Result<(), PathError> {
    TROUBLES.forget(state, item)
}

/// What the loop remembers between turns. Losing it costs time, never truth.
#[derive(Default)]
struct Pace {
    failures: u32,
    /// Troubles in a row, whatever their kind.
    troubles: u32,
    streak: TroubleStreak,
}

/// Goes on with a workflow until it ends or is stopped.
pub(crate) fn drive<'s, W: Workflow<'s>>(workflow: &mut W) -> Result<Ended<W::End>, WorkflowError> {
    workflow.session().ending = None;
    let ended = turn_until_end(workflow);
    workflow.session().tell_damaged()?;
    let ended = ended?;
    let session = workflow.session();
    if matches!(ended, Ended::Stopped(Stop::Interrupted)) {
        session.record(JournalEvent::Interrupted)?;
    }
    session.ending = Some(match &ended {
        Ended::By(_) => "completed",
        Ended::Stopped(stop) => stop.name(),
    });
    Ok(ended)
}

fn turn_until_end<'s, W: Workflow<'s>>(workflow: &mut W) -> Result<Ended<W::End>, WorkflowError> {
    let mut pace = Pace::default();
    repeat_lost(workflow)?;
    loop {
        let turn = match advance(workflow, &mut pace) {
            Ok(turn) => turn,
            Err(WorkflowError::Unchecked { .. }) => match workflow.take_up_newer() {
                Ok(()) => Turn::Again,
                Err(error) => interruption_or_trouble(error)?,
            },
            Err(error) => match workflow.mend_clone(&error) {
                Ok(true) => Turn::Again,
                Ok(false) => interruption_or_trouble(error)?,
                Err(mending) => interruption_or_trouble(mending)?,
            },
        };
        let (failures, reason) = match turn {
            Turn::End(end) => return Ok(Ended::By(end)),
            Turn::Stop(stop) => return Ok(Ended::Stopped(stop)),
            Turn::Again => {
                if is_put_back(Defect::NeverBacksOff) {
                    pace.failures = 0;
                }
                continue;
            }
            Turn::Progress => {
                pace.failures = 0;
                workflow.session().spent.consecutive_failures = 0;
                continue;
            }
            Turn::Failed => {
                pace.failures += 1;
                let session = workflow.session();
                session.spent.fail();
                if let Some(what) = session.exhausted()? {
                    return Ok(Ended::Stopped(Stop::OutOfBudget(what)));
                }
                (pace.failures, workflow.failure())
            }
            Turn::Trouble(trouble) => {
                // What a person's signal ended as well was not in the way of anything.
                if workflow.session().is_asked_to_stop() {
                    return Ok(Ended::Stopped(Stop::Interrupted));
                }
                if let Some(end) = workflow.end_on_trouble() {
                    return Ok(Ended::By(end));
                }
                let crashed = matches!(trouble, Trouble::Crash { .. });
                if let Some(stop) = meet_trouble(workflow, &mut pace, trouble)? {
                    return Ok(Ended::Stopped(stop));
                }
                (pace.troubles, Some(if crashed { "nonzero_exit" } else { "exception" }))
            }
        };
        if workflow.tries_again()? {
            let subject = workflow.subject();
            if workflow.session().pause(failures, reason, subject)? == Waited::Interrupted {
                return Ok(Ended::Stopped(Stop::Interrupted));
            }
        }
    }
}

/// Counts a trouble and returns why the workflow stops, if it does.
fn meet_trouble<'s, W: Workflow<'s>>(
    workflow: &mut W,
    pace: &mut Pace,
    trouble: Trouble,
) -> Result<Option<Stop>, WorkflowError> {
    pace.troubles += 1;
    pace.streak.apply(&RunOutcome::Trouble { trouble: trouble.clone() });
    let Subject { spec, item, phase } = workflow.subject();
    let met = TroubleMet { spec, item, phase, reason: trouble.to_string() };
    let item = workflow.item();
    let session = workflow.session();
    session.record(met)?;
    let most = session.context.config.limits.troubles;
    let times = match item {
        None => pace.troubles,
        Some(item) => {
            let state = &session.context.state;
            let before = TROUBLES.load(state, &item)?.unwrap_or_default();
            let troubles = before.troubles.saturating_add(1);
            let count = TroubleCount { troubles, last: Some(trouble.clone()) };
            TROUBLES.save(state, &item, &count)?;
            count.troubles
        }
    };
    if times >= most && !is_put_back(Defect::NeverGivesUp) {
        return Ok(Some(Stop::TooMuchTrouble { trouble, times }));
    }
    if pace.streak.stops().is_some() {
        return Ok(Some(Stop::Stuck { trouble }));
    }
    Ok(None)
}

/// Has a run repeated that ended before this process began, if what it did is lost: its agent is not to blame.
fn repeat_lost<'s, W: Workflow<'s>>(workflow: &mut W) -> Result<(), WorkflowError> {
    let Some(result) = workflow.pending()? else { return Ok(()) };
    if !workflow.has_lost_work(&result)? {
        return Ok(());
    }
    let item = &result.item;
    let reason = format!(
        "the clone of {item} is gone, and with it the work of its last run: the run is repeated"
    );
    workflow.session().record(Note { reason, ..Note::default() })?;
    let result = workflow.session().record_missing_end(result)?;
    forget(workflow, &result)?;
    workflow.discard(&result, Void::Ended)
}

/// Takes one turn.
fn advance<'s, W: Workflow<'s>>(
    workflow: &mut W,
    pace: &mut Pace,
) -> Result<Turn<W::End>, WorkflowError> {
    let pending = workflow.pending()?;
    workflow.session().tell_damaged()?;
    if let Some(result) = pending.filter(|_| !is_put_back(Defect::RepeatsFinishedRuns)) {
        let result = workflow.session().record_missing_end(result)?;
        return conclude(workflow, pace, &result);
    }
    match workflow.next()? {
        WorkflowStep::Turn(turn) => Ok(turn),
        WorkflowStep::Run(task) => run(workflow, pace, &task),
    }
}

/// Runs an agent until it has ended for another reason than its usage limit, and records what follows.
fn run<'s, W: Workflow<'s>>(
    workflow: &mut W,
    pace: &mut Pace,
    task: &AgentTask,
) -> Result<Turn<W::End>, WorkflowError> {
    let session = workflow.session();
    // An item that had too much trouble before waits for a person to have it tried again.
    if let Some(item) = &task.item
        && let Some(TroubleCount { troubles: times, last: Some(trouble) }) =
            TROUBLES.load(&session.context.state, item)?
        && times >= session.context.config.limits.troubles
        && !is_put_back(Defect::NeverGivesUp)
    {
        return Ok(Turn::Stop(Stop::TooMuchTrouble { trouble, times }));
    }
    before_first_run(session)?;
    let launch = session.context.launch(task.role);
    let holder = launch.limit_holder.clone();
    let (traits, resumes) = (launch.adapter.traits(), launch.resumes());
    let subject = workflow.subject();
    let session = workflow.session();
    // A limit hit before a restart is still in force: hitting it again would only prolong it.
    if let Some(wait) = session.journal.board().limit_wait(&holder, session.context.clock.now())
        && let Some(stop) = sit_out(session, &holder, wait, subject.clone())?
    {
        return Ok(Turn::Stop(stop));
    }
    let mut after_limit: Option<String> = None;
    loop {
        let session = workflow.session();
        if let Some(what) = session.exhausted()? {
            return Ok(Turn::Stop(Stop::OutOfBudget(what)));
        }
        let persons = session.look_at_person();
        let (report, result) = session.run_once(task, after_limit.as_deref())?;
        let reached = reached(session, persons.as_ref());
        session.spent.run(&report.usage, report.cost_usd, report.elapsed);
        // A session is worth resuming if something had been done in it when the limit came.
        let worked = report.facts.tool_calls > 0 || report.facts.last_text.is_some();
        let used_tools = report.facts.tool_calls > 0;
        let left_session = report.facts.session.clone().filter(|_| worked && resumes);
        // Words may only look like a limit; what a structured stream or a status tells is one.
        let is_read =
            !traits.structured || report.facts.limit.is_none() && report.facts.retrying.is_none();
        workflow.ended(report, &result)?;
        if let Some(question) = reached {
            // The result stays pending: the next start concludes it.
            let item = task.item.clone().unwrap_or_default();
            let reason = question.clone();
            workflow.session().record(Note { reason, ..Note::default() })?;
            return Ok(Turn::Stop(Stop::Unexplained { item, question }));
        }
        if let Some(question) = question_of(workflow, &result) {
            return ask_once(workflow, &result, question);
        }
        let RunOutcome::Trouble { trouble: Trouble::UsageLimit { resets_at } } = result.outcome
        else {
            workflow.session().spent.iterations += 1;
            if result.outcome == RunOutcome::Interrupted {
                forget(workflow, &result)?;
                workflow.discard(&result, Void::Ended)?;
                return Ok(Turn::Stop(Stop::Interrupted));
            }
            return conclude(workflow, pace, &result);
        };
        let session = workflow.session();
        let waits = session.journal.board().limits_in_a_row(&holder);
        // The same run continues after the wait. One that hits its limit again at once is a new run.
        if waits > 0 && !worked {
            session.spent.iterations += 1;
        }
        if waits >= MOST_LIMITS_IN_A_ROW && (is_read || !worked) {
            workflow.discard(&result, Void::Ended)?;
            forget(workflow, &result)?;
            let message = if is_read {
                format!(
                    "its output still mentions a usage limit after {waits} waits; perhaps it only writes about one"
                )
            } else {
                format!("it still hit its usage limit after {waits} waits")
            };
            return Ok(Turn::Trouble(Trouble::Agent { message }));
        }
        let wait = session.begin_limit_wait(&holder, resets_at, used_tools && !is_read)?;
        forget(workflow, &result)?;
        let session = workflow.session();
        if let Some(stop) = sit_out(session, &holder, wait, subject.clone())? {
            workflow.discard(&result, Void::Ended)?;
            return Ok(Turn::Stop(stop));
        }
        workflow.discard(&result, Void::Resumed)?;
        after_limit = left_session.or(after_limit);
    }
}

/// Returns what to ask a person about if something of theirs changed during a run that nothing but a comparison kept away.
fn reached(session: &Session<'_>, before: Option<&PersonsSide>) -> Option<String> {
    let now = session.look_at_person()?;
    let changed = now.changes_since(before?, &session.context.workspace.root);
    let shown = changed.iter().take(10).cloned().collect::<Vec<_>>().join(", ");
    (!changed.is_empty()).then(|| {
        format!(
            "this changed on your side while the agent worked in its clone: {shown}. Without the kernel boundary Ralph cannot tell whether it was you. If it was, start again; if not, repair it first: nothing was reverted"
        )
    })
}

/// Returns what a person is to be asked before anything follows from a run.
fn question_of<'r, 's, W: Workflow<'s>>(workflow: &W, result: &'r RunResult) -> Option<&'r str> {
    result.question.as_deref().filter(|_| !workflow.is_claim(result))
}

/// Stops for a person to say whether what changed during a run was their doing. The next start concludes the result.
fn ask_once<'s, W: Workflow<'s>>(
    workflow: &mut W,
    result: &RunResult,
    question: &str,
) -> Result<Turn<W::End>, WorkflowError> {
    let session = workflow.session();
    // Told first: a crash between the two asks again.
    session.record(Note { reason: question.to_owned(), ..Note::default() })?;
    let asked = RunResult { question: None, ..result.clone() };
    RESULTS.save(&session.context.state, &result.item, &asked)?;
    let (item, question) = (result.item.clone(), question.to_owned());
    Ok(Turn::Stop(Stop::Unexplained { item, question }))
}

/// Records what follows from a run that is over.
fn conclude<'s, W: Workflow<'s>>(
    workflow: &mut W,
    pace: &mut Pace,
    result: &RunResult,
) -> Result<Turn<W::End>, WorkflowError> {
    if let Some(question) = question_of(workflow, result) {
        return ask_once(workflow, result, question);
    }
    match &result.outcome {
        // Ralph died before it could record these; the next step starts over, or waits.
        RunOutcome::Interrupted => {
            workflow.discard(result, Void::Ended)?;
            forget(workflow, result)?;
            Ok(Turn::Again)
        }
        RunOutcome::Trouble { trouble: Trouble::UsageLimit { resets_at } } => {
            let session = workflow.session();
            let mut holder = session.context.launch(result.role).limit_holder.clone();
            if holder.agent != result.agent {
                holder = LimitHolder { agent: result.agent.clone(), account: None };
            }
            session.begin_limit_wait(&holder, *resets_at, false)?;
            // Its session may be resumed, but as another step, which begins where the person left the branches.
            workflow.discard(result, Void::Ended)?;
            forget(workflow, result)?;
            Ok(Turn::Again)
        }
        RunOutcome::Trouble { trouble } => {
            workflow.discard(result, Void::Ended)?;
            forget(workflow, result)?;
            Ok(Turn::Trouble(trouble.clone()))
        }
        RunOutcome::Completed
        | RunOutcome::TimedOut { .. }
        | RunOutcome::ContextFull
        | RunOutcome::Withdrawn
        | RunOutcome::Violation { .. } => {
            let turn = workflow.conclude(result)?;
            if matches!(turn, Turn::Failed)
                && result.role.writes_workspace()
                && let Some(left) = workflow.work_left(&result.item)
            {
                let state = &workflow.session().context.state;
                equal_claims::count(state, &result.item, &result.run, &left)?;
            }
            // What could not be judged stays pending: the run itself is over, and is judged again.
            if !matches!(turn, Turn::Trouble(_)) {
                pace.streak = TroubleStreak::default();
                pace.troubles = 0;
                forget(workflow, result)?;
            }
            Ok(turn)
        }
    }
}

/// Forgets a result: the workflow's own files have what follows from it.
fn forget<'s, W: Workflow<'s>>(workflow: &mut W, result: &RunResult) -> Result<(), PathError> {
    if result.item.is_empty() {
        return Ok(());
    }
    RESULTS.forget(&workflow.session().context.state, &result.item)
}

/// Waits for a usage limit to end. Returns why the workflow stops, if it does.
fn sit_out(
    session: &mut Session<'_>,
    holder: &LimitHolder,
    wait: LimitWait,
    subject: Subject,
) -> Result<Option<Stop>, PathError> {
    Ok(match session.wait_for_limit(holder, wait, subject)? {
        None => Some(Stop::Limited { agent: holder.agent.clone(), wait }),
        Some(Waited::Interrupted) => Some(Stop::Interrupted),
        Some(Waited::Reached) => None,
    })
}
