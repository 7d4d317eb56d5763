use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;

use camino::Utf8PathBuf;
use ralph_model::role::Role;
use rustix::fs::{CWD, FileType, Mode, OFlags, mkdirat, mknodat, openat};

use super::*;
use crate::boundary::Layers;
use crate::home::{Home, find_workspace};
use crate::state::{State, StateRequest};
use crate::test_place::Place as Directory;

/// A repository with a file, private state, and one watch after the other.
struct Bench {
    directory: Directory,
    state: State,
}

impl Bench {
    fn new() -> Bench {
        let directory = Directory::new();
        fs::create_dir(directory.root.join("work")).unwrap();
        let bench_git = |args: &[&str]| {
            directory
                .git(&[&["-C", "work", "-c", "user.name=p", "-c", "user.email=p@p"], args].concat())
        };
        bench_git(&["init", "-q", "-b", "main"]);
        directory.write("work/file", "first\n");
        bench_git(&["add", "file"]);
        bench_git(&["commit", "-q", "-m", "start"]);
        let workspace =
            find_workspace(Some(&directory.root.join("work")), &directory.root).unwrap();
        let home = Home { path: workspace.root.join("ralph"), exists: false };
        let base = directory.root.join("state");
        let request = StateRequest {
            base: &base,
            workspace: &workspace,
            home: &home,
            now: Timestamp::UNIX_EPOCH,
            root_commit: &|_| None,
        };
        let (state, _) = State::open(&request).unwrap();
        Bench { directory, state }
    }

    fn path(&self, name: &str) -> Utf8PathBuf {
        self.directory.root.join("work").join(name)
    }

    fn watch(&self, role: Role, in_force: InForce) -> Watch {
        let workspace = self.directory.root.join("work");
        let places = crate::boundary::repositories(&workspace);
        let writable =
            if role.writes_workspace() { vec![workspace.to_string()] } else { Vec::new() };
        Watch {
            in_slot: false,
            run: "run-1".to_owned(),
            role,
            in_force,
            home: None,
            home_inode: None,
            git_dirs: inodes(&places),
            refs: if role.writes_workspace() {
                super::super::note_refs(&places, Some(&program()))
            } else {
                Vec::new()
            },
            places,
            writable,
            guarded: Vec::new(),
            started: Timestamp::from_second(1_700_000_000).unwrap(),
            baseline: self.state.baseline(),
            baseline_length: 0,
            journal: 0,
            workspace,
        }
    }

    /// Takes a baseline, lets something happen, and settles.
    fn during(&self, watch: &Watch, happens: impl FnOnce()) -> BoundaryReport {
        let mut baseline = Baseline::new(watch.baseline.clone());
        watch.take(&mut baseline, &self.state, &program).unwrap();
        happens();
        watch.settle(&mut baseline, &self.state, &program, &|| ())
    }
}

fn program() -> GitProgram {
    let variables = [("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")];
    GitProgram::new("git", variables.map(|(name, value)| (name.into(), value.into())))
}

#[test]
fn nothing_is_found_where_nothing_happened_in_any_role_and_mode() {
    let bench = Bench::new();
    for role in Role::ALL {
        for in_force in [InForce::Kernel(Layers::LANDLOCK), InForce::Detect, InForce::Off] {
            let watch = bench.watch(role, in_force);
            let report = bench.during(&watch, || {});
            assert!(report.is_empty(), "{role} {in_force:?}: {report:?}");
        }
    }
}

#[test]
fn a_touched_file_is_no_change() {
    let bench = Bench::new();
    let report = bench.during(&bench.watch(Role::Planner, InForce::Detect), || {
        fs::write(bench.path("file"), "first\n").unwrap();
    });
    assert!(report.is_empty(), "{report:?}");
}

#[test]
fn with_the_kernel_a_touched_file_is_not_said_to_be_the_persons() {
    let bench = Bench::new();
    let during = |happens: &dyn Fn()| {
        bench.during(&bench.watch(Role::Planner, InForce::Kernel(Layers::LANDLOCK)), happens)
    };
    let report = during(&|| {
        let file = fs::File::options().append(true).open(bench.path("file")).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
    });
    assert!(report.is_empty(), "{report:?}");
    let report = during(&|| fs::write(bench.path("file"), "the person's\n").unwrap());
    assert_eq!(names(&report.kept), ["file"]);
}

#[test]
fn a_file_that_was_dirty_before_the_run_comes_back_as_it_was() {
    let bench = Bench::new();
    fs::write(bench.path("file"), "the person's\n").unwrap();
    fs::write(bench.path("untracked"), [0, 159, 146, 150]).unwrap();
    fs::set_permissions(bench.path("untracked"), fs::Permissions::from_mode(0o640)).unwrap();
    let report = bench.during(&bench.watch(Role::Planner, InForce::Detect), || {
        fs::write(bench.path("file"), "agent\n").unwrap();
        fs::remove_file(bench.path("untracked")).unwrap();
    });
    assert_eq!(report.violated(), ["file", "untracked"]);
    assert_eq!(fs::read(bench.path("file")).unwrap(), b"the person's\n");
    assert_eq!(fs::read(bench.path("untracked")).unwrap(), [0, 159, 146, 150]);
    let mode = fs::metadata(bench.path("untracked")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[test]
fn ignored_files_are_left_alone_by_the_rules_that_were_there_before() {
    let bench = Bench::new();
    fs::write(bench.path(".gitignore"), "target/\n*.log\n").unwrap();
    fs::create_dir(bench.path("target")).unwrap();
    fs::write(bench.path("target/old"), "1").unwrap();
    let report = bench.during(&bench.watch(Role::Verifier, InForce::Detect), || {
        fs::write(bench.path("target/old"), "2").unwrap();
        fs::write(bench.path("new.log"), "x").unwrap();
        fs::create_dir_all(bench.path("sub/target")).unwrap();
        fs::write(bench.path("sub/target/x"), "x").unwrap();
        fs::write(bench.path(".gitignore"), "*\n").unwrap();
        fs::write(bench.path("planted"), "x").unwrap();
    });
    assert_eq!(report.violated(), [".gitignore", "planted"]);
    assert!(bench.path("new.log").exists() && bench.path("sub/target/x").exists());
}

#[test]
fn what_a_build_left_between_two_runs_is_not_taken_for_the_persons_work() {
    let bench = Bench::new();
    fs::write(bench.path(".gitignore"), "target/\n*.log\n").unwrap();
    let watch = bench.watch(Role::Planner, InForce::Detect);
    let mut baseline = Baseline::new(watch.baseline.clone());
    watch.take(&mut baseline, &bench.state, &program).unwrap();
    assert!(watch.settle(&mut baseline, &bench.state, &program, &|| ()).is_empty());
    fs::create_dir(bench.path("target")).unwrap();
    fs::write(bench.path("target/built"), "a lot").unwrap();
    fs::write(bench.path("build.log"), "1").unwrap();
    fs::write(bench.path("note"), "the person's").unwrap();
    watch.take(&mut baseline, &bench.state, &program).unwrap();
    let log = String::from_utf8_lossy(&fs::read(&watch.baseline).unwrap()).into_owned();
    assert!(!log.contains("a lot") && log.contains("the person's"));
    fs::write(bench.path("target/built"), "more").unwrap();
    fs::write(bench.path("build.log"), "2").unwrap();
    fs::remove_file(bench.path("note")).unwrap();
    let report = watch.settle(&mut baseline, &bench.state, &program, &|| ());
    assert_eq!(report.violated(), ["note"]);
    assert_eq!(fs::read_to_string(bench.path("note")).unwrap(), "the person's");
    watch.take(&mut baseline, &bench.state, &program).unwrap();
    assert!(watch.settle(&mut baseline, &bench.state, &program, &|| ()).is_empty());
}

#[test]
fn what_the_harness_vouches_for_stays_and_what_follows_it_does_not() {
    let bench = Bench::new();
    let mut watch = bench.watch(Role::Builder, InForce::Kernel(Layers::LANDLOCK));
    let home = bench.path("ralph");
    fs::create_dir(&home).unwrap();
    let plan = home.join("plan.jsonl");
    fs::write(&plan, "one\n").unwrap();
    watch.home = Some(home.clone());
    let report = bench.during(&watch, || {
        vouch(&bench.state, &home, &plan, b"one\ntwo\n").unwrap();
        fs::write(&plan, "one\ntwo\n").unwrap();
    });
    assert!(report.is_empty(), "{report:?}");
    let report = bench.during(&watch, || fs::write(&plan, "one\nthree\n").unwrap());
    assert_eq!(report.violated(), ["ralph/plan.jsonl"]);
    assert_eq!(fs::read_to_string(&plan).unwrap(), "one\ntwo\n");
}

#[test]
fn a_branch_is_not_moved_back_over_commits_that_were_there_before_the_run() {
    let bench = Bench::new();
    let git = |args: &[&str]| {
        let who = ["-C", "work", "-c", "user.name=p", "-c", "user.email=p@p"];
        bench.directory.git(&[&who, args].concat())
    };
    let mut watch = bench.watch(Role::Planner, InForce::Detect);
    let report = bench.during(&watch, || {
        git(&["commit", "-q", "--allow-empty", "-m", "made during the run"]);
    });
    assert_eq!(report.violated(), ["refs/heads/main"]);
    assert_eq!(git(&["log", "--format=%s", "main"]), "start\n");
    // The run is said to begin in the future, so what is committed now was made before it.
    watch.started = Timestamp::from_second(4_000_000_000).unwrap();
    let report = bench.during(&watch, || {
        git(&["commit", "-q", "--allow-empty", "-m", "pulled"]);
    });
    assert_eq!(report.left.len(), 1, "{report:?}");
    assert_eq!(git(&["log", "--format=%s", "main"]), "pulled\nstart\n");
}

/// What is missing from a damaged baseline would count as added, and be put away.
#[test]
fn with_a_damaged_baseline_nothing_is_compared_and_that_is_said() {
    for damage in ["", "half", "zeros"] {
        let bench = Bench::new();
        let mut watch = bench.watch(Role::Planner, InForce::Detect);
        fs::write(bench.path("untracked"), "kept\n").unwrap();
        let mut baseline = Baseline::new(watch.baseline.clone());
        watch.take(&mut baseline, &bench.state, &program).unwrap();
        watch.baseline_length = baseline.length();
        let mut bytes = fs::read(&watch.baseline).unwrap();
        match damage {
            "" => bytes.clear(),
            "half" => bytes.truncate(bytes.len() / 2),
            _ => bytes.fill(0),
        }
        std::mem::forget(baseline);
        fs::write(&watch.baseline, bytes).unwrap();
        let settled = watch.settle_abandoned(None, &bench.state, &program, &|| ()).unwrap();
        assert_eq!(settled, None, "{damage}");
        assert_eq!(fs::read_to_string(bench.path("untracked")).unwrap(), "kept\n");
        assert_eq!(bench.state.untold().len(), 1, "{damage}");
    }
}

#[test]
fn a_baseline_can_be_read_by_another_process_also_if_its_end_is_torn() {
    let bench = Bench::new();
    let watch = bench.watch(Role::Planner, InForce::Detect);
    fs::write(bench.path("untracked"), "kept\n").unwrap();
    let mut baseline = Baseline::new(watch.baseline.clone());
    watch.take(&mut baseline, &bench.state, &program).unwrap();
    // As if its process had been killed: the file is not removed.
    std::mem::forget(baseline);
    let mut bytes = fs::read(&watch.baseline).unwrap();
    bytes.extend_from_slice(b"{\"path\":400,\"class\":\"tree\",\"kept\":\"nothing\"}\ncut sho");
    fs::write(&watch.baseline, bytes).unwrap();
    fs::write(bench.path("untracked"), "agent\n").unwrap();
    let report = watch.settle_abandoned(None, &bench.state, &program, &|| ()).unwrap().unwrap();
    assert_eq!(report.violated(), ["untracked"]);
    assert_eq!(fs::read_to_string(bench.path("untracked")).unwrap(), "kept\n");
    assert!(!watch.baseline.exists());
}

#[test]
fn a_directory_that_became_a_link_does_not_lead_the_harness_elsewhere() {
    let bench = Bench::new();
    fs::create_dir(bench.path("sub")).unwrap();
    fs::write(bench.path("sub/inner"), "mine\n").unwrap();
    let outside = bench.directory.root.join("outside");
    fs::create_dir(&outside).unwrap();
    let report = bench.during(&bench.watch(Role::Planner, InForce::Detect), || {
        fs::remove_dir_all(bench.path("sub")).unwrap();
        std::os::unix::fs::symlink(&outside, bench.path("sub")).unwrap();
    });
    assert!(report.left.is_empty(), "{report:?}");
    assert_eq!(fs::read_to_string(bench.path("sub/inner")).unwrap(), "mine\n");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn an_example_that_becomes_a_hook_is_caught_and_one_that_stays_an_example_is_nobodys_business() {
    let bench = Bench::new();
    let hooks = bench.path(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    for name in ["pre-commit.sample", "pre-push.sample"] {
        fs::write(hooks.join(name), "#!/bin/sh\n").unwrap();
    }
    let report =
        bench.during(&bench.watch(Role::Builder, InForce::Kernel(Layers::LANDLOCK)), || {
            fs::write(hooks.join("pre-push.sample"), "changed\n").unwrap();
            fs::rename(hooks.join("pre-commit.sample"), hooks.join("pre-commit")).unwrap();
        });
    assert_eq!(names(&report.put_back), [".git/hooks/pre-commit"]);
    assert!(!hooks.join("pre-commit").exists());
}

#[test]
fn beside_a_hook_that_may_call_them_examples_are_watched_like_hooks() {
    let bench = Bench::new();
    let hooks = bench.path(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    fs::write(hooks.join("pre-commit"), "exec .git/hooks/pre-commit.sample\n").unwrap();
    fs::write(hooks.join("pre-commit.sample"), "true\n").unwrap();
    let watch = bench.watch(Role::Builder, InForce::Kernel(Layers::LANDLOCK));
    for _ in 0..2 {
        let report = bench.during(&watch, || {
            fs::write(hooks.join("pre-commit.sample"), "evil\n").unwrap();
        });
        assert_eq!(names(&report.put_back), [".git/hooks/pre-commit.sample"]);
        assert_eq!(fs::read_to_string(hooks.join("pre-commit.sample")).unwrap(), "true\n");
    }
    // Also when another Ralph settles what a dead one left.
    let mut baseline = Baseline::new(watch.baseline.clone());
    watch.take(&mut baseline, &bench.state, &program).unwrap();
    std::mem::forget(baseline);
    fs::write(hooks.join("pre-commit.sample"), "evil\n").unwrap();
    let report = watch.settle_abandoned(None, &bench.state, &program, &|| ()).unwrap().unwrap();
    assert_eq!(names(&report.put_back), [".git/hooks/pre-commit.sample"]);
}

/// Closes a directory to everybody but those who know the names in it.
fn close(path: &Utf8PathBuf, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_hook_in_a_closed_directory_is_found() {
    for mode in [0o311, 0o555, 0o000] {
        for in_force in [InForce::Kernel(Layers::LANDLOCK), InForce::Detect] {
            let bench = Bench::new();
            let hooks = bench.path(".git/hooks");
            fs::create_dir_all(&hooks).unwrap();
            let report = bench.during(&bench.watch(Role::Builder, in_force), || {
                fs::write(hooks.join("pre-commit"), "#!/bin/sh\n").unwrap();
                close(&hooks, mode);
            });
            let names: Vec<&str> =
                report.put_back.iter().map(|found| found.path.as_str()).collect();
            assert_eq!(names, [".git/hooks", ".git/hooks/pre-commit"], "{mode:o} {in_force:?}");
            assert!(report.left.is_empty(), "{report:?}");
            assert!(!hooks.join("pre-commit").exists());
            assert_eq!(fs::metadata(&hooks).unwrap().permissions().mode() & 0o777, 0o755);
        }
    }
}

#[test]
fn a_closed_directory_that_was_not_there_is_put_away_whole() {
    // Root can read everything, so nothing is closed to it.
    if rustix::process::geteuid().is_root() {
        return;
    }
    let bench = Bench::new();
    let hooks = bench.path(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    let report = bench.during(&bench.watch(Role::Builder, InForce::Detect), || {
        fs::create_dir(hooks.join("new")).unwrap();
        fs::write(hooks.join("new/hook"), "x").unwrap();
        close(&hooks.join("new"), 0o311);
    });
    assert_eq!(report.violated(), [".git/hooks/new"], "{report:?}");
    assert!(!hooks.join("new").exists());
}

#[test]
fn a_closed_git_directory_is_opened_again() {
    let bench = Bench::new();
    let report = bench.during(&bench.watch(Role::Builder, InForce::Detect), || {
        fs::write(bench.path(".git/info/grafts"), "x").unwrap();
        close(&bench.path(".git/info"), 0o300);
        close(&bench.path(".git"), 0);
    });
    let names: Vec<&str> = report.put_back.iter().map(|found| found.path.as_str()).collect();
    assert_eq!(names, [".git", ".git/info", ".git/info/grafts"], "{report:?}");
}

#[test]
fn directories_too_deep_to_be_looked_at_are_put_away_whole() {
    let bench = Bench::new();
    let hooks = bench.path(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    let name = "d".repeat(250);
    let report = bench.during(&bench.watch(Role::Builder, InForce::Detect), || {
        let mut at = OwnedFd::from(fs::File::open(&hooks).unwrap());
        for _ in 0..20 {
            mkdirat(&at, &name, Mode::RWXU).unwrap();
            at = openat(&at, &name, OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
    });
    assert_eq!(report.violated().len(), 1, "{report:?}");
    assert!(!hooks.join(&name).exists(), "{report:?}");
}

#[test]
fn a_head_that_is_no_file_is_put_back_before_git_is_asked() {
    type Put = fn(&Utf8PathBuf);
    let odd: [(&str, Put); 3] = [
        ("none", |_| {}),
        ("a link", |head| std::os::unix::fs::symlink("config", head).unwrap()),
        ("a pipe", |head| mknodat(CWD, head.as_std_path(), FileType::Fifo, Mode::RWXU, 0).unwrap()),
    ];
    for (name, put) in odd {
        let bench = Bench::new();
        let head = bench.path(".git/HEAD");
        let before = fs::read_to_string(&head).unwrap();
        let report = bench.during(&bench.watch(Role::Builder, InForce::Detect), || {
            fs::remove_file(&head).unwrap();
            put(&head);
        });
        let names: Vec<&str> = report.put_back.iter().map(|found| found.path.as_str()).collect();
        assert_eq!(names, [".git/HEAD"], "{name}: {report:?}");
        assert!(report.left.is_empty() && report.violations.is_empty(), "{name}: {report:?}");
        assert_eq!(fs::read_to_string(&head).unwrap(), before, "{name}");
    }
}

#[test]
fn a_pipe_in_the_place_of_packed_refs_costs_no_ref() {
    let bench = Bench::new();
    bench.directory.git(&["-C", "work", "branch", "other"]);
    bench.directory.git(&["-C", "work", "pack-refs", "--all"]);
    let packed = bench.path(".git/packed-refs");
    let tip = bench.directory.git(&["-C", "work", "rev-parse", "other"]);
    let report = bench.during(&bench.watch(Role::Builder, InForce::Detect), || {
        fs::remove_file(&packed).unwrap();
        mknodat(CWD, packed.as_std_path(), FileType::Fifo, Mode::RWXU, 0).unwrap();
    });
    assert!(report.left.is_empty(), "{report:?}");
    assert_eq!(bench.directory.git(&["-C", "work", "rev-parse", "other"]), tip, "{report:?}");
}

#[test]
fn another_work_tree_is_not_led_to_other_settings_and_a_new_one_stays() {
    let bench = Bench::new();
    bench.directory.git(&["-C", "work", "worktree", "add", "-q", "../second", "-b", "second"]);
    let report = bench.during(&bench.watch(Role::Builder, InForce::Detect), || {
        fs::write(bench.path(".git/worktrees/second/commondir"), "/tmp/evil\n").unwrap();
        bench.directory.git(&["-C", "work", "worktree", "add", "-q", "../third", "-b", "third"]);
    });
    let names: Vec<&str> = report.put_back.iter().map(|found| found.path.as_str()).collect();
    assert_eq!(names, [".git/worktrees/second/commondir"], "{report:?}");
    assert!(bench.path(".git/worktrees/third/commondir").exists());
}

#[test]
fn a_repository_in_the_workspace_keeps_its_settings_and_a_new_one_runs_nothing() {
    let bench = Bench::new();
    let inner = |name: &str| {
        bench.directory.git(&["init", "-q", bench.path(name).as_str()]);
        bench.path(name)
    };
    for name in ["known", "led", "spare"] {
        inner(name);
    }
    fs::rename(bench.path("led/.git"), bench.path("led/repository")).unwrap();
    fs::write(bench.path("led/.git"), "gitdir: repository\n").unwrap();
    let report =
        bench.during(&bench.watch(Role::Builder, InForce::Kernel(Layers::LANDLOCK)), || {
            let evil = "[core]\n\tfsmonitor = evil\n";
            fs::write(bench.path("known/.git/config"), evil).unwrap();
            fs::write(bench.path("known/.git/hooks/post-checkout"), "#!/bin/sh\n").unwrap();
            fs::write(bench.path("led/repository/config"), evil).unwrap();
            fs::write(bench.path("led/.git"), "gitdir: ../spare/.git\n").unwrap();
            inner("plain");
            fs::write(inner("new").join(".git/config"), evil).unwrap();
            fs::write(inner("deep/er").join(".git/hooks/pre-commit"), "#!/bin/sh\n").unwrap();
            fs::create_dir(bench.path("linked")).unwrap();
            fs::write(bench.path("linked/.git"), "gitdir: /usr\n").unwrap();
        });
    let names: Vec<&str> = report.put_back.iter().map(|found| found.path.as_str()).collect();
    let expected = [
        "deep/er/.git/hooks/pre-commit",
        "known/.git/config",
        "known/.git/hooks/post-checkout",
        "led/.git",
        "led/repository/config",
        "linked/.git",
        "new/.git/config",
    ];
    assert_eq!(names, expected, "{report:?}");
    assert!(report.violations.is_empty() && report.left.is_empty(), "{report:?}");
    assert!(bench.path("plain/.git/config").exists());
    assert_eq!(fs::read_to_string(bench.path("led/.git")).unwrap(), "gitdir: repository\n");
}

#[test]
fn a_repository_in_a_closed_directory_is_not_passed_over() {
    // Root can read everything, so nothing is closed to it.
    if rustix::process::geteuid().is_root() {
        return;
    }
    let bench = Bench::new();
    let report = bench.during(&bench.watch(Role::Builder, InForce::Detect), || {
        bench.directory.git(&["init", "-q", bench.path("closed/inner").as_str()]);
        close(&bench.path("closed"), 0o311);
    });
    assert_eq!(report.violated(), ["closed"], "{report:?}");
    assert!(!bench.path("closed").exists());
}

#[test]
fn a_remote_that_is_described_in_a_file_is_put_away() {
    let bench = Bench::new();
    let report = bench.during(&bench.watch(Role::Builder, InForce::Detect), || {
        for name in [".git/remotes/origin", ".git/branches/other"] {
            fs::create_dir_all(bench.path(name).parent().unwrap()).unwrap();
            fs::write(bench.path(name), "URL: mirror.git\n").unwrap();
        }
    });
    let names: Vec<&str> = report.put_back.iter().map(|found| found.path.as_str()).collect();
    assert_eq!(names, [".git/branches/other", ".git/remotes/origin"], "{report:?}");
}
