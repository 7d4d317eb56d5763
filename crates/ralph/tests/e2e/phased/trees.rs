//! The loop's effect on the tree: snapshots, rollback, concurrent work of a person.

use std::fs;

use super::{BUILD, Site, TASK};

#[test]
fn a_task_that_is_rolled_back_leaves_the_tree_as_it_was() {
    let script = format!("[builder]\nwrite kept.txt changed\n{BUILD}");
    let site = Site::new(&script).in_place();
    fs::write(site.path("kept.txt"), "before\n").unwrap();
    site.commit_all("a file");
    site.exits(0, &[TASK]);
    assert_eq!(site.git(&["show", "HEAD:kept.txt"]), "changed");
    fs::write(site.path("hello.txt"), "edited by hand\n").unwrap();
    let done = site.exits(0, &["--rollback"]);
    assert!(done.stderr.contains("is saved in refs/ralph/saved/"), "{done}");
    assert_eq!(fs::read_to_string(site.path("kept.txt")).unwrap(), "before\n");
    assert!(!site.path("hello.txt").exists());
    assert_eq!(site.place.env.commits()[0], "ralph: roll back task 1 of the loop");
    assert!(site.mail("task-history.md").contains("rolled back: Say hello"));
    site.assert_clean();
    site.exits(2, &["--rollback"]);
    site.exits(2, &["--resume"]);
}

#[test]
fn what_a_run_leaves_uncommitted_is_committed_iteration_by_iteration() {
    let script = format!("[builder 1]\nwrite half.txt half\nfinal on\n[builder 2]\n{BUILD}");
    let site = Site::new(&script);
    site.exits(0, &[TASK]);
    let messages = site.git(&["log", "--format=%b", "-3"]);
    assert!(messages.contains("iteration 1.") && messages.contains("iteration 2."), "{messages}");
    site.assert_clean();
}

/// Files that git cannot or must not add stop neither the task nor its snapshots (the predecessor's `addAll` did).
#[test]
fn any_tree_can_be_worked_in() {
    let odd = "run printf x > \"$(printf 'caf\\351.txt')\"; printf x > \"$(printf 'line\\nbreak')\"; ln -s nowhere dangling; mkfifo pipe; \
        git init -q nested; printf x > nested/inside.txt; printf x > secret; chmod 000 secret; \
        python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\"; true\n";
    for in_place in [false, true] {
        let site = Site::new(&format!("[builder]\n{odd}{BUILD}"));
        let site = if in_place { site.in_place() } else { site };
        site.exits(0, &[TASK]);
        let names =
            site.git(&["-c", "core.quotePath=true", "ls-tree", "-r", "--name-only", "HEAD"]);
        for name in ["dangling", "\"caf\\351.txt\"", "\"line\\nbreak\"", "hello.txt"] {
            assert!(names.lines().any(|known| known == name), "{name}\n{names}");
        }
        assert!(
            !names.contains("nested") && !names.contains("pipe") && !names.contains("sock"),
            "{names}"
        );
        site.git(&["rev-parse", "--verify", "refs/ralph/loop/1/after"]);
        site.exits(0, &["--rollback"]);
        assert!(!site.path("hello.txt").exists());
    }
}
