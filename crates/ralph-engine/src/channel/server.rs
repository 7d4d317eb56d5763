//! The harness's end of the channel: takes requests in order while the agent runs, and once more when it has ended.
//!
//! Invariant: whatever an agent places in its channel, no link is followed, nothing blocks, and nothing is read beyond
//! its cap; each request is read once; a change is in the journal before the agent gets its reply.

use std::collections::HashSet;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use camino::Utf8Path;
use ralph_model::channel::{
    LARGEST_REQUEST, MOST_REQUEST_BYTES, MOST_REQUESTS, MessageError, MutationRequest, Reply,
    Request, RequestName, UnfinishedFile,
};
use ralph_model::journal::{
    JournalEvent, MutationRequested, PlanChanged, ReasonText, RequestIgnored, VerdictKind,
    VerdictReached,
};
use ralph_model::permission::{Asker, Mutation, Refusal};
use ralph_model::plan::Change;
use ralph_model::role::Role;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::arrivals::{Arrivals, LOOK_EVERY};
use super::client::PLAN_VIEW;
use crate::clock::Clock;
use crate::files::PathError;
use crate::files::plain::{NotPlain, open_directory, read_plain};
use crate::journal::Journal;

/// How many names of a crowded channel are read at once.
const MOST_NAMES: usize = 20_000;

/// The target of a run's requests.
pub(crate) trait MutationStore: Send {
    /// Applies a request that `asker`'s role permits.
    ///
    /// If a request names no task, only the store can determine it: then the store calls
    /// [`ralph_model::permission::check`] itself.
    fn apply(&mut self, request: &MutationRequest, asker: Asker<'_>) -> Result<Applied, Declined>;
}

/// An applied request.
#[derive(Debug)]
pub(crate) struct Applied {
    /// The reply to the agent.
    pub(crate) text: String,
    /// The change to the plan, if any.
    pub(crate) change: Option<PlanChange>,
}

/// A change of the plan, and the resulting plan.
#[derive(Debug)]
pub(crate) struct PlanChange {
    pub(crate) change: Change,
    pub(crate) plan: Vec<u8>,
}

/// A refused request, with one sentence that the agent can act on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Declined {
    #[error(transparent)]
    Permission(#[from] Refusal),
    #[error("{0}")]
    Plan(String),
}

/// The store if there is no plan.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoStore;

impl MutationStore for NoStore {
    fn apply(&mut self, request: &MutationRequest, _: Asker<'_>) -> Result<Applied, Declined> {
        Err(Declined::Plan(format!(
            "`{}` has no effect, for this run works on no plan: say it in the last message instead.",
            request.command()
        )))
    }
}

/// A summary of a run's requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    pub accepted: usize,
    /// The changes that were made, in order.
    pub(crate) mutations: Vec<Mutation>,
    pub refused: usize,
    /// Files that were not requests, or exceeded the limit.
    pub ignored: usize,
}

/// The channel's directory, opened before the agent could touch it.
pub(crate) struct Door {
    directory: OwnedFd,
    arrivals: Arrivals,
}

impl Door {
    pub(crate) fn open(path: &Utf8Path) -> io::Result<Door> {
        Ok(Door { directory: open_directory(path)?, arrivals: Arrivals::of(path) })
    }
}

/// Serves the requests of one run.
pub(crate) struct Attendant<'a> {
    pub(crate) door: Door,
    pub(crate) store: &'a mut dyn MutationStore,
    pub(crate) journal: &'a mut Journal,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) asker: Asker<'a>,
}

/// Whether a client waits for replies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Agent {
    Runs,
    Ended,
}

/// A run's requests, polled by the thread that supervises it.
pub(crate) struct Serving<'a> {
    door: Door,
    clerk: Clerk<'a>,
    seen: HashSet<RequestName>,
    /// The total size of all requests read.
    bytes: usize,
    /// Reasons already recorded in the journal.
    told: HashSet<&'static str>,
    /// Why no more requests are taken.
    failed: Option<PathError>,
}

impl<'a> Serving<'a> {
    pub(crate) fn new(attendant: Attendant<'a>) -> Serving<'a> {
        let Attendant { door, store, journal, clock, asker } = attendant;
        let clerk = Clerk { store, journal, clock, asker, served: Served::default() };
        let (seen, told) = (HashSet::new(), HashSet::new());
        Serving { door, clerk, seen, bytes: 0, told, failed: None }
    }

    /// When to poll: whenever the descriptor is readable, or periodically without kernel notifications.
    pub(crate) fn knocks(&self) -> io::Result<(Option<OwnedFd>, Option<Duration>)> {
        let fd = self.door.arrivals.fd();
        let fd = fd.map(|fd| fd.try_clone_to_owned()).transpose()?;
        let every = fd.is_none().then_some(LOOK_EVERY);
        Ok((fd, every))
    }

    /// Takes requests that arrived while the agent runs.
    pub(crate) fn look(&mut self) {
        if self.failed.is_none() {
            self.failed = self.take(Agent::Runs).err();
        }
    }

    /// Takes the remaining requests after the agent has ended, and returns the summary.
    pub(crate) fn finish(mut self) -> Result<Served, PathError> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.take(Agent::Ended).map(|()| self.clerk.served),
        }
    }

    fn take(&mut self, agent: Agent) -> Result<(), PathError> {
        let news = self.door.arrivals.news();
        if news.uprooted {
            let reason = "the directory of requests was moved or removed";
            self.note("uprooted", "channel", reason)?;
        }
        let look = news.incomplete || agent == Agent::Ended;
        for name in if look { self.names() } else { news.names } {
            self.arrived(&name, agent)?;
        }
        Ok(())
    }

    /// Lists the files of the channel, ordered by name.
    fn names(&self) -> Vec<String> {
        let Ok(directory) = Dir::read_from(&self.door.directory) else {
            return Vec::new();
        };
        let names = directory.flatten().map(|entry| entry.file_name().to_string_lossy().into());
        let mut names: Vec<String> =
            names.filter(|name: &String| name != "." && name != "..").take(MOST_NAMES).collect();
        names.sort_unstable();
        names
    }

    fn arrived(&mut self, file: &str, agent: Agent) -> Result<(), PathError> {
        let Some(name) = RequestName::of_file(file) else {
            let end = Utf8Path::new(file).extension();
            // Without kernel notifications such a file is seen repeatedly.
            return if matches!(end, Some("reply" | "tmp")) || self.told.contains("name") {
                Ok(())
            } else {
                self.note("name", file, "it has no name of a request")
            };
        };
        if self.seen.contains(&name) {
            return Ok(());
        }
        if self.seen.len() >= MOST_REQUESTS || self.bytes >= MOST_REQUEST_BYTES {
            let reason = format!(
                "only {MOST_REQUESTS} requests or {} MiB of a run are looked at",
                MOST_REQUEST_BYTES >> 20
            );
            let text = format!("{reason}: end the run with what you have done.");
            self.answer(name, &Reply::new(name, false, text), agent);
            return self.note("many", file, &reason);
        }
        self.seen.insert(name);
        let read = read_plain(&self.door.directory, file, LARGEST_REQUEST);
        let reply = match read {
            // Withdrawn.
            Err(NotPlain::Missing) => return Ok(()),
            Err(reason) => {
                self.note(reason.kind(), file, &reason.to_string())?;
                Reply::new(name, false, format!("the request is not taken: {reason}."))
            }
            Ok(bytes) => {
                self.bytes += bytes.len();
                match Request::parse(name, &bytes) {
                    Err(reason) => {
                        self.note(kind(&reason), file, &reason.to_string())?;
                        Reply::new(name, false, format!("the request is not taken: {reason}."))
                    }
                    Ok(request) => {
                        let decision = self.clerk.decide(request.args)?;
                        if let Some(plan) = decision.plan {
                            self.show(&plan);
                        }
                        Reply::new(name, decision.accepted, decision.text)
                    }
                }
            }
        };
        self.answer(name, &reply, agent);
        Ok(())
    }

    /// Counts files that are not requests; the journal records each reason once.
    fn note(&mut self, kind: &'static str, name: &str, reason: &str) -> Result<(), PathError> {
        self.clerk.served.ignored += 1;
        if !self.told.insert(kind) {
            return Ok(());
        }
        let (name, reason) = (name.to_owned(), reason.to_owned());
        self.clerk.record(RequestIgnored { name, reason })
    }

    /// Shows the agent the plan including its changes, because it cannot read private state. Nothing reads it back.
    fn show(&self, plan: &[u8]) {
        let _ = put(&self.door.directory, "plan.tmp", PLAN_VIEW, plan);
    }

    /// Removes the request and writes the reply. An agent that makes this fail gets no reply.
    fn answer(&self, name: RequestName, reply: &Reply, agent: Agent) {
        if agent == Agent::Ended {
            return;
        }
        let directory = &self.door.directory;
        let _ = unlinkat(directory, name.request_file(), AtFlags::empty());
        let unfinished = name.unfinished_file(UnfinishedFile::Reply);
        let _ = put(directory, &unfinished, &name.reply_file(), &reply.render());
    }
}

/// Decides on requests, and records the decisions in the journal.
pub(crate) struct Clerk<'a> {
    pub(crate) store: &'a mut dyn MutationStore,
    pub(crate) journal: &'a mut Journal,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) asker: Asker<'a>,
    /// The decisions so far.
    pub(crate) served: Served,
}

/// The result of a request.
pub(crate) struct Decision {
    pub(crate) accepted: bool,
    /// The reply to the agent.
    pub(crate) text: String,
    /// The plan, if it was changed.
    plan: Option<Vec<u8>>,
}

impl Clerk<'_> {
    /// Applies a request if the asker is permitted to.
    pub(crate) fn decide(&mut self, request: MutationRequest) -> Result<Decision, PathError> {
        let asker = self.asker;
        let decided = request
            .check(asker)
            .map_err(Declined::from)
            .and_then(|()| self.store.apply(&request, asker));
        let (accepted, text, change) = match decided {
            Ok(Applied { text, change }) => (true, text, change),
            Err(declined) => (false, declined.to_string(), None),
        };
        if accepted {
            self.served.accepted += 1;
            self.served.mutations.extend(request.mutation());
        } else {
            self.served.refused += 1;
        }
        if request.mutation().is_some() {
            let text = text.clone();
            let data = MutationRequested { request, accepted, text };
            self.record(data)?;
        }
        let mut plan = None;
        if let Some(changed) = change {
            self.record_change(&changed.change)?;
            plan = Some(changed.plan);
        }
        Ok(Decision { accepted, text, plan })
    }

    /// Records an agent's change to the plan, and a verifier's decision.
    fn record_change(&mut self, change: &Change) -> Result<(), PathError> {
        let role = self.asker.role;
        self.record(PlanChanged::of(role.as_str(), change))?;
        if role != Role::Verifier {
            return Ok(());
        }
        let (verdict, reasons) = match change {
            Change::TasksAccepted { .. } => (VerdictKind::Accepted, Vec::new()),
            Change::TaskRejected { reason, .. } => {
                (VerdictKind::Rejected, vec![ReasonText::new("not_verified", reason)])
            }
            _ => return Ok(()),
        };
        for id in change.ids() {
            self.record(VerdictReached {
                item: id.to_owned(),
                verdict,
                by: role.as_str().to_owned(),
                reasons: reasons.clone(),
                ..VerdictReached::default()
            })?;
        }
        Ok(())
    }

    fn record(&mut self, event: impl Into<JournalEvent>) -> Result<(), PathError> {
        let (journal, run) = (&mut *self.journal, self.asker.run);
        journal.record(self.clock.now(), Some(run), event)
    }
}

/// Writes a file atomically. Anything planted at its path is replaced, never written through.
fn put(directory: &OwnedFd, unfinished: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || openat(directory, unfinished, flags, Mode::RUSR | Mode::WUSR);
    let file = match open() {
        Err(Errno::EXIST) => {
            unlinkat(directory, unfinished, AtFlags::empty())?;
            open()?
        }
        opened => opened?,
    };
    std::fs::File::from(file).write_all(bytes)?;
    Ok(renameat(directory, unfinished, directory, name)?)
}

/// A short code for each reason, to report each once.
const fn kind(reason: &MessageError) -> &'static str {
    match reason {
        MessageError::Version { .. } => "version",
        MessageError::Malformed(_) => "malformed",
        MessageError::OtherName => "other name",
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
