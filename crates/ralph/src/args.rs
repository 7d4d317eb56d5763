//! The command line: clap structures only, no decisions. The doc comments are the help texts.

pub(crate) mod build;
pub(crate) mod goal;
mod lazy_options;
pub(crate) mod loop_task;
pub(crate) mod pipeline;
pub(crate) mod plan;
pub(crate) mod runs;

use std::ffi::OsString;
use std::mem::ManuallyDrop;

use camino::Utf8PathBuf;
use clap::{Args, FromArgMatches, Parser, Subcommand, ValueEnum};
use ralph_model::role::Role;

use self::build::{BuildArgs, PlanArgs};
use self::goal::{ExecArgs, PrdCommand, RunArgs, UnderstandArgs};
use self::lazy_options::LazyOptions;
use self::loop_task::LoopArgs;
use self::pipeline::{DemoArgs, PipelineArgs, SpecsCommand};
use self::plan::{
    AnswerArgs, IssueCommand, LogArgs, MergePlanArgs, QueryArgs, SetSpecArgs, TaskCommand,
};
use self::runs::RunsCommand;
use crate::render::UiChoice;
use crate::{complete, exit};

/// Run coding agents on a git repository until the work is done; Ralph, not the agent, decides when that is
#[derive(Debug, Parser)]
#[command(
    name = "ralph",
    version,
    after_help = exit::HELP,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    max_term_width = 100,
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Parses an amount of dollars.
fn usd(text: &str) -> Result<f64, String> {
    let amount = text.strip_prefix('$').unwrap_or(text).parse().ok();
    amount
        .filter(|usd: &f64| usd.is_finite() && *usd >= 0.0)
        .ok_or_else(|| "expected an amount in US dollars, such as 5 or 0.50".to_owned())
}

impl Cli {
    /// Parses the command line.
    ///
    /// Building only the parser of the command that is named first is faster. Anything it cannot parse, and every help
    /// text or error, goes through the full parser.
    pub(crate) fn understand(typed: &[OsString]) -> Result<Cli, clap::Error> {
        Self::of_one_command(typed).map_or_else(|| Cli::try_parse_from(typed), Ok)
    }

    fn of_one_command(typed: &[OsString]) -> Option<Cli> {
        // Dropped with the process: dropping all commands costs half as much as parsing one.
        let all = ManuallyDrop::new(Command::augment_subcommands(clap::Command::default()));
        let one = all.find_subcommand(typed.get(1)?)?.clone();
        let root = GlobalArgs::augment_args(clap::Command::default()).subcommand(one);
        let mut root = ManuallyDrop::new(root);
        let matches = root.try_get_matches_from_mut(typed).ok()?;
        Cli::from_arg_matches(&matches).ok()
    }
}

/// Reads a count of things of which there is at least one.
fn at_least_one(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err("a whole number from 1 is expected".to_owned()),
    }
}

#[expect(clippy::struct_excessive_bools, reason = "flags are bools")]
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Workspace directory [default: the nearest parent with ralph.toml, a Ralph home or a git root]
    #[arg(long, global = true, alias = "workspace-root", value_name = "DIR")]
    pub(crate) root: Option<Utf8PathBuf>,
    /// Directory of Ralph's committed files [default: `ralph/` or `scripts/ralph/` in the workspace]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<Utf8PathBuf>,
    /// Progress display
    #[arg(long, global = true, value_enum, value_name = "MODE")]
    pub(crate) ui: Option<UiChoice>,
    /// Format of `ralph.log` in home [default: json]
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormatChoice>,
    /// Disable colours (also: `NO_COLOR`)
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
    /// Use plain ASCII symbols
    #[arg(long, global = true)]
    pub(crate) ascii: bool,
    /// Print only results, warnings and errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Print the result as JSON on stdout
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Trust what this workspace's ralph.toml and prompt templates say, for this command only
    #[arg(long, global = true)]
    pub(crate) trust: bool,
}

/// How people read the journal along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormatChoice {
    /// One JSON object per line
    Json,
    /// One line of `key=value` pairs per event
    Text,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the whole story on a throw-away repository with a scripted agent; needs only git
    Demo(LazyOptions<DemoArgs>),
    /// Set up Ralph in a repository: detect agents and checks, write ralph.toml; never overwrites a file
    Init(LazyOptions<InitArgs>),
    /// Plan, implement and verify specs until they are done
    Pipeline(LazyOptions<PipelineArgs>),
    /// Turn a spec into tasks, or a goal into a PRD by way of an interview
    Plan(LazyOptions<PlanArgs>),
    /// Go from a one-sentence goal to finished stories: interview, PRD, code map, run; asks before each step
    Exec(LazyOptions<ExecArgs>),
    /// Have an agent map the codebase, one topic per run
    Understand(LazyOptions<UnderstandArgs>),
    /// Implement the stories of the PRD on its branch, one per run, until all pass
    Run(LazyOptions<RunArgs>),
    /// Work with the PRD of a goal
    #[command(after_help = "Example:\n  ralph prd import")]
    #[command(subcommand)]
    Prd(LazyOptions<PrdCommand>),
    /// Build the tasks of the plan until it is complete (also: `ralph N`)
    #[command(alias = "construct")]
    Build(LazyOptions<BuildArgs>),
    /// Work on one task: the agent plans and builds, Ralph validates the plan and runs the gates
    Loop(LazyOptions<LoopArgs>),
    /// List specs and their state, create one, or mark one done [default: list]
    #[command(
        after_help = "Examples:\n  ralph specs\n  ralph specs show 7\n  ralph specs new \"Reset a forgotten password\""
    )]
    Specs {
        #[command(subcommand)]
        command: Option<LazyOptions<SpecsCommand>>,
    },
    /// Update your checkout to landed work that was waiting for it
    #[command(after_help = "Example:\n  ralph land")]
    Land,
    /// Show runs of agents: what each claimed, what was decided, its work and its log [default: list]
    #[command(
        after_help = "Examples:\n  ralph runs\n  ralph runs show 0001-greet\n  ralph runs tail -f"
    )]
    Runs {
        #[command(subcommand)]
        command: Option<LazyOptions<RunsCommand>>,
    },
    /// List or prune the clones that agents work in [default: list]
    #[command(after_help = "Examples:\n  ralph slots\n  ralph slots prune")]
    Slots {
        #[command(subcommand)]
        command: Option<SlotsCommand>,
    },
    /// List remembered usage limits, or forget them [default: list]
    #[command(after_help = "Examples:\n  ralph limits\n  ralph limits clear")]
    Limits {
        #[command(subcommand)]
        command: Option<LimitsCommand>,
    },
    /// Show which settings of this repository need your trust, and give it
    #[command(after_help = "Examples:\n  ralph trust\n  ralph trust --yes\n  ralph trust --always")]
    Trust(LazyOptions<TrustArgs>),
    /// Check whether this machine and workspace are ready
    #[command(after_help = "Examples:\n  ralph doctor\n  ralph doctor --gates")]
    Doctor(DoctorArgs),
    /// List the installed agents, or run one under supervision
    #[command(
        after_help = "Examples:\n  ralph agent list\n  ralph agent run \"Fix the failing test and commit\""
    )]
    #[command(subcommand)]
    Agent(LazyOptions<AgentCommand>),
    /// List the gates, or run them as Ralph does: in a clean checkout [default: list]
    #[command(after_help = "Examples:\n  ralph gates\n  ralph gates run --base main")]
    Gates {
        #[command(subcommand)]
        command: Option<LazyOptions<GatesCommand>>,
    },
    /// Re-run the gates of accepted commits from their receipts
    Verify(LazyOptions<VerifyArgs>),
    /// Run a command in a role's sandbox, to see what an agent could do
    Sandbox(LazyOptions<SandboxArgs>),
    /// Show the state of every workflow: items, runs, open questions, cost
    Status(StatusArgs),
    /// Answer a question that a workflow asked
    Answer(LazyOptions<AnswerArgs>),
    /// Query the plan as JSON [default: everything]
    Query(LazyOptions<QueryArgs>),
    /// Add, change or show tasks of the plan; inside a run, subject to the role's permissions
    #[command(
        after_help = "Examples:\n  ralph task add \"Validate the e-mail address\"\n  ralph task show"
    )]
    #[command(subcommand)]
    Task(LazyOptions<TaskCommand>),
    /// Add, list or resolve issues of the plan; inside a run, subject to the role's permissions
    #[command(after_help = "Example:\n  ralph issue add \"the login page flickers\"")]
    #[command(subcommand)]
    Issue(LazyOptions<IssueCommand>),
    /// Set the spec that the plan is for
    SetSpec(LazyOptions<SetSpecArgs>),
    /// Show the history of the plan's tasks from git, as JSON
    Log(LazyOptions<LogArgs>),
    /// Merge two plans by record; git calls this (`ralph init` sets it up)
    MergePlan(LazyOptions<MergePlanArgs>),
    /// Check every file in Ralph's home; errors name file and line
    #[command(after_help = "Example:\n  ralph validate")]
    Validate,
    /// Show every setting, its value and its origin
    Config(LazyOptions<ConfigArgs>),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  ralph completions bash > ~/.local/share/bash-completion/completions/ralph"
    )]
    Completions {
        /// Shell to print completions for
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write all pages to a directory
    #[command(after_help = "Examples:\n  ralph man\n  ralph man --out ~/.local/share/man/man1")]
    Man {
        /// Write one page per command into this directory
        #[arg(long, value_name = "DIR")]
        out: Option<Utf8PathBuf>,
    },
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum LimitsCommand {
    /// List the agents at their usage limit and when it resets
    #[command(after_help = "Example:\n  ralph limits list --json")]
    List,
    /// Forget remembered limits, so that the next run starts at once
    #[command(after_help = "Examples:\n  ralph limits clear\n  ralph limits clear codex")]
    Clear {
        /// Only of this agent
        #[arg(add = complete::agents())]
        agent: Option<String>,
    },
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum SlotsCommand {
    /// List the clones with number, item, size and path
    #[command(after_help = "Example:\n  ralph slots list --json")]
    List,
    /// Remove clones that no item uses
    #[command(after_help = "Example:\n  ralph slots prune --all")]
    Prune {
        /// Also remove clones that an item uses; that item starts over
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  ralph init\n  ralph init services/api")]
pub(crate) struct InitArgs {
    /// Directory to initialise
    #[arg(default_value = ".")]
    pub(crate) dir: Utf8PathBuf,
    /// Leave the new files uncommitted; otherwise they are committed (at a terminal after a question)
    #[arg(long)]
    pub(crate) no_commit: bool,
    /// Do not run the detected gates
    #[arg(long)]
    pub(crate) no_gates: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Also run every gate once, at HEAD, in a clean checkout
    #[arg(long)]
    pub(crate) gates: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Agree without being asked
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Trust this checkout whatever its settings become: notes it in your own configuration
    #[arg(long)]
    pub(crate) always: bool,
    /// Forget what you agreed to here
    #[arg(long, conflicts_with_all = ["yes", "always"])]
    pub(crate) forget: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ralph status\n  ralph status --follow\n  ralph status --json --last 5"
)]
pub(crate) struct StatusArgs {
    /// Print events as they happen, one line each, until Ctrl-C; with --json, the journal's own lines
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Number of recent runs in --json, or of past events that --follow starts with
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) last: usize,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ralph sandbox --role planner -- touch src/new.rs\n  ralph sandbox --verbose -- bash"
)]
pub(crate) struct SandboxArgs {
    /// Role whose sandbox to use: planner, interviewer, mapper, investigator, decomposer, verifier, implementer, builder
    #[arg(long, default_value_t = Role::Builder, value_name = "ROLE", add = complete::roles())]
    pub(crate) role: Role,
    /// Sandbox mode: strict, kernel, auto, detect or off
    #[arg(long, value_name = "HOW", add = complete::boundaries())]
    pub(crate) boundary: Option<String>,
    /// First print which layers are in force and which paths are writable
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ralph config\n  ralph config limits\n  ralph config --reference budget"
)]
pub(crate) struct ConfigArgs {
    /// Show only settings whose name starts with this
    pub(crate) prefix: Option<String>,
    /// Describe the settings instead of showing their values, as Markdown
    #[arg(long)]
    pub(crate) reference: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GatesCommand {
    /// List the gates, their commands and where each is configured
    #[command(after_help = "Example:\n  ralph gates list")]
    List,
    /// Run the gates at a commit; exits with 1 unless all pass
    Run(GatesRunArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ralph gates run\n  ralph gates run --commit HEAD~1 --gate tests"
)]
pub(crate) struct GatesRunArgs {
    /// Commit to check
    #[arg(long, value_name = "COMMIT", default_value = "HEAD")]
    pub(crate) commit: String,
    /// Compare with this commit: what regressed, what failed before, what fails with its checks
    #[arg(long, value_name = "COMMIT")]
    pub(crate) base: Option<String>,
    /// Run only this gate (repeatable)
    #[arg(long = "gate", value_name = "NAME")]
    pub(crate) gates: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  ralph verify HEAD\n  ralph verify main..feature")]
pub(crate) struct VerifyArgs {
    /// Commit, or range such as main..HEAD
    pub(crate) what: String,
    /// Run the commands of the receipts without being asked
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// List the agents that Ralph knows, and which are installed
    #[command(after_help = "Example:\n  ralph agent list")]
    List,
    /// Run an agent on a prompt, supervised, sandboxed and logged
    Run(Box<AgentRunArgs>),
}

/// Options of every command that runs agents.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Agent options")]
pub(crate) struct AgentOptions {
    /// Agent: codex, claude, opencode, gemini, rehearsal, or a name from [agents.*]
    #[arg(long, value_name = "NAME", add = complete::agents())]
    pub(crate) agent: Option<String>,
    /// Shell command that reads the prompt from stdin; used for every role
    #[arg(long, value_name = "CMD", conflicts_with = "agent")]
    pub(crate) agent_cmd: Option<String>,
    /// Model
    #[arg(long, short, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Reasoning effort, as the agent names it
    #[arg(long, value_name = "EFFORT")]
    pub(crate) reasoning: Option<String>,
    /// Stop a run after this time (90s, 30m, 2h)
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    /// Stop a run after this long without output
    #[arg(long, value_name = "TIME")]
    pub(crate) idle_timeout: Option<String>,
    /// Sandbox mode: strict, kernel, auto, detect or off
    #[arg(long, value_name = "HOW", add = complete::boundaries())]
    pub(crate) boundary: Option<String>,
    /// Start although an earlier run met a usage limit that has not reset yet
    #[arg(long)]
    pub(crate) ignore_limit: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ralph agent run \"Fix the failing test in parser.rs and commit\"\n  ralph agent run --role planner -f PROMPT.md\n  ralph agent run --repeat 20 --max-cost 5 -f PROMPT.md"
)]
pub(crate) struct AgentRunArgs {
    /// Prompt [default: read from --file, else from stdin]
    pub(crate) prompt: Option<String>,
    /// Read the prompt from a file (`-` is stdin)
    #[arg(long, short, value_name = "FILE", conflicts_with = "prompt")]
    pub(crate) file: Option<Utf8PathBuf>,
    /// Role, which decides what the agent may write: planner, interviewer, mapper, investigator, decomposer, verifier, implementer, builder
    #[arg(long, default_value_t = Role::Builder, value_name = "ROLE", add = complete::roles())]
    pub(crate) role: Role,
    /// Resume an earlier session of the agent
    #[arg(long, value_name = "SESSION")]
    pub(crate) resume: Option<String>,
    /// Run the prompt N times, each in a new session; stops after three failures in a row
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    pub(crate) repeat: u32,
    /// Start no new run after this many tokens
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<u64>,
    /// Start no new run after this cost, in US dollars
    #[arg(long, value_name = "USD", value_parser = usd)]
    pub(crate) max_cost: Option<f64>,
    /// Stop after this many failures in a row
    #[arg(long, value_name = "N")]
    pub(crate) max_failures: Option<u32>,
    /// Exit with 1 instead of waiting for a usage limit to reset
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) agent: AgentOptions,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Cli;

    /// Collects the commands whose help has no example.
    fn without_example(command: &clap::Command, path: &str, names: &mut Vec<String>) {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let path = format!("{path} {}", sub.get_name());
            let shown = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            if !(shown.starts_with("Example") && shown.contains(&path)) {
                names.push(path.clone());
            }
            without_example(sub, &path, names);
        }
    }

    #[test]
    fn the_help_of_every_command_has_an_example_of_it() {
        let mut root = Cli::command();
        root.build();
        let mut names = Vec::new();
        without_example(&root, "ralph", &mut names);
        assert_eq!(names, Vec::<String>::new());
    }
}
