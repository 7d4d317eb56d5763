//! Asks a person at a terminal: questions on stderr, answers from the keyboard.
//!
//! In rich mode an answer is edited as in a shell, on the terminal itself (`/dev/tty`), so that nothing is echoed to
//! stdout. Otherwise an answer is one line; a trailing backslash continues it on the next. In both modes a multi-line
//! paste is one answer, and what was typed before a question was shown does not answer it: no consent is given by
//! accident. End of input is a no to a consent, and interrupts any other question.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::thread;

use ralph_engine::ask::{AskPerson, Inquiry, NoReply, ShowInquiry, is_yes, option_meant};
use ralph_model::shown::{shown, shown_lines};
use ralph_proc::signal::wait_for_input;
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Behavior, Config, Editor, Helper};

use super::text::StyledLine;
use super::{Tone, Ui, discard_typed_ahead, has_pasted_line, read_line, styled};

/// How often an invalid answer may be repeated.
const MOST_TRIES: u32 = 3;

/// Asks the person at the terminal.
pub(crate) struct TerminalPerson {
    ui: Ui,
    edits: bool,
}

/// The typed input.
enum Typed {
    Text(String),
    End,
    Stop,
}

impl TerminalPerson {
    pub(crate) fn new(ui: Ui) -> TerminalPerson {
        let can_edit = || {
            let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
            let terminal = io::IsTerminal::is_terminal(&io::stdin());
            terminal && !is_dumb && std::fs::File::open("/dev/tty").is_ok()
        };
        TerminalPerson { ui, edits: ui.rich && can_edit() }
    }

    /// Returns what shows a question that a flag answers, or nobody.
    pub(crate) fn shows(&self) -> ShowInquiry {
        let ui = self.ui;
        Box::new(move |inquiry, flag| {
            let more = flag.map(|flag| format!(" yes ({flag})"));
            put(ui, inquiry, &more.unwrap_or_default());
        })
    }

    /// Shows a question, with what the person should read first.
    fn put(&self, inquiry: &Inquiry<'_>, more: &str) {
        discard_typed_ahead();
        put(self.ui, inquiry, more);
    }

    fn read(&self) -> Typed {
        if self.edits {
            return edit();
        }
        let (mut text, mut is_paste) = (String::new(), false);
        loop {
            let prompt = match (text.is_empty(), is_paste) {
                (true, _) => "> ",
                (false, true) => "",
                (false, false) => ". ",
            };
            let line = match read_line(prompt) {
                Ok(Some(line)) => line,
                Ok(None) if text.is_empty() => return Typed::End,
                Ok(None) => return Typed::Text(text),
                Err(_) => return Typed::Stop,
            };
            let continued = line.strip_suffix('\\');
            text.push_str(continued.unwrap_or(&line));
            // The remaining lines of a paste belong to this answer, not to the next question.
            is_paste = continued.is_none() && has_pasted_line();
            if continued.is_none() && !is_paste {
                return Typed::Text(text);
            }
            text.push('\n');
        }
    }
}

fn put(ui: Ui, inquiry: &Inquiry<'_>, more: &str) {
    ui.important("");
    for line in inquiry.context {
        ui.important(styled!("  {}", shown(line)));
    }
    if !inquiry.context.is_empty() {
        ui.important("");
    }
    // Whatever a question holds, no later line of it looks like one of Ralph's.
    for (index, line) in shown_lines(inquiry.question).enumerate() {
        let mark = if index == 0 { "?" } else { " " };
        let line = ui.paint(Tone::Strong, &line);
        ui.important(styled!(
            "{} {line}{}",
            ui.paint(Tone::Active, mark),
            if index == 0 { more } else { "" }
        ));
    }
}

impl AskPerson for TerminalPerson {
    fn text(&mut self, inquiry: &Inquiry<'_>, default: Option<&str>) -> Result<String, NoReply> {
        self.put(inquiry, "");
        let ui = self.ui;
        if let Some(default) = default.filter(|default| !default.is_empty()) {
            ui.important(ui.paint(Tone::Faint, "  press Enter for:"));
            for line in shown_lines(default) {
                ui.important(styled!("    {line}"));
            }
        }
        match self.read() {
            Typed::Text(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
            Typed::Text(text) => Ok(default.map_or(text, str::to_owned)),
            Typed::End | Typed::Stop => Err(NoReply::Interrupted),
        }
    }

    fn confirm(&mut self, inquiry: &Inquiry<'_>, default: bool) -> Result<bool, NoReply> {
        let default = default && inquiry.consent.is_none();
        for _ in 0..MOST_TRIES {
            self.put(inquiry, if default { " [Y/n]" } else { " [y/N]" });
            match self.read() {
                Typed::Text(text) if text.trim().is_empty() => return Ok(default),
                Typed::Text(text) => {
                    if let Some(answer) = is_yes(&text) {
                        return Ok(answer);
                    }
                    self.ui.important("  please answer yes or no");
                }
                Typed::End if inquiry.consent.is_some() => return Ok(false),
                Typed::End | Typed::Stop => return Err(NoReply::Interrupted),
            }
        }
        Ok(false)
    }

    fn choose(
        &mut self,
        inquiry: &Inquiry<'_>,
        options: &[&str],
        default: usize,
    ) -> Result<usize, NoReply> {
        for _ in 0..MOST_TRIES {
            self.put(inquiry, "");
            for (index, option) in options.iter().enumerate() {
                let usual = if index == default { " (default)" } else { "" };
                self.ui.important(styled!("  {}. {option}{usual}", index + 1));
            }
            match self.read() {
                Typed::Text(text) if text.trim().is_empty() => return Ok(default),
                Typed::Text(text) => {
                    if let Some(index) = option_meant(&text, options) {
                        return Ok(index);
                    }
                    self.ui.important(
                        "  please answer with a number or the first letters of an option",
                    );
                }
                Typed::End | Typed::Stop => return Err(NoReply::Interrupted),
            }
        }
        Ok(default)
    }
}

/// Continues an answer on the next line after a backslash.
struct Continues;

impl Completer for Continues {
    type Candidate = String;
}

impl Hinter for Continues {
    type Hint = String;
}

impl Highlighter for Continues {}

impl Helper for Continues {}

impl Validator for Continues {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if context.input().ends_with('\\') {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}

/// Edits an answer on the terminal.
///
/// The editor blocks waiting for keys, so it runs on its own thread: a termination request is handled at once, with the
/// terminal restored.
fn edit() -> Typed {
    let Ok(before) = tcgetattr(io::stdin()) else { return Typed::End };
    let Ok((done, mut tell)) = UnixStream::pair() else { return Typed::End };
    let editing = thread::spawn(move || {
        let line = read_edited();
        let _ = tell.write_all(b"x");
        line
    });
    if !wait_for_input(&done, || {}).unwrap_or(true) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
        super::important("");
        return Typed::Stop;
    }
    match editing.join() {
        Ok(Ok(text)) => Typed::Text(text.replace("\\\n", "\n")),
        Ok(Err(ReadlineError::Eof)) => Typed::End,
        Ok(Err(_)) | Err(_) => Typed::Stop,
    }
}

fn read_edited() -> rustyline::Result<String> {
    let config = Config::builder().behavior(Behavior::PreferTerm).build();
    let mut editor: Editor<Continues, DefaultHistory> = Editor::with_config(config)?;
    editor.set_helper(Some(Continues));
    editor.readline(&StyledLine::from("> ").encode(false))
}
