//! The guard: one small process between the harness and everything a run starts.
//!
//! The harness has its [`launcher`] fork the guard, hands it one request over a socket and reads notices back. The guard
//! adopts whatever the run orphans (it is a subreaper), so nothing escapes it by forking twice or by a session of its
//! own. When the run's program exits, or the socket closes because the harness died, the guard ends all that is left
//! and then itself. It is single-threaded, so the child it forks may confine itself before it executes the program.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, set_child_subreaper,
    setsid, wait,
};
use serde::{Deserialize, Serialize};

use crate::command::CommandSpec;
use crate::control::Control;
use crate::sandbox::{Confinement, Prepared};
use crate::{launcher, sys, tree};

/// The word on the command line that makes the program a launcher of guards, and so its forks guards.
pub const WORD: &str = "__guard";

/// The version of the lines between harness and guard. Both come from one binary, but from `/proc/self/exe`: they can
/// only differ if somebody starts a guard by hand.
const VERSION: u32 = 2;

/// What processes that the run left behind get to end by themselves: git removes its locks in that time.
const LEFTOVER_GRACE: Duration = Duration::from_millis(200);

/// What the harness asks for. The program, its arguments and its environment follow, as they need not be text.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GuardRequest {
    v: u32,
    cwd: String,
    stdin: Option<String>,
    confinement: Option<Confinement>,
    /// How many words the command has.
    words: usize,
    /// How many bytes follow: the words, then the variables, each with a zero byte after it.
    bytes: usize,
}

impl GuardRequest {
    /// Puts a request together, and the bytes that follow it.
    pub(crate) fn new(spec: &CommandSpec) -> io::Result<(GuardRequest, Vec<u8>)> {
        let path = |path: &Path| {
            path.to_str().map(str::to_owned).ok_or_else(|| {
                io::Error::other(format!("the path `{}` is not UTF-8", path.display()))
            })
        };
        let mut bytes = Vec::new();
        for word in
            [spec.program.as_os_str()].into_iter().chain(spec.args.iter().map(AsRef::as_ref))
        {
            append(&mut bytes, &[word.as_bytes()])?;
        }
        for (name, value) in &spec.env {
            append(&mut bytes, &[name.as_bytes(), b"=", value.as_bytes()])?;
        }
        let request = GuardRequest {
            v: VERSION,
            cwd: path(&spec.cwd)?,
            stdin: spec.stdin.as_deref().map(path).transpose()?,
            confinement: spec.confinement.clone(),
            words: 1 + spec.args.len(),
            bytes: bytes.len(),
        };
        Ok((request, bytes))
    }

    /// Takes a command apart from the bytes that followed.
    fn command(&self, bytes: &[u8]) -> io::Result<Command> {
        let mut strings = bytes.split(|byte| *byte == 0);
        let mut words = strings.by_ref().take(self.words).map(OsStr::from_bytes);
        let program = words.next().ok_or_else(|| io::Error::other("no program given"))?;
        let mut command = Command::new(program);
        command.args(words).env_clear();
        if let Some(name) = Path::new(program).file_name() {
            command.arg0(name);
        }
        for variable in strings {
            // A name may begin with the sign that ends it.
            let end = variable.iter().skip(1).position(|byte| *byte == b'=');
            if let Some(end) = end {
                let (name, value) = variable.split_at(end + 1);
                command.env(OsStr::from_bytes(name), OsStr::from_bytes(&value[1..]));
            }
        }
        Ok(command)
    }
}

/// Adds a string to those that follow a request.
fn append(bytes: &mut Vec<u8>, parts: &[&[u8]]) -> io::Result<()> {
    if parts.iter().any(|part| part.contains(&0)) {
        return Err(io::Error::other("a word or variable of the command has a zero byte"));
    }
    bytes.extend(parts.iter().copied().flatten());
    bytes.push(0);
    Ok(())
}

/// What the harness may order during the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GuardOrder {
    /// A signal for the program and its process group.
    Signal(i32),
    /// Stop everything where it stands.
    Pause,
    /// Let everything go on.
    Resume,
    /// End everything now.
    Kill,
}

/// What the guard tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Notice {
    /// The program runs.
    Started { pid: i32 },
    /// It could not be started.
    Failed { message: String },
    /// It ended, and everything that descended from it.
    Ended { code: Option<i32>, signal: Option<i32>, cpu: Duration, leftovers: usize },
}

/// Becomes the launcher of guards, and a guard, if the command line says so; else returns at once.
///
/// Must be the first thing the program does: before threads, handlers or configuration.
pub fn dispatch() {
    if std::env::args_os().nth(1).is_some_and(|word| word == WORD) {
        std::process::exit(launcher::serve());
    }
}

pub(crate) struct Guard {
    control: Control,
    deaths: UnixStream,
    /// The person asked twice: no grace for anyone.
    hurry: bool,
}

/// How the run's own program ended.
struct ProgramEnd {
    code: Option<i32>,
    signal: Option<i32>,
}

impl Guard {
    /// Is the guard of one run, whose stdout and stderr are given. Returns the exit code of the process.
    pub(crate) fn run(control: UnixStream, output: [OwnedFd; 2]) -> i32 {
        let control = Control::new(control);
        let Ok((deaths, deaths_write)) = UnixStream::pair() else { return 70 };
        let _ = deaths.set_nonblocking(true);
        let _ = signal_hook::low_level::pipe::register(signal_hook::consts::SIGCHLD, deaths_write);
        let mut guard = Guard { control, deaths, hurry: false };
        match guard.supervise(output) {
            Ok(()) => 0,
            Err(error) => {
                guard.tell(&Notice::Failed { message: error.to_string() });
                70
            }
        }
    }

    fn supervise(&mut self, output: [OwnedFd; 2]) -> io::Result<()> {
        let Some(request) = self.control.receive::<GuardRequest>()? else { return Ok(()) };
        if request.v != VERSION {
            return Err(io::Error::other(format!("unknown guard protocol {}", request.v)));
        }
        let bytes = self.control.receive_bytes(request.bytes)?;
        for signal in
            [signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP, signal_hook::consts::SIGINT]
        {
            // A handler, not SIG_IGN: handlers are not inherited by the program.
            let _ = signal_hook::flag::register(signal, std::sync::Arc::default());
        }
        set_child_subreaper(Some(rustix::process::getpid()))?;
        let program = match Self::start(&request, &bytes, output) {
            Ok(program) => program,
            Err(error) => {
                self.tell(&Notice::Failed { message: error.to_string() });
                return Ok(());
            }
        };
        self.tell(&Notice::Started { pid: program.as_raw_nonzero().get() });
        let Some(end) = self.follow(program) else {
            // Nothing may outlive the harness.
            self.end_everything();
            return Ok(());
        };
        let leftovers = self.end_leftovers();
        let cpu = sys::children_cpu();
        self.tell(&Notice::Ended { code: end.code, signal: end.signal, cpu, leftovers });
        Ok(())
    }

    /// Starts the program and lets go of its output: only the run itself may hold that open.
    fn start(request: &GuardRequest, bytes: &[u8], output: [OwnedFd; 2]) -> io::Result<Pid> {
        let mut command = request.command(bytes)?;
        let stdin = match &request.stdin {
            Some(path) => Stdio::from(File::open(path).map_err(|error| named(&error, path))?),
            None => Stdio::null(),
        };
        let mut confinement = request.confinement.as_ref().map(Prepared::new).transpose()?;
        let [stdout, stderr] = output;
        command.current_dir(&request.cwd).stdin(stdin).stdout(stdout).stderr(stderr);
        sys::before_exec(&mut command, move || {
            // Of its own session, the program cannot hit the guard with a signal to its group.
            setsid()?;
            sys::reset_signals();
            // In every mode: a set-uid child could not be ended by us.
            rustix::thread::set_no_new_privs(true)?;
            confinement.as_mut().map_or(Ok(()), Prepared::enter)
        });
        let spawned = command.spawn();
        let child =
            spawned.map_err(|error| named(&error, &command.get_program().to_string_lossy()))?;
        let raw = i32::try_from(child.id()).map_err(io::Error::other)?;
        // If memory runs out, the run is to go before its guard.
        let _ = std::fs::write(format!("/proc/{raw}/oom_score_adj"), "500");
        Pid::from_raw(raw).ok_or_else(|| io::Error::other("the program has no process id"))
    }

    /// Carries out orders until the program ends. `None`: the harness is gone.
    fn follow(&mut self, program: Pid) -> Option<ProgramEnd> {
        let mut paused = false;
        loop {
            // Before waiting: the program may have ended before its death could be announced.
            if let Some(end) = self.reap(Some(program)) {
                return Some(end);
            }
            if !self.control.has_message() {
                let (order, _) = wait_for([self.control.fd(), self.deaths.as_fd()], None);
                if !order {
                    continue;
                }
            }
            match self.control.receive().ok()?? {
                GuardOrder::Signal(signal) => {
                    if let Some(signal) = Signal::from_named_raw(signal) {
                        let _ = kill_process_group(program, signal);
                    }
                    if paused {
                        signal_tree(Signal::CONT);
                        paused = false;
                    }
                }
                GuardOrder::Pause => {
                    tree::stop_descendants(own_pid());
                    paused = true;
                }
                GuardOrder::Resume => {
                    signal_tree(Signal::CONT);
                    paused = false;
                }
                GuardOrder::Kill => {
                    let _ = kill_process(program, Signal::KILL);
                    self.hurry = true;
                }
            }
        }
    }

    /// Takes in every death there was; returns the end of `program` if it was among them.
    fn reap(&mut self, program: Option<Pid>) -> Option<ProgramEnd> {
        drain(&self.deaths);
        let mut end = None;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if Some(pid) == program {
                end = Some(ProgramEnd::of(status));
            }
        }
        end
    }

    /// Ends what the program left behind: asked first, then killed. Returns how many there were.
    fn end_leftovers(&mut self) -> usize {
        let own = own_pid();
        let left = tree::descendants(own);
        if left.is_empty() {
            return 0;
        }
        tree::signal_all(&left, Signal::TERM);
        tree::signal_all(&left, Signal::CONT);
        let patience = Instant::now() + LEFTOVER_GRACE;
        while !self.hurry && has_children() {
            let remaining = patience.saturating_duration_since(Instant::now());
            let (harness_gone, _) =
                wait_for([self.control.fd(), self.deaths.as_fd()], Some(remaining));
            self.reap(None);
            if remaining.is_zero() || harness_gone {
                break;
            }
        }
        self.end_everything();
        left.len()
    }

    /// Kills every descendant, until there is none.
    fn end_everything(&mut self) {
        while has_children() {
            let own = own_pid();
            tree::kill_with_descendants(&tree::descendants(own));
            // A killed process may take its time in the kernel; look again when something died, or soon.
            wait_for([self.deaths.as_fd(), self.deaths.as_fd()], Some(Duration::from_millis(20)));
            self.reap(None);
        }
    }

    fn tell(&mut self, notice: &Notice) {
        let _ = self.control.send(notice);
    }
}

impl ProgramEnd {
    fn of(status: WaitStatus) -> ProgramEnd {
        ProgramEnd { code: status.exit_status(), signal: status.terminating_signal() }
    }
}

/// Signals everything that runs below this guard.
fn signal_tree(signal: Signal) {
    tree::signal_all(&tree::descendants(own_pid()), signal);
}

fn named(error: &io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("cannot start `{what}`: {error}"))
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Whether this process has a child at all, dead or alive.
fn has_children() -> bool {
    let peek = WaitOptions::NOHANG;
    !matches!(wait(peek), Err(rustix::io::Errno::CHILD))
}

/// Waits until one of two descriptors has something; says which.
fn wait_for(fds: [BorrowedFd<'_>; 2], timeout: Option<Duration>) -> (bool, bool) {
    let mut polled = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    if poll(&mut polled, timeout.as_ref()).is_err() {
        return (false, false);
    }
    (!polled[0].revents().is_empty(), !polled[1].revents().is_empty())
}

fn drain(mut stream: &UnixStream) {
    let mut bytes = [0; 64];
    while matches!(io::Read::read(&mut stream, &mut bytes), Ok(64)) {}
}
