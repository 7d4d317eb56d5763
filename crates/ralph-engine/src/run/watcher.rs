//! Observes a running agent: lines become events, events become facts, and some facts end the run.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Duration;

use ralph_model::event::AgentEvent;
use ralph_model::policy::context::{ContextPolicy, ContextVerdict};
use ralph_model::run::{ProcessExit, RunFacts};
use ralph_proc::output::{Stream, Watcher};
use ralph_proc::pulse::Pulse;
use serde::{Deserialize, Serialize};

use crate::agent::{Decoder, Traits};
use crate::subscriber::RunObserver;

/// Longer texts are truncated in the event log; the agent's own log has them in full.
const EVENT_TEXT: usize = 4000;

/// This many of an agent's texts go into the event log; after that, a sample. An agent may print millions of lines, and
/// its own log has them all. Every other event is always logged.
const ALL_TEXTS: u64 = 10_000;
const THEN_ONE_IN: u64 = 64;

/// How many lines of stderr are kept for a message about a crash.
pub(super) const STDERR_LINES: usize = 3;

/// A line of the event log.
#[derive(Serialize)]
struct EventLine<'a> {
    v: u32,
    ms: u64,
    event: &'a AgentEvent,
}

/// Parses a line of the event log; `None` if this Ralph does not know it.
pub fn parse_event_line(line: &[u8]) -> Option<AgentEvent> {
    #[derive(Deserialize)]
    struct LoggedEvent {
        event: AgentEvent,
    }
    serde_json::from_slice(line).map(|LoggedEvent { event }| event).ok()
}

pub(super) struct AgentWatcher {
    pub(super) decoder: Box<dyn Decoder>,
    pub(super) traits: Traits,
    pub(super) context: ContextPolicy,
    pub(super) pulse: Pulse,
    pub(super) event_log: BufWriter<File>,
    pub(super) observer: Box<dyn RunObserver>,
    pub(super) facts: RunFacts,
    pub(super) tail: Tail,
    /// The last lines of stderr, for a message.
    pub(super) stderr: Tail,
    pub(super) context_exceeded: Option<(u64, u64)>,
    pub(super) hopeless: bool,
    pub(super) context_warned: bool,
    pub(super) texts: u64,
    pub(super) events: Vec<AgentEvent>,
}

impl AgentWatcher {
    /// Adds the events that only the end of the stream reveals.
    pub(super) fn finish(&mut self, exit: Option<ProcessExit>) {
        let mut events = std::mem::take(&mut self.events);
        self.decoder.finish(exit, &mut events);
        let at = self.pulse.elapsed();
        for event in events.drain(..) {
            self.take(at, &event);
        }
        let _ = self.event_log.flush();
    }

    fn take(&mut self, at: Duration, event: &AgentEvent) {
        self.facts.apply(event);
        if event.is_progress() {
            self.pulse.progress(at);
        }
        match event {
            AgentEvent::ToolCall { .. }
            | AgentEvent::ToolResult { .. }
            | AgentEvent::Text { .. }
            | AgentEvent::Retry { .. }
            | AgentEvent::RateLimit { .. } => self.pulse.set_busy(self.is_busy()),
            AgentEvent::Error { fatal: true, .. } => {
                self.hopeless = true;
                self.pulse.request_stop();
            }
            AgentEvent::Context { .. } => self.judge_context(),
            _ => {}
        }
        self.log(at, event);
        self.observer.event(at, event);
    }

    /// Whether silence may be a running tool. An agent that does not announce its tools may always be running one,
    /// except while it reports that it is only retrying a request.
    pub(super) fn is_busy(&self) -> bool {
        if self.traits.announces_tools {
            !self.facts.open_tools.is_empty()
        } else {
            self.facts.retrying.is_none()
        }
    }

    fn judge_context(&mut self) {
        let Some(fill) = self.facts.context else { return };
        match self.context.judge(fill, self.traits.compacts) {
            ContextVerdict::Fine => {}
            ContextVerdict::Warn { pct } => {
                if !self.context_warned {
                    self.context_warned = true;
                    self.observer.context_warning(pct);
                }
            }
            ContextVerdict::Kill { used, window } => {
                self.context_exceeded = Some((used, window));
                self.pulse.request_stop();
            }
        }
    }

    /// The event log is for people and tools; it never fails a run.
    fn log(&mut self, at: Duration, event: &AgentEvent) {
        if matches!(event, AgentEvent::Text { .. }) {
            self.texts += 1;
            if self.texts > ALL_TEXTS && !self.texts.is_multiple_of(THEN_ONE_IN) {
                return;
            }
        }
        let shortened = shortened(event);
        let line = EventLine {
            v: 1,
            ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
            event: shortened.as_ref().unwrap_or(event),
        };
        if serde_json::to_writer(&mut self.event_log, &line).is_ok() {
            let _ = self.event_log.write_all(b"\n");
        }
    }
}

impl Watcher for AgentWatcher {
    fn line(&mut self, stream: Stream, line: &[u8]) {
        let mut events = std::mem::take(&mut self.events);
        match stream {
            Stream::Stdout => self.decoder.stdout_line(line, &mut events),
            Stream::Stderr => self.decoder.stderr_line(line, &mut events),
        }
        if stream == Stream::Stderr && !line.trim_ascii().is_empty() {
            self.stderr.push(line);
        }
        // Tool output goes through a structured stdout; only plain text there is the agent's own.
        if stream == Stream::Stderr || !self.traits.structured {
            self.tail.push(line);
        }
        if !events.is_empty() {
            let at = self.pulse.elapsed();
            for event in &events {
                self.take(at, event);
            }
            events.clear();
        }
        self.events = events;
    }

    fn flush(&mut self) {
        let _ = self.event_log.flush();
    }
}

fn shortened(event: &AgentEvent) -> Option<AgentEvent> {
    let cut = |text: &str| {
        let mut end = EVENT_TEXT;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        format!("{}… ({} bytes)", &text[..end], text.len())
    };
    match event {
        AgentEvent::Text { text } if text.len() > EVENT_TEXT => {
            Some(AgentEvent::Text { text: cut(text) })
        }
        AgentEvent::Final { text } if text.len() > EVENT_TEXT => {
            Some(AgentEvent::Final { text: cut(text) })
        }
        _ => None,
    }
}

/// The last lines of a run's output, for information that is only there.
#[derive(Debug)]
pub(super) struct Tail {
    lines: VecDeque<Vec<u8>>,
    most: usize,
}

impl Tail {
    const LINE: usize = 4096;

    /// Keeps this many lines.
    pub(super) fn of(most: usize) -> Tail {
        Tail { lines: VecDeque::new(), most }
    }

    fn push(&mut self, line: &[u8]) {
        let mut slot = if self.lines.len() >= self.most {
            self.lines.pop_front().unwrap_or_default()
        } else {
            Vec::new()
        };
        slot.clear();
        slot.extend_from_slice(&line[..line.len().min(Self::LINE)]);
        self.lines.push_back(slot);
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            text.push_str(&String::from_utf8_lossy(line));
            text.push('\n');
        }
        text
    }
}
