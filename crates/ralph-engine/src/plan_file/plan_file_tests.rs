use super::*;
use crate::home::find_workspace;
use crate::state::StateRequest;
use crate::test_place::Place;
use jiff::Timestamp;
use ralph_model::plan::Unfinished;

struct World {
    place: Place,
    state: State,
    home: Home,
}

impl World {
    fn new() -> World {
        let place = Place::repository();
        place.write("repo-file", "x");
        place.git(&["config", "user.name", "p"]);
        place.git(&["config", "user.email", "p@example.org"]);
        World::at(place, ".git/private")
    }

    /// A home in a place, with its private state in a subdirectory.
    fn at(place: Place, private: &str) -> World {
        let workspace = find_workspace(Some(&place.root), &place.root).unwrap();
        let home = workspace.home(None);
        let base = place.root.join(private);
        let request = StateRequest {
            base: &base,
            workspace: &workspace,
            home: &home,
            now: Timestamp::UNIX_EPOCH,
            root_commit: &|_| None,
        };
        let (state, _) = State::open(&request).unwrap();
        World { place, state, home }
    }

    fn file(&self) -> PlanFile {
        self.file_with(&self.state)
    }

    fn file_with(&self, state: &State) -> PlanFile {
        let program = GitProgram::new("git", std::env::vars_os());
        let file = PlanFile::open(&program, state, &self.home, Signing::Unsigned);
        PlanFile { patience: Duration::from_millis(50), ..file }
    }

    fn set_spec(&self, spec: &str) -> Result<Change, PlanFileError> {
        self.file().change_and_commit(|plan| plan.set_spec(spec, Unfinished::Cancel))
    }

    fn add(&self, task: &str) -> Result<Change, PlanFileError> {
        let file = self.file();
        let known = file.known_ids();
        let mut random = random_numbers();
        let done_at = DoneAt::Unborn;
        let mut around = ralph_model::plan::PlanContext {
            known: &|id| known.has(id),
            past_is_whole: &|| known.is_whole(),
            random: &mut random,
            done_at,
        };
        file.change_and_commit(|plan| plan.add(task, &mut around))
    }
}

/// A container on the same host, `sudo`, another user: each has its own private state.
#[test]
fn a_writer_with_another_private_state_is_waited_for_and_named() {
    let world = World::new();
    world.set_spec("a.md").unwrap();
    let other = world.file_with(&world.place.state());
    let held = other.lock().unwrap();
    let error = world.set_spec("b.md").unwrap_err();
    assert!(matches!(error, PlanFileError::Lock(LockError::WriteHeld { .. })), "{error:?}");
    assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
    drop(held);
    world.set_spec("b.md").unwrap();
}

#[test]
fn a_locked_index_is_explained_and_nothing_is_changed() {
    let world = World::new();
    world.set_spec("a.md").unwrap();
    let lock = world.place.root.join(".git/index.lock");
    std::fs::write(&lock, "").unwrap();
    let before = world.file().read().unwrap();
    let error = world.add("first").unwrap_err();
    assert!(error.hint().unwrap().contains("index.lock"), "{error:?}");
    assert_eq!(world.file().read().unwrap(), before);
    std::fs::remove_file(&lock).unwrap();
    world.add("second").unwrap();
    let subjects = world.place.git(&["log", "--format=%s"]);
    assert_eq!(subjects, "ralph: task add - second\nralph: set spec a.md\n");
}

/// Two branches, each with a task that the other lacks; `other` is checked out.
fn two_branches() -> World {
    let world = World::new();
    world.set_spec("a.md").unwrap();
    world.place.git(&["branch", "other"]);
    world.add(r#"{"id": "t-main", "name": "x"}"#).unwrap();
    world.place.git(&["branch", "-m", "main"]);
    world.place.git(&["checkout", "-q", "other"]);
    world.add(r#"{"id": "t-other", "name": "x"}"#).unwrap();
    world
}

/// The tasks of a branch, with a mark for done ones.
fn tasks_on(world: &World, branch: &str) -> Vec<String> {
    let plan = world.place.git(&["show", &format!("{branch}:ralph/{PLAN_FILE}")]);
    let of = |record: serde_json::Value| {
        let mark = if record["s"] == "d" { " done" } else { "" };
        Some(format!("{}{mark}", record["id"].as_str()?))
    };
    plan.lines().filter_map(|line| of(serde_json::from_str(line).unwrap())).collect()
}

#[test]
fn git_switches_no_branch_between_the_read_and_the_commit() {
    let world = two_branches();
    let file = world.file();
    let mut switched = true;
    file.change_and_commit(|plan| {
        let mut git = std::process::Command::new("git");
        git.args(["checkout", "-q", "main"]).current_dir(&world.place.root);
        switched = git.output().unwrap().status.success();
        plan.done("t-other", &DoneAt::Unborn)
    })
    .unwrap();
    assert!(!switched, "the index is locked");
    assert_eq!(tasks_on(&world, "main"), ["t-main"]);
    assert_eq!(tasks_on(&world, "other"), ["t-other done"]);
    assert!(!file.is_uncommitted().unwrap());
}

/// `git checkout` moves `HEAD` after releasing the index lock.
#[test]
fn a_checkout_that_has_yet_to_move_head_is_waited_for() {
    let world = two_branches();
    world.place.git(&["read-tree", "--reset", "-u", "main"]);
    let mut checkout = std::process::Command::new("git");
    checkout.args(["cat-file", "--batch"]).current_dir(&world.place.root);
    checkout.stdin(std::process::Stdio::piped());
    let mut checkout = checkout.spawn().unwrap();
    let (file, lock) = (world.file(), world.place.root.join(".git/index.lock"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The new index is written there, and the branch has not moved yet.
            while !std::fs::metadata(&lock).is_ok_and(|lock| lock.len() > 0) {
                std::thread::yield_now();
            }
            world.place.git(&["symbolic-ref", "HEAD", "refs/heads/main"]);
            drop(checkout.stdin.take());
            checkout.wait().unwrap();
        });
        file.change_and_commit(|plan| plan.done("t-main", &DoneAt::Unborn)).unwrap();
    });
    assert_eq!(tasks_on(&world, "main"), ["t-main done"]);
    assert_eq!(tasks_on(&world, "other"), ["t-other"]);
    assert!(!file.is_uncommitted().unwrap());
}

/// `git checkout` resolves the branch before it locks the index, and may miss a commit in between.
#[test]
fn a_plan_that_is_staged_as_an_earlier_commit_has_it_is_not_built_upon() {
    let world = two_branches();
    world.place.git(&["checkout", "-q", "HEAD~1", "--", "ralph/plan.jsonl"]);
    let file = world.file();
    let before = file.read().unwrap();
    let error = world.add("next").unwrap_err();
    assert!(error.hint().unwrap().contains("git checkout HEAD -- ralph/plan.jsonl"), "{error:?}");
    assert_eq!(file.read().unwrap(), before);
    world.place.git(&["checkout", "-q", "HEAD", "--", "ralph/plan.jsonl"]);
    world.add("next").unwrap();
    assert_eq!(tasks_on(&world, "other").len(), 2);
}

#[test]
fn ids_are_known_from_history_with_and_without_what_is_kept() {
    let world = World::new();
    world.set_spec("a.md").unwrap();
    world.add(r#"{"id": "t-gone1", "name": "x"}"#).unwrap();
    world.file().change_and_commit(|plan| plan.delete("t-gone1")).unwrap();
    let knows = |id: &str| world.file().known_ids().has(id);
    for _ in 0..2 {
        assert!(knows("t-gone1") && !knows("t-gone") && !knows("") && !knows("t-gone1\n"));
    }
    // So many that the cache is updated.
    for number in 0..40 {
        world.add(&format!(r#"{{"id": "t-n{number:03}", "name": "x"}}"#)).unwrap();
    }
    assert!(knows("t-gone1") && knows("t-n000") && knows("t-n039") && !knows("t-n040"));
    let kept = std::fs::read_dir(world.state.plan_directory(world.file().path())).unwrap();
    for file in kept.flatten() {
        std::fs::write(file.path(), "{\"format\": 1, damaged").unwrap();
    }
    assert!(knows("t-gone1") && !knows("t-n040"));
    // Another branch has another history.
    world.place.git(&["checkout", "-q", "--orphan", "fresh"]);
    assert!(!knows("t-gone1"));
    world.place.git(&["commit", "-q", "-m", "fresh"]);
    assert!(!knows("t-gone1") && knows("t-n001"));
}

#[test]
fn ids_of_ones_own_commits_are_known_without_reading_them_again() {
    let world = World::new();
    world.set_spec("a.md").unwrap();
    let head = || world.place.git(&["rev-parse", "HEAD"]).trim().to_owned();
    let known_up_to = || {
        let directory = world.state.plan_directory(world.file().path());
        let entries = std::fs::read_dir(directory).unwrap().flatten();
        let ids =
            entries.map(|entry| entry.path()).find(|path| path.to_string_lossy().contains("ids-"));
        let text = std::fs::read_to_string(ids.unwrap()).unwrap();
        text.lines().nth(1).unwrap()[..40].to_owned()
    };
    let knows = |id: &str| world.file().known_ids().has(id);
    world.add(r#"{"id": "t-0001", "name": "x"}"#).unwrap();
    assert_eq!(known_up_to(), head());
    assert!(knows("t-0001"));
    world.file().change_and_commit(|plan| plan.delete("t-0001")).unwrap();
    assert_eq!(known_up_to(), head());
    // A line that a person wrote and did not commit is in the next commit, but was not in the id file before.
    let path = world.file().path().to_owned();
    let plan = std::fs::read_to_string(&path).unwrap();
    let line = "{\"t\":\"task\",\"id\":\"t-hand\",\"spec\":\"a.md\",\"name\":\"x\",\"s\":\"p\"}\n";
    std::fs::write(&path, format!("{plan}{line}")).unwrap();
    world.add(r#"{"id": "t-0002", "name": "x"}"#).unwrap();
    world.file().change_and_commit(|plan| plan.delete("t-hand")).unwrap();
    for id in ["t-0001", "t-0002", "t-hand"] {
        assert!(knows(id), "{id}");
    }
}

#[test]
fn without_a_repository_the_plan_is_written_and_nothing_is_known_of_its_past() {
    let world = World::at(Place::new(), "private");
    world.set_spec("a.md").unwrap();
    world.add("x").unwrap();
    let file = world.file();
    assert_eq!(file.done_at().unwrap(), DoneAt::Unborn);
    assert!(!file.is_uncommitted().unwrap() && !file.known_ids().has("t-0000"));
    assert_eq!(Plan::parse(&file.read().unwrap()).pending().len(), 1);
}

#[test]
fn what_a_writer_left_half_written_in_home_is_gone_after_the_next_change() {
    let world = World::new();
    world.set_spec("a.md").unwrap();
    let file = world.file();
    Intent::note(&world.state, file.path(), "ralph: never made", "no digest").unwrap();
    let left = file.path().with_file_name(format!(".{PLAN_FILE}.{}.0.ralph-tmp", i32::MAX));
    std::fs::write(&left, "half").unwrap();
    world.set_spec("b.md").unwrap();
    assert!(!left.exists());
}

#[test]
fn what_is_changed_for_later_is_one_commit_though_one_change_among_it_is_refused() {
    let world = World::new();
    world.set_spec("a.md").unwrap();
    world.add(r#"[{"id": "t-0001", "name": "one"}, {"id": "t-0002", "name": "two"}]"#).unwrap();
    let commits = || world.place.git(&["rev-list", "--count", "HEAD"]);
    let (before, file) = (commits(), world.file());
    file.change(|plan| plan.delete("t-0001")).unwrap();
    file.change(|plan| plan.delete("t-none")).unwrap_err();
    file.change(|plan| plan.delete("t-0002")).unwrap();
    assert_eq!(commits(), before);
    file.commit().unwrap();
    let message = world.place.git(&["log", "-1", "--format=%B"]);
    assert_eq!(
        message.trim(),
        "ralph: update plan (2 changes)\n\n- task delete - one\n- task delete - two"
    );
    assert!(!file.is_uncommitted().unwrap());
}

#[test]
fn a_draft_of_a_killed_run_that_cannot_be_read_is_kept_and_named() {
    let world = World::new();
    world.set_spec("a.md").unwrap();
    let running = world.file();
    running.begin_run().unwrap();
    running.change_in_run(|plan| plan.set_spec("b.md", Unfinished::Cancel)).unwrap();
    let path = world.state.plan_directory(running.path()).join("draft");
    let damaged = &std::fs::read(&path).unwrap()[..5];
    std::fs::write(&path, damaged).unwrap();
    let again = world.file().for_runs().unwrap();
    assert!(!again.read().unwrap().is_empty());
    let untold = world.state.untold();
    assert_eq!(untold.len(), 1);
    assert!(untold[0].reason.contains("had changed in the plan is lost"), "{}", untold[0].reason);
    let (kept, count) = world.state.damaged_records().unwrap();
    assert_eq!(count, 1);
    let kept = kept.read_dir_utf8().unwrap().map(|entry| entry.unwrap().into_path());
    let kept: Vec<_> = kept.filter(|path| path.extension() != Some("untold")).collect();
    assert_eq!(std::fs::read(&kept[0]).unwrap(), damaged);
    world.add("goes on").unwrap();
}
