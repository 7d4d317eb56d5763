//! Every `unsafe` block of Ralph, each with the reason why it holds.
#![expect(unsafe_code, reason = "system calls that no safe wrapper offers")]

#[cfg(target_os = "linux")]
pub(crate) mod linux;
#[cfg(target_os = "macos")]
pub(crate) mod macos;
#[cfg(target_os = "linux")]
pub(crate) mod namespace;
#[cfg(target_os = "linux")]
pub(crate) mod trace;

use std::io;
use std::mem::zeroed;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// Forks the calling process, which must have a single thread. `None` in the child.
pub(crate) fn fork() -> io::Result<Option<i32>> {
    // SAFETY: the calling process is single-threaded, so the child lacks no thread that holds a lock.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => Ok(Some(pid)),
    }
}

/// Makes the linker include what the standard library needs to start a program in another directory without a fork. It
/// uses that function only if it is linked, and in a static program nothing else references it. A fork copies the page
/// tables of the whole process: for a large one that costs more than the started program.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[used]
static SPAWN_WITHOUT_FORK: unsafe extern "C" fn(
    *mut libc::posix_spawn_file_actions_t,
    *const libc::c_char,
) -> libc::c_int = libc::posix_spawn_file_actions_addchdir_np;

/// Starts writing a file's content to disk, without its metadata, or waits for that; if unsupported, nothing happens.
#[cfg(target_os = "linux")]
pub(crate) fn write_out(file: &std::fs::File, step: WriteOut) {
    use std::os::fd::AsRawFd;
    let how = match step {
        WriteOut::Begin => libc::SYNC_FILE_RANGE_WRITE,
        WriteOut::Await => libc::SYNC_FILE_RANGE_WAIT_AFTER,
    };
    // SAFETY: the descriptor is open as long as `file` is borrowed, and no memory is involved.
    let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, how) };
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn write_out(_file: &std::fs::File, _step: WriteOut) {}

#[derive(Clone, Copy, Debug)]
pub(crate) enum WriteOut {
    Begin,
    Await,
}

/// Calls `prepare` in the forked child before the exec.
///
/// Only single-threaded processes call this (the guard, `ralph sandbox`), so the child may allocate and lock freely.
pub(crate) fn before_exec(
    command: &mut Command,
    prepare: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) {
    // SAFETY: the calling process is single-threaded, so no lock can be held by a thread that the child lacks.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// Resets the calling process to default signal dispositions and an empty mask, as a fresh program expects.
pub(crate) fn reset_signals() {
    // SAFETY: an all-zero `sigset_t` is valid storage for `sigemptyset`, and both calls only touch this process.
    unsafe {
        let mut none: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        for signal in [libc::SIGPIPE, libc::SIGCHLD, libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

/// Signals every process that the caller may signal, except itself. Only for the first process of a pid namespace,
/// where that is every other process in it. An error means that there is none.
pub(crate) fn signal_everybody(signal: rustix::process::Signal) -> io::Result<()> {
    if rustix::process::getpid() != rustix::process::Pid::INIT {
        return Err(io::Error::other("not the first process of its namespace"));
    }
    // SAFETY: takes numbers only. The check above keeps it within the namespace.
    match unsafe { libc::kill(-1, signal.as_raw()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The CPU time of all reaped descendants.
pub(crate) fn children_cpu() -> Duration {
    // SAFETY: `usage` is valid for writes and the call initialises it.
    let usage = unsafe {
        let mut usage: libc::rusage = zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let of = |time: libc::timeval| {
        Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
            + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    of(usage.ru_utime) + of(usage.ru_stime)
}

/// What to do with descriptors above the first three.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Inherited {
    /// They are closed now. Only for a process that has opened none itself yet.
    Close,
    /// They are closed on exec.
    CloseOnExec,
}

/// Keeps inherited descriptors above the first three from the programs that this process starts.
#[cfg_attr(
    target_os = "macos",
    expect(clippy::unnecessary_wraps, reason = "it can fail where the kernel does it in one call")
)]
pub(crate) fn close_inherited(how: Inherited) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    match linux::close_range(how) {
        // Linux before 5.9.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {}
        done => return done,
    }
    match how {
        Inherited::Close if cfg!(target_os = "linux") => {}
        // Descriptors above this number are not expected.
        Inherited::Close => (3..4096).for_each(|descriptor| {
            // SAFETY: a caller that closes descriptors at once has none of its own yet.
            let _ = unsafe { libc::close(descriptor) };
        }),
        Inherited::CloseOnExec => (3..4096).for_each(|descriptor| {
            // SAFETY: sets a flag of a descriptor, if there is one of that number.
            let _ = unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
        }),
    }
    Ok(())
}
