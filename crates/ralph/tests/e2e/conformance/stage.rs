//! The environment of a scenario: a workspace whose `ralph.toml` configures one real CLI to use the scripted model.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::agents::{Access, Account, RealAgent, Retries};
use crate::support::model_server::ModelServer;
use crate::support::process::{Finished, Running, poll, processes_marked, start};
use crate::support::{TestEnv, text};

/// Far above the duration of any run on a loaded machine: a hanging run must not hang the tests.
const LIMIT: Duration = Duration::from_mins(3);

const RUN: [&str; 5] = ["agent", "run", "--json", "--ui", "plain"];

/// A scenario's deviations from the defaults.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) access: Access,
    /// Lines for the agent's own table.
    pub(super) agent: &'static str,
    /// Tables after all others.
    pub(super) gates: &'static str,
}

impl Default for Settings {
    fn default() -> Self {
        let access = Access { account: Account::Key, retries: Retries::Few };
        Settings { access, agent: "", gates: "" }
    }
}

/// A CLI in its own environment, run through Ralph.
pub(super) struct Stage {
    pub(super) agent: RealAgent,
    pub(super) env: TestEnv,
    program: PathBuf,
}

impl Stage {
    pub(super) fn set(agent: RealAgent, program: PathBuf) -> Stage {
        let env = TestEnv::new();
        agent.prepare_home(&env.home());
        fs::write(env.repo().join(".git/info/exclude"), "ralph.toml\n").unwrap();
        Stage { agent, env, program }
    }

    /// Writes a `ralph.toml` that connects the agent to the model at `url`.
    pub(super) fn configure(&self, url: &str, settings: Settings) {
        let args = self.agent.config_args(url, settings.access);
        let variables = self.agent.environment(url, settings.access);
        self.write_config(&args, &variables, settings);
    }

    /// Runs the agent as a person would configure it: by files in the home directory and by the environment.
    pub(super) fn run_as_set_up(&self, server: &ModelServer, prompt: &str) -> Ran {
        let (url, home) = (server.url(), self.env.home());
        for (name, content) in self.agent.home_settings(&url) {
            fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
            fs::write(home.join(name), content).unwrap();
        }
        self.write_config(&[], &[], Settings::default());
        // The address comes from the files.
        let variables = self.agent.environment(&url, Settings::default().access);
        let variables = variables.into_iter().filter(|(_, value)| !value.contains(&url));
        Ran::of(self.ralph(&RUN, prompt, variables))
    }

    fn write_config(&self, args: &[String], variables: &[(&str, String)], settings: Settings) {
        let agent = self.agent;
        let name = agent.name();
        // A JSON string is also a valid TOML string.
        let variables: Vec<String> =
            variables.iter().map(|(name, value)| format!("{name} = {}", json!(value))).collect();
        let toml = format!(
            "agent = {agent}\n\
             boundary = \"auto\"\n\
             [agents.{name}]\n\
             exe = {exe}\n\
             args = {args}\n\
             model = {model}\n\
             {own}\n\
             [agents.{name}.env]\n\
             {variables}\n\
             [limits]\n\
             margin = \"0s\"\n\
             max_wait = \"2s\"\n\
             interrupt_grace = \"3s\"\n\
             terminate_grace = \"1s\"\n\
             [prices.{model}]\n\
             input = 1\n\
             output = 10\n\
             cache_read = 0.5\n\
             {gates}",
            agent = json!(name),
            exe = json!(text(&self.program)),
            args = json!(args),
            model = json!(agent.model()),
            own = settings.agent,
            variables = variables.join("\n"),
            gates = settings.gates,
        );
        fs::write(self.env.repo().join("ralph.toml"), toml).unwrap();
    }

    /// Runs the agent once on a prompt, with default settings.
    pub(super) fn run(&self, server: &ModelServer, args: &[&str], prompt: &str) -> Ran {
        self.run_with(Settings::default(), server, args, prompt)
    }

    pub(super) fn run_with(
        &self,
        settings: Settings,
        server: &ModelServer,
        args: &[&str],
        prompt: &str,
    ) -> Ran {
        self.configure(&server.url(), settings);
        Ran::of(self.start(args, prompt))
    }

    /// Runs the pipeline on the specs of the workspace.
    pub(super) fn pipeline(&self, settings: Settings, server: &ModelServer) -> Ran {
        Ran::of(self.start_pipeline(settings, server))
    }

    /// Starts the pipeline.
    pub(super) fn start_pipeline(&self, settings: Settings, server: &ModelServer) -> Running {
        self.start_workflow("pipeline", settings, server)
    }

    /// Starts a workflow, by the name of its command.
    pub(super) fn start_workflow(
        &self,
        name: &str,
        settings: Settings,
        server: &ModelServer,
    ) -> Running {
        self.configure(&server.url(), settings);
        self.ralph(&[name, "--json", "--ui", "plain"], "", [])
    }

    /// Runs `exec` from a goal to a run, agreeing to everything except mapping.
    pub(super) fn exec(&self, settings: Settings, server: &ModelServer, args: &[&str]) -> Ran {
        self.configure(&server.url(), settings);
        let consents =
            ["--non-interactive", "--approve-prd", "--understand", "never", "--approve-run"];
        let all = [&["exec"], args, &consents, &["--json", "--ui", "plain"]].concat();
        Ran::of(self.ralph(&all, "", []))
    }

    /// Plans a spec, and builds the resulting tasks.
    pub(super) fn plan_and_build(
        &self,
        settings: Settings,
        server: &ModelServer,
        spec: &str,
    ) -> (Ran, Ran) {
        self.configure(&server.url(), settings);
        let planned = Ran::of(self.ralph(&["plan", spec, "--json", "--ui", "plain"], "", []));
        (planned, Ran::of(self.ralph(&["build", "--json", "--ui", "plain"], "", [])))
    }

    /// Starts a run in the workspace as configured.
    pub(super) fn start(&self, args: &[&str], prompt: &str) -> Running {
        self.ralph(&[&RUN, args].concat(), prompt, [])
    }

    /// Returns the output of `ralph status`.
    pub(super) fn status(&self) -> Value {
        let finished = self.ralph(&["status", "--json"], "", []).finish(LIMIT);
        assert_eq!(finished.status.code(), Some(0), "{finished}");
        serde_json::from_str(&finished.stdout).unwrap()
    }

    fn ralph(
        &self,
        args: &[&str],
        input: &str,
        more: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Running {
        let mut variables = self.env.environment();
        variables.extend(more.into_iter().map(|(name, value)| (name.to_owned(), value)));
        variables.push(("XDG_STATE_HOME".to_owned(), text(&self.env.state())));
        start(&self.env, Path::new(env!("CARGO_BIN_EXE_ralph")), args, &variables, input)
    }

    /// Asserts that no process of the scenario is alive after Ralph has ended.
    pub(super) fn assert_nothing_is_left(&self) {
        let left = || processes_marked(self.env.mark());
        let ended = poll(Duration::from_secs(1), || left().is_empty().then_some(()));
        assert!(ended.is_some(), "alive: {:?}", left());
    }
}

/// A finished run, as Ralph reported it.
pub(super) struct Ran {
    pub(super) finished: Finished,
    pub(super) report: Value,
}

impl Ran {
    /// Waits for the end of a run and parses its report.
    pub(super) fn of(running: Running) -> Ran {
        let finished = running.finish(LIMIT);
        let report = serde_json::from_str(&finished.stdout)
            .unwrap_or_else(|error| panic!("{error} in the report: {finished}"));
        Ran { finished, report }
    }

    pub(super) fn code(&self) -> Option<i32> {
        self.finished.status.code()
    }

    pub(super) fn outcome(&self) -> &str {
        self.report["outcome"]["kind"].as_str().unwrap()
    }

    /// Returns the kind of trouble of the run, if any.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.report["outcome"]["trouble"]["kind"].as_str()
    }

    pub(super) fn session(&self) -> &str {
        self.report["session"].as_str().expect("the agent told its session")
    }

    /// Returns a file of the run that the report names.
    pub(super) fn file(&self, which: &str) -> String {
        let path = self.report[which].as_str().unwrap();
        String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()
    }

    pub(super) fn assert_completed(&self, last_word: &str) {
        assert_eq!(self.outcome(), "completed", "{}", self.finished);
        assert_eq!(self.report["final_message"], last_word, "{}", self.finished);
        assert_eq!(self.code(), Some(0), "{}", self.finished);
    }
}
