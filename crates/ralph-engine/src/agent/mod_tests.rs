use super::*;

struct Case {
    agent: &'static str,
    /// The arguments for a new session.
    new: &'static [&'static str],
    /// The arguments with all options requested.
    full: &'static [&'static str],
    /// The variables that an isolated state sets.
    isolated: &'static [(&'static str, &'static str)],
    /// The state paths with only a home directory, and with every variable set.
    state: &'static [&'static str],
    named_state: &'static [&'static str],
}

const CASES: [Case; 6] = [
    Case {
        agent: "codex",
        new: &[
            "exec",
            "--json",
            "--dangerously-bypass-approvals-and-sandbox",
            "--skip-git-repo-check",
            "-C",
            "/w",
            "-c",
            "allow_login_shell=false",
            "-",
        ],
        full: &[
            "exec",
            "--extra",
            "value",
            "--json",
            "--dangerously-bypass-approvals-and-sandbox",
            "--skip-git-repo-check",
            "-C",
            "/w",
            "-c",
            "allow_login_shell=false",
            "-m",
            "big",
            "-c",
            "model_reasoning_effort=\"high\"",
            "resume",
            "id-1",
            "-",
        ],
        isolated: &[("CODEX_HOME", "/s")],
        state: &["/home/u/.codex"],
        named_state: &["/CODEX_HOME"],
    },
    Case {
        agent: "claude",
        new: &[
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            "--dangerously-skip-permissions",
        ],
        full: &[
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            "--dangerously-skip-permissions",
            "--model",
            "big",
            "--effort",
            "high",
            "--resume",
            "id-1",
            "--extra",
            "value",
        ],
        isolated: &[("CLAUDE_CONFIG_DIR", "/s")],
        state: &["/home/u/.claude", "/home/u/.claude.json"],
        named_state: &["/CLAUDE_CONFIG_DIR"],
    },
    Case {
        agent: "opencode",
        new: &["run", "--format", "json", "--auto", "--print-logs", "--log-level", "ERROR"],
        full: &[
            "run",
            "--format",
            "json",
            "--auto",
            "--print-logs",
            "--log-level",
            "ERROR",
            "-m",
            "big",
            "--variant",
            "high",
            "-s",
            "id-1",
            "--extra",
            "value",
        ],
        isolated: &[
            ("XDG_CONFIG_HOME", "/s/config"),
            ("XDG_DATA_HOME", "/s/data"),
            ("XDG_STATE_HOME", "/s/state"),
            ("XDG_CACHE_HOME", "/s/cache"),
            ("OPENCODE_CONFIG_DIR", "/s/config/opencode"),
        ],
        state: &[
            "/home/u/.config/opencode",
            "/home/u/.local/share/opencode",
            "/home/u/.local/state/opencode",
            "/home/u/.cache/opencode",
        ],
        named_state: &[
            "/XDG_CONFIG_HOME/opencode",
            "/XDG_DATA_HOME/opencode",
            "/XDG_STATE_HOME/opencode",
            "/XDG_CACHE_HOME/opencode",
        ],
    },
    Case {
        agent: "gemini",
        new: &["--output-format", "stream-json", "--approval-mode", "yolo", "--skip-trust"],
        full: &[
            "--output-format",
            "stream-json",
            "--approval-mode",
            "yolo",
            "--skip-trust",
            "-m",
            "big",
            "--resume",
            "id-1",
            "--extra",
            "value",
        ],
        isolated: &[("GEMINI_CLI_HOME", "/s")],
        state: &["/home/u/.gemini"],
        named_state: &["/GEMINI_CLI_HOME/.gemini"],
    },
    Case {
        agent: "command",
        new: &[],
        full: &["--extra", "value"],
        isolated: &[],
        state: &[],
        named_state: &[],
    },
    Case {
        agent: "rehearsal",
        new: &["__rehearse"],
        full: &["__rehearse", "--script", "--extra", "--resume", "id-1"],
        isolated: &[],
        state: &["/home/u/.local/state/ralph/rehearsal"],
        named_state: &["/RALPH_REHEARSAL_STATE"],
    },
];

/// A request for a new session without any options.
fn plain() -> AgentRequest<'static> {
    AgentRequest {
        model: None,
        reasoning: None,
        resume: None,
        extra_args: &[],
        workspace: Utf8Path::new("/w"),
        isolated_state: None,
    }
}

#[test]
fn every_adapter_builds_its_command_line() {
    let names: Vec<&str> = ADAPTERS.iter().map(|adapter| adapter.name()).collect();
    assert_eq!(names, CASES.map(|case| case.agent), "every adapter has a case");
    let extra_args = ["--extra".to_owned(), "value".to_owned()];
    for case in CASES {
        let adapter = adapter(case.agent).unwrap();
        assert_eq!(adapter.invocation(&plain()).args, case.new, "{}", case.agent);
        let full = AgentRequest {
            model: Some("big"),
            reasoning: Some("high"),
            resume: Some("id-1"),
            extra_args: &extra_args,
            ..plain()
        };
        assert_eq!(adapter.invocation(&full).args, case.full, "{}", case.agent);
    }
}

#[test]
fn an_isolated_state_takes_the_place_of_the_persons_own() {
    for case in CASES {
        let adapter = adapter(case.agent).unwrap();
        let isolated = AgentRequest { isolated_state: Some(Utf8Path::new("/s")), ..plain() };
        let before = adapter.invocation(&plain());
        let after = adapter.invocation(&isolated);
        assert_eq!(after.args, before.args, "{}", case.agent);
        let added: Vec<(&str, &str)> = after
            .env
            .iter()
            .filter(|pair| !before.env.contains(pair))
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(added, case.isolated, "{}", case.agent);
    }
}

#[test]
fn the_state_is_where_the_environment_says() {
    let home = |name: &str| (name == "HOME").then(|| "/home/u".to_owned());
    let named = |name: &str| Some(format!("/{name}"));
    let empty = |name: &str| Some(if name == "HOME" { "/home/u" } else { "" }.to_owned());
    for case in CASES {
        let adapter = adapter(case.agent).unwrap();
        assert_eq!(adapter.state_paths(&home), case.state, "{}", case.agent);
        assert_eq!(adapter.state_paths(&empty), case.state, "{}", case.agent);
        assert_eq!(adapter.state_paths(&named), case.named_state, "{}", case.agent);
        assert_eq!(adapter.state_paths(&|_| None), [""; 0], "{}", case.agent);
    }
}

#[test]
fn a_flag_that_the_configuration_gives_too_is_given_once() {
    let given = [
        ("codex", "--skip-git-repo-check"),
        ("claude", "--verbose"),
        ("opencode", "--auto"),
        ("gemini", "--skip-trust"),
    ];
    for (agent, flag) in given {
        let extra_args = [flag.to_owned()];
        let request = AgentRequest { extra_args: &extra_args, ..plain() };
        let invocation = adapter(agent).unwrap().invocation(&request);
        assert_eq!(invocation.args.iter().filter(|arg| *arg == flag).count(), 1, "{agent}");
    }
}

#[test]
fn codex_works_where_the_configuration_says() {
    for given in [&["-C", "/else"][..], &["--cd", "/else"], &["--cd=/else"]] {
        let extra_args: Vec<String> = given.iter().map(|arg| (*arg).to_owned()).collect();
        let request = AgentRequest { extra_args: &extra_args, ..plain() };
        let invocation = adapter("codex").unwrap().invocation(&request);
        assert!(!invocation.args.contains(&"/w".to_owned()), "{given:?}");
    }
}

#[test]
fn an_unknown_name_has_no_adapter() {
    assert!(adapter("copilot").is_none());
}

#[test]
fn the_rehearsal_agent_speaks_the_events_own_form() {
    let context = DecodeContext::new(Timestamp::UNIX_EPOCH, TimeZone::UTC);
    let mut decoder = adapter("rehearsal").unwrap().decoder(context);
    let told = AgentEvent::Context { used: 5, window: Some(10) };
    let mut events = Vec::new();
    decoder.stdout_line(b"not an event", &mut events);
    decoder.stdout_line(serde_json::to_string(&told).unwrap().as_bytes(), &mut events);
    decoder.stdout_line(br#"{"type":"unheard_of"}"#, &mut events);
    decoder.finish(Some(ProcessExit::Code(0)), &mut events);
    assert_eq!(events, [told]);
}
