//! A workspace whose subdirectories are repositories: work is committed, judged and kept in the one where it was done.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{SPEC, Site, VERIFIER, task};
use crate::support::process::Finished;

/// Repositories `alpha` and `beta` below `ws`; home is in `alpha`.
struct Siblings {
    site: Site,
}

const HOME: &str = "alpha/ralph";

impl Siblings {
    fn new(home: &str, script: &str, gate: &str, tasks: &[Value]) -> Siblings {
        let siblings = Siblings { site: Site::new(script) };
        let usual = fs::read_to_string(siblings.site.path("ralph.toml")).unwrap();
        let gate = format!("[[gate]]\nname = \"check\"\nrun = [\"sh\", \"-c\", \"{gate}\"]\n");
        siblings.write("ralph.toml", &format!("home = \"{home}\"\n{usual}{gate}"));
        let records = [json!({"t": "spec", "spec": SPEC})];
        let plan = records.iter().chain(tasks).map(|record| format!("{record}\n"));
        siblings.write(&format!("{home}/plan.jsonl"), &plan.collect::<String>());
        siblings.write(&format!("{home}/specs/{SPEC}"), "# Greet\n");
        for name in ["alpha", "beta"] {
            siblings.write(&format!("{name}/README.md"), name);
            siblings.git(name, &["init", "--quiet", "--initial-branch=main"]);
            siblings.git(name, &["add", "-A"]);
            siblings.git(name, &["commit", "--quiet", "--message=start"]);
        }
        siblings
    }

    fn path(&self, name: &str) -> PathBuf {
        self.site.place.path("ws").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn git(&self, repository: &str, args: &[&str]) -> String {
        let output = Command::new("git")
            .args(args)
            .current_dir(self.path(repository))
            .env_clear()
            .envs(self.site.place.env.environment())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {args:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    fn work(&self, repository: &str) -> Vec<String> {
        let log = self.git(repository, &["log", "--format=%s", "--invert-grep", "--grep=^ralph: "]);
        log.lines().map(str::to_owned).collect()
    }

    fn exits(&self, code: i32, args: &[&str]) -> Finished {
        let root = self.path("");
        let finished = self.site.ralph(&[&["--root", root.to_str().unwrap()], args].concat());
        assert_eq!(finished.status.code(), Some(code), "{finished}");
        finished
    }

    fn plan(&self, home: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.path(&format!("{home}/plan.jsonl"))).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn record(&self, kind: &str) -> Value {
        let found = self.plan(HOME).into_iter().find(|record| record["t"] == kind);
        found.unwrap_or_else(|| panic!("no {kind} in {:?}", self.plan(HOME)))
    }

    fn is_clean(&self) {
        for repository in ["alpha", "beta"] {
            assert_eq!(self.git(repository, &["status", "--porcelain"]), "", "{repository}");
        }
        self.site.place.assert_nothing_left();
    }
}

const SOUND: &str = "! grep -q wrong *.txt";

#[test]
fn work_in_a_sibling_is_committed_judged_and_kept() {
    let script = "[builder]\nwrite beta/greeting.txt hello\nrun ralph task done\nfinal done\n";
    let siblings = Siblings::new(HOME, &format!("{script}{VERIFIER}"), SOUND, &[task("t-aaaa")]);
    siblings.exits(1, &["build", "1"]);
    let made = siblings.git("beta", &["rev-parse", "HEAD"]);
    assert_eq!(siblings.record("task")["done_at"], json!(made));
    assert_eq!(siblings.work("beta"), ["Do t-aaaa", "start"]);
    assert_eq!(siblings.work("alpha"), ["start"]);
    let receipt = siblings.git("beta", &["notes", "--ref=ralph", "show", &made]);
    assert!(receipt.contains("check"), "{receipt}");
    let shown = siblings.exits(0, &["task", "show", "t-aaaa"]).stdout;
    assert!(shown.contains(&made) && !shown.contains("orphaned"), "{shown}");

    siblings.exits(0, &["build"]);
    assert_eq!(siblings.plan(HOME).len(), 1);
    let log: Value = serde_json::from_str(&siblings.exits(0, &["log", "--all"]).stdout).unwrap();
    assert_eq!(log["tasks"][0]["outcome"], "accepted", "{log}");
    siblings.is_clean();
}

#[test]
fn work_in_two_of_them_is_judged_in_both() {
    let script = "[builder 1]\nwrite alpha/a.txt fine\nwrite beta/b.txt wrong\nrun ralph task done\nfinal done\n\
                  [builder 2]\nexpect-prompt In `beta`: The gate `check` fails\nwrite beta/b.txt fine\n\
                  run ralph task done\nfinal done\n";
    let siblings = Siblings::new(HOME, &format!("{script}{VERIFIER}"), SOUND, &[task("t-aaaa")]);
    siblings.write("alpha/mine.md", "the person's\n");
    siblings.exits(1, &["build", "1", "--allow-dirty"]);
    // Nothing lands in either, and the person's files are kept.
    assert_eq!(siblings.work("alpha"), ["start"]);
    assert_eq!(siblings.work("beta"), ["start"]);
    assert_eq!(siblings.git("alpha", &["status", "--porcelain"]), "?? mine.md");

    siblings.exits(0, &["build", "--allow-dirty"]);
    assert_eq!(siblings.work("beta"), ["Do t-aaaa", "Do t-aaaa", "start"]);
    assert_eq!(siblings.git("alpha", &["status", "--porcelain"]), "?? mine.md");
    assert_eq!(siblings.plan(HOME).iter().filter(|record| record["t"] == "task").count(), 0);
}

#[test]
fn what_was_rejected_in_one_of_them_is_not_forgotten_over_work_in_another() {
    let script = "[builder 1]\nwrite alpha/a.txt wrong\nrun ralph task done\nfinal done\n\
                  [builder 2]\nwrite beta/b.txt fine\nrun ralph task done\nfinal done\n\
                  [builder 3]\nexpect-prompt In `alpha`: The gate `check` fails\nwrite alpha/a.txt fine\n\
                  run ralph task done\nfinal done\n";
    let siblings = Siblings::new(HOME, &format!("{script}{VERIFIER}"), SOUND, &[task("t-aaaa")]);
    siblings.exits(1, &["build", "2"]);
    let rejected = siblings.record("task");
    assert_eq!(rejected["s"], "p", "{rejected}");
    siblings.exits(0, &["build"]);
    for repository in ["alpha", "beta"] {
        let made = siblings.git(repository, &["log", "-1", "--format=%H", "--", "*.txt"]);
        siblings.git(repository, &["notes", "--ref=ralph", "show", &made]);
    }
    siblings.is_clean();
}

#[test]
fn a_builder_that_touches_the_plan_loses_that_and_nothing_of_its_work_beside_it() {
    let script = "[builder 1]\nwrite beta/b.txt fine\nwrite alpha/ralph/plan.jsonl {}\nrun ralph task done\nfinal done\n";
    let siblings = Siblings::new(HOME, &format!("{script}{VERIFIER}"), SOUND, &[task("t-aaaa")]);
    siblings.site.place.env.in_place();
    // It may have been the person.
    let asked = siblings.exits(3, &["build", "1"]);
    assert!(asked.stderr.contains("alpha/ralph/plan.jsonl. Ralph cannot tell"), "{asked}");
    assert_eq!(siblings.record("task")["s"], "p");
    assert_eq!(fs::read_to_string(siblings.path("beta/b.txt")).unwrap(), "fine\n");
    siblings.exits(0, &["build"]);
    assert_eq!(siblings.work("beta"), ["Do t-aaaa", "start"]);
    siblings.is_clean();
}

#[test]
fn without_a_repository_for_home_the_plan_is_a_file_and_all_else_is_as_ever() {
    let script = "[builder]\nwrite beta/greeting.txt hello\nrun ralph task done\nfinal done\n";
    let siblings = Siblings::new("ralph", &format!("{script}{VERIFIER}"), SOUND, &[task("t-aaaa")]);
    siblings.exits(0, &["build"]);
    assert_eq!(siblings.plan("ralph").len(), 1);
    assert_eq!(siblings.work("beta"), ["Do t-aaaa", "start"]);
    let logged = siblings.exits(0, &["log"]);
    let _: Value = serde_json::from_str(&logged.stdout).unwrap();
    assert!(Path::new(&siblings.path("ralph/plan.jsonl")).exists());
    siblings.is_clean();
}

#[test]
fn the_verifier_is_shown_the_work_in_every_repository() {
    let script = "[builder]\nwrite alpha/a.txt fine\nwrite beta/b.txt fine\nrun ralph task done\nfinal done\n";
    let siblings = Siblings::new(HOME, &format!("{script}{VERIFIER}"), SOUND, &[task("t-aaaa")]);
    siblings.exits(1, &["build", "1"]);
    let heads = ["alpha", "beta"].map(|name| siblings.git(name, &["rev-parse", "HEAD"]));
    siblings.exits(0, &["build"]);
    let log = fs::read_to_string(siblings.path(&format!("{HOME}/ralph.log"))).unwrap();
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut runs = events.filter(|event| event["event"] == "run_started");
    let verifier = runs.find(|run| run["data"]["role"] == "verifier").unwrap();
    let directory = Path::new(verifier["data"]["dir"].as_str().unwrap());
    let files = fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    let mut prompts = files.filter(|path| path.to_str().unwrap().ends_with(".prompt.md"));
    let prompt = fs::read_to_string(prompts.next().unwrap()).unwrap();
    for head in &heads {
        assert!(prompt.contains(head), "{head}: {prompt}");
    }
    // Each in a checkout that is not the person's.
    let checkouts = prompt.lines().filter_map(|line| line.split("checked out in ").nth(1));
    let root = siblings.path("");
    let theirs = |path: &&str| path.starts_with(root.to_str().unwrap());
    let checkouts: Vec<&str> = checkouts.collect();
    assert!(!checkouts.is_empty() && !checkouts.iter().any(theirs), "{prompt}");
}
