//! Notifications for a person who is away: a workflow asks, fails or ends.
//!
//! A subscriber wrapped around another one: events are already recorded when it sees them, and it never delays the
//! work. Each notification is sent on its own thread, at most one per minute and kind, and failures are reported in one
//! line at the end. The settings come only from the person's own file: a cloned repository must not make Ralph start
//! programs.

mod send;

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use jiff::Timestamp;
use ralph_engine::config::NotifySettings;
use ralph_engine::subscriber::{RunObserver, Subscriber};
use ralph_model::board::Board;
use ralph_model::id::RunId;
use ralph_model::journal::{JournalEntry, JournalEvent};
use serde::Serialize;

use crate::render;

/// The minimum time between notifications of a kind.
const APART: Duration = Duration::from_mins(1);

/// The text of a notification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PersonNotice {
    /// `question`, `finished`, `failed`, `budget` or `limit`.
    kind: &'static str,
    workspace: String,
    item: Option<String>,
    text: String,
    at: Timestamp,
}

/// Forwards everything to a screen, and notifies the person of important events.
pub(crate) struct Notifying {
    inner: Box<dyn Subscriber>,
    filter: Filter,
    /// The channel to the sending thread, and that thread: it was started before this process gave up privileges that a
    /// person's command may need.
    outgoing: Option<Sender<PersonNotice>>,
    sender: Option<JoinHandle<()>>,
    failures: Arc<Mutex<Vec<String>>>,
}

impl Notifying {
    /// Wraps a screen; returns it unchanged if notifications are disabled.
    pub(crate) fn around(
        inner: Box<dyn Subscriber>,
        settings: &NotifySettings,
        workspace: &str,
    ) -> Box<dyn Subscriber> {
        if settings.on.is_empty() {
            return inner;
        }
        let (outgoing, incoming) = mpsc::channel();
        let failures = Arc::<Mutex<Vec<String>>>::default();
        let (theirs, settings_of_sender) = (Arc::clone(&failures), settings.clone());
        let sender = thread::spawn(move || send_all(&incoming, &settings_of_sender, &theirs));
        Box::new(Notifying {
            inner,
            filter: Filter::new(settings, workspace),
            outgoing: Some(outgoing),
            sender: Some(sender),
            failures,
        })
    }
}

/// Sends each notification on its own thread, until the channel is closed and all are sent.
fn send_all(
    incoming: &Receiver<PersonNotice>,
    settings: &NotifySettings,
    failures: &Mutex<Vec<String>>,
) {
    thread::scope(|scope| {
        for notice in incoming {
            scope.spawn(move || {
                let failed = send::send(settings, &notice);
                failures.lock().unwrap_or_else(PoisonError::into_inner).extend(failed);
            });
        }
    });
}

impl Subscriber for Notifying {
    fn recorded(&mut self, entry: &JournalEntry, board: &Board) {
        self.inner.recorded(entry, board);
        let Some(notice) = self.filter.notice(entry) else { return };
        if let Some(outgoing) = &self.outgoing {
            let _ = outgoing.send(notice);
        }
    }

    fn follow(&mut self, run: &RunId, board: &Board) -> Box<dyn RunObserver> {
        self.inner.follow(run, board)
    }

    fn waiting(&mut self, left: Duration) {
        self.inner.waiting(left);
    }
}

impl Drop for Notifying {
    /// The last notification is usually the end of the workflow, so wait for it; sending has a timeout.
    fn drop(&mut self) {
        self.outgoing = None;
        let _ = self.sender.take().map(JoinHandle::join);
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let told: HashSet<&String> = failures.iter().collect();
        for failure in told {
            render::important(&format!("note: notification not sent: {failure}"));
        }
    }
}

/// Decides which entries become notifications: a pure function of the entries so far.
struct Filter {
    on: Vec<String>,
    after: Duration,
    workspace: String,
    started: Option<Timestamp>,
    last: HashMap<&'static str, Timestamp>,
    asked: HashSet<String>,
    /// An item of this workflow has failed.
    has_failed: bool,
}

impl Filter {
    fn new(settings: &NotifySettings, workspace: &str) -> Filter {
        Filter {
            on: settings.on.clone(),
            after: settings.after,
            workspace: workspace.to_owned(),
            started: None,
            last: HashMap::new(),
            asked: HashSet::new(),
            has_failed: false,
        }
    }

    fn notice(&mut self, entry: &JournalEntry) -> Option<PersonNotice> {
        let started = *self.started.get_or_insert(entry.at);
        let (kind, item, text) = self.content(&entry.event)?;
        let is_early = elapsed(started, entry.at) < self.after;
        let is_crowded = self.last.get(kind).is_some_and(|last| elapsed(*last, entry.at) < APART);
        if !self.on.iter().any(|wanted| wanted == kind) || is_early || is_crowded {
            return None;
        }
        self.last.insert(kind, entry.at);
        Some(PersonNotice { kind, workspace: self.workspace.clone(), item, text, at: entry.at })
    }

    fn content(&mut self, event: &JournalEvent) -> Option<(&'static str, Option<String>, String)> {
        Some(match event {
            JournalEvent::QuestionAsked(asked) => {
                if !self.asked.insert(asked.id.clone()) {
                    return None;
                }
                ("question", Some(asked.item.clone()), asked.question.clone())
            }
            JournalEvent::SpecFailed(_) => {
                self.has_failed = true;
                return None;
            }
            JournalEvent::WorkflowEnded(ended) => match ended.how.as_str() {
                "completed" if self.has_failed => {
                    ("failed", None, "some of the work failed".to_owned())
                }
                "completed" => ("finished", None, "the work is done".to_owned()),
                // The person knows, or was asked.
                "interrupted" | "waiting" => return None,
                how => ("failed", None, format!("stopped: {how}")),
            },
            JournalEvent::BudgetExhausted(_) => {
                ("budget", None, "the budget is used up".to_owned())
            }
            JournalEvent::LimitWaitStarted(_) => {
                ("limit", None, "waiting for a usage limit to reset".to_owned())
            }
            _ => return None,
        })
    }
}

fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    to.duration_since(from).try_into().unwrap_or(Duration::ZERO)
}

#[cfg(test)]
#[path = "notify_tests.rs"]
mod tests;
