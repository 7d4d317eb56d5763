//! The command line of goal-driven work.

use camino::Utf8PathBuf;
use clap::{Args, Subcommand, ValueEnum};
use ralph_model::goal::exec::IterationCap;

use super::build::RunOptions;
use super::plan::free_text;

/// How an interview is held.
#[derive(Debug, Args)]
#[command(next_help_heading = "Interview options")]
pub(crate) struct InterviewOptions {
    /// Do not ask: take answers from --answers and consent from the --approve flags; exit with 3 if one is missing
    #[arg(long)]
    pub(crate) non_interactive: bool,
    /// Resume the interview in progress without asking
    #[arg(long)]
    pub(crate) resume: bool,
    /// JSON file with answers: an object that maps questions (or parts of them) to answers, or an array in question order
    #[arg(long, value_name = "FILE")]
    pub(crate) answers: Option<Utf8PathBuf>,
    /// Approve the PRD without being asked
    #[arg(long)]
    pub(crate) approve_prd: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  ralph exec \"add dark mode\"\n  ralph exec --resume\n  \
    ralph exec \"add dark mode\" --non-interactive --answers answers.json --approve-prd --understand never --approve-run")]
pub(crate) struct ExecArgs {
    /// Goal in one sentence [default with --resume: the goal of the interview in progress]
    #[arg(value_parser = free_text)]
    pub(crate) goal: Option<String>,
    /// When to offer mapping the codebase first
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = UnderstandChoice::Auto)]
    pub(crate) understand: UnderstandChoice,
    /// Maximum mapping runs: auto (one per topic), auto+K or a number
    #[arg(long, value_name = "N", default_value = "auto")]
    pub(crate) max_understand_iterations: IterationCap,
    /// Maximum story runs: auto (one per failing story), auto+K or a number
    #[arg(long, value_name = "N", default_value = "auto")]
    pub(crate) max_run_iterations: IterationCap,
    /// Map the codebase without being asked
    #[arg(long)]
    pub(crate) approve_understand: bool,
    /// Start the run without being asked
    #[arg(long)]
    pub(crate) approve_run: bool,
    #[command(flatten)]
    pub(crate) run: RunOptions,
    #[command(flatten)]
    pub(crate) interview: InterviewOptions,
}

/// When the person is asked whether to map the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UnderstandChoice {
    /// If the map is missing or stale, or the planner is uncertain
    Auto,
    Always,
    Never,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  ralph understand\n  ralph understand 3 --interactive")]
pub(crate) struct UnderstandArgs {
    /// Maximum number of runs, one topic each [default: 10, or `MAX_ITERATIONS`]
    #[arg(value_name = "N", value_parser = crate::args::at_least_one)]
    pub(crate) iterations: Option<u32>,
    #[command(flatten)]
    pub(crate) rounds: RoundOptions,
    #[command(flatten)]
    pub(crate) ignored: IgnoredOptions,
    #[command(flatten)]
    pub(crate) run: RunOptions,
}

/// Options of `run` that scripts for other loops give to `understand` too, where they have nothing to decide.
#[derive(Debug, Args)]
pub(crate) struct IgnoredOptions {
    #[arg(long, hide = true)]
    pub(crate) prd: Option<Utf8PathBuf>,
    #[arg(long, hide = true)]
    pub(crate) branch: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) allowed_paths: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ralph run\n  ralph run 3 --interactive\n  ralph run --max-run-iterations auto+2"
)]
pub(crate) struct RunArgs {
    /// Maximum number of runs, one story each [default: 10, or `MAX_ITERATIONS`]
    #[arg(value_name = "N", value_parser = crate::args::at_least_one)]
    pub(crate) iterations: Option<u32>,
    /// Maximum story runs: auto (one per failing story), auto+K or a number
    #[arg(long, value_name = "N", conflicts_with = "iterations")]
    pub(crate) max_run_iterations: Option<IterationCap>,
    /// Retry stories that reached their limit of rejections or trouble
    #[arg(long)]
    pub(crate) retry: bool,
    /// PRD file in home (also: `PRD_FILE`) [default: `prd.json`]
    #[arg(long, value_name = "FILE")]
    pub(crate) prd: Option<Utf8PathBuf>,
    /// Branch to work on instead of the PRD's; empty for the checked-out one (also: `RALPH_BRANCH`)
    #[arg(long, conflicts_with = "onto")]
    pub(crate) branch: Option<String>,
    /// Reject work that changes any other path; directories end in / (also: `ALLOWED_PATHS`)
    #[arg(long, value_name = "A,B/")]
    pub(crate) allowed_paths: Option<String>,
    #[command(flatten)]
    pub(crate) rounds: RoundOptions,
    #[command(flatten)]
    pub(crate) run: RunOptions,
}

/// How one run follows the other, as other loops have it.
#[expect(clippy::struct_excessive_bools, reason = "flags are bools")]
#[derive(Debug, Args)]
pub(crate) struct RoundOptions {
    /// Prompt template (also: `PROMPT_FILE`)
    #[arg(long, short, value_name = "FILE")]
    pub(crate) prompt: Option<Utf8PathBuf>,
    /// Ask after each run whether to continue (also: `INTERACTIVE`)
    #[arg(long, short)]
    pub(crate) interactive: bool,
    /// Seconds to wait between runs (also: `SLEEP_SECONDS`) [default: 0]
    #[arg(long, short, value_name = "SECONDS")]
    pub(crate) sleep: Option<f64>,
    // The following options are accepted for scripts of other loops, and have no effect here.
    #[arg(long, hide = true)]
    pub(crate) ai_raw: bool,
    #[arg(long, hide = true)]
    ai_no_raw: bool,
    #[arg(long, hide = true)]
    ai_show_prompt: bool,
    #[arg(long, hide = true)]
    ai_hide_prompt: bool,
    #[arg(long, hide = true)]
    ai_show_final: bool,
    #[arg(long, hide = true)]
    ai_hide_final: bool,
    #[arg(long, hide = true)]
    ai_prompt_progress_every: Option<u32>,
    #[arg(long, hide = true)]
    ai_tool_mode: Option<String>,
    #[arg(long, hide = true)]
    ai_sys_mode: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PrdCommand {
    /// Convert another tool's story list to a PRD; shows what changes first
    Import(PrdImportArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  ralph prd import\n  ralph prd import ../other/prd.json")]
pub(crate) struct PrdImportArgs {
    /// File to convert [default: `prd.json` in home]
    pub(crate) file: Option<Utf8PathBuf>,
    /// Write the result without asking
    #[arg(long)]
    pub(crate) yes: bool,
}
