//! `ralph limits`: lists and clears remembered usage limits.

use jiff::Timestamp;
use ralph_model::policy::limit::LimitHolder;
use serde::Serialize;

use super::print_either;
use crate::args::{GlobalArgs, LimitsCommand};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::local_time;
use crate::render::styled;
use crate::setup::{Setup, now};

#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    holder: LimitHolder,
    until: Timestamp,
    /// Whether the provider reported the time.
    known: bool,
}

pub(crate) fn run(global: &GlobalArgs, command: Option<&LimitsCommand>) -> Result<Exit, CliError> {
    let setup = Setup::load(global, &[])?;
    if let Some(LimitsCommand::Clear { agent }) = command {
        setup.refuse_in_run("`ralph limits clear`")?;
        let mut open = setup.open_state()?;
        let cleared = open.clear_limits(agent.as_deref(), now()).map_err(CliError::failed)?;
        print_either(setup.ui, setup.json, &cleared, || match cleared.as_slice() {
            [] => vec![styled!("no usage limit is remembered")],
            holders => holders.iter().map(|holder| styled!("cleared: {}", name(holder))).collect(),
        })?;
        return Ok(Exit::Done);
    }
    let board = setup.board()?;
    let waits = board.limit_waits(now());
    let row = |(holder, wait): (&LimitHolder, ralph_model::policy::limit::LimitWait)| Row {
        holder: holder.clone(),
        until: wait.until,
        known: wait.known,
    };
    let rows: Vec<Row> = waits.map(row).collect();
    print_either(setup.ui, setup.json, &rows, || match rows.as_slice() {
        [] => vec![styled!("no usage limit is remembered")],
        rows => {
            let about = |row: &Row| if row.known { "" } else { "about " };
            let line = |row: &Row| {
                let until = local_time(row.until, now());
                styled!("{}  until {}{until}", name(&row.holder), about(row))
            };
            rows.iter().map(line).collect()
        }
    })?;
    Ok(Exit::Done)
}

/// Returns the name of an agent, with a distinguishing command or login.
fn name(holder: &LimitHolder) -> String {
    match &holder.account {
        None => holder.agent.clone(),
        Some(account) => format!("{} ({account})", holder.agent),
    }
}
