//! The kernel boundary: Landlock for files and signals, a system call filter (`seccomp`) for what it does not cover,
//! and no capabilities for root.
//!
//! Confinement fails closed: a process that cannot be confined as requested is not started. Reading stays open; only
//! writing, renaming, linking, truncating and removing are restricted, to the named paths. Landlock never covers
//! metadata (mode, times), so callers that care must compare them afterwards.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "linux")]
pub(crate) mod seccomp;

use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};
use serde::{Deserialize, Serialize};

use crate::command::CommandSpec;
use crate::namespace::{self, Ids, NamespaceSupport, View};
use crate::{guard, host, sys, witness};

#[cfg(target_os = "linux")]
use linux as kernel;
#[cfg(target_os = "linux")]
pub(crate) use linux::Prepared;
#[cfg(target_os = "macos")]
use macos as kernel;
#[cfg(target_os = "macos")]
pub(crate) use macos::Prepared;

/// The required Landlock interfaces: for truncation, and for signals.
const FILES_ABI: i32 = 3;
const SIGNALS_ABI: i32 = 6;

/// The permissions of a confined process beyond reading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Files and directories (recursively) that may be changed. Missing paths grant nothing.
    pub writable: Vec<String>,
    /// Which unix sockets it may open: they lead to daemons that act outside the boundary (docker, D-Bus, agents of ssh
    /// and gpg).
    pub unix_sockets: SocketAccess,
    /// Whether the network is refused, including loopback. Listening is allowed: nothing inside could connect.
    #[serde(default)]
    pub offline: bool,
    /// Its view of the machine: the second layer.
    #[serde(default)]
    pub view: Option<View>,
}

/// Which unix sockets a confined process may open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SocketAccess {
    #[default]
    Denied,
    /// Those of its own run. Only with its own view, in which others are not visible.
    Own,
    All,
}

/// The restrictions that this machine's kernel supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Support {
    /// The version of the Landlock interface; 0 without one.
    pub landlock_abi: i32,
    /// The available parts of the second layer.
    pub namespaces: NamespaceSupport,
}

impl Support {
    /// Queries the running kernel, and probes the second layer.
    pub fn probe() -> Support {
        Support { namespaces: namespace::probe(), ..Support::of_landlock() }
    }

    /// Queries the running kernel for Landlock only.
    pub fn of_landlock() -> Support {
        Support { landlock_abi: kernel::landlock_abi(), namespaces: NamespaceSupport::default() }
    }

    /// Whether the kernel can confine an agent, by either layer.
    pub const fn confines(self) -> bool {
        self.confines_files() || (self.namespaces.mount && self.namespaces.pid)
    }

    /// Whether writing outside the named paths can be refused, truncation included.
    pub const fn confines_files(self) -> bool {
        self.landlock_abi >= FILES_ABI
    }

    /// Whether signals to processes outside the run can be refused.
    pub const fn confines_signals(self) -> bool {
        self.landlock_abi >= SIGNALS_ABI
    }
}

/// Runs a program in the foreground of the person's terminal, confined, and waits for its end.
///
/// The calling process must be single-threaded: a child confines itself between fork and exec.
pub fn run_in_foreground(spec: &CommandSpec) -> io::Result<ExitStatus> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGQUIT] {
        // The terminal sends them to both, and the program decides what they mean. A handler is not inherited.
        let _ = signal_hook::flag::register(signal, std::sync::Arc::default());
    }
    let bounds = spec.confinement.as_ref();
    let Some((bounds, view)) = bounds.and_then(|bounds| Some((bounds, bounds.view.as_ref()?)))
    else {
        return run_confined(spec);
    };
    let ids = Ids::own();
    let (mut report, mut result) = UnixStream::pair()?;
    let Some(inner) = namespace::fork_into(view)? else {
        drop(report);
        let entered = namespace::enter(view, &bounds.writable, ids).map_err(io::Error::from);
        let _ = host::end_with_parent();
        let ended = entered.and_then(|()| run_confined(spec));
        let ended = ended.map(ExitStatusExt::into_raw).map_err(|error| error.to_string());
        let _ = serde_json::to_writer(&mut result, &ended);
        std::process::exit(0);
    };
    drop(result);
    let mut answer = Vec::new();
    io::Read::read_to_end(&mut report, &mut answer)?;
    while matches!(waitpid(Pid::from_raw(inner), WaitOptions::empty()), Err(Errno::INTR)) {}
    let ended: Result<i32, String> = serde_json::from_slice(&answer)
        .map_err(|_| io::Error::other("the first process of the sandbox was ended"))?;
    ended.map(ExitStatus::from_raw).map_err(io::Error::other)
}

/// Runs a program that confines itself, and waits for its end. If it is confined, its leftovers end with it.
fn run_confined(spec: &CommandSpec) -> io::Result<ExitStatus> {
    let mut confinement = spec.confinement.as_ref().map(Prepared::new).transpose()?;
    let is_confined = confinement.is_some();
    if is_confined {
        host::adopt_orphans()?;
    }
    let mut command = Command::new(&spec.program);
    command.args(&spec.args).current_dir(&spec.cwd).env_clear();
    command.envs(spec.env.iter().map(|(name, value)| (name, value)));
    sys::before_exec(&mut command, move || {
        host::refuse_new_privileges()?;
        sys::close_inherited(sys::Inherited::CloseOnExec)?;
        if is_confined {
            host::end_with_parent()?;
        }
        confinement.as_mut().map_or(Ok(()), Prepared::enter)
    });
    let ended = command.status();
    if is_confined && !guard::end_children() {
        return Err(io::Error::other("the command left processes behind that cannot be ended"));
    }
    ended
}

/// Whether this process is confined.
static CONFINED: AtomicBool = AtomicBool::new(false);

/// Whether this process is confined.
pub(crate) fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed)
}

/// Restricts the calling thread and its future children to writing below some paths and to devices. If the kernel
/// cannot, nothing happens.
pub fn confine_this_thread(writable: &[String]) -> io::Result<()> {
    if !Support::of_landlock().confines_files() {
        return Ok(());
    }
    witness::start();
    kernel::confine_this_thread(writable)?;
    CONFINED.store(true, Ordering::Relaxed);
    Ok(())
}
