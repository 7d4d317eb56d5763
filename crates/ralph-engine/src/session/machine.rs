//! What a session needs from the machine, in addition to its files and repositories.

use std::io;

use ralph_proc::signal::SignalPipe;

use crate::boundary::{OwnPlaces, confine_ralph};
use crate::clock::{Clock, SystemClock};
use crate::files::PathError;
use crate::run::{Performer, RunResources, Supervised};
use crate::state::State;
use crate::wait::{RealWaiter, Waiter};

/// Restricts a process to its own resources.
pub(crate) type Confine = fn(&RunResources, &OwnPlaces<'_>) -> io::Result<()>;

/// A machine. The simulation has its own.
pub(crate) struct Machine {
    pub(crate) clock: &'static dyn Clock,
    pub(crate) waiter: Box<dyn Waiter>,
    pub(crate) performer: Box<dyn Performer>,
    /// Creates the resources of runs.
    pub(crate) resources: fn(&State) -> Result<RunResources, PathError>,
    /// Starts to listen for the person's signals.
    pub(crate) signals: fn() -> io::Result<Option<SignalPipe>>,
    /// Restricts this process to its own resources.
    pub(crate) confine: Confine,
}

impl Machine {
    /// The real machine.
    pub(super) fn this() -> Machine {
        Machine {
            clock: &SystemClock,
            waiter: Box::new(RealWaiter),
            performer: Box::new(Supervised),
            resources: RunResources::open,
            signals: || SignalPipe::install().map(Some),
            confine: |resources, places| {
                // Before this process has given up privileges that guards need.
                resources.launcher.borrow_mut().start()?;
                confine_ralph(places)
            },
        }
    }
}
