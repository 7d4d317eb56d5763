use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::journal::any;
use crate::journal::samples::{
    self, entry, finished, gate_finished, limit_wait, limit_wait_ended, of_run, started, verdict,
    workflow_started,
};
use crate::journal::{
    IterationResult, LeftoversEnded, LimitWaitEnded, LimitWaitStarted, RunStarted, StepResult,
    VerdictKind, render_line,
};
use crate::policy::limit::LimitPolicy;
use crate::run::UsageLimit;
use crate::usage::Usage;

fn fold<'a>(journal: impl IntoIterator<Item = &'a JournalEntry>) -> Board {
    let mut board = Board::default();
    for entry in journal {
        board.apply(entry);
    }
    board
}

fn start(nonce: u32, at: i64) -> JournalEntry {
    of_run(nonce, at, started())
}

fn finish_as(nonce: u32, at: i64, finished: RunFinished) -> JournalEntry {
    of_run(nonce, at, finished)
}

fn finish(nonce: u32, at: i64) -> JournalEntry {
    finish_as(nonce, at, finished())
}

fn completed() -> RunFinished {
    RunFinished { outcome: RunOutcome::Completed, ..finished() }
}

fn leftovers(nonce: u32, at: i64) -> JournalEntry {
    of_run(nonce, at, LeftoversEnded { processes: 1, session: None })
}

fn states(board: &Board) -> Vec<char> {
    let letter = |run: &RunView| match run.state() {
        RunState::Running => 'r',
        RunState::Finished(_) => 'f',
        RunState::Abandoned => 'a',
    };
    board.runs().map(letter).collect()
}

#[test]
fn runs_are_running_until_their_end_is_told() {
    let board =
        fold(&[start(1, 0), finish(1, 5), start(2, 6), leftovers(2, 7), start(3, 8), start(4, 9)]);
    assert_eq!(states(&board), ['f', 'a', 'r', 'r']);
    let ids: Vec<_> = board.runs().map(|run| run.id.clone()).collect();
    assert_eq!(ids, [1, 2, 3, 4].map(samples::run_id));
}

#[test]
fn a_run_that_finished_is_not_abandoned_by_a_late_finding() {
    assert_eq!(states(&fold(&[start(1, 0), finish(1, 5), leftovers(1, 6)])), ['f']);
}

#[test]
fn leftovers_of_something_that_never_began_as_a_run_are_no_run() {
    // Gates have their own ids and are terminated like runs, but they are not runs.
    let board = fold(&[start(1, 0), finish(1, 5), leftovers(2, 6)]);
    assert_eq!(states(&board), ['f']);
    assert_eq!(board.runs().next().unwrap().id, samples::run_id(1));
    assert_eq!(states(&fold(&[leftovers(2, 6)])), [' '; 0]);
}

#[test]
fn an_end_without_a_beginning_counts() {
    let board = fold(&[finish(1, 5)]);
    assert_eq!(states(&board), ['f']);
    assert_eq!(board.totals().finished_runs, 1);
}

#[test]
fn an_end_told_twice_counts_once() {
    assert_eq!(
        fold(&[start(1, 0), finish(1, 5), finish(1, 5)]),
        fold(&[start(1, 0), finish(1, 5)])
    );
}

#[test]
fn totals_sum_what_runs_used_and_cost() {
    let told = RunFinished { cost_is_estimate: false, ..finished() };
    let free = RunFinished { cost_usd: None, ..finished() };
    let expected = Totals {
        finished_runs: 2,
        usage: Usage { input: 2, cache_read: 4, cache_write: 6, output: 8 },
        cost_usd: Some(0.25),
        cost_is_estimate: false,
        usage_is_estimate: true,
        runs_without_cost: 1,
        duration: Duration::from_secs(3),
    };
    let journal = [finish_as(1, 0, told), finish_as(2, 1, free)];
    assert_eq!(*fold(&journal).totals(), expected);
    assert!(fold(journal.iter().chain(&[finish(3, 2)])).totals().cost_is_estimate);
}

fn holder(agent: &str) -> LimitHolder {
    LimitHolder { agent: agent.to_owned(), account: None }
}

#[test]
fn a_limit_of_one_account_is_not_that_of_another() {
    let started = |account: &str| LimitWaitStarted {
        agent: "command".to_owned(),
        account: Some(account.to_owned()),
        until: samples::time(100),
        known: true,
        worked: false,
    };
    let of = |account: &str| LimitHolder { account: Some(account.to_owned()), ..holder("command") };
    let board = fold(&[entry(0, started("one")), entry(1, started("one"))]);
    assert!(board.limit_wait(&of("one"), samples::time(10)).is_some());
    assert_eq!(board.limit_wait(&of("two"), samples::time(10)), None);
    assert_eq!(board.limit_wait(&holder("command"), samples::time(10)), None);
    assert_eq!((board.limits_in_a_row(&of("one")), board.limits_in_a_row(&of("two"))), (2, 0));
}

#[test]
fn waits_begin_anew_after_work_and_when_a_person_clears_the_limit() {
    let wait = |worked| LimitWaitStarted {
        agent: "codex".to_owned(),
        account: None,
        until: samples::time(100),
        known: false,
        worked,
    };
    let ended = |cleared| LimitWaitEnded {
        agent: "codex".to_owned(),
        account: None,
        interrupted: false,
        cleared,
    };
    let counts = |journal: &[JournalEntry]| {
        let board = fold(journal);
        let holder = holder("codex");
        (board.limits_in_a_row(&holder), board.unknown_limits_in_a_row(&holder))
    };
    let twice = [entry(0, wait(false)), entry(1, ended(false)), entry(2, wait(false))];
    assert_eq!(counts(&twice), (2, 2));
    assert_eq!(counts(&[&twice[..], &[entry(3, wait(true))]].concat()), (1, 1));
    assert_eq!(counts(&[&twice[..], &[entry(3, ended(true))]].concat()), (0, 0));
}

#[test]
fn a_wait_is_active_until_it_ended_or_its_time_is_past() {
    let wait = |until, known| Some(LimitWait { until: samples::time(until), known });
    let at = |journal: &[JournalEntry], now| {
        fold(journal).limit_wait(&holder("codex"), samples::time(now))
    };
    let first = entry(0, limit_wait(100, true));
    let second = entry(50, limit_wait(200, false));
    assert_eq!(at(&[], 0), None);
    assert_eq!(at(std::slice::from_ref(&first), 99), wait(100, true));
    assert_eq!(at(std::slice::from_ref(&first), 100), None);
    assert_eq!(at(&[first.clone(), second.clone()], 60), wait(200, false));
    assert_eq!(at(&[first.clone(), entry(60, limit_wait_ended(false))], 60), None);
    let board = fold(&[first, second]);
    assert_eq!(board.limit_wait(&holder("claude"), samples::time(0)), None);
    let all: Vec<_> = board.limit_waits(samples::time(60)).collect();
    assert_eq!(all, [(&holder("codex"), wait(200, false).unwrap())]);
    assert_eq!(board.limit_waits(samples::time(200)).count(), 0);
}

#[test]
fn a_wait_that_was_interrupted_goes_on_after_a_restart() {
    let journal = [
        entry(0, limit_wait(100, true)),
        entry(10, limit_wait_ended(true)),
        entry(10, JournalEvent::Interrupted),
    ];
    let wait = fold(&journal).limit_wait(&holder("codex"), samples::time(20));
    assert_eq!(wait, Some(LimitWait { until: samples::time(100), known: true }));
}

#[test]
fn unknown_limits_are_counted_until_the_agent_gets_through() {
    let in_a_row =
        |journal: &[JournalEntry]| fold(journal).unknown_limits_in_a_row(&holder("codex"));
    let unknown = entry(0, limit_wait(60, false));
    let known = entry(0, limit_wait(60, true));
    let again = [unknown.clone(), start(1, 1), finish(1, 2), unknown.clone()];
    let through = [unknown.clone(), start(1, 1), finish_as(1, 2, completed()), unknown.clone()];
    assert_eq!(in_a_row(&[]), 0);
    assert_eq!(in_a_row(&again), 2);
    assert_eq!(in_a_row(&through), 1);
    assert_eq!(in_a_row(&[unknown.clone(), known, unknown]), 2);
}

/// The journal entries of one more limit that came right after the others.
fn hit_again(
    board: &mut Board,
    policy: &LimitPolicy,
    now: i64,
    resets_at: Option<i64>,
) -> LimitWait {
    let limit = UsageLimit { resets_at: resets_at.map(samples::time) };
    let in_a_row = board.unknown_limits_in_a_row(&holder("codex"));
    let wait = policy.wait_until(limit, in_a_row, samples::time(now));
    let LimitWait { until, known } = wait;
    let started =
        LimitWaitStarted { agent: "codex".to_owned(), account: None, until, known, worked: false };
    board.apply(&entry(now, started));
    wait
}

proptest! {
    /// Whatever resets are reported in between, limits whose reset is unknown reach the longest wait.
    #[test]
    fn limits_in_a_row_reach_the_longest_wait(
        resets_in in prop::collection::vec(
            prop_oneof![Just(None), (-1_000_000_i64..3_000).prop_map(Some)],
            0..40,
        ),
    ) {
        let policy = LimitPolicy::default();
        let (mut board, mut now, mut unknown) = (Board::default(), 0, 0);
        for resets_in in resets_in {
            let resets_at = resets_in.map(|seconds| now + seconds);
            let wait = hit_again(&mut board, &policy, now, resets_at);
            let waited = wait.until.duration_since(samples::time(now)).unsigned_abs();
            if !wait.known {
                prop_assert_eq!(waited == policy.cap, unknown >= 6);
                unknown += 1;
            }
            now += i64::try_from(waited.as_secs()).unwrap();
        }
    }

    /// Crash test: a harness that dies after any entry and reads the journal back has the same board.
    #[test]
    fn going_on_from_what_was_read_equals_never_having_stopped(
        journal in any::any_journal(),
        crash: prop::sample::Index,
    ) {
        let (before, after) = journal.split_at(crash.index(journal.len() + 1));
        let written: String = before.iter().map(render_line).collect();
        let mut resumed = Board::default();
        for line in written.lines() {
            resumed.apply_line(line).unwrap();
        }
        for entry in after {
            resumed.apply(entry);
        }
        prop_assert_eq!(resumed, fold(&journal));
    }

    /// Folding the rest over a snapshot of any prefix gives the same board as folding everything.
    #[test]
    fn a_board_that_was_written_down_goes_on_as_if_it_had_not(
        journal in any::any_journal(),
        cut: prop::sample::Index,
    ) {
        let (before, after) = journal.split_at(cut.index(journal.len() + 1));
        let written = serde_json::to_string(&fold(before)).unwrap();
        let mut board: Board = serde_json::from_str(&written).unwrap();
        for entry in after {
            board.apply(entry);
        }
        prop_assert_eq!(board, fold(&journal));
    }

    #[test]
    fn every_run_is_listed_once_and_totals_count_each_end_once(journal in any::any_journal()) {
        let board = fold(&journal);
        let ids: std::collections::BTreeSet<_> = board.runs().map(|run| &run.id).collect();
        prop_assert_eq!(ids.len(), board.runs().len());
        let named = board.runs().filter(|run| run.finished.is_some()).count();
        let nameless = journal
            .iter()
            .filter(|entry| entry.run.is_none() && matches!(entry.event, JournalEvent::RunFinished(_)))
            .count();
        prop_assert_eq!(board.totals().finished_runs, (named + nameless) as u64);
    }
}

/// Folds the skipped kinds too, and compares with the full fold.
#[test]
fn no_kind_that_is_passed_over_changes_the_board() {
    let mut board = Board::default();
    for entry in samples::one_of_each() {
        let before = board.clone();
        board.apply(&entry);
        if !FOLDED.contains(&entry.event.name()) {
            assert_eq!(board, before, "{}", entry.event.name());
        }
    }
    for name in FOLDED {
        assert!(JournalEvent::NAMES.contains(name), "{name}");
    }
}

#[test]
fn only_the_last_runs_are_kept_and_the_sums_of_all() {
    let count = u32::try_from(runs::MOST_RUNS + 5).unwrap();
    let mut journal = vec![start(1_000_000, 0)];
    for nonce in 0..count {
        journal.extend([start(nonce, 1), finish(nonce, 2)]);
    }
    let mut board = fold(&journal);
    assert_eq!(board.runs().len(), runs::MOST_RUNS);
    assert_eq!(board.totals().finished_runs, u64::from(count));
    assert!(board.run(&samples::run_id(0)).is_none());
    assert_eq!(board.item("0001-a").unwrap().runs, u64::from(count) + 1);
    // A run without a recorded end is still known, and its end counts once.
    assert!(board.run(&samples::run_id(1_000_000)).is_some());
    board.apply(&finish(1_000_000, 3));
    board.apply(&finish(1_000_000, 3));
    assert_eq!(board.totals().finished_runs, u64::from(count) + 1);
}

#[test]
fn a_try_is_a_run_that_no_trouble_cut_short_until_the_item_gets_through() {
    let run = |nonce, finished| [start(nonce, 0), finish_as(nonce, 1, finished)];
    let mut board = Board::default();
    let mut tries = Vec::new();
    let mut step = |board: &mut Board, entries: &[JournalEntry]| {
        for entry in entries {
            board.apply(entry);
        }
        tries.push(board.next_try("0001-a", Role::Implementer));
    };
    step(&mut board, &run(1, finished()));
    step(&mut board, &run(2, completed()));
    step(&mut board, &run(3, completed()));
    step(&mut board, &[entry(4, verdict("0001-a", VerdictKind::Rejected))]);
    step(&mut board, &[entry(5, verdict("0001-a", VerdictKind::Accepted))]);
    step(&mut board, &run(4, completed()));
    let progress = IterationResult {
        item: Some("0001-a".to_owned()),
        result: StepResult::Progress,
        ..IterationResult::default()
    };
    step(&mut board, &[entry(6, progress)]);
    assert_eq!(tries, [1, 2, 3, 3, 1, 2, 1]);
    assert_eq!(board.next_try("0001-a", Role::Verifier), 1);
    assert_eq!(board.last_item(Role::Implementer), Some("0001-a"));
}

#[test]
fn the_session_of_a_run_that_was_cut_short_is_known_until_another_run_begins() {
    let session = |journal: &[JournalEntry]| {
        let board = fold(journal);
        let item = board.item("0001-a").unwrap();
        item.open_session(Role::Implementer, "codex", None).map(str::to_owned)
    };
    let limited = [start(1, 0), finish(1, 1)];
    assert_eq!(session(&limited), Some("s1".to_owned()));
    assert_eq!(session(&[limited.to_vec(), vec![start(2, 2)]].concat()), None);
    assert_eq!(session(&[start(1, 0), finish_as(1, 1, completed())]), None);
    let interrupted = RunFinished { outcome: RunOutcome::Interrupted, ..finished() };
    assert_eq!(session(&[start(1, 0), finish_as(1, 1, interrupted)]), Some("s1".to_owned()));
    let killed = LeftoversEnded { processes: 0, session: Some("s7".to_owned()) };
    let killed = of_run(1, 1, killed);
    assert_eq!(session(&[start(1, 0), killed.clone()]), Some("s7".to_owned()));
    // By now another run of the item is the last one.
    assert_eq!(session(&[start(1, 0), start(2, 1), killed]), None);
    let board = fold(&limited);
    let item = board.item("0001-a").unwrap();
    assert_eq!(item.open_session(Role::Builder, "codex", None), None);
    assert_eq!(item.open_session(Role::Implementer, "codex", Some(1)), None);
}

#[test]
fn sums_are_by_day_agent_model_and_role() {
    let day = 24 * 60 * 60;
    let other = RunStarted { role: Role::Verifier, ..started() };
    let untold = RunFinished { model: None, cost_usd: None, ..finished() };
    let board = fold(&[
        start(1, 0),
        finish(1, 1),
        start(2, 2),
        finish(2, 3),
        of_run(3, 4, other),
        finish_as(3, 5, untold),
        start(4, day),
        finish(4, day),
    ]);
    let rows: Vec<_> = board
        .sums()
        .iter()
        .map(|row| {
            let day = row.day.unwrap().to_string();
            let model = row.model.clone().unwrap();
            (day, model, row.role.unwrap(), row.totals.finished_runs, row.totals.cost_usd)
        })
        .collect();
    let row = |day: &str, model: &str, role, runs, cost| {
        (day.to_owned(), model.to_owned(), role, runs, cost)
    };
    assert_eq!(
        rows,
        [
            row("2026-11-15", "gpt-5.5", Role::Verifier, 1, None),
            row("2026-11-15", "gpt-5.5-codex", Role::Implementer, 2, Some(0.5)),
            row("2026-11-16", "gpt-5.5-codex", Role::Implementer, 1, Some(0.25)),
        ]
    );
}

#[test]
fn gates_are_timed_by_name() {
    let gate = |millis: u64, status: &str| {
        let (duration_ms, status) = (millis, status.to_owned());
        entry(0, crate::journal::GateFinished { status, duration_ms, ..gate_finished() })
    };
    let board = fold(&[gate(30, "passed"), gate(10, "failed"), gate(20, "passed")]);
    let times = &board.gates()["tests"];
    assert_eq!((times.runs, times.passed, times.flaky), (3, 2, 0));
    assert_eq!([times.percentile(50), times.percentile(90)], [20, 30]);
}

#[test]
fn a_workflow_is_known_with_what_it_does_spent_and_how_it_ended() {
    let of = |entry: JournalEntry| JournalEntry { wf: Some(samples::run_id(9)), ..entry };
    let mut board = fold(&[entry(0, workflow_started()), of(start(1, 1))]);
    let view = |board: &Board| board.workflows().next_back().unwrap().clone();
    let item = Some("0001-a".to_owned());
    let running = Activity::Run { run: samples::run_id(1), item };
    assert_eq!(view(&board).activity, Some((samples::time(1), running)));
    board.apply(&of(finish(1, 2)));
    // Another run's end is not counted.
    board.apply(&finish(2, 3));
    assert_eq!((view(&board).activity, view(&board).spent.finished_runs), (None, 1));
    let how = "completed".to_owned();
    board.apply(&of(entry(4, crate::journal::WorkflowEnded { how: how.clone() })));
    assert_eq!(view(&board).ended, Some((samples::time(4), how)));
}
