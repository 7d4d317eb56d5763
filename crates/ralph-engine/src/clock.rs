//! Time: the only module that reads it.
//!
//! Code that needs the time is given a [`Clock`], so that a test can simulate a night of waits and timeouts. The
//! monotonic clock stops while the machine is suspended: a closed laptop causes no timeouts.

use std::time::Duration;

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// A source of time.
pub trait Clock: Send + Sync {
    /// Returns the wall-clock time. It may jump, also backwards.
    fn now(&self) -> Timestamp;

    /// Returns the time since some fixed point. It never goes backwards, and only differences are meaningful.
    fn monotonic(&self) -> Duration;
}

/// The machine's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        let time = clock_gettime(ClockId::Monotonic);
        Duration::try_from(time).expect("the monotonic clock counts up from boot")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_never_runs_backwards() {
        let first = SystemClock.monotonic();
        assert!(SystemClock.monotonic() >= first);
    }
}
