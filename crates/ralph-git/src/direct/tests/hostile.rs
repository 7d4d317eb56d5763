//! Repositories that name programs, block a reader or redirect it, and the effect of their settings.

use super::super::super::testing::read;
use super::*;

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
    // Line endings are left to git.
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
        // Loose objects are found without reading anything else.
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
