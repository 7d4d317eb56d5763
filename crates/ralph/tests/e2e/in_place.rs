//! Agents that work in the person's own checkout: whatever they do there, nothing of the person's is lost, and none of
//! it counts as the agent's work.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::process::Signal;

use crate::harness::{PATIENCE, Place, Report, wait_for_file, wait_until};
use crate::pipeline::{Stage, on, willing};

/// An agent for every role; `work` is run by its implementers and builders, with `ok` and `claim` available.
pub(crate) fn agent(stage: &Stage, work: &str) -> String {
    let path = stage.place.path("agent.sh");
    let script = format!(
        "cat >/dev/null; P='I AM HYPER SURE I AM DONE!'\n\
         ok() {{ date +%N >>work.txt; git add work.txt; git commit -qm work; }}\n\
         claim() {{ git rev-parse HEAD; echo \"$P\"; }}\n\
         case $RALPH_ROLE in\n\
         planner) echo plan >$RALPH_OUT/plan.md; echo \"$P\";;\n\
         implementer|builder) {work};;\n\
         *) claim;; esac\n"
    );
    fs::write(&path, script).unwrap();
    format!("sh {}", path.display())
}

pub(crate) fn committed() -> Stage {
    Stage::with("", "", &["0001-greeting.md"]).in_place()
}

/// Whether the agent's work is being judged: gates run at the base as well, before the first agent.
pub(crate) fn gate_runs_at_candidate(stage: &Stage) -> bool {
    stage.place.logged("gate_started").iter().any(|gate| gate["at"] == "candidate")
}

fn put_back(report: &Report) -> Vec<&str> {
    let list = report.json["changes"]["put_back"].as_array().unwrap();
    list.iter().map(|found| found["path"].as_str().unwrap()).collect()
}

fn refs(place: &Place) -> String {
    place.env.git(&["for-each-ref", "--format=%(objectname) %(refname)"])
}

#[test]
fn branches_tags_and_the_stash_that_a_run_deletes_are_put_back() {
    let place = Place::new();
    let git = |args: &[&str]| place.env.git(args);
    git(&["branch", "mine"]);
    git(&["commit", "--quiet", "--allow-empty", "--message=more"]);
    git(&["tag", "v1"]);
    git(&["tag", "v2", "HEAD~1"]);
    git(&["pack-refs", "--all"]);
    fs::write(place.env.repo().join("README.md"), "stashed\n").unwrap();
    git(&["stash", "--quiet"]);
    let before = refs(&place);
    let command =
        "git branch -D mine; git tag -d v1; git tag -f v2 HEAD; git stash drop; echo done";
    let report = place.agent_run(&["--agent-cmd", command]);
    let mut back = put_back(&report);
    back.sort_unstable();
    assert_eq!(back, ["refs/heads/mine", "refs/stash", "refs/tags/v1", "refs/tags/v2"]);
    let now = refs(&place);
    for line in before.lines() {
        assert!(now.contains(line), "{line} is not in {now}");
    }
    assert_eq!(report.outcome(), "completed", "an honest mistake: {}", report.json);
}

#[test]
fn a_persons_commit_that_a_run_drops_is_on_its_branch_again_and_the_run_has_failed() {
    let place = Place::new();
    fs::write(place.env.repo().join("mine.txt"), "mine\n").unwrap();
    place.env.git(&["add", "mine.txt"]);
    place.env.git(&["commit", "--quiet", "--message=persons"]);
    let before = place.env.git(&["rev-parse", "main"]);
    let command =
        "git reset -q --hard HEAD~1; echo x >new; git add new; git commit -qm instead; echo done";
    let report = place.agent_run(&["--agent-cmd", command]);
    assert_eq!(put_back(&report), ["refs/heads/main"]);
    assert_eq!(report.outcome(), "violation");
    assert_eq!(place.env.git(&["rev-parse", "main"]), before);
    assert_eq!(fs::read_to_string(place.env.repo().join("mine.txt")).unwrap(), "mine\n");
    assert!(!place.env.repo().join("new").exists());
    let kept = report.json["changes"]["displaced"].as_str().unwrap();
    assert!(place.env.git(&["log", "--format=%s", kept]).contains("instead"));
}

#[test]
fn what_a_run_does_to_its_own_branches_is_its_own_affair() {
    let place = Place::new();
    let command = "git checkout -q -b feat; echo 1 >a; git add a; git commit -qm one; git commit -q --amend -m two; \
        git branch gone; git branch -D gone; git tag mine; git checkout -q main; git merge -q feat; echo done";
    let report = place.agent_run(&["--agent-cmd", command]);
    assert_eq!(put_back(&report), Vec::<&str>::new());
    assert_eq!(report.outcome(), "completed");
    assert_eq!(place.env.git(&["log", "-1", "--format=%s", "main"]).trim(), "two");
}

#[test]
fn ralphs_own_refs_are_put_back_also_where_they_are_packed() {
    let place = Place::new();
    place.env.git(&["notes", "--ref=ralph", "add", "-m", "receipt"]);
    place.env.git(&["pack-refs", "--all"]);
    let before = refs(&place);
    for command in [
        "git notes --ref=ralph add -f -m forged HEAD; git pack-refs --all; echo done",
        "git update-ref -d refs/notes/ralph; echo done",
        "git update-ref refs/ralph/mine HEAD; git pack-refs --all; echo done",
    ] {
        let report = place.agent_run(&["--agent-cmd", command]);
        assert_eq!(report.outcome(), "violation", "{command}");
        let now = refs(&place);
        let now: Vec<&str> = now.lines().filter(|line| !line.contains("displaced")).collect();
        assert_eq!(now, before.lines().collect::<Vec<_>>(), "{command}");
    }
    // Packing alone changes nothing.
    let report = place.agent_run(&["--agent-cmd", "git gc -q; echo done"]);
    assert_eq!(report.outcome(), "completed");
}

#[test]
fn commits_that_a_run_has_pruned_come_back_from_the_mirror() {
    let stage = committed();
    stage.git(&["checkout", "--quiet", "-b", "mine"]);
    stage.write("mine.txt", "mine\n");
    stage.git(&["add", "mine.txt"]);
    stage.git(&["commit", "--quiet", "--message=persons"]);
    let mine = stage.git(&["rev-parse", "mine"]);
    stage.git(&["checkout", "--quiet", "main"]);
    let work = "git branch -q -D mine; git reflog expire --expire=now --all; git gc -q --prune=now; ok; claim";
    stage.pipeline(&["--agent-cmd", &agent(&stage, work), "--max-attempts", "1"]).exits(0);
    assert_eq!(stage.git(&["rev-parse", "mine"]), mine);
    assert_eq!(stage.git(&["show", "mine:mine.txt"]).trim(), "mine");
}

#[test]
fn what_a_person_had_not_committed_is_put_back_and_saved() {
    for undo in
        ["git clean -fdq; git checkout -q .", "git stash -qu", "rm notes.txt; git checkout -q ."]
    {
        let stage = committed();
        stage.write("notes.txt", "thought\n");
        stage.write("README.md", "edited\n");
        let agent = agent(&stage, &format!("{undo}; ok; claim"));
        let ended =
            stage.pipeline(&["--allow-dirty", "--agent-cmd", &agent, "--max-attempts", "1"]);
        ended.exits(0).says("restored: README.md, notes.txt");
        assert_eq!(stage.read("notes.txt"), "thought\n", "{undo}");
        assert_eq!(stage.read("README.md"), "edited\n", "{undo}");
        let saved = stage.git(&["for-each-ref", "--format=%(refname)", "refs/ralph/saved"]);
        let saved = saved.lines().next().unwrap();
        assert_eq!(stage.git(&["show", &format!("{saved}:notes.txt")]).trim(), "thought");
    }
}

#[test]
fn what_a_person_had_not_committed_is_no_evidence() {
    let stage = committed();
    stage.write("notes.txt", "thought\n");
    stage.write("README.md", "edited\n");
    let all = agent(&stage, "git add -A; git commit -qm mine; claim");
    let args = ["--allow-dirty", "--max-attempts", "1", "--agent-cmd"];
    stage.pipeline(&[&args[..], &[&all]].concat()).exits(1);
    assert_eq!(stage.row("0001-greeting.md")["state"], "rejected");
    // With additional work of its own it passes.
    let more = agent(&stage, "echo x >work.txt; git add -A; git commit -qm more; claim");
    stage.pipeline(&[&args[..], &[&more, "1"]].concat()).exits(0);
}

#[test]
fn the_question_about_uncommitted_changes_is_asked_after_a_spec_is_done_too() {
    let stage = committed();
    stage.pipeline(&["--agent-cmd", &agent(&stage, "ok; claim")]).exits(0);
    stage.spec("0002-next.md");
    stage.write("my-notes.txt", "mine\n");
    let ended = stage.pipeline(&["--agent-cmd", &agent(&stage, "ok; claim")]);
    ended.exits(3).says("my-notes.txt");
}

#[test]
fn settings_of_ralph_are_no_work() {
    let stage = committed();
    stage.git(&["rm", "--quiet", "--cached", "ralph.toml"]);
    stage.git(&["commit", "--quiet", "--message=untracked settings"]);
    let agent = agent(&stage, "git add -A; git commit -qm all; claim");
    stage.pipeline(&["--agent-cmd", &agent, "--max-attempts", "1"]).exits(1);
    assert_eq!(stage.row("0001-greeting.md")["state"], "rejected");
}

#[test]
fn a_feature_branch_from_the_remote_passes_and_the_person_is_on_their_own() {
    let stage = committed();
    let remote = stage.place.path("remote.git");
    stage.git(&["clone", "--quiet", "--bare", ".", remote.to_str().unwrap()]);
    stage.git(&["remote", "add", "origin", remote.to_str().unwrap()]);
    stage.git(&["fetch", "--quiet", "origin"]);
    let agent = agent(&stage, "git checkout -q -b feat origin/main; ok; claim");
    stage.pipeline(&["--agent-cmd", &agent, "--max-attempts", "1"]).exits(0);
    assert_eq!(stage.git(&["branch", "--show-current"]).trim(), "main");
    assert_eq!(stage.row("0001-greeting.md")["state"], "done");
    assert_eq!(stage.git(&["status", "--porcelain"]).trim(), "");
}

#[test]
fn leftovers_that_are_in_the_way_of_the_branch_are_saved() {
    let stage = committed();
    let work = "git checkout -q -b feat; ok; echo left >>work.txt; claim";
    let ended = stage.pipeline(&["--agent-cmd", &agent(&stage, work), "--max-attempts", "1"]);
    ended.exits(0).says("blocked the return to `main`");
    assert_eq!(stage.git(&["branch", "--show-current"]).trim(), "main");
    let saved = stage.git(&["for-each-ref", "--format=%(refname)", "refs/ralph/saved"]);
    let left = stage.git(&["show", &format!("{}:work.txt", saved.lines().next().unwrap())]);
    assert!(left.ends_with("left"), "{left}");
}

#[test]
fn a_build_that_was_killed_on_another_branch_returns_at_the_next_start() {
    let stage = committed();
    stage.ralph(&["set-spec", "0001-greeting.md"]).exits(0);
    stage.ralph(&["task", "add", "one"]).exits(0);
    let there = stage.file(".git/there");
    let work = "git checkout -q -b feat; ok; echo >.git/there; while :; do sleep 0.01; done";
    let running = stage.place.start(&["build", "--agent-cmd", &agent(&stage, work)]);
    wait_for_file(&there);
    running.signal(Signal::KILL);
    running.finish();
    assert_eq!(stage.git(&["branch", "--show-current"]).trim(), "feat");
    let work = "ok; ralph task done; echo yes";
    stage.ralph(&["build", "1", "--allow-dirty", "--agent-cmd", &agent(&stage, work)]);
    assert_eq!(stage.git(&["branch", "--show-current"]).trim(), "main");
}

#[test]
fn what_ralph_once_wrote_is_not_accepted_from_an_agent() {
    let stage = committed();
    stage.ralph(&["specs", "mark-done", "1"]).exits(0);
    let work =
        "cp ralph/specs/done/0001-greeting.attempt-1.md ralph/specs/done/0001-greeting.md; echo hm";
    let args = ["1", "--force", "1", "--max-attempts", "1", "--agent-cmd"];
    stage.pipeline(&[&args[..], &[&agent(&stage, work)]].concat()).exits(1);
    assert_ne!(stage.row("0001-greeting.md")["state"], "done");
}

#[test]
fn a_home_that_is_replaced_by_a_link_is_a_home_again() {
    let stage = committed();
    let before = stage.read("ralph/specs/0001-greeting.md");
    let work = "cp -r ralph copy; rm -r ralph; ln -s copy ralph; echo done";
    let report = stage.place.agent_run(&["--agent-cmd", work]);
    assert_eq!(report.outcome(), "violation");
    assert!(fs::symlink_metadata(stage.file("ralph")).unwrap().is_dir());
    assert_eq!(stage.read("ralph/specs/0001-greeting.md"), before);
    // A symlink that existed before is the person's.
    let linked = committed();
    fs::rename(linked.file("ralph"), linked.place.path("elsewhere")).unwrap();
    symlink(linked.place.path("elsewhere"), linked.file("ralph")).unwrap();
    let report = linked.place.agent_run(&["--agent-cmd", "echo done"]);
    assert_eq!(report.outcome(), "completed");
}

#[test]
fn an_accepted_commit_is_on_a_ref_also_where_it_is_on_no_branch() {
    let stage = committed();
    let agent = agent(&stage, "git checkout -q --detach; ok; claim");
    stage.pipeline(&["--agent-cmd", &agent]).exits(0).says("refs/ralph/accepted/0001-greeting");
    let row = stage.row("0001-greeting.md");
    let commit = row["commit"].as_str().unwrap();
    let on = stage.git(&["for-each-ref", "--format=%(refname)", "--contains", commit]);
    assert!(on.contains("refs/ralph/accepted/0001-greeting"), "{on}");
    assert_eq!(stage.git(&["branch", "--show-current"]).trim(), "main");
}

#[test]
fn a_single_run_that_leaves_another_branch_checked_out_says_so() {
    let place = Place::new();
    let run = ["agent", "run", "do it", "--agent-cmd", "git checkout -q -b feat; echo done"];
    let ended = place.ralph(&run);
    assert!(ended.stderr.contains("`feat`") && ended.stderr.contains("`main`"), "{ended}");
}

#[test]
fn what_a_run_hides_from_git_is_named() {
    let stage = committed();
    stage.write("mine.cfg", "1\n");
    stage.git(&["add", "mine.cfg"]);
    stage.git(&["commit", "--quiet", "--message=settings"]);
    stage.git(&["update-index", "--skip-worktree", "mine.cfg"]);
    stage.write("mine.cfg", "local\n");
    let work = "ok; echo x >>README.md; git update-index --assume-unchanged README.md; claim";
    let ended = stage.pipeline(&["--agent-cmd", &agent(&stage, work)]);
    ended.exits(0).says("the run configured git to ignore its changes in README.md");
    assert!(!ended.finished.stderr.contains("mine.cfg"), "{}", ended.finished);
}

#[test]
fn what_a_run_moved_to_is_kept_also_where_files_were_put_back_beside_it() {
    let stage = committed();
    let command = "git commit -q --amend -m mine; echo x >>ralph.toml; echo done";
    let report = stage.place.agent_run(&["--agent-cmd", command]);
    assert_eq!(report.outcome(), "violation");
    let kept = report.json["changes"]["displaced"].as_str().unwrap();
    assert!(stage.git(&["log", "--format=%s", kept]).contains("mine"));
    assert!(stage.git(&["show", &format!("{kept}:ralph.toml")]).ends_with('x'));
    assert!(!stage.git(&["log", "--format=%s", "main"]).contains("mine"));
}

#[test]
fn an_item_that_was_begun_in_the_checkout_goes_on_there_and_the_next_one_does_not() {
    let stage = Stage::with("", "", &["0001-greeting.md", "0002-more.md"]);
    let begins = "write greeting.txt half\nrun git add -A; git commit -qm half\nrun touch .git/there; while :; do sleep 0.01; done";
    stage.script(&willing(&[on("implementer", 1, begins)]));
    let running = stage.place.start(&["pipeline", "--in-place"]);
    wait_for_file(&stage.file(".git/there"));
    running.signal(Signal::KILL);
    running.finish();
    let ends = "expect-run test \"$(pwd -P)\" = \"$PLACE\"\nwrite greeting.txt hello\nrun git add -A; git commit -qm whole\n\
        final <<END\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND";
    let here = stage.file("").canonicalize().unwrap();
    let ends = ends.replace("$PLACE", here.to_str().unwrap());
    let elsewhere = format!(
        "expect-run test \"$(pwd -P)\" != \"{}\"\nwrite more.txt more\nrun git add -A; git commit -qm more\n\
         final <<END\n${{HEAD}}\nI AM HYPER SURE I AM DONE!\nEND",
        here.display()
    );
    stage.script(&willing(&[on("implementer", 2, &ends), on("implementer", 3, &elsewhere)]));
    stage
        .pipeline(&[])
        .exits(0)
        .says("work on 0001-greeting began in your checkout and continues there until it ends");
    assert_eq!(stage.runs(), "piivpiv");
    assert_eq!(
        (stage.read("greeting.txt"), stage.read("more.txt")),
        ("hello\n".into(), "more\n".into())
    );
    assert_eq!(stage.row("0001-greeting.md")["state"], "done");
    assert_eq!(stage.row("0002-more.md")["state"], "done");
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_task_that_was_begun_in_the_checkout_ends_there_also_if_its_run_had_ended() {
    let stage = Stage::with("", "", &["0001-greeting.md"]);
    stage.ralph(&["set-spec", "0001-greeting.md"]).exits(0);
    stage.ralph(&["task", "add", "one"]).exits(0);
    // It claims, and Ralph dies before the claim is judged.
    let gate = format!(
        "[[gate]]\nname = \"slow\"\nrun = [\"sh\", \"-c\", \"test ! -e work.txt || test -e '{0}' || sleep 1000\"]\n",
        stage.place.path("go").display()
    );
    stage.write("ralph.toml", &(stage.read("ralph.toml") + &gate));
    stage.git(&["commit", "-qm", "gate", "ralph.toml"]);
    let work = agent(&stage, "ok; ralph task done; echo yes");
    let running = stage.place.start(&["build", "--in-place", "--agent-cmd", &work]);
    wait_until(PATIENCE, "the gate runs at the candidate", || gate_runs_at_candidate(&stage));
    running.signal(Signal::KILL);
    running.finish();
    fs::write(stage.place.path("go"), "").unwrap();
    let ended = stage.ralph(&["build", "1", "--agent-cmd", &work]);
    let builders = stage.told("run_started").iter().filter(|run| run["role"] == "builder").count();
    assert_eq!(builders, 1, "{}", ended.finished);
    let verdicts = stage.told("verdict");
    assert_eq!(verdicts.last().unwrap()["verdict"], "accepted", "{}", ended.finished);
}

#[test]
fn what_a_builder_asks_for_on_a_branch_of_its_own_is_in_the_plan_though_its_work_is_rejected() {
    let stage = committed();
    let gate = "[[gate]]\nname = \"right\"\nrun = [\"sh\", \"-c\", \"! test -e wrong\"]\n";
    stage.write("ralph.toml", &(stage.read("ralph.toml") + gate));
    stage.git(&["commit", "-qm", "gate", "ralph.toml"]);
    stage.ralph(&["set-spec", "0001-greeting.md"]).exits(0);
    stage.ralph(&["task", "add", "one"]).exits(0);
    let work = "git checkout -q -b feat; touch wrong; git add wrong; git commit -qm wrong; \
        ralph issue add 'the door squeaks'; ralph task done; echo yes";
    stage.ralph(&["build", "1", "--agent-cmd", &agent(&stage, work)]).exits(1);
    assert_eq!(stage.git(&["branch", "--show-current"]).trim(), "main");
    let plan = stage.git(&["show", "main:ralph/plan.jsonl"]);
    assert!(plan.contains("the door squeaks"), "{plan}");
    assert_eq!(stage.read("ralph/plan.jsonl").trim(), plan.trim());
    // Nothing of Ralph's is on the run's own branch.
    assert_eq!(stage.git(&["log", "-1", "--format=%s", "feat"]).trim(), "wrong");
}

/// What Ralph writes after a run (the plan's commit with its reflog, the index) never goes through a link of the run's.
#[test]
fn links_that_a_run_left_in_the_git_directory_lead_ralph_nowhere() {
    for (boundary, links) in [
        ("strict", "rm .git/logs/HEAD; ln -s $VICTIM/profile .git/logs/HEAD"),
        ("kernel", "rm -r .git/logs; ln -s $VICTIM .git/logs"),
        (
            "detect",
            "cp .git/index $VICTIM/index; cp .git/index $VICTIM/same; ln -sf $VICTIM/index .git/index",
        ),
        (
            "detect",
            "mkdir -p .git/logs/refs/heads; ln -sf $VICTIM/profile .git/logs/refs/heads/main; \
                    ln -sf $VICTIM/profile .git/COMMIT_EDITMSG",
        ),
    ] {
        let stage = committed();
        stage.ralph(&["set-spec", "0001-greeting.md"]).exits(0);
        stage.ralph(&["task", "add", "one"]).exits(0);
        let victim = stage.place.path("victim");
        fs::create_dir(&victim).unwrap();
        for name in ["profile", "HEAD"] {
            fs::write(victim.join(name), "mine\n").unwrap();
        }
        let links = links.replace("$VICTIM", victim.to_str().unwrap());
        let work =
            format!("ok; ralph issue add 'fix $(id) please'; {links}; ralph task done; echo yes");
        let agent = agent(&stage, &work);
        let built = stage.ralph(&["build", "1", "--boundary", boundary, "--agent-cmd", &agent]);
        let again = stage.ralph(&["issue", "add", "by $(id) the person"]);
        let told = format!("{boundary} {links}\n{}\n{}", built.finished, again.finished);
        for name in ["profile", "HEAD"] {
            assert_eq!(fs::read_to_string(victim.join(name)).unwrap(), "mine\n", "{told}");
        }
        assert!(!victim.join("refs").exists(), "{told}");
        let index = |name: &str| fs::read(victim.join(name)).ok();
        assert_eq!(index("index"), index("same"), "{told}");
    }
}

#[test]
fn what_was_done_for_another_spec_meanwhile_is_no_evidence() {
    let stage = Stage::with("", "", &["0001-greeting.md", "0002-more.md"]).in_place();
    let no_change =
        "final <<END\nNO_CHANGE_NEEDED: it greets\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND";
    // It waits for a person while the next spec is worked on. Then it claims the commit it finds.
    let finds = "final <<END\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND";
    stage.script(&willing(&[on("implementer", 1, no_change), on("implementer", 3, finds)]));
    stage.pipeline(&["--keep-going"]).exits(3);
    assert_eq!(stage.row("0002-more.md")["state"], "done");
    stage.ralph(&["answer", "0001-greeting", "no, do the work"]).exits(0);
    stage.pipeline(&["1", "--max-attempts", "1"]).exits(1);
    assert_eq!(stage.runs(), "pivpivi", "no verifier is asked about another spec's work");
    let verdicts = stage.told("verdict");
    assert_eq!(verdicts.last().unwrap()["verdict"], "rejected");
}
