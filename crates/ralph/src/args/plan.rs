//! What can be typed about the plan: tasks, issues, the spec; and answers to what it asked.

use camino::Utf8PathBuf;
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct QueryArgs {
    #[command(subcommand)]
    pub(crate) what: Option<QueryWhat>,
    /// Print a table for people instead of JSON
    #[arg(long, global = true)]
    pub(crate) table: bool,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum QueryWhat {
    /// The tasks, pending ones in the order in which they are taken
    Tasks {
        /// Only those that are done
        #[arg(long)]
        done: bool,
    },
    /// The issues
    Issues,
    /// The stage: PLAN, DECOMPOSE, BUILD, VERIFY, INVESTIGATE or COMPLETE
    Stage,
    /// What is to be done next, and to what
    Next,
    /// Which iteration of `ralph build` is under way; 0 if none is
    Iteration,
}

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Every task that ever was, with what became of it
    #[arg(long)]
    pub(crate) all: bool,
    /// Only tasks of this spec
    #[arg(long, value_name = "FILE")]
    pub(crate) spec: Option<String>,
    /// The history of a branch, a tag or a commit [default: HEAD]
    #[arg(long, value_name = "NAME")]
    pub(crate) branch: Option<String>,
    /// Only what happened after a date (2026-01-31, 2026-01-31T12:00) or a commit
    #[arg(long, value_name = "DATE|COMMIT")]
    pub(crate) since: Option<String>,
    /// Print a table for people instead of JSON
    #[arg(long)]
    pub(crate) table: bool,
}

#[derive(Debug, Args)]
pub(crate) struct MergePlanArgs {
    /// The plan that both sides began with (%O)
    pub(crate) base: Utf8PathBuf,
    /// Our side, which becomes the result (%A)
    pub(crate) ours: Utf8PathBuf,
    /// Their side (%B)
    pub(crate) theirs: Utf8PathBuf,
    /// What to call the plan in messages (%P)
    pub(crate) path: Option<String>,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum TaskCommand {
    /// Add a task, or several that may refer to each other
    Add {
        /// A name, a JSON object, or a JSON array of objects; `-` reads it from stdin
        #[arg(value_parser = free_text, allow_hyphen_values = true)]
        task: String,
    },
    /// Say that a task is done; inside a run that is a claim
    Done {
        /// Which [default: the one that is next]
        id: Option<String>,
        /// Nothing had to change, and why; a person decides on that
        #[arg(long, value_name = "REASON", value_parser = free_text)]
        no_change: Option<String>,
    },
    /// Accept tasks that are done
    Accept {
        /// Which [default: all that are done]
        #[arg(value_name = "ID")]
        ids: Vec<String>,
    },
    /// Reject a task that is done, and say why
    #[command(override_usage = "ralph task reject [OPTIONS] [ID] <REASON>")]
    Reject {
        /// Which task [default: the first that is done], then why it is not done
        #[arg(
            value_name = "[ID] REASON",
            num_args = 1..=2,
            required = true,
            allow_hyphen_values = true,
            value_parser = free_text,
        )]
        words: Vec<String>,
    },
    /// Delete a task
    Delete {
        /// Which
        id: String,
    },
    /// Give pending tasks without a priority one, by what depends on them
    Prioritize,
    /// Show a task, or all of them
    Show {
        /// Which [default: all]
        id: Option<String>,
    },
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum IssueCommand {
    /// Add an issue
    Add {
        /// What is wrong, or a JSON object with `desc` and `priority`; `-` reads it from stdin
        #[arg(value_parser = free_text, allow_hyphen_values = true)]
        description: String,
    },
    /// Resolve issues
    Done {
        /// Which [default: the first]
        #[arg(value_name = "ID")]
        ids: Vec<String>,
    },
    /// Resolve the issues that are named
    #[command(hide = true)]
    DoneIds {
        /// Which
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
    /// Resolve all issues
    DoneAll,
}

#[derive(Debug, Args)]
pub(crate) struct SetSpecArgs {
    /// The spec to work on
    pub(crate) file: String,
    /// Cancel unfinished tasks of another spec
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
#[command(override_usage = "ralph answer [OPTIONS] [ITEM] <TEXT>")]
pub(crate) struct AnswerArgs {
    /// Which item's question [default: the only one that is open], then the answer
    #[arg(
        value_name = "[ITEM] TEXT",
        num_args = 1..=2,
        required = true,
        allow_hyphen_values = true,
        value_parser = free_text,
    )]
    pub(crate) words: Vec<String>,
}

/// Takes what a person or an agent says in their own words; it may begin as a list does, with a dash.
fn free_text(text: &str) -> Result<String, String> {
    let looks_like_option = text.starts_with("--") && !text.contains(char::is_whitespace);
    // Behind it nothing is an option; a parser of values is not told where its value stood.
    let is_meant = || std::env::args_os().any(|word| word == "--");
    if text.trim().is_empty() {
        Err("there is nothing in it".to_owned())
    } else if looks_like_option && !is_meant() {
        Err(format!("there is no option `{text}` here; `-- {text}` means the words"))
    } else {
        Ok(text.to_owned())
    }
}
