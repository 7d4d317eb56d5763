//! Every `unsafe` block of Ralph, each with the reason why it holds.
#![expect(unsafe_code, reason = "system calls that no safe wrapper offers")]

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

/// Has the linker take along what the standard library needs to start a program in another directory without a fork. It
/// only uses that function where it is there, and in a static program nothing else asks for it. A fork copies the page
/// tables of the whole process: for a large one that costs more than the program that is started.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[used]
static SPAWN_WITHOUT_FORK: unsafe extern "C" fn(
    *mut libc::posix_spawn_file_actions_t,
    *const libc::c_char,
) -> libc::c_int = libc::posix_spawn_file_actions_addchdir_np;

/// Has the kernel write what a file holds to disk, without what tells where it lies there, or waits until it has; where
/// that cannot be done, nothing happens.
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

/// Has `prepare` called in the forked child before it executes the program.
///
/// Only single-threaded processes call this (the guard, `ralph sandbox`), so the child may allocate and lock as it
/// likes.
pub(crate) fn before_exec(
    command: &mut Command,
    prepare: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) {
    // SAFETY: the calling process is single-threaded, so no lock can be held by a thread that the child lacks.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// Gives the calling process default dispositions and no blocked signal, as a fresh program expects.
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

/// Signals every process that the caller may signal, but not itself. Only for the first process of a namespace of process
/// ids, where that is every other process in it. An error: there is none.
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

/// The processor time of all descendants that have been waited for.
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

/// Has the kernel hold the calling process, and all it starts, to a filter of system calls.
pub(crate) fn install_filter(program: &mut [libc::sock_filter]) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    let filter = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    // SAFETY: `filter` points to `program`, which outlives the calls; the kernel copies it.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What becomes of descriptors above the first three.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Inherited {
    /// They are closed now. Only for a process that has opened none itself yet.
    Close,
    /// They are closed when a program is executed.
    CloseOnExec,
}

/// Keeps the descriptors that this process was given beside the first three from the programs it starts.
pub(crate) fn close_inherited(how: Inherited) -> io::Result<()> {
    let flags: libc::c_uint = match how {
        Inherited::Close => 0,
        Inherited::CloseOnExec => libc::CLOSE_RANGE_CLOEXEC,
    };
    // SAFETY: no memory is involved. A caller that closes descriptors at once has none of its own yet; the others stay open in
    // this process.
    let done = unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, flags) };
    if done == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match (error.raw_os_error(), how) {
        (Some(libc::ENOSYS), Inherited::Close) => Ok(()),
        (Some(libc::ENOSYS), Inherited::CloseOnExec) => {
            // Linux before 5.9. Descriptors above this number are not expected.
            for descriptor in 3..4096 {
                // SAFETY: sets a flag of a descriptor, if there is one of that number.
                unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
            }
            Ok(())
        }
        _ => Err(error),
    }
}

/// Gives up every capability for good, those that a program could regain included.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    const LOCKED: libc::c_int = libc::SECBIT_NOROOT
        | libc::SECBIT_NOROOT_LOCKED
        | libc::SECBIT_NO_SETUID_FIXUP
        | libc::SECBIT_NO_SETUID_FIXUP_LOCKED
        | libc::SECBIT_KEEP_CAPS_LOCKED
        | libc::SECBIT_NO_CAP_AMBIENT_RAISE
        | libc::SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    let sets = rustix::thread::capabilities(None)?;
    if sets.permitted.is_empty()
        && sets.inheritable.is_empty()
        && !rustix::process::geteuid().is_root()
    {
        return Ok(());
    }
    // In a container some of these may be refused; without new privileges the last call alone is final as well.
    // SAFETY: these calls take numbers only.
    unsafe {
        libc::prctl(libc::PR_SET_SECUREBITS, LOCKED, 0, 0, 0);
        for capability in 0..64 {
            if libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 {
                break;
            }
        }
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    }
    rustix::thread::set_no_new_privs(true)?;
    let none = rustix::thread::CapabilitySet::empty();
    let sets =
        rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// The version of the kernel's Landlock interface, 0 where there is none.
pub(crate) fn landlock_abi() -> i32 {
    const ASK_VERSION: u32 = 1;
    // SAFETY: with this flag the kernel takes a null pointer and a size of 0, and only returns a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0_usize,
            ASK_VERSION,
        )
    };
    i32::try_from(version).unwrap_or(0).max(0)
}
