use std::os::unix::fs::symlink;

use camino::Utf8PathBuf;

use super::super::testing::{World, read, write};
use super::*;

/// A repository with three stashes, the newest one last.
fn stashed(world: &World) -> Utf8PathBuf {
    let dir = world.repository("r");
    for message in ["one", "two \\x41 \"three\"", "four\tfive"] {
        write(&dir.join("a.txt"), message);
        world.git(&dir, &["stash", "push", "-q", "-m", message]);
    }
    dir
}

fn list(world: &World, dir: &Utf8PathBuf) -> String {
    world.git(dir, &["log", "-g", "--format=%gd %H %gs", "refs/stash"])
}

fn id_now(world: &World, dir: &Utf8PathBuf) -> Option<Oid> {
    let id = world.try_git(dir, &["rev-parse", "--verify", "refs/stash"]).ok()?;
    Oid::parse(id.as_bytes())
}

#[test]
fn a_list_is_again_what_it_was_whatever_was_dropped() {
    for drops in [
        &["stash", "clear"][..],
        &["stash", "drop", "-q"],
        &["stash", "drop", "-q", "stash@{1}"],
        &["stash", "drop", "-q", "stash@{2}"],
        &["reflog", "expire", "--expire=now", "refs/stash"],
        &["pack-refs", "--all"],
    ] {
        let world = World::new();
        let dir = stashed(&world);
        let git = world.open(&dir);
        let (before, shown) = (Stash::of(git.place()), list(&world, &dir));
        assert_eq!(before.ids().len(), 3);
        world.git(&dir, drops);
        git.return_stash(&before, id_now(&world, &dir).as_ref()).unwrap();
        assert_eq!(list(&world, &dir), shown, "{drops:?}");
        assert_eq!(Stash::of(git.place()), before, "{drops:?}");
        world.git(&dir, &["stash", "pop", "-q", "stash@{2}"]);
        assert_eq!(read(&dir.join("a.txt")), "one", "{drops:?}");
        assert!(!git.place().common_dir.join("refs/stash.lock").exists());
    }
}

#[test]
fn entries_are_told_apart_by_commit_and_message() {
    let world = World::new();
    let dir = stashed(&world);
    let place = world.open(&dir).place().clone();
    let before = Stash::of(&place);
    world.git(&dir, &["stash", "drop", "-q", "stash@{1}"]);
    write(&dir.join("a.txt"), "more");
    world.git(&dir, &["stash", "push", "-q", "-m", "more"]);
    let now = Stash::of(&place);
    assert_eq!(before.without(&now).ids(), before.ids()[1..2]);
    assert_eq!(now.without(&before).ids(), now.ids()[2..]);
    let both = before.below(&now.without(&before));
    assert_eq!(both.ids(), [&before.ids()[..], &now.ids()[2..]].concat());
    // What is recorded is read again, bytes that are no text too.
    write(&dir.join("a.txt"), "bytes");
    world.git(&dir, &["stash", "push", "-q", "-m", "bytes"]);
    let log = place.common_dir.join("logs/refs/stash");
    let text = fs::read(&log).unwrap();
    fs::write(&log, [text.trim_ascii_end(), b" \xff\n"].concat()).unwrap();
    let odd = Stash::of(&place);
    let record = serde_json::to_string(&odd).unwrap();
    assert_eq!(serde_json::from_str::<Stash>(&record).unwrap(), odd);
}

#[test]
fn saved_entries_outlive_what_drops_and_prunes_them() {
    let world = World::new();
    let dir = stashed(&world);
    let git = world.open(&dir);
    let before = Stash::of(git.place());
    git.save_stash().unwrap();
    let saved = world.id(&dir, SAVED);
    git.save_stash().unwrap();
    assert_eq!(world.id(&dir, SAVED), saved, "the same list is saved once");
    world.git(&dir, &["stash", "clear"]);
    world.git(&dir, &["reflog", "expire", "--expire=now", "--all"]);
    world.git(&dir, &["gc", "-q", "--prune=now"]);
    assert_eq!(git.existing(&before).unwrap(), before);
    git.return_stash(&before, None).unwrap();
    world.git(&dir, &["fsck", "--strict"]);
    assert_eq!(Stash::of(git.place()), before);
}

#[test]
fn the_mirror_has_every_entry() {
    let world = World::new();
    let dir = stashed(&world);
    let git = world.open(&dir);
    let mirror = super::super::mirror::Mirror::open(&world.program(), &world.path("m"), &git);
    let mirror = mirror.unwrap();
    mirror.fill(&git, &[]).unwrap();
    let ids = Stash::of(git.place()).ids();
    assert_eq!(mirror.git().have(&ids).unwrap(), [true; 3]);
    // An entry whose commit is not there any more is no reason to refuse the others.
    let log = git.place().common_dir.join("logs/refs/stash");
    let gone = format!("{0} {0} A <a@b> 1 +0000\tgone\n", "1".repeat(40));
    fs::write(&log, gone + &read(&log)).unwrap();
    mirror.fill(&git, &[]).unwrap();
}

#[test]
fn no_log_is_written_through_a_link() {
    for link in ["logs", "logs/refs/stash"] {
        let world = World::new();
        let dir = stashed(&world);
        let git = world.open(&dir);
        let before = Stash::of(git.place());
        let now = id_now(&world, &dir);
        let (victim, path) = (world.path("victim"), git.place().common_dir.join(link));
        fs::create_dir_all(victim.join("refs")).unwrap();
        write(&victim.join("refs/stash"), "mine\n");
        let target = if link == "logs" { victim.clone() } else { victim.join("refs/stash") };
        fs::rename(&path, world.path("aside")).unwrap();
        symlink(target, &path).unwrap();
        let refused = git.return_stash(&before, now.as_ref());
        assert!(matches!(refused, Err(GitError::Diverted { .. })), "{refused:?}");
        assert_eq!(read(&victim.join("refs/stash")), "mine\n");
    }
}
