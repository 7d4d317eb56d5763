use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use camino::Utf8Path;

use super::super::lock::{Holder, LockFile};
use super::super::testing::{World, read, write};
use super::*;

type Commit = fn(&Git, &CommitRequest<'_>) -> Result<Option<Committed>, CommitError>;

/// Both ways of committing are held to the same.
const WAYS: [(&str, Commit); 2] = [("git", commit_paths), ("direct", commit_files)];

const PLAN: &str = "ralph/plan.jsonl";

fn request<'a>(paths: &'a [PathBuf], message: &'a str) -> CommitRequest<'a> {
    let patience = Duration::from_mins(2);
    CommitRequest { paths, message, signing: Signing::Unsigned, patience }
}

fn plan() -> Vec<PathBuf> {
    vec![PathBuf::from(PLAN)]
}

fn status(world: &World, dir: &Utf8Path) -> Vec<String> {
    let status = world.git(dir, &["status", "--porcelain", "-uall"]);
    status.lines().map(str::trim_start).map(str::to_owned).collect()
}

fn leftovers(dir: &Utf8Path) -> Vec<String> {
    let names = dir.read_dir_utf8().unwrap().map(|entry| entry.unwrap().file_name().to_owned());
    let odd = |name: &String| {
        name.starts_with("ralph-") || Path::new(name).extension().is_some_and(|end| end == "lock")
    };
    names.filter(odd).collect()
}

/// A plan that is committed, and everything else in disorder.
fn disorder(world: &World, dir: &Utf8Path) {
    world.commit(dir, &[(PLAN, "1\n"), ("ralph/other", "1\n"), ("z/deep/file", "1\n"), ("b", "1")]);
    write(&dir.join("staged"), "new\n");
    write(&dir.join("a.txt"), "staged\n");
    world.git(dir, &["add", "staged", "a.txt"]);
    write(&dir.join("a.txt"), "staged and dirty\n");
    write(&dir.join("promised"), "later\n");
    world.git(dir, &["add", "-N", "promised"]);
    world.git(dir, &["rm", "-q", "--cached", "b"]);
    write(&dir.join("untracked"), "x\n");
}

/// Commits a new plan and looks at everything that could have suffered.
fn commit_and_check(
    world: &World,
    dir: &Utf8Path,
    commit: Commit,
    content: &str,
    case: &str,
) -> Oid {
    let before = status(world, dir);
    let parent = world.try_git(dir, &["rev-parse", "--verify", "-q", "HEAD"]).ok();
    write(&dir.join(PLAN), content);
    let git = world.open(dir);
    let made = commit(&git, &request(&plan(), "plan: take note\n\nWhy: \u{fc}.\n"));
    let made = made.unwrap_or_else(|error| panic!("{case}: {error:?}"));
    let made = made.unwrap_or_else(|| panic!("{case}: nothing to commit"));
    assert_eq!(made.id, world.head(dir), "{case}");
    assert_eq!(made.parent.as_ref().map(Oid::to_string), parent, "{case}");
    assert_eq!(made.paths, plan(), "{case}");
    assert_eq!(status(world, dir), before, "{case}");
    assert_eq!(world.git(dir, &["show", &format!("HEAD:{PLAN}")]) + "\n", content, "{case}");
    let changed = ["show", "--format=", "--name-only", "--no-renames", "HEAD"];
    assert_eq!(world.git(dir, &changed), PLAN, "{case}");
    let told = world.git(dir, &["log", "-1", "--format=%an|%ae|%cn|%s|%b"]);
    assert_eq!(told, "Person|p@example.org|Person|plan: take note|Why: \u{fc}.", "{case}");
    let log = world.git(dir, &["reflog", "-1", "--format=%H %gs"]);
    assert_eq!(log, format!("{} commit: plan: take note", made.id), "{case}");
    let branch = world.try_git(dir, &["symbolic-ref", "-q", "HEAD"]);
    if let Ok(branch) = branch {
        let log = world.git(dir, &["reflog", "-1", "--format=%H %gs", &branch]);
        assert_eq!(log, format!("{} commit: plan: take note", made.id), "{case}");
    }
    // Git itself keeps ids of trees in a sparse index that it has not written yet.
    if world.git(dir, &["config", "--default", "", "--get", "index.sparse"]) == "true" {
        world.git(dir, &["write-tree"]);
    }
    world.git(dir, &["fsck", "--strict", "--no-dangling"]);
    assert_eq!(commit(&git, &request(&plan(), "x")).unwrap(), None, "{case}");
    assert_eq!(world.head(dir), made.id, "{case}");
    for left in [&git.place().git_dir, &git.place().common_dir] {
        assert_eq!(leftovers(left), Vec::<String>::new(), "{case}");
    }
    made.id
}

fn index_of(dir: &Utf8Path) -> Vec<u8> {
    fs::read(dir.join(".git/index")).unwrap()
}

/// A repository of some make, and whether it is worked on in process.
struct Make {
    name: &'static str,
    in_process: bool,
    prepare: fn(&World) -> camino::Utf8PathBuf,
}

fn plain(world: &World) -> camino::Utf8PathBuf {
    let dir = world.repository("r");
    disorder(world, &dir);
    dir
}

fn initialised(world: &World, option: &str) -> camino::Utf8PathBuf {
    let dir = world.path("r");
    world.git(&world.root, &["init", "-q", option, dir.as_str()]);
    world.commit(&dir, &[("a.txt", "a\n")]);
    disorder(world, &dir);
    dir
}

const MAKES: &[Make] = &[
    Make { name: "plain", in_process: true, prepare: plain },
    Make {
        name: "packed",
        in_process: true,
        prepare: |world| {
            let dir = plain(world);
            world.git(&dir, &["gc", "-q"]);
            dir
        },
    },
    Make {
        name: "detached",
        in_process: true,
        prepare: |world| {
            let dir = world.repository("r");
            world.git(&dir, &["checkout", "-q", "--detach"]);
            disorder(world, &dir);
            dir
        },
    },
    Make {
        name: "a branch in a directory",
        in_process: true,
        prepare: |world| {
            let dir = world.repository("r");
            world.git(&dir, &["checkout", "-q", "-b", "a/b/c"]);
            disorder(world, &dir);
            world.git(&dir, &["pack-refs", "--all"]);
            dir
        },
    },
    Make {
        name: "linked worktree",
        in_process: true,
        prepare: |world| {
            let main = world.repository("main");
            let dir = world.path("linked");
            world.git(&main, &["worktree", "add", "-q", "-b", "side", dir.as_str()]);
            disorder(world, &dir);
            dir
        },
    },
    Make {
        name: "submodule",
        in_process: true,
        prepare: |world| {
            let (inner, outer) = (world.repository("inner"), world.repository("outer"));
            world.git(&outer, &["submodule", "--quiet", "add", inner.as_str(), "sub"]);
            let dir = outer.join("sub");
            assert!(dir.join(".git").is_file());
            disorder(world, &dir);
            dir
        },
    },
    Make {
        name: "shallow clone",
        in_process: true,
        prepare: |world| {
            let origin = world.repository("origin");
            world.commit(&origin, &[("more", "1")]);
            let dir = world.path("shallow");
            let url = format!("file://{origin}");
            world.git(&world.root, &["clone", "-q", "--depth", "1", &url, dir.as_str()]);
            disorder(world, &dir);
            dir
        },
    },
    Make {
        name: "alternates",
        in_process: true,
        prepare: |world| {
            let origin = world.repository("origin");
            let dir = world.path("shared");
            world.git(&world.root, &["clone", "-q", "--shared", origin.as_str(), dir.as_str()]);
            disorder(world, &dir);
            dir
        },
    },
    Make {
        name: "sha256",
        in_process: true,
        prepare: |world| initialised(world, "--object-format=sha256"),
    },
    Make {
        name: "reftable",
        in_process: false,
        prepare: |world| initialised(world, "--ref-format=reftable"),
    },
    Make {
        name: "index of version 4",
        in_process: true,
        prepare: |world| {
            let dir = plain(world);
            world.git(&dir, &["update-index", "--index-version", "4"]);
            assert_eq!(index_of(&dir)[7], 4);
            dir
        },
    },
    Make {
        name: "untracked cache",
        in_process: true,
        prepare: |world| {
            let dir = plain(world);
            world.git(&dir, &["update-index", "--force-untracked-cache"]);
            status(world, &dir);
            assert!(memchr::memmem::find(&index_of(&dir), b"UNTR").is_some());
            dir
        },
    },
    Make {
        name: "index with offsets",
        in_process: true,
        prepare: |world| {
            let dir = plain(world);
            world.git(&dir, &["config", "index.recordEndOfIndexEntries", "true"]);
            world.git(&dir, &["config", "index.recordOffsetTable", "true"]);
            world.git(&dir, &["update-index", "--force-write-index"]);
            assert!(memchr::memmem::find(&index_of(&dir), b"EOIE").is_some());
            dir
        },
    },
    Make {
        name: "index without a checksum",
        in_process: true,
        prepare: |world| {
            let dir = plain(world);
            world.git(&dir, &["config", "index.skipHash", "true"]);
            world.git(&dir, &["update-index", "--force-write-index"]);
            assert!(index_of(&dir).ends_with(&[0; 20]));
            dir
        },
    },
    Make {
        name: "split index",
        in_process: false,
        prepare: |world| {
            let dir = plain(world);
            world.git(&dir, &["update-index", "--split-index"]);
            assert!(memchr::memmem::find(&index_of(&dir), b"link").is_some());
            dir
        },
    },
    Make {
        name: "sparse index",
        in_process: true,
        prepare: |world| {
            let dir = world.repository("r");
            world.commit(&dir, &[(PLAN, "1\n"), ("out/side/file", "1")]);
            world.git(&dir, &["sparse-checkout", "init", "--cone", "--sparse-index"]);
            world.git(&dir, &["sparse-checkout", "set", "ralph"]);
            assert!(memchr::memmem::find(&index_of(&dir), b"sdir").is_some());
            write(&dir.join("staged"), "new\n");
            world.git(&dir, &["add", "staged"]);
            dir
        },
    },
    Make {
        name: "shared by a group",
        in_process: false,
        prepare: |world| {
            let dir = plain(world);
            world.git(&dir, &["config", "core.sharedRepository", "group"]);
            dir
        },
    },
];

#[test]
fn every_make_of_repository_is_committed_to_and_left_in_order_by_both_ways() {
    for Make { name, prepare, .. } in MAKES {
        for (way, commit) in WAYS {
            let world = World::new();
            let dir = prepare(&world);
            let case = format!("{name}, {way}");
            let rounds = if way == "git" { 1 } else { 3 };
            for content in &["1\n2\n", "1\n2\n3\n", "1\n3\n"][..rounds] {
                commit_and_check(&world, &dir, commit, content, &case);
            }
        }
    }
}

#[test]
fn what_can_be_done_in_process_is_and_the_index_keeps_its_make() {
    for Make { name, in_process, prepare } in MAKES {
        let world = World::new();
        let dir = prepare(&world);
        let git = world.open(&dir);
        write(&dir.join(PLAN), "1\n2\n");
        let index = git.place().git_dir.join("index");
        let before = fs::read(&index).unwrap();
        let made = commit_in_process(&git, &request(&plan(), "x"));
        match made {
            Ok(made) => assert!(*in_process && made.is_some(), "{name}"),
            Err(Setback::Unfit(_)) => assert!(!in_process, "{name}: {made:?}"),
            Err(Setback::Refused(_)) => panic!("{name}: {made:?}"),
        }
        if !in_process {
            assert_eq!(fs::read(&index).unwrap(), before, "{name}");
            continue;
        }
        let after = fs::read(&index).unwrap();
        assert_eq!(after[..12], before[..12], "{name}");
        for part in ["TREE", "UNTR", "EOIE", "IEOT", "sdir"] {
            let has = |bytes: &[u8]| memchr::memmem::find(bytes, part.as_bytes()).is_some();
            assert_eq!(has(&after), has(&before), "{name}: {part}");
        }
    }
}

#[test]
fn the_trees_that_the_index_remembers_are_true_after_a_commit() {
    for (way, commit) in WAYS {
        let world = World::new();
        let dir = world.repository("r");
        world.commit(&dir, &[(PLAN, "1\n"), ("ralph/below/x", "1"), ("z/y/x", "1"), ("A/b", "1")]);
        world.git(&dir, &["write-tree"]);
        commit_and_check(&world, &dir, commit, "2\n", way);
        assert_eq!(world.id(&dir, "HEAD^{tree}").as_str(), world.git(&dir, &["write-tree"]));
        world.git(&dir, &["fsck", "--cache", "--strict"]);
    }
}

#[test]
fn an_unborn_branch_gets_its_first_commit_beside_what_is_staged() {
    for (way, commit) in WAYS {
        for staged in [false, true] {
            let world = World::new();
            let dir = world.path("r");
            world.git(&world.root, &["init", "-q", "-b", "deep/er", dir.as_str()]);
            if staged {
                write(&dir.join("staged"), "1");
                write(&dir.join("z"), "1");
                world.git(&dir, &["add", "."]);
            }
            commit_and_check(&world, &dir, commit, "1\n", way);
            commit_and_check(&world, &dir, commit, "2\n", way);
            assert_eq!(world.git(&dir, &["rev-list", "--count", "HEAD"]), "2");
        }
    }
}

#[test]
fn a_file_that_is_new_is_taken_in_wherever_it_sorts() {
    for (way, commit) in WAYS {
        let world = World::new();
        let dir = world.repository("r");
        write(&dir.join("staged"), "1");
        world.git(&dir, &["add", "."]);
        for name in
            ["0first", "m/iddle", "src.x", "src-x", "src/a", "src/z/y", "zz", "zz.d/x", "é \n"]
        {
            let paths = [PathBuf::from(name), PathBuf::from("a.txt")];
            write(&dir.join(name), name);
            write(&dir.join("a.txt"), name);
            let made = commit(&world.open(&dir), &request(&paths, "x")).unwrap().unwrap();
            assert_eq!(made.paths.len(), 2, "{way} {name}");
            assert_eq!(status(&world, &dir), ["A  staged"], "{way} {name}");
            world.git(&dir, &["fsck", "--strict"]);
        }
    }
}

#[test]
fn a_mode_alone_is_a_change_and_a_staged_version_is_named() {
    for (way, commit) in WAYS {
        let world = World::new();
        let dir = world.repository("r");
        let git = world.open(&dir);
        let paths = [PathBuf::from("a.txt")];
        fs::set_permissions(dir.join("a.txt"), fs::Permissions::from_mode(0o755)).unwrap();
        commit(&git, &request(&paths, "x")).unwrap().unwrap();
        assert!(world.git(&dir, &["ls-tree", "HEAD", "a.txt"]).starts_with("100755"), "{way}");
        write(&dir.join("a.txt"), "staged\n");
        world.git(&dir, &["add", "a.txt"]);
        let staged = world.id(&dir, ":a.txt");
        write(&dir.join("a.txt"), "work tree\n");
        let made = commit(&git, &request(&paths, "x")).unwrap().unwrap();
        assert_eq!(made.displaced, [(paths[0].clone(), staged)], "{way}");
        assert_eq!(status(&world, &dir), Vec::<String>::new(), "{way}");
        // Staged already as it is committed, or only promised: nothing is lost.
        write(&dir.join("a.txt"), "both\n");
        write(&dir.join("new"), "new\n");
        world.git(&dir, &["add", "a.txt"]);
        world.git(&dir, &["add", "-N", "new"]);
        let paths = [paths[0].clone(), PathBuf::from("new")];
        let made = commit(&git, &request(&paths, "x")).unwrap().unwrap();
        assert_eq!((made.displaced, made.paths), (vec![], paths.to_vec()), "{way}");
        assert_eq!(status(&world, &dir), Vec::<String>::new(), "{way}");
    }
}

#[test]
fn a_conflict_a_way_out_and_an_odd_file_are_refused_alike() {
    for (way, commit) in WAYS {
        let world = World::new();
        let dir = world.repository("r");
        world.git(&dir, &["checkout", "-q", "-b", "side"]);
        world.commit(&dir, &[("a.txt", "side\n")]);
        world.git(&dir, &["checkout", "-q", "main"]);
        let base = world.commit(&dir, &[("a.txt", "main\n")]);
        assert!(world.try_git(&dir, &["merge", "-q", "side"]).is_err());
        let git = world.open(&dir);
        let error = commit(&git, &request(&[PathBuf::from("a.txt")], "x")).unwrap_err();
        assert!(matches!(error, CommitError::Unmerged { .. }), "{way}: {error:?}");
        std::os::unix::fs::symlink("/etc", dir.join("link")).unwrap();
        for path in ["../x", "/etc/passwd", ".git/config", "link/passwd"] {
            let paths = [PathBuf::from(path)];
            assert!(commit(&git, &request(&paths, "x")).is_err(), "{way}: {path}");
        }
        assert_eq!(world.head(&dir), base, "{way}");
        commit_and_check(&world, &dir, commit, "1\n", way);
    }
}

#[test]
fn a_lock_is_waited_for_and_one_that_stays_is_explained_with_nothing_moved() {
    for (way, commit) in WAYS {
        let world = World::new();
        let dir = world.repository("r");
        let base = world.head(&dir);
        let git = world.open(&dir);
        write(&dir.join(PLAN), "1\n");
        let (lock, paths) = (dir.join(".git/index.lock"), plan());
        let at_once = CommitRequest { patience: Duration::ZERO, ..request(&paths, "x") };
        let held = fs::File::create(&lock).unwrap();
        let error = commit(&git, &at_once).unwrap_err();
        let CommitError::Git(GitError::Locked { holder: Holder::Alive { pid, .. }, .. }) = error
        else {
            panic!("{way}: {error:?}")
        };
        assert_eq!(pid, std::process::id());
        drop(held);
        let error = commit(&git, &at_once).unwrap_err();
        let CommitError::Git(locked @ GitError::Locked { holder: Holder::Dead, .. }) = &error
        else {
            panic!("{way}: {error:?}")
        };
        assert!(locked.hint().unwrap().contains("rm '"), "{way}");
        assert_eq!((world.head(&dir), status(&world, &dir)), (base, vec![format!("?? {PLAN}")]));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| commit(&git, &request(&paths, "x")).unwrap());
            fs::remove_file(&lock).unwrap();
            assert!(waiting.join().unwrap().is_some(), "{way}");
        });
        for name in ["HEAD.lock", "refs/heads/main.lock"] {
            let lock = dir.join(".git").join(name);
            write(&lock, "");
            write(&dir.join(PLAN), name);
            let before = world.head(&dir);
            let error = commit(&git, &request(&paths, "x")).unwrap_err();
            assert!(matches!(error, CommitError::Git(GitError::Locked { .. })), "{way}: {error:?}");
            assert_eq!(world.head(&dir), before, "{way}: {name}");
            assert_eq!(status(&world, &dir), [format!("M {PLAN}")], "{way}: {name}");
            fs::remove_file(lock).unwrap();
            commit(&git, &request(&paths, "x")).unwrap().unwrap();
        }
    }
}

/// Makes a lock as a Ralph leaves it that dies with it.
fn leave_lock_behind(path: &Utf8Path) {
    let lock = LockFile::take(path.as_std_path(), Duration::ZERO).unwrap();
    let permissions = fs::metadata(path).unwrap().permissions();
    drop(lock);
    write(path, "");
    fs::set_permissions(path, permissions).unwrap();
}

#[test]
fn a_crash_after_the_branch_moved_is_healed_by_the_next_commit() {
    for (way, commit) in WAYS {
        for then in ["2\n", "3\n"] {
            let world = World::new();
            let dir = world.repository("r");
            disorder(&world, &dir);
            let expected = status(&world, &dir);
            let index = index_of(&dir);
            write(&dir.join(PLAN), "2\n");
            let git = world.open(&dir);
            commit(&git, &request(&plan(), "x")).unwrap().unwrap();
            fs::write(dir.join(".git/index"), index).unwrap();
            leave_lock_behind(&dir.join(".git/index.lock"));
            assert_ne!(status(&world, &dir), expected, "{way}");
            write(&dir.join(PLAN), then);
            let made = commit(&git, &request(&plan(), "x")).unwrap();
            assert_eq!(made.is_some(), then == "3\n", "{way}");
            assert_eq!(status(&world, &dir), expected, "{way}");
            world.git(&dir, &["fsck", "--strict", "--no-dangling"]);
        }
    }
}

#[test]
fn a_change_of_the_same_size_right_after_another_was_staged_is_still_seen() {
    let world = World::new();
    let dir = world.repository("r");
    world.commit(&dir, &[(PLAN, "1\n")]);
    let git = world.open(&dir);
    for round in 0..20 {
        let number = round % 10;
        write(&dir.join("a.txt"), &format!("staged {number}\n"));
        world.git(&dir, &["add", "a.txt"]);
        write(&dir.join("a.txt"), &format!("change {number}\n"));
        write(&dir.join(PLAN), &format!("{number}\n"));
        commit_in_process(&git, &request(&plan(), "x")).unwrap();
        assert_eq!(status(&world, &dir), ["MM a.txt"], "{round}");
    }
}

#[test]
fn a_file_that_was_staged_in_the_second_of_the_index_is_looked_into_in_the_next() {
    let world = World::new();
    let dir = world.repository("r");
    world.commit(&dir, &[(PLAN, "1\n")]);
    write(&dir.join("a.txt"), "staged\n");
    let at = |nanoseconds| std::time::UNIX_EPOCH + Duration::new(1_700_000_000, nanoseconds);
    let touch = |path: &Utf8Path, time| {
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    };
    touch(&dir.join("a.txt"), at(100));
    world.git(&dir, &["add", "a.txt"]);
    touch(&dir.join(".git/index"), at(500_000_000));
    write(&dir.join(PLAN), "2\n");
    commit_in_process(&world.open(&dir), &request(&plan(), "x")).unwrap().unwrap();
    let index = fs::metadata(dir.join(".git/index")).unwrap();
    assert_eq!(index.modified().unwrap(), at(500_000_000));
}

#[test]
fn fifty_committers_and_somebody_who_asks_nobody_lose_nothing() {
    let world = World::new();
    let dir = world.repository("r");
    let start: usize = world.git(&dir, &["rev-list", "--count", "HEAD"]).parse().unwrap();
    let theirs = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..50 {
            let (world, dir) = (&world, &dir);
            scope.spawn(move || {
                let name = PathBuf::from(format!("ralph/plan-{number}"));
                write(&dir.join(name.to_str().unwrap()), &number.to_string());
                let commit = WAYS[usize::from(number % 5 != 0)].1;
                let git = world.open(dir);
                let made = loop {
                    match commit(&git, &request(std::slice::from_ref(&name), "ours")) {
                        Err(CommitError::Moved) => {}
                        made => break made,
                    }
                };
                assert_eq!(made.unwrap().unwrap().paths, [name]);
            });
        }
        scope.spawn(|| {
            for _ in 0..20 {
                let head = world.head(&dir);
                let tree = format!("{head}^{{tree}}");
                let args = ["commit-tree", "-p", head.as_str(), "-m", "theirs", &tree];
                let commit = world.git(&dir, &args);
                let moved = ["update-ref", "HEAD", &commit, head.as_str()];
                if world.try_git(&dir, &moved).is_ok() {
                    theirs.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    });
    let count: usize = world.git(&dir, &["rev-list", "--count", "HEAD"]).parse().unwrap();
    assert_eq!(count, start + 50 + theirs.load(Ordering::Relaxed));
    assert_eq!(
        world.git(&dir, &["ls-tree", "-r", "--name-only", "HEAD", "ralph"]).lines().count(),
        50
    );
    assert_eq!(status(&world, &dir), Vec::<String>::new());
    world.git(&dir, &["fsck", "--strict"]);
}

#[test]
fn nothing_that_a_repository_names_is_started_and_its_names_for_people_are_heard() {
    let world = World::new();
    let dir = world.repository("r");
    let trap = world.path("trap");
    write(&trap, &format!("#!/bin/sh\ntouch {}\ncat\n", world.path("sprung")));
    fs::set_permissions(&trap, fs::Permissions::from_mode(0o755)).unwrap();
    for key in ["core.fsmonitor", "filter.x.clean", "gpg.program", "core.editor", "core.pager"] {
        world.git(&dir, &["config", key, trap.as_str()]);
    }
    for name in ["pre-commit", "reference-transaction", "post-index-change", "commit-msg"] {
        fs::create_dir_all(dir.join(".git/hooks")).unwrap();
        fs::copy(&trap, dir.join(".git/hooks").join(name)).unwrap();
    }
    world.git(&dir, &["config", "commit.gpgSign", "true"]);
    world.git(&dir, &["config", "user.name", "Agent"]);
    world.git(&dir, &["config", "author.email", "agent@example.org"]);
    write(&dir.join(PLAN), "1\n");
    let git = world.open(&dir);
    commit_in_process(&git, &request(&plan(), "x")).unwrap().unwrap();
    assert!(!world.path("sprung").exists());
    let told = ["log", "-1", "--format=%an <%ae> %cn <%ce>"];
    assert_eq!(world.git(&dir, &told), "Agent <agent@example.org> Agent <p@example.org>");
    write(&dir.join(".git/info/attributes"), "ralph/* filter=x\n");
    write(&dir.join(PLAN), "2\n");
    let error = commit_files(&git, &request(&plan(), "x")).unwrap_err();
    assert!(matches!(error, CommitError::NeedsFilter { .. }), "{error:?}");
    assert!(!world.path("sprung").exists());
    fs::remove_file(dir.join(".git/info/attributes")).unwrap();
    // Line endings are git's to decide.
    write(&dir.join(".gitattributes"), "* text=auto\n");
    write(&dir.join(PLAN), "2\r\n");
    commit_files(&git, &request(&plan(), "x")).unwrap().unwrap();
    assert_eq!(world.git(&dir, &["cat-file", "-s", &format!("HEAD:{PLAN}")]), "2");
}

#[test]
fn without_an_identity_ralph_commits_as_itself_in_process_too() {
    let world = World::new();
    let dir = world.repository("r");
    write(&world.path("gitconfig"), "");
    write(&dir.join(PLAN), "1\n");
    commit_in_process(&world.open(&dir), &request(&plan(), "x")).unwrap().unwrap();
    let author = world.git(&dir, &["log", "-1", "--format=%an <%ae>"]);
    assert_eq!(author, "Ralph <ralph@localhost>");
}

#[test]
fn what_hangs_a_reader_is_left_to_git_which_has_a_timeout() {
    for name in ["objects/info/alternates", "config", "index", "packed-refs", "objects/pack/x.pack"]
    {
        let world = World::new();
        let dir = world.repository("r");
        // Objects that are files of their own are found without a look at anything else.
        world.git(&dir, &["gc", "--quiet"]);
        let git = world.open(&dir);
        write(&dir.join(PLAN), "1\n");
        let path = dir.join(".git").join(name);
        let _ = fs::remove_file(&path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, path.as_std_path(), fifo, mode, 0).unwrap();
        let error = commit_in_process(&git, &request(&plan(), "x")).unwrap_err();
        assert!(matches!(error, Setback::Unfit(_)), "{name}: {error:?}");
    }
    let world = World::new();
    let dir = world.repository("r");
    let tree = world.id(&dir, "HEAD^{tree}").to_string();
    let object = dir.join(".git/objects").join(&tree[..2]).join(&tree[2..]);
    fs::remove_file(&object).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, object.as_std_path(), fifo, rustix::fs::Mode::RUSR, 0)
        .unwrap();
    write(&dir.join(PLAN), "1\n");
    let error = commit_in_process(&world.open(&dir), &request(&plan(), "x")).unwrap_err();
    assert!(matches!(error, Setback::Unfit(_)), "{error:?}");
}

#[test]
fn logs_are_not_begun_where_the_person_wants_none_and_no_link_is_written_through() {
    let world = World::new();
    let dir = world.repository("r");
    world.git(&dir, &["config", "core.logAllRefUpdates", "false"]);
    fs::remove_dir_all(dir.join(".git/logs")).unwrap();
    let git = world.open(&dir);
    write(&dir.join(PLAN), "1\n");
    commit_in_process(&git, &request(&plan(), "x")).unwrap().unwrap();
    assert!(!dir.join(".git/logs/HEAD").exists());
    write(&world.path("victim"), "");
    fs::create_dir_all(dir.join(".git/logs")).unwrap();
    std::os::unix::fs::symlink(world.path("victim"), dir.join(".git/logs/HEAD")).unwrap();
    write(&dir.join(PLAN), "2\n");
    let before = world.head(&dir);
    let error = commit_in_process(&git, &request(&plan(), "x")).unwrap_err();
    assert!(matches!(error, Setback::Unfit(_)), "{error:?}");
    assert_eq!((world.head(&dir), read(&world.path("victim"))), (before, String::new()));
}
