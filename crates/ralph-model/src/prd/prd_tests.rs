use proptest::prelude::*;
use serde_json::json;

use super::*;

fn story(id: &str, priority: i64, passes: bool) -> Story {
    Story {
        id: id.to_owned(),
        title: format!("Title of {id}"),
        acceptance_criteria: vec!["It works".to_owned(), "`cargo test` passes".to_owned()],
        priority,
        passes,
        notes: String::new(),
    }
}

fn prd(stories: Vec<Story>) -> Prd {
    Prd { branch_name: "ralph/x".to_owned(), user_stories: stories }
}

fn value(prd: &Prd) -> Value {
    serde_json::to_value(prd).unwrap()
}

/// A valid PRD with one part replaced.
fn with(pointer: &str, part: Value) -> Value {
    let mut value = value(&prd(vec![story("US-001", 1, false), story("US-002", 2, true)]));
    *value.pointer_mut(pointer).unwrap() = part;
    value
}

fn without(pointer: &str, key: &str) -> Value {
    let mut value = with("/branchName", json!("b"));
    value.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove(key);
    value
}

#[test]
fn every_error_of_the_schema_has_its_words() {
    let first = "/userStories/0";
    let table = [
        (with("/branchName", json!("b")), &[][..]),
        (json!([]), &["PRD must be a JSON object"]),
        (json!({}), &["Missing required keys: branchName, userStories"]),
        (
            json!({"userStories": 1, "project": "p", "description": ""}),
            &["Missing required keys: branchName", "Unexpected keys: description, project"],
        ),
        (with("/branchName", json!("")), &["branchName must be non-empty"]),
        (with("/branchName", json!(7)), &["branchName must be a string (got: number)"]),
        (with("/branchName", Value::Null), &["branchName must be a string (got: null)"]),
        (
            json!({"branchName": [], "userStories": {}}),
            &[
                "branchName must be a string (got: array)",
                "userStories must be an array (got: object)",
            ],
        ),
        (with(first, json!("US-001")), &["userStories[0]: must be an object"]),
        (
            with(first, json!({"id": 1, "extra": 2})),
            &[
                "userStories[0]: missing keys: acceptanceCriteria, notes, passes, priority, title",
                "userStories[0]: unexpected keys: extra",
            ],
        ),
        (without(first, "notes"), &["userStories[0]: missing keys: notes"]),
        (with("/userStories/1/id", json!(2)), &["userStories[1].id: must be a string"]),
        (with("/userStories/0/id", json!("")), &["userStories[0].id: must be non-empty"]),
        (with("/userStories/0/title", Value::Null), &["userStories[0].title: must be a string"]),
        (with("/userStories/0/notes", json!([])), &["userStories[0].notes: must be a string"]),
        (
            with("/userStories/0/acceptanceCriteria", json!("x")),
            &["userStories[0].acceptanceCriteria: must be an array"],
        ),
        (
            with("/userStories/0/acceptanceCriteria", json!(["x", 1])),
            &["userStories[0].acceptanceCriteria: all items must be strings"],
        ),
        (
            with("/userStories/0/priority", json!("1")),
            &["userStories[0].priority: must be an integer"],
        ),
        (
            with("/userStories/0/priority", json!(1.0)),
            &["userStories[0].priority: must be an integer"],
        ),
        // C10.11
        (
            with("/userStories/0/priority", json!(true)),
            &["userStories[0].priority: must be an integer"],
        ),
        (with("/userStories/0/passes", json!(0)), &["userStories[0].passes: must be a boolean"]),
    ];
    for (value, expected) in table {
        let errors = Prd::from_value(&value).err().map(|error| error.errors).unwrap_or_default();
        assert_eq!(errors, expected, "{value}");
    }
    // Errors of all stories are reported at once.
    let value = json!({"branchName": "", "userStories": [1, {}]});
    assert_eq!(Prd::from_value(&value).unwrap_err().errors.len(), 3);
    assert!(Prd::parse("{").unwrap_err().to_string().starts_with("Invalid JSON: "));
    // A parser would keep the last of two equal keys, and what was meant is not known.
    let twice =
        r#"{"branchName": "a", "branchName": "b", "userStories": [{"id": "1", "id": "2"}]}"#;
    assert_eq!(
        Prd::parse(twice).unwrap_err().errors,
        ["branchName: the key occurs twice", "userStories[0].id: the key occurs twice"]
    );
    assert!(Prd::parse("\u{feff}{\"branchName\": \"b\", \"userStories\": []}\n").is_ok());
}

#[test]
fn it_is_written_with_two_spaces_and_in_the_order_of_the_schema() {
    let text = prd(vec![story("US-001", 1, false)]).render();
    let expected = "{\n  \"branchName\": \"ralph/x\",\n  \"userStories\": [\n    {\n      \"id\": \"US-001\",\n      \
         \"title\": \"Title of US-001\",\n      \"acceptanceCriteria\": [\n        \"It works\",\n        \
         \"`cargo test` passes\"\n      ],\n      \"priority\": 1,\n      \"passes\": false,\n      \"notes\": \"\"\n    }\n  ]\n}\n";
    assert_eq!(text, expected);
}

#[test]
fn the_next_story_fails_and_has_the_lowest_priority_the_first_on_ties() {
    let stories = [("a", 3, false), ("b", 1, true), ("c", 2, false), ("d", 2, false)];
    let prd = prd(stories.map(|(id, priority, passes)| story(id, priority, passes)).into());
    let order: Vec<&str> = prd.failing().iter().map(|story| story.id.as_str()).collect();
    assert_eq!(order, ["c", "d", "a"]);
}

#[test]
fn an_update_keeps_the_passes_of_stories_that_ask_for_the_same() {
    let old = prd(vec![
        story("a", 1, true),
        story("b", 2, true),
        story("c", 3, true),
        story("d", 4, false),
    ]);
    let mut new = prd(vec![
        story("a", 9, false),
        story("b", 2, true),
        story("d", 4, true),
        story("e", 5, true),
    ]);
    new.user_stories[0].notes = "moved".to_owned();
    new.user_stories[1].acceptance_criteria.push("more".to_owned());
    let passes = |prd: &Prd| prd.user_stories.iter().map(|story| story.passes).collect::<Vec<_>>();
    assert_eq!(passes(&new.clone().with_passes_of(Some(&old))), [true, false, false, false]);
    // An agent's value of `passes` never counts.
    assert_eq!(passes(&new.with_passes_of(None)), [false; 4]);
}

#[test]
fn a_story_passes_if_it_does_at_the_tip_and_the_person_has_not_taken_it_back() {
    let stories = |passes: [bool; 3]| {
        prd((1..).zip(passes).map(|(id, passes)| story(&format!("US-{id}"), 1, passes)).collect())
    };
    let mut checkout = stories([true, false, true]);
    checkout.user_stories[0].title = "another".to_owned();
    let passes = |tip: Option<&Prd>, draft: &Prd| {
        let laid = checkout.clone().with_passes_of(tip).without_failing_of(draft);
        laid.user_stories.iter().map(|story| story.passes).collect::<Vec<_>>()
    };
    let (all, none) = (stories([true; 3]), stories([false; 3]));
    assert_eq!(
        passes(Some(&all), &all),
        [false, true, true],
        "a text that changed counts as failing"
    );
    assert_eq!(passes(None, &all), [false; 3], "what is not committed does not count");
    assert_eq!(passes(Some(&none), &all), [false; 3]);
    assert_eq!(passes(Some(&all), &stories([true, true, false])), [false, true, false]);
}

#[test]
fn stories_of_the_same_id_have_names_of_their_own() {
    let prd = prd(["a", "b", "a", "a"].iter().map(|id| story(id, 1, false)).collect());
    assert_eq!(prd.story_names(), ["a", "b", "a#2", "a#3"]);
}

#[test]
fn a_claim_is_the_passes_of_that_story_and_nothing_else() {
    let copy = r#"{"extra": 1, "userStories": [{"id": "a", "passes": true, "mine": 2}, {"id": "b", "passes": "true"}]}"#;
    for (id, claimed) in [("a", true), ("b", false), ("c", false)] {
        assert_eq!(claims_to_pass(copy, id), claimed, "{id}");
    }
    for other in ["", "[]", "{", r#"{"userStories": {"id": "a", "passes": true}}"#] {
        assert!(!claims_to_pass(other, "a"), "{other}");
    }
}

#[test]
fn a_draft_needs_a_story_and_a_branch_that_git_takes() {
    assert_eq!(prd(Vec::new()).draft_errors(), ["userStories must not be empty"]);
    for bad in [
        "a b", "-x", "a..b", "a/", "/a", "a//b", ".a", "a.lock", "a~1", "x@{1}", "@", "HEAD", "a.",
        "a\u{7}",
    ] {
        let draft = Prd { branch_name: bad.to_owned(), ..prd(vec![story("a", 1, false)]) };
        assert_eq!(draft.draft_errors().len(), 1, "{bad:?}");
    }
    for good in ["ralph/dark-mode", "x", "feature/ü.1", "a@b"] {
        let draft = Prd { branch_name: good.to_owned(), ..prd(vec![story("a", 1, false)]) };
        assert_eq!(draft.draft_errors(), Vec::<String>::new(), "{good}");
    }
}

#[test]
fn the_review_shows_branch_stories_priorities_and_who_says_how_it_is_verified() {
    let mut draft =
        prd(vec![story("US-001", 1, true), story("US-002", 2, false), story("US-002", 3, false)]);
    draft.user_stories[1].acceptance_criteria = vec!["It is fast".to_owned()];
    draft.user_stories[2].acceptance_criteria =
        vec!["npm test passes".to_owned(), "$ ./check.sh".to_owned(), "Looks good".to_owned()];
    assert_eq!(draft.summary().join("\n") + "\n", include_str!("summary.golden.txt"));
}

#[test]
fn a_command_is_told_from_a_wish() {
    let table = [
        ("`cargo test` passes", true),
        ("Run pytest -q and see it pass", true),
        ("$ make check", true),
        ("./scripts/check.sh exits with 0", true),
        ("The page goes dark", false),
        ("Let people go", false),
        ("An empty `` is shown", false),
        ("The file `=` is not there", false),
    ];
    for (criterion, is_command) in table {
        let mut story = story("a", 1, false);
        story.acceptance_criteria = vec![criterion.to_owned()];
        let line = prd(vec![story]).summary()[3].clone();
        assert_eq!(!line.contains("no verification command"), is_command, "{criterion}");
    }
}

#[test]
fn lists_of_other_loops_are_converted_and_every_change_is_named() {
    let text = r#"{"project": "P", "branchName": "ralph/x", "description": "D", "userStories": [
        {"id": "US-001", "title": "T", "description": "As a user", "acceptanceCriteria": ["a"], "priority": 1,
         "passes": true, "notes": "n"},
        {"id": 2, "name": "U", "steps": "one"}]}"#;
    let Imported { prd, changes } = import(text).unwrap();
    let first = &prd.user_stories[0];
    assert_eq!((first.notes.as_str(), first.passes), ("n\ndescription: As a user", true));
    let second = Story { notes: String::new(), ..story("2", 2, false) };
    let second =
        Story { title: "U".to_owned(), acceptance_criteria: vec!["one".to_owned()], ..second };
    assert_eq!(prd.user_stories[1], second);
    assert_eq!(
        changes,
        [
            "left out: description",
            "left out: project",
            "US-001: description is moved to the notes",
            "2: priority is 2, its place in the file",
        ]
    );
    let Imported { prd, changes } =
        import(r#"[{"category": "ui", "description": "Dark", "steps": ["a", "b"], "passes": false}, "Only a title"]"#)
            .unwrap();
    assert_eq!((prd.branch_name.as_str(), prd.user_stories.len()), ("ralph/feature", 2));
    assert_eq!(prd.user_stories[0].title, "Dark");
    assert!(changes.contains(&"US-001: category is moved to the notes".to_owned()), "{changes:?}");
    for (text, error) in [
        ("{", "invalid JSON"),
        ("7", "neither an object nor an array"),
        (r#"{"a": 1}"#, "no array of stories"),
        ("[[]]", "story 1 is not an object (got: array)"),
        (r#"[{"id": "x"}]"#, "story 1 has no title"),
    ] {
        let told = import(text).unwrap_err().to_string();
        assert!(told.contains(error), "{text}: {told}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z ]{0,6}".prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "branchName",
        "userStories",
        "id",
        "title",
        "acceptanceCriteria",
        "priority",
        "passes",
        "notes",
        "description",
        "stories",
        "steps",
    ]);
    leaf.prop_recursive(4, 40, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..8)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_prd() -> impl Strategy<Value = Prd> {
    let story = (
        "[a-d]{1,2}",
        "\\PC{0,8}",
        prop::collection::vec("\\PC{0,8}", 0..3),
        any::<i64>(),
        any::<bool>(),
    );
    let story = story.prop_map(|(id, title, acceptance_criteria, priority, passes)| Story {
        id,
        title,
        acceptance_criteria,
        priority,
        passes,
        notes: String::new(),
    });
    ("[a-z/]{1,8}", prop::collection::vec(story, 0..5))
        .prop_map(|(branch_name, user_stories)| Prd { branch_name, user_stories })
}

proptest! {
    #[test]
    fn the_schema_accepts_exactly_what_can_be_read(value in any_json()) {
        let errors = schema_errors(&value);
        let read = Prd::deserialize(&value);
        // Serde also accepts an array for a struct; the schema does not.
        let stories = value["userStories"].as_array();
        let has_objects = stories.is_none_or(|all| all.iter().all(serde_json::Value::is_object));
        // The schema also asks for a branch name and ids that say something.
        let named = read.as_ref().is_ok_and(|prd| {
            !prd.branch_name.is_empty() && prd.user_stories.iter().all(|story| !story.id.is_empty())
        });
        let named = named && value.is_object() && has_objects;
        prop_assert_eq!(errors.is_empty(), named, "{} {:?} {:?}", value, errors, read);
    }

    #[test]
    fn what_is_written_is_read_again(prd in any_prd()) {
        prop_assert_eq!(Prd::parse(prd.render()), Ok(prd));
    }

    #[test]
    fn whatever_is_imported_fits_the_schema(value in any_json()) {
        if let Ok(Imported { prd, .. }) = import(value.to_string()) {
            let errors = schema_errors(&serde_json::to_value(&prd).unwrap());
            prop_assert!(errors.is_empty(), "{errors:?}");
        }
    }

    #[test]
    fn an_update_never_makes_a_story_pass_that_did_not(old in any_prd(), new in any_prd()) {
        let updated = new.with_passes_of(Some(&old));
        for story in updated.user_stories.iter().filter(|story| story.passes) {
            let passed = |known: &Story| known.passes && known.asks_for_the_same(story);
            prop_assert!(old.user_stories.iter().any(passed));
        }
    }
}
