use std::cell::Cell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use proptest::prelude::*;
use ralph_model::usage::Usage;
use tempfile::TempDir;

use super::*;
use crate::home::find_workspace;
use ralph_proc::tree::ProcessIdentity;

struct Bench {
    _guard: TempDir,
    base: Utf8PathBuf,
    root: Utf8PathBuf,
    asked: Cell<u32>,
}

impl Bench {
    fn new() -> Self {
        let guard = tempfile::tempdir().unwrap();
        let top = Utf8PathBuf::from_path_buf(guard.path().canonicalize().unwrap()).unwrap();
        let (base, root) = (top.join("state/ralph"), top.join("My project"));
        fs::create_dir(&root).unwrap();
        Bench { _guard: guard, base, root, asked: Cell::new(0) }
    }

    fn open(&self) -> (State, Option<Fresh>) {
        self.try_open().unwrap()
    }

    fn try_open(&self) -> Result<(State, Option<Fresh>), StateError> {
        let workspace = find_workspace(Some(&self.root), &self.root).unwrap();
        State::open(&StateRequest {
            base: &self.base,
            workspace: &workspace,
            home: &workspace.home(None),
            now: now(),
            root_commit: &|path| {
                self.asked.set(self.asked.get() + 1);
                let args = ["rev-list", "--max-parents=0", "HEAD"];
                let output = Command::new("git").args(args).current_dir(path).output().unwrap();
                output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
            },
        })
    }

    fn git(&self, args: &[&str]) {
        let output = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@t"])
            .args(args)
            .current_dir(&self.root)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_COMMITTER_DATE", "2026-01-02T03:04:05Z")
            .env("GIT_AUTHOR_DATE", "2026-01-02T03:04:05Z")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn commit(&self, message: &str) {
        self.git(&["commit", "--quiet", "--allow-empty", "-m", message]);
    }
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

const NEW: Fresh = Fresh { home_has_history: false };

#[test]
fn state_is_private_and_git_is_asked_once() {
    let bench = Bench::new();
    bench.git(&["init", "--quiet"]);
    bench.commit("first");
    let (state, fresh) = bench.open();
    assert_eq!((fresh, bench.asked.get()), (Some(NEW), 1));
    let name = state.directory().file_name().unwrap();
    let digits = name.strip_prefix("My_project-").unwrap();
    assert!(digits.len() == 12 && digits.chars().all(|c| c.is_ascii_hexdigit()), "{name}");
    let mode = fs::metadata(state.directory()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    bench.commit("second");
    assert_eq!(bench.open(), (state, None));
    assert_eq!(bench.asked.get(), 1);
}

#[test]
fn a_lost_index_leads_back_to_the_same_state() {
    let bench = Bench::new();
    bench.git(&["init", "--quiet"]);
    bench.commit("first");
    let (state, _) = bench.open();
    fs::remove_dir_all(bench.base.join("index")).unwrap();
    assert_eq!(bench.open(), (state, None));
    assert_eq!(bench.asked.get(), 2);
}

#[test]
fn lost_state_is_noticed_and_told_from_new_state() {
    let bench = Bench::new();
    bench.git(&["init", "--quiet"]);
    let (state, _) = bench.open();
    fs::remove_dir_all(&bench.base).unwrap();
    fs::create_dir_all(bench.root.join("ralph/specs/done")).unwrap();
    fs::write(bench.root.join("ralph/specs/done/.gitkeep"), "").unwrap();
    assert_eq!(bench.open(), (state.clone(), Some(NEW)));
    fs::remove_dir_all(state.directory()).unwrap();
    fs::write(bench.root.join("ralph/specs/done/0001-a.md"), "DONE").unwrap();
    assert_eq!(bench.open(), (state, Some(Fresh { home_has_history: true })));
}

#[test]
fn a_directory_keeps_its_state_when_it_becomes_a_repository_and_gets_commits() {
    let bench = Bench::new();
    let (state, fresh) = bench.open();
    assert_eq!(fresh, Some(NEW));
    bench.git(&["init", "--quiet"]);
    assert_eq!(bench.open(), (state.clone(), None));
    bench.commit("first");
    assert_eq!(bench.open(), (state, None));
    assert_eq!(bench.asked.get(), 0);
}

#[test]
fn another_repository_at_the_same_path_gets_its_own_state_and_the_same_one_its_old() {
    let bench = Bench::new();
    let fill = |message| {
        bench.git(&["init", "--quiet"]);
        bench.commit(message);
    };
    fill("first");
    let (first, _) = bench.open();
    fs::remove_dir_all(bench.root.join(".git")).unwrap();
    fill("something else");
    let (second, fresh) = bench.open();
    assert_eq!(fresh, Some(NEW));
    assert_ne!(second, first);
    fs::remove_dir_all(bench.root.join(".git")).unwrap();
    fill("first");
    assert_eq!(bench.open(), (first, None));
}

#[test]
fn state_of_a_newer_ralph_is_not_touched() {
    let bench = Bench::new();
    let (state, _) = bench.open();
    let newer =
        r#"{"version": 2, "workspace": "/x", "created": "2026-01-02T03:04:05Z", "more": 1}"#;
    fs::write(state.about(), newer).unwrap();
    let error = bench.try_open().unwrap_err();
    assert!(matches!(error, StateError::Newer { found: 2, .. }), "{error}");
    assert_eq!(fs::read_to_string(state.about()).unwrap(), newer);
}

#[test]
fn the_place_follows_the_environment() {
    let base = |xdg: &str, home: &str| {
        let value = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        state_base(&|name| if name == "HOME" { value(home) } else { value(xdg) })
    };
    assert_eq!(base("/x", "/h").unwrap(), "/x/ralph");
    assert_eq!(base("relative", "/h").unwrap(), "/h/.local/state/ralph");
    assert!(matches!(base("", ""), Err(StateError::NoPlace)));
}

#[test]
fn locks_belong_to_a_home_whichever_workspace_it_is_used_from() {
    let bench = Bench::new();
    let (state, _) = bench.open();
    let other = State::at(&bench.base.join("another")).unwrap();
    let home = |path: &str| Home { path: path.into(), exists: true };
    assert_eq!(state.run_lock(&home("/a")), other.run_lock(&home("/a")));
    assert_ne!(state.run_lock(&home("/a")), state.run_lock(&home("/b")));
    assert_ne!(state.run_lock(&home("/a")), state.write_lock(&home("/a")));
    assert!(state.run_lock(&home("/a")).parent().unwrap().is_dir());
}

#[test]
fn only_runs_of_a_dead_ralph_are_left_over() {
    let bench = Bench::new();
    let (state, _) = bench.open();
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    let dead = ProcessIdentity::of(i32::try_from(child.id()).unwrap()).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let run = |run_id: &str, owner: ProcessIdentity| LiveRun {
        run_id: run_id.to_owned(),
        item: None,
        owner,
        guard: Some(ProcessIdentity::own()),
        scratch: None,
        started: now(),
        watch: None,
        events: None,
        free_locks: Vec::new(),
    };
    let record = state.live_record().unwrap();
    record.save(&run("a run with a name that is longer than the next one", dead.clone())).unwrap();
    record.save(&run("mine", ProcessIdentity::own())).unwrap();
    let dead_file = state.live_directory().join(format!("{}-{}.json", dead.pid, dead.start));
    let orphaned = run("orphaned", dead);
    fs::write(&dead_file, serde_json::to_vec(&orphaned).unwrap()).unwrap();
    fs::write(state.live_directory().join("damaged.json"), "{").unwrap();
    let leftovers = state.leftovers().unwrap();
    assert_eq!(leftovers.iter().map(|left| &left.run).collect::<Vec<_>>(), [&orphaned]);
    assert!(!state.live_directory().join("damaged.json").exists());
    leftovers[0].forget().unwrap();
    record.clear().unwrap();
    assert_eq!(state.leftovers().unwrap(), []);
    assert_eq!(state.live_directory().read_dir_utf8().unwrap().count(), 1, "the living one's");
    drop(record);
    assert_eq!(state.live_directory().read_dir_utf8().unwrap().count(), 0);
}

#[test]
fn the_record_of_a_run_whose_end_was_not_recorded_outlives_its_ralph() {
    let bench = Bench::new();
    let (state, _) = bench.open();
    let run = LiveRun {
        run_id: "open".to_owned(),
        item: None,
        owner: ProcessIdentity::own(),
        guard: None,
        scratch: None,
        started: now(),
        watch: None,
        events: None,
        free_locks: Vec::new(),
    };
    let records = || state.live_directory().read_dir_utf8().unwrap().count();
    let record = state.live_record().unwrap();
    record.save(&run).unwrap();
    drop(record);
    assert_eq!(records(), 1, "the next start records its end");
    let record = state.live_record().unwrap();
    record.save(&run).unwrap();
    record.clear().unwrap();
    drop(record);
    assert_eq!(records(), 0);
}

#[test]
fn session_totals_are_kept_and_a_damaged_one_is_none() {
    let bench = Bench::new();
    let (state, _) = bench.open();
    assert_eq!(state.session_total("codex", "s"), None);
    let usage = Usage { input: 5, ..Usage::default() };
    let total = SessionTotal { usage, cost_usd: Some(0.25), seen: now() };
    state.save_session_total("codex", "s", &total).unwrap();
    assert_eq!(state.session_total("codex", "s"), Some(total));
    assert_eq!(state.session_total("claude", "s"), None);
    for file in fs::read_dir(state.sessions()).unwrap() {
        fs::write(file.unwrap().path(), "{").unwrap();
    }
    assert_eq!(state.session_total("codex", "s"), None);
}

#[test]
fn the_oldest_sessions_are_forgotten() {
    let bench = Bench::new();
    let (state, _) = bench.open();
    for age in (0..=1100_i64).rev() {
        let seen = now() - jiff::SignedDuration::from_secs(age);
        let total = SessionTotal { usage: Usage::default(), cost_usd: None, seen };
        state.save_session_total("claude", &age.to_string(), &total).unwrap();
    }
    assert!(state.session_total("claude", "999").is_some());
    assert!(state.session_total("claude", "1000").is_none());
}

proptest! {
    #[test]
    fn any_name_becomes_a_file_of_its_own(name in "\\PC{0,120}") {
        let file = file_name(&name);
        prop_assert!(!file.is_empty() && file.len() < 120 && !file.starts_with('.'));
        prop_assert!(file.chars().all(|c| safe(c) == c));
        if !name.is_empty() {
            prop_assert_ne!(file_name(&format!("{name}/")), file);
        }
    }
}
