//! Every `unsafe` block of Ralph, each with the reason why it holds.
#![expect(unsafe_code, reason = "system calls that no safe wrapper offers")]

use std::io;
use std::mem::{offset_of, zeroed};
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

/// Refuses new unix sockets, and `io_uring`, by which one could be made all the same. Pairs of sockets stay.
pub(crate) fn deny_unix_sockets() -> io::Result<()> {
    // Other system call tables of the same machine (x32, i386) could reach `socket` under another number.
    const ARCH: i64 = if cfg!(target_arch = "aarch64") { 0xC000_00B7 } else { 0xC000_003E };
    const X32_CALLS: u32 = 0x4000_0000;
    const fn op(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
        #[expect(clippy::cast_possible_truncation, reason = "BPF codes fit 16 bits")]
        libc::sock_filter { code: code as u16, jt, jf, k }
    }
    #[expect(clippy::cast_possible_truncation, reason = "offsets in a struct of 64 bytes")]
    const fn load(offset: usize) -> libc::sock_filter {
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset as u32)
    }
    #[expect(clippy::cast_sign_loss, reason = "system call numbers and families are positive")]
    const fn equals(value: i64, skip_if_not: u8) -> libc::sock_filter {
        #[expect(clippy::cast_possible_truncation, reason = "system call numbers are small")]
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, skip_if_not, value as u32)
    }
    const fn answer(action: u32) -> libc::sock_filter {
        op(libc::BPF_RET | libc::BPF_K, 0, 0, action)
    }
    #[expect(clippy::cast_sign_loss, reason = "errno values are positive")]
    let refuse = |errno: i32| answer(libc::SECCOMP_RET_ERRNO | errno as u32);
    let mut program = [
        load(offset_of!(libc::seccomp_data, arch)),
        equals(ARCH, 1),
        op(libc::BPF_JMP | libc::BPF_JA, 0, 0, 1),
        refuse(libc::ENOSYS),
        load(offset_of!(libc::seccomp_data, nr)),
        op(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32_CALLS),
        refuse(libc::ENOSYS),
        equals(libc::SYS_io_uring_setup, 1),
        refuse(libc::ENOSYS),
        equals(libc::SYS_socket, 3),
        load(offset_of!(libc::seccomp_data, args)),
        equals(i64::from(libc::AF_UNIX), 1),
        refuse(libc::EPERM),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    let length = u16::try_from(program.len()).expect("the filter is a dozen instructions");
    let filter = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    // SAFETY: `filter` points to `program`, which outlives the calls; the kernel copies it.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
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
