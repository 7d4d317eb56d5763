//! The steps of a rehearsal: everything the scripted agent can say, do and do wrong.

use std::time::Duration;

use jiff::Timestamp;

use super::template::Template;
use crate::event::ErrorKind;
use crate::usage::Usage;

/// One line of a script.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    // Output.
    Say(Template),
    Final(Template),
    Session(Template),
    Model(Template),
    Usage {
        usage: Usage,
        cumulative: bool,
    },
    Cost {
        usd: f64,
        cumulative: bool,
    },
    Context {
        used: u64,
        window: Option<u64>,
    },
    Limit(Reset),
    WarnLimit(Reset),
    Retry {
        times: u32,
        status: Option<u16>,
    },
    Error {
        kind: ErrorKind,
        message: Template,
        fatal: bool,
    },
    ToolOpen(String),
    ToolClose,

    // Actions, as tool calls.
    Write {
        path: Template,
        content: Template,
    },
    Append {
        path: Template,
        content: Template,
    },
    /// Writes a file below the run's outbox.
    Outbox {
        path: Template,
        content: Template,
    },
    Delete(Template),
    Run(String),
    /// Ends the rehearsal if the command fails.
    ExpectRun(String),
    /// Commits `paths`, or everything when there are none.
    Commit {
        message: Template,
        paths: Vec<Template>,
    },

    // Raw streams.
    Stdout(Template),
    StdoutBytes(Vec<u8>),
    Stderr(Template),
    Flood(Flood),
    EchoPrompt,
    CloseStdout,
    ExpectPrompt(Template),

    // Time and exits.
    Sleep(Duration),
    Hang,
    Exit(u8),
    Crash,
    Abort,

    // Processes and signals.
    Ignore(Vec<Signal>),
    ExitOn {
        signal: Signal,
        code: u8,
    },
    Signal {
        target: SignalTarget,
        signal: Signal,
    },
    Child(String),
    Setsid(String),
    Daemonise {
        command: String,
        environment: DaemonEnvironment,
    },
    HoldPipe(Duration),
}

/// When a usage limit ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    After(Duration),
    At(Timestamp),
    Unknown,
}

/// Excessive output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flood {
    pub kind: FloodKind,
    /// Lines for [`FloodKind::Json`], bytes for all others.
    pub amount: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloodKind {
    /// Lines that are not events.
    Text,
    /// Text events.
    Json,
    /// One line.
    Line,
    /// All byte values, so not UTF-8.
    Binary,
    /// Lines on stderr.
    Stderr,
}

/// What a daemon inherits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonEnvironment {
    Inherited,
    Cleared,
}

/// The target of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalTarget {
    Own,
    Parent,
    Group,
    Process(u32),
}

/// The signals available in scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Hup,
    Int,
    Quit,
    Kill,
    Usr1,
    Usr2,
    Pipe,
    Term,
    Cont,
    Stop,
    Tstp,
}

impl Signal {
    /// All signals with their names.
    pub(super) const NAMES: [(&'static str, Signal); 11] = [
        ("SIGHUP", Signal::Hup),
        ("SIGINT", Signal::Int),
        ("SIGQUIT", Signal::Quit),
        ("SIGKILL", Signal::Kill),
        ("SIGUSR1", Signal::Usr1),
        ("SIGUSR2", Signal::Usr2),
        ("SIGPIPE", Signal::Pipe),
        ("SIGTERM", Signal::Term),
        ("SIGCONT", Signal::Cont),
        ("SIGSTOP", Signal::Stop),
        ("SIGTSTP", Signal::Tstp),
    ];

    /// Whether a process can handle or ignore this signal.
    pub(super) const fn can_be_handled(self) -> bool {
        !matches!(self, Signal::Kill | Signal::Stop)
    }
}
