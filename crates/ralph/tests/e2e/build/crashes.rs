//! Kills Ralph in mid-run and at each of its fault points; after a restart it reaches the same end state.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{BUILDER, SPEC, Site, VERIFIER, issue, task, task_with};
use crate::crash::{Share, Sweep};
use crate::harness::PATIENCE;

/// How many tests share the fault points of a story, so that they run in parallel.
const SHARES: usize = 2;

struct Story {
    script: String,
    tasks: Vec<Value>,
    /// A gate, if there is one.
    gate: &'static [&'static str],
    exit: i32,
}

const SOUND: &[&str] = &["sh", "-c", "! grep -q wrong t-aaaa"];

/// A task that is built, passes its gates and is accepted.
fn accepted() -> Story {
    let script =
        format!("[builder]\nwrite t-aaaa right\nrun ralph task done\nfinal done\n{VERIFIER}");
    Story { script, tasks: vec![task("t-aaaa")], gate: SOUND, exit: 0 }
}

/// A task that fails its gates, then passes them.
fn rejected() -> Story {
    // The behaviour of a run depends on the plan alone: after a crash a different run may do it.
    let script = "[builder]\nrun grep -q '\"reject\"' $RALPH_HOME/plan.jsonl && echo right > t-aaaa || echo wrong > t-aaaa\n\
                  run ralph task done\nfinal done\n";
    let script = format!("{script}{VERIFIER}");
    Story { script, tasks: vec![task("t-aaaa")], gate: SOUND, exit: 0 }
}

/// A claim that nothing has to change, with a verifier's opinion, decided by a person.
fn questioned() -> Story {
    let script = "[builder]\nrun ralph task done --no-change \"it is so\"\nfinal done\n\
                  [verifier]\nfinal It is.\n";
    Story { script: script.to_owned(), tasks: vec![task("t-aaaa")], gate: &[], exit: 3 }
}

/// A killed task, its subtasks, and the agent at its usage limit.
fn decomposed() -> Story {
    let script = "[decomposer]\n\
                  run ralph task add '[{\"id\": \"t-part1\", \"name\": \"One\"}, {\"id\": \"t-part2\", \"name\": \"Two\"}]'\n\
                  run ralph task delete t-aaaa\nfinal done\n[builder]\nlimit in 1h\nexit 1\n";
    let tasks = vec![
        task_with("t-aaaa", json!({"kill": "timeout"})),
        task_with("t-late", json!({"deps": ["t-aaaa"]})),
    ];
    Story { script: script.to_owned(), tasks, gate: &[], exit: 1 }
}

impl Story {
    fn site(&self) -> Site {
        let site = Site::planned(&self.script, &self.tasks).in_memory();
        if !self.gate.is_empty() {
            site.gate(self.gate);
        }
        site
    }

    fn survives_every_crash(&self, number: usize) {
        self.play_crashes(&self.site(), Share { number, of: SHARES });
    }

    fn play_crashes(&self, site: &Site, share: Share) {
        let sweep = Sweep::new(&site.place, ARGS);
        let (undisturbed, points) = sweep.undisturbed(share);
        assert_eq!(undisturbed.status.code(), Some(self.exit), "{undisturbed}");
        let (expected, runs) = (end_of(site), completed(site));
        sweep.visit(&points, |point, crashed| {
            let again = site.ralph(ARGS);
            let context = || format!("{point}\n{crashed}\n{again}\n{}", site.plan_text());
            assert_eq!(again.status.code(), Some(self.exit), "{}", context());
            assert_eq!(end_of(site), expected, "{}", context());
            // A run whose end Ralph did not see may have done all its work; a finished one is not repeated.
            for (role, times) in completed(site) {
                let allowed = runs.get(&role).copied().unwrap_or_default();
                assert!(times <= allowed, "{role} {times} times {}", context());
            }
            site.place.assert_nothing_left();
        });
    }
}

/// The same in the person's own working tree.
#[test]
fn a_crash_at_any_point_changes_nothing_about_a_task_that_is_built_in_place() {
    let site = accepted().site();
    site.place.env.in_place();
    accepted().play_crashes(&site, Share { number: 0, of: 1 });
}

const ARGS: &[&str] = &["build", "--no-wait"];

/// The relevant end state: the plan, the commits of work, the tree.
fn end_of(site: &Site) -> BTreeMap<String, String> {
    let log = site.git(&["log", "--all", "--format=%H %s"]);
    let mut plan = site.plan_text();
    for (id, subject) in log.lines().filter_map(|line| line.split_once(' ')) {
        plan = plan.replace(id, subject);
    }
    let mut records: Vec<&str> = plan.lines().collect();
    records.sort_unstable();
    let work = site.git(&["log", "--format=%s", "--invert-grep", "--grep=^ralph: "]);
    BTreeMap::from([
        ("plan".to_owned(), records.join("\n")),
        ("work".to_owned(), work),
        ("status".to_owned(), site.git(&["status", "--porcelain"])),
        ("tree".to_owned(), site.git(&["ls-files", "-s", "--", ".", ":!ralph"])),
        ("outcomes".to_owned(), format!("{:?}", outcomes(site))),
    ])
}

/// The outcome of each task, from its history.
fn outcomes(site: &Site) -> Vec<(String, String)> {
    let log: Value = serde_json::from_str(&site.exits(0, &["log", "--all"]).stdout).unwrap();
    let tasks = log["tasks"].as_array().unwrap();
    let of = |task: &Value| (task["desc"].to_string(), task["outcome"].to_string());
    let mut outcomes: Vec<_> = tasks.iter().map(of).collect();
    outcomes.sort();
    outcomes
}

/// How many runs of each role completed.
fn completed(site: &Site) -> BTreeMap<String, u32> {
    let state = fs::read_dir(site.place.path("state/ralph")).unwrap();
    let mut journals = state.map(|place| place.unwrap().path().join("journal.jsonl"));
    let journal = fs::read_to_string(journals.find(|path| path.exists()).unwrap()).unwrap();
    let mut roles = BTreeMap::new();
    let mut completed = BTreeMap::new();
    for line in journal.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let run = entry["run"].as_str().unwrap_or_default().to_owned();
        if entry["event"] == "run_started" {
            roles.insert(run, entry["data"]["role"].as_str().unwrap().to_owned());
        } else if entry["event"] == "run_finished"
            && entry["data"]["outcome"]["kind"] == "completed"
        {
            *completed.entry(roles[&run].clone()).or_default() += 1;
        }
    }
    completed
}

#[test]
fn a_crash_at_any_point_changes_nothing_about_a_task_that_is_accepted_1() {
    accepted().survives_every_crash(0);
}

#[test]
fn a_crash_at_any_point_changes_nothing_about_a_task_that_is_accepted_2() {
    accepted().survives_every_crash(1);
}

#[test]
fn a_crash_at_any_point_changes_nothing_about_a_task_that_is_rejected_1() {
    rejected().survives_every_crash(0);
}

#[test]
fn a_crash_at_any_point_changes_nothing_about_a_task_that_is_rejected_2() {
    rejected().survives_every_crash(1);
}

#[test]
fn a_crash_at_any_point_changes_nothing_about_a_question_1() {
    questioned().survives_every_crash(0);
}

#[test]
fn a_crash_at_any_point_changes_nothing_about_a_question_2() {
    questioned().survives_every_crash(1);
}

#[test]
fn a_crash_at_any_point_changes_nothing_about_a_decomposition_1() {
    decomposed().survives_every_crash(0);
}

#[test]
fn a_crash_at_any_point_changes_nothing_about_a_decomposition_2() {
    decomposed().survives_every_crash(1);
}

/// Plans a spec over an old plan, with a planner that adds only what is missing, as its prompt demands.
fn planned_anew() -> Site {
    let script = "[planner]\n\
                  run ralph query tasks | grep -q 'Say hello' || ralph task add 'Say hello'\n\
                  run ralph query tasks | grep -q 'Wave' || ralph task add 'Wave'\nfinal planned\n";
    let site = Site::new(script).in_memory();
    let old = json!({"spec": "old.md"});
    let done = json!({"spec": "old.md", "s": "d", "done_at": "abc1234"});
    let records = [
        json!({"t": "spec", "spec": "old.md"}),
        task_with("t-aaaa", old),
        task_with("t-bbbb", done),
        json!({"t": "reject", "id": "t-aaaa", "done_at": "abc1234", "reason": "so"}),
    ];
    fs::write(site.path("ralph/plan.jsonl"), records.map(|record| format!("{record}\n")).concat())
        .unwrap();
    site.commit_all("an old plan");
    site
}

const PLANNING_SHARES: usize = 3;

fn survives_every_crash_while_planning(number: usize) {
    let args = &["plan", SPEC, "--yes"];
    let site = planned_anew();
    let sweep = Sweep::new(&site.place, args);
    let (undisturbed, points) = sweep.undisturbed(Share { number, of: PLANNING_SHARES });
    assert_eq!(undisturbed.status.code(), Some(0), "{undisturbed}");
    let names = || {
        let tasks = site.records("task");
        let names = tasks.iter().map(|task| {
            (task["name"].to_string(), task["priority"].to_string(), task["spec"].to_string())
        });
        names.collect::<Vec<_>>()
    };
    let expected = (names(), outcomes(&site));
    let finished = Cell::new(0);
    sweep.visit(&points, |point, crashed| {
        // Without a terminal: a decision that was already made is not asked for again.
        let begun = site.records("spec")[0]["spec"] == SPEC && site.is_answered();
        let again = site.ralph(if begun { &["plan", SPEC] } else { args });
        let context = || format!("{point}\n{crashed}\n{again}\n{}", site.plan_text());
        // If only the last record is missing, the plan already exists and may be planned again.
        let is_whole = again.status.code() == Some(3);
        finished.set(finished.get() + usize::from(is_whole));
        assert!(is_whole || again.status.code() == Some(0), "{}", context());
        assert_eq!((names(), outcomes(&site)), expected, "{}", context());
        assert_eq!(site.records("reject"), Vec::<Value>::new(), "{}", context());
        assert_eq!(completed(&site).get("planner"), Some(&1), "{}", context());
        site.assert_clean();
        site.place.assert_nothing_left();
    });
    assert!(finished.get() <= 2, "{} times", finished.get());
}

#[test]
fn a_crash_at_any_point_changes_nothing_about_a_plan_1() {
    survives_every_crash_while_planning(0);
}

#[test]
fn a_crash_at_any_point_changes_nothing_about_a_plan_2() {
    survives_every_crash_while_planning(1);
}

#[test]
fn a_crash_at_any_point_changes_nothing_about_a_plan_3() {
    survives_every_crash_while_planning(2);
}

#[test]
fn killed_while_planning_it_goes_on_without_asking_and_ralph_build_does_so_too() {
    let script = "[planner 1]\nrun ralph task add One\nhang\n\
                  [planner]\nexpect-prompt One\nrun ralph task add Two\nfinal planned\n";
    for args in [&["plan", SPEC][..], &["build", SPEC]] {
        let site = Site::new(&format!("{script}{BUILDER}{VERIFIER}"));
        let running = site.place.start(&["plan", SPEC]);
        crate::harness::wait_until(PATIENCE, "a task was acknowledged", || site.is_answered());
        running.signal(Signal::KILL);
        running.finish();
        let again = site.exits(0, args);
        assert!(again.stderr.contains("resuming interrupted planning; 1 task so far"), "{again}");
        assert_eq!(site.roles()[..2], ["planner", "planner"]);
        if args[0] == "plan" {
            let names: Vec<_> = site.records("task").iter().map(|t| t["name"].clone()).collect();
            assert_eq!(names, ["One", "Two"]);
            site.assert_clean();
        } else {
            site.assert_complete();
        }
    }
}

#[test]
fn a_plan_that_never_came_to_its_first_task_is_not_taken_for_a_complete_one() {
    let site = Site::new("");
    let script = format!(
        "[planner]\nrun test -e {} || sleep 600\nrun ralph task add One\nfinal planned\n{BUILDER}{VERIFIER}",
        site.place.path("go").display()
    );
    fs::write(site.place.path("script"), script).unwrap();
    let running = site.place.start(&["plan", SPEC]);
    crate::harness::wait_until(PATIENCE, "the planner runs", || {
        site.path("ralph/ralph.log").exists() && !site.roles().is_empty()
    });
    running.signal(Signal::KILL);
    running.finish();
    fs::write(site.place.path("go"), "").unwrap();
    site.exits(0, &["build"]);
    assert_eq!(site.roles(), ["planner", "planner", "builder", "verifier"]);
    site.assert_complete();
}

#[test]
fn killed_in_mid_run_it_leaves_nobody_behind_and_the_run_is_repeated_on_what_it_left() {
    let script = "[builder 1]\nwrite left.txt x\nrun ralph issue add noticed\nhang\n\
                  [builder]\nrun test -e left.txt && ralph task done\nfinal done\n\
                  [investigator]\nrun ralph issue done\nfinal nothing\n";
    let site = Site::planned(&format!("{script}{VERIFIER}"), &[task("t-aaaa")]);
    let running = site.place.start(&["build"]);
    crate::clones::wait_for_slot(&site.place, "left.txt");
    crate::harness::wait_until(PATIENCE, "the issue was acknowledged", || site.is_answered());
    running.signal(Signal::KILL);
    let (code, _) = running.finish();
    assert_eq!(code, None);
    site.exits(0, &["build"]);
    assert_eq!(site.roles(), ["builder", "builder", "verifier", "investigator"]);
    assert_eq!(site.commits().iter().filter(|subject| *subject == "Do t-aaaa").count(), 1);
    site.assert_complete();
}

/// The builder's run was complete before its gate began: after the restart it is judged, not repeated.
#[test]
fn killed_while_a_gate_runs_it_judges_the_finished_run_and_does_not_repeat_it() {
    let site = accepted().site();
    let sweep = Sweep::new(&site.place, ARGS);
    let (_, points) = sweep.undisturbed(Share { number: 0, of: 1 });
    let gates: Vec<_> = points.iter().filter(|point| point.is_start_of("sh")).collect();
    assert!(!gates.is_empty());
    for gate in gates {
        let (reached, crashed) = sweep.killed_at(gate).unwrap();
        assert!(reached.is_start_of("sh"), "{reached} instead of {gate}");
        let again = site.exits(0, ARGS);
        assert_eq!(completed(&site)["builder"], 1, "{gate}\n{crashed}\n{again}");
        assert_eq!(site.commits().iter().filter(|subject| *subject == "Do t-aaaa").count(), 1);
        site.assert_complete();
    }
}

#[test]
fn interrupted_at_any_instant_it_starts_nothing_new_and_goes_on_later() {
    let site = accepted().site();
    let sweep = Sweep::new(&site.place, ARGS);
    let (_, points) = sweep.undisturbed(Share { number: 0, of: 1 });
    let mut interrupted = 0;
    for point in &points {
        let (finished, later) = sweep.interrupted_at(point);
        let later: Vec<String> = later.iter().map(ToString::to_string).collect();
        match finished.status.code() {
            Some(130) => interrupted += 1,
            // Before the signal is handled, and after everything is done.
            None | Some(0) => assert!(later.is_empty(), "{point}: {later:#?}\n{finished}"),
            Some(_) => panic!("{point}\n{finished}"),
        }
        assert!(later.is_empty(), "{point}: {later:#?}\n{finished}");
        site.exits(0, ARGS);
        site.assert_complete();
    }
    assert!(interrupted > points.len() / 2, "{interrupted} of {}", points.len());
}

#[test]
fn a_finished_spec_is_not_planned_again_unless_it_was_changed() {
    let planner = "[planner]\nrun ralph task add \"Say hello ${INVOCATION}\"\nfinal planned\n";
    let site = Site::new(&format!("{planner}{BUILDER}{VERIFIER}"));
    for _ in 0..2 {
        site.exits(0, &["build", SPEC]);
        assert_eq!(site.roles(), ["planner", "builder", "verifier"]);
    }
    fs::write(site.path("ralph/specs").join(SPEC), "# Greet\n\nSay hello and goodbye.\n").unwrap();
    site.commit_all("more is wanted");
    site.exits(0, &["build", SPEC]);
    assert_eq!(site.roles().len(), 6);
}

/// That it was planned is in private state; without it the history of the plan shows what was accepted.
#[test]
fn a_finished_spec_is_not_planned_again_after_private_state_was_lost() {
    let planner = "[planner]\nrun ralph task add \"Say hello ${INVOCATION}\"\nfinal planned\n";
    let site = Site::new(&format!("{planner}{BUILDER}{VERIFIER}"));
    let spec = "0001-greet.md";
    let path = site.path("ralph/specs").join(spec);
    fs::write(&path, "# Greet\n\nSay hello.\n").unwrap();
    site.commit_all("a numbered spec");
    site.exits(0, &["build", spec]);
    let is_built = || site.exits(0, &["specs", "--json"]).stdout.contains("\"built\"");
    assert!(is_built());
    fs::remove_dir_all(site.place.path("state")).unwrap();
    assert!(is_built());
    // No agent ends well any more.
    fs::write(
        site.place.path("script"),
        "[planner]\nexit 1\n[builder]\nexit 1\n[implementer]\nexit 1\n",
    )
    .unwrap();
    for args in [&["build", spec][..], &["pipeline"]] {
        let finished = site.exits(0, args);
        assert!(
            finished.stderr.contains("complete") || finished.stderr.contains("built"),
            "{finished}"
        );
        fs::remove_dir_all(site.place.path("state")).unwrap();
    }
    fs::write(&path, "# Greet\n\nSay hello and goodbye.\n").unwrap();
    site.commit_all("more is wanted");
    assert!(!is_built());
    site.exits(1, &["build", spec]);
}

#[test]
fn what_a_planner_added_that_was_interrupted_is_committed() {
    let script =
        "[planner]\nrun ralph task add '{\"id\": \"t-hello\", \"name\": \"Say hello\"}'\nhang\n";
    let site = Site::new(script);
    let running = site.place.start(&["plan", SPEC]);
    crate::harness::wait_until(PATIENCE, "the task was acknowledged", || site.is_answered());
    running.signal(Signal::INT);
    let (code, _) = running.finish();
    assert_eq!(code, Some(130));
    assert_eq!(site.records("task").len(), 1);
    site.assert_clean();
}

/// A verifier that has accepted one of two done tasks and has more to do.
fn accepting() -> Site {
    let script = "[verifier 1]\nrun ralph task accept t-aaaa\nhang\n[verifier]\nfinal nothing\n";
    let done = |id| task_with(id, json!({"s": "d", "done_at": "abc1234"}));
    Site::planned(script, &[done("t-aaaa"), done("t-bbbb")])
}

fn outcome_of(site: &Site, name: &str) -> String {
    let wanted = Value::from(name).to_string();
    let found = outcomes(site).into_iter().find(|(desc, _)| *desc == wanted);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", outcomes(site))).1
}

/// An agent's changes are committed as what they were, whoever commits next.
#[test]
fn what_an_agent_accepted_is_accepted_though_a_person_deletes_right_after_ralph_was_killed() {
    for is_killed in [true, false] {
        // In a clone the next start commits what was accepted: the order differs, and the sweeps cover it.
        let site = accepting().in_place();
        let running = site.place.start(&["build"]);
        crate::harness::wait_until(PATIENCE, "a task is accepted", || site.is_answered());
        let (deleted, accepted) =
            ("ralph: task delete - Do t-bbbb", "ralph: task accept - Do t-aaaa");
        let expected = if is_killed {
            running.signal(Signal::KILL);
            running.finish();
            site.exits(0, &["task", "delete", "t-bbbb"]);
            [deleted, accepted]
        } else {
            site.exits(0, &["task", "delete", "t-bbbb"]);
            running.signal(Signal::INT);
            running.finish();
            [accepted, deleted]
        };
        assert_eq!(site.commits()[..2], expected);
        assert_eq!(outcome_of(&site, "Do t-aaaa"), "\"accepted\"", "killed: {is_killed}");
        assert_eq!(outcome_of(&site, "Do t-bbbb"), "\"cancelled\"", "killed: {is_killed}");
        site.assert_clean();
        site.place.assert_nothing_left();
    }
}

/// An investigator stopped between adding its task and closing the issue has added the task: the next one is told about
/// it.
#[test]
fn an_investigator_is_told_which_tasks_were_made_from_its_issues_already() {
    let add = "run ralph task add '{\"id\": \"t-made\", \"name\": \"Mend the odd\"}'\n";
    let script = format!(
        "[investigator 1]\n{add}hang\n[investigator]\nexpect-prompt Mend the odd\nrun ralph issue done\nfinal done\n\
         {BUILDER}{VERIFIER}"
    );
    for signal in [Signal::KILL, Signal::INT] {
        let site = Site::planned(&script, &[issue("i-odd")]);
        let running = site.place.start(&["build"]);
        crate::harness::wait_until(PATIENCE, "the task was acknowledged", || site.is_answered());
        running.signal(signal);
        running.finish();
        site.exits(0, &["build"]);
        assert_eq!(site.roles(), ["investigator", "builder", "verifier", "investigator"]);
        site.assert_complete();
    }
}

/// The result of a run is on disk before the comparison with the earlier state begins, which may take long.
#[test]
fn killed_while_it_compares_what_a_run_changed_it_compares_again_and_does_not_repeat_the_run() {
    let forged = "[builder]\nwrite t-aaaa right\nrun ralph task done\nrun echo forged >> ralph/plan.jsonl\nfinal done\n";
    let forging = Story { script: format!("{forged}{VERIFIER}"), ..accepted() };
    for (story, asks) in [(accepted(), false), (forging, true)] {
        // The comparison is of the person's own tree.
        let site = story.site().in_place();
        let sweep = Sweep::new(&site.place, ARGS);
        let points = sweep.all_points();
        let agent = points.iter().position(|point| point.is_start_of("ralph")).unwrap();
        let mut visited = 0;
        for point in points[agent + 1..].iter().take_while(|point| !point.is_start_of("sh")) {
            let Some((_, crashed)) = sweep.killed_at(point) else { break };
            if !is_uncompared(&site) {
                continue;
            }
            visited += 1;
            if asks {
                // It is unknown who changed the plan.
                site.exits(3, ARGS);
            }
            let again = site.exits(0, ARGS);
            let context = || format!("{point}\n{crashed}\n{again}\n{}", site.plan_text());
            let roles = site.roles();
            let started = roles.iter().filter(|role| *role == "builder").count();
            assert_eq!(started, 1, "{}", context());
            assert!(!site.plan_text().contains("forged"), "{}", context());
            site.assert_complete();
            if visited == 2 {
                break;
            }
        }
        assert!(visited > 0);
    }
}

/// Whether there is a run's result that has not been compared with the earlier state yet.
fn is_uncompared(site: &Site) -> bool {
    let base = fs::read_dir(site.place.path("state/ralph")).unwrap();
    let mut places = base.map(|place| place.unwrap().path().join("uncompared"));
    places.any(|place| fs::read_dir(place).is_ok_and(|mut files| files.next().is_some()))
}

/// A verdict that is in private state but not yet in the plan is carried out, not reached again.
#[test]
fn killed_after_the_verdict_it_runs_no_gate_again_and_the_plan_has_it_once() {
    for (story, told, exit) in [(accepted(), "task_done", 0), (rejected(), "task_rejected", 0)] {
        let site = story.site().in_place();
        let sweep = Sweep::new(&site.place, ARGS);
        let points = sweep.all_points();
        let next = |from: usize, program: &str| {
            from + points[from..].iter().position(|point| point.is_start_of(program)).unwrap()
        };
        // The gate runs before the builder, and again on its work.
        let first = next(next(next(0, "sh"), "ralph"), "sh");
        let judging = points[first..].iter().take_while(|point| !point.is_start_of("ralph"));
        let last = judging.enumerate().filter(|(_, point)| point.is_start_of("sh")).last();
        let gate = first + last.unwrap().0;
        let is_recorded = |site: &Site| task_claim(site).is_some();
        let mut visited = 0;
        for point in &points[gate + 1..] {
            let Some((reached, crashed)) = sweep.killed_at(point) else { break };
            let judged = is_recorded(&site);
            let in_plan = site.task("t-aaaa")["s"] == "d" || !site.records("reject").is_empty();
            if in_plan {
                break;
            }
            if !judged {
                continue;
            }
            visited += 1;
            let (again, log) = sweep.go_on(&["build", "1", "--no-wait"]);
            let context = || format!("{reached}\n{crashed}\n{again}\n{}", site.plan_text());
            let before_next = log.iter().take_while(|point| !point.is_start_of("ralph"));
            assert_eq!(
                before_next.filter(|point| point.is_start_of("sh")).count(),
                0,
                "{}",
                context()
            );
            assert_eq!(site.logged(told).len(), 1, "{}", context());
            site.exits(exit, ARGS);
            assert_eq!(site.logged(told).len(), 1, "{}", context());
            site.assert_complete();
        }
        assert!(visited > 0, "{told}: no point between the verdict and the plan");
    }
}

/// The recorded verdict on `t-aaaa` in private state.
fn task_claim(site: &Site) -> Option<String> {
    let base = fs::read_dir(site.place.path("state/ralph")).unwrap();
    let mut places = base.map(|place| place.unwrap().path().join("tasks"));
    let tasks = places.find(|path| path.exists())?;
    let files = fs::read_dir(tasks).unwrap().map(|file| fs::read_to_string(file.unwrap().path()));
    let mut records = files.filter_map(Result::ok);
    records.find(|text| text.contains("accepted") || text.contains("rejected"))
}
