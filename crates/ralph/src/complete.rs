//! Shell completion: the script that `ralph completions` prints calls this program with [`VARIABLE`] set. Candidates
//! depend on the workspace: its specs, tasks, items and agents.
//!
//! Completing changes nothing and prints no errors: if the workspace cannot be read, there are no candidates.

use std::ffi::OsString;
use std::io;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use ralph_engine::agent::ADAPTERS;
use ralph_engine::plan_file::PLAN_FILE;
use ralph_engine::specs::{SPECS, discover};
use ralph_model::plan::Plan;
use ralph_model::role::Role;

use crate::args::{Cli, GlobalArgs};
use crate::render::human::one_line;
use crate::setup::Setup;

/// Names the shell that asks for candidates.
const VARIABLE: &str = "RALPH_COMPLETE";

/// Answers a completion request; returns whether there was one.
pub(crate) fn answer(args: &[OsString]) -> bool {
    if std::env::var_os(VARIABLE).is_none() {
        return false;
    }
    let cwd = std::env::current_dir().ok();
    let env = CompleteEnv::with_factory(Cli::command).var(VARIABLE);
    env.try_complete(args.iter().cloned(), cwd.as_deref()).unwrap_or(true)
}

/// Returns the script with which a shell calls this program.
pub(crate) fn script(shell: Shell) -> io::Result<Vec<u8>> {
    let shells = Shells::builtins();
    let name = shell.to_string();
    let completer = shells.completer(&name).ok_or(io::ErrorKind::Unsupported)?;
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "ralph", "ralph", "ralph", &mut script)?;
    Ok(script)
}

/// Specs of the workspace, by name.
pub(crate) fn specs() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let Some(setup) = setup() else { return Vec::new() };
        let found = discover(&setup.home.path.join(SPECS)).specs;
        found.iter().map(|spec| CompletionCandidate::new(spec.id())).collect()
    })
}

/// Tasks of the plan, each with its name.
pub(crate) fn tasks() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        of_plan(|plan| {
            let pending = plan.pending().into_iter().map(|task| candidate(&task.id, &task.name));
            pending.chain(plan.done_tasks().map(|task| candidate(&task.id, &task.name))).collect()
        })
    })
}

/// Issues of the plan, each with its description.
pub(crate) fn issues() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        of_plan(|plan| plan.issues().map(|issue| candidate(&issue.id, &issue.desc)).collect())
    })
}

/// Agents that Ralph knows, and those of the configuration.
pub(crate) fn agents() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let known = ADAPTERS.iter().map(|adapter| adapter.name().to_owned());
        let mut names: Vec<String> = known.collect();
        names.push("rehearsal".to_owned());
        names.extend(setup().map(|setup| setup.config.agent_names()).unwrap_or_default());
        names.sort();
        names.dedup();
        names.into_iter().map(CompletionCandidate::new).collect()
    })
}

pub(crate) fn roles() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        Role::ALL.iter().map(|role| CompletionCandidate::new(role.to_string())).collect()
    })
}

pub(crate) fn boundaries() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        ["strict", "kernel", "auto", "detect", "off"].map(CompletionCandidate::new).into()
    })
}

/// Items with at least one run.
pub(crate) fn items() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let board = setup().and_then(|setup| setup.board().ok());
        let started = |board: &ralph_model::board::Board| {
            let items = board.runs().filter_map(|run| run.started.as_ref()?.1.item.clone());
            items.collect::<std::collections::BTreeSet<String>>()
        };
        let items = board.as_ref().map(started).unwrap_or_default();
        items.into_iter().map(CompletionCandidate::new).collect()
    })
}

/// Items with a question that can be answered, each with its question.
pub(crate) fn questions() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let Some(board) = setup().and_then(|setup| setup.board().ok()) else { return Vec::new() };
        let asked = board.open_questions().chain(board.answered_questions());
        asked.map(|question| candidate(&question.item, &question.text)).collect()
    })
}

fn candidate(id: &str, about: &str) -> CompletionCandidate {
    CompletionCandidate::new(id).help(Some(one_line(about, 60).into()))
}

fn of_plan(candidates: impl Fn(&Plan<'_>) -> Vec<CompletionCandidate>) -> Vec<CompletionCandidate> {
    let path = setup().map(|setup| setup.home.path.join(PLAN_FILE));
    let bytes = path.and_then(|path| std::fs::read(path).ok());
    bytes.map(|bytes| candidates(&Plan::parse(&bytes))).unwrap_or_default()
}

fn setup() -> Option<Setup> {
    Setup::load(&GlobalArgs::default(), &[]).ok()
}
