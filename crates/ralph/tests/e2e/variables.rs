//! Which of the person's variables reach agents and gates, and what is reported about the others.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::gates::Gated;
use crate::harness::{PATIENCE, Place, RALPH};
use crate::support::process::{Finished, run};

/// Possible contents of a person's shell environment.
const PERSONS: [(&str, &str); 6] = [
    ("GITHUB_TOKEN", "secret-token"),
    ("OPENAI_API_KEY", "secret-codex"),
    ("ANTHROPIC_API_KEY", "secret-claude"),
    ("DATABASE_URL", "secret-database"),
    ("SSH_AUTH_SOCK", "/secret-agent"),
    ("LD_PRELOAD", ""),
];

fn ralph(place: &Place, args: &[&str]) -> Finished {
    let mut variables = place.variables();
    variables.extend(PERSONS.map(|(name, value)| (name.to_owned(), value.to_owned())));
    run(&place.env, Path::new(RALPH), args, &variables, "", PATIENCE)
}

/// A fake CLI that records its environment.
fn spy(place: &Place, name: &str) {
    let program = place.path(name);
    let seen = place.env.repo().join(format!("{name}.env"));
    fs::write(&program, format!("#!/bin/sh\ncat >/dev/null\nenv >'{}'\n", seen.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
}

fn seen(place: &Place, name: &str) -> String {
    fs::read_to_string(place.env.repo().join(format!("{name}.env"))).unwrap()
}

#[test]
fn an_agent_gets_its_own_keys_and_nobody_elses() {
    let place = Place::new();
    place.configure(
        "[agents.codex]\nexe = \"../codex\"\n[agents.claude]\nexe = \"../claude\"\n\
         [agents.mine]\ncommand = [\"../mine\"]\npass = [\"DATABASE_*\"]\n",
    );
    for (agent, own) in
        [("codex", "secret-codex"), ("claude", "secret-claude"), ("mine", "secret-database")]
    {
        spy(&place, agent);
        let finished = ralph(&place, &["agent", "run", "--agent", agent, "do it"]);
        let seen = seen(&place, agent);
        assert!(seen.contains(own), "{agent}: {seen}\n{finished}");
        assert_eq!(seen.matches("secret").count(), 1, "{agent}: {seen}");
        for name in ["\nRALPH_RUN_ID=", "\nTMPDIR=", "\nGIT_AUTHOR_NAME="] {
            assert!(format!("\n{seen}").contains(name), "{agent}: {seen}");
        }
    }
}

#[test]
fn a_command_that_starts_a_known_agent_gets_its_keys() {
    let place = Place::new();
    spy(&place, "claude");
    let command = format!("cat | {}", place.path("claude").display());
    ralph(&place, &["agent", "run", "--agent-cmd", &command, "do it"]);
    let seen = seen(&place, "claude");
    assert!(seen.contains("secret-claude") && !seen.contains("secret-codex"), "{seen}");
}

#[test]
fn gates_get_what_the_person_lets_through_and_a_failure_names_the_rest() {
    let gated = Gated::new(
        "env; test -n \"$DATABASE_URL\" || { echo DATABASE_URL is not set; exit 1; }",
        "",
    );
    let place = &gated.place;
    let failed = ralph(place, &["gates", "run"]);
    assert_eq!(failed.status.code(), Some(1), "{failed}");
    assert!(!failed.stderr.contains("secret"), "{failed}");
    assert!(failed.stderr.contains("withheld from its environment: DATABASE_URL"), "{failed}");
    assert!(failed.stderr.contains("`[env] pass`"), "{failed}");
    let file = place.env.repo().join("ralph.toml");
    let settings = fs::read_to_string(&file).unwrap();
    // The person's own file already lists names, so a repository can only choose among them.
    let own = place.env.home().join(".config/ralph/config.toml");
    let config = fs::read_to_string(&own).unwrap();
    fs::write(&own, config.replace("pass = [", "pass = [\"DATABASE_URL\", ")).unwrap();
    assert_eq!(ralph(place, &["gates", "run"]).status.code(), Some(0));
    fs::write(&file, format!("env.pass = [\"GITHUB_TOKEN\"]\n{settings}")).unwrap();
    assert_eq!(ralph(place, &["gates", "run"]).status.code(), Some(1));
}

/// The plan is committed, with the end of a failing gate's output.
#[test]
fn a_plan_names_no_variable_that_the_failing_gate_does_not_mention() {
    let gated = Gated::new("test ! -e work || { echo DATABASE_URL is not set; exit 1; }", "");
    let place = &gated.place;
    gated.write("ralph/specs/one.md", "# One\n\nWork.\n");
    gated.commit("spec");
    ralph(place, &["set-spec", "one.md"]);
    ralph(place, &["task", "add", "One"]);
    let agent = "cat >/dev/null; touch work; git add work; git commit -qm work; ralph task done";
    ralph(place, &["build", "1", "--agent-cmd", agent]);
    let plan = fs::read_to_string(gated.file("ralph/plan.jsonl")).unwrap();
    assert!(plan.contains("withheld from its environment: DATABASE_URL"), "{plan}");
    assert!(!plan.contains("GITHUB_TOKEN"), "{plan}");
}

#[test]
fn an_agent_that_fails_is_shown_with_what_it_did_not_get() {
    let place = Place::new();
    let command = "cat >/dev/null; echo 'DATABASE_URL is missing' >&2; exit 1";
    let finished = ralph(&place, &["agent", "run", "--agent-cmd", command, "do it"]);
    assert!(finished.stderr.contains("withheld from its environment: DATABASE_URL"), "{finished}");
    let doctor = ralph(&place, &["doctor"]);
    let line =
        |start: &str| doctor.stdout.lines().find(|line| line.contains(start)).unwrap().to_owned();
    assert!(line("agents and gates get").contains("PATH"), "{doctor}");
    assert!(line("withheld from them").contains("GITHUB_TOKEN"), "{doctor}");
    assert!(!doctor.stdout.contains("secret"), "names only: {doctor}");
}

#[test]
fn an_agent_that_hides_the_persons_git_configuration_commits_as_the_person() {
    let place = Place::new();
    let config = place.path("gitconfig");
    fs::write(&config, "[user]\n\tname = Ada\n\temail = ada@example.org\n").unwrap();
    let mut variables = place.variables();
    variables.retain(|(name, _)| !name.starts_with("GIT_"));
    variables.push(("GIT_CONFIG_GLOBAL".to_owned(), config.display().to_string()));
    let command = "cat >/dev/null; echo x >x; git add x; GIT_CONFIG_GLOBAL=/dev/null git commit -qm x && echo ok";
    let args = ["agent", "run", "--agent-cmd", command, "do it"];
    let finished = run(&place.env, Path::new(RALPH), &args, &variables, "", PATIENCE);
    assert_eq!(finished.stdout.trim(), "ok", "{finished}");
    assert_eq!(
        place.env.git(&["log", "-1", "--format=%an <%ae> %cn"]),
        "Ada <ada@example.org> Ada"
    );
}
