//! Shared by the decoders: lenient JSON scalars, one-line summaries, and reporting the end of a stream.
//!
//! A CLI may change the type of a field in any release. The types here accept any value and fall back to an empty one,
//! so that one unexpected field does not lose its line. Strings are borrowed from the line if it has no escapes;
//! nothing here builds a tree of JSON values.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use jiff::Timestamp;
use ralph_model::event::{AgentEvent, ErrorKind, LimitStatus};
use ralph_model::run::ProcessExit;
use ralph_model::shown;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// How many characters of a command or a tool's output are kept.
const SUMMARY_CHARS: usize = 200;

/// The type of a line. The other fields are parsed once it is known.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LineHead<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Str<'a>,
    #[serde(borrow)]
    pub(super) subtype: Str<'a>,
}

/// Returns a line as text, with invalid UTF-8 replaced. Validating first is several times faster than replacing.
pub(super) fn text_of(line: &[u8]) -> Cow<'_, str> {
    str::from_utf8(line).map_or_else(|_| String::from_utf8_lossy(line), Cow::Borrowed)
}

/// Parses a JSON object; `None` if it is not one or has another shape.
pub(super) fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    serde_json::from_str(text).ok()
}

/// Defines visitor methods that return `$empty` for every other kind of value.
macro_rules! ignore_others {
    ($($method:ident($($argument:ty)?) => $empty:expr),* $(,)?) => {
        $(fn $method<E: Error>(self $(, _: $argument)?) -> Result<Self::Value, E> {
            Ok($empty)
        })*
    };
}

macro_rules! ignore_containers {
    ($empty:expr) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok($empty)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok($empty)
        }
    };
}

/// A string; empty if missing or of another type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Str<'a>(Cow<'a, str>);

impl Str<'_> {
    pub(super) fn into_owned(self) -> String {
        self.0.into_owned()
    }
}

impl Deref for Str<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Str<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StrVisitor;

        impl<'de> Visitor<'de> for StrVisitor {
            type Value = Str<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Str(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Str(Cow::Owned(text.to_owned())))
            }

            ignore_others!(visit_bool(bool) => Str::default(), visit_i64(i64) => Str::default(),
                visit_u64(u64) => Str::default(), visit_f64(f64) => Str::default(),
                visit_unit() => Str::default());
            ignore_containers!(Str::default());
        }

        deserializer.deserialize_any(StrVisitor)
    }
}

/// A count; 0 if missing or of another type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count(pub(super) u64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Money::deserialize(deserializer).map(|number| Count(number.rounded()))
    }
}

/// A number; `None` if missing or of another type.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Money(pub(super) Option<f64>);

impl Money {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates, and a negative count is none"
    )]
    fn rounded(self) -> u64 {
        self.0.unwrap_or(0.0).round() as u64
    }
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberVisitor;

        #[expect(clippy::cast_precision_loss, reason = "counts and times stay below 2^52")]
        impl<'de> Visitor<'de> for NumberVisitor {
            type Value = Money;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Money, E> {
                Ok(Money(Some(number)))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Money, E> {
                Ok(Money(Some(number as f64)))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Money, E> {
                Ok(Money(Some(number as f64)))
            }

            ignore_others!(visit_bool(bool) => Money(None), visit_str(&str) => Money(None),
                visit_unit() => Money(None));
            ignore_containers!(Money(None));
        }

        deserializer.deserialize_any(NumberVisitor)
    }
}

/// A one-line summary of any JSON value: the beginning of a string, the most informative argument of a tool call, all
/// elements of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary(pub(super) String);

/// The most informative arguments of tool calls, best first.
const TELLING_KEYS: [&str; 11] = [
    "command",
    "cmd",
    "file_path",
    "filePath",
    "path",
    "pattern",
    "query",
    "url",
    "text",
    "description",
    "prompt",
];

impl<'de> Deserialize<'de> for Summary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SummaryVisitor;

        impl<'de> Visitor<'de> for SummaryVisitor {
            type Value = Summary;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Summary, E> {
                Ok(Summary(summary(text)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Summary, A::Error> {
                let mut joined = String::new();
                while let Some(Summary(item)) = seq.next_element()? {
                    if joined.len() < SUMMARY_CHARS && !item.is_empty() {
                        joined.push_str(if joined.is_empty() { "" } else { " " });
                        joined.push_str(&item);
                    }
                }
                Ok(Summary(summary(&joined)))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Summary, A::Error> {
                let mut best = (usize::MAX, String::new());
                while let Some((key, Summary(value))) = map.next_entry::<Str<'de>, Summary>()? {
                    let rank = TELLING_KEYS.iter().position(|telling| *telling == &*key);
                    let rank = rank.unwrap_or(TELLING_KEYS.len());
                    if rank < best.0 && !value.is_empty() {
                        best = (rank, value);
                    }
                }
                Ok(Summary(best.1))
            }

            ignore_others!(visit_bool(bool) => Summary::default(), visit_i64(i64) => Summary::default(),
                visit_u64(u64) => Summary::default(), visit_f64(f64) => Summary::default(),
                visit_unit() => Summary::default());
        }

        deserializer.deserialize_any(SummaryVisitor)
    }
}

/// Returns the beginning of `text` as one line: white space and control characters collapse into single spaces.
pub(super) fn summary(text: &str) -> String {
    let mut line = String::new();
    let mut chars = 0;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if chars > 0 {
            line.push(' ');
            chars += 1;
        }
        for c in word.chars() {
            if chars >= SUMMARY_CHARS {
                return cut(line);
            }
            line.push(c);
            chars += 1;
        }
        if chars >= SUMMARY_CHARS {
            return line;
        }
    }
    line
}

/// Truncates a line that is too long, with an ellipsis.
fn cut(mut line: String) -> String {
    line.pop();
    line.push('…');
    line
}

/// Removes terminal escape sequences and control characters other than tabs.
pub(super) fn without_escapes(text: &str) -> Cow<'_, str> {
    // All control characters except the C1 block, which begins with this byte, are single bytes.
    let is_plain = |byte: u8| byte >= b' ' && byte != 0x7f && byte != 0xc2 || byte == b'\t';
    if text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let clean = shown::without_escapes(text);
    Cow::Owned(clean.chars().filter(|c| !c.is_control() || *c == '\t').collect())
}

/// Returns the kind of error for an HTTP status that is unambiguous regardless of the message.
pub(super) fn kind_of_status(status: u64) -> Option<ErrorKind> {
    match status {
        401 | 403 => Some(ErrorKind::Auth),
        402 => Some(ErrorKind::Billing),
        408 => Some(ErrorKind::Network),
        413 => Some(ErrorKind::Context),
        429 => Some(ErrorKind::UsageLimit),
        500..=599 => Some(ErrorKind::Server),
        _ => None,
    }
}

/// Returns the status after the word `status` in a message.
pub(super) fn status_in(message: &str) -> Option<u16> {
    let (_, rest) = message.split_once("status")?;
    let digits = rest.trim_start_matches([':', ' ']);
    let digits = digits.get(..3)?;
    digits.parse().ok().filter(|status| (100..600).contains(status))
}

/// Whether `text` contains one of the lower-case `phrases`.
pub(super) fn mentions(text: &str, phrases: &[&str]) -> bool {
    let text = text.to_lowercase();
    phrases.iter().any(|phrase| text.contains(phrase))
}

/// The final error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) kind: ErrorKind,
    pub(super) message: String,
    /// The end of a usage limit, if the failure is one and reports it.
    pub(super) resets_at: Option<Timestamp>,
}

/// The end of a turn, as far as the stream reports it.
///
/// Agents recover from errors and continue after an apparent end, so the ending is reported once, when the stream has
/// ended: either a final message or an error, never both.
#[derive(Debug, Default)]
pub(super) struct Ending {
    last_word: Option<String>,
    failure: Option<Failure>,
    stderr: String,
}

impl Ending {
    /// Records that the turn is complete, with `text` as the final message.
    pub(super) fn completed(&mut self, text: String) {
        self.failure = None;
        self.last_word = Some(text);
    }

    pub(super) fn failed(&mut self, failure: Failure) {
        self.last_word = None;
        self.failure = Some(failure);
    }

    /// Keeps the last line of stderr: the only information on an agent that did not even start.
    pub(super) fn stderr(&mut self, line: &str) {
        let line = summary(&without_escapes(line));
        if !line.is_empty() {
            self.stderr = line;
        }
    }

    /// Reports the ending.
    pub(super) fn tell(&mut self, exit: Option<ProcessExit>, events: &mut Vec<AgentEvent>) {
        let failure = match (self.failure.take(), self.last_word.take(), exit) {
            (Some(failure), ..) => failure,
            (None, Some(text), _) => {
                events.push(AgentEvent::Final { text });
                return;
            }
            (None, None, Some(ProcessExit::Code(0))) => Failure {
                kind: ErrorKind::Other,
                message: "the stream ended before its result".to_owned(),
                resets_at: None,
            },
            (None, None, Some(ProcessExit::Code(_))) if !self.stderr.is_empty() => Failure {
                kind: ErrorKind::Other,
                message: std::mem::take(&mut self.stderr),
                resets_at: None,
            },
            (None, None, _) => return,
        };
        if failure.kind == ErrorKind::UsageLimit && failure.resets_at.is_some() {
            let resets_at = failure.resets_at;
            events.push(AgentEvent::RateLimit { status: LimitStatus::Rejected, resets_at });
        }
        events.push(AgentEvent::Error {
            kind: failure.kind,
            message: failure.message,
            fatal: false,
        });
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
