use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use camino::Utf8Path;

use super::super::testing::{World, read, write};
use super::*;

const NAME: &str = "refs/ralph/loop/1-before";

fn snapshot(git: &Git) -> Snapshot {
    git.take_snapshot(NAME, &["ralph".into()], "before").unwrap().unwrap()
}

fn names(world: &World, dir: &Utf8Path, commit: &Oid) -> Vec<String> {
    let listed = world
        .git(dir, &["-c", "core.quotePath=true", "ls-tree", "-r", "--name-only", commit.as_str()]);
    listed.lines().map(str::to_owned).collect()
}

/// Everything that a working tree can contain and git cannot, or must not, add, in addition to what it can.
#[test]
fn a_snapshot_keeps_what_can_be_kept_of_any_tree() {
    let world = World::new();
    let dir = world.repository("r");
    let root = dir.as_std_path();
    write(&dir.join("a.txt"), "changed\n");
    write(&dir.join("new \"quoted\" é.txt"), "new\n");
    fs::write(root.join(OsStr::from_bytes(b"caf\xe9.txt")), "latin\n").unwrap();
    fs::write(root.join("line\nbreak"), "x").unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    let _socket = UnixListener::bind(root.join("socket")).unwrap();
    world.git(&dir, &["init", "-q", "nested"]);
    write(&dir.join("nested/inside.txt"), "theirs");
    write(&dir.join("ralph/plan.jsonl"), "own");
    write(&dir.join("secret"), "no");
    fs::set_permissions(root.join("secret"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::remove_file(root.join("src/lib.rs")).unwrap();
    let index = fs::read(root.join(".git/index")).unwrap();
    let taken = snapshot(&world.open(&dir));
    assert_eq!(world.id(&dir, NAME), taken.commit);
    assert_eq!(fs::read(root.join(".git/index")).unwrap(), index, "the index is the person's");
    let kept = names(&world, &dir, &taken.commit);
    let mut expected = vec![
        "a.txt",
        "\"caf\\351.txt\"",
        "dangling",
        "\"line\\nbreak\"",
        "\"new \\\"quoted\\\" \\303\\251.txt\"",
    ];
    // Root can read, and so save, everything.
    let is_root = fs::File::open(root.join("secret")).is_ok();
    if is_root {
        expected.push("secret");
    } else {
        assert!(taken.left_out.contains(&"secret".into()), "{:?}", taken.left_out);
    }
    for name in &expected {
        assert!(kept.contains(&(*name).to_owned()), "{name} {kept:?}");
    }
    assert_eq!(kept.len(), expected.len(), "{kept:?}");
    assert!(taken.left_out.iter().any(|path| path.starts_with("nested")), "{:?}", taken.left_out);
}

#[test]
fn an_empty_repository_and_a_clean_tree_have_snapshots_too() {
    let world = World::new();
    let empty = world.path("empty");
    world.git(&world.root, &["init", "-q", empty.as_str()]);
    let nothing = snapshot(&world.open(&empty));
    assert_eq!(names(&world, &empty, &nothing.commit), Vec::<String>::new());
    write(&empty.join("first"), "1");
    let first = snapshot(&world.open(&empty));
    assert_eq!(names(&world, &empty, &first.commit), ["first"]);
    let dir = world.repository("r");
    let clean = snapshot(&world.open(&dir));
    assert_eq!(names(&world, &dir, &clean.commit), ["a.txt", "src/lib.rs"]);
}

/// A path that git refuses, for whatever reason, affects only itself; so does one that vanished after it was listed.
#[test]
fn one_path_that_is_refused_does_not_cost_the_others() {
    let world = World::new();
    let dir = world.repository("r");
    for name in ["b.txt", "c.txt", "d.txt"] {
        write(&dir.join(name), name);
    }
    let git = world.open(&dir);
    let drivers = Drivers::of(&git).unwrap();
    let base = git.head().unwrap().id().unwrap().clone();
    let steps = CommitSteps { git: &git, drivers: &drivers, base: &base };
    let index = ScratchIndex::absent(&git.place().git_dir);
    let paths: Vec<PathBuf> =
        ["b.txt", "../one", "gone.txt", "c.txt", "../two", "gone/too.txt", "d.txt"]
            .map(PathBuf::from)
            .to_vec();
    let mut left_out = Vec::new();
    take_in_what_can_be(&steps, &index, &paths, &mut left_out);
    assert_eq!(left_out, [PathBuf::from("../one"), PathBuf::from("../two")]);
    let listed = steps.call(&index, &["ls-files"], b"").unwrap();
    assert_eq!(String::from_utf8(listed).unwrap(), "b.txt\nc.txt\nd.txt\n");
}

#[test]
fn a_tree_goes_back_to_its_snapshot_and_nothing_else_is_touched() {
    let world = World::new();
    let dir = world.repository("r");
    let git = world.open(&dir);
    write(&dir.join("mine.txt"), "uncommitted\n");
    let then = snapshot(&git);
    write(&dir.join("a.txt"), "work\n");
    write(&dir.join("src/page.rs"), "work\n");
    fs::rename(dir.join("src/lib.rs"), dir.join("src/moved.rs")).unwrap();
    world.git(&dir, &["add", "a.txt"]);
    world.git(&dir, &["commit", "-q", "-m", "work"]);
    write(&dir.join("mine.txt"), "overwritten\n");
    write(&dir.join("ralph/state"), "own");
    let head = world.head(&dir);
    let now = git.take_snapshot("refs/ralph/loop/now", &["ralph".into()], "now").unwrap().unwrap();
    let mut touched = git.return_to_snapshot(&then.commit, &now, &["ralph".into()]).unwrap();
    touched.sort();
    let expected = ["a.txt", "mine.txt", "src/lib.rs", "src/moved.rs", "src/page.rs"];
    assert_eq!(touched, expected.map(PathBuf::from));
    assert_eq!(read(&dir.join("a.txt")), "a\n");
    assert_eq!(read(&dir.join("mine.txt")), "uncommitted\n");
    assert_eq!(read(&dir.join("src/lib.rs")), "fn main() {}\n");
    assert!(!dir.join("src/moved.rs").exists() && !dir.join("src/page.rs").exists());
    assert_eq!(read(&dir.join("ralph/state")), "own");
    assert_eq!(world.head(&dir), head, "commits stay");
}
