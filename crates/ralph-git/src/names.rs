//! Names of files and refs, which are bytes on Linux and not necessarily UTF-8.
//!
//! Paths stay paths; they become text only for people ([`shown`]) and in records ([`path_record`]). Ref names are text
//! in the whole program, as nearly all of them are: a byte that is not UTF-8 is written `\xNN`. No ref name contains a
//! backslash, so this is reversible.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;

use super::call::path_bytes;

/// Formats a path for people, on one line: bytes that are not UTF-8 and control characters are escaped.
pub fn shown(path: &Path) -> String {
    escaped(path_bytes(path), char::is_control)
}

/// Returns the name of a ref as text.
pub fn ref_name(bytes: &[u8]) -> String {
    escaped(bytes, |_| false)
}

/// Returns the bytes of a ref's name; inverts [`ref_name`].
pub(super) fn ref_bytes(name: &str) -> Cow<'_, [u8]> {
    if !name.contains('\\') {
        return Cow::Borrowed(name.as_bytes());
    }
    let mut parts = name.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(&part.as_bytes()[2..]);
            }
            None => bytes.extend([b"\\x", part.as_bytes()].concat()),
        }
    }
    Cow::Owned(bytes)
}

fn escaped(bytes: &[u8], unwanted: impl Fn(char) -> bool) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if unwanted(c) { text.extend(c.escape_default()) } else { text.push(c) }
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Serialises a path: as a string, or as bytes if it is not UTF-8.
pub(super) mod path_record {
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::call::{path_bytes, path_from};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    pub(crate) enum PathRecord {
        Text(String),
        Bytes(Vec<u8>),
    }

    impl From<&Path> for PathRecord {
        fn from(path: &Path) -> Self {
            match path.to_str() {
                Some(text) => PathRecord::Text(text.to_owned()),
                None => PathRecord::Bytes(path_bytes(path).to_vec()),
            }
        }
    }

    impl From<PathRecord> for PathBuf {
        fn from(record: PathRecord) -> Self {
            match record {
                PathRecord::Text(text) => PathBuf::from(text),
                PathRecord::Bytes(bytes) => path_from(&bytes),
            }
        }
    }

    pub(crate) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        PathRecord::from(path).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        PathRecord::deserialize(from).map(PathBuf::from)
    }
}

/// Serialises pairs of a path and a value.
pub(super) mod path_pairs_record {
    use std::path::PathBuf;

    use serde::de::DeserializeOwned;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::path_record::PathRecord;

    pub(crate) fn serialize<T: Serialize, S: Serializer>(
        pairs: &[(PathBuf, T)],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(pairs.iter().map(|(path, with)| (PathRecord::from(path.as_path()), with)))
    }

    pub(crate) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<(PathBuf, T)>, D::Error> {
        let pairs = Vec::<(PathRecord, T)>::deserialize(from)?;
        Ok(pairs.into_iter().map(|(path, with)| (path.into(), with)).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::call::path_from;
    use super::super::parse::{PathState, StatusEntry};
    use super::*;

    fn entry(path: &[u8]) -> StatusEntry {
        let state = PathState::Renamed { index: 'R', worktree: '.', from: path_from(path) };
        StatusEntry { path: path_from(path), state }
    }

    #[test]
    fn a_path_is_shown_on_one_line_and_every_byte_of_it_can_be_seen() {
        for (path, expected) in [
            (&b"caf\xe9"[..], "caf\\xe9"),
            ("café".as_bytes(), "café"),
            (b"a\nb\tc\x1b[31m", "a\\nb\\tc\\u{1b}[31m"),
            (b"-rf \"quoted\"", "-rf \"quoted\""),
        ] {
            assert_eq!(shown(&path_from(path)), expected);
        }
    }

    #[test]
    fn a_path_that_is_text_is_recorded_as_text() {
        let json = serde_json::to_string(&entry(b"a b")).unwrap();
        assert!(json.starts_with(r#"{"path":"a b","#), "{json}");
    }

    proptest! {
        #[test]
        fn any_path_is_read_back_from_its_record(path in prop::collection::vec(1_u8.., 1..20)) {
            let json = serde_json::to_string(&entry(&path)).unwrap();
            prop_assert_eq!(serde_json::from_str::<StatusEntry>(&json).unwrap(), entry(&path));
        }

        #[test]
        fn the_bytes_of_any_ref_are_found_again(name in prop::collection::vec(1_u8.., 1..20)) {
            let name: Vec<u8> = name.into_iter().filter(|byte| *byte != b'\\').collect();
            let text = ref_name(&name);
            prop_assert_eq!(&ref_bytes(&text)[..], &name[..]);
        }

        #[test]
        fn any_text_has_bytes(name in "\\PC{0,12}|(\\\\x?[0-9a-fé]{0,3}){0,4}") {
            ref_bytes(&name);
        }
    }
}
