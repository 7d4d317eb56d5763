//! The command line of the plan: tasks, issues, the spec, and answers to questions.

use camino::Utf8PathBuf;
use clap::{Args, Subcommand};

use crate::complete;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  ralph query\n  ralph query next\n  ralph query tasks --table")]
pub(crate) struct QueryArgs {
    #[command(subcommand)]
    pub(crate) what: Option<QueryWhat>,
    /// Print a table for people instead of JSON
    #[arg(long, global = true)]
    pub(crate) table: bool,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum QueryWhat {
    /// Tasks; pending ones in the order they will be worked on
    #[command(after_help = "Example:\n  ralph query tasks --done")]
    Tasks {
        /// Only tasks that are done
        #[arg(long)]
        done: bool,
    },
    /// Issues
    #[command(after_help = "Example:\n  ralph query issues")]
    Issues,
    /// Stage: PLAN, DECOMPOSE, BUILD, VERIFY, INVESTIGATE or COMPLETE
    #[command(after_help = "Example:\n  ralph query stage")]
    Stage,
    /// The next action and its item
    #[command(after_help = "Example:\n  ralph query next")]
    Next,
    /// Current iteration of `ralph build`; 0 if it is not running
    #[command(after_help = "Example:\n  ralph query iteration")]
    Iteration,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  ralph log --table\n  ralph log --all --since 2026-01-31")]
pub(crate) struct LogArgs {
    /// Every task ever, with its outcome
    #[arg(long)]
    pub(crate) all: bool,
    /// Only tasks of this spec
    #[arg(long, value_name = "FILE")]
    pub(crate) spec: Option<String>,
    /// Branch, tag or commit whose history to read [default: HEAD]
    #[arg(long, value_name = "NAME")]
    pub(crate) branch: Option<String>,
    /// Only changes after a date (2026-01-31, 2026-01-31T12:00) or commit
    #[arg(long, value_name = "DATE|COMMIT")]
    pub(crate) since: Option<String>,
    /// Print a table for people instead of JSON
    #[arg(long)]
    pub(crate) table: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ralph merge-plan %O %A %B %P")]
pub(crate) struct MergePlanArgs {
    /// Common ancestor (%O)
    pub(crate) base: Utf8PathBuf,
    /// Our version; receives the result (%A)
    pub(crate) ours: Utf8PathBuf,
    /// Their version (%B)
    pub(crate) theirs: Utf8PathBuf,
    /// Path to show in messages (%P)
    pub(crate) path: Option<String>,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum TaskCommand {
    /// Add one task, or several that may refer to each other
    #[command(
        after_help = "Examples:\n  ralph task add \"Validate the e-mail address\"\n  ralph task add '{\"name\": \"Validate the e-mail address\", \"priority\": \"high\"}'"
    )]
    Add {
        /// Name, JSON object, or JSON array of objects; `-` reads stdin
        #[arg(value_parser = free_text, allow_hyphen_values = true)]
        task: String,
    },
    /// Mark a task done; inside a run this is a claim that Ralph checks
    #[command(after_help = "Examples:\n  ralph task done\n  ralph task done t-1a2b")]
    Done {
        /// Task id [default: the next task]
        #[arg(add = complete::tasks())]
        id: Option<String>,
        /// Claim that nothing needs to change, with the reason; a person decides
        #[arg(long, value_name = "REASON", value_parser = free_text)]
        no_change: Option<String>,
    },
    /// Accept tasks that are done
    #[command(after_help = "Example:\n  ralph task accept")]
    Accept {
        /// Task ids [default: all done tasks]
        #[arg(value_name = "ID", add = complete::tasks())]
        ids: Vec<String>,
    },
    /// Reject a done task with a reason
    #[command(
        after_help = "Example:\n  ralph task reject t-1a2b \"the form accepts an empty address\""
    )]
    #[command(override_usage = "ralph task reject [OPTIONS] [ID] <REASON>")]
    Reject {
        /// Task id [default: the first done task]
        #[arg(
            value_name = "ID",
            required = true,
            allow_hyphen_values = true,
            value_parser = free_text,
            add = complete::tasks(),
        )]
        id_or_reason: String,
        /// The reason
        #[arg(value_name = "REASON", allow_hyphen_values = true, value_parser = free_text)]
        reason: Option<String>,
    },
    /// Delete a task
    #[command(after_help = "Example:\n  ralph task delete t-1a2b")]
    Delete {
        /// Task id
        #[arg(add = complete::tasks())]
        id: String,
    },
    /// Set a priority on pending tasks that have none, by their dependents
    #[command(after_help = "Example:\n  ralph task prioritize")]
    Prioritize,
    /// Show one task or all
    #[command(after_help = "Example:\n  ralph task show t-1a2b")]
    Show {
        /// Task id [default: all]
        #[arg(add = complete::tasks())]
        id: Option<String>,
    },
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum IssueCommand {
    /// Add an issue
    #[command(after_help = "Example:\n  ralph issue add \"the login page flickers\"")]
    Add {
        /// Description, or JSON object with `desc` and `priority`; `-` reads stdin
        #[arg(value_parser = free_text, allow_hyphen_values = true)]
        description: String,
    },
    /// List the open issues; with --json as `ralph query issues` prints them
    #[command(after_help = "Example:\n  ralph issue list")]
    List,
    /// Resolve issues
    #[command(after_help = "Example:\n  ralph issue done i-1a2b")]
    Done {
        /// Issue ids [default: the first]
        #[arg(value_name = "ID", add = complete::issues())]
        ids: Vec<String>,
    },
    /// Resolve the named issues
    #[command(hide = true)]
    DoneIds {
        /// Issue ids
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
    /// Resolve all issues
    #[command(after_help = "Example:\n  ralph issue done-all")]
    DoneAll,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ralph set-spec 0001-login.md")]
pub(crate) struct SetSpecArgs {
    /// Spec file
    #[arg(add = complete::specs())]
    pub(crate) file: String,
    /// Cancel unfinished tasks of another spec
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ralph answer yes\n  ralph answer 0007-login \"use the existing table\""
)]
#[command(override_usage = "ralph answer [OPTIONS] [ITEM] <TEXT>")]
pub(crate) struct AnswerArgs {
    /// Item of the question [default: the only open question]
    #[arg(
        value_name = "ITEM",
        allow_hyphen_values = true,
        value_parser = free_text,
        add = complete::questions(),
    )]
    pub(crate) item_or_text: Option<String>,
    /// The answer; `yes` accepts or tries again, and counts only by itself
    #[arg(value_name = "TEXT", allow_hyphen_values = true, value_parser = free_text)]
    pub(crate) text: Option<String>,
}

/// Takes what a person or an agent says in their own words; it may begin as a list does, with a dash.
pub(super) fn free_text(text: &str) -> Result<String, String> {
    let looks_like_option = text.starts_with("--") && !text.contains(char::is_whitespace);
    // After `--` nothing is an option, but a value parser does not know the position of its value.
    let is_meant = || std::env::args_os().any(|word| word == "--");
    if text.trim().is_empty() {
        Err("the text is empty".to_owned())
    } else if looks_like_option && !is_meant() {
        Err(format!("unknown option `{text}`; write `-- {text}` to pass it as text"))
    } else {
        Ok(text.to_owned())
    }
}
