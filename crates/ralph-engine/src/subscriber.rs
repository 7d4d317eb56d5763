//! Subscribers of journal entries and of the current run's events.
//!
//! A subscriber decides nothing. Everything it receives was recorded before, so a later reader of the journal has the
//! same information.

use std::time::Duration;

use ralph_model::board::Board;
use ralph_model::event::AgentEvent;
use ralph_model::id::RunId;
use ralph_model::journal::JournalEntry;

/// Follows the stream of a session.
pub trait Subscriber: Send {
    /// An entry was recorded; the board already includes it.
    fn recorded(&mut self, entry: &JournalEntry, board: &Board);

    /// A run has begun. Returns the observer of its agent's events; it is dropped before the end of the run is recorded.
    fn follow(&mut self, run: &RunId, board: &Board) -> Box<dyn RunObserver>;

    /// The wait recorded last continues; called about once a second.
    fn waiting(&mut self, left: Duration);
}

/// Observes the events of a run as they happen. Called on the thread that reads the stream.
pub trait RunObserver: Send {
    /// `at` is relative to the start of the run.
    fn event(&mut self, at: Duration, event: &AgentEvent);

    /// The context is filling up.
    fn context_warning(&mut self, percent: u8);
}

/// Ignores everything.
pub(crate) struct Unobserved;

impl RunObserver for Unobserved {
    fn event(&mut self, _at: Duration, _event: &AgentEvent) {}

    fn context_warning(&mut self, _percent: u8) {}
}
