use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use super::*;
use crate::test_place::Place;

fn place(files: &[(&str, &str)]) -> Place {
    let place = Place::new();
    for (path, text) in files {
        place.write(path, text);
    }
    place
}

fn found(backlog: &Backlog) -> Vec<&str> {
    backlog.specs.iter().map(SpecPath::as_str).collect()
}

/// The problems, without the path of the test directory.
fn told(place: &Place, problems: &[SpecProblem]) -> Vec<String> {
    let root = format!("{}/", place.root);
    problems.iter().map(|problem| problem.to_string().replace(&root, "")).collect()
}

#[test]
fn specs_are_found_in_all_areas_and_in_order() {
    let place = place(&[
        ("b/0001-x.md", "# x"),
        ("0002-b.md", "# b"),
        ("0001-a.md", "# a"),
        ("10000-z.md", "# z"),
        ("a/deep/0001-x.md", "# x"),
        ("a/plans/0001-not-state-here.md", "# x"),
        ("README.md", "# Specs"),
        ("a/README.md", "# Specs"),
        ("done.md", "done"),
        ("notes.md", "# no number"),
        ("001-short.md", "# short"),
        ("0003-text.txt", "no"),
        ("plans/0001-a.md", "plan"),
        ("plans/0001-a.attempt-1.md", "plan"),
        ("plans/b/0001-x.md", "plan"),
        ("done/0001-a.md", "DONE"),
        ("candidates/0001-a.json", "{}"),
        ("sessions/0001-a.json", "{}"),
    ]);
    let backlog = discover(&place.root);
    assert_eq!(
        found(&backlog),
        [
            "0001-a.md",
            "0002-b.md",
            "10000-z.md",
            "a/deep/0001-x.md",
            "a/plans/0001-not-state-here.md",
            "b/0001-x.md"
        ]
    );
    assert_eq!(told(&place, &backlog.problems), [""; 0]);
}

#[test]
fn no_spec_at_all_is_a_problem() {
    let place = place(&[("README.md", "# Specs"), ("plans/0001-a.md", "x")]);
    let problems = discover(&place.root).problems;
    assert_eq!(problems[0].to_string(), format!("no specs in `{}`", place.root));
    let problems = discover(&place.root.join("missing")).problems;
    assert!(told(&place, &problems)[0].starts_with("cannot read `missing`: "), "{}", problems[0]);
    assert_eq!(problems.len(), 1);
}

#[test]
fn links_are_followed_to_files_inside_and_nowhere_else() {
    let place =
        place(&[("specs/0001-a.md", "# a"), ("outside/0009-x.md", "# x"), ("outside.md", "# x")]);
    let specs = place.root.join("specs");
    let link = |target: &str, name: &str| symlink(target, specs.join(name)).unwrap();
    link("0001-a.md", "0002-inside.md");
    link("../outside.md", "0003-outside.md");
    link("../outside", "area");
    link(".", "loop");
    link("nowhere.md", "0004-dangling.md");
    link("../outside.md", "notes.md");
    link("../outside", "plans");
    let backlog = discover(&specs);
    assert_eq!(found(&backlog), ["0001-a.md", "0002-inside.md"]);
    let link = |name| {
        format!("`specs/{name}` is a link, and none is followed out of `specs/` or to a directory")
    };
    let problems = told(&place, &backlog.problems);
    assert_eq!(problems[0], link("0003-outside.md"));
    assert!(problems[1].starts_with("cannot read `specs/0004-dangling.md`: No such file"));
    assert_eq!(problems[2..], [link("area"), link("loop")]);
    // `specs/` itself may be a symlink.
    symlink(&specs, place.root.join("linked")).unwrap();
    assert_eq!(found(&discover(&place.root.join("linked"))), ["0001-a.md", "0002-inside.md"]);
}

#[test]
fn names_that_cannot_be_used_are_problems() {
    let place =
        place(&[("0001-a.md", "# a"), ("0001-a.attempt-1.md", "# a"), ("0005-a\\b.md", "# a")]);
    let at = |name: &[u8]| place.root.as_std_path().join(OsStr::from_bytes(name));
    fs::write(at(b"0002-\xff.md"), "# x").unwrap();
    fs::create_dir(at(b"area\xff")).unwrap();
    fs::write(at(b"image\xff.png"), "x").unwrap();
    fs::create_dir(at(b"0003-directory.md")).unwrap();
    assert!(Command::new("mkfifo").arg(at(b"0004-fifo.md")).status().unwrap().success());
    let backlog = discover(&place.root);
    assert_eq!(found(&backlog), ["0001-a.md"]);
    let problems = told(&place, &backlog.problems);
    let expected = [
        "0001-a.attempt-1.md` is not the path of a spec: a name that ends with `.attempt-`",
        "`0002-\u{fffd}.md` has a name that is not UTF-8",
        "`0004-fifo.md` has the name of a spec and is not a file",
        "is not the path of a spec: it has a backslash or a control character",
        "`area\u{fffd}` has a name that is not UTF-8",
    ];
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (problem, expected) in problems.iter().zip(expected) {
        assert!(problem.contains(expected), "{problem}");
    }
}

#[test]
fn a_directory_that_cannot_be_read_is_told_and_the_rest_is_found() {
    let place = place(&[("0001-a.md", "# a"), ("area/0002-b.md", "# b"), ("b/0003-c.md", "# c")]);
    let area = place.root.join("area");
    fs::set_permissions(&area, fs::Permissions::from_mode(0o000)).unwrap();
    // Root can read it anyway.
    let is_stopped = fs::read_dir(&area).is_err();
    let backlog = discover(&place.root);
    fs::set_permissions(&area, fs::Permissions::from_mode(0o755)).unwrap();
    if is_stopped {
        assert_eq!(found(&backlog), ["0001-a.md", "b/0003-c.md"]);
        assert!(told(&place, &backlog.problems)[0].starts_with("cannot read `area`: "));
    } else {
        assert_eq!(found(&backlog), ["0001-a.md", "area/0002-b.md", "b/0003-c.md"]);
    }
}

#[test]
fn all_specs_are_checked_at_once_with_file_and_line() {
    let place = place(&[
        ("0001-good.md", "# Good\n"),
        ("0002-blank.md", " \n"),
        ("area/0003-plain.md", "\n\njust words\n"),
        ("0004-empty-heading.md", "text\n##\n"),
    ]);
    fs::write(place.root.join("0005-latin.md"), b"# L\nx\n\xe4\n").unwrap();
    let mut specs = discover(&place.root).specs;
    specs.push("0006-gone.md".parse().unwrap());
    let problems = told(&place, &validate(&place.root, &specs));
    assert_eq!(problems.len(), 5, "{problems:#?}");
    assert_eq!(problems[0], "`0002-blank.md:1`: the file is empty");
    assert_eq!(problems[1], "`0004-empty-heading.md:2`: the heading has no text");
    assert_eq!(problems[2], "`0005-latin.md:3` is not UTF-8");
    assert!(problems[3].starts_with("`area/0003-plain.md:3`: no heading found"));
    assert!(problems[4].starts_with("cannot read `0006-gone.md`: No such file"));
    let loaded = load(&place.root, &specs[0]).unwrap();
    assert_eq!((loaded.title.as_str(), loaded.text.as_str()), ("Good", "# Good\n"));
}

fn make(place: &Place, title: &str, area: Option<&str>) -> String {
    match create(&place.root, NewSpec { title, area }) {
        Ok(spec) => spec.to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_new_spec_gets_the_next_number_and_waits_to_be_filled_in() {
    let place = Place::new();
    assert_eq!(make(&place, "Add a login", None), "0001-add-a-login.md");
    assert_eq!(make(&place, "Add a login", None), "0002-add-a-login.md");
    assert_eq!(make(&place, "Invoices", Some("billing/eu")), "billing/eu/0003-invoices.md");
    assert_eq!(make(&place, "Logout", Some("/billing\\")), "billing/0004-logout.md");
    assert!(place.read("0001-add-a-login.md").starts_with("# Add a login\n\n## Goal\n"));
    let backlog = discover(&place.root);
    assert_eq!(backlog.specs.len(), 4);
    let problems = told(&place, &validate(&place.root, &backlog.specs));
    assert_eq!(problems.len(), 4);
    assert!(problems.iter().all(|problem| problem.contains("template")), "{problems:?}");
}

#[test]
fn numbers_of_specs_that_are_gone_are_not_used_again() {
    let place = place(&[
        ("0001-a.md", "# a"),
        ("done/area/0007-x.md", "DONE"),
        ("plans/0003-y.json", "{}"),
    ]);
    assert_eq!(make(&place, "X", Some("area")), "area/0008-x.md");
    place.write("20260131-dated.md", "# x");
    assert_eq!(make(&place, "X", None), "20260132-x.md");
    place.write(&format!("{}-endless.md", "9".repeat(40)), "# x");
    assert_eq!(make(&place, "X", None), "20260133-x.md");
    place.write(&format!("{}-last.md", u64::MAX), "# x");
    assert_eq!(make(&place, "X", None), format!("no number left after {}", u64::MAX));
}

#[test]
fn nothing_is_made_where_no_spec_would_be_found() {
    let place = place(&[("file", "x")]);
    symlink("/tmp", place.root.join("link")).unwrap();
    for (title, area, expected) in [
        ("…", None, "the title `…` has no letters or digits for a file name"),
        ("x", Some("link"), "`link` leads through a link or a file"),
        ("x", Some("file/below"), "`file/below` leads through a link or a file"),
        (
            "x",
            Some("plans"),
            "`plans/0001-x.md` is not the path of a spec: `plans/` holds Ralph's own files",
        ),
        (
            "x",
            Some("../up"),
            "`../up/0001-x.md` is not the path of a spec: it has an empty part, `.` or `..`",
        ),
    ] {
        assert_eq!(make(&place, title, area), expected);
    }
    assert_eq!(place.root.read_dir_utf8().unwrap().count(), 2);
}
