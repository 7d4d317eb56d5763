//! Turns events of the loop's task into writes, in crash-safe order.
//!
//! A list of more than one write begins with a record that names the following writes, and ends with one that does not:
//! in between, [`heal`] returns the rest. Before the first write, the result of the run is still pending and the fact
//! is established again. Mailbox files are not written here: they mirror the record and are written before each run.

use super::decide::{IterationReport, LoopDecision, decide};
use super::{
    LoopBounds, LoopPhase, LoopPlace, LoopRecord, LoopStanding, LoopTask, PlanMark, words,
};
use crate::build::{Acceptance, Work};
use crate::id::RunId;

/// Something that happened to the loop's task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopFact {
    /// A person requested a task. `present` are the plan documents in the mailbox.
    Started {
        task: LoopTask,
        place: LoopPlace,
        present: Vec<PlanMark>,
    },
    /// The plan was checked before an iteration.
    PlanChecked {
        documents: Vec<PlanMark>,
        verdict: PlanVerdict,
    },
    /// A run ended properly, and there is nothing to judge.
    Ended {
        run: RunId,
        report: IterationReport,
    },
    /// A run was stopped by a limit, or did something its role must not do.
    CutShort {
        run: RunId,
        reason: String,
    },
    /// Evidence or gates reject the work. `before_work` means that nothing was built yet; such a failure is not
    /// counted. `touched` are the harness's files that the run changed.
    GatesFailed {
        run: Option<RunId>,
        gates: Vec<String>,
        feedback: String,
        before_work: bool,
        touched: Vec<String>,
    },
    /// The judge cannot decide on this work.
    Undecided {
        run: Option<RunId>,
        works: Vec<Work>,
        question: String,
    },
    Accepted {
        run: Option<RunId>,
        acceptance: Acceptance,
        summary: String,
    },
    /// The branch has moved, and accepted work no longer fits it.
    LandingRefused {
        why: String,
    },
    /// The same too often in a row: a person is asked.
    LandingStuck {
        question: String,
    },
    /// The merge of accepted work with what the branch has become is to be judged, too, before it lands.
    LandingUnsettled {
        question: String,
    },
    /// A verifier gave its opinion on the claim that nothing has to change.
    OpinionGiven {
        opinion: String,
    },
    /// A person answered the agent's question.
    Answered {
        answer: String,
    },
    /// A person rejects what they were asked about.
    Objected {
        answer: String,
    },
    /// A person lets the task continue after it was aborted or has used up its iterations.
    Resumed,
    /// A person rolls the task back.
    RolledBack,
}

/// The result of checking the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanVerdict {
    Absent,
    /// `report` has the findings, one per line.
    Invalid {
        plan: PlanMark,
        report: String,
    },
    Valid {
        plan: PlanMark,
        report: String,
    },
}

/// When a snapshot of the tree is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotPoint {
    Before,
    After,
}

/// One write. Each is atomic and idempotent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopWrite {
    Record(Box<LoopRecord>),
    /// Archives the plan documents of an earlier task.
    ArchivePlans {
        task: u32,
        files: Vec<String>,
    },
    /// Clears leftovers of an earlier task from the mailbox, and adds this one to the origin.
    BeginMailbox {
        task: LoopTask,
    },
    Snapshot {
        task: u32,
        point: SnapshotPoint,
    },
    /// Advances the branches on which its run began, or lands the work on the run's branch.
    AdvanceBranches {
        works: Vec<Work>,
    },
    AppendHistory {
        task: u32,
        what: String,
    },
    /// Removes the pinned gates and the recorded base of the task.
    ForgetBeginning {
        task: u32,
    },
    /// Reverts the task's work.
    RollBack {
        task: u32,
    },
}

/// A fact that cannot happen to the loop in this state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a loop that is {standing:?} cannot be {fact:?}")]
pub struct IllegalLoopFact {
    pub standing: Box<Option<LoopStanding>>,
    pub fact: Box<LoopFact>,
}

/// Returns the writes of a fact, in order, or refuses a fact that is illegal in this state.
pub fn settle(
    record: Option<&LoopRecord>,
    fact: &LoopFact,
    bounds: LoopBounds,
) -> Result<Vec<LoopWrite>, IllegalLoopFact> {
    let illegal = || IllegalLoopFact {
        standing: Box::new(record.map(|record| record.standing.clone())),
        fact: Box::new(fact.clone()),
    };
    if !is_legal(record, fact, bounds) {
        return Err(illegal());
    }
    if let LoopFact::Started { task, place, present } = fact {
        let beginning = begin(record, task, *place, present);
        let mut writes = vec![LoopWrite::Record(Box::new(beginning.clone()))];
        writes.extend(heal(&beginning));
        return Ok(writes);
    }
    let old = record.ok_or_else(illegal)?;
    let new = match fact {
        LoopFact::Started { .. } => return Err(illegal()),
        LoopFact::PlanChecked { documents, verdict } => plan_checked(old, documents, verdict),
        LoopFact::Ended { run, report } => ended(old, run, report, bounds),
        LoopFact::CutShort { run, reason } => {
            concluded(old, Some(run), with_feedback(old, words::cut_short(reason)))
        }
        LoopFact::GatesFailed { run, gates, feedback, before_work, touched } => {
            let failed = failed(old, gates, feedback.clone(), *before_work, bounds);
            LoopRecord { touched: touched.clone(), ..concluded(old, run.as_ref(), failed) }
        }
        LoopFact::Undecided { run, works, question } => {
            let (works, question) = (works.clone(), question.clone());
            concluded(old, run.as_ref(), at(old, LoopStanding::Undecided { works, question }))
        }
        LoopFact::Accepted { run, acceptance, summary } => {
            let (acceptance, summary) = (acceptance.clone(), summary.clone());
            concluded(old, run.as_ref(), at(old, LoopStanding::Accepted { acceptance, summary }))
        }
        LoopFact::LandingRefused { why } => LoopRecord {
            // Caused by others' changes, so it costs nothing.
            iterations: old.iterations.saturating_sub(1),
            landings_refused: old.landings_refused.saturating_add(1),
            standing: LoopStanding::Working,
            ..with_feedback(old, words::landing_refused(why))
        },
        LoopFact::LandingStuck { question } | LoopFact::LandingUnsettled { question } => {
            let LoopStanding::Accepted { acceptance, .. } = &old.standing else {
                return Err(illegal());
            };
            let (works, question) = (acceptance.works.clone(), question.clone());
            let is_stuck = matches!(fact, LoopFact::LandingStuck { .. });
            LoopRecord {
                landings_refused: if is_stuck { 0 } else { old.landings_refused },
                ..at(old, LoopStanding::Undecided { works, question })
            }
        }
        LoopFact::OpinionGiven { opinion } => {
            let LoopStanding::NoChange { reason } = &old.standing else { return Err(illegal()) };
            let (reason, opinion) = (reason.clone(), words::bounded(opinion));
            at(old, LoopStanding::NoChangeReviewed { reason, opinion })
        }
        LoopFact::Answered { answer } => {
            let LoopStanding::Waiting { question } = &old.standing else { return Err(illegal()) };
            heard(old, words::answer(question, answer))
        }
        LoopFact::Objected { answer } => heard(old, words::objection(answer)),
        LoopFact::Resumed => LoopRecord {
            iterations: 0,
            failures: 0,
            idle: 0,
            standing: LoopStanding::Working,
            ..old.clone()
        },
        LoopFact::RolledBack => at(old, LoopStanding::RollingBack),
    };
    if new == *old {
        return Ok(Vec::new());
    }
    let rest = heal(&new);
    Ok([vec![LoopWrite::Record(Box::new(new))], rest].concat())
}

/// Whether a fact can occur in a state.
fn is_legal(record: Option<&LoopRecord>, fact: &LoopFact, bounds: LoopBounds) -> bool {
    use {LoopFact as F, LoopStanding as S};
    let Some(record) = record else { return matches!(fact, F::Started { .. }) };
    if matches!(
        fact,
        F::LandingRefused { .. } | F::LandingStuck { .. } | F::LandingUnsettled { .. }
    ) {
        return matches!(record.standing, S::Accepted { .. });
    }
    // Writes interrupted by a crash are completed before anything else happens.
    if matches!(record.standing, S::Beginning { .. } | S::Accepted { .. } | S::RollingBack) {
        return false;
    }
    let standing = &record.standing;
    match fact {
        F::Started { .. } => true,
        F::PlanChecked { .. } | F::CutShort { .. } => *standing == S::Working,
        F::Ended { report, .. } => {
            *standing == S::Working && decide(record, report) != LoopDecision::Judge
        }
        F::GatesFailed { run, .. } | F::Undecided { run, .. } | F::Accepted { run, .. } => {
            match standing {
                S::Working => run.is_some() && may_be_judged(record),
                // Only a person settles these, and a person's fact has no run.
                S::Undecided { .. } => run.is_none(),
                S::NoChangeReviewed { .. } => run.is_none() && matches!(fact, F::Accepted { .. }),
                _ => false,
            }
        }
        F::LandingRefused { .. } | F::LandingStuck { .. } | F::LandingUnsettled { .. } => false,
        F::OpinionGiven { .. } => matches!(standing, S::NoChange { .. }),
        F::Answered { .. } => matches!(standing, S::Waiting { .. }),
        F::Objected { .. } => matches!(standing, S::NoChangeReviewed { .. } | S::Undecided { .. }),
        F::Resumed => matches!(standing, S::Aborted { .. } | S::Idle) || record.is_spent(bounds),
        F::RolledBack => *standing != S::RolledBack,
    }
}

/// Whether work can be judged at all: a task with a plan only in BUILD.
fn may_be_judged(record: &LoopRecord) -> bool {
    record.phase == LoopPhase::Build || record.validated.is_none()
}

fn begin(
    earlier: Option<&LoopRecord>,
    task: &LoopTask,
    place: LoopPlace,
    present: &[PlanMark],
) -> LoopRecord {
    let stale = |record: &LoopRecord| -> Vec<String> {
        let stale = present.iter().filter(|mark| record.bound.contains(mark));
        stale.map(|mark| mark.file.clone()).collect()
    };
    let standing = LoopStanding::Beginning {
        earlier: earlier.map(|record| record.task.number),
        plans: earlier.map(stale).unwrap_or_default(),
        given_up: earlier.filter(|record| !record.is_over()).map(|record| record.task.text.clone()),
    };
    LoopRecord {
        task: task.clone(),
        place,
        phase: LoopPhase::Plan,
        iterations: 0,
        failures: 0,
        validated: None,
        bound: Vec::new(),
        feedback: None,
        touched: Vec::new(),
        said: None,
        standing,
        settled_run: None,
        landings_refused: 0,
        trace: None,
        idle: 0,
    }
}

fn at(old: &LoopRecord, standing: LoopStanding) -> LoopRecord {
    LoopRecord { standing, ..old.clone() }
}

fn with_feedback(old: &LoopRecord, feedback: String) -> LoopRecord {
    LoopRecord { feedback: Some(feedback), ..old.clone() }
}

/// Continues with the person's message.
fn heard(old: &LoopRecord, said: String) -> LoopRecord {
    LoopRecord { said: Some(said), standing: LoopStanding::Working, ..old.clone() }
}

/// Counts the iteration of a run. A person's decision is not an iteration.
fn concluded(old: &LoopRecord, run: Option<&RunId>, new: LoopRecord) -> LoopRecord {
    let Some(run) = run else { return new };
    let iterations = old.iterations.saturating_add(1);
    let settled_run = Some(run.clone());
    LoopRecord { iterations, settled_run, said: None, touched: Vec::new(), ..new }
}

fn plan_checked(old: &LoopRecord, documents: &[PlanMark], verdict: &PlanVerdict) -> LoopRecord {
    let old = &bind(old, documents);
    match (old.phase, verdict) {
        (LoopPhase::Plan, PlanVerdict::Absent) => old.clone(),
        (LoopPhase::Build, PlanVerdict::Absent) => {
            let file = old.validated.as_ref().map_or("the plan", |plan| plan.file.as_str());
            let phase = LoopPhase::Plan;
            LoopRecord { phase, ..with_feedback(old, words::plan_gone(file)) }
        }
        (LoopPhase::Build, PlanVerdict::Invalid { plan, .. } | PlanVerdict::Valid { plan, .. })
            if old.validated.as_ref() == Some(plan) =>
        {
            old.clone()
        }
        (_, PlanVerdict::Invalid { plan, report }) => {
            let feedback = words::plan_invalid(&plan.file, report);
            LoopRecord { phase: LoopPhase::Plan, ..with_feedback(old, feedback) }
        }
        (LoopPhase::Plan, PlanVerdict::Valid { plan, report }) => LoopRecord {
            phase: LoopPhase::Build,
            validated: Some(plan.clone()),
            ..with_feedback(old, words::plan_validated(&plan.file, report))
        },
        (LoopPhase::Build, PlanVerdict::Valid { plan, .. }) => {
            // Keep the earlier gate feedback, which still has to be addressed.
            let said = old.feedback.iter().map(|feedback| format!("{}\n\n", feedback.trim_end()));
            let feedback = said.collect::<String>() + &words::plan_changed(&plan.file);
            LoopRecord { validated: Some(plan.clone()), ..with_feedback(old, feedback) }
        }
    }
}

/// Records plan documents as belonging to this task.
fn bind(old: &LoopRecord, documents: &[PlanMark]) -> LoopRecord {
    let mut bound = old.bound.clone();
    bound.extend(documents.iter().cloned());
    bound.sort();
    bound.dedup();
    LoopRecord { bound, ..old.clone() }
}

fn ended(
    old: &LoopRecord,
    run: &RunId,
    report: &IterationReport,
    bounds: LoopBounds,
) -> LoopRecord {
    let old = &bind(old, &report.documents);
    let decision = decide(old, report);
    let claims_nothing = matches!(
        decision,
        LoopDecision::GoOn | LoopDecision::UseTools | LoopDecision::Swallowed(_)
    );
    let mut new = match decision {
        LoopDecision::Ask { question } => at(old, LoopStanding::Waiting { question }),
        LoopDecision::UseTools => with_feedback(old, words::USE_TOOLS.to_owned()),
        // `Judge` is not legal here.
        LoopDecision::GoOn | LoopDecision::Judge => old.clone(),
        LoopDecision::Swallowed(why) => with_feedback(old, words::swallowed(why)),
        LoopDecision::NoChange { reason } => at(old, LoopStanding::NoChange { reason }),
        LoopDecision::NothingChanged => {
            let gates = ["nothing-changed".to_owned()];
            failed(old, &gates, words::NOTHING_CHANGED.to_owned(), false, bounds)
        }
    };
    let is_idle = match &old.trace {
        Some(trace) => *trace == report.trace,
        None => !report.changed && report.documents.is_empty(),
    };
    new.idle = if claims_nothing && is_idle { old.idle.saturating_add(1) } else { 0 };
    new.trace = Some(report.trace.clone());
    if new.idle >= bounds.idle && new.standing == LoopStanding::Working {
        new.standing = LoopStanding::Idle;
    }
    LoopRecord { touched: report.touched.clone(), ..concluded(old, Some(run), new) }
}

fn failed(
    old: &LoopRecord,
    gates: &[String],
    feedback: String,
    before_work: bool,
    bounds: LoopBounds,
) -> LoopRecord {
    let failures = if before_work { old.failures } else { old.failures.saturating_add(1) };
    let standing = if failures >= bounds.failures {
        LoopStanding::Aborted { gates: gates.to_vec() }
    } else {
        LoopStanding::Working
    };
    LoopRecord { failures, standing, ..with_feedback(old, feedback) }
}

/// Returns the writes that a crash prevented.
pub fn heal(record: &LoopRecord) -> Vec<LoopWrite> {
    let task = record.task.number;
    let end = |standing| LoopWrite::Record(Box::new(at(record, standing)));
    match &record.standing {
        LoopStanding::Beginning { earlier, plans, given_up } => {
            let mut writes = Vec::new();
            if let Some(number) = *earlier {
                if !plans.is_empty() {
                    let files = plans.clone();
                    writes.push(LoopWrite::ArchivePlans { task: number, files });
                }
                if let Some(text) = given_up {
                    let what = format!("given up: {text}");
                    writes.push(LoopWrite::AppendHistory { task: number, what });
                    writes.push(LoopWrite::ForgetBeginning { task: number });
                }
            }
            writes.push(LoopWrite::BeginMailbox { task: record.task.clone() });
            writes.push(LoopWrite::Snapshot { task, point: SnapshotPoint::Before });
            writes.push(end(LoopStanding::Working));
            writes
        }
        LoopStanding::Accepted { acceptance, summary } => vec![
            LoopWrite::AdvanceBranches { works: acceptance.works.clone() },
            LoopWrite::Snapshot { task, point: SnapshotPoint::After },
            LoopWrite::AppendHistory { task, what: summary.clone() },
            LoopWrite::ForgetBeginning { task },
            end(LoopStanding::Done { acceptance: acceptance.clone() }),
        ],
        LoopStanding::RollingBack => vec![
            LoopWrite::RollBack { task },
            LoopWrite::AppendHistory { task, what: format!("rolled back: {}", record.task.text) },
            LoopWrite::ForgetBeginning { task },
            end(LoopStanding::RolledBack),
        ],
        _ => Vec::new(),
    }
}
