//! What can be typed about goal-driven work.

use camino::Utf8PathBuf;
use clap::{Args, Subcommand, ValueEnum};
use ralph_model::goal::exec::IterationCap;

use super::build::RunOptions;

/// How an interview is held.
#[derive(Debug, Args)]
#[command(next_help_heading = "Interview options")]
pub(crate) struct InterviewOptions {
    /// Ask nothing: take answers from --answers and consents from the --approve flags, and exit with 3 if one is missing
    #[arg(long)]
    pub(crate) non_interactive: bool,
    /// Go on with the interview that was begun, without a question
    #[arg(long)]
    pub(crate) resume: bool,
    /// Answers in JSON: an object from questions (or parts of them) to answers, or an array in the order of the questions
    #[arg(long, value_name = "FILE")]
    pub(crate) answers: Option<Utf8PathBuf>,
    /// Approve of the PRD without being asked
    #[arg(long)]
    pub(crate) approve_prd: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  ralph exec \"add dark mode\"\n  ralph exec --resume\n  \
    ralph exec \"add dark mode\" --non-interactive --answers answers.json --approve-prd --understand never --approve-run")]
pub(crate) struct ExecArgs {
    /// The goal, in a sentence [default with --resume: the one of the interview that was begun]
    pub(crate) goal: Option<String>,
    /// When to ask whether the code is to be mapped first
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = UnderstandChoice::Auto)]
    pub(crate) understand: UnderstandChoice,
    /// How many runs map the code at most: auto (one a topic), auto+K or a number
    #[arg(long, value_name = "N", default_value = "auto")]
    pub(crate) max_understand_iterations: IterationCap,
    /// How many runs implement stories at most: auto (one a failing story), auto+K or a number
    #[arg(long, value_name = "N", default_value = "auto")]
    pub(crate) max_run_iterations: IterationCap,
    /// Have the code mapped without being asked
    #[arg(long)]
    pub(crate) approve_understand: bool,
    /// Start the run without being asked
    #[arg(long)]
    pub(crate) approve_run: bool,
    #[command(flatten)]
    pub(crate) interview: InterviewOptions,
    #[command(flatten)]
    pub(crate) run: RunOptions,
}

/// When the person is asked whether the code is to be mapped.
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
    /// How many runs at most, one topic each [default: 10, or `MAX_ITERATIONS`]
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iterations: Option<u32>,
    #[command(flatten)]
    pub(crate) rounds: RoundOptions,
    #[command(flatten)]
    pub(crate) run: RunOptions,
}

/// How one run follows the other, as other loops have it.
#[expect(clippy::struct_excessive_bools, reason = "flags are bools")]
#[derive(Debug, Args)]
pub(crate) struct RoundOptions {
    /// The template of the prompt (also: `PROMPT_FILE`)
    #[arg(long, short, value_name = "FILE")]
    pub(crate) prompt: Option<Utf8PathBuf>,
    /// Ask after each run whether to go on (also: `INTERACTIVE`)
    #[arg(long, short)]
    pub(crate) interactive: bool,
    /// Wait so many seconds between runs (also: `SLEEP_SECONDS`) [default: 0]
    #[arg(long, short, value_name = "SECONDS")]
    pub(crate) sleep: Option<f64>,
    // What follows is known to scripts for other loops, and has nothing to decide here.
    #[arg(long, hide = true)]
    pub(crate) prd: Option<Utf8PathBuf>,
    #[arg(long, hide = true)]
    pub(crate) branch: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) allowed_paths: Option<String>,
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
    /// Convert a list of stories of another loop to a PRD, after showing what changes
    Import(PrdImportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PrdImportArgs {
    /// The file to convert [default: `prd.json` in home]
    pub(crate) file: Option<Utf8PathBuf>,
    /// Write the result without a question
    #[arg(long)]
    pub(crate) yes: bool,
}
