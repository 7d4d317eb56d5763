//! Bad behaviour of agents' processes that a supervisor must handle, for use by the rehearsal agent.
//!
//! The supervisor itself uses none of this. Every function acts on the calling process or starts processes that are
//! never reaped; the caller must be a separate process that ends soon.

#![expect(unsafe_code, reason = "double forks and signal dispositions have no safe form")]

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::{Pid, Signal};

/// A command that runs in the background, through `sh -c`. Its stdin is empty.
#[derive(Clone, Copy, Debug)]
pub struct Background<'a> {
    pub command: &'a str,
    pub ties: Ties,
    pub environment: BackgroundEnvironment<'a>,
    pub output: BackgroundOutput,
}

/// The relation of a background process to its starter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    /// An ordinary child.
    Child,
    /// A child in its own session, and so its own process group.
    OwnSession,
    /// A grandchild whose parent is gone, in a session that has no leader.
    Daemon,
}

/// The environment of a background process.
#[derive(Clone, Copy, Debug)]
pub enum BackgroundEnvironment<'a> {
    /// What this process has, and these.
    InheritedWith(&'a [(String, String)]),
    Cleared,
}

/// The output of a background process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundOutput {
    Discarded,
    /// To the stdout and stderr of this process, which it thereby keeps open.
    Inherited,
}

impl Background<'_> {
    /// Starts the command and leaves it alone.
    pub fn spawn(&self) -> io::Result<()> {
        let mut command = Command::new("sh");
        command.arg("-c").arg(self.command).stdin(Stdio::null());
        if self.output == BackgroundOutput::Discarded {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        match self.environment {
            BackgroundEnvironment::InheritedWith(more) => command.envs(more.iter().cloned()),
            BackgroundEnvironment::Cleared => command.env_clear(),
        };
        match self.ties {
            Ties::Child => {}
            Ties::OwnSession => {
                // SAFETY: after the fork this calls `setsid` alone, which is safe to call there.
                unsafe { command.pre_exec(enter_own_session) };
            }
            Ties::Daemon => {
                // SAFETY: after the fork this makes system calls alone and touches no memory that a thread may hold.
                unsafe { command.pre_exec(become_daemon) };
            }
        }
        let mut started = command.spawn()?;
        if self.ties == Ties::Daemon {
            // This is the intermediate process, which ends as soon as it has forked.
            started.wait()?;
        }
        Ok(())
    }
}

fn enter_own_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// Forks an intermediate process between the daemon and its starter, and ends it.
fn become_daemon() -> io::Result<()> {
    enter_own_session()?;
    // SAFETY: this process was forked a moment ago and has one thread; both sides only make system calls from here on.
    match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => {}
        // SAFETY: ends the process between at once, without the handlers of the process it was copied from.
        _ => unsafe { libc::_exit(0) },
    }
    // Not closed but marked, because `Command` still needs one of them to tell its caller how `exec` went.
    // SAFETY: asks for a number.
    let limit = unsafe { libc::sysconf(libc::_SC_OPEN_MAX) }.clamp(64, 4096);
    for descriptor in 3..libc::c_int::try_from(limit).unwrap_or(64) {
        // SAFETY: sets a flag of a descriptor, or fails where there is none; which one it is does not matter.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(())
}

/// Runs a program to its end, without stdin. Returns its exit status and the first `keep` bytes of its output.
///
/// Its output ends when no process holds the pipe any more, so leftover processes are waited for.
pub fn run_to_end(
    program: &str,
    args: &[&str],
    environment: &[(String, String)],
    keep: usize,
) -> io::Result<(ExitStatus, Vec<u8>)> {
    let (mut reader, writer) = io::pipe()?;
    let mut child = Command::new(program)
        .args(args)
        .envs(environment.iter().cloned())
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()?;
    // The command above was dropped with its statement, together with its writing ends; otherwise this would never end.
    let mut kept = Vec::new();
    io::copy(&mut io::Read::take(&mut reader, keep as u64), &mut kept)?;
    io::copy(&mut reader, &mut io::sink())?;
    Ok((child.wait()?, kept))
}

/// Makes this process and its future children ignore a signal.
pub fn ignore_signal(signal: Signal) -> io::Result<()> {
    // SAFETY: no handler is installed, the disposition becomes "ignore".
    match unsafe { libc::signal(signal.as_raw(), libc::SIG_IGN) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Makes a signal end this process with an exit code.
pub fn exit_on_signal(signal: Signal, code: u8) -> io::Result<()> {
    let always = Arc::new(AtomicBool::new(true));
    signal_hook::flag::register_conditional_shutdown(signal.as_raw(), i32::from(code), always)?;
    Ok(())
}

/// The target of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalRecipient {
    Own,
    Parent,
    /// The process group of this process, itself included.
    Group,
    Process(u32),
}

/// Sends a signal.
pub fn send_signal(target: SignalRecipient, signal: Signal) -> io::Result<()> {
    let nobody = || io::Error::from(io::ErrorKind::NotFound);
    match target {
        SignalRecipient::Own => rustix::process::kill_process(rustix::process::getpid(), signal)?,
        SignalRecipient::Parent => {
            // An orphan's parent is the init process, which must not be killed.
            let parent = rustix::process::getppid().filter(|parent| *parent != Pid::INIT);
            rustix::process::kill_process(parent.ok_or_else(nobody)?, signal)?;
        }
        SignalRecipient::Group => rustix::process::kill_current_process_group(signal)?,
        SignalRecipient::Process(id) => {
            let id = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or_else(nobody)?;
            rustix::process::kill_process(id, signal)?;
        }
    }
    Ok(())
}

/// Closes stdout: its reader sees end of file, unless another process holds it too.
pub fn close_stdout() -> io::Result<()> {
    // An empty slot 1 would be reused by the next opened file.
    let nowhere = File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    Ok(())
}
