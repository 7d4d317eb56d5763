//! Short commands of the harness itself (`git`, `codex --version`): bounded in time and output, without a guard.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::{caller, fault, sys};

/// A command whose complete output is needed.
#[derive(Clone, Debug)]
pub struct CaptureRequest<'a> {
    pub program: &'a Path,
    pub args: &'a [&'a str],
    /// Further arguments, not necessarily UTF-8.
    pub names: &'a [&'a OsStr],
    pub cwd: Option<&'a Path>,
    /// Set over the inherited environment; `None` removes a variable.
    pub env: &'a [(&'a str, Option<&'a str>)],
    pub timeout: Duration,
    /// Bytes kept of each stream; the rest is read and dropped.
    pub cap: usize,
}

/// The output of a short command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// `None` if it was killed by a signal or by the timeout.
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub timed_out: bool,
}

/// Runs a command and waits for its output at most for the timeout.
pub fn ask(question: &CaptureRequest<'_>) -> io::Result<Answer> {
    run(question, None, || {})
}

/// Runs a command that reads its input from stdin (`git cat-file --batch`).
pub fn ask_with_input(question: &CaptureRequest<'_>, input: &[u8]) -> io::Result<Answer> {
    run(question, Some(input), || {})
}

/// Runs a command that changes files, with optional input. A [fault point](fault) once all its input is written.
pub fn change(question: &CaptureRequest<'_>, input: Option<&[u8]>) -> io::Result<Answer> {
    run(question, input, || {
        fault::child_started(question.program, question.args.first().copied());
    })
}

/// Runs a command to its end; calls `started` when all its input is written.
fn run(
    question: &CaptureRequest<'_>,
    input: Option<&[u8]>,
    started: impl FnOnce(),
) -> io::Result<Answer> {
    let mut command = Command::new(question.program);
    command.args(question.args).args(question.names).process_group(0);
    command.env(caller::CALLER, caller::own_name());
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(cwd) = question.cwd {
        command.current_dir(cwd);
    }
    for (name, value) in question.env {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut child = command.spawn()?;
    let pipes = [
        child.stdout.take().map(OwnedFd::from).expect("stdout was piped"),
        child.stderr.take().map(OwnedFd::from).expect("stderr was piped"),
    ];
    let deadline = Instant::now() + question.timeout;
    let stdin = child.stdin.take().map(OwnedFd::from);
    let mut feed = Feed::new(stdin, input.unwrap_or_default(), started)?;
    let (kept, in_time) = converse(&mut feed, pipes, deadline, question.cap)?;
    drop(feed);
    if !in_time && let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let status = child.wait()?;
    let [stdout, stderr] = kept;
    Ok(Answer { code: status.code().filter(|_| in_time), stdout, stderr, timed_out: !in_time })
}

/// The CPU time of all reaped children of this process, including their descendants.
pub fn children_cpu() -> Duration {
    sys::children_cpu()
}

/// The remaining input of a command's stdin.
///
/// Written without blocking, while the output is read: otherwise both sides would deadlock as soon as input and output
/// are larger than a pipe.
struct Feed<'a, F: FnOnce()> {
    pipe: Option<OwnedFd>,
    rest: &'a [u8],
    /// Called once nothing is left.
    done: Option<F>,
}

impl<'a, F: FnOnce()> Feed<'a, F> {
    fn new(pipe: Option<OwnedFd>, rest: &'a [u8], done: F) -> io::Result<Self> {
        if let Some(pipe) = &pipe {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        let mut feed = Feed { pipe, rest, done: Some(done) };
        feed.close_when_done();
        Ok(feed)
    }

    fn close_when_done(&mut self) {
        if self.rest.is_empty() {
            self.pipe = None;
            if let Some(done) = self.done.take() {
                done();
            }
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let Some(pipe) = &self.pipe else { return Ok(()) };
        match rustix::io::write(pipe, self.rest) {
            Ok(count) => self.rest = &self.rest[count..],
            Err(Errno::INTR | Errno::AGAIN) => {}
            // It stopped reading: its output and exit code say why.
            Err(Errno::PIPE) => self.rest = &[],
            Err(errno) => return Err(errno.into()),
        }
        self.close_when_done();
        Ok(())
    }
}

/// Writes the input and reads both pipes to their end; `false` on timeout.
fn converse(
    feed: &mut Feed<'_, impl FnOnce()>,
    pipes: [OwnedFd; 2],
    deadline: Instant,
    cap: usize,
) -> io::Result<([Vec<u8>; 2], bool)> {
    let mut kept = [Vec::new(), Vec::new()];
    let mut open = pipes.map(Some);
    let mut buffer = vec![0; 16 << 10];
    while open.iter().any(Option::is_some) {
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return Ok((kept, false));
        }
        let mut ready = [false; 2];
        let mut writable = false;
        {
            let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(3);
            let mut meaning = Vec::with_capacity(3);
            for (index, pipe) in open.iter().enumerate() {
                if let Some(pipe) = pipe {
                    fds.push(PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN));
                    meaning.push(Some(index));
                }
            }
            if let Some(pipe) = &feed.pipe {
                fds.push(PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::OUT));
                meaning.push(None);
            }
            let timeout = Timespec::try_from(remaining).ok();
            match poll(&mut fds, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            for (fd, meaning) in fds.iter().zip(meaning) {
                let happened = !fd.revents().is_empty();
                match meaning {
                    Some(index) => ready[index] = happened,
                    None => writable = happened,
                }
            }
        }
        if writable {
            feed.write()?;
        }
        for index in 0..2 {
            let Some(pipe) = open[index].as_ref().filter(|_| ready[index]) else { continue };
            match rustix::io::read(pipe, &mut buffer[..]) {
                Ok(0) => open[index] = None,
                Ok(count) => {
                    let room = cap.saturating_sub(kept[index].len());
                    kept[index].extend_from_slice(&buffer[..count.min(room)]);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
    Ok((kept, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, timeout: Duration) -> Answer {
        ask(&CaptureRequest {
            program: Path::new("/bin/sh"),
            args: &["-c", script],
            names: &[],
            cwd: Some(Path::new("/")),
            env: &[("ASKED", Some("yes")), ("HOME", None)],
            timeout,
            cap: 1000,
        })
        .unwrap()
    }

    #[test]
    fn an_answer_keeps_both_streams_the_code_and_no_more_than_its_cap() {
        let answer =
            sh("pwd; echo $ASKED${HOME-none}; echo oops >&2; exit 3", Duration::from_mins(1));
        assert_eq!(answer.stdout, b"/\nyesnone\n");
        assert_eq!(answer.stderr, b"oops\n");
        assert_eq!((answer.code, answer.timed_out), (Some(3), false));
        let flood = sh("yes | head -c 100000", Duration::from_mins(1));
        assert_eq!(flood.stdout.len(), 1000);
        assert_eq!(flood.code, Some(0));
    }

    #[test]
    fn a_command_that_hangs_is_ended_with_its_children() {
        let answer = sh("echo $$; sleep 600 & sleep 600", Duration::from_millis(200));
        assert!(answer.timed_out);
        let group: i32 = String::from_utf8(answer.stdout).unwrap().trim().parse().unwrap();
        let group = Pid::from_raw(group).unwrap();
        // Killed processes disappear when their parent, here init, reaps them.
        while rustix::process::test_kill_process_group(group).is_ok() {
            std::thread::yield_now();
        }
    }

    fn with_input(script: &str, input: &[u8]) -> Answer {
        ask_with_input(
            &CaptureRequest {
                program: Path::new("/bin/sh"),
                args: &["-c", script],
                names: &[],
                cwd: None,
                env: &[],
                timeout: Duration::from_mins(1),
                cap: usize::MAX,
            },
            input,
        )
        .unwrap()
    }

    #[test]
    fn a_question_larger_than_a_pipe_comes_back_whole_and_ends() {
        let input: Vec<u8> = (0..3_000_000_u32).map(|index| (index % 251) as u8).collect();
        let answer = with_input("cat", &input);
        assert!(answer.stdout == input, "{} of {} bytes", answer.stdout.len(), input.len());
        assert_eq!(with_input("cat; echo end", b"").stdout, b"end\n");
    }

    #[test]
    fn a_command_that_does_not_read_its_question_is_heard_all_the_same() {
        let answer = with_input("exec 0<&-; echo no; exit 4", &vec![b'x'; 1 << 20]);
        assert_eq!((answer.stdout.as_slice(), answer.code), (&b"no\n"[..], Some(4)));
    }
}
