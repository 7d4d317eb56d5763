//! Time: the one place that reads it.
//!
//! Code that needs the time is given a [`Clock`], so that a night of waits and timeouts passes in a test without
//! waiting. The monotonic reading stands still while the machine is suspended: a closed laptop times nothing out.

use std::time::Duration;

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Returns the time of day. It may jump, also backwards.
    fn now(&self) -> Timestamp;

    /// Returns the time since some fixed point. It never goes backwards and only differences mean something.
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
