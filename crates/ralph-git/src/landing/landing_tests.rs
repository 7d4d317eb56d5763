use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use camino::{Utf8Path, Utf8PathBuf};

use super::super::testing::{World, read, write};
use super::plain_forward::PlainForward;
use super::*;

const MAIN: &str = "refs/heads/main";

struct Bench {
    world: World,
    dir: Utf8PathBuf,
    git: Git,
    mirror: Mirror,
    /// The repository in which the landing work is made.
    work: Utf8PathBuf,
}

impl Bench {
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(options: &[&str]) -> Self {
        let world = World::new();
        let dir = world.path("r");
        world.git(&world.root, &[&["init", "-q"], options, &[dir.as_str()]].concat());
        world
            .commit(&dir, &[("a.txt", "1\n2\n3\n"), ("ralph/plan.jsonl", "{}\n"), ("keep", "k\n")]);
        let git = world.open(&dir);
        let mirror = Mirror::open(&world.program(), &world.path("mirror"), &git).unwrap();
        let work = world.path("work");
        world.git(&world.root, &["clone", "-q", dir.as_str(), work.as_str()]);
        Bench { world, dir, git, mirror, work }
    }

    fn landing(&self) -> Landing<'_> {
        Landing { person: &self.git, mirror: &self.mirror }
    }

    fn main(&self) -> Oid {
        self.world.id(&self.dir, MAIN)
    }

    /// Creates work on top of a commit, and adds it to the mirror.
    fn candidate(&self, base: &Oid, files: &[(&str, &str)]) -> Oid {
        self.world.git(&self.work, &["fetch", "-q", "origin", "+refs/*:refs/all/*"]);
        self.world.git(&self.work, &["checkout", "-q", "--detach", base.as_str()]);
        let commit = self.world.commit(&self.work, files);
        self.mirror.fill(&self.git, &[]).unwrap();
        self.mirror.fill(&self.world.open(&self.work), std::slice::from_ref(&commit)).unwrap();
        commit
    }

    fn asked(&self) -> BranchTip {
        self.landing().tip(MAIN, &mut |_| Vec::new()).unwrap()
    }

    fn tip(&self) -> TipState {
        match self.asked() {
            BranchTip::At(tip) => tip,
            other => panic!("{other:?}"),
        }
    }

    /// Lands files on the tip, and returns the commit.
    fn land(&self, files: &[(&str, &str)]) -> Oid {
        let tip = self.tip();
        let commit = self.candidate(&tip.commit, files);
        assert_eq!(self.landing().land(MAIN, &tip, &commit).unwrap(), LandOutcome::Landed);
        commit
    }

    fn follow(&self) -> FollowOutcome {
        self.landing().follow(MAIN).unwrap()
    }

    fn refs(&self) -> String {
        self.world.git(&self.dir, &["for-each-ref", "--format=%(refname)", "refs/ralph"])
    }

    fn status(&self) -> String {
        self.world.git(&self.dir, &["status", "--porcelain"])
    }

    /// Asserts that the branch has followed to a commit, with nothing left over.
    fn is_at(&self, commit: &Oid) {
        assert_eq!(self.main(), *commit);
        assert_eq!(self.refs(), "");
        assert!(!self.dir.join(".git/ralph-fast-forward").exists());
        assert!(!self.dir.join(".git/index.lock").exists());
        self.world.git(&self.dir, &["fsck", "--strict"]);
    }
}

#[test]
fn work_lands_and_a_clean_worktree_follows() {
    for options in
        [&["--object-format=sha1"][..], &["--object-format=sha256"], &["--ref-format=reftable"]]
    {
        let bench = Bench::with(options);
        assert_eq!(bench.follow(), FollowOutcome::Current);
        std::fs::remove_file(bench.work.join("keep")).unwrap();
        let odd = OsStr::from_bytes(b"odd\n\xff");
        std::fs::write(bench.work.as_std_path().join(odd), "o").unwrap();
        let base = bench.main();
        let commit = bench.land(&[("a.txt", "new\n"), ("d/e/f", "deep\n")]);
        // The branch has not moved; the next item builds on the landed work.
        assert_eq!((bench.main(), bench.tip().commit), (base, commit.clone()));
        assert_eq!(bench.follow(), FollowOutcome::Followed { commit: commit.clone() });
        bench.is_at(&commit);
        assert_eq!(bench.status(), "");
        assert_eq!(read(&bench.dir.join("d/e/f")), "deep\n");
        assert!(!bench.dir.join("keep").exists() && bench.dir.as_std_path().join(odd).exists());
        assert_eq!(bench.follow(), FollowOutcome::Current);
        let log = bench.world.git(&bench.dir, &["reflog", "-1", "--format=%an %gs", "HEAD"]);
        assert_eq!(log, "Person ralph: follow landed work");
    }
}

#[test]
fn whoever_reads_first_and_lands_second_loses() {
    let bench = Bench::new();
    let tip = bench.tip();
    let one = bench.candidate(&tip.commit, &[("one", "1")]);
    let other = bench.candidate(&tip.commit, &[("other", "1")]);
    let landing = bench.landing();
    assert_eq!(landing.land(MAIN, &tip, &one).unwrap(), LandOutcome::Landed);
    assert_eq!(landing.land(MAIN, &tip, &other).unwrap(), LandOutcome::Lost);
    assert_eq!(bench.tip().commit, one);
    // The same with a commit of the person in between.
    let tip = bench.tip();
    bench.world.commit(&bench.dir, &[("persons", "1")]);
    assert_eq!(landing.land(MAIN, &tip, &other).unwrap(), LandOutcome::Lost);
    // A ref that cannot be moved for another reason is an error, not a lost race.
    let BranchTip::Newer(NewerCommits { read: tip, .. }) = bench.asked() else { panic!() };
    bench.world.git(&bench.dir, &["update-ref", "-d", "refs/ralph/followed/main"]);
    bench.world.git(&bench.dir, &["update-ref", "refs/ralph/followed/main/below", "HEAD"]);
    landing.land(MAIN, &tip, &other).unwrap_err();
}

#[test]
fn newer_commits_of_the_person_are_merged_with_landed_work() {
    let bench = Bench::new();
    let landed = bench.land(&[("theirs", "1")]);
    let persons = bench.world.commit(&bench.dir, &[("mine", "1")]);
    assert_eq!(
        bench.follow(),
        FollowOutcome::NewerCommits { landed: landed.clone(), branch: persons.clone() }
    );
    let BranchTip::Newer(NewerCommits { read, merge }) = bench.asked() else { panic!() };
    assert_eq!(read.commit, landed);
    assert_eq!(bench.main(), persons);
    let now = bench.git.resolve("refs/ralph/landed/main").unwrap();
    assert_eq!(now, Some(landed.clone()), "nobody has checked the merge yet");
    assert_eq!(bench.landing().land(MAIN, &read, &merge).unwrap(), LandOutcome::Landed);
    let tip = bench.tip();
    assert_eq!(tip.commit, merge);
    let parents = bench.world.git(&bench.dir, &["log", "-1", "--format=%P", tip.commit.as_str()]);
    assert_eq!(parents, format!("{landed} {persons}"));
    assert_eq!(bench.follow(), FollowOutcome::Followed { commit: tip.commit.clone() });
    bench.is_at(&tip.commit);
    assert!(bench.dir.join("mine").exists() && bench.dir.join("theirs").exists());
    assert_eq!(bench.status(), "");
}

#[test]
fn a_conflict_with_newer_commits_is_a_question_unless_home_is_merged_otherwise() {
    let bench = Bench::new();
    let landed = bench.land(&[("ralph/plan.jsonl", "{\"a\":1}\n")]);
    let persons = bench.world.commit(&bench.dir, &[("ralph/plan.jsonl", "{\"b\":1}\n")]);
    let paths = vec![PathBuf::from("ralph/plan.jsonl")];
    let asked = bench.landing().tip(MAIN, &mut |sides| {
        assert_eq!((sides.ours, sides.theirs, sides.conflicts), (&landed, &persons, &paths[..]));
        Vec::new()
    });
    let expected = BranchTip::Conflict {
        landed: landed.clone(),
        branch: persons.clone(),
        paths: paths.clone(),
    };
    assert_eq!(asked.unwrap(), expected);
    let both = b"{\"a\":1}\n{\"b\":1}\n".to_vec();
    let merged = bench
        .landing()
        .tip(MAIN, &mut |_| vec![FileEdit { path: paths[0].clone(), content: Some(both.clone()) }]);
    let BranchTip::Newer(newer) = merged.unwrap() else { panic!() };
    let found = bench.mirror.git().file_at(&newer.merge, &paths[0]).unwrap();
    assert_eq!(found, Some(both));
}

#[test]
fn a_branch_that_was_rewritten_while_work_was_ahead_is_a_question() {
    for rewrite in
        [&["commit", "-q", "--amend", "-m", "amended"][..], &["reset", "-q", "--hard", "HEAD~1"]]
    {
        let bench = Bench::new();
        bench.world.commit(&bench.dir, &[("second", "1")]);
        let landed = bench.land(&[("x", "1")]);
        bench.world.git(&bench.dir, rewrite);
        let now = bench.main();
        let expected =
            FollowOutcome::Diverged { landed: landed.clone(), branch: Some(now.clone()) };
        assert_eq!(bench.follow(), expected, "{rewrite:?}");
        let tip = bench.landing().tip(MAIN, &mut |_| Vec::new()).unwrap();
        assert!(matches!(tip, BranchTip::Diverged { branch: Some(branch), .. } if branch == now));
    }
    let bench = Bench::new();
    let landed = bench.land(&[("x", "1")]);
    bench.world.git(&bench.dir, &["switch", "-q", "--detach"]);
    bench.world.git(&bench.dir, &["branch", "-q", "-D", "main"]);
    assert_eq!(bench.follow(), FollowOutcome::Diverged { landed, branch: None });
    let bench = Bench::new();
    bench.world.git(&bench.dir, &["switch", "-q", "--orphan", "new"]);
    let tip = bench.landing().tip("refs/heads/new", &mut |_| Vec::new()).unwrap();
    assert_eq!(tip, BranchTip::Unborn);
    assert!(bench.landing().tip("main", &mut |_| Vec::new()).is_err());
}

#[test]
fn once_followed_a_branch_may_be_rewritten_at_will() {
    let bench = Bench::new();
    let commit = bench.land(&[("x", "1")]);
    bench.follow();
    bench.world.git(&bench.dir, &["reset", "-q", "--hard", "HEAD~1"]);
    assert_ne!(bench.main(), commit);
    assert_eq!(bench.follow(), FollowOutcome::Current);
    assert_eq!(bench.tip().commit, bench.main());
}

#[test]
fn a_person_who_merges_landed_work_by_hand_has_followed() {
    let bench = Bench::new();
    let landed = bench.land(&[("x", "1")]);
    bench
        .world
        .git(&bench.dir, &["merge", "-q", "--no-ff", "-m", "by hand", "refs/ralph/landed/main"]);
    let by_hand = bench.main();
    assert_ne!(by_hand, landed);
    assert_eq!(bench.tip().commit, by_hand);
    assert_eq!(bench.follow(), FollowOutcome::Followed { commit: by_hand.clone() });
    bench.is_at(&by_hand);
}

#[test]
fn uncommitted_work_elsewhere_stays_as_it_is() {
    let bench = Bench::new();
    write(&bench.dir.join("keep"), "changed by the person\n");
    write(&bench.dir.join("staged"), "staged\n");
    bench.world.git(&bench.dir, &["add", "staged"]);
    write(&bench.dir.join("untracked"), "untracked\n");
    let before = bench.status();
    let commit = bench.land(&[("a.txt", "new\n"), ("b/c", "1")]);
    assert_eq!(bench.follow(), FollowOutcome::Followed { commit: commit.clone() });
    bench.is_at(&commit);
    assert_eq!(bench.status(), before);
    assert_eq!(read(&bench.dir.join("keep")), "changed by the person\n");
}

#[test]
fn a_worktree_in_which_something_is_in_the_way_waits_untouched() {
    type Deed = fn(&Bench);
    let cases: &[(&str, Deed, &[&str])] = &[
        ("a changed file", |bench| write(&bench.dir.join("a.txt"), "mine\n"), &["a.txt"]),
        (
            "a removed file",
            |bench| std::fs::remove_file(bench.dir.join("a.txt")).unwrap(),
            &["a.txt"],
        ),
        (
            "a file that became a link",
            |bench| {
                std::fs::remove_file(bench.dir.join("a.txt")).unwrap();
                symlink("keep", bench.dir.join("a.txt")).unwrap();
            },
            &["a.txt"],
        ),
        (
            "a staged file",
            |bench| {
                write(&bench.dir.join("a.txt"), "mine\n");
                bench.world.git(&bench.dir, &["add", "a.txt"]);
                write(&bench.dir.join("a.txt"), "1\n2\n3\n");
            },
            &["a.txt"],
        ),
        ("an untracked file", |bench| write(&bench.dir.join("n/new"), "mine\n"), &["n/new"]),
        (
            "an ignored file",
            |bench| {
                write(&bench.dir.join(".git/info/exclude"), "new\n");
                write(&bench.dir.join("n/new"), "mine\n");
            },
            &["n/new"],
        ),
        (
            "an untracked file where a directory is to be",
            |bench| write(&bench.dir.join("n"), "mine\n"),
            &["n"],
        ),
        (
            "a link where a directory is to be",
            |bench| symlink("/tmp", bench.dir.join("n")).unwrap(),
            &["n"],
        ),
        (
            "a staged file that is to be made",
            |bench| {
                write(&bench.dir.join("n/new"), "mine\n");
                bench.world.git(&bench.dir, &["add", "n/new"]);
            },
            &["n/new"],
        ),
        (
            "a directory with untracked files where a file is to be",
            |bench| write(&bench.dir.join("n/new/x"), "mine\n"),
            &[],
        ),
        (
            "a changed file that is assumed to be unchanged",
            |bench| {
                bench.world.git(&bench.dir, &["update-index", "--assume-unchanged", "a.txt"]);
                write(&bench.dir.join("a.txt"), "mine, and longer\n");
            },
            &[],
        ),
    ];
    for (name, deed, files) in cases {
        let bench = Bench::new();
        let landed = bench.land(&[("a.txt", "new\n"), ("n/new", "landed\n")]);
        deed(&bench);
        let (status, main) = (bench.status(), bench.main());
        for _ in 0..2 {
            let FollowOutcome::Waits { files: found, reason, landed: ahead, worktree } =
                bench.follow()
            else {
                panic!("{name}");
            };
            let expected: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
            assert_eq!(
                (found, &ahead, worktree),
                (expected, &landed, bench.dir.clone().into()),
                "{name}"
            );
            assert_eq!(reason == WaitReason::Uncommitted, !files.is_empty(), "{name}: {reason:?}");
            assert_eq!((bench.status(), bench.main()), (status.clone(), main.clone()), "{name}");
            assert!(!bench.dir.join(".git/index.lock").exists());
        }
        // Work continues meanwhile, and all of it arrives once there is no obstacle.
        let next = bench.land(&[("later", "1")]);
        bench.world.git(&bench.dir, &["update-index", "--no-assume-unchanged", "a.txt"]);
        bench.world.git(&bench.dir, &["stash", "-q", "-a"]);
        assert_eq!(bench.follow(), FollowOutcome::Followed { commit: next.clone() }, "{name}");
        bench.is_at(&next);
        assert_eq!(bench.status(), "", "{name}");
    }
}

#[test]
fn a_file_that_is_already_what_it_will_be_is_not_in_the_way() {
    let bench = Bench::new();
    let commit = bench.land(&[("a.txt", "new\n"), ("n/new", "landed\n"), ("staged", "s\n")]);
    write(&bench.dir.join("a.txt"), "new\n");
    write(&bench.dir.join("n/new"), "landed\n");
    write(&bench.dir.join("staged"), "s\n");
    bench.world.git(&bench.dir, &["add", "staged"]);
    assert_eq!(bench.follow(), FollowOutcome::Followed { commit: commit.clone() });
    bench.is_at(&commit);
    assert_eq!(bench.status(), "");
}

#[test]
fn a_file_that_was_written_again_as_it_was_is_not_in_the_way_and_one_changed_among_many_is() {
    for count in [1, 64, 65, 200] {
        let bench = Bench::new();
        let names: Vec<String> = (0..count).map(|number| format!("many/{number}")).collect();
        let with =
            |text| names.iter().map(|name| (name.as_str(), text)).collect::<Vec<(&str, &str)>>();
        bench.land(&with("one\n"));
        bench.follow();
        let commit = bench.land(&with("two\n"));
        // With another file, at another time.
        for name in &names {
            std::fs::remove_file(bench.dir.join(name)).unwrap();
            write(&bench.dir.join(name), "one\n");
        }
        let last = names.last().unwrap();
        write(&bench.dir.join(last), "six\n");
        let FollowOutcome::Waits { files, reason, .. } = bench.follow() else { panic!("{count}") };
        assert_eq!((files, reason), (vec![PathBuf::from(last)], WaitReason::Uncommitted));
        assert_eq!(read(&bench.dir.join(last)), "six\n");
        write(&bench.dir.join(last), "one\n");
        assert_eq!(bench.follow(), FollowOutcome::Followed { commit: commit.clone() }, "{count}");
        bench.is_at(&commit);
        assert_eq!(bench.status(), "");
    }
}

#[test]
fn only_what_is_plain_is_forwarded_in_process() {
    let bench = Bench::new();
    let (base, dir) = (bench.main(), &bench.dir);
    std::fs::remove_file(bench.work.join("keep")).unwrap();
    let commit = bench.land(&[("a.txt", "new\n"), ("n/new", "landed\n")]);
    let touched = bench.git.plain_changes(&base, &commit).unwrap();
    let is_plain = || PlainForward::examine(&bench.git, &base, &touched).is_ok();
    assert!(is_plain());
    let git = |args: &[&str]| drop(bench.world.git(dir, args));
    let cases: [(&str, bool, &dyn Fn()); 15] = [
        ("written already", true, &|| {
            write(&dir.join("a.txt"), "new\n");
            write(&dir.join("n/new"), "landed\n");
        }),
        ("written again as it was", true, &|| write(&dir.join("a.txt"), "1\n2\n3\n")),
        ("an edit elsewhere", true, &|| write(&dir.join("ralph/plan.jsonl"), "mine\n")),
        ("edited", false, &|| write(&dir.join("a.txt"), "mine\n")),
        ("removed", false, &|| std::fs::remove_file(dir.join("a.txt")).unwrap()),
        ("removed already", false, &|| std::fs::remove_file(dir.join("keep")).unwrap()),
        ("staged", false, &|| {
            write(&dir.join("a.txt"), "new\n");
            git(&["add", "a.txt"]);
        }),
        ("untracked in the way", false, &|| write(&dir.join("n/new"), "mine\n")),
        ("a directory in the way", false, &|| write(&dir.join("n/new/mine"), "mine\n")),
        ("a link to a directory", false, &|| symlink("ralph", dir.join("n")).unwrap()),
        ("a file for a directory", false, &|| write(&dir.join("n"), "mine\n")),
        ("executable", false, &|| git(&["update-index", "--chmod=+x", "a.txt"])),
        ("a hidden file", false, &|| git(&["update-index", "--assume-unchanged", "a.txt"])),
        ("sparse", false, &|| git(&["config", "core.sparseCheckout", "true"])),
        ("split", false, &|| git(&["update-index", "--split-index"])),
    ];
    for (what, plain, make) in cases {
        make();
        assert_eq!(is_plain(), plain, "{what}");
        git(&["config", "core.sparseCheckout", "false"]);
        git(&["update-index", "--no-split-index", "--no-assume-unchanged", "a.txt"]);
        git(&["reset", "-q", "--hard"]);
        git(&["clean", "-qfd"]);
        assert!(is_plain(), "after: {what}");
    }
    assert_eq!(bench.follow(), FollowOutcome::Followed { commit: commit.clone() });
    bench.is_at(&commit);
    assert_eq!(bench.status(), "");
}

#[test]
fn files_that_git_writes_otherwise_than_committed_are_written_as_git_does() {
    let bench = Bench::new();
    bench.world.git(&bench.dir, &["config", "core.autocrlf", "true"]);
    bench.world.git(&bench.dir, &["rm", "-q", "--cached", "-r", "."]);
    bench.world.git(&bench.dir, &["reset", "-q", "--hard"]);
    std::fs::remove_file(bench.work.join("keep")).unwrap();
    let commit = bench.land(&[("a.txt", "new\n"), ("n/new", "landed\n")]);
    assert_eq!(bench.follow(), FollowOutcome::Followed { commit: commit.clone() });
    bench.is_at(&commit);
    assert_eq!(
        (bench.status(), read(&bench.dir.join("n/new"))),
        (String::new(), "landed\r\n".to_owned())
    );
    assert!(!bench.dir.join("keep").exists());
}

#[test]
fn files_and_directories_change_places() {
    let bench = Bench::new();
    bench.world.commit(&bench.dir, &[("d/x", "1"), ("f", "1")]);
    bench.world.git(&bench.work, &["pull", "-q"]);
    std::fs::remove_dir_all(bench.work.join("d")).unwrap();
    std::fs::remove_file(bench.work.join("f")).unwrap();
    bench.world.commit(&bench.work, &[("d", "now a file"), ("f/y", "now a directory")]);
    let made = bench.world.head(&bench.work);
    bench.mirror.fill(&bench.git, &[]).unwrap();
    bench.mirror.fill(&bench.world.open(&bench.work), &[]).unwrap();
    let tip = bench.tip();
    bench.landing().land(MAIN, &tip, &made).unwrap();
    assert_eq!(bench.follow(), FollowOutcome::Followed { commit: made.clone() });
    bench.is_at(&made);
    assert_eq!(
        (bench.status(), read(&bench.dir.join("f/y"))),
        (String::new(), "now a directory".to_owned())
    );
}

#[test]
fn a_branch_that_is_checked_out_nowhere_or_elsewhere_follows_too() {
    let bench = Bench::new();
    let linked = bench.world.path("linked");
    bench.world.git(&bench.dir, &["switch", "-q", "-c", "other"]);
    write(&bench.dir.join("a.txt"), "dirty, on another branch\n");
    let commit = bench.land(&[("a.txt", "new\n")]);
    assert_eq!(bench.follow(), FollowOutcome::Followed { commit: commit.clone() });
    bench.is_at(&commit);
    assert_eq!(read(&bench.dir.join("a.txt")), "dirty, on another branch\n");
    bench.world.git(&bench.dir, &["worktree", "add", "-q", linked.as_str(), "main"]);
    let commit = bench.land(&[("a.txt", "newer\n")]);
    assert_eq!(bench.follow(), FollowOutcome::Followed { commit: commit.clone() });
    bench.is_at(&commit);
    assert_eq!(read(&linked.join("a.txt")), "newer\n");
    assert_eq!(bench.world.git(&linked, &["status", "--porcelain"]), "");
    // In two worktrees at once, or in one that is temporarily absent, it waits.
    let landed = bench.land(&[("a.txt", "newest\n")]);
    bench.world.git(&bench.dir, &["checkout", "-q", "--force", "--ignore-other-worktrees", "main"]);
    let waits = |reason, worktree: &Utf8Path| FollowOutcome::Waits {
        landed: landed.clone(),
        worktree: worktree.into(),
        files: Vec::new(),
        reason,
    };
    assert_eq!(bench.follow(), waits(WaitReason::SeveralWorktrees, &linked));
    bench.world.git(&bench.dir, &["switch", "-q", "other"]);
    bench.world.git(&bench.dir, &["worktree", "lock", linked.as_str()]);
    std::fs::rename(&linked, bench.world.path("away")).unwrap();
    assert_eq!(bench.follow(), waits(WaitReason::Unavailable, &linked));
    std::fs::rename(bench.world.path("away"), &linked).unwrap();
    assert_eq!(bench.follow(), FollowOutcome::Followed { commit: landed.clone() });
}

#[test]
fn an_operation_under_way_and_a_busy_index_are_waited_for() {
    let bench = Bench::new();
    bench.world.git(&bench.dir, &["switch", "-q", "-c", "other"]);
    bench.world.commit(&bench.dir, &[("keep", "other\n")]);
    bench.world.git(&bench.dir, &["switch", "-q", "main"]);
    bench.world.commit(&bench.dir, &[("keep", "main\n")]);
    let landed = bench.land(&[("x", "1")]);
    let _ = bench.world.try_git(&bench.dir, &["rebase", "other"]);
    let FollowOutcome::Waits { reason, .. } = bench.follow() else { panic!() };
    assert_eq!(reason, WaitReason::Operation(crate::GitOperation::Rebase));
    bench.world.git(&bench.dir, &["rebase", "--abort"]);
    let lock = bench.dir.join(".git/index.lock");
    write(&lock, "");
    let FollowOutcome::Waits { reason, .. } = bench.follow() else { panic!() };
    assert_eq!(reason, WaitReason::Busy);
    assert!(lock.exists());
    std::fs::remove_file(&lock).unwrap();
    assert_eq!(bench.follow(), FollowOutcome::Followed { commit: landed });
}

/// The person's `git stash pop` ended in a conflict, in a file that the landed work does not touch.
#[test]
fn files_that_are_unmerged_with_no_operation_in_progress_are_named() {
    let bench = Bench::new();
    write(&bench.dir.join("keep"), "mine\n");
    bench.world.git(&bench.dir, &["stash", "-q"]);
    bench.world.commit(&bench.dir, &[("keep", "other\n")]);
    assert!(bench.world.try_git(&bench.dir, &["stash", "pop", "-q"]).is_err());
    let landed = bench.land(&[("x", "1")]);
    let (status, main) = (bench.status(), bench.main());
    let waits = FollowOutcome::Waits {
        landed: landed.clone(),
        worktree: bench.dir.clone().into(),
        files: vec!["keep".into()],
        reason: WaitReason::Unmerged,
    };
    assert_eq!(bench.git.look_at_following(MAIN).unwrap(), waits);
    assert_eq!(bench.follow(), waits);
    assert_eq!((bench.status(), bench.main()), (status, main));
    assert!(!bench.dir.join(".git/ralph-fast-forward").exists());
    bench.world.git(&bench.dir, &["checkout", "-q", "--ours", "keep"]);
    bench.world.git(&bench.dir, &["add", "keep"]);
    assert_eq!(bench.follow(), FollowOutcome::Followed { commit: landed });
}

#[test]
fn files_that_need_a_filter_are_left_to_the_person() {
    let bench = Bench::new();
    bench.world.commit(&bench.dir, &[(".gitattributes", "*.bin filter=lfs\n")]);
    bench.world.git(&bench.dir, &["config", "filter.lfs.smudge", "touch smudged"]);
    bench.land(&[("x.bin", "pointer\n")]);
    let FollowOutcome::Waits { files, reason, .. } = bench.follow() else { panic!() };
    assert_eq!(
        (files, reason),
        (vec!["x.bin".into()], WaitReason::NeedsFilter { filter: "lfs".into() })
    );
    assert!(!bench.dir.join("smudged").exists());
}

#[test]
fn what_a_killed_attempt_left_is_completed() {
    let bench = Bench::new();
    bench.world.commit(&bench.dir, &[("gone", "1"), ("b", "1")]);
    bench.world.git(&bench.work, &["pull", "-q"]);
    let base = bench.main();
    std::fs::remove_file(bench.work.join("gone")).unwrap();
    let commit = bench.land(&[("a.txt", "a long new text\n"), ("b", "2"), ("n/new", "landed\n")]);
    // Git was killed while writing: a file is torn, one missing, one written, one not yet removed.
    write(&bench.dir.join(".git/ralph-fast-forward"), &format!("{base} {commit}\n"));
    write(&bench.dir.join("a.txt"), "a long ne");
    std::fs::remove_file(bench.dir.join("b")).unwrap();
    write(&bench.dir.join("n/new"), "landed\n");
    assert_eq!(bench.follow(), FollowOutcome::Followed { commit: commit.clone() });
    bench.is_at(&commit);
    assert_eq!(bench.status(), "");
    // Without the note the same state is a person's work.
    let next = bench.land(&[("a.txt", "another long text\n")]);
    write(&bench.dir.join("a.txt"), "another");
    let waits = bench.follow();
    assert!(matches!(waits, FollowOutcome::Waits { .. }), "{waits:?}");
    // A note of another attempt says nothing about this one.
    write(&bench.dir.join(".git/ralph-fast-forward"), &format!("{base} {commit}\n"));
    assert_eq!(bench.follow(), waits);
    // Killed after the branch had moved: only the index is behind, and a person has changed a file since.
    let index = std::fs::read(bench.dir.join(".git/index")).unwrap();
    bench.world.git(&bench.dir, &["checkout", "-q", "a.txt"]);
    let before = bench.main();
    bench.world.git(&bench.dir, &["merge", "-q", "--ff-only", next.as_str()]);
    std::fs::write(bench.dir.join(".git/index"), index).unwrap();
    write(&bench.dir.join(".git/ralph-fast-forward"), &format!("{before} {next}\n"));
    write(&bench.dir.join("keep"), "the person's\n");
    assert_eq!(bench.follow(), FollowOutcome::Followed { commit: next.clone() });
    bench.is_at(&next);
    assert_eq!(bench.status(), "M keep");
}

#[test]
fn merges_are_those_of_git_and_conflicts_are_named() {
    let bench = Bench::new();
    let base = bench.main();
    bench.world.commit(&bench.dir, &[("a.txt", "1\n2\nthree\n"), ("u", "x\n")]);
    let tip = bench.main();
    let clean = bench.candidate(&base, &[("a.txt", "one\n2\n3\n"), ("moved/keep", "k\n")]);
    let TreeMerge::Clean { tree } = bench.landing().merge(&tip, &clean, None).unwrap() else {
        panic!()
    };
    bench.world.git(&bench.work, &["checkout", "-q", "--detach", tip.as_str()]);
    bench.world.git(&bench.work, &["merge", "-q", "--no-ff", "-m", "by git", clean.as_str()]);
    assert_eq!(bench.world.id(&bench.work, "HEAD^{tree}"), tree);
    let odd = "odd \"name\"\n";
    let torn = bench.candidate(&base, &[("a.txt", "1\n2\n3!\n"), ("u", "y\n"), (odd, "1")]);
    let merged = bench.landing().merge(&tip, &torn, None).unwrap();
    let TreeMerge::Conflict { paths, .. } = merged else { panic!("{merged:?}") };
    assert_eq!(paths, [PathBuf::from("a.txt"), PathBuf::from("u")]);
    // Attributes of the tip count, drivers from configuration do not.
    bench.world.commit(&bench.dir, &[(".gitattributes", "a.txt merge=union\nu merge=evil\n")]);
    bench.world.git(&bench.dir, &["config", "merge.evil.driver", "touch evil-ran"]);
    bench.mirror.fill(&bench.git, &[]).unwrap();
    let TreeMerge::Conflict { paths, .. } =
        bench.landing().merge(&bench.main(), &torn, None).unwrap()
    else {
        panic!()
    };
    assert_eq!(paths, [PathBuf::from("u")]);
    assert!(!bench.dir.join("evil-ran").exists());
}

#[test]
fn a_change_is_carried_over_to_a_tip_without_its_base() {
    let bench = Bench::new();
    bench.world.commit(&bench.dir, &[("b", "1\n")]);
    let base = bench.main();
    let candidate = bench.candidate(&base, &[("c", "work\n")]);
    bench.world.git(&bench.dir, &["commit", "-q", "--amend", "-m", "amended"]);
    write(&bench.dir.join("b"), "amended\n");
    bench.world.git(&bench.dir, &["commit", "-q", "-a", "--amend", "-m", "amended"]);
    let tip = bench.tip();
    bench.mirror.fill(&bench.git, &[]).unwrap();
    let landing = bench.landing();
    let carried = landing.carry_over(&tip.commit, &base, &candidate, &[]).unwrap();
    let Carried::Commit(carried) = carried else { panic!("{carried:?}") };
    assert_eq!(landing.land(MAIN, &tip, &carried).unwrap(), LandOutcome::Landed);
    bench.follow();
    bench.is_at(&carried);
    assert_eq!(read(&bench.dir.join("b")), "amended\n");
    assert_eq!(read(&bench.dir.join("c")), "work\n");
    assert_eq!(
        bench.world.git(&bench.dir, &["log", "-1", "--format=%P %an"]),
        format!("{} Person", tip.commit)
    );
    let clash = bench.candidate(&base, &[("b", "other\n")]);
    let again = landing.carry_over(&carried, &base, &clash, &[]).unwrap();
    assert_eq!(again, Carried::Conflict(vec![PathBuf::from("b")]));
    let again = landing.carry_over(&carried, &base, &candidate, &[]).unwrap();
    assert_eq!(again, Carried::Nothing);
    let detached = landing.detached_change(&base, &candidate).unwrap();
    let history = bench.mirror.git().range(detached.as_str()).unwrap().unwrap();
    assert_eq!(history.len(), 2, "it leads to nothing that was there");
}

#[test]
fn home_is_as_in_the_tip_but_for_the_landings_own_edits() {
    let bench = Bench::new();
    bench.world.commit(
        &bench.dir,
        &[
            ("ralph/specs/a.md", "spec\n"),
            ("ralph.toml", "x = 1\n"),
            ("ralph/run.sh", "#!\n"),
            ("ralph/old/only", "1"),
        ],
    );
    let chmod = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bench.dir.join("ralph/run.sh"), chmod).unwrap();
    bench.world.git(&bench.dir, &["commit", "-qam", "mode"]);
    let tip = bench.tip();
    std::fs::remove_file(bench.work.join("keep")).unwrap();
    let candidate = bench.candidate(
        &tip.commit,
        &[
            ("src/work", "1"),
            ("ralph/plan.jsonl", "forged\n"),
            ("ralph/planted", "1"),
            ("ralph.toml", "x = 2\n"),
            ("ralph/specs/a.md", "easier\n"),
        ],
    );
    let landing = bench.landing();
    let edit = |path: &str, content: Option<&str>| FileEdit {
        path: path.into(),
        content: content.map(|text| text.as_bytes().to_vec()),
    };
    let edits = [
        edit("ralph/specs/done/a.md", Some("done\n")),
        edit("ralph/old/only", None),
        edit("ralph/run.sh", Some("#!/bin/sh\n")),
        edit("ralph/never/there", None),
    ];
    let as_in_tip =
        [PathBuf::from("ralph"), PathBuf::from("ralph.toml"), PathBuf::from("absent/home")];
    let request = LandingCommit {
        tree: &landing.tree_of(&candidate).unwrap(),
        tip: &tip.commit,
        as_in_tip: &as_in_tip,
        edits: &edits,
        parents: &[&tip.commit, &candidate],
        message: "Land 0001\n",
        signing: Signing::Unsigned,
    };
    let commit = landing.commit(&request).unwrap();
    let mut changed: Vec<PathBuf> = bench
        .mirror
        .git()
        .plain_changes(&tip.commit, &commit)
        .unwrap()
        .into_iter()
        .map(|one| one.path)
        .collect();
    changed.sort();
    let expected = ["keep", "ralph/old/only", "ralph/run.sh", "ralph/specs/done/a.md", "src/work"];
    let expected = expected.map(PathBuf::from);
    assert_eq!(changed, expected);
    landing.land(MAIN, &tip, &commit).unwrap();
    assert_eq!(bench.follow(), FollowOutcome::Followed { commit: commit.clone() });
    bench.is_at(&commit);
    assert_eq!(
        bench.world.git(&bench.dir, &["log", "-1", "--format=%an|%s|%P"]),
        format!("Person|Land 0001|{} {candidate}", tip.commit)
    );
    assert_eq!(
        bench.world.git(&bench.dir, &["ls-files", "-s", "ralph/run.sh"]).get(..6),
        Some("100755")
    );
    for path in ["../x", "a/.git/x", ""] {
        let edits = [edit(path, Some("x"))];
        let refused = landing.commit(&LandingCommit { edits: &edits, ..request });
        assert!(matches!(refused, Err(LandingError::Path { .. })), "{path}");
    }
}

#[test]
fn leftovers_are_kept_on_the_items_ref_also_again() {
    let bench = Bench::new();
    let key = ItemKey::new("area/0001");
    let (one, other) = (
        bench.candidate(&bench.main(), &[("x", "1")]),
        bench.candidate(&bench.main(), &[("x", "2")]),
    );
    for commit in [&one, &other, &other] {
        bench.landing().keep_left(&key, commit).unwrap();
        assert_eq!(bench.world.id(&bench.dir, "refs/ralph/left/area+0001"), *commit);
    }
}
