use std::fs;
use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;

use super::*;

fn program(directory: &Utf8Path, name: &str, script: &str) -> Utf8PathBuf {
    let path = directory.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn temp() -> (tempfile::TempDir, Utf8PathBuf) {
    let guard = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::from_path_buf(guard.path().to_owned()).unwrap();
    (guard, path)
}

#[test]
fn each_clis_way_of_telling_its_version_is_understood() {
    for (output, version) in [
        ("codex-cli 0.166.0\n", Some("0.166.0")),
        ("2.1.325 (Claude Code)\n", Some("2.1.325")),
        ("1.18.33\n", Some("1.18.33")),
        ("0.61.0\n", Some("0.61.0")),
        ("git version 2.47.3\n", Some("2.47.3")),
        ("warning: on fire.\nv1.2.3-rc.1+build\n", Some("1.2.3-rc.1+build")),
        ("agent (1.2)", Some("1.2")),
        ("one. two 3", None),
        ("1..2", None),
        ("", None),
    ] {
        assert_eq!(parse_version(output).as_deref(), version, "{output:?}");
    }
}

proptest! {
    #[test]
    fn a_version_is_found_among_any_words(words in prop::collection::vec("[a-z(]{0,9}", 0..5)) {
        let output = format!("{} 1.22.333 {}", words.join(" "), words.join("\n"));
        prop_assert_eq!(parse_version(&output), Some("1.22.333".to_owned()));
    }

    #[test]
    fn a_version_never_holds_what_a_terminal_would_obey(output in "\\PC{0,9}[\u{1b}0-9. v-]{0,30}") {
        if let Some(version) = parse_version(&output) {
            prop_assert!(version.chars().all(|c| c.is_ascii_graphic()));
        }
    }
}

#[test]
fn installed_agents_tell_their_version_and_broken_ones_their_problem() {
    let (_guard, directory) = temp();
    program(&directory, "good", "echo good-cli 1.2.3; pwd > \"$0.cwd\"");
    program(&directory, "broken", "echo 'no node here' >&2; exit 3");
    program(&directory, "mute", "exit 0");
    let candidates = ["good", "broken", "mute", "absent"]
        .map(|name| AgentCandidate { name: format!("{name}-agent"), program: name.to_owned() });
    let path_variable = format!("/nowhere:{directory}");
    let found = find_agents(&candidates, &|program| look_up_program(&path_variable, program));
    let by_name = |name: &str| found.iter().find(|agent| agent.program == name).unwrap();
    let good = FoundAgent {
        name: "good-agent".to_owned(),
        program: "good".to_owned(),
        path: Some(directory.join("good")),
        version: Some("1.2.3".to_owned()),
        problem: None,
    };
    assert_eq!(by_name("good"), &good);
    assert!(good.is_usable());
    assert_eq!(fs::read_to_string(directory.join("good.cwd")).unwrap(), "/\n");
    let problem = by_name("broken").problem.clone().unwrap();
    assert!(
        problem.starts_with("`--version` failed with exit 3: no node here; run `"),
        "{problem}"
    );
    assert!(by_name("mute").problem.clone().unwrap().starts_with("told no version"));
    assert_eq!((by_name("absent").path.as_ref(), by_name("absent").is_usable()), (None, false));
}

#[test]
fn an_agent_that_hangs_is_ended_and_named() {
    let (_guard, directory) = temp();
    let hangs = program(&directory, "hangs", "exec sleep 600");
    let problem = ask_version(&hangs, Duration::from_millis(100)).unwrap_err();
    assert!(problem.starts_with("did not tell its version within"), "{problem}");
    let gone = directory.join("gone");
    let problem = ask_version(&gone, PATIENCE).unwrap_err();
    assert!(problem.starts_with("cannot be started: "), "{problem}");
}

#[test]
fn programs_are_looked_up_in_absolute_directories_only() {
    let (_guard, directory) = temp();
    program(&directory, "agent", "");
    fs::write(directory.join("notes"), "").unwrap();
    let path_variable = format!(":.:{directory}");
    assert_eq!(look_up_program(&path_variable, "agent"), Some(directory.join("agent")));
    assert_eq!(look_up_program(&path_variable, "notes"), None);
    assert_eq!(look_up_program(".", "Cargo.toml"), None);
    let by_path = directory.join("agent");
    assert_eq!(look_up_program("", by_path.as_str()), Some(by_path.clone()));
}
