//! One item's path through slots, as the harness does it, using only the public interface.

#![expect(clippy::unwrap_used, reason = "what fails in the set-up of a test fails the test")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_git::commits::Signing;
use ralph_git::item_refs::{ItemKey, ItemRecord, ItemRefError, ItemWrite};
use ralph_git::landing::{
    BranchTip, Carried, FileEdit, FollowOutcome, LandOutcome, Landing, LandingCommit, LandingError,
    MergeSides, TipState, TreeMerge, WaitReason,
};
use ralph_git::mirror::Mirror;
use ralph_git::slot::{
    KeptLeftovers, LeftoverRequest, Slot, SlotError, SlotRequest, Unfilled, branch_for,
};
use ralph_git::{BranchUse, FileError, Git, GitOperation, GitProgram, Oid, Worktree};

/// A temporary directory with a person's repository in it.
struct World {
    _dir: Option<tempfile::TempDir>,
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
        let world = World { _dir: Some(dir), root, person };
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

    /// Opens the world created by another process.
    fn at(root: &str) -> Self {
        let root = Utf8PathBuf::from(root);
        World { _dir: None, person: root.join("work"), root }
    }

    fn mirror(&self) -> Mirror {
        Mirror::open(&self.program(), &self.root.join("mirror"), &self.open()).unwrap()
    }

    fn program(&self) -> GitProgram {
        GitProgram::new("git", std::env::vars_os().chain(self.environment()))
    }

    fn open(&self) -> Git {
        Git::discover(self.program(), &self.person).unwrap()
    }

    /// Runs git like a person or an agent.
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
    let mirror = world.mirror();
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
    assert_eq!(slot.transfer_lfs(&mirror, &person, &work).unwrap(), Vec::<PathBuf>::new());
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
    let mirror = world.mirror();
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

const MAIN: &str = "refs/heads/main";
const DONE: &str = "ralph/done.md";

/// Lands a candidate with its own marker, retrying lost races, and lets the branch follow; does nothing if it has
/// already landed.
fn land(world: &World, candidate: &Oid) -> Result<FollowOutcome, LandingError> {
    let (person, mirror) = (world.open(), world.mirror());
    let landing = Landing { person: &person, mirror: &mirror };
    let mut keep_home = |_: &MergeSides<'_>| Vec::new();
    loop {
        let BranchTip::At(tip) = landing.tip(MAIN, &mut keep_home)? else { panic!("no tip") };
        let tip: TipState = tip;
        if person.file_at(&tip.commit, Path::new(DONE))?.is_some() {
            return landing.follow(MAIN);
        }
        mirror.fill(&person, &[])?;
        let tree = match landing.merge(&tip.commit, candidate, None)? {
            TreeMerge::Clean { tree } => tree,
            TreeMerge::Conflict { paths, .. } => panic!("{paths:?}"),
        };
        let content = Some(format!("{candidate}\n").into_bytes());
        let commit = landing.commit(&LandingCommit {
            tree: &tree,
            tip: &tip.commit,
            as_in_tip: &[PathBuf::from("ralph")],
            edits: &[FileEdit { path: DONE.into(), content }],
            parents: &[&tip.commit, candidate],
            message: "Land the item\n",
            signing: Signing::Unsigned,
        })?;
        if landing.land(MAIN, &tip, &commit)? == LandOutcome::Landed {
            return landing.follow(MAIN);
        }
    }
}

/// Creates a candidate on the first commit, while the person's branch has advanced.
fn candidate(world: &World) -> Oid {
    let base = world.git(&world.person, &["rev-parse", "HEAD"]);
    world.git(&world.person, &["switch", "-q", "-c", "work"]);
    std::fs::write(world.person.join("a.txt"), "changed by the item\n").unwrap();
    let candidate = world.commit(&world.person, "new.txt", "made by the item\n");
    world.mirror().fill(&world.open(), &[]).unwrap();
    world.git(&world.person, &["switch", "-q", "main"]);
    world.git(&world.person, &["branch", "-q", "-D", "work"]);
    world.commit(&world.person, "persons.txt", "p\n");
    std::fs::write(world.person.join("dirty.txt"), "not committed\n").unwrap();
    assert_ne!(base, world.git(&world.person, &["rev-parse", "HEAD"]));
    candidate
}

#[test]
fn a_candidate_lands_as_a_merge_and_the_branch_follows() {
    let world = World::new();
    let candidate = candidate(&world);
    let Ok(FollowOutcome::Followed { commit }) = land(&world, &candidate) else { panic!() };
    assert_eq!(world.git(&world.person, &["rev-parse", MAIN]), commit.as_str());
    assert_eq!(world.git(&world.person, &["status", "--porcelain"]), "?? dirty.txt");
    let (person, mirror) = (world.open(), world.mirror());
    let landing = Landing { person: &person, mirror: &mirror };
    assert_eq!(landing.follow(MAIN).unwrap(), FollowOutcome::Current);
    assert_ne!(landing.tree_of(&commit).unwrap(), landing.tree_of(&candidate).unwrap());
    landing.keep_left(&ItemKey::new("x"), &candidate).unwrap();
    let carried = landing.carry_over(&commit, &commit, &commit, &[]).unwrap();
    assert_eq!(carried, Carried::Nothing);

    // The obstacles of the next one are reported.
    let BranchTip::At(tip) = landing.tip(MAIN, &mut |_| Vec::new()).unwrap() else { panic!() };
    let edits = [FileEdit { path: "dirty.txt".into(), content: Some(b"landed\n".to_vec()) }];
    let next = landing.commit(&LandingCommit {
        tree: &landing.tree_of(&commit).unwrap(),
        tip: &tip.commit,
        as_in_tip: &[],
        edits: &edits,
        parents: &[&tip.commit],
        message: "Next\n",
        signing: Signing::Unsigned,
    });
    landing.land(MAIN, &tip, &next.unwrap()).unwrap();
    let FollowOutcome::Waits { files, reason, .. } = landing.follow(MAIN).unwrap() else {
        panic!()
    };
    assert_eq!((files, reason), (vec!["dirty.txt".into()], WaitReason::Uncommitted));
    let uses: Vec<BranchUse> = person.uses_of(MAIN).unwrap();
    let worktree: &Worktree = &uses[0].worktree;
    assert_eq!(vec![worktree.clone()], person.worktrees().unwrap());
    std::fs::write(world.person.join(".git/MERGE_HEAD"), format!("{commit}\n")).unwrap();
    assert_eq!(person.operation(), Some(GitOperation::Merge));
}

/// The environment variable that names the world of a landing in another process.
const CHILD: &str = "RALPH_TEST_LANDING";

#[test]
#[ignore = "run by the sweep below, which kills it"]
fn a_landing_in_another_process() {
    let Ok(given) = std::env::var(CHILD) else { return };
    let (root, candidate) = given.split_once('|').unwrap();
    let candidate = Oid::parse(candidate.as_bytes()).unwrap();
    let done = land(&World::at(root), &candidate).unwrap();
    assert!(matches!(done, FollowOutcome::Followed { .. } | FollowOutcome::Current), "{done:?}");
}

#[test]
fn a_landing_is_completed_whenever_its_process_was_killed() {
    let run = |world: &World, candidate: &Oid, fatal: Option<u32>| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_landing_in_another_process", "--ignored"]);
        command.env(CHILD, format!("{}|{candidate}", world.root));
        command.env_remove("RALPH_RUN_ID").env_remove("RALPH_CRASH_AT");
        command.envs(fatal.map(|number| ("RALPH_CRASH_AT", number.to_string())));
        command.output().unwrap()
    };
    let mut killed = 0;
    for fatal in 1.. {
        let world = World::new();
        let candidate = candidate(&world);
        let first = run(&world, &candidate, Some(fatal));
        if first.status.success() {
            break;
        }
        assert_eq!(first.status.code(), None, "{}", String::from_utf8_lossy(&first.stdout));
        killed += 1;
        // A git that the dead process started may still hold a lock for a moment.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            let again = run(&world, &candidate, None);
            if again.status.success() {
                break;
            }
            let told = String::from_utf8_lossy(&again.stdout).into_owned();
            assert!(std::time::Instant::now() < deadline, "killed at {fatal}: {told}");
        }
        let git = |args: &[&str]| world.git(&world.person, args);
        assert_eq!(git(&["status", "--porcelain"]), "?? dirty.txt", "killed at {fatal}");
        assert_eq!(git(&["log", "--format=%s", "--grep=Land the item", MAIN]), "Land the item");
        assert_eq!(git(&["for-each-ref", "refs/ralph"]), "", "killed at {fatal}");
        assert_eq!(git(&["show", &format!("HEAD:{DONE}")]), candidate.as_str());
        let lost = git(&["fsck", "--strict", "--connectivity-only"]);
        assert!(!lost.contains("missing"), "killed at {fatal}: {lost}");
        assert!(!world.person.join(".git/ralph-fast-forward").exists(), "killed at {fatal}");
    }
    assert!(killed > 10, "{killed}");
}
