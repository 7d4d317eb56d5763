//! Clones that lack a part of the plan's history: shallow ones, and partial ones without contents.

use std::path::PathBuf;

use serde_json::Value;

use super::{Desk, PLAN, json, text};
use crate::support::process::Finished;

/// A clone of a plan that once had `t-past`, a dependency of `t-here`.
struct Clone {
    desk: Desk,
    dir: PathBuf,
}

impl Clone {
    fn made_with(option: &str) -> Clone {
        let desk = Desk::new();
        let tasks =
            r#"[{"id": "t-past", "name": "a"}, {"id": "t-here", "name": "b", "deps": ["t-past"]}]"#;
        desk.done(&["task", "add", tasks]);
        desk.done(&["task", "done"]);
        desk.done(&["task", "accept"]);
        desk.git(&["config", "uploadpack.allowFilter", "true"]);
        let origin = format!("file://{}", desk.repo().display());
        let dir = desk.repo().with_file_name("clone");
        desk.git(&["clone", "--quiet", option, &origin, dir.to_str().unwrap()]);
        Clone { desk, dir }
    }

    fn ralph(&self, args: &[&str]) -> Finished {
        self.desk.ralph_in(&self.dir, args)
    }

    fn done(&self, args: &[&str]) -> Value {
        let finished = self.ralph(args);
        assert!(finished.status.success(), "{finished}");
        json(&finished)
    }

    fn git(&self, args: &[&str]) {
        self.desk.git(&[&["-C", self.dir.to_str().unwrap()], args].concat());
    }

    /// The tasks in the output of the log.
    fn told(&self) -> Vec<String> {
        let log = self.done(&["log", "--all"]);
        let mut ids: Vec<String> =
            log["tasks"].as_array().unwrap().iter().map(|task| text(&task["id"])).collect();
        ids.sort();
        ids
    }
}

/// Ids beyond the edge of a shallow clone are unknown, and must not be reused for something else.
#[test]
fn in_a_shallow_clone_new_ids_are_long_and_once_it_is_deepened_its_past_is_known() {
    let clone = Clone::made_with("--depth=1");
    let added = |args: &[&str], list: &str| {
        let state = clone.done(args);
        let records = if list == "tasks" { &state["tasks"]["pending"] } else { &state["issues"] };
        let of = |record: &Value| text(&record["desc"]) == "new" || text(&record["name"]) == "new";
        let found = records.as_array().unwrap().iter().rfind(|record| of(record)).cloned();
        text(&found.unwrap_or_else(|| panic!("{state}"))["id"])
    };
    let task = added(&["task", "add", "new"], "tasks");
    assert_eq!(task.len(), "t-0123456789".len());
    assert_eq!(added(&["issue", "add", "new"], "issues").len(), "i-0123456789".len());
    let mut here = ["t-here".to_owned(), task];
    here.sort();
    assert_eq!(clone.told(), here);

    clone.git(&["fetch", "--quiet", "--unshallow"]);
    assert!(clone.told().contains(&"t-past".to_owned()));
    let refused = clone.ralph(&["task", "add", r#"{"id": "t-past", "name": "again"}"#]);
    assert_eq!(refused.status.code(), Some(2), "{refused}");
    clone.done(&["issue", "done-all"]);
    assert_eq!(added(&["issue", "add", "new"], "issues").len(), "i-0123".len());
}

/// The missing history may contain anything, and counts as soon as it is fetched.
#[test]
fn a_shallow_clone_says_that_it_is_one_and_tells_everything_once_it_is_whole() {
    let clone = Clone::made_with("--depth=1");
    let unshallow = "git fetch --unshallow";
    let validated = clone.ralph(&["validate"]);
    assert!(validated.status.success() && validated.stderr.contains(unshallow), "{validated}");
    let follows = r#"{"name": "c", "deps": ["t-past"]}"#;
    let added = clone.ralph(&["task", "add", follows]);
    assert_eq!(added.status.code(), Some(2), "{added}");
    assert!(added.stderr.contains(unshallow), "{added}");
    let log = clone.ralph(&["log", "--all"]);
    assert!(log.stderr.contains(unshallow), "{log}");
    assert_eq!(clone.told(), ["t-here"]);

    clone.git(&["fetch", "--quiet", "--unshallow"]);
    assert_eq!(clone.told(), ["t-here", "t-past"]);
    let log = clone.ralph(&["log", "--all"]);
    assert!(!log.stderr.contains("shallow"), "{log}");
    clone.done(&["task", "add", follows]);
}

#[test]
fn a_partial_clone_is_told_how_to_fetch_what_it_lacks() {
    let clone = Clone::made_with("--filter=blob:none");
    let fetch = "git log -p -- ralph/plan.jsonl";
    let validated = clone.ralph(&["validate"]);
    assert!(validated.status.success() && validated.stderr.contains(fetch), "{validated}");
    for args in [&["log", "--all"][..], &["task", "add", r#"{"name": "c", "deps": ["t-past"]}"#]] {
        let refused = clone.ralph(args);
        assert_eq!(refused.status.code(), Some(2), "{refused}");
        assert!(refused.stderr.contains(fetch), "{refused}");
    }
    // Whether the id was ever taken is unknown, which is reported.
    let named = clone.ralph(&["task", "add", r#"{"id": "t-past", "name": "again"}"#]);
    assert!(named.status.success() && named.stderr.contains(fetch), "{named}");
    clone.done(&["task", "delete", "t-past"]);
    clone.git(&["log", "-p", "--", PLAN]);
    assert_eq!(clone.told(), ["t-here", "t-past"]);
    let known = clone.ralph(&["task", "add", r#"{"id": "t-new1", "name": "new"}"#]);
    assert!(known.status.success() && !known.stderr.contains(fetch), "{known}");
}
