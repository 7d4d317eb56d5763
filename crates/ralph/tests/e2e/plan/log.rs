//! `ralph log`: what became of tasks, through branches, merges, moves and rewritten history, with and without what is kept.

use std::fs;

use serde_json::Value;

use super::{Desk, PLAN, json, text};

/// Runs a test's questions twice: from nothing, and from what was kept.
fn twice(desk: &Desk, ask: impl Fn(&Desk)) {
    let plans = fs::read_dir(desk.place.env.state().join("ralph")).unwrap();
    for directory in plans.flatten().map(|entry| entry.path().join("plans")) {
        let _ = fs::remove_dir_all(directory);
    }
    ask(desk);
    ask(desk);
}

/// B12.9: the order of events decides.
#[test]
fn b12_9_every_outcome_is_told_by_the_order_of_events() {
    let desk = Desk::with_tasks(6);
    for id in ["t-0001", "t-0002", "t-0003", "t-0005"] {
        desk.done(&["task", "done", id]);
    }
    desk.done(&["task", "reject", "t-0002", "no"]);
    desk.done(&["task", "done", "t-0002"]);
    desk.done(&["task", "accept", "t-0001", "t-0002"]);
    desk.done(&["task", "reject", "t-0003", "never"]);
    desk.done(&["task", "delete", "t-0003"]);
    desk.done(&["task", "delete", "t-0004"]);
    desk.done(&["task", "delete", "t-0005"]);
    twice(&desk, |desk| {
        let outcomes = desk.outcomes(&[]);
        let outcomes: Vec<&str> = outcomes.iter().map(|(_, outcome)| outcome.as_str()).collect();
        assert_eq!(
            outcomes,
            ["accepted", "accepted", "rejected", "cancelled", "cancelled", "pending"]
        );
    });
    let log = desk.done(&["log", "--all"]);
    let second = &log["tasks"][1];
    assert_eq!(text(&second["desc"]), "task 2");
    assert_eq!(text(&second["spec"]), "coverage.md");
    assert_eq!(text(&second["branch"]), "main");
    assert_eq!(text(&second["author"]), "test@ralph.invalid");
    for moment in ["created", "done", "accepted", "rejected"] {
        assert!(
            second[moment]["commit"].is_string() && second[moment]["date"].is_string(),
            "{second}"
        );
    }
    assert_eq!(text(&second["rejected"]["reason"]), "no");
    let newest = &desk.done(&["log"])["changes"][0];
    assert_eq!(
        (text(&newest["id"]), text(&newest["change"])),
        ("t-0005".into(), "cancelled".into())
    );
    let table = desk.ralph(&["log", "--all", "--table"]).stdout;
    assert!(table.contains("t-0003  rejected"), "{table}");
    assert!(desk.ralph(&["log", "--table"]).stdout.contains("cancelled"));
}

#[test]
fn filters_take_a_spec_a_branch_a_date_and_a_commit() {
    let desk = Desk::with_tasks(1);
    let between = desk.head();
    desk.git(&["switch", "--quiet", "-c", "feature"]);
    desk.done(&["set-spec", "area/other", "--yes"]);
    desk.done(&["task", "add", r#"{"name": "other", "id": "t-other"}"#]);
    desk.git(&["switch", "--quiet", "main"]);
    desk.git(&["tag", "here"]);
    twice(&desk, |desk| {
        assert_eq!(desk.outcomes(&[]).len(), 1);
        assert_eq!(desk.outcomes(&["--branch", "feature"]).len(), 2);
        assert_eq!(desk.outcomes(&["--branch", "here"]).len(), 1);
        for spec in ["area/other", "area/other.md", "ralph/specs/area/other.md"] {
            let found = desk.outcomes(&["--branch", "feature", "--spec", spec]);
            assert_eq!(found, [("t-other".to_owned(), "pending".to_owned())], "{spec}");
        }
        let since = desk.told(&["--branch", "feature", "--since", &between]);
        assert_eq!(since, ["t-0001 cancelled", "t-other created"]);
        assert_eq!(desk.told(&["--since", &between[..8]]), [""; 0]);
        assert_eq!(desk.told(&["--since", "2020-01-01"]), ["t-0001 created"]);
        assert_eq!(desk.told(&["--since", "2120-01-01T10:00"]), [""; 0]);
        assert_eq!(desk.told(&["--since", "2 days ago"]), ["t-0001 created"]);
    });
    let finished = desk.ralph(&["log", "--spec", "coverge"]);
    assert!(finished.status.success(), "{finished}");
    assert!(finished.stderr.contains("there were: coverage.md"), "{finished}");
    let said = desk.refused(&["log", "--branch", "nope"]);
    assert!(said.contains("`nope`"), "{said}");
    let said = desk.refused(&["log", "--since", "someday"]);
    assert!(said.contains("neither a date nor a commit"), "{said}");
}

#[test]
fn a_merged_branch_is_told_where_it_happened_and_once() {
    let desk = Desk::with_tasks(2);
    desk.git(&["switch", "--quiet", "-c", "feature"]);
    desk.done(&["task", "add", r#"{"name": "side", "id": "t-side"}"#]);
    desk.done(&["task", "done", "t-0001"]);
    desk.git(&["switch", "--quiet", "main"]);
    desk.outcomes(&[]);
    desk.git(&["commit", "--quiet", "--allow-empty", "--message=on"]);
    desk.git(&["merge", "--quiet", "--no-edit", "feature"]);
    desk.git(&["branch", "--quiet", "-d", "feature"]);
    twice(&desk, |desk| {
        let told = desk.told(&[]);
        assert_eq!(told, ["t-0001 created", "t-0002 created", "t-side created", "t-0001 done"]);
        let log = desk.done(&["log", "--all"]);
        let branches: Vec<String> =
            log["tasks"].as_array().unwrap().iter().map(|task| text(&task["branch"])).collect();
        assert_eq!(branches, ["main", "main", "feature"]);
        // The branch is gone, and still known by its merge.
        let of = desk.outcomes(&["--branch", "feature"]);
        assert_eq!(of, [("t-side".to_owned(), "pending".to_owned())]);
    });
}

#[test]
fn a_home_that_moved_is_followed_and_a_history_that_was_rewritten_is_read_anew() {
    let desk = Desk::with_tasks(2);
    desk.done(&["task", "done", "t-0001"]);
    let accepted_before = desk.head();
    desk.done(&["task", "accept"]);
    assert_eq!(desk.outcomes(&[])[0].1, "accepted");
    desk.git(&["reset", "--quiet", "--hard", &accepted_before]);
    desk.done(&["task", "reject", "not like this"]);
    twice(&desk, |desk| {
        let told = desk.told(&[]);
        assert_eq!(told, ["t-0001 created", "t-0002 created", "t-0001 done", "t-0001 rejected"]);
    });
    // Squashed, what happened in between is no longer there to be told.
    desk.git(&["reset", "--quiet", "--soft", "HEAD~3"]);
    desk.git(&["commit", "--quiet", "--message=squashed"]);
    twice(&desk, |desk| assert_eq!(desk.outcomes(&[]).len(), 2));
    fs::create_dir(desk.repo().join("scripts")).unwrap();
    desk.git(&["mv", "ralph", "scripts/ralph"]);
    desk.git(&["commit", "--quiet", "--message=move"]);
    let moved = fs::read_to_string(desk.repo().join("scripts/ralph/plan.jsonl")).unwrap();
    assert!(moved.contains("t-0001") && !desk.repo().join(PLAN).exists());
    twice(&desk, |desk| {
        let told = desk.told(&[]);
        assert_eq!(told, ["t-0001 created", "t-0001 rejected", "t-0002 created"]);
    });
}

/// Orphaned by a rebase, the commit of the work is shown as such and nothing more happens.
#[test]
fn work_whose_commit_was_rebased_away_is_shown_as_orphaned() {
    let desk = Desk::with_tasks(1);
    fs::write(desk.repo().join("work"), "w").unwrap();
    desk.git(&["add", "work"]);
    desk.git(&["commit", "--quiet", "--message=work"]);
    desk.done(&["task", "done"]);
    assert_eq!(desk.done(&["task", "show", "t-0001"]).get("orphaned"), None);
    desk.git(&["reset", "--quiet", "--soft", "HEAD~2"]);
    desk.git(&["commit", "--quiet", "--message=both"]);
    assert_eq!(desk.done(&["task", "show", "t-0001"])["orphaned"], true);
    desk.done(&["task", "accept"]);
}

/// What lies beyond the edge of a shallow clone is not known to it, and must not come back as something else.
#[test]
fn in_a_shallow_clone_new_ids_are_long_and_once_it_is_deepened_its_past_is_known() {
    let desk = Desk::with_tasks(2);
    desk.done(&["task", "done", "t-0001"]);
    desk.done(&["task", "accept", "t-0001"]);
    desk.done(&["task", "add", "last"]);
    let clone = desk.place.path("clone");
    let url = format!("file://{}", desk.repo().display());
    desk.git(&["clone", "-q", "--depth=1", &url, clone.to_str().unwrap()]);
    let done = |args: &[&str]| {
        let finished = desk.ralph_in(&clone, args);
        assert!(finished.status.success(), "{finished}");
        json(&finished)
    };
    let added = |args: &[&str], list: &str| {
        let state = done(args);
        let records = if list == "tasks" { &state["tasks"]["pending"] } else { &state["issues"] };
        let of = |record: &Value| text(&record["desc"]) == "new" || text(&record["name"]) == "new";
        let found = records.as_array().unwrap().iter().rfind(|record| of(record)).cloned();
        text(&found.unwrap_or_else(|| panic!("{state}"))["id"])
    };
    assert_eq!(added(&["task", "add", "new"], "tasks").len(), "t-0123456789".len());
    assert_eq!(added(&["issue", "add", "new"], "issues").len(), "i-0123456789".len());
    let told = |id: &str| {
        let log = done(&["log", "--all"]);
        log["tasks"].as_array().unwrap().iter().any(|task| text(&task["id"]) == id)
    };
    assert!(told("t-0002") && !told("t-0001"));

    desk.git(&["-C", clone.to_str().unwrap(), "fetch", "-q", "--unshallow"]);
    assert!(told("t-0002") && told("t-0001"));
    let again = r#"{"id": "t-0001", "name": "again"}"#;
    let refused = desk.ralph_in(&clone, &["task", "add", again]);
    assert_eq!(refused.status.code(), Some(2), "{refused}");
    done(&["issue", "done-all"]);
    assert_eq!(added(&["issue", "add", "new"], "issues").len(), "i-0123".len());
}

/// What was cut off may have had anything in it, and counts as soon as it is fetched.
#[test]
fn a_shallow_clone_says_that_it_is_one_and_tells_everything_once_it_is_whole() {
    let desk = Desk::new();
    let tasks =
        r#"[{"id": "t-past", "name": "a"}, {"id": "t-here", "name": "b", "deps": ["t-past"]}]"#;
    desk.done(&["task", "add", tasks]);
    desk.done(&["task", "done"]);
    desk.done(&["task", "accept"]);
    let origin = format!("file://{}", desk.repo().display());
    let clone = desk.repo().with_file_name("shallow");
    desk.git(&["clone", "--quiet", "--depth=1", &origin, clone.to_str().unwrap()]);
    let ralph = |args: &[&str]| desk.ralph_in(&clone, args);
    let unshallow = "git fetch --unshallow";

    let validated = ralph(&["validate"]);
    assert!(validated.status.success() && validated.stderr.contains(unshallow), "{validated}");
    let follows = r#"{"name": "c", "deps": ["t-past"]}"#;
    let added = ralph(&["task", "add", follows]);
    assert_eq!(added.status.code(), Some(2), "{added}");
    assert!(added.stderr.contains(unshallow), "{added}");
    let log = ralph(&["log", "--all"]);
    assert!(log.stderr.contains(unshallow), "{log}");
    assert_eq!(json(&log)["tasks"].as_array().unwrap().len(), 1, "{log}");

    desk.git(&["-C", clone.to_str().unwrap(), "fetch", "--quiet", "--unshallow"]);
    let log = ralph(&["log", "--all"]);
    assert_eq!(json(&log)["tasks"].as_array().unwrap().len(), 2, "{log}");
    assert!(!log.stderr.contains("shallow"), "{log}");
    let added = ralph(&["task", "add", follows]);
    assert!(added.status.success(), "{added}");
}

#[test]
fn a_partial_clone_is_told_how_to_fetch_what_it_lacks() {
    let desk = Desk::new();
    let tasks =
        r#"[{"id": "t-past", "name": "a"}, {"id": "t-here", "name": "b", "deps": ["t-past"]}]"#;
    desk.done(&["task", "add", tasks]);
    desk.done(&["task", "done"]);
    desk.done(&["task", "accept"]);
    desk.git(&["config", "uploadpack.allowFilter", "true"]);
    let origin = format!("file://{}", desk.repo().display());
    let clone = desk.repo().with_file_name("partial");
    let filter = ["clone", "--quiet", "--filter=blob:none", &origin, clone.to_str().unwrap()];
    desk.git(&filter);
    let ralph = |args: &[&str]| desk.ralph_in(&clone, args);
    let fetch = "git log -p -- ralph/plan.jsonl";

    let validated = ralph(&["validate"]);
    assert!(validated.status.success() && validated.stderr.contains(fetch), "{validated}");
    for args in [&["log", "--all"][..], &["task", "add", r#"{"name": "c", "deps": ["t-past"]}"#]] {
        let refused = ralph(args);
        assert_eq!(refused.status.code(), Some(2), "{refused}");
        assert!(refused.stderr.contains(fetch), "{refused}");
    }
    let path = clone.to_str().unwrap();
    desk.git(&["-C", path, "log", "-p", "--", PLAN]);
    let log = ralph(&["log", "--all"]);
    assert_eq!(json(&log)["tasks"].as_array().unwrap().len(), 2, "{log}");
}
