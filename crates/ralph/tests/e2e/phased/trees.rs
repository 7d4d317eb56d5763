//! What the loop does to the tree: snapshots, rollback, work of a person beside it.

use std::fs;

use super::{BUILD, Site, TASK};

#[test]
fn a_task_that_is_rolled_back_leaves_the_tree_as_it_was() {
    let script = format!("[builder]\nwrite kept.txt changed\n{BUILD}");
    let site = Site::new(&script);
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
