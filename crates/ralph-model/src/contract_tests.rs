use proptest::prelude::*;

use super::*;

const HASH: &str = "0123456789abcdef0123456789abcdef01234567";
const PHRASE: &str = DEFAULT_MAGIC_PHRASE;

fn commit() -> CommitId {
    HASH.parse().unwrap()
}

fn completed(text: &str) -> bool {
    FinalMessage::new(text).completion(PHRASE).is_some()
}

#[test]
fn hash_and_phrase_as_the_last_two_lines_complete() {
    for text in [
        format!("{HASH}\n{PHRASE}"),
        format!("report\n\n{HASH}\n{PHRASE}\n"),
        format!("report\n{HASH}\n\n \t\n{PHRASE}\n\n\n  \n"),
        format!("report\r\n  {HASH}  \r\n  {PHRASE}\r\n"),
        format!("{PHRASE}\n{HASH}\n{PHRASE}"),
        format!("{}\n{PHRASE}", "a".repeat(64)),
    ] {
        assert!(completed(&text), "{text}");
    }
    let claim = FinalMessage::new(&format!("{HASH}\n{PHRASE}")).completion(PHRASE);
    assert_eq!(claim, Some(Completion { commit: commit(), no_change: None }));
}

#[test]
fn a_phrase_can_be_of_symbols() {
    for (phrase, said, is_it) in [
        ("🚀🚀", "**🚀🚀**", true),
        ("🚀🚀", "🚀", false),
        ("✅ Done ✅", "✅ Done ✅", true),
        ("✅ Done ✅", "Do", false),
        ("**", "\n", false),
    ] {
        let said = format!("{HASH}\n{said}");
        let found = FinalMessage::new(&said).completion(phrase).is_some();
        assert_eq!(found, is_it, "{phrase}: {said}");
    }
}

#[test]
fn anything_else_does_not_complete() {
    for text in [
        String::new(),
        "\n\n".to_owned(),
        PHRASE.to_owned(),
        HASH.to_owned(),
        format!("{HASH}\n{PHRASE}\none more thing"),
        format!("{HASH}\nI am done\n{PHRASE}"),
        format!("{HASH} {PHRASE}"),
        format!("{}\n{PHRASE}", &HASH[..39]),
        format!("{HASH}0\n{PHRASE}"),
        format!("see {HASH}\n{PHRASE}"),
        format!("{HASH}\n{}", PHRASE.to_lowercase()),
        format!("{HASH}\n{PHRASE}!"),
        format!("{HASH}\nSo: {PHRASE}"),
        format!("{PHRASE}\n{HASH}"),
    ] {
        assert!(!completed(&text), "{text}");
    }
}

#[test]
fn ordinary_habits_of_writing_get_through() {
    for text in [
        format!("{}\n{PHRASE}", HASH.to_uppercase()),
        format!("`{HASH}`\n{PHRASE}"),
        format!("commit {HASH}\n{PHRASE}"),
        format!("Commit: `{HASH}`\n**{PHRASE}**"),
        format!("✅ **Commit:** `{HASH}`\n✅ **{PHRASE}** 🎉"),
        format!("• {HASH}\n“{PHRASE}”"),
        format!("**{HASH}**\n\n`{PHRASE}`"),
        format!("done\n```\n{HASH}\n{PHRASE}\n```\n"),
        format!("> {HASH}\n> {PHRASE}"),
        format!("- Commit: {HASH}.\n{PHRASE}"),
        format!("1. {HASH}\n2. {PHRASE}"),
        format!("1) Commit: {HASH}\n2) **{PHRASE}**"),
    ] {
        assert!(completed(&text), "{text}");
    }
    let verified = |text: &str| {
        FinalMessage::new(text).verifier_claim(PHRASE).against(&commit()) == Verification::Verified
    };
    assert!(verified(&format!("{}\n{PHRASE}", &HASH[..10])));
    assert!(verified(&format!("`{}`\n{PHRASE}", HASH[..8].to_uppercase())));
    assert!(!verified(&format!("{}\n{PHRASE}", &HASH[..6])), "too short to mean one");
    assert!(!verified(&format!("ffffffffff\n{PHRASE}")));
    assert_eq!(FinalMessage::new("a\n\nb\n c \n").ending(), "b / c");
}

#[test]
fn the_phrase_can_be_chosen_but_not_be_blank() {
    let text = format!("{HASH}\nfertig");
    assert!(FinalMessage::new(&text).completion("fertig").is_some());
    assert!(FinalMessage::new(&text).completion(PHRASE).is_none());
    assert!(FinalMessage::new(&format!("{HASH}\n\n")).completion("").is_none());
}

#[test]
fn a_planner_leaves_a_plan_and_ends_with_the_phrase() {
    let done = format!("I planned.\n{PHRASE}\n\n");
    let claim = |text: &str, plan| FinalMessage::new(text).planner_claim(PHRASE, plan);
    assert_eq!(claim(&done, Some("# Plan")), PlannerClaim::Planned);
    assert_eq!(claim(&done, None), PlannerClaim::NoPlan);
    assert_eq!(claim(&done, Some(" \n\t")), PlannerClaim::NoPlan);
    assert_eq!(claim("I planned.", Some("# Plan")), PlannerClaim::Unfinished);
    assert_eq!(claim(&format!("{done}more"), Some("# Plan")), PlannerClaim::Unfinished);
    assert_eq!(claim("", Some("# Plan")), PlannerClaim::Unfinished);
}

fn invalidation(text: &str) -> Option<String> {
    FinalMessage::new(text).verifier_claim(PHRASE).plan_invalidation
}

#[test]
fn an_invalidation_is_a_line_that_begins_with_the_marker() {
    let table = [
        ("nothing of the kind", None),
        ("PLAN_INVALIDATION: wrong module", Some("wrong module")),
        ("report\nPLAN_INVALIDATION:wrong module  \r\nmore", Some("wrong module")),
        ("PLAN_INVALIDATION: first\nPLAN_INVALIDATION: second", Some("first")),
        (" PLAN_INVALIDATION: indented", None),
        ("so PLAN_INVALIDATION: mid-line", None),
        ("`PLAN_INVALIDATION: quoted`", None),
        ("plan_invalidation: lower case", None),
        ("PLAN_INVALIDATION:", None),
        ("PLAN_INVALIDATION:   \nthe reason", None),
        ("PLAN_INVALIDATION: <one-line reason>", None),
        ("PLAN_INVALIDATION: <reason>\nPLAN_INVALIDATION: real", Some("real")),
        ("PLAN_INVALIDATION: <Foo> is not a <Bar>", Some("<Foo> is not a <Bar>")),
    ];
    for (text, reason) in table {
        assert_eq!(invalidation(text).as_deref(), reason, "{text}");
    }
}

#[test]
fn a_marker_repeated_from_the_prompt_is_no_claim() {
    let prompt = "If the approach is wrong, say\nPLAN_INVALIDATION: the approach is wrong\n\
                  NO_CHANGE_NEEDED: all was there";
    let echoed = |text| FinalMessage::new(text).in_answer_to(prompt).verifier_claim(PHRASE);
    assert_eq!(echoed(prompt).plan_invalidation, None);
    assert_eq!(FinalMessage::new(prompt).in_answer_to(prompt).no_change_needed(), None);
    let own = format!("{prompt}\nPLAN_INVALIDATION: it needs a queue");
    assert_eq!(echoed(&own).plan_invalidation.as_deref(), Some("it needs a queue"));
}

#[test]
fn an_invalidation_counts_only_where_the_candidate_was_not_verified() {
    let other: CommitId = "f".repeat(40).parse().unwrap();
    let marker = "PLAN_INVALIDATION: wrong module";
    let verify = |text: &str| FinalMessage::new(text).verifier_claim(PHRASE).against(&commit());
    let invalid = Verification::PlanInvalid { reason: "wrong module".to_owned() };
    assert_eq!(verify(&format!("{HASH}\n{PHRASE}")), Verification::Verified);
    assert_eq!(verify(&format!("{marker}\n{HASH}\n{PHRASE}")), Verification::Verified);
    assert_eq!(verify(&format!("{marker}\n{other}\n{PHRASE}")), invalid);
    assert_eq!(verify(marker), invalid);
    assert_eq!(verify(&format!("{other}\n{PHRASE}")), Verification::NotVerified);
    assert_eq!(verify("a test fails"), Verification::NotVerified);
}

#[test]
fn no_change_needed_is_told_before_hash_and_phrase() {
    let claim = |text: &str| FinalMessage::new(text).completion(PHRASE).unwrap().no_change;
    let told = format!("NO_CHANGE_NEEDED: it is there already\n{HASH}\n{PHRASE}");
    assert_eq!(claim(&told).as_deref(), Some("it is there already"));
    for line in ["NO_CHANGE_NEEDED:", "NO_CHANGE_NEEDED: <reason>", "so NO_CHANGE_NEEDED: x"] {
        assert_eq!(claim(&format!("{line}\n{HASH}\n{PHRASE}")), None, "{line}");
    }
    assert_eq!(FinalMessage::new("NO_CHANGE_NEEDED: y").no_change_needed().as_deref(), Some("y"));
}

#[test]
fn a_promise_is_a_line_of_its_own_anywhere_in_the_message() {
    let says = |text| FinalMessage::new(text).says("<promise>COMPLETE</promise>");
    assert!(says("<promise>COMPLETE</promise>"));
    assert!(says("done\n  <promise>COMPLETE</promise>\r\nbye"));
    assert!(!says("I will not say <promise>COMPLETE</promise> yet"));
    assert!(!says("<promise>complete</promise>"));
    assert!(!says(""));
    assert!(!FinalMessage::new("\n\n").says(" "));
}

proptest! {
    #[test]
    fn any_report_may_stand_before_a_completion(report in "(?s).{0,200}", blank in "[ \t\r\n]{0,9}") {
        let text = format!("{report}\n{HASH}\n{blank}\n{PHRASE}\n{blank}");
        let claim = FinalMessage::new(&text).completion(PHRASE).unwrap();
        prop_assert_eq!(claim.commit, commit());
    }

    #[test]
    fn a_message_that_only_repeats_its_prompt_invalidates_nothing(
        lines in proptest::collection::vec("(PLAN_INVALIDATION: ?|NO_CHANGE_NEEDED:)?[a-z <>]{0,12}", 0..12),
    ) {
        let prompt = lines.join("\n");
        let message = FinalMessage::new(&prompt).in_answer_to(&prompt);
        prop_assert_eq!(message.verifier_claim(PHRASE).plan_invalidation, None);
        prop_assert_eq!(message.no_change_needed(), None);
    }
}

/// C9: the marker as the last line, in the middle, in an echoed prompt, before other lines.
#[test]
fn a_promise_is_a_whole_line_that_the_agent_says_itself() {
    let prompt =
        "Do it. If all stories pass, reply with:\n<promise>COMPLETE</promise>\n\n# Story\nUS-001\n";
    let echoed = format!("{prompt}\nworking on it");
    let kept = format!("{prompt}\nDone.\n  <promise>COMPLETE</promise>\n");
    for (said, promised) in [
        ("Done.\n<promise>COMPLETE</promise>", true),
        ("<promise>COMPLETE</promise>\n\nSYS: bye\n", true),
        ("**<promise>COMPLETE</promise>**", true),
        ("- `<promise>COMPLETE</promise>`", true),
        ("I say <promise>COMPLETE</promise> when I am done", false),
        ("<promise>complete</promise>", false),
        (echoed.as_str(), false),
        (kept.as_str(), true),
        ("", false),
    ] {
        let message = FinalMessage::new(said).in_answer_to(prompt);
        assert_eq!(message.promises(PROMISE), promised, "{said:?}");
    }
}

#[test]
fn the_phrase_without_a_commit_before_it_means_the_tip_of_the_work() {
    let table = [
        (PHRASE.to_owned(), true),
        (format!("I did it.\n\n{PHRASE}\n"), true),
        (format!("{HASH}\n{PHRASE}"), false),
        (format!("deadbeef\n{PHRASE}"), false),
        (format!("{PHRASE}\none more thing"), false),
        (String::new(), false),
    ];
    for (text, expected) in table {
        assert_eq!(FinalMessage::new(&text).claims_the_tip(PHRASE), expected, "{text}");
    }
}
