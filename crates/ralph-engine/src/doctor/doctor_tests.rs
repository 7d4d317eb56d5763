use std::fs;

use rustix::fs::{StatVfsMountFlags, statvfs};

use super::*;
use crate::config::{BoundaryMode, approximate_size};
use crate::home::find_workspace;
use crate::run::Environment;
use crate::test_place::{Place, installed_agent as agent, load_config};

fn support(landlock_abi: i32) -> Support {
    Support { landlock_abi, namespaces: ralph_proc::namespace::NamespaceSupport::default() }
}

impl Place {
    fn commit(&self) {
        self.git(&["config", "user.name", "A B"]);
        self.git(&["config", "user.email", "a@b.c"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "first"]);
    }

    fn examine(&self, agents: &[FoundAgent]) -> Vec<Finding> {
        self.examine_from(&self.root, agents)
    }

    fn examine_from(&self, root: &Utf8Path, agents: &[FoundAgent]) -> Vec<Finding> {
        let workspace = find_workspace(Some(root), root).unwrap();
        let config = load_config(root, None);
        let environment = Environment::inherited(std::env::vars_os());
        let look_up = |program: &str| {
            let found = environment.find_program(program, root.as_std_path())?;
            Utf8PathBuf::from_path_buf(found).ok()
        };
        examine(&Checkup {
            variables: (&[], &[]),
            trust: None,
            program: Utf8Path::new("/bin/ralph"),
            workspace: &workspace,
            config: config.as_ref(),
            agents,
            look_up: &look_up,
            traces: true,
            support: Support {
                namespaces: ralph_proc::namespace::NamespaceSupport::ALL,
                ..support(6)
            },
            private_state: Ok(&self.root.join("state/ralph")),
            temp: &self.root,
        })
    }
}

fn absent(name: &str) -> FoundAgent {
    FoundAgent { path: None, version: None, ..agent(name) }
}

/// Returns the findings of some areas that are not fine, as `area: what`.
fn troubles(findings: &[Finding]) -> Vec<String> {
    let troubles = findings.iter().filter(|finding| finding.status != FindingStatus::Ok);
    // The test does not depend on free disk space of the machine.
    let troubles = troubles.filter(|finding| !matches!(finding.area, Area::Disk | Area::Temp));
    troubles.map(|finding| format!("{}: {}", finding.area, finding.what)).collect()
}

fn find<'f>(findings: &'f [Finding], part: &str) -> &'f Finding {
    let mut matching = findings.iter().filter(|finding| finding.what.contains(part));
    let found = matching.next().unwrap_or_else(|| panic!("no `{part}` in {findings:#?}"));
    assert_eq!(matching.next(), None);
    found
}

#[test]
fn a_machine_that_is_ready_has_nothing_to_mend() {
    let place = Place::repository();
    place.commit();
    fs::create_dir_all(place.root.join("ralph/specs")).unwrap();
    let settings = "agent = \"codex\"\n[[gate]]\nname = \"t\"\nrun = [\"true\"]\n";
    fs::write(place.root.join("ralph.toml"), settings).unwrap();
    let mut findings = place.examine(&[agent("codex"), absent("claude")]);
    // The tests may run as root, which produces a note.
    findings.retain(|finding| !finding.what.starts_with("Ralph runs as root"));
    assert_eq!(troubles(&findings), [] as [&str; 0]);
    assert!(findings.iter().all(|finding| finding.advice.is_none() || finding.area == Area::Disk));
    find(&findings, "commits are made by A B <a@b.c>");
    find(&findings, "codex 1.2.3 at `/usr/bin/codex`");
    find(&findings, "all roles use `codex`");
    find(&findings, &format!("`{}` is a repository", place.root));
}

#[test]
fn every_problem_and_note_says_what_to_do() {
    let place = Place::new();
    fs::write(place.root.join("ralph.toml"), "agnet = 1\nboundary = \"none\"\n").unwrap();
    let findings = place.examine(&[absent("codex"), absent("claude")]);
    for finding in &findings {
        assert_eq!(finding.advice.is_some(), finding.status != FindingStatus::Ok, "{finding:?}");
    }
    assert_eq!(find(&findings, "is not a git repository").status, FindingStatus::Problem);
    let unknown = find(&findings, "unknown key `agnet`");
    assert!(unknown.what.contains("ralph.toml:1:1: "), "{unknown:?}");
    assert_eq!(find(&findings, "ralph.toml:2:").area, Area::Config);
    let none = find(&findings, "no agent CLI found");
    assert!(none.advice.as_ref().unwrap().contains("codex, claude"));
}

#[test]
fn a_missing_git_is_the_first_thing_said() {
    let place = Place::repository();
    let workspace = find_workspace(None, &place.root).unwrap();
    let error = ConfigError { problems: Vec::new() };
    let findings = examine(&Checkup {
        traces: true,
        program: Utf8Path::new("/bin/ralph"),
        workspace: &workspace,
        config: Err(&error),
        variables: (&[], &[]),
        trust: None,
        agents: &[],
        look_up: &|_| None,
        support: support(0),
        private_state: Err(&StateError::NoPlace),
        temp: &place.root.join("missing"),
    });
    assert_eq!(findings[0].what, "git was not found on PATH");
    assert_eq!(find(&findings, "private state").status, FindingStatus::Problem);
    assert_eq!(find(&findings, "temporary files cannot be made").status, FindingStatus::Problem);
}

#[test]
fn an_old_git_is_a_problem_and_a_silent_one_too() {
    let place = Place::new();
    let fake = place.root.join("git");
    let first = |script: &str| {
        place.program("git", script);
        let workspace = find_workspace(Some(&place.root), &place.root).unwrap();
        let checkup = Checkup {
            traces: true,
            program: Utf8Path::new("/bin/ralph"),
            workspace: &workspace,
            config: Err(&ConfigError { problems: Vec::new() }),
            variables: (&[], &[]),
            trust: None,
            agents: &[],
            look_up: &|_| Some(fake.clone()),
            support: support(0),
            private_state: Ok(&place.root),
            temp: &place.root,
        };
        let findings = examine(&checkup);
        (findings[0].status, findings[0].what.clone())
    };
    assert_eq!(
        first("echo git version 2.29.9"),
        (FindingStatus::Problem, format!("git 2.29.9 at `{fake}`"))
    );
    assert_eq!(first("echo git version 2.30.0.windows.1").0, FindingStatus::Ok);
    assert_eq!(first("echo git version 10.1").0, FindingStatus::Ok);
    assert_eq!(
        first("true"),
        (FindingStatus::Problem, format!("`{fake}` does not report its version"))
    );
}

#[test]
fn worktrees_subdirectories_and_empty_repositories_are_told_apart() {
    let place = Place::repository();
    let empty = place.examine(&[agent("codex")]);
    let finding = find(&empty, "no commits yet");
    assert_eq!((finding.area, finding.status), (Area::Git, FindingStatus::Problem));
    place.commit();
    place.git(&["worktree", "add", "-q", "linked"]);
    let linked = place.root.join("linked");
    find(&place.examine_from(&linked, &[]), &format!("`{linked}` is a linked worktree"));
    let inner = place.root.join("inner");
    fs::create_dir(&inner).unwrap();
    let expected = format!("`{inner}` is inside `{}`, a repository", place.root);
    find(&place.examine_from(&inner, &[]), &expected);
    let outer = Place::new();
    fs::rename(&place.root, outer.root.join("one")).unwrap();
    find(&outer.examine(&[]), "holds several repositories");
}

#[test]
fn the_agents_that_roles_name_must_be_there() {
    let place = Place::repository();
    let settings = "agent = \"codex\"\n[roles.verifier]\nagent = \"claude\"\n\
                    [roles.planner]\nagent = \"mine\"\n[roles.mapper]\nagent = \"rehearsal\"\n\
                    [agents.mine]\ncommand = [\"no-such-program-here\"]\n";
    fs::write(place.root.join("ralph.toml"), settings).unwrap();
    let problem = Some("hangs badly; run it".to_owned());
    let findings = place.examine(&[absent("codex"), FoundAgent { problem, ..agent("claude") }]);
    let claude = find(&findings, "claude at `/usr/bin/claude` hangs badly");
    assert_eq!(claude.advice.as_deref(), Some("run it"));
    for (part, status) in [
        ("builder: `codex`, but `codex` was not found", FindingStatus::Problem),
        ("verifier: `claude`, but it does not work", FindingStatus::Problem),
        ("planner: `mine`, but `no-such-program-here` was not found", FindingStatus::Problem),
        ("mapper: `rehearsal`", FindingStatus::Ok),
    ] {
        assert_eq!(find(&findings, part).status, status, "{part}");
    }
}

#[test]
fn the_mailbox_of_another_tool_is_a_problem() {
    let place = Place::repository();
    fs::create_dir(place.root.join(".ralph")).unwrap();
    fs::write(place.root.join(".ralph/theirs"), "x").unwrap();
    let findings = place.examine(&[]);
    let finding = find(&findings, "belongs to another tool");
    assert_eq!(finding.status, FindingStatus::Problem);
    assert!(finding.advice.as_ref().unwrap().contains("mailbox = "));
}

#[test]
fn a_boundary_is_told_for_every_kernel_and_setting() {
    use BoundaryMode::{Auto, Detect, Kernel, Off, Strict};
    use FindingStatus::{Note, Ok, Problem};
    let statuses = |landlock_abi, mode| -> Vec<_> {
        let findings = machine::examine_boundary(support(landlock_abi), mode);
        findings.iter().map(|finding| finding.status).collect()
    };
    for (abi, mode, expected) in [
        (0, Kernel, vec![Problem]),
        (0, Auto, vec![Note, Note]),
        (2, Kernel, vec![Problem]),
        (3, Auto, vec![Ok, Note, Note]),
        (3, Kernel, vec![Ok, Note, Note]),
        (3, Strict, vec![Ok, Note, Problem]),
        (0, Strict, vec![Problem]),
        (6, Kernel, vec![Ok, Ok, Note]),
        (6, Auto, vec![Ok, Ok, Note]),
        (6, Detect, vec![Note, Note]),
        (0, Detect, vec![Note, Note]),
        (6, Off, vec![Note]),
    ] {
        assert_eq!(statuses(abi, mode), expected, "{abi} {mode:?}");
    }
}

#[test]
fn a_disk_that_is_nearly_full_is_a_problem() {
    let place = Place::new();
    let mut space = statvfs(place.root.as_std_path()).unwrap();
    (space.f_frsize, space.f_files, space.f_favail) = (4096, 1 << 30, 1 << 20);
    space.f_flag = StatVfsMountFlags::empty();
    let judge = |space: &rustix::fs::StatVfs| machine::judge_space("it", &place.root, space);
    space.f_bavail = (1 << 30) / 4096;
    assert_eq!(judge(&space).status, FindingStatus::Ok);
    space.f_bavail -= 1;
    assert_eq!(judge(&space).status, FindingStatus::Problem);
    assert!(judge(&space).what.starts_with("1023.9 MiB free for it"), "{:?}", judge(&space));
    space.f_bavail = 1 << 30;
    space.f_favail = 9;
    assert!(judge(&space).what.contains("only 9 more files"));
    space.f_files = 0;
    assert_eq!(judge(&space).status, FindingStatus::Ok);
    space.f_flag = StatVfsMountFlags::RDONLY;
    assert!(judge(&space).what.contains("read-only"));
}

#[test]
fn sizes_are_never_rounded_up() {
    for (bytes, text) in [
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        ((1 << 30) - 1, "1023.9 MiB"),
        (3 << 29, "1.5 GiB"),
        (1 << 41, "2.0 TiB"),
    ] {
        assert_eq!(approximate_size(bytes), text);
    }
}

#[test]
fn a_state_directory_below_a_file_cannot_be_made() {
    let place = Place::repository();
    fs::write(place.root.join("state"), "x").unwrap();
    let findings = place.examine(&[]);
    let finding = find(&findings, "private state cannot be kept");
    assert_eq!((finding.area, finding.status), (Area::State, FindingStatus::Problem));
}

#[test]
fn who_merges_the_plan_is_told_where_home_asks_for_it() {
    let place = Place::new();
    place.git(&["init", "-q"]);
    place.commit();
    let told = |place: &Place| {
        let findings = place.examine(&[]);
        let found = findings.iter().find(|finding| finding.what.starts_with("plans are merged"));
        found.map(|finding| (finding.status, finding.what.clone()))
    };
    assert_eq!(told(&place), None);
    place.write("ralph/plan.jsonl", "");
    place.write("ralph/.gitattributes", &crate::plan_file::merge_driver::attributes());
    assert!(told(&place).unwrap().1.contains("line by line"));
    let environment = Environment::inherited(std::env::vars_os());
    let program = crate::git::GitProgram::new("git", environment.into_variables());
    let git = crate::git::Git::discover(program, &place.root).unwrap();
    crate::plan_file::merge_driver::install(&git, Utf8Path::new("/bin/other")).unwrap();
    assert!(told(&place).unwrap().1.contains("different program"));
    crate::plan_file::merge_driver::install(&git, Utf8Path::new("/bin/ralph")).unwrap();
    assert_eq!(told(&place).unwrap().0, FindingStatus::Ok);
    place.write(".git/index.lock", "");
    let findings = place.examine(&[]);
    assert_eq!(find(&findings, "index.lock").status, FindingStatus::Note);
}

#[test]
fn a_machine_that_does_not_let_gates_be_traced_is_noted() {
    assert_eq!(machine::examine_tracing(true).status, FindingStatus::Ok);
    let refused = machine::examine_tracing(false);
    assert_eq!(refused.status, FindingStatus::Note);
    assert!(refused.advice.is_some_and(|advice| advice.contains("ptrace")));
}
