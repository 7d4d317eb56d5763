//! The process table of macOS, which has no file system for it.

use std::ffi::CStr;
use std::mem::{size_of, zeroed};
use std::ptr::null_mut;

use libc::{c_int, c_void, proc_bsdinfo};

/// What the system knows about a living process of this user.
pub(crate) fn process_info(pid: i32) -> Option<proc_bsdinfo> {
    let size = c_int::try_from(size_of::<proc_bsdinfo>()).ok()?;
    // SAFETY: all-zero is a valid value of this plain struct, and the kernel writes no more than the size it is given.
    let (told, info) = unsafe {
        let mut info: proc_bsdinfo = zeroed();
        let buffer = (&raw mut info).cast::<c_void>();
        (libc::proc_pidinfo(pid, libc::PROC_PIDTBSDINFO, 0, buffer, size), info)
    };
    (told == size).then_some(info)
}

/// Every process id there is.
pub(crate) fn all_processes() -> Vec<i32> {
    // SAFETY: the buffer is as long as is said; without one, the call only says how many there are.
    list(|buffer, bytes| unsafe { libc::proc_listallpids(buffer, bytes) })
}

/// The children of a process.
pub(crate) fn children_of(pid: i32) -> Vec<i32> {
    // SAFETY: as above.
    list(|buffer, bytes| unsafe { libc::proc_listchildpids(pid, buffer, bytes) })
}

/// Asks for a list until all of it fits.
fn list(ask: impl Fn(*mut c_void, c_int) -> c_int) -> Vec<i32> {
    let mut room = 256_usize.max(usize::try_from(ask(null_mut(), 0)).unwrap_or(0) + 64);
    loop {
        let mut pids = vec![0_i32; room];
        let Ok(bytes) = c_int::try_from(room * size_of::<i32>()) else { return Vec::new() };
        let count = usize::try_from(ask(pids.as_mut_ptr().cast(), bytes)).unwrap_or(0);
        if count < room {
            pids.retain(|pid| *pid > 0);
            return pids;
        }
        room *= 2;
    }
}

/// The arguments and the environment of a process, each with a zero byte after it.
pub(crate) fn arguments_of(pid: i32) -> Option<Vec<u8>> {
    let mut name = [libc::CTL_KERN, libc::KERN_PROCARGS2, pid];
    let length = libc::c_uint::try_from(name.len()).ok()?;
    let mut size = 0;
    // SAFETY: without a buffer the call only tells the size.
    let told = unsafe {
        libc::sysctl(name.as_mut_ptr(), length, null_mut(), &raw mut size, null_mut(), 0)
    };
    if told != 0 {
        return None;
    }
    let mut bytes = vec![0_u8; size];
    // SAFETY: the buffer is as long as is said, and the call tells how much of it was written.
    let told = unsafe {
        let into = bytes.as_mut_ptr().cast();
        libc::sysctl(name.as_mut_ptr(), length, into, &raw mut size, null_mut(), 0)
    };
    bytes.truncate(size);
    (told == 0).then_some(bytes)
}

/// A setting of the kernel that is text.
pub(crate) fn text_of(name: &CStr) -> Option<String> {
    let mut bytes = [0_u8; 128];
    let mut size = bytes.len();
    // SAFETY: the buffer is as long as is said, and the name ends with a zero byte.
    let told = unsafe {
        let into = bytes.as_mut_ptr().cast();
        libc::sysctlbyname(name.as_ptr(), into, &raw mut size, null_mut(), 0)
    };
    let text = CStr::from_bytes_until_nul(&bytes).ok()?.to_str().ok()?;
    (told == 0).then(|| text.to_owned())
}

/// When the machine was started, in seconds.
pub(crate) fn boot_time() -> Option<i64> {
    let mut size = size_of::<libc::timeval>();
    // SAFETY: all-zero is a valid value of this plain struct, and its size is what is said.
    let (told, time) = unsafe {
        let mut time: libc::timeval = zeroed();
        let into = (&raw mut time).cast();
        let name = c"kern.boottime".as_ptr();
        (libc::sysctlbyname(name, into, &raw mut size, null_mut(), 0), time)
    };
    (told == 0).then_some(time.tv_sec)
}
