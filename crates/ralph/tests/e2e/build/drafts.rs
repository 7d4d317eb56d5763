//! A change acknowledged to an agent is in the plan after its run, whatever the agent does to the working tree.

use super::{Site, task};

/// A builder's actions right after `ralph issue add`.
const HABITS: [&str; 6] = [
    "git reset -q --hard",
    "git stash -q; true",
    "git checkout -q -- .",
    "git checkout -q -b feature; git reset -q --hard HEAD~1; git checkout -q -",
    "git clean -fdq; git restore .",
    "echo '{\"t\":\"spec\"}' > ralph/plan.jsonl",
];

#[test]
fn an_issue_that_was_acknowledged_survives_what_the_agent_does_to_the_work_tree() {
    for habit in HABITS {
        let script = format!(
            "[builder]\nrun ralph issue add seen\nrun {habit}\nwrite a.txt x\nrun git add -A\nrun git commit -qm work\n\
             run ralph task done\nfinal done\n"
        );
        let site = Site::planned(&script, &[task("t-aaaa")]);
        site.ralph(&["build", "1"]);
        let issues = site.records("issue");
        assert_eq!(issues.len(), 1, "{habit}: {}", site.plan_text());
        assert_eq!(issues[0]["desc"], "seen", "{habit}");
        site.assert_clean();
        let swept = site.git(&["log", "--format=%s", "--", "ralph/plan.jsonl"]);
        assert!(!swept.lines().any(|subject| subject == "work"), "{habit}: {swept}");
        assert_eq!(site.git(&["stash", "list"]), "", "{habit}");
    }
}

#[test]
fn inside_a_run_the_plan_is_as_the_run_has_changed_it() {
    let script = "[builder]\nrun ralph issue add seen\nrun sh -c 'ralph query issues > issues.json'\n\
                  run sh -c 'git status --porcelain > status'\nrun ralph task done\nfinal done\n";
    let site = Site::planned(script, &[task("t-aaaa")]);
    site.ralph(&["build", "1"]);
    let issues = std::fs::read_to_string(site.path("issues.json")).unwrap();
    assert!(issues.contains("seen"), "{issues}");
    let status = std::fs::read_to_string(site.path("status")).unwrap();
    assert!(!status.contains("ralph/"), "{status}");
}

#[test]
fn what_a_person_changes_during_a_run_and_what_the_run_changes_are_both_in_the_plan() {
    let site = Site::planned("", &[task("t-aaaa")]);
    let script = format!(
        "[builder]\nrun ralph issue add seen\nwrite a.txt x\n\
         run touch begun; until [ -e {} ]; do sleep 0.02; done; rm begun\nrun ralph task done\nfinal done\n",
        site.place.path("go").display()
    );
    std::fs::write(site.place.path("script"), script).unwrap();
    let running = site.place.start(&["build", "1"]);
    crate::clones::wait_for_slot(&site.place, "begun");
    site.exits(0, &["task", "add", "by-a-person"]);
    std::fs::write(site.place.path("go"), "").unwrap();
    running.finish();
    assert_eq!(site.records("issue").len(), 1, "{}", site.plan_text());
    let names: Vec<String> =
        site.records("task").iter().map(|task| task["name"].as_str().unwrap().to_owned()).collect();
    assert!(names.iter().any(|name| name == "by-a-person"), "{names:?}");
    site.assert_clean();
}
