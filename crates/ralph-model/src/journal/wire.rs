//! The wire format of journal lines.

use std::borrow::Cow;
use std::num::NonZeroU32;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::{JournalEntry, JournalEvent};
use crate::id::RunId;
use crate::shown::shown_json;

/// The version this Ralph writes, and the highest it reads.
pub const JOURNAL_VERSION: u32 = 1;

/// An event with a name that this Ralph does not know, kept verbatim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownEvent {
    pub(super) name: String,
    pub(super) data: Option<String>,
}

/// A line that is not a journal entry.
#[derive(Debug, thiserror::Error)]
pub enum JournalLineError {
    #[error("it was written by a newer Ralph (version {found}; this one reads {JOURNAL_VERSION})")]
    Newer { found: u32 },
    #[error("it is not an entry of the journal")]
    Malformed(#[source] serde_json::Error),
    #[error("the data of `{name}` cannot be read")]
    Event { name: String, source: serde_json::Error },
    #[error("it is more than one line")]
    SeveralLines,
}

/// A journal that cannot be read further.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The last line has no line end and is not an entry: a write interrupted by a crash. Everything before `offset` is
    /// intact.
    #[error("line {line} is incomplete")]
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
    #[serde(skip_serializing_if = "Option::is_none")]
    wf: Option<&'a RunId>,
    event: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Box<RawValue>>,
}

/// A line whose data is not parsed yet. It borrows everything, because most lines are skipped.
#[derive(Deserialize)]
pub(crate) struct Envelope<'a> {
    v: NonZeroU32,
    #[serde(borrow)]
    at: Cow<'a, str>,
    #[serde(borrow, default)]
    run: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    wf: Option<Cow<'a, str>>,
    #[serde(borrow)]
    event: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "raw")]
    data: Option<&'a str>,
}

fn raw<'de, D: Deserializer<'de>>(data: D) -> Result<Option<&'de str>, D::Error> {
    Ok(Option::<&RawValue>::deserialize(data)?.map(RawValue::get))
}

/// The one field that every version of the envelope has.
#[derive(Deserialize)]
struct VersionIn {
    v: NonZeroU32,
}

/// Serialises an entry as one line, with its line end. People read the copy in home, so hidden characters are escaped.
pub fn render_line(entry: &JournalEntry) -> String {
    let envelope = EnvelopeOut {
        v: JOURNAL_VERSION,
        at: entry.at,
        run: entry.run.as_ref(),
        wf: entry.wf.as_ref(),
        event: entry.event.name(),
        data: entry.event.data(),
    };
    let line = serde_json::to_string(&envelope).expect("an envelope has string keys only");
    let mut line = shown_json(line);
    line.push('\n');
    line
}

impl<'a> Envelope<'a> {
    /// Parses the envelope of one line.
    pub(crate) fn parse(line: &'a [u8]) -> Result<Envelope<'a>, JournalLineError> {
        let envelope: Envelope<'a> = serde_json::from_slice(line).map_err(|error| {
            // A newer envelope may have a different format, so only its version can be reported.
            match serde_json::from_slice(line).map(|VersionIn { v }| v.get()) {
                Ok(found) if found > JOURNAL_VERSION => JournalLineError::Newer { found },
                _ => JournalLineError::Malformed(error),
            }
        })?;
        match envelope.v.get() {
            found if found > JOURNAL_VERSION => Err(JournalLineError::Newer { found }),
            _ => Ok(envelope),
        }
    }

    /// Splits a line in the exact format of [`render_line`], which nearly all lines have; `None` for any other. The
    /// data is not validated, not even as a single JSON value, so that a long journal is not scanned twice.
    pub(crate) fn as_written(line: &'a str) -> Option<Envelope<'a>> {
        let (at, mut rest) = line.strip_prefix(r#"{"v":1,"at":""#)?.split_once('"')?;
        let mut text = |key: &str| {
            let (value, after) = rest.strip_prefix(key)?.split_once('"')?;
            if value.contains('\\') {
                return None;
            }
            rest = after;
            Some(value)
        };
        let (run, wf) = (text(r#","run":""#), text(r#","wf":""#));
        let event = text(r#","event":""#)?;
        let data = match rest {
            "}" => None,
            _ => Some(rest.strip_prefix(r#","data":"#)?.strip_suffix('}')?),
        };
        let text = |text: &'a str| Cow::Borrowed(text);
        let (run, wf) = (run.map(text), wf.map(text));
        Some(Envelope { v: NonZeroU32::MIN, at: text(at), run, wf, event: text(event), data })
    }

    pub(crate) fn event(&self) -> &str {
        &self.event
    }

    /// Parses the data.
    pub(crate) fn into_entry(self) -> Result<JournalEntry, JournalLineError> {
        use serde::de::Error;
        let malformed = |error: String| JournalLineError::Malformed(Error::custom(error));
        let id =
            |id: Option<Cow<'_, str>>| id.map(|id| RunId::try_from(id.into_owned())).transpose();
        let at = self.at.parse().map_err(|error: jiff::Error| malformed(error.to_string()))?;
        let run = id(self.run).map_err(|error| malformed(error.to_string()))?;
        let wf = id(self.wf).map_err(|error| malformed(error.to_string()))?;
        let event = JournalEvent::parse(&self.event, self.data)
            .map_err(|source| JournalLineError::Event { name: self.event.into_owned(), source })?;
        Ok(JournalEntry { at, run, wf, event })
    }
}

/// Parses one line, with or without its line end.
pub fn parse_line(line: &[u8]) -> Result<JournalEntry, JournalLineError> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    if line.contains(&b'\n') {
        return Err(JournalLineError::SeveralLines);
    }
    Envelope::parse(line)?.into_entry()
}

/// Returns the entries of a whole journal, up to the first that cannot be parsed.
///
/// A last line without a line end counts if it is a valid entry; an appender must terminate it first.
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

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
