//! Processes as the kernel of macOS lists them.
//!
//! There is no process that adopts orphans but the first, none ends with its parent, and no privileges can be refused.
//! What a run orphans is found by its session, and by the run's mark in its environment. A process that leaves the session
//! and clears its environment, or that the system shields from questions, is not found.

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

/// Orphans go to the first process of the machine: [`Strays`] looks for them.
#[expect(clippy::unnecessary_wraps, reason = "it can fail where it can be done")]
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(())
}

/// Cannot be done. The next start looks for what is left of a run whose guard was killed.
#[expect(clippy::unnecessary_wraps, reason = "it can fail where it can be done")]
pub(crate) fn end_with_parent() -> io::Result<()> {
    Ok(())
}

/// Cannot be done. A set-uid program that a run starts has rights of its own.
#[expect(clippy::unnecessary_wraps, reason = "it can fail where it can be done")]
pub(crate) fn refuse_new_privileges() -> io::Result<()> {
    Ok(())
}

/// Only matters where a run has process ids of its own.
pub(crate) fn close_to_others() {}

/// The system decides by itself what it ends if memory runs out.
pub(crate) fn make_expendable(_pid: i32) {}

/// Pipes grow by themselves.
pub(crate) fn grow_pipe(_pipe: impl AsFd, _size: usize) {}

/// The running program.
pub(crate) fn own_program() -> io::Result<PathBuf> {
    std::env::current_exe()
}

/// Processes of a run that came to nobody.
#[derive(Debug)]
pub(crate) struct Strays {
    session: i32,
    mark: Option<Vec<u8>>,
}

impl Strays {
    /// Those of a run whose program leads a session. The mark is the entry of the environment that all of them began with.
    pub(crate) fn of(program: i32, mark: Option<Vec<u8>>) -> Strays {
        Strays { session: program, mark }
    }

    /// Looks at every process but this one and the dead.
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

/// The living children of a process.
#[expect(clippy::unnecessary_wraps, reason = "elsewhere there may be no such list")]
pub(crate) fn listed_children(pid: i32) -> Option<Vec<i32>> {
    Some(calls::children_of(pid))
}

/// Whether the environment of a process has an entry. Arguments are told with it, and count as well.
pub(crate) fn environment_holds(pid: i32, wanted: &[u8]) -> bool {
    let words = calls::arguments_of(pid).unwrap_or_default();
    words.split(|byte| *byte == 0).any(|entry| entry == wanted)
}
