use std::fmt::Write as _;

use jiff::Timestamp;
use proptest::prelude::*;

use super::done::DoneMarker;
use super::records::{self, Base, SessionRecord};
use super::settle::{Feedback, RunRef};
use super::*;
use crate::id::RunId;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn spec() -> SpecIdentity {
    SpecIdentity { rel: "area/0001-a.md".to_owned(), id: "0001-a".to_owned() }
}

/// The markers of a spec before its first run.
fn fresh_markers() -> Markers {
    Markers {
        spec: spec(),
        done: None,
        plan: None,
        plan_text: None,
        archived: Vec::new(),
        candidate: None,
    }
}

fn commit(letter: char) -> CommitId {
    letter.to_string().repeat(40).parse().unwrap()
}

fn base() -> Base {
    Base::from([(".".to_owned(), commit('b'))])
}

const LIMITS: AttemptLimits = AttemptLimits { attempts: 10, repeats: 3 };

fn run(nonce: u64) -> RunRef {
    RunRef { id: RunId::new(at(0), nonce), dir: format!("runs/area/0001-a/{nonce}") }
}

/// The simulated disk: applies the writes of a fact.
fn write(markers: &mut Markers, write: &Write) {
    match write {
        Write::Plan(record) => markers.plan = Some((**record).clone()),
        Write::PlanText(text) => {
            markers.plan_text = (!text.trim().is_empty()).then(|| text_mark(text));
        }
        Write::ArchivePlan { number } => {
            if markers.plan_text.take().is_some() {
                markers.archived.push(*number);
            }
        }
        Write::Candidate(record) => markers.candidate = Some((**record).clone()),
        Write::RemoveCandidate => markers.candidate = None,
        Write::Done(text) => markers.done = Some(DoneView::read(text)),
        Write::ArchiveDone { .. } => markers.done = None,
        Write::Scratchpad(_) | Write::ForgetSessions => {}
    }
}

fn write_all(markers: &mut Markers, writes: &[Write]) {
    for one in writes {
        write(markers, one);
    }
}

fn after(mut markers: Markers, fact: &Fact) -> Markers {
    let writes = settle(&markers, fact, at(60)).unwrap();
    write_all(&mut markers, &writes);
    markers
}

fn facts() -> Vec<(&'static str, Fact)> {
    let feedback =
        || Some(Feedback { text: "no tests".to_owned(), commit: Some(commit('c')), claimed: None });
    vec![
        ("planning began", Fact::PlanningBegan { number: 1, base: base() }),
        (
            "plan written",
            Fact::PlanWritten { text: "plan".to_owned(), scratchpad: None, run: run(1).id },
        ),
        ("plan adopted", Fact::PlanAdopted { number: 1, base: base() }),
        (
            "plan failed",
            Fact::AttemptFailed {
                phase: Phase::Plan,
                outcome: "no plan".to_owned(),
                feedback: None,
                run: Some(run(2)),
            },
        ),
        (
            "implementation rejected",
            Fact::AttemptFailed {
                phase: Phase::Implement,
                outcome: "nothing committed".to_owned(),
                feedback: feedback(),
                run: Some(run(3)),
            },
        ),
        (
            "verification rejected",
            Fact::AttemptFailed {
                phase: Phase::Verify,
                outcome: "no tests".to_owned(),
                feedback: feedback(),
                run: Some(run(9)),
            },
        ),
        (
            "verification failed",
            Fact::VerificationFailed { outcome: "timed out".to_owned(), run: run(10) },
        ),
        (
            "candidate found",
            Fact::CandidateFound {
                candidate: Candidate {
                    commit: commit('c'),
                    repository: String::new(),
                    refs: vec!["refs/heads/main".to_owned()],
                    also: Vec::new(),
                },
                run: run(4),
            },
        ),
        (
            "no change claimed",
            Fact::NoChangeClaimed {
                reason: "it is there".to_owned(),
                commit: commit('b'),
                run: run(5),
            },
        ),
        ("verified", Fact::Verified { done: done() }),
        (
            "landing refused",
            Fact::LandingRefused {
                feedback: feedback().unwrap(),
                base: base(),
                run: Some(run(11)),
            },
        ),
        ("plan invalidated", Fact::PlanInvalidated { reason: "wrong".to_owned(), run: run(7) }),
        ("person needed", Fact::PersonNeeded { question: "Done?".to_owned(), run: Some(run(8)) }),
        ("person objected", Fact::PersonObjected { answer: "no, do it".to_owned() }),
        ("forced", Fact::Forced { number: 1, base: base() }),
        ("budget renewed", Fact::BudgetRenewed { base: None }),
    ]
}

fn done() -> DoneMarker {
    DoneMarker {
        commit: Some(commit('c')),
        at: at(9),
        verify_run_dir: Some("v".to_owned()),
        impl_run_dir: None,
        level: crate::proof::LandedLevel::of_landing(crate::proof::ProofLevel::GatesPassed),
        spec_digest: String::new(),
        said: String::new(),
    }
}

fn fact(name: &str) -> Fact {
    facts().into_iter().find(|(known, _)| *known == name).unwrap().1
}

/// Every combination of markers that the rules name, and some that only a crash or a person can produce.
fn situations() -> Vec<(&'static str, Markers)> {
    let fresh = fresh_markers();
    let planning = after(fresh.clone(), &fact("planning began"));
    let planned = after(planning.clone(), &fact("plan written"));
    let candidate = after(planned.clone(), &fact("candidate found"));
    let rejected = after(planned.clone(), &fact("implementation rejected"));
    let invalidated = after(candidate.clone(), &fact("plan invalidated"));
    let done = after(candidate.clone(), &fact("verified"));
    let mut half_written = planning.clone();
    write_all(&mut half_written, &settle(&planning, &fact("plan written"), at(60)).unwrap()[..2]);
    let by_hand = || Some(text_mark("a person's plan"));
    let replaced = Markers { plan_text: by_hand(), ..invalidated.clone() };
    let mut replanning = after(invalidated.clone(), &fact("planning began"));
    replanning.plan.as_mut().unwrap().attempt = 2;
    let mut verified_without_done = done.clone();
    verified_without_done.done = None;
    let mut done_with_candidate = candidate.clone();
    done_with_candidate.done = Some(DoneView::default());
    let mut torn = candidate.clone();
    write(&mut torn, &settle(&candidate, &fact("plan invalidated"), at(60)).unwrap()[0]);
    vec![
        ("fresh", fresh.clone()),
        ("hand-written plan", Markers { plan_text: by_hand(), ..fresh.clone() }),
        ("planning", planning.clone()),
        ("planning, then a plan by hand", Markers { plan_text: by_hand(), ..planning }),
        ("planning, text half written", half_written),
        ("planned", planned.clone()),
        ("active plan, text missing", Markers { plan_text: None, ..planned.clone() }),
        ("candidate", candidate.clone()),
        (
            "candidate, plan removed by hand",
            Markers { plan: None, plan_text: None, ..candidate.clone() },
        ),
        ("rejected", rejected),
        ("waiting", after(candidate.clone(), &fact("person needed"))),
        ("nothing needed, unverified", after(planned, &fact("no change claimed"))),
        ("invalidated", invalidated),
        ("invalidated, then a plan by hand", replaced),
        ("invalidated, writes cut short", torn),
        ("planning again", replanning),
        ("verified, marker removed", verified_without_done),
        ("done", done),
        ("done, candidate left behind", done_with_candidate),
        ("marked done by hand", Markers { done: Some(DoneView::default()), ..fresh }),
    ]
}

fn name(write: &Write) -> String {
    match write {
        Write::Plan(plan) => {
            format!("plan({:?} {} used {})", plan.status, plan.attempt, plan.attempts_used)
        }
        Write::PlanText(_) => "text".to_owned(),
        Write::Scratchpad(_) => "scratchpad".to_owned(),
        Write::ArchivePlan { number } => format!("archive-plan({number})"),
        Write::Candidate(record) => format!("candidate({:?})", record.status),
        Write::RemoveCandidate => "remove-candidate".to_owned(),
        Write::ForgetSessions => "forget-sessions".to_owned(),
        Write::Done(_) => "done".to_owned(),
        Write::ArchiveDone { number } => format!("archive-done({number})"),
    }
}

fn short(state: &SpecState) -> String {
    match state {
        SpecState::Unplanned { number, replan } => {
            let why = replan.as_ref().map(|r| format!(" after {} ({})", r.archive, r.reason));
            format!("unplanned {number}{}", why.unwrap_or_default())
        }
        SpecState::HandWritten { number } => format!("hand-written {number}"),
        SpecState::Planned { feedback } => format!("planned, feedback {}", feedback.is_some()),
        SpecState::Candidate { commit, no_change } => {
            format!(
                "candidate {}{}",
                &commit.as_str()[..4],
                if no_change.is_some() { " (no change)" } else { "" }
            )
        }
        SpecState::Waiting { .. } => "waiting".to_owned(),
        SpecState::Done => "done".to_owned(),
    }
}

#[test]
fn the_whole_table_of_states_and_facts_is_known() {
    let mut table = String::new();
    for (situation, markers) in situations() {
        let state = SpecState::of(&markers);
        let healing: Vec<String> = heal(&markers).iter().map(name).collect();
        let healing = if healing.is_empty() {
            String::new()
        } else {
            format!(", heals {}", healing.join(" "))
        };
        writeln!(table, "{situation}: {}{healing}", short(&state)).unwrap();
        writeln!(table, "  next: {:?}", next(&markers, LIMITS)).unwrap();
        for (told, fact) in facts() {
            let Ok(writes) = settle(&markers, &fact, at(60)) else { continue };
            let names: Vec<String> = writes.iter().map(name).collect();
            let then = after(markers.clone(), &fact);
            writeln!(table, "  {told}: {} -> {}", names.join(" "), short(&SpecState::of(&then)))
                .unwrap();
        }
    }
    let known = include_str!("pipeline_table.txt");
    assert!(table == known, "the table is now:\n{table}");
}

#[test]
fn after_all_attempts_only_a_person_can_help() {
    for (situation, markers) in situations() {
        let action = next(&markers, AttemptLimits { attempts: 0, repeats: 3 });
        let runs = matches!(
            action,
            Action::Plan { .. } | Action::Implement { .. } | Action::Verify { .. }
        );
        assert!(!runs, "{situation}: {action:?}");
    }
}

/// A spec interrupted after any write, healed, and given the fact again unless its run is settled, reaches the same end
/// state.
#[test]
fn a_crash_between_two_writes_changes_nothing_in_the_end() {
    let told_where: &[(&str, &str)] = &[
        ("fresh", "planning began"),
        ("planning", "plan written"),
        ("planning", "plan failed"),
        ("hand-written plan", "plan adopted"),
        ("planned", "implementation rejected"),
        ("planned", "candidate found"),
        ("planned", "no change claimed"),
        ("candidate", "verified"),
        ("candidate", "plan invalidated"),
        ("candidate", "verification rejected"),
        ("candidate", "verification failed"),
        ("candidate", "person needed"),
        ("waiting", "person objected"),
        ("waiting", "verified"),
    ];
    for (situation, told) in told_where {
        let markers = situations().into_iter().find(|(known, _)| known == situation).unwrap().1;
        let fact = fact(told);
        let writes = settle(&markers, &fact, at(60)).unwrap();
        let undisturbed = after(markers.clone(), &fact);
        for cut in 0..=writes.len() {
            let mut found = markers.clone();
            write_all(&mut found, &writes[..cut]);
            let healing = heal(&found);
            write_all(&mut found, &healing);
            let settled = found.plan.as_ref().and_then(|plan| plan.settled_run.clone());
            let run = match &fact {
                Fact::PlanWritten { run, .. } => Some(run.to_string()),
                Fact::AttemptFailed { run, .. } | Fact::PersonNeeded { run, .. } => {
                    run.as_ref().map(|run| run.id.to_string())
                }
                Fact::CandidateFound { run, .. }
                | Fact::VerificationFailed { run, .. }
                | Fact::NoChangeClaimed { run, .. }
                | Fact::PlanInvalidated { run, .. } => Some(run.id.to_string()),
                _ => None,
            };
            let is_settled = run.is_some() && run == settled;
            let is_over = found.done.is_some() || cut == writes.len();
            if !is_settled && !is_over {
                let again = settle(&found, &fact, at(60)).unwrap();
                write_all(&mut found, &again);
            }
            assert_eq!(found, undisturbed, "{situation}/{told}/{cut}");
        }
    }
}

#[test]
fn a_result_that_is_told_twice_spends_one_attempt() {
    let planned = situations().into_iter().find(|(name, _)| *name == "planned").unwrap().1;
    let once = after(planned, &fact("implementation rejected"));
    let twice = after(once.clone(), &fact("implementation rejected"));
    assert_eq!((once.attempts_used(), &once), (1, &twice));
    let mut again = fact("implementation rejected");
    if let Fact::AttemptFailed { run: told, .. } = &mut again {
        *told = Some(run(30));
    }
    let other = after(once, &again);
    assert_eq!(other.attempts_used(), 2);
    assert_eq!(other.plan.unwrap().tries.len(), 2);
}

#[test]
fn a_second_invalidation_keeps_the_first_archive() {
    let mut markers = situations().into_iter().find(|(name, _)| *name == "invalidated").unwrap().1;
    for fact in [
        Fact::PlanningBegan { number: 2, base: Base::new() },
        Fact::PlanWritten { text: "second".to_owned(), scratchpad: None, run: run(20).id },
        fact("candidate found"),
        Fact::PlanInvalidated { reason: "again".to_owned(), run: run(21) },
    ] {
        markers = after(markers, &fact);
    }
    assert_eq!(markers.archived, [1, 2]);
    assert_eq!(markers.plan.as_ref().unwrap().base, base());
    let expected = Replan { reason: "again".to_owned(), archive: 2 };
    assert_eq!(SpecState::of(&markers), SpecState::Unplanned { number: 3, replan: Some(expected) });
}

#[test]
fn old_and_foreign_files_are_read_and_keep_what_is_not_known() {
    let text = r#"{"spec_rel": "0001-a.md", "spec_id": "0001-a", "created_at_utc": "2026-01-01T00:00:00+00:00",
        "mine": {"x": [1]}}"#;
    let plan: PlanRecord = records::parse(text.as_bytes()).unwrap();
    assert_eq!((plan.status, plan.attempt, plan.attempts_used), (PlanStatus::Active, 1, 0));
    let again = String::from_utf8(records::render(&plan)).unwrap();
    assert!(again.contains("\"mine\": {\n    \"x\"") && again.ends_with("}\n"), "{again}");
    let session: SessionRecord = records::parse(
        br#"{"spec_rel":"a","spec_id":"a","impl_session_id":"s","updated_at_utc":"2026-01-01T00:00:00Z"}"#,
    )
    .unwrap();
    assert_eq!(session.resumable(Phase::Implement, "codex"), Some("s"));
    let error = records::parse::<PlanRecord>(b"{\n  \"spec_rel\": 3\n}").unwrap_err();
    assert_eq!(error.to_string(), "line 2: invalid type: integer `3`, expected a string");
}

#[test]
fn sessions_are_gone_on_with_by_the_same_agent_and_never_by_a_verifier() {
    let mut session = SessionRecord::new(&spec(), at(0));
    for phase in [Phase::Plan, Phase::Implement, Phase::Verify] {
        session.note(phase, "codex", Some("s1"), at(1));
    }
    assert_eq!(session.resumable(Phase::Plan, "codex"), Some("s1"));
    assert_eq!(session.resumable(Phase::Implement, "claude"), None);
    assert_eq!(session.resumable(Phase::Verify, "codex"), None);
    session.note(Phase::Implement, "codex", None, at(2));
    assert_eq!(session.resumable(Phase::Implement, "codex"), None);
}

proptest! {
    /// For any sequence of facts a spec has a state, and the attempts never decrease except by renewing the budget.
    #[test]
    fn every_history_leads_to_a_state(choices in proptest::collection::vec(0_usize..15, 0..30)) {
        let facts = facts();
        let mut markers = fresh_markers();
        for (step, choice) in choices.into_iter().enumerate() {
            let before = markers.attempts_used();
            let (told, fact) = &facts[choice];
            let Ok(writes) = settle(&markers, fact, at(step.try_into().unwrap())) else { continue };
            write_all(&mut markers, &writes);
            let healing = heal(&markers);
            write_all(&mut markers, &healing);
            prop_assert_eq!(heal(&markers), vec![], "healing heals");
            let _ = next(&markers, LIMITS);
            let renewed = ["forced", "budget renewed"].contains(told);
            prop_assert!(renewed || markers.attempts_used() >= before);
        }
    }
}

#[test]
fn a_plan_by_hand_is_never_taken_for_the_planners() {
    let planning = after(fresh_markers(), &fact("planning began"));
    let by_hand = Markers { plan_text: Some(text_mark("mine")), ..planning };
    assert_eq!(SpecState::of(&by_hand), SpecState::HandWritten { number: 1 });
    let refused = settle(&by_hand, &fact("plan written"), at(60)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "`plan written` cannot happen to a spec that is planned by hand"
    );
}

#[test]
fn a_spec_is_given_up_after_three_equal_failures() {
    let tried = |phase, outcome: &str, claim: Option<char>| Try {
        phase,
        outcome: outcome.to_owned(),
        run_dir: None,
        claim: claim.map(commit),
        at_utc: at(0),
    };
    let (plan, implement, verify) = (Phase::Plan, Phase::Implement, Phase::Verify);
    let table = [
        (vec![], None),
        (vec![tried(plan, "no plan", None); 2], None),
        (vec![tried(plan, "no plan", None); 3], Some(3)),
        (vec![tried(implement, "nothing claimed", None); 5], None),
        (vec![tried(verify, "wrong", Some('c')), tried(implement, "again", Some('c'))], None),
        (
            vec![
                tried(verify, "wrong", Some('c')),
                tried(implement, "again", Some('c')),
                tried(implement, "again", Some('c')),
            ],
            Some(3),
        ),
        (
            vec![
                tried(verify, "wrong", Some('c')),
                tried(verify, "wrong", Some('d')),
                tried(verify, "wrong", Some('e')),
            ],
            None,
        ),
        (
            vec![
                tried(verify, "wrong", Some('c')),
                tried(verify, "wrong", Some('d')),
                tried(implement, "again", Some('c')),
                tried(implement, "again", Some('d')),
                tried(implement, "again", Some('c')),
            ],
            Some(3),
        ),
        (
            vec![
                tried(plan, "no plan", None),
                tried(plan, "timed out", None),
                tried(plan, "no plan", None),
            ],
            None,
        ),
    ];
    for (tries, times) in table {
        let expected = times.map(|times| GiveUp::Repetition { times });
        assert_eq!(LIMITS.reached(tries.len().try_into().unwrap(), &tries), expected, "{tries:?}");
    }
    assert_eq!(LIMITS.reached(10, &[]), Some(GiveUp::AttemptsSpent));
}
