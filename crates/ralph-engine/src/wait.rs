//! Waiting for a point in time, interruptibly.
//!
//! The end is a wall-clock time, not a duration: after a suspend there is less left to wait.

use std::time::Duration;

use jiff::Timestamp;
use ralph_proc::signal::{SignalPipe, SignalRequest};

use crate::clock::Clock;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    Reached,
    Interrupted,
}

/// Waits. Simulations have an implementation that only advances their clock.
pub(crate) trait Waiter {
    /// Waits until `until`; `tick` is called about once a second with the time left.
    fn wait_until(
        &mut self,
        clock: &dyn Clock,
        signals: Option<&SignalPipe>,
        until: Timestamp,
        tick: &mut dyn FnMut(Duration),
    ) -> Waited;
}

/// Really waits, and lets the person interrupt.
pub(crate) struct RealWaiter;

impl Waiter for RealWaiter {
    fn wait_until(
        &mut self,
        clock: &dyn Clock,
        signals: Option<&SignalPipe>,
        until: Timestamp,
        tick: &mut dyn FnMut(Duration),
    ) -> Waited {
        loop {
            let Ok(left) = Duration::try_from(until.duration_since(clock.now())) else {
                return Waited::Reached;
            };
            if left.is_zero() {
                return Waited::Reached;
            }
            tick(left);
            let step = left.min(Duration::from_secs(1));
            match signals {
                Some(signals) if signals.wait(step) == Some(SignalRequest::Stop) => {
                    return Waited::Interrupted;
                }
                Some(_) => {}
                None => std::thread::sleep(step),
            }
        }
    }
}
