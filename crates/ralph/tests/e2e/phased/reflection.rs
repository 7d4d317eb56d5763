//! The survey about an accepted task: optional, and without consequences.

use super::{BUILD, Site, TASK};

const REFLECT: &str = "[loop]\npreset = \"minimal\"\nreflect = true\n";

const REPLY: &str = "final <<END\nHere:\n```json\n{\"difficulty\":{\"overall\":2},\"wishedFor\":[\"a map\"],\"oneSentenceSummary\":\"Well.\"}\n```\nEND\n";

#[test]
fn a_reflection_is_noted_once_a_task_is_accepted_and_only_if_it_is_asked_for() {
    let script = format!("[builder]\n{BUILD}[verifier]\nexpect-prompt difficulty\n{REPLY}");
    let site = Site::configured(&script, REFLECT);
    site.exits(0, &[TASK]);
    assert_eq!(site.place.roles(), ["builder", "verifier"]);
    let line: serde_json::Value = serde_json::from_str(&site.mail("reflections.jsonl")).unwrap();
    assert_eq!((&line["taskId"], &line["difficulty"]["overall"]), (&"loop-1".into(), &2.into()));
    site.assert_clean();
    let site = Site::new(&script);
    site.exits(0, &[TASK]);
    assert_eq!(site.place.roles(), ["builder"]);
}

/// Defect D8.13: there is no survey about a task that changed nothing, and no answer changes the result of the task.
#[test]
fn a_reflection_that_fails_changes_nothing_and_none_is_asked_for_after_nothing() {
    for reply in ["final It was fine.\n", "exit 1\n", "run echo x > hello.txt\nfinal {}\n"] {
        let site = Site::configured(&format!("[builder]\n{BUILD}[verifier]\n{reply}"), REFLECT);
        let done = site.exits(0, &[TASK]);
        assert!(done.stderr.contains("task accepted"), "{done}");
        assert_eq!(
            (site.mail("reflections.jsonl"), site.read("hello.txt")),
            (String::new(), "hello\n".into())
        );
        site.exits(2, &["--resume"]);
        site.assert_clean();
    }
    let script = "[builder]\nwrite .ralph/status.txt complete\nfinal NO_CHANGE_NEEDED: it is there\n[verifier]\nfinal It is.\n";
    let site = Site::configured(script, REFLECT);
    site.exits(3, &[TASK]);
    site.place.ralph(&["answer", "loop-1", "yes"]);
    site.exits(0, &["--resume"]);
    assert_eq!(site.place.roles(), ["builder", "verifier"], "one opinion, and no survey");
}
