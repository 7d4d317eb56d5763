//! What can be typed about the loop.

use camino::Utf8PathBuf;
use clap::Args;

use super::build::RunOptions;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    ralph loop \"Add a contact form\"       work on a task until its gates pass\n  \
    ralph loop --file task.md             the same, with the task from a file\n  \
    ralph loop --resume                   go on after Ctrl-C, an abort or the last iteration\n  \
    ralph loop --resume --answer \"blue\"   answer the agent's question and go on\n  \
    ralph loop --rollback                 put the tree back as it was before the task")]
pub(crate) struct LoopArgs {
    /// What is to be done
    #[arg(value_name = "TASK", conflicts_with_all = ["file", "resume", "rollback"])]
    pub(crate) task: Option<String>,
    /// Read the task from this file; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["resume", "rollback"])]
    pub(crate) file: Option<Utf8PathBuf>,
    /// Go on with the task that is unfinished
    #[arg(long, conflicts_with = "rollback")]
    pub(crate) resume: bool,
    /// What to answer to the question of a task that waits
    #[arg(long, value_name = "TEXT", requires = "resume")]
    pub(crate) answer: Option<String>,
    /// Put the tree back as it was before the last task; what is in it is saved
    #[arg(long)]
    pub(crate) rollback: bool,
    /// Begin although another task is unfinished; that one is given up
    #[arg(long, conflicts_with_all = ["resume", "rollback"])]
    pub(crate) new: bool,
    /// How many iterations at most [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_iterations: Option<u32>,
    #[command(flatten)]
    pub(crate) run: RunOptions,
}
