//! Fault points for tests: the process kills itself by SIGKILL at a chosen point.
//!
//! `RALPH_CRASH_AT=N` makes a debug build kill itself at its Nth fault point. There is a fault point
//!
//! - after each durable write: a file that was replaced, created, renamed or removed, a journal entry that is read
//!   back, a ref that was moved;
//! - after each start of a supervised command (agent, gate, setup): its guard and its live record exist, its request has
//!   been sent, its result is unknown;
//! - after each start of a short command that changes files (`git fetch`, `git checkout`, a commit with its hooks), once
//!   all its input has been written: it completes although the harness is dead.
//!
//! Increasing N until the process completes visits every distinct state in which a crash can leave the files. A short
//! read-only command is not a fault point: it changes nothing on disk, the memory of the harness is lost in any case,
//! and so a crash while it runs leaves the state of the preceding point. The caller has an allowlist of read-only
//! commands; an unknown command counts as one that writes, which costs a test run and hides nothing.
//!
//! `RALPH_CRASH_SIGNAL=INT` sends SIGINT instead, on which the process stops in an orderly way; `STOP` stops it until
//! it is continued.
//!
//! `RALPH_CRASH_LOG=FILE` appends a line for each point: its number and a description. Supervised runs do not inherit
//! the faults, and release builds do not contain them.

/// Marks the point after a durable write.
pub fn after_write() {
    #[cfg(debug_assertions)]
    armed::reach(|| "write".to_owned());
}

/// Marks the point after the start of a child process, before its result is known.
pub(crate) fn child_started(program: &std::path::Path, first_argument: Option<&str>) {
    #[cfg(debug_assertions)]
    armed::reach(|| {
        let program = program.file_name().unwrap_or_default().to_string_lossy();
        format!("start {program} {}", first_argument.unwrap_or_default())
    });
    #[cfg(not(debug_assertions))]
    let _ = (program, first_argument);
}

#[cfg(debug_assertions)]
mod armed {
    use std::fs::File;
    use std::io::Write;
    use std::sync::{Mutex, OnceLock, PoisonError};

    use rustix::process::{Signal, getpid, kill_process};

    const AT: &str = "RALPH_CRASH_AT";
    const SIGNAL: &str = "RALPH_CRASH_SIGNAL";
    const LOG: &str = "RALPH_CRASH_LOG";

    struct Faults {
        fatal: Option<u64>,
        log: Option<File>,
        reached: u64,
    }

    pub(super) fn reach(what: impl FnOnce() -> String) {
        static FAULTS: OnceLock<Option<Mutex<Faults>>> = OnceLock::new();
        let Some(faults) = FAULTS.get_or_init(requested) else { return };
        let mut faults = faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.reached += 1;
        let reached = faults.reached;
        if let Some(log) = &mut faults.log {
            // One write per line: a crash leaves complete lines.
            let _ = log.write_all(format!("{reached} {}\n", what().trim_end()).as_bytes());
        }
        if faults.fatal != Some(reached) {
            return;
        }
        let signal = std::env::var(SIGNAL).unwrap_or_default();
        if let Some(signal) = match signal.as_str() {
            "INT" => Some(Signal::INT),
            "STOP" => Some(Signal::STOP),
            _ => None,
        } {
            let _ = kill_process(getpid(), signal);
        } else {
            // Nothing may run after this point: a crash would have prevented it.
            while kill_process(getpid(), Signal::KILL).is_ok() {}
        }
    }

    fn requested() -> Option<Mutex<Faults>> {
        if std::env::var_os("RALPH_RUN_ID").is_some() {
            return None;
        }
        let fatal = std::env::var(AT).ok().and_then(|number| number.parse().ok());
        let log = std::env::var_os(LOG)
            .and_then(|path| File::options().create(true).append(true).open(path).ok());
        (fatal.is_some() || log.is_some()).then(|| Mutex::new(Faults { fatal, log, reached: 0 }))
    }
}
