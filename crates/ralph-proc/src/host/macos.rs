//! Processes as the kernel of macOS lists them.
//!
//! Only the first process adopts orphans, no process dies with its parent, and privileges cannot be refused. Orphans of
//! a run are found by its session, and by the run's mark in their environment. A process that leaves the session and
//! clears its environment, or that the system hides, is not found.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{Pid, getsid};

use super::ProcessStat;
use crate::sys::macos as calls;

/// How descriptors are sent and received. The signal of a closed socket is ignored, as in every Rust program.
pub(crate) const SEND: SendFlags = SendFlags::empty();
pub(crate) const RECEIVE: RecvFlags = RecvFlags::empty();

/// Orphans are reparented to the first process of the machine: [`Strays`] searches for them.
#[expect(clippy::unnecessary_wraps, reason = "it can fail where it can be done")]
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(())
}

/// Unsupported. The next start searches for leftovers of a run whose guard was killed.
#[expect(clippy::unnecessary_wraps, reason = "it can fail where it can be done")]
pub(crate) fn end_with_parent() -> io::Result<()> {
    Ok(())
}

/// Unsupported. A set-uid program started by a run has its own privileges.
#[expect(clippy::unnecessary_wraps, reason = "it can fail where it can be done")]
pub(crate) fn refuse_new_privileges() -> io::Result<()> {
    Ok(())
}

/// Only matters with a pid namespace.
pub(crate) fn close_to_others() {}

/// The system itself decides what to kill if memory runs out.
pub(crate) fn make_expendable(_pid: i32) {}

/// Pipes grow by themselves.
pub(crate) fn grow_pipe(_pipe: impl AsFd, _size: usize) {}

/// The running program.
pub(crate) fn own_program() -> io::Result<PathBuf> {
    std::env::current_exe()
}

/// Orphaned processes of a run.
#[derive(Debug)]
pub(crate) struct Strays {
    session: i32,
    mark: Option<Vec<u8>>,
}

impl Strays {
    /// Those of a run whose program leads a session. The mark is the environment entry with which all of them began.
    pub(crate) fn of(program: i32, mark: Option<Vec<u8>>) -> Strays {
        Strays { session: program, mark }
    }

    /// Checks every process except this one and dead ones.
    pub(crate) fn find(&self) -> Vec<i32> {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let belongs = |pid: &i32| {
            let in_session = Pid::from_raw(*pid)
                .and_then(|pid| getsid(Some(pid)).ok())
                .is_some_and(|session| session.as_raw_nonzero().get() == self.session);
            in_session || self.mark.as_ref().is_some_and(|mark| environment_holds(*pid, mark))
        };
        let alive = |pid: &i32| stat(*pid).is_some_and(|stat| !stat.zombie);
        all().into_iter().filter(|pid| *pid != own && alive(pid) && belongs(pid)).collect()
    }
}

pub(super) fn read_boot_id() -> String {
    calls::text_of(c"kern.bootsessionuuid").unwrap_or_default()
}

/// When the machine was started, in seconds.
pub(crate) fn boot_time() -> Option<i64> {
    calls::boot_time()
}

pub(crate) fn stat(pid: i32) -> Option<ProcessStat> {
    let info = calls::process_info(pid)?;
    let zombie = info.pbi_status == libc::SZOMB;
    Some(ProcessStat {
        parent: i32::try_from(info.pbi_ppid).ok()?,
        start: info.pbi_start_tvsec * 1_000_000 + info.pbi_start_tvusec,
        zombie,
        goes_on: !zombie && info.pbi_status != libc::SSTOP,
    })
}

/// All process ids there are.
pub(crate) fn all() -> Vec<i32> {
    calls::all_processes()
}

/// The live children of a process.
#[expect(clippy::unnecessary_wraps, reason = "elsewhere there may be no such list")]
pub(crate) fn listed_children(pid: i32) -> Option<Vec<i32>> {
    Some(calls::children_of(pid))
}

/// Whether the environment of a process has an entry. Arguments are returned with it, and match as well.
pub(crate) fn environment_holds(pid: i32, wanted: &[u8]) -> bool {
    let words = calls::arguments_of(pid).unwrap_or_default();
    words.split(|byte| *byte == 0).any(|entry| entry == wanted)
}
