//! Usage limits of plain commands: their owners, clearing them, and how often they are waited for. Also the messages
//! about a failing command.

use std::fs;

use crate::harness::Place;

const LIMITED: &str = "cat >/dev/null; echo run >> count; echo 'rate limit exceeded, try again in 20 minutes'; exit 1";

fn count(place: &Place) -> usize {
    let text = fs::read_to_string(place.env.repo().join("count")).unwrap_or_default();
    text.lines().count()
}

#[test]
fn a_limit_belongs_to_its_command_and_can_be_ignored_or_cleared() {
    let place = Place::new();
    let run = |command: &str, more: &[&str]| {
        place.ralph(&[&["agent", "run", "--no-wait", "--agent-cmd", command, "x"], more].concat())
    };
    assert_eq!(run(LIMITED, &[]).status.code(), Some(1));
    assert_eq!(run(LIMITED, &[]).status.code(), Some(1));
    assert_eq!(count(&place), 1, "the limit is remembered");
    let other = run("cat >/dev/null; echo fine", &[]);
    assert_eq!(other.status.code(), Some(0), "{other}");
    run(LIMITED, &["--ignore-limit"]);
    assert_eq!(count(&place), 2);
    run(LIMITED, &[]);
    assert_eq!(count(&place), 2, "it is met and remembered again");
    let listed = place.ralph(&["limits"]);
    assert!(listed.stdout.contains("command ("), "{listed}");
    let cleared = place.ralph(&["limits", "clear"]);
    assert!(cleared.stdout.contains("cleared: command ("), "{cleared}");
    assert!(place.ralph(&["limits"]).stdout.contains("no usage limit"));
    assert!(place.ralph(&["limits", "clear"]).stdout.contains("no usage limit"));
    run(LIMITED, &[]);
    assert_eq!(count(&place), 3);
}

#[test]
fn a_report_that_speaks_of_a_limit_is_not_waited_for_without_end() {
    let place = Place::new();
    let config = "limits.margin = \"0s\"\nlimits.max_wait = \"1ms\"\n";
    fs::write(place.env.repo().join("ralph.toml"), config).unwrap();
    let command = "cat >/dev/null; echo run >> count; echo 'fixed: Too Many Requests'; exit 1";
    let finished = place.ralph(&["agent", "run", "--agent-cmd", command, "x"]);
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    assert_eq!(count(&place), 11, "{finished}");
}

#[test]
fn phrases_of_the_configuration_are_limits() {
    let place = Place::new();
    let command = "cat >/dev/null; echo 'no more fuel'; exit 1";
    place.more(&format!(
        "[agents.mine]\ncommand = [\"sh\", \"-c\", \"{command}\"]\nlimit_patterns = [\"No more FUEL\"]\n"
    ));
    let finished = place.ralph(&["--trust", "agent", "run", "--no-wait", "--agent", "mine", "x"]);
    assert!(finished.to_string().contains("usage limit"), "{finished}");
}

#[test]
fn a_commands_state_is_created_and_a_refused_path_is_named() {
    let place = Place::new();
    let agent = |more: &str| {
        place.configure(&format!(
            "[agents.mine]\ncommand = [\"sh\", \"-c\", \"cat >/dev/null; mkdir -p $HOME/.mine/x && echo fine\"]\n{more}"
        ));
        place.agent_run(&["--trust", "--boundary", "kernel", "--agent", "mine"])
    };
    let refused = agent("");
    let said = refused.json["advice"].to_string();
    assert!(said.contains("state = [\\\"~/.mine\\\"]"), "{said} {}", refused.finished);
    let granted = agent("state = [\"~/.mine\"]\n");
    assert_eq!(granted.outcome(), "completed", "{}", granted.finished);
}

#[test]
fn a_program_that_was_not_found_is_named_as_that() {
    let place = Place::new();
    let report = place.agent_run(&["--agent-cmd", "nosuchprogram"]);
    assert!(report.json["advice"].to_string().contains("program not found"));
    assert!(report.finished.to_string().contains("nosuchprogram"), "{}", report.finished);
}

#[test]
fn the_final_message_is_read_from_where_the_configuration_says() {
    let place = Place::new();
    let said = r#"cat >/dev/null; echo noise; echo '{\"result\":\"all done\"}'"#;
    place.configure(&format!(
        "[agents.mine]\ncommand = [\"sh\", \"-c\", \"{said}\"]\nfinal = \"json:result\"\n"
    ));
    let report = place.agent_run(&["--trust", "--agent", "mine"]);
    assert_eq!(report.json["final_message"], "all done", "{}", report.finished);
}
