use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::home::find_workspace;
use crate::test_place::{Place, installed_agent as agent};

impl Place {
    fn plan_with(&self, home: Option<&str>, agents: &[FoundAgent]) -> Result<InitPlan, InitError> {
        let workspace = find_workspace(Some(&self.root), &self.root).unwrap();
        let config = self.load(home);
        plan_init(&InitRequest {
            workspace: &workspace,
            config: config.as_ref(),
            as_written: None,
            agents,
        })
    }

    fn plan(&self) -> InitPlan {
        self.plan_with(None, &[agent("codex"), agent("claude")]).unwrap()
    }

    /// All files and directories, with their contents.
    fn listing(&self) -> Vec<(Utf8PathBuf, Option<Vec<u8>>)> {
        let mut listing = Vec::new();
        let mut open = vec![self.root.clone()];
        while let Some(directory) = open.pop() {
            for entry in directory.read_dir_utf8().unwrap() {
                let path = entry.unwrap().into_path();
                let content = fs::read(&path).ok();
                if path.is_dir() {
                    open.push(path.clone());
                }
                listing.push((path, content));
            }
        }
        listing.sort();
        listing
    }
}

fn created(steps: &[InitStep], root: &Utf8Path) -> Vec<String> {
    let created = steps.iter().filter(|step| step.outcome == StepOutcome::Created);
    created.map(|step| relative(root, &step.path)).collect()
}

#[test]
fn a_fresh_repository_gets_a_home_and_settings_that_load() {
    let place = Place::repository();
    place.write("Cargo.toml", "[package]\nname = \"x\"\n");
    place.write("src/lib.rs", "#[test]\nfn t() {}\n");
    place.write("package.json", r#"{"scripts": {"lint": "eslint ."}}"#);
    let plan = place.plan();
    assert_eq!(plan.notes, []);
    let steps = perform(&plan).unwrap();
    let expected = [
        "ralph/specs/README.md",
        "ralph/specs/plans/.gitkeep",
        "ralph/specs/candidates/.gitkeep",
        "ralph/specs/done/.gitkeep",
        "ralph/specs/sessions",
        "ralph/SCRATCHPAD.md",
        "ralph/prd.json",
        "ralph/progress.txt",
        "ralph/prompt.md",
        "ralph/understand_prompt.md",
        "ralph/codebase_map.md",
        "ralph/.gitignore",
        "ralph/.gitattributes",
        "ralph.toml",
    ];
    assert_eq!(created(&steps, &place.root), expected);
    let config = place.load(None).unwrap();
    let choice = config.agent_for(ralph_model::role::Role::Implementer);
    assert_eq!(choice.name, "codex");
    let gates: Vec<_> = config.gates.iter().map(|gate| (&gate.name[..], gate.fast)).collect();
    assert_eq!(gates, [("tests", false), ("lint", true)]);
    assert_eq!(config.gates[0].run, ["cargo", "test"]);
    assert_eq!(config.checkout.setup, [["cargo", "fetch"]]);
    assert_eq!(config.checkout.cache, ["target"]);
    let text = place.read("ralph.toml");
    assert!(text.contains("# `Cargo.toml` is a cargo package\n[[gate]]\nname = \"tests\"\n"));
    assert!(text.contains("# Also found here: claude.\n"));
}

#[test]
fn what_home_ignores_is_what_git_ignores() {
    let place = Place::repository();
    perform(&place.plan()).unwrap();
    for path in ["ralph/runs/x/a.log", "ralph/ralph.log", "ralph/specs/sessions/1.json"] {
        place.write(path, "x");
    }
    place.git(&["add", "-A"]);
    let tracked = place.git(&["ls-files"]);
    let expected = [
        "ralph.toml",
        "ralph/.gitattributes",
        "ralph/.gitignore",
        "ralph/SCRATCHPAD.md",
        "ralph/codebase_map.md",
        "ralph/prd.json",
        "ralph/progress.txt",
        "ralph/prompt.md",
        "ralph/specs/README.md",
        "ralph/specs/candidates/.gitkeep",
        "ralph/specs/done/.gitkeep",
        "ralph/specs/plans/.gitkeep",
        "ralph/understand_prompt.md",
    ];
    assert_eq!(tracked.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_second_time_changes_nothing() {
    let place = Place::repository();
    place.write("Makefile", "test:\n");
    perform(&place.plan()).unwrap();
    let before = place.listing();
    let plan = place.plan();
    assert_eq!(plan.notes, []);
    let steps = perform(&plan).unwrap();
    assert!(steps.iter().all(|step| step.outcome == StepOutcome::Kept));
    assert_eq!(place.listing(), before);
}

#[test]
fn what_is_there_is_kept_and_what_differs_is_told() {
    let place = Place::repository();
    place.write("scripts/ralph/prd.json", "{}");
    place.write("scripts/ralph/.gitignore", "/runs\n");
    place.write("scripts/ralph/specs/done/0001-a.md", "done");
    let settings = "[[gate]]\nname = \"tests\"\nrun = [\"cargo\", \"nextest\", \"run\"]\n";
    place.write("ralph.toml", settings);
    place.write("Cargo.toml", "[workspace]\n");
    place.write("a/src/lib.rs", "#[test]\nfn t() {}\n");
    let plan = place.plan();
    assert_eq!(plan.home, place.root.join("scripts/ralph"));
    let notes: Vec<_> = plan.notes.iter().map(ToString::to_string).collect();
    let ignore = place.root.join("scripts/ralph/.gitignore");
    let prd = place.root.join("scripts/ralph/prd.json");
    let expected = [
        format!(
            "`{ignore}` is kept, but does not ignore `ralph.log`, `specs/sessions/`, `.*.ralph-tmp`"
        ),
        format!(
            "`{prd}` is kept, but is not a valid PRD: Missing required keys: branchName, userStories"
        ),
        "`ralph.toml` is kept, without a gate for the tests (`Cargo.toml` is a cargo workspace)"
            .to_owned(),
        "`ralph.toml` is kept, without the set-up `cargo fetch`".to_owned(),
        "`ralph.toml` is kept, without the cache `target`".to_owned(),
    ];
    assert_eq!(notes, expected);
    assert!(plan.notes[1].hint().unwrap().contains("ralph prd import"));
    let hint = plan.notes[2].hint().unwrap();
    assert!(hint.contains(r#"run = ["cargo", "test", "--workspace"]"#), "{hint}");
    let steps = perform(&plan).unwrap();
    assert!(!created(&steps, &place.root).contains(&"ralph.toml".to_owned()));
    assert!(!place.root.join("ralph").exists());
    assert!(!place.root.join("scripts/ralph/specs/done/.gitkeep").exists());
    assert_eq!(place.read("ralph.toml"), settings);
    assert_eq!(place.read("scripts/ralph/.gitignore"), "/runs\n");
    assert_eq!(place.read("scripts/ralph/prd.json"), "{}");
}

#[test]
fn settings_that_do_not_load_are_kept_and_their_problems_told() {
    let place = Place::repository();
    place.write("ralph.toml", "agnet = \"codex\"\n");
    let plan = place.plan();
    let [InitNote::ConfigProblem { problem }] = &plan.notes[..] else { panic!("{plan:?}") };
    assert!(problem.contains("ralph.toml:1:1: unknown key `agnet`; did you mean `agent`?"));
    perform(&plan).unwrap();
    assert_eq!(place.read("ralph.toml"), "agnet = \"codex\"\n");
}

#[test]
fn a_machine_without_agents_and_a_project_without_checks_are_set_up_too() {
    let place = Place::repository();
    let absent = FoundAgent { path: None, version: None, ..agent("codex") };
    let broken = FoundAgent { problem: Some("hangs".to_owned()), ..agent("claude") };
    let plan = place.plan_with(None, &[absent, broken]).unwrap();
    let names = vec!["codex".to_owned(), "claude".to_owned()];
    assert_eq!(plan.notes, [InitNote::NoAgent { names }, InitNote::NoChecks]);
    perform(&plan).unwrap();
    let config = place.load(None).unwrap();
    assert!(config.gates.is_empty());
    let settings = place.read("ralph.toml");
    assert!(settings.contains("\n# agent = \"codex\"\n"));
    // A person may put an agent with its table in its place.
    let own = "agent = \"rehearsal\"\n\n[agents.rehearsal]\nscript = \"rehearsal.txt\"\n";
    place.write("ralph.toml", &settings.replace("# agent = \"codex\"\n", own));
    place.load(None).unwrap();
}

#[test]
fn outside_a_repository_it_works_and_says_so() {
    let place = Place::new();
    place.write("Makefile", "test:\n");
    let plan = place.plan();
    assert_eq!(plan.notes, [InitNote::NotARepository { root: place.root.clone() }]);
    assert!(plan.notes[0].hint().unwrap().contains("git init"));
    perform(&plan).unwrap();
    assert!(place.load(None).is_ok());
}

#[test]
fn the_mailbox_of_another_tool_is_left_alone_and_ours_moved() {
    let place = Place::repository();
    place.write("Makefile", "test:\n");
    place.write(".ralph/agent.yml", "theirs");
    let plan = place.plan();
    let path = place.root.join(".ralph");
    let moved = Some(".ralph-mailbox".to_owned());
    assert_eq!(plan.notes, [InitNote::ForeignMailbox { path: path.clone(), moved }]);
    perform(&plan).unwrap();
    assert_eq!(place.load(None).unwrap().mailbox, place.root.join(".ralph-mailbox"));
    assert_eq!(path.read_dir_utf8().unwrap().count(), 1);
    assert_eq!(place.plan().notes, []);
    place.write("ralph.toml", "[[gate]]\nname = \"t\"\nrun = [\"make\", \"test\"]\n");
    let plan = place.plan();
    assert_eq!(plan.notes, [InitNote::ForeignMailbox { path, moved: None }]);
    assert!(plan.notes[0].hint().unwrap().contains("mailbox = "));
}

#[test]
fn a_home_somewhere_else_is_written_down() {
    let place = Place::repository();
    place.write("Makefile", "test:\n");
    let plan = place.plan_with(Some("tools/harness"), &[agent("codex")]).unwrap();
    perform(&plan).unwrap();
    assert_eq!(place.load(None).unwrap().home, Some(place.root.join("tools/harness")));
    assert!(place.root.join("tools/harness/specs/README.md").is_file());
}

#[test]
fn a_directory_that_is_no_home_yet_keeps_what_it_holds() {
    let place = Place::repository();
    place.write("Makefile", "test:\n");
    place.write("ralph/__init__.py", "code");
    let plan = place.plan();
    let path = place.root.join("ralph");
    assert_eq!(plan.notes, [InitNote::HomeHasOtherFiles { path }]);
    perform(&plan).unwrap();
    assert_eq!(place.read("ralph/__init__.py"), "code");
}

#[test]
fn a_file_where_home_should_be_is_named_and_kept() {
    let place = Place::repository();
    place.write("ralph", "#!/bin/sh\n");
    let before = place.listing();
    let error = perform(&place.plan()).unwrap_err();
    let path = place.root.join("ralph");
    assert_eq!(error.to_string(), format!("`{path}` exists and is not a directory"));
    assert!(error.hint().unwrap().contains("--home"));
    assert_eq!(place.listing(), before);
}

#[test]
fn a_read_only_directory_is_one_error_and_stays_as_it_was() {
    let place = Place::repository();
    fs::set_permissions(&place.root, fs::Permissions::from_mode(0o555)).unwrap();
    // Permissions do not restrict root, so for root the directory is read-only in another way.
    let is_root = rustix::process::geteuid().is_root();
    let root = if is_root { Utf8PathBuf::from("/proc/self") } else { place.root.clone() };
    let workspace = Workspace { root: root.clone(), kind: WorkspaceKind::Plain };
    let config = place.load(None);
    let request = InitRequest {
        workspace: &workspace,
        config: config.as_ref(),
        as_written: None,
        agents: &[],
    };
    let result = perform(&plan_init(&request).unwrap());
    fs::set_permissions(&place.root, fs::Permissions::from_mode(0o755)).unwrap();
    let error = result.unwrap_err();
    if !is_root {
        assert_eq!(error.to_string(), format!("`{root}` cannot be written to"));
        assert!(error.hint().is_some());
    }
    assert!(!root.join("ralph").exists() && !root.join("ralph.toml").exists());
}

#[test]
fn a_set_up_that_fails_half_way_takes_back_what_it_made() {
    let place = Place::repository();
    let mut plan = place.plan();
    let last = plan.items.last_mut().unwrap();
    last.path = place.root.join("ralph").join("x".repeat(300));
    let before = place.listing();
    let error = perform(&plan).unwrap_err();
    assert!(error.to_string().starts_with("cannot create `"), "{error}");
    assert_eq!(place.listing(), before);
}

#[test]
fn a_file_that_appears_after_the_plan_is_kept() {
    let place = Place::repository();
    let plan = place.plan();
    place.write("ralph.toml", "# mine\n");
    let steps = perform(&plan).unwrap();
    assert_eq!(steps.last().unwrap().outcome, StepOutcome::Kept);
    assert_eq!(place.read("ralph.toml"), "# mine\n");
}
