//! System calls by which one process traces others, and reads their memory.

use std::io;
use std::mem::zeroed;

const OPTIONS: libc::c_int = libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_EXITKILL;

/// Begins to trace a child and its future descendants. All of them end with the calling process.
pub(crate) fn follow(child: i32) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, child, libc::c_long::from(OPTIONS))
}

/// Continues a stopped thread, with a pending signal if there is one.
pub(crate) fn go_on(thread: i32, signal: libc::c_int) {
    // A thread that was killed meanwhile cannot continue.
    let _ = request(libc::PTRACE_CONT, thread, libc::c_long::from(signal));
}

/// Leaves a thread in a group stop until it is continued.
pub(crate) fn leave_stopped(thread: i32) {
    let _ = request(libc::PTRACE_LISTEN, thread, 0);
}

fn request(what: libc::c_uint, thread: i32, data: libc::c_long) -> io::Result<()> {
    // SAFETY: these requests take a number as data and no address.
    match unsafe { libc::ptrace(what, thread, 0_usize, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// An event of a traced process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceStop {
    Exited {
        pid: i32,
        code: i32,
    },
    Killed {
        pid: i32,
        signal: i32,
    },
    /// It is about to make a call selected by the filter.
    Calls {
        thread: i32,
    },
    /// A signal stopped it and its whole process.
    Halted {
        thread: i32,
    },
    /// It got a signal.
    Signalled {
        thread: i32,
        signal: i32,
    },
    /// Anything else: it only has to be continued.
    Stopped {
        thread: i32,
    },
}

/// Waits for the next event. `None`: no process is left.
pub(crate) fn next() -> io::Result<Option<TraceStop>> {
    let mut status = 0;
    // SAFETY: `status` is valid for writes.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) };
    if pid < 0 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::ECHILD) => Ok(None),
            _ => Err(error),
        };
    }
    if libc::WIFEXITED(status) {
        return Ok(Some(TraceStop::Exited { pid, code: libc::WEXITSTATUS(status) }));
    }
    if libc::WIFSIGNALED(status) {
        return Ok(Some(TraceStop::Killed { pid, signal: libc::WTERMSIG(status) }));
    }
    let (thread, signal) = (pid, libc::WSTOPSIG(status));
    let stops = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    Ok(Some(match status >> 16 {
        libc::PTRACE_EVENT_SECCOMP => TraceStop::Calls { thread },
        libc::PTRACE_EVENT_STOP if stops.contains(&signal) => TraceStop::Halted { thread },
        0 => TraceStop::Signalled { thread, signal },
        _ => TraceStop::Stopped { thread },
    }))
}

/// The call that a thread is about to make, as the kernel reports it.
#[repr(C)]
struct CallInfo {
    op: u8,
    padding: [u8; 3],
    arch: u32,
    instruction: u64,
    stack: u64,
    number: u64,
    args: [u64; 6],
    data: u32,
}

/// Returns the number and the arguments of the call that a thread is about to make.
pub(crate) fn call_of(thread: i32) -> io::Result<(libc::c_long, [u64; 6])> {
    // SAFETY: all-zero is a valid value of this plain struct; the kernel writes no more than the size it is given.
    let (told, info) = unsafe {
        let mut info: CallInfo = zeroed();
        let size = size_of::<CallInfo>();
        let told = libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, thread, size, &raw mut info);
        (told, info)
    };
    if told < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((libc::c_long::try_from(info.number).map_err(io::Error::other)?, info.args))
}

/// Reads memory of another process; returns the number of bytes read.
pub(crate) fn read_memory(thread: i32, address: u64, into: &mut [u8]) -> io::Result<usize> {
    let address = usize::try_from(address).map_err(io::Error::other)?;
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote =
        libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: into.len() };
    // SAFETY: `local` is `into`, which is valid for writes; the other address belongs to the other process, and the kernel
    // checks it.
    let count =
        unsafe { libc::process_vm_readv(thread, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Closes every descriptor but the first three and one other.
pub(crate) fn close_all_but(kept: i32) {
    for (first, last) in [(3, kept - 1), (kept + 1, i32::MAX)] {
        if first <= last {
            // SAFETY: only for a process that makes no use of what it has inherited.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
}

/// Makes the calling process ignore signals that are meant for the traced program.
pub(crate) fn ignore_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
        // SAFETY: sets a disposition of this process only.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Ends the calling process with the same status as another one, without running any inherited handlers.
pub(crate) fn end_like(end: TraceStop) -> ! {
    if let TraceStop::Killed { signal, .. } = end {
        // SAFETY: sets dispositions of this process, and signals only itself.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
    let code = if let TraceStop::Exited { code, .. } = end { code } else { 70 };
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(code) }
}
