//! Summarises a run: the meaning of its end, its own usage, and its journal entry.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::id::RunId;
use ralph_model::journal::{ChangeSize, OutboxRefusal, RunFinished, RunStarted, summary_line};
use ralph_model::role::Role;
use ralph_model::run::{ProcessExit, RunEnd, RunFacts, RunOutcome};
use ralph_model::usage::Usage;
use ralph_proc::protocol::StopReason;
use ralph_proc::supervise::{Finished, SuperviseError};

use super::watcher::AgentWatcher;
use super::{RunContext, RunRequest};
use crate::boundary::BoundaryReport;
use crate::channel::Served;
use crate::files::beneath::{create_in, make_directory_beneath};
use crate::files::plain::open_directory;
use crate::files::{self, PathError};
use crate::outbox::OutboxReport;

/// The result of a run.
#[derive(Clone, Debug)]
pub struct RunReport {
    pub id: RunId,
    /// The paths of its logs.
    pub logs: RunLogs,
    pub facts: RunFacts,
    pub end: RunEnd,
    pub exit: Option<ProcessExit>,
    pub outcome: RunOutcome,
    /// Of this run only.
    pub usage: Usage,
    /// Of this run only.
    pub cost_usd: Option<f64>,
    /// Computed from the price table, not reported by the agent.
    pub cost_is_estimate: bool,
    /// Estimated, because the agent reports no tokens.
    pub usage_is_estimate: bool,
    pub elapsed: Duration,
    pub cpu: Duration,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    /// Leftover processes that were terminated.
    pub leftovers: usize,
    /// The requests through its channel.
    pub served: Served,
    /// The collected outbox.
    pub outbox: OutboxReport,
    /// Forbidden changes.
    pub boundary: BoundaryReport,
    /// Advice for the person on a failed run.
    pub advice: Vec<String>,
    /// What it committed, where it may commit and did.
    pub changed: Option<ChangeSize>,
    /// Git's locks that it left and that were removed.
    pub removed_locks: Vec<Utf8PathBuf>,
}

/// The files of one run, in a directory that is never reused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLogs {
    pub(crate) directory: Utf8PathBuf,
    /// What was asked.
    pub(crate) prompt: Utf8PathBuf,
    /// Stdout, byte for byte.
    pub stdout: Utf8PathBuf,
    /// Stderr, byte for byte; missing if there was none.
    pub stderr: Utf8PathBuf,
    pub events: Utf8PathBuf,
}

impl RunLogs {
    /// Returns the paths of a run's files.
    pub(super) fn of(context: &RunContext<'_>, request: &RunRequest<'_>, id: &RunId) -> RunLogs {
        let base = match context.home {
            Some(home) => home.join("runs"),
            None => context.state.directory().join("runs"),
        };
        let directory = base.join(request.item.unwrap_or("agent")).join(id.as_str());
        let stem = log_stem(request.role, request.attempt);
        RunLogs {
            prompt: directory.join(format!("{stem}.prompt.md")),
            stdout: directory.join(format!("{stem}.log")),
            stderr: directory.join(format!("{stem}.stderr.log")),
            events: directory.join(format!("{stem}.events.jsonl")),
            directory,
        }
    }

    /// Creates the directory and writes the prompt to it.
    ///
    /// Below `root` no symlink is followed, because agents may have planted some; and the directory is held open, so
    /// that later writes cannot be redirected.
    pub(super) fn create(
        &self,
        root: Option<&Utf8Path>,
        prompt: &[u8],
    ) -> Result<HeldLogs, PathError> {
        let error = |source| PathError::new("create", &self.directory, source);
        let below = root.and_then(|root| Some((root, self.directory.strip_prefix(root).ok()?)));
        let directory = if let Some((root, below)) = below {
            // Home itself may be a symlink made by the person: one that a run made is gone when the next begins.
            let made =
                root.canonicalize_utf8().and_then(|root| make_directory_beneath(&root, below));
            made.map_err(error)?
        } else {
            files::create_directory(&self.directory)?;
            open_directory(&self.directory).map_err(error)?
        };
        let held = HeldLogs { directory };
        let mut file = held.create(&self.prompt)?;
        std::io::Write::write_all(&mut file, prompt)
            .map_err(|source| PathError::new("write", &self.prompt, source))?;
        Ok(held)
    }
}

/// The directory of a run's logs, held open.
#[derive(Debug)]
pub(super) struct HeldLogs {
    directory: OwnedFd,
}

impl HeldLogs {
    /// Creates a file of the run in it.
    pub(super) fn create(&self, file: &Utf8Path) -> Result<File, PathError> {
        let name = file.file_name().unwrap_or_default();
        create_in(&self.directory, name).map_err(|source| PathError::new("create", file, source))
    }

    /// Returns a path of a run's file that refers to this very directory as long as it is held open.
    pub(super) fn lasting(&self, file: &Utf8Path) -> Utf8PathBuf {
        if cfg!(target_os = "linux") {
            let directory = format!("/proc/self/fd/{}", self.directory.as_raw_fd());
            Utf8PathBuf::from(directory).join(file.file_name().unwrap_or_default())
        } else {
            file.to_owned()
        }
    }

    pub(super) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

impl RunReport {
    /// Returns the journal entry.
    pub(crate) fn finished(&self) -> RunFinished {
        let said = self.facts.final_message.as_deref();
        RunFinished {
            end: self.end.clone(),
            exit: self.exit,
            outcome: self.outcome.clone(),
            session: self.facts.session.clone(),
            model: self.facts.model.clone(),
            usage: self.usage,
            cost_usd: self.cost_usd,
            cost_is_estimate: self.cost_is_estimate,
            usage_is_estimate: self.usage_is_estimate,
            duration: self.elapsed,
            cpu_ms: u64::try_from(self.cpu.as_millis()).ok(),
            tool_calls: self.facts.tool_calls,
            context_max: self.facts.context_max,
            retries: Some(self.facts.retries),
            stdout_bytes: Some(self.stdout_bytes),
            leftovers: Some(self.leftovers as u64).filter(|leftovers| *leftovers > 0),
            changed: self.changed,
            not_taken: self
                .outbox
                .not_taken
                .iter()
                .map(|left| OutboxRefusal {
                    name: left.name.clone(),
                    reason: left.reason.to_string(),
                })
                .collect(),
            advice: self.advice.clone(),
            final_line: said.and_then(summary_line),
        }
    }
}

fn log_stem(role: Role, attempt: u32) -> String {
    format!("{}-attempt-{attempt}", role.log_name())
}

/// Returns the path of a run's output: below home if it was written there, even if home has moved since.
pub fn log_of(started: &RunStarted, home: Option<&Utf8Path>) -> Utf8PathBuf {
    let name = format!("{}.log", log_stem(started.role, started.attempt));
    let place = started.place.as_ref().and_then(|place| place.home.as_deref());
    let moved = home.zip(place).map(|(home, place)| home.join(place));
    let directory = moved.filter(|directory| directory.is_dir());
    directory.unwrap_or_else(|| Utf8PathBuf::from(&started.dir)).join(name)
}

/// Returns the path of a run's events, from its start entry.
pub fn events_of(started: &RunStarted) -> Utf8PathBuf {
    log_of(started, None).with_extension("events.jsonl")
}

/// Formats an error with all its causes.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Returns the exit status of the program, if it exited.
pub(super) fn exit_of(finished: &Finished) -> Option<ProcessExit> {
    finished.code.map(ProcessExit::Code).or(finished.signal.map(ProcessExit::Signal))
}

/// Returns why the run ended.
pub(super) fn end_of(
    finished: &Result<Finished, SuperviseError>,
    watcher: &AgentWatcher,
    is_withdrawn: bool,
) -> RunEnd {
    let finished = match finished {
        Ok(finished) => finished,
        Err(SuperviseError::NotStarted(reason) | SuperviseError::NotExecutable(reason)) => {
            return RunEnd::NotStarted { reason: reason.clone() };
        }
        Err(error) => {
            return RunEnd::MachineFault { reason: with_causes(error) };
        }
    };
    match &finished.stopped {
        None => RunEnd::Exited,
        Some(StopReason::Wall(after)) => RunEnd::WallTimeout { after: *after },
        Some(StopReason::Idle(after)) => RunEnd::IdleTimeout { after: *after },
        Some(StopReason::Person) => RunEnd::Interrupted,
        Some(StopReason::Watcher) => match watcher.context_exceeded {
            _ if is_withdrawn => RunEnd::Withdrawn,
            Some((used, window)) => RunEnd::ContextLimit { used, window },
            None => RunEnd::Hopeless,
        },
        Some(StopReason::LogFailed(error)) => {
            RunEnd::MachineFault { reason: format!("the output could not be kept: {error}") }
        }
    }
}
