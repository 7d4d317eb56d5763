//! Ids of tasks and issues: how they are generated, and which ones a person or an agent may choose.
//!
//! A parsed plan may contain ids of any shape; these types cover ids that are written.

use std::fmt;
use std::str::FromStr;

const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const SHORTEST: usize = 4;
const LONGEST: usize = 10;

/// How long a new id is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdLength {
    /// As short as possible without colliding with known ids.
    Short,
    /// Long enough not to collide with unknown ids.
    Long,
}

impl IdLength {
    /// Returns the length of new ids, depending on whether the whole history is known.
    pub(super) fn given(past_is_whole: bool) -> IdLength {
        if past_is_whole { IdLength::Short } else { IdLength::Long }
    }
}

/// Defines the type of an id: a prefix and 4 to 10 lower-case letters and digits.
macro_rules! short_id {
    ($(#[$doc:meta])* $name:ident, $invalid:ident, $prefix:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            /// Generates an id that is not `taken`, from unpredictable numbers.
            pub(crate) fn generate(
                random: &mut dyn FnMut() -> u64,
                length: IdLength,
                taken: impl Fn(&str) -> bool,
            ) -> $name {
                $name(generate($prefix, random, length, taken))
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

        #[doc = concat!("The text is no id for a new ", $what, ".")]
        #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
        #[error("invalid {what} id `{0}`; ids look like `{prefix}1a2b` (4 to 10 of `a-z0-9`)", what = $what, prefix = $prefix)]
        pub struct $invalid(pub String);

        impl FromStr for $name {
            type Err = $invalid;

            fn from_str(text: &str) -> Result<Self, $invalid> {
                if fits($prefix, text) { Ok($name(text.to_owned())) } else { Err($invalid(text.to_owned())) }
            }
        }
    };
}

short_id! {
    /// The id of a task, such as `t-1a2b`.
    TaskId, InvalidTaskId, "t-", "task"
}

short_id! {
    /// The id of an issue, such as `i-7g8h`.
    IssueId, InvalidIssueId, "i-", "issue"
}

fn fits(prefix: &str, text: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| {
        (SHORTEST..=LONGEST).contains(&rest.len())
            && rest.bytes().all(|byte| LETTERS.contains(&byte))
    })
}

/// Tries short ids first; when they are mostly taken, longer ones.
fn generate(
    prefix: &str,
    random: &mut dyn FnMut() -> u64,
    length: IdLength,
    taken: impl Fn(&str) -> bool,
) -> String {
    let shortest = match length {
        IdLength::Short => SHORTEST,
        IdLength::Long => LONGEST,
    };
    for attempt in 0_u64.. {
        let length =
            usize::try_from(attempt / 8).map_or(LONGEST, |more| LONGEST.min(shortest + more));
        // A source that repeats itself must not cause an endless loop.
        let mut left = random().wrapping_add(attempt.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut id = prefix.to_owned();
        for _ in 0..length {
            let letter = usize::try_from(left % 36).expect("less than 36");
            id.push(char::from(LETTERS[letter]));
            left /= 36;
        }
        if !taken(&id) {
            return id;
        }
    }
    unreachable!("there are more ids than attempts can be counted")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_new_id_is_short_and_never_one_that_is_taken() {
        let mut next = 7_u64;
        let mut random = || {
            next = next
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            next >> 8
        };
        let mut taken = HashSet::new();
        for _ in 0..2000 {
            let id = TaskId::generate(&mut random, IdLength::Short, |id| taken.contains(id));
            assert_eq!(id.0.len(), 6, "{id}");
            assert_eq!(id.0.parse::<TaskId>().as_ref(), Ok(&id));
            assert!(taken.insert(String::from(id)));
        }
        assert!(IssueId::generate(&mut random, IdLength::Short, |_| false).0.starts_with("i-"));
    }

    #[test]
    fn a_source_that_repeats_itself_still_gives_other_ids() {
        let mut taken = HashSet::new();
        for _ in 0..100 {
            let id = TaskId::generate(&mut || 4, IdLength::Short, |id| taken.contains(id));
            assert!(taken.insert(String::from(id)));
        }
    }

    #[test]
    fn when_all_short_ids_are_taken_longer_ones_are_made() {
        let mut next = 0;
        let mut random = || {
            next += 1_u64 << 40;
            next
        };
        let id = TaskId::generate(&mut random, IdLength::Short, |id| id.len() < 8);
        assert_eq!(id.0.len(), 8);
    }

    #[test]
    fn a_long_id_is_as_long_as_one_may_be() {
        let id = TaskId::generate(&mut || u64::MAX, IdLength::Long, |_| false);
        assert_eq!(id.0.len(), "t-".len() + LONGEST);
        assert!(id.0.parse::<TaskId>().is_ok());
    }

    #[test]
    fn ids_of_other_shapes_are_refused_for_new_tasks() {
        for text in ["t-1a2b", "t-0123456789", "t-zzzz"] {
            assert!(text.parse::<TaskId>().is_ok(), "{text}");
        }
        for text in
            ["", "t-", "t-abc", "t-01234567890", "t-ABCD", "i-1a2b", "1a2b", "t-1a b", "t-é234"]
        {
            assert!(text.parse::<TaskId>().is_err(), "{text}");
        }
        assert!("i-7g8h".parse::<IssueId>().is_ok());
        assert!("t-7g8h".parse::<IssueId>().is_err());
    }
}
