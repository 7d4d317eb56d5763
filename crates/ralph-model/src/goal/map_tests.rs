use proptest::prelude::*;

use super::*;

#[test]
fn the_last_entry_is_the_most_recent_date_of_a_heading() {
    for (map, expected) in [
        ("", None),
        ("# Map\n\n## Notes\n", None),
        ("## 2026-01-31 - Tests\n", Some("2026-01-31")),
        ("## 2026-03-01 - B\n## 2026-01-31 - A\n## 2026-02-01 - C\n", Some("2026-03-01")),
        ("## 2999-12-31 - Future\n", Some("2999-12-31")),
        // C10.7: prompts show the date in brackets.
        ("## [2026-01-31] - Tests\n", Some("2026-01-31")),
        ("## 2026-02-30 - No such day\n", None),
        ("## 2026-1-31 - Short\n", None),
        ("## 2026-01-31: Tests\n", None),
        ("## 2026-01-31 -Tests\n", None),
        ("### 2026-01-31 - Deeper\n", None),
        ("-## 2026-01-31 - Stray\n", None),
        (" ## 2026-01-31 - Indented\n", None),
        ("## [2026-01-31 - Half\n", None),
        ("## +2026-01-1 - Odd\n", None),
        ("text ## 2026-01-31 - x\r\n## 2026-01-30 - y\r\n", Some("2026-01-30")),
    ] {
        let expected = expected.map(|date| date.parse().unwrap());
        assert_eq!(last_entry(map), expected, "{map:?}");
    }
}

#[test]
fn topics_are_the_boxes_of_the_first_section() {
    for (map, expected) in [
        ("", None),
        ("## Next Topics\n\nnone\n", None),
        ("## Other\n- [ ] a\n", None),
        ("## Next Topics\n- [ ] a\n- [x] b\n- [ ] c \n", Some(vec!["a", "c"])),
        ("## Next Topics (checklist)\n- [ ] a\n", Some(vec!["a"])),
        ("## Next Topics\n- [x] a\n- [X] b\n", Some(vec![])),
        ("## Next Topics\n- [ ] a\n## Later\n- [ ] b\n## Next Topics\n- [ ] c\n", Some(vec!["a"])),
        ("## Next Topics\n### More\n  - [ ] deep\n", Some(vec!["deep"])),
        ("## Next Topics\n-[ ] a\n* [ ] b\n- [] c\n", None),
    ] {
        assert_eq!(open_topics(map), expected, "{map:?}");
    }
}

#[test]
fn the_default_topics_are_the_numbered_lines_of_the_prompt() {
    assert_eq!(
        listed_topics("1) One\n 12) Two (more)\n3. Three\n4)Four\n) Five\n6) \n"),
        ["One", "Two (more)"]
    );
    let builtin = crate::prompt::PromptKind::Understand.builtin_text();
    assert_eq!(listed_topics(builtin).len(), 11);
}

#[test]
fn the_next_topic_is_the_first_open_box_or_the_first_that_no_entry_is_about() {
    let listed = ["Tests (how)", "Data"];
    for (map, expected) in [
        ("## Next Topics\n- [x] a\n- [ ] b\n", Some("b")),
        ("## Next Topics\n- [x] a\n", None),
        ("", Some("Tests (how)")),
        ("## 2026-01-01 - tests and more\n", Some("Data")),
        ("## 2026-01-01 - Tests\n## [2026-01-01] - Data\n", None),
    ] {
        assert_eq!(next_topic(map, &listed), expected, "{map:?}");
    }
}

#[test]
fn a_mapper_adds_an_entry_and_loses_none() {
    let before = "# Map\n\n## Next Topics\n- [ ] a\n- [ ] b\n\n## 2026-01-01 - Old\nx\n";
    let added = format!("{before}\n## 2026-01-02 - a\ny\n");
    let ticked = added.replacen("- [ ] a", "- [x] a", 1);
    let lost = added.replace("## 2026-01-01 - Old\nx\n", "");
    let all_ticked = added.replace("- [ ] ", "- [X] ");
    let other_heading = format!("{before}\n## 2026-01-02: a\ny\n");
    for (after, expected) in [
        (added.as_str(), Ok(ticked.clone())),
        (&ticked, Ok(ticked.clone())),
        (before, Err(MapError::Unchanged)),
        (" \n", Err(MapError::Empty)),
        (&before.replace("- [ ] a", "- [x] a"), Err(MapError::NoEntry)),
        (&lost, Err(MapError::Lost(vec!["## 2026-01-01 - Old".to_owned(), "x".to_owned()]))),
        // A person's line is not an entry, and stays as well.
        (&added.replace("# Map", "# Plan"), Err(MapError::Lost(vec!["# Map".to_owned()]))),
        // A mapper ticks no topic but its own.
        (&all_ticked, Ok(added.replacen("- [ ] a", "- [X] a", 1))),
        (&other_heading, Err(MapError::Heading("## 2026-01-02: a".to_owned()))),
        // A second entry with the same date and topic counts too.
        (
            &format!("{before}## 2026-01-01 - Old\n"),
            Ok(format!("{before}## 2026-01-01 - Old\n").replacen("- [ ] a", "- [x] a", 1)),
        ),
    ] {
        assert_eq!(take_map(before, after, "a"), expected, "{after}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_without_a_panic(text in "(## |- \\[ \\] |Next Topics|2026-01-0[1-9] - |[a-z\\n\u{e9}])*") {
        let _ = (last_entry(&text), open_topics(&text), listed_topics(&text));
        let _ = take_map("", &text, "a");
    }

    #[test]
    fn a_map_that_is_taken_has_one_open_topic_less_if_it_had_the_topic(
        topics in prop::collection::btree_set("[a-z]{1,3}", 1..6),
        chosen in any::<prop::sample::Index>(),
    ) {
        let boxes: Vec<String> = topics.iter().map(|topic| format!("- [ ] {topic}")).collect();
        let map = format!("## Next Topics\n{}\n", boxes.join("\n"));
        let topic = topics.iter().nth(chosen.index(topics.len())).unwrap();
        let taken = take_map(&map, &format!("{map}## 2026-01-01 - x\n"), topic).unwrap();
        let left = open_topics(&taken).unwrap();
        prop_assert_eq!(left.len(), topics.len() - 1);
        prop_assert!(!left.contains(&topic.as_str()));
    }

    /// Whatever a mapper leaves, no line and no open topic of the map before is lost but its own topic.
    #[test]
    fn a_map_that_is_taken_keeps_all_text_and_all_other_boxes(
        before in "(- \\[[ x]\\] [ab]\n|[acd]\n|## Next Topics\n){0,6}",
        after in "(- \\[[ x]\\] [ab]\n|[acde]\n|## Next Topics\n|## 2026-01-01 - e\n){0,9}",
    ) {
        for after in [after.clone(), format!("{before}{after}")] {
            let Ok(taken) = take_map(&before, &after, "a") else { continue };
            let count = |map: &str, wanted: &str| map.lines().filter(|line| *line == wanted).count();
            for line in before.lines() {
                let wanted = if line == "- [ ] a" { continue } else { line };
                prop_assert!(count(&taken, wanted) >= count(&before, wanted), "{wanted} in {taken:?}");
            }
            let a = |map: &str| count(map, "- [ ] a") + count(map, "- [x] a");
            prop_assert!(a(&taken) >= a(&before));
            prop_assert!(count(&taken, "- [ ] a") + 1 >= count(&before, "- [ ] a"));
        }
    }
}
