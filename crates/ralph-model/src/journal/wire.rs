//! Lines of the journal as bytes.

use std::num::NonZeroU32;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::{JournalEntry, JournalEvent, WorkflowEvent};
use crate::id::RunId;
use crate::shown::shown_json;

/// The version this Ralph writes, and the highest it reads.
pub const JOURNAL_VERSION: u32 = 1;

/// An event of a name that this Ralph does not know, kept as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownEvent {
    name: String,
    data: Option<String>,
}

/// A line that is no entry of the journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalLineError {
    #[error("it was written by a newer ralph (version {found}, this one reads {JOURNAL_VERSION})")]
    Newer { found: u32 },
    #[error("it is not an entry of the journal")]
    Malformed(#[source] serde_json::Error),
    #[error("the data of `{name}` cannot be read")]
    Event { name: String, source: serde_json::Error },
    #[error("it is more than one line")]
    SeveralLines,
}

/// A journal that cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The last line has no end and is no entry: a write that a crash cut short. All before `offset` is sound.
    #[error("line {line} breaks off")]
    TornTail { line: usize, offset: usize },
    #[error("line {line} cannot be read")]
    Line { line: usize, source: JournalLineError },
}

#[derive(Serialize)]
struct EnvelopeOut<'a> {
    v: u32,
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<&'a RunId>,
    event: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct EnvelopeIn<'a> {
    v: NonZeroU32,
    at: Timestamp,
    #[serde(default)]
    run: Option<RunId>,
    event: String,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

/// The one thing that every version of the envelope has.
#[derive(Deserialize)]
struct VersionIn {
    v: NonZeroU32,
}

/// Writes an entry as one line, with its line end. People read the copy in home, so that nothing in it is hidden.
pub fn render_line(entry: &JournalEntry) -> String {
    let envelope = EnvelopeOut {
        v: JOURNAL_VERSION,
        at: entry.at,
        run: entry.run.as_ref(),
        event: entry.event.name(),
        data: entry.event.data(),
    };
    let line = serde_json::to_string(&envelope).expect("an envelope has string keys only");
    let mut line = shown_json(line);
    line.push('\n');
    line
}

/// Reads one line, with or without its line end.
pub fn parse_line(line: &[u8]) -> Result<JournalEntry, JournalLineError> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    if line.contains(&b'\n') {
        return Err(JournalLineError::SeveralLines);
    }
    let envelope: EnvelopeIn<'_> = match serde_json::from_slice(line) {
        Ok(envelope) => envelope,
        Err(error) => {
            // A newer envelope may look quite different, and then its version is what there is to say.
            let version = serde_json::from_slice(line).map(|VersionIn { v }| v);
            return Err(match version {
                Ok(v) if v.get() > JOURNAL_VERSION => JournalLineError::Newer { found: v.get() },
                _ => JournalLineError::Malformed(error),
            });
        }
    };
    if envelope.v.get() > JOURNAL_VERSION {
        return Err(JournalLineError::Newer { found: envelope.v.get() });
    }
    let EnvelopeIn { at, run, event: name, data, .. } = envelope;
    let event = JournalEvent::parse(&name, data)
        .map_err(|source| JournalLineError::Event { name, source })?;
    Ok(JournalEntry { at, run, event })
}

/// Reads the entries of a whole journal, up to the first that cannot be read.
///
/// A last line without a line end that is an entry nevertheless is one; whoever appends must end it first.
pub fn entries(journal: &[u8]) -> Entries<'_> {
    Entries { rest: journal, line: 0, offset: 0 }
}

/// The entries of a journal, in order.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u8],
    line: usize,
    offset: usize,
}

impl Iterator for Entries<'_> {
    type Item = Result<JournalEntry, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            let end = self.rest.iter().position(|byte| *byte == b'\n').map(|newline| newline + 1);
            let (text, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
            let (line, offset) = (self.line + 1, self.offset);
            (self.rest, self.line, self.offset) = (rest, line, offset + text.len());
            if text.trim_ascii().is_empty() {
                continue;
            }
            let entry = parse_line(text).map_err(|source| {
                self.rest = &[];
                match source {
                    JournalLineError::Malformed(_) if end.is_none() => {
                        JournalError::TornTail { line, offset }
                    }
                    source => JournalError::Line { line, source },
                }
            });
            return Some(entry);
        }
    }
}

impl JournalEvent {
    /// The name on the wire.
    pub(crate) fn name(&self) -> &str {
        match self {
            JournalEvent::RunStarted(_) => "run_started",
            JournalEvent::RunFinished(_) => "run_finished",
            JournalEvent::LimitWaitStarted(_) => "limit_wait_started",
            JournalEvent::LimitWaitEnded(_) => "limit_wait_ended",
            JournalEvent::BackoffStarted(_) => "backoff_started",
            JournalEvent::BoundaryCrossed(_) => "boundary_crossed",
            JournalEvent::LeftoversEnded(_) => "leftovers_ended",
            JournalEvent::StateRebuilt(_) => "state_rebuilt",
            JournalEvent::BudgetExhausted(_) => "budget_exhausted",
            JournalEvent::MutationRequested(_) => "mutation_requested",
            JournalEvent::RequestIgnored(_) => "request_ignored",
            JournalEvent::QuestionAsked(_) => "question_asked",
            JournalEvent::QuestionAnswered(_) => "question_answered",
            JournalEvent::AnswerTaken(_) => "answer_taken",
            JournalEvent::Workflow(event) => event.kind.name(),
            JournalEvent::Interrupted => "interrupted",
            JournalEvent::Unknown(unknown) => &unknown.name,
        }
    }

    pub(super) fn data(&self) -> Option<Box<RawValue>> {
        let data = match self {
            JournalEvent::RunStarted(data) => to_raw_value(data),
            JournalEvent::RunFinished(data) => to_raw_value(data),
            JournalEvent::LimitWaitStarted(data) => to_raw_value(data),
            JournalEvent::LimitWaitEnded(data) => to_raw_value(data),
            JournalEvent::BackoffStarted(data) => to_raw_value(data),
            JournalEvent::BoundaryCrossed(data) => to_raw_value(data),
            JournalEvent::LeftoversEnded(data) => to_raw_value(data),
            JournalEvent::StateRebuilt(data) => to_raw_value(data),
            JournalEvent::BudgetExhausted(data) => to_raw_value(data),
            JournalEvent::MutationRequested(data) => to_raw_value(data),
            JournalEvent::RequestIgnored(data) => to_raw_value(data),
            JournalEvent::QuestionAsked(data) => to_raw_value(data),
            JournalEvent::QuestionAnswered(data) => to_raw_value(data),
            JournalEvent::AnswerTaken(data) => to_raw_value(data),
            JournalEvent::Workflow(event) => to_raw_value(&event.fields),
            JournalEvent::Interrupted => return None,
            JournalEvent::Unknown(unknown) => RawValue::from_string(unknown.data.clone()?),
        };
        Some(data.expect("events have string keys only, and unknown data is as it was read"))
    }

    fn parse(name: &str, data: Option<&RawValue>) -> Result<JournalEvent, serde_json::Error> {
        fn read<T: DeserializeOwned>(data: Option<&RawValue>) -> Result<T, serde_json::Error> {
            serde_json::from_str(data.map_or("{}", RawValue::get))
        }
        Ok(match name {
            "run_started" => JournalEvent::RunStarted(read(data)?),
            "run_finished" => JournalEvent::RunFinished(read(data)?),
            "limit_wait_started" => JournalEvent::LimitWaitStarted(read(data)?),
            "limit_wait_ended" => JournalEvent::LimitWaitEnded(read(data)?),
            "backoff_started" => JournalEvent::BackoffStarted(read(data)?),
            "boundary_crossed" => JournalEvent::BoundaryCrossed(read(data)?),
            "leftovers_ended" => JournalEvent::LeftoversEnded(read(data)?),
            "state_rebuilt" => JournalEvent::StateRebuilt(read(data)?),
            "budget_exhausted" => JournalEvent::BudgetExhausted(read(data)?),
            "mutation_requested" => JournalEvent::MutationRequested(read(data)?),
            "request_ignored" => JournalEvent::RequestIgnored(read(data)?),
            "question_asked" => JournalEvent::QuestionAsked(read(data)?),
            "question_answered" => JournalEvent::QuestionAnswered(read(data)?),
            "answer_taken" => JournalEvent::AnswerTaken(read(data)?),
            "interrupted" => JournalEvent::Interrupted,
            _ => match WorkflowEvent::kind_of(name) {
                Some(kind) => {
                    let fields = read(data)?;
                    JournalEvent::Workflow(Box::new(WorkflowEvent { kind, fields }))
                }
                None => JournalEvent::Unknown(UnknownEvent {
                    name: name.to_owned(),
                    data: data.map(|data| data.get().to_owned()),
                }),
            },
        })
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
