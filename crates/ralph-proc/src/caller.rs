//! Commands that outlive the harness that called them.
//!
//! The harness ends a command of its own at its timeout. If the harness is killed before, git goes on, and an agent can
//! have made something that keeps it busy for hours. Every such command has the harness's name in its environment; the
//! launcher, which notices that the harness is gone, ends those that are left.

use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::tree::{self, ProcessIdentity};

/// The variable with the name of the harness that called a command.
pub(crate) const CALLER: &str = "RALPH_CALLER";

/// How long commands may take to end, each time before they get another signal.
const GRACE: Duration = Duration::from_millis(300);

/// Returns the name of this process, as the commands it calls have it.
pub(crate) fn own_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let ProcessIdentity { pid, start, .. } = ProcessIdentity::own();
        format!("{pid}-{start}")
    })
}

/// Ends the commands that a harness called and did not live to see the end of.
///
/// Most of them end by themselves, and leave nothing half done; git removes its locks when it is terminated.
pub(crate) fn end_commands_of(caller: &str) {
    let mark = format!("{CALLER}={caller}");
    let left = || tree::holding(mark.as_bytes());
    for signal in [None, Some(Signal::TERM), Some(Signal::KILL)] {
        if let Some(signal) = signal {
            tree::signal_all(&left(), signal);
        }
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline {
            if left().is_empty() {
                return;
            }
            sleep(GRACE / 10);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command};

    use super::*;

    fn waits(caller: &str, script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).env(CALLER, caller).spawn().unwrap()
    }

    fn signal_of(mut child: Child) -> Option<i32> {
        child.wait().unwrap().signal()
    }

    #[test]
    fn only_commands_of_that_caller_end_and_quick_ones_by_themselves() {
        let name = format!("{}-test", own_name());
        let slow = waits(&name, "exec sleep 600");
        let deaf = waits(&name, "trap '' TERM; while :; do sleep 0.01; done");
        let quick = waits(&name, "exec sleep 0.05");
        let mut other = waits(&format!("{name}-other"), "exec sleep 600");
        end_commands_of(&name);
        assert_eq!(signal_of(slow), Some(libc::SIGTERM));
        assert_eq!(signal_of(deaf), Some(libc::SIGKILL));
        assert_eq!(signal_of(quick), None);
        assert_eq!(other.try_wait().unwrap(), None);
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
