//! The rehearsal agent: plays a script as if it were an agent.
//!
//! It runs as a separate process, `ralph __rehearse`, with the prompt on stdin and events on stdout in their wire form.
//! It is the only part of the engine that writes to stdout and stderr: there it is an agent, not the harness. It trusts
//! its script; the supervisor that runs it must not.

mod counter;
mod effects;
mod flood;
mod player;
mod stream;

use std::error::Error;
use std::io::{self, Read};
use std::{fs, iter};

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::event::{AgentEvent, ErrorKind};
use ralph_model::rehearsal::{Script, ScriptProblem, UnsetVariable, parse};
use ralph_model::role::{Role, UnknownRole};

pub(crate) use self::counter::CountError;
pub(crate) use self::counter::state_dir;
use self::player::{Cast, Player};
use self::stream::{Channel, RehearsalStream};

/// The command line of the rehearsal agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlayRequest {
    pub script: Utf8PathBuf,
    /// The session to resume.
    pub resume: Option<String>,
}

/// Why a script was not played to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlayError {
    #[error("cannot read script `{path}`")]
    Unreadable { path: Utf8PathBuf, source: io::Error },
    #[error("{}", listed(.path, .problems))]
    Wrong { path: Utf8PathBuf, problems: Vec<ScriptProblem> },
    #[error("cannot play the role in `RALPH_ROLE`")]
    Role(#[source] UnknownRole),
    #[error(transparent)]
    Unset(UnsetVariable),
    #[error("the prompt does not contain `{0}`")]
    Prompt(String),
    #[error("`{0}` failed")]
    Command(String),
    #[error("script `{path}` has no block for invocation {invocation} of role `{role}`")]
    NoBlock { path: Utf8PathBuf, role: Role, invocation: u32 },
    #[error(transparent)]
    Count(CountError),
    #[error("cannot read the prompt")]
    Stdin(#[source] io::Error),
    #[error("cannot write output")]
    Output(#[source] io::Error),
    #[error("cannot {what}")]
    Effect { what: &'static str, source: io::Error },
    #[error("{path}:{line}")]
    Step { path: Utf8PathBuf, line: usize, source: Box<PlayError> },
}

impl PlayError {
    /// Returns the exit code for the error: the script, no block for this run, or the machine.
    fn exit_code(&self) -> i32 {
        match self {
            PlayError::Unreadable { .. }
            | PlayError::Wrong { .. }
            | PlayError::Role(_)
            | PlayError::Unset(_)
            | PlayError::Prompt(_)
            | PlayError::Command(_) => 64,
            PlayError::NoBlock { .. } => 65,
            PlayError::Count(_)
            | PlayError::Stdin(_)
            | PlayError::Output(_)
            | PlayError::Effect { .. } => 74,
            PlayError::Step { source, .. } => source.exit_code(),
        }
    }
}

fn listed(path: &Utf8Path, problems: &[ScriptProblem]) -> String {
    let lines: Vec<String> = problems
        .iter()
        .map(|ScriptProblem { line, message }| format!("{path}:{line}: {message}"))
        .collect();
    lines.join("\n")
}

/// Plays the block of this invocation on the process's own streams. Returns the exit code.
pub fn play(request: &PlayRequest) -> i32 {
    rehearse(request).unwrap_or_else(|error| {
        let message = whole(&error);
        // Errors here can no longer be reported.
        let _ = RehearsalStream::new(Channel::Stderr).line(message.as_bytes());
        let event = AgentEvent::Error { kind: ErrorKind::Other, message, fatal: true };
        let _ = RehearsalStream::new(Channel::Stdout).event(&event);
        error.exit_code()
    })
}

/// Returns the error's message and those of its causes.
fn whole(error: &PlayError) -> String {
    let causes = iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |message, cause| format!("{message}: {cause}"))
}

fn rehearse(request: &PlayRequest) -> Result<i32, PlayError> {
    let env = |name: &str| std::env::var(name).ok();
    let script = load(&request.script)?;
    let role = env("RALPH_ROLE")
        .map_or(Ok(Role::Builder), |name| name.parse())
        .map_err(PlayError::Role)?;
    let invocation = counter::next(&request.script, role, &env).map_err(PlayError::Count)?;
    let block = script.block(role, invocation).ok_or_else(|| PlayError::NoBlock {
        path: request.script.clone(),
        role,
        invocation,
    })?;
    let mut prompt = Vec::new();
    if block.reads_prompt {
        io::stdin().lock().read_to_end(&mut prompt).map_err(PlayError::Stdin)?;
    }
    let cast = Cast { role, invocation, resume: request.resume.clone(), prompt };
    let mut player = Player::new(cast);
    for placed in &block.steps {
        let in_step = |source| PlayError::Step {
            path: request.script.clone(),
            line: placed.line,
            source: Box::new(source),
        };
        if let Some(code) = player.perform(&placed.step).map_err(in_step)? {
            return Ok(code);
        }
    }
    Ok(0)
}

/// Returns what is wrong in a script, one line for each problem.
pub(crate) fn problems(path: &Utf8Path) -> Option<String> {
    match load(path) {
        Err(error @ PlayError::Wrong { .. }) => Some(error.to_string()),
        // The run reports a script that cannot be read.
        _ => None,
    }
}

fn load(path: &Utf8Path) -> Result<Script, PlayError> {
    let unreadable = |source| PlayError::Unreadable { path: path.to_owned(), source };
    let text = fs::read_to_string(path).map_err(unreadable)?;
    parse(&text).map_err(|problems| PlayError::Wrong { path: path.to_owned(), problems })
}
