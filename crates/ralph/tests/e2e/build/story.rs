//! One spec through all stages.

use crate::replay::assert_status;
use std::fs;

use serde_json::json;

use super::{BUILDER, SPEC, Site, VERIFIER, issue, task, task_with};

/// Everything that can happen to a task, in sequence.
const EVERYTHING: &str = r#"
[planner]
expect-prompt Say hello.
run ralph task add '[{"id": "t-word", "name": "Find the word"}, {"id": "t-door", "name": "Find the door", "deps": ["t-word"]}, {"id": "t-huge", "name": "Build a city", "deps": ["t-door"]}]'
final PLAN_COMPLETE

# t-word, as it should be; on the way something odd is seen.
[builder 1]
expect-prompt t-word
write word.txt helo
run ralph issue add "The word has no comma"
run ralph task done
final done

# t-door
[builder 2]
expect-prompt t-door
write door.txt green
commit "A door"
run ralph task done t-door
final done

# t-huge never ends.
[builder 3]
expect-prompt t-huge
write city/plan.txt half
hang

[decomposer]
expect-prompt t-huge
expect-prompt timeout
run ralph task add '{"id": "t-street", "name": "Build a street", "parent": "t-huge"}'
run ralph task add '{"id": "t-house", "name": "Build a house", "deps": ["t-street"]}'
run ralph task delete t-huge
final two parts

[builder 4]
expect-prompt t-street
write city/street.txt long
run ralph task done
final done

[builder 5]
expect-prompt t-house
write city/house.txt tall
run ralph task done
final done

# One task is wrong, another was the wrong way altogether.
[verifier 1]
expect-prompt t-house
run grep -r . word.txt door.txt city
run ralph task reject t-word "it is spelt with two l"
run ralph task reject t-door "nobody wants a door"
run ralph task add '{"id": "t-gate", "name": "Find the gate", "supersedes": "t-door"}'
run ralph task accept
final [RALPH] SPEC_INCOMPLETE

[builder 6]
expect-prompt it is spelt with two l
write word.txt hello
run ralph task done
final done

[builder 7]
expect-prompt t-gate
write gate.txt open
delete door.txt
run ralph task done
final done

[verifier 2]
run ralph task accept
final [RALPH] SPEC_COMPLETE

# The issue of the first builder.
[investigator]
expect-prompt The word has no comma
run ralph task add "Add a comma"
run ralph issue done
final one task

[builder 8]
write word.txt hello,
run ralph task done
final done

[verifier 3]
run ralph task accept
final [RALPH] SPEC_COMPLETE
"#;

#[test]
fn a_spec_goes_from_plan_to_complete_through_all_that_can_befall_its_tasks() {
    let site = Site::new(EVERYTHING);
    site.configure("roles.builder.timeout = \"2s\"\n");
    site.gate(&["test", "-e", "README.md"]);
    site.exits(0, &["plan", SPEC]);
    assert_eq!(site.records("task").len(), 3);
    assert_eq!(site.logged("run_started").len(), 1);
    let finished = site.exits(0, &["build", "--json"]);
    let end: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(end["result"], "complete", "{finished}");
    assert_status(&site.place);

    assert_eq!(
        site.roles(),
        [
            "planner",
            "builder",
            "builder",
            "builder",
            "decomposer",
            "builder",
            "builder",
            "verifier",
            "builder",
            "builder",
            "verifier",
            "investigator",
            "builder",
            "verifier",
        ],
        "{finished}"
    );
    site.assert_complete();
    assert_eq!(fs::read_to_string(site.path("word.txt")).unwrap(), "hello,\n");
    assert!(site.path("gate.txt").exists() && !site.path("door.txt").exists());
    // Every request was granted.
    assert!(site.answers().iter().all(|(accepted, _)| *accepted), "{:?}", site.answers());

    // The relations are in the history of the plan.
    let history = site.git(&["log", "-p", "--format=%s", "--", "ralph/plan.jsonl"]);
    for field in [
        r#""parent":"t-huge""#,
        r#""supersedes":"t-door""#,
        r#""created_from":"i-"#,
        r#""kill":"timeout""#,
        r#""reject":"it is spelt with two l""#,
    ] {
        let found = history.lines().any(|line| {
            let line: String = line.chars().filter(|c| *c != ' ').collect();
            line.starts_with('+') && line.contains(&field.replace(' ', ""))
        });
        assert!(found, "no {field} in\n{history}");
    }
}

/// B12.12: `done_at` leads to the work.
#[test]
fn b12_12_code_and_plan_are_two_commits_and_done_at_is_the_one_with_the_work() {
    let site = Site::planned(&format!("{BUILDER}{VERIFIER}"), &[task("t-aaaa")]);
    site.exits(1, &["build", "1"]);
    let done_at = site.task("t-aaaa")["done_at"].as_str().unwrap().to_owned();
    let commits = site.commits();
    assert_eq!(commits[..2], ["ralph: task done - Do t-aaaa", "Do t-aaaa"]);
    assert_eq!(done_at, site.git(&["rev-parse", "HEAD~1"]));
    let files = |commit: &str| site.git(&["show", "--name-only", "--format=", commit]);
    assert_eq!(files("HEAD~1"), "t-aaaa");
    assert_eq!(files("HEAD"), "ralph/plan.jsonl");
    assert!(site.git(&["show", "-s", "--format=%B", "HEAD~1"]).contains("Task: t-aaaa"));
    site.exits(0, &["build"]);
    site.assert_complete();
}

#[test]
fn a_run_that_asks_is_told_its_iteration_its_stage_and_what_it_was_given() {
    let ask = "run echo $(ralph query iteration) $(ralph query stage) $RALPH_TASK >> SEEN/asked\n";
    let script = format!(
        "[builder 1]\n{ask}run ralph query next > SEEN/next\nrun ralph issue add odd\nrun ralph query issues > SEEN/issues\n\
         write a.txt x\nrun ralph task done\nrun ralph query > SEEN/claimed\nfinal done\n\
         [builder 2]\n{ask}final I forgot\n\
         [builder 3]\n{ask}write b.txt x\nrun ralph task done\nfinal done\n\
         [verifier]\n{ask}run ralph task accept\nrun ralph query tasks --done > SEEN/accepted\nfinal fine\n\
         [investigator]\n{ask}run ralph issue done\nfinal nothing\n"
    );
    let site = Site::planned("", &[task("t-aaaa"), task("t-bbbb")]);
    // A directory that every role may write to.
    let seen = site.place.path("seen");
    let name = seen.to_str().unwrap();
    fs::create_dir(&seen).unwrap();
    fs::write(site.place.path("script"), script.replace("SEEN", name)).unwrap();
    site.configure(&format!("writable = [\"{name}\"]\n"));
    site.exits(0, &["build"]);
    let read = |name: &str| fs::read_to_string(seen.join(name)).unwrap();
    let json = |name: &str| serde_json::from_str::<serde_json::Value>(&read(name)).unwrap();
    assert_eq!(
        read("asked"),
        "1 BUILD t-aaaa\n2 BUILD t-bbbb\n3 BUILD t-bbbb\n4 VERIFY\n5 INVESTIGATE\n"
    );
    let next = json("next");
    assert_eq!(
        (&next["action"], &next["task"]["id"]),
        (&json!("BUILD"), &json!("t-aaaa")),
        "{next}"
    );
    // Requests take effect at once; a claim does not.
    assert_eq!(json("issues")[0]["desc"], "odd");
    assert!(json("claimed")["tasks"]["done"].as_array().unwrap().is_empty(), "{}", json("claimed"));
    assert!(json("accepted")["done"].as_array().unwrap().is_empty(), "{}", json("accepted"));
    // A person may query as well, and between builds there is no iteration.
    assert_eq!(site.exits(0, &["query", "iteration"]).stdout.trim(), "0");
}

#[test]
fn an_issue_that_is_nothing_is_settled_without_a_task() {
    let script = "[investigator]\nrun ralph issue done-all\nfinal nothing to do\n";
    let site = Site::planned(script, &[issue("i-aaaa"), issue("i-bbbb")]);
    site.exits(0, &["build"]);
    assert_eq!(site.roles(), ["investigator"]);
    site.assert_complete();
}

#[test]
fn a_word_of_completion_means_nothing_while_work_remains() {
    let script = "[builder]\nappend a.txt x\nrun ralph task done\nfinal [RALPH] SPEC_COMPLETE\n\
                  [verifier]\nrun ralph task accept\nfinal [RALPH] SPEC_COMPLETE\n";
    let site = Site::planned(script, &[task("t-aaaa"), task("t-bbbb")]);
    site.exits(0, &["build"]);
    assert_eq!(site.roles(), ["builder", "builder", "verifier"]);
    site.assert_complete();
}

#[test]
fn b12_17_tasks_of_another_spec_are_left_alone() {
    let other = task_with("t-else", json!({"spec": "other.md"}));
    let site = Site::planned(&format!("{BUILDER}{VERIFIER}"), &[other.clone(), task("t-aaaa")]);
    site.exits(0, &["build"]);
    assert_eq!(site.roles(), ["builder", "verifier"]);
    assert_eq!(site.records("task"), [other]);
    assert!(!site.path("t-else").exists());
}

#[test]
fn what_comes_first_is_built_first_whatever_its_line() {
    let late = task_with("t-late", json!({"deps": ["t-soon"], "priority": "high"}));
    let soon = task_with("t-soon", json!({"priority": "low"}));
    let site = Site::planned(&format!("{BUILDER}{VERIFIER}"), &[late, soon, task("t-next")]);
    site.exits(0, &["build"]);
    let built: Vec<_> = site.logged("task_done").iter().map(|done| done["task"].clone()).collect();
    assert_eq!(built, ["t-soon", "t-late", "t-next"]);
}

#[test]
fn every_way_to_start_the_loop_is_the_same_loop() {
    for args in [
        &[][..],
        &["9"],
        &["build"],
        &["construct", "9"],
        &["build", SPEC, "9"],
        &["--max-cost", "5"],
        &["--quiet", "9"],
    ] {
        let site = Site::planned(&format!("{BUILDER}{VERIFIER}"), &[task("t-aaaa")]);
        site.exits(0, args);
        site.assert_complete();
    }
}

/// The plan is in home, wherever that is configured.
#[test]
fn ralph_alone_builds_the_plan_of_a_home_with_another_name() {
    let site = Site::planned(&format!("{BUILDER}{VERIFIER}"), &[task("t-aaaa")]);
    site.git(&["mv", "ralph", "brain"]);
    site.configure("home = \"brain\"\n");
    site.exits(0, &[]);
    assert_eq!(site.ralph(&["query", "stage"]).stdout, "COMPLETE\n");
    // A mistyped command is not treated as a spec to build.
    let mistyped = site.exits(2, &["--quiet", "staus"]);
    assert!(mistyped.stderr.contains("unrecognized subcommand 'staus'"), "{mistyped}");
}
