//! What can be typed: clap structures only, no decisions. The doc comments are the help.

pub(crate) mod build;
pub(crate) mod goal;
mod lazy_options;
pub(crate) mod loop_task;
pub(crate) mod pipeline;
pub(crate) mod plan;

use std::ffi::OsString;

use camino::Utf8PathBuf;
use clap::{Args, FromArgMatches, Parser, Subcommand, ValueEnum};
use ralph_model::role::Role;

use self::build::{BuildArgs, PlanArgs};
use self::goal::{ExecArgs, PrdCommand, UnderstandArgs};
use self::lazy_options::LazyOptions;
use self::loop_task::LoopArgs;
use self::pipeline::{DemoArgs, PipelineArgs, SpecsCommand};
use self::plan::{
    AnswerArgs, IssueCommand, LogArgs, MergePlanArgs, QueryArgs, SetSpecArgs, TaskCommand,
};
use crate::exit;
use crate::render::UiChoice;

/// Run coding agents over a git repository until the work is done; the harness decides what done is
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

impl Cli {
    /// Understands what was typed.
    ///
    /// To the command that is named first only its own words matter, and to know but that one is quicker. What it does not
    /// understand, and every word of help or complaint, is for all of them together.
    pub(crate) fn understand(typed: &[OsString]) -> Result<Cli, clap::Error> {
        Self::of_one_command(typed).map_or_else(|| Cli::try_parse_from(typed), Ok)
    }

    fn of_one_command(typed: &[OsString]) -> Option<Cli> {
        let all = Command::augment_subcommands(clap::Command::default());
        let one = all.find_subcommand(typed.get(1)?)?.clone();
        let root = GlobalArgs::augment_args(clap::Command::default()).subcommand(one);
        let matches = root.try_get_matches_from(typed).ok()?;
        Cli::from_arg_matches(&matches).ok()
    }
}

#[expect(clippy::struct_excessive_bools, reason = "flags are bools")]
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// The workspace [default: found by walking up to ralph.toml, a home or the git root]
    #[arg(long, global = true, alias = "workspace-root", value_name = "DIR")]
    pub(crate) root: Option<Utf8PathBuf>,
    /// Ralph's committed files [default: `ralph/` or `scripts/ralph/` in the workspace]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<Utf8PathBuf>,
    /// How to show progress
    #[arg(long, global = true, value_enum, value_name = "HOW")]
    pub(crate) ui: Option<UiChoice>,
    /// How `ralph.log` in home is written [default: json]
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormatChoice>,
    /// Use no colours (also: `NO_COLOR`)
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
    /// Use plain ASCII symbols
    #[arg(long, global = true)]
    pub(crate) ascii: bool,
    /// Say only what matters
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Print the result as JSON on stdout
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// How people read the journal along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormatChoice {
    /// One object a line
    Json,
    /// One sentence a line
    Text,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Watch Ralph at work on a throw-away repository with a scripted agent; needs nothing but git
    Demo(LazyOptions<DemoArgs>),
    /// Make a home for Ralph here: detect agents and checks, write ralph.toml; never overwrites
    Init(LazyOptions<InitArgs>),
    /// Take specs through plan, implement, verify, until they are done
    Pipeline(LazyOptions<PipelineArgs>),
    /// Turn a spec into tasks of the plan, or a goal into a PRD by an interview
    Plan(LazyOptions<PlanArgs>),
    /// Go from a goal in one sentence to a run: interview, PRD, map of the code, run; each asks first
    Exec(LazyOptions<ExecArgs>),
    /// Have the code mapped, one topic per run
    Understand(LazyOptions<UnderstandArgs>),
    /// Work with the PRD of a goal
    #[command(subcommand)]
    Prd(LazyOptions<PrdCommand>),
    /// Build the plan, task by task, until it is complete (also: `ralph`, `ralph N`)
    #[command(alias = "construct")]
    Build(LazyOptions<BuildArgs>),
    /// Work on one task: the agent plans and builds, the harness validates the plan and runs the gates
    Loop(LazyOptions<LoopArgs>),
    /// See the specs and where each of them stands [default: list]
    Specs {
        #[command(subcommand)]
        command: Option<LazyOptions<SpecsCommand>>,
    },
    /// Bring your checkout along to work that has landed and waited for it
    Land,
    /// See the clones that agents work in, or remove some [default: list]
    Slots {
        #[command(subcommand)]
        command: Option<SlotsCommand>,
    },
    /// Check whether this machine and this workspace are ready
    Doctor,
    /// See which agents are here, and run one under supervision
    #[command(subcommand)]
    Agent(LazyOptions<AgentCommand>),
    /// See the checks that decide, or run them as Ralph would: in a checkout of its own [default: list]
    Gates {
        #[command(subcommand)]
        command: Option<LazyOptions<GatesCommand>>,
    },
    /// Run the gates of accepted commits again, from their receipts
    Verify(LazyOptions<VerifyArgs>),
    /// Run any command under a role's boundary, to see what an agent would be able to do
    Sandbox(LazyOptions<SandboxArgs>),
    /// Show what is going on in this workspace: specs, runs, waits, cost
    Status(StatusArgs),
    /// Answer what a workflow asked
    Answer(LazyOptions<AnswerArgs>),
    /// Ask what the plan holds, as JSON [default: all of it]
    Query(LazyOptions<QueryArgs>),
    /// Change the tasks of the plan; inside a run Ralph decides whether the role may
    #[command(subcommand)]
    Task(LazyOptions<TaskCommand>),
    /// Change the issues of the plan; inside a run Ralph decides whether the role may
    #[command(subcommand)]
    Issue(LazyOptions<IssueCommand>),
    /// Choose the spec that the plan is about
    SetSpec(LazyOptions<SetSpecArgs>),
    /// Tell what became of the plan's tasks, from git's history, as JSON
    Log(LazyOptions<LogArgs>),
    /// Merge two plans record by record; git calls this (`ralph init` sets it up)
    MergePlan(LazyOptions<MergePlanArgs>),
    /// Check every file of Ralph's home, and say on which line something is wrong
    Validate,
    /// Show every setting and where it comes from
    Config(LazyOptions<ConfigArgs>),
    /// Print completions for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write all of them
    Man {
        /// Write one page per command into this directory
        #[arg(long, value_name = "DIR")]
        out: Option<Utf8PathBuf>,
    },
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum SlotsCommand {
    /// List the clones: number, item, size, path
    List,
    /// Remove the clones that serve no item
    Prune {
        /// Remove also those that an item is at work in: it begins anew
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Where
    #[arg(default_value = ".")]
    pub(crate) dir: Utf8PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Show what happens as it happens, a line each, until Ctrl-C; with --json the lines of the journal
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// How many of the last runs --json lists, or of the last lines --follow begins with
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) last: usize,
}

#[derive(Debug, Args)]
pub(crate) struct SandboxArgs {
    /// Whose boundary
    #[arg(long, default_value_t = Role::Builder, value_name = "ROLE")]
    pub(crate) role: Role,
    /// How it is held: kernel, auto, detect or off
    #[arg(long, value_name = "HOW")]
    pub(crate) boundary: Option<String>,
    /// Say first which boundary is in force and what may be written
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Show only the settings whose name begins with this
    pub(crate) prefix: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GatesCommand {
    /// List the gates, what each runs and where it is configured
    List,
    /// Run them at a commit; exits with 1 unless all pass
    Run(GatesRunArgs),
}

#[derive(Debug, Args)]
pub(crate) struct GatesRunArgs {
    /// The commit to run them at
    #[arg(long, value_name = "COMMIT", default_value = "HEAD")]
    pub(crate) commit: String,
    /// Compare with this commit: what regressed, what was red before, which checks were weakened
    #[arg(long, value_name = "COMMIT")]
    pub(crate) base: Option<String>,
    /// Run only the gate of this name (may be given several times)
    #[arg(long = "gate", value_name = "NAME")]
    pub(crate) gates: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// A commit, or a range such as main..HEAD
    pub(crate) what: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// List the agents Ralph knows and which of them are installed
    List,
    /// Run an agent once on a prompt, supervised, confined and logged
    Run(Box<AgentRunArgs>),
}

/// Options of every command that runs agents.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Agent options")]
pub(crate) struct AgentOptions {
    /// The agent: codex, claude, opencode, gemini, rehearsal or a name of [agents.*]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Any shell command that reads the prompt from stdin; wins for every role
    #[arg(long, value_name = "CMD", conflicts_with = "agent")]
    pub(crate) agent_cmd: Option<String>,
    /// The model to use
    #[arg(long, short, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// How hard the model is to think, in the agent's own words
    #[arg(long, value_name = "EFFORT")]
    pub(crate) reasoning: Option<String>,
    /// End a run that takes longer (90s, 30m, 2h)
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    /// End a run that makes no progress for this long
    #[arg(long, value_name = "TIME")]
    pub(crate) idle_timeout: Option<String>,
    /// How the agent is held: kernel, auto, detect or off
    #[arg(long, value_name = "HOW")]
    pub(crate) boundary: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AgentRunArgs {
    /// The prompt [default: read from --file, else from stdin]
    pub(crate) prompt: Option<String>,
    /// Read the prompt from a file (`-` is stdin)
    #[arg(long, short, value_name = "FILE", conflicts_with = "prompt")]
    pub(crate) file: Option<Utf8PathBuf>,
    /// What the agent is there for; decides what it may write
    #[arg(long, default_value_t = Role::Builder, value_name = "ROLE")]
    pub(crate) role: Role,
    /// Go on with an earlier session of the agent
    #[arg(long, value_name = "SESSION")]
    pub(crate) resume: Option<String>,
    /// Run the same prompt this often, each time afresh; stops when a run fails for the third time in a row
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    /// Start no further run once this many tokens are used
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<u64>,
    /// Start no further run once this much is spent, in dollars
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<f64>,
    /// Stop after this many failures in a row
    #[arg(long, value_name = "N")]
    pub(crate) max_failures: Option<u32>,
    /// Do not wait for a usage limit to be reset: exit with 1
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) agent: AgentOptions,
}
