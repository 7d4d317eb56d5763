//! Everything terminates: any kind of trouble, work rejected repeatedly, rounds that keep each other busy.

use serde_json::Value;

use super::{BUILDER, Site, VERIFIER, task};

fn end(site: &Site, code: i32, args: &[&str]) -> (String, String) {
    let finished = site.exits(code, &[&["build", "--json"], args].concat());
    let end: Value = serde_json::from_str(&finished.stdout).unwrap();
    (end["result"].as_str().unwrap().to_owned(), end["reason"].as_str().unwrap().to_owned())
}

/// Builders that alternately crash and print nothing, so that no trouble occurs three times in a row.
fn in_turn(times: u32) -> String {
    let steps = |run: u32| if run % 2 == 1 { "exit 1\n" } else { "" };
    let runs = (1..=times).map(|run| format!("[builder {run}]\n{}", steps(run)));
    format!("{}{BUILDER}{VERIFIER}", runs.collect::<Vec<_>>().concat())
}

#[test]
fn ten_troubles_of_one_task_stop_the_loop_whatever_their_kind_and_whoever_counted_them() {
    let site = Site::planned(&in_turn(10), &[task("t-aaaa")]);
    // Runs in trouble count as runs.
    let (result, reason) = end(&site, 1, &["4"]);
    assert_eq!((result.as_str(), site.roles().len()), ("out_of_budget", 4), "{reason}");
    let (result, reason) = end(&site, 1, &["--max-iterations", "3"]);
    assert_eq!((result.as_str(), site.roles().len()), ("out_of_budget", 7), "{reason}");
    // The count survives the process.
    let (result, reason) = end(&site, 1, &[]);
    assert_eq!((result.as_str(), site.roles().len()), ("stuck", 10), "{reason}");
    assert!(site.task("t-aaaa").get("reject").is_none());
    let (result, reason) = end(&site, 0, &["--retry"]);
    assert_eq!((result.as_str(), site.roles().len()), ("complete", 12), "{reason}");
    site.assert_complete();
}

#[test]
fn a_task_that_is_rejected_five_times_is_put_to_a_person_whose_words_go_on_with_it() {
    let builder = "[builder]\nappend a.txt wrong\nrun ralph task done\nfinal done\n";
    let told = "[builder 6]\nexpect-prompt do it like this\nwrite a.txt right\nrun ralph task done\nfinal done\n";
    let site = Site::planned(&format!("{builder}{told}{VERIFIER}"), &[task("t-aaaa")]);
    site.gate(&["sh", "-c", "! grep -q wrong a.txt"]);
    let (result, reason) = end(&site, 3, &["9", "--max-failures", "0"]);
    assert_eq!((result.as_str(), site.roles().len()), ("waiting", 5), "{reason}");
    assert!(reason.contains("rejected 5 times"), "{reason}");
    // A restart asks again, and starts no run.
    end(&site, 3, &["9", "--max-failures", "0"]);
    assert_eq!(site.roles().len(), 5);
    // A no is taken as one: nothing runs, and the next start asks again.
    site.exits(0, &["answer", "t-aaaa", "No."]);
    let (result, reason) = end(&site, 1, &["9", "--max-failures", "0"]);
    assert_eq!((result.as_str(), site.roles().len()), ("declined", 5), "{reason}");
    assert!(reason.contains("`ralph build --retry`"), "{reason}");
    end(&site, 3, &["9", "--max-failures", "0"]);
    assert_eq!(site.roles().len(), 5);
    site.exits(0, &["answer", "t-aaaa", "do it like this"]);
    let (result, reason) = end(&site, 0, &[]);
    assert_eq!((result.as_str(), site.roles().len()), ("complete", 7), "{reason}");
    site.assert_complete();
}

/// Three runs that leave the same are enough, however many rejections are allowed.
#[test]
fn a_task_whose_work_does_not_change_is_put_to_a_person_after_three_runs() {
    let builder = "[builder]\nwrite a.txt wrong\nrun ralph task done || true\nfinal done\n";
    let site = Site::planned(&format!("{builder}{VERIFIER}"), &[task("t-aaaa")]);
    site.gate(&["sh", "-c", "! grep -q wrong a.txt"]);
    let (result, reason) = end(&site, 3, &["9", "--max-failures", "0"]);
    assert_eq!((result.as_str(), site.roles().len()), ("waiting", 3), "{reason}");
    end(&site, 3, &["9", "--max-failures", "0"]);
    assert_eq!(site.roles().len(), 3);
}

#[test]
fn a_task_that_is_rejected_five_times_is_tried_again_with_retry() {
    let builder = "[builder]\nappend a.txt wrong\nrun ralph task done\nfinal done\n";
    let mends = "[builder 6]\nwrite a.txt right\nrun ralph task done\nfinal done\n";
    let site = Site::planned(&format!("{builder}{mends}{VERIFIER}"), &[task("t-aaaa")]);
    site.gate(&["sh", "-c", "! grep -q wrong a.txt"]);
    end(&site, 3, &["9", "--max-failures", "0"]);
    let (result, reason) = end(&site, 0, &["--retry"]);
    assert_eq!((result.as_str(), site.roles().len()), ("complete", 7), "{reason}");
    let status: Value = serde_json::from_str(&site.exits(0, &["status", "--json"]).stdout).unwrap();
    assert_eq!(status["questions"], serde_json::json!([]));
}

/// Rounds that each look like progress: the loop is bounded by the remaining work, not by what is done.
fn ends_without_gain(script: &str, rounds: &[&str]) {
    let site = Site::planned(script, &[task("t-aaaa")]);
    let (result, reason) = end(&site, 1, &["40"]);
    assert_eq!(result, "no_gain", "{reason}");
    let roles = site.roles();
    let judging: Vec<&str> =
        roles.iter().map(String::as_str).filter(|role| *role != "builder").collect();
    // The first round is the reference for the others.
    assert_eq!(judging, rounds);
    site.assert_clean();
}

#[test]
fn a_verifier_that_adds_a_task_for_each_that_it_accepts_comes_to_an_end() {
    let verifier = "[verifier]\nrun ralph task accept\nrun ralph task add \"More ${INVOCATION}\"\nfinal fine\n";
    ends_without_gain(&format!("{BUILDER}{verifier}"), &["verifier"; 4]);
}

#[test]
fn a_builder_with_an_issue_for_each_task_and_an_investigator_with_a_task_for_each_issue_come_to_an_end()
 {
    let builder = "[builder]\nappend ${RALPH_TASK} done\nrun ralph issue add \"odd ${INVOCATION}\"\n\
                   run ralph task done\nfinal done\n";
    let investigator = "[investigator]\nrun ralph task add \"Mend ${INVOCATION}\"\nrun ralph issue done\nfinal done\n";
    ends_without_gain(
        &format!("{builder}{VERIFIER}{investigator}"),
        &["verifier", "investigator", "verifier", "investigator"],
    );
}

#[test]
fn rounds_without_a_gain_are_not_given_back_by_a_restart_but_by_retry() {
    let verifier = "[verifier]\nrun ralph task accept\nrun ralph task add \"More ${INVOCATION}\"\nfinal fine\n";
    let site = Site::planned(&format!("{BUILDER}{verifier}"), &[task("t-aaaa")]);
    end(&site, 1, &["40"]);
    let runs = site.roles().len();
    let (result, reason) = end(&site, 1, &["40"]);
    assert_eq!((result.as_str(), site.roles().len()), ("no_gain", runs), "{reason}");
    assert!(reason.contains("ralph build --retry"), "{reason}");
    end(&site, 1, &["40", "--retry"]);
    assert!(site.roles().len() > runs);
}

#[test]
fn rounds_count_anew_after_a_person_changed_the_plan() {
    let done = super::task_with("t-aaaa", serde_json::json!({"s": "d"}));
    let site = Site::planned(&format!("{BUILDER}[verifier]\nfinal no idea\n"), &[done]);
    // The first round is the reference for the others.
    end(&site, 1, &["--max-failures", "3"]);
    assert_eq!(site.roles(), ["verifier"; 3]);
    site.exits(0, &["task", "accept"]);
    site.exits(0, &["task", "add", "Another"]);
    let (result, reason) = end(&site, 1, &["--max-failures", "2"]);
    assert_eq!(result, "out_of_budget", "{reason}");
    // The plan does not change between these two: the second one begins with two rounds without progress.
    let (result, reason) = end(&site, 1, &["--max-failures", "9"]);
    assert_eq!(result, "no_gain", "{reason}");
    assert_eq!(site.roles()[3..], ["builder", "verifier", "verifier", "verifier", "verifier"]);
}
