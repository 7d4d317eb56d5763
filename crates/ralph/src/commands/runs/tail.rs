//! `ralph runs tail`: the events of a run's agent.
//!
//! It holds no locks and changes nothing, so Ctrl-C may simply kill it, like `tail -f`.

use ralph_engine::follow::{Followed, Follower, start_of_last, wait};
use ralph_engine::run::{events_of, parse_event_line};
use ralph_model::board::{Board, RunState, RunView};
use ralph_model::shown::shown_json;

use super::choose;
use crate::args::runs::RunsTailArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::live::describe;
use crate::render::output::stdout_reader;
use crate::render::styled;
use crate::render::text::StyledLine;
use crate::setup::Setup;

pub(super) fn run(setup: &Setup, board: &Board, args: &RunsTailArgs) -> Result<Exit, CliError> {
    let run = if let Some(what) = &args.what {
        choose(board, what)?.runs.last().copied()
    } else {
        let is_running = |run: &&RunView| matches!(run.state(), RunState::Running);
        board.runs().rev().find(is_running).or_else(|| board.runs().next_back())
    };
    let Some((run, (_, started))) = run.and_then(|run| Some((run, run.started.as_ref()?))) else {
        setup.ui.print([styled!("no runs yet")])?;
        return Ok(Exit::Done);
    };
    let path = events_of(started);
    let cursor = start_of_last(&path, args.last).map_err(CliError::failed)?;
    let mut events = Follower::new(&path, cursor);
    loop {
        // Read before the events: once the end is recorded, they are complete.
        let is_over = !args.follow || has_ended(setup, run)?;
        print_new(setup, &mut events)?;
        if is_over || wait([&mut events], stdout_reader()).map_err(CliError::failed)? {
            return Ok(Exit::Done);
        }
    }
}

fn has_ended(setup: &Setup, run: &RunView) -> Result<bool, CliError> {
    let board = setup.board()?;
    Ok(board.run(&run.id).is_none_or(|run| !matches!(run.state(), RunState::Running)))
}

fn print_new(setup: &Setup, events: &mut Follower) -> Result<(), CliError> {
    let mut lines: Vec<StyledLine> = Vec::new();
    let taken = events.take(|followed| {
        let Followed::Line(line) = followed else { return };
        if setup.json {
            lines.push(shown_json(String::from_utf8_lossy(line).into_owned()).as_str().into());
        } else if let Some((tone, label, text)) = parse_event_line(line).as_ref().and_then(describe)
        {
            lines.push(styled!("{} {text}", setup.ui.paint(tone, &format!("[{label}]"))));
        }
    });
    taken.map_err(CliError::failed)?;
    setup.ui.print(lines)
}
