//! One command in a checkout, supervised and confined: a gate, or a step of `setup`.
//!
//! The kernel lets it write the tree, scratch and the caches of toolchains; never the checkout's git directory, the
//! mirror, the logs or the workspace. Everything it started ends with it. What it prints goes to a file, both streams as
//! they came, and is counted and hashed in flat memory.
//!
//! Its environment is what every run gets of the person's (`[env] pass` adds to it), without what would lead a build out of
//! the checkout, and without programs of the workspace on the search path; `RALPH_RUN_ID` marks its processes, so that the next start finds what a killed Ralph left.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::gate::{GateOutput, Obstacle};
use ralph_model::id::RunId;
use ralph_model::run::ProcessExit;
use ralph_model::testcount::{TestCounter, TestReport};
use ralph_proc::command::CommandSpec;
use ralph_proc::output::{Stream, Watcher};
use ralph_proc::protocol::{StopLimits, StopReason};
use ralph_proc::pulse::Pulse;
use ralph_proc::sandbox::{Confinement, SocketAccess};
use ralph_proc::supervise::{Finished, SuperviseError, Supervision, supervise};
use ralph_proc::trace::Looked;
use ralph_proc::tree::ProcessIdentity;

use super::{GateContext, GateError, tail};
use crate::boundary::{
    self, BoundaryReport, CacheSet, InForce, OutsidePlaces, ViewRequest, around_program,
    cache_variables, outside_file, real,
};
use crate::digest;
use crate::files::disk::own_process;
use crate::files::{PathError, create_log, create_private_directory};
use crate::run::{Environment, as_strs, fresh_nonce, withheld_advice};
use crate::state::{LiveRun, file_name};

/// Variables by which a build would leave the checkout, and with it the reset.
const LEADING_OUT: [&str; 2] = ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR"];

/// What is to be run, and what it may do.
pub(super) struct Job<'a> {
    pub(super) argv: &'a [String],
    pub(super) cwd: &'a Utf8Path,
    /// What it may write.
    pub(super) tree: &'a Utf8Path,
    pub(super) timeout: Duration,
    pub(super) net: bool,
    pub(super) unix: bool,
    /// Where its toolchains have their caches, which it may write.
    pub(super) caches: &'a Utf8Path,
    /// Whether it is noted what it looks for in its tree.
    pub(super) traced: bool,
    /// Names the file that keeps its output: the commit, and what is run at it.
    pub(super) commit: &'a str,
    pub(super) name: &'a str,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CommandEnd {
    Exited(ProcessExit),
    TimedOut,
    CouldNotRun(Obstacle),
}

/// The result of a command.
pub(super) struct Done {
    pub(super) ended: CommandEnd,
    pub(super) tests: TestReport,
    pub(super) duration: Duration,
    pub(super) output: GateOutput,
    /// What it looked for, where that was asked for and could be told.
    pub(super) looked: Option<Looked>,
}

/// What is known of a command when it has ended.
struct Told {
    ended: CommandEnd,
    tests: TestReport,
    duration: Duration,
    looked: Option<Looked>,
}

/// How the line begins that names what a command did not get of the person's environment.
const WITHHELD: &str = "[ralph] withheld from its environment";

struct Counting(TestCounter);

impl Watcher for Counting {
    fn line(&mut self, _: Stream, line: &[u8]) {
        self.0.feed(line);
        self.0.feed(b"\n");
    }
}

/// Runs a command to its end and the end of everything it started.
pub(super) fn run(context: &GateContext<'_>, job: &Job<'_>) -> Result<Done, GateError> {
    let (path, log) = new_log(context, job)?;
    context.place.scratch.make_ready().map_err(GateError::Prepare)?;
    let result = supervised(context, job, &log);
    context.place.scratch.clear();
    let Told { ended, tests, duration, looked } = result?;
    let is_success = matches!(ended, CommandEnd::Exited(exit) if exit.is_success());
    if !is_success {
        tell_withheld(context, &path, &log)?;
    }
    drop(log);
    let read = if is_success { tail::of_file } else { tail::of_failed };
    Ok(Done { ended, tests, duration, output: output(context, job, path, read)?, looked })
}

/// Adds to the output of a command that failed what it did not get of the person's environment.
fn tell_withheld(
    context: &GateContext<'_>,
    path: &Utf8Path,
    mut log: &File,
) -> Result<(), GateError> {
    let failed = |source| PathError::new("write", path, source);
    let withheld = context.environment.withheld_from(&passed(context));
    let said = tail::of_file(path, &[]).map_err(failed)?;
    if let Some(advice) = withheld_advice(&withheld, &said) {
        let gap = if said.is_empty() || said.ends_with('\n') { "" } else { "\n" };
        log.seek(SeekFrom::End(0)).map_err(failed)?;
        log.write_all(format!("{gap}[ralph] {advice}\n").as_bytes()).map_err(failed)?;
    }
    Ok(())
}

/// Returns the result of a command that was not tried, with the reason as its output.
pub(super) fn not_run(
    context: &GateContext<'_>,
    job: &Job<'_>,
    obstacle: Obstacle,
) -> Result<Done, GateError> {
    let output = keep_text(context, job, &format!("{obstacle}\n"))?;
    let ended = CommandEnd::CouldNotRun(obstacle);
    let (tests, duration) = (TestReport::default(), Duration::ZERO);
    Ok(Done { ended, tests, duration, output, looked: None })
}

/// Keeps a text as the output of something that was not run as a process.
pub(super) fn keep_text(
    context: &GateContext<'_>,
    job: &Job<'_>,
    text: &str,
) -> Result<GateOutput, GateError> {
    let (path, mut log) = new_log(context, job)?;
    io::Write::write_all(&mut log, text.as_bytes())
        .map_err(|source| PathError::new("write", &path, source))?;
    output(context, job, path, tail::of_file)
}

/// Describes what a command printed.
fn output(
    context: &GateContext<'_>,
    job: &Job<'_>,
    path: Utf8PathBuf,
    read: ReadTail,
) -> Result<GateOutput, GateError> {
    let of_log = |source| PathError::new("read", &path, source);
    let sha256 = digest::of_file(&path).map_err(of_log)?;
    let last = shortened(context, job, &path, read)?;
    Ok(GateOutput { sha256, path: path.into_string(), last })
}

/// Returns the end of a command's output with more lines than its result has.
pub(super) fn recent_output(
    context: &GateContext<'_>,
    job: &Job<'_>,
    output: &GateOutput,
) -> Result<String, GateError> {
    shortened(context, job, Utf8Path::new(&output.path), tail::window_of_file)
}

type ReadTail = fn(&Utf8Path, &[tail::Alias<'_>]) -> io::Result<String>;

/// Reads a command's output without the paths of this machine.
fn shortened(
    context: &GateContext<'_>,
    job: &Job<'_>,
    path: &Utf8Path,
    read: ReadTail,
) -> Result<String, GateError> {
    let home = context.environment.text("HOME").unwrap_or_default();
    let aliases = [
        (job.tree.as_str(), ""),
        (context.place.scratch.path().as_str(), "$TMPDIR"),
        (context.state.directory().as_str(), "…"),
        (home.as_str(), "~"),
    ];
    let text = read(path, &aliases).map_err(|source| PathError::new("read", path, source))?;
    Ok(without_unmentioned(context, &text))
}

/// Leaves out the names of withheld variables, which the log has, except those that the command itself mentions: the end
/// of its output can be committed with a plan.
fn without_unmentioned(context: &GateContext<'_>, last: &str) -> String {
    let is_ours = |line: &&str| line.starts_with(WITHHELD);
    let mut kept = last.lines().filter(|line| !is_ours(line)).collect::<Vec<_>>().join("\n");
    if last.lines().any(|line| is_ours(&line)) {
        let mut withheld = context.environment.withheld_from(&passed(context));
        withheld.retain(|name| kept.contains(name.as_str()));
        if let Some(advice) = withheld_advice(&withheld, &kept) {
            kept = format!("{kept}\n[ralph] {advice}");
        }
    }
    kept
}

/// Makes the next file for the output of a command at a commit.
fn new_log(context: &GateContext<'_>, job: &Job<'_>) -> Result<(Utf8PathBuf, File), GateError> {
    let directory = context.state.gate_logs(job.commit);
    create_private_directory(&directory)?;
    let name = file_name(job.name);
    let mut number = 1;
    loop {
        let path = directory.join(format!("{name}-{number}.log"));
        match create_log(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.source.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

fn supervised(context: &GateContext<'_>, job: &Job<'_>, log: &File) -> Result<Told, GateError> {
    let id = RunId::new(context.clock.now(), fresh_nonce().map_err(GateError::Prepare)?);
    let environment = environment(context, &id, job.caches);
    let Some(program) = environment.find_program(&job.argv[0], job.cwd.as_std_path()) else {
        let obstacle = Obstacle::NoProgram { program: job.argv[0].clone() };
        let ended = CommandEnd::CouldNotRun(obstacle);
        let (tests, duration) = (TestReport::default(), Duration::ZERO);
        return Ok(Told { ended, tests, duration, looked: None });
    };
    let found = Utf8PathBuf::from_path_buf(program.clone()).unwrap_or_default();
    let spec = CommandSpec {
        program,
        args: job.argv[1..].iter().map(Into::into).collect(),
        cwd: job.cwd.into(),
        confinement: (context.boundary.is_kernel())
            .then(|| confinement(context, job, &environment, &found)),
        env: environment.into_variables(),
        stdin: None,
        traced: job.traced.then(|| job.tree.into()),
    };
    let mut live = LiveRun {
        run_id: id.to_string(),
        item: None,
        owner: own_process(),
        guard: None,
        scratch: Some(context.place.scratch.path().to_owned()),
        watch: None,
        events: None,
        free_locks: Vec::new(),
        started: context.clock.now(),
    };
    let mut on_guard = |guard: &ProcessIdentity| {
        live.guard = Some(guard.clone());
        // Without its record a gate is no worse off than without a crash: the guard ends it with us.
        let _ = context.place.live.save(&live);
    };
    let mut launcher = context.place.launcher.borrow_mut();
    let supervision = Supervision {
        launcher: &mut launcher,
        limits: StopLimits {
            wall: Some(job.timeout),
            idle: None,
            interrupt_grace: context.interrupt_grace,
            terminate_grace: context.terminate_grace,
            // Both streams go to one file.
            log: context.log / 2,
        },
        // One file for both: they share its position, and one thread writes.
        stdout_log: log.try_clone().map_err(GateError::Prepare)?.into(),
        stderr_log: log.try_clone().map_err(GateError::Prepare)?.into(),
        pulse: Pulse::new().map_err(GateError::Prepare)?,
        visitor: None,
        signals: context.signals,
        end_note: None,
        on_guard: &mut on_guard,
    };
    look_outside(context, &spec)?;
    let (watcher, finished) = supervise(&spec, supervision, Counting(TestCounter::new()));
    let changed = changed_outside(context);
    context.place.live.clear()?;
    let duration = finished.as_ref().map(|finished| finished.elapsed).unwrap_or_default();
    let looked = finished.as_ref().ok().and_then(|finished| finished.looked.clone());
    let ended = changed.map_or(ended(finished)?, CommandEnd::CouldNotRun);
    Ok(Told { ended, tests: watcher.0.finish(), duration, looked })
}

/// Notes who may do what outside, where the kernel does not keep that from a command.
fn look_outside(context: &GateContext<'_>, spec: &CommandSpec) -> Result<(), GateError> {
    if !context.boundary.leaves_permissions() {
        return Ok(());
    }
    let user_home = context.environment.text("HOME").map(Utf8PathBuf::from);
    let places = OutsidePlaces {
        repositories: context.place.repositories(context.workspace),
        workspace: Some(context.workspace),
        user_home: user_home.as_deref(),
        state_base: context.state.base(),
        state: context.state.directory(),
        granted: spec.confinement.as_ref().map_or(&[], |bounds| &bounds.writable),
    };
    let git = || context.environment.git();
    let file = outside_file(&context.state.baseline());
    context.place.outside.borrow_mut().take(&places, &git, &file).map_err(GateError::Prepare)
}

/// Puts back what a command changed of permissions outside. What was measured with that does not count.
fn changed_outside(context: &GateContext<'_>) -> Option<Obstacle> {
    if !context.boundary.leaves_permissions() {
        return None;
    }
    let mut report = BoundaryReport::default();
    context.place.outside.borrow().settle(None, &|| (), &mut report);
    let (first, left) = (report.violations.first()?, &report.left);
    let end = if left.is_empty() { "put back" } else { "not all of it could be put back" };
    let message = format!("it changed permissions outside its checkout (`{}`): {end}", first.path);
    Some(Obstacle::Machine { message })
}

fn ended(finished: Result<Finished, SuperviseError>) -> Result<CommandEnd, GateError> {
    let machine = |message: String| CommandEnd::CouldNotRun(Obstacle::Machine { message });
    let finished = match finished {
        Ok(finished) => finished,
        // What is wrong is in the work: no interpreter, not a program.
        Err(SuperviseError::NotExecutable(message)) => {
            return Ok(CommandEnd::CouldNotRun(Obstacle::Setup { message }));
        }
        Err(error) => {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            return Ok(machine(format!("{error}{}", cause.unwrap_or_default())));
        }
    };
    Ok(match finished.stopped {
        Some(StopReason::Person) => return Err(GateError::Interrupted),
        Some(StopReason::Wall(_) | StopReason::Idle(_) | StopReason::Watcher) => {
            CommandEnd::TimedOut
        }
        Some(StopReason::LogFailed(error)) => {
            machine(format!("its output could not be kept: {error}"))
        }
        None => match (finished.code, finished.signal) {
            (Some(code), _) => CommandEnd::Exited(ProcessExit::Code(code)),
            (None, Some(signal)) => CommandEnd::Exited(ProcessExit::Signal(signal)),
            (None, None) => machine("its exit status is unknown".to_owned()),
        },
    })
}

/// Returns what gates get of the person's environment.
fn passed(context: &GateContext<'_>) -> Environment {
    let mut environment = context.environment.passing(&as_strs(context.pass));
    let is_inside = |name: &str| {
        let value = environment.text(name).map(Utf8PathBuf::from);
        value.is_some_and(|value| value.starts_with(context.workspace))
    };
    let leads_in = is_inside("VIRTUAL_ENV");
    environment.remove_where(|name| {
        LEADING_OUT.contains(&name)
            || name.starts_with("GIT_")
            || (leads_in && name == "VIRTUAL_ENV")
    });
    environment
}

fn environment(context: &GateContext<'_>, id: &RunId, caches: &Utf8Path) -> Environment {
    let mut environment = passed(context);
    let scratch = context.place.scratch.path();
    environment.narrow_path(&[context.workspace, context.state.directory(), scratch]);
    // Asks for the names of tests that passed, which pytest tells only then.
    let options = environment.text("PYTEST_ADDOPTS").unwrap_or_default();
    environment.set("PYTEST_ADDOPTS", format!("{options} -rpfE").trim_start());
    environment.set("TMPDIR", context.place.scratch.temporary().as_str());
    environment.set("RALPH_RUN_ID", id.as_str());
    if let Some(slot) = context.slot {
        environment.set("RALPH_SLOT", slot.to_string());
    }
    if context.boundary != InForce::Off {
        for (name, value) in cache_variables(caches, &|name| context.environment.text(name)) {
            environment.set(name, value);
        }
    }
    environment
}

/// What a gate sees in addition to its writable paths: its program, and the git directory and objects of its checkout.
fn needed(context: &GateContext<'_>, job: &Job<'_>, program: &Utf8Path) -> Vec<Utf8PathBuf> {
    let mut needed = around_program(program);
    needed.extend(context.state.shown());
    // A layer leads there.
    needed.push(CacheSet::Gates.directory(context.state.directory()));
    needed.extend([job.tree, job.cwd].map(ToOwned::to_owned));
    needed.extend(job.tree.parent().map(ToOwned::to_owned));
    needed
}

fn confinement(
    context: &GateContext<'_>,
    job: &Job<'_>,
    environment: &Environment,
    program: &Utf8Path,
) -> Confinement {
    let scratch = context.place.scratch.path();
    let mut writable = vec![real(job.tree).into_string(), real(scratch).into_string()];
    writable.push(real(job.caches).into_string());
    let granted = boundary::granted(context.writable, context.workspace);
    writable.extend(granted.into_iter().map(Utf8PathBuf::into_string));
    let view = match context.boundary {
        InForce::Kernel(layers) => boundary::view(
            layers,
            &ViewRequest {
                env: &|name| environment.text(name),
                person: &|name| context.environment.text(name),
                state_base: context.state.base(),
                temporary: &context.place.scratch.temporary(),
                cwd: job.cwd,
                needed: needed(context, job, program),
                words: job.argv.iter().map(String::as_str).collect(),
                show: &context.sandbox.show,
                offline: !job.net,
            },
        ),
        InForce::Detect | InForce::Off => None,
    };
    let unix_sockets = if job.unix { SocketAccess::All } else { context.sandbox.unix_sockets };
    Confinement { writable, unix_sockets, offline: !job.net, view }
}
