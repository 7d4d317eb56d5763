use proptest::prelude::*;

use super::*;

fn backlog() -> Vec<SpecPath> {
    [
        "0001-login.md",
        "0003-foo.md",
        "0004-one.md",
        "0004-two.md",
        "area/0003-foo.md",
        "area/0005-bar.md",
    ]
    .map(|path| path.parse().unwrap())
    .to_vec()
}

fn selected(typed: &str) -> String {
    match select(&backlog(), typed) {
        Ok(spec) => spec.to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_spec_is_found_by_whatever_names_only_it() {
    for (typed, expected) in [
        ("0001", "0001-login.md"),
        ("1", "0001-login.md"),
        ("0001-login", "0001-login.md"),
        ("0001-login.md", "0001-login.md"),
        ("/0001-login.md", "0001-login.md"),
        (" ./0001-login ", "0001-login.md"),
        ("ralph/specs/0001-login.md", "0001-login.md"),
        ("/home/me/project/ralph/specs/area/0005-bar.md", "area/0005-bar.md"),
        ("area/0003-foo.md", "area/0003-foo.md"),
        ("area\\0003-foo.md", "area/0003-foo.md"),
        ("\\area\\0003-foo", "area/0003-foo.md"),
        ("area/0003", "area/0003-foo.md"),
        ("specs/area/3", "area/0003-foo.md"),
        ("0005-bar", "area/0005-bar.md"),
        ("5", "area/0005-bar.md"),
        ("bar", "area/0005-bar.md"),
        ("login.md", "0001-login.md"),
        ("area/foo", "area/0003-foo.md"),
        // The path of one spec, and only the file name of the other.
        ("0003-foo.md", "0003-foo.md"),
        ("0003-foo", "0003-foo.md"),
    ] {
        assert_eq!(selected(typed), expected, "{typed}");
    }
}

#[test]
fn what_fits_several_specs_lists_them() {
    assert_eq!(selected("0003"), "`0003` matches several specs: `0003-foo.md`, `area/0003-foo.md`");
    assert_eq!(selected("foo"), "`foo` matches several specs: `0003-foo.md`, `area/0003-foo.md`");
    assert_eq!(selected("4"), "`4` matches several specs: `0004-one.md`, `0004-two.md`");
    let many: Vec<SpecPath> = (0..7).map(|n| format!("a{n}/0001-x.md").parse().unwrap()).collect();
    let error = select(&many, "0001-x").unwrap_err().to_string();
    assert!(error.ends_with("`a4/0001-x.md`, and 2 more"), "{error}");
}

#[test]
fn what_fits_none_lists_the_nearest() {
    for (typed, expected) in [
        ("0001-logni", "spec `0001-logni` not found; did you mean `0001-login.md`"),
        (
            "0007",
            "spec `0007` not found; did you mean `0001-login.md`, `0003-foo.md`, `area/0003-foo.md`, `0004-one.md`, `0004-two.md`",
        ),
        ("ba", "spec `ba` not found; did you mean `area/0005-bar.md`"),
        (
            "other/0003-foo.md",
            "spec `other/0003-foo.md` not found; did you mean `0003-foo.md`, `area/0003-foo.md`, `0004-two.md`",
        ),
        ("README.md", "spec `README.md` not found"),
        ("", "spec `` not found"),
        ("/", "spec `/` not found"),
    ] {
        assert_eq!(selected(typed), expected, "{typed}");
    }
    assert_eq!(select(&[], "0001").unwrap_err().to_string(), "spec `0001` not found");
}

proptest! {
    #[test]
    fn every_spec_is_found_by_its_path_and_nothing_panics(typed in "(?s)[./\\\\a0-9ä\n-]{0,20}") {
        let specs = backlog();
        let _ = select(&specs, &typed);
        for spec in &specs {
            prop_assert_eq!(select(&specs, spec.as_str()).unwrap(), spec);
        }
    }
}
