//! System calls for namespaces without a safe wrapper.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Forks the calling process, which must be single-threaded, into new namespaces. `None` in the child.
pub(crate) fn fork_into(namespaces: NamespaceFlags) -> io::Result<Option<i32>> {
    let mut flags = libc::SIGCHLD | libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWIPC;
    if namespaces.pid {
        flags |= libc::CLONE_NEWPID;
    }
    if namespaces.net {
        flags |= libc::CLONE_NEWNET;
    }
    // SAFETY: without a stack of its own the child goes on with a copy of this process, as after a fork; the calling
    // process is single-threaded, so the child lacks no thread that holds a lock.
    match unsafe { libc::syscall(libc::SYS_clone, libc::c_long::from(flags), 0, 0, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => Ok(Some(i32::try_from(pid).map_err(io::Error::other)?)),
    }
}

/// The namespaces of a process in addition to those for users, mounts and IPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamespaceFlags {
    pub(crate) pid: bool,
    pub(crate) net: bool,
}

/// Makes a mount, and all mounts below it, read-only and without set-uid programs.
pub(crate) fn make_read_only(mount: BorrowedFd<'_>) -> io::Result<()> {
    set_read_only(mount, libc::AT_EMPTY_PATH | libc::AT_RECURSIVE)
}

/// Makes a mount read-only and leaves those below it unchanged.
pub(crate) fn make_this_read_only(mount: BorrowedFd<'_>) -> io::Result<()> {
    set_read_only(mount, libc::AT_EMPTY_PATH)
}

fn set_read_only(mount: BorrowedFd<'_>, flags: libc::c_int) -> io::Result<()> {
    /// As in `linux/mount.h`.
    #[repr(C)]
    struct MountAttributes {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }
    let attributes = MountAttributes {
        set: libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID,
        clear: 0,
        propagation: 0,
        user_namespace: 0,
    };
    // SAFETY: the path is an empty string and `attributes` has the size that is passed; both outlive the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Enables the loopback device of the calling process's network namespace.
pub(crate) fn bring_up_loopback() -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: an all-zero `ifreq` is valid: a name that ends at once, and numbers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (into, from) in request.ifr_name.iter_mut().zip(*b"lo") {
        *into = libc::c_char::from_ne_bytes([from]);
    }
    request.ifr_ifru.ifru_flags =
        i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).map_err(io::Error::other)?;
    // SAFETY: the request is of the kind that this call reads, and outlives it.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
