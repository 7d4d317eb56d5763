//! One supervised run of an agent: prompt in, events out, a log, usage, an outcome.
//!
//! Invariant: if the start of a run was journalled, so is its end, whatever happens in between. A failure of the
//! harness itself (creating a directory, taking the baseline, storing the result) is a machine fault, which is trouble
//! and costs nothing. Only if the journal cannot be written is there an error; then the record of the live run is kept,
//! and the next start journals that the run was abandoned. The same holds if Ralph is killed: the record is written
//! before the start is journalled.
//!
//! [`prepare`] builds the command and its restrictions; [`closing`] builds the report from the facts at the end.
//!
//! A run is repeated, although its agent had ended, if Ralph is killed between the guard's report that everything has
//! ended and the moment at which [`Run::compare`] has stored the result: while the rest of the output is read (at most
//! `DRAIN_PATIENCE` of `proc::supervise`, usually under a millisecond), the channel's last requests are answered and
//! the outbox is collected. At that time the exit status is not on disk, and without it an answer cannot be
//! distinguished from a crash.
//!
//! A run never returns an error for what the agent did: that is part of the report.

mod allowlist;
mod changed;
mod closing;
mod contract;
mod environment;
mod failed_command;
pub(crate) mod locks;
mod prepare;
mod report;
mod resources;
mod result;
pub mod sandbox;
mod wanted;
mod watcher;

use std::io::{self, BufWriter};

use camino::{Utf8Path, Utf8PathBuf};
use jiff::tz::TimeZone;
use ralph_model::final_from::FinalFrom;
use ralph_model::id::RunId;
use ralph_model::journal::{JournalEvent, Place, RunStarted};
use ralph_model::permission::Asker;
use ralph_model::policy::context::ContextPolicy;
use ralph_model::policy::limit::TAIL_LINES;
use ralph_model::role::Role;
use ralph_model::run::{RunEnd, RunFacts, RunOutcome, Trouble};
use ralph_model::usage::PriceTable;
use ralph_proc::output::Log;
use ralph_proc::protocol::StopLimits;
use ralph_proc::pulse::Pulse;
use ralph_proc::signal::SignalPipe;
use ralph_proc::supervise::{Supervision, Visitor, supervise};
use ralph_proc::tree::ProcessIdentity;

pub(crate) use allowlist::{advice as withheld_advice, as_strs};
pub(crate) use closing::Closing;
pub(crate) use contract::Contract;
pub use environment::Environment;
pub use report::{RunLogs, RunReport, events_of, log_of};
pub use resources::RunResources;
pub(crate) use resources::{is_scratch, remove};
pub(crate) use result::RunResult;
pub(crate) use result::{RESULTS, UNCOMPARED};
pub(crate) use wanted::{ReadWish, WantedItem, Wish};
pub use watcher::parse_event_line;

use crate::agent::{Adapter, DecodeContext};
use crate::boundary::{InForce, OutsidePlaces, Watch, outside_file};
use crate::channel::{Attendant, Door, MutationStore, Serving};
use crate::clock::Clock;
use crate::config::SandboxConfig;
use crate::files::{self, PathError};
use crate::git::{GitProgram, RepositoryLocation};
use crate::journal::Journal;
use crate::outbox::{self, Outbox};
use crate::state::{LiveRun, State};
use crate::subscriber::RunObserver;
use prepare::PreparedRun;
use report::{HeldLogs, end_of, exit_of, with_causes};
use wanted::{LOOK_EVERY, WantedWatch};
use watcher::{AgentWatcher, STDERR_LINES, Tail};

/// The environment of runs: shared by all runs of one command.
pub(crate) struct RunContext<'a> {
    pub workspace: &'a Utf8Path,
    /// Git directories of the workspace that are outside it.
    pub git_dirs: &'a [Utf8PathBuf],
    /// Ralph's committed files, if there are any.
    pub home: Option<&'a Utf8Path>,
    pub state: &'a State,
    pub place: &'a RunResources,
    pub journal: &'a mut Journal,
    pub clock: &'a dyn Clock,
    pub signals: Option<&'a SignalPipe>,
    /// The environment of this process, from which the agent's is derived.
    pub environment: &'a Environment,
    /// The running program: agents call `ralph` back.
    pub program: &'a Utf8Path,
    /// The target of agents' requests during a run; `None` leaves their requests unanswered.
    pub store: Option<&'a mut dyn MutationStore>,
    /// Where the run works, if not in the workspace itself.
    pub slot: Option<&'a RunSlot>,
}

/// The clone that a run works in, away from the person's checkout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunSlot {
    /// The root of the clone, in place of the workspace.
    pub root: Utf8PathBuf,
    /// The agent's readable copy of home.
    pub home: Utf8PathBuf,
    /// Distinguishes slots, for ports and names of databases.
    pub number: u32,
    /// The repositories in the slot.
    pub places: Vec<RepositoryLocation>,
    /// Whether it was prepared just now, without content of an earlier run.
    pub is_new: bool,
}

impl RunSlot {
    /// Returns the git directories that are not below the root of the work, which can be a subdirectory of a
    /// repository.
    fn outer_git_dirs(&self) -> Vec<Utf8PathBuf> {
        let dirs = self.places.iter().map(|place| place.git_dir.clone());
        dirs.filter(|directory| !directory.starts_with(&self.root)).collect()
    }
}

impl RunContext<'_> {
    /// Returns the root of this run's work: the slot's, or the workspace.
    fn work_root(&self) -> &Utf8Path {
        self.slot.map_or(self.workspace, |slot| &slot.root)
    }

    /// Returns the repositories in which the run works.
    fn work_places(&self) -> &[RepositoryLocation] {
        match self.slot {
            Some(slot) => &slot.places,
            None => self.place.repositories(self.workspace),
        }
    }
}

/// What to run.
pub(crate) struct RunRequest<'a> {
    pub adapter: &'static dyn Adapter,
    /// The name in the configuration, for people and the journal.
    pub agent: &'a str,
    /// The agent's executable, or Ralph's own.
    pub executable: &'a Utf8Path,
    pub args: &'a [String],
    pub env: &'a [(String, String)],
    /// Names of the person's variables that this agent gets, in addition to those that every run gets.
    pub pass: &'a [String],
    pub role: Role,
    pub model: Option<&'a str>,
    pub reasoning: Option<&'a str>,
    pub resume: Option<&'a str>,
    /// The item of the run; names its directory.
    pub item: Option<&'a str>,
    pub attempt: u32,
    /// The number of the run for its item and role, if there is an item.
    pub try_number: Option<u32>,
    pub prompt: &'a [u8],
    pub boundary: InForce,
    /// Writable paths in addition to the role's own.
    pub writable: &'a [Utf8PathBuf],
    pub sandbox: &'a SandboxConfig,
    /// The agent's own paths that its adapter does not know.
    pub agent_state: &'a [Utf8PathBuf],
    /// Whether to ignore the person's own configuration of the agent.
    pub isolate: bool,
    pub limits: StopLimits,
    pub context: ContextPolicy,
    pub prices: &'a PriceTable,
    /// The person's own phrases for a usage limit.
    pub limit_patterns: &'a [String],
    /// Where to find the final message of a plain command.
    pub final_from: &'a FinalFrom,
    /// Arguments with which a plain command resumes a session; empty if it cannot.
    pub resume_args: &'a [String],
    /// Where to find the session id of a plain command, if not on its own line.
    pub session_from: Option<&'a FinalFrom>,
    /// The ids of the tasks and issues given to the run.
    pub given: &'a [String],
    /// The initial and expected content of the outbox.
    pub outbox: Outbox<'a>,
    /// The working directory, if not the workspace.
    pub directory: Option<&'a Utf8Path>,
    /// The workflow that concludes the run. If it is empty, no result is kept.
    pub workflow: &'a str,
    /// The requirement on its final message, to distinguish a usage limit from an answer.
    pub contract: Contract<'a>,
    /// Determines whether the run's item is still wanted.
    pub wanted: Option<&'a WantedItem>,
}

impl RunRequest<'_> {
    /// Whether a workflow concludes the run: its result is stored until then, and a person can be asked about it.
    fn is_of_workflow(&self) -> bool {
        self.item.is_some() && !self.workflow.is_empty()
    }
}

/// A failure of the harness itself.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("cannot prepare the run")]
    Prepare(#[source] io::Error),
}

/// Runs an agent once.
pub(crate) fn run_agent(
    context: &mut RunContext<'_>,
    request: &RunRequest<'_>,
    performer: &mut dyn Performer,
) -> Result<RunReport, RunError> {
    let id = RunId::new(context.clock.now(), fresh_nonce().map_err(RunError::Prepare)?);
    let logs = RunLogs::of(context, request, &id);
    let place = context.place;
    let report = Run { context, request, id, logs, held: None }.perform(performer);
    place.scratch.clear();
    report
}

/// 64 random bits, for unique names, even among processes with the same pid in different namespaces.
pub(crate) fn fresh_nonce() -> io::Result<u64> {
    #[cfg(test)]
    if let Some(number) = files::simulated::random() {
        return Ok(number);
    }
    random_bytes().map(u64::from_ne_bytes)
}

#[cfg(target_os = "linux")]
fn random_bytes() -> io::Result<[u8; 8]> {
    use rustix::rand::{GetRandomFlags, getrandom};
    let mut bytes = [0; 8];
    loop {
        match getrandom(&mut bytes, GetRandomFlags::empty()) {
            // The kernel returns up to 256 bytes at once.
            Ok(_) => return Ok(bytes),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(target_os = "macos")]
fn random_bytes() -> io::Result<[u8; 8]> {
    let mut bytes = [0; 8];
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(bytes)
}

/// One run, from the journalled start to the journalled end.
pub(crate) struct Run<'a, 'c> {
    pub(crate) context: &'a mut RunContext<'c>,
    pub(crate) request: &'a RunRequest<'a>,
    pub(crate) id: RunId,
    logs: RunLogs,
    /// The opened log directory, once created.
    held: Option<HeldLogs>,
}

/// Performs the part of a run between its start and its end.
pub(crate) trait Performer {
    /// Lets the agent do its work. Also returns what to compare with the earlier state, if anything. An error means
    /// that the agent was not started.
    fn perform(
        &mut self,
        run: &mut Run<'_, '_>,
        environment: &mut Environment,
    ) -> Result<(Closing, Option<Watch>), RunError>;
}

/// Runs the agent's program under a guard.
pub(crate) struct Supervised;

impl Performer for Supervised {
    fn perform(
        &mut self,
        run: &mut Run<'_, '_>,
        environment: &mut Environment,
    ) -> Result<(Closing, Option<Watch>), RunError> {
        run.attempt(environment).map(|(closing, watch)| (closing, Some(watch)))
    }
}

impl Run<'_, '_> {
    fn perform(mut self, performer: &mut dyn Performer) -> Result<RunReport, RunError> {
        self.journal_start()?;
        let mut environment = self.environment();
        let standing = self.standing();
        let (closing, watch) = match performer.perform(&mut self, &mut environment) {
            Ok(ended) => ended,
            Err(error) => {
                (Closing { fault: Some(with_causes(&error)), ..Closing::default() }, None)
            }
        };
        let mut report = self.report(closing, &environment);
        if let Some(watch) = watch {
            self.compare(&watch, &mut report);
        }
        report.changed = self.changed_since(&standing);
        if !report.boundary.is_empty() {
            self.journal(report.boundary.journal())?;
        }
        self.keep_result(&mut report);
        self.journal(report.finished())?;
        self.context.place.live.clear()?;
        Ok(report)
    }

    fn journal_start(&mut self) -> Result<(), PathError> {
        let request = self.request;
        // Without its record a run is only worse off after a crash, and even then the guard terminates it.
        let _ = self.context.place.live.save(&self.live_run());
        let directory = &self.logs.directory;
        let below = |base: &Utf8Path| Some(directory.strip_prefix(base).ok()?.to_string());
        let home = self.context.home.and_then(below);
        let state = if home.is_none() { below(self.context.state.directory()) } else { None };
        let started = self.journal(RunStarted {
            item: request.item.map(str::to_owned),
            role: request.role,
            agent: request.agent.to_owned(),
            model: request.model.map(str::to_owned),
            attempt: request.attempt,
            try_number: request.try_number,
            boundary: request.boundary.as_str().to_owned(),
            dir: directory.to_string(),
            place: Some(Place { home, state }),
            resumed_session: request.resume.map(str::to_owned),
            slot: self.context.slot.map(|slot| slot.number),
        });
        if started.is_err() {
            // A run that was not started needs no end.
            let _ = self.context.place.live.clear();
        }
        started
    }

    /// What to terminate if this process dies: recorded before anything is started.
    fn live_run(&self) -> LiveRun {
        LiveRun {
            run_id: self.id.to_string(),
            item: self.request.item.filter(|_| self.context.slot.is_none()).map(str::to_owned),
            owner: files::disk::own_process(),
            guard: None,
            scratch: Some(self.context.place.scratch.path().to_owned()),
            started: self.context.clock.now(),
            events: Some(self.logs.events.clone()),
            free_locks: Vec::new(),
            watch: None,
        }
    }

    /// Prepares the run and lets the agent do it. Also returns what to compare with the earlier state. An error means
    /// that the agent was not started.
    fn attempt(&mut self, environment: &mut Environment) -> Result<(Closing, Watch), RunError> {
        let request = self.request;
        self.context.place.scratch.make_ready().map_err(RunError::Prepare)?;
        // In place an agent may have planted symlinks there.
        let root = self.context.home.filter(|_| self.context.slot.is_none());
        let held = self.logs.create(root, request.prompt)?;
        outbox::seed(&self.context.place.scratch.outbox(), request.outbox)?;
        let PreparedRun { spec, watch } = self.prepare(environment)?;
        let git = || self.context.environment.git();
        let mut baseline = self.context.place.baseline.borrow_mut();
        watch.take(&mut baseline, self.context.state, &git)?;
        let watch = Watch { baseline_length: baseline.length(), ..watch };
        self.look_outside(&watch, &git).map_err(RunError::Prepare)?;
        let pulse = Pulse::new().map_err(RunError::Prepare)?;
        let observer = self.context.journal.follow(&self.id);
        let watcher = self.watcher(pulse.clone(), observer, &held)?;
        let clock = self.context.clock;
        let mut word = request.wanted.and_then(|wanted| WantedWatch::begin(wanted, clock));
        pulse.set_busy(watcher.is_busy());
        let free_locks = locks::free_locks(self.context.work_places());
        let mut live = LiveRun {
            started: watch.started,
            free_locks: free_locks.clone(),
            watch: (request.boundary != InForce::Off).then(|| watch.clone()),
            ..self.live_run()
        };
        let record = &self.context.place.live;
        let mut on_guard = |guard: &ProcessIdentity| {
            live.guard = Some(guard.clone());
            let _ = record.save(&live);
        };
        let mut launcher = self.context.place.launcher.borrow_mut();
        let supervision = Supervision {
            launcher: &mut launcher,
            limits: request.limits,
            stdout_log: held.create(&self.logs.stdout)?.into(),
            stderr_log: Log::WhenNeeded(held.lasting(&self.logs.stderr).into()),
            pulse: pulse.clone(),
            signals: self.context.signals,
            end_note: Some(self.context.state.end_note(self.id.as_str())),
            on_guard: &mut on_guard,
            visitor: None,
        };
        let channel = self.context.place.scratch.channel();
        let mut serving = match self.context.store.as_deref_mut() {
            None => None,
            Some(store) => Some(Serving::new(Attendant {
                door: Door::open(&channel).map_err(RunError::Prepare)?,
                store,
                journal: self.context.journal,
                clock,
                asker: Asker { run: &self.id, role: request.role, given: request.given },
            })),
        };
        let knocks = serving.as_ref().map(Serving::knocks).transpose();
        let (fd, every) = knocks.map_err(RunError::Prepare)?.unwrap_or_default();
        let every = every.into_iter().chain(word.is_some().then_some(LOOK_EVERY)).min();
        let mut look = || {
            serving.iter_mut().for_each(Serving::look);
            if word.as_mut().is_some_and(WantedWatch::look) {
                pulse.request_stop();
            }
        };
        let visitor = Some(Visitor { fd, every, call: &mut look });
        let supervision = Supervision { visitor, ..supervision };
        let (mut watcher, finished) = supervise(&spec, supervision, watcher);
        let is_withdrawn = word.is_some_and(|word| word.is_withdrawn());
        drop(launcher);
        self.held = Some(held);
        let served = serving.map(Serving::finish).transpose();
        let exit = finished.as_ref().ok().and_then(exit_of);
        watcher.finish(exit);
        // All processes of the run are dead; remove locks before git is needed.
        let removed_locks = locks::remove_left(&free_locks);
        let fault = served.as_ref().err().map(|error| with_causes(error));
        let closing = Closing {
            end: Some(end_of(&finished, &watcher, is_withdrawn)),
            exit,
            tail: watcher.tail.text(),
            stderr: watcher.stderr.text(),
            facts: std::mem::take(&mut watcher.facts),
            finished: finished.ok(),
            served: served.ok().flatten().unwrap_or_default(),
            removed_locks,
            outbox: None,
            fault,
        };
        Ok((closing, watch))
    }

    /// Records owners and permissions outside the workspace, if the kernel does not protect them from the run.
    fn look_outside(&self, watch: &Watch, git: &dyn Fn() -> GitProgram) -> io::Result<()> {
        if !watch.in_force.leaves_permissions() {
            return Ok(());
        }
        let context = &*self.context;
        let is_apart = context.slot.is_some();
        let repositories = context.place.repositories(context.workspace);
        let user_home = context.environment.text("HOME").map(Utf8PathBuf::from);
        let places = OutsidePlaces {
            repositories: if is_apart { repositories } else { &[] },
            workspace: is_apart.then_some(context.workspace),
            user_home: user_home.as_deref(),
            state_base: context.state.base(),
            state: context.state.directory(),
            granted: &watch.writable,
        };
        let mut outside = context.place.outside.borrow_mut();
        outside.take(&places, git, &outside_file(&watch.baseline))
    }

    /// Compares with the state before the run, and reverts forbidden changes.
    ///
    /// That can take long, so the result is stored first: if Ralph is killed meanwhile, the next start compares, and
    /// the agent's work is not repeated. Before anything is reverted the stored result is removed again, because a
    /// later comparison would find fewer changes.
    fn compare(&self, watch: &Watch, report: &mut RunReport) {
        let state = self.context.state;
        let result = self.result_of(report);
        let forget = || {
            if let Some(result) = &result {
                let _ = UNCOMPARED.forget(state, &result.item);
            }
        };
        if let Some(result) = &result {
            // If it cannot be stored, a crash costs the run, as it would without this.
            let _ = UNCOMPARED.save(state, &result.item, result);
        }
        let git = || self.context.environment.git();
        let mut baseline = self.context.place.baseline.borrow_mut();
        report.boundary = watch.settle(&mut baseline, state, &git, &forget);
        if watch.in_force.leaves_permissions() {
            self.context.place.outside.borrow().settle(None, &forget, &mut report.boundary);
        }
        // A workflow can ask the person about changes that may be theirs.
        let violated = match &result {
            Some(_) => report.boundary.violated_by_run(),
            None => report.boundary.violated(),
        };
        report.outcome.hold_to(violated);
    }

    /// The result of a run that a workflow concludes.
    fn result_of(&self, report: &RunReport) -> Option<RunResult> {
        let request = self.request;
        if !request.is_of_workflow() {
            return None;
        }
        let now = self.context.clock.now();
        Some(RunResult::of(report, request, report.finished(), now))
    }

    /// Stores the result before the journal records the end, so that no ended run loses its result. If it cannot be
    /// stored, the run counts as not having happened.
    fn keep_result(&self, report: &mut RunReport) {
        let Some(result) = self.result_of(report) else { return };
        let state = self.context.state;
        let kept = RESULTS.save(state, &result.item, &result);
        let kept = kept.and_then(|()| UNCOMPARED.forget(state, &result.item));
        if let Err(error) = kept {
            let reason = with_causes(&error);
            report.outcome =
                RunOutcome::Trouble { trouble: Trouble::Machine { message: reason.clone() } };
            report.end = RunEnd::MachineFault { reason };
        }
    }

    fn journal(&mut self, event: impl Into<JournalEvent>) -> Result<(), PathError> {
        self.context.journal.record(self.context.clock.now(), Some(&self.id), event)
    }

    fn watcher(
        &self,
        pulse: Pulse,
        observer: Box<dyn RunObserver>,
        held: &HeldLogs,
    ) -> Result<AgentWatcher, RunError> {
        let adapter = self.request.adapter;
        let context = DecodeContext {
            limit_patterns: self.request.limit_patterns.to_vec(),
            final_from: self.request.final_from.clone(),
            session_from: self.request.session_from.cloned(),
            ..DecodeContext::new(self.context.clock.now(), TimeZone::system())
        };
        let event_log = held.create(&self.logs.events)?;
        Ok(AgentWatcher {
            decoder: adapter.decoder(context),
            traits: adapter.traits(),
            context: self.request.context,
            pulse,
            event_log: BufWriter::with_capacity(64 << 10, event_log),
            observer,
            facts: RunFacts::default(),
            tail: Tail::of(TAIL_LINES),
            stderr: Tail::of(STDERR_LINES),
            context_exceeded: None,
            hopeless: false,
            context_warned: false,
            texts: 0,
            events: Vec::new(),
        })
    }
}
