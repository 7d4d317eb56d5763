//! The rehearsal agent's tool calls: files, commands, commits.
//!
//! A failing tool does not fail the rehearsal: the agent gets the error, like a real agent, and continues.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use ralph_proc::misbehave;

/// How much of a command's output is included in the result.
const OUTPUT_KEPT: usize = 4096;

/// The result of a tool: a summary, or an error.
pub(super) type ToolOutcome = Result<String, String>;

/// Variables of commands in addition to the agent's environment.
pub(super) type Variables = [(String, String)];

pub(super) fn write(path: &str, content: &str) -> ToolOutcome {
    told(path, "wrote", in_directory(path).and_then(|()| fs::write(path, content)))
}

pub(super) fn append(path: &str, content: &str) -> ToolOutcome {
    let append = || {
        in_directory(path)?;
        File::options().create(true).append(true).open(path)?.write_all(content.as_bytes())
    };
    told(path, "appended to", append())
}

pub(super) fn delete(path: &str) -> ToolOutcome {
    let delete = || {
        if fs::symlink_metadata(path)?.is_dir() {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        }
    };
    told(path, "deleted", delete())
}

fn in_directory(path: &str) -> io::Result<()> {
    Path::new(path).parent().map_or(Ok(()), fs::create_dir_all)
}

fn told(path: &str, done: &str, result: io::Result<()>) -> ToolOutcome {
    result.map(|()| format!("{done} {path}")).map_err(|error| format!("{path}: {error}"))
}

/// Runs a shell command to its end.
pub(super) fn run(command: &str, variables: &Variables) -> ToolOutcome {
    run_program("sh", &["-c", command], variables)
}

/// Commits `paths`, or everything if there are none. Returns the hash.
pub(super) fn commit(message: &str, paths: &[String], variables: &Variables) -> ToolOutcome {
    let mut variables = variables.to_vec();
    if run_program("git", &["var", "GIT_AUTHOR_IDENT"], &variables).is_err() {
        // Works without a git identity on the machine.
        for who in ["AUTHOR", "COMMITTER"] {
            variables.push((format!("GIT_{who}_NAME"), "Rehearsal".to_owned()));
            variables.push((format!("GIT_{who}_EMAIL"), "rehearsal@localhost".to_owned()));
        }
    }
    let mut add = vec!["add"];
    if paths.is_empty() {
        add.push("-A");
    } else {
        add.push("--");
        add.extend(paths.iter().map(String::as_str));
    }
    run_program("git", &add, &variables)?;
    run_program("git", &["commit", "--quiet", "--message", message], &variables)?;
    head(&variables)
}

/// Returns the agent's `HEAD`.
pub(super) fn head(variables: &Variables) -> ToolOutcome {
    run_program("git", &["rev-parse", "HEAD"], variables)
}

fn run_program(program: &str, args: &[&str], variables: &Variables) -> ToolOutcome {
    let (status, output) = misbehave::run_to_end(program, args, variables, OUTPUT_KEPT)
        .map_err(|error| format!("{program}: {error}"))?;
    let output = String::from_utf8_lossy(&output).trim_end().to_owned();
    if status.success() {
        Ok(output)
    } else {
        Err(format!("{status}\n{output}").trim_end().to_owned())
    }
}
