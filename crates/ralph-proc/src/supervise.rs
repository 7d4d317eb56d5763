//! One supervised run: starts the guard, logs the output, enforces the limits, terminates everything.
//!
//! One thread does it all, because starting threads would cost more than most runs' output; only a flood is read on
//! another ([`crate::parser`]). The run has ended when the guard reports that the program and all its descendants have
//! ended, never when a pipe reaches its end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use crate::command::CommandSpec;
use crate::control::Control;
use crate::end_note::EndNote;
use crate::guard::{GuardOrder, GuardRequest, Notice};
use crate::launcher::Launcher;
use crate::output::{CappedLog, Log, LoggedBytes, Output, OutputPipe, Stream, Watcher};
use crate::parser::Parser;
use crate::protocol::{Observation, Order, Protocol, StopLimits, StopReason};
use crate::pulse::Pulse;
use crate::signal::{SignalPipe, SignalRequest, suspend_self};
use crate::trace::Looked;
use crate::tree::{self, ProcessIdentity};
use crate::{fault, host};

/// How long the pipes may stay open after all processes of the run have ended. A process that still holds them does not
/// belong to the run.
const DRAIN_PATIENCE: Duration = Duration::from_millis(500);

/// Everything a run needs besides its command.
pub struct Supervision<'a> {
    pub launcher: &'a mut Launcher,
    pub limits: StopLimits,
    /// The log of stdout, byte for byte up to the limit.
    pub stdout_log: Log,
    /// The log of stderr, byte for byte up to the limit.
    pub stderr_log: Log,
    pub pulse: Pulse,
    /// The person's signals. `None` ignores them.
    pub signals: Option<&'a SignalPipe>,
    /// Another source of requests during the run.
    pub visitor: Option<Visitor<'a>>,
    /// Where the guard records that no process of the run is left.
    pub end_note: Option<EndNote>,
    /// Called as soon as the guard runs, before the program starts: what must be terminated after a crash.
    pub on_guard: &'a mut dyn FnMut(&ProcessIdentity),
}

/// Called by the supervising thread during a run, which avoids a separate thread.
pub struct Visitor<'a> {
    /// Called when this is readable.
    pub fd: Option<OwnedFd>,
    /// Called this often, whether or not there is something to read.
    pub every: Option<Duration>,
    pub call: &'a mut dyn FnMut(),
}

/// How a supervised run ended.
#[derive(Debug)]
pub struct Finished {
    /// Exit code of the program, if it exited.
    pub code: Option<i32>,
    /// The signal that ended the program, if one did.
    pub signal: Option<i32>,
    /// Why the harness terminated it, if it did.
    pub stopped: Option<StopReason>,
    pub kept: LoggedBytes,
    /// Processor time of the program and all its descendants.
    pub cpu: Duration,
    /// Leftover processes, which were terminated.
    pub leftovers: usize,
    /// Whether a process outside the run still held its pipes.
    pub pipes_held: bool,
    /// The duration of the run, as experienced by it.
    pub elapsed: Duration,
    /// The program's file lookups, if requested and available.
    pub looked: Option<Looked>,
}

impl Finished {
    /// A run that the person stopped before it began.
    fn before_its_start() -> Finished {
        Finished {
            code: None,
            signal: None,
            stopped: Some(StopReason::Person),
            kept: LoggedBytes::default(),
            cpu: Duration::ZERO,
            leftovers: 0,
            pipes_held: false,
            elapsed: Duration::ZERO,
            looked: None,
        }
    }
}

/// A run that could not begin, or whose supervision broke.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    #[error("{0}")]
    NotStarted(String),
    /// The program was found, but its file cannot be executed.
    #[error("{0}")]
    NotExecutable(String),
    #[error("cannot start the guard")]
    Guard(#[source] io::Error),
    #[error(
        "the guard was ended from outside; {ended} of the run's processes were still there and have been ended"
    )]
    GuardLost { ended: usize },
    #[error("cannot supervise the run")]
    Broken(#[source] io::Error),
}

/// Runs a command and all its descendants to their end. The watcher is returned in any case.
pub fn supervise<W: Watcher>(
    spec: &CommandSpec,
    supervision: Supervision<'_>,
    watcher: W,
) -> (W, Result<Finished, SuperviseError>) {
    // After a stop request during preparation nothing new is started.
    if supervision.signals.is_some_and(SignalPipe::take_stop) {
        return (watcher, Ok(Finished::before_its_start()));
    }
    match Session::begin(spec, supervision) {
        Ok(begun) => begun.conduct(watcher),
        Err(error) => (watcher, Err(error)),
    }
}

/// A run whose guard has not carried out its request yet.
struct Begun<'a> {
    session: Session<'a>,
    channels: [OutputPipe; 2],
    signals: Option<&'a SignalPipe>,
    visitor: Option<Visitor<'a>>,
}

impl Begun<'_> {
    fn conduct<W: Watcher>(self, watcher: W) -> (W, Result<Finished, SuperviseError>) {
        let Begun { mut session, channels, signals, mut visitor } = self;
        std::thread::scope(|scope| {
            let mut output = Output::new(channels, Parser::new(scope, watcher));
            let ended = session.follow(signals, visitor.as_mut(), &mut output);
            let pipes_held = !drain(&mut output);
            let (watcher, kept) = output.finish();
            (watcher, session.conclude(ended, kept, pipes_held, signals))
        })
    }
}

/// Drains the pipes; `false` if a process outside the run holds them open.
fn drain<'scope, W: Watcher + 'scope>(output: &mut Output<'scope, '_, W>) -> bool {
    let until = Instant::now() + DRAIN_PATIENCE;
    while !output.is_at_end() {
        let remaining = until.saturating_duration_since(Instant::now());
        let mut polled: Vec<PollFd<'_>> =
            output.fds().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let _ = poll(&mut polled, Timespec::try_from(remaining).ok().as_ref());
        drop(polled);
        let anything = output.take();
        if remaining.is_zero() && !anything {
            return output.is_at_end();
        }
    }
    true
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Starts the guard with its end of the control socket and the writing ends of both pipes.
fn start_guard(launcher: &mut Launcher) -> io::Result<(i32, UnixStream, [OwnedFd; 2])> {
    let (control, theirs) = UnixStream::pair()?;
    let (stdout, stdout_write) = io::pipe()?;
    let (stderr, stderr_write) = io::pipe()?;
    for ours in [&stdout, &stderr] {
        // Only our end: the agent's must block as usual.
        rustix::io::ioctl_fionbio(ours, true)?;
    }
    let guard = launcher.launch([theirs.as_fd(), stdout_write.as_fd(), stderr_write.as_fd()])?;
    Ok((guard, control, [stdout.into(), stderr.into()]))
}

struct Ended {
    code: Option<i32>,
    signal: Option<i32>,
    was_ordered: bool,
    cpu: Duration,
    leftovers: usize,
    looked: Option<Looked>,
}

struct Session<'a> {
    launcher: &'a mut Launcher,
    guard: i32,
    control: Control,
    protocol: Protocol,
    pulse: Pulse,
    started: Instant,
    paused: Duration,
    /// How often the person asked to stop.
    stops: u32,
    /// When the guard started: no process of the run is older.
    guard_start: u64,
}

impl<'a> Session<'a> {
    fn begin(
        spec: &CommandSpec,
        supervision: Supervision<'a>,
    ) -> Result<Begun<'a>, SuperviseError> {
        // If the guard is killed (only possible without the kernel boundary), its children are reparented to us.
        host::adopt_orphans().map_err(SuperviseError::Broken)?;
        let (guard, control, [stdout, stderr]) =
            start_guard(supervision.launcher).map_err(SuperviseError::Guard)?;
        let mut session = Session {
            launcher: supervision.launcher,
            guard,
            control: Control::new(control),
            protocol: Protocol::new(supervision.limits),
            pulse: supervision.pulse,
            started: Instant::now(),
            paused: Duration::ZERO,
            stops: 0,
            guard_start: 0,
        };
        if let Some(guard) = ProcessIdentity::of(guard) {
            session.guard_start = guard.start;
            (supervision.on_guard)(&guard);
        }
        session.request(spec, supervision.end_note).map_err(SuperviseError::Guard)?;
        fault::child_started(&spec.program, None);
        let cap = supervision.limits.log;
        let channels = [
            OutputPipe::new(Stream::Stdout, stdout, CappedLog::new(supervision.stdout_log, cap)),
            OutputPipe::new(Stream::Stderr, stderr, CappedLog::new(supervision.stderr_log, cap)),
        ];
        let (signals, visitor) = (supervision.signals, supervision.visitor);
        Ok(Begun { session, channels, signals, visitor })
    }

    /// Summarises the run once all its processes have ended.
    fn conclude(
        &mut self,
        ended: Result<Ended, SuperviseError>,
        kept: io::Result<LoggedBytes>,
        pipes_held: bool,
        signals: Option<&SignalPipe>,
    ) -> Result<Finished, SuperviseError> {
        let ended = ended.map_err(|error| self.clean_up(error))?;
        let stopped = self.reason_of(&ended);
        if self.stops > 0
            && stopped.is_none()
            && let Some(signals) = signals
        {
            // It stopped nothing: keep it for the next step.
            signals.put_back_stop();
        }
        let kept = match kept {
            Ok(kept) => kept,
            Err(_) if matches!(stopped, Some(StopReason::LogFailed(_))) => LoggedBytes::default(),
            Err(error) => return Err(SuperviseError::Broken(error)),
        };
        self.launcher.wait_for_guard();
        Ok(Finished {
            code: ended.code,
            signal: ended.signal,
            stopped,
            kept,
            cpu: ended.cpu,
            leftovers: ended.leftovers,
            pipes_held,
            elapsed: self.now(),
            looked: ended.looked,
        })
    }

    /// Returns why the harness terminated the run. If it had ended by itself when the order came, while its leftovers
    /// were being terminated, it was not: its work is done.
    fn reason_of(&self, ended: &Ended) -> Option<StopReason> {
        let is_too_late = |reason: &&StopReason| {
            let is_outside = match reason {
                StopReason::Person | StopReason::Wall(_) | StopReason::Idle(_) => true,
                StopReason::Watcher | StopReason::LogFailed(_) => false,
            };
            is_outside && !ended.was_ordered && ended.code == Some(0)
        };
        self.protocol.reason().filter(|reason| !is_too_late(reason)).cloned()
    }

    /// Time since the start, without suspended time. The clock itself stops while the machine sleeps.
    fn now(&self) -> Duration {
        self.started.elapsed().saturating_sub(self.paused)
    }

    fn request(&mut self, spec: &CommandSpec, end_note: Option<EndNote>) -> io::Result<()> {
        let (request, bytes) = GuardRequest::new(spec, end_note)?;
        self.control.send_with(&request, &bytes)
    }

    fn order(&mut self, order: GuardOrder) {
        // A dead guard is noticed by its closed socket.
        let _ = self.control.send(&order);
    }

    /// Enforces the limits until the guard reports that everything has ended.
    fn follow<'scope, W: Watcher + 'scope>(
        &mut self,
        signals: Option<&SignalPipe>,
        mut visitor: Option<&mut Visitor<'_>>,
        output: &mut Output<'scope, '_, W>,
    ) -> Result<Ended, SuperviseError> {
        let every = visitor.as_ref().and_then(|visitor| visitor.every);
        loop {
            let deadline = self.protocol.deadline();
            let timeout = deadline.map(|deadline| deadline.saturating_sub(self.now()));
            let timeout = [timeout, every, output.until_flush()].into_iter().flatten().min();
            let knocks = visitor.as_ref().and_then(|visitor| visitor.fd.as_ref());
            let (spoke, knocked) = self
                .wait(timeout, signals, knocks, output.fds())
                .map_err(SuperviseError::Broken)?;
            output.take();
            output.flush_when_due();
            if let Some(visitor) = visitor.as_mut().filter(|_| knocked || every.is_some()) {
                (visitor.call)();
            }
            if spoke {
                match self.notice()? {
                    Notice::Started { .. } => {}
                    Notice::Failed { message, is_programs_fault: true } => {
                        return Err(SuperviseError::NotExecutable(message));
                    }
                    Notice::Failed { message, .. } => {
                        return Err(SuperviseError::NotStarted(message));
                    }
                    Notice::Ended { code, signal, was_ordered, cpu, leftovers, looked } => {
                        return Ok(Ended { code, signal, was_ordered, cpu, leftovers, looked });
                    }
                }
            }
            while let Some(wish) = signals.and_then(SignalPipe::take) {
                self.grant(wish, signals);
            }
            self.pulse.drain();
            if let Some(error) = output.failure() {
                self.observe(Observation::Stop(StopReason::LogFailed(error.to_string())));
            }
            if self.pulse.stop_requested() {
                self.observe(Observation::Stop(StopReason::Watcher));
            }
            self.tick();
        }
    }

    fn tick(&mut self) {
        self.observe(Observation::Tick {
            last_progress: self.pulse.last_progress().saturating_sub(self.paused),
            busy: self.pulse.busy(),
        });
    }

    fn observe(&mut self, observed: Observation) {
        let order = self.protocol.handle(self.now(), observed);
        match order {
            Some(Order::Interrupt) => self.order(GuardOrder::Signal(Signal::INT.as_raw())),
            Some(Order::Terminate) => self.order(GuardOrder::Signal(Signal::TERM.as_raw())),
            Some(Order::Kill) => self.order(GuardOrder::Kill),
            None => {}
        }
    }

    fn grant(&mut self, wish: SignalRequest, signals: Option<&SignalPipe>) {
        match wish {
            SignalRequest::Stop => {
                self.stops += 1;
                self.observe(if self.stops == 1 {
                    Observation::Stop(StopReason::Person)
                } else {
                    Observation::StopNow
                });
            }
            SignalRequest::Suspend => {
                if signals.is_none() {
                    return;
                }
                // Measure what happened before the pause before the clock is shifted.
                self.tick();
                self.order(GuardOrder::Pause);
                let since = Instant::now();
                let _ = suspend_self();
                self.paused += since.elapsed();
                self.order(GuardOrder::Resume);
            }
        }
    }

    /// Waits for the guard, the person, the watcher, the visitor or the timeout. Returns whether the guard has a
    /// message, and whether the visitor is ready.
    fn wait<'f>(
        &'f self,
        timeout: Option<Duration>,
        signals: Option<&'f SignalPipe>,
        knocks: Option<&'f OwnedFd>,
        output: impl Iterator<Item = BorrowedFd<'f>>,
    ) -> io::Result<(bool, bool)> {
        if self.control.has_message() {
            return Ok((true, false));
        }
        let mut fds: Vec<BorrowedFd<'_>> = vec![self.control.fd(), self.pulse.waker()];
        fds.extend(signals.into_iter().flat_map(SignalPipe::fds));
        let before_knocks = fds.len();
        fds.extend(knocks.map(AsFd::as_fd));
        fds.extend(output);
        let mut polled: Vec<PollFd<'_>> =
            fds.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) => {
                let ready = |fd: Option<&PollFd<'_>>| fd.is_some_and(|fd| !fd.revents().is_empty());
                Ok((ready(polled.first()), knocks.is_some() && ready(polled.get(before_knocks))))
            }
            Err(rustix::io::Errno::INTR) => Ok((false, false)),
            Err(errno) => Err(errno.into()),
        }
    }

    fn notice(&mut self) -> Result<Notice, SuperviseError> {
        match self.control.receive() {
            Ok(Some(notice)) => Ok(notice),
            Ok(None) | Err(_) => Err(SuperviseError::GuardLost { ended: 0 }),
        }
    }

    /// After a run whose guard did not report its end: terminates everything that was reparented to us.
    ///
    /// A reparented process belongs to this run if it is not older than the guard.
    fn clean_up(&mut self, error: SuperviseError) -> SuperviseError {
        if tree::started_at(self.guard, self.guard_start) {
            tree::signal_all(&[self.guard], Signal::KILL);
        }
        self.launcher.wait_for_guard();
        let launcher = self.launcher.pid();
        let mut ended = 0;
        loop {
            let orphans: Vec<i32> = tree::descendants(own_pid())
                .into_iter()
                .filter(|pid| Some(*pid) != launcher && tree::started_since(*pid, self.guard_start))
                .collect();
            if orphans.is_empty() {
                break;
            }
            ended += tree::kill_with_descendants(&orphans);
            for pid in orphans.iter().filter_map(|pid| rustix::process::Pid::from_raw(*pid)) {
                let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
            }
        }
        match error {
            SuperviseError::GuardLost { .. } => SuperviseError::GuardLost { ended },
            other => other,
        }
    }
}
