//! `ralph run`: the stories of a PRD in slots, on the PRD's branch; an agent's claims, and how the harness treats them.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Desk, GOAL, block, draft, envelope, story};
use crate::clones::{is_stopped, points_of};
use crate::harness::{MENDS, PATIENCE, TEARS, wait_until};
use crate::sessions::{resumed, wait_for_session};

/// The branch of the PRD.
pub(super) const BRANCH: &str = "ralph/dark";

/// Claims every story, as agents of other loops do: only the story of the run counts.
pub(super) const CLAIMS: &str =
    "run sed -i 's/\"passes\": false/\"passes\": true/' $RALPH_OUT/prd.json\n";

/// An implementer that does the work of any story: a file named after the story.
pub(super) const WILLING: &str = "[implementer]\n\
    run echo done > $RALPH_TASK.txt\n\
    run git add -A; git commit -qm \"feat: $RALPH_TASK\"\n\
    run sed -i 's/\"passes\": false/\"passes\": true/' $RALPH_OUT/prd.json\n\
    run echo \"- $RALPH_TASK: learned\" >> $RALPH_OUT/progress.txt\n\
    final I did it.\n";

pub(super) fn prd_of(stories: &[(&str, i64, bool)]) -> Value {
    let stories: Vec<Value> = stories
        .iter()
        .map(|(id, priority, passes)| {
            let mut story = super::story(id, *passes);
            story["priority"] = json!(priority);
            story
        })
        .collect();
    json!({"branchName": BRANCH, "userStories": stories})
}

/// A desk with a PRD, whose agents work in clones.
pub(super) fn desk(script: &str, stories: &[(&str, i64)]) -> Desk {
    let desk = in_place(script, stories);
    desk.place.env.isolate();
    desk
}

/// A desk with a PRD, whose agents work in the checkout.
pub(super) fn in_place(script: &str, stories: &[(&str, i64)]) -> Desk {
    let desk = Desk::new(script);
    let stories: Vec<_> = stories.iter().map(|(id, priority)| (*id, *priority, false)).collect();
    desk.write("ralph/prd.json", &format!("{:#}\n", prd_of(&stories)));
    desk.write("ralph/progress.txt", "# Progress\n");
    desk.write("ralph/.gitignore", "runs/\nralph.log\n*.ralph-tmp\nspecs/sessions/\n");
    desk.commit_all("a PRD");
    desk
}

impl Desk {
    /// The content of a file on the branch of the PRD.
    pub(super) fn on_branch(&self, path: &str) -> String {
        self.git(&["show", &format!("{BRANCH}:{path}")])
    }

    /// The passing stories on the branch.
    pub(super) fn passing(&self) -> Vec<String> {
        let prd: Value = serde_json::from_str(&self.on_branch("ralph/prd.json")).unwrap();
        let stories = prd["userStories"].as_array().unwrap().iter();
        let passing = stories.filter(|story| story["passes"] == true);
        passing.map(|story| story["id"].as_str().unwrap().to_owned()).collect()
    }

    /// Adds a gate that requires the first story to be done correctly.
    pub(super) fn gate(&self) {
        let gate =
            "[[gate]]\nname = \"good\"\nrun = [\"sh\", \"-c\", \"! grep -qs bad US-001.txt\"]\n";
        self.write("ralph.toml", &format!("{}\n{gate}", self.read("ralph.toml")));
        self.commit_all("a gate");
    }

    /// Waits until an agent has created a file in the first slot.
    pub(super) fn wait_for_slot(&self, name: &str) {
        let base = self.place.path("state/ralph");
        wait_until(PATIENCE, name, || {
            let states = fs::read_dir(&base).into_iter().flatten().flatten();
            states
                .map(|state| state.path().join("slots/1/repo").join(name))
                .any(|file| file.exists())
        });
    }

    /// The stories of all iterations, in order.
    fn taken(&self) -> Vec<String> {
        let started = self.logged("iteration_start");
        started.iter().map(|start| start["task"].as_str().unwrap().to_owned()).collect()
    }

    pub(super) fn subjects(&self) -> Vec<String> {
        let log = self.git(&["log", "--first-parent", "--format=%s", BRANCH]);
        log.lines().map(str::to_owned).collect()
    }
}

/// C10.5: a dirty checkout does not interfere, and does not switch.
#[test]
fn stories_pass_on_the_prds_branch_one_per_run_and_the_checkout_does_not_switch() {
    let desk = desk(WILLING, &[("US-002", 2), ("US-001", 1), ("US-003", 2)]);
    desk.write("mine.txt", "not committed");
    let before = desk.outside();
    let finished = desk.exits(0, &["run"]);
    for shown in [
        "accepted work lands on `ralph/dark`",
        "3 stories, 3 failing; 10 iterations; implementer: rehearsal",
        "1. US-001: Do US-001",
        "[passes] US-001: Do US-001",
        "2 stories left",
        "[done] all stories pass",
        "[branch] ralph/dark has what landed: 3 of 3 pass",
        "[next] git switch ralph/dark",
    ] {
        assert!(finished.stderr.contains(shown), "no `{shown}` in\n{finished}");
    }
    assert_eq!(desk.taken(), ["US-001", "US-002", "US-003"], "the lowest priority first");
    assert_eq!(desk.passing(), ["US-002", "US-001", "US-003"]);
    assert_eq!(desk.on_branch("US-003.txt"), "done");
    let notes = desk.on_branch("ralph/progress.txt");
    assert_eq!(notes, "# Progress\n- US-001: learned\n- US-002: learned\n- US-003: learned");
    let expected = [
        "ralph: US-003 passes",
        "feat: US-003",
        "ralph: US-002 passes",
        "feat: US-002",
        "ralph: US-001 passes",
        "feat: US-001",
        "a PRD",
    ];
    assert_eq!(desk.subjects()[..7], expected);
    // The commit that lands a story marks it as passing, and no earlier one does; the judged commit has its receipt.
    let landing = desk.git(&["show", "--stat", "--format=", &format!("{BRANCH}~4")]);
    assert!(landing.contains("ralph/prd.json"), "{landing}");
    let at_work = desk.git(&["show", &format!("{BRANCH}~5:ralph/prd.json")]);
    assert!(!at_work.contains("true"), "{at_work}");
    let verified = desk.exits(1, &["verify", &format!("{BRANCH}~5")]);
    assert!(verified.stdout.contains("proves nothing: no gate ran"), "{verified}");
    // The person's side is unchanged except for the new branch.
    let mut after = desk.outside();
    for (name, of) in [("for-each-ref", "refs"), ("log --all --format=%H", "commits")] {
        assert_ne!(after.remove(name), before.get(name).cloned(), "{of}");
    }
    for (name, content) in &after {
        assert_eq!(before.get(name), Some(content), "{name}");
    }
    assert_eq!(desk.git(&["branch", "--show-current"]), "main");
    assert_eq!(desk.read("mine.txt"), "not committed");
    assert_eq!(desk.git(&["for-each-ref", "--format=%(refname)", "refs/ralph/"]), "");
}

/// C10.2, C10.3, C10.14: a finished run is judged like any other; its commits count; a crashed run claims nothing.
#[test]
fn a_claim_that_gates_reject_does_not_pass_and_the_next_run_is_told() {
    let bad = "run echo bad > US-001.txt\nfinal <promise>COMPLETE</promise>";
    let good = "expect-prompt The last attempt at this story was not accepted\nexpect-run grep -q bad US-001.txt\n\
                write US-001.txt good\nfinal <promise>COMPLETE</promise>";
    let script = format!("[implementer 1]\n{bad}\n[implementer]\n{good}\n");
    let desk = desk(&script, &[("US-001", 1)]);
    desk.gate();
    let finished = desk.exits(0, &["run"]);
    assert!(finished.stderr.contains("[retry]"), "{finished}");
    assert_eq!(desk.taken(), ["US-001", "US-001"]);
    assert_eq!(desk.passing(), ["US-001"]);
    let verdicts: Vec<Value> =
        desk.logged("verdict").iter().map(|verdict| verdict["verdict"].clone()).collect();
    assert_eq!(verdicts, ["rejected", "accepted"]);
    let passed = desk.logged("story_passed");
    assert_eq!(passed[0]["level"], "gates_passed", "{passed:?}");
    // The runs' uncommitted files were committed for them, and rejected work was never on the branch by itself.
    assert_eq!(desk.subjects()[0], "ralph: US-001 passes");
    assert!(desk.subjects()[1].starts_with("feat: US-001 - Do US-001"), "{:?}", desk.subjects());
    assert_eq!(desk.on_branch("US-001.txt"), "good");
}

/// A claim is the given story's `passes`, or the promise on its own line; nothing else an agent writes counts.
#[test]
fn what_is_a_claim_and_what_is_not() {
    let work = "write US-001.txt x\n";
    let slot = "run sed -i 's/\"passes\": false/\"passes\": true/' ralph/prd.json; git add -A; git commit -qm x\n";
    let other = "run python3 -c 'import json,os;p=os.environ[\"RALPH_OUT\"]+\"/prd.json\";d=json.load(open(p));\
                 d[\"userStories\"][1][\"passes\"]=True;d[\"x\"]=1;json.dump(d,open(p,\"w\"))'\n";
    let echo =
        "final <<'END'\nI did it. When all is done I will say <promise>COMPLETE</promise>\nEND";
    let promise = "final <<'END'\nAll of it.\n\n<promise>COMPLETE</promise>\n\nBye.\nEND";
    for (steps, passes) in [
        (format!("{work}final I did it."), false),
        (format!("{work}{CLAIMS}final I did it."), true),
        (format!("{work}{slot}final I did it."), true),
        (format!("{work}{other}final I did it."), false),
        (format!("{work}{echo}"), false),
        (format!("{work}{promise}"), true),
        // A claim without any work.
        (format!("{CLAIMS}final I did it."), false),
        (format!("{slot}final I did it."), false),
        // Trouble: it did not end properly.
        (format!("{work}{CLAIMS}exit 1"), false),
    ] {
        let desk = desk(
            &format!("[implementer 1]\n{steps}\n[implementer]\nexit 1\n"),
            &[("US-001", 1), ("US-002", 2)],
        );
        let finished = desk.exits(1, &["run", "1"]);
        let expected: &[&str] = if passes { &["US-001"] } else { &[] };
        assert_eq!(desk.passing(), expected, "{steps}\n{finished}");
        let prd = desk.on_branch("ralph/prd.json");
        assert!(!prd.contains("\"x\""), "{prd}");
    }
}

/// Prompts of other loops name files in the tree. In every run these files have the expected content.
#[test]
fn the_files_that_prompts_of_other_loops_name_are_in_the_slot_and_claims_do_not_stay() {
    let script = "[implementer 1]\n\
        run sed -i 's/\"passes\": false/\"passes\": true/' ralph/prd.json; echo '- first' >> ralph/progress.txt\n\
        write US-001.txt bad\nrun git add -A; git commit -qm one\nfinal x\n\
        [implementer 2]\n\
        expect-run ! grep -q '\"passes\": true' ralph/prd.json && grep -q first ralph/progress.txt && \
        grep -q later ralph/prd.json && grep -q mapped ralph/codebase_map.md\n\
        write US-001.txt good\nfinal could not finish\n\
        [implementer 3]\n\
        expect-run test $(grep -c first ralph/progress.txt) = 1\n\
        run sed -i 's/\"passes\": false/\"passes\": true/' ralph/prd.json; echo '- third' >> ralph/progress.txt\nfinal x\n";
    let desk = desk(script, &[("US-001", 1)]);
    desk.gate();
    // Agents are given the person's uncommitted version.
    desk.write("ralph/codebase_map.md", "# Map\nmapped\n");
    let prd = desk.read("ralph/prd.json").replace("\"notes\": \"\"", "\"notes\": \"later\"");
    desk.write("ralph/prd.json", &prd);
    let finished = desk.exits(0, &["run"]);
    assert!(finished.stderr.contains("ended without a claim"), "{finished}");
    assert_eq!(desk.passing(), ["US-001"]);
    assert_eq!(desk.on_branch("ralph/progress.txt"), "# Progress\n- first\n- third");
    assert!(desk.on_branch("ralph/prd.json").contains("later"));
    assert_eq!(desk.on_branch("US-001.txt"), "good");
    assert_eq!(desk.read("ralph/prd.json"), prd, "the checkout is the person's");
}

#[test]
fn a_story_that_changed_counts_as_failing_and_the_others_keep_what_passes() {
    let desk = desk(WILLING, &[("US-001", 1), ("US-002", 2)]);
    desk.exits(0, &["run"]);
    let changed = desk.read("ralph/prd.json").replace("Do US-002", "Do it differently");
    desk.write("ralph/prd.json", &changed);
    let status = desk.exits(0, &["status"]);
    let line = "stories    ralph/dark: 1 of 2 pass; next: US-002 Do it differently";
    assert!(status.stdout.contains(line), "{status}");
    desk.place.env.isolate();
    fs::write(desk.place.path("script"), WILLING.replace("echo done", "echo again")).unwrap();
    desk.exits(0, &["run"]);
    assert_eq!(desk.taken(), ["US-001", "US-002", "US-002"]);
    assert_eq!(desk.on_branch("US-002.txt"), "again");
    assert!(desk.on_branch("ralph/prd.json").contains("Do it differently"));
    let report: Value = serde_json::from_str(&desk.exits(0, &["run", "--json"]).stdout).unwrap();
    assert_eq!(report["result"], "complete", "{report}");
    assert_eq!((&report["branch"], &report["passing"]), (&json!(BRANCH), &json!(2)), "{report}");
    assert_eq!(desk.taken().len(), 3, "all pass already");
}

/// A claim is about the text that its run was given.
#[test]
fn a_story_that_a_person_changes_or_removes_meanwhile_does_not_pass_by_that_run() {
    let waits = |desk: &Desk| {
        let go = desk.place.path("go");
        format!(
            "[implementer 1]\nwrite US-001.txt old\nrun touch begun; while [ ! -e {} ]; do sleep 0.02; done; rm begun\n\
             final <promise>COMPLETE</promise>\n\
             [implementer]\nexpect-prompt The story was changed while the last run was working\nexpect-prompt Another title\n\
             write US-001.txt new\nfinal <promise>COMPLETE</promise>\n",
            go.display()
        )
    };
    let meanwhile = |person: &dyn Fn(&Desk)| {
        let desk = desk("", &[("US-001", 1)]);
        fs::write(desk.place.path("script"), waits(&desk)).unwrap();
        let running = desk.place.start(&["run"]);
        desk.wait_for_slot("begun");
        person(&desk);
        fs::write(desk.place.path("go"), "").unwrap();
        let (code, said) = running.finish();
        assert_eq!(code, Some(0), "{said}");
        (desk, said)
    };
    let (desk, said) = meanwhile(&|desk| {
        let prd = desk.read("ralph/prd.json").replace("Do US-001", "Another title");
        desk.write("ralph/prd.json", &prd);
    });
    assert!(said.contains("the story was changed during the run"), "{said}");
    assert_eq!(desk.taken(), ["US-001", "US-001"]);
    assert_eq!(desk.on_branch("US-001.txt"), "new");
    let (desk, said) = meanwhile(&|desk| {
        let prd = prd_of(&[("US-002", 1, true)]);
        desk.write("ralph/prd.json", &format!("{prd:#}\n"));
        desk.git(&["switch", "-q", BRANCH]);
        desk.commit_all("another PRD");
    });
    assert!(said.contains("removed or passes by now"), "{said}");
    assert!(!desk.git(&["ls-tree", "--name-only", BRANCH]).contains("US-001.txt"));
}

#[test]
fn iterations_are_bounded_and_the_rest_goes_on_later() {
    let desk = desk(WILLING, &[("US-001", 1), ("US-002", 2), ("US-003", 3)]);
    let finished = desk.exits(1, &["run", "1"]);
    assert!(finished.stderr.contains("all iterations are used, and 2 stories fail"), "{finished}");
    assert_eq!(desk.passing(), ["US-001"]);
    desk.exits_with(1, &["run"], &[("MAX_ITERATIONS", "1")]);
    assert_eq!(desk.passing(), ["US-001", "US-002"]);
    let finished = desk.exits(0, &["run", "--max-run-iterations", "auto"]);
    assert!(finished.stderr.contains("at most 1 iteration (1 failing story)"), "{finished}");
    assert_eq!(desk.taken(), ["US-001", "US-002", "US-003"]);
    // Trouble costs no iteration, and three of a kind stop the story.
    let desk = self::desk("[implementer]\nexit 7\n", &[("US-001", 1)]);
    let finished = desk.exits(1, &["run", "1"]);
    assert!(finished.stderr.contains("the same problem three times in a row"), "{finished}");
    assert_eq!(desk.taken().len(), 3);
}

#[test]
fn a_story_that_is_rejected_too_often_waits_for_a_person() {
    let script = "[implementer]\nwrite US-001.txt x\nfinal I could not finish\n";
    let desk = desk(script, &[("US-001", 1)]);
    desk.configure("limits.rejections = 2");
    let finished = desk.exits(3, &["run"]);
    assert!(finished.stderr.contains("rejected 2 times"), "{finished}");
    let status = desk.exits(0, &["status"]);
    assert!(status.stdout.contains("ralph answer ralph/dark/US-001"), "{status}");
    desk.exits(3, &["run"]);
    desk.exits(0, &["answer", "ralph/dark/US-001", "no"]);
    let declined = desk.exits(1, &["run"]);
    assert!(declined.stderr.contains("is not tried again, as you said"), "{declined}");
    desk.exits(3, &["run"]);
    assert_eq!(desk.taken().len(), 2);
    let answered = desk.exits(0, &["answer", "ralph/dark/US-001", "read the manual"]);
    assert!(answered.stderr.contains("`ralph run` acts on it"), "{answered}");
    let advised = "[implementer]\nexpect-prompt read the manual\nwrite US-001.txt y\nfinal <promise>COMPLETE</promise>\n";
    fs::write(desk.place.path("script"), advised).unwrap();
    desk.exits(0, &["run"]);
    assert_eq!(desk.passing(), ["US-001"]);
}

/// The same claim three times is enough, however many rejections are allowed. What is tried anew is counted anew.
#[test]
fn a_story_that_is_claimed_three_times_unchanged_waits_for_a_person() {
    let script = "[implementer 1]\nwrite US-001.txt bad\nfinal <promise>COMPLETE</promise>\n\
                  [implementer]\nfinal <promise>COMPLETE</promise>\n";
    let desk = desk(script, &[("US-001", 1)]);
    desk.gate();
    let finished = desk.exits(3, &["run"]);
    assert!(finished.stderr.contains("rejected 3 times"), "{finished}");
    desk.exits(3, &["run"]);
    assert_eq!(desk.taken().len(), 3);
    desk.exits(0, &["answer", "ralph/dark/US-001", "yes"]);
    desk.exits(3, &["run"]);
    assert_eq!(desk.taken().len(), 6);
}

/// A run that destroys its clone counts as a rejection, so that the bound on those ends the story.
#[test]
fn an_agent_that_removes_its_repository_is_rejected_until_a_person_is_asked() {
    let desk = desk("", &[("US-001", 1)]);
    desk.configure("limits.rejections = 2");
    let destroys = "cat >/dev/null; rm -rf .git; echo '<promise>COMPLETE</promise>'";
    let finished = desk.exits_with(3, &["run", "9"], &[("AGENT_CMD", destroys)]);
    assert!(finished.stderr.contains("rejected 2 times"), "{finished}");
    assert!(finished.stderr.contains("was recreated"), "{finished}");
    assert_eq!(desk.taken().len(), 2);
}

/// The same work claimed again is not measured again.
#[test]
fn work_that_was_rejected_is_rejected_again_unchanged() {
    let script = "[implementer 1]\nwrite US-001.txt bad\nfinal <promise>COMPLETE</promise>\n\
                  [implementer 2]\nfinal <promise>COMPLETE</promise>\n\
                  [implementer]\nexpect-prompt You claimed the same work again\nwrite US-001.txt good\nfinal <promise>COMPLETE</promise>\n";
    let desk = desk(script, &[("US-001", 1)]);
    desk.gate();
    desk.exits(0, &["run"]);
    let codes: Vec<Value> = desk
        .logged("verdict")
        .iter()
        .map(|verdict| verdict["reasons"][0]["code"].clone())
        .collect();
    assert_eq!(codes, [json!("gate_regressed"), json!("claimed_again"), Value::Null]);
}

#[test]
fn that_nothing_has_to_change_is_a_persons_to_decide() {
    let script = "[implementer 1]\nfinal <<'END'\nNO_CHANGE_NEEDED: it is there already\nEND\n\
                  [verifier]\nexpect-prompt it is there already\nfinal I do not see it.\n\
                  [implementer]\nexpect-prompt look again\nwrite US-001.txt x\nfinal <promise>COMPLETE</promise>\n";
    for (answer, runs) in [("yes", 2), ("look again", 3)] {
        let desk = desk(script, &[("US-001", 1)]);
        let finished = desk.exits(3, &["run"]);
        assert!(finished.stderr.contains("I do not see it."), "{finished}");
        assert_eq!(desk.roles(), ["implementer", "verifier"]);
        assert_eq!(desk.passing(), [""; 0]);
        desk.exits(0, &["answer", answer]);
        desk.exits(0, &["run"]);
        assert_eq!(desk.passing(), ["US-001"]);
        assert_eq!(desk.roles().len(), runs, "{answer}");
    }
}

#[test]
fn the_person_is_asked_after_each_iteration_if_they_want_to_be() {
    let stories = [("US-001", 1), ("US-002", 2), ("US-003", 3)];
    for (typed, code, passing) in [("1\n1\n", 0, 3), ("2\n", 0, 3), ("1\n3\n", 0, 2), ("q\n", 0, 1)]
    {
        let desk = desk(WILLING, &stories);
        let said = desk.typed(code, &["run", "--interactive"], typed);
        assert!(said.contains("Continue with the next iteration?"), "{said}");
        assert_eq!(desk.passing().len(), passing, "{typed:?}\n{said}");
    }
    let desk = desk(WILLING, &stories);
    let finished = desk.exits_with(3, &["run"], &[("INTERACTIVE", "1")]);
    assert!(finished.stderr.contains("--interactive"), "{finished}");
    assert_eq!(desk.roles(), [""; 0]);
}

/// C4 and C10.2–4: everything a run commits or leaves, under any name, must be inside the allowed paths, including the
/// last run.
#[test]
fn work_outside_the_allowed_paths_is_rejected() {
    let script = "[implementer 1]\nrun mkdir -p 'Straße'; echo x > 'Straße/ü.txt'; echo x > US-001.txt; git add -A; git commit -qm x\n\
                  final <promise>COMPLETE</promise>\n\
                  [implementer]\nexpect-prompt outside the allowed paths\nexpect-prompt Straße/ü.txt\nrun git rm -rq 'Straße'; git commit -qm y\n\
                  final <promise>COMPLETE</promise>\n";
    let desk = desk(script, &[("US-001", 1)]);
    // Files that existed before are not attributed to anyone.
    desk.write("elsewhere.txt", "dirty");
    let finished = desk.exits_with(0, &["run"], &[("ALLOWED_PATHS", "US-001.txt,src/")]);
    assert!(
        finished.stderr.contains("files outside the allowed paths were changed: Straße/ü.txt"),
        "{finished}"
    );
    assert_eq!(desk.passing(), ["US-001"]);
    // A file that is moved into them is gone from where it was.
    for (change, named) in [
        ("git mv README.md src/; git commit -qm moved", "README.md"),
        ("rm README.md; echo x > src/a", "README.md"),
        ("chmod +x Makefile; echo x > src/a", "Makefile"),
    ] {
        let script = format!(
            "[implementer]\nrun mkdir -p src; {change}\nfinal <promise>COMPLETE</promise>\n"
        );
        let desk = self::desk(&script, &[("US-001", 1)]);
        let finished = desk.exits(1, &["run", "1", "--allowed-paths", "src/"]);
        let told = format!("files outside the allowed paths were changed: {named}");
        assert!(finished.stderr.contains(&told), "{change}: {finished}");
        assert_eq!(desk.passing(), [""; 0], "{change}");
    }
    let desk = self::desk(WILLING, &[("US-001", 1)]);
    desk.exits_with(0, &["run", "--allowed-paths", ""], &[("ALLOWED_PATHS", "src/")]);
    assert_eq!(desk.passing(), ["US-001"], "typed as nothing: off");
}

#[test]
fn the_branch_can_be_another_one_or_the_one_that_is_checked_out() {
    for (args, variable) in [
        (&["run", "--branch", "other"][..], None),
        (&["run", "--onto", "other"], None),
        (&["run"], Some("other")),
    ] {
        let desk = desk(WILLING, &[("US-001", 1)]);
        let variable: Vec<(&str, &str)> =
            variable.iter().map(|name| ("RALPH_BRANCH", *name)).collect();
        desk.exits_with(0, args, &variable);
        assert_eq!(desk.git(&["show", "other:US-001.txt"]), "done", "{args:?}");
        assert!(!desk.git(&["branch", "--list"]).contains(BRANCH));
    }
    for (args, variable) in [(&["run", "--branch", ""][..], None), (&["run"], Some(""))] {
        let desk = desk(WILLING, &[("US-001", 1)]);
        let variable: Vec<(&str, &str)> =
            variable.iter().map(|name| ("RALPH_BRANCH", *name)).collect();
        let finished = desk.exits_with(0, args, &variable);
        assert!(!finished.stderr.contains("git switch"), "{finished}");
        assert_eq!(desk.read("US-001.txt"), "done\n", "the checkout follows");
        assert_eq!(desk.prd()["userStories"][0]["passes"], true);
        assert_eq!(desk.git(&["branch", "--list"]), "* main");
        assert_eq!(desk.git(&["status", "--porcelain"]), "");
    }
}

/// An uncommitted PRD does not block the checkout from following.
#[test]
fn on_the_branch_itself_the_checkout_follows() {
    let desk = desk(WILLING, &[("US-001", 1)]);
    desk.git(&["switch", "-q", "-c", BRANCH]);
    let prd = prd_of(&[("US-001", 1, true), ("US-002", 2, true)]);
    desk.write("ralph/prd.json", &format!("{prd:#}\n"));
    // A `passes` that is not at the tip does not count, whoever wrote it.
    desk.git(&["checkout", "-q", "--", "ralph/prd.json"]);
    let prd = prd_of(&[("US-001", 1, false), ("US-002", 2, false)]);
    desk.write("ralph/prd.json", &format!("{prd:#}\n"));
    desk.exits(0, &["run"]);
    assert_eq!(desk.passing(), ["US-001", "US-002"]);
    assert_eq!(desk.read("US-002.txt"), "done\n");
    assert_eq!(desk.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_prd_that_cannot_be_run_is_told_with_what_to_do() {
    let desk = desk(WILLING, &[]);
    let finished = desk.exits(2, &["run"]);
    assert!(
        finished.stderr.contains("has no stories") && finished.stderr.contains("ralph exec"),
        "{finished}"
    );
    desk.write("ralph/prd.json", "{\"branchName\": 1}");
    let finished = desk.exits(2, &["run"]);
    assert!(finished.stderr.contains("Missing required keys: userStories"), "{finished}");
    assert!(finished.stderr.contains("ralph prd import"), "{finished}");
    let mut prd = prd_of(&[("US-001", 1, false)]);
    prd["branchName"] = json!("no branch");
    desk.write("ralph/prd.json", &prd.to_string());
    let finished = desk.exits(2, &["run"]);
    assert!(finished.stderr.contains("`no branch` is not a valid branch name"), "{finished}");
    let finished = desk.exits(2, &["run", "--prompt", "missing.md", "--branch", "x"]);
    assert!(finished.stderr.contains("missing.md"), "{finished}");
    let finished = desk.exits(2, &["run", "0"]);
    assert!(finished.stderr.contains('0'), "{finished}");
    desk.write("elsewhere.json", &prd.to_string());
    let finished = desk.exits_with(2, &["run"], &[("PRD_FILE", "elsewhere.json")]);
    assert!(finished.stderr.contains("not in Ralph's home"), "{finished}");
    assert_eq!(desk.roles(), [""; 0]);
    // Duplicate story ids are reported, and each story is done.
    let prd = prd_of(&[("US-001", 1, false), ("US-001", 2, false)]);
    let mut other = prd.clone();
    other["userStories"][1]["title"] = json!("the other");
    desk.write("ralph/prd.json", &other.to_string());
    fs::write(desk.place.path("script"), WILLING.replace("echo done", "date +%N")).unwrap();
    let finished = desk.exits(0, &["run"]);
    assert!(finished.stderr.contains("several stories have the id US-001"), "{finished}");
    assert_eq!(desk.passing().len(), 2);
}

/// Ids come from an agent: directories are named after them, but an id is never used as a path.
#[test]
fn an_id_that_looks_like_a_path_stays_a_name() {
    let id = "../../../up";
    let desk =
        desk("[implementer]\nwrite a.txt x\nfinal <promise>COMPLETE</promise>\n", &[(id, 1)]);
    let before = desk.outside();
    desk.exits(0, &["run"]);
    assert_eq!(desk.passing(), [id]);
    let runs: Vec<_> = fs::read_dir(desk.path("ralph/runs/ralph/dark")).unwrap().collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    let files =
        |found: std::collections::BTreeMap<String, Vec<u8>>| found.into_keys().collect::<Vec<_>>();
    assert_eq!(files(desk.outside()), files(before));
}

/// Homes of other loops, with their prompt, in `scripts/ralph/`; the root is derived from the PRD's path.
#[test]
fn a_home_of_another_loop_runs_as_it_is() {
    let desk = Desk::new(
        "[implementer]\nexpect-prompt Read scripts/ralph/prd.json\nexpect-prompt The story of this run\n\
         expect-run grep -q US-001 scripts/ralph/prd.json\nwrite a.txt x\n\
         run sed -i 's/\"passes\": false/\"passes\": true/' scripts/ralph/prd.json; echo '- done' >> scripts/ralph/progress.txt; \
         git add -A; git commit -qm 'feat: [US-001] - [Do it]'\nfinal <promise>COMPLETE</promise>\n",
    );
    desk.place.env.isolate();
    let prd = prd_of(&[("US-001", 1, false)]);
    desk.write("scripts/ralph/prd.json", &format!("{prd:#}\n"));
    desk.write(
        "scripts/ralph/prompt.md",
        "Read scripts/ralph/prd.json.\n\nReply with:\n<promise>COMPLETE</promise>\n",
    );
    desk.write("scripts/ralph/progress.txt", "# Progress\n");
    desk.commit_all("as other loops have it");
    desk.exits_with(0, &["run"], &[("PRD_FILE", "scripts/ralph/prd.json")]);
    let prd: Value = serde_json::from_str(&desk.on_branch("scripts/ralph/prd.json")).unwrap();
    assert_eq!(prd["userStories"][0]["passes"], true);
    assert!(desk.on_branch("scripts/ralph/progress.txt").ends_with("- done"));
    let head = desk.git(&["log", "-1", "--format=%s", &format!("{BRANCH}~1")]);
    assert_eq!(head, "feat: [US-001] - [Do it]");
}

/// `AGENT_CMD=cat` is the documented dry run of other loops: an echoed prompt claims nothing.
#[test]
fn an_echoed_prompt_claims_nothing() {
    let desk = desk("", &[("US-001", 1)]);
    desk.write("ralph/prompt.md", "Do it, then reply with:\n<promise>COMPLETE</promise>\n");
    desk.configure("limits.rejections = 1");
    let finished = desk.exits_with(3, &["run"], &[("AGENT_CMD", "cat")]);
    assert!(finished.stderr.contains("without a claim"), "{finished}");
    assert_eq!(desk.passing(), [""; 0]);
}

#[test]
fn in_place_the_branch_is_checked_out_and_the_prd_comes_along() {
    let script = "[implementer]\nrun echo done > $RALPH_TASK.txt\n\
        run sed -i 's/\"passes\": false/\"passes\": true/' ralph/prd.json; echo \"- $RALPH_TASK\" >> ralph/progress.txt; true\n\
        run git add $RALPH_TASK.txt; git commit -qm \"feat: $RALPH_TASK\"\nfinal x\n";
    let desk = in_place(script, &[("US-001", 1)]);
    let finished = desk.exits(0, &["run", "--in-place"]);
    assert!(finished.stderr.contains("`ralph/dark` is checked out"), "{finished}");
    assert_eq!(desk.git(&["branch", "--show-current"]), BRANCH);
    assert_eq!(desk.passing(), ["US-001"]);
    assert_eq!(desk.prd()["userStories"][0]["passes"], true);
    assert_eq!(desk.git(&["status", "--porcelain"]), "");
    assert_eq!(desk.read("ralph/progress.txt"), "# Progress\n- US-001\n");
    // On main a story is added, and one already passes on the branch.
    desk.git(&["switch", "-q", "main"]);
    let prd = prd_of(&[("US-001", 1, false), ("US-002", 2, false)]);
    desk.write("ralph/prd.json", &format!("{prd:#}\n"));
    desk.commit_all("one more");
    desk.exits(0, &["run", "--in-place"]);
    assert_eq!(desk.passing(), ["US-001", "US-002"]);
    assert_eq!(desk.taken(), ["US-001", "US-002"]);
    // Uncommitted work is asked about.
    desk.write("mine.txt", "x");
    let finished = desk.exits(3, &["run", "--in-place"]);
    assert!(finished.stderr.contains("mine.txt"), "{finished}");
}

#[test]
fn a_killed_ralph_goes_on_with_the_same_story_in_the_same_slot() {
    let desk = desk("", &[("US-001", 1)]);
    let hangs = |number: u32| {
        format!(
            "[implementer {number}]\nsession s-half\nwrite half.txt half\nrun touch begun-{number}; sleep 600\n\
             [implementer]\nexpect-prompt - `half.txt`\nexpect-prompt You work in a clone: \nexpect-run test -e half.txt && rm begun-*\nwrite US-001.txt x\nfinal <promise>COMPLETE</promise>\n"
        )
    };
    for (number, signal) in [(1, Signal::KILL), (2, Signal::INT)] {
        fs::write(desk.place.path("script"), hangs(number)).unwrap();
        let running = desk.place.start(&["run"]);
        wait_for_session(&desk.place, &format!("begun-{number}"));
        running.signal(signal);
        let (code, said) = running.finish();
        assert_eq!(code, (signal == Signal::INT).then_some(130), "{said}");
    }
    desk.exits(0, &["run"]);
    assert_eq!(desk.passing(), ["US-001"]);
    assert_eq!(desk.on_branch("half.txt"), "half");
    assert_eq!(resumed(&desk.place, "implementer"), ["-", "s-half", "s-half"]);
    desk.place.assert_nothing_left();
}

#[test]
fn a_usage_limit_is_waited_for_and_costs_no_iteration() {
    let script = "[implementer 1]\nlimit in 1s\n[implementer]\nwrite US-001.txt x\nfinal <promise>COMPLETE</promise>\n";
    let desk = desk(script, &[("US-001", 1)]);
    let finished = desk.exits(0, &["run", "1"]);
    assert_eq!(desk.logged("usage_limit_wait").len(), 1, "{finished}");
    assert_eq!(desk.passing(), ["US-001"]);
}

/// Others move the branch meanwhile: work that merges is merged, conflicting work is sent back at no cost.
#[test]
fn work_that_does_not_fit_the_branch_any_more_goes_back_and_lands_once_it_is_merged() {
    let desk = desk("", &[("US-001", 1)]);
    let go = desk.place.path("go");
    let script = format!(
        "[implementer 1]\nwrite US-001.txt mine\nrun touch begun; while [ ! -e {} ]; do sleep 0.02; done; rm begun\n\
         final <promise>COMPLETE</promise>\n\
         [implementer]\nexpect-prompt both changed the same lines: US-001.txt\nrun git merge -q ralph/tip || true\n\
         write US-001.txt both\nrun git add -A; git commit -qm merged\nfinal <promise>COMPLETE</promise>\n",
        go.display()
    );
    fs::write(desk.place.path("script"), script).unwrap();
    let running = desk.place.start(&["run"]);
    desk.wait_for_slot("begun");
    desk.git(&["switch", "-q", BRANCH]);
    desk.write("US-001.txt", "theirs");
    desk.commit_all("the person's");
    desk.git(&["switch", "-q", "main"]);
    fs::write(go, "").unwrap();
    let (code, said) = running.finish();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("the work could not land"), "{said}");
    assert_eq!(desk.on_branch("US-001.txt"), "both");
    assert!(desk.git(&["log", "--format=%s", BRANCH]).contains("the person's"));
    assert_eq!(desk.passing(), ["US-001"]);
}

/// What cannot be committed is the agent's to mend, and no trouble of the machine.
#[test]
fn a_merge_conflict_that_an_agent_leaves_is_told_to_the_next_one() {
    let script = format!(
        "[implementer 1]\n{TEARS}final <promise>COMPLETE</promise>\n\
         [implementer]\n{MENDS}final <promise>COMPLETE</promise>\n"
    );
    for args in [&["run", "2"][..], &["run", "2", "--in-place"]] {
        let desk = in_place(&script, &[("US-001", 1)]);
        let finished = desk.exits(0, args);
        assert!(finished.stderr.contains("what the run left cannot be committed"), "{finished}");
        assert_eq!((desk.on_branch("torn.txt"), desk.taken().len()), ("both".into(), 2));
        assert_eq!(desk.passing(), ["US-001"]);
    }
}

/// From a one-sentence goal to all stories passing: the whole of `exec`, with consent to everything.
#[test]
fn exec_goes_on_into_the_run_with_its_cap() {
    let interviewer = block("interviewer", &[], &envelope(&[], &draft(&["US-001", "US-002"])));
    let desk = Desk::new(&format!("{interviewer}{WILLING}"));
    desk.place.env.isolate();
    let said = desk.typed(0, &["exec", GOAL, "--understand", "never"], "\ny\ny\n");
    assert!(
        said.contains("at most 2 iterations (2 failing stories), on the branch ralph/dark"),
        "{said}"
    );
    assert!(said.contains("[done] all stories pass"), "{said}");
    assert!(said.contains("[next] git switch ralph/dark"), "{said}");
    assert_eq!(desk.passing(), ["US-001", "US-002"]);
    assert_eq!(desk.git(&["branch", "--show-current"]), "main");
    assert_eq!(desk.roles(), ["interviewer", "implementer", "implementer"]);
    // The cap leaves no slack (C10.13), and is shown; more can be allowed.
    let failing = "[implementer 1]\nfinal could not\n";
    let desk = Desk::new(&format!("{interviewer}{failing}{WILLING}"));
    desk.place.env.isolate();
    let args = [
        "exec",
        GOAL,
        "--non-interactive",
        "--approve-prd",
        "--understand",
        "never",
        "--approve-run",
    ];
    let finished = desk.exits(1, &args);
    assert!(finished.stderr.contains("all iterations are used, and 1 story fails"), "{finished}");
    let finished = desk.exits(0, &[&args[..], &["--resume"]].concat());
    assert!(finished.stderr.contains("all stories pass"), "{finished}");
}

/// A home that Ralph did not create, an agent that commits everything: Ralph's own files do not interfere.
#[test]
fn logs_do_not_show_up_and_a_prd_that_was_only_placed_is_not_the_agents_change() {
    let script = "[implementer]\nrun echo x > $RALPH_TASK.txt; git add -A; git commit -qm all\nfinal <promise>COMPLETE</promise>\n";
    let desk = Desk::new(script);
    let stories = [story("US-001", false)];
    // Not in Ralph's own formatting.
    desk.write(
        "ralph/prd.json",
        &json!({"branchName": BRANCH, "userStories": stories}).to_string(),
    );
    desk.commit_all("a PRD");
    let finished = desk.exits(0, &["run"]);
    assert!(!finished.stderr.contains("yours to change"), "{finished}");
    assert_eq!(desk.git(&["status", "--porcelain"]), "");
}

/// C10.4: in a workspace below the root of its repository, paths are relative to the workspace.
#[test]
fn allowed_paths_are_named_from_the_workspace() {
    let script = "[implementer]\nrun mkdir -p src; echo x > src/$RALPH_TASK.txt; echo x > other.txt\nfinal <promise>COMPLETE</promise>\n";
    for (script, code) in [(script.replace("; echo x > other.txt", ""), 0), (script.to_owned(), 1)]
    {
        let desk = Desk::new(&script);
        let prd = json!({"branchName": BRANCH, "userStories": [story("US-001", false)]});
        desk.write("sub/ralph/prd.json", &prd.to_string());
        let settings = desk.read("ralph.toml").replace("../script", "../../script");
        desk.write("sub/ralph.toml", &settings);
        desk.commit_all("a part");
        let finished = desk.exits(code, &["--root", "sub", "run", "1", "--allowed-paths", "src/"]);
        assert_eq!(finished.stderr.contains("were changed: other.txt"), code == 1, "{finished}");
    }
}

#[test]
fn a_home_that_ignores_nothing_gets_no_untracked_files() {
    let desk = desk(WILLING, &[("US-001", 1)]);
    desk.git(&["rm", "-q", "ralph/.gitignore"]);
    desk.git(&["commit", "-qm", "as another tool leaves it"]);
    desk.place.ralph(&["status"]);
    assert_eq!(desk.git(&["status", "--porcelain"]), "", "a report");
    desk.place.ralph(&["agent", "run", "look around"]);
    assert!(desk.place.env.repo().join("ralph/runs").is_dir());
    assert_eq!(desk.git(&["status", "--porcelain"]), "", "a run");
    let ended = desk.place.ralph(&["run"]);
    assert_eq!(ended.status.code(), Some(0), "{ended}");
    assert_eq!(desk.git(&["status", "--porcelain"]), "", "{ended}");
}

/// Wherever it is stopped before the story has landed: a story that a person removes then does not land.
#[test]
fn a_run_that_is_stopped_lands_nothing_that_was_cancelled_meanwhile() {
    let (begun, total) = points_of(&desk(WILLING, &[("US-001", 1)]).place, &["run"]);
    let mut cancelled = 0;
    for at in (begun + 2..=total).step_by(((total - begun) / 4).max(1)) {
        let desk = desk(WILLING, &[("US-001", 1)]);
        let at = at.to_string();
        let faults = [("RALPH_CRASH_AT", at.as_str()), ("RALPH_CRASH_SIGNAL", "STOP")];
        let running = desk.place.start_with(&["run"], &faults);
        wait_until(PATIENCE, "it stands still", || running.is_over() || is_stopped(running.pid()));
        let has_work = || {
            let tips = ["--branches", "--glob=refs/ralph/landed/*"];
            let log =
                desk.git(&[&["log", "--format=%H"][..], &tips, &["--", "US-001.txt"]].concat());
            !log.is_empty()
        };
        // Between the verdict and the landing it is too late to check the checkout again.
        let is_judged = !desk.place.logged("verdict").is_empty();
        let is_early = !has_work() && !is_judged;
        if !has_work() {
            cancelled += u32::from(is_early);
            // The checkout's version is authoritative, on any branch.
            desk.write("ralph/prd.json", &format!("{:#}\n", prd_of(&[("US-002", 1, true)])));
        }
        running.signal(Signal::CONT);
        let (code, said) = running.finish();
        assert_eq!(code, Some(0), "{at}: {said}");
        assert!(!(is_early && has_work()), "{at}: {said}");
    }
    assert!(cancelled > 0, "{total} points");
}

/// Files that Ralph put into the slot are not the agent's, although its commit swept them up.
#[test]
fn a_sweep_of_what_the_run_was_given_changes_nothing_of_the_persons() {
    let desk = desk(WILLING, &[("US-001", 1)]);
    // Not in Ralph's own formatting.
    desk.write("ralph/prd.json", &prd_of(&[("US-001", 1, false)]).to_string());
    desk.commit_all("compact");
    let finished = desk.exits(0, &["run"]);
    assert!(!finished.stderr.contains("yours to change"), "{finished}");
    assert_eq!(desk.passing(), ["US-001"]);
}

#[test]
fn a_branch_that_cannot_have_its_name_is_refused_with_what_is_in_its_way() {
    let desk = desk(WILLING, &[("US-001", 1)]);
    desk.git(&["branch", "ralph"]);
    let finished = desk.place.ralph(&["run"]);
    assert_ne!(finished.status.code(), Some(0), "{finished}");
    assert!(finished.stderr.contains("because the branch `ralph` exists"), "{finished}");
    assert!(!finished.stderr.contains("update-ref"), "{finished}");
}

/// Commits that the person drops from the PRD's branch during the work stay dropped.
#[test]
fn a_branch_of_a_prd_that_is_moved_back_gets_the_story_alone() {
    let desk = desk("", &[("US-001", 1)]);
    desk.git(&["branch", BRANCH]);
    desk.git(&["switch", "-q", BRANCH]);
    desk.write("secret.txt", "SECRET");
    desk.commit_all("oops");
    let go = desk.place.path("go");
    let waits = format!(
        "[implementer]\nrun touch begun; while [ ! -e {} ]; do sleep 0.02; done; rm begun\n",
        go.display()
    );
    let script = WILLING.replacen("[implementer]\n", &waits, 1);
    fs::write(desk.place.path("script"), script).unwrap();
    let running = desk.place.start(&["run"]);
    desk.wait_for_slot("begun");
    desk.git(&["reset", "-q", "--hard", "HEAD~1"]);
    fs::write(&go, "").unwrap();
    let (code, said) = running.finish();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(desk.git(&["log", "--format=%h", BRANCH, "--", "secret.txt"]), "");
    assert_eq!(desk.passing(), ["US-001"]);
}
