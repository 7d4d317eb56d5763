//! A temporary directory to play in; ends everything that was started in it.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, process, thread};

use ralph_model::event::AgentEvent;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tempfile::TempDir;

const MARK: &str = "REHEARSAL_TEST_MARK";

pub(crate) struct Stage {
    directory: TempDir,
    mark: String,
    /// A process to kill that may carry no mark.
    unmarked: Cell<Option<u32>>,
}

impl Stage {
    /// A stage whose script is `script`.
    pub(crate) fn new(script: &str) -> Self {
        static STAGES: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", process::id(), STAGES.fetch_add(1, Ordering::Relaxed));
        let stage =
            Self { directory: tempfile::tempdir().unwrap(), mark, unmarked: Cell::new(None) };
        fs::create_dir(stage.path("work")).unwrap();
        fs::write(stage.path("script"), script).unwrap();
        stage
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The content of a file in the working directory.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path("work").join(name)).unwrap()
    }

    /// The agent, not yet started.
    pub(crate) fn agent(&self) -> Command {
        let mut agent = self.command(&player());
        agent.arg(self.path("script"));
        agent
    }

    /// Any program in the agent's working directory and environment.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path("work"))
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap())
            .env("HOME", self.path("home"))
            .env("RALPH_REHEARSAL_STATE", self.path("state"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env(MARK, &self.mark)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        let output = self.command(Path::new("git")).args(args).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// Plays with an empty prompt and returns the result.
    pub(crate) fn play(&self) -> Played {
        Played::from(self.agent().output().unwrap())
    }

    pub(crate) fn play_with_prompt(&self, prompt: &str) -> Played {
        let mut agent = self.agent().stdin(Stdio::piped()).spawn().unwrap();
        agent.stdin.take().unwrap().write_all(prompt.as_bytes()).unwrap();
        Played::from(agent.wait_with_output().unwrap())
    }

    /// Creates a pipe in the working directory through which a process of the script can report something.
    pub(crate) fn fifo(&self, name: &str) {
        mknodat(CWD, self.path("work").join(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .unwrap();
    }

    /// The live processes with this stage's mark.
    pub(crate) fn survivors(&self) -> Vec<u32> {
        let mark = format!("{MARK}={}", self.mark);
        let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| {
            entry.unwrap().file_name().to_str().and_then(|name| name.parse::<u32>().ok())
        });
        processes
            .filter(|id| {
                let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
                environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
            })
            .collect()
    }

    /// Registers a process to be killed with the stage, whether or not it carries the mark.
    pub(crate) fn take_over(&self, process: u32) {
        self.unmarked.set(Some(process));
    }

    /// The one remaining process. During an exec its mark cannot be read, so this retries.
    pub(crate) fn survivor(&self) -> u32 {
        loop {
            match self.survivors()[..] {
                [] => thread::yield_now(),
                [id] => return id,
                ref many => panic!("more than one process is left: {many:?}"),
            }
        }
    }

    /// Kills these processes and asserts that no other process of the script was alive.
    pub(crate) fn end(&self, expected: &[u32]) {
        for id in expected {
            end_process(*id);
        }
        let left = self.survivors();
        assert!(left.is_empty(), "processes were left: {left:?}");
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let left = self.survivors();
        for id in left.iter().copied().chain(self.unmarked.get()) {
            end_process(id);
        }
        assert!(thread::panicking() || left.is_empty(), "processes were left: {left:?}");
    }
}

/// Kills a process and waits until it is gone.
fn end_process(id: u32) {
    let id = Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
    let Ok(process) = pidfd_open(id, PidfdFlags::empty()) else { return };
    let _ = pidfd_send_signal(&process, Signal::KILL);
    let mut ended = [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut ended, None).unwrap();
}

pub(crate) fn send(child: &Child, signal: Signal) {
    rustix::process::kill_process(Pid::from_child(child), signal).unwrap();
}

/// The player is next to the directory of the tests: cargo builds examples with them.
fn player() -> PathBuf {
    let tests = env::current_exe().unwrap();
    let player = tests.parent().unwrap().parent().unwrap().join("examples/rehearse");
    assert!(File::open(&player).is_ok(), "build it with `cargo build -p ralph-engine --examples`");
    player
}

/// The result of the agent.
pub(crate) struct Played {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Played {
    fn from(output: Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        Self {
            code: output.status.code(),
            signal: output.status.signal(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Played {
    pub(crate) fn events(&self) -> Vec<AgentEvent> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// The fields of `/proc/<id>/stat` after the name: state, parent, group, session.
pub(crate) fn kin(id: u32) -> Kin {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let number = |index: usize| fields[index].parse().unwrap();
    Kin { parent: number(1), group: number(2), session: number(3) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kin {
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
}
