//! Agents in their own clones: the person's repository is unchanged until judged work lands on their branch.

use std::fs;

use rustix::process::Signal;

use crate::harness::{PATIENCE, Place, wait_until};
use crate::pipeline::{GREETS, Stage, on, willing};
use crate::slots::SmallDisk;

/// A stage whose agents work in clones, the default.
pub(crate) fn isolated(script: &str, settings: &str, specs: &[&str]) -> Stage {
    Stage::with(script, settings, specs)
}

pub(crate) const ONE: &[&str] = &["0001-greeting.md"];

/// The commits of the branch, newest first, with the number of parents.
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

/// Asserts that no ref of Ralph's except notes is left.
#[track_caller]
fn assert_no_refs_left(stage: &Stage) {
    assert_eq!(stage.git(&["for-each-ref", "--format=%(refname)", "refs/ralph/"]), "");
}

#[test]
fn a_spec_that_is_not_committed_is_part_of_the_run() {
    let stage = Stage::with(&willing(&[]), GREETS, &[]);
    stage.spec("0001-greeting.md");
    let ended = stage.pipeline(&[]);
    ended.exits(0).says("accepted work lands on `main`");
    assert!(!ended.finished.stderr.contains("not part of this run"), "{}", ended.finished);
    for name in ["a", "b", "c", "d", "e"] {
        stage.write(name, "mine\n");
    }
    stage.spec("0002-more.md");
    stage
        .pipeline(&[])
        .says("5 changed files are not part of this run: a, b, c and 2 more (commit");
}

#[test]
fn a_spec_lands_as_the_agents_commit_and_one_of_ralphs_own() {
    let stage = Stage::with(&willing(&[]), GREETS, ONE);
    stage.write("README.md", "changed and not committed\n");
    stage
        .pipeline(&[])
        .exits(0)
        .says("accepted work lands on `main`")
        .says("1 changed file is not part of this run: README.md (commit it");
    assert_eq!(subjects(&stage), ["ralph: 0001-greeting is done", "work 1", "specs", "start"]);
    assert_eq!(stage.read("greeting.txt"), "hello 1\n");
    assert_eq!(stage.git(&["status", "--porcelain"]), " M README.md");
    assert_eq!(stage.row("0001-greeting.md")["state"], "done");
    let landed = stage.told("landed");
    assert_eq!(landed.len(), 1);
    assert_eq!(landed[0]["branch"], "main");
    // The person has none of the clone's branches.
    stage.ralph(&["specs", "show", "1"]).exits(0).prints("the commit is on: refs/heads/main\n");
    stage.ralph(&["verify", "HEAD~1"]).exits(0);
    // The landing commit changes only Ralph's own files.
    let candidate = &stage.git(&["rev-parse", "HEAD~1"])[..12];
    stage.ralph(&["verify", "HEAD"]).exits(0).says(candidate);
    stage.git(&["commit", "-q", "-m", "mine", "README.md"]);
    let never = stage.ralph(&["verify", "HEAD"]);
    never.exits(2).says("Ralph has not accepted `HEAD` here");
    assert!(!never.finished.stderr.contains("gates at"), "no gate ran: {}", never.finished);
    assert_no_refs_left(&stage);
}

#[test]
fn until_it_lands_nothing_in_the_persons_repository_moves() {
    let stage = Stage::with("", "", ONE);
    stage.script(&willing(&[on("implementer", 1, &waits(&stage, "greeting.txt", "hello"))]));
    let before = print_of(&stage);
    let running = stage.place.start(&["pipeline"]);
    stage.wait_in_slot("begun");
    assert_eq!(print_of(&stage), before);
    fs::write(stage.place.path("go"), "").unwrap();
    let (code, said) = running.finish();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(subjects(&stage)[..2], ["ralph: 0001-greeting is done", "work"]);
}

/// Waits until an agent has created a file in the first slot.
pub(crate) fn wait_for_slot(place: &Place, name: &str) {
    let base = place.path("state/ralph");
    wait_until(PATIENCE, name, || {
        let states = fs::read_dir(&base).into_iter().flatten().flatten();
        states.map(|state| state.path().join("slots/1/repo").join(name)).any(|file| file.exists())
    });
}

/// Everything of the person's: files, index, refs, reflogs and settings, except Ralph's ignored files in home.
pub(crate) fn print_of(stage: &Stage) -> String {
    let git = |args: &[&str]| stage.git(args);
    let index = fs::read(stage.file(".git/index")).unwrap();
    let logs = fs::read_to_string(stage.file(".git/logs/HEAD")).unwrap();
    let config = fs::read_to_string(stage.file(".git/config")).unwrap();
    format!(
        "{}\n{}\n{}\n{:?}\n{logs}\n{config}",
        git(&["for-each-ref", "--exclude=refs/ralph/item/"]),
        git(&[
            "status",
            "--porcelain",
            "--",
            ":!ralph/runs",
            ":!ralph/ralph.log",
            ":!ralph/specs/sessions"
        ]),
        git(&["ls-files", "-s"]),
        index.len(),
    )
}

#[test]
fn an_agent_reaches_neither_checkout_nor_git_directory_nor_home() {
    let stage = Stage::with("", "", ONE);
    let repo = stage.place.env.repo();
    let repo = repo.display();
    let attack = format!(
        "run rm -rf {repo}/.git/refs {repo}/README.md; echo x > {repo}/planted; git -C {repo} update-ref -d \
         refs/heads/main; git -C {repo} checkout -q --orphan gone; echo '{{}}' > {repo}/ralph/plan.jsonl; \
         echo forged > \"$RALPH_HOME/specs/0001-greeting.md\"; git config core.hooksPath /tmp; \
         echo 'agent = \"evil\"' > ralph.toml; echo forged > ralph/specs/0001-greeting.md; \
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
    // Files of home and settings that it swept up did not land with its commit.
    let done = stage.read("ralph/specs/done/0001-greeting.md");
    assert!(done.contains("Candidate commit:"), "{done}");
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    assert_eq!(stage.git(&["config", "--get-all", "core.bare"]), "false");
}

#[test]
fn rejected_work_never_reaches_the_branch_and_the_next_attempt_finds_it() {
    let first = "write greeting.txt adieu\ncommit \"rude\" greeting.txt\nfinal <<END\n${COMMIT}\nI AM HYPER SURE I AM DONE!\nEND";
    let second = "expect-run test \"$(cat greeting.txt)\" = adieu\nwrite greeting.txt hello\ncommit \"polite\" greeting.txt\n\
                  final <<END\n${COMMIT}\nI AM HYPER SURE I AM DONE!\nEND";
    let script = willing(&[on("implementer", 1, first), on("implementer", 2, second)]);
    let stage = Stage::with(&script, GREETS, ONE);
    stage.pipeline(&["--max-attempts", "1"]).exits(1);
    assert_eq!(subjects(&stage)[1..], ["specs", "start"], "one commit of Ralph's own, and no work");
    assert!(!stage.has("greeting.txt"));
    assert_eq!(stage.git(&["status", "--porcelain"]), "", "all that is in flight is committed");
    stage.pipeline(&["1"]).exits(0);
    let all = stage.git(&["log", "--format=%s"]);
    assert!(all.contains("polite") && all.contains("rude"), "{all}");
    assert_eq!(stage.read("greeting.txt"), "hello\n");
}

/// An implementer that waits until the test has acted as the person.
pub(crate) fn waits(stage: &Stage, file: &str, text: &str) -> String {
    let go = stage.place.path("go");
    format!(
        "write {file} {text}\ncommit \"work\" {file}\n\
         run touch begun; while [ ! -e {} ]; do sleep 0.02; done; rm begun\n\
         final <<END\n${{COMMIT}}\nI AM HYPER SURE I AM DONE!\nEND",
        go.display()
    )
}

/// Plays one spec, with an action of the person while the implementer is working.
fn meanwhile(settings: &str, also: &[String], person: impl FnOnce(&Stage)) -> Stage {
    let stage = Stage::with("", settings, ONE);
    let mut blocks = vec![on("implementer", 1, &waits(&stage, "greeting.txt", "hello"))];
    blocks.extend_from_slice(also);
    stage.script(&willing(&blocks));
    let running = stage.place.start(&["pipeline"]);
    stage.wait_in_slot("begun");
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
        stage.write("ralph/specs/0002-another.md", "# Another\n\nAnother file.\n");
        stage.git(&["add", "ralph"]);
        stage.git(&["commit", "-qm", "the person's"]);
    });
    let landed = stage.told("landed").remove(0);
    let gated = stage.told("gate_finished");
    // The next spec begins there, and its base gates run there.
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

/// If the merge is clean but a gate refuses it, the next run starts at the merge and continues from there.
#[test]
fn a_merge_that_a_gate_refuses_is_what_the_next_run_stands_at() {
    let gate = "[[gate]]\nname = \"fits\"\nrun = [\"sh\", \"-c\", \"! test -e mine.txt || ! grep -qs hello greeting.txt\"]\n";
    let mend = "expect-prompt Your branch is now at the merge of both\n\
                expect-run test -e mine.txt && git merge-base --is-ancestor ralph/tip HEAD && test -z \"$(git status --porcelain)\"\n\
                write greeting.txt welcome\ncommit \"mended\" greeting.txt\n\
                final <<END\n${COMMIT}\nI AM HYPER SURE I AM DONE!\nEND";
    let stage = meanwhile(gate, &[on("implementer", 2, mend)], |stage| {
        person_commits(stage, "mine.txt", "mine\n");
    });
    assert_eq!(stage.read("greeting.txt"), "welcome\n");
    assert_eq!(stage.read("mine.txt"), "mine\n");
    assert_eq!(stage.runs(), "piviv");
    assert_eq!(stage.json("ralph/specs/plans/0001-greeting.json")["attempts_used"], 0);
    assert_no_refs_left(&stage);
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
    let stage = Stage::with("", "", ONE);
    let hangs = "write half.txt half\nrun touch begun; sleep 600";
    let ends = "expect-run test -e half.txt\nwrite greeting.txt hello\nrun rm begun; git add -A; git commit -qm work\n\
                final <<END\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND";
    stage.script(&willing(&[on("implementer", 1, hangs), on("implementer", 2, ends)]));
    let running = stage.place.start(&["pipeline"]);
    stage.wait_in_slot("begun");
    running.signal(Signal::KILL);
    running.finish();
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.read("half.txt"), "half\n");
    assert_eq!(stage.runs(), "piiv");
}

#[test]
fn on_a_detached_head_work_lands_on_a_branch_of_its_own() {
    let stage = Stage::with(&willing(&[]), "", ONE);
    stage.git(&["checkout", "-q", "--detach"]);
    let before = stage.git(&["rev-parse", "HEAD"]);
    let ended = stage.pipeline(&[]);
    ended.exits(0).says("accepted work lands on `ralph/detached-");
    ended.says("`ralph` is read from that branch, not from your checkout");
    assert_eq!(stage.git(&["rev-parse", "HEAD"]), before);
    let branch = stage.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads/ralph/"]);
    assert_eq!(stage.git(&["show", &format!("{branch}:greeting.txt")]), "hello 1");
}

#[test]
fn a_repository_without_a_commit_begins_with_one_of_ralphs() {
    let stage = Stage::with(&willing(&[]), "", &[]);
    fs::remove_dir_all(stage.file(".git")).unwrap();
    stage.git(&["init", "-q", "--initial-branch=main"]);
    stage.spec("0001-greeting.md");
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.git(&["show", "main:greeting.txt"]), "hello 1");
}

const PLAN: &str = "ralph/specs/plans/0001-greeting.md";

fn items(stage: &Stage) -> String {
    stage.git(&["for-each-ref", "--format=%(refname)", "refs/ralph/item/"])
}

/// A pipeline whose implementer is in its first run, with its plan in flight.
fn planned() -> Stage {
    let stage = Stage::with("", "", ONE);
    let waits = waits(&stage, "greeting.txt", "hello");
    stage.script(&willing(&[on("implementer", 1, &waits)]));
    stage
}

#[test]
fn what_is_in_flight_is_seen_by_who_looks_and_committed_when_the_workflow_is_interrupted() {
    for signal in [Signal::INT, Signal::HUP] {
        let stage = planned();
        let running = stage.place.start(&["pipeline"]);
        stage.wait_in_slot("begun");
        assert!(!stage.has(PLAN), "home is as the person has it");
        assert_eq!(items(&stage), "refs/ralph/item/0001-greeting/1");
        assert_eq!(stage.row("0001-greeting.md")["state"], "planned");
        let shown = stage.ralph(&["specs", "show", "1", "--json"]).json();
        assert!(shown["files"].to_string().contains(PLAN), "{shown}");
        let status = stage.ralph(&["status"]).finished.stdout;
        assert!(status.contains("1 planned"), "{status}");
        running.signal(signal);
        let (code, said) = running.finish();
        assert_eq!(code, Some(130), "{said}");
        assert_eq!(items(&stage), "");
        assert_eq!(stage.git(&["show", &format!("HEAD:{PLAN}")]), stage.read(PLAN).trim_end());
        assert_eq!(subjects(&stage), ["ralph: 0001-greeting interrupted", "specs", "start"]);
        assert_eq!(stage.git(&["status", "--porcelain"]), "");
        let status = stage.ralph(&["status"]).finished.stdout;
        assert!(status.contains("`pipeline` was interrupted"), "{status}");
    }
}

#[test]
fn after_a_kill_the_next_start_commits_what_was_in_flight_also_without_private_state() {
    for is_lost in [false, true] {
        let stage = planned();
        let running = stage.place.start(&["pipeline"]);
        stage.wait_in_slot("begun");
        running.signal(Signal::KILL);
        running.finish();
        assert_eq!(stage.row("0001-greeting.md")["state"], "planned");
        if is_lost {
            fs::remove_dir_all(stage.place.path("state")).unwrap();
        }
        stage.script(&willing(&[on("planner", 2, "exit 1")]));
        let ended = stage.pipeline(&[]);
        ended.exits(0);
        if is_lost {
            ended.says("the state of 0001-greeting was restored");
        }
        // The ignore file that Ralph itself adds to such a home is not damage.
        assert!(!ended.finished.stderr.contains("cannot be read"), "{}", ended.finished);
        let own: Vec<String> =
            subjects(&stage).into_iter().filter(|one| one.starts_with("ralph:")).collect();
        assert_eq!(own, ["ralph: 0001-greeting is done", "ralph: 0001-greeting interrupted"]);
        assert_eq!(stage.runs(), "piiv");
        assert_eq!(items(&stage), "");
    }
}

#[test]
fn a_plan_that_a_person_writes_in_place_of_one_in_flight_wins() {
    let stage = planned();
    let running = stage.place.start(&["pipeline"]);
    stage.wait_in_slot("begun");
    stage.write(PLAN, "# Mine\n");
    let shown = stage.ralph(&["specs", "show", "1"]);
    shown.exits(0);
    fs::write(stage.place.path("go"), "").unwrap();
    let (code, said) = running.finish();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("your change is in it"), "{said}");
    assert_eq!(stage.read(PLAN), "# Mine\n");
    // The work was done by it, so it lands with the work.
    assert_eq!(stage.git(&["show", &format!("main:{PLAN}")]), "# Mine");
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
}

#[test]
fn state_files_in_a_commit_are_a_reason_to_reject_and_other_changes_of_home_are_left_out() {
    let claims = "final <<END\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND";
    let done = "ralph/specs/done/0001-greeting.md";
    let forges = format!(
        "write {done} DONE\nrun echo more >> ralph/specs/0001-greeting.md; echo '# more' >> ralph.toml\n\
         write greeting.txt hello\nrun git add -A; git commit -qm sweep\n{claims}"
    );
    let mends = format!(
        "expect-prompt only Ralph may change: {done}\nrun git rm -q {done}; git commit -qm mended\n{claims}"
    );
    let blocks = [on("implementer", 1, &forges), on("implementer", 2, &mends)];
    let stage = Stage::with(&willing(&blocks), "", ONE);
    let (settings, spec) = (stage.read("ralph.toml"), stage.read("ralph/specs/0001-greeting.md"));
    stage.pipeline(&[]).exits(0).says("those changes did not land").says("ralph.toml");
    assert_eq!(stage.runs(), "piiv");
    let tried = stage.json("ralph/specs/plans/0001-greeting.json")["tries"][0]["outcome"].clone();
    assert!(tried.as_str().unwrap().contains(done), "{tried}");
    assert_eq!(stage.read("ralph.toml"), settings);
    assert_eq!(stage.read("ralph/specs/0001-greeting.md"), spec);
    assert!(stage.read(done).contains("Candidate commit: "));
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
}

/// To git that is a rename, whose new name is of no interest.
#[test]
fn a_state_file_that_an_agent_moves_away_is_a_reason_to_reject() {
    let claims = "final <<END\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND";
    let done = "ralph/specs/done/0001-greeting.md";
    let moves = format!("run git mv {done} kept.md; git commit -qm moved\n{claims}");
    let mends = format!(
        "expect-prompt only Ralph may change: {done}\nrun git mv kept.md {done}; git commit -qm mended\n\
         write next.txt x\nrun git add next.txt; git commit -qm next\n{claims}"
    );
    let blocks = [on("implementer", 2, &moves), on("implementer", 3, &mends)];
    let stage = Stage::with(&willing(&blocks), "", &["0001-greeting.md", "0002-next.md"]);
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "pivpiiv");
    assert!(stage.read(done).contains("Candidate commit: ") && !stage.has("kept.md"));
}

#[test]
fn notes_of_the_agent_and_of_the_person_are_both_kept() {
    let stage = Stage::with("", "", ONE);
    stage.write("ralph/SCRATCHPAD.md", "first\n");
    stage.place.commit_all("notes");
    let waits = waits(&stage, "greeting.txt", "hello");
    let notes = format!("run echo agent >> ralph/SCRATCHPAD.md; git commit -qam notes\n{waits}");
    stage.script(&willing(&[on("implementer", 1, &notes)]));
    let running = stage.place.start(&["pipeline"]);
    stage.wait_in_slot("begun");
    person_commits(&stage, "ralph/SCRATCHPAD.md", "first\nperson\n");
    stage.go();
    let (code, said) = running.finish();
    assert_eq!(code, Some(0), "{said}");
    let kept = stage.read("ralph/SCRATCHPAD.md");
    for line in ["first", "agent", "person"] {
        assert_eq!(kept.lines().filter(|kept| *kept == line).count(), 1, "{kept}");
    }
}

#[test]
fn notes_are_merged_also_when_the_branch_follows_by_command() {
    let stage = Stage::with("", "follow = \"never\"\n", ONE);
    stage.write("ralph/SCRATCHPAD.md", "first\n");
    stage.place.commit_all("notes");
    let work = "run echo agent >> ralph/SCRATCHPAD.md\nwrite greeting.txt hello\n\
        run git add -A; git commit -qm work\nfinal <<END\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND";
    stage.script(&willing(&[on("implementer", 1, work)]));
    stage.pipeline(&[]).exits(0);
    person_commits(&stage, "ralph/SCRATCHPAD.md", "first\nperson\n");
    stage.ralph(&["land"]).exits(0);
    let kept = stage.read("ralph/SCRATCHPAD.md");
    for line in ["first", "agent", "person"] {
        assert_eq!(kept.lines().filter(|kept| *kept == line).count(), 1, "{kept}");
    }
    assert_eq!(stage.read("greeting.txt"), "hello\n");
    assert_no_refs_left(&stage);
}

/// A gate that passes with either of two files, but not with both.
const APART: &str = "[[gate]]\nname = \"apart\"\nrun = [\"sh\", \"-c\", \"! test -e mine.txt || ! test -e greeting.txt\"]\n";

/// Both were good by themselves; only gates tell whether they are together.
#[test]
fn newer_commits_are_gated_with_landed_work_before_the_branch_follows() {
    let told = |stage: &Stage, args: &[&str], code: i32| {
        let ended = stage.ralph(args);
        ended.exits(code);
        format!("{}{}", ended.finished.stdout, ended.finished.stderr)
    };
    for (gate, file, expected) in [
        (APART, "mine.txt", "only with both"),
        (APART, "other.txt", "gates passed"),
        ("", "mine.txt", "not proven"),
    ] {
        let stage = Stage::with(&willing(&[]), &format!("follow = \"never\"\n{gate}"), ONE);
        stage.pipeline(&[]).exits(0);
        person_commits(&stage, file, "mine\n");
        let ids = || stage.git(&["rev-parse", "main", "refs/ralph/landed/main"]);
        let before = ids();
        if expected == "only with both" {
            for (args, code) in [(&["land"][..], 1), (&["pipeline"], 3), (&["land", "--json"], 1)] {
                let said = told(&stage, args, code);
                assert!(said.contains(expected), "{args:?}: {said}");
                assert!(said.contains("git merge refs/ralph/landed/main"), "{args:?}: {said}");
                assert_eq!(ids(), before, "{args:?}: {said}");
            }
            // The person puts both together in their own way.
            stage.git(&["merge", "-q", "--no-edit", "refs/ralph/landed/main"]);
            stage.git(&["rm", "-q", file]);
            stage.git(&["commit", "-qm", "mended"]);
            told(&stage, &["land"], 0);
        } else {
            let said = told(&stage, &["land"], 0);
            assert!(said.contains(expected), "{said}");
            assert!(stage.has(file), "{said}");
        }
        assert!(stage.has("greeting.txt"));
        assert_no_refs_left(&stage);
    }
}

/// Ralph committed the person's spec on its side only, and git does not merge over a file that it does not know.
#[test]
fn newer_commits_that_conflict_with_landed_work_are_merged_by_the_commands_that_are_named() {
    let stage = Stage::with(&willing(&[]), "follow = \"never\"\n", &[]);
    stage.spec("0001-greeting.md");
    stage.pipeline(&[]).exits(0);
    person_commits(&stage, "greeting.txt", "mine\n");
    let waits = stage.ralph(&["status"]).finished.stdout;
    assert!(waits.contains("if they do not conflict"), "{waits}");
    let ended = stage.ralph(&["land"]);
    ended.says("both changed greeting.txt");
    ended.says("`git add -- ralph/specs/0001-greeting.md`, `git commit -m \"before the merge\"`, then `git merge refs/ralph/landed/main`");
    stage.git(&["add", "--", "ralph/specs/0001-greeting.md"]);
    stage.git(&["commit", "-qm", "before the merge"]);
    stage.git(&["merge", "-q", "-X", "theirs", "--no-edit", "refs/ralph/landed/main"]);
    stage.ralph(&["land"]).exits(0);
    assert_eq!(stage.read("greeting.txt"), "hello 1\n");
    assert_no_refs_left(&stage);
}

#[test]
fn a_workflow_goes_on_once_newer_commits_and_landed_work_pass_together() {
    let go = |stage: &Stage| stage.waiting();
    let stage = Stage::with("", &format!("follow = \"never\"\n{APART}"), &[ONE[0], "0002-next.md"]);
    let works = format!(
        "run touch begun\n{}write next.txt next\nrun rm begun; git add next.txt; git commit -qm next\n\
         final <<END\n${{HEAD}}\nI AM HYPER SURE I AM DONE!\nEND",
        go(&stage)
    );
    stage.script(&willing(&[on("implementer", 2, &works)]));
    let running = stage.place.start(&["pipeline"]);
    stage.wait_in_slot("begun");
    person_commits(&stage, "mine.txt", "mine\n");
    stage.go();
    let (code, said) = running.finish();
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("the gate `apart` fails only with both"), "{said}");
    stage.git(&["merge", "-q", "--no-edit", "refs/ralph/landed/main"]);
    stage.git(&["rm", "-q", "mine.txt"]);
    stage.git(&["commit", "-qm", "mended"]);
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "pivpiv");
    stage.ralph(&["land"]).exits(0);
    assert_eq!(stage.read("next.txt"), "next\n");
}

#[test]
fn a_branch_that_was_rewritten_while_landed_work_waits_is_a_question() {
    let stage = Stage::with(&willing(&[]), "follow = \"never\"\n", ONE);
    stage.pipeline(&[]).exits(0);
    stage.git(&["commit", "-q", "--amend", "--no-edit", "--date=2001-01-01T00:00:00Z"]);
    for args in [&["pipeline"][..], &["land"]] {
        stage.ralph(args).exits(3).says("was rewritten").says("refs/ralph/landed/main");
    }
    // The person discards the landed work.
    stage.git(&["update-ref", "-d", "refs/ralph/landed/main"]);
    stage.pipeline(&[]).exits(0);
}

#[test]
fn two_workflows_in_two_worktrees_of_one_repository_do_not_disturb_each_other() {
    let stage = Stage::with("", "", ONE);
    stage.git(&["worktree", "add", "--quiet", "-b", "feature", "../linked"]);
    stage.script(&willing(&[on("implementer", 1, &waits(&stage, "greeting.txt", "hello"))]));
    let running = stage.place.start(&["pipeline"]);
    stage.wait_in_slot("begun");
    assert_eq!(items(&stage), "refs/ralph/item/0001-greeting/1");
    // The other has an item of the same name; its runs are counted separately.
    let linked = stage.place.path("linked");
    let root = linked.to_str().unwrap();
    let row = |args: &[&str]| stage.ralph(args).json()[0]["state"].clone();
    assert_eq!(row(&["--root", root, "specs", "--json"]), "fresh");
    stage.ralph(&["--root", root, "pipeline"]).exits(0);
    assert_eq!(row(&["--root", root, "specs", "--json"]), "done");
    assert_eq!(row(&["specs", "--json"]), "planned");
    stage.go();
    let (code, said) = running.finish();
    assert_eq!(code, Some(0), "{said}");
    for branch in ["main", "feature"] {
        assert!(stage.git(&["show", &format!("{branch}:greeting.txt")]).starts_with("hello"));
    }
    assert_no_refs_left(&stage);
}

/// Two Ralphs, each in its own worktree, work on the same spec for the same branch: whoever lands second finds it decided,
/// whether its agent is still at work or it was stopped while it landed.
#[test]
fn two_ralphs_that_land_the_same_spec_on_one_branch_land_it_once() {
    let (verified, total) = points_of(&Stage::with(&willing(&[]), "", ONE).place, &["pipeline"]);
    let points = [verified + 4, usize::midpoint(verified, total), total - total / 10];
    let mut second = 0;
    for at in [None].into_iter().chain(points.map(Some)) {
        let stage = Stage::with("", "", ONE);
        stage.git(&["worktree", "add", "--quiet", "-b", "feature", "../linked"]);
        let at = at.map(|at| at.to_string());
        let running = if let Some(at) = &at {
            stage.script(&willing(&[]));
            let faults = [("RALPH_CRASH_AT", at.as_str()), ("RALPH_CRASH_SIGNAL", "STOP")];
            let running = stage.place.start_with(&["pipeline"], &faults);
            wait_until(PATIENCE, "it stands still", || is_stopped(running.pid()));
            running
        } else {
            stage.script(&willing(&[on(
                "implementer",
                1,
                &waits(&stage, "greeting.txt", "hello"),
            )]));
            let running = stage.place.start(&["pipeline"]);
            stage.wait_in_slot("begun");
            running
        };
        let linked = stage.place.path("linked");
        let other =
            stage.ralph(&["--root", linked.to_str().unwrap(), "pipeline", "--onto", "main"]);
        other.exits(0);
        running.signal(Signal::CONT);
        stage.go();
        let (code, said) = running.finish();
        assert_eq!(code, Some(0), "{at:?}: {said}\n{}", other.finished);
        let tips = ["log", "--format=%s", "--glob=refs/ralph/landed/*", "main"];
        let log = stage.git(&tips);
        let landed = log.lines().filter(|line| *line == "ralph: 0001-greeting is done").count();
        assert_eq!(landed, 1, "{at:?}: {log}\n{said}\n{}", other.finished);
        // Judged work of the first one may be what the second one went on from.
        for work in log.lines().filter(|line| line.starts_with("work")) {
            assert_eq!(log.lines().filter(|line| *line == work).count(), 1, "{at:?}: {log}");
        }
        // The branch is checked out in the main worktree, which follows whoever lands.
        assert!(!other.finished.stderr.contains("[trouble]"), "{at:?}: {}", other.finished);
        stage.ralph(&["land"]).exits(0);
        assert_eq!(stage.git(&["show", "main:greeting.txt"]), stage.read("greeting.txt").trim());
        assert_eq!(stage.git(&["status", "--porcelain"]), "", "{at:?}");
        let told = fs::read_to_string(linked.join("ralph/ralph.log")).unwrap_or_default();
        second += u32::from(told.contains("\"event\":\"landed\""));
    }
    assert!(second > 0, "the second one never landed first");
}

/// Ralph may not write a worktree that was added after its start: that one waits, and the work has landed.
#[test]
fn a_worktree_that_cannot_be_written_waits_and_is_brought_along_later() {
    let stage = meanwhile("", &[], |stage| {
        stage.git(&["switch", "-q", "-c", "other"]);
        stage.git(&["worktree", "add", "-q", "../new", "main"]);
    });
    let said = fs::read_to_string(stage.place.path("err")).unwrap();
    assert!(!said.contains("[trouble]"), "{said}");
    assert_eq!(stage.runs(), "piv");
    stage.ralph(&["land"]).exits(0);
    assert_eq!(fs::read_to_string(stage.place.path("new/greeting.txt")).unwrap(), "hello\n");
    let status = stage.git(&["-C", "../new", "status", "--porcelain"]);
    assert_eq!(status, "", "{said}");
    assert_no_refs_left(&stage);
}

#[test]
fn a_checkout_in_which_one_file_cannot_be_written_is_left_as_it_was() {
    let stage = Stage::with("", "", &["0001-greeting.md", "0002-more.md"]);
    stage.write("closed/old.txt", "old\n");
    stage.write("old.txt", "old\n");
    stage.place.commit_all("files");
    let writes = "run for f in a.txt old.txt closed/new.txt z.txt; do echo made >> $f; done; git add -A; git commit -qm work\n\
                  final <<END\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND";
    stage.script(&willing(&[on("implementer", 1, writes)]));
    let Some(disk) = SmallDisk::mount(&stage.file("closed"), "1m") else {
        eprintln!("skipped: no file system can be mounted here");
        return;
    };
    stage.write("closed/old.txt", "old\n");
    disk.close();
    let ended = stage.pipeline(&[]);
    ended.exits(0).says("closed/new.txt").says("then run `ralph land`");
    assert!(!ended.finished.stderr.contains("[trouble]"), "{}", ended.finished);
    assert_eq!(stage.runs(), "pivpiv", "{}", ended.finished);
    assert_eq!(stage.git(&["status", "--porcelain"]), "", "{}", ended.finished);
    assert_eq!(stage.read("old.txt"), "old\n");
    stage.ralph(&["land"]).exits(1);
    drop(disk);
    stage.ralph(&["land"]).exits(0);
    assert_eq!(stage.read("old.txt"), "old\nmade\n");
    assert!(stage.has("closed/new.txt") && stage.has("greeting.txt"));
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    assert_no_refs_left(&stage);
}

/// The points at which a workflow can be stopped or killed, and how many of them precede its last agent's run.
pub(crate) fn points_of(place: &Place, args: &[&str]) -> (usize, usize) {
    place.start_with(args, &[("RALPH_CRASH_LOG", "../points")]).finish();
    let points = fs::read_to_string(place.path("points")).unwrap();
    let lines: Vec<&str> = points.lines().collect();
    (lines.iter().rposition(|line| line.contains(" start ralph")).unwrap(), lines.len())
}

/// Whether the process is stopped.
pub(crate) fn is_stopped(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
}

/// A landing process stopped anywhere between the verifier's verdict and the end: the person's decision meanwhile wins,
/// or comes after the landing.
#[test]
fn a_lander_that_is_stopped_lands_nothing_that_was_cancelled_meanwhile() {
    let (verified, total) = points_of(&Stage::with(&willing(&[]), "", ONE).place, &["pipeline"]);
    let mut cancelled = 0;
    for at in ((verified + 2)..=total).step_by(((total - verified) / 8).max(1)) {
        let stage = Stage::with(&willing(&[]), "", ONE);
        let at = at.to_string();
        let faults = [("RALPH_CRASH_AT", at.as_str()), ("RALPH_CRASH_SIGNAL", "STOP")];
        let running = stage.place.start_with(&["pipeline"], &faults);
        wait_until(PATIENCE, "it stands still", || is_stopped(running.pid()));
        let marked = stage.ralph(&["specs", "mark-done", "1"]);
        running.signal(Signal::CONT);
        let (code, said) = running.finish();
        assert_eq!(code, Some(0), "{at}: {said}\n{}", marked.finished);
        let is_cancelled = marked.finished.stderr.contains("by hand");
        cancelled += u32::from(is_cancelled);
        let mut reached = vec!["log", "--format=%s", "--grep=^work 1$", "HEAD"];
        if marked.finished.stderr.contains("is locked") {
            // The index was locked: the decision is not committed, and landed work waits for the checkout.
            reached.push("--glob=refs/ralph/landed/*");
        }
        let landed = stage.git(&reached);
        assert_eq!(landed.is_empty(), is_cancelled, "{at}: {said}\n{}", marked.finished);
        assert!(landed.lines().count() <= 1, "{at}: {landed}");
    }
    assert!(cancelled > 0, "{verified} of {total}");
}
