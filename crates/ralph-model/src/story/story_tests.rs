use std::fmt::Write as _;

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::build::Rejection;

const MOST: u32 = 2;

fn run(nonce: u64) -> RunId {
    RunId::new(Timestamp::from_second(1_800_000_000).unwrap(), nonce)
}

fn commit() -> CommitId {
    "c".repeat(40).parse().unwrap()
}

fn works() -> Vec<Work> {
    vec![Work { commit: commit(), repository: String::new() }]
}

fn acceptance() -> Acceptance {
    Acceptance {
        works: works(),
        done_at: Some(commit()),
        level: crate::proof::ProofLevel::GatesPassed,
    }
}

fn rejection() -> Rejection {
    Rejection { commit: Some(commit()), ..Rejection::plain("no tests".to_owned()) }
}

fn story(title: &str) -> Story {
    Story {
        id: "US-001".to_owned(),
        title: title.to_owned(),
        acceptance_criteria: Vec::new(),
        priority: 1,
        passes: false,
        notes: String::new(),
    }
}

fn open() -> StoryMarkers {
    StoryMarkers::of(Some(&story("a")), StoryRecord::default())
}

/// The simulated disk: applies one write. The PRD has the story `a`, or another text if the markers say so.
fn write(markers: &mut StoryMarkers, write: &StoryWrite) {
    let text = match markers.in_prd {
        StoryInPrd::Failing { changed: true } => "b",
        _ => "a",
    };
    match write {
        StoryWrite::Record(record) => {
            let was_failing = matches!(markers.in_prd, StoryInPrd::Failing { .. });
            markers.record = (**record).clone();
            if was_failing {
                *markers = StoryMarkers::of(Some(&story(text)), markers.record.clone());
            }
        }
        StoryWrite::Pass { .. } => markers.in_prd = StoryInPrd::Passes,
        StoryWrite::ForgetBeginning => {}
    }
}

fn write_all(markers: &mut StoryMarkers, writes: &[StoryWrite]) {
    for one in writes {
        write(markers, one);
    }
}

fn after(mut markers: StoryMarkers, fact: &StoryFact) -> StoryMarkers {
    let writes = settle(&markers, fact, MOST).unwrap();
    write_all(&mut markers, &writes);
    markers
}

fn facts() -> Vec<(&'static str, StoryFact)> {
    let (works, question) = (works(), "Done?".to_owned());
    vec![
        ("given", StoryFact::Given { story: story("a") }),
        (
            "no change claimed",
            StoryFact::NoChangeClaimed { run: run(1), reason: "it is there".to_owned() },
        ),
        ("opinion given", StoryFact::OpinionGiven { opinion: "it is".to_owned() }),
        ("accepted", StoryFact::Accepted { run: Some(run(1)), acceptance: acceptance() }),
        ("accepted by a person", StoryFact::Accepted { run: None, acceptance: acceptance() }),
        ("rejected", StoryFact::Rejected { run: Some(run(1)), rejection: rejection() }),
        ("rejected by a person", StoryFact::Rejected { run: None, rejection: rejection() }),
        (
            "undecided",
            StoryFact::Undecided {
                run: Some(run(1)),
                works: works.clone(),
                question: question.clone(),
            },
        ),
        ("undecided again", StoryFact::Undecided { run: None, works, question }),
        ("retried", StoryFact::Retried { advice: Some("try this".to_owned()) }),
        ("outdated", StoryFact::Outdated { run: run(1) }),
        ("laid aside", StoryFact::LaidAside { run: run(1) }),
        ("landing refused", StoryFact::LandingRefused { why: "a conflict".to_owned() }),
        ("landing stuck", StoryFact::LandingStuck { question: "Again?".to_owned() }),
        ("landing unsettled", StoryFact::LandingUnsettled { question: "Fine?".to_owned() }),
    ]
}

fn fact(name: &str) -> StoryFact {
    facts().into_iter().find(|(known, _)| *known == name).unwrap().1
}

fn changed(markers: &StoryMarkers) -> StoryMarkers {
    StoryMarkers::of(Some(&story("b")), markers.record.clone())
}

/// Every state, including those that only a crash or a person can produce.
fn situations() -> Vec<(&'static str, StoryMarkers)> {
    let given = after(open(), &fact("given"));
    let rejected = after(given.clone(), &fact("rejected"));
    let exhausted = after(rejected.clone(), &fact("rejected"));
    let no_change = after(given.clone(), &fact("no change claimed"));
    let undecided = after(given.clone(), &fact("undecided"));
    let mut accepted = given.clone();
    write(&mut accepted, &settle(&given, &fact("accepted"), MOST).unwrap()[0]);
    let passes = |markers: &StoryMarkers| StoryMarkers {
        in_prd: StoryInPrd::Passes,
        record: markers.record.clone(),
    };
    let gone = StoryMarkers { in_prd: StoryInPrd::Gone, record: undecided.record.clone() };
    vec![
        ("new", open()),
        ("given", given.clone()),
        ("given, then changed by a person", changed(&given)),
        ("rejected once", rejected),
        ("rejected too often", exhausted.clone()),
        ("rejected too often, then changed", changed(&exhausted)),
        ("no change claimed", no_change.clone()),
        ("no change reviewed", after(no_change, &fact("opinion given"))),
        ("undecided", undecided.clone()),
        ("undecided, then changed", changed(&undecided)),
        ("accepted, writes cut short", accepted.clone()),
        ("accepted, then changed", changed(&accepted)),
        ("accepted, the branch has it", passes(&accepted)),
        ("passes by a person's word while given", passes(&given)),
        ("removed while undecided", gone),
    ]
}

fn name(write: &StoryWrite) -> String {
    match write {
        StoryWrite::Record(record) => {
            let settled = if record.settled_run.is_some() { ", settled" } else { "" };
            let claim = match &record.claim {
                StoryClaim::None if record.given.is_some() => "given",
                StoryClaim::None => "none",
                StoryClaim::Accepted { .. } => "accepted",
                StoryClaim::NoChange { .. } => "no change",
                StoryClaim::NoChangeReviewed { .. } => "reviewed",
                StoryClaim::Undecided { .. } => "undecided",
            };
            format!("record({claim}{settled})")
        }
        StoryWrite::Pass { .. } => "pass".to_owned(),
        StoryWrite::ForgetBeginning => "forget-beginning".to_owned(),
    }
}

fn short(state: &StoryState) -> &'static str {
    match state {
        StoryState::NotFailing => "not failing",
        StoryState::Open => "open",
        StoryState::Accepted => "accepted",
        StoryState::NoChange { .. } => "no change",
        StoryState::NoChangeReviewed { .. } => "no change reviewed",
        StoryState::Undecided { .. } => "undecided",
        StoryState::Exhausted { .. } => "exhausted",
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
        let state = StoryState::of(&markers, MOST);
        writeln!(table, "{situation}: {}{healing}", short(&state)).unwrap();
        for (told, fact) in facts() {
            let Ok(writes) = settle(&markers, &fact, MOST) else { continue };
            let names: Vec<String> = writes.iter().map(name).collect();
            let then = StoryState::of(&after(markers.clone(), &fact), MOST);
            writeln!(table, "  {told}: {} -> {}", names.join(" "), short(&then)).unwrap();
        }
    }
    let known = include_str!("story_table.txt");
    assert!(table == known, "the table is now:\n{table}");
}

/// A story interrupted after any write and healed reaches the same end state. Before the first write nothing has
/// happened.
#[test]
fn a_crash_between_two_writes_changes_nothing_in_the_end() {
    for (situation, markers) in situations() {
        for (told, fact) in facts() {
            // A landing interrupted by a crash is repeated, and refused again.
            if told.starts_with("landing") {
                continue;
            }
            let Ok(writes) = settle(&markers, &fact, MOST) else { continue };
            let undisturbed = after(markers.clone(), &fact);
            for cut in 1..=writes.len() {
                let mut found = markers.clone();
                write_all(&mut found, &writes[..cut]);
                let healing = heal(&found);
                write_all(&mut found, &healing);
                // A result whose run is not settled is concluded again.
                if found.record.settled_run != undisturbed.record.settled_run {
                    let again = settle(&found, &fact, MOST).unwrap();
                    write_all(&mut found, &again);
                }
                assert_eq!(found, undisturbed, "{situation}, {told}, cut after {cut}");
            }
        }
    }
}

#[test]
fn what_is_healed_needs_no_healing() {
    for (situation, markers) in situations() {
        let mut found = markers;
        let healing = heal(&found);
        write_all(&mut found, &healing);
        assert_eq!(heal(&found), [], "{situation}");
    }
}

/// In any sequence of facts, a story passes only by work or a person's decision about its present text.
#[derive(Clone, Debug)]
enum Happening {
    Fact(usize),
    Changed,
    Healed,
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let one = prop_oneof![
        8 => (0..facts().len()).prop_map(Happening::Fact),
        1 => Just(Happening::Changed),
        2 => Just(Happening::Healed),
    ];
    proptest::collection::vec(one, 0..30)
}

proptest! {
    #[test]
    fn nothing_passes_by_a_claim_about_another_text(happenings in happenings()) {
        let mut text = "a".to_owned();
        let mut markers = open();
        for happening in happenings {
            let fact = match happening {
                Happening::Changed => {
                    text.push('x');
                    markers = StoryMarkers::of(Some(&story(&text)), markers.record);
                    continue;
                }
                Happening::Healed => None,
                Happening::Fact(index) => Some(match facts().swap_remove(index).1 {
                    StoryFact::Given { .. } => StoryFact::Given { story: story(&text) },
                    other => other,
                }),
            };
            let given = markers.record.given.clone();
            let writes = match &fact {
                None => heal(&markers),
                Some(fact) => match settle(&markers, fact, MOST) {
                    Ok(writes) => writes,
                    Err(_) => continue,
                },
            };
            for write in &writes {
                match write {
                    StoryWrite::Record(record) => {
                        markers = StoryMarkers::of(Some(&story(&text)), (**record).clone());
                    }
                    StoryWrite::Pass { .. } => {
                        // A person's decision on a story that no run was given is about the text they see.
                        let same = given.as_ref().is_none_or(|given| given.title == text);
                        prop_assert!(same, "{given:?} passed for {text}");
                        return Ok(());
                    }
                    StoryWrite::ForgetBeginning => {}
                }
            }
        }
    }
}

#[test]
fn after_enough_rejections_a_person_is_asked() {
    let mut markers = open();
    let mut runs = 0;
    while let Ok(writes) = settle(&markers, &fact("given"), MOST) {
        write_all(&mut markers, &writes);
        markers = after(markers, &fact("rejected"));
        runs += 1;
    }
    assert_eq!(runs, MOST);
    let StoryState::Exhausted { times, last } = StoryState::of(&markers, MOST) else { panic!() };
    assert_eq!((times, last.as_str()), (MOST, "no tests"));
    let again = after(markers, &fact("retried"));
    assert_eq!(StoryState::of(&again, MOST), StoryState::Open);
    assert_eq!(again.record.feedback.as_deref(), Some("try this"));
}
