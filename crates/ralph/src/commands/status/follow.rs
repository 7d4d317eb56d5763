//! `ralph status --follow`: the journal as it grows, interleaved with the events of running agents.
//!
//! It holds no locks and changes nothing, so Ctrl-C may simply kill it, like `tail -f`. It also ends when the reader of
//! its output goes away.

use jiff::tz::TimeZone;
use ralph_engine::follow::{Followed, Follower, start_of_last, wait};
use ralph_engine::run::{events_of, parse_event_line};
use ralph_engine::state::State;
use ralph_model::board::RunState;
use ralph_model::id::RunId;
use ralph_model::journal::{JournalEntry, JournalEvent, RunStarted, parse_line};
use ralph_model::shown::shown_json;

use crate::commands::runs::outcome_of;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::one_line;
use crate::render::live::describe;
use crate::render::output::stdout_reader;
use crate::render::text::StyledLine;
use crate::render::workflow::{Look, line};
use crate::render::{Tone, styled};
use crate::setup::Setup;

/// A running run, and its events.
struct Live {
    run: RunId,
    events: Follower,
}

/// A line of the journal for display, and its effect on a run.
struct JournalNews {
    /// `None` for what people need not see.
    line: Option<StyledLine>,
    run: Option<(RunId, JournalEvent)>,
}

pub(super) fn run(setup: &Setup, last: usize) -> Result<Exit, CliError> {
    let Some((state, is_new)) = state_when_there(setup)? else { return Ok(Exit::Done) };
    let path = state.journal();
    // Entries written while this was waiting are not history.
    let (last, last_events) = if is_new { (usize::MAX, usize::MAX) } else { (last, 0) };
    let mut journal = Follower::new(&path, start_of_last(&path, last).map_err(CliError::failed)?);
    let past = read_journal(setup, &mut journal)?;
    let mut live = if setup.json { Vec::new() } else { running(setup, last_events)? };
    // Of the past only the journal is shown: what agents did then is in their logs.
    setup.ui.print(past.into_iter().filter_map(|news| news.line))?;
    loop {
        let all = live.iter_mut().map(|live| &mut live.events).chain([&mut journal]);
        if wait(all, stdout_reader()).map_err(CliError::failed)? {
            return Ok(Exit::Done);
        }
        // The journal is read before the events and printed after them: once it records the end of a run, the events
        // are complete.
        let news = read_journal(setup, &mut journal)?;
        for live in &mut live {
            live.print_events(setup)?;
        }
        for JournalNews { line, run } in news {
            setup.ui.print(line)?;
            let is_known = |run: &RunId| live.iter().any(|live| live.run == *run);
            match run {
                Some((run, JournalEvent::RunStarted(started)))
                    if !setup.json && !is_known(&run) =>
                {
                    live.push(Live::new(run, &started, 0));
                }
                Some((run, JournalEvent::RunFinished(_))) => live.retain(|live| live.run != run),
                _ => {}
            }
            for live in &mut live {
                live.print_events(setup)?;
            }
        }
    }
}

/// Waits until the first command has created private state, and returns whether it had to wait; `None` if the reader
/// goes away before.
fn state_when_there(setup: &Setup) -> Result<Option<(State, bool)>, CliError> {
    let base = setup.state_base()?;
    let mut is_new = false;
    loop {
        if let Some(state) = State::find(&base, &setup.workspace).map_err(CliError::usage)? {
            return Ok(Some((state, is_new)));
        }
        if wait([], stdout_reader()).map_err(CliError::failed)? {
            return Ok(None);
        }
        is_new = true;
    }
}

/// Returns the current runs, with the last `count` of their events still to show.
fn running(setup: &Setup, count: usize) -> Result<Vec<Live>, CliError> {
    let board = setup.board()?;
    let mut live = Vec::new();
    for run in board.runs() {
        if let (RunState::Running, Some((_, started))) = (run.state(), &run.started) {
            let cursor = start_of_last(&events_of(started), count).map_err(CliError::failed)?;
            live.push(Live::new(run.id.clone(), started, cursor));
        }
    }
    Ok(live)
}

impl Live {
    fn new(run: RunId, started: &RunStarted, cursor: u64) -> Live {
        Live { run, events: Follower::new(&events_of(started), cursor) }
    }

    /// Prints new events of the run.
    fn print_events(&mut self, setup: &Setup) -> Result<(), CliError> {
        let mut lines: Vec<StyledLine> = Vec::new();
        let taken = self.events.take(|followed| {
            if let Followed::Line(line) = followed
                && let Some(event) = parse_event_line(line)
                && let Some((tone, label, text)) = describe(&event)
            {
                let label = setup.ui.paint(tone, &format!("[{label}]"));
                lines.push(styled!("    {label} {text}"));
            }
        });
        taken.map_err(CliError::failed)?;
        setup.ui.print(lines)
    }
}

/// An entry as a line with its time of day; what only machines need has none.
fn for_people(setup: &Setup, entry: &JournalEntry) -> Option<StyledLine> {
    use JournalEvent as E;
    let (tone, label, text) = match &entry.event {
        E::WorkflowStarted(started) => {
            let words = [&["ralph".to_owned()], &started.args[..]].concat();
            (Tone::Active, "begin", words.join(" "))
        }
        E::WorkflowEnded(ended) => (Tone::Active, "end", ended.how.replace('_', " ")),
        E::RunStarted(started) => {
            let item = started.item.as_ref().map(|item| format!(": {item}")).unwrap_or_default();
            (Tone::Progress, "run", format!("{} {}{item}", started.role, started.agent))
        }
        E::RunFinished(finished) => {
            let (tone, how) = outcome_of(finished);
            (tone, "ended", how)
        }
        E::PersonNeeded(needed) => {
            (Tone::Attention, "waiting", format!("for you: {}", needed.question))
        }
        _ => line(entry, &Look::of(setup, false))?,
    };
    let time = entry.at.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string();
    let label = setup.ui.paint(tone, &format!("[{label}]"));
    Some(styled!("{} {label} {}", setup.ui.paint(Tone::Faint, &time), one_line(&text, 300)))
}

/// Reads what is new in the journal: lines as they are shown, and what each tells of a run.
fn read_journal(setup: &Setup, journal: &mut Follower) -> Result<Vec<JournalNews>, CliError> {
    let mut news = Vec::new();
    let taken = journal.take(|followed| {
        let Followed::Line(line) = followed else {
            let told = "the journal was truncated or replaced; reading it from the start:";
            return setup.ui.labelled(Tone::Attention, "note", told);
        };
        let entry = parse_line(line).ok();
        let line = match &entry {
            Some(entry) if !setup.json => for_people(setup, entry),
            // What this Ralph cannot read is shown as it is.
            _ => Some(shown_json(String::from_utf8_lossy(line).into_owned()).into()),
        };
        let run = entry.and_then(|entry| Some((entry.run?, entry.event)));
        news.push(JournalNews { line, run });
    });
    taken.map_err(CliError::failed)?;
    Ok(news)
}
