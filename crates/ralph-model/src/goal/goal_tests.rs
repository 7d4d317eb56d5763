use std::fmt::Write as _;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::id::RunId;
use crate::prd::{Prd, Story};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn run() -> RunId {
    RunId::new(at(0), 1)
}

fn prd() -> Prd {
    let story = Story {
        id: "US-001".to_owned(),
        title: "Dark".to_owned(),
        acceptance_criteria: vec!["`make test` passes".to_owned()],
        priority: 1,
        passes: true,
        notes: String::new(),
    };
    Prd { branch_name: "ralph/dark".to_owned(), user_stories: vec![story] }
}

fn envelope(questions: &[&str], draft: &Value) -> String {
    json!({
        "questions": questions,
        "uncertainties": [{"topic": "theme", "reason": "r", "evidenceMissing": "e"}],
        "prdDraft": draft,
        "recommendUnderstand": {"shouldRun": false, "reasons": []},
    })
    .to_string()
}

fn draft() -> Value {
    serde_json::to_value(prd()).unwrap()
}

fn begun() -> GoalState {
    let (goal, root) = ("add dark mode", "/w");
    GoalState::begin(&GoalBeginning { goal, root, map_was_missing: true, at: at(0) })
}

/// The disk of an interview.
#[derive(Clone, Debug, PartialEq)]
struct Disk {
    state: GoalState,
    transcript: String,
    prd: Option<Prd>,
}

impl Disk {
    fn new() -> Disk {
        let state = begun();
        let transcript = state.last_entry.clone();
        Disk { state, transcript, prd: None }
    }

    fn with_prd() -> Disk {
        Disk { prd: Some(prd()), ..Disk::new() }
    }

    fn write(&mut self, write: &GoalWrite) {
        match write {
            GoalWrite::State(state) => self.state = (**state).clone(),
            GoalWrite::Transcript(text) => self.transcript.push_str(text),
            GoalWrite::Prd(prd) => self.prd = Some(prd.clone()),
        }
    }

    fn settle(&self, fact: &GoalFact<'_>, seconds: i64) -> Result<Vec<GoalWrite>, IllegalGoalFact> {
        settle(&self.state, fact, self.prd.as_ref(), at(seconds))
    }

    fn after(mut self, fact: &GoalFact<'_>) -> Disk {
        let seconds = i64::try_from(self.transcript.len()).unwrap();
        for write in self.settle(fact, seconds).unwrap() {
            self.write(&write);
        }
        self
    }

    fn heal(&mut self) {
        for write in heal(&self.state, &self.transcript) {
            self.write(&write);
        }
    }

    fn step(&self) -> String {
        match self.state.next(self.prd.is_some()) {
            GoalStep::ChooseExisting => "choose-existing".to_owned(),
            GoalStep::ConfirmChecks => "confirm-checks".to_owned(),
            GoalStep::Ask(open) => format!("ask {} {}", open.id, open.question),
            GoalStep::Turn => {
                format!("turn{}", if self.state.problems.is_empty() { "" } else { " (problems)" })
            }
            GoalStep::Review(_) => "review".to_owned(),
            GoalStep::End(end) => format!("end {end:?}"),
        }
    }
}

fn facts<'a>(run: &'a RunId, texts: &'a Texts) -> Vec<(&'static str, GoalFact<'a>)> {
    let said = |said: &'a str| GoalFact::TurnEnded { run, said };
    vec![
        ("update", GoalFact::ExistingChosen(ExistingPrd::Update)),
        ("overwrite", GoalFact::ExistingChosen(ExistingPrd::Overwrite)),
        ("checks", GoalFact::ChecksConfirmed { question: "Which?", answer: "make test" }),
        ("answer", GoalFact::Answered { answer: "yes" }),
        ("no json", said("Hello")),
        ("asks", said(&texts.asks)),
        ("drafts", said(&texts.drafts)),
        ("asks and drafts", said(&texts.both)),
        ("neither", said(&texts.neither)),
        ("bad draft", said(&texts.bad)),
        ("cut short", GoalFact::TurnCutShort { run, why: "the run took too long" }),
        ("approved", GoalFact::Approved),
        ("changes", GoalFact::ChangesWanted { question: "What to change?", answer: "less" }),
    ]
}

struct Texts {
    asks: String,
    drafts: String,
    both: String,
    neither: String,
    bad: String,
}

fn texts() -> Texts {
    Texts {
        asks: envelope(&["Which pages?", "Since when?"], &Value::Null),
        drafts: format!("```json\n{}\n```", envelope(&[], &draft())),
        both: envelope(&["Which pages?"], &draft()),
        neither: envelope(&[], &Value::Null),
        bad: envelope(&[], &json!({"branchName": "x", "userStories": [], "project": "p"})),
    }
}

/// Every state and every fact: the writes, and the next step after them.
#[test]
fn the_table_of_the_interview_stays_as_it_is() {
    let (run, texts) = (run(), texts());
    let turn = |said| GoalFact::TurnEnded { run: &run, said };
    let checks = GoalFact::ChecksConfirmed { question: "Which?", answer: "make test" };
    let begun = Disk::new();
    let open = begun.clone().after(&checks);
    let asked = open.clone().after(&turn(&texts.asks));
    let review = open.clone().after(&turn(&texts.drafts));
    let redraft = open.clone().after(&turn(&texts.bad));
    let mut failed = open.clone();
    for _ in 0..=MOST_RETRIES {
        failed = failed.after(&turn("no"));
    }
    let states = [
        ("begun", begun),
        ("begun, with a PRD", Disk::with_prd()),
        ("open", open.clone()),
        ("asked", asked.clone()),
        ("asked and answered", asked.after(&GoalFact::Answered { answer: "all" })),
        ("draft not valid", redraft),
        ("review", review.clone()),
        (
            "changes wanted",
            review.clone().after(&GoalFact::ChangesWanted { question: "What?", answer: "less" }),
        ),
        ("failed too often", failed),
        ("done", review.after(&GoalFact::Approved)),
    ];
    let mut table = String::new();
    for (name, disk) in states {
        writeln!(table, "{name}: {:?}, {}", disk.state.state, disk.step()).unwrap();
        for (fact_name, fact) in facts(&run, &texts) {
            let Ok(writes) = disk.settle(&fact, 99) else { continue };
            let names: Vec<&str> = writes
                .iter()
                .map(|write| match write {
                    GoalWrite::State(_) => "state",
                    GoalWrite::Transcript(_) => "transcript",
                    GoalWrite::Prd(_) => "prd",
                })
                .collect();
            let after = disk.clone().after(&fact);
            let (names, stage) = (names.join(" "), after.state.state);
            writeln!(table, "  {fact_name}: {names} -> {stage:?}, {}", after.step()).unwrap();
        }
    }
    assert_eq!(table, include_str!("goal_table.golden.txt"));
}

#[test]
fn a_whole_interview_reads_as_its_golden_files() {
    let (run, texts) = (run(), texts());
    let turn = |said| GoalFact::TurnEnded { run: &run, said };
    let facts = [
        GoalFact::ExistingChosen(ExistingPrd::Update),
        GoalFact::ChecksConfirmed {
            question: "Which commands verify the work?",
            answer: "make test",
        },
        turn("Sure! ```{}```"),
        turn(&texts.asks),
        GoalFact::Answered { answer: "All of them.\nAlso the settings." },
        GoalFact::Answered { answer: "```now```" },
        turn(&texts.bad),
        turn(&texts.drafts),
        GoalFact::ChangesWanted { question: "What should change?", answer: "fewer stories" },
        turn(&texts.drafts),
        GoalFact::Approved,
    ];
    let disk = facts.iter().fold(Disk::with_prd(), Disk::after);
    assert_eq!(disk.transcript, include_str!("plan_transcript.golden.md"));
    assert_eq!(disk.state.render(), include_str!("plan_state.golden.json"));
    // The story is unchanged by the update: it still passes.
    assert_eq!(disk.prd, Some(prd()));
    assert_eq!(GoalState::parse(disk.state.render()), Ok(disk.state));
}

#[test]
fn what_a_newer_ralph_wrote_is_kept_and_another_version_is_refused() {
    let mut value: Value = serde_json::from_str(&begun().render()).unwrap();
    value["later"] = json!({"x": 1});
    let state = GoalState::parse(value.to_string()).unwrap();
    let again: Value = serde_json::from_str(&state.render()).unwrap();
    assert_eq!(again["later"], json!({"x": 1}));
    value["schemaVersion"] = json!(2);
    let refused = GoalState::parse(value.to_string()).unwrap_err();
    assert_eq!(refused, GoalStateError::Version { found: 2 });
    for damaged in ["", "{}", "[]", "{\"schemaVersion\": 1}"] {
        assert!(
            matches!(GoalState::parse(damaged), Err(GoalStateError::Unreadable(_))),
            "{damaged}"
        );
    }
}

#[test]
fn the_seeds_fields_are_all_there() {
    let value: Value = serde_json::from_str(&begun().render()).unwrap();
    for key in [
        "schemaVersion",
        "root",
        "goal",
        "createdAt",
        "updatedAt",
        "qa",
        "uncertainties",
        "recommendUnderstand",
        "lastPrdDraft",
        "approvedPrdAt",
        "state",
    ] {
        assert!(value.get(key).is_some(), "{key}");
    }
    assert_eq!((&value["state"], &value["approvedPrdAt"]), (&json!("preflight"), &Value::Null));
}

/// C10.9: after five retries an interviewer is not asked again until a person allows another try.
#[test]
fn invalid_answers_are_retried_five_times() {
    let run = run();
    let mut disk = Disk::new().after(&GoalFact::ChecksConfirmed { question: "Which?", answer: "" });
    for _ in 0..=MOST_RETRIES {
        assert!(matches!(disk.state.next(false), GoalStep::Turn));
        disk = disk.after(&GoalFact::TurnEnded { run: &run, said: "{}" });
    }
    let GoalStep::End(GoalEnd::NotValid { problems }) = disk.state.next(false) else { panic!() };
    assert_eq!(problems.len(), 1);
    assert!(problems[0].starts_with("missing required keys: prdDraft, questions"), "{problems:?}");
    assert!(matches!(disk.state.renewed().next(false), GoalStep::Turn));
}

#[test]
fn an_interviewer_that_only_asks_is_stopped() {
    let (run, texts) = (run(), texts());
    let mut disk = Disk::new().after(&GoalFact::ChecksConfirmed { question: "Which?", answer: "" });
    for _ in 0..MOST_TURNS {
        disk = disk.after(&GoalFact::TurnEnded { run: &run, said: &texts.both });
        disk = disk.after(&GoalFact::Answered { answer: "yes" });
    }
    assert_eq!(disk.state.next(false), GoalStep::End(GoalEnd::NoDraft { turns: MOST_TURNS }));
}

/// C10.10: the draft is always inside the envelope.
#[test]
fn the_envelope_has_exactly_its_keys_and_types() {
    let good = envelope(&["a", " "], &Value::Null);
    let mut more: Value = serde_json::from_str(&good).unwrap();
    more["note"] = json!(1);
    let typed = |pointer: &str, value: Value| {
        let mut envelope: Value = serde_json::from_str(&good).unwrap();
        *envelope.pointer_mut(pointer).unwrap() = value;
        envelope.to_string()
    };
    for (text, problem) in [
        (good.clone(), ""),
        (format!("```json\n{good}\n```\n"), ""),
        (format!("```\n{good}```"), ""),
        (format!("\u{feff} {good}"), ""),
        (String::new(), "the answer is empty"),
        (format!("Here it is:\n{good}"), "not valid JSON"),
        (format!("{good}\nDone."), "not valid JSON"),
        (format!("```json\n{good}\n```\n```json\n{good}\n```"), "not valid JSON"),
        ("[]".to_owned(), "must be a JSON object"),
        (
            draft().to_string(),
            "missing required keys: prdDraft, questions, recommendUnderstand, uncertainties; unexpected keys: branchName, userStories",
        ),
        (more.to_string(), "unexpected keys: note"),
        // In JSON's terms, for readers of the message.
        (typed("/questions", json!("x")), "`questions` must be an array of strings"),
        (typed("/questions", Value::Null), "`questions` must be an array of strings"),
        (typed("/questions", json!(["a", 1])), "`questions[1]` must be a string"),
        (typed("/uncertainties", json!({})), "`uncertainties` must be an array of objects"),
        (
            typed("/uncertainties", json!([{"topic": "t"}])),
            "`uncertainties[0]` must be an object with exactly these keys: topic, reason, evidenceMissing",
        ),
        (typed("/uncertainties/0/reason", json!(1)), "`uncertainties[0].reason` must be a string"),
        (
            typed("/recommendUnderstand", json!({"shouldRun": "yes", "reasons": []})),
            "`recommendUnderstand.shouldRun` must be true or false",
        ),
        (
            typed("/recommendUnderstand", json!({"shouldRun": true, "reasons": "none"})),
            "`recommendUnderstand.reasons` must be an array of strings",
        ),
        (
            typed("/recommendUnderstand", json!({"shouldRun": true, "reasons": [], "x": 1})),
            "`recommendUnderstand` must be an object with exactly these keys: shouldRun, reasons",
        ),
    ] {
        match PlannerEnvelope::parse(&text) {
            Ok(envelope) => {
                assert_eq!(problem, "", "{text}");
                assert_eq!(envelope.questions, ["a"]);
            }
            Err(error) => {
                let told = error.to_string();
                assert!(!problem.is_empty() && told.contains(problem), "{text}: {told}");
            }
        }
    }
}

fn any_fact() -> impl Strategy<Value = usize> {
    0..13_usize
}

proptest! {
    /// After a crash at any write, in the middle of any append, healing restores the same state as without a crash.
    #[test]
    fn a_crash_at_any_write_loses_and_repeats_nothing(
        order in prop::collection::vec(any_fact(), 1..25),
        has_prd in any::<bool>(),
        cut in 0..6_usize,
        torn in 0..400_usize,
    ) {
        let (run, texts) = (run(), texts());
        let facts = facts(&run, &texts);
        let mut disk = if has_prd { Disk::with_prd() } else { Disk::new() };
        let legal = order.iter().enumerate();
        for (index, fact) in legal {
            let seconds = i64::try_from(index).unwrap();
            let Ok(writes) = disk.settle(&facts[*fact].1, seconds) else { continue };
            let mut whole = disk.clone();
            for write in &writes {
                whole.write(write);
            }
            let mut crashed = disk.clone();
            for (number, write) in writes.iter().enumerate() {
                if number < cut {
                    crashed.write(write);
                } else {
                    if let GoalWrite::Transcript(text) = write {
                        let mut torn = torn.min(text.len());
                        while !text.is_char_boundary(torn) {
                            torn -= 1;
                        }
                        crashed.transcript.push_str(&text[..torn]);
                    }
                    break;
                }
            }
            if cut > 0 {
                crashed.heal();
                prop_assert_eq!(&crashed, &whole);
                let mut again = whole.clone();
                again.heal();
                prop_assert_eq!(&again, &whole, "healing what is whole changes nothing");
            }
            disk = whole;
        }
    }

    /// Only an approval writes a PRD, and it writes what was reviewed.
    #[test]
    fn a_prd_is_written_only_by_an_approval(order in prop::collection::vec(any_fact(), 1..40)) {
        let (run, texts) = (run(), texts());
        let facts = facts(&run, &texts);
        let mut disk = Disk::new();
        for fact in order {
            let fact = &facts[fact].1;
            let Ok(writes) = disk.settle(fact, 5) else { continue };
            let reviewed = match disk.state.next(disk.prd.is_some()) {
                GoalStep::Review(draft) => Some(draft.clone()),
                _ => None,
            };
            for write in &writes {
                if let GoalWrite::Prd(written) = write {
                    prop_assert_eq!(fact, &GoalFact::Approved);
                    prop_assert_eq!(Some(written), reviewed.as_ref());
                }
                disk.write(write);
            }
        }
    }

    #[test]
    fn any_message_is_an_envelope_or_a_problem(message in "\\PC{0,60}") {
        let _ = PlannerEnvelope::parse(&message);
    }
}
