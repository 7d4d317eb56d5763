//! The launcher: a process of the harness that forks the guards of its runs, one after the other.
//!
//! An exec costs several times as much as a fork of a small process, and the guard of a run is always the same program.
//! So the harness executes itself once, and the guard of each run is a fork of that. The launcher has one thread,
//! installs no handler, keeps no descriptor of a run, and ends with the harness. It waits for each guard before it
//! reads the next order: no guard is left unreaped, and a run's CPU time counts as the harness's own. If the harness is
//! killed, the launcher ends the commands that it was waiting for.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, SendAncillaryBuffer, SendAncillaryMessage, recvmsg,
    sendmsg,
};
use rustix::process::{Pid, WaitOptions, setsid, waitpid};

use crate::guard::{self, Guard};
use crate::{caller, host, sandbox, sys};

/// The descriptors of a guard: its end of the control socket, and the run's stdout and stderr.
const DESCRIPTORS: usize = 3;

/// Sent by the launcher instead of a process id once the guard has ended.
const GONE: i32 = 0;

/// The orders of the harness, one byte each.
const LAUNCH: u8 = 1;
const END: u8 = 0;

/// The variable in which the launcher is told the name of its harness.
const HARNESS: &str = "RALPH_LAUNCHER_OF";

/// What the launcher is to do.
enum Order {
    Launch([OwnedFd; DESCRIPTORS]),
    End,
}

/// Starts the guards of one harness. Its process is started with the first guard, and ended on drop.
#[derive(Debug, Default)]
pub struct Launcher {
    process: Option<Process>,
    /// It was killed from outside after the harness had confined itself. Another would inherit the restrictions.
    was_lost: bool,
}

#[derive(Debug)]
struct Process {
    child: Child,
    orders: UnixStream,
    /// The running guard whose end has not been reported yet.
    guard: Option<Pid>,
}

/// The launchers of a process that can no longer start new ones: these would inherit its restrictions.
static IDLE: Mutex<Vec<Process>> = Mutex::new(Vec::new());

/// Ends the launchers that are no longer needed, before the harness itself ends.
pub fn end_idle() {
    let idle = std::mem::take(&mut *IDLE.lock().unwrap_or_else(PoisonError::into_inner));
    for process in idle {
        drop(Launcher { process: Some(process), was_lost: false }.ended());
    }
}

impl Launcher {
    /// Starts the process now, because the harness is about to give up privileges that guards need.
    pub fn start(&mut self) -> io::Result<()> {
        if self.process.is_none() {
            self.process = Some(Process::idle_or_new()?);
        }
        Ok(())
    }

    /// Starts a guard and returns its process id.
    pub(crate) fn launch(&mut self, given: [BorrowedFd<'_>; DESCRIPTORS]) -> io::Result<i32> {
        self.wait_for_guard();
        if let Some(process) = &mut self.process {
            // Without the kernel boundary a run can have killed it; then another is started.
            if let Ok(pid) = process.launch(given) {
                return Ok(pid);
            }
            self.lose();
        }
        if self.was_lost {
            return Err(io::Error::other(
                "the process that starts the runs was killed, and Ralph, which is confined by now, cannot start \
                 another; start Ralph again",
            ));
        }
        self.process.insert(Process::idle_or_new()?).launch(given)
    }

    /// Waits until the guard started last has ended.
    pub(crate) fn wait_for_guard(&mut self) {
        let Some(process) = &mut self.process else { return };
        let guard = process.guard.take();
        if guard.is_some() && process.told().is_err() {
            self.lose();
            // If the launcher was killed, its guard was reparented to us.
            wait_for(guard);
        }
    }

    /// The launcher's own process, which belongs to no run.
    pub(crate) fn pid(&self) -> Option<i32> {
        self.process.as_ref().and_then(|process| i32::try_from(process.child.id()).ok())
    }

    fn lose(&mut self) {
        self.end();
        self.was_lost = sandbox::is_confined();
    }

    fn ended(mut self) -> Launcher {
        self.end();
        self
    }

    fn end(&mut self) {
        let Some(Process { mut child, orders, .. }) = self.process.take() else { return };
        let _ = (&orders).write_all(&[END]);
        drop(orders);
        let _ = child.wait();
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        self.wait_for_guard();
        match self.process.take() {
            Some(process) if sandbox::is_confined() => {
                IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(process);
            }
            process => {
                self.process = process;
                self.end();
            }
        }
    }
}

impl Process {
    fn idle_or_new() -> io::Result<Process> {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(Process::start, Ok)
    }

    fn start() -> io::Result<Process> {
        let (orders, theirs) = UnixStream::pair()?;
        // Not the path of the binary: it may have been replaced by an upgrade since we started.
        let child = Command::new(host::own_program()?)
            .arg(guard::WORD)
            .env(HARNESS, caller::own_name())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Process { child, orders, guard: None })
    }

    fn launch(&mut self, given: [BorrowedFd<'_>; DESCRIPTORS]) -> io::Result<i32> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&given));
        sendmsg(&self.orders, &[IoSlice::new(&[LAUNCH])], &mut ancillary, host::SEND)?;
        match self.told()? {
            pid if pid > 0 => {
                self.guard = Pid::from_raw(pid);
                Ok(pid)
            }
            errno => Err(io::Error::from_raw_os_error(-errno)),
        }
    }

    fn told(&mut self) -> io::Result<i32> {
        let mut bytes = [0; 4];
        self.orders.read_exact(&mut bytes)?;
        Ok(i32::from_ne_bytes(bytes))
    }
}

/// Runs the launcher, until the harness has gone.
pub(crate) fn serve() -> i32 {
    // Other inherited descriptors of the harness are not for guards or runs.
    if sys::close_inherited(sys::Inherited::Close).is_err() {
        return 70;
    }
    // A separate session keeps the terminal's signals away, from the guards too: the harness decides what they mean.
    let _ = setsid();
    // Not descriptor 0 itself, which is not closed when a guard executes the run's program.
    let Ok(orders) = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from) else {
        return 70;
    };
    #[expect(clippy::disallowed_methods, reason = "nothing is written to it")]
    let quiet = io::stdout();
    if rustix::stdio::dup2_stdin(quiet.as_fd()).is_err() {
        return 70;
    }
    loop {
        let [control, stdout, stderr] = match order(&orders) {
            Ok(Some(Order::Launch(given))) => given,
            Ok(Some(Order::End)) => return 0,
            Ok(None) | Err(_) => {
                if let Ok(harness) = std::env::var(HARNESS) {
                    caller::end_commands_of(&harness);
                }
                return 0;
            }
        };
        let (answer, guard) = match sys::fork() {
            Ok(None) => {
                drop(orders);
                return Guard::run(control.into(), [stdout, stderr]);
            }
            Ok(Some(pid)) => (pid, Pid::from_raw(pid)),
            Err(error) => (-error.raw_os_error().unwrap_or(libc::EAGAIN), None),
        };
        drop((control, stdout, stderr));
        // If the harness has gone, the guard notices by itself, and still has to be reaped.
        let _ = (&orders).write_all(&answer.to_ne_bytes());
        if guard.is_some() {
            wait_for(guard);
            let _ = (&orders).write_all(&GONE.to_ne_bytes());
        }
    }
}

fn wait_for(child: Option<Pid>) {
    while matches!(waitpid(child, WaitOptions::empty()), Err(rustix::io::Errno::INTR)) {}
}

/// Waits for the next order. `None`: the harness has gone.
fn order(orders: &UnixStream) -> io::Result<Option<Order>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let received = loop {
        let into = &mut [IoSliceMut::new(&mut byte)];
        match recvmsg(orders, into, &mut ancillary, host::RECEIVE) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?,
        }
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    if byte == [END] {
        return Ok(Some(Order::End));
    }
    let given = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(given) => Some(given),
        _ => None,
    });
    let given: Vec<OwnedFd> = given.flatten().collect();
    if cfg!(not(target_os = "linux")) {
        for descriptor in &given {
            rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::CLOEXEC)?;
        }
    }
    let given =
        given.try_into().map_err(|_| io::Error::other("an order without its descriptors"))?;
    Ok(Some(Order::Launch(given)))
}
