//! The options and variables of other loops keep their meaning for goal-driven commands, and only for these.

use std::fs;

use super::{Desk, GOAL, MAPPER, NON_INTERACTIVE, draft, drafts_at_once, envelope};

const MAP: &str = "# Map\n\n## Next Topics\n- [ ] one\n- [ ] two\n- [ ] three\n";

fn desk(script: &str) -> Desk {
    let desk = Desk::new(script);
    desk.write("scripts/ralph/codebase_map.md", MAP);
    desk.write("scripts/ralph/prompt.md", "x\n");
    desk.commit_all("as other loops have it");
    desk
}

#[test]
fn variables_count_unless_something_was_typed() {
    let desk = desk(MAPPER);
    desk.exits_with(1, &["understand"], &[("MAX_ITERATIONS", "1")]);
    assert_eq!(runs(&desk), 1);
    desk.exits_with(0, &["understand", "5"], &[("MAX_ITERATIONS", "1")]);
    assert_eq!(runs(&desk), 3);
    let finished = desk.exits_with(2, &["understand"], &[("MAX_ITERATIONS", "-1")]);
    assert!(finished.stderr.contains("MAX_ITERATIONS"), "{finished}");
    let finished = desk.exits_with(2, &["understand"], &[("SLEEP_SECONDS", "soon")]);
    assert!(finished.stderr.contains("SLEEP_SECONDS"), "{finished}");
}

fn runs(desk: &Desk) -> usize {
    let log = desk.read("scripts/ralph/ralph.log");
    log.lines().filter(|line| line.contains("\"run_started\"")).count()
}

#[test]
fn agent_cmd_is_the_agent_of_goal_driven_commands_only() {
    let desk = Desk::new(&drafts_at_once());
    let answer = envelope(&[], &draft(&["FROM-CMD"]));
    let path = desk.place.path("answer.json");
    fs::write(&path, answer).unwrap();
    let command = format!("cat >/dev/null; cat {}", path.display());
    let args = [&["plan", GOAL][..], &NON_INTERACTIVE].concat();
    desk.exits_with(0, &args, &[("AGENT_CMD", &command)]);
    assert_eq!(desk.prd()["userStories"][0]["id"], "FROM-CMD");
    // `--agent` on the command line wins.
    let args = [&["plan", "another goal", "--agent", "rehearsal"][..], &NON_INTERACTIVE].concat();
    desk.exits_with(0, &args, &[("AGENT_CMD", &command)]);
    assert_eq!(desk.prd()["userStories"][0]["id"], "US-001");
    let shown = desk.exits_with(0, &["config", "agent_cmd"], &[("AGENT_CMD", &command)]);
    assert!(!shown.stdout.contains("answer.json"), "{shown}");
}

#[test]
fn the_prompt_file_tells_the_root() {
    let desk = Desk::new(MAPPER);
    desk.write("deep/scripts/ralph/codebase_map.md", MAP);
    desk.write("deep/scripts/ralph/own.md", "Map {{topic}} for me.\n");
    desk.write("deep/scripts/ralph/prompt.md", "x\n");
    let settings = desk.read("ralph.toml").replace("../script", "../../script");
    desk.write("deep/ralph.toml", &settings);
    desk.commit_all("a part");
    desk.exits_with(0, &["understand", "1"], &[("PROMPT_FILE", "deep/scripts/ralph/own.md")]);
    assert!(desk.read("deep/scripts/ralph/codebase_map.md").contains("- [x] one"));
    let runs = desk.path("deep/scripts/ralph/runs/understand");
    let run = fs::read_dir(runs).unwrap().next().unwrap().unwrap().path();
    let prompt = fs::read_to_string(run.join("mapper-attempt-1.prompt.md")).unwrap();
    assert!(prompt.starts_with("Map one for me.\n"), "{prompt}");
    let finished = desk.exits(2, &["understand", "--prompt", "nowhere.md", "--root", "deep"]);
    assert!(finished.stderr.contains("nowhere.md"), "{finished}");
}

#[test]
fn options_of_other_loops_are_understood() {
    let desk = desk(MAPPER);
    let args = [
        "understand",
        "1",
        "--branch",
        "ralph/understanding",
        "--allowed-paths",
        "a,b/",
        "--sleep",
        "0",
        "--ai-raw",
        "--ai-tool-mode",
        "full",
        "--ai-hide-final",
    ];
    let finished = desk.exits_with(
        0,
        &args,
        &[("RALPH_UI", "gum"), ("RALPH_BRANCH", ""), ("ALLOWED_PATHS", "")],
    );
    assert!(finished.stderr.contains("have no effect"), "{finished}");
    assert_eq!(desk.git(&["branch", "--list"]), "* main");
    // Other commands accept only Ralph's own values.
    let finished = desk.exits_with(2, &["config"], &[("RALPH_UI", "gum")]);
    assert!(finished.stderr.contains("ui.mode"), "{finished}");
}
