//! The guard: one small process between the harness and everything a run starts.
//!
//! The harness has its [`launcher`] fork the guard, hands it one request over a socket and reads notices back. The guard
//! adopts whatever the run orphans (it is a subreaper), so nothing escapes it by forking twice or by a session of its
//! own. When the run's program exits, or the socket closes because the harness died, the guard ends all that is left
//! and then itself. It is single-threaded, so the child it forks may confine itself before it executes the program.
//!
//! Where a run has namespaces of its own ([`namespace`]), a child of the guard, the first process in there, does all of this.
//! The process outside only waits for it: when it has ended, the kernel has ended everything in its namespace.

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

/// The word on the command line that makes the program a launcher of guards, and so its forks guards.
pub const WORD: &str = "__guard";

/// The version of the lines between harness and guard. Both come from one binary, but from `/proc/self/exe`: they can
/// only differ if a guard is started by hand.
const VERSION: u32 = 6;

/// What processes that the run left behind get to end by themselves: git removes its locks in that time.
const LEFTOVER_GRACE: Duration = Duration::from_millis(200);

/// What the harness asks for. The program, its arguments and its environment follow, as they need not be text.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GuardRequest {
    v: u32,
    cwd: String,
    stdin: Option<String>,
    confinement: Option<Confinement>,
    /// Below which directory to note what the program looks for.
    traced: Option<String>,
    /// Where to note that nothing of the run is left.
    end_note: Option<EndNote>,
    /// How many words the command has.
    words: usize,
    /// How many bytes follow: the words, then the variables, each with a zero byte after it.
    bytes: usize,
}

impl GuardRequest {
    /// Puts a request together, and the bytes that follow it.
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

    /// Takes a command apart from the bytes that followed.
    fn command(&self, bytes: &[u8]) -> io::Result<Command> {
        let mut strings = bytes.split(|byte| *byte == 0);
        let mut words = strings.by_ref().take(self.words).map(OsStr::from_bytes);
        let program = words.next().ok_or_else(|| io::Error::other("no program given"))?;
        let mut command = Command::new(program);
        command.args(words).env_clear();
        let mut is_on_path = false;
        for variable in strings {
            // A name may begin with the sign that ends it.
            let end = variable.iter().skip(1).position(|byte| *byte == b'=');
            if let Some(end) = end {
                let (name, value) = variable.split_at(end + 1);
                let (name, value) = (OsStr::from_bytes(name), OsStr::from_bytes(&value[1..]));
                is_on_path |= name == "PATH" && leads_to(value, Path::new(program));
                command.env(name, value);
            }
        }
        // As a shell does: what its name leads to is told its name. Anything else is told its path, by which the Python of a
        // virtual environment finds what belongs to it.
        if let Some(name) = Path::new(program).file_name().filter(|_| is_on_path) {
            command.arg0(name);
        }
        Ok(command)
    }
}

/// Tells whether the name of a program alone, looked up on a search path, leads to it.
fn leads_to(path: &OsStr, program: &Path) -> bool {
    let Some(name) = program.file_name() else { return false };
    let mut found = std::env::split_paths(path).map(|directory| directory.join(name));
    found.find(|place| place.is_file()).as_deref() == Some(program)
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
    Ended {
        code: Option<i32>,
        signal: Option<i32>,
        /// The harness had it end: it was still there when the order came.
        was_ordered: bool,
        cpu: Duration,
        leftovers: usize,
        looked: Option<Looked>,
    },
}

/// Becomes the launcher of guards, and a guard, if the command line says so; else returns at once.
///
/// Must be the first thing the program does: before threads, handlers or configuration.
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
    /// Processes of the run that are not below this one any more, where these exist.
    strays: Option<Strays>,
    /// The person asked twice: no grace for anyone.
    hurry: bool,
}

/// Where the processes of a run are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Realm {
    /// Below the guard, which adopts what they orphan.
    Tree,
    /// In a namespace whose first process the guard is: nothing is found, and nothing can hide, by a list.
    Namespace,
}

/// How the run's own program ended.
struct ProgramEnd {
    code: Option<i32>,
    signal: Option<i32>,
    was_ordered: bool,
}

/// What a guard was asked for, with everything open that is named outside the run's own view.
struct Assignment {
    request: GuardRequest,
    bytes: Vec<u8>,
    stdin: Stdio,
    output: [OwnedFd; 2],
}

impl Guard {
    /// Is the guard of one run, whose stdout and stderr are given. Returns the exit code of the process.
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

    /// Has a child be the guard in namespaces of its own, and tells of the end once the child is gone: with it everything
    /// is that was in there.
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
        // The kernel tells of its end only when its namespace is empty.
        while matches!(
            waitpid(Pid::from_raw(inner), WaitOptions::empty()),
            Err(rustix::io::Errno::INTR)
        ) {}
        // Only where it has no process ids of its own there can be anybody: they have come to us.
        if !view.pid {
            end_children();
        }
        note_end(end_note.as_ref());
        if let Ok(notice) = serde_json::from_slice::<Notice>(&line) {
            let _ = control.send(&notice);
        }
        0
    }

    /// Is the guard inside. What there is to tell of the end goes to the process outside.
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
        // Ends with the process outside. If that has gone before this call, its end of the socket has as well.
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

    /// Starts the program and holds out until everything has ended. Returns what is to be told of that; nothing where the
    /// harness has gone.
    fn supervise(&mut self, assignment: Assignment) -> Option<Notice> {
        let mark = assignment.mark();
        let (program, tracer) = match assignment.start() {
            Ok(started) => started,
            Err(error) => return Some(Notice::Failed { message: error.to_string() }),
        };
        self.strays = Some(Strays::of(program.as_raw_nonzero().get(), mark));
        if self.realm == Realm::Namespace {
            // What this process has open is of no concern to the program.
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

    /// Signals everything of the run. Returns how many processes that is.
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

    /// Every process of the run, where it has no process ids of its own.
    fn everyone(&self) -> Vec<i32> {
        let mut all = tree::descendants(own_pid());
        let strays = self.strays.iter().flat_map(Strays::find);
        all.extend(strays);
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether anything of the run is left, dead or alive.
    fn is_anyone_left(&self) -> bool {
        has_children() || self.strays.as_ref().is_some_and(|strays| !strays.find().is_empty())
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

    /// Ends what the program left behind: asked first, then killed. Returns how many there were, or `None` if they could not
    /// be ended.
    fn end_leftovers(&mut self) -> Option<usize> {
        // Whether there are any is not decided by a list, which a run may have kept from being read.
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

    /// Kills every descendant, until there is none. Returns whether it could.
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

    /// Kills what is not below this process any more. Returns whether nothing is left.
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
    /// Takes a request, and opens what it names. `None`: the harness has gone.
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

    /// The entry of the environment that all processes of the run begin with.
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

    /// Starts the program and lets go of its output: only the run itself may hold that open.
    fn start(self) -> io::Result<(Pid, Option<Tracer>)> {
        let Assignment { request, bytes, stdin, output: [stdout, stderr] } = self;
        let mut command = request.command(&bytes)?;
        let mut confinement = request.confinement.as_ref().map(Prepared::new).transpose()?;
        command.current_dir(&request.cwd).stdin(stdin).stdout(stdout).stderr(stderr);
        let looks = request.traced.as_ref().map(|root| Tracer::new(Path::new(root)));
        let (tracer, mut looked_at) = looks.transpose()?.unzip();
        sys::before_exec(&mut command, move || {
            // Of its own session, the program cannot hit the guard with a signal to its group.
            setsid()?;
            sys::reset_signals();
            // Whoever kills the guard and the harness at once leaves nobody who could end it.
            host::end_with_parent()?;
            // In every mode: a set-uid child could not be ended by us.
            host::refuse_new_privileges()?;
            sys::close_inherited(sys::Inherited::CloseOnExec)?;
            confinement.as_mut().map_or(Ok(()), Prepared::enter)?;
            // Without this the program runs all the same, and it is not known what it looks for.
            if let Some(looked_at) = &mut looked_at {
                let _ = looked_at.enter();
            }
            Ok(())
        });
        let spawned = command.spawn();

        let child =
            spawned.map_err(|error| named(&error, &command.get_program().to_string_lossy()))?;
        let raw = i32::try_from(child.id()).map_err(io::Error::other)?;
        // If memory runs out, the run is to go before its guard.
        host::make_expendable(raw);
        let pid = Pid::from_raw(raw);
        let pid = pid.ok_or_else(|| io::Error::other("the program has no process id"))?;
        Ok((pid, tracer))
    }
}

/// Notes that nothing of a run is left, if that is so: before the harness hears of it, which may die at any time. What
/// cannot be noted is not known to whoever comes after a crash, and nothing else depends on it.
fn note_end(note: Option<&EndNote>) {
    if let Some(note) = note.filter(|_| !has_children()) {
        let _ = note.write();
    }
}

/// Tells that a run could not begin. Returns the exit code.
fn fail(control: &mut Control, error: &io::Error) -> i32 {
    let _ = control.send(&Notice::Failed { message: error.to_string() });
    70
}

/// How long processes may be there that cannot be found.
const UNFOUND_PATIENCE: Duration = Duration::from_secs(5);

/// Kills everything below this process, which adopts orphans. Returns whether nothing is left: what cannot be found by then
/// comes to the harness, which looks for itself.
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

/// Waits for every child that has ended already, and says whether there was one. Each counts as a process until then: what
/// forks to the limit would stay at it if they were waited for one by one between two looks at all of them.
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
