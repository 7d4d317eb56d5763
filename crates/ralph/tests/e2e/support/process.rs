//! Processes of the tests: run to their end or to a limit, and found again by a mark in their environment.
//!
//! Agents start their tools in sessions of their own, so neither a parent nor a process group leads to all of them; the
//! environment they inherit does. Only what carries the mark of this test is ever killed.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use super::{MARK, TestEnv};

/// What a finished process left.
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

/// Runs a program in the test's repository with `input` on its stdin, in a process group of its own.
///
/// Panics, after killing it and all that descends from it, when it is not done within `limit`. Output goes to files: a
/// descendant that keeps them open holds nobody up.
pub(crate) fn run(
    env: &TestEnv,
    program: &Path,
    args: &[impl AsRef<OsStr>],
    variables: &[(String, String)],
    input: &str,
    limit: Duration,
) -> Finished {
    let scratch = tempfile::tempdir().unwrap();
    let paths = ["stdin", "stdout", "stderr"].map(|name| scratch.path().join(name));
    File::create(&paths[0]).unwrap().write_all(input.as_bytes()).unwrap();
    let mut child = Command::new(program)
        .args(args)
        .current_dir(env.repo())
        .env_clear()
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::from(File::open(&paths[0]).unwrap()))
        .stdout(File::create(&paths[1]).unwrap())
        .stderr(File::create(&paths[2]).unwrap())
        .process_group(0)
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()));
    let (report, reported) = mpsc::channel();
    let waiter = thread::spawn(move || report.send(child.wait()));
    let status = reported.recv_timeout(limit);
    if status.is_err() {
        kill_marked(env.mark());
    }
    waiter.join().unwrap().ok();
    let [stdout, stderr] = [&paths[1], &paths[2]].map(|path| lossy(path));
    let Ok(status) = status else {
        panic!("{} took over {limit:?}\n{stdout}\n{stderr}", program.display());
    };
    Finished { status: status.unwrap(), stdout, stderr }
}

fn lossy(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()
}

/// Returns the living processes whose environment bears `mark`, with their command lines.
pub(crate) fn processes_marked(mark: &str) -> Vec<(i32, String)> {
    let wanted = format!("{MARK}={mark}");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc is mounted").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process may end while it is looked at, and a dead one has no environment.
        let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
        if environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
            let arguments = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
            found.push((pid, arguments.trim_end().to_owned()));
        }
    }
    found
}

/// Kills what bears `mark` until nothing does, however it multiplies meanwhile.
pub(crate) fn kill_marked(mark: &str) {
    // A killed process is listed until its memory is gone; the bound is for what cannot be killed at all.
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
