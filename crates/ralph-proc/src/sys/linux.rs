//! Linux-specific calls: system call filters, capabilities, Landlock's version.

use std::io;

use super::Inherited;

/// Installs a system call filter for the calling process and its descendants.
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

/// Closes all descriptors above the first three, now or on exec.
pub(super) fn close_range(how: Inherited) -> io::Result<()> {
    let flags: libc::c_uint = match how {
        Inherited::Close => 0,
        Inherited::CloseOnExec => libc::CLOSE_RANGE_CLOEXEC,
    };
    // SAFETY: no memory is involved. A caller that closes descriptors at once has none of its own yet; the others stay open in
    // this process.
    match unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Drops every capability permanently, including those that a program could regain.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    const LOCKED: libc::c_int = libc::SECBIT_NOROOT
        | libc::SECBIT_NOROOT_LOCKED
        | libc::SECBIT_NO_SETUID_FIXUP
        | libc::SECBIT_NO_SETUID_FIXUP_LOCKED
        | libc::SECBIT_KEEP_CAPS_LOCKED
        | libc::SECBIT_NO_CAP_AMBIENT_RAISE
        | libc::SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    let sets = rustix::thread::capabilities(None)?;
    // SAFETY: asks for a number.
    let is_locked = || unsafe { libc::prctl(libc::PR_GET_SECUREBITS, 0, 0, 0, 0) } == LOCKED;
    // Nothing to give up: an ordinary user's process, or one whose parent did it for both in the namespaces of a run.
    if sets.permitted.is_empty()
        && sets.inheritable.is_empty()
        && (!rustix::process::geteuid().is_root() || is_locked())
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

/// The version of the kernel's Landlock interface, 0 without one.
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
