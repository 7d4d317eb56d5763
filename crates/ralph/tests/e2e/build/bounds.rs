//! Everything that ends the loop: budgets, failures, loops, promises, trouble.

use serde_json::Value;

use super::{BUILDER, PLANNER, SPEC, Site, VERIFIER, task};

fn end(site: &Site, code: i32, args: &[&str]) -> (String, String) {
    let finished = site.exits(code, &[&["build", "--json"], args].concat());
    let end: Value = serde_json::from_str(&finished.stdout).unwrap();
    (end["result"].as_str().unwrap().to_owned(), end["reason"].as_str().unwrap().to_owned())
}

#[test]
fn n_and_max_iterations_bound_the_runs_and_the_flag_wins() {
    let site = Site::planned(&format!("{BUILDER}{VERIFIER}"), &[task("t-aaaa"), task("t-bbbb")]);
    let (result, reason) = end(&site, 1, &["1"]);
    assert_eq!((result.as_str(), site.roles().len()), ("out_of_budget", 1), "{reason}");
    assert!(reason.contains("1 iteration"), "{reason}");
    end(&site, 1, &["9", "--max-iterations", "1"]);
    assert_eq!(site.roles(), ["builder", "builder"]);
    let (result, _) = end(&site, 0, &["0"]);
    assert_eq!(result, "complete");
}

#[test]
fn a_configured_budget_counts_unless_the_command_says_otherwise() {
    let site = Site::planned(&format!("{BUILDER}{VERIFIER}"), &[task("t-aaaa")]);
    site.configure("budget.iterations = 1\n");
    end(&site, 1, &[]);
    assert_eq!(site.roles(), ["builder"]);
    end(&site, 0, &["5"]);
}

#[test]
fn b12_4_costs_and_tokens_are_summed_over_runs_and_stages() {
    let costly = "[builder]\nwrite ${RALPH_TASK} x\ncost 0.75\nusage input=200 output=20\n\
                  run ralph task done\nfinal done\n";
    let tasks = ["t-aaaa", "t-bbbb", "t-cccc"].map(task);
    let site = Site::planned(costly, &tasks);
    let (result, reason) = end(&site, 1, &["--max-cost", "1.5"]);
    assert_eq!((result.as_str(), site.roles().len()), ("out_of_budget", 2), "{reason}");
    assert!(reason.contains("$1.50 was spent"), "{reason}");

    let site = Site::planned(costly, &tasks);
    let (_, reason) = end(&site, 1, &["--max-tokens", "440"]);
    assert_eq!(site.roles().len(), 2);
    assert!(reason.contains("440 tokens"), "{reason}");

    // The cost of planning counts as well.
    let site = Site::new(&format!("{PLANNER}cost 1\n{costly}"));
    let (_, reason) = end(&site, 1, &[SPEC, "--max-cost", "1"]);
    assert_eq!(site.roles(), ["planner"], "{reason}");
}

#[test]
fn each_configured_budget_ends_the_loop_between_runs_and_the_next_build_goes_on() {
    for (setting, told) in [
        ("budget.wall = \"1ms\"", "and the budget is 1ms"),
        ("budget.cost = 0.5", "$0.75 was spent, and the budget is $0.50"),
        ("budget.tokens = 100", "220 tokens were used, and the budget is 100"),
        ("budget.iterations = 1", "all 1 iteration used up"),
    ] {
        let used = "cost 0.75\nusage input=200 output=20\n";
        let script = format!(
            "[builder]\nappend ${{RALPH_TASK}} done\n{used}run ralph task done\nfinal done\n{VERIFIER}{used}"
        );
        let site = Site::planned(&script, &[task("t-aaaa"), task("t-bbbb")]);
        site.configure(&format!("{setting}\n"));
        for runs in 1..=2 {
            let (result, reason) = end(&site, 1, &[]);
            assert_eq!((result.as_str(), site.roles().len()), ("out_of_budget", runs), "{reason}");
            assert!(
                reason.contains(told) && reason.contains("`ralph build` continues"),
                "{reason}"
            );
            // Nothing is cut short: the run's work is judged, committed and reported.
            assert_eq!(site.logged("task_done").len(), runs);
            assert_eq!(site.logged("budget_exhausted").len(), runs);
            site.assert_clean();
        }
        // A complete plan needs no budget.
        let (result, _) = end(&site, 0, &[]);
        assert_eq!(result, "complete");
        assert_eq!(site.roles(), ["builder", "builder", "verifier"]);
        site.assert_complete();
    }
}

#[test]
fn failures_in_a_row_open_the_circuit() {
    let script = "[builder]\nappend a.txt x\nfinal I forgot\n";
    let site = Site::planned(script, &[task("t-aaaa")]);
    let (result, reason) = end(&site, 1, &["--max-failures", "2"]);
    assert_eq!((result.as_str(), site.roles().len()), ("out_of_budget", 2), "{reason}");
    assert!(reason.contains("2 runs failed in a row"), "{reason}");
}

#[test]
fn what_succeeds_closes_the_circuit_again() {
    let script = "[builder 1]\nfinal I forgot\n[builder 3]\nfinal I forgot\n";
    let site =
        Site::planned(&format!("{script}{BUILDER}{VERIFIER}"), &[task("t-aaaa"), task("t-bbbb")]);
    let (result, _) = end(&site, 0, &["--max-failures", "2"]);
    assert_eq!(result, "complete");
    assert_eq!(site.roles().len(), 5);
}

#[test]
fn a_run_is_told_what_the_last_one_for_the_same_did_wrong_and_no_other() {
    let script = "[verifier 1]\nfinal hm\n\
                  [verifier 2]\nexpect-prompt accepted and rejected nothing\nrun ralph task reject t-aaaa why\n\
                  final no\n[builder]\nrun cat > /dev/null; true\nappend a.txt x\nrun ralph task done\nfinal done\n\
                  [verifier]\nrun ralph task accept\nfinal fine\n";
    let done = super::task_with("t-aaaa", serde_json::json!({"s": "d"}));
    let site = Site::planned(script, &[done]);
    end(&site, 0, &[]);
    assert_eq!(site.roles(), ["verifier", "verifier", "builder", "verifier"]);
}

#[test]
fn a_verifier_that_only_talks_does_not_go_round_for_ever() {
    let script = "[verifier]\nrun ralph issue add \"hm\"\nfinal hm\n";
    let done = super::task_with("t-aaaa", serde_json::json!({"s": "d"}));
    let site = Site::planned(script, &[done]);
    let (result, _) = end(&site, 1, &["--max-failures", "2"]);
    assert_eq!((result.as_str(), site.roles().len()), ("out_of_budget", 2));
}

#[test]
fn the_same_three_times_over_is_a_loop() {
    let script = "[builder]\nfinal nothing comes of it\n";
    let site = Site::planned(script, &[task("t-aaaa")]);
    let (result, reason) = end(&site, 1, &["--max-failures", "9"]);
    assert_eq!((result.as_str(), site.roles().len()), ("looping", 3), "{reason}");
    assert!(reason.contains("BUILD"), "{reason}");
}

#[test]
fn a_claim_that_nothing_has_to_change_is_no_round_of_a_loop() {
    let script = "[builder 1]\nfinal nothing comes of it\n[builder 2]\nfinal nothing comes of it\n\
                  [builder 3]\nrun ralph task done --no-change \"it is so already\"\nfinal done\n\
                  [verifier]\nfinal It is so.\n";
    let site = Site::planned(script, &[task("t-aaaa")]);
    let (result, reason) = end(&site, 3, &["--max-failures", "9"]);
    assert_eq!(result, "waiting", "{reason}");
    assert_eq!(site.roles(), ["builder", "builder", "builder", "verifier"]);
}

#[test]
fn the_promise_ends_the_loop_only_as_a_whole_line_of_the_final_message() {
    let script = "[builder 1]\nsay ALL_DONE\nstdout ALL_DONE\nwrite a.txt x\nrun echo ALL_DONE; ralph task done\n\
                  final I will not say ALL_DONE yet.\n\
                  [builder 2]\nwrite b.txt x\nrun ralph task done\nfinal <<END\nIt is finished.\nALL_DONE\nEND\n";
    let tasks = ["t-aaaa", "t-bbbb", "t-cccc"].map(task);
    let site = Site::planned(script, &tasks);
    let (result, reason) = end(&site, 1, &["--completion-promise", "ALL_DONE"]);
    assert_eq!((result.as_str(), site.roles().len()), ("promised", 2), "{reason}");
    // An agent's claim alone does not make it done.
    assert!(reason.contains("BUILD"), "{reason}");
    assert_eq!(site.task("t-bbbb")["s"], "d");
}

#[test]
fn a_promise_with_a_complete_plan_is_done() {
    let script = "[verifier]\nrun ralph task accept\nfinal ALL_DONE\n";
    let site = Site::planned(&format!("{BUILDER}{script}"), &[task("t-aaaa")]);
    let (result, _) = end(&site, 0, &["--completion-promise", "ALL_DONE"]);
    assert_eq!(result, "promised");
    site.assert_complete();
}

#[test]
fn trouble_rejects_nothing_and_three_of_a_kind_stop_it() {
    let script = "[builder 1]\nerror server overloaded fatal\nexit 1\n[builder 2]\nwrite a.txt x\nrun ralph task done\n\
                  final done\n";
    let site = Site::planned(script, &[task("t-aaaa")]);
    end(&site, 1, &["2"]);
    assert_eq!(site.roles(), ["builder", "builder"]);
    assert_eq!(site.task("t-aaaa")["s"], "d");

    let site =
        Site::planned("[builder]\nerror server overloaded fatal\nexit 1\n", &[task("t-aaaa")]);
    let (result, reason) = end(&site, 1, &[]);
    assert_eq!((result.as_str(), site.roles().len()), ("stuck", 3), "{reason}");
    assert!(site.task("t-aaaa").get("reject").is_none());
}

#[test]
fn a_usage_limit_is_waited_for_and_the_same_run_goes_on() {
    let script = "[builder 1]\nsession s-1\nwrite a.txt x\nlimit in 1s\nexit 1\n\
                  [builder 2]\nrun ralph task done\nfinal done\n";
    let site = Site::planned(&format!("{script}{VERIFIER}"), &[task("t-aaaa")]);
    let (result, _) = end(&site, 0, &["2"]);
    assert_eq!((result.as_str(), site.roles().len()), ("complete", 3));
    assert_eq!(site.logged("limit_wait_started").len(), 1);

    let site = Site::planned("[builder]\nlimit in 1h\nexit 1\n", &[task("t-aaaa")]);
    let (result, reason) = end(&site, 1, &["--no-wait"]);
    assert_eq!(result, "limited", "{reason}");
}

/// The limit of iterations always holds, even if every run hits its usage limit again.
#[test]
fn an_agent_that_meets_its_limit_again_and_again_ends_within_the_bound() {
    let script = "[planner]\nlimit in 1s\nexit 1\n[builder]\nlimit in 1s\nexit 1\n";
    for flag in ["--max-iterations=1", "--max-iterations=2"] {
        let most: usize = flag[flag.len() - 1..].parse().unwrap();
        let site = Site::planned(script, &[task("t-aaaa")]);
        let (result, reason) = end(&site, 1, &[flag]);
        assert_eq!(result, "out_of_budget", "{reason}");
        // The first limit is waited for and costs nothing.
        assert_eq!(site.roles().len(), most + 1, "{flag}: {reason}");
        assert_eq!(site.logged("task_rejected").len(), 0);
    }
    let site = Site::new(script);
    site.configure("budget.iterations = 1");
    site.exits(1, &["plan", super::SPEC]);
    assert_eq!(site.roles(), ["planner", "planner"]);
}

#[test]
fn a_builder_that_touches_ralphs_files_gains_nothing_and_they_are_put_back() {
    let script =
        "[builder 1]\nwrite a.txt x\nwrite ralph/plan.jsonl {}\nrun ralph task done\nfinal done\n";
    let site = Site::planned(&format!("{script}{BUILDER}{VERIFIER}"), &[task("t-aaaa")]).in_place();
    let before = site.plan_text();
    // The person may have made the change, so they are asked.
    let (result, _) = end(&site, 3, &[]);
    assert_eq!((result.as_str(), site.plan_text()), ("waiting", before));
    let (result, _) = end(&site, 0, &[]);
    assert_eq!((result.as_str(), site.roles().len()), ("complete", 2));
    site.assert_complete();
}

#[test]
fn what_a_builder_puts_in_the_plans_place_holds_nobody_and_is_put_away() {
    for instead in
        ["mkfifo ralph/plan.jsonl", "mkdir ralph/plan.jsonl", "ln -s a.txt ralph/plan.jsonl"]
    {
        let script = format!(
            "[builder 1]\nwrite a.txt x\nrun rm ralph/plan.jsonl && {instead}\nrun ralph task done\nfinal done\n"
        );
        let site =
            Site::planned(&format!("{script}{BUILDER}{VERIFIER}"), &[task("t-aaaa")]).in_place();
        let (result, _) = end(&site, 0, &[]);
        assert_eq!((result.as_str(), site.roles().len()), ("complete", 3), "{instead}");
        site.assert_complete();
    }
}
