//! Agents in clones of their own: the person's repository stays still until judged work lands on their branch.

use std::fs;

use rustix::process::Signal;

use crate::harness::{PATIENCE, wait_until};
use crate::pipeline::{GREETS, Stage, on, willing};

/// A stage whose agents work in clones.
fn isolated(script: &str, settings: &str, specs: &[&str]) -> Stage {
    let stage = Stage::with(script, settings, specs);
    stage.place.env.isolate();
    stage
}

const ONE: &[&str] = &["0001-greeting.md"];

/// The commits of the branch, newest first, with how many parents each has.
fn history(stage: &Stage) -> Vec<(usize, String)> {
    let log = stage.git(&["log", "--first-parent", "--format=%P|%s"]);
    let of = |line: &str| {
        let (parents, subject) = line.split_once('|').unwrap();
        (parents.split_whitespace().count(), subject.to_owned())
    };
    log.lines().map(of).collect()
}

fn subjects(stage: &Stage) -> Vec<String> {
    history(stage).into_iter().map(|(_, subject)| subject).collect()
}

/// Nothing of Ralph's is left among the refs but notes.
#[track_caller]
fn assert_no_refs_left(stage: &Stage) {
    assert_eq!(stage.git(&["for-each-ref", "--format=%(refname)", "refs/ralph/"]), "");
}

#[test]
fn a_spec_lands_as_the_agents_commit_and_one_of_ralphs_own() {
    let stage = isolated(&willing(&[]), GREETS, ONE);
    stage.write("README.md", "changed and not committed\n");
    stage
        .pipeline(&[])
        .exits(0)
        .says("accepted work lands on `main`")
        .says("1 changed file is not part of this run");
    assert_eq!(subjects(&stage), ["ralph: 0001-greeting is done", "work 1", "specs", "start"]);
    assert_eq!(stage.read("greeting.txt"), "hello 1\n");
    assert_eq!(stage.git(&["status", "--porcelain"]), " M README.md");
    assert_eq!(stage.row("0001-greeting.md")["state"], "done");
    let landed = stage.told("landed");
    assert_eq!(landed.len(), 1);
    assert_eq!(landed[0]["branch"], "main");
    stage.ralph(&["verify", "HEAD~1"]).exits(0);
    assert_no_refs_left(&stage);
}

#[test]
fn until_it_lands_nothing_in_the_persons_repository_moves() {
    let stage = isolated("", "", ONE);
    stage.script(&willing(&[on("implementer", 1, &waits(&stage, "greeting.txt", "hello"))]));
    let before = print_of(&stage);
    let running = stage.place.start(&["pipeline"]);
    wait_for_slot(&stage, "begun");
    assert_eq!(print_of(&stage), before);
    fs::write(stage.place.path("go"), "").unwrap();
    let (code, said) = running.finish();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(subjects(&stage)[..2], ["ralph: 0001-greeting is done", "work"]);
}

/// Waits until an agent has made a file in the first slot.
fn wait_for_slot(stage: &Stage, name: &str) {
    let base = stage.place.path("state/ralph");
    wait_until(PATIENCE, name, || {
        let states = fs::read_dir(&base).into_iter().flatten().flatten();
        states.map(|state| state.path().join("slots/1/repo").join(name)).any(|file| file.exists())
    });
}

/// All that a person has: files, index, refs, reflogs and settings, but for what Ralph keeps in home and ignores.
fn print_of(stage: &Stage) -> String {
    let git = |args: &[&str]| stage.git(args);
    let index = fs::read(stage.file(".git/index")).unwrap();
    let logs = fs::read_to_string(stage.file(".git/logs/HEAD")).unwrap();
    let config = fs::read_to_string(stage.file(".git/config")).unwrap();
    format!(
        "{}\n{}\n{}\n{:?}\n{logs}\n{config}",
        git(&["for-each-ref"]),
        git(&["status", "--porcelain", "--", ":!ralph/runs", ":!ralph/ralph.log"]),
        git(&["ls-files", "-s"]),
        index.len(),
    )
}

#[test]
fn an_agent_reaches_neither_checkout_nor_git_directory_nor_home() {
    let stage = isolated("", "", ONE);
    let repo = stage.place.env.repo();
    let repo = repo.display();
    let attack = format!(
        "run rm -rf {repo}/.git/refs {repo}/README.md; echo x > {repo}/planted; git -C {repo} update-ref -d \
         refs/heads/main; git -C {repo} checkout -q --orphan gone; echo '{{}}' > {repo}/ralph/plan.jsonl; \
         echo forged > \"$RALPH_HOME/specs/0001-greeting.md\"; git config core.hooksPath /tmp; \
         echo 'agent = \"evil\"' > ralph.toml; mkdir -p ralph/specs/done; echo DONE > ralph/specs/done/0001-greeting.md; \
         git add -A; true\nwrite greeting.txt hello\nrun git add -A; git commit -qm sweep\n\
         final <<END\n${{HEAD}}\nI AM HYPER SURE I AM DONE!\nEND"
    );
    stage.script(&willing(&[on("implementer", 1, &attack)]));
    let (toml, spec) = (stage.read("ralph.toml"), stage.read("ralph/specs/0001-greeting.md"));
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.read("README.md"), "A repository.\n");
    assert!(!stage.has("planted") && !stage.has("ralph/plan.jsonl"));
    assert_eq!(stage.read("ralph.toml"), toml);
    assert_eq!(stage.read("ralph/specs/0001-greeting.md"), spec);
    assert_eq!(stage.read("greeting.txt"), "hello\n");
    // What it swept up of home and settings did not land with its commit.
    let done = stage.read("ralph/specs/done/0001-greeting.md");
    assert!(done.contains("Candidate commit:"), "{done}");
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    assert_eq!(stage.git(&["config", "--get-all", "core.bare"]), "false");
}

#[test]
fn rejected_work_never_reaches_the_branch_and_the_next_attempt_finds_it() {
    let first = "write greeting.txt adieu\ncommit \"rude\" greeting.txt\nfinal <<END\n${COMMIT}\nI AM HYPER SURE I AM DONE!\nEND";
    let second = "run test \"$(cat greeting.txt)\" = adieu\nwrite greeting.txt hello\ncommit \"polite\" greeting.txt\n\
                  final <<END\n${COMMIT}\nI AM HYPER SURE I AM DONE!\nEND";
    let script = willing(&[on("implementer", 1, first), on("implementer", 2, second)]);
    let stage = isolated(&script, GREETS, ONE);
    stage.pipeline(&["--max-attempts", "1"]).exits(1);
    assert_eq!(subjects(&stage)[1..], ["specs", "start"], "one commit of Ralph's own, and no work");
    assert!(!stage.has("greeting.txt"));
    assert_eq!(stage.git(&["status", "--porcelain"]), "", "all that is in flight is committed");
    stage.pipeline(&["1"]).exits(0);
    let all = stage.git(&["log", "--format=%s"]);
    assert!(all.contains("polite") && all.contains("rude"), "{all}");
    assert_eq!(stage.read("greeting.txt"), "hello\n");
}

/// An implementer that waits until the test has done something as the person.
fn waits(stage: &Stage, file: &str, text: &str) -> String {
    let go = stage.place.path("go");
    format!(
        "write {file} {text}\ncommit \"work\" {file}\n\
         run touch begun; while [ ! -e {} ]; do sleep 0.02; done; rm begun\n\
         final <<END\n${{COMMIT}}\nI AM HYPER SURE I AM DONE!\nEND",
        go.display()
    )
}

/// Plays one spec, with something that a person does while the implementer is at work.
fn meanwhile(settings: &str, also: &[String], person: impl FnOnce(&Stage)) -> Stage {
    let stage = isolated("", settings, ONE);
    let mut blocks = vec![on("implementer", 1, &waits(&stage, "greeting.txt", "hello"))];
    blocks.extend_from_slice(also);
    stage.script(&willing(&blocks));
    let running = stage.place.start(&["pipeline"]);
    wait_for_slot(&stage, "begun");
    person(&stage);
    fs::write(stage.place.path("go"), "").unwrap();
    let (code, said) = running.finish();
    assert_eq!(code, Some(0), "{said}");
    stage
}

fn person_commits(stage: &Stage, file: &str, text: &str) {
    stage.write(file, text);
    stage.git(&["add", file]);
    stage.git(&["commit", "-qm", "the person's"]);
}

#[test]
fn a_commit_of_the_persons_meanwhile_is_merged_and_the_merge_is_gated() {
    let stage = meanwhile(GREETS, &[], |stage| person_commits(stage, "mine.txt", "mine\n"));
    let history = history(&stage);
    assert_eq!(history[0], (2, "ralph: 0001-greeting is done".to_owned()));
    assert_eq!(history[1].1, "the person's");
    assert_eq!(
        (stage.read("greeting.txt"), stage.read("mine.txt")),
        ("hello\n".into(), "mine\n".into())
    );
    let gated = stage.told("gate_finished");
    let landed = stage.told("landed").remove(0);
    assert!(gated.iter().any(|gate| gate["commit"] == landed["commit"]), "{gated:?}");
    assert_eq!(landed["merge"], true);
    stage.ralph(&["verify", "HEAD"]).exits(0);
}

#[test]
fn where_only_home_has_moved_nothing_is_measured_again() {
    let stage = meanwhile(GREETS, &[], |stage| {
        stage.ralph(&["specs", "new", "Another"]).exits(0);
        stage.git(&["add", "ralph"]);
        stage.git(&["commit", "-qm", "the person's"]);
    });
    let landed = stage.told("landed").remove(0);
    let gated = stage.told("gate_finished");
    // The next spec begins there, and has its gates run there as at its base.
    let is_again = |gate: &serde_json::Value| {
        gate["commit"] == landed["commit"] && gate["item"] == "0001-greeting"
    };
    assert!(!gated.iter().any(is_again), "{landed} {gated:?}");
    assert_eq!(landed["merge"], true);
}

#[test]
fn a_conflict_goes_back_to_the_agent_at_no_cost_and_lands_once_it_is_resolved() {
    let resolve = "expect-prompt both changed the same lines: greeting.txt\n\
                   run git merge -q ralph/tip || true\nwrite greeting.txt both\nrun git add -A; git commit -qm resolved\n\
                   final <<END\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND";
    let stage = meanwhile("", &[on("implementer", 2, resolve)], |stage| {
        person_commits(stage, "greeting.txt", "good day\n");
    });
    assert_eq!(stage.read("greeting.txt"), "both\n");
    assert_eq!(stage.runs(), "piviv");
    assert_eq!(stage.json("ralph/specs/plans/0001-greeting.json")["attempts_used"], 0);
    assert!(stage.git(&["log", "--format=%s"]).contains("the person's"));
}

#[test]
fn a_branch_that_was_amended_gets_the_work_as_one_new_commit() {
    let stage = meanwhile("", &[], |stage| {
        stage.git(&["commit", "-q", "--amend", "-m", "amended"]);
    });
    assert_eq!(stage.read("greeting.txt"), "hello\n");
    assert!(subjects(&stage).contains(&"amended".to_owned()));
    assert!(!subjects(&stage).contains(&"specs".to_owned()));
}

#[test]
fn what_the_person_has_changed_in_a_file_that_lands_is_not_touched() {
    let stage = meanwhile("", &[], |stage| stage.write("greeting.txt", "half written\n"));
    assert_eq!(stage.read("greeting.txt"), "half written\n");
    assert_eq!(subjects(&stage)[0], "specs", "the branch waits");
    let said = fs::read_to_string(stage.place.path("err")).unwrap();
    assert!(said.contains("uncommitted changes in greeting.txt"), "{said}");
    let landed = stage.git(&["for-each-ref", "--format=%(refname)", "refs/ralph/landed/"]);
    assert_eq!(landed, "refs/ralph/landed/main");
    fs::remove_file(stage.file("greeting.txt")).unwrap();
    stage.ralph(&["land"]).exits(0);
    assert_eq!(stage.read("greeting.txt"), "hello\n");
    assert_no_refs_left(&stage);
}

#[test]
fn a_person_on_another_branch_stays_there_and_work_lands_on_the_first() {
    let stage = meanwhile("", &[], |stage| {
        stage.git(&["switch", "-q", "-c", "other"]);
    });
    assert_eq!(stage.git(&["branch", "--show-current"]), "other");
    assert!(!stage.has("greeting.txt"));
    assert_eq!(stage.git(&["show", "main:greeting.txt"]), "hello");
}

#[test]
fn a_spec_that_a_person_marks_as_done_meanwhile_does_not_land() {
    let stage = meanwhile("", &[], |stage| {
        stage.ralph(&["specs", "mark-done", "1"]).exits(0);
    });
    assert!(!stage.has("greeting.txt"));
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    assert_eq!(stage.runs(), "pi");
}

#[test]
fn a_killed_ralph_goes_on_in_the_same_slot_with_what_was_half_done() {
    let stage = isolated("", "", ONE);
    let hangs = "write half.txt half\nrun touch begun; sleep 600";
    let ends = "run test -e half.txt\nwrite greeting.txt hello\nrun rm begun; git add -A; git commit -qm work\n\
                final <<END\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND";
    stage.script(&willing(&[on("implementer", 1, hangs), on("implementer", 2, ends)]));
    let running = stage.place.start(&["pipeline"]);
    wait_for_slot(&stage, "begun");
    running.signal(Signal::KILL);
    running.finish();
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.read("half.txt"), "half\n");
    assert_eq!(stage.runs(), "piiv");
}

#[test]
fn on_a_detached_head_work_lands_on_a_branch_of_its_own() {
    let stage = isolated(&willing(&[]), "", ONE);
    stage.git(&["checkout", "-q", "--detach"]);
    let before = stage.git(&["rev-parse", "HEAD"]);
    stage.pipeline(&[]).exits(0).says("accepted work lands on `ralph/detached-");
    assert_eq!(stage.git(&["rev-parse", "HEAD"]), before);
    let branch = stage.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads/ralph/"]);
    assert_eq!(stage.git(&["show", &format!("{branch}:greeting.txt")]), "hello 1");
}

#[test]
fn a_repository_without_a_commit_begins_with_one_of_ralphs() {
    let stage = isolated(&willing(&[]), "", &[]);
    fs::remove_dir_all(stage.file(".git")).unwrap();
    stage.git(&["init", "-q", "--initial-branch=main"]);
    stage.spec("0001-greeting.md");
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.git(&["show", "main:greeting.txt"]), "hello 1");
}
