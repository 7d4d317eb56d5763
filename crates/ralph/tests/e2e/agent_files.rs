//! Agents' own directories: data is kept, everything that could be executed later is reverted.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::Value;

use crate::harness::{Place, Report};

/// Creates a fake CLI that runs `script` in its state directory.
fn agent(name: &str, state: &str, script: &str, last: &str) -> (Place, PathBuf) {
    let place = Place::new();
    let directory = place.env.home().join(state);
    fs::create_dir_all(&directory).unwrap();
    let program = place.path(name);
    let text = format!(
        "#!/bin/sh\ncat >/dev/null\n(cd '{}' && {script}) || exit 1\necho '{last}'\n",
        directory.display()
    );
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    place.configure(&format!("agent = \"{name}\"\n[agents.{name}]\nexe = \"../{name}\"\n"));
    (place, directory)
}

const CLAUDE: &str =
    r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s"}"#;
const CODEX: &str = r#"{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}"#;

fn put_back(report: &Report) -> Vec<String> {
    let list = report.json["changes"]["put_back"].as_array().unwrap().iter();
    let name = |found: &Value| {
        let path = found["path"].as_str().unwrap();
        path.rsplit_once("/.").map_or(path, |(_, rest)| rest).to_owned()
    };
    list.map(name).collect()
}

#[test]
fn whatever_a_run_plants_beside_data_is_put_back_and_named() {
    let script = "mkdir -p plugins/evil local skills/x projects/w shell-snapshots \
         && echo evil >plugins/evil/hook.sh && echo evil >local/claude && echo evil >skills/x/SKILL.md \
         && echo evil >>CLAUDE.md && echo evil >.env && rm statusline.sh \
         && echo data >projects/w/s.jsonl && echo data >history.jsonl && echo x >shell-snapshots/a.sh";
    let (place, directory) = agent("claude", ".claude", script, CLAUDE);
    fs::write(directory.join("CLAUDE.md"), "mine\n").unwrap();
    fs::write(directory.join("statusline.sh"), "mine\n").unwrap();
    let report = place.agent_run(&["--role", "planner"]);
    assert_eq!(report.outcome(), "completed", "{}", report.finished);
    let expected = [
        "claude/.env",
        "claude/CLAUDE.md",
        "claude/local/claude",
        "claude/plugins/evil/hook.sh",
        "claude/skills/x/SKILL.md",
        "claude/statusline.sh",
    ];
    let mut found = put_back(&report);
    for name in found.iter_mut().filter(|name| *name == "env") {
        *name = "claude/.env".to_owned();
    }
    found.sort();
    assert_eq!(found, expected, "{}", report.finished);
    for (name, content) in [("CLAUDE.md", "mine\n"), ("statusline.sh", "mine\n")] {
        assert_eq!(fs::read_to_string(directory.join(name)).unwrap(), content);
    }
    for name in ["plugins/evil/hook.sh", "local/claude", "skills/x/SKILL.md", ".env"] {
        assert!(!directory.join(name).exists(), "{name}");
    }
    // Data is kept; files the program writes by itself are not reported.
    assert!(
        directory.join("projects/w/s.jsonl").exists() && directory.join("history.jsonl").exists()
    );
    assert!(!directory.join("shell-snapshots/a.sh").exists());
}

#[test]
fn what_a_program_writes_by_itself_is_not_reported() {
    let script = "mkdir -p sessions skills/.system/x tmp && echo '[projects.\"/w\"]' >>config.toml \
         && echo 'trust_level = \"trusted\"' >>config.toml && echo x >skills/.system/x/SKILL.md \
         && echo x >tmp/x && echo data >sessions/s.jsonl && echo data >state_5.sqlite";
    let (place, directory) = agent("codex", ".codex", script, CODEX);
    fs::write(directory.join("config.toml"), "model = \"m\"\n").unwrap();
    for _ in 0..2 {
        let report = place.agent_run(&[]);
        let said = &report.finished;
        assert_eq!(put_back(&report), [""; 0], "{said}");
        assert!(!said.stderr.contains("[boundary]"), "{said}");
        assert_eq!(fs::read_to_string(directory.join("config.toml")).unwrap(), "model = \"m\"\n");
        assert!(
            directory.join("sessions/s.jsonl").exists()
                && directory.join("state_5.sqlite").exists()
        );
        assert!(!directory.join("skills/.system/x/SKILL.md").exists());
    }
    let state = fs::read_dir(place.path("state").join("ralph")).unwrap();
    let displaced = state.flatten().map(|entry| entry.path().join("displaced"));
    assert!(displaced.into_iter().all(|path| !path.exists()), "nothing is kept of it");
}

#[test]
fn a_server_in_the_same_file_is_reported() {
    let script = "printf '[projects.\"/w\"]\\ntrust_level = \"trusted\"\\n[mcp_servers.evil]\\ncommand = \"x\"\\n' >>config.toml";
    let (place, directory) = agent("codex", ".codex", script, CODEX);
    fs::write(directory.join("config.toml"), "model = \"m\"\n").unwrap();
    let report = place.agent_run(&[]);
    assert_eq!(put_back(&report), ["codex/config.toml"], "{}", report.finished);
    assert_eq!(fs::read_to_string(directory.join("config.toml")).unwrap(), "model = \"m\"\n");
}

/// Agents keep snapshots of work trees in repositories of their own, with the person's next session as well.
#[test]
fn a_repository_among_an_agents_data_stays_and_what_git_would_execute_in_it_does_not() {
    for (name, state, git_dir) in [
        ("gemini", ".gemini", "history/w/.git"),
        ("opencode", ".local/share/opencode", "snapshot/p"),
    ] {
        let script = format!(
            "if [ -e {git_dir}/HEAD ]; then mkdir -p {git_dir}/hooks; echo x >{git_dir}/hooks/post-checkout; \
             git --git-dir={git_dir} config core.fsmonitor evil; else mkdir -p {git_dir}; git init -q --bare {git_dir}; \
             git --git-dir={git_dir} config core.fsmonitor false; fi; echo x | git --git-dir={git_dir} hash-object -w --stdin >kept"
        );
        let (place, directory) = agent(name, state, &script, "{}");
        let git_dir = directory.join(git_dir);
        let config = || fs::read_to_string(git_dir.join("config")).unwrap();
        let first = place.agent_run(&[]);
        let names = |report: &Report| put_back(report).join(" ");
        assert!(!names(&first).contains("config"), "{}", first.finished);
        let before = config();
        assert!(before.contains("fsmonitor = false"), "{before}");
        let second = place.agent_run(&[]);
        for planted in ["config", "hooks/post-checkout"] {
            assert!(names(&second).contains(planted), "{}", second.finished);
        }
        assert_eq!(config(), before);
        assert!(!git_dir.join("hooks/post-checkout").exists());
        assert!(git_dir.join("objects").read_dir().unwrap().count() > 2, "its data is kept");
    }
}

/// Data that leads to a program: a login that has settings fetched, a package that a list of models names, a server of a
/// repository that starts without a question.
#[test]
fn data_by_which_a_program_would_be_loaded_is_put_back_and_renewed_tokens_stay() {
    let login = r#"{"anthropic":{"type":"oauth","access":"NEW","refresh":"r"},"https://evil.invalid":{"type":"wellknown","key":"NODE_OPTIONS","token":"--require=/evil"}}"#;
    let (place, directory) = agent(
        "opencode",
        ".local/share/opencode",
        &format!(
            "echo '{login}' >auth.json && echo '{{\"npm\":\"file:///evil\"}}' >$HOME/.cache/opencode/models.json"
        ),
        "{}",
    );
    let models = place.env.home().join(".cache/opencode/models.json");
    fs::create_dir_all(models.parent().unwrap()).unwrap();
    fs::write(&models, "{\"npm\":\"good\"}\n").unwrap();
    let before = r#"{"anthropic":{"type":"oauth","access":"OLD","refresh":"r"}}"#;
    fs::write(directory.join("auth.json"), before).unwrap();
    let report = place.agent_run(&[]);
    assert!(put_back(&report).join(" ").contains("auth.json"), "{}", report.finished);
    assert!(!put_back(&report).join(" ").contains("models.json"), "{}", report.finished);
    assert_eq!(fs::read_to_string(&models).unwrap(), "{\"npm\":\"good\"}\n");
    let kept: Value =
        serde_json::from_slice(&fs::read(directory.join("auth.json")).unwrap()).unwrap();
    assert_eq!(kept["anthropic"]["access"], "NEW");
    assert_eq!(kept["https://evil.invalid"], serde_json::json!({}));
    let planted = r#"{"n":2,"projects":{"/w":{"enabledMcpjsonServers":["evil"],"hasTrustDialogAccepted":true},"/v":{"allowedTools":[],"enabledMcpjsonServers":[],"hasTrustDialogAccepted":false}}}"#;
    let script = format!("echo '{planted}' >../.claude.json");
    let (place, directory) = agent("claude", ".claude", &script, CLAUDE);
    let file = directory.with_file_name(".claude.json");
    fs::write(&file, r#"{"n":1,"projects":{"/w":{}}}"#).unwrap();
    let report = place.agent_run(&[]);
    assert!(put_back(&report).join(" ").contains("claude.json"), "{}", report.finished);
    let kept: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(
        (&kept["n"], &kept["projects"]["/w"]),
        (&serde_json::json!(2), &serde_json::json!({}))
    );
    // What it fills in by itself is not reported.
    let filled_in = planted.replace("[\"evil\"]", "[]").replace("true", "false");
    let (place, directory) =
        agent("claude", ".claude", &format!("echo '{filled_in}' >../.claude.json"), CLAUDE);
    fs::write(directory.with_file_name(".claude.json"), r#"{"n":1}"#).unwrap();
    let report = place.agent_run(&[]);
    assert_eq!(put_back(&report), [""; 0], "{}", report.finished);
}
