//! The loop's questions to a person, and the handling of answers.

use rustix::process::Signal;

use super::{BUILD, Site, TASK};
use crate::harness::{PATIENCE, wait_until};

#[test]
fn ctrl_c_while_a_gate_runs_repeats_no_run() {
    for is_in_place in [false, true] {
        let site = Site::new(&format!("[builder 1]\n{BUILD}"));
        let site = if is_in_place { site.in_place() } else { site };
        let go = site.place.path("go");
        let gate = format!("test ! -e hello.txt || test -e '{}' || exec sleep 1000", go.display());
        let settings = site.read("ralph.toml")
            + &format!("[[gate]]\nname = \"slow\"\nrun = [\"sh\", \"-c\", \"{gate}\"]\n");
        site.write("ralph.toml", &settings);
        site.commit_all("a slow gate");
        let running = site.place.start(&["loop", TASK]);
        wait_until(PATIENCE, "the slow gate runs at the candidate", || {
            let started = site.place.logged("gate_started");
            started.iter().any(|gate| gate["gate"] == "slow" && gate["at"] == "candidate")
        });
        running.signal(Signal::INT);
        let (code, said) = running.finish();
        assert_eq!(code, Some(130), "{said}");
        std::fs::write(&go, "").unwrap();
        let done = site.exits(0, &["--resume"]);
        assert_eq!(site.runs(), 1, "{done}");
        assert_eq!(site.git(&["show", "HEAD:hello.txt"]), "hello", "{done}");
        site.place.assert_nothing_left();
    }
}

#[test]
fn an_agent_that_waits_is_answered_and_goes_on() {
    let script = format!(
        "[builder 1]\nwrite .ralph/question.md Which colour?\nwrite .ralph/status.txt waiting\nfinal I ask.\n\
         [builder 2]\nexpect-prompt You asked: Which colour?\nexpect-prompt A person answers: Blue.\n{BUILD}"
    );
    let site = Site::new(&script);
    let waits = site.exits(3, &[TASK]);
    assert!(waits.stderr.contains("Which colour?"), "{waits}");
    assert!(waits.stderr.contains("ralph loop --resume --answer"), "{waits}");
    // Resuming without an answer asks again, and costs no run.
    site.exits(3, &["--resume"]);
    assert_eq!(site.runs(), 1);
    site.exits(0, &["--resume", "--answer", "Blue."]);
    assert_eq!(site.runs(), 2);
    assert_eq!(site.mail("question.md"), "");
}

#[test]
fn a_completion_that_changed_nothing_is_rejected_or_for_a_person_to_decide() {
    let script = "[builder 1]\nwrite .ralph/summary.md Nothing was changed here.\nwrite .ralph/status.txt complete\nfinal done\n\
        [builder 2]\nexpect-prompt # Nothing Changed\nwrite .ralph/status.txt complete\nfinal NO_CHANGE_NEEDED: it says hello already\n\
        [verifier 1]\nexpect-prompt it says hello already\nfinal It does not.\n[verifier 2]\nfinal It does.\n\
        [builder 3]\nexpect-prompt A person looked at it and says: It does not\nwrite .ralph/status.txt complete\nfinal NO_CHANGE_NEEDED: now it does\n";
    let site = Site::new(script);
    let asks = site.exits(3, &[TASK]);
    assert!(
        asks.stderr.contains("it says hello already") && asks.stderr.contains("It does not."),
        "{asks}"
    );
    let answered = site.place.ralph(&["answer", "loop-1", "It does not"]);
    assert!(answered.stderr.contains("ralph loop --resume"), "{answered}");
    site.exits(3, &["--resume"]);
    site.place.ralph(&["answer", "loop-1", "yes"]);
    let done = site.exits(0, &["--resume"]);
    assert!(done.stderr.contains("not proven"), "{done}");
    assert_eq!(site.gate_runs(), 0, "no gate proves that nothing had to change");
    assert!(site.mail("task-history.md").contains("nothing had to change: now it does"));
}

#[test]
fn a_mailbox_of_another_tool_is_left_alone() {
    let site = Site::new(&format!("[builder]\n{BUILD}"));
    std::fs::create_dir(site.path(".ralph")).unwrap();
    std::fs::write(site.path(".ralph/agent.yml"), "x").unwrap();
    site.commit_all("another tool's");
    let refused = site.exits(2, &[TASK]);
    assert!(refused.stderr.contains("belongs to another tool"), "{refused}");
    assert!(refused.stderr.contains("mailbox = "), "{refused}");
}

/// The loop's agent answers in the mailbox: it need not print anything.
#[test]
fn an_agent_that_prints_nothing_is_heard_by_its_mailbox() {
    let site = Site::new("");
    let asks = "cat >/dev/null; echo 'Which colour?' > .ralph/question.md; echo waiting > .ralph/status.txt";
    let asked = site.exits(3, &["paint it", "--agent-cmd", asks]);
    assert!(asked.stderr.contains("Which colour?"), "{asked}");
    assert_eq!(site.runs(), 1);
    let site = Site::new("");
    let builds = "cat >/dev/null; echo hello > hello.txt; echo 'The greeting is there now.' > .ralph/summary.md; \
                  echo complete > .ralph/status.txt";
    site.exits(0, &["greet", "--agent-cmd", builds]);
    assert_eq!(site.read("hello.txt"), "hello\n");
    let site = Site::new("");
    let silent = site.exits(1, &["greet", "--agent-cmd", "cat >/dev/null"]);
    assert!(silent.stderr.contains("the agent printed no answer"), "{silent}");
    let site = Site::new("");
    let elsewhere = "cat >/dev/null; echo hello > hello.txt; git add hello.txt; git commit -qm hello; echo 'I am done' >&2";
    let misdirected = site.exits(1, &["greet", "--agent-cmd", elsewhere]);
    let told = "the agent printed no answer on stdout; on stderr: I am done";
    assert!(misdirected.stderr.contains(told), "{misdirected}");
}

/// An agent's text alone is no claim in the loop. An agent that only prints gets feedback about that, and is stopped
/// soon.
#[test]
fn an_agent_that_only_says_that_it_is_done_is_stopped_after_three_runs() {
    let site = Site::new("");
    let stopped = site.exits(1, &["greet", "--agent-cmd", "cat >/dev/null; echo done"]);
    assert!(stopped.stderr.contains("3 runs in a row changed nothing"), "{stopped}");
    assert!(stopped.stderr.contains("ralph loop --resume"), "{stopped}");
    assert_eq!(site.runs(), 3);
    assert!(site.mail("feedback.md").contains("write `complete` to status.txt"), "{stopped}");
    // Its earlier work is kept, and an agent that changes or claims something continues.
    let goes_on = "cat >/dev/null; echo hello > hello.txt; echo more >> .ralph/intent.md; \
        test $(wc -l < .ralph/intent.md) -gt 4 && echo 'A greeting for everyone.' > .ralph/summary.md && \
        echo complete > .ralph/status.txt; echo done";
    let done = site.exits(0, &["--resume", "--agent-cmd", goes_on]);
    assert_eq!(site.runs(), 3 + 5, "{done}");
    assert_eq!(site.read("hello.txt"), "hello\n");
}

/// An agent that makes each of its clones unusable loses its work, and does not run forever.
#[test]
fn an_agent_that_removes_its_repository_uses_up_its_iterations() {
    let site = Site::new("");
    let destroys = "cat >/dev/null; echo x > hello.txt; rm -rf .git; echo complete > .ralph/status.txt; echo done";
    let spent = site.exits(1, &[TASK, "--max-iterations", "3", "--agent-cmd", destroys]);
    assert!(spent.stderr.contains("not complete after 3 iterations"), "{spent}");
    assert_eq!(site.runs(), 3, "{spent}");
    assert!(site.mail("feedback.md").contains("was recreated"), "{spent}");
    // The recreated clone serves the next run.
    let builds = "cat >/dev/null; echo hello > hello.txt; echo 'The greeting is there now.' > .ralph/summary.md; \
                  echo complete > .ralph/status.txt";
    site.exits(0, &["--resume", "--agent-cmd", builds]);
    assert_eq!(site.read("hello.txt"), "hello\n");
    site.assert_clean();
}
