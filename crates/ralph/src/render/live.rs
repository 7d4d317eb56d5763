//! Progress of a running run: one line per event, and on a terminal a status line below them.
//!
//! Both are folds over the run's events. A thread redraws the status line once a second, because time passes even without
//! events. A fast sequence of lines is shown completely; only when an agent floods its output are lines dropped, and
//! then their number is shown.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ralph_engine::subscriber::RunObserver;
use ralph_model::event::{AgentEvent, LimitStatus};
use ralph_model::run::RunFacts;

use super::human::{count, dollars, duration, one_line, plural};
use super::{Tone, Ui, redraw, redraw_line, styled};

const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const ASCII_SPINNER: [&str; 4] = ["-", "\\", "|", "/"];

/// An agent may print millions of lines; a person reads a few per second.
const BETWEEN_LINES: Duration = Duration::from_millis(50);

/// The burst size before the rate drops to one line per [`BETWEEN_LINES`].
const BURST: u32 = 400;

/// A rate limiter for lines. Unused capacity accumulates up to a burst.
#[derive(Debug)]
struct Pace {
    saved: Duration,
    last: Duration,
}

impl Pace {
    const MOST: Duration = BETWEEN_LINES.saturating_mul(BURST);

    /// Whether a line may be shown at this time.
    fn allows(&mut self, at: Duration) -> bool {
        self.saved = (self.saved + at.saturating_sub(self.last)).min(Self::MOST);
        self.last = self.last.max(at);
        let rest = self.saved.checked_sub(BETWEEN_LINES);
        self.saved = rest.unwrap_or(self.saved);
        rest.is_some()
    }
}

/// The data of the status line.
#[derive(Debug)]
struct Status {
    title: String,
    started: Instant,
    activity: String,
    facts: RunFacts,
    drawn: usize,
    pace: Pace,
    /// The number of lines dropped since the last one shown.
    left_out: u64,
}

/// Shows one run.
pub(crate) struct Live {
    ui: Ui,
    /// Whether all agent output is shown.
    stream: bool,
    /// The maximum line width, if limited.
    width: Option<usize>,
    status: Arc<Mutex<Status>>,
    ticker: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Live {
    /// Starts showing a run. `title` has its role, agent and attempt.
    pub(crate) fn start(ui: Ui, title: String) -> Live {
        let status = Arc::new(Mutex::new(Status {
            title,
            started: Instant::now(),
            activity: "starting".to_owned(),
            facts: RunFacts::default(),
            drawn: 0,
            pace: Pace { saved: Pace::MOST, last: Duration::ZERO },
            left_out: 0,
        }));
        let ticker = ui.rich.then(|| {
            let (stop, stopped) = channel::<()>();
            let status = Arc::clone(&status);
            let thread = std::thread::spawn(move || {
                // Ends when the sender is dropped or sends a message.
                while stopped.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout)
                {
                    draw(ui, &mut status.lock().unwrap_or_else(PoisonError::into_inner));
                }
            });
            (stop, thread)
        });
        Live { ui, stream: false, width: None, status, ticker }
    }

    /// Sets whether all agent output is shown.
    pub(crate) fn streaming(mut self, stream: bool) -> Live {
        self.stream = stream;
        self
    }

    /// Limits the width of lines.
    pub(crate) fn within(mut self, width: Option<usize>) -> Live {
        self.width = width;
        self
    }

    /// Shows a whole text, line by line.
    fn show_whole(&self, text: &str) {
        for line in text.lines() {
            self.say(Tone::Faint, "says", &one_line(line, 2000));
        }
    }

    fn say(&self, tone: Tone, label: &str, text: &str) {
        if self.ui.rich {
            redraw("");
        }
        let room = self.width.map(|width| width.saturating_sub(label.len() + 3));
        match room {
            Some(room) => self.ui.labelled(tone, label, &one_line(text, room)),
            None => self.ui.labelled(tone, label, text),
        }
    }

    /// Prints how many lines were dropped since the last one shown.
    fn tell_left_out(&self) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let left_out = std::mem::take(&mut status.left_out);
        drop(status);
        if left_out > 0 {
            let text =
                format!("{} left out here; the log has all of them", plural(left_out, "line"));
            self.say(Tone::Faint, "more", &text);
        }
    }
}

impl Drop for Live {
    /// Removes the status line.
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.ticker.take() {
            drop(stop);
            let _ = thread.join();
            redraw("");
        }
        self.tell_left_out();
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
        if !is_shown(event) {
            return;
        }
        if !status.pace.allows(at) {
            status.left_out += 1;
            return;
        }
        let Some((tone, label, text)) = describe(event) else { return };
        status.activity.clone_from(&text);
        drop(status);
        self.tell_left_out();
        self.say(tone, label, &text);
        if self.ui.rich {
            draw(self.ui, &mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn context_warning(&mut self, percent: u8) {
        self.say(Tone::Attention, "context", &format!("{percent} % of the context is used"));
    }
}

/// Whether [`describe`] returns a text for an event; cheap.
fn is_shown(event: &AgentEvent) -> bool {
    !matches!(
        event,
        AgentEvent::ToolResult { .. }
            | AgentEvent::Usage { .. }
            | AgentEvent::Cost { .. }
            | AgentEvent::Context { .. }
            | AgentEvent::RateLimit { status: LimitStatus::Allowed | LimitStatus::Rejected, .. }
            | AgentEvent::Final { .. }
    )
}

/// Describes an event; `None` for events that need no line.
pub(crate) fn describe(event: &AgentEvent) -> Option<(Tone, &'static str, String)> {
    Some(match event {
        AgentEvent::Session { id, model } => {
            let model = model.as_deref().map(|model| format!(", {model}")).unwrap_or_default();
            (Tone::Faint, "session", one_line(&format!("{id}{model}"), 160))
        }
        AgentEvent::Text { text } => (Tone::Faint, "says", one_line(text, 160)),
        AgentEvent::ToolCall { name, summary, .. } => {
            (Tone::Active, "tool", one_line(&format!("{name} {summary}"), 160))
        }
        AgentEvent::Retry { status, message } => {
            let status = status.map(|code| format!("{code}: ")).unwrap_or_default();
            (Tone::Attention, "retry", format!("{status}{}", one_line(message, 140)))
        }
        AgentEvent::RateLimit { .. } => {
            (Tone::Attention, "limit", "the usage limit is near".to_owned())
        }
        AgentEvent::Error { message, .. } => (Tone::Bad, "error", one_line(message, 160)),
        AgentEvent::ToolResult { .. }
        | AgentEvent::Usage { .. }
        | AgentEvent::Cost { .. }
        | AgentEvent::Context { .. }
        | AgentEvent::Final { .. } => return None,
    })
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
    let spinner = ui.paint(Tone::Active, spinner);
    let activity = ui.paint(Tone::Faint, &status.activity);
    redraw_line(styled!("{spinner} {head}{separator}{activity}"), ui.color);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_lines_are_shown_and_only_a_flood_is_thinned_out() {
        let ms = Duration::from_millis;
        let shown = |times: &mut dyn Iterator<Item = u64>| {
            let mut pace = Pace { saved: Pace::MOST, last: Duration::ZERO };
            times.filter(|at| pace.allows(ms(*at))).count()
        };
        let burst = BURST as usize;
        assert_eq!(shown(&mut std::iter::repeat_n(7, 300)), 300, "all at once");
        assert_eq!(shown(&mut (0..10_000).map(|n| n * 50)), 10_000, "one after the other");
        assert_eq!(shown(&mut std::iter::repeat_n(0, 100_000)), burst);
        assert_eq!(shown(&mut (0..100_000).map(|n| n / 10)), burst + 10_000 / 50 - 1);
        let rested = std::iter::repeat_n(0, 1000).chain(std::iter::repeat_n(60_000, 300));
        assert_eq!(shown(&mut { rested }), burst + 300, "rest is saved up");
        assert_eq!(shown(&mut [90, 10, 20].into_iter()), 3, "a clock that goes back");
    }
}
