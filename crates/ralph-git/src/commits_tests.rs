use super::super::testing::{World, read, write};
use super::*;
use camino::Utf8Path;

fn commit(world: &World, dir: &Utf8Path, paths: &[&str]) -> Result<Option<Committed>, CommitError> {
    let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    commit_paths(
        &world.open(dir),
        &CommitRequest {
            paths: &paths,
            message: "plan: take note\n\nWhy.\n",
            signing: Signing::Unsigned,
            patience: Duration::ZERO,
        },
    )
}

fn status(world: &World, dir: &Utf8Path) -> Vec<String> {
    let status = world.git(dir, &["status", "--porcelain", "-uall", "-z"]);
    status.split('\0').filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn files_of(world: &World, dir: &Utf8Path, commit: &Oid) -> Vec<String> {
    let args = ["show", "--format=", "--name-status", "--no-renames", commit.as_str()];
    world.git(dir, &args).lines().map(|line| line.replace('\t', " ")).collect()
}

#[test]
fn only_the_given_paths_are_committed_whatever_is_staged_or_dirty() {
    let world = World::new();
    let dir = world.repository("r");
    world.commit(&dir, &[("ralph/old", "1"), ("ralph/plan.jsonl", "1"), ("b.txt", "b")]);
    let base = world.head(&dir);
    write(&dir.join("staged.txt"), "staged");
    write(&dir.join("a.txt"), "staged change");
    world.git(&dir, &["add", "staged.txt", "a.txt"]);
    write(&dir.join("promised.txt"), "later");
    world.git(&dir, &["add", "-N", "promised.txt"]);
    world.git(&dir, &["rm", "-q", "--cached", "b.txt"]);
    write(&dir.join("src/lib.rs"), "dirty");
    write(&dir.join("ralph/plan.jsonl"), "2");
    write(&dir.join("ralph/new \u{e9}\n"), "new");
    write(&dir.join("ralph/.gitignore"), "runs/\n");
    write(&dir.join("ralph/runs/x.log"), "log");
    fs::remove_file(dir.join("ralph/old")).unwrap();
    let mut before = status(&world, &dir);
    let made = commit(&world, &dir, &["ralph"]).unwrap().unwrap();
    assert_eq!((made.parent, made.displaced), (Some(base), vec![]));
    assert_eq!(made.id, world.head(&dir));
    assert_eq!(
        files_of(&world, &dir, &made.id),
        [
            "A ralph/.gitignore",
            "A \"ralph/new \\303\\251\\n\"",
            "D ralph/old",
            "M ralph/plan.jsonl"
        ]
    );
    before.retain(|line| !line.contains("ralph"));
    assert_eq!(status(&world, &dir), before);
    assert_eq!(
        world.git(&dir, &["log", "-1", "--format=%an <%ae> %cn|%s|%b"]),
        "Person <p@example.org> Person|plan: take note|Why."
    );
    assert!(world.git(&dir, &["reflog", "-1"]).contains("commit: plan: take note"));
    world.git(&dir, &["fsck", "--strict"]);
    // Nothing more to commit, and nothing left behind.
    assert_eq!(commit(&world, &dir, &["ralph"]).unwrap(), None);
    let left: Vec<String> = dir
        .join(".git")
        .read_dir_utf8()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_owned())
        .filter(|name| {
            name.starts_with("ralph-")
                || Path::new(name).extension().is_some_and(|end| end == "lock")
        })
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn a_file_is_committed_as_the_work_tree_has_it_and_another_staged_version_is_named() {
    let world = World::new();
    let dir = world.repository("r");
    write(&dir.join("a.txt"), "staged\n");
    world.git(&dir, &["add", "a.txt"]);
    let staged = world.id(&dir, ":a.txt");
    write(&dir.join("a.txt"), "work tree\n");
    let made = commit(&world, &dir, &["a.txt"]).unwrap().unwrap();
    assert_eq!(world.git(&dir, &["show", "HEAD:a.txt"]), "work tree");
    assert_eq!(made.displaced, [(PathBuf::from("a.txt"), staged.clone())]);
    assert_eq!(world.git(&dir, &["cat-file", "-p", staged.as_str()]), "staged");
    assert_eq!(status(&world, &dir), Vec::<String>::new());
    // An intent-to-add or ignored file is added if it is named.
    write(&dir.join(".git/info/exclude"), "ignored\n");
    write(&dir.join("ignored"), "1");
    write(&dir.join("intended"), "1");
    world.git(&dir, &["add", "-N", "intended"]);
    let made = commit(&world, &dir, &["intended", "ignored"]).unwrap().unwrap();
    assert_eq!(files_of(&world, &dir, &made.id), ["A ignored", "A intended"]);
    assert_eq!(status(&world, &dir), Vec::<String>::new());
}

/// Git would remove the one from the index and miss the other.
#[test]
fn a_file_that_git_was_told_not_to_look_at_is_committed_all_the_same() {
    for flag in ["--skip-worktree", "--assume-unchanged"] {
        let world = World::new();
        let dir = world.repository("r");
        world.commit(&dir, &[("ralph/plan.jsonl", "1"), ("ralph/other", "1")]);
        world.git(&dir, &["update-index", flag, "ralph/plan.jsonl", "ralph/other"]);
        write(&dir.join("ralph/plan.jsonl"), "22");
        let made = commit(&world, &dir, &["ralph/plan.jsonl"]).unwrap().unwrap();
        assert_eq!(files_of(&world, &dir, &made.id), ["M ralph/plan.jsonl"], "{flag}");
        assert_eq!(world.git(&dir, &["show", "HEAD:ralph/plan.jsonl"]), "22", "{flag}");
        assert_eq!(status(&world, &dir), [""; 0], "{flag}");
        let kept = world.git(&dir, &["ls-files", "-v", "ralph/other"]);
        assert!(!kept.starts_with("H "), "{flag}: what is not named stays as it was: {kept}");
    }
}

#[test]
fn what_a_sparse_checkout_leaves_out_is_not_committed_as_removed() {
    let world = World::new();
    let dir = world.repository("r");
    world.commit(&dir, &[("ralph/specs/a.md", "a"), ("ralph/plan.jsonl", "1")]);
    world.git(&dir, &["sparse-checkout", "set", "--no-cone", "/*", "!/ralph/specs/"]);
    assert!(!dir.join("ralph/specs/a.md").exists());
    write(&dir.join("ralph/plan.jsonl"), "22");
    let made = commit(&world, &dir, &["ralph", "ralph/specs/a.md"]).unwrap().unwrap();
    assert_eq!(files_of(&world, &dir, &made.id), ["M ralph/plan.jsonl"]);
    assert_eq!(status(&world, &dir), [""; 0]);
}

#[test]
fn an_unmerged_path_is_refused_and_others_are_committed_during_a_merge() {
    let world = World::new();
    let dir = world.repository("r");
    world.git(&dir, &["checkout", "-q", "-b", "side"]);
    world.commit(&dir, &[("a.txt", "side\n")]);
    world.git(&dir, &["checkout", "-q", "main"]);
    let base = world.commit(&dir, &[("a.txt", "main\n")]);
    assert!(world.try_git(&dir, &["merge", "-q", "side"]).is_err());
    write(&dir.join("ralph/plan"), "1");
    let error = commit(&world, &dir, &["a.txt", "ralph"]).unwrap_err();
    assert!(matches!(error, CommitError::Unmerged { .. }), "{error:?}");
    assert_eq!(world.head(&dir), base);
    commit(&world, &dir, &["ralph"]).unwrap().unwrap();
    assert_eq!(status(&world, &dir), ["UU a.txt"]);
}

#[test]
fn an_unborn_branch_a_detached_head_and_a_linked_worktree_are_committed_on() {
    let world = World::new();
    let dir = world.path("r");
    world.git(&world.root, &["init", "-q", dir.as_str()]);
    write(&dir.join("ralph/plan"), "1");
    write(&dir.join("staged"), "1");
    world.git(&dir, &["add", "staged"]);
    let first = commit(&world, &dir, &["ralph"]).unwrap().unwrap();
    assert_eq!(first.parent, None);
    assert_eq!(status(&world, &dir), ["A  staged"]);
    world.git(&dir, &["checkout", "-q", "--detach"]);
    write(&dir.join("ralph/plan"), "2");
    let second = commit(&world, &dir, &["ralph"]).unwrap().unwrap();
    assert_eq!(world.head(&dir), second.id);
    assert_eq!(world.id(&dir, "main"), first.id);
    let linked = world.path("linked");
    world.git(&dir, &["worktree", "add", "-q", linked.as_str(), "main"]);
    write(&linked.join("ralph/plan"), "3");
    let third = commit(&world, &linked, &["ralph"]).unwrap().unwrap();
    assert_eq!(world.id(&dir, "main"), third.id);
    assert_eq!(status(&world, &linked), Vec::<String>::new());
    assert_eq!(world.head(&dir), second.id);
}

#[test]
fn an_index_of_any_make_is_left_in_step() {
    for (key, value) in
        [("core.splitIndex", "true"), ("index.version", "4"), ("index.sparse", "true")]
    {
        let world = World::new();
        let dir = world.repository("r");
        world.git(&dir, &["config", key, value]);
        write(&dir.join("staged"), "1");
        world.git(&dir, &["add", "staged"]);
        write(&dir.join("ralph/plan"), "1");
        commit(&world, &dir, &["ralph"]).unwrap().unwrap();
        assert_eq!(status(&world, &dir), ["A  staged"], "{key}");
    }
}

#[test]
fn a_held_index_is_explained_and_nothing_has_moved() {
    let world = World::new();
    let dir = world.repository("r");
    let base = world.head(&dir);
    write(&dir.join("ralph/plan"), "1");
    write(&dir.join(".git/index.lock"), "");
    let error = commit(&world, &dir, &["ralph"]).unwrap_err();
    let CommitError::Git(locked @ GitError::Locked { .. }) = &error else { panic!("{error:?}") };
    assert!(locked.hint().unwrap().contains("no longer exists"), "{:?}", locked.hint());
    assert_eq!(world.head(&dir), base);
    assert_eq!(read(&dir.join(".git/index.lock")), "");
    fs::remove_file(dir.join(".git/index.lock")).unwrap();
    write(&dir.join(".git/HEAD.lock"), "");
    let error = commit(&world, &dir, &["ralph"]).unwrap_err();
    assert!(matches!(error, CommitError::Git(GitError::Locked { .. })), "{error:?}");
    assert_eq!(status(&world, &dir), ["?? ralph/plan"]);
    fs::remove_file(dir.join(".git/HEAD.lock")).unwrap();
    commit(&world, &dir, &["ralph"]).unwrap().unwrap();
}

#[test]
fn without_an_identity_ralph_signs_as_itself_and_paths_stay_inside() {
    let world = World::new();
    let dir = world.repository("r");
    write(&world.path("gitconfig"), "[user]\n\tname = Only Name\n");
    write(&dir.join("ralph/plan"), "1");
    commit(&world, &dir, &["ralph/plan"]).unwrap().unwrap();
    let author = world.git(&dir, &["log", "-1", "--format=%an <%ae>"]);
    assert_eq!(author, "Only Name <ralph@localhost>");
    for outside in ["../x", "/etc/passwd", "a/../../b"] {
        let error = commit(&world, &dir, &[outside]).unwrap_err();
        assert!(matches!(error, CommitError::Outside { .. }), "{outside}: {error:?}");
    }
    std::os::unix::fs::symlink("/etc", dir.join("link")).unwrap();
    assert!(commit(&world, &dir, &["link/passwd"]).is_err());
    assert!(commit(&world, &dir, &[".git/config"]).is_err());
}

#[test]
fn a_file_that_a_filter_would_change_is_refused_and_others_are_not() {
    let world = World::new();
    let dir = world.repository("r");
    world.git(&dir, &["config", "filter.lfs.clean", "cat"]);
    write(&dir.join(".gitattributes"), "*.bin filter=lfs\n");
    write(&dir.join("x.bin"), "large");
    write(&dir.join("ralph/plan"), "1");
    let error = commit(&world, &dir, &["x.bin"]).unwrap_err();
    assert!(matches!(error, CommitError::NeedsFilter { .. }), "{error:?}");
    commit(&world, &dir, &["ralph", ".gitattributes"]).unwrap().unwrap();
}

#[test]
fn a_branch_that_moves_meanwhile_is_not_moved_back() {
    let world = World::new();
    let dir = world.repository("r");
    let git = world.open(&dir);
    let head = git.head().unwrap();
    let theirs = world.commit(&dir, &[("theirs", "1")]);
    let drivers = Drivers::of(&git).unwrap();
    let bench = CommitSteps { git: &git, drivers: &drivers, base: head.id().unwrap() };
    let ours = head.id().unwrap().clone();
    let error = bench.advance(&head, &ours, "x").unwrap_err();
    assert!(matches!(error, CommitError::Moved), "{error:?}");
    assert_eq!(world.head(&dir), theirs);
}

#[test]
fn a_signature_is_made_by_the_persons_program_and_never_by_the_repositorys() {
    let world = World::new();
    let dir = world.repository("r");
    let script = |name: &str| {
        let (path, trace) = (world.path(name), world.path(&format!("{name}.trace")));
        let signature = "-----BEGIN PGP SIGNATURE-----\\nx\\n-----END PGP SIGNATURE-----\\n";
        let body = format!(
            "#!/bin/sh\ncat >/dev/null\necho \"$*\" >> {trace}\nprintf '\\n[GNUPG:] SIG_CREATED D\\n' >&2\nprintf -- '{signature}'\n"
        );
        write(&path, &body);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, mode).unwrap();
        (path, trace)
    };
    let ((persons, used), (agents, planted)) = (script("persons"), script("agents"));
    let text = format!("[user]\n\tsigningKey = mine\n[gpg]\n\tprogram = {persons}\n");
    write(&world.path("gitconfig"), &text);
    for key in ["gpg.program", "gpg.openpgp.program", "user.signingKey"] {
        world.git(&dir, &["config", key, agents.as_str()]);
    }
    world.git(&dir, &["config", "commit.gpgSign", "true"]);
    write(&dir.join("ralph/plan"), "1");
    commit(&world, &dir, &["ralph"]).unwrap().unwrap();
    assert!(!used.exists(), "unsigned unless asked for");
    write(&dir.join("ralph/plan"), "2");
    let request = CommitRequest {
        paths: &[PathBuf::from("ralph")],
        message: "signed",
        signing: Signing::AsThePersonDoes,
        patience: Duration::ZERO,
    };
    let made = commit_paths(&world.open(&dir), &request).unwrap().unwrap();
    assert!(world.git(&dir, &["cat-file", "-p", made.id.as_str()]).contains("gpgsig"));
    assert!(read(&used).contains("mine"), "{}", read(&used));
    assert!(!planted.exists());
}

#[test]
fn a_change_of_the_same_size_in_the_same_second_is_not_overlooked() {
    let world = World::new();
    let dir = world.repository("r");
    let git_dir = dir.join(".git");
    let index = fs::File::options().write(true).open(git_dir.join("index")).unwrap();
    index.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
    let copy = ScratchIndex::copy_of_index(&git_dir).unwrap();
    let times = [copy.path.as_path(), git_dir.join("index").as_path()]
        .map(|path| fs::metadata(path).unwrap().modified().unwrap());
    assert_eq!(times[0], times[1]);
    drop(copy);
    for round in 0..20 {
        write(&dir.join("ralph/plan"), &(round % 2).to_string());
        commit(&world, &dir, &["ralph"]).unwrap().unwrap();
    }
}
