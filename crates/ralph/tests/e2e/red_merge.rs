//! A person breaks a check on the branch while an agent works: the merge is red before and after. The verifier is asked
//! about it, and what is shown and kept is what is known of the merge, not of the work by itself.

use std::fs;

use serde_json::{Value, json};

use crate::clones::wait_for_slot;
use crate::harness::Place;

/// The branch that work lands on.
pub(crate) const BRANCH: &str = "work";

pub(crate) const VERIFIES: &str =
    "final <<END\nIt holds.\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND\n";
const OBJECTS: &str = "final NOT_VERIFIED: it hides behind that\n";

/// One workflow: how it is played, and where it says what is known of what landed.
pub(crate) struct Flow {
    pub(crate) args: &'static [&'static str],
    /// The role that works, and how it claims its work.
    pub(crate) worker: &'static str,
    pub(crate) claim: &'static str,
    /// Runs of a verifier before the one that is asked about the merge.
    earlier: u32,
    /// The event that says that the item is done.
    pub(crate) done: Option<&'static str>,
}

pub(crate) const FLOWS: [Flow; 4] = [
    Flow {
        args: &["pipeline"],
        worker: "implementer",
        claim: "final <<END\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND\n",
        earlier: 1,
        done: Some("verify_pass"),
    },
    Flow {
        args: &["build"],
        worker: "builder",
        claim: "run ralph task done\nfinal done\n",
        earlier: 0,
        done: Some("task_done"),
    },
    Flow {
        args: &["run"],
        worker: "implementer",
        claim: "final <promise>COMPLETE</promise>\n",
        earlier: 0,
        done: Some("story_passed"),
    },
    Flow {
        args: &["loop", "Say hello"],
        worker: "builder",
        claim: "write .ralph/summary.md A file that says hello.\nwrite .ralph/status.txt complete\nfinal built\n",
        earlier: 0,
        done: None,
    },
];

impl Flow {
    /// A workspace in which this workflow has one item, and a gate that fails while there is a file `broken`.
    pub(crate) fn project() -> Place {
        let place = Place::rehearsing("");
        let write = |name: &str, text: &str| {
            let path = place.env.repo().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let toml = fs::read_to_string(place.env.repo().join("ralph.toml")).unwrap();
        let gate = "[loop]\npreset = \"minimal\"\n[[gate]]\nname = \"whole\"\nrun = [\"sh\", \"-c\", \"test ! -e broken\"]\n";
        write("ralph.toml", &format!("limits.backoff = \"0s\"\n{toml}{gate}"));
        write("ralph/specs/0001-greeting.md", "# Greeting\n\nSay hello.\n");
        let task = json!({"t": "task", "id": "t-hello", "spec": "0001-greeting.md", "name": "Say hello", "s": "p"});
        let spec = json!({"t": "spec", "spec": "0001-greeting.md"});
        write("ralph/plan.jsonl", &format!("{spec}\n{task}\n"));
        let prd =
            json!({"branchName": BRANCH, "userStories": [crate::goal::story("US-001", false)]});
        write("ralph/prd.json", &format!("{prd:#}\n"));
        place.env.git(&["switch", "-q", "-c", BRANCH]);
        place.commit_all("a project");
        place
    }

    /// One in which the person is going to break the gate.
    fn place(&self, answer: &str) -> Place {
        let place = Self::project();
        let go = place.path("go");
        let (worker, claim, asked) = (self.worker, self.claim, self.earlier + 1);
        let script = format!(
            "[planner]\noutbox plan.md # Plan\nfinal I AM HYPER SURE I AM DONE!\n\
             [{worker} 1]\nwrite hello.txt hello\ncommit \"work\" hello.txt\n\
             run touch begun; while [ ! -e {} ]; do sleep 0.02; done; rm begun\n{claim}\
             [{worker}]\nrun echo again >> hello.txt; git commit -qam again\n{claim}\
             [verifier {asked}]\nexpect-prompt merged with newer commits of the branch\nexpect-prompt `whole`\n{answer}\
             [verifier]\nrun ralph task accept || true\n{VERIFIES}",
            go.display()
        );
        fs::write(place.path("script"), script).unwrap();
        place
    }

    /// Plays it; the person breaks the gate while the agent works.
    fn play(&self, place: &Place) -> String {
        let running = place.start(self.args);
        wait_for_slot(place, "begun");
        fs::write(place.env.repo().join("broken"), "").unwrap();
        place.env.git(&["add", "broken"]);
        place.env.git(&["commit", "-qm", "the person's"]);
        fs::write(place.path("go"), "").unwrap();
        let (code, said) = running.finish();
        assert_eq!(code, Some(0), "{:?}: {said}", self.args);
        said
    }

    fn verifiers(place: &Place) -> usize {
        place.roles().iter().filter(|role| *role == "verifier").count()
    }
}

#[test]
fn the_level_of_a_red_merge_is_what_is_shown_and_the_verifier_is_asked_about_it() {
    for flow in FLOWS {
        let place = flow.place(VERIFIES);
        let said = flow.play(&place);
        let name = flow.args[0];
        assert_eq!(place.env.git(&["show", &format!("{BRANCH}:hello.txt")]), "hello", "{said}");
        assert_eq!(place.env.git(&["show", &format!("{BRANCH}:broken")]), "", "{name}: {said}");
        // One more verifier's run than without the broken check; the build loop's own stage verifies what landed.
        let staged = usize::from(name == "build");
        assert_eq!(Flow::verifiers(&place), flow.earlier as usize + 1 + staged, "{name}: {said}");
        // What is known of the work by itself is said of the candidate alone.
        let results: Vec<&str> =
            said.lines().filter(|line| !line.contains("[candidate]")).collect();
        assert!(!results.iter().any(|line| line.contains("gates passed")), "{name}: {said}");
        assert!(results.iter().any(|line| line.contains("not proven")), "{name}: {said}");
        if let Some(done) = flow.done {
            let levels: Vec<Value> =
                place.logged(done).iter().map(|event| event["level"].clone()).collect();
            assert_eq!(levels, ["not_proven"], "{name}: {said}");
        }
        if name == "pipeline" {
            let marker =
                place.env.git(&["show", &format!("{BRANCH}:ralph/specs/done/0001-greeting.md")]);
            assert!(marker.contains("Proof: not proven"), "{marker}");
        }
        let landed = place.logged("landed");
        assert_eq!(landed.len(), 1, "{name}: {landed:?}");
        let merge = landed[0]["commit"].as_str().unwrap();
        let verified = place.ralph(&["verify", merge]);
        assert!(verified.stdout.contains("not proven"), "{name}: {verified}");
    }
}

#[test]
fn a_red_merge_that_the_verifier_objects_to_does_not_land() {
    for flow in FLOWS {
        let place = flow.place(OBJECTS);
        let said = flow.play(&place);
        let name = flow.args[0];
        // The work goes back, and the verifier is asked about the merge of what comes next.
        let worked = place.roles().iter().filter(|role| *role == flow.worker).count();
        assert_eq!(worked, 2, "{name}: {said}");
        let staged = usize::from(name == "build");
        let asked = 2 * (flow.earlier as usize + 1) + staged;
        assert_eq!(Flow::verifiers(&place), asked, "{name}: {said}");
        let landed = place.logged("landed");
        assert_eq!(landed.len(), 1, "{name}: {landed:?} {said}");
        assert_eq!(place.env.git(&["show", &format!("{BRANCH}:hello.txt")]), "hello\nagain");
        assert!(said.contains("not proven"), "{name}: {said}");
    }
}
