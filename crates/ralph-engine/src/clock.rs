//! Time: the one place that reads it.
//!
//! Whoever needs to know the time is handed a [`Clock`], so that a night of waits and timeouts passes in a test without
//! waiting. The monotonic reading stands still while the machine is suspended: a closed laptop times nothing out.

use std::sync::{Mutex, MutexGuard, PoisonError};
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

/// A clock that stands still until it is moved, for tests and simulations.
#[derive(Debug)]
pub struct FakeClock {
    time: Mutex<(Timestamp, Duration)>,
}

impl FakeClock {
    pub const fn new(now: Timestamp) -> Self {
        FakeClock { time: Mutex::new((now, Duration::ZERO)) }
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        let mut time = self.lock();
        time.0 += by;
        time.1 += by;
    }

    /// Sets the time of day, as a person or a time server does; the monotonic reading does not notice.
    pub fn set(&self, now: Timestamp) {
        self.lock().0 = now;
    }

    fn lock(&self) -> MutexGuard<'_, (Timestamp, Duration)> {
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        self.lock().0
    }

    fn monotonic(&self) -> Duration {
        self.lock().1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fake_clock_moves_only_when_it_is_told_to() {
        let start: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let clock = FakeClock::new(start);
        clock.advance(Duration::from_secs(90));
        assert_eq!(clock.now(), "2026-01-02T03:05:35Z".parse::<Timestamp>().unwrap());
        assert_eq!(clock.monotonic(), Duration::from_secs(90));
        clock.set(start);
        assert_eq!((clock.now(), clock.monotonic()), (start, Duration::from_secs(90)));
    }

    #[test]
    fn the_system_clock_never_runs_backwards() {
        let first = SystemClock.monotonic();
        assert!(SystemClock.monotonic() >= first);
    }
}
