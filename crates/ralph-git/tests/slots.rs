//! One item's way through slots, as the harness goes it, by the public interface alone.

#![expect(clippy::unwrap_used, reason = "what fails in the set-up of a test fails the test")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_git::item_refs::{ItemKey, ItemRecord, ItemRefError, ItemWrite};
use ralph_git::mirror::Mirror;
use ralph_git::slot::{
    KeptLeftovers, LeftoverRequest, Slot, SlotError, SlotRequest, Unfilled, branch_for,
};
use ralph_git::{FileError, Git, GitProgram, Oid};

/// A temporary directory with a person's repository in it.
struct World {
    _dir: tempfile::TempDir,
    root: Utf8PathBuf,
    person: Utf8PathBuf,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap().canonicalize_utf8().unwrap();
        let config =
            "[user]\n\tname = Person\n\temail = p@example.org\n[init]\n\tdefaultBranch = main\n";
        std::fs::write(root.join("gitconfig"), config).unwrap();
        let person = root.join("work");
        let world = World { _dir: dir, root, person };
        world.git(&world.root, &["init", "-q", "work"]);
        world.commit(&world.person, "a.txt", "a\n");
        world
    }

    fn environment(&self) -> [(OsString, OsString); 3] {
        [
            ("GIT_CONFIG_GLOBAL", self.root.join("gitconfig").into_os_string()),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
            ("HOME", self.root.clone().into_os_string()),
        ]
        .map(|(name, value)| (name.into(), value))
    }

    fn program(&self) -> GitProgram {
        GitProgram::new("git", std::env::vars_os().chain(self.environment()))
    }

    fn open(&self) -> Git {
        Git::discover(self.program(), &self.person).unwrap()
    }

    /// Runs git as a person or an agent does.
    fn git(&self, dir: &Utf8Path, args: &[&str]) -> String {
        let output =
            Command::new("git").args(args).current_dir(dir).envs(self.environment()).output();
        let output = output.unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "git {args:?}: {told}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn commit(&self, dir: &Utf8Path, path: &str, content: &str) -> Oid {
        std::fs::write(dir.join(path), content).unwrap();
        self.git(dir, &["add", "-A"]);
        self.git(dir, &["commit", "-q", "-m", "work"]);
        Oid::parse(self.git(dir, &["rev-parse", "HEAD"]).as_bytes()).unwrap()
    }
}

#[test]
fn an_item_is_worked_on_in_a_slot_and_its_state_is_kept_beside() {
    let world = World::new();
    let person = world.open();
    let mirror = Mirror::open(&world.program(), &world.root.join("mirror"), &person).unwrap();
    let refs = mirror.fill(&person, &[]).unwrap();
    let base = refs.id_of("refs/heads/main").unwrap().clone();
    let key = ItemKey::new("area/0001-item");
    let branch = branch_for(&key, &refs);
    let (directory, private) = (world.root.join("slots/1/work"), world.root.join("private/1"));
    let request = SlotRequest {
        directory: &directory,
        private: &private,
        mirror: &mirror,
        person: &person,
        refs: &refs,
        base: &base,
        branch: &branch,
        run_branch: Some(("refs/heads/main", &base)),
        caches: &["target".into()],
        exclude: &[PathBuf::from(".env")],
    };
    let prepared: Result<(Slot, Unfilled), SlotError> = Slot::prepare(&request);
    let (slot, unfilled) = prepared.unwrap();
    assert_eq!(unfilled, Unfilled::default());
    slot.point("refs/remotes/ralph/tip", &base).unwrap();
    let plan = (PathBuf::from("ralph/plan.md"), b"# Plan\n".to_vec());
    let files = [plan.clone()];
    let write =
        ItemWrite { key: &key, number: 1, files: &files, message: "planned", previous: None };
    person.write_item(&write).unwrap();
    assert!(matches!(person.write_item(&write), Err(ItemRefError::Lost { .. })));

    let work = world.commit(&directory, "b.txt", "b\n");
    std::fs::write(directory.join("c.txt"), "left\n").unwrap();
    std::fs::write(directory.join(".env"), "copied").unwrap();

    let slot = Slot::open(&world.program(), &directory, &private).unwrap().unwrap();
    assert_eq!((slot.base(), slot.branch()), (&base, branch.as_str()));
    assert_eq!(slot.git().head().unwrap().id(), Some(&work));
    let tips = slot.transfer(&mirror).unwrap();
    assert_eq!(tips.id_of(&branch), Some(&work));
    let request = LeftoverRequest { mirror: &mirror, person: &person, message: "left" };
    let left: KeptLeftovers = slot.leftovers(&request).unwrap().unwrap();
    assert_eq!((&left.parent, &left.paths[..]), (&work, &[PathBuf::from("c.txt")][..]));
    assert!(left.nested.is_empty() && left.unfiltered.is_empty());
    slot.adopt(&left).unwrap();
    let kept = mirror.git().file_at(left.commit.as_ref().unwrap(), Path::new("c.txt")).unwrap();
    assert_eq!(kept.as_deref(), Some(&b"left\n"[..]));
    assert_eq!(key.left_ref(), "refs/ralph/left/area+0001-item");

    let all: Vec<ItemRecord> = person.read_items().unwrap();
    assert_eq!(all, [person.read_item(&key).unwrap().unwrap()]);
    assert_eq!((all[0].key.as_str(), &all[0].files[..]), ("area+0001-item", &files[..]));
    person.delete_item(&all[0]).unwrap();
    assert_eq!(person.read_items().unwrap(), []);
    assert_eq!(world.git(&world.person, &["status", "--porcelain"]), "");
}

#[test]
fn errors_say_what_to_do() {
    let world = World::new();
    let error = SlotError::Uncleared { directory: "/slots/1".into(), detail: "stuck".to_owned() };
    assert!(error.hint().is_some_and(|hint| hint.contains("/slots/1")));
    std::fs::write(world.root.join("file"), "").unwrap();
    let person = world.open();
    let mirror = Mirror::open(&world.program(), &world.root.join("mirror"), &person).unwrap();
    let refs = mirror.fill(&person, &[]).unwrap();
    let base = refs.id_of("refs/heads/main").unwrap().clone();
    let refused = Slot::prepare(&SlotRequest {
        directory: &world.root.join("file/slot"),
        private: &world.root.join("private"),
        mirror: &mirror,
        person: &person,
        refs: &refs,
        base: &base,
        branch: "refs/heads/ralph/x",
        run_branch: None,
        caches: &[],
        exclude: &[],
    });
    let Err(SlotError::Files(error)) = refused else { panic!("{refused:?}") };
    let error: FileError = error;
    assert!(error.to_string().starts_with("cannot make `"), "{error}");
}
