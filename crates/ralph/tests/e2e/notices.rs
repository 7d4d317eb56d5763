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
