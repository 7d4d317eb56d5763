//! Subscribers of the entries of the journal and of the events of the run under way.
//!
//! A subscriber decides nothing. Everything it receives was recorded before, so that a reader of the
//! journal later knows the same.

use std::time::Duration;

use ralph_model::board::Board;
use ralph_model::event::AgentEvent;
use ralph_model::id::RunId;
use ralph_model::journal::JournalEntry;

/// Follows the stream of a session.
pub trait Subscriber: Send {
    /// An entry was recorded; the board has it already.
    fn recorded(&mut self, entry: &JournalEntry, board: &Board);

    /// A run has begun. Returns the observer of its agent's events; it is dropped before the end of the run is recorded.
    fn follow(&mut self, run: &RunId, board: &Board) -> Box<dyn RunObserver>;

    /// The wait that was recorded last goes on; called about once a second.
    fn waiting(&mut self, left: Duration);
}

/// Told of everything that happens in a run while it happens. Called on the thread that reads the stream.
pub trait RunObserver: Send {
    /// `at` counts from the start of the run.
    fn event(&mut self, at: Duration, event: &AgentEvent);

    /// The context fills up.
    fn context_warning(&mut self, percent: u8);
}

/// Ignores everything.
pub(crate) struct Unobserved;

impl RunObserver for Unobserved {
    fn event(&mut self, _at: Duration, _event: &AgentEvent) {}

    fn context_warning(&mut self, _percent: u8) {}
}
