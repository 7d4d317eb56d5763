//! A workspace whose subdirectories are repositories: a goal is planned, mapped and implemented across all of them.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Desk, GOAL, MAPPER, block, envelope, story};
use crate::support::process::Finished;

/// Repositories `alpha` and `beta` below `ws`, each with a gate: no file says `bad`.
struct Siblings {
    desk: Desk,
}

impl Siblings {
    fn new(script: &str) -> Siblings {
        let siblings = Siblings { desk: Desk::new(script) };
        let mut settings = siblings.desk.read("ralph.toml");
        for name in ["alpha", "beta"] {
            settings = format!(
                "{settings}[[gate]]\nname = \"{name}-check\"\nrepo = \"{name}\"\nrun = [\"sh\", \"-c\", \"! grep -qs bad *.txt\"]\n"
            );
            siblings.write(&format!("{name}/README.md"), name);
            siblings.git(name, &["init", "--quiet", "--initial-branch=main"]);
            siblings.git(name, &["add", "-A"]);
            siblings.git(name, &["commit", "--quiet", "--message=start"]);
        }
        siblings.write("ralph.toml", &settings);
        siblings
    }

    fn path(&self, name: &str) -> PathBuf {
        self.desk.place.path("ws").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn git(&self, repository: &str, args: &[&str]) -> String {
        let path = self.path(repository);
        self.desk.git(&[&["-C", path.to_str().unwrap()], args].concat())
    }

    fn exits(&self, code: i32, args: &[&str]) -> Finished {
        let root = self.path("");
        self.desk.exits(code, &[&["--root", root.to_str().unwrap()], args].concat())
    }

    /// Asserts that the person's checkouts are unchanged.
    fn are_untouched(&self) {
        for name in ["alpha", "beta"] {
            assert_eq!(self.git(name, &["log", "--format=%s", "main"]), "start", "{name}");
            assert_eq!(self.git(name, &["status", "--porcelain"]), "", "{name}");
            assert_eq!(self.git(name, &["branch", "--show-current"]), "main", "{name}");
        }
    }

    fn prd(&self, home: &str) {
        let mut second = story("US-002", false);
        second["priority"] = json!(2);
        let prd =
            json!({"branchName": "ralph/both", "userStories": [story("US-001", false), second]});
        self.write(&format!("{home}/prd.json"), &prd.to_string());
    }
}

/// Does the first story in both, at first incorrectly in one, and the second in one of them.
const IMPLEMENTERS: &str = "[implementer 1]\nrun echo bad > alpha/one.txt; echo good > beta/one.txt; cd alpha; git add -A; git commit -qm mine\n\
    final <promise>COMPLETE</promise>\n\
    [implementer 2]\nexpect-prompt alpha-check\nrun echo good > alpha/one.txt\nfinal <promise>COMPLETE</promise>\n\
    [implementer]\nrun echo good > beta/two.txt\nfinal <promise>COMPLETE</promise>\n";

#[test]
fn stories_are_judged_and_land_in_every_repository_that_they_are_about() {
    for home in ["ralph", "alpha/ralph"] {
        let siblings = Siblings::new(IMPLEMENTERS);
        siblings.prd(home);
        if home != "ralph" {
            let settings = siblings.read("ralph.toml");
            siblings.write("ralph.toml", &format!("home = \"{home}\"\n{settings}"));
            siblings.git("alpha", &["add", "-A"]);
            siblings.git("alpha", &["commit", "--quiet", "--amend", "--no-edit"]);
        }
        let finished = siblings.exits(0, &["run"]);
        for next in
            ["[next] git -C alpha switch ralph/both", "[next] git -C beta switch ralph/both"]
        {
            assert!(finished.stderr.contains(next), "{home}: {finished}");
        }
        assert_eq!(siblings.git("alpha", &["show", "ralph/both:one.txt"]), "good");
        assert_eq!(siblings.git("beta", &["show", "ralph/both:one.txt"]), "good");
        assert_eq!(siblings.git("beta", &["show", "ralph/both:two.txt"]), "good");
        let prd = match home {
            "ralph" => siblings.read("ralph/prd.json"),
            _ => siblings.git("alpha", &["show", "ralph/both:ralph/prd.json"]),
        };
        let prd: Value = serde_json::from_str(&prd).unwrap();
        assert!(prd["userStories"].as_array().unwrap().iter().all(|story| story["passes"] == true));
        siblings.are_untouched();
        siblings.desk.place.assert_nothing_left();
    }
}

#[test]
fn an_interviewer_and_a_mapper_read_all_of_them() {
    let draft = json!({"branchName": "ralph/both", "userStories": [story("US-001", false)]});
    let interviewer = block("interviewer", &[], &envelope(&[], &draft));
    let looks = "run cat alpha/README.md beta/README.md >> $RALPH_OUT/codebase_map.md; echo x > alpha/sneaky\n";
    let mapper = MAPPER.replace("[mapper]\n", &format!("[mapper]\n{looks}"));
    let siblings = Siblings::new(&format!("{interviewer}{mapper}"));
    siblings.write("ralph/codebase_map.md", "# Map\n\n## Next Topics\n- [ ] one\n");
    siblings.write("ralph/prompt.md", "x\n");
    siblings.exits(0, &["plan", GOAL, "--non-interactive", "--approve-prd"]);
    assert!(siblings.read("ralph/prd.json").contains("ralph/both"));
    siblings.exits(0, &["understand"]);
    let map = siblings.read("ralph/codebase_map.md");
    assert!(map.contains("alphabeta"), "{map}");
    siblings.are_untouched();
}

/// A repository without a commit cannot be cloned. That is reported, and the others are used normally.
#[test]
fn a_repository_without_commits_is_left_out_and_said() {
    let siblings = Siblings::new(
        "[implementer]\nrun echo good > beta/$RALPH_TASK.txt\nfinal <promise>COMPLETE</promise>\n",
    );
    siblings.prd("ralph");
    siblings.git("alpha", &["update-ref", "-d", "HEAD"]);
    let finished = siblings.exits(0, &["run"]);
    assert!(finished.stderr.contains("`alpha` has no commit yet"), "{finished}");
    assert_eq!(siblings.git("beta", &["show", "ralph/both:US-002.txt"]), "good");
    assert_eq!(siblings.git("alpha", &["for-each-ref"]), "");
}
