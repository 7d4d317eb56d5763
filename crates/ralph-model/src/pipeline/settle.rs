//! Turns events into writes, in crash-safe order.
//!
//! One write of each list is decisive, and the others follow from it: after the decisive write [`heal`] knows the rest;
//! before it, the fact is applied again, because its run is not settled yet. The last write records the run as settled;
//! a fact of a settled run does not spend a second attempt.

use jiff::Timestamp;

use super::done::DoneMarker;
use super::records::{
    Base, CandidateRecord, CandidateStatus, PlanRecord, PlanStatus, SpecIdentity, Try,
};
use super::{Markers, Phase, SpecState, text_mark};
use crate::build::Work;
use crate::id::{CommitId, RunId};

/// Something that happened to a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A planner is about to run.
    PlanningBegan {
        number: u32,
        base: Base,
    },
    PlanWritten {
        text: String,
        scratchpad: Option<String>,
        run: RunId,
    },
    /// A plan written by a person is adopted.
    PlanAdopted {
        number: u32,
        base: Base,
    },
    /// An attempt was spent; `feedback` is for the next one.
    AttemptFailed {
        phase: Phase,
        outcome: String,
        feedback: Option<Feedback>,
        run: Option<RunRef>,
    },
    /// A verifier reached no conclusion, which says nothing about the candidate: it is kept, at the cost of an attempt.
    VerificationFailed {
        outcome: String,
        run: RunRef,
    },
    CandidateFound {
        candidate: Candidate,
        run: RunRef,
    },
    /// The agent claims that nothing needs to change; `commit` is where it looked.
    NoChangeClaimed {
        reason: String,
        commit: CommitId,
        run: RunRef,
    },
    Verified {
        done: DoneMarker,
    },
    /// Accepted work does not fit the branch as it is now. It is sent back at no cost, and restarts at the new tips.
    LandingRefused {
        feedback: Feedback,
        base: Base,
        run: Option<RunRef>,
    },
    PlanInvalidated {
        reason: String,
        run: RunRef,
    },
    PersonNeeded {
        question: String,
        run: Option<RunRef>,
    },
    /// The person's answer was not yes; it is passed to the next attempt.
    PersonObjected {
        answer: String,
    },
    /// The done marker and the candidate no longer count.
    Forced {
        number: u32,
        base: Base,
    },
    /// The attempts are counted from zero again. A base is given if the old one is no longer part of the history.
    BudgetRenewed {
        base: Option<Base>,
    },
}

/// The run that caused a fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRef {
    pub id: RunId,
    /// Its directory, relative to home.
    pub dir: String,
}

/// The feedback for the next attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feedback {
    pub text: String,
    /// The commit it is about, if any.
    pub commit: Option<CommitId>,
    /// The claimed commit, even if it was not found.
    pub claimed: Option<CommitId>,
}

/// A commit that passed everything except its verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub commit: CommitId,
    pub repository: String,
    pub refs: Vec<String>,
    /// The work in other repositories.
    pub also: Vec<Work>,
}

/// One atomic write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    Plan(Box<PlanRecord>),
    PlanText(String),
    Scratchpad(String),
    /// Moves the plan's text to the archive under this number.
    ArchivePlan {
        number: u32,
    },
    Candidate(Box<CandidateRecord>),
    RemoveCandidate,
    ForgetSessions,
    Done(String),
    /// Moves the done marker to the archive under this number.
    ArchiveDone {
        number: u32,
    },
}

/// A fact that cannot happen to a spec in this state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fact} cannot happen to a spec that is {state}")]
pub struct IllegalFact {
    pub state: &'static str,
    pub fact: &'static str,
}

/// Returns the writes of a fact, in order, or refuses a fact that is illegal in this state.
pub fn settle(markers: &Markers, fact: &Fact, at: Timestamp) -> Result<Vec<Write>, IllegalFact> {
    let state = SpecState::of(markers);
    if is_legal(&state, markers, fact) {
        Ok(writes(markers, fact, at))
    } else {
        Err(IllegalFact { state: state.name(), fact: fact.name() })
    }
}

/// Whether a fact can occur in a state.
///
/// A run's fact is also legal in the state it leads to: if its writes were interrupted, the run is not settled and the
/// fact is established again. Marking a spec as done, forcing it and renewing its attempts are a person's decisions.
fn is_legal(state: &SpecState, markers: &Markers, fact: &Fact) -> bool {
    use SpecState as S;
    match fact {
        Fact::Forced { .. } => true,
        Fact::BudgetRenewed { .. } | Fact::Verified { .. } => *state != S::Done,
        Fact::PlanningBegan { .. } => matches!(state, S::Unplanned { .. }),
        Fact::PlanWritten { .. } => {
            let planning = |plan: &PlanRecord| plan.status == PlanStatus::Planning;
            matches!(state, S::Unplanned { .. }) && markers.plan.as_ref().is_some_and(planning)
        }
        Fact::PlanAdopted { .. } => matches!(state, S::HandWritten { .. }),
        Fact::AttemptFailed { phase: Phase::Plan, .. } => {
            matches!(state, S::Unplanned { .. } | S::HandWritten { .. })
        }
        Fact::AttemptFailed { phase: Phase::Implement, .. } => matches!(state, S::Planned { .. }),
        Fact::AttemptFailed { phase: Phase::Verify, .. } => {
            matches!(state, S::Candidate { .. } | S::Planned { .. })
        }
        Fact::CandidateFound { .. } | Fact::NoChangeClaimed { .. } => {
            matches!(state, S::Planned { .. } | S::Candidate { .. })
        }
        Fact::LandingRefused { .. } => {
            matches!(state, S::Candidate { .. } | S::Waiting { .. } | S::Planned { .. })
        }
        Fact::VerificationFailed { .. } | Fact::PlanInvalidated { .. } => {
            matches!(state, S::Candidate { .. })
        }
        Fact::PersonNeeded { .. } => matches!(state, S::Candidate { .. } | S::Waiting { .. }),
        Fact::PersonObjected { .. } => matches!(state, S::Waiting { .. }),
    }
}

impl Fact {
    const fn name(&self) -> &'static str {
        match self {
            Fact::PlanningBegan { .. } => "`planning began`",
            Fact::PlanWritten { .. } => "`plan written`",
            Fact::PlanAdopted { .. } => "`plan adopted`",
            Fact::AttemptFailed { .. } => "`attempt failed`",
            Fact::VerificationFailed { .. } => "`verification failed`",
            Fact::CandidateFound { .. } => "`candidate found`",
            Fact::NoChangeClaimed { .. } => "`no change claimed`",
            Fact::Verified { .. } => "`verified`",
            Fact::LandingRefused { .. } => "`landing refused`",
            Fact::PlanInvalidated { .. } => "`plan invalidated`",
            Fact::PersonNeeded { .. } => "`person needed`",
            Fact::PersonObjected { .. } => "`person objected`",
            Fact::Forced { .. } => "`forced`",
            Fact::BudgetRenewed { .. } => "`budget renewed`",
        }
    }
}

fn writes(markers: &Markers, fact: &Fact, at: Timestamp) -> Vec<Write> {
    let drafts = Drafts { markers, at };
    match fact {
        Fact::PlanningBegan { number, base } => drafts.planning(*number, base),
        Fact::PlanWritten { text, scratchpad, run } => {
            let mut plan = drafts.plan();
            plan.text_mark = Some(text_mark(text));
            // Before the text, so that after a crash between the two the text does not look like a person's.
            let announced = Write::Plan(Box::new(plan.clone()));
            plan.status = PlanStatus::Active;
            plan.invalidated_at_utc = None;
            plan.invalidation_reason = None;
            plan.created_at_utc = at;
            plan.settled_run = Some(run.to_string());
            let mut writes = vec![announced, Write::PlanText(text.clone())];
            writes.extend(scratchpad.clone().map(Write::Scratchpad));
            writes.push(Write::Plan(Box::new(plan)));
            writes
        }
        Fact::PlanAdopted { number, base } => {
            let plan = PlanRecord {
                status: PlanStatus::Active,
                attempt: *number,
                created_at_utc: at,
                invalidated_at_utc: None,
                invalidation_reason: None,
                base: drafts.markers.plan.as_ref().map_or(base, |plan| &plan.base).clone(),
                ..drafts.plan()
            };
            vec![Write::Plan(Box::new(plan))]
        }
        Fact::AttemptFailed { phase, outcome, feedback, run } => {
            let mut writes = Vec::new();
            if let Some(feedback) = feedback {
                let candidate = drafts.rejected(feedback, *phase, run.as_ref());
                writes.push(Write::Candidate(Box::new(candidate)));
            }
            let claim = feedback.as_ref().and_then(|feedback| {
                feedback.commit.as_ref().or(feedback.claimed.as_ref()).cloned()
            });
            writes.push(Write::Plan(Box::new(drafts.spent(*phase, outcome, run.as_ref(), claim))));
            writes
        }
        Fact::VerificationFailed { outcome, run } => {
            vec![Write::Plan(Box::new(drafts.spent(Phase::Verify, outcome, Some(run), None)))]
        }
        Fact::CandidateFound { candidate, run } => {
            let found = CandidateRecord {
                candidate_commit: Some(candidate.commit.clone()),
                repository: (!candidate.repository.is_empty())
                    .then(|| candidate.repository.clone()),
                refs: candidate.refs.clone(),
                also: candidate.also.clone(),
                ..drafts.blank_candidate(CandidateStatus::Candidate)
            };
            drafts.claimed(found, run)
        }
        Fact::NoChangeClaimed { reason, commit, run } => {
            let found = CandidateRecord {
                candidate_commit: Some(commit.clone()),
                no_change: Some(reason.clone()),
                ..drafts.blank_candidate(CandidateStatus::Candidate)
            };
            drafts.claimed(found, run)
        }
        Fact::Verified { done } => {
            let mut writes = vec![Write::Done(done.render(&markers.spec))];
            writes.extend(markers.candidate.as_ref().map(|record| {
                Write::Candidate(Box::new(verified(record, done.verify_run_dir.as_deref())))
            }));
            writes
        }
        Fact::LandingRefused { feedback, base, run } => {
            drafts.landing_refused(feedback, base, run.as_ref())
        }
        Fact::PlanInvalidated { reason, run } => drafts.invalidated(reason, run),
        Fact::PersonNeeded { question, run } => {
            let mut record = drafts.candidate();
            record.status = CandidateStatus::Waiting;
            record.question = Some(question.clone());
            let dir = run.as_ref().map(|run| run.dir.clone());
            record.last_verify_run_dir = dir.or(record.last_verify_run_dir);
            let mut writes = vec![Write::Candidate(Box::new(record))];
            writes.extend(run.as_ref().map(|run| drafts.settled(&run.id)));
            writes
        }
        Fact::PersonObjected { answer } => drafts.objected(answer),
        Fact::Forced { number, base } => drafts.forced(*number, base),
        Fact::BudgetRenewed { base } => {
            let Some(plan) = &markers.plan else { return Vec::new() };
            let mut plan = plan.clone();
            plan.attempts_used = 0;
            plan.tries = Vec::new();
            plan.landings_refused = 0;
            plan.base = base.clone().unwrap_or(plan.base);
            vec![Write::Plan(Box::new(plan))]
        }
    }
}

/// Removed along with an invalid plan. The candidate is removed last: while it exists, the rest still has to be done.
const CLEARED: [Write; 2] = [Write::ForgetSessions, Write::RemoveCandidate];

/// Returns the writes that a crash prevented.
pub fn heal(markers: &Markers) -> Vec<Write> {
    let mut writes = Vec::new();
    if let Some(done) = &markers.done {
        if let Some(record) = &markers.candidate
            && record.status != CandidateStatus::Verified
        {
            let record = verified(record, done.verify_run_dir.as_deref());
            writes.push(Write::Candidate(Box::new(record)));
        }
        return writes;
    }
    let Some(plan) = &markers.plan else { return writes };
    if plan.status == PlanStatus::Invalidated {
        if markers.plan_text.is_some() && !markers.archived.contains(&plan.attempt) {
            writes.push(Write::ArchivePlan { number: plan.attempt });
        }
        if markers.candidate.is_some() {
            writes.extend(CLEARED);
        }
    }
    writes
}

/// The record of a candidate whose spec has a done marker.
fn verified(record: &CandidateRecord, verify_run_dir: Option<&str>) -> CandidateRecord {
    let mut record = record.clone();
    record.status = CandidateStatus::Verified;
    record.question = None;
    record.feedback = None;
    record.last_verify_run_dir = verify_run_dir.map(str::to_owned).or(record.last_verify_run_dir);
    record
}

/// Builds the records that a fact writes.
struct Drafts<'a> {
    markers: &'a Markers,
    at: Timestamp,
}

impl Drafts<'_> {
    fn spec(&self) -> &SpecIdentity {
        &self.markers.spec
    }

    /// The plan's record, or a new one.
    fn plan(&self) -> PlanRecord {
        self.markers.plan.clone().unwrap_or_else(|| PlanRecord {
            spec_rel: self.spec().rel.clone(),
            spec_id: self.spec().id.clone(),
            status: PlanStatus::Active,
            created_at_utc: self.at,
            invalidated_at_utc: None,
            invalidation_reason: None,
            attempt: 1,
            base: Base::new(),
            attempts_used: 0,
            tries: Vec::new(),
            text_mark: None,
            settled_run: None,
            landings_refused: 0,
            rest: std::collections::BTreeMap::new(),
        })
    }

    fn planning(&self, number: u32, base: &Base) -> Vec<Write> {
        let missing = self
            .markers
            .plan
            .as_ref()
            .is_some_and(|plan| plan.status == PlanStatus::Active)
            .then(|| super::PLAN_MISSING.to_owned());
        let mut plan = self.plan();
        plan.invalidation_reason = plan.invalidation_reason.or(missing);
        plan.status = PlanStatus::Planning;
        plan.attempt = number;
        if plan.base.is_empty() {
            plan.base = base.clone();
        }
        let mut writes = Vec::new();
        if self.markers.candidate.is_some() {
            // It belongs to another plan.
            writes.extend(CLEARED);
        }
        writes.push(Write::Plan(Box::new(plan)));
        writes
    }

    fn invalidated(&self, reason: &str, run: &RunRef) -> Vec<Write> {
        let outcome = format!("plan invalid: {reason}");
        let mut plan = self.spent(Phase::Verify, &outcome, Some(run), None);
        plan.status = PlanStatus::Invalidated;
        plan.invalidated_at_utc = Some(self.at);
        plan.invalidation_reason = Some(reason.to_owned());
        let number = plan.attempt;
        vec![
            Write::Plan(Box::new(plan)),
            Write::ArchivePlan { number },
            Write::ForgetSessions,
            Write::RemoveCandidate,
        ]
    }

    /// The plan's record with one more attempt spent, unless this run is already counted.
    fn spent(
        &self,
        phase: Phase,
        outcome: &str,
        run: Option<&RunRef>,
        claim: Option<CommitId>,
    ) -> PlanRecord {
        let mut plan = self.plan();
        let id = run.map(|run| run.id.to_string());
        if id.is_some() && plan.settled_run == id {
            return plan;
        }
        plan.attempts_used = plan.attempts_used.saturating_add(1);
        plan.tries.push(Try {
            phase,
            outcome: outcome.to_owned(),
            run_dir: run.map(|run| run.dir.clone()),
            claim,
            at_utc: self.at,
        });
        plan.settled_run = id.or(plan.settled_run);
        plan
    }

    fn claimed(&self, mut record: CandidateRecord, run: &RunRef) -> Vec<Write> {
        record.last_impl_run_dir = Some(run.dir.clone());
        vec![Write::Candidate(Box::new(record)), self.settled(&run.id)]
    }

    fn settled(&self, run: &RunId) -> Write {
        let mut plan = self.plan();
        plan.settled_run = Some(run.to_string());
        Write::Plan(Box::new(plan))
    }

    fn blank_candidate(&self, status: CandidateStatus) -> CandidateRecord {
        CandidateRecord {
            spec_rel: self.spec().rel.clone(),
            spec_id: self.spec().id.clone(),
            candidate_commit: None,
            created_at_utc: self.at,
            last_impl_run_dir: None,
            last_verify_run_dir: None,
            status,
            repository: None,
            refs: Vec::new(),
            also: Vec::new(),
            no_change: None,
            feedback: None,
            question: None,
            rest: std::collections::BTreeMap::new(),
        }
    }

    /// The candidate's record, or a new one.
    fn candidate(&self) -> CandidateRecord {
        let blank = || self.blank_candidate(CandidateStatus::Candidate);
        self.markers.candidate.clone().unwrap_or_else(blank)
    }

    fn rejected(&self, feedback: &Feedback, phase: Phase, run: Option<&RunRef>) -> CandidateRecord {
        let mut record = self.candidate();
        record.status = CandidateStatus::Rejected;
        record.candidate_commit.clone_from(&feedback.commit);
        record.feedback = Some(feedback.text.clone());
        record.no_change = None;
        record.question = None;
        let dir = run.map(|run| run.dir.clone());
        match phase {
            Phase::Verify => record.last_verify_run_dir = dir.or(record.last_verify_run_dir),
            Phase::Plan | Phase::Implement => {
                record.last_impl_run_dir = dir.or(record.last_impl_run_dir);
            }
        }
        record
    }

    fn landing_refused(
        &self,
        feedback: &Feedback,
        base: &Base,
        run: Option<&RunRef>,
    ) -> Vec<Write> {
        let candidate = self.rejected(feedback, Phase::Verify, run);
        let mut plan = self.plan();
        let run = run.map(|run| run.id.to_string());
        if run.is_none() || plan.settled_run != run {
            plan.landings_refused = plan.landings_refused.saturating_add(1);
        }
        plan.base.clone_from(base);
        plan.settled_run = run.or(plan.settled_run);
        vec![Write::Candidate(Box::new(candidate)), Write::Plan(Box::new(plan))]
    }

    fn objected(&self, answer: &str) -> Vec<Write> {
        let mut record = self.candidate();
        record.status = CandidateStatus::Rejected;
        record.question = None;
        record.no_change = None;
        record.feedback = Some(format!("A person looked at it and says: {answer}"));
        vec![Write::Candidate(Box::new(record))]
    }

    fn forced(&self, number: u32, base: &Base) -> Vec<Write> {
        let mut writes = Vec::new();
        if let Some(plan) = &self.markers.plan {
            let mut plan = plan.clone();
            plan.attempts_used = 0;
            plan.tries = Vec::new();
            plan.landings_refused = 0;
            plan.base = base.clone();
            writes.push(Write::Plan(Box::new(plan)));
        }
        if self.markers.candidate.is_some() {
            writes.push(Write::RemoveCandidate);
        }
        if self.markers.done.is_some() {
            writes.push(Write::ArchiveDone { number });
        }
        writes
    }
}
