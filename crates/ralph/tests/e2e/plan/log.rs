//! `ralph log`: outcomes of tasks through branches, merges, moves and rewritten history, with and without the cache.

use std::fs;

use super::{Desk, PLAN, text};

/// Runs a test's queries twice: without and with the cache.
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
    assert!(finished.stderr.contains("specs with tasks: coverage.md"), "{finished}");
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
        // The branch is gone, but still known by its merge.
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
    // After squashing, the events in between are no longer there.
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

/// A rebase orphans the commit of the work; it is shown as orphaned, and nothing else happens.
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
