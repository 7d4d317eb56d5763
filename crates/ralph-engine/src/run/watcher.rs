//! Reads along with a running agent: lines become events, events become facts, and some facts end the run.

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

/// Told of everything that happens in a run while it happens. Called on the thread that reads the stream.
pub trait RunObserver: Send {
    /// `at` counts from the start of the run.
    fn event(&mut self, at: Duration, event: &AgentEvent);

    /// The context fills up.
    fn context_warning(&mut self, percent: u8);
}

/// Longer texts are cut in the event log; the agent's own log has them whole.
const EVENT_TEXT: usize = 4000;

/// Of what an agent says, so much goes into the event log; then one in a few. An agent may babble millions of lines, and
/// its own log has them all. Every other event is always logged.
const ALL_TEXTS: u64 = 10_000;
const THEN_ONE_IN: u64 = 64;

/// So many of the last lines of stderr are kept for a message about a crash.
pub(super) const STDERR_LINES: usize = 3;

/// A line of the event log.
#[derive(Serialize)]
struct EventLine<'a> {
    v: u32,
    ms: u64,
    event: &'a AgentEvent,
}

/// Reads a line of the event log; nothing where it is not one that this Ralph knows.
pub fn parse_event_line(line: &[u8]) -> Option<AgentEvent> {
    #[derive(Deserialize)]
    struct LoggedEvent {
        event: AgentEvent,
    }
    serde_json::from_slice(line).map(|LoggedEvent { event }| event).ok()
}

pub(super) struct AgentWatcher<'a> {
    pub(super) decoder: Box<dyn Decoder>,
    pub(super) traits: Traits,
    pub(super) context: ContextPolicy,
    pub(super) pulse: Pulse,
    pub(super) event_log: BufWriter<File>,
    pub(super) observer: &'a mut dyn RunObserver,
    pub(super) facts: RunFacts,
    pub(super) tail: Tail,
    /// What it said on stderr last, for a message.
    pub(super) stderr: Tail,
    pub(super) context_exceeded: Option<(u64, u64)>,
    pub(super) hopeless: bool,
    pub(super) context_warned: bool,
    pub(super) texts: u64,
    pub(super) events: Vec<AgentEvent>,
}

impl AgentWatcher<'_> {
    /// Takes in what only the end of the stream tells.
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

    /// Whether silence may be a tool at work. An agent that does not announce its tools may always be busy with one,
    /// except while it tells that it only repeats a request.
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

    /// The event log is for people and tools; a run does not fail because of it.
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

impl Watcher for AgentWatcher<'_> {
    fn line(&mut self, stream: Stream, line: &[u8]) {
        let mut events = std::mem::take(&mut self.events);
        match stream {
            Stream::Stdout => self.decoder.stdout_line(line, &mut events),
            Stream::Stderr => self.decoder.stderr_line(line, &mut events),
        }
        if stream == Stream::Stderr && !line.trim_ascii().is_empty() {
            self.stderr.push(line);
        }
        // What tools print goes through a structured stdout; only plain text there is the agent's own word.
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

/// The last lines a run printed, for what can only be read there.
#[derive(Debug)]
pub(super) struct Tail {
    lines: VecDeque<Vec<u8>>,
    most: usize,
}

impl Tail {
    const LINE: usize = 4096;

    /// So many lines are kept.
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
