//! The command line of the pipeline and its specs.

use camino::Utf8PathBuf;
use clap::{Args, Subcommand};
use ralph_model::contract::DEFAULT_MAGIC_PHRASE;
use ralph_model::pipeline::DEFAULT_ATTEMPTS;

use super::{AgentOptions, usd};
use crate::complete;

#[expect(clippy::struct_excessive_bools, reason = "flags are bools")]
#[derive(Debug, Default, Args)]
#[command(
    after_help = "Examples:\n  ralph pipeline                        every spec, in order\n  \
    ralph pipeline 3 billing/0010         two specs\n  \
    ralph pipeline --dry-run              what would happen, and why\n  \
    ralph pipeline 7 --force 7            redo a finished spec"
)]
pub(crate) struct PipelineArgs {
    /// Specs to work on, by number, name or path; resets their attempt count [default: all, in order]
    #[arg(value_name = "SPEC", add = complete::specs())]
    pub(crate) specs: Vec<String>,
    /// Stop after this spec
    #[arg(long, value_name = "SPEC", conflicts_with = "specs", add = complete::specs())]
    pub(crate) to: Option<String>,
    /// Redo a finished spec: archives its done marker, ignores its candidate, keeps its plan
    #[arg(long, value_name = "SPEC", add = complete::specs())]
    pub(crate) force: Vec<String>,
    /// Reset the attempt count of every spec
    #[arg(long)]
    pub(crate) retry: bool,
    /// Attempts per spec, over all phases
    #[arg(long, value_name = "N", alias = "max-attempts-per-spec", default_value_t = DEFAULT_ATTEMPTS,
          value_parser = crate::args::at_least_one)]
    pub(crate) max_attempts: u32,
    /// Continue with the next spec when one fails or waits for an answer
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Show what would happen to each spec and why; writes nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Skip checking the specs
    #[arg(long)]
    pub(crate) skip_validation: bool,
    /// Line that agents must end with when they are done
    #[arg(long, value_name = "TEXT", default_value = DEFAULT_MAGIC_PHRASE, hide_default_value = true)]
    pub(crate) magic_phrase: String,
    /// Show all agent output
    #[arg(long, alias = "stream-agent-output")]
    pub(crate) stream: bool,
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
    /// Start no new run after this many tokens
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<u64>,
    /// Start no new run after this cost, in US dollars
    #[arg(long, value_name = "USD", value_parser = usd)]
    pub(crate) max_cost: Option<f64>,
    /// Exit with 1 instead of waiting for a usage limit to reset
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) agent: AgentOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  ralph demo\n  ralph demo --keep --dir /tmp/demo")]
pub(crate) struct DemoArgs {
    /// Keep the repository for inspection
    #[arg(long)]
    pub(crate) keep: bool,
    /// Directory to use; must be empty or not exist [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<Utf8PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SpecsCommand {
    /// List the specs with state, attempts, commit, cost and last result
    #[command(after_help = "Example:\n  ralph specs list --json")]
    List,
    /// Show everything about one spec
    #[command(after_help = "Example:\n  ralph specs show 0007-login")]
    Show {
        /// Spec, by number, name or path
        #[arg(add = complete::specs())]
        spec: String,
    },
    /// Create a numbered spec from a template
    #[command(
        after_help = "Example:\n  ralph specs new \"Reset a forgotten password\" --area accounts"
    )]
    New {
        /// Title; also names the file
        title: String,
        /// Directory below specs/ to create it in
        #[arg(long, value_name = "DIR")]
        area: Option<String>,
    },
    /// Mark a spec as done by hand
    #[command(
        after_help = "Example:\n  ralph specs mark-done 7 --reason \"done by hand in 1a2b3c4\""
    )]
    MarkDone {
        /// Spec, by number, name or path
        #[arg(add = complete::specs())]
        spec: String,
        /// Reason, kept in the marker
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}
