//! Accepted work that cannot land yet, or not any more: it is neither judged to be worse than it is, nor lost.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::clones::wait_for_slot;
use crate::harness::{Place, wait_for_file};
use crate::red_merge::{BRANCH, FLOWS, Flow, VERIFIES};

const PLANS: &str = "[planner]\noutbox plan.md # Plan\nfinal I AM HYPER SURE I AM DONE!\n";

impl Flow {
    fn write(place: &Place, name: &str, text: &str) {
        fs::write(place.env.repo().join(name), text).unwrap();
    }

    fn commit(place: &Place, file: &str, text: &str) {
        Self::write(place, file, text);
        place.commit_all("the person's");
    }

    /// An agent that makes a file, and then does `more`.
    fn works(&self, more: &str) -> String {
        let (worker, claim) = (self.worker, self.claim);
        format!(
            "{PLANS}[{worker}]\nwrite hello.txt hello\ncommit \"work\" hello.txt\n{more}{claim}"
        )
    }

    fn runs_of(place: &Place, role: &str) -> usize {
        place.roles().iter().filter(|started| *started == role).count()
    }

    /// A place where the verifier is at work, which does not end: a gate was red before the work and is after it.
    fn while_verified(&self) -> (Place, String) {
        let place = Self::project();
        Self::commit(&place, "broken", "");
        let verifying = place.path("verifying").display().to_string();
        let go = place.path("go").display().to_string();
        let waits = format!("run touch {verifying}; until [ -e {go} ]; do sleep 0.02; done\n");
        let script = format!("{}[verifier]\n{waits}{VERIFIES}", self.works(""));
        Self::write(&place, "../script", &script);
        (place, verifying)
    }
}

/// The branch moves each time that a merge has passed its gates, and then it rests.
#[test]
fn work_that_loses_every_race_for_the_branch_lands_later_without_another_run() {
    for flow in FLOWS.iter().filter(|flow| ["pipeline", "run"].contains(&flow.args[0])) {
        let place = Flow::project();
        let (repo, busy) = (place.env.repo(), place.path("busy"));
        let moves = format!(
            "if [ -s {busy} ]; then sed -i 1d {busy}; cd {repo}; wc -l < {busy} > mine.txt; git add mine.txt; \
             git -c user.name=p -c user.email=p@x commit -qm mine mine.txt; fi",
            busy = busy.display(),
            repo = repo.display()
        );
        let toml = fs::read_to_string(repo.join("ralph.toml")).unwrap();
        let gate = format!("[[gate]]\nname = \"busy\"\nrun = [\"sh\", \"-c\", {moves:?}]\n");
        Flow::commit(&place, "ralph.toml", &format!("{toml}{gate}"));
        let fills = format!("run seq 20 > {}\n", busy.display());
        let script = format!("{}[verifier]\n{VERIFIES}", flow.works(&fills));
        Flow::write(&place, "../script", &script);
        let args: Vec<&str> = flow.args.iter().copied().chain(["--boundary", "off"]).collect();
        let ended = place.ralph(&args);
        let name = flow.args[0];
        assert_eq!(ended.status.code(), Some(0), "{name}: {ended}");
        assert_eq!(
            fs::read_to_string(&busy).unwrap(),
            "",
            "{name}: the branch did not move enough"
        );
        assert_eq!(Flow::runs_of(&place, flow.worker), 1, "{name}: {ended}");
        assert_eq!(place.logged("landed").len(), 1, "{name}: {ended}");
        assert!(ended.stderr.contains("each time that work was about to land"), "{name}: {ended}");
        let verdicts = place.logged("verdict");
        let is_rejected = |verdict: &Value| verdict["verdict"] == "rejected";
        assert!(!verdicts.iter().any(is_rejected), "{name}: {verdicts:?}");
        assert_eq!(place.env.git(&["show", &format!("{BRANCH}:hello.txt")]), "hello");
    }
}

/// What the lost private state knew of the work is measured again; the agent has nothing to do but to claim it.
#[test]
fn judged_work_can_be_claimed_again_after_private_state_was_lost() {
    for flow in FLOWS.iter().filter(|flow| ["build", "run"].contains(&flow.args[0])) {
        let (place, verifying) = flow.while_verified();
        let args: Vec<&str> = flow.args.iter().copied().chain(["--boundary", "off"]).collect();
        let running = place.start(&args);
        wait_for_file(verifying.as_ref());
        running.signal(Signal::KILL);
        running.finish();
        fs::remove_dir_all(place.path("state")).unwrap();
        let (worker, claim) = (flow.worker, flow.claim);
        let script = format!(
            "[{worker}]\nexpect-run test -e hello.txt\n{claim}[verifier]\nrun ralph task accept || true\n{VERIFIES}"
        );
        Flow::write(&place, "../script", &script);
        let ended = place.ralph(&args);
        let name = flow.args[0];
        assert_eq!(ended.status.code(), Some(0), "{name}: {ended}");
        let subjects = place.env.git(&["log", "--format=%s", BRANCH]);
        assert_eq!(subjects.lines().filter(|subject| *subject == "work").count(), 1, "{subjects}");
        assert_eq!(place.env.git(&["for-each-ref", "refs/ralph/candidate"]), "", "{name}");
    }
}

/// The check that was red on the branch is green again by the time that the work lands.
#[test]
fn a_merge_that_proves_more_than_the_work_by_itself_is_shown_as_that() {
    for flow in FLOWS {
        let place = Flow::project();
        Flow::commit(&place, "broken", "");
        let waits = format!(
            "run touch begun; until [ -e {} ]; do sleep 0.02; done; rm begun\n",
            place.path("go").display()
        );
        let script =
            format!("{}[verifier]\nrun ralph task accept || true\n{VERIFIES}", flow.works(&waits));
        Flow::write(&place, "../script", &script);
        let running = place.start(flow.args);
        wait_for_slot(&place, "begun");
        place.env.git(&["rm", "-q", "broken"]);
        place.env.git(&["commit", "-qm", "mended"]);
        fs::write(place.path("go"), "").unwrap();
        let (code, said) = running.finish();
        let name = flow.args[0];
        assert_eq!(code, Some(0), "{name}: {said}");
        let landed = place.logged("landed");
        assert_eq!(landed.len(), 1, "{name}: {said}");
        assert_eq!(Flow::runs_of(&place, flow.worker), 1, "{name}: {said}");
        if let Some(done) = flow.done {
            let levels: Vec<Value> =
                place.logged(done).iter().map(|event| event["level"].clone()).collect();
            assert_eq!(levels, ["gates_passed"], "{name}: {said}");
        }
        let verified = place.ralph(&["verify", landed[0]["commit"].as_str().unwrap()]);
        assert!(verified.stdout.contains("gates passed"), "{name}: {verified}");
    }
}

/// The run that did the work has ended: only the verifier is at work when the person decides otherwise.
#[test]
fn work_that_a_person_cancels_after_its_run_has_ended_is_kept() {
    for flow in &FLOWS[..3] {
        let (place, verifying) = flow.while_verified();
        let name = flow.args[0];
        let running = place.start(&[name, "--boundary", "off"]);
        wait_for_file(verifying.as_ref());
        let cancels: &[&str] = match name {
            "pipeline" => &["specs", "mark-done", "1"],
            "build" => &["task", "delete", "t-hello"],
            _ => {
                let prd = fs::read_to_string(place.env.repo().join("ralph/prd.json")).unwrap();
                let prd = prd.replace("\"passes\": false", "\"passes\": true");
                Flow::commit(&place, "ralph/prd.json", &prd);
                &["status"]
            }
        };
        let cancelled = place.ralph(cancels);
        assert_eq!(cancelled.status.code(), Some(0), "{name}: {cancelled}");
        fs::write(place.path("go"), "").unwrap();
        let (_, said) = running.finish();
        let left = place.env.git(&["for-each-ref", "--format=%(refname)", "refs/ralph/left/"]);
        assert_eq!(left.lines().count(), 1, "{name}: {left} {said}");
        assert!(said.contains(&left), "{name}: {left} {said}");
        assert_eq!(place.env.git(&["show", &format!("{left}:hello.txt")]), "hello", "{name}");
        assert!(!place.env.try_git(&["cat-file", "-e", &format!("{BRANCH}:hello.txt")]), "{name}");
    }
}
