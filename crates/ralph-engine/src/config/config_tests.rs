use std::fs;

use proptest::prelude::*;
use ralph_model::role::Role;
use tempfile::TempDir;

use super::*;

const ADAPTERS: [&str; 5] = ["codex", "claude", "opencode", "gemini", "rehearsal"];

/// A workspace and a person's home, with the content of each layer.
pub(super) struct Bench {
    _guard: TempDir,
    root: Utf8PathBuf,
    env: BTreeMap<String, String>,
    flags: Vec<(&'static str, &'static str, String)>,
    names: EnvNames,
    armed: ArmedKeys,
}

impl Bench {
    pub(super) fn new() -> Self {
        let guard = tempfile::tempdir().unwrap();
        let top = Utf8PathBuf::from_path_buf(guard.path().to_owned()).unwrap();
        let root = top.join("work");
        fs::create_dir_all(&root).unwrap();
        fs::create_dir_all(top.join(".config/ralph")).unwrap();
        let env = BTreeMap::from([("HOME".to_owned(), top.into_string())]);
        Bench {
            _guard: guard,
            root,
            env,
            flags: Vec::new(),
            names: EnvNames::Own,
            armed: ArmedKeys::Counted,
        }
    }

    pub(super) fn workspace_file(self, text: &str) -> Self {
        fs::write(self.root.join("ralph.toml"), text).unwrap();
        self
    }

    pub(super) fn user_file(self, text: &str) -> Self {
        fs::write(self.user_path(), text).unwrap();
        self
    }

    fn user_path(&self) -> Utf8PathBuf {
        self.root.parent().unwrap().join(".config/ralph/config.toml")
    }

    pub(super) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(super) fn flag(mut self, flag: &'static str, key: &'static str, value: &str) -> Self {
        self.flags.push((flag, key, value.to_owned()));
        self
    }

    pub(super) fn ignoring_armed_keys(mut self) -> Self {
        self.armed = ArmedKeys::Ignored;
        self
    }

    pub(super) fn try_load(&self) -> Result<Config, ConfigError> {
        let flags = self.flags.iter();
        let flags: Vec<_> =
            flags.map(|(flag, key, value)| FlagValue { flag, key, value }).collect();
        Config::load(&ConfigRequest {
            root: &self.root,
            cwd: &self.root.join("sub"),
            env: &|name| self.env.get(name).cloned(),
            env_names: self.names,
            flags: &flags,
            adapters: &ADAPTERS,
            armed: self.armed,
        })
    }

    pub(super) fn load(&self) -> Config {
        self.try_load().unwrap()
    }

    /// Returns the problems without the path in front.
    fn problems(&self) -> Vec<String> {
        let problems = self.try_load().unwrap_err().problems;
        let root = format!("{}/", self.root);
        problems.iter().map(|problem| problem.to_string().replace(&root, "")).collect()
    }
}

fn entry(config: &Config, key: &str) -> (Option<String>, Origin) {
    let entry = config.entries().into_iter().find(|entry| entry.key == key).unwrap();
    (entry.value, entry.origin)
}

#[test]
fn without_any_file_the_defaults_hold() {
    let bench = Bench::new();
    let config = bench.load();
    assert_eq!(config.boundary, BoundaryMode::Auto);
    assert_eq!(config.home, None);
    assert_eq!(config.mailbox, bench.root.join(".ralph"));
    assert_eq!(config.limits.margin, Duration::from_secs(30));
    assert_eq!((config.limits.context_warn, config.limits.context_kill), (70, 95));
    assert_eq!(config.limits.log, 1 << 30);
    assert_eq!(config.budget, BudgetConfig::default());
    assert!(config.git.commit_home && !config.git.sign && config.limits.wait);
    let agent = config.agent_for(Role::Builder);
    assert_eq!(agent.name, "codex");
    assert_eq!(agent.timeout, Duration::from_hours(1));
    assert_eq!(agent.idle_timeout, Duration::from_mins(15));
    assert_eq!(entry(&config, "timeout"), (Some("\"1h\"".to_owned()), Origin::Default));
    assert_eq!(entry(&config, "model"), (None, Origin::Default));
}

#[test]
fn the_documented_example_is_understood() {
    let bench = Bench::new().workspace_file(
        r#"
agent = "codex"
boundary = "kernel"
[roles.verifier]
agent = "claude"
[agents.codex]
args = ["-c", "model_reasoning_effort=high"]
[agents.mine]
command = ["my-agent", "--flag"]
[checkout]
setup = [["npm", "ci"]]
cache = ["target", "node_modules"]
[[gate]]
name = "tests"
run = ["cargo", "test"]
timeout = "45m"
[[gate]]
name = "lint"
run = ["cargo", "clippy"]
fast = true
paths = ["src/**"]
[prices."gpt-5.2"]
input = 1
output = 8.5
"#,
    );
    let config = bench.load();
    assert_eq!(config.boundary, BoundaryMode::Kernel);
    assert_eq!(config.checkout.setup, [["npm", "ci"]]);
    assert_eq!(config.checkout.cache, ["target", "node_modules"]);
    let tests = Gate {
        name: "tests".to_owned(),
        run: vec!["cargo".to_owned(), "test".to_owned()],
        timeout: Duration::from_mins(45),
        repo: None,
        paths: vec![],
        fast: false,
        net: false,
        unix: false,
    };
    let lint = Gate {
        name: "lint".to_owned(),
        run: vec!["cargo".to_owned(), "clippy".to_owned()],
        timeout: Duration::from_mins(30),
        paths: vec!["src/**".to_owned()],
        fast: true,
        ..tests.clone()
    };
    assert_eq!(config.gates, [tests, lint]);
    let price = Price { input: 1.0, output: 8.5, cache_read: None, cache_write: None };
    assert_eq!(config.prices, BTreeMap::from([("gpt-5.2".to_owned(), price)]));
    assert_eq!(config.agent_for(Role::Verifier).name, "claude");
    assert_eq!(config.agent_for(Role::Builder).args, ["-c", "model_reasoning_effort=high"]);
    let path = bench.root.join("ralph.toml");
    let at = |line, column| Origin::File { path: path.clone(), line, column };
    assert_eq!(entry(&config, "gate.tests.timeout"), (Some("\"45m\"".to_owned()), at(16, 11)));
    assert_eq!(entry(&config, "gate.lint.timeout"), (Some("\"30m\"".to_owned()), Origin::Default));
    assert_eq!(entry(&config, "prices.\"gpt-5.2\".input"), (Some("1.0".to_owned()), at(23, 9)));
    let setup = Some("[[\"npm\", \"ci\"]]".to_owned());
    assert_eq!(entry(&config, "checkout.setup"), (setup, at(11, 9)));
}

#[test]
fn all_that_is_wrong_is_told_at_once_and_where() {
    let bench = Bench::new()
        .workspace_file(
            r#"
modle = "x"
timeout = 30
idle_timeout = "15"
agent = "codx"
home = ""
[roles.verfier]
model = "y"
[agents.mine]
args = ["a", 1]
[agents.codex]
command = ["codex"]
[agents.other]
command = []
[agents.third]
comand = ["x"]
[agents.claude.env]
"A=B" = "x"
[limits]
context_warn = 99
context_kill = 101
[prices.m]
input = -1
[[gate]]
run = "cargo test"
tmeout = "1m"
model = "x"
"#,
        )
        .env("RALPH_BOUNDARY", "kernal")
        .flag("--timeout", "timeout", "0s");
    assert_eq!(
        bench.problems(),
        [
            "ralph.toml:2:1: unknown key `modle`; did you mean `model`?",
            "ralph.toml:3:11: `timeout`: expected a duration as a string, such as \"30m\", found an integer",
            "ralph.toml:4:16: `idle_timeout`: `15` has no unit: write `15s` for seconds or `15m` for minutes",
            "ralph.toml:6:8: `home`: it is empty",
            "ralph.toml:7:8: unknown key `roles.verfier`; did you mean `roles.verifier`?",
            "ralph.toml:10:14: `agents.mine.args`: expected a list of strings, found an integer",
            "ralph.toml:14:11: `agents.other.command`: it has no program",
            "ralph.toml:16:1: unknown key `agents.third.comand`; did you mean `agents.third.command`?",
            "ralph.toml:21:16: `limits.context_kill`: expected a percentage from 1 to 100, found `101`",
            "ralph.toml:23:9: `prices.m.input`: expected a number that is not negative, found `-1`",
            "ralph.toml:24:1: `gate.name`: every gate needs it",
            "ralph.toml:25:7: `gate.run`: expected a command as a list of strings, such as [\"sh\", \"-c\", \"npm test\"], found a string",
            "ralph.toml:26:1: unknown key `gate.tmeout`; did you mean `gate.timeout`?",
            "ralph.toml:27:1: unknown key `gate.model`; `model` is a top-level key: move it above the first `[table]`",
            "$RALPH_BOUNDARY: `boundary`: expected `strict`, `kernel`, `auto`, `detect`, `off`, found `kernal`",
            "--timeout: `timeout`: it must be longer than zero",
            "ralph.toml:5:9: `agent`: unknown agent `codx`; known: `claude`, `codex`, `gemini`, `mine`, `opencode`, `other`, `rehearsal`, `third`; any other program needs a `command` in [agents.codx]",
            "ralph.toml:18:9: `agents.claude.env.\"A=B\"`: no variable can have this name",
            "ralph.toml:12:11: `agents.codex.command`: a built-in agent has no command; use `exe` and `args`",
            "ralph.toml:9:9: `agents.mine`: it needs a `command`; built in are only `codex`, `claude`, `opencode`, `gemini`, `rehearsal`",
            "ralph.toml:20:16: `limits.context_warn`: it is above `limits.context_kill`, which is 95",
        ]
    );
}

#[test]
fn a_file_that_is_no_toml_or_no_text_says_so() {
    let bench = Bench::new().workspace_file("agent = \"codex\nmodel =\n");
    let problems = bench.problems();
    assert!(problems[0].starts_with("ralph.toml:1:"), "{problems:?}");
    assert!(problems.last().unwrap().starts_with("ralph.toml:2:"), "{problems:?}");
    fs::write(bench.root.join("ralph.toml"), b"agent = \"\xff\"").unwrap();
    assert_eq!(bench.problems(), ["ralph.toml:1:1: cannot be read: it is not UTF-8"]);
    fs::remove_file(bench.root.join("ralph.toml")).unwrap();
    fs::create_dir(bench.root.join("ralph.toml")).unwrap();
    assert!(bench.problems()[0].starts_with("ralph.toml:1:1: cannot be read: "));
}

#[test]
fn what_is_missing_at_the_end_stands_on_the_last_line() {
    let text = "é = 1\nb =\n";
    assert_eq!(layer::position(text, 3), (1, 3));
    assert_eq!(layer::position(text, 7), (2, 1));
    assert_eq!(layer::position(text, text.len()), (2, 4));
    assert_eq!(layer::position(text, 1000), (2, 4));
    assert_eq!(layer::position("", 0), (1, 1));
}

#[test]
fn tables_and_values_are_not_confused() {
    let bench = Bench::new().workspace_file("roles = 3\ngate = 1\nbudget = []\n[agent]\nx = 1\n");
    assert_eq!(
        bench.problems(),
        [
            "ralph.toml:1:9: `roles`: expected a table, found an integer",
            "ralph.toml:2:8: `gate`: expected an array of tables, each headed `[[gate]]`, found an integer",
            "ralph.toml:3:10: `budget`: expected a table, found an array",
            "ralph.toml:4:1: `agent`: expected a string, found a table",
        ]
    );
    let single = Bench::new().workspace_file("[gate]\nname = \"x\"\n");
    assert_eq!(
        single.problems(),
        [
            "ralph.toml:1:1: `gate`: expected an array of tables, each headed `[[gate]]`, found a table"
        ]
    );
}

#[test]
fn two_gates_of_one_name_are_refused() {
    let gate = "[[gate]]\nname = \"t\"\nrun = [\"true\"]\n";
    let bench = Bench::new().workspace_file(&gate.repeat(2));
    assert_eq!(bench.problems(), ["ralph.toml:5:8: `gate.name`: another gate has the name `t`"]);
}

#[test]
fn secrets_are_not_shown() {
    let bench = Bench::new().workspace_file(
        "[agents.codex.env]\nOPENAI_API_KEY = \"sk-1\"\ngh_token = \"t\"\nLANG = \"C\"\n",
    );
    let config = bench.load();
    let shown = |name: &str| entry(&config, &format!("agents.codex.env.{name}")).0.unwrap();
    assert_eq!(shown("OPENAI_API_KEY"), "<set>");
    assert_eq!(shown("gh_token"), "<set>");
    assert_eq!(shown("LANG"), "\"C\"");
    assert_eq!(config.agent_for(Role::Builder).env["OPENAI_API_KEY"], "sk-1");
}

#[test]
fn paths_are_relative_to_the_root_and_those_of_flags_to_where_one_stands() {
    let bench = Bench::new().workspace_file(
        "home = \"tools/ralph\"\nwritable = [\"~/cache\", \"../x\", \"/abs\"]\n\
         [agents.rehearsal]\nscript = \"play.txt\"\nexe = \"bin/agent\"\n\
         [agents.codex]\nexe = \"codex-beta\"\n",
    );
    let root = bench.root.clone();
    let config = bench.load();
    assert_eq!(config.home, Some(root.join("tools/ralph")));
    let home = root.parent().unwrap();
    assert_eq!(
        config.writable,
        [home.join("cache"), root.parent().unwrap().join("x"), "/abs".into()]
    );
    let bench = bench.env("RALPH_HOME", "h").flag("--agent", "agent", "rehearsal");
    let config = bench.load();
    assert_eq!(config.home, Some(root.join("h")));
    let agent = config.agent_for(Role::Planner);
    assert_eq!(agent.script, Some(root.join("play.txt")));
    let exe = Some(root.join("bin/agent").into_string());
    assert_eq!(agent.program, AgentProgram::Adapter { adapter: "rehearsal".to_owned(), exe });
    let config = bench.flag("--home", "home", "h").load();
    assert_eq!(config.home, Some(root.join("sub/h")));
}

#[test]
fn older_variables_count_for_goal_commands_only() {
    let bench = Bench::new().env("MODEL", "m").env("AGENT_CMD", "cat").env("NO_COLOR", "1");
    let config = bench.load();
    assert_eq!(config.ui.color, Color::Never);
    assert_eq!(config.agent_for(Role::Builder).model, None);
    let bench = Bench { names: EnvNames::Goal, ..bench };
    let agent = bench.load().agent_for(Role::Builder);
    let argv = ["sh", "-c", "cat"].map(str::to_owned).to_vec();
    assert_eq!(agent.program, AgentProgram::Command { argv });
    assert_eq!(agent.model.as_deref(), Some("m"));
    assert_eq!(entry(&bench.load(), "model").1, Origin::Env("MODEL"));
}

#[test]
fn every_setting_can_be_written_and_read() {
    let (mut text, mut own) = (String::new(), String::new());
    for setting in schema::SETTINGS {
        let value = match setting.kind {
            _ if setting.key == "trust.always" => "[\"/x\"]",
            _ if setting.key == "notify.on" => "[\"question\"]",
            _ if setting.key == "notify.webhook" => "\"https://x\"",
            _ if setting.key == "agents.*.final" => "\"last-line\"",
            _ if setting.key == "agents.*.session" => "\"json:id\"",
            _ if setting.key == "agents.*.resume" => "[\"{session}\"]",
            value::Kind::Text | value::Kind::AnyText => "\"codex\"",
            value::Kind::Choice(choices) => &value::render_string(choices[0]),
            value::Kind::Bool => "true",
            value::Kind::Count | value::Kind::Percent | value::Kind::Number => "80",
            value::Kind::Duration | value::Kind::Timeout => "\"7s\"",
            value::Kind::Size => "\"7MiB\"",
            value::Kind::List | value::Kind::Command => "[\"x\"]",
            value::Kind::Commands => "[[\"x\"]]",
        };
        let agent = match setting.key {
            "agents.*.command" | "agents.*.final" | "agents.*.resume" | "agents.*.session" => {
                "mine"
            }
            "agents.*.script" => "rehearsal",
            _ => "codex",
        };
        let key = setting.key.replace("agents.*", &format!("agents.{agent}"));
        let key = key.replace("<role>", "planner").replace('*', "name");
        let file = if armed::PERSONAL.contains(&setting.key) { &mut own } else { &mut text };
        *file += &[key.as_str(), " = ", value, "\n"].concat();
    }
    let config = Bench::new().workspace_file(&text).user_file(&own).load();
    for role in Role::ALL {
        config.agent_for(role);
    }
    let from_file = |entry: &ConfigEntry| matches!(entry.origin, Origin::File { .. });
    assert_eq!(config.entries().iter().filter(|e| from_file(e)).count(), schema::SETTINGS.len());
    assert_eq!(config.agent_names().last().map(String::as_str), Some("mine"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_highest_layer_that_speaks_wins(layers in prop::array::uniform4(any::<bool>())) {
        let [user, workspace, env, flag] = layers;
        let mut bench = Bench::new();
        let mut expected = ("\"1h\"", Origin::Default);
        if user {
            bench = bench.user_file("# mine\ntimeout = \"1m\"\n");
            expected = ("\"1m\"", Origin::File { path: bench.user_path(), line: 2, column: 11 });
        }
        if workspace {
            bench = bench.workspace_file("timeout = \"2m\"");
            let path = bench.root.join("ralph.toml");
            expected = ("\"2m\"", Origin::File { path, line: 1, column: 11 });
        }
        if env {
            bench = bench.env("RALPH_TIMEOUT", "3m");
            expected = ("\"3m\"", Origin::Env("RALPH_TIMEOUT"));
        }
        if flag {
            bench = bench.flag("--timeout", "timeout", "4m");
            expected = ("\"4m\"", Origin::Flag("--timeout"));
        }
        let found = entry(&bench.load(), "timeout");
        prop_assert_eq!(found, (Some(expected.0.to_owned()), expected.1));
    }

    #[test]
    fn no_text_makes_reading_fail_otherwise_than_with_a_line_of_the_file(
        text in prop_oneof![
            "\\PC{0,200}",
            prop::collection::vec(toml_like(), 0..12).prop_map(|lines| lines.concat()),
        ],
    ) {
        let mut problems = Vec::new();
        let layer = Layer::from_toml("ralph.toml".into(), &text, Rank::Workspace, &mut problems);
        validate::check(&layer, &ADAPTERS, ArmedKeys::Counted, &mut problems);
        let lines = text.lines().count().max(1);
        for problem in &problems {
            let Origin::File { line, column, .. } = &problem.origin else {
                panic!("{problem} is in no file");
            };
            prop_assert!((1..=lines).contains(line), "{} in {:?}", problem, text);
            prop_assert!(*column >= 1);
        }
        if problems.is_empty() {
            let bench = Bench::new().workspace_file(&text);
            if let Ok(config) = bench.try_load() {
                prop_assert!(!config.entries().is_empty());
                config.agent_for(Role::Verifier);
            }
        }
    }
}

/// Produces lines that resemble settings, some of them valid.
fn toml_like() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        Just("agent"),
        Just("timeout"),
        Just("roles.verifier.agent"),
        Just("roles.verifier"),
        Just("agents.mine.command"),
        Just("agents.\"a.b\".env.X"),
        Just("prices.m.input"),
        Just("limits.context_warn"),
        Just("gate"),
        Just("nonsense"),
    ];
    let value = prop_oneof![
        Just("\"codex\""),
        Just("\"5m\""),
        Just("[\"a\", \"b\"]"),
        Just("[[\"a\"], 3]"),
        Just("{ name = \"x\", run = [\"y\"] }"),
        Just("[{ name = \"x\", run = [\"y\"] }]"),
        Just("0x1F"),
        Just("1e400"),
        Just("1979-05-27"),
        Just("\"\"\"\nlong\n\"\"\""),
        Just("\"open"),
        Just("\"\\u0000\""),
    ];
    let header = prop_oneof![
        Just("[[gate]]\n"),
        Just("[agents.mine]\n"),
        Just("[gate]\n"),
        Just("[budget]\n"),
        Just("[\n"),
        Just("\u{feff}\r\n"),
        Just("name = \"t\"\nrun = [\"true\"]\n"),
    ];
    prop_oneof![
        (key, value).prop_map(|(key, value)| format!("{key} = {value}\n")),
        header.prop_map(str::to_owned),
    ]
}
