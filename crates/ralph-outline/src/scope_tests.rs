use proptest::prelude::*;

use super::*;
use crate::tree::FileTree;

fn marker(kind: MarkerKind) -> Outline {
    let target = Some("pricing".to_owned());
    Outline { items: Vec::new(), markers: vec![ScopeMarker { kind, line: 9, target }] }
}

fn tree(cards: usize) -> FileTree {
    let cards = "<Card />".repeat(cards);
    FileTree::new([(
        "src/sections/Pricing.tsx",
        format!("export const P = () => <div>{cards}</div>;"),
    )])
}

fn text(kind: MarkerKind, before: usize, now: usize) -> (bool, String) {
    let before = tree(before);
    let found = compare(&marker(kind), Some(&before), &tree(now));
    (found.passed, found.text)
}

const ADD: MarkerKind = MarkerKind::Add { task: 2, items: Some(3) };
const PRESERVED: MarkerKind = MarkerKind::Preserved { items: Some(3) };
const NO_CHANGES: MarkerKind = MarkerKind::NoChanges { task: 2 };

#[test]
fn markers_are_read_from_lines_of_comments() {
    for (line, expected) in [
        ("TASK-2 [ADD]: 3 new cards", Some(ADD)),
        (" * task-2 [add]: 3", Some(ADD)),
        ("<!-- TASK-2 [ADD]: cards -->", Some(MarkerKind::Add { task: 2, items: None })),
        ("EXISTING 3 cards PRESERVED", Some(PRESERVED)),
        ("EXISTING cards PRESERVED", Some(MarkerKind::Preserved { items: None })),
        ("NO CHANGES for task-2", Some(NO_CHANGES)),
        ("TASK-2 [MODIFY]: 3", None),
        ("TASK-x [ADD]", None),
        ("TASK-99999999999999999999 [ADD]", None),
        ("EXISTING cards are kept", None),
        ("no changes", None),
    ] {
        assert_eq!(MarkerKind::read(line), expected, "{line}");
    }
}

#[test]
fn markers_are_compared_with_the_snapshot() {
    for (kind, before, now, passed, says) in [
        (ADD, 3, 6, true, ""),
        (ADD, 3, 4, true, "was to get 3 items and got 1"),
        (ADD, 3, 3, false, "it had 3 and has 3"),
        (ADD, 3, 2, false, "it had 3 and has 2"),
        (PRESERVED, 3, 3, true, ""),
        (PRESERVED, 3, 9, true, ""),
        (PRESERVED, 3, 2, false, "was to keep its items"),
        (NO_CHANGES, 3, 3, true, ""),
        (NO_CHANGES, 3, 4, true, "was to stay as it is"),
    ] {
        let (is_passed, found) = text(kind, before, now);
        assert_eq!(
            (is_passed, found.contains(says)),
            (passed, true),
            "{kind:?} {before} {now}: {found}"
        );
        assert_eq!(found.is_empty(), says.is_empty(), "{found}");
    }
}

#[test]
fn what_cannot_be_compared_is_a_warning_and_what_is_gone_is_none() {
    let now = tree(3);
    let without = compare(&marker(ADD), None, &now);
    assert!(without.passed && without.text.contains("no earlier"), "{without:?}");
    let elsewhere = FileTree::new([("src/Other.tsx", "")]);
    let unknown = compare(&marker(ADD), Some(&elsewhere), &elsewhere);
    assert!(unknown.passed && unknown.text.contains("no file of `pricing`"), "{unknown:?}");
    let gone = compare(&marker(PRESERVED), Some(&now), &elsewhere);
    assert!(!gone.passed && gone.text.contains("is gone"), "{gone:?}");
}

#[test]
fn markers_of_earlier_tasks_are_history() {
    let mut outline = marker(ADD);
    let kind = MarkerKind::Add { task: 3, items: None };
    outline.markers.push(ScopeMarker { kind, ..outline.markers[0].clone() });
    let found = compare(&outline, Some(&tree(3)), &tree(4));
    assert_eq!((found.passed, found.text.as_str()), (true, ""));
}

#[test]
fn items_are_the_most_repeated_component_or_the_objects_of_an_array() {
    for (source, expected) in [
        ("const items = [{ a: 1 }, { a: { b: 2 } }, { c: '[' }];", 3),
        ("export default <div><Card/><Card/><Badge/></div>;", 2),
        ("const items = [{}, {}]; export default <A/>;", 2),
        ("const items = [[{}], [{}, {}]];", 2),
        ("// [{}, {}, {}]\nconst a = \"[{}{}\";", 0),
        ("", 0),
    ] {
        assert_eq!(count_items(source), expected, "{source}");
    }
}

proptest! {
    #[test]
    fn any_text_is_counted_and_read(text in "(\\PC|[\\[\\]{}()\"`\\\\\n]){0,80}") {
        count_items(&text);
        MarkerKind::read(&text);
    }
}
