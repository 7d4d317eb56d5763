//! `ralph task`, `ralph issue`, `ralph set-spec`: changes to the plan, asked of the harness of the run they are typed in.

use camino::Utf8PathBuf;
use ralph_engine::channel::{CHANNEL_TIMEOUT, ask};
use ralph_engine::clock::SystemClock;
use ralph_model::channel::MutationRequest;
use serde::Serialize;

use super::print_json;
use crate::args::GlobalArgs;
use crate::args::plan::{IssueCommand, SetSpecArgs, TaskCommand};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render;

#[derive(Serialize)]
struct JsonReply<'a> {
    accepted: bool,
    message: &'a str,
}

pub(crate) fn task(global: &GlobalArgs, command: &TaskCommand) -> Result<Exit, CliError> {
    run(
        global,
        match command.clone() {
            TaskCommand::Add { task } => MutationRequest::TaskAdd { task },
            TaskCommand::Done { id, no_change } => MutationRequest::TaskDone { id, no_change },
            TaskCommand::Accept { ids } => MutationRequest::TaskAccept { ids },
            TaskCommand::Reject { mut words } => {
                let reason = words.pop().expect("there are one or two words");
                MutationRequest::TaskReject { id: words.pop(), reason }
            }
            TaskCommand::Delete { id } => MutationRequest::TaskDelete { id },
            TaskCommand::Prioritize => MutationRequest::TaskPrioritize,
            TaskCommand::Show { id } => MutationRequest::TaskShow { id },
        },
    )
}

pub(crate) fn issue(global: &GlobalArgs, command: &IssueCommand) -> Result<Exit, CliError> {
    run(
        global,
        match command.clone() {
            IssueCommand::Add { description } => MutationRequest::IssueAdd { description },
            IssueCommand::Done { ids } => MutationRequest::IssueDone { ids },
            IssueCommand::DoneAll => MutationRequest::IssueDoneAll,
        },
    )
}

pub(crate) fn set_spec(global: &GlobalArgs, args: &SetSpecArgs) -> Result<Exit, CliError> {
    let (spec, cancel_unfinished) = (args.file.clone(), args.yes);
    run(global, MutationRequest::SetSpec { spec, cancel_unfinished })
}

fn run(global: &GlobalArgs, request: MutationRequest) -> Result<Exit, CliError> {
    let Some(channel) = channel()? else {
        let command = request.command();
        return Err(CliError::usage(format!("`{command}` works inside a run only"))
            .hint("an agent that Ralph runs reaches it; `ralph agent run` starts one"));
    };
    let reply = ask(&channel, request, CHANNEL_TIMEOUT, &SystemClock).map_err(CliError::failed)?;
    if global.json {
        print_json(&JsonReply { accepted: reply.accepted, message: &reply.text })?;
        return Ok(if reply.accepted { Exit::Done } else { Exit::Unfinished });
    }
    if !reply.accepted {
        return Err(CliError::failed(reply.text));
    }
    render::machine(&reply.text).map_err(CliError::failed)?;
    Ok(Exit::Done)
}

/// The channel of the run that this process is part of.
fn channel() -> Result<Option<Utf8PathBuf>, CliError> {
    let Some(path) = std::env::var_os("RALPH_CHANNEL") else { return Ok(None) };
    let path = Utf8PathBuf::try_from(std::path::PathBuf::from(path));
    path.map(Some).map_err(|_| CliError::usage("`RALPH_CHANNEL` is not UTF-8"))
}
