//! Which files a commit includes or refuses, and the state of the index afterwards.

use super::*;

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
        // Already staged as committed, or only intent-to-add: nothing is lost.
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
fn where_modes_do_not_count_they_are_not_committed() {
    let world = World::new();
    let dir = world.repository("r");
    world.git(&dir, &["config", "core.fileMode", "false"]);
    for name in ["a.txt", "new"] {
        write(&dir.join(name), "2\n");
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o777)).unwrap();
        commit_in_process(&world.open(&dir), &request(&[name.into()], "x")).unwrap().unwrap();
        let entry = world.git(&dir, &["ls-tree", "HEAD", name]);
        assert!(entry.starts_with("100644 "), "{entry}");
    }
    assert_eq!(status(&world, &dir), Vec::<String>::new());
}

#[test]
fn a_file_that_never_was_is_no_change_and_one_that_is_gone_is() {
    for (way, commit) in WAYS {
        let world = World::new();
        let dir = world.repository("r");
        let git = world.open(&dir);
        let paths = [PathBuf::from("never"), PathBuf::from("a.txt")];
        assert_eq!(commit(&git, &request(&paths, "x")).unwrap(), None, "{way}");
        assert_eq!(commit(&git, &request(&paths[..1], "x")).unwrap(), None, "{way}");
        write(&dir.join("a.txt"), "2\n");
        let made = commit(&git, &request(&paths, "x")).unwrap().unwrap();
        assert_eq!(made.paths, &paths[1..], "{way}");
        fs::remove_file(dir.join("a.txt")).unwrap();
        let made = commit(&git, &request(&paths, "x")).unwrap().unwrap();
        assert_eq!(made.paths, &paths[1..], "{way}");
        assert_eq!(status(&world, &dir), Vec::<String>::new(), "{way}");
    }
}
