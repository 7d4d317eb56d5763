//! Strategies for arbitrary entries, for property tests of the journal and of the board.

use std::time::Duration;

use jiff::Timestamp;
use proptest::option;
use proptest::prelude::*;

use super::samples::{
    asked, crossed, finished, gate_finished, one_of_each, run_id, started, text, time, verdict,
};
use super::*;
use crate::channel::tests::any_request;
use crate::policy::budget::BudgetExhausted;
use crate::role::Role;
use crate::run::{ProcessExit, RunEnd, RunOutcome, Trouble};
use crate::usage::Usage;

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
        Just(RunEnd::Withdrawn),
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
        any_stderr().prop_map(|stderr| Trouble::NoOutput { stderr }),
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
        Just(RunOutcome::Withdrawn),
        (any::<bool>(), any_wait()).prop_map(|(idle, after)| RunOutcome::TimedOut { idle, after }),
        any_trouble().prop_map(|trouble| RunOutcome::Trouble { trouble }),
    ]
}

fn any_started() -> impl Strategy<Value = RunStarted> {
    let texts = (option::of(any_item()), option::of(any_text()), option::of(any_text()));
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
            ..started()
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
                usage_is_estimate: cost.1,
                cost_is_estimate: cost.1,
                duration,
                tool_calls,
                final_line,
                ..finished()
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

/// An event of a later Ralph. It can only be created by parsing its line.
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

fn any_item() -> impl Strategy<Value = String> {
    "[ab]"
}

fn any_verdict() -> impl Strategy<Value = VerdictReached> {
    let kinds = [VerdictKind::Accepted, VerdictKind::Rejected, VerdictKind::NeedsHuman];
    (any_item(), prop::sample::select(kinds.to_vec())).prop_map(|(item, kind)| verdict(&item, kind))
}

fn any_gate() -> impl Strategy<Value = GateFinished> {
    ("[ab]", 0..100_u64, any::<bool>()).prop_map(|(gate, duration_ms, passes)| GateFinished {
        gate,
        duration_ms,
        status: text(if passes { "passed" } else { "failed" }),
        ..gate_finished()
    })
}

fn any_event() -> impl Strategy<Value = JournalEvent> {
    let samples: Vec<JournalEvent> = one_of_each().into_iter().map(|entry| entry.event).collect();
    prop_oneof![
        4 => any_started().prop_map(JournalEvent::from),
        4 => any_finished().prop_map(JournalEvent::from),
        2 => (any_agent(), any_time(), any::<bool>())
            .prop_map(|(agent, until, known)| LimitWaitStarted { agent, account: None, until, known, worked: false }.into()),
        1 => (any_agent(), any::<bool>(), any::<bool>()).prop_map(|(agent, interrupted, cleared)| {
            LimitWaitEnded { agent, account: None, interrupted, cleared }.into()
        }),
        1 => (any::<u32>(), option::of(any_text()))
            .prop_map(|(processes, session)| LeftoversEnded { processes, session }.into()),
        1 => any_text().prop_map(|reason| StateRebuilt { reason }.into()),
        1 => any_exhausted().prop_map(|what| BudgetStop { what }.into()),
        1 => any_exhausted().prop_map(|what| BudgetNear { what }.into()),
        1 => (any_request(), any::<bool>(), any_text()).prop_map(|(request, accepted, text)| {
            MutationRequested { request, accepted, text }.into()
        }),
        1 => (any_text(), any_text())
            .prop_map(|(name, reason)| RequestIgnored { name, reason }.into()),
        1 => ("q[12]", any_item(), any_text())
            .prop_map(|(id, item, question)| QuestionAsked { id, item, question, ..asked() }.into()),
        1 => ("q[12]", any_text())
            .prop_map(|(id, answer)| QuestionAnswered { id, answer, by: None }.into()),
        1 => "q[12]".prop_map(|id| AnswerTaken { id }.into()),
        1 => (proptest::collection::vec(any_text(), 0..3), option::of(any_text())).prop_map(
            |(kept, displaced)| BoundaryCrossed { kept, displaced, ..crossed() }.into()
        ),
        2 => any_verdict().prop_map(JournalEvent::from),
        2 => any_gate().prop_map(JournalEvent::from),
        6 => prop::sample::select(samples),
        1 => any_unknown(),
    ]
}

/// An arbitrary entry, of a few runs only, so that entries refer to the same run.
pub(crate) fn any_entry() -> impl Strategy<Value = JournalEntry> {
    let run = option::weighted(0.9, (0_u32..4).prop_map(run_id));
    let wf = option::weighted(0.8, (8_u32..10).prop_map(run_id));
    (any_time(), run, wf, any_event()).prop_map(|(at, run, wf, event)| JournalEntry {
        at,
        run,
        wf,
        event,
    })
}

pub(crate) fn any_journal() -> impl Strategy<Value = Vec<JournalEntry>> {
    proptest::collection::vec(any_entry(), 0..24)
}
