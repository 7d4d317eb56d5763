//! Accepted work that cannot land yet, or not any more: it is neither judged to be worse than it is, nor lost.

use std::fs;

use serde_json::Value;

use crate::clones::wait_for_slot;
use crate::harness::Place;
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
}

/// The check that was red on the branch is green again by the time that the work lands.
#[test]
fn a_merge_that_proves_more_than_the_work_by_itself_is_shown_as_that() {
    for flow in FLOWS {
        let place = flow.project();
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
