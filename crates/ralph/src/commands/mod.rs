//! The commands, one file each: arguments in, exit code out; the engine does the work.

mod agent_list;
mod agent_run;
mod answer;
mod build;
mod config;
mod demo;
mod doctor;
#[cfg(test)]
mod example_tests;
mod gates;
mod goal;
mod history;
mod init;
mod land;
mod limits;
mod loop_task;
mod merge_plan;
mod pages;
mod pipeline;
mod plan;
mod query;
mod reference;
mod runs;
mod sandbox;
mod slots;
mod specs;
mod start_gates;
mod status;
mod tips;
mod trust;
mod unnamed;
mod validate;
mod verify;

use std::ffi::OsString;
use std::io::{IsTerminal, Read};

use camino::Utf8Path;
use ralph_engine::files::read_optional;
use ralph_engine::rehearsal::{self, PlayRequest};
use ralph_model::shown::shown;

use self::unnamed::Unnamed;
use crate::args::{AgentCommand, Cli, Command};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::text::StyledLine;
use crate::render::{self, Ui};
pub(crate) use trust::show_armed;

/// The subcommand that plays the rehearsal agent.
const REHEARSE: &str = "__rehearse";

/// Reads a file that was named on the command line, or standard input (`-`): only files, because a FIFO may never be
/// written to and a device may never end.
fn read_argument(file: &Utf8Path, what: &str, largest: u64) -> Result<Vec<u8>, CliError> {
    let bytes = if file == "-" {
        let mut bytes = Vec::new();
        let mut input = std::io::stdin().take(largest + 1);
        input.read_to_end(&mut bytes).map_err(CliError::failed)?;
        bytes
    } else {
        let found = read_optional(file).map_err(|error| {
            let piped = !file.is_file() && !file.is_dir();
            CliError::usage(error).hints(piped.then_some("`--file -` reads standard input"))
        })?;
        found.ok_or_else(|| CliError::usage(format!("the {what} file `{file}` was not found")))?
    };
    if bytes.len() as u64 > largest {
        let most = largest >> 20;
        return Err(CliError::usage(format!("the {what} in `{file}` is larger than {most} MiB")));
    }
    Ok(bytes)
}

/// Runs what was typed.
pub(crate) fn run(args: impl Iterator<Item = OsString>) -> Exit {
    let args: Vec<OsString> = args.collect();
    if args.get(1).is_some_and(|word| word == REHEARSE) {
        rehearse(&args[2..]);
    }
    if crate::complete::answer(&args) {
        return Exit::Done;
    }
    if let [program] = args.as_slice() {
        match unnamed::run(program) {
            Unnamed::Ended(exit) => return exit,
            Unnamed::Build => {}
        }
    }
    let args = with_build(with_help(args));
    let cli = match Cli::understand(&args).or_else(|error| unnamed_build(&args).ok_or(error)) {
        Ok(cli) => cli,
        Err(error) => match offer(&args) {
            Some(Offer::Accepted(cli)) => *cli,
            Some(Offer::Declined) => return Exit::Done,
            Some(Offer::Nobody { goal }) => {
                let exit = complain(&args, &error);
                render::important(&format!(
                    "hint: to start from a sentence: `ralph exec \"{goal}\"`"
                ));
                return exit;
            }
            None => return complain(&args, &error),
        },
    };
    let ui = Ui::early(&cli.global);
    let result = match &cli.command {
        Command::Demo(args) => demo::run(&cli.global, args),
        Command::Init(args) => init::run(&cli.global, args),
        Command::Pipeline(args) => pipeline::run(&cli.global, args),
        Command::Plan(args) => build::plan(&cli.global, args),
        Command::Exec(args) => goal::exec(&cli.global, args),
        Command::Understand(args) => goal::understand(&cli.global, args),
        Command::Run(args) => goal::run(&cli.global, args),
        Command::Prd(command) => goal::prd(&cli.global, command),
        Command::Build(args) => build::build(&cli.global, args),
        Command::Land => land::run(&cli.global),
        Command::Runs { command } => runs::run(&cli.global, command.as_deref()),
        Command::Slots { command } => slots::run(&cli.global, *command),
        Command::Loop(args) => loop_task::run(&cli.global, args),
        Command::Specs { command } => specs::run(&cli.global, command.as_deref()),
        Command::Limits { command } => limits::run(&cli.global, command.as_ref()),
        Command::Trust(args) => trust::run(&cli.global, args),
        Command::Doctor(args) => doctor::run(&cli.global, args),
        Command::Agent(command) => match &**command {
            AgentCommand::List => agent_list::run(&cli.global),
            AgentCommand::Run(args) => agent_run::run(&cli.global, args),
        },
        Command::Gates { command } => gates::run(&cli.global, command.as_deref()),
        Command::Verify(args) => verify::run(&cli.global, args),
        Command::Sandbox(args) => sandbox::run(&cli.global, args),
        Command::Status(args) => status::run(&cli.global, args),
        Command::Answer(args) => answer::run(&cli.global, args),
        Command::Query(args) => query::run(&cli.global, args),
        Command::Task(command) => plan::task(&cli.global, command),
        Command::Issue(command) => plan::issue(&cli.global, command),
        Command::SetSpec(args) => plan::set_spec(&cli.global, args),
        Command::Log(args) => history::run(&cli.global, args),
        Command::MergePlan(args) => Ok(merge_plan::run(args)),
        Command::Validate => validate::run(&cli.global),
        Command::Config(args) => config::run(&cli.global, args),
        Command::Completions { shell } => pages::completions(*shell),
        Command::Man { out } => pages::manual(out.as_deref()),
    };
    result.unwrap_or_else(|error| {
        if error.exit == Exit::Done {
            ui.important(error.message);
        } else {
            render::error(ui, &error);
        }
        error.exit
    })
}

/// Prints help or version, which succeed, or a usage error.
fn complain(args: &[OsString], error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        // A reader that closes the pipe early is not a failure.
        let _ = render::data(&error.to_string());
        return Exit::Done;
    }
    // The error repeats words of the command line, where a newline could imitate Ralph's own output.
    let typed: Vec<OsString> =
        args.iter().map(|word| shown(&word.to_string_lossy()).into_owned().into()).collect();
    let error = match Cli::understand(&typed) {
        Err(error) => tips::sensible(error).to_string(),
        Ok(_) => error.to_string(),
    };
    error.trim_end().lines().for_each(render::important);
    Exit::Usage
}

/// `ralph help COMMAND` is `ralph COMMAND --help`.
fn with_help(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.get(1).is_some_and(|word| word == "help") {
        args.remove(1);
        args.push("--help".into());
    }
    args
}

/// `ralph N` runs the build loop, and so does `ralph` after the person agreed.
fn with_build(mut args: Vec<OsString>) -> Vec<OsString> {
    let first = args.get(1).map(|word| word.to_str());
    if first.is_none_or(|word| word.is_some_and(|word| word.parse::<u32>().is_ok())) {
        args.insert(1, "build".into());
    }
    args
}

/// Parses options without a command as those of the build loop.
fn unnamed_build(typed: &[OsString]) -> Option<Cli> {
    let mut args = typed.to_vec();
    args.insert(args.len().min(1), "build".into());
    let cli = Cli::understand(&args).ok()?;
    let Command::Build(build) = &cli.command else { return None };
    let is_number = |word: &String| word.parse::<u32>().is_ok();
    build.words.iter().all(is_number).then_some(cli)
}

/// The person's reaction to an offer.
enum Offer {
    Accepted(Box<Cli>),
    Declined,
    /// There is no terminal.
    Nobody {
        goal: String,
    },
}

/// A sentence instead of a command is a goal: offer `exec`.
fn offer(typed: &[OsString]) -> Option<Offer> {
    let is_sentence = |word: &OsString| {
        let word = word.to_str().filter(|word| !word.starts_with('-'));
        word.is_some_and(|word| word.trim().contains(' ') && !word.contains(char::is_control))
    };
    let at = typed.iter().skip(1).position(is_sentence)? + 1;
    let mut args = typed.to_vec();
    args.insert(at, "exec".into());
    let cli = Cli::understand(&args).ok()?;
    let Command::Exec(exec) = &cli.command else { return None };
    let goal = shown(exec.goal.as_deref()?.trim()).into_owned();
    if !std::io::stdin().is_terminal() {
        return Some(Offer::Nobody { goal });
    }
    if render::agree(&format!("Run `ralph exec \"{goal}\"`?")) {
        return Some(Offer::Accepted(Box::new(cli)));
    }
    render::important("nothing was done");
    Some(Offer::Declined)
}

/// Plays a script; does not return.
fn rehearse(args: &[OsString]) -> ! {
    let mut request = PlayRequest { script: String::new().into(), resume: None };
    let mut words = args.iter().filter_map(|word| word.to_str());
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        match name {
            "--script" => request.script = value.into(),
            "--resume" => request.resume = Some(value.to_owned()),
            _ => {}
        }
    }
    std::process::exit(rehearsal::play(&request))
}

/// Prints a value as JSON, or as lines for people.
pub(crate) fn print_either(
    ui: Ui,
    json: bool,
    value: &impl serde::Serialize,
    lines: impl FnOnce() -> Vec<StyledLine>,
) -> Result<(), CliError> {
    if json { print_json(value) } else { ui.print(lines()) }
}

/// Prints a value as JSON, for machines.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), CliError> {
    render::json(as_json(value)?)
}

/// Pretty-printed JSON.
pub(crate) fn as_json(value: &impl serde::Serialize) -> Result<String, CliError> {
    // A plan has some tens of kilobytes: reserve enough to avoid repeated growth.
    let mut text = Vec::with_capacity(64 << 10);
    serde_json::to_writer_pretty(&mut text, value).map_err(CliError::failed)?;
    Ok(String::from_utf8(text).expect("JSON is text"))
}
