use std::fs;

use proptest::prelude::*;

use super::*;
use crate::test_place::Place;

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
        ("git version 2.39.5 (Apple Git-154)", Some("2.39.5")),
        ("git version 2.30.0.windows.1", Some("2.30.0.windows.1")),
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
    let place = Place::new();
    let directory = &place.root;
    place.program("good", "echo good-cli 1.2.3; pwd > \"$0.cwd\"");
    place.program("broken", "echo 'no node here' >&2; exit 3");
    place.program("mute", "exit 0");
    let candidates = ["good", "broken", "mute", "absent"]
        .map(|name| AgentCandidate { name: format!("{name}-agent"), program: name.to_owned() });
    let look_up = |program: &str| Some(directory.join(program)).filter(|path| path.is_file());
    let found = find_candidates(&candidates, &look_up);
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
    assert!(by_name("mute").problem.clone().unwrap().starts_with("reported no version"));
    assert_eq!((by_name("absent").path.as_ref(), by_name("absent").is_usable()), (None, false));
}

#[test]
fn an_agent_that_hangs_is_ended_and_named() {
    let place = Place::new();
    let directory = &place.root;
    let hangs = place.program("hangs", "exec sleep 600");
    let problem = ask_version(&hangs, Duration::from_millis(100)).unwrap_err();
    assert!(problem.starts_with("did not report its version within"), "{problem}");
    let gone = directory.join("gone");
    let problem = ask_version(&gone, PATIENCE).unwrap_err();
    assert!(problem.starts_with("cannot be started: "), "{problem}");
}

#[test]
fn the_agents_of_the_table_are_looked_for_under_the_programs_the_person_named() {
    let place = Place::new();
    let named = |config| {
        let known = known_agents(config).into_iter();
        known.map(|agent| (agent.name, agent.program)).collect::<Vec<_>>()
    };
    let pair = |name: &str, program: &str| (name.to_owned(), program.to_owned());
    let same = |name| pair(name, name);
    let usual = [same("codex"), same("claude"), same("opencode"), same("gemini")];
    assert_eq!(named(None), usual);
    place.write("ralph.toml", "agent = \"claude\"\n[agents.claude]\nexe = \"/opt/claude\"\n");
    let config = place.load(None).unwrap();
    let own = [same("codex"), pair("claude", "/opt/claude"), same("opencode"), same("gemini")];
    assert_eq!(named(Some(&config)), own);
}
