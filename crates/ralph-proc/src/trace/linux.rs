//! Traces programs with a process between the guard and the program.
//!
//! The kernel suspends each system call that names a file for that process (a filter selects them, ptrace does the
//! rest). It records the path, continues the call, and ends like the program does. Signals, exits and limits are
//! unaffected. Seccomp's user notification would need no such process, but a signal interrupts a call reported that
//! way, and some shells then continue as if the file did not exist.
//!
//! This is for programs that do not evade it. One that changes a path while it is read only fools itself: only the
//! checks of a base are traced.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::mem::offset_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use libc::{c_long, seccomp_data, sock_filter};
use rustix::fs::{MemfdFlags, memfd_create};

use super::{Looked, PROBE_WORD};
use crate::guard;
use crate::sandbox::seccomp::{ARCH, jump_if_equal, load, number, op};
use crate::sys::trace::{self as calls, TraceStop};

/// Beyond this nothing more is recorded, and the result is marked as incomplete.
const MOST: usize = 60_000;
/// The longest path that Linux takes.
const LONGEST: usize = 4096;
const PAGE: u64 = 4096;
/// A system call that names a file.
struct FileCall {
    number: c_long,
    /// The index of the path argument; the one before it, if any, is the directory it is relative to.
    path: usize,
    /// The argument with flags, for calls where an empty path is common and means an open file.
    flags: Option<u8>,
    is_open: bool,
}

const fn call(number: c_long, path: usize) -> FileCall {
    FileCall { number, path, flags: None, is_open: false }
}

#[cfg(target_arch = "x86_64")]
const OLDER: [FileCall; 6] = [
    FileCall { is_open: true, ..call(libc::SYS_open, 0) },
    call(libc::SYS_stat, 0),
    call(libc::SYS_lstat, 0),
    call(libc::SYS_access, 0),
    call(libc::SYS_execve, 0),
    call(libc::SYS_readlink, 0),
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: [FileCall; 1] = [call(libc::SYS_execve, 0)];

const NEWER: [FileCall; 8] = [
    FileCall { is_open: true, ..call(libc::SYS_openat, 1) },
    FileCall { is_open: true, ..call(libc::SYS_openat2, 1) },
    FileCall { flags: Some(3), ..call(libc::SYS_newfstatat, 1) },
    FileCall { flags: Some(2), ..call(libc::SYS_statx, 1) },
    call(libc::SYS_faccessat, 1),
    call(libc::SYS_faccessat2, 1),
    call(libc::SYS_readlinkat, 1),
    call(libc::SYS_execveat, 1),
];

fn file_calls() -> impl Iterator<Item = &'static FileCall> {
    OLDER.iter().chain(&NEWER)
}

/// Builds the filter that reports these calls.
fn program() -> Vec<sock_filter> {
    let allow = op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW);
    let report = op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_TRACE);
    let mut program = vec![
        load(offset_of!(seccomp_data, arch)),
        jump_if_equal(ARCH, 1, 0),
        allow,
        load(offset_of!(seccomp_data, nr)),
    ];
    for file_call in file_calls() {
        match file_call.flags {
            None => {
                program.push(jump_if_equal(number(file_call.number), 0, 1));
                program.push(report);
            }
            Some(flags) => {
                // A query of an open file names no path.
                let empty = u32::try_from(libc::AT_EMPTY_PATH).unwrap_or_default();
                program.push(jump_if_equal(number(file_call.number), 0, 4));
                program.push(load(offset_of!(seccomp_data, args) + 8 * usize::from(flags)));
                program.push(op(libc::BPF_JMP | libc::BPF_K | libc::BPF_JSET, 0, 1, empty));
                program.push(allow);
                program.push(report);
            }
        }
    }
    program.push(allow);
    program
}

/// Connects the traced program's side with the guard's: an unnamed file with the results.
pub(crate) struct Tracer {
    found: File,
}

/// What the child needs before it becomes the program.
pub(crate) struct Traced {
    root: PathBuf,
    found: OwnedFd,
    filter: Vec<sock_filter>,
}

impl Tracer {
    /// Prepares to trace a program.
    pub(crate) fn new(root: &Path) -> io::Result<(Tracer, Traced)> {
        let found = File::from(memfd_create("looked", MemfdFlags::CLOEXEC)?);
        let theirs = OwnedFd::from(found.try_clone()?);
        let traced = Traced { root: root.to_owned(), found: theirs, filter: program() };
        Ok((Tracer { found }, traced))
    }

    /// Returns the results, once the program has ended.
    pub(crate) fn finish(mut self) -> Option<Looked> {
        let mut text = Vec::new();
        self.found.rewind().and_then(|()| self.found.read_to_end(&mut text)).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

impl Traced {
    /// Forks: the child continues as the traced process, and the calling process, which must be single-threaded, stays
    /// behind and traces it. If that fails, the process continues untraced.
    pub(crate) fn enter(&mut self) -> io::Result<()> {
        let (mut here, mut there) = UnixStream::pair()?;
        let Some(child) = crate::sys::fork()? else {
            drop(here);
            let mut may_go = [0];
            there.read_exact(&mut may_go)?;
            // Untraced, each of these calls would fail.
            return if may_go == [1] {
                crate::sys::linux::install_filter(&mut self.filter)
            } else {
                Ok(())
            };
        };
        drop(there);
        calls::ignore_signals();
        let followed = calls::follow(child).is_ok();
        let _ = here.write_all(&[u8::from(followed)]);
        // Descriptors whose closing the guard waits for must not be kept open here.
        calls::close_all_but(self.found.as_raw_fd());
        let mut notes = Notes::new(&self.root);
        let end = notes.follow(child);
        if followed && let Ok(found) = self.found.try_clone() {
            let _ = serde_json::to_writer(File::from(found), &notes.looked);
        }
        calls::end_like(end)
    }
}

/// Probes whether programs can be traced here.
pub fn probe() -> bool {
    let probe = Command::new("/proc/self/exe")
        .args([guard::WORD, PROBE_WORD])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    probe.is_ok_and(|status| status.success())
}

/// Runs the probe process. Returns its exit code.
pub(crate) fn serve_probe() -> i32 {
    const ABSENT: &str = "ralph-looks-for-this";
    let root = Path::new("/proc");
    let Ok((tracer, mut looked_at)) = Tracer::new(root) else { return 1 };
    match crate::sys::fork() {
        Ok(None) => {
            let entered = looked_at.enter();
            let _ = fs::metadata(root.join(ABSENT));
            i32::from(entered.is_err())
        }
        Ok(Some(_)) => {
            let _ = calls::next();
            let looked = tracer.finish();
            i32::from(!looked.is_some_and(|looked| looked.whole && looked.missed.contains(ABSENT)))
        }
        Err(_) => 1,
    }
}

/// The records of a traced program.
struct Notes {
    root: PathBuf,
    looked: Looked,
}

impl Notes {
    fn new(root: &Path) -> Notes {
        let root = fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
        Notes { root, looked: Looked { whole: true, ..Looked::default() } }
    }

    /// Records every call until a program ends. Returns how it ended.
    fn follow(&mut self, program: i32) -> TraceStop {
        loop {
            match calls::next() {
                Ok(Some(end @ (TraceStop::Exited { pid, .. } | TraceStop::Killed { pid, .. }))) => {
                    if pid == program {
                        return end;
                    }
                }
                Ok(Some(TraceStop::Calls { thread })) => {
                    if self.note(thread).is_err() {
                        self.looked.whole = false;
                    }
                    calls::go_on(thread, 0);
                }
                Ok(Some(TraceStop::Halted { thread })) => calls::leave_stopped(thread),
                Ok(Some(TraceStop::Signalled { thread, signal })) => calls::go_on(thread, signal),
                Ok(Some(TraceStop::Stopped { thread })) => calls::go_on(thread, 0),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(None) | Err(_) => return TraceStop::Exited { pid: program, code: 70 },
            }
        }
    }

    fn note(&mut self, thread: i32) -> io::Result<()> {
        let (number, args) = calls::call_of(thread)?;
        let Some(named) = file_calls().find(|one| one.number == number) else { return Ok(()) };
        let text = read_path(thread, args[named.path])?;
        if text.is_empty() {
            return Ok(());
        }
        let path = Path::new(OsStr::from_bytes(&text));
        let whole = if path.is_absolute() {
            path.to_owned()
        } else {
            let directory = named.path.checked_sub(1).map(|at| args[at]);
            directory_of(thread, directory)?.join(path)
        };
        let Some(inside) = self.inside(&whole) else { return Ok(()) };
        match fs::symlink_metadata(&whole) {
            Err(error) if is_missing(&error) => {
                let is_listed = named.is_open && opens_directory(named, &args);
                let end = if is_listed { "/" } else { "" };
                self.looked.missed.insert(inside + end)
            }
            Ok(found) if named.is_open && !found.is_dir() => self.looked.opened.insert(inside),
            _ => return Ok(()),
        };
        if self.looked.missed.len() + self.looked.opened.len() > MOST {
            self.looked = Looked::default();
        }
        Ok(())
    }

    /// Returns a path relative to the root, if it is below it.
    fn inside(&self, path: &Path) -> Option<String> {
        let mut plain = PathBuf::new();
        for part in path.components() {
            match part {
                Component::ParentDir => drop(plain.pop()),
                Component::CurDir => {}
                part => plain.push(part),
            }
        }
        let inside = plain.strip_prefix(&self.root).ok()?.to_str()?;
        (!inside.is_empty() && inside != ".git" && !inside.starts_with(".git/"))
            .then(|| inside.to_owned())
    }
}

/// Whether a file is only opened to list a directory.
fn opens_directory(named: &FileCall, args: &[u64; 6]) -> bool {
    let directory = u64::try_from(libc::O_DIRECTORY).unwrap_or_default();
    named.number != libc::SYS_openat2 && args[named.path + 1] & directory != 0
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR))
}

/// Reads a NUL-terminated path; not beyond a page that may be the last one.
fn read_path(thread: i32, address: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut at = address;
    while text.len() < LONGEST {
        let mut part = [0; 256];
        let most = usize::try_from(PAGE - at % PAGE).unwrap_or(part.len()).min(part.len());
        let count = match calls::read_memory(thread, at, &mut part[..most]) {
            // The call will fail, as some are meant to: it names nothing.
            Err(error) if error.raw_os_error() == Some(libc::EFAULT) => return Ok(Vec::new()),
            count => count?,
        };
        if let Some(end) = part[..count].iter().position(|byte| *byte == 0) {
            text.extend_from_slice(&part[..end]);
            break;
        }
        if count == 0 {
            break;
        }
        text.extend_from_slice(&part[..count]);
        at += count as u64;
    }
    Ok(text)
}

/// Returns the directory that a call's path is relative to.
fn directory_of(thread: i32, descriptor: Option<u64>) -> io::Result<PathBuf> {
    #[expect(clippy::cast_possible_truncation, reason = "the kernel, too, takes the lower half")]
    let descriptor = descriptor.map_or(libc::AT_FDCWD, |number| number as i32);
    if descriptor == libc::AT_FDCWD {
        return fs::read_link(format!("/proc/{thread}/cwd"));
    }
    fs::read_link(format!("/proc/{thread}/fd/{descriptor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter like the kernel; returns whether a call is reported.
    fn reports(arch: u32, call: c_long, flags: u64) -> bool {
        let program = program();
        let mut data = vec![0_u8; size_of::<seccomp_data>()];
        data[0..4].copy_from_slice(&number(call).to_le_bytes());
        data[4..8].copy_from_slice(&arch.to_le_bytes());
        for argument in 0..6 {
            data[16 + 8 * argument..][..8].copy_from_slice(&flags.to_le_bytes());
        }
        let (mut at, mut loaded) = (0, 0);
        loop {
            let step = program[at];
            at += 1;
            let code = u32::from(step.code);
            let holds = match code & 0xF0 {
                libc::BPF_JSET => loaded & step.k != 0,
                _ => loaded == step.k,
            };
            match code & 0x07 {
                libc::BPF_LD => {
                    let from = step.k as usize;
                    loaded = u32::from_le_bytes(data[from..from + 4].try_into().unwrap());
                }
                libc::BPF_JMP => at += usize::from(if holds { step.jt } else { step.jf }),
                _ => return step.k == libc::SECCOMP_RET_TRACE,
            }
        }
    }

    #[test]
    fn calls_that_name_a_file_are_reported_and_no_others() {
        let empty = u64::try_from(libc::AT_EMPTY_PATH).unwrap();
        for (call, flags, expected) in [
            (libc::SYS_openat, 0, true),
            (libc::SYS_execve, 0, true),
            (libc::SYS_newfstatat, 0, true),
            (libc::SYS_newfstatat, empty, false),
            (libc::SYS_statx, 0, true),
            (libc::SYS_statx, empty, false),
            (libc::SYS_faccessat2, 0, true),
            (libc::SYS_read, 0, false),
            (libc::SYS_close, 0, false),
        ] {
            assert_eq!(reports(ARCH, call, flags), expected, "{call} {flags:x}");
        }
        assert!(!reports(0x4000_0003, libc::SYS_openat, 0), "another table of calls");
    }

    #[test]
    fn paths_are_named_from_the_root_and_git_is_left_out() {
        let notes = Notes { root: "/a/b".into(), looked: Looked::default() };
        for (path, inside) in [
            ("/a/b/c/d", Some("c/d")),
            ("/a/b/./c/../d", Some("d")),
            ("/a/b", None),
            ("/a/bc/d", None),
            ("/a/b/../x", None),
            ("/a/b/.git/config", None),
            ("/a/b/.gitignore", Some(".gitignore")),
        ] {
            assert_eq!(notes.inside(Path::new(path)).as_deref(), inside, "{path}");
        }
    }
}
