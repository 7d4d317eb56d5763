//! Everyday use: agents with ordinary habits, people with ordinary trees, and no unrelated file touched.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{AGREES, BUILDS, GREETS, PLANS, Stage, claims, on, willing};
use crate::harness::{PATIENCE, wait_until};
use crate::support::process::processes_marked;

/// The steps of an implementer before it claims its last commit.
fn works(steps: &str) -> String {
    on("implementer", 1, &format!("{steps}\n{}", claims("${COMMIT}")))
}

#[test]
fn an_agent_that_adds_everything_sweeps_up_nothing_of_ralphs() {
    let stage = Stage::new(&willing(&[works("write greeting.txt hello\ncommit \"all of it\"")]));
    stage.pipeline(&[]).exits(0);
    let commit = stage.row("0001-greeting.md")["commit"].as_str().unwrap().to_owned();
    let changed = stage.git(&["show", "--format=", "--name-only", &commit]);
    assert_eq!(changed, "greeting.txt");
}

/// An implementer that works on its own branch, with a gate.
fn branching() -> Stage {
    let branches =
        "run git switch -q -c feature\nwrite greeting.txt hello\ncommit \"branched\" greeting.txt";
    Stage::with(&willing(&[works(branches)]), GREETS, &["0001-greeting.md"])
}

#[test]
fn an_agent_that_works_on_a_branch_of_its_own_in_its_clone_lands_on_the_persons() {
    let stage = branching();
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "piv");
    assert_eq!(stage.git(&["symbolic-ref", "HEAD"]), "refs/heads/main");
    let candidate = stage.json("ralph/specs/candidates/0001-greeting.json");
    assert_eq!(candidate["refs"], json!(["refs/heads/feature"]));
    assert_eq!(stage.read("greeting.txt"), "hello\n");
    assert_eq!(
        stage.git(&["for-each-ref", "--format=%(refname)", "refs/heads"]),
        "refs/heads/main"
    );
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
}

#[test]
fn an_agent_that_works_on_a_branch_of_its_own_is_followed_there() {
    let stage = branching().in_place();
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "piv");
    assert_eq!(stage.git(&["symbolic-ref", "HEAD"]), "refs/heads/main");
    let candidate = stage.json("ralph/specs/candidates/0001-greeting.json");
    assert_eq!(candidate["refs"], json!(["refs/heads/feature"]));
    assert_eq!(
        stage.git(&["rev-parse", "feature"]),
        candidate["candidate_commit"].as_str().unwrap()
    );
    assert!(!stage.has("greeting.txt"));
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    assert!(!stage.git(&["log", "--format=%s", "feature"]).contains("is done"));
}

#[test]
fn what_an_agent_leaves_uncommitted_is_told_to_the_verifier_and_does_not_land() {
    let stage = Stage::new(&willing(&[works(
        "write greeting.txt hello\ncommit \"work\" greeting.txt\nwrite left.txt over\nwrite README.md changed",
    )]));
    stage.pipeline(&[]).exits(0);
    let told = stage.prompt("verifier", 1);
    assert!(told.contains("left.txt") && told.contains("README.md"), "{told}");
    // They are not work, and do not reach the person.
    assert_eq!(
        (stage.has("left.txt"), stage.read("README.md").as_str()),
        (false, "A repository.\n")
    );
    stage.spec("0002-next.md");
    stage.pipeline(&[]).exits(0);
}

#[test]
fn without_gates_everything_says_that_nothing_proves_it() {
    let unproven = "not proven";
    let stage = Stage::new(&willing(&[]));
    let ended = stage.pipeline(&["--json"]);
    ended.exits(0).says(unproven);
    assert_eq!(ended.json()["specs"][0]["level"], "not_proven");
    assert!(
        stage.read("ralph/specs/done/0001-greeting.md").contains(&format!("Proof: {unproven}"))
    );
    assert_eq!(stage.row("0001-greeting.md")["proof"], unproven);
    for args in [&["specs"][..], &["specs", "show", "1"]] {
        let shown = stage.ralph(args);
        assert!(shown.finished.to_string().contains(unproven), "{args:?} {}", shown.finished);
    }
    assert_eq!(stage.told("verify_pass")[0]["level"], "not_proven");
}

#[test]
fn a_dirty_tree_is_refused_unless_the_person_allows_it_and_is_never_evidence() {
    let only =
        "write greeting.txt hello\nrun git add -N greeting.txt && git commit -qm only greeting.txt";
    let stage = Stage::new(&willing(&[
        on("implementer", 1, &claims("${HEAD}")),
        on("implementer", 2, &format!("{only}\n{}", claims("${HEAD}"))),
    ]))
    .in_place();
    stage.write("notes.txt", "mine\n");
    stage.write("README.md", "Half of a sentence\n");
    stage.write("staged.txt", "staged\n");
    stage.git(&["add", "staged.txt"]);
    stage.pipeline(&[]).exits(3).says("notes.txt").says("--allow-dirty");
    assert!(!stage.has("ralph/runs"));
    let before = stage.git(&["status", "--porcelain"]);
    stage.pipeline(&["--allow-dirty"]).exits(0);
    // The first claim contained only the person's own changes.
    assert_eq!(stage.runs(), "piiv");
    assert_eq!(stage.git(&["status", "--porcelain"]), before);
    assert_eq!(stage.read("README.md"), "Half of a sentence\n");
    assert!(!stage.prompt("verifier", 1).contains("notes.txt"));
    let commit = stage.row("0001-greeting.md")["commit"].as_str().unwrap().to_owned();
    assert_eq!(stage.git(&["show", "--format=", "--name-only", &commit]), "greeting.txt");
}

#[test]
fn an_agent_that_edits_the_state_it_is_judged_by_has_failed_and_changed_nothing() {
    let done = "ralph/specs/done/0001-greeting.md";
    let stage = Stage::new(&willing(&[
        works(&format!(
            "write greeting.txt hello\ncommit \"work\" greeting.txt\nwrite {done} DONE\n\
             append ralph.toml boundary = \"off\"\ndelete ralph/specs/plans/0001-greeting.json"
        )),
        on(
            "implementer",
            2,
            &format!("write ralph/specs/candidates/0001-greeting.json {{}}\n{}", claims("${HEAD}")),
        ),
    ]))
    .in_place();
    let settings = stage.read("ralph.toml");
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "piiiv");
    assert_eq!(stage.read("ralph.toml"), settings);
    assert!(stage.read(done).contains("Candidate commit: "));
    let plan = stage.json("ralph/specs/plans/0001-greeting.json");
    let tried = plan["tries"].as_array().unwrap();
    let outcome = |at: usize| tried[at]["outcome"].as_str().unwrap().to_owned();
    for path in [done, "ralph.toml", "ralph/specs/plans/0001-greeting.json"] {
        assert!(outcome(0).contains(path), "{path}: {}", outcome(0));
    }
    assert!(outcome(1).contains("ralph/specs/candidates/0001-greeting.json"), "{}", outcome(1));
    assert!(stage.prompt("implementer", 2).contains("ralph.toml"));
}

#[test]
fn a_planner_that_writes_into_the_tree_has_failed_and_the_paths_are_named() {
    // A12.15: read-only is enforced, not requested. With the kernel boundary nothing is written at all.
    let meddles = format!(
        "[planner 1]\nwrite evil.txt x\nwrite README.md rewritten\noutbox plan.md # Evil plan\n\
         final I AM HYPER SURE I AM DONE!\n{PLANS}{BUILDS}{AGREES}"
    );
    let stage = Stage::new(&meddles);
    stage.settings("boundary = \"detect\"\n");
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "ppiv");
    assert_eq!(
        (stage.has("evil.txt"), stage.read("README.md").as_str()),
        (false, "A repository.\n")
    );
    let tried = stage.json("ralph/specs/plans/0001-greeting.json")["tries"][0]["outcome"].clone();
    let tried = tried.as_str().unwrap();
    assert!(tried.contains("evil.txt") && tried.contains("README.md"), "{tried}");
    assert!(stage.prompt("planner", 2).contains("evil.txt"));
    let enforced = Stage::new(&meddles);
    enforced.settings("boundary = \"kernel\"\n");
    enforced.pipeline(&[]).exits(0);
    assert_eq!((enforced.has("evil.txt"), enforced.runs().as_str()), (false, "piv"));
}

#[test]
fn a_verifier_moves_neither_the_persons_branch_nor_their_files() {
    // A12.15 and A12.17: it has its own checkout, in which it may do anything.
    let meddles = "run git checkout -q HEAD~1; rm -rf greeting.txt; echo x > new.txt\n\
                   run git -C $PERSON checkout -q HEAD~1\n";
    let agrees = AGREES.split_once('\n').unwrap().1.replace("${HEAD}", "${RALPH_TASK:-?}");
    // A claim without the commit is a formal error, and with detection alone the verifier has failed: neither says
    // anything about the candidate.
    for (boundary, runs, text) in [("kernel", "pivv", "hello 1\n"), ("detect", "pivv", "hello 1\n")]
    {
        let settings = format!("boundary = \"{boundary}\"\n");
        let mut stage = Stage::with("", &settings, &["0001-greeting.md"]);
        if boundary == "detect" {
            stage = stage.in_place();
        }
        let person = stage.place.env.repo().display().to_string();
        let steps = format!("{meddles}{agrees}").replace("$PERSON", &person);
        stage.script(&willing(&[on("verifier", 1, &steps)]));
        stage.pipeline(&[]).exits(0);
        assert_eq!(stage.git(&["symbolic-ref", "HEAD"]), "refs/heads/main", "{boundary}");
        assert_eq!(stage.git(&["status", "--porcelain"]), "", "{boundary}");
        assert_eq!(stage.read("greeting.txt"), text, "{boundary}");
        assert_eq!(stage.runs(), runs, "{boundary}");
    }
}

#[test]
fn a_home_that_is_not_committed_stays_out_of_git_altogether() {
    let stage = Stage { place: crate::harness::Place::new() };
    stage.settings("git.commit_home = false\n");
    stage.script(&willing(&[works("write greeting.txt hello\ncommit \"all of it\"")]));
    stage.git(&["add", "ralph.toml"]);
    stage.git(&["commit", "--quiet", "--message=settings"]);
    stage.spec("0001-greeting.md");
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.row("0001-greeting.md")["state"], "done");
    assert_eq!(stage.git(&["log", "--format=%s"]), "all of it\nsettings\nstart");
    assert_eq!(
        stage.git(&["ls-tree", "-r", "--name-only", "HEAD"]),
        "README.md\ngreeting.txt\nralph.toml"
    );
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
}

#[test]
fn private_state_that_is_lost_in_the_middle_is_made_anew_and_the_spec_goes_on() {
    // A candidate that has not landed is kept in the person's repository, so it is not redone.
    for (role, runs) in [("implementer", "piiv"), ("verifier", "pivv")] {
        let stage = Stage::with(
            &willing(&[on(role, 1, "limit in 1h\nexit 1")]),
            GREETS,
            &["0001-greeting.md"],
        );
        stage.pipeline(&["--no-wait"]).exits(1);
        fs::remove_dir_all(stage.private()).unwrap();
        stage.pipeline(&[]).exits(0).says("private state");
        assert_eq!(stage.runs(), runs);
        assert_eq!(stage.row("0001-greeting.md")["proof"], "gates passed");
    }
}

#[test]
fn nothing_differs_afterwards_but_the_agents_commits_and_ralphs_own() {
    let stage = Stage::with(
        &willing(&[
            on("verifier", 1, "final Rude."),
            on("verifier", 2, "final <<END\nNo.\nPLAN_INVALIDATION: another one\nEND"),
        ]),
        GREETS,
        &["0001-greeting.md"],
    );
    // As `ralph init` creates it: nothing else has to be hidden from git.
    stage.write("ralph/.gitignore", "runs/\nralph.log\nspecs/sessions/\n.*.ralph-tmp\n");
    stage.git(&["add", "ralph/.gitignore"]);
    stage.git(&["commit", "-qm", "home"]);
    stage.write("README.md", "for the stash\n");
    stage.git(&["stash", "--quiet"]);
    stage.git(&["branch", "other"]);
    stage.git(&["tag", "v1"]);
    stage.git(&["config", "remote.origin.url", "/nowhere"]);
    stage.git(&["config", "branch.main.remote", "origin"]);
    stage.git(&["worktree", "add", "--quiet", "../linked", "other"]);
    stage.write("ignored.txt", "kept\n");
    stage.write(".git/info/exclude", "ignored.txt\n");
    let look = |args: &[&str]| stage.git(args);
    let all = || {
        let refs = look(&["for-each-ref", "--format=%(refname) %(objectname)"]);
        let own = |line: &&str| {
            !line.starts_with("refs/notes/ralph ")
                && !line.starts_with("refs/ralph/")
                && !line.starts_with("refs/heads/main ")
        };
        let refs: Vec<String> = refs.lines().filter(own).map(str::to_owned).collect();
        let hooks = super::files_below(&stage.file(".git/hooks"));
        (
            refs,
            [
                look(&["symbolic-ref", "HEAD"]),
                look(&["status", "--porcelain", "--ignored"])
                    .lines()
                    .filter(|line| !line.starts_with("!! ralph/"))
                    .collect(),
                look(&["stash", "list"]),
                look(&["worktree", "list", "--porcelain"])
                    .lines()
                    .filter(|l| !l.starts_with("HEAD "))
                    .collect(),
                fs::read_to_string(stage.file(".git/config")).unwrap(),
                fs::read_to_string(stage.file(".git/info/exclude")).unwrap(),
            ],
            hooks,
        )
    };
    let before = all();
    let first = stage.git(&["rev-parse", "HEAD"]);
    stage.pipeline(&[]).exits(0);
    assert_eq!(all(), before);
    for commit in stage.git(&["rev-list", &format!("{first}..HEAD")]).lines() {
        let subject = stage.git(&["show", "-s", "--format=%s", commit]);
        let changed = stage.git(&["show", "--format=", "--name-only", commit]);
        let expected = if subject.starts_with("work ") { "greeting.txt" } else { "ralph/" };
        assert!(changed.lines().all(|path| path.starts_with(expected)), "{subject}: {changed}");
    }
    assert_eq!(processes_marked(stage.place.env.mark()), []);
    // Nor is anything left in the index or as a lock.
    for left in [".git/index.lock", ".git/HEAD.lock"] {
        assert!(!stage.has(left), "{left}");
    }
    let leftovers: Vec<Value> = super::files_in(&stage.file(".git"))
        .iter()
        .filter(|path| path.to_string_lossy().contains("ralph-index"))
        .map(|path| json!(path.to_string_lossy()))
        .collect();
    assert_eq!(leftovers, Vec::<Value>::new());
}

/// An implementer that is on its own branch when it reaches `end`.
fn branches_and(end: &str) -> Stage {
    let branches = "run git switch -q -c feature\nwrite half.txt half\ncommit \"half\" half.txt";
    let steps = format!("{branches}\nsession impl-1\n{end}");
    Stage::new(&willing(&[on("implementer", 1, &steps)])).in_place()
}

/// Whether the implementer has reported its session, which it does after its commit on its own branch. The log has that
/// at once; the screen may omit it.
fn has_branched(stage: &Stage) -> bool {
    let runs = stage.place.env.repo().join("ralph/runs/0001-greeting");
    let runs = fs::read_dir(runs).into_iter().flatten().flatten();
    let mut logs = runs.map(|run| run.path().join("impl-attempt-1.log"));
    logs.any(|log| fs::read_to_string(log).is_ok_and(|log| log.contains("impl-1")))
}

/// Asserts that everything of Ralph's and everything later is on the branch on which the run began.
fn is_done_on_main(stage: &Stage) {
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "piiv");
    assert_eq!(stage.git(&["symbolic-ref", "HEAD"]), "refs/heads/main");
    assert_eq!(stage.git(&["log", "-1", "--format=%s", "feature"]), "half");
    assert!(stage.git(&["log", "-1", "--format=%s"]).contains("is done"));
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_run_that_is_interrupted_on_another_branch_ends_on_the_one_it_began_on() {
    let stage = branches_and("hang");
    let running = stage.place.start(&["pipeline"]);
    wait_until(PATIENCE, "the branch is there", || has_branched(&stage));
    running.signal(Signal::INT);
    assert_eq!(running.finish().0, Some(130));
    assert_eq!(stage.git(&["symbolic-ref", "HEAD"]), "refs/heads/main");
    is_done_on_main(&stage);
}

#[test]
fn a_run_that_hits_its_limit_on_another_branch_leaves_the_person_on_theirs() {
    let stage = branches_and("limit in 1s\nexit 1");
    stage.pipeline(&["--no-wait"]).exits(1);
    assert_eq!(stage.git(&["symbolic-ref", "HEAD"]), "refs/heads/main");
    is_done_on_main(&stage);
}

#[test]
fn a_ralph_that_is_killed_while_the_agent_is_on_another_branch_returns_at_the_next_start() {
    let stage = branches_and("hang");
    let running = stage.place.start(&["pipeline"]);
    wait_until(PATIENCE, "the branch is there", || has_branched(&stage));
    running.signal(Signal::KILL);
    running.finish();
    is_done_on_main(&stage);
}

#[test]
fn a_person_who_changes_the_branch_between_two_runs_is_left_there() {
    let stage = Stage::new(&willing(&[on("implementer", 1, "final not yet")]));
    stage.pipeline(&["--max-attempts", "1"]).exits(1);
    stage.git(&["switch", "--quiet", "-c", "mine"]);
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.git(&["symbolic-ref", "HEAD"]), "refs/heads/mine");
    assert_eq!(stage.git(&["show", "mine:greeting.txt"]), "hello 2");
    assert!(!stage.git(&["ls-tree", "--name-only", "main"]).contains("greeting.txt"));
}

#[test]
fn the_phrase_alone_claims_the_tip_of_the_work() {
    let steps = "write greeting.txt hello\ncommit \"all of it\"\nfinal I AM HYPER SURE I AM DONE!";
    let stage = Stage::new(&willing(&[on("implementer", 1, steps)]));
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "piv");
    assert_eq!(stage.read("greeting.txt"), "hello\n");
}

#[test]
fn uncommitted_work_is_committed_where_the_claim_names_no_commit() {
    for is_in_place in [false, true] {
        let steps = "write greeting.txt hello\nfinal I AM HYPER SURE I AM DONE!";
        let stage = Stage::new(&willing(&[on("implementer", 1, steps)]));
        let stage = if is_in_place { stage.in_place() } else { stage };
        stage.pipeline(&[]).exits(0);
        assert_eq!(stage.runs(), "piv");
        assert_eq!(stage.git(&["show", "HEAD:greeting.txt"]), "hello");
        assert!(stage.git(&["log", "--format=%s"]).contains("feat: 0001-greeting"));
    }
}

#[test]
fn that_nothing_needs_to_change_can_be_said_without_a_commit() {
    let steps = "final <<END\nNO_CHANGE_NEEDED: it greets already\nI AM HYPER SURE I AM DONE!\nEND";
    let stage = Stage::new(&willing(&[on("implementer", 1, steps)]));
    stage.pipeline(&[]).exits(3).says("it greets already");
    assert_eq!(stage.runs().matches('i').count(), 1);
}

#[test]
fn a_spec_with_an_unusual_name_stops_only_itself() {
    let stage = Stage::new(&willing(&[]));
    stage.write("ralph/specs/0002-two\nlines.md", "# Two\n\nDo it.\n");
    let ended = stage.pipeline(&["--allow-dirty"]);
    ended.exits(0).says("0002-two\\nlines.md");
    assert_eq!(stage.runs(), "piv");
}

/// In place, Ralph commits home after each rejection: the tip is another commit each time, and the work is the same.
#[test]
fn in_place_the_tip_is_claimed_three_times_at_most_with_the_same_work() {
    let claims_the_tip = "[implementer]\nrun test -e greeting.txt || { echo hello > greeting.txt; git add greeting.txt; git commit -qm work; }\n\
                          final <<END\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND\n";
    let script = format!("{PLANS}{claims_the_tip}[verifier]\nfinal It is rude.\n");
    let stage = Stage::with(&script, GREETS, &["0001-greeting.md"]).in_place();
    stage.pipeline(&[]).exits(1).says("the last 3 attempts ended the same way");
    assert_eq!(stage.runs(), "pivii");
    assert!(stage.prompt("implementer", 3).contains("It is rude."));
}

#[test]
fn in_place_an_agent_that_does_nothing_is_stopped_after_three_attempts() {
    let idles = "[implementer]\nfinal <<END\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND\n";
    let stage = Stage::with(&format!("{PLANS}{idles}{AGREES}"), GREETS, &["0001-greeting.md"]);
    let stage = stage.in_place();
    stage.pipeline(&[]).exits(1).says("the last 3 attempts ended the same way");
    assert_eq!(stage.runs(), "piii");
}
