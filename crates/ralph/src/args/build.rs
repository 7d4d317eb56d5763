//! The command line of the build loop.

use clap::Args;

use super::goal::InterviewOptions;
use super::plan::free_text;
use super::{AgentOptions, usd};
use crate::complete;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ralph plan 0001-login.md\n  ralph plan \"add dark mode\"\n  ralph plan --resume"
)]
pub(crate) struct PlanArgs {
    /// Spec to plan (a .md file, or the name of one in specs/), or a goal in one sentence
    #[arg(value_name = "SPEC|GOAL", value_parser = free_text, add = complete::specs())]
    pub(crate) what: Option<String>,
    /// Treat the argument as a spec
    #[arg(long, conflicts_with = "goal")]
    pub(crate) spec: bool,
    /// Treat the argument as a goal
    #[arg(long)]
    pub(crate) goal: bool,
    /// For a spec: cancel unfinished tasks without asking (kept if the spec is the same)
    #[arg(long, conflicts_with = "non_interactive")]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) run: RunOptions,
    #[command(flatten)]
    pub(crate) interview: InterviewOptions,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ralph build                      until the plan is complete\n  \
    ralph build 0001-login.md 20     plan the spec if it has no tasks, then at most 20 runs\n  \
    ralph build --max-cost 5         within a budget"
)]
pub(crate) struct BuildArgs {
    /// Spec to plan first if it has no tasks, and the maximum number of runs [default: until complete, at most 200]
    #[arg(value_name = "[SPEC] [N]", num_args = 0..=2, add = complete::specs())]
    pub(crate) words: Vec<String>,
    /// Maximum number of runs; overrides N
    #[arg(long, value_name = "N")]
    pub(crate) max_iterations: Option<u32>,
    /// Stop after this many consecutive failed runs; 0 for no limit [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) max_failures: Option<u32>,
    /// Stop when an agent's final message contains this line
    #[arg(long, value_name = "TEXT")]
    pub(crate) completion_promise: Option<String>,
    /// Retry tasks that reached their limit of rejections or trouble
    #[arg(long)]
    pub(crate) retry: bool,
    /// Commit an uncommitted plan without asking
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) run: RunOptions,
}

/// Options of every command of the build loop and of goal-driven work.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags are bools")]
pub(crate) struct RunOptions {
    /// Run agents although a gate cannot run, or is red, where work begins
    #[arg(long)]
    pub(crate) anyway: bool,
    /// With --in-place: start although there are uncommitted changes; they are kept and never count as the agent's work
    #[arg(long)]
    pub(crate) allow_dirty: bool,
    /// Run agents in this checkout instead of a separate clone
    #[arg(long, conflicts_with = "onto")]
    pub(crate) in_place: bool,
    /// Land work on this branch instead of the checked-out one
    #[arg(long, value_name = "BRANCH")]
    pub(crate) onto: Option<String>,
    /// Show all agent output
    #[arg(long)]
    pub(crate) stream: bool,
    /// Start no new run after this many tokens
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<u64>,
    /// Start no new run after this cost, in US dollars
    #[arg(long, value_name = "USD", value_parser = usd)]
    pub(crate) max_cost: Option<f64>,
    /// Assume this context window, in tokens
    #[arg(long, value_name = "TOKENS")]
    pub(crate) context_limit: Option<u64>,
    /// Exit with 1 instead of waiting for a usage limit to reset
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) agent: AgentOptions,
}
