//! Concurrent commits: locks of others, an interrupted commit, and fifty at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::super::super::lock::{Holder, LockFile};
use super::*;

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

/// Creates a lock as a dying Ralph leaves it.
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
                        // On a busy machine a lock can be held for longer than a commit waits: it is refused, not lost.
                        Err(CommitError::Moved | CommitError::Git(GitError::Locked { .. })) => {}
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
