//! The auxiliary commands from a person's view: on a bare machine, on one with agents, in unusual directories.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::harness::{PATIENCE, Place, RALPH};
use crate::support::process::{Finished, run};
use crate::support::text;

/// A `PATH` with only git and a shell: no agent is installed there.
fn bare_path(place: &Place) -> String {
    let bin = place.path("bin");
    fs::create_dir_all(&bin).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    for program in ["git", "sh"] {
        let found = std::env::split_paths(&path).map(|directory| directory.join(program));
        let found = found.into_iter().find(|path| path.is_file()).unwrap();
        let _ = std::os::unix::fs::symlink(found, bin.join(program));
    }
    text(&bin)
}

/// Adds a program to the bare path that prints a version like an agent.
fn install(place: &Place, name: &str, says: &str) {
    let path = Path::new(&bare_path(place)).join(name);
    fs::write(&path, format!("#!/bin/sh\necho '{says}'\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs `ralph` on the bare path, in a directory.
fn bare(place: &Place, directory: &Path, args: &[&str]) -> Finished {
    let path = bare_path(place);
    let mut variables = place.variables();
    variables.retain(|(name, _)| name != "PATH");
    variables.push(("PATH".to_owned(), path));
    let script = "cd \"$1\" && shift && exec \"$@\"";
    let mut all = vec!["-c", script, "sh", directory.to_str().unwrap(), RALPH];
    all.extend_from_slice(args);
    run(&place.env, Path::new("/bin/sh"), &all, &variables, "", PATIENCE)
}

fn json(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{finished}"))
}

fn plain_place() -> Place {
    let place = Place::new();
    fs::remove_file(place.env.repo().join("ralph.toml")).unwrap();
    place
}

#[test]
fn init_on_a_bare_machine_makes_a_home_and_a_second_one_changes_nothing() {
    let place = plain_place();
    fs::write(
        place.env.repo().join("Cargo.toml"),
        "[package]\nname = \"x\"\nversion = \"0.1.0\"\n",
    )
    .unwrap();
    let first = bare(&place, &place.env.repo(), &["init", "--json"]);
    assert_eq!(first.status.code(), Some(0), "{first}");
    let report = json(&first);
    assert_eq!(report["agent"], Value::Null);
    assert_eq!(report["gates"][0][0], "cargo");
    let config = fs::read_to_string(place.env.repo().join("ralph.toml")).unwrap();
    assert!(place.env.repo().join("ralph/specs").is_dir());
    let status = place.env.git(&["status", "--porcelain"]);
    let second = bare(&place, &place.env.repo(), &["init", "--json"]);
    assert_eq!(json(&second)["created"], Value::Array(Vec::new()));
    assert_eq!(fs::read_to_string(place.env.repo().join("ralph.toml")).unwrap(), config);
    assert_eq!(place.env.git(&["status", "--porcelain"]), status);
    let shown = bare(&place, &place.env.repo(), &["config", "gate", "--json"]);
    assert_eq!(shown.status.code(), Some(0), "{shown}");
}

#[test]
fn init_picks_an_installed_agent_and_keeps_what_is_there() {
    let place = plain_place();
    install(&place, "claude", "2.1.325 (Claude Code)");
    fs::create_dir_all(place.env.repo().join("ralph/specs")).unwrap();
    fs::write(place.env.repo().join("ralph/SCRATCHPAD.md"), "mine").unwrap();
    let finished = bare(&place, &place.env.repo(), &["init", "--json"]);
    assert_eq!(json(&finished)["agent"], "claude", "{finished}");
    assert_eq!(fs::read_to_string(place.env.repo().join("ralph/SCRATCHPAD.md")).unwrap(), "mine");
    let config = fs::read_to_string(place.env.repo().join("ralph.toml")).unwrap();
    assert!(config.contains("\nagent = \"claude\"\n"), "{config}");
}

#[test]
fn init_outside_a_repository_warns_and_in_a_missing_directory_is_refused() {
    let place = plain_place();
    let outside = place.path("outside");
    fs::create_dir(&outside).unwrap();
    let finished = bare(&place, &outside, &["init"]);
    assert_eq!(finished.status.code(), Some(0), "{finished}");
    assert!(finished.to_string().contains("git init"), "{finished}");
    assert!(outside.join("ralph.toml").is_file());
    let missing = bare(&place, &outside, &["init", "no/such/place"]);
    assert_eq!(missing.status.code(), Some(2), "{missing}");
    assert!(missing.to_string().contains("no/such/place"), "{missing}");
}

#[test]
fn init_leaves_the_mailbox_of_another_tool_alone_and_says_so() {
    let place = plain_place();
    let foreign = place.env.repo().join(".ralph");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("task.md"), "somebody else's").unwrap();
    let finished = bare(&place, &place.env.repo(), &["init"]);
    assert_eq!(finished.status.code(), Some(0), "{finished}");
    assert!(finished.to_string().contains("mailbox"), "{finished}");
    assert_eq!(fs::read_dir(&foreign).unwrap().count(), 1);
}

#[test]
fn init_in_a_read_only_place_is_refused_and_leaves_nothing() {
    let place = plain_place();
    // Not even root can write here.
    let finished = bare(&place, Path::new("/proc/self"), &["init"]);
    assert_eq!(finished.status.code(), Some(2), "{finished}");
    assert!(finished.to_string().contains("error:"), "{finished}");
}

#[test]
fn doctor_tells_a_bare_machine_what_to_do_and_a_ready_one_that_it_is() {
    let place = plain_place();
    let bare_machine = bare(&place, &place.env.repo(), &["doctor", "--json"]);
    assert_eq!(bare_machine.status.code(), Some(1), "{bare_machine}");
    let findings = json(&bare_machine);
    let problems: Vec<&Value> =
        findings.as_array().unwrap().iter().filter(|row| row["status"] == "problem").collect();
    assert!(
        problems.iter().all(|row| row["area"] == "agents" && row["advice"].is_string()),
        "{problems:?}"
    );
    install(&place, "codex", "codex-cli 0.166.0");
    let ready = bare(&place, &place.env.repo(), &["doctor"]);
    assert_eq!(ready.status.code(), Some(0), "{ready}");
    assert!(ready.stdout.contains("0.166.0"), "{ready}");
    let (findings, conclusion) = ready.stdout.trim_end().rsplit_once("\n\n").unwrap();
    assert!(
        findings.lines().all(|line| line.starts_with("ok ")
            || line.starts_with("note ")
            || line.starts_with(' ')),
        "{ready}"
    );
    assert!(conclusion.starts_with("ready: "), "{ready}");
}

#[test]
fn doctor_works_anywhere_and_with_a_broken_configuration() {
    let place = plain_place();
    let outside = place.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("ralph.toml"), "agnet = \"codex\"\n[budget\n").unwrap();
    let finished = bare(&place, &outside, &["doctor"]);
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    assert!(finished.stdout.contains("ralph.toml:2"), "{finished}");
    fs::write(outside.join("ralph.toml"), "agnet = \"codex\"\n").unwrap();
    let finished = bare(&place, &outside, &["doctor"]);
    assert!(finished.stdout.contains("did you mean `agent`?"), "{finished}");
    let refused = bare(&place, &outside, &["agent", "run", "work"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(refused.to_string().contains("ralph.toml:1:1: unknown key `agnet`"), "{refused}");
}

#[test]
fn agent_list_shows_what_is_here_with_versions_and_roles() {
    let place = plain_place();
    install(&place, "codex", "codex-cli 0.166.0");
    install(&place, "gemini", "oops'; exit 3; echo '");
    fs::write(
        place.env.repo().join("ralph.toml"),
        "agent = \"codex\"\n[roles.verifier]\nagent = \"mine\"\n[agents.mine]\ncommand = [\"sh\"]\n\
         [agents.absent]\ncommand = [\"no-such-agent\"]\n",
    )
    .unwrap();
    let rows = json(&bare(&place, &place.env.repo(), &["agent", "list", "--json"]));
    let row = |name: &str| {
        rows.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap().clone()
    };
    assert_eq!(
        (&row("codex")["version"], &row("codex")["usable"]),
        (&Value::from("0.166.0"), &Value::from(true))
    );
    assert_eq!(row("claude")["path"], Value::Null);
    assert!(row("gemini")["problem"].as_str().unwrap().contains("exit 3"));
    assert_eq!(row("mine")["roles"], serde_json::json!(["verifier"]));
    assert_eq!((&row("mine")["usable"], &row("absent")["usable"]), (&true.into(), &false.into()));
    assert_eq!(row("absent")["problem"], "its program `no-such-agent` was not found");
    assert_eq!(row("rehearsal")["usable"], true);
    let refused = bare(&place, &place.env.repo(), &["agent", "run", "--agent", "absent", "work"]);
    assert!(refused.stderr.contains("`command` in [agents.absent]"), "{refused}");
}

#[test]
fn settings_are_shown_with_where_they_come_from() {
    let place = Place::new();
    place.configure(
        "model = \"m-1\"\nwritable = [\"~/.cache/mine\"]\n[agents.codex.env]\nAPI_KEY = \"hush\"\n",
    );
    let mut variables = place.variables();
    variables.push(("RALPH_TIMEOUT".to_owned(), "5m".to_owned()));
    let args = ["config", "--json"];
    let finished = run(&place.env, Path::new(RALPH), &args, &variables, "", PATIENCE);
    let rows = json(&finished);
    let row =
        |key: &str| rows.as_array().unwrap().iter().find(|row| row["key"] == key).unwrap().clone();
    assert!(row("model")["origin"].as_str().unwrap().ends_with("ralph.toml:5"), "{}", row("model"));
    assert_eq!(
        row("timeout"),
        serde_json::json!({"key": "timeout", "value": "5m", "origin": "$RALPH_TIMEOUT"})
    );
    assert_eq!(row("boundary")["origin"], "default");
    assert_eq!(row("limits.wait")["value"], true);
    assert_eq!(row("limits.repeats")["value"], 3);
    assert_eq!(row("writable")["value"], serde_json::json!(["~/.cache/mine"]));
    assert_eq!(row("agents.codex.env.API_KEY")["value"], "<set>");
    assert!(!finished.stdout.contains("hush"), "{finished}");
}

#[test]
fn a_run_in_a_linked_worktree_can_commit_under_the_kernel() {
    let place = Place::new();
    let linked = place.path("linked");
    place.env.git(&["worktree", "add", "-q", "-b", "side", linked.to_str().unwrap()]);
    let commit = "git commit -q --allow-empty -m made && echo committed";
    let variables = place.variables();
    let args = [
        "--root",
        linked.to_str().unwrap(),
        "agent",
        "run",
        "--boundary",
        "kernel",
        "--agent-cmd",
        commit,
        "go",
    ];
    let finished = run(&place.env, Path::new(RALPH), &args, &variables, "", PATIENCE);
    assert_eq!(finished.status.code(), Some(0), "{finished}");
    assert_eq!(place.env.git(&["log", "-1", "--format=%s", "side"]), "made");
}

#[test]
fn a_shell_completes_commands_specs_tasks_agents_and_roles() {
    let place = Place::new();
    place.configure("[agents.mine]\ncommand = [\"true\"]\n");
    fs::create_dir_all(place.env.repo().join("ralph/specs")).unwrap();
    fs::write(place.env.repo().join("ralph/specs/0001-greet.md"), "# Greet\n\nSay hello.\n")
        .unwrap();
    let plan = "{\"t\":\"spec\",\"spec\":\"s.md\"}\n{\"t\":\"task\",\"id\":\"t-aaaa\",\"spec\":\"s.md\",\"name\":\"one\",\"s\":\"p\"}\n";
    fs::write(place.env.repo().join("ralph/plan.jsonl"), plan).unwrap();
    let candidates = |words: &[&str]| {
        let mut variables = place.variables();
        let index = words.len() - 1;
        variables.push(("RALPH_COMPLETE".to_owned(), "bash".to_owned()));
        variables.push(("_CLAP_COMPLETE_INDEX".to_owned(), index.to_string()));
        variables.push(("_CLAP_IFS".to_owned(), "\n".to_owned()));
        let args: Vec<&str> = ["--"].into_iter().chain(words.iter().copied()).collect();
        let asked = run(&place.env, Path::new(RALPH), &args, &variables, "", PATIENCE);
        asked.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    for (words, expected) in [
        (&["ralph", "pip"][..], "pipeline"),
        (&["ralph", "pipeline", ""], "0001-greet"),
        (&["ralph", "specs", "show", "00"], "0001-greet"),
        (&["ralph", "build", ""], "0001-greet"),
        (&["ralph", "set-spec", ""], "0001-greet"),
        (&["ralph", "task", "done", ""], "t-aaaa"),
        (&["ralph", "pipeline", "--agent", ""], "mine"),
        (&["ralph", "sandbox", "--role", "ver"], "verifier"),
        (&["ralph", "agent", "run", "--boundary", ""], "strict"),
    ] {
        let found = candidates(words);
        assert!(found.iter().any(|word| word == expected), "{words:?}: {found:?}");
    }
    assert!(!place.path("state/ralph").exists(), "completing leaves nothing behind");
}

#[test]
fn help_completions_and_manual_come_for_every_command() {
    let place = Place::new();
    let help = place.ralph(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(help.stdout.contains("Exit codes: 0 done"), "{help}");
    for shell in ["bash", "zsh", "fish"] {
        let script = place.ralph(&["completions", shell]);
        assert!(script.stdout.contains("RALPH_COMPLETE"), "{shell}: {script}");
    }
    let manual = place.ralph(&["man"]);
    assert!(manual.stdout.contains(".TH ralph"), "{manual}");
    let pages = place.path("pages");
    assert_eq!(place.ralph(&["man", "--out", pages.to_str().unwrap()]).status.code(), Some(0));
    assert!(pages.join("ralph-agent-run.1").is_file());
    let wrong = place.ralph(&["docter"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(wrong.to_string().contains("'doctor'"), "{wrong}");
    // What is hardly like it, or hidden, is not suggested.
    for (typed, tip) in [
        (&["statsu"][..], Some("'status'")),
        (&["nosuch"], None),
        (&["run", "--foo"], None),
        (&["demo", "--foo"], None),
        (&["pipeline", "--max-attemps", "2"], Some("'--max-attempts'")),
    ] {
        let wrong = place.ralph(typed);
        assert_eq!(wrong.status.code(), Some(2), "{wrong}");
        let found =
            wrong.stderr.lines().find_map(|line| line.trim().strip_prefix("tip: a similar "));
        assert_eq!(found.and_then(|tip| tip.split_once(": ")).map(|(_, tip)| tip), tip, "{wrong}");
    }
    let none = place.ralph(&["pipeline", "--max-attempts", "0"]);
    assert!(none.stderr.contains("a whole number from 1 is expected"), "{none}");
    let closed = format!("{RALPH} config | head -n 1; exit ${{PIPESTATUS[0]}}");
    let finished =
        run(&place.env, Path::new("/bin/bash"), &["-c", &closed], &place.variables(), "", PATIENCE);
    assert_eq!(finished.status.code(), Some(0), "{finished}");
}

/// Every run would fail in the same way: all that is wrong is told at once, before any.
#[test]
fn a_script_that_cannot_be_played_is_refused_with_all_its_errors() {
    let place = Place::rehearsing("writ a b\nfinal ok\nfinel ok\n");
    let refused = place.ralph(&["agent", "run", "hello"]);
    assert_eq!(refused.status.code(), Some(2), "{refused}");
    for line in ["script:1: ", "script:3: "] {
        assert!(refused.stderr.contains(line), "{refused}");
    }
    let runs = place.ralph(&["runs", "--json"]);
    assert_eq!(runs.stdout.trim(), "[]", "{runs}");
}
