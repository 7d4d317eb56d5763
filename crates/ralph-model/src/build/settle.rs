//! Turns events of a task into writes, in crash-safe order.
//!
//! The first write of a verdict is decisive and the others follow from it: after it [`heal`] returns the rest; before
//! it, the result of the run is still pending and the fact is established again. The last write of every list records
//! the run as settled; the result of a settled run is not concluded a second time.

use super::{
    Acceptance, Rejection, TaskClaim, TaskInPlan, TaskMarkers, TaskRecord, TaskState, Work,
};
use crate::id::RunId;
use crate::plan::Kill;

/// Something that happened to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskFact {
    /// A builder claims that the task is done. Its run continues.
    Claimed {
        run: RunId,
        no_change: Option<String>,
    },
    /// A run ended without consequences: its claim, if any, is void.
    RunVoid {
        run: RunId,
    },
    /// A run ended without a claim.
    Unclaimed {
        run: RunId,
    },
    /// The run that claimed that nothing has to change ended properly.
    NoChangeStands {
        run: RunId,
    },
    /// A verifier gave its opinion on that.
    OpinionGiven {
        opinion: String,
    },
    Accepted {
        run: Option<RunId>,
        acceptance: Acceptance,
    },
    Rejected {
        run: Option<RunId>,
        rejection: Rejection,
    },
    /// Accepted work does not fit the branch as it is now. It is sent back at no cost.
    LandingRefused {
        why: String,
    },
    /// Accepted work failed to land too often: a person decides.
    LandingStuck {
        question: String,
    },
    /// The merge of accepted work with what the branch has become is to be judged, too, before it lands.
    LandingUnsettled {
        question: String,
    },
    /// The judge cannot decide on this work.
    Undecided {
        run: Option<RunId>,
        works: Vec<Work>,
        question: String,
    },
    /// The run was stopped by a limit of time or context.
    Killed {
        run: RunId,
        kill: Kill,
        log: Option<String>,
    },
    /// A person allows another attempt at a task that was rejected too often, with advice for the next run.
    Retried {
        advice: Option<String>,
    },
    /// A person took the task off the pending list while a run was working on it.
    LaidAside {
        run: RunId,
    },
}

/// One write. Each is atomic and idempotent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskWrite {
    Record(Box<TaskRecord>),
    /// Advances the branches on which its run began.
    AdvanceBranches {
        works: Vec<Work>,
    },
    PlanDone {
        acceptance: Acceptance,
    },
    PlanReject {
        rejection: Rejection,
    },
    PlanKill {
        kill: Kill,
        log: Option<String>,
    },
    /// Counts the present state as done before the next attempt.
    BeginAttempt,
    /// Removes the pinned gates and the recorded base of the task.
    ForgetBeginning,
}

/// A fact that cannot happen to a task in this state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a task that is {state:?} cannot be {fact:?}")]
pub struct IllegalTaskFact {
    pub state: Box<TaskState>,
    pub fact: Box<TaskFact>,
}

/// Returns the writes of a fact, in order, or refuses a fact that is illegal in this state.
pub fn settle(
    markers: &TaskMarkers,
    fact: &TaskFact,
    most_rejections: u32,
) -> Result<Vec<TaskWrite>, IllegalTaskFact> {
    let state = TaskState::of(markers, most_rejections);
    if !is_legal(&state, fact) {
        let fact = Box::new(fact.clone());
        return Err(IllegalTaskFact { state: Box::new(state), fact });
    }
    let old = &markers.record;
    let record = |claim: TaskClaim, run: Option<&RunId>| {
        let settled_run = run.cloned().or_else(|| old.settled_run.clone());
        TaskWrite::Record(Box::new(TaskRecord { claim, settled_run, ..old.clone() }))
    };
    Ok(match fact {
        TaskFact::Claimed { run, no_change } => {
            let claim = TaskClaim::Made { run: run.clone(), no_change: no_change.clone() };
            vec![record(claim, None)]
        }
        TaskFact::RunVoid { run } => vec![record(TaskClaim::None, Some(run))],
        TaskFact::Unclaimed { run } => {
            vec![TaskWrite::Record(Box::new(TaskRecord {
                claim: TaskClaim::None,
                settled_run: Some(run.clone()),
                unclaimed: old.unclaimed.saturating_add(1),
                ..old.clone()
            }))]
        }
        TaskFact::NoChangeStands { run } => {
            let TaskState::Claimed { no_change: Some(reason), .. } = state else {
                unreachable!("legal only for a claim that nothing has to change");
            };
            vec![record(TaskClaim::NoChange { reason }, Some(run))]
        }
        TaskFact::OpinionGiven { opinion } => {
            let TaskState::NoChange { reason } = state else {
                unreachable!("legal only while an opinion is awaited");
            };
            let opinion = opinion.clone();
            vec![record(TaskClaim::NoChangeReviewed { reason, opinion }, None)]
        }
        TaskFact::Accepted { run, acceptance } => {
            let (run, acceptance) = (run.clone(), acceptance.clone());
            let claim = TaskClaim::Accepted { run: run.clone(), acceptance: acceptance.clone() };
            let mut writes = vec![record(claim, None)];
            writes.extend(after_acceptance(old, run.as_ref(), &acceptance, markers));
            writes
        }
        TaskFact::Rejected { run, rejection } => {
            let claim = TaskClaim::Rejected {
                run: run.clone(),
                rejection: rejection.clone(),
                earlier: markers.tombstones(),
            };
            let mut writes = vec![record(claim, None)];
            writes.extend(after_rejection(old, run.as_ref(), rejection, Plan::Behind));
            writes
        }
        TaskFact::LandingRefused { why } => {
            let TaskClaim::Accepted { run, .. } = &old.claim else {
                unreachable!("legal only for work that was accepted");
            };
            vec![TaskWrite::Record(Box::new(TaskRecord {
                claim: TaskClaim::None,
                settled_run: run.clone().or_else(|| old.settled_run.clone()),
                advice: Some(why.clone()),
                landings_refused: old.landings_refused.saturating_add(1),
                ..old.clone()
            }))]
        }
        TaskFact::LandingStuck { question } | TaskFact::LandingUnsettled { question } => {
            let TaskClaim::Accepted { run, acceptance } = &old.claim else {
                unreachable!("legal only for work that was accepted");
            };
            let (works, question) = (acceptance.works.clone(), question.clone());
            vec![record(TaskClaim::Undecided { works, question }, run.as_ref())]
        }
        TaskFact::Undecided { run, works, question } => {
            let (works, question) = (works.clone(), question.clone());
            vec![record(TaskClaim::Undecided { works, question }, run.as_ref())]
        }
        TaskFact::Killed { run, kill, log } => {
            let killed = TaskWrite::PlanKill { kill: *kill, log: log.clone() };
            vec![killed, record(TaskClaim::None, Some(run))]
        }
        TaskFact::Retried { advice } => {
            let forgiven = u32::try_from(markers.tombstones()).unwrap_or(u32::MAX);
            let (unclaimed, advice) = (0, advice.clone());
            vec![TaskWrite::Record(Box::new(TaskRecord {
                forgiven,
                unclaimed,
                advice,
                ..old.clone()
            }))]
        }
        TaskFact::LaidAside { run } => {
            vec![TaskWrite::ForgetBeginning, record(TaskClaim::None, Some(run))]
        }
    })
}

/// Whether a fact can occur in a state.
///
/// A run's fact is also legal in the state it leads to, unless its first write is decisive: if the conclusion of a run
/// was interrupted, its fact is established again.
fn is_legal(state: &TaskState, fact: &TaskFact) -> bool {
    use {TaskFact as F, TaskState as S};
    match fact {
        F::Claimed { .. } => matches!(state, S::Open | S::Claimed { .. }),
        F::RunVoid { .. } | F::Unclaimed { .. } | F::Killed { .. } => {
            matches!(state, S::Open | S::Claimed { .. } | S::Exhausted { .. })
        }
        F::NoChangeStands { .. } => matches!(state, S::Claimed { no_change: Some(_), .. }),
        F::OpinionGiven { .. } => matches!(state, S::NoChange { .. }),
        F::Accepted { run, .. } => match state {
            S::Claimed { run: claimed, no_change: None } => run.as_ref() == Some(claimed),
            // Only a person can settle these, and a person's fact has no run.
            S::NoChangeReviewed { .. } | S::Undecided { .. } => run.is_none(),
            _ => false,
        },
        F::Rejected { run, .. } => match state {
            S::Open | S::Claimed { .. } => run.is_some(),
            S::NoChangeReviewed { .. } | S::Undecided { .. } => run.is_none(),
            _ => false,
        },
        F::Undecided { run, .. } => match state {
            S::Claimed { run: claimed, no_change: None } => run.as_ref() == Some(claimed),
            S::Undecided { .. } => run.is_none(),
            _ => false,
        },
        F::LandingRefused { .. } | F::LandingStuck { .. } | F::LandingUnsettled { .. } => {
            matches!(state, S::Accepted)
        }
        F::Retried { .. } => matches!(state, S::Exhausted { .. }),
        F::LaidAside { .. } => matches!(state, S::NotPending),
    }
}

/// Whether the plan already reflects the verdict.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plan {
    Behind,
    UpToDate,
}

fn after_acceptance(
    old: &TaskRecord,
    run: Option<&RunId>,
    acceptance: &Acceptance,
    markers: &TaskMarkers,
) -> Vec<TaskWrite> {
    let mut writes = Vec::new();
    if markers.in_plan != TaskInPlan::NotPending {
        writes.push(TaskWrite::AdvanceBranches { works: acceptance.works.clone() });
        writes.push(TaskWrite::PlanDone { acceptance: acceptance.clone() });
    }
    writes.push(TaskWrite::ForgetBeginning);
    // A done task that is rejected starts over: no rejections are forgiven.
    let settled_run = run.cloned().or_else(|| old.settled_run.clone());
    let record = TaskRecord { settled_run, ..TaskRecord::default() };
    writes.push(TaskWrite::Record(Box::new(record)));
    writes
}

fn after_rejection(
    old: &TaskRecord,
    run: Option<&RunId>,
    rejection: &Rejection,
    plan: Plan,
) -> Vec<TaskWrite> {
    let mut writes = Vec::new();
    if plan == Plan::Behind {
        writes.push(TaskWrite::PlanReject { rejection: rejection.clone() });
    }
    writes.push(TaskWrite::BeginAttempt);
    let settled_run = run.cloned().or_else(|| old.settled_run.clone());
    // The rejection itself tells the next run what to know.
    let record = TaskRecord { claim: TaskClaim::None, settled_run, advice: None, ..old.clone() };
    writes.push(TaskWrite::Record(Box::new(record)));
    writes
}

/// Returns the writes of a verdict that a crash prevented.
pub fn heal(markers: &TaskMarkers) -> Vec<TaskWrite> {
    let record = &markers.record;
    match &record.claim {
        TaskClaim::Accepted { run, acceptance } => {
            after_acceptance(record, run.as_ref(), acceptance, markers)
        }
        TaskClaim::Rejected { run, rejection, earlier } => {
            // A person's decision on a task that is no longer pending takes precedence.
            let is_pending = markers.in_plan != TaskInPlan::NotPending;
            let is_behind = is_pending && markers.tombstones() <= *earlier;
            let plan = if is_behind { Plan::Behind } else { Plan::UpToDate };
            after_rejection(record, run.as_ref(), rejection, plan)
        }
        _ => Vec::new(),
    }
}
