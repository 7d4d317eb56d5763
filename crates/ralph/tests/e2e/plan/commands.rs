//! Every command of the plan, as people and agents use it, and what each of them refuses.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::{Desk, PLAN, RALPH, text};
use crate::harness::PATIENCE;
use crate::hostile_text::Terminal;
use crate::support::process::run;

#[test]
fn a_task_goes_its_whole_way_by_the_commands_alone() {
    let desk = Desk::bare();
    let is_at = |wanted: &str| assert_eq!(desk.ralph(&["query", "stage"]).stdout.trim(), wanted);
    is_at("PLAN");
    assert_eq!(desk.done(&["query", "next"]), json!({"action": "PLAN", "item": null}));
    let state = desk.done(&["set-spec", "coverage.md"]);
    assert_eq!(state["spec"], "coverage.md");
    is_at("COMPLETE");
    let state = desk.done(&["task", "add", "Add parser unit tests"]);
    assert_eq!(state["tasks"]["pending"][0]["name"], "Add parser unit tests");
    let id = desk.ids()[0].clone();
    assert!(id.starts_with("t-") && id.len() == 6, "{id}");
    is_at("BUILD");
    let next = desk.done(&["query", "next"]);
    assert_eq!((&next["action"], &next["task"]["id"]), (&json!("BUILD"), &json!(id)));
    let head = desk.head();
    let state = desk.done(&["task", "done"]);
    assert_eq!(state["tasks"]["done"][0]["done_at"], head.as_str());
    is_at("VERIFY");
    let verify = json!({"action": "VERIFY", "item": "1 done task"});
    assert_eq!(desk.done(&["query", "next"]), verify);
    let state = desk.done(&["task", "reject", "Output format doesn't match spec"]);
    assert_eq!(state["tasks"]["pending"][0]["reject"], "Output format doesn't match spec");
    let tombstone = format!(
        "{{\"t\": \"reject\", \"id\": \"{id}\", \"done_at\": \"{head}\", \"reason\": \"Output format doesn't match spec\"}}"
    );
    assert!(desk.plan().contains(&tombstone), "{}", desk.plan());
    desk.done(&["task", "done", &id]);
    desk.done(&["task", "accept"]);
    is_at("COMPLETE");
    let state = desk.done(&["issue", "add", "Flaky test in CI"]);
    assert_eq!(state["issues"][0]["desc"], "Flaky test in CI");
    is_at("INVESTIGATE");
    let next = desk.done(&["query", "next"]);
    assert_eq!((&next["action"], &next["count"]), (&json!("INVESTIGATE"), &json!(1)));
    let listed = desk.done(&["issue", "list", "--json"]);
    assert_eq!(listed[0]["desc"], "Flaky test in CI");
    let listed = desk.ralph(&["issue", "list"]).stdout;
    assert!(listed.starts_with("id") && listed.contains("  Flaky test in CI\n"), "{listed}");
    let state = desk.done(&["issue", "done"]);
    assert_eq!(state["stage"], "COMPLETE");
    let subjects = desk.place.env.commits();
    assert_eq!(
        subjects[..8],
        [
            "ralph: issue done - Flaky test in CI",
            "ralph: issue add - Flaky test in CI",
            "ralph: task accept - Add parser unit tests",
            "ralph: task done - Add parser unit tests",
            "ralph: task reject - Add parser unit tests",
            "ralph: task done - Add parser unit tests",
            "ralph: task add - Add parser unit tests",
            "ralph: set spec coverage.md",
        ]
    );
    assert_eq!(desk.git(&["status", "--porcelain"]), "");
}

#[test]
fn at_a_terminal_a_change_is_answered_with_a_table() {
    let desk = Desk::new();
    let at_terminal = |args: &[&str]| {
        let (code, screen) = Terminal::start(&desk.place, args, 80).end();
        (code, screen.plain())
    };
    let (code, shown) = at_terminal(&["task", "add", "Look twice"]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("status    priority  name"), "{shown}");
    assert!(shown.contains("Look twice") && !shown.contains('{'), "{shown}");
    let (code, shown) = at_terminal(&["task", "add", "--json", "And again"]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("\"pending\""), "{shown}");
}

#[test]
fn queries_show_every_field_and_make_no_state() {
    let desk = Desk::bare();
    fs::write(
        desk.repo().join(PLAN),
        concat!(
            "{\"t\": \"spec\", \"spec\": \"coverage.md\"}\n",
            "{\"t\": \"task\", \"id\": \"t-full\", \"spec\": \"coverage.md\", \"name\": \"N\", \"notes\": \"n\", ",
            "\"accept\": \"a\", \"deps\": [\"t-gone\"], \"s\": \"p\", \"priority\": \"high\", \"reject\": \"r\", ",
            "\"kill\": \"timeout\", \"kill_log\": \"l\", \"parent\": \"t-p\", \"decompose_depth\": 2, ",
            "\"created_from\": \"i-1\", \"supersedes\": \"t-s\"}\n",
            "{\"t\": \"task\", \"id\": \"t-done\", \"spec\": \"coverage.md\", \"name\": \"D\", \"s\": \"d\", \"done_at\": \"abc\"}\n",
        ),
    )
    .unwrap();
    let full = json!({"id": "t-full", "name": "N", "spec": "coverage.md", "s": "p", "notes": "n", "accept": "a",
        "deps": ["t-gone"], "priority": "high", "reject": "r", "kill": "timeout", "kill_log": "l", "parent": "t-p",
        "decompose_depth": 2, "created_from": "i-1", "supersedes": "t-s"});
    let done =
        json!({"id": "t-done", "name": "D", "spec": "coverage.md", "s": "d", "done_at": "abc"});
    assert_eq!(desk.done(&["query", "tasks"]), json!({"pending": [full], "done": [done]}));
    assert_eq!(desk.done(&["query", "tasks", "--done"]), json!({"done": [done]}));
    assert_eq!(desk.done(&["query", "issues"]), json!([]));
    let next = desk.done(&["query", "next"]);
    assert_eq!((&next["action"], &next["kill_reason"]), (&json!("DECOMPOSE"), &json!("timeout")));
    assert_eq!(desk.done(&["query", "iteration"]), json!(0));
    let whole = desk.done(&["query"]);
    assert_eq!((&whole["stage"], &whole["tasks"]["done"]), (&json!("DECOMPOSE"), &json!([done])));
    let table = desk.ralph(&["query", "--table"]).stdout;
    assert!(table.contains("t-full") && table.contains("killed by timeout"), "{table}");
    assert!(!desk.place.env.state().exists(), "a query makes nothing");
    assert_eq!(desk.git(&["status", "--porcelain"]), format!("?? {PLAN}"));
    let shown = desk.done(&["task", "show", "t-done"]);
    assert_eq!(shown["orphaned"], true, "no such commit is here");
    assert_eq!(desk.done(&["task", "show", "t-full"]), full);
}

#[test]
fn tasks_are_added_by_name_object_and_array_and_refused_with_a_way_on() {
    let desk = Desk::bare();
    assert!(desk.refused(&["task", "add", "x"]).contains("ralph set-spec"));
    desk.done(&["set-spec", "coverage"]);
    desk.done(&[
        "task",
        "add",
        r#"{"name": "one", "notes": "how", "accept": "so", "priority": "low"}"#,
    ]);
    let one = desk.ids()[0].clone();
    let batch = format!(
        r#"[{{"name": "two", "id": "t-batch2", "deps": ["{one}"]}}, {{"name": "three", "deps": ["t-batch2"]}}]"#
    );
    let finished = desk.ralph(&["task", "add", &batch]);
    assert!(
        finished.stderr.contains(&format!("Task added: t-batch2 - two (deps: {one})")),
        "{finished}"
    );
    for (sent, wanted) in [
        ("{\"name\": ", "cannot be parsed"),
        ("{\"notes\": \"x\"}", "no `name`"),
        ("{\"name\": \"x\", \"deps\": [\"t-none\"]}", "was never in this plan"),
        ("{\"name\": \"x\", \"id\": \"t-batch2\"}", "is or was in use"),
        ("{\"name\": \"x\", \"nmae\": \"y\"}", "nmae"),
        ("[]", "no task"),
    ] {
        let said = desk.refused(&["task", "add", sent]);
        assert!(said.contains(wanted), "{sent}: {said}");
    }
    assert_eq!(desk.ids().len(), 3);
}

/// Text that a shell would mangle, or that an argument cannot contain, is read from stdin.
#[test]
fn words_may_look_like_options_and_come_from_stdin() {
    let desk = Desk::new();
    assert!(desk.refused(&["task", "add", "--verbose"]).contains("`-- --verbose`"));
    desk.done(&["task", "add", "--", "--verbose"]);
    desk.done(&["issue", "add", "--", "--quiet"]);
    let ask = |args: &[&str], stdin: &str| {
        let env = &desk.place.env;
        run(env, Path::new(RALPH), args, &desk.place.variables(), stdin, PATIENCE)
    };
    let batch = r#"[{"name": "it's one", "id": "t-in01"}, {"name": "two", "deps": ["t-in01"]}]"#;
    let finished = ask(&["task", "add", "-"], batch);
    assert!(finished.status.success(), "{finished}");
    let finished = ask(&["issue", "add", "-"], "first line\nsecond line\n");
    assert!(finished.status.success(), "{finished}");
    let state = desk.done(&["query"]);
    let names: Vec<_> =
        state["tasks"]["pending"].as_array().unwrap().iter().map(|task| &task["name"]).collect();
    assert_eq!(names, ["--verbose", "it's one", "two"]);
    assert_eq!(state["issues"][0]["desc"], "--quiet");
    assert_eq!(state["issues"][1]["desc"], "first line\nsecond line");
    for args in [["task", "add", "-"], ["issue", "add", "-"]] {
        let finished = ask(&args, " \n");
        assert_eq!(finished.status.code(), Some(2), "{finished}");
    }
}

#[test]
fn what_is_not_there_is_said_with_where_to_look() {
    let desk = Desk::with_tasks(1);
    for args in [
        &["task", "done", "t-none"][..],
        &["task", "accept", "t-none"],
        &["task", "reject", "t-none", "why"],
        &["task", "delete", "t-none"],
        &["task", "show", "t-none"],
    ] {
        let said = desk.refused(args);
        assert!(said.contains("ralph query tasks"), "{args:?}: {said}");
    }
    assert!(desk.refused(&["issue", "done", "i-none"]).contains("ralph query issues"));
    // An empty list of ids may be a mistake.
    desk.done(&["issue", "add", "a"]);
    desk.refused(&["issue", "done-ids"]);
}

/// B12.6: an accepted task satisfies its dependents, and can still be referred to.
#[test]
fn b12_6_a_task_that_was_accepted_is_a_dependency_that_is_met() {
    let desk = Desk::with_tasks(2);
    desk.done(&["task", "done", "t-0001"]);
    desk.done(&["task", "accept", "t-0001"]);
    let after = r#"{"name": "after", "deps": ["t-0001"], "priority": "high"}"#;
    desk.done(&["task", "add", after]);
    // If it counted as pending, the other task would come first.
    assert_eq!(desk.done(&["query", "next"])["task"]["name"], "after");
    // Its id stays taken, like those of issues.
    assert!(desk.refused(&["task", "add", r#"{"name": "x", "id": "t-0001"}"#]).contains("in use"));
    // The same holds without the cache.
    fs::remove_dir_all(desk.place.env.state()).unwrap();
    assert!(desk.refused(&["task", "add", r#"{"name": "x", "id": "t-0001"}"#]).contains("in use"));
}

/// B12.5: `done` marks the task that `next` returns.
#[test]
fn b12_5_done_marks_the_task_that_is_next() {
    let desk = Desk::with_tasks(1);
    desk.done(&["task", "add", r#"{"name": "urgent", "priority": "high"}"#]);
    let next = super::text(&desk.done(&["query", "next"])["task"]["id"]);
    assert_ne!(next, "t-0001");
    let state = desk.done(&["task", "done"]);
    assert_eq!(state["tasks"]["done"][0]["id"], next.as_str());
}

/// B12.7 and B12.8: relations and priority are stored and shown.
#[test]
fn b12_7_and_8_relations_and_priority_are_kept_and_shown() {
    let desk = Desk::with_tasks(2);
    desk.done(&["issue", "add", "odd"]);
    let issue = super::text(&desk.done(&["query", "issues"])[0]["id"]);
    desk.done(&["task", "done", "t-0001"]);
    desk.done(&["task", "reject", "t-0001", "wrong way"]);
    let task = json!({"name": "another way", "id": "t-other", "supersedes": "t-0001", "created_from": issue,
        "parent": "t-0002", "priority": "medium"});
    desk.done(&["task", "add", &task.to_string()]);
    let shown = desk.done(&["task", "show", "t-other"]);
    for (field, value) in [
        ("supersedes", "t-0001"),
        ("created_from", &*issue),
        ("parent", "t-0002"),
        ("priority", "medium"),
    ] {
        assert_eq!(shown[field], value, "{field}");
    }
    assert!(!desk.ids().contains(&"t-0001".to_owned()), "what is superseded goes");
    assert_eq!(desk.outcomes(&[])[0], ("t-0001".to_owned(), "rejected".to_owned()));
}

#[test]
fn accepting_and_rejecting_what_is_not_done_is_refused() {
    let desk = Desk::with_tasks(2);
    assert!(desk.refused(&["task", "accept"]).contains("no task is done"));
    assert!(desk.refused(&["task", "reject", "why"]).contains("no task is done"));
    assert!(desk.refused(&["task", "accept", "t-0001"]).contains("pending"));
    assert!(desk.refused(&["task", "reject", "t-9999", "why"]).contains("t-9999"));
    desk.done(&["task", "done", "t-0001"]);
    assert!(desk.refused(&["task", "done", "t-0001"]).contains("done already"));
    assert!(desk.refused(&["task", "accept", "t-0001", "t-0002"]).contains("t-0002"));
    desk.done(&["task", "reject", "t-0001", "once"]);
    desk.done(&["task", "done", "t-0001"]);
    desk.done(&["task", "reject", "t-0001", "twice"]);
    assert_eq!(desk.plan().matches("\"t\": \"reject\"").count(), 2);
    let said = desk.refused(&["task", "done", "--no-change", "why"]);
    assert!(said.contains("inside a run"), "{said}");
    for id in ["t-0001", "t-0002"] {
        desk.done(&["task", "done", id]);
    }
    assert!(desk.refused(&["task", "done"]).contains("no task is pending"));
    desk.done(&["task", "delete", "t-0002"]);
    assert!(desk.refused(&["task", "delete", "t-0002"]).contains("`t-0002` is not in the plan"));
}

#[test]
fn an_issue_may_say_how_much_it_matters_and_what_it_leads_to_matters_as_much() {
    let desk = Desk::new();
    desk.done(&["issue", "add", r#"{"desc": "odd", "priority": "high"}"#]);
    let issue = desk.done(&["query", "issues"])[0].clone();
    assert_eq!((&issue["desc"], &issue["priority"]), (&json!("odd"), &json!("high")));
    let task = json!({"id": "t-0001", "name": "a", "created_from": issue["id"]}).to_string();
    desk.done(&["task", "add", &task]);
    assert_eq!(desk.done(&["task", "show", "t-0001"])["priority"], "high");
    for wrong in [r#"{"desc": "x", "priority": "urgent"}"#, r#"{"desc": "x", "prio": "high"}"#] {
        let said = desk.refused(&["issue", "add", wrong]);
        assert!(said.contains("`priority` (`high`"), "{said}");
    }
    // Text that only resembles JSON is ordinary text.
    for text in ["{broken", r#"{"a": 1} is printed"#, r#"{"a": 1}"#] {
        let issues = desk.done(&["issue", "add", text])["issues"].clone();
        assert_eq!(issues.as_array().unwrap().last().unwrap()["desc"], text);
    }
}

#[test]
fn issues_are_resolved_first_by_id_and_all() {
    let desk = Desk::new();
    for name in ["a", "b", "c", "d"] {
        desk.done(&["issue", "add", name]);
    }
    let ids: Vec<String> = desk
        .done(&["query", "issues"])
        .as_array()
        .unwrap()
        .iter()
        .map(|i| super::text(&i["id"]))
        .collect();
    desk.done(&["issue", "done"]);
    desk.done(&["issue", "done-ids", &ids[2], &ids[1]]);
    assert_eq!(desk.done(&["query", "issues"]).as_array().unwrap().len(), 1);
    assert!(desk.refused(&["issue", "done", &ids[1]]).contains(&ids[1]));
    assert_eq!(desk.done(&["issue", "done-all"])["issues"], json!([]));
    assert!(desk.refused(&["issue", "done"]).contains("no issue"));
}

#[test]
fn priorities_follow_what_depends_on_what() {
    let desk = Desk::with_tasks(1);
    let chain = r#"[{"name": "b", "id": "t-bbbb", "deps": ["t-0001"]}, {"name": "c", "deps": ["t-bbbb"]}, {"name": "readme"}]"#;
    desk.done(&["task", "add", chain]);
    assert_eq!(
        desk.done(&["task", "prioritize"]),
        json!({"prioritized": 4, "high": 2, "medium": 1, "low": 1})
    );
    let head = desk.head();
    assert_eq!(desk.done(&["task", "prioritize"])["prioritized"], 0);
    assert_eq!(desk.head(), head, "what changes nothing commits nothing");
}

#[test]
fn a_spec_is_found_by_path_name_and_stem_and_unfinished_tasks_stand_in_the_way() {
    let desk = Desk::with_tasks(1);
    for typed in ["coverage", "coverage.md", "ralph/specs/coverage.md"] {
        assert_eq!(desk.done(&["set-spec", typed])["spec"], "coverage.md", "{typed}");
    }
    assert_eq!(desk.ids(), ["t-0001"], "the same spec keeps its tasks");
    let said = desk.refused(&["set-spec", "area/other"]);
    assert!(said.contains("t-0001") && said.contains("--yes"), "{said}");
    let said = desk.refused(&["set-spec", "nope.md"]);
    assert!(said.contains("coverage.md"), "{said}");
    let outside = desk.repo().with_file_name("outside.md");
    fs::write(&outside, "# Elsewhere\n").unwrap();
    let said = desk.refused(&["set-spec", outside.to_str().unwrap()]);
    assert!(said.contains("is not inside"), "{said}");
    // A file of the same name elsewhere does not interfere.
    fs::write(desk.repo().join("coverage.md"), "# Not a spec\n").unwrap();
    assert_eq!(desk.done(&["set-spec", "coverage.md"])["spec"], "coverage.md");
    let said = desk.refused(&["set-spec", "./coverage.md"]);
    assert!(said.contains("already has a different `coverage.md`"), "{said}");
    desk.done(&["issue", "add", "stays"]);
    let state = desk.done(&["set-spec", "area/other", "--yes"]);
    assert_eq!(state["spec"], "area/other.md");
    assert_eq!(state["tasks"], json!({"pending": [], "done": []}));
    assert_eq!(state["issues"][0]["desc"], "stays");
    assert_eq!(desk.outcomes(&[]), [("t-0001".to_owned(), "cancelled".to_owned())]);
}

/// B12.14: the cases that the seed leaves open: a rejection with its tombstone, and the stage of a killed task.
#[test]
fn b12_14_rejections_and_decompose_are_part_of_the_stages() {
    let desk = Desk::bare();
    let stage = |wanted: &str| assert_eq!(desk.ralph(&["query", "stage"]).stdout, wanted);
    stage("PLAN\n");
    desk.done(&["set-spec", "coverage"]);
    stage("COMPLETE\n");
    desk.done(&["issue", "add", "odd"]);
    stage("INVESTIGATE\n");
    desk.done(&["task", "add", r#"{"id": "t-0001", "name": "a"}"#]);
    stage("BUILD\n");
    desk.done(&["task", "done"]);
    stage("VERIFY\n");
    desk.done(&["task", "reject", "not yet"]);
    stage("BUILD\n");
    assert!(desk.plan().contains(r#"{"t": "reject", "id": "t-0001", "done_at": ""#));
    let killed = desk.plan().replacen(r#""s": "p""#, r#""s": "p", "kill": "timeout""#, 1);
    desk.write_plan(&killed);
    stage("DECOMPOSE\n");
    // Another spec clears what only this one's audit needed.
    desk.done(&["set-spec", "area/other", "--yes"]);
    assert!(!desk.plan().contains("reject"), "{}", desk.plan());
}

/// B12.17: tasks of another spec are neither built nor verified.
#[test]
fn b12_17_leftovers_of_another_spec_are_not_taken() {
    let desk = Desk::with_tasks(1);
    let plan = desk
        .plan()
        .replace("\"spec\": \"coverage.md\", \"name\"", "\"spec\": \"old.md\", \"name\"");
    desk.write_plan(&plan);
    assert_eq!(desk.ralph(&["query", "stage"]).stdout.trim(), "COMPLETE");
}

/// B12.10 and legacy: files of predecessors can be read.
#[test]
fn b12_10_old_names_are_read_and_survive() {
    let desk = Desk::new();
    let old = "{\"t\":\"task\",\"id\":\"t-old1\",\"desc\":\"old\",\"s\":\"p\",\"kill_reason\":\"context_limit\",\"mine\":[1, 2]}\n\
               {\"t\": \"config\", \"max_iterations\": 10}\n";
    desk.write_plan(&format!("{}{old}", desk.plan()));
    let next = desk.done(&["query", "next"]);
    assert_eq!((&next["action"], &next["kill_reason"]), (&json!("DECOMPOSE"), &json!("context")));
    desk.done(&["task", "done", "t-old1"]);
    assert!(
        desk.plan().contains("\"mine\":[1, 2]") && desk.plan().contains("\"max_iterations\": 10")
    );
}

#[test]
fn outside_a_repository_it_says_what_to_do() {
    let desk = Desk::new();
    let outside = desk.place.path("outside");
    fs::create_dir(&outside).unwrap();
    for args in [&["query"][..], &["task", "add", "x"], &["log"], &["set-spec", "x"]] {
        let finished = desk.ralph_in(&outside, args);
        assert_eq!(finished.status.code(), Some(2), "{finished}");
        assert!(finished.stderr.contains("git init"), "{finished}");
    }
    let bare = desk.place.path("bare");
    desk.git(&["init", "--quiet", "--bare", bare.to_str().unwrap()]);
    let finished = desk.ralph_in(&bare, &["task", "add", "x"]);
    assert_eq!(finished.status.code(), Some(2), "{finished}");
    assert!(finished.stderr.contains("git worktree add"), "{finished}");
}

/// If it cannot be committed, that is reported.
#[test]
fn a_home_outside_git_is_used_and_the_log_says_that_there_is_none() {
    let desk = Desk::new();
    let home = desk.place.path("home-outside");
    fs::create_dir_all(home.join("specs")).unwrap();
    fs::write(home.join("specs/s.md"), "# S\n").unwrap();
    let home = home.to_str().unwrap();
    desk.done(&["--home", home, "set-spec", "s"]);
    let added = desk.ralph(&["--home", home, "task", "add", "x"]);
    assert!(added.stderr.contains("not in a git repository"), "{added}");
    let log = desk.ralph(&["--home", home, "log", "--all"]);
    assert!(log.status.success() && log.stderr.contains("not in a git repository"), "{log}");
    assert_eq!(super::json(&log), json!({"tasks": []}));
}

#[test]
fn a_channel_whose_run_is_over_is_told_from_a_refusal() {
    let desk = Desk::with_tasks(1);
    let ask = |channel: &str| {
        let mut variables = desk.place.variables();
        variables.push(("RALPH_CHANNEL".to_owned(), channel.to_owned()));
        let args = ["task", "done", "t-0001"];
        run(&desk.place.env, Path::new(RALPH), &args, &variables, "", PATIENCE)
    };
    let finished = ask("/nowhere/at/all");
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    assert!(finished.stderr.contains("unset RALPH_CHANNEL"), "{finished}");
    // An empty variable counts as unset.
    assert!(ask("").status.success());
}

/// Such a dependency would count as satisfied at once, whatever happened to the issue.
#[test]
fn nothing_waits_for_an_issue_or_is_a_part_of_one() {
    let desk = Desk::new();
    let issue = text(&desk.done(&["issue", "add", "odd"])["issues"][0]["id"]);
    let waits = json!({"name": "a", "deps": [&issue]}).to_string();
    let part = json!({"name": "a", "parent": &issue}).to_string();
    for wish in [&waits, &part] {
        let said = desk.refused(&["task", "add", wish]);
        assert!(said.contains("is an issue") && said.contains("`created_from`"), "{said}");
    }
    desk.done(&["issue", "done"]);
    assert!(desk.refused(&["task", "add", &waits]).contains("is an issue"));
    desk.write_plan(
        "{\"t\": \"spec\", \"spec\": \"coverage.md\"}\n\
         {\"t\": \"task\", \"id\": \"t-0001\", \"spec\": \"coverage.md\", \"name\": \"a\", \"s\": \"p\", \"deps\": [\"i-0001\"]}\n\
         {\"t\": \"issue\", \"id\": \"i-0001\", \"spec\": \"coverage.md\", \"desc\": \"b\"}\n",
    );
    let validated = desk.ralph(&["validate"]);
    assert_eq!(validated.status.code(), Some(1), "{validated}");
    assert!(
        validated.stdout.contains("plan.jsonl:2: task `t-0001` names `i-0001` in `deps`"),
        "{validated}"
    );
}
