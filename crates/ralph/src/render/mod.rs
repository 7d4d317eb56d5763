//! Everything a person sees. All colours, symbols and wording of lines are made here, from facts.

pub(crate) mod agent_run;
pub(crate) mod gates;
pub(crate) mod human;
pub(crate) mod live;
pub(crate) mod stop;
pub(crate) mod workflow;

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use ralph_engine::config::{Color, UiMode, UiSettings};
use ralph_proc::signal::wait_for_input;

use crate::args::GlobalArgs;
use crate::error::CliError;
use crate::exit::Exit;

/// How to talk to the person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UiChoice {
    /// Rich on a terminal, else plain
    Auto,
    /// A status line that is redrawn
    Rich,
    /// One line after the other
    Plain,
}

/// How output looks, decided once.
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ui {
    pub(crate) rich: bool,
    pub(crate) color: bool,
    pub(crate) ascii: bool,
    pub(crate) quiet: bool,
}

/// A colour with a meaning.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tone {
    Good,
    Bad,
    Attention,
    Active,
    Progress,
    Faint,
    Strong,
}

impl Ui {
    pub(crate) fn new(settings: &UiSettings, quiet: bool) -> Ui {
        let terminal = io::stderr().is_terminal();
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let able = terminal && !dumb;
        let rich = match settings.mode {
            UiMode::Rich => true,
            UiMode::Plain => false,
            UiMode::Auto => able,
        };
        let color = match settings.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => able,
        };
        Ui { rich: rich && !quiet, color, ascii: settings.ascii, quiet }
    }

    /// What errors look like before any configuration could be read.
    pub(crate) fn early(global: &GlobalArgs) -> Ui {
        let plain = global.no_color || std::env::var_os("NO_COLOR").is_some();
        let color = if plain { Color::Never } else { Color::Auto };
        let settings = UiSettings { mode: UiMode::Plain, color, ascii: global.ascii };
        Ui::new(&settings, global.quiet)
    }

    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        if !self.color {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Attention => "33",
            Tone::Active => "34",
            Tone::Progress => "36",
            Tone::Faint => "90",
            Tone::Strong => "1",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// A symbol, or its stand-in where only ASCII is wanted.
    pub(crate) fn symbol(self, symbol: &'static str, ascii: &'static str) -> &'static str {
        if self.ascii { ascii } else { symbol }
    }

    /// A line for the person, unless they asked for quiet.
    pub(crate) fn line(self, text: &str) {
        if !self.quiet {
            important(text);
        }
    }

    /// Something that the person should know.
    pub(crate) fn note(self, message: &str) {
        self.labelled(Tone::Attention, "note", message);
    }

    /// `[label] message`, only the label coloured.
    pub(crate) fn labelled(self, tone: Tone, label: &str, message: &str) {
        self.line(&format!("{} {message}", self.paint(tone, &format!("[{label}]"))));
    }
}

/// A line the person must see.
pub(crate) fn important(text: &str) {
    show(&format!("{text}\n"));
}

/// Writes to stderr. Work does not depend on who listens: a reader that went away, or a full disk, stops nothing.
fn show(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Asks the person; anything but yes is no.
pub(crate) fn confirm(question: &str) -> bool {
    answer(&format!("{question} [y/N] ")).is_some_and(|answer| ["y", "yes"].contains(&&*answer))
}

/// Asks the person; an empty answer is yes, none at all is no.
pub(crate) fn agree(question: &str) -> bool {
    answer(&format!("{question} [Y/n] ")).is_some_and(|answer| ["", "y", "yes"].contains(&&*answer))
}

/// Asks the person for one of some letters; anything else is the one that changes nothing.
pub(crate) fn choose(letters: &str, otherwise: char) -> char {
    let first = answer("> ").and_then(|answer| answer.chars().next());
    first.filter(|letter| letters.contains(*letter)).unwrap_or(otherwise)
}

/// Returns what the person types; nothing if they end the input, or press Ctrl-C.
fn answer(prompt: &str) -> Option<String> {
    if !wait_for_input(io::stdin(), || show(prompt)).unwrap_or(true) {
        show("\n");
        return None;
    }
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer).ok()?;
    (read > 0).then(|| answer.trim().to_lowercase())
}

/// Owns up to a bug of ours; the panic itself has been printed.
pub(crate) fn bug() -> Exit {
    important("this is a bug of ralph's, not of yours; please report it with the message above");
    Exit::Bug
}

/// Replaces the status line.
pub(crate) fn redraw(text: &str) {
    show(&format!("\r\x1b[2K{text}"));
}

/// Machine output: to stdout, whole. A reader that went away ends the program quietly.
pub(crate) fn machine(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| if text.ends_with('\n') { Ok(()) } else { stdout.write_all(b"\n") })
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => result,
    }
}

/// Machine output that lies in a file: to stdout, by the kernel where it can.
pub(crate) fn copy(file: &mut std::fs::File) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match io::copy(file, &mut stdout).and_then(|_| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => result,
    }
}

/// Help and other pages that a person asked for by name.
pub(crate) fn page(text: &str) {
    let _ = machine(text);
}

/// Tells why a command stopped and what to do next.
pub(crate) fn error(ui: Ui, error: &CliError) {
    for (index, line) in error.message.lines().enumerate() {
        let label = if index == 0 { ui.paint(Tone::Bad, "error:") } else { "      ".to_owned() };
        important(&format!("{label} {line}"));
    }
    for hint in &error.hints {
        important(&format!("{} {hint}", ui.paint(Tone::Attention, "hint:")));
    }
}
