//! All kinds of events, each with its name on the wire and its data.

use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use super::wire::UnknownEvent;

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident: $data:ident = $name:literal,)*) => {
        /// What happened.
        #[derive(Clone, Debug, PartialEq)]
        pub enum JournalEvent {
            $($(#[$doc])* $variant(Box<super::$data>),)*
            /// The person interrupted the workflow.
            Interrupted,
            /// An event written by a newer Ralph, or a kind that is no longer written.
            Unknown(UnknownEvent),
        }

        $(impl From<super::$data> for JournalEvent {
            fn from(data: super::$data) -> JournalEvent {
                JournalEvent::$variant(Box::new(data))
            }
        })*

        impl JournalEvent {
    /// Whether home contains the same information, so that losing the line in a power failure does no harm.
    pub const fn is_in_home(&self) -> bool {
        matches!(
            self,
            JournalEvent::SpecQueue(_)
                | JournalEvent::SpecSkipped(_)
                | JournalEvent::SpecResult(_)
        )
    }

            /// The names of all kinds that this version writes.
            #[cfg(test)]
            pub(crate) const NAMES: &[&str] = &[$($name,)* INTERRUPTED];

            /// The name on the wire.
            pub(crate) fn name(&self) -> &str {
                match self {
                    $(JournalEvent::$variant(_) => $name,)*
                    JournalEvent::Interrupted => INTERRUPTED,
                    JournalEvent::Unknown(unknown) => &unknown.name,
                }
            }

            pub(super) fn data(&self) -> Option<Box<RawValue>> {
                let data = match self {
                    $(JournalEvent::$variant(data) => to_raw_value(data),)*
                    JournalEvent::Interrupted => return None,
                    JournalEvent::Unknown(unknown) => RawValue::from_string(unknown.data.clone()?),
                };
                Some(data.expect("events have string keys only, and unknown data is as it was read"))
            }

            pub(super) fn parse(
                name: &str,
                data: Option<&str>,
            ) -> Result<JournalEvent, serde_json::Error> {
                fn read<T: DeserializeOwned>(data: Option<&str>) -> Result<T, serde_json::Error> {
                    serde_json::from_str(data.unwrap_or("{}"))
                }
                Ok(match name {
                    $($name => JournalEvent::$variant(read(data)?),)*
                    INTERRUPTED => JournalEvent::Interrupted,
                    _ => JournalEvent::Unknown(UnknownEvent {
                        name: name.to_owned(),
                        data: data.map(str::to_owned),
                    }),
                })
            }
        }
    };
}

const INTERRUPTED: &str = "interrupted";

kinds! {
    WorkflowStarted: WorkflowStarted = "workflow_started",
    WorkflowEnded: WorkflowEnded = "workflow_ended",
    RunStarted: RunStarted = "run_started",
    RunFinished: RunFinished = "run_finished",
    LimitWaitStarted: LimitWaitStarted = "limit_wait_started",
    LimitWaitEnded: LimitWaitEnded = "limit_wait_ended",
    BoundaryCrossed: BoundaryCrossed = "boundary_crossed",
    LeftoversEnded: LeftoversEnded = "leftovers_ended",
    StateRebuilt: StateRebuilt = "state_rebuilt",
    BudgetNear: BudgetNear = "budget_near",
    BudgetExhausted: BudgetStop = "budget_exhausted",
    MutationRequested: MutationRequested = "mutation_requested",
    RequestIgnored: RequestIgnored = "request_ignored",
    PlanChanged: PlanChanged = "plan_changed",
    QuestionAsked: QuestionAsked = "question_asked",
    QuestionAnswered: QuestionAnswered = "question_answered",
    AnswerTaken: AnswerTaken = "answer_taken",
    PersonNeeded: PersonNeeded = "person_needed",
    PersonAnswered: PersonAnswered = "person_answered",
    SetupStarted: SetupStarted = "setup_started",
    GateStarted: GateStarted = "gate_started",
    GateFinished: GateFinished = "gate_finished",
    GatesChanged: GatesChanged = "gates_changed",
    Verdict: VerdictReached = "verdict",
    Landed: WorkLanded = "landed",
    Trouble: TroubleMet = "trouble",
    UsageLimitWait: UsageLimitWait = "usage_limit_wait",
    BackoffWait: BackoffWait = "backoff_wait",
    Note: Note = "note",
    RunStart: RunStart = "run_start",
    RunError: RunError = "run_error",
    RunStopped: RunStopped = "run_stopped",
    RunComplete: RunComplete = "run_complete",
    SpecQueue: SpecQueue = "spec_queue",
    SpecStart: SpecStart = "spec_start",
    SpecSkipped: SpecSkipped = "spec_skipped",
    SpecFailed: SpecFailed = "spec_failed",
    SpecResult: SpecResult = "spec_result",
    PlanAdopted: PlanAdopted = "plan_adopted",
    PlanStart: PlanStart = "plan_start",
    PlanException: PlanException = "plan_exception",
    PlanRunComplete: PlanRunComplete = "plan_run_complete",
    PlanPass: PlanPass = "plan_pass",
    PlanFail: PlanFail = "plan_fail",
    PlanInvalidated: PlanInvalidated = "plan_invalidated",
    ImplStart: ImplStart = "impl_start",
    ImplException: ImplException = "impl_exception",
    ImplNonzeroExit: ImplNonzeroExit = "impl_nonzero_exit",
    ImplRunComplete: ImplRunComplete = "impl_run_complete",
    ImplNoCompletion: ImplNoCompletion = "impl_no_completion",
    ImplRejected: ImplRejected = "impl_rejected",
    CandidateLoaded: CandidateLoaded = "candidate_loaded",
    CandidateWritten: CandidateWritten = "candidate_written",
    VerifyStart: VerifyStart = "verify_start",
    VerifyException: VerifyException = "verify_exception",
    VerifyNonzeroExit: VerifyNonzeroExit = "verify_nonzero_exit",
    VerifyRunComplete: VerifyRunComplete = "verify_run_complete",
    VerifyPass: VerifyPass = "verify_pass",
    VerifyFail: VerifyFail = "verify_fail",
    BuildStart: BuildStart = "build_start",
    BuildResult: BuildResult = "build_result",
    IterationStart: IterationStart = "iteration_start",
    IterationResult: IterationResult = "iteration_result",
    TaskDone: TaskDone = "task_done",
    TaskRejected: TaskRejected = "task_rejected",
    TaskKilled: TaskKilled = "task_killed",
    InterviewTurn: InterviewTurn = "interview_turn",
    PrdApproved: PrdApproved = "prd_approved",
    ConsentAsked: ConsentAsked = "consent_asked",
    TopicMapped: TopicMapped = "topic_mapped",
    StoryPassed: StoryPassed = "story_passed",
}

impl JournalEvent {
    /// Whether a later start decides by it. A crash after any other event is equivalent to a crash after the write
    /// before it.
    pub const fn is_decisive(&self) -> bool {
        matches!(
            self,
            JournalEvent::RunStarted(_)
                | JournalEvent::RunFinished(_)
                | JournalEvent::LimitWaitStarted(_)
                | JournalEvent::LimitWaitEnded(_)
                | JournalEvent::BoundaryCrossed(_)
                | JournalEvent::LeftoversEnded(_)
                | JournalEvent::StateRebuilt(_)
                | JournalEvent::BudgetExhausted(_)
                | JournalEvent::MutationRequested(_)
                | JournalEvent::RequestIgnored(_)
                | JournalEvent::QuestionAsked(_)
                | JournalEvent::QuestionAnswered(_)
                | JournalEvent::AnswerTaken(_)
                | JournalEvent::Interrupted
                | JournalEvent::Unknown(_)
        )
    }
}
