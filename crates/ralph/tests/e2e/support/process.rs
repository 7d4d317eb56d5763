//! Processes of the tests: run to their end or to a timeout, and found again by a mark in their environment.
//!
//! Agents start their tools in separate sessions, so neither the parent nor the process group identifies all of them;
//! the inherited environment does. Only processes with the mark of this test are ever killed.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use super::{MARK, TestEnv};

/// The result of a finished process.
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finished { status, stdout, stderr } = self;
        write!(f, "{status}\nstdout:\n{stdout}\nstderr:\n{stderr}")
    }
}

/// Runs a program in the test's repository with `input` on its stdin, in its own process group.
///
/// Kills it with all its descendants and panics if it takes longer than `limit`. Output goes to files, so a descendant
/// that keeps them open does not block.
pub(crate) fn run(
    env: &TestEnv,
    program: &Path,
    args: &[impl AsRef<OsStr>],
    variables: &[(String, String)],
    input: &str,
    limit: Duration,
) -> Finished {
    start(env, program, args, variables, input).finish(limit)
}

/// Starts a program like [`run`], for a test that acts while it runs.
pub(crate) fn start(
    env: &TestEnv,
    program: &Path,
    args: &[impl AsRef<OsStr>],
    variables: &[(String, String)],
    input: &str,
) -> Running {
    let scratch = tempfile::tempdir().unwrap();
    let [stdin, stdout, stderr] =
        ["stdin", "stdout", "stderr"].map(|name| scratch.path().join(name));
    File::create(&stdin).unwrap().write_all(input.as_bytes()).unwrap();
    let mut child = Command::new(program)
        .args(args)
        .current_dir(env.repo())
        .env_clear()
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::from(File::open(&stdin).unwrap()))
        .stdout(File::create(&stdout).unwrap())
        .stderr(File::create(&stderr).unwrap())
        .process_group(0)
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()));
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
    let (report, reported) = mpsc::channel();
    let waiter = thread::spawn(move || {
        // If the test has failed, the receiver is gone.
        let _ = report.send(child.wait());
    });
    Running { pid, mark: env.mark().to_owned(), reported, waiter, scratch }
}

/// A program that was started and may have ended since.
pub(crate) struct Running {
    pid: Pid,
    mark: String,
    reported: mpsc::Receiver<io::Result<ExitStatus>>,
    waiter: JoinHandle<()>,
    scratch: TempDir,
}

impl Running {
    /// Sends a signal to the program itself, not to its descendants.
    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid, signal).unwrap();
    }

    /// Waits for the end.
    pub(crate) fn finish(self, limit: Duration) -> Finished {
        let status = self.reported.recv_timeout(limit);
        if status.is_err() {
            kill_marked(&self.mark);
        }
        self.waiter.join().unwrap();
        let [stdout, stderr] =
            ["stdout", "stderr"].map(|name| lossy(&self.scratch.path().join(name)));
        let Ok(status) = status else {
            panic!("not done within {limit:?}\n{stdout}\n{stderr}");
        };
        Finished { status: status.unwrap(), stdout, stderr }
    }
}

fn lossy(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()
}

/// Returns the live processes whose environment contains `mark`, with their command lines.
pub(crate) fn processes_marked(mark: &str) -> Vec<(i32, String)> {
    let wanted = format!("{MARK}={mark}");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc is mounted").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let environment = environment_of(&entry.path());
        if environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
            let arguments = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
            found.push((pid, arguments.trim_end().to_owned()));
        }
    }
    found
}

/// Reads the environment of a process; it is empty once the process has ended.
fn environment_of(process: &Path) -> Vec<u8> {
    let read = || fs::read(process.join("environ")).unwrap_or_default();
    let mut environment = read();
    // During an exec it is empty for a moment; the bound is for processes that never get past it.
    for _ in 0..2000 {
        if !environment.is_empty() || has_none(process) {
            break;
        }
        thread::sleep(Duration::from_millis(1));
        environment = read();
    }
    environment
}

/// Whether a process has no program, or one with an empty environment.
fn has_none(process: &Path) -> bool {
    /// The index of the start address of its environment, counted from the state field; the end address follows.
    const BEGINNING: usize = 47;
    let told = fs::read_to_string(process.join("stat")).unwrap_or_default();
    let mut numbers = told.rsplit(')').next().unwrap_or_default().split_whitespace();
    let place = (numbers.nth(BEGINNING), numbers.next());
    let is_empty = place.0 != Some("0") && place.0 == place.1;
    is_empty || fs::read_link(process.join("exe")).is_err()
}

/// Kills all processes with `mark` until there are none, however they multiply meanwhile.
pub(crate) fn kill_marked(mark: &str) {
    // A killed process is listed until its memory is freed; the bound is for unkillable processes.
    for _ in 0..10_000 {
        let marked = processes_marked(mark);
        if marked.is_empty() {
            return;
        }
        for pid in marked.into_iter().filter_map(|(pid, _)| Pid::from_raw(pid)) {
            // It may have ended by itself since.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        thread::yield_now();
    }
}

/// Polls until `found` returns something, or until `limit` has passed.
pub(crate) fn poll<T>(limit: Duration, mut found: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        // Taken before the call, so that the last poll is not cut short on a busy machine.
        let is_late = begun.elapsed() > limit;
        let seen = found();
        if seen.is_some() || is_late {
            return seen;
        }
        thread::sleep(Duration::from_millis(10));
    }
}
