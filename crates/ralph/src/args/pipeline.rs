//! What can be typed about the pipeline and its specs.

use camino::Utf8PathBuf;
use clap::{Args, Subcommand};
use ralph_model::contract::DEFAULT_MAGIC_PHRASE;
use ralph_model::pipeline::DEFAULT_ATTEMPTS;

use super::AgentOptions;

#[expect(clippy::struct_excessive_bools, reason = "flags are bools")]
#[derive(Debug, Default, Args)]
pub(crate) struct PipelineArgs {
    /// The specs to work on, by number, name or path; they get their attempts back [default: all, in order]
    #[arg(value_name = "SPEC")]
    pub(crate) specs: Vec<String>,
    /// Work on the specs up to this one
    #[arg(long, value_name = "SPEC", conflicts_with = "specs")]
    pub(crate) to: Option<String>,
    /// Do a spec again although it is done: its marker is archived, its candidate ignored, its plan kept
    #[arg(long, value_name = "SPEC")]
    pub(crate) force: Vec<String>,
    /// Give every spec its attempts back
    #[arg(long)]
    pub(crate) retry: bool,
    /// How many attempts a spec has, all phases together
    #[arg(long, value_name = "N", alias = "max-attempts-per-spec", default_value_t = DEFAULT_ATTEMPTS,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_attempts: u32,
    /// Go on with the next spec when one fails or waits for a person
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Say what would happen to each spec and why; write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not look at what is in the specs first
    #[arg(long)]
    pub(crate) skip_validation: bool,
    /// The line that agents end with when they are done
    #[arg(long, value_name = "TEXT", default_value = DEFAULT_MAGIC_PHRASE, hide_default_value = true)]
    pub(crate) magic_phrase: String,
    /// Show everything that agents say
    #[arg(long, alias = "stream-agent-output")]
    pub(crate) stream: bool,
    /// With --in-place: begin although there are uncommitted changes; they are kept, and never count as an agent's work
    #[arg(long)]
    pub(crate) allow_dirty: bool,
    /// Have agents work in this checkout instead of a clone of their own
    #[arg(long, conflicts_with = "onto")]
    pub(crate) in_place: bool,
    /// Land work on this branch instead of the one that is checked out
    #[arg(long, value_name = "BRANCH")]
    pub(crate) onto: Option<String>,
    /// Start no further run once this many tokens are used
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<u64>,
    /// Start no further run once this much is spent, in dollars
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<f64>,
    /// Do not wait for a usage limit to be reset: exit with 1
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) agent: AgentOptions,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Leave the repository there to look at
    #[arg(long)]
    pub(crate) keep: bool,
    /// Where to make it: a directory that is empty or not there yet [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<Utf8PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SpecsCommand {
    /// List the specs: state, attempts, commit, cost, what came of the last attempt
    List,
    /// Show all that is known of one spec
    Show {
        /// Which, by number, name or path
        spec: String,
    },
    /// Make a numbered spec from a template
    New {
        /// What it is about; names the file
        title: String,
        /// The directory below specs/ it goes to
        #[arg(long, value_name = "DIR")]
        area: Option<String>,
    },
    /// Mark a spec as done by hand, without a run
    MarkDone {
        /// Which, by number, name or path
        spec: String,
        /// Why, for the marker
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}
