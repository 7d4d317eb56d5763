//! The command line of the loop.

use camino::Utf8PathBuf;
use clap::Args;

use super::build::RunOptions;
use super::plan::free_text;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    ralph loop \"Add a contact form\"       work on a task until its gates pass\n  \
    ralph loop --file task.md             the same, with the task from a file\n  \
    ralph loop --resume                   continue after Ctrl-C, an abort or the last iteration\n  \
    ralph loop --resume --answer \"blue\"   answer the agent's question and continue\n  \
    ralph loop --rollback                 roll the last task back")]
pub(crate) struct LoopArgs {
    /// Task, in your own words
    #[arg(value_name = "TASK", conflicts_with_all = ["file", "resume", "rollback"])]
    pub(crate) task: Option<String>,
    /// Read the task from this file; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["resume", "rollback"])]
    pub(crate) file: Option<Utf8PathBuf>,
    /// Resume the unfinished task
    #[arg(long, conflicts_with = "rollback")]
    pub(crate) resume: bool,
    /// Answer to the question of a waiting task
    #[arg(long, value_name = "TEXT", requires = "resume", value_parser = free_text)]
    pub(crate) answer: Option<String>,
    /// Roll back the last task: abandon its clone, revert what has landed, or restore the tree with --in-place
    #[arg(long)]
    pub(crate) rollback: bool,
    /// Start a new task and abandon the unfinished one
    #[arg(long, conflicts_with_all = ["resume", "rollback"])]
    pub(crate) new: bool,
    /// Maximum number of iterations [default: 20]
    #[arg(long, value_name = "N", value_parser = crate::args::at_least_one)]
    pub(crate) max_iterations: Option<u32>,
    #[command(flatten)]
    pub(crate) run: RunOptions,
}
