use jiff::civil::date;
use proptest::prelude::*;

use super::*;

fn triggers(missing: bool, age: Option<i16>, topics: &[&str], recommended: bool) -> Triggers {
    Triggers {
        map_was_missing: missing,
        last_entry: age.map(|age| date(2026, 11, 18 - i8::try_from(age).unwrap())),
        today: date(2026, 11, 18),
        topics: topics.iter().map(|&topic| topic.to_owned()).collect(),
        recommended,
        reasons: Vec::new(),
    }
}

#[test]
fn the_truth_table_of_the_triggers() {
    use UnderstandMode::{Always, Auto, Never};
    for missing in [false, true] {
        // An entry dated tomorrow is not stale.
        for age in [None, Some(-1), Some(0), Some(1)] {
            for topics in [&[][..], &["auth"]] {
                for recommended in [false, true] {
                    let triggers = triggers(missing, age, topics, recommended);
                    let stale = age.is_none_or(|age| age > 0);
                    let any = missing || stale || recommended || !topics.is_empty();
                    assert_eq!(Auto.asks(&triggers), any, "{triggers:?}");
                    assert!(Always.asks(&triggers) && !Never.asks(&triggers));
                    assert_eq!(!triggers.explain().is_empty(), any, "{triggers:?}");
                }
            }
        }
    }
}

/// C10.12: a map from yesterday is stale, so its age is shown.
#[test]
fn the_reasons_name_age_topics_and_what_the_planner_says() {
    let mut stale = triggers(false, Some(3), &["auth", "data"], true);
    stale.reasons = vec!["the login is unclear".to_owned()];
    assert_eq!(
        stale.explain(),
        [
            "the codebase map is stale: last entry 2026-11-15, 3 days ago",
            "the planner is uncertain about: auth, data",
            "the planner says: the login is unclear",
        ]
    );
    assert_eq!(triggers(true, None, &[], false).explain(), ["the codebase map was missing"]);
    assert_eq!(
        triggers(false, None, &[], true).explain()[0],
        "the codebase map has no dated entry"
    );
    assert!(triggers(false, Some(1), &[], false).explain()[0].ends_with(", 1 day ago"));
}

#[test]
fn caps_are_computed_and_say_how() {
    let story = |passes| crate::prd::Story {
        id: String::new(),
        title: String::new(),
        acceptance_criteria: Vec::new(),
        priority: 1,
        passes,
        notes: String::new(),
    };
    let prd = |passes: &[bool]| Prd {
        branch_name: "b".to_owned(),
        user_stories: passes.iter().map(|passes| story(*passes)).collect(),
    };
    let auto: IterationCap = "auto".parse().unwrap();
    let cap = auto.for_run(&prd(&[true, false, false]));
    assert_eq!(
        (cap.to_string().as_str(), cap.has_work()),
        ("at most 2 iterations (2 failing stories)", true)
    );
    assert!(!auto.for_run(&prd(&[true])).has_work());
    // C10.13: room for iterations that fail.
    let cap = "auto+3".parse::<IterationCap>().unwrap().for_run(&prd(&[false]));
    assert_eq!(cap.to_string(), "at most 4 iterations (1 failing story, and 3 more)");
    let cap = "7".parse::<IterationCap>().unwrap().for_run(&prd(&[false]));
    assert_eq!(cap.to_string(), "at most 7 iterations (as configured; 1 failing story)");
    let cap = auto.for_understand("## Next Topics\n- [ ] a\n- [x] b\n", "1) x\n2) y\n");
    assert_eq!(cap.to_string(), "at most 1 iteration (1 unchecked under Next Topics)");
    assert!(!auto.for_understand("## Next Topics\n- [x] b\n", "1) x\n").has_work());
    for map in ["", "## Next Topics\nnone\n"] {
        let cap = auto.for_understand(map, "1) x\n2) y\n");
        assert_eq!(cap.iterations, 2);
        assert!(cap.to_string().contains("prompt's list"), "{cap}");
    }
    for bad in ["", "0", "-1", "auto+", "auto-1", "automatic", "1.5", "auto+x"] {
        assert!(bad.parse::<IterationCap>().is_err(), "{bad}");
    }
}

fn cap(units: usize) -> ComputedCap {
    IterationCap::Auto { more: 0 }.compute(units, "units")
}

proptest! {
    /// For any answers, in any order and however often asked again.
    #[test]
    fn nothing_starts_without_the_consent_that_it_needs(
        approves in any::<bool>(),
        asks in any::<bool>(),
        topics in 0..3_usize,
        failing in 0..3_usize,
        answers in prop::collection::vec(any::<bool>(), 2),
    ) {
        let (understand, run) = (cap(topics), cap(failing));
        let word = |yes: bool| Some(if yes { Consent::Given } else { Consent::Refused });
        let mut progress = ExecProgress::default();
        let mut answers = answers.into_iter();
        let (mut understand_said, mut run_said) = (None, None);
        let mut steps = 0;
        loop {
            steps += 1;
            prop_assert!(steps < 8, "it ends");
            match progress.next(asks, &understand, &run) {
                ExecStep::Plan => progress.approved = Some(approves),
                ExecStep::AskUnderstand { .. } => {
                    prop_assert!(approves && asks && topics > 0);
                    understand_said = word(answers.next().unwrap());
                    progress.understand = understand_said;
                }
                ExecStep::Understand { .. } => {
                    prop_assert_eq!(understand_said, Some(Consent::Given));
                    prop_assert!(approves);
                    progress.understood = true;
                }
                ExecStep::AskRun { .. } => {
                    prop_assert!(approves && failing > 0);
                    run_said = word(answers.next().unwrap());
                    progress.run = run_said;
                }
                ExecStep::Run { .. } => {
                    prop_assert_eq!(run_said, Some(Consent::Given));
                    prop_assert!(approves);
                    break;
                }
                ExecStep::End(end) => {
                    let expected = match () {
                        () if !approves => ExecEnd::NotApproved,
                        () if failing == 0 => ExecEnd::AllPassing,
                        () => ExecEnd::Declined,
                    };
                    prop_assert_eq!(end, expected);
                    break;
                }
            }
        }
    }
}
