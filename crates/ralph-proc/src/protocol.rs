//! When and how a run is terminated: the pure half of supervision.
//!
//! The supervisor reports events with their times; this state machine returns what to send to the guard and when to
//! check again. It reads no clock. Times are durations since the start of the run as experienced by the run: they stop
//! while the person has it suspended, and while the machine sleeps.

use std::time::Duration;

/// The limits of a run, and its grace periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopLimits {
    /// For the whole run.
    pub wall: Option<Duration>,
    /// Without any progress, while no tool is running.
    pub idle: Option<Duration>,
    /// Between the interrupt and the termination.
    pub interrupt_grace: Duration,
    /// Between the termination and the kill.
    pub terminate_grace: Duration,
    /// How many bytes of each stream are kept.
    pub log: u64,
}

/// Why a run was terminated by the harness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    Wall(Duration),
    Idle(Duration),
    /// The person asked for it.
    Person,
    /// The reader of the output asked for it.
    Watcher,
    /// The output could not be logged.
    LogFailed(String),
}

/// An observation of the supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Observation {
    /// Time has passed. `last_progress` is the watcher's last progress; `busy` means that a tool is running.
    Tick { last_progress: Duration, busy: bool },
    /// The run must end.
    Stop(StopReason),
    /// It must end now, without grace.
    StopNow,
}

/// An order to the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Interrupt,
    Terminate,
    Kill,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    Interrupted { at: Duration },
    Terminated { at: Duration },
    Killed,
}

/// The state machine of one run.
#[derive(Clone, Debug)]
pub(crate) struct Protocol {
    limits: StopLimits,
    phase: Phase,
    reason: Option<StopReason>,
    last_progress: Duration,
    busy: bool,
}

impl Protocol {
    pub(crate) fn new(limits: StopLimits) -> Protocol {
        Protocol {
            limits,
            phase: Phase::Running,
            reason: None,
            last_progress: Duration::ZERO,
            busy: false,
        }
    }

    /// Why the run was terminated; `None` if nothing asked for it.
    pub(crate) fn reason(&self) -> Option<&StopReason> {
        self.reason.as_ref()
    }

    /// Processes an observation at `now` and returns the order to send, if any.
    pub(crate) fn handle(&mut self, now: Duration, observed: Observation) -> Option<Order> {
        match observed {
            Observation::Tick { last_progress, busy } => {
                self.last_progress = last_progress.max(self.last_progress);
                if self.busy && !busy {
                    // A tool's running time does not count as silence of the agent.
                    self.last_progress = now;
                }
                self.busy = busy;
                self.on_time(now)
            }
            Observation::Stop(reason) => self.stop(now, reason),
            Observation::StopNow => {
                self.reason.get_or_insert(StopReason::Person);
                self.kill()
            }
        }
    }

    /// When to call again with a tick, if nothing else happens before.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        match self.phase {
            Phase::Running => {
                let idle = self.limits.idle.filter(|_| !self.busy);
                let idle = idle.map(|idle| self.last_progress + idle);
                [self.limits.wall, idle].into_iter().flatten().min()
            }
            Phase::Interrupted { at } => Some(at + self.limits.interrupt_grace),
            Phase::Terminated { at } => Some(at + self.limits.terminate_grace),
            Phase::Killed => None,
        }
    }

    fn on_time(&mut self, now: Duration) -> Option<Order> {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return None;
        }
        match self.phase {
            Phase::Running => {
                let wall = self.limits.wall.filter(|wall| now >= *wall).map(StopReason::Wall);
                let reason = wall.or(self.limits.idle.map(StopReason::Idle))?;
                self.stop(now, reason)
            }
            Phase::Interrupted { .. } => {
                self.phase = Phase::Terminated { at: now };
                Some(Order::Terminate)
            }
            Phase::Terminated { .. } => self.kill(),
            Phase::Killed => None,
        }
    }

    fn stop(&mut self, now: Duration, reason: StopReason) -> Option<Order> {
        if self.phase != Phase::Running {
            return None;
        }
        self.reason = Some(reason);
        self.phase = Phase::Interrupted { at: now };
        Some(Order::Interrupt)
    }

    fn kill(&mut self) -> Option<Order> {
        if self.phase == Phase::Killed {
            return None;
        }
        self.phase = Phase::Killed;
        Some(Order::Kill)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn limits() -> StopLimits {
        StopLimits {
            wall: Some(S(100)),
            idle: Some(S(10)),
            interrupt_grace: S(5),
            terminate_grace: S(3),
            log: u64::MAX,
        }
    }

    fn tick(protocol: &mut Protocol, now: u64, last_progress: u64, busy: bool) -> Option<Order> {
        protocol.handle(S(now), Observation::Tick { last_progress: S(last_progress), busy })
    }

    #[test]
    fn silence_ends_a_run_by_interrupt_then_terminate_then_kill() {
        let mut run = Protocol::new(limits());
        assert_eq!(tick(&mut run, 9, 0, false), None);
        assert_eq!(tick(&mut run, 10, 0, false), Some(Order::Interrupt));
        assert_eq!(run.reason(), Some(&StopReason::Idle(S(10))));
        assert_eq!(tick(&mut run, 14, 14, false), None, "progress while stopping changes nothing");
        assert_eq!(tick(&mut run, 15, 14, false), Some(Order::Terminate));
        assert_eq!(tick(&mut run, 18, 14, false), Some(Order::Kill));
        assert_eq!(run.deadline(), None);
    }

    #[test]
    fn progress_moves_the_idle_deadline_but_never_the_wall() {
        let mut run = Protocol::new(limits());
        for now in (5..100).step_by(5) {
            assert_eq!(tick(&mut run, now, now - 1, false), None);
        }
        assert_eq!(tick(&mut run, 100, 99, false), Some(Order::Interrupt));
        assert_eq!(run.reason(), Some(&StopReason::Wall(S(100))));
    }

    #[test]
    fn an_open_tool_call_is_no_silence_and_its_end_starts_the_idle_clock_anew() {
        let mut run = Protocol::new(limits());
        assert_eq!(tick(&mut run, 5, 1, true), None);
        assert_eq!(run.deadline(), Some(S(100)));
        assert_eq!(tick(&mut run, 60, 1, true), None);
        assert_eq!(tick(&mut run, 61, 1, false), None);
        assert_eq!(run.deadline(), Some(S(71)));
        assert_eq!(tick(&mut run, 71, 1, false), Some(Order::Interrupt));
    }

    #[test]
    fn a_second_wish_kills_without_grace_and_keeps_the_first_reason() {
        let mut run = Protocol::new(limits());
        let stop = Observation::Stop(StopReason::Watcher);
        assert_eq!(run.handle(S(1), stop.clone()), Some(Order::Interrupt));
        assert_eq!(run.handle(S(2), stop), None, "already stopping");
        assert_eq!(run.handle(S(2), Observation::StopNow), Some(Order::Kill));
        assert_eq!(run.handle(S(3), Observation::StopNow), None);
        assert_eq!(run.reason(), Some(&StopReason::Watcher));
    }

    fn observation() -> impl Strategy<Value = Observation> {
        prop_oneof![
            6 => (0u64..200, any::<bool>())
                .prop_map(|(at, busy)| Observation::Tick { last_progress: S(at), busy }),
            1 => Just(Observation::Stop(StopReason::Person)),
            1 => Just(Observation::StopNow),
        ]
    }

    proptest! {
        #[test]
        fn orders_only_ever_get_harder_and_every_order_has_a_reason(
            steps in prop::collection::vec((0u64..40, observation()), 0..60)
        ) {
            let mut run = Protocol::new(limits());
            let (mut now, mut hardest) = (Duration::ZERO, 0);
            for (later, observed) in steps {
                now += S(later);
                if let Some(order) = run.handle(now, observed) {
                    let rank = order as u8 + 1;
                    prop_assert!(rank > hardest);
                    prop_assert!(run.reason().is_some());
                    hardest = rank;
                }
            }
        }

        #[test]
        fn a_run_that_never_ends_by_itself_is_killed_in_bounded_time(busy in any::<bool>()) {
            let mut run = Protocol::new(limits());
            let mut orders = Vec::new();
            while let Some(deadline) = run.deadline() {
                orders.extend(run.handle(deadline, Observation::Tick {
                    last_progress: Duration::ZERO, busy,
                }));
                prop_assert!(deadline <= S(100 + 5 + 3));
            }
            prop_assert_eq!(orders, vec![Order::Interrupt, Order::Terminate, Order::Kill]);
        }
    }
}
