//! One entry of each kind, for the tests of the journal and of the board.

use crate::proof::{LandedLevel, ProofLevel};
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::*;
use crate::channel::MutationRequest;
use crate::pipeline::Phase;
use crate::plan::Stage;
use crate::policy::budget::BudgetExhausted;
use crate::role::Role;
use crate::run::{ProcessExit, RunEnd, RunOutcome, Trouble};
use crate::usage::Usage;

/// A time some seconds after the start of all samples.
pub(crate) fn time(seconds: i64) -> Timestamp {
    let start: Timestamp = "2026-11-15T20:30:00Z".parse().unwrap();
    Timestamp::from_second(start.as_second() + seconds).unwrap()
}

/// An id in the format of earlier versions, which journals still contain.
pub(crate) fn run_id(nonce: u32) -> RunId {
    format!("20261115-203000Z-{nonce:08x}").parse().unwrap()
}

pub(crate) fn entry(seconds: i64, event: impl Into<JournalEvent>) -> JournalEntry {
    JournalEntry { at: time(seconds), run: None, wf: None, event: event.into() }
}

pub(crate) fn of_run(nonce: u32, seconds: i64, event: impl Into<JournalEvent>) -> JournalEntry {
    JournalEntry { run: Some(run_id(nonce)), ..entry(seconds, event) }
}

pub(super) fn text(text: &str) -> String {
    text.to_owned()
}

#[expect(clippy::unnecessary_wraps, reason = "most fields are optional")]
pub(super) fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

pub(crate) fn started() -> RunStarted {
    RunStarted {
        item: some("0001-a"),
        role: Role::Implementer,
        agent: text("codex"),
        model: some("gpt-5.5"),
        attempt: 2,
        try_number: Some(1),
        boundary: text("kernel"),
        dir: text("/w/ralph/runs/0001-a/1"),
        place: Some(Place { home: some("runs/0001-a/1"), state: None }),
        resumed_session: some("s1"),
        slot: None,
    }
}

pub(crate) fn finished() -> RunFinished {
    RunFinished {
        end: RunEnd::IdleTimeout { after: Duration::from_mins(15) },
        exit: Some(ProcessExit::Signal(9)),
        outcome: RunOutcome::Trouble {
            trouble: Trouble::UsageLimit { resets_at: Some(time(1800)) },
        },
        session: some("s1"),
        model: some("gpt-5.5-codex"),
        usage: Usage { input: 1, cache_read: 2, cache_write: 3, output: 4 },
        cost_usd: Some(0.25),
        usage_is_estimate: true,
        cost_is_estimate: true,
        duration: Duration::from_millis(1500),
        cpu_ms: Some(700),
        tool_calls: 3,
        context_max: Some(9000),
        retries: Some(1),
        stdout_bytes: Some(12_345),
        leftovers: Some(2),
        changed: Some(ChangeSize { commits: 1, files: 2, added: 30, removed: 4 }),
        advice: Vec::new(),
        not_taken: vec![OutboxRefusal { name: text("x"), reason: text("it is not a file") }],
        final_line: some("bye"),
    }
}

pub(super) fn crossed() -> BoundaryCrossed {
    BoundaryCrossed {
        violations: vec![text("ralph.toml")],
        put_back: vec![text("ralph.toml")],
        saved_in: some("/state/displaced/1"),
        ..BoundaryCrossed::default()
    }
}

pub(crate) fn limit_wait(until: i64, known: bool) -> JournalEvent {
    LimitWaitStarted {
        agent: text("codex"),
        account: None,
        until: time(until),
        known,
        worked: false,
    }
    .into()
}

pub(crate) fn limit_wait_ended(interrupted: bool) -> JournalEvent {
    LimitWaitEnded { agent: text("codex"), account: None, interrupted, cleared: false }.into()
}

pub(crate) fn workflow_started() -> WorkflowStarted {
    let agent = RoleAgent { agent: text("codex"), model: some("gpt-5.5") };
    WorkflowStarted {
        id: run_id(9),
        kind: text("pipeline"),
        args: vec![text("pipeline"), text("0001")],
        pid: 4711,
        started: 815,
        ralph: text("0.1.0"),
        budget: BudgetLimits { cost_usd: Some(20.0), ..BudgetLimits::default() },
        roles: BTreeMap::from([(text("implementer"), agent)]),
    }
}

pub(crate) fn gate_started() -> GateStarted {
    GateStarted {
        item: some("0001-a"),
        commit: text("c0ffee"),
        at: GatePoint::Candidate,
        gate: text("tests"),
        attempt: GateAttempt::First,
        argv: vec![text("cargo"), text("test")],
        kept: Vec::new(),
    }
}

pub(crate) fn gate_finished() -> GateFinished {
    GateFinished {
        item: some("0001-a"),
        commit: text("c0ffee"),
        at: GatePoint::Candidate,
        gate: text("tests"),
        attempt: GateAttempt::Again,
        kept: Vec::new(),
        status: text("failed"),
        reason: some("exit 1"),
        attribution: some("regressed"),
        duration_ms: 1234,
        tests: Some(GateTests { passed: 146, failed: 2, skipped: 0 }),
        warm: Some(true),
        log: Some(Place { home: None, state: some("gates/c0ffee/tests-1.log") }),
    }
}

pub(crate) fn verdict(item: &str, verdict: VerdictKind) -> VerdictReached {
    VerdictReached {
        item: text(item),
        commit: some("c0ffee"),
        verdict,
        by: text("judge"),
        reasons: vec![ReasonText { code: text("gate_regressed"), text: text("It fails.") }],
        level: None,
        files: Some(3),
    }
}

fn pipeline_events() -> Vec<JournalEvent> {
    let spec = || text("0001-a.md");
    let item = || text("0001-a");
    vec![
        RunStart {
            total: 2,
            magic_phrase: text("DONE"),
            max_attempts: 10,
            agent: text("codex"),
            exe: some("/bin/codex"),
            args: vec![text("--x")],
            boundary: text("kernel"),
            force: vec![spec()],
            workspace_root: some("/w"),
            ralph_home: some("/w/ralph"),
            specs_root: some("/w/ralph/specs"),
            plans_root: some("/w/ralph/specs/plans"),
            candidates_root: some("/w/ralph/specs/candidates"),
            done_root: some("/w/ralph/specs/done"),
            sessions_root: some("/w/ralph/specs/sessions"),
            runs_root: some("/w/ralph/runs"),
        }
        .into(),
        RunError { error: text("no disk") }.into(),
        RunStopped { spec: spec(), reason: text("after 0001-a.md") }.into(),
        RunComplete { completed_count: 1, skipped_count: 2, failed_count: 0, waiting_count: 1 }
            .into(),
        SpecQueue { spec: spec(), index: 1, total: 2 }.into(),
        SpecStart { spec: spec(), item: item(), forced: Some(false), already_done: Some(false) }
            .into(),
        SpecSkipped { spec: spec(), reason: some("changed since done") }.into(),
        SpecFailed { spec: spec(), reason: text("max attempts exceeded") }.into(),
        SpecResult { spec: spec(), result: text("completed") }.into(),
        PlanAdopted { spec: spec(), plan_file: text("specs/plans/0001-a.md") }.into(),
        PlanStart {
            spec: spec(),
            item: item(),
            attempt: 1,
            max_attempts: 10,
            plan_attempt: 2,
            replanning: Some(true),
        }
        .into(),
        PlanException { spec: spec(), attempt: 1, error: text("no such program") }.into(),
        PlanRunComplete {
            spec: spec(),
            attempt: 1,
            exit_code: Some(0),
            completed: Some(true),
            plan_file_exists: Some(true),
            session_id: some("s1"),
            resumed_from_session: some("s0"),
            tokens_used: Some(10),
            run_dir: some("runs/0001-a/1"),
            summary: some("bye"),
        }
        .into(),
        PlanPass { spec: spec(), plan_attempt: 2, plan_file: text("specs/plans/0001-a.md") }.into(),
        PlanFail { spec: spec(), reason: text("it left no plan") }.into(),
        PlanInvalidated { spec: spec(), attempt: Some(3), reason: text("no such API") }.into(),
    ]
}

fn implementation_events() -> Vec<JournalEvent> {
    let spec = || text("0001-a.md");
    let item = || text("0001-a");
    vec![
        ImplStart { spec: spec(), item: item(), attempt: 1, max_attempts: 10 }.into(),
        ImplException { spec: spec(), attempt: 1, error: text("no such program") }.into(),
        ImplNonzeroExit { spec: spec(), attempt: 1, exit_code: 2 }.into(),
        ImplRunComplete {
            spec: spec(),
            attempt: 1,
            exit_code: Some(0),
            completed: Some(true),
            completion_ok: Some(true),
            completion_commit: some("c0ffee"),
            session_id: some("s1"),
            resumed_from_session: some("s0"),
            tokens_used: Some(10),
            run_dir: some("runs/0001-a/1"),
            summary: some("bye"),
        }
        .into(),
        ImplNoCompletion { spec: spec(), attempt: Some(1) }.into(),
        ImplRejected { spec: spec(), commit: some("c0ffee"), reason: text("It fails.") }.into(),
        CandidateLoaded { spec: spec(), commit: text("c0ffee"), attempt: 1, max_attempts: 10 }
            .into(),
        CandidateWritten {
            spec: spec(),
            commit: some("c0ffee"),
            level: Some(ProofLevel::GatesPassed),
            reason: some("so"),
            candidate_file: some("specs/candidates/0001-a.json"),
        }
        .into(),
        VerifyStart {
            spec: spec(),
            item: item(),
            commit: text("c0ffee"),
            attempt: 1,
            max_attempts: 10,
        }
        .into(),
        VerifyException { spec: spec(), attempt: 1, error: text("no such program") }.into(),
        VerifyNonzeroExit { spec: spec(), attempt: 1, exit_code: 2 }.into(),
        VerifyRunComplete {
            spec: spec(),
            attempt: 1,
            exit_code: Some(0),
            completed: Some(true),
            commit_match: Some(true),
            session_id: some("s1"),
            resumed_from_session: some("s0"),
            tokens_used: Some(10),
            run_dir: some("runs/0001-a/1"),
            summary: some("bye"),
        }
        .into(),
        VerifyPass {
            spec: spec(),
            commit: some("c0ffee"),
            level: Some(LandedLevel::of_landing(ProofLevel::GatesPassed)),
            done_file: some("specs/done/0001-a.md"),
        }
        .into(),
        VerifyFail {
            spec: spec(),
            commit: some("c0ffee"),
            observed_commit: some("decade"),
            reason: text("no"),
        }
        .into(),
    ]
}

fn build_events() -> Vec<JournalEvent> {
    let task = || text("t-1");
    vec![
        BuildStart { spec: some("s.md"), boundary: text("kernel") }.into(),
        BuildResult { result: text("complete"), iteration: Some(4) }.into(),
        IterationStart {
            iteration: Some(3),
            stage: Some(Stage::Build),
            item: some("t-1"),
            try_number: Some(2),
            task: some("t-1"),
            name: some("Do it"),
            spec: some("s.md"),
        }
        .into(),
        IterationResult {
            iteration: Some(3),
            stage: Some(Stage::Build),
            item: some("t-1"),
            try_number: Some(2),
            result: StepResult::Failed,
            reason: some("no claim"),
        }
        .into(),
        TaskDone {
            task: task(),
            commit: some("c0ffee"),
            level: Some(LandedLevel::of_landing(ProofLevel::GatesPassed)),
        }
        .into(),
        TaskRejected { task: task(), commit: some("c0ffee"), reason: text("It fails.") }.into(),
        TaskKilled { task: task(), reason: text("timeout") }.into(),
        PlanChanged { by: text("person"), what: text("tasks_added"), ids: vec![task()] }.into(),
    ]
}

fn goal_events() -> Vec<JournalEvent> {
    vec![
        InterviewTurn {
            goal: text("add dark mode"),
            questions: Some(2),
            stories: Some(3),
            problems: vec![text("Unexpected keys: project")],
        }
        .into(),
        PrdApproved { branch: text("ralph/dark"), stories: Some(3), failing: Some(2) }.into(),
        ConsentAsked {
            step: text("understand"),
            reasons: vec![text("there was no codebase map")],
            answer: text("no"),
        }
        .into(),
        TopicMapped { topic: text("Tests"), reason: some("the map is empty"), left: Some(4) }
            .into(),
        WorkLanded {
            item: text("0001-a"),
            repository: some("lib"),
            branch: text("main"),
            commit: text("c0ffee"),
            candidate: some("c0ffed"),
            merge: Some(true),
            waits: some("a merge is under way"),
            subject: text("ralph: 0001-a is done"),
        }
        .into(),
        StoryPassed {
            story: text("US-001"),
            title: text("Colours come from one file"),
            item: text("ralph/dark/US-001"),
            commit: some("c0ffee"),
            level: Some(LandedLevel::of_landing(ProofLevel::GatesPassed)),
            left: Some(1),
        }
        .into(),
    ]
}

fn session_events() -> Vec<JournalEvent> {
    let cost = BudgetExhausted::Cost { limit_usd: 5.0, spent_usd: 5.25 };
    let near = BudgetExhausted::Tokens { limit: 100, spent: 80 };
    let (spec, phase) = (|| some("0001-a.md"), Some(Phase::Verify));
    vec![
        WorkflowEnded { how: text("completed") }.into(),
        limit_wait(1830, true),
        limit_wait_ended(true),
        LeftoversEnded { processes: 2, session: None }.into(),
        StateRebuilt { reason: text("new clone") }.into(),
        BudgetNear { what: near }.into(),
        BudgetStop { what: cost }.into(),
        JournalEvent::Interrupted,
        answered().into(),
        AnswerTaken { id: text("q1") }.into(),
        PersonNeeded { spec: spec(), task: None, question: text("Is it so?") }.into(),
        PersonAnswered { spec: None, task: some("t-1"), reason: text("yes") }.into(),
        SetupStarted { item: some("0001-a"), commit: text("c0ffee"), argv: vec![text("npm")] }
            .into(),
        gate_started().into(),
        gate_finished().into(),
        GatesChanged { spec: spec(), task: None, reason: text("tests: added") }.into(),
        verdict("0001-a", VerdictKind::Rejected).into(),
        TroubleMet { spec: spec(), item: some("0001-a"), phase, reason: text("no network") }.into(),
        UsageLimitWait {
            spec: spec(),
            item: some("0001-a"),
            phase,
            agent: text("codex"),
            wait_seconds: Some(90),
            reset_seconds: Some(60),
            reason: text("reset_seconds"),
            until: Some(time(90)),
        }
        .into(),
        BackoffWait {
            spec: spec(),
            item: some("0001-a"),
            phase,
            wait_seconds: Some(4),
            reason: some("verify_failed"),
        }
        .into(),
        Note { spec: spec(), task: None, reason: text("so it is") }.into(),
    ]
}

/// One entry of each kind, with all optional fields set.
pub(crate) fn one_of_each() -> Vec<JournalEntry> {
    let mut entries = vec![
        entry(0, workflow_started()),
        of_run(1, 0, started()),
        of_run(1, 1, finished()),
        of_run(1, 9, mutation()),
        of_run(1, 10, ignored()),
        of_run(1, 11, asked()),
        of_run(1, 14, crossed()),
    ];
    let events = [
        session_events(),
        pipeline_events(),
        implementation_events(),
        build_events(),
        goal_events(),
    ]
    .concat();
    entries.extend(
        (20..)
            .zip(events)
            .map(|(seconds, event)| JournalEntry { wf: Some(run_id(9)), ..entry(seconds, event) }),
    );
    entries
}

fn mutation() -> MutationRequested {
    let request = MutationRequest::TaskDone { id: some("t-1"), no_change: some("so") };
    MutationRequested { request, accepted: true, text: text("noted") }
}

fn ignored() -> RequestIgnored {
    RequestIgnored { name: text("x.req"), reason: text("it is not a file") }
}

pub(super) fn asked() -> QuestionAsked {
    let kind = QuestionKind::Accept;
    QuestionAsked {
        id: text("q1"),
        item: text("0001-a"),
        question: text("Is it so?"),
        kind: Some(kind),
        choices: kind.choices(),
        commit: some("c0ffee"),
    }
}

fn answered() -> QuestionAnswered {
    QuestionAnswered { id: text("q1"), answer: text("yes"), by: Some(AnswerOrigin::Cli) }
}
