//! From a builder's claim to done or rejected.

use std::fs;

use serde_json::{Value, json};

use super::{Site, VERIFIER, task};
use crate::harness::{MENDS, TEARS};

/// A check that nothing is wrong with `t-aaaa`.
const RIGHT: &[&str] = &["sh", "-c", "! grep -q wrong t-aaaa"];

#[test]
fn a_claim_with_nothing_changed_is_refused_at_once_and_stands_when_the_work_is_there() {
    let script = "[builder]\nrun ralph task done\nrun ralph task done ${RALPH_TASK}\nwrite a.txt x\n\
                  run ralph task done\nfinal done\n";
    let site = Site::planned(&format!("{script}{VERIFIER}"), &[task("t-aaaa")]);
    site.exits(0, &["build"]);
    let answers = site.answers();
    for (accepted, text) in &answers[..2] {
        assert!(!accepted, "{answers:?}");
        assert!(text.contains("nothing has changed"), "{text}");
        assert!(text.contains("do the work first") && text.contains("--no-change"), "{text}");
    }
    assert_eq!(answers[2], (true, "t-aaaa is noted as done; Ralph checks it when you end.".into()));
    assert_eq!(site.roles(), ["builder", "verifier"]);
    site.assert_complete();
}

/// A custom agent program may print nothing; its requests through the channel count.
#[test]
fn a_builder_that_prints_nothing_is_judged_by_its_claim() {
    let site = Site::planned("", &[task("t-aaaa")]);
    let silent = "cat >/dev/null; echo w > a.txt; ralph task done >/dev/null";
    let agent = format!(
        "sh -c '[ $RALPH_ROLE = verifier ] && exec ralph task accept >/dev/null; {silent}'"
    );
    site.exits(0, &["build", "--agent-cmd", &agent]);
    assert_eq!(site.roles(), ["builder", "verifier"]);
    site.assert_complete();
}

#[test]
fn a_change_in_home_alone_is_no_work() {
    let script = "[builder]\nwrite ralph/SCRATCHPAD.md note\nrun ralph task done\nfinal done\n";
    let site = Site::planned(script, &[task("t-aaaa")]);
    site.exits(1, &["build", "1"]);
    assert!(!site.answers()[0].0, "{:?}", site.answers());
    assert_eq!(site.task("t-aaaa")["s"], "p");
}

#[test]
fn work_that_fails_its_gates_is_rejected_and_the_reason_goes_to_the_next_run() {
    let script = "[builder 1]\nwrite t-aaaa wrong\nrun ralph task done\nfinal done\n\
                  [builder 2]\nexpect-prompt It was rejected before\nexpect-prompt t-aaaa:1:wrong\n\
                  expect-prompt All that the gates printed: /\nwrite t-aaaa right\nrun ralph task done\nfinal done\n";
    let site = Site::planned(&format!("{script}{VERIFIER}"), &[task("t-aaaa")]);
    site.gate(&["sh", "-c", "echo in $PWD; ! grep -Hn wrong $PWD/t-aaaa"]);
    site.exits(1, &["build", "1"]);
    let rejected = site.task("t-aaaa");
    assert_eq!(rejected["s"], "p");
    let reason = rejected["reject"].as_str().unwrap();
    let commit = site.records("reject")[0]["done_at"].as_str().unwrap().to_owned();
    // The reason is in the shared plan, so it contains nothing specific to this machine.
    assert_eq!(
        reason,
        format!(
            "The gate `check` fails (exit 1), and did not before your change: make it pass. From its output:\n\
             in .\nt-aaaa:1:wrong\n(`ralph gates run --commit {commit}` runs the gates again.)"
        )
    );
    let again = site.exits(1, &["gates", "run", "--commit", &commit]);
    assert!(again.stderr.contains("check"), "{again}");
    let tombstone = &site.records("reject")[0];
    assert_eq!(tombstone["reason"], reason);
    assert_eq!(site.git(&["log", "--format=%s", "--", "t-aaaa"]), "", "it is on no branch");
    assert_eq!(site.logged("task_rejected")[0]["task"], "t-aaaa");

    site.exits(0, &["build"]);
    assert_eq!(site.roles(), ["builder", "builder", "verifier"]);
    site.assert_complete();
}

#[test]
fn gates_that_a_rejected_run_has_broken_are_no_excuse_for_the_next() {
    let script = "[builder 1]\nwrite t-aaaa wrong\nrun ralph task done\nfinal done\n\
                  [builder]\nappend t-aaaa again\nrun ralph task done\nfinal done\n";
    let site = Site::planned(script, &[task("t-aaaa")]);
    fs::write(site.path("t-aaaa"), "right\n").unwrap();
    site.commit_all("all is well");
    site.gate(RIGHT);
    site.exits(1, &["build", "2"]);
    assert_eq!(site.roles(), ["builder", "builder"]);
    assert_eq!(site.logged("task_rejected").len(), 2);
    assert_eq!(site.task("t-aaaa")["s"], "p");
}

/// Work that existed when the claim was made counts only if it still exists at the end.
#[test]
fn work_that_is_gone_when_the_run_ends_is_rejected_in_words_that_the_next_builder_can_act_on() {
    let script = "[builder]\nwrite a.txt x\nrun ralph task done\ndelete a.txt\nfinal done\n";
    let site = Site::planned(script, &[task("t-aaaa")]);
    site.exits(1, &["build", "1"]);
    let task = site.task("t-aaaa");
    let reason = task["reject"].as_str().unwrap();
    assert_eq!(task["s"], "p");
    assert!(reason.contains("ralph task done --no-change"), "{reason}");
    assert!(!reason.contains("NO_CHANGE_NEEDED"), "{reason}");
}

#[test]
fn a_rejected_task_cannot_be_claimed_again_with_nothing_changed() {
    let script = "[builder 1]\nwrite t-aaaa wrong\nrun ralph task done\nfinal done\n\
                  [builder 2]\nrun ralph task done\nfinal done\n";
    let site = Site::planned(script, &[task("t-aaaa")]);
    site.gate(RIGHT);
    site.exits(1, &["build", "2"]);
    let answers = site.answers();
    assert!(!answers[1].0 && answers[1].1.contains("nothing has changed"), "{answers:?}");
}

#[test]
fn what_an_agent_commits_itself_is_taken_as_it_is() {
    let script = "[builder]\nwrite a.txt one\ncommit \"First half\"\nwrite b.txt two\ncommit \"Second half\"\n\
                  run ralph task done\nfinal done\n";
    let site = Site::planned(&format!("{script}{VERIFIER}"), &[task("t-aaaa")]);
    site.exits(1, &["build", "1"]);
    assert_eq!(site.task("t-aaaa")["done_at"], site.git(&["rev-parse", "HEAD~1"]));
    assert_eq!(site.commits()[..3], ["ralph: task done - Do t-aaaa", "Second half", "First half"]);
    site.exits(0, &["build"]);
    site.assert_complete();
}

#[test]
fn b12_13_leftovers_are_committed_and_the_persons_dirt_and_home_are_not() {
    let script = "[builder]\nwrite new/file.txt x\nappend README.md more\nwrite ralph/SCRATCHPAD.md note\n\
                  run ralph task done\nfinal done\n";
    let site = Site::planned(&format!("{script}{VERIFIER}"), &[task("t-aaaa")]);
    fs::write(site.path("mine.txt"), "the person's\n").unwrap();
    site.exits(1, &["build", "--allow-dirty", "1"]);
    let work = site.task("t-aaaa")["done_at"].as_str().unwrap().to_owned();
    let files = site.git(&["show", "--name-only", "--format=", &work]);
    assert_eq!(files, "README.md\nnew/file.txt");
    assert_eq!(site.git(&["status", "--porcelain"]), "?? mine.txt");
    assert_eq!(fs::read_to_string(site.path("mine.txt")).unwrap(), "the person's\n");
    site.exits(0, &["build", "--allow-dirty"]);
    assert_eq!(site.git(&["remote"]), "");
}

#[test]
fn what_a_run_left_without_a_claim_counts_for_the_next_one() {
    let script = "[builder 1]\nwrite left.txt x\nwrite committed.txt x\ncommit \"Half of it\" committed.txt\n\
                  final I forgot\n\
                  [builder 2]\nexpect-prompt without a claim that was accepted\nrun ralph task done\nfinal done\n";
    let site = Site::planned(&format!("{script}{VERIFIER}"), &[task("t-aaaa")]);
    site.exits(0, &["build"]);
    site.assert_complete();
    assert!(site.git(&["ls-files"]).contains("left.txt"));
}

#[test]
fn what_a_person_changed_meanwhile_is_not_taken_for_a_runs_leftovers() {
    let script = "[builder 1]\nwrite left.txt x\nfinal I forgot\n\
                  [builder 2]\nwrite more.txt x\nrun ralph task done\nfinal done\n";
    let site = Site::planned(&format!("{script}{VERIFIER}"), &[task("t-aaaa")]).in_place();
    site.exits(1, &["build", "1"]);
    fs::write(site.path("mine.txt"), "the person's\n").unwrap();
    let refused = site.exits(3, &["build"]);
    assert!(refused.stderr.contains("mine.txt"), "{refused}");
    assert!(!refused.stderr.contains("left.txt"), "{refused}");
    site.exits(0, &["build", "--allow-dirty"]);
    assert_eq!(site.git(&["status", "--porcelain"]), "?? mine.txt");
    assert!(site.git(&["ls-files"]).contains("left.txt"));
}

#[test]
fn work_on_a_branch_counts_and_comes_home() {
    for stay in ["", "run git switch -q main\n"] {
        let script = format!(
            "[builder 1]\nrun git switch -q -c feature\nwrite a.txt x\ncommit \"On a branch\"\n{stay}\
             run ralph task done\nfinal done\n[builder 2]\nrun test -e a.txt || touch lost\nwrite b.txt x\n\
             run ralph task done\nfinal done\n[verifier]\nrun test -e a.txt -a ! -e lost && ralph task accept\n"
        );
        let site = Site::planned(&script, &[task("t-aaaa"), task("t-bbbb")]);
        site.exits(0, &["build", "4"]);
        assert_eq!(site.git(&["symbolic-ref", "--short", "HEAD"]), "main");
        assert!(site.commits().contains(&"On a branch".to_owned()));
        site.assert_complete();
    }
}

#[test]
fn a_claim_of_no_change_has_a_verifiers_opinion_and_a_person_says_yes() {
    let script = "[builder]\nrun ralph task done --no-change \"it is so already\"\nfinal done\n\
                  [verifier 1]\nexpect-prompt it is so already\nrun ralph task accept t-aaaa\nfinal It is so indeed.\n";
    let site = Site::planned(&format!("{script}{VERIFIER}"), &[task("t-aaaa")]);
    let finished = site.exits(3, &["build"]);
    assert!(finished.stderr.contains("it is so already"), "{finished}");
    assert!(finished.stderr.contains("It is so indeed."), "{finished}");
    assert!(finished.stderr.contains("ralph answer t-aaaa yes"), "{finished}");
    assert_eq!(site.roles(), ["builder", "verifier"]);
    assert_eq!(site.task("t-aaaa")["s"], "p");
    let status: Value = serde_json::from_str(&site.exits(0, &["status", "--json"]).stdout).unwrap();
    assert!(status.to_string().contains("it is so already"), "{status}");

    // Without an answer it is asked again, and nothing runs.
    site.exits(3, &["build"]);
    assert_eq!(site.roles().len(), 2);
    site.exits(0, &["answer", "t-aaaa", "yes"]);
    site.exits(0, &["build"]);
    assert_eq!(site.roles(), ["builder", "verifier", "verifier"]);
    site.assert_complete();
}

#[test]
fn any_other_answer_goes_to_the_next_run_as_the_reason() {
    let script = "[builder 1]\nrun ralph task done --no-change \"it is so already\"\nfinal done\n\
                  [builder 2]\nexpect-prompt the door is missing\nwrite door.txt x\nrun ralph task done\nfinal done\n\
                  [verifier 1]\nfinal No, it is not.\n";
    let site = Site::planned(&format!("{script}{VERIFIER}"), &[task("t-aaaa")]);
    site.exits(3, &["build"]);
    site.exits(0, &["answer", "the door is missing"]);
    site.exits(0, &["build"]);
    assert_eq!(site.roles(), ["builder", "verifier", "builder", "verifier"]);
    site.assert_complete();
}

#[test]
fn a_claim_of_a_run_that_crashed_is_not_taken() {
    let script = "[builder 1]\nrun ralph task done --no-change \"it is so already\"\nexit 1\n\
                  [builder]\nwrite a.txt x\nrun ralph task done\nfinal done\n";
    let site = Site::planned(&format!("{script}{VERIFIER}"), &[task("t-aaaa")]);
    site.exits(0, &["build"]);
    assert_eq!(site.roles(), ["builder", "builder", "verifier"]);
    site.assert_complete();
}

#[test]
fn every_role_is_held_to_what_it_may_ask_for() {
    let script = "[builder]\nrun ralph task accept\nrun ralph task add more\nrun ralph task delete t-bbbb\n\
                  run ralph task done t-bbbb\nrun ralph issue done-all\nwrite ${RALPH_TASK} x\nrun ralph task done\n\
                  final done\n\
                  [verifier]\nrun ralph task done t-aaaa\nrun ralph issue done\nrun ralph set-spec x.md\n\
                  run ralph task accept\nfinal fine\n";
    let site = Site::planned(script, &[task("t-aaaa"), task("t-bbbb")]);
    let built = site.exits(0, &["build"]);
    let shown =
        built.stderr.lines().filter(|line| line.contains("[refused] a request of the agent: "));
    assert!(shown.clone().count() >= 8, "{built}");
    assert!(shown.clone().any(|line| line.contains("was not given `t-bbbb`")), "{built}");
    let refused = |allowed: bool| !allowed;
    let answers = site.answers();
    let allowed: Vec<bool> = answers.iter().map(|(accepted, _)| *accepted).collect();
    let builder = [false, false, false, false, false, true];
    // The second builder was given `t-bbbb`.
    assert_eq!(allowed[..6], builder, "{answers:?}");
    assert!(allowed[6..9].iter().copied().all(refused), "{answers:?}");
    assert_eq!(allowed[allowed.len() - 4..], [false, false, false, true], "{answers:?}");
    assert!(answers[3].1.contains("was not given `t-bbbb`"), "{answers:?}");
    site.assert_complete();
}

#[test]
fn an_investigator_settles_only_what_it_was_given() {
    let script = "[builder]\nwrite a.txt x\nrun ralph issue add later\nrun ralph task done\nfinal done\n\
                  [verifier]\nrun ralph task accept\nfinal fine\n\
                  [investigator 1]\nrun ralph issue done i-zzzz\nrun ralph task accept\nrun ralph issue done i-aaaa\n\
                  final one\n[investigator 2]\nrun ralph issue done-all\nfinal the rest\n";
    let site = Site::planned(script, &[super::issue("i-aaaa"), task("t-aaaa")]);
    site.exits(0, &["build"]);
    let answers = site.answers();
    let allowed: Vec<bool> = answers.iter().map(|(accepted, _)| *accepted).collect();
    assert_eq!(allowed, [true, true, true, false, false, true, true], "{answers:?}");
    assert_eq!(site.roles(), ["builder", "verifier", "investigator", "investigator"]);
    site.assert_complete();
}

#[test]
fn b12_16_the_prompt_is_on_stdin_and_never_an_argument() {
    let script = "[builder]\nrun tr '\\0' ' ' < /proc/$PPID/cmdline > argv.txt\nrun ralph task done\nfinal done\n";
    let site = Site::planned(&format!("{script}{VERIFIER}"), &[task("t-aaaa")]);
    site.exits(0, &["build"]);
    let argv = fs::read_to_string(site.path("argv.txt")).unwrap();
    assert!(argv.contains("__rehearse") && !argv.contains("t-aaaa"), "{argv}");
}

#[test]
fn b12_19_what_many_ask_for_at_once_is_all_applied() {
    let script = "[builder]\nrun for i in 1 2 3 4 5 6 7 8; do ralph issue add \"number $i\" & done; wait\n\
                  write a.txt x\nrun ralph task done\nfinal done\n";
    let site = Site::planned(script, &[task("t-aaaa")]);
    site.exits(1, &["build", "1"]);
    let mut found: Vec<String> =
        site.records("issue").iter().map(|issue| issue["desc"].to_string()).collect();
    found.sort();
    let wanted: Vec<String> = (1..=8).map(|i| format!("\"number {i}\"")).collect();
    assert_eq!(found, wanted);
    site.assert_clean();
}

#[test]
fn a_gate_that_cannot_run_is_put_to_a_person_whose_yes_is_done_and_whose_no_is_a_reason() {
    let script = "[builder 1]\nwrite a.txt x\nrun ralph task done\nfinal done\n\
                  [builder]\nexpect-prompt install it first\nwrite b.txt x\nrun ralph task done\nfinal done\n";
    for (answer, roles) in [
        ("yes", &["builder", "verifier"][..]),
        ("install it first", &["builder", "builder", "verifier"]),
    ] {
        let site = Site::planned(&format!("{script}{VERIFIER}"), &[task("t-aaaa")]);
        site.gate(&["no-such-program-anywhere"]);
        let asked = site.exits(3, &["build", "--anyway"]);
        assert!(asked.stderr.contains("no-such-program-anywhere"), "{asked}");
        // Without an answer it is asked again, and nothing runs.
        let again = site.exits(3, &["build", "--anyway"]);
        assert!(again.stderr.contains("no-such-program-anywhere"), "{again}");
        assert_eq!(site.roles(), ["builder"]);
        site.exits(0, &["answer", "t-aaaa", answer]);
        if answer != "yes" {
            site.exits(3, &["build", "--anyway"]);
            assert!(site.task("t-aaaa")["reject"].as_str().unwrap().contains(answer));
            site.exits(0, &["answer", "t-aaaa", "yes"]);
        }
        site.exits(0, &["build", "--anyway"]);
        assert_eq!(site.roles(), roles);
        let done = &site.logged("task_done")[0];
        let work = site.git(&["log", "-1", "--format=%H", "--", "a.txt"]);
        assert_eq!(
            (done["commit"] == work, &done["level"]),
            (answer == "yes", &json!("not_proven"))
        );
        site.assert_complete();
    }
}

#[test]
fn a_gate_that_can_be_run_after_all_decides_and_nobody_is_asked_any_more() {
    let script = "[builder 1]\nwrite a.txt x\nrun ralph task done\nfinal done\n";
    let site = Site::planned(&format!("{script}{VERIFIER}"), &[task("t-aaaa")]);
    site.gate(&["no-such-program-anywhere"]);
    site.exits(3, &["build", "--anyway"]);
    let settings = fs::read_to_string(site.path("ralph.toml")).unwrap();
    fs::write(site.path("ralph.toml"), settings.replace("no-such-program-anywhere", "true"))
        .unwrap();
    // The person's changes during the run are theirs.
    fs::write(site.path("mine.txt"), "the person's\n").unwrap();
    site.commit_all("put right");
    site.exits(0, &["build"]);
    assert_eq!(site.roles(), ["builder", "verifier"]);
    let work = site.git(&["log", "-1", "--format=%H", "--", "a.txt"]);
    assert_eq!(site.logged("task_done")[0]["commit"], work);
    let status: Value = serde_json::from_str(&site.exits(0, &["status", "--json"]).stdout).unwrap();
    assert!(!status.to_string().contains("no-such-program"), "{status}");
    site.assert_complete();
}

#[test]
fn a_script_that_a_gate_reads_or_runs_may_be_written_where_nothing_fails_with_the_old_one() {
    let script = "[builder]\nwrite install.sh echo installed\nrun ralph task done\nfinal done\n";
    for argv in [["sh", "-n", "install.sh"], ["sh", "-e", "install.sh"]] {
        let site = Site::planned(&format!("{script}{VERIFIER}"), &[task("t-aaaa")]);
        fs::write(site.path("install.sh"), "echo to be written\n").unwrap();
        site.gate(&argv);
        let finished = site.ralph(&["build", "1"]);
        assert_eq!(site.task("t-aaaa")["s"], "d", "{argv:?} {finished}");
    }
}

/// What cannot be committed is the agent's to mend, and no trouble of the machine.
#[test]
fn a_merge_conflict_that_a_builder_leaves_is_told_to_the_next_one() {
    let done = "run ralph task done\nfinal done\n";
    let script = format!("[builder 1]\n{TEARS}{done}[builder]\n{MENDS}{done}{VERIFIER}");
    let site = Site::planned(&script, &[task("t-aaaa")]);
    let finished = site.exits(0, &["build"]);
    assert!(finished.stderr.contains("what the run left cannot be committed"), "{finished}");
    assert_eq!(site.git(&["show", "main:torn.txt"]), "both");
    assert_eq!(site.roles(), ["builder", "builder", "verifier"]);
}
