//! The player: performs the steps in order.

use std::thread;
use std::time::Duration;

use jiff::SignedDuration;
use ralph_model::event::{AgentEvent, ErrorKind, LimitStatus};
use ralph_model::rehearsal::{self as script, Reset, SignalTarget, Step, Template, UnsetVariable};
use ralph_model::role::Role;
use ralph_proc::misbehave::{
    self, Background, BackgroundEnvironment, BackgroundOutput, SignalRecipient, Ties,
};
use rustix::process::Signal;

use super::effects::{self, ToolOutcome};
use super::stream::{Channel, RehearsalStream};
use super::{PlayError, flood};
use crate::clock::{Clock, SystemClock};

const STDOUT: RehearsalStream = RehearsalStream::new(Channel::Stdout);
const STDERR: RehearsalStream = RehearsalStream::new(Channel::Stderr);

/// The played role, and its invocation.
pub(super) struct Cast {
    pub(super) role: Role,
    pub(super) invocation: u32,
    pub(super) resume: Option<String>,
    pub(super) prompt: Vec<u8>,
}

pub(super) struct Player {
    cast: Cast,
    commit: Option<String>,
    session: Option<String>,
    model: Option<String>,
    tool_calls: u64,
    open_tools: Vec<String>,
}

impl Player {
    pub(super) fn new(cast: Cast) -> Self {
        let session = cast.resume.clone();
        Self { cast, commit: None, session, model: None, tool_calls: 0, open_tools: Vec::new() }
    }

    /// Performs a step. Returns the exit code if the step ends the rehearsal.
    #[expect(clippy::too_many_lines, reason = "one arm for each step is easier read in one place")]
    pub(super) fn perform(&mut self, step: &Step) -> Result<Option<i32>, PlayError> {
        match step {
            Step::Say(text) => emit(&AgentEvent::Text { text: self.fill(text)? })?,
            Step::Final(text) => emit(&AgentEvent::Final { text: self.fill(text)? })?,
            Step::Session(id) => {
                self.session = Some(self.fill(id)?);
                self.tell_session()?;
            }
            Step::Model(name) => {
                self.model = Some(self.fill(name)?);
                self.tell_session()?;
            }
            &Step::Usage { usage, cumulative } => {
                emit(&AgentEvent::Usage { usage, cumulative })?;
            }
            &Step::Cost { usd, cumulative } => emit(&AgentEvent::Cost { usd, cumulative })?,
            &Step::Context { used, window } => emit(&AgentEvent::Context { used, window })?,
            Step::Limit(reset) => {
                tell_limit(LimitStatus::Rejected, *reset)?;
                let message = "usage limit reached".to_owned();
                emit(&AgentEvent::Error { kind: ErrorKind::UsageLimit, message, fatal: true })?;
            }
            Step::WarnLimit(reset) => tell_limit(LimitStatus::Warning, *reset)?,
            &Step::Retry { times, status } => {
                for attempt in 1..=times {
                    let message = format!("retrying ({attempt} of {times})");
                    emit(&AgentEvent::Retry { status, message })?;
                }
            }
            Step::Error { kind, message, fatal } => {
                let message = self.fill(message)?;
                emit(&AgentEvent::Error { kind: *kind, message, fatal: *fatal })?;
            }
            Step::ToolOpen(name) => {
                let id = self.call_tool(name, String::new())?;
                self.open_tools.push(id);
            }
            Step::ToolClose => {
                let id = self.open_tools.pop().expect("the parser counts open tool calls");
                emit(&AgentEvent::ToolResult { id, ok: true, summary: String::new() })?;
            }

            Step::Write { path, content } => {
                let (path, content) = (self.fill(path)?, self.fill(content)?);
                self.use_tool("write", path.clone(), |_| effects::write(&path, &content))?;
            }
            Step::Append { path, content } => {
                let (path, content) = (self.fill(path)?, self.fill(content)?);
                self.use_tool("append", path.clone(), |_| effects::append(&path, &content))?;
            }
            Step::Outbox { path, content } => {
                let path = format!("{}/{}", self.outbox()?, self.fill(path)?);
                let content = self.fill(content)?;
                self.use_tool("outbox", path.clone(), |_| effects::write(&path, &content))?;
            }
            Step::Delete(path) => {
                let path = self.fill(path)?;
                self.use_tool("delete", path.clone(), |_| effects::delete(&path))?;
            }
            Step::Run(command) => {
                self.run(command)?;
            }
            Step::ExpectRun(command) => {
                self.run(command)?.ok_or_else(|| PlayError::Command(command.clone()))?;
            }
            Step::Commit { message, paths } => {
                let message = self.fill(message)?;
                let paths =
                    paths.iter().map(|path| self.fill(path)).collect::<Result<Vec<_>, _>>()?;
                self.commit = self.use_tool("commit", message.clone(), |variables| {
                    effects::commit(&message, &paths, variables)
                })?;
            }

            Step::Stdout(text) => {
                STDOUT.line(self.fill(text)?.as_bytes()).map_err(PlayError::Output)?;
            }
            Step::StdoutBytes(bytes) => STDOUT.bytes(bytes).map_err(PlayError::Output)?,
            // Stderr may be closed, which an agent ignores.
            Step::Stderr(text) => drop(STDERR.line(self.fill(text)?.as_bytes())),
            Step::Flood(flood) => flood::pour(*flood).map_err(PlayError::Output)?,
            Step::EchoPrompt => STDOUT.bytes(&self.cast.prompt).map_err(PlayError::Output)?,
            Step::CloseStdout => misbehave::close_stdout().map_err(effect("close stdout"))?,
            Step::ExpectPrompt(text) => self.expect_prompt(self.fill(text)?)?,

            Step::Sleep(duration) => thread::sleep(*duration),
            Step::Hang => loop {
                thread::sleep(Duration::from_hours(1));
            },
            Step::Exit(code) => return Ok(Some(i32::from(*code))),
            Step::Crash => {
                misbehave::send_signal(SignalRecipient::Own, Signal::KILL)
                    .map_err(effect("crash"))?;
            }
            Step::Abort => std::process::abort(),

            Step::Ignore(signals) => {
                for signal in signals {
                    misbehave::ignore_signal(native(*signal)).map_err(effect("ignore a signal"))?;
                }
            }
            Step::ExitOn { signal, code } => misbehave::exit_on_signal(native(*signal), *code)
                .map_err(effect("handle a signal"))?,
            Step::Signal { target, signal } => self.send_signal(*target, *signal)?,
            Step::Child(command) => self.spawn(command, Ties::Child)?,
            Step::Setsid(command) => self.spawn(command, Ties::OwnSession)?,
            Step::Daemonise { command, environment } => match environment {
                script::DaemonEnvironment::Inherited => self.spawn(command, Ties::Daemon)?,
                script::DaemonEnvironment::Cleared => spawn(&Background {
                    command,
                    ties: Ties::Daemon,
                    environment: BackgroundEnvironment::Cleared,
                    output: BackgroundOutput::Discarded,
                })?,
            },
            Step::HoldPipe(duration) => spawn(&Background {
                command: &format!("exec sleep {}", duration.as_secs_f64()),
                ties: Ties::Daemon,
                environment: BackgroundEnvironment::InheritedWith(&[]),
                output: BackgroundOutput::Inherited,
            })?,
        }
        Ok(None)
    }
    fn fill(&self, template: &Template) -> Result<String, PlayError> {
        template.render(|name| self.variable(name)).map_err(PlayError::Unset)
    }

    fn outbox(&self) -> Result<String, PlayError> {
        let name = "RALPH_OUT";
        self.variable(name).ok_or_else(|| PlayError::Unset(UnsetVariable(name.to_owned())))
    }

    fn variable(&self, name: &str) -> Option<String> {
        match name {
            "COMMIT" => self.commit.clone(),
            "HEAD" => effects::head(&[]).ok(),
            "INVOCATION" => Some(self.cast.invocation.to_string()),
            "PROMPT_LINES" => {
                Some(String::from_utf8_lossy(&self.cast.prompt).lines().count().to_string())
            }
            "RESUME" => self.cast.resume.clone(),
            "ROLE" => Some(self.cast.role.to_string()),
            "RUN_ID" => std::env::var("RALPH_RUN_ID").ok(),
            from_environment => std::env::var(from_environment).ok(),
        }
    }

    /// The agent's own variables, for commands; the others are in the environment anyway.
    fn variables(&self) -> Vec<(String, String)> {
        ["COMMIT", "INVOCATION", "PROMPT_LINES", "RESUME", "ROLE", "RUN_ID"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), self.variable(name)?)))
            .collect()
    }

    /// A model named before there is a session is reported with the session.
    fn tell_session(&self) -> Result<(), PlayError> {
        let Some(id) = self.session.clone() else { return Ok(()) };
        emit(&AgentEvent::Session { id, model: self.model.clone() })
    }

    fn call_tool(&mut self, name: &str, summary: String) -> Result<String, PlayError> {
        self.tool_calls += 1;
        let id = format!("tool-{}", self.tool_calls);
        emit(&AgentEvent::ToolCall { id: id.clone(), name: name.to_owned(), summary })?;
        Ok(id)
    }

    /// Performs an action between a tool call and its result. Returns the tool's output on success.
    fn use_tool(
        &mut self,
        name: &str,
        summary: String,
        tool: impl FnOnce(&effects::Variables) -> ToolOutcome,
    ) -> Result<Option<String>, PlayError> {
        let id = self.call_tool(name, summary)?;
        let outcome = tool(&self.variables());
        let ok = outcome.is_ok();
        let (Ok(summary) | Err(summary)) = outcome.clone();
        emit(&AgentEvent::ToolResult { id, ok, summary })?;
        Ok(outcome.ok())
    }

    fn run(&mut self, command: &str) -> Result<Option<String>, PlayError> {
        self.use_tool("run", command.to_owned(), |variables| effects::run(command, variables))
    }

    fn send_signal(
        &mut self,
        target: SignalTarget,
        signal: script::Signal,
    ) -> Result<(), PlayError> {
        let signal = native(signal);
        let to = match target {
            SignalTarget::Own => SignalRecipient::Own,
            SignalTarget::Parent => SignalRecipient::Parent,
            SignalTarget::Group => SignalRecipient::Group,
            SignalTarget::Process(id) => SignalRecipient::Process(id),
        };
        self.use_tool("signal", format!("{signal:?} to {target:?}"), |_| {
            misbehave::send_signal(to, signal)
                .map(|()| "sent".to_owned())
                .map_err(|error| error.to_string())
        })?;
        Ok(())
    }

    fn spawn(&self, command: &str, ties: Ties) -> Result<(), PlayError> {
        let environment = BackgroundEnvironment::InheritedWith(&self.variables());
        spawn(&Background { command, ties, environment, output: BackgroundOutput::Discarded })
    }

    fn expect_prompt(&self, expected: String) -> Result<(), PlayError> {
        if String::from_utf8_lossy(&self.cast.prompt).contains(&expected) {
            Ok(())
        } else {
            Err(PlayError::Prompt(expected))
        }
    }
}

fn emit(event: &AgentEvent) -> Result<(), PlayError> {
    STDOUT.event(event).map_err(PlayError::Output)
}

fn tell_limit(status: LimitStatus, reset: Reset) -> Result<(), PlayError> {
    let resets_at = match reset {
        Reset::Unknown => None,
        Reset::At(time) => Some(time),
        Reset::After(duration) => {
            let duration = SignedDuration::try_from(duration)
                .expect("the parser takes no duration of more than a hundred years");
            Some(SystemClock.now() + duration)
        }
    };
    emit(&AgentEvent::RateLimit { status, resets_at })
}

fn spawn(background: &Background<'_>) -> Result<(), PlayError> {
    background.spawn().map_err(effect("start a process"))
}

fn effect(what: &'static str) -> impl FnOnce(std::io::Error) -> PlayError {
    move |source| PlayError::Effect { what, source }
}

fn native(signal: script::Signal) -> Signal {
    match signal {
        script::Signal::Hup => Signal::HUP,
        script::Signal::Int => Signal::INT,
        script::Signal::Quit => Signal::QUIT,
        script::Signal::Kill => Signal::KILL,
        script::Signal::Usr1 => Signal::USR1,
        script::Signal::Usr2 => Signal::USR2,
        script::Signal::Pipe => Signal::PIPE,
        script::Signal::Term => Signal::TERM,
        script::Signal::Cont => Signal::CONT,
        script::Signal::Stop => Signal::STOP,
        script::Signal::Tstp => Signal::TSTP,
    }
}
