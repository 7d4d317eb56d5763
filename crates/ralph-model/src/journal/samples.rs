//! Entries for the journal's tests.

use std::time::Duration;

use jiff::Timestamp;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::channel::MutationRequest;
use crate::channel::tests::any_request;
use crate::policy::budget::BudgetExhausted;
use crate::run::Trouble;

/// A time some seconds after the one all samples begin at.
pub(super) fn time(seconds: i64) -> Timestamp {
    let start: Timestamp = "2026-11-15T20:30:00Z".parse().unwrap();
    Timestamp::from_second(start.as_second() + seconds).unwrap()
}

pub(super) fn run_id(nonce: u32) -> RunId {
    RunId::new(time(0), nonce)
}

pub(super) fn entry(seconds: i64, event: JournalEvent) -> JournalEntry {
    JournalEntry { at: time(seconds), run: None, event }
}

pub(super) fn of_run(nonce: u32, seconds: i64, event: JournalEvent) -> JournalEntry {
    JournalEntry { run: Some(run_id(nonce)), ..entry(seconds, event) }
}

pub(super) fn started() -> RunStarted {
    RunStarted {
        item: Some("0001-a".to_owned()),
        role: Role::Implementer,
        agent: "codex".to_owned(),
        model: Some("gpt-5.5".to_owned()),
        attempt: 2,
        boundary: "kernel".to_owned(),
        dir: "ralph/runs/0001-a/1".to_owned(),
        resumed_session: Some("s1".to_owned()),
    }
}

pub(super) fn finished() -> RunFinished {
    RunFinished {
        end: RunEnd::IdleTimeout { after: Duration::from_mins(15) },
        exit: Some(ProcessExit::Signal(9)),
        outcome: RunOutcome::Trouble {
            trouble: Trouble::UsageLimit { resets_at: Some(time(1800)) },
        },
        session: Some("s1".to_owned()),
        usage: Usage { input: 1, cache_read: 2, cache_write: 3, output: 4 },
        cost_usd: Some(0.25),
        cost_is_estimate: true,
        duration: Duration::from_millis(1500),
        tool_calls: 3,
        final_line: Some("bye".to_owned()),
    }
}

fn crossed() -> BoundaryCrossed {
    BoundaryCrossed {
        violations: vec!["ralph.toml".to_owned()],
        put_back: vec!["ralph.toml".to_owned()],
        saved_in: Some("/state/displaced/1".to_owned()),
        ..BoundaryCrossed::default()
    }
}

pub(super) fn limit_wait(until: i64, known: bool) -> JournalEvent {
    let agent = "codex".to_owned();
    JournalEvent::LimitWaitStarted(LimitWaitStarted { agent, until: time(until), known })
}

pub(super) fn limit_wait_ended(interrupted: bool) -> JournalEvent {
    JournalEvent::LimitWaitEnded(LimitWaitEnded { agent: "codex".to_owned(), interrupted })
}

pub(super) fn one_of_each() -> Vec<JournalEntry> {
    let cost = BudgetExhausted::Cost { limit_usd: 5.0, spent_usd: 5.25 };
    let backoff = BackoffStarted { wait: Duration::from_secs(4), reason: "gate failed".to_owned() };
    vec![
        of_run(1, 0, JournalEvent::RunStarted(Box::new(started()))),
        of_run(1, 1, JournalEvent::RunFinished(Box::new(finished()))),
        entry(2, limit_wait(1830, true)),
        entry(3, limit_wait_ended(true)),
        entry(4, JournalEvent::BackoffStarted(backoff)),
        entry(5, JournalEvent::LeftoversEnded(LeftoversEnded { processes: 2 })),
        entry(6, JournalEvent::StateRebuilt(StateRebuilt { reason: "new clone".to_owned() })),
        entry(7, JournalEvent::BudgetExhausted(BudgetStop { what: cost })),
        entry(8, JournalEvent::Interrupted),
        of_run(1, 9, JournalEvent::MutationRequested(Box::new(mutation()))),
        of_run(1, 10, JournalEvent::RequestIgnored(ignored())),
        of_run(1, 11, JournalEvent::QuestionAsked(asked())),
        entry(12, JournalEvent::QuestionAnswered(answered())),
        entry(13, JournalEvent::AnswerTaken(AnswerTaken { id: "q1".to_owned() })),
        of_run(1, 14, JournalEvent::BoundaryCrossed(Box::new(crossed()))),
        entry(15, pipeline(WorkflowKind::VerifyFail)),
    ]
}

fn pipeline(kind: WorkflowKind) -> JournalEvent {
    let fields = WorkflowFields {
        spec: Some("0001-a.md".to_owned()),
        phase: Some(crate::pipeline::Phase::Verify),
        attempt: Some(2),
        ..WorkflowFields::default()
    };
    JournalEvent::Workflow(Box::new(WorkflowEvent { kind, fields }))
}

fn mutation() -> MutationRequested {
    let request =
        MutationRequest::TaskDone { id: Some("t-1".to_owned()), no_change: Some("so".to_owned()) };
    MutationRequested { request, accepted: true, text: "noted".to_owned() }
}

fn ignored() -> RequestIgnored {
    RequestIgnored { name: "x.req".to_owned(), reason: "it is not a file".to_owned() }
}

fn asked() -> QuestionAsked {
    let question = "Is it so?".to_owned();
    QuestionAsked { id: "q1".to_owned(), item: "0001-a".to_owned(), question }
}

fn answered() -> QuestionAnswered {
    QuestionAnswered { id: "q1".to_owned(), answer: "yes".to_owned() }
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{0,8}", "(?s).{0,30}"]
}

fn any_time() -> impl Strategy<Value = Timestamp> {
    (0_i64..1_000_000_000_000).prop_map(|nanos| {
        Timestamp::from_nanosecond(time(0).as_nanosecond() + i128::from(nanos)).unwrap()
    })
}

fn any_wait() -> impl Strategy<Value = Duration> {
    (0_u64..100_000_000).prop_map(Duration::from_millis)
}

fn any_agent() -> impl Strategy<Value = String> {
    prop_oneof![Just("codex".to_owned()), Just("claude".to_owned())]
}

fn any_end() -> impl Strategy<Value = RunEnd> {
    prop_oneof![
        Just(RunEnd::Exited),
        Just(RunEnd::Interrupted),
        Just(RunEnd::Hopeless),
        any_wait().prop_map(|after| RunEnd::WallTimeout { after }),
        any_wait().prop_map(|after| RunEnd::IdleTimeout { after }),
        any::<(u64, u64)>().prop_map(|(used, window)| RunEnd::ContextLimit { used, window }),
        any_text().prop_map(|reason| RunEnd::NotStarted { reason }),
        any_text().prop_map(|reason| RunEnd::MachineFault { reason }),
    ]
}

fn any_stderr() -> impl Strategy<Value = Option<String>> {
    proptest::option::of("\\PC{0,20}")
}

fn any_exit() -> impl Strategy<Value = ProcessExit> {
    prop_oneof![
        any::<i32>().prop_map(ProcessExit::Code),
        any::<i32>().prop_map(ProcessExit::Signal)
    ]
}

fn any_trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        option::of(any_time()).prop_map(|resets_at| Trouble::UsageLimit { resets_at }),
        any_text().prop_map(|message| Trouble::Network { message }),
        any_text().prop_map(|message| Trouble::Server { message }),
        any_text().prop_map(|message| Trouble::Auth { message }),
        any_text().prop_map(|message| Trouble::Billing { message }),
        any_text().prop_map(|message| Trouble::UnknownSession { message }),
        any_text().prop_map(|message| Trouble::Spawn { message }),
        any_text().prop_map(|message| Trouble::Machine { message }),
        Just(Trouble::NoOutput),
        (any_exit(), any_stderr()).prop_map(|(exit, stderr)| Trouble::Crash { exit, stderr }),
        any_text().prop_map(|message| Trouble::Agent { message }),
    ]
}

fn any_outcome() -> impl Strategy<Value = RunOutcome> {
    prop_oneof![
        Just(RunOutcome::Completed),
        Just(RunOutcome::ContextFull),
        proptest::collection::vec(any_text(), 0..3)
            .prop_map(|paths| RunOutcome::Violation { paths }),
        Just(RunOutcome::Interrupted),
        (any::<bool>(), any_wait()).prop_map(|(idle, after)| RunOutcome::TimedOut { idle, after }),
        any_trouble().prop_map(|trouble| RunOutcome::Trouble { trouble }),
    ]
}

fn any_started() -> impl Strategy<Value = RunStarted> {
    let texts = (option::of(any_text()), option::of(any_text()), option::of(any_text()));
    (texts, 0..Role::ALL.len(), any_agent(), any::<u32>(), any_text(), any_text()).prop_map(
        |((item, model, resumed_session), role, agent, attempt, boundary, dir)| RunStarted {
            item,
            role: Role::ALL[role],
            agent,
            model,
            attempt,
            boundary,
            dir,
            resumed_session,
        },
    )
}

fn any_finished() -> impl Strategy<Value = RunFinished> {
    let ending = (any_end(), option::of(any_exit()), any_outcome());
    let texts = (option::of(any_text()), option::of(any_text()));
    let cost = (option::of(0.0..1e6_f64), any::<bool>());
    let counts = (any::<(u64, u64, u64, u64)>(), any::<u64>());
    (ending, texts, cost, counts, any_wait()).prop_map(
        |((end, exit, outcome), (session, final_line), cost, (usage, tool_calls), duration)| {
            let (input, cache_read, cache_write, output) = usage;
            RunFinished {
                end,
                exit,
                outcome,
                session,
                usage: Usage { input, cache_read, cache_write, output },
                cost_usd: cost.0,
                cost_is_estimate: cost.1,
                duration,
                tool_calls,
                final_line,
            }
        },
    )
}

fn any_exhausted() -> impl Strategy<Value = BudgetExhausted> {
    prop_oneof![
        any::<(u32, u32)>().prop_map(|(limit, spent)| BudgetExhausted::Iterations { limit, spent }),
        any::<(u32, u32)>().prop_map(|(limit, spent)| BudgetExhausted::Attempts { limit, spent }),
        any::<(u64, u64)>().prop_map(|(limit, spent)| BudgetExhausted::Tokens { limit, spent }),
        (0.0..1e6_f64, 0.0..1e6_f64)
            .prop_map(|(limit_usd, spent_usd)| BudgetExhausted::Cost { limit_usd, spent_usd }),
        (any_wait(), any_wait()).prop_map(|(limit, spent)| BudgetExhausted::Wall { limit, spent }),
        any::<(u32, u32)>()
            .prop_map(|(limit, spent)| BudgetExhausted::ConsecutiveFailures { limit, spent }),
    ]
}

/// An event of a later Ralph, read from its line, which is the only way to come by one.
fn any_unknown() -> impl Strategy<Value = JournalEvent> {
    let data = prop_oneof![
        Just(String::new()),
        Just(r#","data":{"x": 1,"a":[1e400, "\u0000"]}"#.to_owned()),
        Just(r#","data":12345678901234567890123"#.to_owned()),
    ];
    ("[a-z.]{1,9}", data).prop_map(|(name, data)| {
        let line = format!(r#"{{"v":1,"at":"2026-11-15T20:30:00Z","event":"later.{name}"{data}}}"#);
        parse_line(line.as_bytes()).unwrap().event
    })
}

fn any_event() -> impl Strategy<Value = JournalEvent> {
    prop_oneof![
        4 => any_started().prop_map(|data| JournalEvent::RunStarted(Box::new(data))),
        4 => any_finished().prop_map(|data| JournalEvent::RunFinished(Box::new(data))),
        2 => (any_agent(), any_time(), any::<bool>()).prop_map(|(agent, until, known)| {
            JournalEvent::LimitWaitStarted(LimitWaitStarted { agent, until, known })
        }),
        1 => (any_agent(), any::<bool>()).prop_map(|(agent, interrupted)| {
            JournalEvent::LimitWaitEnded(LimitWaitEnded { agent, interrupted })
        }),
        1 => (any_wait(), any_text()).prop_map(|(wait, reason)| {
            JournalEvent::BackoffStarted(BackoffStarted { wait, reason })
        }),
        1 => any::<u32>()
            .prop_map(|processes| JournalEvent::LeftoversEnded(LeftoversEnded { processes })),
        1 => any_text().prop_map(|reason| JournalEvent::StateRebuilt(StateRebuilt { reason })),
        1 => any_exhausted().prop_map(|what| JournalEvent::BudgetExhausted(BudgetStop { what })),
        1 => Just(JournalEvent::Interrupted),
        1 => (any_request(), any::<bool>(), any_text()).prop_map(|(request, accepted, text)| {
            JournalEvent::MutationRequested(Box::new(MutationRequested { request, accepted, text }))
        }),
        1 => (any_text(), any_text()).prop_map(|(name, reason)| {
            JournalEvent::RequestIgnored(RequestIgnored { name, reason })
        }),
        1 => ("q[12]", "[ab]", any_text()).prop_map(|(id, item, question)| {
            JournalEvent::QuestionAsked(QuestionAsked { id, item, question })
        }),
        1 => ("q[12]", any_text()).prop_map(|(id, answer)| {
            JournalEvent::QuestionAnswered(QuestionAnswered { id, answer })
        }),
        1 => "q[12]".prop_map(|id| JournalEvent::AnswerTaken(AnswerTaken { id })),
        1 => (proptest::collection::vec(any_text(), 0..3), option::of(any_text())).prop_map(
            |(kept, displaced)| {
                let crossed = BoundaryCrossed { kept, displaced, ..crossed() };
                JournalEvent::BoundaryCrossed(Box::new(crossed))
            }
        ),
        1 => (0..WorkflowKind::ALL.len()).prop_map(|kind| pipeline(WorkflowKind::ALL[kind])),
        1 => any_unknown(),
    ]
}

/// Any entry there can be, of few runs, so that entries meet.
pub(super) fn any_entry() -> impl Strategy<Value = JournalEntry> {
    let run = option::weighted(0.9, (0_u32..4).prop_map(run_id));
    (any_time(), run, any_event()).prop_map(|(at, run, event)| JournalEntry { at, run, event })
}

pub(super) fn any_journal() -> impl Strategy<Value = Vec<JournalEntry>> {
    proptest::collection::vec(any_entry(), 0..16)
}
