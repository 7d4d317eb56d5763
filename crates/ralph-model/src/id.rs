//! Ids that are validated on input and need no check after that.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// The id of a run, such as `20261115-203000Z-1a2b3c4d5e6f7081`.
///
/// It contains only digits, lower-case hex, `-` and `Z`, so it is a valid file name and ref name everywhere. Ids sort
/// by time. Earlier versions wrote 8 hex digits after the time; such ids are accepted unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

impl RunId {
    /// Creates the id of a run that begins at `stamp`; `nonce` is random and distinguishes runs of the same second.
    pub fn new(stamp: Timestamp, nonce: u64) -> RunId {
        // Years before 0 would have a sign.
        let stamp = stamp.max(Timestamp::UNIX_EPOCH).to_zoned(TimeZone::UTC);
        RunId(format!("{}-{nonce:016x}", stamp.strftime("%Y%m%d-%H%M%SZ")))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> String {
        id.0
    }
}

/// The text is not the id of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the id of a run")]
pub struct InvalidRunId(pub String);

impl TryFrom<String> for RunId {
    type Error = InvalidRunId;

    fn try_from(text: String) -> Result<Self, InvalidRunId> {
        let fits = matches!(text.len(), 25 | 33)
            && text.bytes().enumerate().all(|(at, byte)| match at {
                8 | 16 => byte == b'-',
                15 => byte == b'Z',
                0..15 => byte.is_ascii_digit(),
                _ => is_lower_hex(byte),
            });
        if fits { Ok(RunId(text)) } else { Err(InvalidRunId(text)) }
    }
}

impl FromStr for RunId {
    type Err = InvalidRunId;

    fn from_str(text: &str) -> Result<Self, InvalidRunId> {
        RunId::try_from(text.to_owned())
    }
}

/// Defines the type of a full git object name: 40 or 64 lower-case hex digits.
macro_rules! object_name {
    ($(#[$doc:meta])* $name:ident, $invalid:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        #[doc = concat!("The text is not the full name of a ", $what, ".")]
        #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
        #[error("`{0}` is not the full name of a {what}", what = $what)]
        pub struct $invalid(pub String);

        impl TryFrom<String> for $name {
            type Error = $invalid;

            fn try_from(text: String) -> Result<Self, $invalid> {
                let fits = matches!(text.len(), 40 | 64) && text.bytes().all(is_lower_hex);
                if fits { Ok($name(text)) } else { Err($invalid(text)) }
            }
        }

        impl FromStr for $name {
            type Err = $invalid;

            fn from_str(text: &str) -> Result<Self, $invalid> {
                $name::try_from(text.to_owned())
            }
        }
    };
}

object_name! {
    /// The full name of a git commit: 40 or 64 lower-case hex digits.
    CommitId, InvalidCommitId, "commit"
}

object_name! {
    /// The full name of a git tree: 40 or 64 lower-case hex digits.
    TreeId, InvalidTreeId, "tree"
}

const fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_run_id_tells_the_second_and_the_nonce() {
        let stamp = "2026-11-15T20:30:00.987Z".parse().unwrap();
        let id = RunId::new(stamp, 0x1a2b_3c4d_5e6f_7081);
        assert_eq!(id.to_string(), "20261115-203000Z-1a2b3c4d5e6f7081");
        assert_eq!(RunId::new(stamp, 7).to_string(), "20261115-203000Z-0000000000000007");
    }

    #[test]
    fn an_id_of_an_earlier_version_is_read_and_sorts_by_its_time() {
        let earlier: RunId = "20261115-203000Z-ffffffff".parse().unwrap();
        assert_eq!(earlier.to_string(), "20261115-203000Z-ffffffff");
        let later = RunId::new("2026-11-15T20:30:01Z".parse().unwrap(), 0);
        assert!(earlier < later);
    }

    #[test]
    fn run_ids_of_other_shapes_are_refused() {
        for text in [
            "",
            "20261115-203000Z-1a2b3c4",
            "20261115-203000Z-1a2b3c4d0",
            "20261115-203000Z-1a2b3c4d5e6f708",
            "20261115-203000Z-1a2b3c4d5e6f70811",
            "20261115-203000Z-1A2B3C4D",
            "20261115_203000Z-1a2b3c4d",
            "20261115-203000z-1a2b3c4d",
            "2026111x-203000Z-1a2b3c4d",
            "../../../../../etc/passwd",
            "20261115-203000Z-1a2b3c/d",
            "20261115-203000Z-1a2b3cé",
        ] {
            assert_eq!(text.parse::<RunId>(), Err(InvalidRunId(text.to_owned())));
        }
    }

    #[test]
    fn a_run_id_read_from_json_is_checked() {
        assert!(serde_json::from_str::<RunId>(r#""20261115-203000Z-1a2b3c4d""#).is_ok());
        assert!(serde_json::from_str::<RunId>(r#""../escape""#).is_err());
    }

    #[test]
    fn a_commit_or_tree_is_forty_or_sixty_four_lower_case_hex_digits() {
        let hex = "0123456789abcdef".repeat(4);
        for (text, fits) in [
            (&hex[..40], true),
            (&hex[..64], true),
            (&hex[..39], false),
            (&hex[..41], false),
            (&hex[..63], false),
            (&hex[..40].to_uppercase(), false),
            (&hex[..40].replace('0', "g"), false),
            ("", false),
        ] {
            assert_eq!(text.parse::<CommitId>().is_ok(), fits, "{text}");
            assert_eq!(text.parse::<TreeId>().is_ok(), fits, "{text}");
        }
    }

    proptest! {
        #[test]
        fn run_ids_are_read_back_sort_by_time_and_are_safe_in_paths(
            first in i64::from(i32::MIN)..250_000_000_000,
            second in 0_i64..250_000_000_000,
            nonce: u64,
        ) {
            let id = |seconds| RunId::new(Timestamp::from_second(seconds).unwrap(), nonce);
            let (first, second, order) = (id(first), id(second), first.max(0).cmp(&second));
            prop_assert_eq!(first.cmp(&second), order);
            prop_assert_eq!(first.as_str().parse::<RunId>().unwrap(), first.clone());
            prop_assert!(first.as_str().bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'));
            prop_assert!(!first.as_str().starts_with('-'));
        }

        #[test]
        fn any_text_is_an_id_that_reads_back_or_none(text in "\\PC{0,70}") {
            if let Ok(id) = text.parse::<RunId>() {
                prop_assert_eq!(id.to_string(), text.clone());
            }
            if let Ok(id) = text.parse::<CommitId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
