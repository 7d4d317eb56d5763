//! Any program that reads a prompt from stdin and writes plain text.
//!
//! The configuration gives the whole command line and the arguments for resuming a session; a model or a reasoning
//! effort have no effect. The final message is the end of stdout. Codex's own output without `--json` (its session, the
//! tokens it used) is recognised, because it is the program most often run this way.

use std::collections::VecDeque;

use camino::Utf8PathBuf;
use ralph_model::event::{AgentEvent, ErrorKind, LimitStatus};
use ralph_model::run::ProcessExit;
use ralph_model::usage::Usage;

use super::reset::limit_in_text;
use super::wire::{text_of, without_escapes};
use super::{Adapter, AgentRequest, DecodeContext, Decoder, EnvLookup, Invocation, Traits};

/// How many lines at the end of the output are kept.
const TAIL_LINES: usize = 200;
const TAIL_BYTES: usize = 256 * 1024;

/// How many characters of a line are shown.
const TEXT_CHARS: usize = 2000;

pub(super) struct CommandAdapter;

impl Adapter for CommandAdapter {
    fn name(&self) -> &'static str {
        "command"
    }

    fn program(&self) -> Option<&'static str> {
        None
    }

    fn traits(&self) -> Traits {
        Traits {
            structured: false,
            announces_tools: false,
            compacts: false,
            resumes: false,
            reports_cost: false,
            reasoning: false,
            login: None,
        }
    }

    fn invocation(&self, request: &AgentRequest<'_>) -> Invocation {
        Invocation { args: request.extra_args.to_vec(), env: Vec::new() }
    }

    fn decoder(&self, context: DecodeContext) -> Box<dyn Decoder> {
        Box::new(CommandDecoder {
            context,
            stdout: Tail::default(),
            stderr: Tail::default(),
            lines: 0,
            session: None,
        })
    }

    fn state_paths(&self, _: EnvLookup<'_>) -> Vec<Utf8PathBuf> {
        Vec::new()
    }
}

struct CommandDecoder {
    context: DecodeContext,
    stdout: Tail,
    stderr: Tail,
    lines: u64,
    /// The last reported session id.
    session: Option<String>,
}

/// Lines are events only for display. After this many, only a sample is reported: a program may print millions, and the
/// log has them all.
const ALL_SHOWN: u64 = 1000;
const THEN_ONE_IN: u64 = 64;

impl Decoder for CommandDecoder {
    fn stdout_line(&mut self, line: &[u8], events: &mut Vec<AgentEvent>) {
        self.lines += 1;
        if self.lines <= ALL_SHOWN || self.lines.is_multiple_of(THEN_ONE_IN) {
            let text = text_of(line);
            let text = without_escapes(&text);
            if !text.trim().is_empty() {
                let end = text.char_indices().nth(TEXT_CHARS).map_or(text.len(), |(at, _)| at);
                events.push(AgentEvent::Text { text: text[..end].to_owned() });
            }
        }
        self.note_session(line, events);
        self.stdout.push(line);
    }

    fn stderr_line(&mut self, line: &[u8], events: &mut Vec<AgentEvent>) {
        self.note_session(line, events);
        self.stderr.push(line);
    }

    fn finish(&mut self, exit: Option<ProcessExit>, events: &mut Vec<AgentEvent>) {
        if let Some(total) = self.tokens_used() {
            // The total cannot be split, so it is counted as input, the largest part.
            let usage = Usage { input: total, ..Usage::default() };
            events.push(AgentEvent::Usage { usage, cumulative: false });
        }
        // A killed program has not finished its output.
        let Some(ProcessExit::Code(code)) = exit else { return };
        if code != 0 {
            self.tell_limit(events);
        }
        if !self.stdout.lines.is_empty() {
            let message = self.context.final_from.message(&self.stdout.text());
            events.extend(message.map(|text| AgentEvent::Final { text }));
        }
    }
}

impl CommandDecoder {
    /// Extracts the session id as configured, or from a line that contains nothing else.
    fn note_session(&mut self, line: &[u8], events: &mut Vec<AgentEvent>) {
        let first = line.iter().find(|byte| !byte.is_ascii_whitespace());
        let id = match (&self.context.session_from, first) {
            (Some(place), Some(b'{' | b'[')) => place.message(&text_of(line)),
            // Escape sequences may precede the word; anything else cannot begin such a line.
            (None, Some(b's' | b'S' | 0x1b)) => {
                session_id(&without_escapes(&text_of(line))).map(str::to_owned)
            }
            _ => None,
        };
        if let Some(id) = id.filter(|id| !id.is_empty() && self.session.as_ref() != Some(id)) {
            self.session = Some(id.clone());
            events.push(AgentEvent::Session { id, model: None });
        }
    }

    /// Parses the note about tokens that programs print at the end.
    fn tokens_used(&self) -> Option<u64> {
        let mut note = TokenNote::default();
        for tail in [&self.stdout, &self.stderr] {
            tail.text().lines().for_each(|line| note.line(line));
        }
        note.total()
    }

    fn tell_limit(&self, events: &mut Vec<AgentEvent>) {
        for tail in [&self.stdout, &self.stderr] {
            if let Some(limit) = limit_in_text(&tail.text(), &self.context) {
                let (status, resets_at) = (LimitStatus::Rejected, limit.resets_at);
                events.push(AgentEvent::RateLimit { status, resets_at });
                let message = "the output mentions a usage limit".to_owned();
                let kind = ErrorKind::UsageLimit;
                events.push(AgentEvent::Error { kind, message, fatal: false });
                return;
            }
        }
    }
}

/// The end of a stream of lines, in bounded memory. Lines are stored raw and parsed at the end.
#[derive(Default)]
struct Tail {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Tail {
    fn push(&mut self, line: &[u8]) {
        let line = &line[line.len().saturating_sub(TAIL_BYTES)..];
        self.bytes += line.len();
        let mut slot = Vec::new();
        while self.lines.len() >= TAIL_LINES || (self.bytes > TAIL_BYTES && !self.lines.is_empty())
        {
            slot = self.lines.pop_front().expect("lines that are too many are not none");
            self.bytes -= slot.len();
        }
        slot.clear();
        slot.extend_from_slice(line);
        self.lines.push_back(slot);
    }

    fn text(&self) -> String {
        let mut text = String::with_capacity(self.bytes + self.lines.len());
        for line in &self.lines {
            text.push_str(&without_escapes(&text_of(line)));
            text.push('\n');
        }
        text.pop();
        text
    }
}

/// Parses a line that consists of `session id:` and an id.
fn session_id(line: &str) -> Option<&str> {
    const LABEL: &str = "session id:";
    let line = line.trim();
    let label = line.get(..LABEL.len())?;
    let id = line[LABEL.len()..].trim_start();
    let is_id = id.len() == 36 && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    (label.eq_ignore_ascii_case(LABEL) && is_id).then_some(id)
}

/// The program's token note: under its own heading, or otherwise in any line that mentions tokens.
#[derive(Default)]
struct TokenNote {
    heading: bool,
    under_heading: Option<u64>,
    in_line: Option<u64>,
}

impl TokenNote {
    fn line(&mut self, line: &str) {
        const LABEL: &str = "tokens used";
        let line = line.trim();
        if line.eq_ignore_ascii_case(LABEL) {
            self.heading = true;
        } else if self.heading && !line.is_empty() {
            self.heading = false;
            self.under_heading = digits(line).or(self.under_heading);
        } else if line.len() < TEXT_CHARS && line.to_ascii_lowercase().contains(LABEL) {
            self.in_line = digits(line).or(self.in_line);
        }
    }

    fn total(&self) -> Option<u64> {
        self.under_heading.or(self.in_line)
    }
}

fn digits(line: &str) -> Option<u64> {
    line.chars().filter(char::is_ascii_digit).collect::<String>().parse().ok()
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
