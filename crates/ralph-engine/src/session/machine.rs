//! What a session needs of the machine that it works on, beside its files and repositories.

use std::io;

use ralph_proc::signal::SignalPipe;

use crate::boundary::{OwnPlaces, confine_ralph};
use crate::clock::{Clock, SystemClock};
use crate::files::PathError;
use crate::run::{Performer, RunResources, Supervised};
use crate::state::State;
use crate::wait::{RealWaiter, Waiter};

/// Holds a process to what it works with.
pub(crate) type Confine = fn(&RunResources, &OwnPlaces<'_>) -> io::Result<()>;

/// A machine. The simulation has one of its own.
pub(crate) struct Machine {
    pub(crate) clock: &'static dyn Clock,
    pub(crate) waiter: Box<dyn Waiter>,
    pub(crate) performer: Box<dyn Performer>,
    /// Makes what runs use.
    pub(crate) resources: fn(&State) -> Result<RunResources, PathError>,
    /// Begins to listen for the person's signals.
    pub(crate) signals: fn() -> io::Result<Option<SignalPipe>>,
    /// Holds this process to what it works with.
    pub(crate) confine: Confine,
}

impl Machine {
    /// The machine that this process runs on.
    pub(super) fn this() -> Machine {
        Machine {
            clock: &SystemClock,
            waiter: Box::new(RealWaiter),
            performer: Box::new(Supervised),
            resources: RunResources::open,
            signals: || SignalPipe::install().map(Some),
            confine: |resources, places| {
                // Before it has lost what guards need.
                resources.launcher.borrow_mut().start()?;
                confine_ralph(places)
            },
        }
    }
}
