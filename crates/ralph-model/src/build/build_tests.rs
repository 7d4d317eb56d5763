use std::fmt::Write as _;

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::plan::Kill;

const MOST: u32 = 2;

fn run(nonce: u64) -> RunId {
    RunId::new(Timestamp::from_second(1_800_000_000).unwrap(), nonce)
}

fn commit(letter: char) -> CommitId {
    letter.to_string().repeat(40).parse().unwrap()
}

fn works() -> Vec<Work> {
    vec![Work { commit: commit('c'), repository: String::new() }]
}

fn acceptance() -> Acceptance {
    Acceptance {
        works: works(),
        done_at: Some(commit('c')),
        level: crate::proof::ProofLevel::GatesPassed,
    }
}

fn rejection() -> Rejection {
    Rejection { commit: Some(commit('c')), ..Rejection::plain("no tests".to_owned()) }
}

fn pending(rejections: usize) -> TaskMarkers {
    let rejections = vec!["no tests".to_owned(); rejections];
    let in_plan = TaskInPlan::Pending { killed: false, rejections };
    TaskMarkers { in_plan, record: TaskRecord::default() }
}

/// The simulated disk: applies one write.
fn write(markers: &mut TaskMarkers, write: &TaskWrite) {
    match write {
        TaskWrite::Record(record) => markers.record = (**record).clone(),
        TaskWrite::PlanDone { .. } => markers.in_plan = TaskInPlan::NotPending,
        TaskWrite::PlanReject { rejection } => {
            if let TaskInPlan::Pending { rejections, .. } = &mut markers.in_plan {
                rejections.push(rejection.for_agent.clone());
            }
        }
        TaskWrite::PlanKill { .. } => {
            if let TaskInPlan::Pending { killed, .. } = &mut markers.in_plan {
                *killed = true;
            }
        }
        TaskWrite::AdvanceBranches { .. }
        | TaskWrite::BeginAttempt
        | TaskWrite::ForgetBeginning => {}
    }
}

fn write_all(markers: &mut TaskMarkers, writes: &[TaskWrite]) {
    for one in writes {
        write(markers, one);
    }
}

fn after(mut markers: TaskMarkers, fact: &TaskFact) -> TaskMarkers {
    let writes = settle(&markers, fact, MOST).unwrap();
    write_all(&mut markers, &writes);
    markers
}

fn facts() -> Vec<(&'static str, TaskFact)> {
    let claimed = |no_change: Option<&str>| TaskFact::Claimed {
        run: run(1),
        no_change: no_change.map(str::to_owned),
    };
    vec![
        ("claimed", claimed(None)),
        ("claimed, no change", claimed(Some("it is there"))),
        ("run void", TaskFact::RunVoid { run: run(1) }),
        ("unclaimed", TaskFact::Unclaimed { run: run(1) }),
        ("no change stands", TaskFact::NoChangeStands { run: run(1) }),
        ("opinion given", TaskFact::OpinionGiven { opinion: "it is".to_owned() }),
        ("accepted", TaskFact::Accepted { run: Some(run(1)), acceptance: acceptance() }),
        ("accepted by a person", TaskFact::Accepted { run: None, acceptance: acceptance() }),
        ("rejected", TaskFact::Rejected { run: Some(run(1)), rejection: rejection() }),
        ("rejected by a person", TaskFact::Rejected { run: None, rejection: rejection() }),
        (
            "undecided",
            TaskFact::Undecided { run: Some(run(1)), works: works(), question: "Done?".to_owned() },
        ),
        (
            "undecided again",
            TaskFact::Undecided { run: None, works: works(), question: "Done?".to_owned() },
        ),
        (
            "killed",
            TaskFact::Killed { run: run(1), kill: Kill::Timeout, log: Some("l".to_owned()) },
        ),
        ("retried", TaskFact::Retried { advice: Some("try this".to_owned()) }),
        ("laid aside", TaskFact::LaidAside { run: run(1) }),
    ]
}

/// The outcomes of a landing. Not in the crash test: a landing interrupted by a crash is repeated.
fn landing_facts() -> Vec<(&'static str, TaskFact)> {
    let (why, question) = ("a conflict".to_owned(), "Again?".to_owned());
    vec![
        ("landing refused", TaskFact::LandingRefused { why }),
        ("landing stuck", TaskFact::LandingStuck { question: question.clone() }),
        ("landing unsettled", TaskFact::LandingUnsettled { question }),
    ]
}

fn fact(name: &str) -> TaskFact {
    facts().into_iter().find(|(known, _)| *known == name).unwrap().1
}

/// Every state, including those that only a crash or a person can produce.
fn situations() -> Vec<(&'static str, TaskMarkers)> {
    let open = pending(0);
    let claimed = after(open.clone(), &fact("claimed"));
    let no_change = after(open.clone(), &fact("claimed, no change"));
    let stands = after(no_change.clone(), &fact("no change stands"));
    let mut accepted = claimed.clone();
    write(&mut accepted, &settle(&claimed, &fact("accepted"), MOST).unwrap()[0]);
    let mut accepted_in_plan = accepted.clone();
    accepted_in_plan.in_plan = TaskInPlan::NotPending;
    let mut rejected = claimed.clone();
    write(&mut rejected, &settle(&claimed, &fact("rejected"), MOST).unwrap()[0]);
    let mut rejected_in_plan = rejected.clone();
    write(&mut rejected_in_plan, &TaskWrite::PlanReject { rejection: rejection() });
    let mut taken_away = claimed.clone();
    taken_away.in_plan = TaskInPlan::NotPending;
    let done = TaskMarkers { in_plan: TaskInPlan::NotPending, record: TaskRecord::default() };
    vec![
        ("open", open),
        ("rejected once", pending(1)),
        ("rejected too often", pending(2)),
        ("rejected too often, then retried", after(pending(2), &fact("retried"))),
        ("claimed", claimed.clone()),
        ("claimed that nothing has to change", no_change),
        ("no change stands", stands.clone()),
        ("no change reviewed", after(stands, &fact("opinion given"))),
        ("undecided", after(claimed, &fact("undecided"))),
        ("accepted, writes cut short", accepted),
        ("accepted, plan has it", accepted_in_plan),
        ("rejected, writes cut short", rejected),
        ("rejected, plan has it", rejected_in_plan),
        ("taken away by a person while claimed", taken_away),
        ("not pending", done),
    ]
}

fn name(write: &TaskWrite) -> String {
    match write {
        TaskWrite::Record(record) => {
            let settled = if record.settled_run.is_some() { ", settled" } else { "" };
            let claim = match &record.claim {
                TaskClaim::None => "none",
                TaskClaim::Made { .. } => "made",
                TaskClaim::Rejected { .. } => "rejected",
                TaskClaim::Accepted { .. } => "accepted",
                TaskClaim::NoChange { .. } => "no change",
                TaskClaim::NoChangeReviewed { .. } => "reviewed",
                TaskClaim::Undecided { .. } => "undecided",
            };
            format!("record({claim}{settled})")
        }
        TaskWrite::AdvanceBranches { .. } => "advance".to_owned(),
        TaskWrite::PlanDone { .. } => "plan-done".to_owned(),
        TaskWrite::PlanReject { .. } => "plan-reject".to_owned(),
        TaskWrite::PlanKill { .. } => "plan-kill".to_owned(),
        TaskWrite::BeginAttempt => "begin-attempt".to_owned(),
        TaskWrite::ForgetBeginning => "forget-beginning".to_owned(),
    }
}

fn short(state: &TaskState) -> &'static str {
    match state {
        TaskState::NotPending => "not pending",
        TaskState::Open => "open",
        TaskState::Claimed { no_change: None, .. } => "claimed",
        TaskState::Claimed { no_change: Some(_), .. } => "claimed (no change)",
        TaskState::Accepted => "accepted",
        TaskState::Rejected => "rejected",
        TaskState::NoChange { .. } => "no change",
        TaskState::NoChangeReviewed { .. } => "no change reviewed",
        TaskState::Undecided { .. } => "undecided",
        TaskState::Exhausted { .. } => "exhausted",
    }
}

#[test]
fn the_whole_table_of_states_and_facts_is_known() {
    let mut table = String::new();
    for (situation, markers) in situations() {
        let healing: Vec<String> = heal(&markers).iter().map(name).collect();
        let healing = if healing.is_empty() {
            String::new()
        } else {
            format!(", heals {}", healing.join(" "))
        };
        let state = TaskState::of(&markers, MOST);
        writeln!(table, "{situation}: {}{healing}", short(&state)).unwrap();
        for (told, fact) in facts().into_iter().chain(landing_facts()) {
            let Ok(writes) = settle(&markers, &fact, MOST) else { continue };
            let names: Vec<String> = writes.iter().map(name).collect();
            let then = TaskState::of(&after(markers.clone(), &fact), MOST);
            writeln!(table, "  {told}: {} -> {}", names.join(" "), short(&then)).unwrap();
        }
    }
    let known = include_str!("build_table.txt");
    assert!(table == known, "the table is now:\n{table}");
}

/// A task interrupted after any write, healed, and concluded again unless its run is settled, reaches the same end
/// state.
#[test]
fn a_crash_between_two_writes_changes_nothing_in_the_end() {
    for (situation, markers) in situations() {
        for (told, fact) in facts() {
            let Ok(writes) = settle(&markers, &fact, MOST) else { continue };
            let undisturbed = after(markers.clone(), &fact);
            for cut in 0..=writes.len() {
                let mut found = markers.clone();
                write_all(&mut found, &writes[..cut]);
                let healing = heal(&found);
                write_all(&mut found, &healing);
                let is_settled = cut > 0 && found.record == undisturbed.record;
                if !is_settled {
                    let again = settle(&found, &fact, MOST);
                    write_all(&mut found, &again.unwrap_or_default());
                }
                assert_eq!(found, undisturbed, "{situation}/{told}/{cut}");
            }
        }
    }
}

#[test]
fn the_same_reason_twice_is_two_rejections_also_after_a_crash() {
    let mut markers = pending(1);
    let again = settle(&markers, &fact("rejected"), 9).unwrap();
    write(&mut markers, &again[0]);
    let healing = heal(&markers);
    write_all(&mut markers, &healing);
    assert_eq!(markers.tombstones(), 2);
}

#[test]
fn a_claim_counts_for_the_run_that_made_it() {
    let claimed = after(pending(0), &fact("claimed"));
    let other = TaskFact::Accepted { run: Some(run(2)), acceptance: acceptance() };
    let refused = settle(&claimed, &other, MOST).unwrap_err();
    assert!(refused.to_string().contains("Claimed"), "{refused}");
    let unclaimed = settle(&pending(0), &fact("accepted"), MOST);
    assert!(unclaimed.is_err(), "accepted without a claim: {unclaimed:?}");
}

proptest! {
    /// For any sequence of facts, healing terminates, and only a person's decision can be pending forever.
    #[test]
    fn every_history_leads_to_a_state(choices in proptest::collection::vec(0_usize..15, 0..40)) {
        let facts = facts();
        let mut markers = pending(0);
        for choice in choices {
            let (_, fact) = &facts[choice];
            let before = markers.tombstones();
            let Ok(writes) = settle(&markers, fact, MOST) else { continue };
            write_all(&mut markers, &writes);
            let healing = heal(&markers);
            write_all(&mut markers, &healing);
            prop_assert_eq!(heal(&markers), vec![], "healing heals");
            let is_rejection = matches!(fact, TaskFact::Rejected { .. });
            prop_assert!(markers.tombstones() <= before + usize::from(is_rejection));
            let rejected = matches!(TaskState::of(&markers, MOST), TaskState::Rejected | TaskState::Accepted);
            prop_assert!(!rejected, "a verdict is written whole");
        }
    }

    #[test]
    fn records_survive_their_format(choices in proptest::collection::vec(0_usize..15, 0..20)) {
        let facts = facts();
        let mut markers = pending(0);
        for choice in choices {
            for write in settle(&markers, &facts[choice].1, MOST).unwrap_or_default() {
                if let TaskWrite::Record(record) = &write {
                    let text = serde_json::to_string(record).unwrap();
                    prop_assert_eq!(&serde_json::from_str::<TaskRecord>(&text).unwrap(), &**record);
                }
                self::write(&mut markers, &write);
            }
        }
    }
}

#[test]
fn work_that_cannot_land_goes_back_with_the_reason_and_is_counted() {
    let claimed = after(pending(0), &fact("claimed"));
    let mut accepted = claimed.clone();
    write(&mut accepted, &settle(&claimed, &fact("accepted"), MOST).unwrap()[0]);
    let why = "a conflict".to_owned();
    let back = after(accepted.clone(), &TaskFact::LandingRefused { why });
    assert_eq!(TaskState::of(&back, MOST), TaskState::Open);
    assert_eq!(back.record.advice.as_deref(), Some("a conflict"));
    assert_eq!((back.record.landings_refused, &back.record.settled_run), (1, &Some(run(1))));
    let stuck = after(accepted, &TaskFact::LandingStuck { question: "Again?".to_owned() });
    assert_eq!(TaskState::of(&stuck, MOST), TaskState::Undecided { works: works() });
    assert_eq!(stuck.record.settled_run, Some(run(1)));
}

#[test]
fn runs_without_a_claim_count_as_rejections_until_a_person_has_the_task_tried_again() {
    let mut markers = pending(0);
    for nonce in 0..MOST {
        assert_eq!(TaskState::of(&markers, MOST), TaskState::Open);
        markers = after(markers, &TaskFact::Unclaimed { run: run(nonce.into()) });
    }
    let TaskState::Exhausted { times, .. } = TaskState::of(&markers, MOST) else {
        panic!("{markers:?}");
    };
    assert_eq!(times, MOST);
    markers = after(markers, &fact("retried"));
    assert_eq!(TaskState::of(&markers, MOST), TaskState::Open);
    assert_eq!(markers.record.advice.as_deref(), Some("try this"));
}
