//! A workspace that is not a repository but contains several: a candidate is found in the one in which it was made.

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::clones::{is_stopped, points_of};
use crate::harness::{PATIENCE, wait_until};

use super::{AGREES, Ended, GREETS, PLANS, Stage};

/// Two sibling repositories below `ws`, next to the repository of a stage, and an implementer that commits to `beta`.
struct Siblings {
    stage: Stage,
}

/// A commit's name is known only once it is made, so an agent that claims one in another directory is a shell script.
const SHELL: &str = "[roles.implementer]\nagent = \"shell\"\n[agents.shell]\ncommand = [\"sh\", \"-c\", \"\"\"\
    cat > /dev/null; cd beta; echo hello > greeting.txt; git add -A; git commit -qm work; git rev-parse HEAD; \
    echo 'I AM HYPER SURE I AM DONE!'\"\"\"]\n";

/// The first run claims its commit in `beta` and leaves a fault in `alpha`; the second fixes that.
const BOTH: &str = "[roles.implementer]\nagent = \"shell\"\n[agents.shell]\ncommand = [\"sh\", \"-c\", \"\"\"\
    cat > /dev/null; word=hello; test -e alpha/greeting.txt || word=adieu; \
    cd alpha; echo $word > greeting.txt; git add -A; git commit -qm elsewhere; \
    cd ../beta; echo $word >> other.txt; git add -A; git commit -qm work; git rev-parse HEAD; \
    echo 'I AM HYPER SURE I AM DONE!'\"\"\"]\n";

impl Siblings {
    fn new(home: &str) -> Siblings {
        Siblings::with(home, SHELL)
    }

    fn with(home: &str, implementer: &str) -> Siblings {
        let siblings = Siblings { stage: Stage::new(&format!("{PLANS}{AGREES}")) };
        for name in ["alpha", "beta"] {
            siblings.write(&format!("{name}/README.md"), name);
            siblings.git(name, &["init", "--quiet", "--initial-branch=main"]);
            siblings.git(name, &["add", "README.md"]);
            siblings.git(name, &["commit", "--quiet", "--message=start"]);
        }
        let usual = siblings.stage.read("ralph.toml");
        siblings.write("ralph.toml", &format!("home = \"{home}\"\n{usual}{implementer}{GREETS}"));
        siblings.write(&format!("{home}/specs/0001-greeting.md"), "# Greeting\n");
        siblings
    }

    fn root(&self) -> String {
        self.stage.place.path("ws").to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) {
        self.stage.write(&format!("../ws/{name}"), text);
    }

    fn git(&self, repository: &str, args: &[&str]) -> String {
        let output = Command::new("git")
            .args(args)
            .current_dir(Path::new(&self.root()).join(repository))
            .env_clear()
            .envs(self.stage.place.env.environment())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {args:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    fn pipeline(&self) -> Ended {
        self.stage.ralph(&["--root", &self.root(), "pipeline"])
    }

    /// Asserts that the spec is done by a commit in `beta`, and nothing else has changed.
    fn finds_the_candidate_in_beta(&self, home: &str) {
        self.pipeline().exits(0);
        let made = self.git("beta", &["rev-parse", "HEAD"]);
        let record =
            |kind: &str| self.stage.json(&format!("../ws/{home}/specs/{kind}/0001-greeting.json"));
        let candidate = record("candidates");
        assert_eq!(candidate["candidate_commit"], json!(made));
        assert_eq!(candidate["repository"], "beta");
        assert_eq!(candidate["refs"], json!(["refs/heads/ralph/0001-greeting"]));
        let plan = record("plans");
        assert_eq!(plan["base"].as_object().unwrap().keys().collect::<Vec<_>>(), ["alpha", "beta"]);
        assert_eq!(self.git("beta", &["log", "--format=%s"]), "work\nstart");
        let receipt = self.git("beta", &["notes", "--ref=ralph", "show", &made]);
        assert!(receipt.contains("greets"), "{receipt}");
        for repository in ["alpha", "beta"] {
            assert_eq!(self.git(repository, &["status", "--porcelain"]), "");
        }
        self.stage.place.assert_nothing_left();
    }
}

#[test]
fn a_candidate_is_found_in_the_repository_it_was_made_in() {
    let siblings = Siblings::new("ralph");
    siblings.finds_the_candidate_in_beta("ralph");
    assert_eq!(siblings.git("alpha", &["log", "--format=%s"]), "start");
}

#[test]
fn home_may_lie_in_one_of_the_repositories_and_the_work_in_another() {
    let siblings = Siblings::new("alpha/ralph");
    siblings.finds_the_candidate_in_beta("alpha/ralph");
    let subjects = siblings.git("alpha", &["log", "--format=%s"]);
    let mut subjects = subjects.lines().rev();
    assert_eq!(subjects.next(), Some("start"));
    assert!(subjects.all(|subject| subject.starts_with("ralph: ")));
    let tracked = siblings.git("alpha", &["ls-files", "ralph/specs/done"]);
    assert_eq!(tracked, "ralph/specs/done/0001-greeting.md");
}

#[test]
fn what_was_done_beside_the_claimed_commit_is_judged_and_shown_to_the_verifier() {
    let siblings = Siblings::with("ralph", BOTH);
    siblings.pipeline().exits(0);
    let told = |name| told(&siblings, name);
    let roles: Vec<Value> = told("run_started").iter().map(|run| run["role"].clone()).collect();
    assert_eq!(roles, ["planner", "implementer", "implementer", "verifier"]);
    let why = told("impl_rejected")[0]["reason"].as_str().unwrap().to_owned();
    assert!(why.contains("alpha") && why.contains("greets"), "{why}");
    // The verifier sees both: each commit, with a checkout that is not the person's.
    let verifier = &told("run_started")[3];
    let prompt = Path::new(verifier["dir"].as_str().unwrap()).join("verify-attempt-2.prompt.md");
    let prompt = std::fs::read_to_string(prompt).unwrap();
    for repository in ["alpha", "beta"] {
        let commit = siblings.git(repository, &["rev-parse", "HEAD"]);
        assert!(prompt.contains(&commit), "{repository} {commit}: {prompt}");
    }
    let elsewhere = prompt.lines().find(|line| line.starts_with("- `alpha`: commit ")).unwrap();
    let checkout = elsewhere.split("checked out in ").nth(1).unwrap().split(';').next().unwrap();
    assert!(!checkout.starts_with(&siblings.root()), "{checkout}");
    let candidate = siblings.stage.json("../ws/ralph/specs/candidates/0001-greeting.json");
    assert_eq!(candidate["also"][0]["repository"], "alpha", "{candidate}");
    for repository in ["alpha", "beta"] {
        siblings.git(repository, &["notes", "--ref=ralph", "show", "HEAD"]);
    }
}

/// Does all of it at once, in both, and claims the commit in `beta`; concurrent changes to `alpha` are merged, and
/// claimed.
const TOGETHER: &str = "[roles.implementer]\nagent = \"shell\"\n[agents.shell]\ncommand = [\"sh\", \"-c\", \"\"\"\
    cat > /dev/null; cd alpha; git merge -q -X ours -m merged ralph/tip >/dev/null 2>&1 && { git rev-parse HEAD; echo 'I AM HYPER SURE I AM DONE!'; exit; }; \
    grep -qs hello greeting.txt || { echo hello > greeting.txt; git add -A; git commit -qm elsewhere; }; \
    cd ../beta; grep -qs hello greeting.txt || { echo hello > greeting.txt; git add -A; git commit -qm work; }; \
    git rev-parse HEAD; echo 'I AM HYPER SURE I AM DONE!'\"\"\"]\n";

impl Siblings {
    /// How often the work is on the branch of each repository.
    fn landed(&self) -> (usize, usize) {
        let count = |repository: &str, subject: &str| {
            let log = self.git(repository, &["log", "--format=%s", "main"]);
            log.lines().filter(|line| *line == subject).count()
        };
        (count("alpha", "elsewhere"), count("beta", "work"))
    }
}

/// Kills Ralph at a point, checks its progress, and lets the next start complete it.
fn killed_at(at: usize) -> (usize, usize) {
    let siblings = Siblings::with("alpha/ralph", TOGETHER);
    let (root, number) = (siblings.root(), at.to_string());
    let args = ["--root", &root, "pipeline"];
    siblings.stage.place.start_with(&args, &[("RALPH_CRASH_AT", &number)]).finish();
    let half = siblings.landed();
    siblings.pipeline().exits(0);
    assert_eq!(siblings.landed(), (1, 1), "killed at {at}");
    let tracked = siblings.git("alpha", &["ls-files", "ralph/specs/done"]);
    assert_eq!(tracked, "ralph/specs/done/0001-greeting.md", "killed at {at}");
    let log = siblings.stage.read("../ws/alpha/ralph/ralph.log");
    let runs = log.lines().filter(|line| line.contains("\"run_started\"")).count();
    assert_eq!(runs, 3, "killed at {at}: no run is repeated");
    half
}

/// The repositories land one after the other. Wherever Ralph is killed between the verifier's verdict and the end, work
/// lands once in each; if it no longer fits one of them because a person changed it meanwhile, it goes back to the
/// agent.
#[test]
fn work_in_two_repositories_lands_once_in_both_or_is_half_landed_and_goes_back() {
    let first = Siblings::with("alpha/ralph", TOGETHER);
    let args = ["--root", &first.root(), "pipeline"];
    let (verified, total) = points_of(&first.stage.place, &args);
    assert_eq!(first.landed(), (1, 1));
    // Binary search for the first point at which one has landed.
    let (mut none, mut some) = (verified + 3, total);
    while some - none > 1 {
        let middle = usize::midpoint(none, some);
        if killed_at(middle) == (0, 0) { none = middle } else { some = middle }
    }
    assert_eq!(killed_at(some), (0, 1), "{some} of {total}");
    let siblings = Siblings::with("alpha/ralph", TOGETHER);
    let (root, at) = (siblings.root(), some.to_string());
    let faults = [("RALPH_CRASH_AT", at.as_str()), ("RALPH_CRASH_SIGNAL", "STOP")];
    let running = siblings.stage.place.start_with(&["--root", &root, "pipeline"], &faults);
    wait_until(PATIENCE, "it stands still", || is_stopped(running.pid()));
    assert_eq!(siblings.landed(), (0, 1));
    siblings.write("alpha/greeting.txt", "mine\n");
    siblings.git("alpha", &["add", "greeting.txt"]);
    siblings.git("alpha", &["commit", "-qm", "mine", "--", "greeting.txt"]);
    running.signal(Signal::CONT);
    let (code, said) = running.finish();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("half landed"), "{said}");
    assert_eq!(siblings.landed(), (1, 1), "{said}");
    assert!(siblings.git("alpha", &["log", "--format=%s"]).contains("mine"));
    assert_eq!(siblings.git("alpha", &["show", "main:greeting.txt"]), "hello");
}

/// Exactly the same commit in both.
const TWINS: &str = "[roles.implementer]\nagent = \"shell\"\n[agents.shell]\ncommand = [\"sh\", \"-c\", \"\"\"\
    cat > /dev/null; export GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'; \
    for name in alpha beta; do (cd $name; echo hello > greeting.txt; git add -A; git commit -qm work); done; \
    git -C alpha rev-parse HEAD; echo 'I AM HYPER SURE I AM DONE!'\"\"\"]\n";

/// Two repositories with the same history, each with its own gate.
fn twins(beta: &str) -> Siblings {
    let gate = |name: &str, run: &str| {
        format!(
            "[[gate]]\nname = \"{name}\"\nrepo = \"{name}\"\nrun = [\"sh\", \"-c\", \"{run}\"]\n"
        )
    };
    let gates = format!("{}{}", gate("alpha", "true"), gate("beta", beta));
    let siblings = Siblings::with("ralph", &format!("{TWINS}{gates}"));
    let root = siblings.root();
    std::fs::remove_dir_all(Path::new(&root).join("beta")).unwrap();
    siblings.git("", &["clone", "--quiet", "--no-local", "alpha", "beta"]);
    siblings.git("beta", &["remote", "remove", "origin"]);
    siblings
}

#[test]
fn the_same_commit_in_two_repositories_is_judged_and_lands_in_each() {
    let siblings = twins("true");
    siblings.pipeline().exits(0);
    let tips = ["alpha", "beta"].map(|name| siblings.git(name, &["rev-parse", "main"]));
    assert_eq!(tips[0], tips[1], "they are the same");
    let judged = |name: &str| {
        let gates = told(&siblings, "gate_finished");
        gates.iter().any(|gate| gate["gate"] == name && gate["commit"] == tips[0].as_str())
    };
    for name in ["alpha", "beta"] {
        assert_eq!(siblings.git(name, &["log", "--format=%s", "main"]), "work\nstart", "{name}");
        assert!(judged(name), "{name}: {:?}", told(&siblings, "gate_finished"));
        let receipt = siblings.git(name, &["notes", "--ref=ralph", "show", &tips[0]]);
        assert!(receipt.contains(&format!("\"{name}\"")), "{name}: {receipt}");
        assert_eq!(siblings.git(name, &["status", "--porcelain"]), "");
    }
}

#[test]
fn what_one_of_two_like_commits_breaks_rejects_both() {
    let siblings = twins("! test -e greeting.txt");
    siblings.stage.ralph(&["--root", &siblings.root(), "pipeline", "--max-attempts", "1"]).exits(1);
    let why = told(&siblings, "impl_rejected")[0]["reason"].as_str().unwrap().to_owned();
    assert!(why.contains("beta"), "{why}");
    for name in ["alpha", "beta"] {
        assert_eq!(siblings.git(name, &["log", "--format=%s", "main"]), "start", "{name}");
    }
}

fn told(siblings: &Siblings, name: &str) -> Vec<Value> {
    let log = siblings.stage.read("../ws/ralph/ralph.log");
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["event"] == name).map(|mut event| event["data"].take()).collect()
}
