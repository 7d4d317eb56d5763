//! The table of traced scenarios, and the limits of the loop.

use super::{BUILD, PLAN, Site, TASK, assert_as_in_guide};

#[test]
fn a_task_is_planned_validated_built_and_accepted() {
    let script = format!(
        "[builder 1]\nexpect-prompt The phase is plan.\nexpect-prompt {TASK}\nexpect-prompt Not written yet.\n{PLAN}final planned\n\
         [builder 2]\nexpect-prompt The phase is build.\nexpect-prompt # Plan Validated\nexpect-prompt iteration 2 of 20\n{BUILD}"
    );
    let site = Site::new(&script);
    let done = site.exits(0, &[TASK]);
    assert!(done.stderr.contains("A file that says hello."), "{done}");
    assert_eq!((site.runs(), site.verdicts()), (2, vec!["accepted".to_owned()]));
    assert_eq!((site.mail("phase.txt"), site.mail("iteration.txt")), ("build".into(), "2".into()));
    assert_eq!(site.mail("task.md"), format!("# Task\n\n{TASK}\n"));
    assert_eq!(site.mail("task-counter.txt").trim(), "1");
    assert_eq!(site.mail("task-history.md"), "- **Task 1**: A file that says hello.\n");
    assert!(site.mail("origin.md").contains(TASK));
    for name in ["before", "after"] {
        site.git(&["rev-parse", "--verify", &format!("refs/ralph/loop/1/{name}")]);
    }
    assert!(site.place.env.commits()[0].starts_with(TASK), "{:?}", site.place.env.commits());
    assert_eq!(site.git(&["show", "HEAD:hello.txt"]), "hello");
    site.assert_clean();
}

/// Every row of the table of traced scenarios, in a slot and in place: the phase and the plan before, the run's signal,
/// the number of runs and verdicts, and the phase afterwards.
#[test]
fn every_row_of_the_scenario_table_ends_as_traced() {
    let researches = format!("[builder 1]\nexpect-prompt Not written yet.\n{PLAN}final planned\n");
    let then_builds = format!("{researches}[builder 2]\nexpect-prompt The phase is build.\n");
    let at_once = format!("[builder 1]\n{PLAN}write .ralph/status.txt complete\nfinal done\n");
    let invalid = PLAN.replace("(new)", "");
    let fixes = BUILD.replace("status.txt complete", "status.txt running");
    // A reply without tool calls comes from a separate run, after the work was done.
    let text_only = format!("[builder 1]\n{fixes}[builder 2]\nfinal All of it is there.\n");
    let text_in_plan =
        format!("[builder 1]\n{invalid}{fixes}[builder 2]\nfinal All of it is there.\n");
    let rows: [(&str, String, u32, usize, &str); 8] = [
        ("new UI task, iteration 1", researches.clone(), 1, 0, "build"),
        ("new UI task, iteration 2", format!("{then_builds}run true\nfinal on\n"), 2, 0, "build"),
        ("degenerate: plan and complete in the same batch", at_once, 1, 0, "build"),
        ("build done", format!("{then_builds}{BUILD}"), 2, 1, "build"),
        ("bug fix, no plan", format!("[builder 1]\n{BUILD}"), 1, 1, "plan"),
        (
            "refactoring, no plan",
            format!("[builder 1]\nrun git mv README.md READ.md\n{BUILD}"),
            1,
            1,
            "plan",
        ),
        ("completed without tools during plan", text_in_plan, 2, 0, "plan"),
        ("completed without tools, no plan", text_only, 2, 1, "plan"),
    ];
    for (row, script, runs, verdicts, phase) in rows {
        for in_place in [false, true] {
            let site = Site::new(&script);
            let site = if in_place { site.in_place() } else { site };
            let exit = i32::from(verdicts == 0);
            site.exits(exit, &[TASK, "--max-iterations", &runs.to_string()]);
            let found = (site.verdicts(), site.mail("phase.txt"));
            assert_eq!(found, (vec!["accepted".to_owned(); verdicts], phase.to_owned()), "{row}");
            assert_eq!(site.runs(), runs as usize, "{row}");
        }
    }
}

/// The regression for which the phases were introduced: a plan and a completion in the same batch.
#[test]
fn a_completion_with_a_plan_that_is_not_validated_is_swallowed() {
    let all_at_once = format!("{PLAN}{BUILD}");
    let script = format!(
        "[builder 1]\n{all_at_once}[builder 2]\nexpect-prompt # Plan Validated\n\
         expect-run grep -qx running .ralph/status.txt\nwrite .ralph/status.txt complete\nfinal done\n"
    );
    let site = Site::new(&script);
    site.exits(0, &[TASK]);
    assert_eq!(site.runs(), 2);
    assert_eq!(site.verdicts(), ["accepted"], "the first completion was not judged");
}

#[test]
fn an_invalid_plan_stays_in_plan_with_what_is_wrong() {
    let bad = PLAN.replace("1. `hello.txt` (new)", "1. `hallo.txt`");
    let script = format!(
        "[builder 1]\n{bad}final planned\n\
         [builder 2]\nexpect-prompt The phase is plan.\nexpect-prompt FAIL [files-exist]: line 7\n{PLAN}final planned\n\
         [builder 3]\nexpect-prompt The phase is build.\n{BUILD}"
    );
    let site = Site::new(&script);
    // An end before it is mended names what is wrong with it.
    let ended = site.exits(1, &[TASK, "--max-iterations", "1"]);
    assert!(ended.stderr.contains("\n  FAIL [files-exist]: line 7"), "{ended}");
    site.exits(0, &["--resume"]);
    assert_eq!((site.runs(), site.verdicts().len()), (3, 1));
}

#[test]
fn without_a_plan_the_phases_are_inert() {
    let site = Site::new(&format!("[builder]\n{BUILD}"));
    site.exits(0, &[TASK]);
    assert_eq!((site.runs(), site.mail("phase.txt")), (1, "plan".into()));
}

#[test]
fn a_reply_without_tools_is_a_completion_and_one_that_shows_commands_is_none() {
    let script = "[builder 1]\nwrite hello.txt hello\nwrite .ralph/summary.md A file that says hello.\nfinal half\n\
        [builder 2]\nfinal <<END\n```bash\nmkdir a\ncd a\ntouch b\n```\nEND\n\
        [builder 3]\nexpect-prompt # Use Your Tools\nfinal Everything is there.\n";
    let site = Site::new(script);
    site.exits(0, &[TASK]);
    assert_eq!((site.runs(), site.verdicts().len()), (3, 1));
    // With an unvalidated plan, a reply without tool calls is deferred as well.
    let script = format!(
        "[builder 1]\n{PLAN}final planned\n[builder 2]\nexpect-prompt Plan Validated\ndelete .ralph/plan.md\nfinal done\n[builder 3]\nexpect-prompt is gone or empty\nfinal Everything is there.\n"
    );
    let site = Site::new(&script);
    site.exits(1, &[TASK, "--max-iterations", "3"]);
    assert_eq!(
        (site.gate_runs(), site.verdicts().len()),
        (0, 0),
        "whoever removes the plan is not judged"
    );
}

#[test]
fn five_gate_failures_in_a_row_abort_and_the_feedback_grows_louder() {
    let bad = BUILD.replace("write hello.txt hello", "append hello.txt bad");
    let script = format!(
        "[builder 1]\n{bad}[builder 2]\nexpect-prompt ACTION REQUIRED\nexpect-prompt ## check\n{bad}\
         [builder 3]\nexpect-prompt CRITICAL: 2 completions\nexpect-prompt attempt 3 of 5\n{bad}[builder 4]\n{bad}[builder 5]\n{bad}\
         [builder 6]\n{BUILD}"
    );
    let site = Site::new(&script);
    let aborted = site.exits(1, &[TASK]);
    assert!(aborted.stderr.contains("gates failed 5 times in a row: check"), "{aborted}");
    assert_eq!((site.runs(), site.verdicts().len()), (5, 5));
    assert!(site.mail("feedback.md").contains("# Quality Gate Failures"), "one file has it all");
    // Another task does not replace it by accident; resuming resets the count.
    let refused = site.exits(2, &["Say goodbye"]);
    assert!(refused.stderr.contains("ralph loop --resume"), "{refused}");
    site.exits(0, &["--resume"]);
    assert_eq!(site.runs(), 6);
}

#[test]
fn all_gates_run_and_each_says_what_to_do() {
    let site =
        Site::new("[builder 1]\nwrite hello.txt bad\nwrite .ralph/status.txt complete\nfinal x\n");
    let spent = site.exits(1, &[TASK, "--max-iterations", "1"]);
    let retry = spent.stderr.lines().find(|line| line.starts_with("[retry] ")).unwrap();
    for part in
        ["has-summary: summary.md is missing", "The gate `check` passes on the base and fails"]
    {
        assert!(retry.contains(part), "{part}\n{retry}");
    }
    let feedback = site.mail("feedback.md");
    for part in ["## check", "## has-summary", "summary.md is missing", "What to do: "] {
        assert!(feedback.contains(part), "{part}\n{feedback}");
    }
}

#[test]
fn a_plan_of_the_last_iteration_is_validated_and_resumed_in_build() {
    let site = Site::new(&format!(
        "[builder 1]\n{PLAN}final planned\n[builder 2]\nexpect-prompt The phase is build.\n{BUILD}"
    ));
    let spent = site.exits(1, &[TASK, "--max-iterations", "1"]);
    assert!(spent.stderr.contains("not complete after 1 iteration"), "{spent}");
    site.exits(0, &["--resume"]);
    assert_eq!(site.runs(), 2);
    // There is nothing left to resume.
    site.exits(2, &["--resume"]);
}

/// A scope marker in the plan is compared with the tree that the task began with.
#[test]
fn an_addition_that_adds_nothing_is_rejected() {
    let plan = "write .ralph/plan.tsx <<'END'\nexport default (\n<App>\n<Theme mood=\"zen\" />\n<Screen name=\"Home\">\n\
        <Section gumdrop=\"pricing\" />\n{/* TASK-1 [ADD]: 1 card */}\n</Screen>\n</App>\n);\nEND\n";
    let prices = |cards: usize| {
        format!("export const Pricing = () => <main>{}</main>;\n", "<Card />".repeat(cards))
    };
    let claim = "write .ralph/summary.md There is one card more.\nwrite .ralph/status.txt complete\nfinal built\n";
    let site = Site::new(&format!(
        "[builder 1]\n{plan}final planned\n\
         [builder 2]\nappend src/Pricing.tsx // Another card.\n{claim}\
         [builder 3]\nexpect-prompt ## scope\nexpect-prompt it had 2 and has 2\nwrite src/Pricing.tsx {}{claim}",
        prices(3)
    ));
    std::fs::create_dir(site.path("src")).unwrap();
    site.write("src/Pricing.tsx", &prices(2));
    site.commit_all("prices");
    site.exits(0, &["One card more"]);
    assert_eq!(site.verdicts(), ["rejected", "accepted"]);
}

/// Defect D8.1: neither a valid nor an invalid plan of an earlier task affects the next.
#[test]
fn a_plan_of_an_earlier_task_is_archived() {
    let script = format!(
        "[builder 1]\n{PLAN}final planned\n[builder 2]\n{BUILD}\
         [builder 3]\nexpect-prompt Not written yet.\nexpect-prompt The phase is plan.\nappend hello.txt more\nwrite .ralph/summary.md It says hello and more.\nwrite .ralph/status.txt complete\nfinal fixed\n"
    );
    let site = Site::new(&script);
    site.exits(0, &[TASK]);
    site.exits(0, &["Say more"]);
    assert_eq!(site.runs(), 3);
    assert!(site.mail("archive/task-1-plan.md").contains("# Plan: hello"));
    assert!(site.mail("task-history.md").contains("- **Task 2**: It says hello and more."));
    assert!(site.mail("origin.md").ends_with("- Task 2: Say more\n"), "{}", site.mail("origin.md"));
}

/// The checks of the preset `generic` are those the project had when the task began.
#[test]
fn detected_checks_are_run_and_an_agent_cannot_change_which() {
    let script = "[builder]\nwrite package.json { \"scripts\": { \"test\": \"true\" } }\nwrite package-lock.json {}\n\
        write hello.txt bad\nwrite .ralph/summary.md A file that says hello.\nwrite .ralph/status.txt complete\nfinal done\n";
    let site = Site::without_gates(script, "");
    std::fs::write(site.path("Makefile"), "test:\n\t! grep -s bad hello.txt\n").unwrap();
    site.commit_all("a check");
    site.exits(1, &[TASK, "--max-iterations", "2"]);
    let started = site.logged("gate_started");
    let commands: Vec<&serde_json::Value> = started.iter().map(|gate| &gate["argv"]).collect();
    assert!(commands.contains(&&serde_json::json!(["make", "test"])), "{commands:?}");
    assert!(!commands.iter().any(|argv| argv[0] == "npm"), "{commands:?}");
    assert_eq!(site.verdicts(), ["rejected", "rejected"]);
    assert!(site.mail("feedback.md").contains("## tests"), "{}", site.mail("feedback.md"));
}

#[test]
fn the_task_can_come_from_a_file_and_the_same_words_go_on() {
    let site = Site::new(&format!(
        "[builder 1]\nexpect-prompt from a file\nfinal x\n[builder 2]\n{BUILD}"
    ));
    std::fs::write(site.place.path("task.md"), "Hello from a file\n").unwrap();
    let file = site.place.path("task.md");
    site.exits(1, &["--file", file.to_str().unwrap(), "--max-iterations", "1"]);
    site.exits(0, &["Hello from a file"]);
    assert_eq!(site.logged("iteration_start").len(), 2);
    let told = site.place.ralph(&["loop", "--resume", "--json"]);
    assert_eq!(told.status.code(), Some(2), "{told}");
}

/// A command-line project with real tests: the plan is complete, the first build breaks a test, the second is accepted.
#[test]
fn a_real_project_with_real_tests_goes_from_task_to_accepted() {
    let script = r#"[builder 1]
write .ralph/plan.md <<END
# Plan: shout

## Analysis
- `greet.py` greets; a flag makes it loud.

## Steps
1. `greet.py`: add `shout`.
2. `test_shout.py` (new): a test of it.

## Verification strategy
- All tests: `python3 -m unittest`
END
final planned
[builder 2]
write greet.py <<END
def greet(name):
    return "HELLO " + name
def shout(name):
    return greet(name).upper()
END
write .ralph/summary.md Greetings can be shouted now.
write .ralph/status.txt complete
final built
[builder 3]
expect-prompt ## tests
expect-prompt AssertionError
expect-prompt the new file `test_shout.py`
write greet.py <<END
def greet(name):
    return "Hello " + name
def shout(name):
    return greet(name).upper()
END
write test_shout.py <<END
import unittest
from greet import shout
class Shouts(unittest.TestCase):
    def test_it_is_loud(self):
        self.assertEqual(shout("Ada"), "HELLO ADA")
END
write .ralph/status.txt complete
final built
"#;
    let gate = "[[gate]]\nname = \"tests\"\nrun = [\"python3\", \"-m\", \"unittest\"]\n";
    let site = Site::without_gates(script, gate);
    std::fs::write(site.path("greet.py"), "def greet(name):\n    return \"Hello \" + name\n")
        .unwrap();
    let test = "import unittest\nfrom greet import greet\nclass Greets(unittest.TestCase):\n    \
        def test_it_greets(self):\n        self.assertEqual(greet(\"Ada\"), \"Hello Ada\")\n";
    std::fs::write(site.path("test_greet.py"), test).unwrap();
    site.commit_all("a project");
    let done = site.exits(0, &["Let greetings be shouted"]);
    assert_as_in_guide("## A command-line project", &done.stderr);
    assert_eq!(site.verdicts(), ["rejected", "accepted"]);
    let verified = site.place.ralph(&["verify", "HEAD"]);
    assert_eq!(verified.status.code(), Some(0), "{verified}");
}
