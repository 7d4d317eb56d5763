//! What can be typed about the build loop.

use clap::Args;

use super::AgentOptions;
use super::goal::InterviewOptions;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ralph plan 0001-login.md\n  ralph plan \"add dark mode\"\n  ralph plan --resume"
)]
pub(crate) struct PlanArgs {
    /// The spec to plan (a .md file, or the name of one in specs/), or a goal in a sentence
    #[arg(value_name = "SPEC|GOAL")]
    pub(crate) what: Option<String>,
    /// It is a spec, whatever it looks like
    #[arg(long, conflicts_with = "goal")]
    pub(crate) spec: bool,
    /// It is a goal, whatever it looks like
    #[arg(long)]
    pub(crate) goal: bool,
    /// For a spec: unfinished tasks are cancelled (kept if it is the same spec) without a question
    #[arg(long, conflicts_with = "non_interactive")]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) interview: InterviewOptions,
    #[command(flatten)]
    pub(crate) run: RunOptions,
}

#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// A spec to plan first if it has no tasks, and how many runs at most [default: until it is complete]
    #[arg(value_name = "[SPEC] [N]", num_args = 0..=2)]
    pub(crate) words: Vec<String>,
    /// How many runs at most; wins over N
    #[arg(long, value_name = "N")]
    pub(crate) max_iterations: Option<u32>,
    /// Stop after this many failed runs in a row; 0 for no limit [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) max_failures: Option<u32>,
    /// End when an agent's last message has this line
    #[arg(long, value_name = "TEXT")]
    pub(crate) completion_promise: Option<String>,
    /// Try tasks again that were rejected or in trouble too often
    #[arg(long)]
    pub(crate) retry: bool,
    /// Commit an uncommitted plan without a question
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) run: RunOptions,
}

/// Options of every command of the build loop and of goal-driven work.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags are bools")]
pub(crate) struct RunOptions {
    /// With --in-place: begin although there are uncommitted changes; they are kept, and never count as an agent's work
    #[arg(long)]
    pub(crate) allow_dirty: bool,
    /// Have agents work in this checkout instead of a clone of their own
    #[arg(long, conflicts_with = "onto")]
    pub(crate) in_place: bool,
    /// Land work on this branch instead of the one that is checked out
    #[arg(long, value_name = "BRANCH")]
    pub(crate) onto: Option<String>,
    /// Show everything that agents say
    #[arg(long)]
    pub(crate) stream: bool,
    /// Start no further run once this many tokens are used
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<u64>,
    /// Start no further run once this much is spent, in dollars
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<f64>,
    /// Take this for the size of the agents' context, in tokens
    #[arg(long, value_name = "TOKENS")]
    pub(crate) context_limit: Option<u64>,
    /// Do not wait for a usage limit to be reset: exit with 1
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) agent: AgentOptions,
}
