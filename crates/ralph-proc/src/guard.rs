//! The guard: one small process between the harness and everything a run starts.
//!
//! The harness's [`launcher`] forks the guard, sends it one request over a socket and reads notices back. The guard
//! adopts all orphans of the run (it is a subreaper), so nothing escapes it by a double fork or a new session. When the
//! run's program exits, or the socket closes because the harness died, the guard terminates everything that is left and
//! then exits. It is single-threaded, so the child it forks may confine itself before the exec.
//!
//! If a run has its own namespaces ([`namespace`]), a child of the guard, the first process in there, does all of this.
//! The process outside only waits for it: when it has ended, the kernel has killed everything in its namespace.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, setsid, wait, waitpid,
};
use serde::{Deserialize, Serialize};

use crate::command::CommandSpec;
use crate::control::Control;
use crate::end_note::EndNote;
use crate::host::Strays;
use crate::namespace::{self, Ids, View};
use crate::sandbox::{Confinement, Prepared};
use crate::trace::{Looked, Tracer};
use crate::{host, launcher, sys, trace, tree};

/// The command line argument that makes the program a launcher of guards, and so its forks guards.
pub const WORD: &str = "__guard";

/// The protocol version between harness and guard. Both come from one binary, through `/proc/self/exe`: they can only
/// differ if a guard is started by hand.
const VERSION: u32 = 6;

/// The grace period of leftover processes: git removes its locks in that time.
const LEFTOVER_GRACE: Duration = Duration::from_millis(200);

/// The request of the harness. The program, its arguments and its environment follow, because they need not be UTF-8.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GuardRequest {
    v: u32,
    cwd: String,
    stdin: Option<String>,
    confinement: Option<Confinement>,
    /// The directory below which the program's file lookups are recorded.
    traced: Option<String>,
    /// Where to record that no process of the run is left.
    end_note: Option<EndNote>,
    /// The number of arguments of the command.
    words: usize,
    /// The number of bytes that follow: the arguments, then the variables, each NUL-terminated.
    bytes: usize,
}

impl GuardRequest {
    /// Builds a request, and the bytes that follow it.
    pub(crate) fn new(
        spec: &CommandSpec,
        end_note: Option<EndNote>,
    ) -> io::Result<(GuardRequest, Vec<u8>)> {
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
            traced: spec.traced.as_deref().map(path).transpose()?,
            end_note,
            words: 1 + spec.args.len(),
            bytes: bytes.len(),
        };
        Ok((request, bytes))
    }

    /// Parses a command from the bytes that followed.
    fn command(&self, bytes: &[u8]) -> io::Result<Command> {
        let mut strings = bytes.split(|byte| *byte == 0);
        let mut words = strings.by_ref().take(self.words).map(OsStr::from_bytes);
        let program = words.next().ok_or_else(|| io::Error::other("no program given"))?;
        let mut command = Command::new(program);
        command.args(words).env_clear();
        let mut is_on_path = false;
        for variable in strings {
            // A name may begin with `=`, which otherwise ends it.
            let end = variable.iter().skip(1).position(|byte| *byte == b'=');
            if let Some(end) = end {
                let (name, value) = variable.split_at(end + 1);
                let (name, value) = (OsStr::from_bytes(name), OsStr::from_bytes(&value[1..]));
                is_on_path |= name == "PATH" && leads_to(value, Path::new(program));
                command.env(name, value);
            }
        }
        // Like a shell: a program found by its name gets its name as argv[0]. Any other gets its path, by which the
        // Python of a virtual environment finds its packages.
        if let Some(name) = Path::new(program).file_name().filter(|_| is_on_path) {
            command.arg0(name);
        }
        Ok(command)
    }
}

/// Whether looking up a program's name on PATH finds this program.
fn leads_to(path: &OsStr, program: &Path) -> bool {
    let Some(name) = program.file_name() else { return false };
    let mut found = std::env::split_paths(path).map(|directory| directory.join(name));
    found.find(|place| place.is_file()).as_deref() == Some(program)
}

/// Appends a string to the bytes that follow a request.
fn append(bytes: &mut Vec<u8>, parts: &[&[u8]]) -> io::Result<()> {
    if parts.iter().any(|part| part.contains(&0)) {
        return Err(io::Error::other("a word or variable of the command has a zero byte"));
    }
    bytes.extend(parts.iter().copied().flatten());
    bytes.push(0);
    Ok(())
}

/// Orders of the harness during the run.
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

/// Notices of the guard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Notice {
    /// The program runs.
    Started { pid: i32 },
    /// It could not be started.
    Failed { message: String, is_programs_fault: bool },
    /// It ended, and all its descendants.
    Ended {
        code: Option<i32>,
        signal: Option<i32>,
        /// Whether the harness terminated it: it was still running when the order came.
        was_ordered: bool,
        cpu: Duration,
        leftovers: usize,
        looked: Option<Looked>,
    },
}

/// Becomes the launcher of guards, and a guard, if the command line says so; otherwise returns at once.
///
/// Must be called first: before threads, handlers or configuration.
pub fn dispatch() {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == WORD) {
        let word = words.next();
        let is = |name: &str| word.as_deref().is_some_and(|word| word == name);
        std::process::exit(if is(namespace::PROBE_WORD) {
            namespace::serve_probe()
        } else if is(trace::PROBE_WORD) {
            trace::serve_probe()
        } else {
            launcher::serve()
        });
    }
}

pub(crate) struct Guard {
    control: Control,
    deaths: UnixStream,
    realm: Realm,
    /// Processes of the run that are no longer descendants of this one, on platforms where these exist.
    strays: Option<Strays>,
    /// The person asked twice: no grace period.
    hurry: bool,
}

/// Where the processes of a run are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Realm {
    /// Below the guard, which adopts orphans.
    Tree,
    /// In a namespace whose first process is the guard: nothing has to be searched for, and nothing can hide.
    Namespace,
}

/// How the run's own program ended.
struct ProgramEnd {
    code: Option<i32>,
    signal: Option<i32>,
    was_ordered: bool,
}

/// A guard's request, with all files opened that are named outside the run's own view.
struct Assignment {
    request: GuardRequest,
    bytes: Vec<u8>,
    stdin: Stdio,
    output: [OwnedFd; 2],
}

impl Guard {
    /// Runs the guard of one run, whose stdout and stderr are given. Returns the exit code of the process.
    pub(crate) fn run(control: UnixStream, output: [OwnedFd; 2]) -> i32 {
        let mut control = Control::new(control);
        let assignment = match Assignment::receive(&mut control, output) {
            Ok(Some(assignment)) => assignment,
            Ok(None) => return 0,
            Err(error) => return fail(&mut control, &error),
        };
        for signal in
            [signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP, signal_hook::consts::SIGINT]
        {
            // A handler, not SIG_IGN: handlers are not inherited by the program.
            let _ = signal_hook::flag::register(signal, std::sync::Arc::default());
        }
        if let Err(error) = host::adopt_orphans() {
            return fail(&mut control, &error);
        }
        if assignment.view().is_some() {
            return Self::run_in_view(control, assignment);
        }
        let Ok(mut guard) = Guard::new(control, Realm::Tree) else { return 70 };
        let end_note = assignment.request.end_note.clone();
        let notice = guard.supervise(assignment);
        note_end(end_note.as_ref());
        if let Some(notice) = notice {
            guard.tell(&notice);
        }
        0
    }

    fn new(control: Control, realm: Realm) -> io::Result<Guard> {
        let (deaths, deaths_write) = UnixStream::pair()?;
        deaths.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(signal_hook::consts::SIGCHLD, deaths_write)?;
        Ok(Guard { control, deaths, realm, strays: None, hurry: false })
    }

    /// Lets a child be the guard in its own namespaces, and reports the end once the child is gone: with it everything
    /// in there has ended.
    fn run_in_view(mut control: Control, assignment: Assignment) -> i32 {
        let ids = Ids::own();
        let view = assignment.view().cloned().unwrap_or_default();
        let forked = UnixStream::pair()
            .and_then(|pair| Ok((pair, namespace::fork_into(&view).map_err(io::Error::from)?)));
        let ((mut report, result), inner) = match forked {
            Ok(forked) => forked,
            Err(error) => return fail(&mut control, &error),
        };
        let Some(inner) = inner else {
            drop(report);
            return Self::run_inside(control, assignment, &view, ids, result);
        };
        let end_note = assignment.request.end_note.clone();
        drop((result, assignment));
        let mut line = Vec::new();
        let _ = io::Read::read_to_end(&mut report, &mut line);
        // The kernel reports its end only when its namespace is empty.
        while matches!(
            waitpid(Pid::from_raw(inner), WaitOptions::empty()),
            Err(rustix::io::Errno::INTR)
        ) {}
        // Only without a pid namespace can there be leftovers: they were reparented to us.
        if !view.pid {
            end_children();
        }
        note_end(end_note.as_ref());
        if let Ok(notice) = serde_json::from_slice::<Notice>(&line) {
            let _ = control.send(&notice);
        }
        0
    }

    /// Runs the guard inside. The notice about the end goes to the process outside.
    fn run_inside(
        mut control: Control,
        assignment: Assignment,
        view: &View,
        ids: Ids,
        mut result: UnixStream,
    ) -> i32 {
        let writable =
            assignment.request.confinement.as_ref().map_or(&[][..], |bounds| &bounds.writable);
        if let Err(error) = namespace::enter(view, writable, ids) {
            return fail(&mut control, &error.into());
        }
        // Dies with the process outside. If that has died before this call, its end of the socket is closed as well.
        let _ = host::end_with_parent();
        if wait_for([result.as_fd(), result.as_fd()], Some(Duration::ZERO)).0 {
            return 70;
        }
        let realm = if view.pid { Realm::Namespace } else { Realm::Tree };
        if realm == Realm::Tree {
            let _ = host::adopt_orphans();
        }
        let Ok(mut guard) = Guard::new(control, realm) else { return 70 };
        if let Some(notice) = guard.supervise(assignment) {
            // In one piece: each part of it would wake the process outside.
            let _ = serde_json::to_vec(&notice).map(|line| result.write_all(&line));
        }
        0
    }

    /// Starts the program and waits until everything has ended. Returns the notice about that; `None` if the harness
    /// has gone.
    fn supervise(&mut self, assignment: Assignment) -> Option<Notice> {
        let mark = assignment.mark();
        let (program, tracer) = match assignment.start() {
            Ok(started) => started,
            Err(error) => return Some(failed(&error)),
        };
        self.strays = Some(Strays::of(program.as_raw_nonzero().get(), mark));
        if self.realm == Realm::Namespace {
            // The program must not see this process's descriptors or memory.
            host::close_to_others();
        }
        self.tell(&Notice::Started { pid: program.as_raw_nonzero().get() });
        let Some(end) = self.follow(program) else {
            // Nothing may outlive the harness.
            self.end_everything();
            return None;
        };
        let leftovers = self.end_leftovers()?;
        let cpu = sys::children_cpu();
        let looked = tracer.and_then(Tracer::finish);
        let ProgramEnd { code, signal, was_ordered } = end;
        Some(Notice::Ended { code, signal, was_ordered, cpu, leftovers, looked })
    }

    /// Carries out orders until the program ends. `None`: the harness is gone.
    fn follow(&mut self, program: Pid) -> Option<ProgramEnd> {
        let (mut paused, mut was_ordered) = (false, false);
        loop {
            // Before waiting: the program may have ended before its death could be announced.
            if let Some(end) = self.reap(Some(program)) {
                return Some(ProgramEnd { was_ordered, ..end });
            }
            if !self.control.has_message() {
                let (order, _) = wait_for([self.control.fd(), self.deaths.as_fd()], None);
                if !order {
                    continue;
                }
            }
            let order = self.control.receive().ok()??;
            // The order may come too late: then the program has ended by itself.
            if let Some(end) = self.reap(Some(program)) {
                self.hurry |= order == GuardOrder::Kill;
                return Some(ProgramEnd { was_ordered, ..end });
            }
            was_ordered |= matches!(order, GuardOrder::Signal(_) | GuardOrder::Kill);
            match order {
                GuardOrder::Signal(signal) => {
                    if let Some(signal) = Signal::from_named_raw(signal) {
                        let _ = kill_process_group(program, signal);
                    }
                    if paused {
                        self.signal_all(Signal::CONT);
                        paused = false;
                    }
                }
                GuardOrder::Pause => {
                    match self.realm {
                        Realm::Tree => tree::stop_all(|| self.everyone()),
                        Realm::Namespace => tree::stop_everybody(),
                    }
                    paused = true;
                }
                GuardOrder::Resume => {
                    self.signal_all(Signal::CONT);
                    paused = false;
                }
                GuardOrder::Kill => {
                    let _ = kill_process(program, Signal::KILL);
                    self.hurry = true;
                }
            }
        }
    }

    /// Signals all processes of the run. Returns their number.
    fn signal_all(&self, signal: Signal) -> usize {
        match self.realm {
            Realm::Tree => {
                let all = self.everyone();
                tree::signal_all(&all, signal);
                all.len()
            }
            Realm::Namespace => {
                let count = tree::everybody();
                tree::signal_everybody(signal);
                count
            }
        }
    }

    /// Every process of the run, without a pid namespace.
    fn everyone(&self) -> Vec<i32> {
        let mut all = tree::descendants(own_pid());
        let strays = self.strays.iter().flat_map(Strays::find);
        all.extend(strays);
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether any process of the run is left, dead or alive.
    fn is_anyone_left(&self) -> bool {
        has_children() || self.strays.as_ref().is_some_and(|strays| !strays.find().is_empty())
    }

    /// Reaps all dead children; returns the end of `program` if it was among them.
    fn reap(&mut self, program: Option<Pid>) -> Option<ProgramEnd> {
        drain(&self.deaths);
        let mut end = None;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            // A program can make the guard its tracer. Then its stops are reported too.
            if Some(pid) == program && (status.exited() || status.signaled()) {
                end = Some(ProgramEnd::of(status));
            }
        }
        end
    }

    /// Terminates leftover processes: SIGTERM first, then SIGKILL. Returns their number, or `None` if they could not be
    /// terminated.
    fn end_leftovers(&mut self) -> Option<usize> {
        // Whether there are any is not decided by a list, which a run may have made unreadable.
        if !self.is_anyone_left() {
            return Some(0);
        }
        let left = self.signal_all(Signal::TERM);
        self.signal_all(Signal::CONT);
        let patience = Instant::now() + LEFTOVER_GRACE;
        while !self.hurry && self.is_anyone_left() {
            let remaining = patience.saturating_duration_since(Instant::now());
            let (harness_gone, _) =
                wait_for([self.control.fd(), self.deaths.as_fd()], Some(remaining));
            self.reap(None);
            if remaining.is_zero() || harness_gone {
                break;
            }
        }
        self.end_everything().then_some(left.max(1))
    }

    /// Kills every descendant, until there is none. Returns whether it succeeded.
    fn end_everything(&mut self) -> bool {
        match self.realm {
            Realm::Tree => end_children() && self.end_strays(),
            Realm::Namespace => {
                while has_children() {
                    tree::signal_everybody(Signal::KILL);
                    wait_for([self.deaths.as_fd(); 2], Some(Duration::from_millis(20)));
                    self.reap(None);
                }
                true
            }
        }
    }

    /// Kills processes that are no longer descendants of this one. Returns whether nothing is left.
    fn end_strays(&self) -> bool {
        let Some(strays) = &self.strays else { return true };
        let until = Instant::now() + UNFOUND_PATIENCE;
        loop {
            let found = strays.find();
            if found.is_empty() || Instant::now() > until {
                return found.is_empty();
            }
            tree::kill_with_descendants(&found);
            reap_all();
        }
    }

    fn tell(&mut self, notice: &Notice) {
        let _ = self.control.send(notice);
    }
}

impl ProgramEnd {
    fn of(status: WaitStatus) -> ProgramEnd {
        let (code, signal) = (status.exit_status(), status.terminating_signal());
        ProgramEnd { code, signal, was_ordered: false }
    }
}

impl Assignment {
    /// Receives a request, and opens the files it names. `None`: the harness has gone.
    fn receive(control: &mut Control, output: [OwnedFd; 2]) -> io::Result<Option<Assignment>> {
        let Some(request) = control.receive::<GuardRequest>()? else { return Ok(None) };
        if request.v != VERSION {
            return Err(io::Error::other(format!("unknown guard protocol {}", request.v)));
        }
        let bytes = control.receive_bytes(request.bytes)?;
        let stdin = match &request.stdin {
            Some(path) => Stdio::from(File::open(path).map_err(|error| named(&error, path))?),
            None => Stdio::null(),
        };
        Ok(Some(Assignment { request, bytes, stdin, output }))
    }

    /// The environment entry with which all processes of the run begin.
    fn mark(&self) -> Option<Vec<u8>> {
        let is_mark = |entry: &&[u8]| {
            entry.strip_prefix(host::MARK.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
        };
        self.bytes
            .split(|byte| *byte == 0)
            .skip(self.request.words)
            .find(is_mark)
            .map(<[u8]>::to_vec)
    }

    /// The run's own view, if it has one.
    fn view(&self) -> Option<&View> {
        self.request.confinement.as_ref()?.view.as_ref()
    }

    /// Starts the program and closes its output here: only the run itself may keep that open.
    fn start(self) -> io::Result<(Pid, Option<Tracer>)> {
        let Assignment { request, bytes, stdin, output: [stdout, stderr] } = self;
        let mut command = request.command(&bytes)?;
        let mut confinement = request.confinement.as_ref().map(Prepared::new).transpose()?;
        command.current_dir(&request.cwd).stdin(stdin).stdout(stdout).stderr(stderr);
        let looks = request.traced.as_ref().map(|root| Tracer::new(Path::new(root)));
        let (tracer, mut looked_at) = looks.transpose()?.unzip();
        sys::before_exec(&mut command, move || {
            // In its own session, the program cannot hit the guard with a signal to its group.
            setsid()?;
            sys::reset_signals();
            // If guard and harness are killed at once, no process is left to terminate it.
            host::end_with_parent()?;
            // In every mode: we could not kill a set-uid child.
            host::refuse_new_privileges()?;
            sys::close_inherited(sys::Inherited::CloseOnExec)?;
            confinement.as_mut().map_or(Ok(()), Prepared::enter)?;
            // Without this the program runs anyway, and its lookups are unknown.
            if let Some(looked_at) = &mut looked_at {
                let _ = looked_at.enter();
            }
            Ok(())
        });
        let spawned = command.spawn();

        let child = spawned.map_err(|error| {
            let program = command.get_program().to_string_lossy().into_owned();
            io::Error::other(NotExecuted { program, error })
        })?;
        let raw = i32::try_from(child.id()).map_err(io::Error::other)?;
        // If memory runs out, the run must be killed before its guard.
        host::make_expendable(raw);
        let pid = Pid::from_raw(raw);
        let pid = pid.ok_or_else(|| io::Error::other("the program has no process id"))?;
        Ok((pid, tracer))
    }
}

/// Records that no process of a run is left, if so: before the harness is notified, which may die at any time. If it
/// cannot be recorded, it is unknown after a crash, and nothing else depends on it.
fn note_end(note: Option<&EndNote>) {
    if let Some(note) = note.filter(|_| !has_children()) {
        let _ = note.write();
    }
}

/// Reports that a run could not begin. Returns the exit code.
fn fail(control: &mut Control, error: &io::Error) -> i32 {
    let _ = control.send(&failed(error));
    70
}

/// Returns the report of a run that could not begin. Only a failed exec is the program's fault, and only with an error
/// that its file causes: no interpreter, no known format. Everything else is a fault of the machine.
fn failed(error: &io::Error) -> Notice {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<NotExecuted>());
    let is_programs_fault = cause.is_some_and(|cause| {
        let errno = cause.error.raw_os_error();
        errno.is_some_and(|errno| {
            [libc::ENOENT, libc::ENOEXEC, libc::EACCES, libc::ENOTDIR, libc::ELOOP].contains(&errno)
        })
    });
    Notice::Failed { message: error.to_string(), is_programs_fault }
}

/// A program that could not be executed.
#[derive(Debug, thiserror::Error)]
#[error("cannot start `{program}`: {error}")]
struct NotExecuted {
    program: String,
    error: io::Error,
}

/// How long to tolerate processes that exist but cannot be found.
const UNFOUND_PATIENCE: Duration = Duration::from_secs(5);

/// Kills all descendants of this process, which adopts orphans. Returns whether nothing is left: processes not found by
/// then are reparented to the harness, which searches itself.
pub(crate) fn end_children() -> bool {
    let mut found = Instant::now();
    while has_children() {
        if tree::kill_descendants(own_pid()) > 0 {
            found = Instant::now();
        } else if found.elapsed() > UNFOUND_PATIENCE {
            return false;
        }
        // A killed process may take its time in the kernel.
        if !reap_all() {
            std::thread::sleep(Duration::from_micros(500));
        }
    }
    true
}

/// Reaps all dead children, and returns whether there was one. Each counts as a process until then: a fork bomb would
/// stay at the process limit if they were reaped one by one between two scans.
fn reap_all() -> bool {
    let mut is_any = false;
    while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {
        is_any = true;
    }
    is_any
}

fn named(error: &io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("cannot start `{what}`: {error}"))
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Whether this process has any child, dead or alive.
fn has_children() -> bool {
    let peek = WaitOptions::NOHANG;
    !matches!(wait(peek), Err(rustix::io::Errno::CHILD))
}

/// Waits until one of two descriptors is readable; returns which.
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
