//! Drives `ralph` itself in a test's environment: to its end, or while it runs.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

use crate::replay;
use crate::support::process::{Finished, processes_marked, run};
use crate::support::{TestEnv, text};

/// Long enough for any machine; a test that needs it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// Short grace periods, so that stubborn agents do not delay the tests.
const CONFIG: &str = "limits.interrupt_grace = \"100ms\"\nlimits.terminate_grace = \"100ms\"\n\
     limits.margin = \"0s\"\nlimits.max_wait = \"1s\"\n";

/// A place to run `ralph agent run` in.
pub(crate) struct Place {
    pub(crate) env: TestEnv,
}

impl Place {
    pub(crate) fn new() -> Place {
        let place = Place { env: TestEnv::new() };
        place.configure("");
        place
    }

    /// A place whose agent is `rehearsal`, playing `script`.
    pub(crate) fn rehearsing(script: &str) -> Place {
        let place = Place::new();
        fs::write(place.path("script"), script).unwrap();
        place.configure("agent = \"rehearsal\"\n[agents.rehearsal]\nscript = \"../script\"\n");
        place
    }

    /// Writes the configuration: the tests' own settings, then `more`.
    pub(crate) fn configure(&self, more: &str) {
        fs::write(self.env.repo().join("ralph.toml"), format!("{CONFIG}{more}")).unwrap();
    }

    /// Adds to the configuration.
    pub(crate) fn more(&self, text: &str) {
        let path = self.env.repo().join("ralph.toml");
        let config = fs::read_to_string(&path).unwrap();
        fs::write(path, format!("{config}\n{text}")).unwrap();
    }

    /// A path next to the repository.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.env.repo().parent().unwrap().join(name)
    }

    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let mut variables = self.env.environment();
        variables.push(("XDG_STATE_HOME".to_owned(), text(&self.path("state"))));
        variables
    }

    /// Runs `ralph` to its end.
    pub(crate) fn ralph(&self, args: &[&str]) -> Finished {
        let state = self.path("state");
        let before = replay::length(&state);
        let finished = run(&self.env, &program(), args, &self.variables(), "", PATIENCE);
        let is_workflow = args
            .first()
            .is_some_and(|word| ["pipeline", "build", "loop", "run", "understand"].contains(word));
        if is_workflow && !args.contains(&"--quiet") {
            replay::assert_told(&state, before, &finished);
        }
        finished
    }

    /// Runs an agent on a prompt and returns its report.
    pub(crate) fn agent_run(&self, args: &[&str]) -> Report {
        let mut all = vec!["agent", "run", "--json", "do it"];
        all.extend_from_slice(args);
        let finished = self.ralph(&all);
        let json = serde_json::from_str(&finished.stdout)
            .unwrap_or_else(|error| panic!("no report ({error})\n{finished}"));
        Report { json, finished }
    }

    /// Starts `ralph` without waiting. Its output goes to `out` and `err` next to the repository.
    pub(crate) fn start(&self, args: &[&str]) -> Running<'_> {
        self.start_with(args, &[])
    }

    /// The same with additional variables.
    pub(crate) fn start_with(&self, args: &[&str], more: &[(&str, &str)]) -> Running<'_> {
        let child = Command::new(program())
            .args(args)
            .current_dir(self.env.repo())
            .env_clear()
            .envs(self.variables())
            .envs(more.iter().copied())
            .stdin(Stdio::null())
            .stdout(File::create(self.path("out")).unwrap())
            .stderr(File::create(self.path("err")).unwrap())
            .spawn()
            .unwrap();
        Running { place: self, child }
    }

    /// Commits everything there is.
    pub(crate) fn commit_all(&self, message: &str) {
        self.env.git(&["add", "-A"]);
        self.env.git(&["commit", "-q", "-m", message]);
    }

    /// The log entries of a name.
    pub(crate) fn logged(&self, name: &str) -> Vec<Value> {
        let log = fs::read_to_string(self.env.repo().join("ralph/ralph.log")).unwrap_or_default();
        let entries = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        entries
            .filter(|entry| entry["event"] == name)
            .map(|mut entry| entry["data"].take())
            .collect()
    }

    /// The roles of all runs, in order.
    pub(crate) fn roles(&self) -> Vec<String> {
        let runs = self.logged("run_started");
        runs.iter().map(|run| run["role"].as_str().unwrap().to_owned()).collect()
    }

    /// Runs `ralph` with a terminal as stdin, and types the next line of `typed` at each prompt.
    pub(crate) fn at_terminal(&self, args: &[&str], typed: &[u8]) -> (Option<i32>, String) {
        let (mut child, terminal) = self.start_at_terminal(args);
        let mut lines = typed.split_inclusive(|byte| *byte == b'\n');
        let (mut keyboard, mut stderr) = (File::from(terminal), child.stderr.take().unwrap());
        let stdout = child.stdout.take().unwrap();
        // Nothing else reads it, and a full pipe would block the program.
        let drained =
            std::thread::spawn(move || std::io::copy(&mut { stdout }, &mut std::io::sink()));
        let (mut said, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = stderr.read(&mut buffer) {
            said.extend_from_slice(&buffer[..count]);
            if PROMPTS.iter().any(|prompt| said.ends_with(prompt.as_bytes())) {
                keyboard.write_all(lines.next().unwrap_or_default()).unwrap();
            }
        }
        drained.join().unwrap().unwrap();
        (child.wait().unwrap().code(), String::from_utf8(said).unwrap())
    }

    /// Starts `ralph` with a terminal as stdin, and returns it with the other end.
    pub(crate) fn start_at_terminal(&self, args: &[&str]) -> (Child, OwnedFd) {
        let (terminal, stdin) = open_terminal();
        let child = Command::new(program())
            .args(args)
            .current_dir(self.env.repo())
            .env_clear()
            .envs(self.variables())
            .stdin(Stdio::from(stdin))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        (child, terminal)
    }

    /// Asserts that no process of a run is alive except `ralph` itself, which may keep its idle launcher.
    pub(crate) fn assert_only(&self, running: &Running<'_>) {
        let mut others = processes_marked(self.env.mark());
        others.retain(|(pid, _)| *pid != running.pid());
        if let Some(launcher) = others.iter().position(|(_, command)| command.contains("__guard")) {
            others.remove(launcher);
        }
        assert!(others.is_empty(), "{others:?}");
    }

    /// Asserts that no process with this test's mark is alive.
    pub(crate) fn assert_nothing_left(&self) {
        assert_eq!(processes_marked(self.env.mark()), []);
    }
}

/// How prompts for an answer end, on stderr.
const PROMPTS: [&str; 4] = ["\n> ", "\n. ", "[y/N] ", "[Y/n] "];

/// Opens a terminal: the person's end and the program's end.
pub(crate) fn open_terminal() -> (OwnedFd, OwnedFd) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let flags = OFlags::NOCTTY.bits().cast_signed();
    let mut options = OpenOptions::new();
    let inside = options.read(true).write(true).custom_flags(flags).open(name.to_str().unwrap());
    (terminal, OwnedFd::from(inside.unwrap()))
}

pub(crate) const RALPH: &str = env!("CARGO_BIN_EXE_ralph");

/// The path of the program for a user who cannot access the built one.
pub(crate) const PROGRAM: &str = "RALPH_TEST_PROGRAM";

pub(crate) fn program() -> PathBuf {
    std::env::var_os(PROGRAM).map_or_else(|| PathBuf::from(RALPH), PathBuf::from)
}

/// A running `ralph`.
pub(crate) struct Running<'a> {
    place: &'a Place,
    child: Child,
}

impl Running<'_> {
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
    }

    /// Whether it has ended, without reaping it.
    pub(crate) fn is_over(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_raw(self.pid()).unwrap()), options).unwrap().is_some()
    }

    /// Waits for its end; returns the exit code and stderr.
    pub(crate) fn finish(mut self) -> (Option<i32>, String) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "ralph does not end");
            std::thread::sleep(Duration::from_millis(2));
        };
        (status.code(), fs::read_to_string(self.place.path("err")).unwrap())
    }

    /// Its stderr so far.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.place.path("err")).unwrap()
    }
}

/// The report of `ralph agent run --json`.
pub(crate) struct Report {
    pub(crate) json: Value,
    pub(crate) finished: Finished,
}

impl Report {
    pub(crate) fn outcome(&self) -> &str {
        self.json["outcome"]["kind"].as_str().unwrap()
    }

    /// The kind of trouble; empty if there was none.
    pub(crate) fn trouble(&self) -> &str {
        self.json["outcome"]["trouble"]["kind"].as_str().unwrap_or_default()
    }

    pub(crate) fn exit_code(&self) -> Option<i32> {
        self.finished.status.code()
    }

    /// The run's events, in order.
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.json["events"].as_str().unwrap()).unwrap();
        text.lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].take())
            .collect()
    }
}

/// Waits until an agent has created a file.
pub(crate) fn wait_for_file(path: &Path) {
    wait_until(PATIENCE, &format!("{} appears", path.display()), || path.exists());
}

/// Waits for something that another process does.
pub(crate) fn wait_until(patience: Duration, what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + patience;
    while !done() {
        assert!(Instant::now() < deadline, "not within {patience:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Steps of an agent that ends in the middle of a merge conflict in `torn.txt`.
pub(crate) const TEARS: &str = "run echo 1 > torn.txt; git add torn.txt; git commit -qm 1; echo 2 > torn.txt; git stash -q; \
    echo 3 > torn.txt; git commit -qam 3; git stash pop -q || true\n";

/// Steps of the next agent: it is told of the conflict, and resolves it.
pub(crate) const MENDS: &str = "expect-prompt `torn.txt` has an unresolved merge conflict\nwrite torn.txt both\n\
    run git add -A; git commit -qm both\n";
