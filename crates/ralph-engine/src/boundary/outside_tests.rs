use std::os::unix::fs::symlink;

use super::*;
use crate::test_place::Place;

fn mode(path: &Utf8Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set(path: &Utf8Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A home with keys, a repository and private state in it.
fn place() -> Place {
    let place = Place::new();
    for (path, text) in [
        ("home/.ssh/id", "key"),
        ("home/.bashrc", "x"),
        ("home/project/src/main.rs", "fn main() {}"),
        ("home/project/target/out", "built"),
        ("home/project/.gitignore", "target/\n"),
        ("home/.local/state/ralph/w-1/journal.jsonl", "{}"),
        ("home/.local/state/ralph/w-1/slots/1/tree/file", "agent's"),
    ] {
        place.write(path, text);
    }
    let project = place.root.join("home/project");
    for args in [
        &["init", "-q"][..],
        &["config", "user.name", "A"],
        &["config", "user.email", "a@b.c"],
        &["add", "."],
        &["commit", "-qm", "first"],
    ] {
        place.git(&[&["-C", project.as_str()], args].concat());
    }
    place
}

/// Lets something happen between two looks, also as a Ralph sees it that comes after a crash.
fn during(place: &Place, happens: impl Fn()) -> BoundaryReport {
    let home = place.root.join("home");
    let project = home.join("project");
    let repositories = super::super::repositories(&project);
    let granted = [home.join(".local/state/ralph/w-1/slots/1").to_string()];
    let base = home.join(".local/state/ralph");
    let places = OutsidePlaces {
        repositories: &repositories,
        workspace: Some(&project),
        user_home: Some(&home),
        state_base: &base,
        state: &base.join("w-1"),
        granted: &granted,
    };
    let git = || GitProgram::new("git", std::env::vars_os());
    let file = place.root.join("noted");
    let mut outside = Outside::default();
    outside.take(&places, &git, &file).unwrap();
    outside.take(&places, &git, &file).unwrap();
    happens();
    let mut report = BoundaryReport::default();
    outside.settle(None, &|| (), &mut report);
    happens();
    let mut later = BoundaryReport::default();
    Outside::load(&file).unwrap().settle(None, &|| (), &mut later);
    assert_eq!(later.violations, report.violations);
    report
}

#[test]
fn permissions_of_keys_tree_git_and_private_state_are_put_back_and_named() {
    let place = place();
    let home = place.root.join("home");
    for path in [
        ".ssh",
        ".ssh/id",
        ".bashrc",
        "",
        "project",
        "project/src/main.rs",
        "project/src",
        "project/.git",
        "project/.git/config",
        "project/.git/hooks",
        ".local/state",
        ".local/state/ralph",
        ".local/state/ralph/w-1/journal.jsonl",
    ] {
        let path = home.join(path);
        let before = mode(&path);
        let report = during(&place, || set(&path, if path.is_dir() { 0o777 } else { 0o4755 }));
        assert_eq!(mode(&path), before, "{path}");
        let named: Vec<&str> = report.put_back.iter().map(|found| found.path.as_str()).collect();
        assert_eq!(named, [path.as_str().trim_end_matches('/')]);
        assert_eq!((report.violations.len(), report.left.len()), (1, 0), "{path}");
    }
}

#[test]
fn a_closed_directory_hides_nothing_that_lies_in_it() {
    let place = place();
    let home = place.root.join("home");
    let report = during(&place, || {
        set(&home.join(".ssh/id"), 0o666);
        set(&home.join(".ssh"), 0);
        set(&home.join("project/src/main.rs"), 0o777);
        set(&home.join("project"), 0);
    });
    assert_eq!(report.put_back.len(), 4, "{report:?}");
    assert!(report.left.is_empty(), "{report:?}");
    assert_eq!(mode(&home.join(".ssh/id")), 0o644);
}

#[test]
fn attributes_are_put_back_and_what_a_person_does_is_left_alone() {
    let place = place();
    let file = place.root.join("home/.bashrc");
    let name = "user.planted";
    if lsetxattr(file.as_std_path(), name, b"x", XattrFlags::empty()).is_err() {
        // A file system without attributes has none to plant.
        return;
    }
    lsetxattr(file.as_std_path(), name, b"before", XattrFlags::empty()).unwrap();
    let report = during(&place, || {
        lsetxattr(file.as_std_path(), name, b"after", XattrFlags::empty()).unwrap();
        lsetxattr(file.as_std_path(), "user.more", b"x", XattrFlags::empty()).unwrap();
    });
    assert_eq!(report.put_back.len(), 1, "{report:?}");
    assert_eq!(attributes(file.as_std_path()), [(name.as_bytes().to_vec(), b"before".to_vec())]);

    let home = place.root.join("home");
    let report = during(&place, || {
        fs::write(&file, "edited").unwrap();
        fs::remove_file(home.join("project/src/main.rs")).unwrap();
        fs::write(home.join("project/src/main.rs"), "another").unwrap();
        set(&home.join("project/src/main.rs"), 0o755);
        let _ = symlink("x", home.join("project/link"));
        set(&home.join("project/target/out"), 0o777);
        set(&home.join(".local/state/ralph/w-1/slots/1/tree/file"), 0o777);
    });
    assert_eq!(report, BoundaryReport::default());
}
