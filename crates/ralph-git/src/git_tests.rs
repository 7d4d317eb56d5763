use std::path::PathBuf;

use super::testing::{World, write};
use super::*;

#[test]
fn a_repository_is_found_from_a_subdirectory_a_linked_worktree_and_a_submodule() {
    let world = World::new();
    let dir = world.repository("r");
    let git = world.open(&dir.join("src"));
    assert_eq!(git.place().worktree.as_ref(), Some(&dir));
    assert_eq!(git.place().git_dir, git.place().common_dir);

    let linked = world.path("linked");
    world.git(&dir, &["worktree", "add", "-q", linked.as_str()]);
    let git = world.open(&linked);
    assert_eq!(git.place().common_dir, dir.join(".git"));
    assert_eq!(git.place().git_dir, dir.join(".git/worktrees/linked"));
    assert_eq!(git.head().unwrap().id(), Some(&world.head(&linked)));

    let other = world.repository("other");
    world.git(&other, &["submodule", "--quiet", "add", dir.as_str(), "sub"]);
    let git = world.open(&other.join("sub"));
    assert_eq!(git.place().git_dir, other.join(".git/modules/sub"));
    assert_eq!(git.status().unwrap(), []);
    assert!(matches!(
        Git::discover(world.program(), &world.root),
        Err(GitError::NotARepository { .. })
    ));
}

#[test]
fn a_head_is_unborn_a_branch_or_detached() {
    let world = World::new();
    let dir = world.path("r");
    world.git(&world.root, &["init", "-q", dir.as_str()]);
    let git = world.open(&dir);
    let name = "refs/heads/main".to_owned();
    assert_eq!(git.head().unwrap(), Head::Unborn { name: name.clone() });
    assert_eq!(git.root_commits().unwrap(), []);
    assert_eq!(git.refs().unwrap().tips(), []);
    let id = world.commit(&dir, &[("a", "1")]);
    assert_eq!(git.head().unwrap(), Head::Branch { name, id: id.clone() });
    world.git(&dir, &["checkout", "-q", "--detach"]);
    assert_eq!(git.head().unwrap(), Head::Detached { id: id.clone() });
    assert_eq!(git.root_commits().unwrap(), [id]);
}

#[test]
fn history_is_answered_by_ancestry() {
    let world = World::new();
    let dir = world.repository("r");
    let base = world.head(&dir);
    let ours = world.commit(&dir, &[("ours", "1")]);
    world.git(&dir, &["checkout", "-q", "-b", "side", base.as_str()]);
    let theirs = world.commit(&dir, &[("theirs", "1")]);
    let git = world.open(&dir);
    assert!(git.is_ancestor(&base, &ours).unwrap());
    assert!(!git.is_ancestor(&ours, &theirs).unwrap());
    assert_eq!(git.merge_base(&ours, &theirs).unwrap(), Some(base.clone()));
    let both = git.new_commits(&[ours.clone(), theirs.clone()], std::slice::from_ref(&base));
    assert_eq!(both.unwrap().len(), 2);
    assert_eq!(
        git.new_commits(std::slice::from_ref(&base), std::slice::from_ref(&ours)).unwrap(),
        []
    );
    let found = git.find_commit(&ours.as_str()[..10].to_uppercase()).unwrap().unwrap();
    assert_eq!((found.id, found.parents), (ours, vec![base]));
    for nothing in ["", "main", "HEAD", "0123456789", "x; rm", "--help"] {
        assert_eq!(git.find_commit(nothing).unwrap(), None, "{nothing}");
    }
}

#[test]
fn a_branch_that_is_named_like_an_id_is_not_taken_for_one() {
    let world = World::new();
    let dir = world.repository("r");
    world.git(&dir, &["branch", "deadbeef"]);
    assert_eq!(world.open(&dir).find_commit("deadbeef").unwrap(), None);
}

#[test]
fn changes_come_with_renames_and_files_are_read_as_a_commit_has_them() {
    let world = World::new();
    let dir = world.repository("r");
    let base = world.head(&dir);
    std::fs::rename(dir.join("src/lib.rs"), dir.join("moved \u{e9}.rs")).unwrap();
    let next = world.commit(&dir, &[("a.txt", "b\n")]);
    let git = world.open(&dir);
    let changes = git.changes(&base, &next).unwrap();
    let kinds: Vec<(PathBuf, ChangeKind)> =
        changes.into_iter().map(|change| (change.path, change.kind)).collect();
    assert_eq!(
        kinds,
        [
            (PathBuf::from("a.txt"), ChangeKind::Modified),
            (
                PathBuf::from("moved \u{e9}.rs"),
                ChangeKind::Renamed { from: PathBuf::from("src/lib.rs") }
            ),
        ]
    );
    assert_eq!(git.file_at(&base, Path::new("a.txt")).unwrap(), Some(b"a\n".to_vec()));
    assert_eq!(git.file_at(&next, Path::new("src/lib.rs")).unwrap(), None);
    assert_eq!(git.file_at(&base, Path::new("src")).unwrap(), None);
}

#[test]
fn a_snapshot_has_every_ref_and_the_detached_heads_of_other_worktrees() {
    let world = World::new();
    let dir = world.repository("r");
    world.git(&dir, &["tag", "-a", "-m", "x", "v1"]);
    let linked = world.path("linked");
    world.git(&dir, &["worktree", "add", "-q", "--detach", linked.as_str()]);
    let alone = world.commit(&linked, &[("b", "1")]);
    let snapshot = world.open(&dir).refs().unwrap();
    assert_eq!(snapshot.id_of("refs/heads/main"), Some(&world.head(&dir)));
    assert_eq!(snapshot.id_of("refs/tags/v1"), Some(&world.id(&dir, "v1")));
    assert!(snapshot.tips().contains(&alone));
}

#[test]
fn a_missing_git_and_a_hanging_one_are_told_apart() {
    let world = World::new();
    let dir = world.repository("r");
    let program = GitProgram::new("/nowhere/git", []);
    let git = Git::at(program, RepositoryLocation::discover(&dir).unwrap());
    assert!(matches!(git.root_commits(), Err(GitError::NotFound { .. })));
    // A configuration that includes a FIFO blocks every git process.
    let fifo = world.path("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        fifo.as_std_path(),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    world.git(&dir, &["config", "include.path", fifo.as_str()]);
    let call = Call::new(&["status"]).timeout(std::time::Duration::from_millis(300));
    assert!(matches!(world.open(&dir).call(call), Err(GitError::TimedOut { .. })));
}

#[test]
fn a_re_pointed_repository_is_refused() {
    let world = World::new();
    let dir = world.repository("r");
    let other = world.repository("other");
    let linked = world.path("linked");
    world.git(&dir, &["worktree", "add", "-q", linked.as_str()]);
    let (main, worktree) = (world.open(&dir), world.open(&linked));
    let commondir = dir.join(".git/worktrees/linked/commondir");
    let honest = std::fs::read(&commondir).unwrap();
    write(&commondir, other.join(".git").as_str());
    assert!(matches!(worktree.head(), Err(GitError::Repointed { .. })));
    std::fs::write(&commondir, honest).unwrap();
    worktree.head().unwrap();
    write(&linked.join(".git"), &format!("gitdir: {other}/.git\n"));
    assert!(matches!(worktree.head(), Err(GitError::Repointed { .. })));
    write(&dir.join(".git/commondir"), other.join(".git").as_str());
    assert!(matches!(main.head(), Err(GitError::Repointed { .. })));
    std::fs::remove_file(dir.join(".git/commondir")).unwrap();
    main.head().unwrap();
    std::fs::rename(dir.join(".git"), dir.join(".git2")).unwrap();
    std::os::unix::fs::symlink(other.join(".git"), dir.join(".git")).unwrap();
    assert!(matches!(main.head(), Err(GitError::Repointed { .. })));
}

#[test]
fn a_commit_is_the_same_read_in_process_as_asked_of_git() {
    let world = World::new();
    let dir = world.repository("r");
    let first = world.head(&dir);
    let second = world.commit(&dir, &[("b", "b")]);
    let git = world.open(&dir);
    let tree = git.find_commit(second.as_str()).unwrap().unwrap().tree;
    let absent = Oid::parse(b"0123456789012345678901234567890123456789").unwrap();
    for pack in [false, true] {
        if pack {
            world.git(&dir, &["repack", "-adq"]);
        }
        for id in [&first, &second, &tree, &absent] {
            let asked = git.find_commit(id.as_str()).unwrap();
            assert_eq!(git.commit_header(id).unwrap(), asked, "{id}");
        }
        let parents = git.commit_header(&second).unwrap().map(|header| header.parents);
        assert_eq!(parents, Some(vec![first.clone()]));
    }
}
