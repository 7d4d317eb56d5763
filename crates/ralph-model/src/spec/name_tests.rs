use proptest::prelude::*;

use super::*;

fn spec(path: &str) -> SpecPath {
    path.parse().unwrap()
}

#[test]
fn a_spec_is_numbered_with_four_or_more_digits() {
    for (name, is_spec) in [
        ("0001-login.md", true),
        ("12345-login.md", true),
        ("0001-Größe ändern.md", true),
        ("0001-.md", true),
        ("0001-a.attempt-1.md", true),
        ("001-login.md", false),
        ("0001.md", false),
        ("0001_login.md", false),
        ("0001-login.MD", false),
        ("0001-login.txt", false),
        ("a0001-login.md", false),
        ("٠٠٠١-login.md", false),
        ("README.md", false),
        ("done.md", false),
        ("", false),
    ] {
        assert_eq!(is_spec_name(name), is_spec, "{name}");
    }
}

#[test]
fn a_path_that_is_no_specs_is_refused_with_the_reason() {
    let long = format!("{}/0001-x.md", "a".repeat(200));
    for (path, reason) in [
        ("login.md", SpecPathFault::NotNumbered),
        ("", SpecPathFault::NotNumbered),
        ("0001-x.md/", SpecPathFault::NotNumbered),
        ("/0001-x.md", SpecPathFault::Part),
        ("a//0001-x.md", SpecPathFault::Part),
        ("../0001-x.md", SpecPathFault::Part),
        ("a/./0001-x.md", SpecPathFault::Part),
        ("a\\0001-x.md", SpecPathFault::NotNumbered),
        ("0001-a\\b.md", SpecPathFault::Character),
        ("0001-a\nb.md", SpecPathFault::Character),
        ("plans/0001-x.md", SpecPathFault::StateDirectory("plans")),
        ("done/area/0001-x.md", SpecPathFault::StateDirectory("done")),
        ("0001-x.attempt-12.md", SpecPathFault::Archived),
        ("area/0001-x.attempt-1.md", SpecPathFault::Archived),
        (&long, SpecPathFault::TooLong),
    ] {
        let error = path.parse::<SpecPath>().unwrap_err();
        assert_eq!(error, InvalidSpecPath { path: path.to_owned(), reason }, "{path}");
    }
    for path in ["area/plans/0001-x.md", "0001-x.attempt-.md", "0001-attempt-1.md"] {
        assert!(path.parse::<SpecPath>().is_ok(), "{path}");
    }
    assert_eq!(
        "plans/0001-x.md".parse::<SpecPath>().unwrap_err().to_string(),
        "`plans/0001-x.md` is not the path of a spec: `plans/` holds Ralph's own files"
    );
}

#[test]
fn state_mirrors_the_area() {
    let nested = spec("billing/eu/0010-invoices.v2.md");
    assert_eq!(nested.id(), "0010-invoices.v2");
    assert_eq!(nested.number(), "0010");
    assert_eq!(nested.area(), Some("billing/eu"));
    assert_eq!(nested.plan_md(), "plans/billing/eu/0010-invoices.v2.md");
    assert_eq!(nested.plan_json(), "plans/billing/eu/0010-invoices.v2.json");
    assert_eq!(nested.archive(3), "plans/billing/eu/0010-invoices.v2.attempt-3.md");
    assert_eq!(nested.candidate(), "candidates/billing/eu/0010-invoices.v2.json");
    assert_eq!(nested.done(), "done/billing/eu/0010-invoices.v2.md");
    assert_eq!(nested.session(), "sessions/billing/eu/0010-invoices.v2.json");
    assert_eq!(nested.run_id(), "billing~eu~0010-invoices.v2");
    assert_eq!(spec("0001-login.md").run_id(), "0001-login");
    assert_eq!(spec("0001-login.md").area(), None);
}

#[test]
fn the_same_stem_in_two_areas_has_two_run_directories() {
    // A12.9
    let paths = [
        "0001-x.md",
        "a/0001-x.md",
        "b/0001-x.md",
        "a~b/0001-x.md",
        "a/b/0001-x.md",
        "a=tb/0001-x.md",
    ];
    let mut ids: Vec<String> = paths.iter().map(|path| spec(path).run_id()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), paths.len());
}

#[test]
fn specs_are_taken_in_the_order_of_their_numbers_area_by_area() {
    let order = [
        "0001-b.md",
        "0002-a.md",
        "9999-x.md",
        "10000-a.md",
        "a/0001-x.md",
        "a/b/0001-x.md",
        "a-b/0001-x.md",
        "b/0000-x.md",
    ];
    let mut specs: Vec<SpecPath> = order.iter().rev().map(|path| spec(path)).collect();
    specs.sort();
    assert_eq!(specs.iter().map(SpecPath::as_str).collect::<Vec<_>>(), order);
}

#[test]
fn a_title_becomes_a_file_name() {
    for (number, title, name) in [
        (1, "Add a login page", Some("0001-add-a-login-page.md")),
        (12345, "  HTTP/2: *streams*  ", Some("12345-http-2-streams.md")),
        (7, "Größe ändern", Some("0007-größe-ändern.md")),
        (7, "../../etc/passwd", Some("0007-etc-passwd.md")),
        (7, "x.attempt-1", Some("0007-x-attempt-1.md")),
        (7, " – ", None),
        (7, "", None),
    ] {
        assert_eq!(new_file_name(number, title).as_deref(), name, "{title}");
    }
    let long = new_file_name(1, &"word ".repeat(40)).unwrap();
    assert!(long.ends_with("-word.md") && long.len() <= 70, "{long}");
    assert_eq!(new_file_name(1, &"ä".repeat(99)).unwrap(), format!("0001-{}.md", "ä".repeat(30)));
}

#[test]
fn a_path_read_from_json_is_checked() {
    assert!(serde_json::from_str::<SpecPath>(r#""a/0001-x.md""#).is_ok());
    assert!(serde_json::from_str::<SpecPath>(r#""../0001-x.md""#).is_err());
}

fn any_spec() -> impl Strategy<Value = String> {
    "([ab~=.-]{1,3}/){0,2}[0-9]{4,5}-[a~=.]{0,3}(\\.attempt-1)?\\.md"
}

/// All files kept for a spec.
fn files(spec: &SpecPath) -> Vec<String> {
    let mut files = vec![
        spec.plan_md(),
        spec.plan_json(),
        spec.candidate(),
        spec.done(),
        spec.session(),
        format!("runs/{}", spec.run_id()),
    ];
    files.extend((1..4).map(|n| spec.archive(n)));
    files
}

proptest! {
    #[test]
    fn two_specs_never_share_a_file(first in any_spec(), second in any_spec()) {
        if let (Ok(first), Ok(second)) = (first.parse::<SpecPath>(), second.parse::<SpecPath>())
            && first != second
        {
            let (first, second) = (files(&first), files(&second));
            prop_assert!(first.iter().all(|file| !second.contains(file)), "{first:?} {second:?}");
        }
    }

    #[test]
    fn no_state_file_is_taken_for_a_spec(path in any_spec()) {
        if let Ok(spec) = path.parse::<SpecPath>() {
            for file in files(&spec) {
                prop_assert!(file.starts_with("runs/") || file.parse::<SpecPath>().is_err(), "{file}");
            }
        }
    }

    #[test]
    fn any_text_is_a_path_that_reads_back_and_stays_inside_or_none(text in "\\PC{0,40}(/|\\.\\.)?0001-x\\.md") {
        if let Ok(spec) = text.parse::<SpecPath>() {
            prop_assert_eq!(spec.to_string(), text);
            prop_assert!(!spec.as_str().starts_with('/'));
            prop_assert!(!spec.run_id().contains('/'));
            prop_assert!(spec.as_str().split('/').all(|part| part != ".."));
        }
    }

    #[test]
    fn the_order_is_total(mut paths in proptest::collection::vec(any_spec(), 3)) {
        paths.retain(|path| path.parse::<SpecPath>().is_ok());
        let mut specs: Vec<SpecPath> = paths.iter().map(|path| spec(path)).collect();
        specs.sort();
        for (at, left) in specs.iter().enumerate() {
            for right in &specs[at..] {
                prop_assert!(left <= right);
                prop_assert_eq!(left == right, left.cmp(right) == Ordering::Equal);
            }
        }
    }

    #[test]
    fn a_new_name_is_a_specs_or_there_is_none(number in 0_u64..1_000_000, title in "(?s).{0,90}") {
        if let Some(name) = new_file_name(number, &title) {
            prop_assert!(name.parse::<SpecPath>().is_ok(), "{}", name);
        }
    }
}
