//! Regression tests for defects of the loop's predecessor, by number. D8.10 is in `ralph-outline` (lines of syntax
//! errors, unclosed tags), D8.13 in `reflection`.

use super::{BUILD, PLAN, Site, TASK};

const COMPLETE: &str = "write .ralph/status.txt complete\nfinal done\n";

/// D8.1: neither a valid nor an invalid plan of an earlier task opens BUILD for the next one, or blocks it.
#[test]
fn d8_01_a_plan_of_an_earlier_task_is_not_the_next_ones() {
    let invalid = PLAN.replace("## Steps\n1. `hello.txt` (new): say hello.\n", "## Steps\n");
    for plan in [PLAN, &invalid] {
        let fix = "expect-prompt The phase is plan.\nexpect-prompt Not written yet.\nwrite fix.txt fixed\nwrite .ralph/summary.md A small fix of something.\n";
        let site =
            Site::new(&format!("[builder 1]\n{plan}final planned\n[builder 2]\n{fix}{COMPLETE}"));
        site.exits(1, &[TASK, "--max-iterations", "1"]);
        site.exits(0, &["Fix something", "--new"]);
        assert_eq!((site.runs(), site.mail("phase.txt")), (2, "plan".into()));
    }
}

/// D8.2: the harness controls the phase and the status, whatever is in their files before a task or after a run.
#[test]
fn d8_02_an_agent_cannot_switch_the_phase() {
    for in_place in [false, true] {
        let invalid = PLAN.replace("(new)", "");
        let site = Site::new(&format!(
            "[builder 1]\nexpect-run grep -qx plan .ralph/phase.txt\nexpect-run grep -qx running .ralph/status.txt\n\
             {invalid}write .ralph/phase.txt build\n{BUILD}\
             [builder 2]\nexpect-prompt The phase is plan.\nexpect-prompt phase.txt is owned by the harness\n\
             expect-run grep -qx plan .ralph/phase.txt\nexpect-run grep -qx running .ralph/status.txt\nfinal on\n"
        ));
        std::fs::create_dir(site.path(".ralph")).unwrap();
        site.write(".ralph/.gitignore", "# ralph-mailbox\n*\n");
        site.write(".ralph/phase.txt", "build");
        site.write(".ralph/status.txt", "complete");
        let site = if in_place { site.in_place() } else { site };
        site.exits(1, &[TASK, "--max-iterations", "2"]);
        assert_eq!((site.gate_runs(), site.mail("phase.txt")), (0, "plan".into()));
    }
}

/// D8.3: a plan that is gutted or emptied during BUILD is not the validated one.
#[test]
fn d8_03_a_plan_that_is_changed_during_build_is_validated_again() {
    for change in ["write .ralph/plan.md <<E\n \nE\n", "run rm .ralph/plan.md\n"] {
        let site = Site::new(&format!(
            "[builder 1]\n{PLAN}final planned\n[builder 2]\nexpect-prompt The phase is build.\n{change}{BUILD}\
             [builder 3]\nexpect-prompt The phase is plan.\n{COMPLETE}"
        ));
        site.exits(1, &[TASK, "--max-iterations", "3"]);
        assert_eq!((site.gate_runs(), site.verdicts().len()), (0, 0), "{change}");
    }
    let gutted = PLAN.replace("## Verification strategy\n- `test -f hello.txt`\n", "");
    let site = Site::new(&format!(
        "[builder 1]\n{PLAN}final planned\n[builder 2]\n{gutted}{BUILD}\
         [builder 3]\nexpect-prompt FAIL [has-verification]\nfinal on\n"
    ));
    site.exits(1, &[TASK, "--max-iterations", "3"]);
    assert_eq!(site.verdicts().len(), 0);
}

/// D8.4: with `strict`, missing parts of the plan fail.
#[test]
fn d8_04_missing_parts_of_a_plan_can_fail() {
    let plan = PLAN.replace("say hello.\n", "say hello.\n2. `bye.txt` (new): say goodbye.\n");
    let script = format!("[builder 1]\n{plan}final planned\n[builder]\n{BUILD}");
    let lax = Site::new(&script);
    lax.exits(0, &[TASK]);
    assert!(lax.mail("plan-diff.md").contains("bye.txt"), "{}", lax.mail("plan-diff.md"));
    let strict = Site::configured(&script, "[loop]\npreset = \"minimal\"\nstrict = true\n");
    strict.exits(1, &[TASK, "--max-iterations", "3"]);
    assert_eq!(strict.verdicts(), ["rejected", "rejected"]);
    assert!(strict.mail("feedback.md").contains("## plan-diff"), "{}", strict.mail("feedback.md"));
}

/// D8.5: a plan of the last iteration is validated before the loop ends.
#[test]
fn d8_05_a_plan_of_the_last_iteration_is_validated() {
    let site = Site::new(&format!("[builder]\n{PLAN}final planned\n"));
    site.exits(1, &[TASK, "--max-iterations", "1"]);
    assert_eq!(site.mail("phase.txt"), "build");
    assert!(site.mail("feedback.md").starts_with("# Plan Validated"), "D8.8: by this prefix");
}

/// D8.6, D8.7: failures before any work are not counted, even for a long scaffold; counts in messages match the list.
#[test]
fn d8_06_and_07_grace_is_alive_and_messages_count_the_list() {
    let settings = "[loop]\npreset = \"web-app\"\nbuild = [\"true\"]\n";
    let site = Site::configured(&format!("[builder]\nappend notes.txt x\n{COMPLETE}"), settings);
    std::fs::create_dir(site.path("src")).unwrap();
    let scaffold = format!("// {}\nEdit src/App.tsx to get started\n", "long ".repeat(100));
    site.write("src/App.tsx", &scaffold);
    site.write("src/index.css", "body { margin: 0; }\n");
    site.commit_all("a scaffold");
    site.exits(1, &["Build a shop", "--max-iterations", "6"]);
    assert_eq!(site.verdicts().len(), 6, "five failures did not abort it");
    let feedback = site.mail("feedback.md");
    assert!(feedback.contains("lacks 36 of the theme's 36 variables"), "{feedback}");
}

/// D8.9: an empty reply is not a completion, and the summary of an earlier task is not reused.
#[test]
fn d8_09_an_empty_reply_is_no_completion_and_summaries_do_not_carry_over() {
    let site = Site::new(&format!(
        "[builder 1]\n{BUILD}[builder 2]\nwrite a.txt a\nfinal on\n[builder 3]\nfinal <<END\n\nEND\n[builder 4]\n{COMPLETE}"
    ));
    site.exits(0, &[TASK]);
    // The empty reply is trouble, and costs no iteration.
    site.exits(1, &["Another", "--max-iterations", "2"]);
    assert_eq!((site.runs(), site.verdicts()), (4, vec!["accepted".into(), "rejected".into()]));
    assert!(site.mail("feedback.md").contains("## has-summary"), "{}", site.mail("feedback.md"));
}

/// D8.11: an agent that writes `complete` and ends with text has one completion, and at most one failure per run.
#[test]
fn d8_11_a_run_has_one_completion_decision() {
    let bad = BUILD.replace("write hello.txt hello", "append hello.txt bad");
    let site = Site::new(&format!("[builder]\n{bad}"));
    site.exits(1, &[TASK, "--max-iterations", "3"]);
    assert_eq!((site.runs(), site.verdicts().len()), (3, 3));
}

/// D8.12: an option is never part of the task text, and the configured limit of iterations holds.
#[test]
fn d8_12_options_are_no_text_and_configured_bounds_hold() {
    let site = Site::configured(
        "[builder]\nfinal on\n",
        "[loop]\npreset = \"minimal\"\n[budget]\niterations = 2\n",
    );
    site.exits(2, &["Say hello", "--force"]);
    site.exits(1, &[TASK]);
    assert_eq!((site.runs(), site.mail("task.md")), (2, format!("# Task\n\n{TASK}\n")));
}

/// D8.14: the last run's work is included in what is judged, accepted and landed.
#[test]
fn d8_14_the_work_of_the_last_iteration_is_committed_before_it_is_judged() {
    for in_place in [false, true] {
        let site = Site::new(&format!("[builder]\n{BUILD}"));
        let site = if in_place { site.in_place() } else { site };
        site.exits(0, &[TASK]);
        let commit = site.logged("verdict")[0]["commit"].as_str().unwrap().to_owned();
        assert_eq!(site.git(&["show", &format!("{commit}:hello.txt")]), "hello");
        site.git(&["merge-base", "--is-ancestor", &commit, "HEAD"]);
        assert_eq!(site.git(&["show", "refs/ralph/loop/1/after:hello.txt"]), "hello");
    }
}
