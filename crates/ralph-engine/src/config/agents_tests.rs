use super::super::tests::Bench;
use super::*;

const TWO_AGENTS: &str = r#"
agent = "codex"
model = "general"
reasoning = "low"
timeout = "50m"
[agents.claude]
model = "opus"
isolate = true
[agents.mine]
command = ["./agent.sh", "-x"]
args = ["more"]
state = ["~/.mine"]
[roles.verifier]
agent = "claude"
reasoning = "high"
timeout = "20m"
[roles.planner]
model = "deep"
[roles.mapper]
agent = "mine"
"#;

fn summary(choice: &AgentChoice) -> (&str, Option<&str>, Option<&str>, u64) {
    let minutes = choice.timeout.as_secs() / 60;
    (&choice.name, choice.model.as_deref(), choice.reasoning.as_deref(), minutes)
}

#[test]
fn the_role_goes_before_the_agent_and_the_agent_before_the_general_word() {
    let config = Bench::new().workspace_file(TWO_AGENTS).load();
    for (role, expected) in [
        (Role::Builder, ("codex", Some("general"), Some("low"), 50)),
        (Role::Planner, ("codex", Some("deep"), Some("low"), 50)),
        (Role::Verifier, ("claude", Some("opus"), Some("high"), 20)),
        // Settings written for codex are not passed to another agent.
        (Role::Mapper, ("mine", None, None, 50)),
    ] {
        assert_eq!(summary(&config.agent_for(role)), expected, "{role}");
    }
    assert!(config.agent_for(Role::Verifier).isolate);
    assert!(!config.agent_for(Role::Builder).isolate);
}

#[test]
fn an_agent_of_ones_own_is_a_command_with_its_paths_made_whole() {
    let bench = Bench::new().workspace_file(TWO_AGENTS);
    let choice = bench.load().agent_for(Role::Mapper);
    let AgentProgram::Command { argv } = &choice.program else { panic!("{choice:?}") };
    assert!(argv[0].starts_with('/') && argv[0].ends_with("/agent.sh"), "{argv:?}");
    assert_eq!(argv[1..], ["-x"]);
    assert_eq!(choice.args, ["more"]);
    assert!(choice.state[0].ends_with(".mine") && choice.state[0].is_absolute());
}

#[test]
fn a_flag_wins_for_every_role_and_takes_no_model_of_another_agent_along() {
    let bench = Bench::new().workspace_file(TWO_AGENTS).flag("--agent", "agent", "gemini");
    let config = bench.load();
    for role in Role::ALL {
        let choice = config.agent_for(role);
        assert_eq!((choice.name.as_str(), choice.model), ("gemini", None), "{role}");
    }
    let config = bench.flag("--model", "model", "flash").flag("--timeout", "timeout", "5m").load();
    for role in Role::ALL {
        let choice = config.agent_for(role);
        assert_eq!((choice.model.as_deref(), choice.timeout.as_secs()), (Some("flash"), 300));
    }
}

#[test]
fn the_same_agent_named_by_a_flag_keeps_its_model() {
    let bench = Bench::new().workspace_file(TWO_AGENTS).flag("--agent", "agent", "codex");
    let config = bench.load();
    assert_eq!(config.agent_for(Role::Builder).model.as_deref(), Some("general"));
    assert_eq!(config.agent_for(Role::Planner).model.as_deref(), Some("deep"));
    assert_eq!(summary(&config.agent_for(Role::Verifier)).0, "codex");
}

#[test]
fn a_project_that_names_its_agent_does_not_get_the_persons_model_for_another() {
    let bench = Bench::new()
        .user_file("agent = \"claude\"\nmodel = \"opus\"\n[agents.claude]\nexe = \"claude-beta\"\n")
        .workspace_file("agent = \"codex\"\n");
    assert_eq!(summary(&bench.load().agent_for(Role::Builder)), ("codex", None, None, 60));
    let same = bench.workspace_file("agent = \"claude\"\n").load().agent_for(Role::Builder);
    assert_eq!(same.model.as_deref(), Some("opus"));
    let exe = Some("claude-beta".to_owned());
    assert_eq!(same.program, AgentProgram::Adapter { adapter: "claude".to_owned(), exe });
}

#[test]
fn a_command_given_as_text_wins_for_every_role_over_what_is_below_it() {
    let bench = Bench::new().workspace_file(TWO_AGENTS).env("RALPH_AGENT", "gemini");
    let bench = bench.flag("--agent-cmd", "agent_cmd", "my agent | tee log");
    let config = bench.load();
    for role in Role::ALL {
        let choice = config.agent_for(role);
        let argv = ["sh", "-c", "my agent | tee log"].map(str::to_owned).to_vec();
        assert_eq!(choice.program, AgentProgram::Command { argv });
        assert_eq!((choice.model, choice.env.len()), (None, 0));
    }
    assert_eq!(config.agent_for(Role::Verifier).timeout.as_secs(), 20 * 60);
}

#[test]
fn an_agent_named_by_a_flag_wins_over_a_command_from_the_environment() {
    let bench = Bench::new().env("RALPH_AGENT_CMD", "cat").flag("--agent", "agent", "claude");
    assert_eq!(bench.load().agent_for(Role::Builder).name, "claude");
}
