//! `ralph plan <spec>`: from a spec to tasks, and the handling of existing tasks.

use std::fs;

use serde_json::json;

use super::{BUILDER, PLANNER, SPEC, Site, VERIFIER, task, task_with};

/// A site with tasks of another spec, one done and one not, and a tombstone.
fn with_old_tasks() -> Site {
    let old = json!({"spec": "old.md"});
    let site = Site::new(PLANNER);
    let text = [
        json!({"t": "spec", "spec": "old.md"}),
        task_with("t-aaaa", old.clone()),
        task_with("t-bbbb", json!({"spec": "old.md", "s": "d", "done_at": "abc1234"})),
        json!({"t": "reject", "id": "t-aaaa", "done_at": "abc1234", "reason": "so"}),
    ]
    .map(|record| format!("{record}\n"))
    .concat();
    fs::write(site.path("ralph/plan.jsonl"), text).unwrap();
    site.commit_all("an old plan");
    site
}

#[test]
fn a_plan_is_made_prioritised_and_committed() {
    let site = Site::new(PLANNER);
    let finished = site.exits(0, &["plan", SPEC]);
    assert!(finished.stderr.contains(SPEC), "{finished}");
    let hello = site.task("t-hello");
    assert_eq!((&hello["spec"], &hello["s"]), (&json!(SPEC), &json!("p")));
    assert!(hello["priority"].is_string(), "{hello}");
    site.assert_clean();
}

#[test]
fn a_spec_is_found_by_name_and_a_missing_one_names_those_there_are() {
    for name in ["greet", "greet.md", "ralph/specs/greet.md"] {
        let site = Site::new(PLANNER);
        site.exits(0, &["plan", name]);
        assert_eq!(site.records("spec")[0]["spec"], SPEC);
    }
    let site = Site::new(PLANNER);
    let finished = site.exits(2, &["plan", "missing.md"]);
    assert!(finished.stderr.contains(SPEC), "{finished}");
    assert_eq!(site.plan_text(), "");
}

#[test]
fn with_unfinished_tasks_and_nobody_to_ask_it_exits_with_3_and_changes_nothing() {
    for args in [&["plan", SPEC][..], &["plan", SPEC, "--non-interactive"], &["build", SPEC]] {
        let site = with_old_tasks();
        let before = site.plan_text();
        let finished = site.exits(3, args);
        for line in [
            "Found unfinished tasks from spec 'old.md':",
            "  - [pending] t-aaaa: Do t-aaaa",
            "  - [done] t-bbbb: Do t-bbbb",
        ] {
            assert!(finished.stderr.contains(line), "{finished}");
        }
        // The hint it prints works for either command.
        assert!(
            finished.stderr.contains(&format!("`ralph plan {SPEC} --yes` cancels")),
            "{finished}"
        );
        assert_eq!(site.plan_text(), before);
    }
    let site = Site::planned(PLANNER, &[task("t-aaaa")]);
    let finished = site.exits(3, &["plan", SPEC]);
    assert!(finished.stderr.contains(&format!("`ralph plan {SPEC} --yes` keeps")), "{finished}");
}

#[test]
fn they_are_cancelled_by_yes_and_by_c_and_tombstones_go_with_them() {
    for (args, typed) in [(&["plan", SPEC, "--yes"][..], &b""[..]), (&["plan", SPEC], b"c\n")] {
        let site = with_old_tasks();
        let (code, said) = site.at_terminal(args, typed);
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(site.records("spec"), [json!({"t": "spec", "spec": SPEC})]);
        let ids: Vec<_> = site.records("task").iter().map(|task| task["id"].clone()).collect();
        assert_eq!(ids, ["t-hello"]);
        assert!(site.records("reject").is_empty());
        // They stay in git's history.
        assert!(site.git(&["log", "-p", "--", "ralph/plan.jsonl"]).contains("t-aaaa"));
        site.assert_clean();
    }
}

#[test]
fn a_and_the_end_of_input_abort_with_everything_as_it_was() {
    for typed in [&b"a\n"[..], b"\n", b"k\n", b"\x04"] {
        let site = with_old_tasks();
        let before = (site.plan_text(), site.git(&["rev-parse", "HEAD"]));
        let (code, said) = site.at_terminal(&["plan", SPEC], typed);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("nothing was changed"), "{said}");
        assert!(!said.contains("[k]"), "{said}");
        assert_eq!((site.plan_text(), site.git(&["rev-parse", "HEAD"])), before);
    }
}

/// A site with a task of a spec that is not the current one.
fn with_leftovers(current: &str) -> Site {
    let site = Site::new(&format!("{PLANNER}{BUILDER}{VERIFIER}"));
    let text =
        [json!({"t": "spec", "spec": current}), task_with("t-left", json!({"spec": "old.md"}))]
            .map(|record| format!("{record}\n"))
            .concat();
    fs::write(site.path("ralph/plan.jsonl"), text).unwrap();
    fs::write(site.path("ralph/specs/old.md"), "# Old\n").unwrap();
    site.commit_all("leftovers");
    site
}

#[test]
fn leftovers_of_a_spec_that_is_not_the_current_one_are_asked_about_too() {
    for current in ["", "third.md"] {
        let site = with_leftovers(current);
        let before = (site.plan_text(), site.git(&["rev-parse", "HEAD"]));
        for args in [&["plan", SPEC][..], &["build", SPEC]] {
            let finished = site.exits(3, args);
            assert!(finished.stderr.contains("from spec 'old.md'"), "{finished}");
            assert!(finished.stderr.contains("  - [pending] t-left: Do t-left"), "{finished}");
            assert_eq!((site.plan_text(), site.git(&["rev-parse", "HEAD"])), before);
        }
        site.exits(0, &["plan", SPEC, "--yes"]);
        assert_eq!(site.records("task").len(), 1);
        assert_eq!(site.records("task")[0]["id"], "t-hello");
    }
}

#[test]
fn leftovers_of_another_spec_are_in_nobodys_way_while_planning_goes_on() {
    let site = with_leftovers(SPEC);
    site.exits(0, &["plan", SPEC, "--yes"]);
    let ids: Vec<_> = site.records("task").iter().map(|task| task["id"].clone()).collect();
    assert_eq!(ids, ["t-left", "t-hello"]);
}

#[test]
fn a_spec_whose_tasks_are_there_is_built_without_planning_it_again() {
    let site = with_leftovers("third.md");
    site.exits(0, &["build", "old.md"]);
    assert_eq!(site.roles(), ["builder", "verifier"]);
    assert_eq!(site.records("spec"), [json!({"t": "spec", "spec": "old.md"})]);
    site.assert_complete();
}

#[test]
fn b12_2_tasks_of_the_same_spec_that_are_kept_are_kept() {
    for (args, typed) in [(&["plan", SPEC, "--yes"][..], &b""[..]), (&["plan", SPEC], b"k\n")] {
        let done = task_with("t-bbbb", json!({"s": "d", "done_at": "abc1234"}));
        let site = Site::planned(
            "[planner]\nexpect-prompt t-aaaa\nrun ralph task add '{\"id\": \"t-more\", \"name\": \"More\"}'\nfinal x\n",
            &[task("t-aaaa"), done],
        );
        let (code, said) = site.at_terminal(args, typed);
        assert_eq!(code, Some(0), "{said}");
        let ids: Vec<_> = site.records("task").iter().map(|task| task["id"].clone()).collect();
        assert_eq!(ids, ["t-aaaa", "t-bbbb", "t-more"]);
        assert_eq!(site.task("t-bbbb")["s"], "d");
    }
}

#[test]
fn b12_3_construct_plans_a_spec_without_tasks_and_succeeds() {
    let site = Site::new(&format!("{PLANNER}{BUILDER}{VERIFIER}"));
    site.exits(0, &["construct", SPEC, "2"]);
    assert_eq!(site.roles(), ["planner", "builder", "verifier"]);
    site.assert_complete();
}

#[test]
fn a_planner_may_add_tasks_and_nothing_else() {
    let script = "[planner]\nrun ralph task done t-aaaa\nrun ralph task accept\nrun ralph issue add x\n\
                  run ralph set-spec other.md\nrun ralph task add '{\"name\": \"A\", \"deps\": [\"t-nope\"]}'\n\
                  run ralph task add A\nfinal x\n";
    let site = Site::new(script);
    site.exits(0, &["plan", SPEC]);
    let allowed: Vec<bool> = site.answers().iter().map(|(accepted, _)| *accepted).collect();
    assert_eq!(allowed, [false, false, false, false, false, true], "{:?}", site.answers());
    assert_eq!(site.records("task").len(), 1);
}

#[test]
fn a_planner_that_writes_into_the_tree_has_failed_and_the_paths_are_named() {
    let script =
        "[planner]\nrun ralph task add A\nwrite src/a.txt x\nappend README.md x\nfinal x\n";
    let site = Site::new(script);
    site.configure("boundary = \"detect\"\n");
    let finished = site.exits(1, &["plan", SPEC]);
    assert!(finished.stderr.contains("src/a.txt"), "{finished}");
    assert!(finished.stderr.contains("README.md"), "{finished}");
    assert!(finished.stderr.contains("1 task"), "{finished}");
    assert!(!site.path("src/a.txt").exists());
    assert_eq!(fs::read_to_string(site.path("README.md")).unwrap(), "A repository.\n");
    site.assert_clean();
}

#[test]
fn a_planner_that_adds_nothing_or_does_not_end_has_not_planned() {
    let site = Site::new("[planner]\nfinal PLAN_COMPLETE\n");
    let finished = site.exits(1, &["plan", SPEC]);
    assert!(finished.stderr.contains("it added no task"), "{finished}");
    // Nor is an empty plan a complete one, until there is a task.
    let finished = site.exits(1, &["build"]);
    assert!(finished.stderr.contains("no spec is planned"), "{finished}");
    assert!(!finished.stderr.contains("complete"), "{finished}");
    let screen = site.exits(0, &["status"]);
    assert!(screen.stdout.contains(": not planned yet; `ralph plan "), "{screen}");
    site.exits(0, &["task", "add", "One"]);
    fs::write(site.place.path("script"), format!("{BUILDER}{VERIFIER}")).unwrap();
    site.exits(0, &["build"]);
    site.assert_complete();
    let screen = site.exits(0, &["status"]);
    assert!(screen.stdout.contains(": complete\n"), "{screen}");

    let site = Site::new("[planner]\nrun ralph task add A\nhang\n");
    let finished = site.exits(1, &["plan", SPEC, "--timeout", "1s"]);
    assert!(finished.stderr.contains("too long"), "{finished}");
    assert_eq!(site.records("task").len(), 1);
    site.assert_clean();
}

/// A planner that found nothing missing.
const NOTHING: &str =
    "final <<END\nIt greets in src/hello.txt.\n**[RALPH] PLAN_COMPLETE: 0**\nEND\n";

#[test]
fn that_nothing_is_missing_has_a_verifiers_opinion_and_a_person_says_yes() {
    let script = format!(
        "[planner]\n{NOTHING}[verifier]\nexpect-prompt It greets in src/hello.txt.\nexpect-prompt Say hello.\nfinal So it does.\n"
    );
    let site = Site::new(&script);
    let finished = site.exits(3, &["plan", SPEC]);
    for told in [SPEC, "It greets in src/hello.txt.", "So it does.", "ralph answer plan yes"] {
        assert!(finished.stderr.contains(told), "{finished}");
    }
    // Until then nothing is planned, nothing runs, and it is asked again.
    for args in [&["plan", SPEC][..], &["build"], &["build", SPEC]] {
        let finished = site.exits(3, args);
        assert!(finished.stderr.contains("So it does."), "{finished}");
    }
    assert_eq!(site.roles(), ["planner", "verifier"]);
    let answered = site.exits(0, &["answer", "plan", "yes"]);
    assert!(answered.stderr.contains("`ralph build` acts on it"), "{answered}");
    let finished = site.exits(0, &["build"]);
    assert!(finished.stderr.contains("the plan is complete"), "{finished}");
    site.exits(0, &["build", SPEC]);
    assert_eq!(site.roles(), ["planner", "verifier"]);
    site.assert_clean();
}

#[test]
fn that_nothing_is_missing_is_planned_again_on_any_other_answer_and_when_the_spec_changes() {
    let script = format!(
        "[planner 1]\n{NOTHING}[planner 2]\nexpect-prompt in French too\n{NOTHING}{PLANNER}[verifier]\nfinal So it does.\n"
    );
    let site = Site::new(&script);
    site.exits(3, &["plan", SPEC]);
    site.exits(0, &["answer", "plan", "in French too"]);
    site.exits(3, &["plan", SPEC]);
    assert_eq!(site.roles(), ["planner", "verifier", "planner", "verifier"]);
    // The claim was about another text, and so is an answer.
    site.exits(0, &["answer", "plan", "yes"]);
    fs::write(site.path("ralph/specs").join(SPEC), "# Greet\n\nSay hello, twice.\n").unwrap();
    site.commit_all("another spec");
    site.exits(0, &["plan", SPEC]);
    assert_eq!(site.roles().len(), 5);
    assert_eq!(site.task("t-hello")["s"], "p");
}

#[test]
fn a_verifier_that_adds_a_task_settles_that_something_is_missing() {
    let script = format!(
        "[planner]\n{NOTHING}[verifier 1]\nrun ralph task add '{{\"id\": \"t-more\", \"name\": \"More\"}}'\nfinal No.\n"
    );
    let site = Site::new(&format!("{script}{BUILDER}{VERIFIER}"));
    site.exits(0, &["plan", SPEC]);
    assert_eq!(site.task("t-more")["s"], "p");
    site.exits(0, &["build"]);
    site.assert_complete();
}

/// Any file of the workspace can be a spec, from any directory.
#[test]
fn a_spec_beside_home_is_planned_and_built() {
    let planner = PLANNER.replacen("[planner]\n", "[planner]\nexpect-prompt Wave a hand.\n", 1);
    let verifier = "[verifier]\nexpect-prompt Wave a hand.\nrun ralph task accept\nfinal fine\n";
    let site = Site::new(&format!("{planner}{BUILDER}{verifier}"));
    fs::create_dir(site.path("docs")).unwrap();
    fs::write(site.path("docs/wave.md"), "# Wave\n\nWave a hand.\n").unwrap();
    site.commit_all("a spec elsewhere");
    site.exits(0, &["plan", "docs/wave.md"]);
    assert_eq!(site.task("t-hello")["spec"], "docs/wave.md");
    site.exits(0, &["build"]);
    site.assert_complete();
}

/// The spec that was planned is committed with the plan; the pipeline does not plan again what was built.
#[test]
fn a_spec_that_was_never_committed_is_committed_and_not_planned_again_by_the_pipeline() {
    let site = Site::new(&format!("{PLANNER}{BUILDER}{VERIFIER}"));
    fs::write(site.path("ralph/specs/0001-wave.md"), "# Wave\n\nWave a hand.\n").unwrap();
    site.exits(0, &["plan", "1"]);
    assert!(site.commits().contains(&"ralph: spec 0001-wave.md".to_owned()));
    site.assert_clean();
    site.exits(0, &["build"]);
    let (roles, commits) = (site.roles(), site.commits());
    let skipped = site.exits(0, &["pipeline"]);
    assert!(skipped.stderr.contains("[skip] its tasks are built"), "{skipped}");
    assert_eq!((site.roles(), site.commits()), (roles, commits));
    // Named, it is worked on.
    let forecast = site.exits(0, &["pipeline", "1", "--dry-run"]);
    assert!(forecast.stdout.contains("it has no plan"), "{forecast}");
}

/// An empty plan looks like a finished one. Only a planner's tasks tell that there was something to build.
#[test]
fn a_spec_of_which_no_planner_made_tasks_is_not_built() {
    let site = Site::new("[planner]\nfinal PLAN_COMPLETE\n");
    fs::write(site.path("ralph/specs/0001-wave.md"), "# Wave\n\nWave a hand.\n").unwrap();
    site.exits(1, &["plan", "1"]);
    let listed = site.exits(0, &["specs"]);
    assert!(listed.stdout.contains("fresh") && !listed.stdout.contains("built"), "{listed}");
    let forecast = site.exits(0, &["pipeline", "--dry-run"]);
    assert!(forecast.stdout.contains("it has no plan"), "{forecast}");
    let finished = site.exits(1, &["pipeline", "--max-attempts", "1"]);
    assert!(!finished.stderr.contains("[skip]"), "{finished}");
}

#[test]
fn without_a_spec_to_plan_those_there_are_are_named() {
    let site = Site::new(PLANNER);
    let finished = site.exits(2, &["plan"]);
    assert!(finished.stderr.contains(&format!("specs: {SPEC}")), "{finished}");
}

#[test]
fn that_the_spec_is_gone_is_said_before_anything_is_built() {
    let site = Site::planned(&format!("{BUILDER}{VERIFIER}"), &[task("t-aaaa")]);
    site.git(&["rm", "-q", &format!("ralph/specs/{SPEC}")]);
    site.commit_all("no spec");
    let finished = site.exits(0, &["build"]);
    assert!(finished.stderr.contains("the plan's spec `"), "{finished}");
}

/// The same rule in all workflows: text that is too long for a prompt must be read from its file.
#[test]
fn a_spec_that_is_too_long_for_a_prompt_is_cut_for_whoever_is_shown_it() {
    let told = "expect-prompt (The spec continues; read its file.)\n";
    let cut = |script: &str| script.replacen("]\n", &format!("]\n{told}"), 1);
    let site = Site::new(&format!("{}{BUILDER}{}", cut(PLANNER), cut(VERIFIER)));
    let long = format!("# Greet\n\n{}", "Say hello, and say it again.\n".repeat(10_000));
    fs::write(site.path("ralph/specs").join(SPEC), long).unwrap();
    site.commit_all("a long spec");
    site.exits(0, &["plan", SPEC]);
    site.exits(0, &["build"]);
    for run in site.logged("run_started") {
        let files = fs::read_dir(run["dir"].as_str().unwrap()).unwrap();
        let mut files = files.map(|file| file.unwrap().path());
        let prompt = files.find(|path| path.to_str().unwrap().ends_with(".prompt.md")).unwrap();
        let length = fs::metadata(&prompt).unwrap().len();
        assert!(length < 220 << 10, "{}: {length}", prompt.display());
    }
    assert_eq!(site.roles(), ["planner", "builder", "verifier"]);
}
