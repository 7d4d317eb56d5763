//! Progress of a run while it goes on: a status line on a terminal, one line per happening elsewhere.
//!
//! Both are folds over the run's events. On a terminal a thread of its own redraws once a second, because time passes
//! also when nothing happens.

use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ralph_engine::run::RunObserver;
use ralph_model::event::{AgentEvent, LimitStatus};
use ralph_model::run::RunFacts;

use super::human::{count, dollars, duration, one_line};
use super::{Tone, Ui};

const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const ASCII_SPINNER: [&str; 4] = ["-", "\\", "|", "/"];

/// An agent may say millions of things; a person reads a few a second.
const BETWEEN_LINES: Duration = Duration::from_millis(50);

/// What the status line shows.
#[derive(Debug)]
struct Status {
    title: String,
    started: Instant,
    activity: String,
    facts: RunFacts,
    drawn: usize,
    shown: Option<Duration>,
}

/// Shows one run.
pub(crate) struct Live {
    ui: Ui,
    /// Whether all that the agent says is shown.
    stream: bool,
    /// How wide a line may be, where that is limited.
    width: Option<usize>,
    status: Arc<Mutex<Status>>,
    ticker: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Live {
    /// Starts to show a run. `title` names it: role, agent, attempt.
    pub(crate) fn start(ui: Ui, title: String) -> Live {
        let status = Arc::new(Mutex::new(Status {
            title,
            started: Instant::now(),
            activity: "starting".to_owned(),
            facts: RunFacts::default(),
            drawn: 0,
            shown: None,
        }));
        let ticker = ui.rich.then(|| {
            let (stop, stopped) = channel::<()>();
            let status = Arc::clone(&status);
            let thread = std::thread::spawn(move || {
                // The sender going away ends the thread; so does the word.
                while stopped.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout)
                {
                    draw(ui, &mut status.lock().unwrap_or_else(PoisonError::into_inner));
                }
            });
            (stop, thread)
        });
        Live { ui, stream: false, width: None, status, ticker }
    }

    /// Shows everything that the agent says, or not.
    pub(crate) fn streaming(mut self, stream: bool) -> Live {
        self.stream = stream;
        self
    }

    /// Keeps to lines of this width.
    pub(crate) fn within(mut self, width: Option<usize>) -> Live {
        self.width = width;
        self
    }

    /// Shows a text whole, line by line.
    fn show_whole(&self, text: &str) {
        for line in text.lines() {
            self.say(Tone::Faint, "says", &one_line(line, 2000));
        }
    }

    fn say(&self, tone: Tone, label: &str, text: &str) {
        if self.ui.rich {
            erase();
        }
        let room = self.width.map(|width| width.saturating_sub(label.chars().count() + 3));
        match room.filter(|room| text.chars().count() > *room) {
            Some(room) => self.ui.labelled(tone, label, &one_line(text, room)),
            None => self.ui.labelled(tone, label, text),
        }
    }
}

impl Drop for Live {
    /// Takes the status line away.
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.ticker.take() {
            drop(stop);
            let _ = thread.join();
            erase();
        }
    }
}

impl RunObserver for Live {
    fn event(&mut self, at: Duration, event: &AgentEvent) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(event, AgentEvent::Text { .. }) {
            status.facts.apply(event);
        }
        if let (true, AgentEvent::Text { text }) = (self.stream, event) {
            drop(status);
            self.show_whole(text);
            return;
        }
        if status.shown.is_some_and(|shown| at.saturating_sub(shown) < BETWEEN_LINES) {
            return;
        }
        let (tone, label, text) = match event {
            AgentEvent::Session { id, model } => {
                let model = model.as_deref().map(|model| format!(", {model}")).unwrap_or_default();
                (Tone::Faint, "session", format!("{id}{model}"))
            }
            AgentEvent::Text { text } => (Tone::Faint, "says", one_line(text, 160)),
            AgentEvent::ToolCall { name, summary, .. } => {
                (Tone::Active, "tool", one_line(&format!("{name} {summary}"), 160))
            }
            AgentEvent::Retry { status, message } => {
                let status = status.map(|code| format!("{code}: ")).unwrap_or_default();
                (Tone::Attention, "retry", format!("{status}{}", one_line(message, 140)))
            }
            AgentEvent::RateLimit { status: LimitStatus::Warning, .. } => {
                (Tone::Attention, "limit", "the usage limit is near".to_owned())
            }
            AgentEvent::Error { message, .. } => (Tone::Bad, "error", one_line(message, 160)),
            AgentEvent::ToolResult { .. }
            | AgentEvent::Usage { .. }
            | AgentEvent::Cost { .. }
            | AgentEvent::Context { .. }
            | AgentEvent::RateLimit { .. }
            | AgentEvent::Final { .. } => return,
        };
        status.shown = Some(at);
        let keeps_line = matches!(event, AgentEvent::Retry { .. } | AgentEvent::Error { .. });
        if self.ui.rich && !keeps_line {
            status.activity = text;
            draw(self.ui, &mut status);
        } else {
            status.activity.clone_from(&text);
            drop(status);
            self.say(tone, label, &text);
        }
    }

    fn context_warning(&mut self, percent: u8) {
        self.say(Tone::Attention, "context", &format!("{percent} % of the context is used"));
    }
}

fn draw(ui: Ui, status: &mut Status) {
    status.drawn += 1;
    let spinner = if ui.ascii {
        ASCII_SPINNER[status.drawn % ASCII_SPINNER.len()]
    } else {
        SPINNER[status.drawn % SPINNER.len()]
    };
    let mut parts = vec![status.title.clone(), duration(status.started.elapsed())];
    let tokens = status.facts.usage.total();
    if tokens > 0 {
        parts.push(format!("{} tokens", count(tokens)));
    }
    if let Some(cost) = status.facts.cost_usd {
        parts.push(dollars(cost));
    }
    let separator = format!(" {} ", ui.symbol("·", "|"));
    let head = parts.join(&separator);
    let width = terminal_width().saturating_sub(head.chars().count() + 6);
    let activity = one_line(&status.activity, width.max(8));
    let line = format!(
        "\r\x1b[2K{} {head}{separator}{}",
        ui.paint(Tone::Active, spinner),
        ui.paint(Tone::Faint, &activity)
    );
    let _ = std::io::stderr().write_all(line.as_bytes());
}

fn erase() {
    let _ = std::io::stderr().write_all(b"\r\x1b[2K");
}

/// Returns the columns of the terminal, within reason.
pub(super) fn terminal_width() -> usize {
    rustix::termios::tcgetwinsize(std::io::stderr())
        .map_or(80, |size| usize::from(size.ws_col))
        .clamp(40, 400)
}
