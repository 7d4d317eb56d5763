//! Tasks that were too large: killed, decomposed, and given up if that does not help.

use std::fs;

use serde_json::{Value, json};

use super::{BUILDER, SPEC, Site, VERIFIER, task, task_with};

fn parts(first: &str, second: &str) -> String {
    format!(
        "run ralph task add '[{{\"id\": \"{first}\", \"name\": \"One\"}}, \
         {{\"id\": \"{second}\", \"name\": \"Two\", \"deps\": [\"{first}\"]}}]'\n\
         run ralph task delete $RALPH_TASK\nfinal done\n"
    )
}

#[test]
fn a_task_that_runs_out_of_time_is_broken_up_and_its_dependents_wait_for_the_parts() {
    let script = format!(
        "[builder 1]\nwrite half.txt x\nhang\n[decomposer]\nexpect-prompt timeout\n{}{BUILDER}{VERIFIER}",
        parts("t-part1", "t-part2")
    );
    let after = task_with("t-late", json!({"deps": ["t-huge"], "priority": "high"}));
    let site = Site::planned(&script, &[task("t-huge"), after]);
    site.configure("roles.builder.timeout = \"1s\"\n");
    site.exits(1, &["build", "1"]);
    let killed = site.task("t-huge");
    assert_eq!((&killed["s"], &killed["kill"]), (&json!("p"), &json!("timeout")));
    // The log exists at the given path and contains what happened.
    let log = site.path(killed["kill_log"].as_str().unwrap());
    assert!(fs::read_to_string(&log).unwrap().contains("half.txt"), "{}", log.display());
    // Its unfinished work is in its clone; it was not judged, so it is on no branch.
    assert!(!site.commits().iter().any(|subject| subject.contains("unfinished")));
    site.assert_clean();

    site.exits(1, &["build", "1"]);
    for part in ["t-part1", "t-part2"] {
        assert_eq!(site.task(part)["parent"], "t-huge");
    }
    assert_eq!(site.task("t-late")["deps"], json!(["t-part1", "t-part2"]));
    site.exits(0, &["build"]);
    let built: Vec<_> = site.logged("task_done").iter().map(|done| done["task"].clone()).collect();
    assert_eq!(built, ["t-part1", "t-part2", "t-late"]);
    assert_eq!(
        site.roles(),
        ["builder", "decomposer", "builder", "builder", "builder", "verifier"]
    );
    site.assert_complete();
}

#[test]
fn the_log_of_a_killed_run_is_named_from_home_where_home_lies_outside_the_workspace() {
    for is_absolute in [true, false] {
        let script = format!(
            "[builder 1]\nhang\n[decomposer]\nexpect-prompt office/ralph/runs/t-huge/\n{}",
            parts("t-part1", "t-part2")
        );
        let site = Site::new(&script);
        let home = site.place.path("office/ralph");
        let named = if is_absolute { home.to_str().unwrap() } else { "../office/ralph" };
        site.configure(&format!("home = {named:?}\nroles.builder.timeout = \"1s\"\n"));
        fs::create_dir_all(home.parent().unwrap()).unwrap();
        fs::rename(site.path("ralph"), &home).unwrap();
        let plan = home.join("plan.jsonl");
        let records = [json!({"t": "spec", "spec": SPEC}), task("t-huge")];
        fs::write(&plan, records.map(|record| format!("{record}\n")).concat()).unwrap();
        site.exits(1, &["build", "1", "--allow-dirty"]);
        let text = fs::read_to_string(&plan).unwrap();
        let killed: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
        let log = killed["kill_log"].as_str().unwrap();
        assert!(log.starts_with("runs/t-huge/") && home.join(log).exists(), "{log}");
        site.exits(1, &["build", "1", "--allow-dirty"]);
        assert!(fs::read_to_string(&plan).unwrap().contains("t-part2"));
    }
}

#[test]
fn a_task_whose_context_is_full_is_broken_up_too() {
    let script = format!(
        "[builder 1]\ncontext used=960\nhang\n[decomposer]\nexpect-prompt context\n{}{BUILDER}{VERIFIER}",
        parts("t-part1", "t-part2")
    );
    let site = Site::planned(&script, &[task("t-huge")]);
    site.exits(0, &["build", "--context-limit", "1000"]);
    assert_eq!(site.logged("task_killed")[0]["reason"], "context");
    site.assert_complete();
}

/// B12.11: the log of the killed run is in home, under the path in the task, and the decomposer can read it.
#[test]
fn b12_11_the_decomposer_reads_the_log_that_the_killed_task_names() {
    let log = "ralph task show $RALPH_TASK | sed -n 's/.*\"kill_log\": \"\\(.*\\)\".*/\\1/p'";
    let script = format!(
        "[builder 1]\nsay the needle\nhang\n\
         [decomposer]\nrun grep -q 'the needle' \"$({log})\" && ralph task add '[{{\"name\": \"A\"}}, {{\"name\": \"B\"}}]'\nfinal done\n"
    );
    let site = Site::planned(&script, &[task("t-huge")]).in_place();
    site.exits(1, &["build", "2", "--timeout", "1s"]);
    assert_eq!(site.roles(), ["builder", "decomposer"]);
    let names: Vec<_> = site.records("task").iter().map(|task| task["name"].clone()).collect();
    assert_eq!(names, ["A", "B"]);
}

#[test]
fn b12_18_the_task_that_was_worked_on_is_the_one_that_is_killed() {
    let first = task_with("t-last", json!({"name": "Same name", "priority": "low"}));
    let second = task_with("t-next", json!({"name": "Same name", "priority": "high"}));
    let site = Site::planned("[builder]\nhang\n", &[first, second]);
    site.exits(1, &["build", "1", "--timeout", "1s"]);
    assert!(site.task("t-last").get("kill").is_none());
    assert_eq!(site.task("t-next")["kill"], "timeout");
}

#[test]
fn b12_15_a_kill_is_told_and_is_no_failure() {
    let site = Site::planned("[builder]\nhang\n[decomposer]\nfinal no idea\n", &[task("t-huge")]);
    let finished = site.exits(1, &["build", "1", "--timeout", "1s", "--max-failures", "1"]);
    assert!(finished.stderr.contains("iteration"), "{finished}");
    assert_eq!(site.logged("task_killed")[0]["task"], "t-huge");
}

#[test]
fn a_decomposition_has_two_to_five_parts_and_stays_within_them_over_a_crash() {
    let script = "[decomposer 1]\nrun ralph task add One\nrun ralph task delete t-huge\ncrash\n\
                  [decomposer 2]\nrun ralph task add '[{\"name\": \"Two\"}, {\"name\": \"Three\"}]'\n\
                  run ralph task add '[{\"name\": \"Four\"}, {\"name\": \"Five\"}, {\"name\": \"Six\"}]'\n\
                  run ralph task done t-huge\nfinal I forgot to delete it\n";
    let huge = task_with("t-huge", json!({"kill": "timeout"}));
    let site = Site::planned(script, &[huge]);
    site.exits(1, &["build", "2"]);
    let answers = site.answers();
    let allowed: Vec<bool> = answers.iter().map(|(accepted, _)| *accepted).collect();
    assert_eq!(allowed, [true, false, true, false, false], "{answers:?}");
    assert!(answers[1].1.contains("at least 2 subtasks"), "{answers:?}");
    assert!(answers[3].1.contains("at most 5 subtasks"), "{answers:?}");
    // Once its subtasks exist, the task itself is removed.
    let names: Vec<_> = site.records("task").iter().map(|task| task["name"].clone()).collect();
    assert_eq!(names, ["One", "Two", "Three"]);
    assert!(site.records("task").iter().all(|task| task["parent"] == "t-huge"));
}

#[test]
fn a_part_of_a_part_of_a_part_becomes_an_issue() {
    let script = format!(
        "[builder 1]\nhang\n[investigator]\nexpect-prompt t-deep\n\
         run ralph task add \"Another way\"\nrun ralph issue done\nfinal done\n{BUILDER}{VERIFIER}"
    );
    let chain = [
        task_with("t-one", json!({"s": "d"})),
        task_with("t-two", json!({"s": "d", "parent": "t-one"})),
        task_with("t-three", json!({"s": "d", "parent": "t-two"})),
        task_with("t-deep", json!({"parent": "t-three"})),
    ];
    let site = Site::planned(&script, &chain);
    site.exits(0, &["build", "--timeout", "1s"]);
    assert_eq!(site.roles(), ["builder", "verifier", "investigator", "builder", "verifier"]);
    site.assert_complete();
}

#[test]
fn what_a_killed_run_has_broken_is_no_excuse_for_its_parts() {
    let script = format!(
        "[builder 1]\nwrite state.txt broken\nhang\n[decomposer]\n{}\
         [builder]\nwrite ${{RALPH_TASK}} x\nrun ralph task done\nfinal done\n",
        parts("t-part1", "t-part2")
    );
    let site = Site::planned(&script, &[task("t-huge")]).in_place();
    fs::write(site.path("state.txt"), "sound\n").unwrap();
    site.commit_all("all is well");
    site.gate(&["grep", "-q", "sound", "state.txt"]);
    site.configure("roles.builder.timeout = \"2s\"\n");
    site.exits(1, &["build", "3"]);
    assert_eq!(site.logged("task_rejected").len(), 1, "{}", site.plan_text());
    assert_eq!(site.task("t-part1")["s"], "p");
}
