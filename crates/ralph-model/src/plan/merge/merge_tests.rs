use super::*;
use crate::plan::{DoneAt, Kill, Plan, PlanContext, PlanError, Status, Unfinished};
use proptest::prelude::*;
use std::collections::BTreeMap;

const SPEC: &str = "{\"t\": \"spec\", \"spec\": \"s\"}\n";

fn line(id: &str, rest: &str) -> String {
    format!(
        "{{\"t\": \"task\", \"id\": \"{id}\", \"spec\": \"s\", \"name\": \"{id}\", \"s\": \"p\"{rest}}}\n"
    )
}

fn done(id: &str, at: &str) -> String {
    line(id, &format!(", \"done_at\": \"{at}\"")).replace("\"s\": \"p\"", "\"s\": \"d\"")
}

fn tombstone(id: &str, at: &str, reason: &str) -> String {
    format!(
        "{{\"t\": \"reject\", \"id\": \"{id}\", \"done_at\": \"{at}\", \"reason\": \"{reason}\"}}\n"
    )
}

/// Merges in both directions and expects the same lines in any order; returns the result for our side.
fn merged(base: &[&str], ours: &[&str], theirs: &[&str]) -> (String, Vec<String>) {
    let [base, ours, theirs] = [base, ours, theirs].map(|lines| SPEC.to_owned() + &lines.concat());
    let one = merge(base.as_bytes(), ours.as_bytes(), theirs.as_bytes()).unwrap();
    let other = merge(base.as_bytes(), theirs.as_bytes(), ours.as_bytes()).unwrap();
    let said = |merged: &Merged| {
        let mut said: Vec<_> = merged.conflicts.iter().map(ToString::to_string).collect();
        said.sort();
        said
    };
    assert_eq!(said(&one), said(&other));
    if one.conflicts.is_empty() {
        assert_eq!(records(&one.bytes), records(&other.bytes));
    }
    let text = String::from_utf8(one.bytes.clone()).unwrap();
    (text.strip_prefix(SPEC).unwrap_or(&text).to_owned(), said(&one))
}

/// The records of a plan as values, sorted.
fn records(bytes: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(bytes).unwrap();
    let mut records: Vec<String> = text
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str::<BTreeMap<String, serde_json::Value>>(line).unwrap())
        .map(|record| serde_json::to_string(&record).unwrap())
        .collect();
    records.sort();
    records
}

type Lines<'l> = Vec<&'l str>;

#[test]
fn the_table_of_outcomes_holds() {
    let (p, q) = (line("t-1", ""), line("t-1", ", \"priority\": \"low\""));
    let (d1, d2) = (done("t-1", "aa"), done("t-1", "bb"));
    let rejected = |reason: &str| line("t-1", &format!(", \"reject\": \"{reason}\""));
    let stone = |reason: &str| tombstone("t-1", "aa", reason);
    let killed = line("t-1", ", \"kill\": \"timeout\", \"kill_log\": \"l\"");
    let heir = line("t-2", ", \"supersedes\": \"t-1\"");
    let part = line("t-2", ", \"parent\": \"t-1\"");
    let done_low = done("t-1", "aa").replace("\"aa\"", "\"aa\", \"priority\": \"low\"");
    let (no, other_no) = (rejected("no"), rejected("bad"));
    let (stone_no, stone_bad) = (stone("no"), stone("bad"));
    let both_reasons = rejected("bad; no");
    let killed_rejected =
        line("t-1", ", \"reject\": \"no\", \"kill\": \"timeout\", \"kill_log\": \"l\"");
    let redone = done("t-1", "bb").replace("\"bb\"", "\"bb\", \"reject\": \"no\"");
    let cases: Vec<(Lines<'_>, Lines<'_>, Lines<'_>, Lines<'_>)> = vec![
        (vec![&p], vec![&d1], vec![&p], vec![&d1]),
        (vec![&p], vec![&p], vec![], vec![]),
        (vec![], vec![&p], vec![], vec![&p]),
        (vec![], vec![&p], vec![&p], vec![&p]),
        (vec![&p], vec![&d1], vec![&q], vec![&done_low]),
        (vec![&p], vec![&d1], vec![&killed], vec![&d1]),
        (vec![&p], vec![&d1], vec![&d2], vec![&d1]),
        (vec![&p], vec![&d1], vec![], vec![&d1]),
        (vec![&d1], vec![&d1], vec![], vec![]),
        (vec![&p], vec![&q], vec![], vec![]),
        (vec![&p], vec![&killed], vec![], vec![]),
        (vec![&d1], vec![&no, &stone_no], vec![&d1], vec![&no, &stone_no]),
        (
            vec![&d1],
            vec![&no, &stone_no],
            vec![&other_no, &stone_bad],
            vec![&both_reasons, &stone_no, &stone_bad],
        ),
        (vec![&p], vec![&no, &stone_no], vec![&killed], vec![&killed_rejected, &stone_no]),
        (vec![&d1], vec![&no, &stone_no], vec![&heir, &stone_no], vec![&heir, &stone_no]),
        (vec![&d1], vec![&no, &stone_no], vec![&stone_bad], vec![&stone_no, &stone_bad]),
        (vec![&d1], vec![&redone, &stone_no], vec![&no, &stone_no], vec![&redone, &stone_no]),
        (vec![&p], vec![&p], vec![&part], vec![&part]),
    ];
    for (base, ours, theirs, expected) in cases {
        let (text, said) = merged(&base, &ours, &theirs);
        assert_eq!(said, [""; 0], "{ours:?} {theirs:?}");
        assert_eq!(
            records(text.as_bytes()),
            records(expected.concat().as_bytes()),
            "{ours:?} {theirs:?}"
        );
    }
    let clashes: Vec<(Lines<'_>, Lines<'_>, Lines<'_>, &str)> = vec![
        (
            vec![&p],
            vec![&d1],
            vec![&heir],
            "`t-1`: one side has it done, the other superseded or decomposed it",
        ),
        (
            vec![&p],
            vec![&d1],
            vec![&part],
            "`t-1`: one side has it done, the other superseded or decomposed it",
        ),
        (
            vec![&d1],
            vec![&no, &stone_no],
            vec![],
            "`t-1`: one side rejected it, the other accepted or cancelled it",
        ),
    ];
    for (base, ours, theirs, said) in clashes {
        assert_eq!(merged(&base, &ours, &theirs).1, [said]);
    }
}

#[test]
fn different_fields_are_merged_and_unknown_ones_too() {
    let base = "{\"t\":\"task\",\"id\":\"t-1\",\"name\":\"n\",\"s\":\"p\",\"x\":1}\n";
    let ours =
        "{\"t\":\"task\",\"id\":\"t-1\",\"name\":\"n\",\"notes\":\"N\",\"s\":\"p\",\"x\":2}\n";
    let theirs =
        "{\"t\":\"task\",\"id\":\"t-1\",\"name\":\"m\",\"s\":\"p\",\"x\":1,\"y\":[1, 2]}\n";
    let (text, said) = merged(&[base], &[ours], &[theirs]);
    assert_eq!(said, [""; 0]);
    assert_eq!(
        text,
        "{\"t\":\"task\",\"id\":\"t-1\",\"name\":\"m\",\"notes\":\"N\",\"s\":\"p\",\"x\":2,\"y\":[1, 2]}\n"
    );
}

#[test]
fn a_clash_is_shown_round_its_one_line_and_said_in_words() {
    let base = line("t-1", "");
    let (ours, theirs) = (
        base.replace("\"name\": \"t-1\"", "\"name\": \"A\""),
        base.replace("\"name\": \"t-1\"", "\"name\": \"B\""),
    );
    let (near, added) = (line("t-0", ""), line("t-9", ""));
    let (text, said) = merged(&[&near, &base], &[&near, &ours], &[&near, &theirs, &added]);
    assert_eq!(said, ["`t-1`: both sides changed `name` differently"]);
    assert_eq!(
        text,
        format!(
            "{near}<<<<<<< ours\n{ours}||||||| base\n{base}=======\n{theirs}>>>>>>> theirs\n{added}"
        )
    );
    let plan = Plan::parse(text.as_bytes());
    assert_eq!(plan.document().broken().count(), 4);
}

#[test]
fn both_sides_set_another_spec() {
    let spec = |name: &str| format!("{{\"t\": \"spec\", \"spec\": \"{name}\"}}\n");
    let [base, ours, theirs] = ["s", "a", "b"].map(spec);
    let merged = merge(base.as_bytes(), ours.as_bytes(), theirs.as_bytes()).unwrap();
    assert_eq!(
        merged.conflicts[0].to_string(),
        "the current spec: both sides changed `spec` differently"
    );
    let merged = merge(base.as_bytes(), base.as_bytes(), theirs.as_bytes()).unwrap();
    assert_eq!((merged.bytes, merged.conflicts), (theirs.into_bytes(), Vec::new()));
}

#[test]
fn dependencies_of_both_sides_are_united_and_the_higher_priority_stays() {
    let with = |rest: &str| line("t-1", rest);
    let base = with(", \"deps\": [\"a\", \"b\"]");
    let ours = with(", \"deps\": [\"a\", \"b\", \"z\"], \"priority\": \"low\"");
    let theirs = with(", \"deps\": [\"b\", \"c\"], \"priority\": \"high\"");
    let (text, said) = merged(&[&base], &[&ours], &[&theirs]);
    assert_eq!(said, [""; 0]);
    assert_eq!(text, with(", \"deps\": [\"b\", \"c\", \"z\"], \"priority\": \"high\""));
}

#[test]
fn a_circle_that_only_both_sides_make_is_a_conflict() {
    let (a, b) = (line("t-a", ""), line("t-b", ""));
    let (a_on_b, b_on_a) =
        (line("t-a", ", \"deps\": [\"t-b\"]"), line("t-b", ", \"deps\": [\"t-a\"]"));
    let (_, said) = merged(&[&a, &b], &[&a_on_b, &b], &[&a, &b_on_a]);
    let wanted = "the merged dependencies form a cycle: t-a → t-b → t-a";
    assert_eq!(said, [format!("`t-a`: {wanted}"), format!("`t-b`: {wanted}")]);
    let (_, said) =
        merged(&[&a_on_b, &b_on_a], &[&a_on_b, &b_on_a, &line("t-c", "")], &[&a_on_b, &b_on_a]);
    assert_eq!(said, [""; 0], "one that was there is not the merge's");
}

#[test]
fn who_waits_for_a_task_that_the_other_side_replaced_waits_for_its_heirs() {
    let base = line("t-1", ", \"reject\": \"no\"");
    let stone = tombstone("t-1", "aa", "no");
    let waits = line("t-3", ", \"deps\": [\"t-1\"]");
    let heir = line("t-2", ", \"supersedes\": \"t-1\"");
    let (text, said) = merged(&[&base, &stone], &[&base, &waits, &stone], &[&heir, &stone]);
    assert_eq!(said, [""; 0]);
    assert_eq!(text, [line("t-3", ", \"deps\": [\"t-2\"]"), heir, stone].concat());
}

#[test]
fn tombstones_issues_and_unknown_records_are_united() {
    let issue = |id: &str| {
        format!("{{\"t\": \"issue\", \"id\": \"{id}\", \"spec\": \"s\", \"desc\": \"d\"}}\n")
    };
    let other = |n: u8| format!("{{\"t\": \"note\",\"n\":{n}}}\n");
    let stone = tombstone("t-1", "aa", "no");
    let (i1, i2, i3) = (issue("i-1"), issue("i-2"), issue("i-3"));
    let (n1, n2, n3) = (other(1), other(2), other(3));
    let (text, said) = merged(
        &[&i1, &i2, &n1, &n1],
        &[&i2, &stone, &n1, &n2, &n1],
        &["\n", &i1, &i3, &n1, &n3, &stone],
    );
    assert_eq!(said, [""; 0]);
    assert_eq!(text, [i3, stone, n1, n2, n3].concat());
}

#[test]
fn what_cannot_be_read_is_not_merged() {
    let good = SPEC.as_bytes();
    let refused = merge(good, b"{\n", good).unwrap_err().to_string();
    assert!(refused.starts_with("our side cannot be read: line 1: it is not JSON"), "{refused}");
    let twice = line("t-1", "").repeat(2);
    let refused = merge(good, good, twice.as_bytes()).unwrap_err().to_string();
    assert_eq!(refused, "their side has `t-1` twice, on lines 1 and 2");
    assert!(merge(b"<<<<<<< x\n", good, good).is_ok(), "a broken base is none");
}

/// The operations of one branch on the tasks of the base, and the tasks it adds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Deed {
    Nothing,
    Done,
    DoneAndAccepted,
    DoneAndRejected,
    Killed,
    Noted,
    Deleted,
}

fn any_deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        Just(Deed::Nothing),
        Just(Deed::Done),
        Just(Deed::DoneAndAccepted),
        Just(Deed::DoneAndRejected),
        Just(Deed::Killed),
        Just(Deed::Noted),
        Just(Deed::Deleted),
    ]
}

fn branch(base: &str, deeds: &[Deed], added: usize, side: &str) -> String {
    let mut text = base.to_owned();
    let done_at = DoneAt::Commit(if side == "o" { "a" } else { "b" }.repeat(40).parse().unwrap());
    for (at, deed) in deeds.iter().enumerate() {
        let id = format!("t-000{at}");
        let copy = text.clone();
        let mut plan = Plan::parse(copy.as_bytes());
        let change = (|| -> Result<(), PlanError> {
            match deed {
                Deed::Nothing | Deed::Noted => {}
                Deed::Deleted => drop(plan.delete(&id)?),
                Deed::Killed => drop(plan.kill(&id, Kill::Timeout, Some("l"))?),
                Deed::Done => drop(plan.done(&id, &done_at)?),
                Deed::DoneAndAccepted => {
                    plan.done(&id, &done_at)?;
                    plan.accept(std::slice::from_ref(&id))?;
                }
                Deed::DoneAndRejected => {
                    plan.done(&id, &done_at)?;
                    plan.reject(&id, "no")?;
                }
            }
            Ok(())
        })();
        change.unwrap();
        text = String::from_utf8(plan.render()).unwrap();
        if *deed == Deed::Noted {
            text = text.replace(
                &format!("\"name\": \"{id}\""),
                &format!("\"name\": \"{id}\", \"notes\": \"n\""),
            );
        }
    }
    for at in 0..added {
        let copy = text.clone();
        let mut plan = Plan::parse(copy.as_bytes());
        let mut around = PlanContext {
            known: &|_| false,
            past_is_whole: &|| true,
            random: &mut || 0,
            done_at: DoneAt::Unborn,
        };
        let task = format!("{{\"id\": \"t-new{side}{at}\", \"name\": \"new\"}}");
        plan.add(&task, &mut around).unwrap();
        assert!(plan.set_spec("s", Unfinished::Refuse).unwrap().is_nothing());
        text = String::from_utf8(plan.render()).unwrap();
    }
    text
}

/// The expected fate of a pending task.
#[derive(Debug, PartialEq)]
enum Fate {
    There(&'static str),
    Gone,
    /// For a person to decide.
    Clash,
}

fn oracle(ours: Deed, theirs: Deed) -> Fate {
    use Deed::{Deleted, Done, DoneAndAccepted, DoneAndRejected, Killed, Noted, Nothing};
    let rank = |deed: &Deed| match deed {
        Nothing => 0,
        Noted => 1,
        Killed => 2,
        Deleted => 3,
        DoneAndAccepted => 4,
        DoneAndRejected => 5,
        Done => 6,
    };
    let mut both = [ours, theirs];
    both.sort_by_key(rank);
    match both {
        [_, Done] => Fate::There("d"),
        [Deleted | DoneAndAccepted, DoneAndRejected] => Fate::Clash,
        [_, Deleted | DoneAndAccepted] => Fate::Gone,
        _ => Fate::There("p"),
    }
}

proptest! {
    #[test]
    fn branches_that_go_apart_are_merged_as_a_simple_table_says(
        deeds in prop::collection::vec((any_deed(), any_deed()), 1..6),
        added in (0..3_usize, 0..3_usize),
    ) {
        let base: String = SPEC.to_owned()
            + &(0..deeds.len()).map(|at| line(&format!("t-000{at}"), "")).collect::<String>();
        let (ours, theirs): (Vec<_>, Vec<_>) = deeds.iter().copied().unzip();
        let (one, other) = (branch(&base, &ours, added.0, "o"), branch(&base, &theirs, added.1, "t"));
        let merged = merge(base.as_bytes(), one.as_bytes(), other.as_bytes()).unwrap();
        let swapped = merge(base.as_bytes(), other.as_bytes(), one.as_bytes()).unwrap();
        let text = String::from_utf8(merged.bytes.clone()).unwrap();
        let plan = Plan::parse(text.as_bytes());
        let clashing: Vec<_> = merged.conflicts.iter().filter_map(|conflict| conflict.id.clone()).collect();
        for (at, (ours, theirs)) in deeds.iter().enumerate() {
            let id = format!("t-000{at}");
            let found = plan.task_view(&id).map(|task| task.s);
            let found = match found {
                _ if clashing.contains(&id) => Fate::Clash,
                None => Fate::Gone,
                Some(Status::Pending) => Fate::There("p"),
                Some(_) => Fate::There("d"),
            };
            prop_assert_eq!(found, oracle(*ours, *theirs), "{} {:?} {:?}", id, ours, theirs);
        }
        for (side, count) in [("o", added.0), ("t", added.1)] {
            for at in 0..count {
                let id = format!("t-new{side}{at}");
                prop_assert!(plan.task_view(&id).is_some());
            }
        }
        prop_assert_eq!(merged.conflicts.len(), swapped.conflicts.len());
        if merged.conflicts.is_empty() {
            prop_assert_eq!(records(&merged.bytes), records(&swapped.bytes));
            prop_assert_eq!(plan.problems(&|_| true), []);
        }
    }

    #[test]
    fn a_side_that_did_nothing_has_no_say(
        deeds in prop::collection::vec(any_deed(), 1..6),
        added in 0..3_usize,
    ) {
        let base: String = SPEC.to_owned()
            + &(0..deeds.len()).map(|at| line(&format!("t-000{at}"), "")).collect::<String>();
        let changed = branch(&base, &deeds, added, "o");
        let [base, changed] = [base.as_bytes(), changed.as_bytes()];
        for (ours, theirs) in [(changed, base), (base, changed), (changed, changed)] {
            let merged = merge(base, ours, theirs).unwrap();
            prop_assert_eq!(merged.bytes, changed);
            prop_assert_eq!(merged.conflicts, []);
        }
    }
}

/// Two lines that were kept by hand from a conflict, or both sides of a conflict that git met while merging two bases.
#[test]
fn a_base_that_has_a_record_twice_is_a_base_all_the_same() {
    let (one, two, added) = (line("t-1", ""), line("t-2", ""), line("t-3", ""));
    let renamed = |name: &str| one.replace("\"name\": \"t-1\"", &format!("\"name\": \"{name}\""));
    let (a, b) = (renamed("A"), renamed("B"));
    let kept_both = [a.as_str(), &b, &two];
    let block = format!("<<<<<<< ours\n{a}||||||| base\n{one}=======\n{b}>>>>>>> theirs\n{two}");
    let without_base = format!("<<<<<<< ours\n{a}=======\n{b}>>>>>>> theirs\n{two}");
    for base in [&kept_both[..], &[block.as_str()], &[without_base.as_str()]] {
        let (text, said) = merged(base, &[&a], &[&a, &two, &added]);
        assert_eq!(
            (text, said),
            (format!("{a}{added}"), vec![]),
            "{base:?}: what is gone stays gone"
        );
    }
    // Neither version is older than the other, so the conflict must be resolved again.
    let (_, said) = merged(&[&block], &[&a, &two], &[&b, &two]);
    assert_eq!(said.len(), 1, "{said:?}");
}
