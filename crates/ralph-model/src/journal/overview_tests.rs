use proptest::prelude::*;

use super::*;
use crate::journal::samples::{
    self, entry, finished, limit_wait, limit_wait_ended, of_run, started,
};
use crate::journal::{LeftoversEnded, LimitWaitStarted, entries, render_line};
use crate::policy::limit::LimitPolicy;
use crate::run::UsageLimit;

fn fold<'a>(journal: impl IntoIterator<Item = &'a JournalEntry>) -> Overview {
    let mut overview = Overview::default();
    for entry in journal {
        overview.apply(entry);
    }
    overview
}

fn start(nonce: u32, at: i64) -> JournalEntry {
    of_run(nonce, at, JournalEvent::RunStarted(Box::new(started())))
}

fn finish_as(nonce: u32, at: i64, finished: RunFinished) -> JournalEntry {
    of_run(nonce, at, JournalEvent::RunFinished(Box::new(finished)))
}

fn finish(nonce: u32, at: i64) -> JournalEntry {
    finish_as(nonce, at, finished())
}

fn completed() -> RunFinished {
    RunFinished { outcome: RunOutcome::Completed, ..finished() }
}

fn leftovers(nonce: u32, at: i64) -> JournalEntry {
    of_run(nonce, at, JournalEvent::LeftoversEnded(LeftoversEnded { processes: 1 }))
}

fn states(overview: &Overview) -> Vec<char> {
    let letter = |run: &RunView| match run.state() {
        RunState::Running => 'r',
        RunState::Finished(_) => 'f',
        RunState::Abandoned => 'a',
    };
    overview.runs().iter().map(letter).collect()
}

#[test]
fn runs_are_running_until_their_end_is_told() {
    let overview =
        fold(&[start(1, 0), finish(1, 5), start(2, 6), leftovers(2, 7), start(3, 8), start(4, 9)]);
    assert_eq!(states(&overview), ['f', 'a', 'r', 'r']);
    let ids: Vec<_> = overview.runs().iter().map(|run| run.id.clone()).collect();
    assert_eq!(ids, [1, 2, 3, 4].map(samples::run_id));
}

#[test]
fn a_run_that_finished_is_not_abandoned_by_a_late_finding() {
    assert_eq!(states(&fold(&[start(1, 0), finish(1, 5), leftovers(1, 6)])), ['f']);
}

#[test]
fn leftovers_of_something_that_never_began_as_a_run_are_no_run() {
    // Gates have ids of their own and are ended like runs, but they are not runs.
    let overview = fold(&[start(1, 0), finish(1, 5), leftovers(2, 6)]);
    assert_eq!(states(&overview), ['f']);
    assert_eq!(overview.runs()[0].id, samples::run_id(1));
    assert_eq!(states(&fold(&[leftovers(2, 6)])), [' '; 0]);
}

#[test]
fn an_end_without_a_beginning_counts() {
    let overview = fold(&[finish(1, 5)]);
    assert_eq!(states(&overview), ['f']);
    assert_eq!(overview.totals().finished_runs, 1);
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
        cost_usd: 0.25,
        cost_is_estimate: false,
        runs_without_cost: 1,
        duration: Duration::from_secs(3),
    };
    let journal = [finish_as(1, 0, told), finish_as(2, 1, free)];
    assert_eq!(*fold(&journal).totals(), expected);
    assert!(fold(journal.iter().chain(&[finish(3, 2)])).totals().cost_is_estimate);
}

#[test]
fn a_wait_is_active_until_it_ended_or_its_time_is_past() {
    let wait = |until, known| Some(LimitWait { until: samples::time(until), known });
    let at = |journal: &[JournalEntry], now| fold(journal).limit_wait("codex", samples::time(now));
    let first = entry(0, limit_wait(100, true));
    let second = entry(50, limit_wait(200, false));
    assert_eq!(at(&[], 0), None);
    assert_eq!(at(std::slice::from_ref(&first), 99), wait(100, true));
    assert_eq!(at(std::slice::from_ref(&first), 100), None);
    assert_eq!(at(&[first.clone(), second.clone()], 60), wait(200, false));
    assert_eq!(at(&[first.clone(), entry(60, limit_wait_ended(false))], 60), None);
    let overview = fold(&[first, second]);
    assert_eq!(overview.limit_wait("claude", samples::time(0)), None);
    let all: Vec<_> = overview.limit_waits(samples::time(60)).collect();
    assert_eq!(all, [("codex", wait(200, false).unwrap())]);
    assert_eq!(overview.limit_waits(samples::time(200)).count(), 0);
}

#[test]
fn a_wait_that_was_interrupted_goes_on_after_a_restart() {
    let journal = [
        entry(0, limit_wait(100, true)),
        entry(10, limit_wait_ended(true)),
        entry(10, JournalEvent::Interrupted),
    ];
    let wait = fold(&journal).limit_wait("codex", samples::time(20));
    assert_eq!(wait, Some(LimitWait { until: samples::time(100), known: true }));
}

#[test]
fn unknown_limits_are_counted_until_the_agent_gets_through() {
    let in_a_row = |journal: &[JournalEntry]| fold(journal).unknown_limits_in_a_row("codex");
    let unknown = entry(0, limit_wait(60, false));
    let known = entry(0, limit_wait(60, true));
    let again = [unknown.clone(), start(1, 1), finish(1, 2), unknown.clone()];
    let through = [unknown.clone(), start(1, 1), finish_as(1, 2, completed()), unknown.clone()];
    assert_eq!(in_a_row(&[]), 0);
    assert_eq!(in_a_row(&again), 2);
    assert_eq!(in_a_row(&through), 1);
    assert_eq!(in_a_row(&[unknown.clone(), known, unknown]), 2);
}

/// What the journal holds of one more limit that came right after the others.
fn hit_again(
    overview: &mut Overview,
    policy: &LimitPolicy,
    now: i64,
    resets_at: Option<i64>,
) -> LimitWait {
    let limit = UsageLimit { resets_at: resets_at.map(samples::time) };
    let in_a_row = overview.unknown_limits_in_a_row("codex");
    let wait = policy.wait_until(limit, in_a_row, samples::time(now));
    let LimitWait { until, known } = wait;
    let started = LimitWaitStarted { agent: "codex".to_owned(), until, known };
    overview.apply(&entry(now, JournalEvent::LimitWaitStarted(started)));
    wait
}

proptest! {
    /// Whatever resets are told beside, limits whose reset cannot be waited for reach the longest wait.
    #[test]
    fn limits_in_a_row_reach_the_longest_wait(
        resets_in in prop::collection::vec(
            prop_oneof![Just(None), (-1_000_000_i64..3_000).prop_map(Some)],
            0..40,
        ),
    ) {
        let policy = LimitPolicy::default();
        let (mut overview, mut now, mut unknown) = (Overview::default(), 0, 0);
        for resets_in in resets_in {
            let resets_at = resets_in.map(|seconds| now + seconds);
            let wait = hit_again(&mut overview, &policy, now, resets_at);
            let waited = wait.until.duration_since(samples::time(now)).unsigned_abs();
            if !wait.known {
                prop_assert_eq!(waited == policy.cap, unknown >= 6);
                unknown += 1;
            }
            now += i64::try_from(waited.as_secs()).unwrap();
        }
    }

    /// The crash test: a harness that died after any entry and reads the journal back knows what the other one knew.
    #[test]
    fn going_on_from_what_was_read_equals_never_having_stopped(
        journal in samples::any_journal(),
        crash: prop::sample::Index,
    ) {
        let (before, after) = journal.split_at(crash.index(journal.len() + 1));
        let written: String = before.iter().map(render_line).collect();
        let mut resumed = Overview::default();
        for entry in entries(written.as_bytes()) {
            resumed.apply(&entry.unwrap());
        }
        for entry in after {
            resumed.apply(entry);
        }
        prop_assert_eq!(resumed, fold(&journal));
    }

    #[test]
    fn every_run_is_listed_once_and_totals_count_each_end_once(journal in samples::any_journal()) {
        let overview = fold(&journal);
        let ids: std::collections::BTreeSet<_> = overview.runs().iter().map(|run| &run.id).collect();
        prop_assert_eq!(ids.len(), overview.runs().len());
        let named = overview.runs().iter().filter(|run| run.finished.is_some()).count();
        let nameless = journal
            .iter()
            .filter(|entry| entry.run.is_none() && matches!(entry.event, JournalEvent::RunFinished(_)))
            .count();
        prop_assert_eq!(overview.totals().finished_runs, (named + nameless) as u64);
    }
}
