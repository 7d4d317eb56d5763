use std::os::unix::fs::symlink;

use camino::Utf8PathBuf;

use super::super::testing::{World, write};
use super::*;

/// Names as callers give them.
const NAMES: [&[&str]; 7] = [
    &[],
    &["refs/heads/"],
    &["refs/heads/main", "refs/heads/main-2", "refs/heads/none"],
    &["refs/heads/a"],
    &["refs/tags", "refs/remotes/origin/HEAD"],
    &["refs/ralph/item/x/"],
    &["refs/stash", "refs/bisect"],
];

/// Asserts that git and the files give the same answers, and whether the files do for all refs.
fn assert_same(git: &Git, is_plain: bool) {
    for names in NAMES {
        let by_git = git.refs_by_git(names).unwrap();
        assert_eq!(git.refs_at(names).unwrap(), by_git, "{names:?}");
        if let Ok(in_files) = refs_in_files(git.place(), names) {
            assert_eq!(in_files, by_git, "{names:?}");
        }
    }
    assert_eq!(refs_in_files(git.place(), &[]).is_ok(), is_plain);
    assert_eq!(git.head().unwrap(), git.head_by_git().unwrap());
    for (name, other) in [("HEAD", "HEAD"), ("refs/heads/main", "main"), ("refs/tags/v1", "v1")] {
        assert_eq!(git.resolve(name).unwrap(), git.resolve(other).unwrap(), "{name}");
    }
}

/// A repository with refs of every kind.
fn repository(world: &World) -> Utf8PathBuf {
    let dir = world.repository("r");
    for branch in ["a/b", "a/c/d", "a-b", "main-2", "ü"] {
        world.git(&dir, &["branch", branch]);
    }
    world.git(&dir, &["tag", "light"]);
    world.git(&dir, &["tag", "-a", "-m", "one", "v1"]);
    world.git(&dir, &["update-ref", "refs/ralph/item/x/1", "HEAD"]);
    world.git(&dir, &["update-ref", "refs/remotes/origin/main", "HEAD"]);
    world.git(&dir, &["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
    dir
}

#[test]
fn refs_are_the_same_as_gits_loose_packed_and_both() {
    let world = World::new();
    let dir = repository(&world);
    let git = world.open(&dir);
    assert_same(&git, true);
    world.git(&dir, &["pack-refs", "--all"]);
    assert_same(&git, true);
    world.commit(&dir, &[("b", "b")]);
    world.git(&dir, &["branch", "-D", "-q", "a/b"]);
    world.git(&dir, &["tag", "v2"]);
    assert_same(&git, true);
    write(&dir.join(".git/refs/heads/a/x.lock"), "not an id");
    write(&dir.join(".git/refs/heads/.hidden"), "not an id");
    assert_same(&git, true);
    for head in [&["switch", "-q", "--detach"], &["switch", "-q", "--orphan"][..]] {
        let name: &[&str] = if head.contains(&"--orphan") { &["new"] } else { &[] };
        world.git(&dir, &[head, name].concat());
        assert_same(&git, true);
    }
}

#[test]
fn what_is_unusual_is_left_to_git() {
    let world = World::new();
    let dir = repository(&world);
    let git = world.open(&dir);
    let heads = dir.join(".git/refs/heads");
    let id = world.head(&dir);
    for kind in ["dangling", "link", "directory", "bytes"] {
        let path = heads.join(kind);
        match kind {
            "dangling" => write(&path, "ref: refs/heads/none\n"),
            "link" => symlink(heads.join("main"), &path).unwrap(),
            "directory" => symlink(heads.join("a"), &path).unwrap(),
            _ => write(&path, "zzz\n"),
        }
        assert_same(&git, false);
        fs::remove_file(path).unwrap();
    }
    // Two symbolic refs that name each other.
    for (one, other) in [("one", "two"), ("two", "one")] {
        write(&heads.join(one), &format!("ref: refs/heads/{other}\n"));
    }
    assert!(refs_in_files(git.place(), &[]).is_err());
    for name in ["one", "two"] {
        fs::remove_file(heads.join(name)).unwrap();
    }
    let path = heads.as_std_path().join(super::super::call::path_from(b"caf\xe9"));
    fs::write(path, format!("{id}\n")).unwrap();
    assert_same(&git, false);
}

#[test]
fn other_formats_and_linked_worktrees_have_the_same_refs() {
    let world = World::new();
    let dir = repository(&world);
    assert_eq!(
        world.open(&dir).sole_worktree().map(|tree| vec![tree]),
        world.open(&dir).worktrees().ok()
    );
    let linked = world.path("linked");
    world.git(&dir, &["worktree", "add", "-q", "-b", "side", linked.as_str()]);
    assert_eq!(world.open(&dir).sole_worktree(), None);
    assert_same(&world.open(&dir), true);
    world.git(&linked, &["bisect", "start", "HEAD"]);
    assert_same(&world.open(&linked), false);
    let mut formats: Vec<&[&str]> = vec![&["--object-format=sha256"]];
    // Older gits have no reftables.
    let table: &[&str] = &["--ref-format=reftable"];
    if world.try_git(&world.root, &[&["init", "-q"], table, &["trial"]].concat()).is_ok() {
        formats.push(table);
    }
    for (number, format) in formats.into_iter().enumerate() {
        let dir = world.path(&format!("format-{number}"));
        world.git(&world.root, &[&["init", "-q"], format, &[dir.as_str()]].concat());
        world.commit(&dir, &[("a", "a")]);
        world.git(&dir, &["tag", "v1"]);
        world.git(&dir, &["branch", "a/b"]);
        let git = world.open(&dir);
        assert_same(&git, format != table);
        let expected = if format == table { ObjectFormat::Sha1 } else { ObjectFormat::Sha256 };
        assert_eq!(git.object_format().unwrap(), expected);
    }
}

#[test]
fn the_only_worktree_is_as_git_lists_it() {
    let world = World::new();
    let dir = world.repository("r");
    let git = world.open(&dir);
    let args = ["worktree", "list", "--porcelain", "-z"];
    for change in
        [&["status"][..], &["switch", "-q", "--detach"], &["switch", "-q", "--orphan", "new"]]
    {
        world.git(&dir, change);
        let listed = super::super::parse::parse_worktrees(&git.ask(&args).unwrap());
        assert_eq!(git.sole_worktree().map(|tree| vec![tree]), listed, "{change:?}");
    }
}
