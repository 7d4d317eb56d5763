//! The id of a git object.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The hash algorithm of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ObjectFormat {
    Sha1,
    Sha256,
}

impl ObjectFormat {
    pub(super) fn name(self) -> &'static str {
        match self {
            ObjectFormat::Sha1 => "sha1",
            ObjectFormat::Sha256 => "sha256",
        }
    }

    /// Returns the id of the empty tree.
    pub(crate) fn empty_tree(self) -> Oid {
        Oid(match self {
            ObjectFormat::Sha1 => "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
            ObjectFormat::Sha256 => {
                "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
            }
        }
        .to_owned())
    }

    pub(super) fn zero(self) -> String {
        "0".repeat(match self {
            ObjectFormat::Sha1 => 40,
            ObjectFormat::Sha256 => 64,
        })
    }
}

/// Writes bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    let digit = |number: u8| char::from(b"0123456789abcdef"[usize::from(number)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Writes one line per item.
pub(super) fn lines<T>(items: impl IntoIterator<Item = T>, line: impl Fn(T) -> String) -> String {
    let mut text = String::new();
    for item in items {
        text.push_str(&line(item));
        text.push('\n');
    }
    text
}

/// A whole object id: 40 or 64 lower-case hexadecimal digits, never all zero.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Oid(String);

impl Oid {
    /// Reads a whole id.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let whole = matches!(text.len(), 40 | 64) && text.iter().all(hex);
        if !whole || text.iter().all(|byte| *byte == b'0') {
            return None;
        }
        Some(Oid(String::from_utf8(text.to_vec()).ok()?))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl TryFrom<String> for Oid {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Oid::parse(text.as_bytes()).ok_or_else(|| format!("`{text}` is not an object id"))
    }
}

impl From<Oid> for String {
    fn from(id: Oid) -> String {
        id.0
    }
}
