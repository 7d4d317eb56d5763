//! A task in its slot: the person's checkout is unchanged, the mailbox is copied in and out, and accepted work lands.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;

use super::{BUILD, PLAN, Site, TASK};
use crate::harness::{MENDS, PATIENCE, TEARS, wait_until};
use crate::sessions::{resumed, wait_for_session};

/// The file in the first slot, once an agent has created it.
fn in_slot(site: &Site, name: &str) -> Option<PathBuf> {
    let states = fs::read_dir(site.place.path("state/ralph")).into_iter().flatten().flatten();
    states.map(|state| state.path().join("slots/1/repo").join(name)).find(|file| file.exists())
}

/// Makes an agent wait inside a run until the test has acted as the person.
fn waits(site: &Site) -> String {
    let go = site.place.path("go");
    format!("run touch begun; while [ ! -e {} ]; do sleep 0.02; done; rm begun\n", go.display())
}

/// A site whose agent builds, and waits for the person meanwhile.
pub(super) fn waiting(more: &str) -> Site {
    let site = Site::new("");
    let script = format!("[builder 1]\n{}{BUILD}{more}", waits(&site));
    fs::write(site.place.path("script"), script).unwrap();
    site
}

/// Plays a task, with an action of the person while the agent is working.
pub(super) fn meanwhile(
    site: &Site,
    args: &[&str],
    person: impl FnOnce(&Site),
) -> (Option<i32>, String) {
    let running = site.place.start(&[&["loop"], args].concat());
    wait_until(PATIENCE, "the agent begins", || in_slot(site, "begun").is_some());
    person(site);
    fs::write(site.place.path("go"), "").unwrap();
    let finished = running.finish();
    site.assert_script_held();
    finished
}

#[test]
fn the_persons_changes_are_neither_seen_nor_touched() {
    let site = Site::new(&format!(
        "[builder]\nexpect-run test \"$(cat README.md)\" = 'A repository.' && test ! -e mine.txt && test ! -e .ralph/../draft\n{BUILD}"
    ));
    site.write("README.md", "changed and not committed\n");
    site.write("mine.txt", "mine\n");
    let done = site.exits(0, &[TASK]);
    assert!(done.stderr.contains("accepted work lands on `main`"), "{done}");
    assert!(done.stderr.contains("2 changed files are not part of this run"), "{done}");
    assert_eq!(site.git(&["status", "--porcelain"]), " M README.md\n?? mine.txt");
    assert_eq!(site.read("hello.txt"), "hello\n");
    // The agent's commit landed: the judged commit is on the branch.
    assert_eq!(site.commits(), [TASK, "begin", "start"]);
    let landed = site.logged("landed");
    assert_eq!((landed.len(), &landed[0]["branch"]), (1, &"main".into()));
    assert_eq!(landed[0]["candidate"], landed[0]["commit"]);
    assert_eq!(
        site.git(&["rev-parse", "refs/ralph/loop/1/after"]),
        site.git(&["rev-parse", "HEAD"])
    );
    assert_eq!(
        site.git(&["rev-parse", "refs/ralph/loop/1/before"]),
        site.git(&["rev-parse", "HEAD~1"])
    );
    site.place.assert_nothing_left();
}

#[test]
fn until_it_lands_nothing_in_the_checkout_moves_and_the_agent_cannot_reach_it() {
    let site = Site::new("");
    let repo = site.place.env.repo();
    let repo = repo.display();
    let attack = format!(
        "run echo build > {repo}/.ralph/phase.txt; echo x > {repo}/planted; git -C {repo} update-ref -d refs/heads/main; \
         echo 'preset = 1' >> {repo}/ralph.toml; true\n"
    );
    let script = format!("[builder 1]\n{attack}{}{BUILD}", waits(&site));
    fs::write(site.place.path("script"), script).unwrap();
    let before = site.git(&["for-each-ref", "refs/heads"]);
    let (code, said) = meanwhile(&site, &[TASK], |site| {
        assert_eq!(site.git(&["for-each-ref", "refs/heads"]), before);
        assert_eq!(site.git(&["status", "--porcelain"]), "");
        assert_eq!(site.mail("phase.txt"), "", "the mailbox is in the slot");
    });
    assert_eq!(code, Some(0), "{said}");
    assert!(!site.path("planted").exists());
    assert_eq!(site.mail("phase.txt"), "plan");
    site.assert_clean();
}

/// A plan written by the person is used for the task, and text they write meanwhile is kept.
#[test]
fn the_mailbox_is_copied_in_at_the_start_and_out_at_each_wait_and_end() {
    let site = Site::new("");
    let script = format!(
        "[builder 1]\nexpect-prompt The phase is build.\nexpect-prompt # Plan Validated\n{}\
         write .ralph/intent.md The agent's.\nwrite .ralph/question.md Which colour?\nwrite .ralph/status.txt waiting\nfinal I ask.\n\
         [builder 2]\nexpect-prompt The person's second plan\nexpect-prompt A person answers: Blue.\n{BUILD}",
        waits(&site)
    );
    fs::write(site.place.path("script"), script).unwrap();
    let plan =
        PLAN.lines().skip(1).take_while(|line| *line != "END").collect::<Vec<_>>().join("\n");
    fs::create_dir(site.path(".ralph")).unwrap();
    site.write(".ralph/.gitignore", "# ralph-mailbox\n*\n");
    site.write(".ralph/plan.md", &plan);
    site.write(".ralph/intent.md", "The person's.\n");
    let (code, said) = meanwhile(&site, &[TASK], |site| {
        site.write(".ralph/intent.md", "The person's, meanwhile.\n");
        site.write(".ralph/notes.md", "A note.\n");
    });
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("your version is in intent.md.yours"), "{said}");
    assert_eq!(site.mail("intent.md"), "The agent's.\n");
    assert_eq!(site.mail("intent.md.yours"), "The person's, meanwhile.\n");
    assert_eq!(site.mail("notes.md"), "A note.\n");
    assert_eq!(
        (site.mail("status.txt"), site.mail("question.md")),
        ("waiting".into(), "Which colour?\n".into())
    );
    // Text the person writes while the task waits is given to the next run.
    site.write(".ralph/plan.md", &plan.replace("# Plan: hello", "# The person's second plan"));
    site.exits(0, &["--resume", "--answer", "Blue."]);
    assert!(in_slot(&site, ".ralph/notes.md").is_some(), "it came along");
    assert_eq!(site.mail("question.md"), "");
    assert_eq!(site.mail("task-history.md"), "- **Task 1**: A file that says hello.\n");
    site.assert_clean();
}

/// The mailbox is never work, whatever an agent does to make it look like work.
#[test]
fn committing_the_mailbox_is_no_work() {
    for site in [Site::new(""), Site::new("").in_place()] {
        let script = "[builder]\nwrite .ralph/summary.md All of it was built.\nrun rm -f .ralph/.gitignore; git add -f .ralph; git commit -qm work; true\n\
            write .ralph/status.txt complete\nfinal done\n";
        fs::write(site.place.path("script"), script).unwrap();
        site.exits(1, &[TASK, "--max-iterations", "2"]);
        assert_eq!(site.verdicts(), ["rejected", "rejected"]);
    }
}

#[test]
fn a_commit_of_the_persons_meanwhile_is_merged_and_the_merge_is_gated() {
    let site = waiting("");
    let (code, said) = meanwhile(&site, &[TASK], |site| {
        site.write("mine.txt", "mine\n");
        site.commit_all("the person's");
    });
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(
        (site.read("hello.txt"), site.read("mine.txt")),
        ("hello\n".into(), "mine\n".into())
    );
    assert_eq!(site.commits()[0], "ralph: land task 1 of the loop");
    let landed = site.logged("landed").remove(0);
    assert_eq!(landed["merge"], true);
    let gated = site.logged("gate_finished");
    assert!(gated.iter().any(|gate| gate["commit"] == landed["commit"]), "{gated:?}");
    // A rollback keeps the person's changes.
    site.exits(0, &["--rollback"]);
    assert!(!site.path("hello.txt").exists());
    assert_eq!(site.read("mine.txt"), "mine\n");
    site.assert_clean();
}

const RESOLVE: &str = "expect-prompt both changed the same lines: hello.txt\n\
    run git merge -q ralph/tip || true\nwrite hello.txt hello both\nrun git add -A; git commit -qm resolved\n\
    write .ralph/status.txt complete\nfinal merged\n";

fn person_says(site: &Site, text: &str) {
    site.write("hello.txt", text);
    site.commit_all("the person's");
}

#[test]
fn a_conflict_goes_back_to_the_agent_at_no_cost_and_lands_once_it_is_resolved() {
    let site = waiting(&format!("[builder 2]\nexpect-prompt iteration 1 of 20\n{RESOLVE}"));
    let (code, said) = meanwhile(&site, &[TASK], |site| person_says(site, "good day\n"));
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(site.read("hello.txt"), "hello both\n");
    assert_eq!((site.runs(), site.verdicts()), (2, vec!["accepted".to_owned(); 2]));
    // Only the task's own changes are rolled back.
    site.exits(0, &["--rollback"]);
    assert_eq!(site.read("hello.txt"), "good day\n");
    assert_eq!(site.commits()[0], "ralph: roll back task 1 of the loop");
    site.assert_clean();
}

/// A branch that refuses three times in a row leads to a question.
#[test]
fn a_branch_that_refuses_the_work_again_and_again_is_a_question() {
    let site = waiting("");
    let repo = site.place.env.repo();
    // The agent also acts as the person, through a helper outside: each completion finds the branch moved.
    let again = "expect-prompt both changed the same lines\nrun git merge -q ralph/tip || true\nwrite hello.txt hello again\nrun git add -A; git commit -qm resolved\n";
    let wait = |number: u32| {
        let go = site.place.path(&format!("go{number}"));
        format!(
            "run touch begun{number}; while [ ! -e {} ]; do sleep 0.02; done; rm begun{number}\n",
            go.display()
        )
    };
    let script = format!(
        "[builder 1]\n{}{BUILD}[builder 2]\n{again}{}write .ralph/status.txt complete\nfinal x\n[builder 3]\n{again}{}write .ralph/status.txt complete\nfinal x\n",
        waits(&site),
        wait(2),
        wait(3)
    );
    fs::write(site.place.path("script"), script).unwrap();
    let running = site.place.start(&["loop", TASK]);
    for (name, go, text) in
        [("begun", "go", "a\n"), ("begun2", "go2", "b\n"), ("begun3", "go3", "c\n")]
    {
        wait_until(PATIENCE, name, || in_slot(&site, name).is_some());
        person_says(&site, text);
        fs::write(site.place.path(go), "").unwrap();
    }
    let (code, said) = running.finish();
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("could not be put on the branch 3 times in a row"), "{said}");
    assert_eq!(fs::read_to_string(repo.join("hello.txt")).unwrap(), "c\n");
    // Without an answer it is asked again, and nothing is judged or run.
    let before = (site.runs(), site.verdicts());
    let again = site.exits(3, &["--resume"]);
    assert!(again.stderr.contains("could not be put on the branch 3 times in a row"), "{again}");
    assert_eq!((site.runs(), site.verdicts()), before, "{again}");
    // If the person says no, the work goes back to the agent.
    site.place.ralph(&["answer", "loop-1", "no, keep the person's"]);
    let more = format!("[builder 4]\nexpect-prompt no, keep the person's\n{RESOLVE}")
        .replace("expect-prompt both changed the same lines: hello.txt\n", "");
    fs::write(site.place.path("script"), more.replace("[builder 4]", "[builder]")).unwrap();
    site.exits(0, &["--resume"]);
    assert_eq!(site.read("hello.txt"), "hello both\n");
}

/// What cannot be committed is the agent's to mend, and no trouble of the machine.
#[test]
fn a_merge_conflict_that_an_agent_leaves_is_told_to_the_next_iteration() {
    let site = Site::new(&format!("[builder 1]\n{TEARS}{BUILD}[builder]\n{MENDS}{BUILD}"));
    let finished = site.exits(0, &[TASK]);
    assert!(finished.stderr.contains("what the run left cannot be committed"), "{finished}");
    assert_eq!((site.read("torn.txt"), site.runs()), ("both\n".into(), 2));
}

#[test]
fn what_the_person_changed_in_a_file_that_lands_waits_and_ralph_land_brings_it() {
    let site = waiting("");
    let (code, said) = meanwhile(&site, &[TASK], |site| site.write("hello.txt", "half written\n"));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("uncommitted changes in hello.txt"), "{said}");
    assert_eq!(site.read("hello.txt"), "half written\n");
    fs::remove_file(site.path("hello.txt")).unwrap();
    assert_eq!(site.place.ralph(&["land"]).status.code(), Some(0));
    assert_eq!(site.read("hello.txt"), "hello\n");
}

#[test]
fn status_offers_to_resume_a_task_until_it_is_rolled_back() {
    let site = Site::new("[builder]\nexit 7\n");
    site.exits(1, &[TASK]);
    let status = || site.place.ralph(&["status"]).stdout;
    assert!(status().contains("`ralph loop --resume` continues"), "{}", status());
    site.exits(0, &["--rollback"]);
    assert!(!status().contains("--resume"), "{}", status());
    fs::write(site.place.path("script"), "[builder]\nrun true\nfinal I am done\n").unwrap();
    let ended = site.exits(1, &["Say it", "--max-iterations", "1"]);
    assert!(
        ended.stderr.contains("[note] no claim: status.txt does not say `complete`"),
        "{ended}"
    );
    let line = "loop       task 2: Say it; PLAN, 1 iteration, not complete; `ralph loop --resume` continues";
    assert!(status().contains(line), "{}", status());
    let told: serde_json::Value =
        serde_json::from_str(&site.place.ralph(&["status", "--json"]).stdout).unwrap();
    let found = (&told["loop"]["task"], &told["loop"]["phase"], &told["loop"]["next"]);
    assert_eq!(found, (&2.into(), &"plan".into(), &"ralph loop --resume".into()), "{told}");
}

#[test]
fn a_task_that_has_not_landed_is_taken_back_with_its_slot() {
    let site = Site::new("[builder]\nwrite half.txt half\nfinal on\n");
    site.write("README.md", "changed and not committed\n");
    site.exits(1, &[TASK, "--max-iterations", "1"]);
    assert_eq!(site.git(&["status", "--porcelain"]), " M README.md");
    let done = site.exits(0, &["--rollback"]);
    assert!(done.stderr.contains("is kept in refs/ralph/left/loop-1"), "{done}");
    assert_eq!(site.git(&["show", "refs/ralph/left/loop-1:half.txt"]), "half");
    assert_eq!(site.commits(), ["begin", "start"], "the branch never had it");
    assert_eq!(site.git(&["status", "--porcelain"]), " M README.md");
    assert!(site.mail("task-history.md").contains("rolled back: Say hello"));
    let again = site.exits(2, &["--rollback"]);
    assert!(again.stderr.contains("task 1 is rolled back already"), "{again}");
    site.exits(2, &["--resume"]);
    // The next task's slot contains none of it.
    fs::write(
        site.place.path("script"),
        format!("[builder]\nexpect-run test ! -e half.txt\n{BUILD}"),
    )
    .unwrap();
    site.exits(0, &["Say it"]);
    assert!(!site.path("half.txt").exists());
    // A task that landed before one that was rolled back is named with its commit.
    fs::write(site.place.path("script"), "[builder]\nwrite half.txt half\nfinal on\n").unwrap();
    site.exits(1, &["Say more", "--max-iterations", "1"]);
    site.exits(0, &["--rollback"]);
    let again = site.exits(2, &["--rollback"]);
    assert!(again.stderr.contains("task 3 is rolled back already"), "{again}");
    assert!(again.stderr.contains("task 2 landed with "), "{again}");
}

#[test]
fn a_task_that_has_landed_is_taken_back_by_a_commit_unless_later_work_is_in_the_way() {
    let script = format!("[builder]\nwrite kept.txt changed\n{BUILD}");
    let site = Site::new(&script);
    site.write("kept.txt", "before\n");
    site.commit_all("a file");
    site.exits(0, &[TASK]);
    site.write("later.txt", "later\n");
    site.write("kept.txt", "changed again\n");
    site.commit_all("the person's");
    let refused = site.exits(1, &["--rollback"]);
    assert!(
        refused.stderr.contains("later commits changed what task 1 did in kept.txt"),
        "{refused}"
    );
    site.git(&["revert", "--no-edit", "HEAD"]);
    let done = site.place.ralph(&["loop", "--rollback", "--json"]);
    assert_eq!(done.status.code(), Some(0), "{done}");
    assert!(done.stdout.contains("\"rolled_back\""), "{done}");
    assert_eq!(site.commits()[0], "ralph: roll back task 1 of the loop");
    assert_eq!(site.read("kept.txt"), "before\n");
    assert!(!site.path("hello.txt").exists());
    assert!(
        site.logged("landed")
            .iter()
            .any(|landed| landed["subject"] == "ralph: roll back task 1 of the loop")
    );
    site.assert_clean();
    site.exits(2, &["--rollback"]);
}

#[test]
fn a_killed_loop_goes_on_in_its_slot_and_an_interrupted_one_leaves_its_mailbox() {
    for signal in [Signal::KILL, Signal::INT] {
        let site = Site::new(&format!(
            "[builder 1]\nsession s-half\nwrite half.txt half\nwrite .ralph/intent.md Half of it.\nrun touch begun; sleep 600\n\
             [builder 2]\nexpect-prompt - `half.txt`\nexpect-prompt You work in a clone: \nexpect-run test -e half.txt && grep -q Half .ralph/intent.md && rm begun\n{BUILD}"
        ));
        let running = site.place.start(&["loop", TASK]);
        wait_for_session(&site.place, "begun");
        running.signal(signal);
        let (code, said) = running.finish();
        if signal == Signal::INT {
            assert_eq!(code, Some(130), "{said}");
            assert_eq!(site.mail("intent.md"), "Half of it.\n");
        }
        let status = site.place.ralph(&["status"]).stdout;
        let how = if signal == Signal::INT { "was interrupted" } else { "was killed" };
        assert!(status.contains(&format!("`loop` {how}")), "{status}");
        assert!(status.contains("`ralph loop --resume` continues"), "{status}");
        site.exits(0, &["--resume"]);
        assert!(!site.place.ralph(&["status"]).stdout.contains("--resume"));
        assert_eq!((site.read("half.txt"), site.runs()), ("half\n".into(), 2));
        assert_eq!(resumed(&site.place, "builder"), ["-", "s-half"], "{signal:?}");
        assert_eq!(site.mail("intent.md"), "Half of it.\n");
        site.assert_clean();
    }
}

/// A task stays where it began.
#[test]
fn a_task_goes_on_where_it_began_whatever_is_configured_since() {
    let script = format!("[builder 1]\nwrite half.txt half\nfinal on\n[builder 2]\n{BUILD}");
    let site = Site::new(&script);
    let begun = site.exits(1, &[TASK, "--in-place", "--max-iterations", "1"]);
    assert!(begun.stderr.contains("agents work in place"), "{begun}");
    assert!(site.path("half.txt").exists());
    let refused = site.exits(2, &["Another", "--new"]);
    assert!(refused.stderr.contains("was started in place"), "{refused}");
    let resumed = site.exits(0, &["--resume"]);
    assert!(resumed.stderr.contains("agents work in place"), "{resumed}");
    assert!(site.logged("landed").is_empty());
    let site = Site::new(&script);
    site.exits(1, &[TASK, "--max-iterations", "1"]);
    let refused = site.exits(2, &["--resume", "--in-place"]);
    assert!(refused.stderr.contains("started in a clone"), "{refused}");
    let site = site.in_place();
    site.exits(0, &["--resume"]);
    assert_eq!(site.logged("landed").len(), 1);
    site.assert_clean();
}

#[test]
fn a_task_that_is_given_up_for_another_one_leaves_its_work_under_a_ref() {
    let site = Site::new(&format!(
        "[builder 1]\n{PLAN}write half.txt half\nfinal on\n[builder 2]\nexpect-prompt Not written yet.\nexpect-run test ! -e half.txt\n{BUILD}"
    ));
    site.exits(1, &[TASK, "--max-iterations", "1"]);
    site.exits(0, &["Something else", "--new"]);
    assert_eq!(site.refs("refs/ralph/left"), ["refs/ralph/left/loop-1"]);
    assert!(site.mail("archive/task-1-plan.md").contains("# Plan: hello"));
    let history = site.mail("task-history.md");
    assert!(history.contains("- **Task 1**: given up: Say hello"), "{history}");
    assert!(!site.path("half.txt").exists());
    site.assert_clean();
}

#[test]
fn work_lands_on_the_branch_that_is_named() {
    let site = Site::new(&format!("[builder]\n{BUILD}"));
    site.git(&["branch", "other"]);
    site.exits(0, &[TASK, "--onto", "other"]);
    assert_eq!(site.git(&["show", "other:hello.txt"]), "hello");
    assert!(!site.path("hello.txt").exists());
    let refused = site.exits(1, &["--rollback"]);
    assert!(refused.stderr.contains("--onto"), "{refused}");
    site.exits(0, &["--rollback", "--onto", "other"]);
    assert_eq!(site.git(&["ls-tree", "--name-only", "other", "hello.txt"]), "");
}

/// Commits that the person drops during a task stay dropped.
#[test]
fn a_branch_that_is_moved_back_meanwhile_gets_the_tasks_change_alone() {
    let site = waiting("");
    site.write("secret.txt", "SECRET\n");
    site.commit_all("oops");
    let (code, said) = meanwhile(&site, &[TASK], |site| {
        site.git(&["reset", "-q", "--hard", "HEAD~1"]);
    });
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(site.commits(), [TASK, "begin", "start"]);
    assert_eq!(site.read("hello.txt"), "hello\n");
    assert_eq!(site.git(&["log", "--format=%h", "--", "secret.txt"]), "");
}
