//! Notifications: a person who is away is notified by their own command; a repository cannot set one.

use std::fs;

use serde_json::Value;

use crate::harness::Place;

/// Adds to the person's own configuration.
fn own_settings(place: &Place, more: &str) {
    let path = place.env.home().join(".config/ralph/config.toml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = fs::read_to_string(&path).unwrap_or_default();
    fs::write(&path, format!("{text}\n{more}\n")).unwrap();
}

fn with_spec(script: &str) -> Place {
    let place = Place::rehearsing(script);
    place.ralph(&["init", "--no-gates"]);
    fs::write(place.env.repo().join("ralph/specs/0001-x.md"), "# X\n\nAdd x.\n").unwrap();
    place.commit_all("a spec");
    place
}

#[test]
fn the_end_of_a_workflow_is_told_to_the_persons_command() {
    let place = with_spec("[planner]\nfinal I give up\n");
    let file = place.path("notice");
    let script = format!("cat >> {}", file.display());
    own_settings(
        &place,
        &format!(
            "[notify]\nafter = \"0s\"\nterminal = \"off\"\ncommand = [\"sh\", \"-c\", \"{script}\"]"
        ),
    );
    let finished = place.ralph(&["pipeline", "--max-attempts", "1"]);
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    let notice: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(notice["kind"], "failed", "{finished}");
}

#[test]
fn a_repository_cannot_set_a_notice() {
    let place = with_spec("[planner]\nfinal no\n");
    place.configure("[notify]\ncommand = [\"touch\", \"planted\"]\n");
    let finished = place.ralph(&["status"]);
    assert_eq!(finished.status.code(), Some(2), "{finished}");
    assert!(finished.stderr.contains("notify.command"), "{finished}");
    assert!(finished.stderr.contains("only your own configuration file"), "{finished}");
}

#[test]
fn a_notice_that_cannot_be_sent_is_a_note_and_changes_no_result() {
    let place = with_spec("[planner]\nfinal I give up\n");
    own_settings(
        &place,
        "[notify]\nafter = \"0s\"\nterminal = \"off\"\nwebhook = \"http://127.0.0.1:9/\"\n\
         command = [\"sh\", \"-c\", \"echo no network >&2; exit 4\"]",
    );
    let finished = place.ralph(&["pipeline", "--max-attempts", "1"]);
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    assert!(finished.stderr.contains("not sent: `sh` failed: no network"), "{finished}");
    assert!(finished.stderr.contains("not sent: webhook: curl"), "{finished}");
}

#[test]
fn a_wrong_setting_of_notices_is_named_with_its_place() {
    let place = with_spec("[planner]\nfinal no\n");
    let path = place.env.home().join(".config/ralph/config.toml");
    let before = fs::read_to_string(&path).unwrap_or_default();
    for (line, said) in [
        ("on = [\"never\"]", "unknown notice `never`; known: `question`"),
        ("terminal = \"loud\"", "`notify.terminal`: expected `auto`"),
        ("webhook = \"example.org\"", "`notify.webhook`: it must begin with `https://`"),
        ("after = \"soon\"", "expected a duration such as `90s`"),
    ] {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &before).unwrap();
        own_settings(&place, &format!("[notify]\n{line}"));
        let finished = place.ralph(&["status"]);
        assert_eq!(finished.status.code(), Some(2), "{finished}");
        assert!(finished.stderr.contains("config.toml:"), "{finished}");
        assert!(finished.stderr.contains(said), "{said}\n{finished}");
    }
}
