//! The user interface. All colours, symbols and wording of lines are produced here, from facts.

pub(crate) mod agent_run;
pub(crate) mod ask;
pub(crate) mod gates;
mod goal;
pub(crate) mod human;
pub(crate) mod live;
pub(crate) mod output;
pub(crate) mod stop;
pub(crate) mod text;
pub(crate) mod workflow;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal};

use clap::ValueEnum;
use ralph_engine::config::{Color, UiMode, UiSettings};
use ralph_model::shown::{shown_json, shown_lines};
use ralph_proc::signal::wait_for_input;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush};

pub(crate) use self::output::stdout_is_terminal;
use self::output::{
    stderr_is_terminal, stderr_width, stdout_width, write_bytes, write_stderr, write_stdout,
};
use self::text::{LongWords, Painted, StyledLine};
pub(crate) use self::text::{Tone, styled};
use crate::args::GlobalArgs;
use crate::error::CliError;
use crate::exit::Exit;

/// How to talk to the person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UiChoice {
    /// Rich on a terminal, else plain
    Auto,
    /// One line after the other, and a status line
    Rich,
    /// One line after the other
    Plain,
}

/// The output settings, decided once.
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ui {
    pub(crate) rich: bool,
    /// Whether stderr output has colours.
    pub(crate) color: bool,
    /// Whether stdout output has colours.
    print_color: bool,
    pub(crate) ascii: bool,
    pub(crate) quiet: bool,
    /// Whether stderr is a terminal: long lines are wrapped between words there.
    terminal: bool,
}

impl Ui {
    pub(crate) fn new(settings: &UiSettings, quiet: bool) -> Ui {
        let terminal = stderr_is_terminal();
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let rich = match settings.mode {
            UiMode::Rich => true,
            UiMode::Plain => false,
            UiMode::Auto => terminal && !dumb,
        };
        let color = |terminal: bool| match settings.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !dumb,
        };
        Ui {
            rich: rich && !quiet,
            color: color(terminal),
            print_color: color(stdout_is_terminal()),
            ascii: settings.ascii,
            quiet,
            terminal,
        }
    }

    /// The settings for errors before any configuration is loaded.
    pub(crate) fn early(global: &GlobalArgs) -> Ui {
        let plain = global.no_color || std::env::var_os("NO_COLOR").is_some();
        let color = if plain { Color::Never } else { Color::Auto };
        let settings = UiSettings { mode: UiMode::Plain, color, ascii: global.ascii };
        Ui::new(&settings, global.quiet)
    }

    /// Returns the same settings, for important lines only.
    pub(crate) fn silent(self) -> Ui {
        Ui { quiet: true, rich: false, ..self }
    }

    /// Gives a text a tone, which lines made by `styled!` keep.
    #[expect(
        clippy::unused_self,
        reason = "whether there are colours is decided when a line is written"
    )]
    pub(crate) fn paint(self, tone: Tone, text: &str) -> Painted {
        Painted { tone, text: text.to_owned() }
    }

    /// A symbol, or its ASCII replacement.
    pub(crate) fn symbol(self, symbol: &'static str, ascii: &'static str) -> &'static str {
        if self.ascii { ascii } else { symbol }
    }

    /// The maximum width of a line on stderr; `most` without a terminal.
    pub(crate) fn width_up_to(self, most: usize) -> usize {
        if self.terminal { stderr_width().min(most) } else { most }
    }

    /// Prints a line for the person, unless quiet.
    pub(crate) fn line(self, line: impl Into<StyledLine>) {
        if !self.quiet {
            self.important(line);
        }
    }

    /// Prints a line that the person must see.
    pub(crate) fn important(self, line: impl Into<StyledLine>) {
        let line = line.into();
        let width = if self.terminal { stderr_width() } else { usize::MAX };
        let indent = line.indent() + 2;
        self.write(&line.wrap(width, indent, LongWords::Whole));
    }

    /// Prints a note for the person.
    pub(crate) fn note(self, message: &str) {
        self.labelled(Tone::Attention, "note", message);
    }

    /// Prints `[label] message` with only the label coloured.
    pub(crate) fn labelled(self, tone: Tone, label: &str, message: &str) {
        let width = self.terminal.then(stderr_width);
        self.labelled_within(width, LongWords::Whole, tone, label, message);
    }

    /// Prints `[label] message`, or `narrow` if the terminal is too narrow for it.
    pub(crate) fn labelled_or(self, tone: Tone, label: &str, message: &str, narrow: &str) {
        let needed = text::columns(label) + 3 + text::columns(message);
        let is_narrow = self.terminal && needed > stderr_width();
        self.labelled(tone, label, if is_narrow { narrow } else { message });
    }

    /// Prints `[label] message`, wrapped to `width` columns and aligned below the message.
    pub(crate) fn labelled_within(
        self,
        width: Option<usize>,
        long_words: LongWords,
        tone: Tone,
        label: &str,
        message: &str,
    ) {
        if self.quiet {
            return;
        }
        let label = self.paint(tone, &format!("[{label}]"));
        let line = styled!("{label} {message}");
        let indent = StyledLine::from(label).columns() + 1;
        self.write(&line.wrap(width.unwrap_or(usize::MAX), indent, long_words));
    }

    fn write(self, lines: &[StyledLine]) {
        let encoded: Vec<String> =
            lines.iter().map(|line| line.encode(self.color) + "\n").collect();
        write_stderr(&encoded.concat());
    }

    /// Prints requested lines to stdout, always sanitized. On a terminal they are wrapped between words; a pipe gets
    /// whole lines.
    pub(crate) fn print<L: Into<StyledLine>>(
        self,
        lines: impl IntoIterator<Item = L>,
    ) -> Result<(), CliError> {
        let width = if stdout_is_terminal() { stdout_width() } else { usize::MAX };
        let fitted = lines.into_iter().flat_map(|line| {
            let line = line.into();
            let indent = line.indent() + 2;
            line.wrap(width, indent, LongWords::Whole)
        });
        let lines = fitted.map(|line| line.encode(self.print_color) + "\n");
        write_stdout(&lines.collect::<String>()).map_err(CliError::failed)
    }
}

/// Prints a line that the person must see, without colours.
pub(crate) fn important(text: &str) {
    let width = if stderr_is_terminal() { stderr_width() } else { usize::MAX };
    let line = StyledLine::from(text);
    let indent = line.indent() + 2;
    let lines = line.wrap(width, indent, LongWords::Whole);
    write_stderr(&lines.iter().map(|line| line.encode(false) + "\n").collect::<String>());
}

/// The maximum width of a line on stdout after `used` columns; `most` without a terminal.
pub(crate) fn room_after(used: usize, most: usize) -> usize {
    if stdout_is_terminal() {
        stdout_width().saturating_sub(used).clamp(MIN_ROOM, most.max(MIN_ROOM))
    } else {
        most
    }
}

/// The minimum width at which a text is still useful.
const MIN_ROOM: usize = 8;

/// Asks for confirmation; anything except yes means no.
pub(crate) fn confirm(question: &str) -> bool {
    answer(&format!("{question} [y/N] ")).is_some_and(|answer| ["y", "yes"].contains(&&*answer))
}

/// Asks for confirmation; an empty answer means yes, end of input means no.
pub(crate) fn agree(question: &str) -> bool {
    answer(&format!("{question} [Y/n] ")).is_some_and(|answer| ["", "y", "yes"].contains(&&*answer))
}

/// Asks for one of several letters; anything else means `otherwise`, which changes nothing.
pub(crate) fn choose(letters: &str, otherwise: char) -> char {
    let first = answer("> ").and_then(|answer| answer.chars().next());
    first.filter(|letter| letters.contains(*letter)).unwrap_or(otherwise)
}

/// Returns the typed answer; `None` at the end of input or on Ctrl-C.
fn answer(prompt: &str) -> Option<String> {
    discard_typed_ahead();
    let typed = read_line(prompt).ok().flatten();
    typed.map(|answer| answer.trim().to_lowercase())
}

/// Discards what was typed at the terminal before a question is shown: it cannot be an answer to that question.
fn discard_typed_ahead() {
    if io::stdin().is_terminal() {
        // If it fails, the terminal is gone, and reading the answer fails as well.
        let _ = tcflush(io::stdin(), QueueSelector::IFlush);
    }
}

/// Whether a terminal has another line within the time that a paste takes to arrive.
fn has_pasted_line() -> bool {
    const PASTE_GAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    stdin.is_terminal() && poll(&mut polled, Some(&PASTE_GAP)).is_ok_and(|ready| ready > 0)
}

/// The person stopped instead of answering.
struct Stopped;

/// Reads a line without its line end; `None` at the end of input.
fn read_line(prompt: &str) -> Result<Option<String>, Stopped> {
    let prompt = StyledLine::from(prompt).encode(false);
    if !wait_for_input(io::stdin(), || write_stderr(&prompt)).unwrap_or(true) {
        write_stderr("\n");
        return Err(Stopped);
    }
    let mut line = String::new();
    match io::stdin().read_line(&mut line) {
        Ok(0) | Err(_) => Ok(None),
        Ok(_) => Ok(Some(line.trim_end_matches(['\n', '\r']).to_owned())),
    }
}

/// Prints panics sanitized like all other output: their message may contain an agent's text.
pub(crate) fn print_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let trace = Backtrace::capture();
        let trace = (trace.status() == BacktraceStatus::Captured).then(|| trace.to_string());
        let text = format!("{panic}\n{}", trace.unwrap_or_default());
        shown_lines(&text).for_each(|line| important(&line));
    }));
}

/// Reports an internal error; the panic itself has been printed.
pub(crate) fn bug() -> Exit {
    important("this is a bug in ralph; please report it with the message above");
    Exit::Bug
}

/// Replaces the status line. It never fills its row: on a terminal that wraps, each redraw would scroll.
pub(crate) fn redraw(text: &str) {
    redraw_line(text.into(), false);
}

fn redraw_line(line: StyledLine, color: bool) {
    let line = line.cut(stderr_width().saturating_sub(1));
    write_stderr(&format!("\r\x1b[2K{}", line.encode(color)));
}

/// Writes text for programs to stdout verbatim. A terminal gets sanitized text.
pub(crate) fn data(text: &str) -> Result<(), CliError> {
    let mut text = if stdout_is_terminal() {
        shown_lines(text).collect::<Vec<_>>().join("\n")
    } else {
        text.to_owned()
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    write_stdout(&text).map_err(CliError::failed)
}

/// Writes bytes for programs to stdout verbatim. A terminal gets sanitized text.
pub(crate) fn raw_data(bytes: &[u8]) -> Result<(), CliError> {
    if !stdout_is_terminal() {
        return write_bytes(bytes).map_err(CliError::failed);
    }
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<_> = shown_lines(&text).collect();
    write_stdout(&(lines.join("\n") + "\n")).map_err(CliError::failed)
}

/// Writes JSON to stdout, with terminal control characters as JSON escapes, which every parser decodes.
pub(crate) fn json(json: String) -> Result<(), CliError> {
    let mut json = shown_json(json);
    if !json.ends_with('\n') {
        json.push('\n');
    }
    write_stdout(&json).map_err(CliError::failed)
}

/// Prints why a command stopped and what to do next.
pub(crate) fn error(ui: Ui, error: &CliError) {
    // Later lines of a message are indented, so that they cannot look like Ralph's own output.
    for (index, line) in shown_lines(&error.message).enumerate() {
        match index {
            0 => ui.important(styled!("{} {line}", ui.paint(Tone::Bad, "error:"))),
            _ => ui.important(styled!("       {line}")),
        }
    }
    for hint in &error.hints {
        ui.important(styled!("{} {hint}", ui.paint(Tone::Attention, "hint:")));
    }
}
