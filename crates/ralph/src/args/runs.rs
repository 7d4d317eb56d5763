//! The command line of runs.

use clap::{Args, Subcommand};

use crate::complete;

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List recent runs, newest last: item, role, agent, result
    #[command(after_help = "Example:\n  ralph runs list --item 0001-greet --last 5")]
    List(RunsListArgs),
    /// Show a run, or all runs of an item: claim, decision, reason, cost, logs
    #[command(after_help = "Example:\n  ralph runs show 0001-greet")]
    Show(RunChoice),
    /// Show work as a diff against the commit at which work on its item began
    #[command(
        after_help = "Example, complete and unescaped when piped:\n  ralph runs diff 0001-greet | git apply"
    )]
    Diff(RunsDiffArgs),
    /// Create a branch with work, accepted or not; never moves an existing branch
    #[command(after_help = "Example:\n  ralph runs take 0001-greet rescue && git switch rescue")]
    Take(RunsTakeArgs),
    /// Show what the agent of a run did, event by event
    #[command(after_help = "Example, in a second terminal:\n  ralph runs tail -f")]
    Tail(RunsTailArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RunsListArgs {
    /// Only runs of this spec, task or other item
    #[arg(long, value_name = "ITEM", add = complete::items())]
    pub(crate) item: Option<String>,
    /// Number of recent runs
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) last: usize,
}

#[derive(Debug, Args)]
pub(crate) struct RunChoice {
    /// Run id or item, or a unique prefix of either
    #[arg(value_name = "RUN|ITEM", add = complete::items())]
    pub(crate) what: String,
}

#[derive(Debug, Args)]
pub(crate) struct RunsDiffArgs {
    #[command(flatten)]
    pub(crate) choice: RunChoice,
    /// Summarise, one line per file
    #[arg(long)]
    pub(crate) stat: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunsTakeArgs {
    #[command(flatten)]
    pub(crate) choice: RunChoice,
    /// Branch name [default: ralph/ITEM]
    pub(crate) branch: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RunsTailArgs {
    /// A run's id, or an item for its last run [default: the run that is under way, else the last one]
    #[arg(value_name = "RUN|ITEM", add = complete::items())]
    pub(crate) what: Option<String>,
    /// Go on until the run ends
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// How many of the last events to begin with
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub(crate) last: usize,
}
