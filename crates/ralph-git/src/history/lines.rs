//! Differences between two versions, line by line.

use std::collections::HashMap;

/// Lines of one version that the other lacks, without line ends.
///
/// A moved line is unchanged; of equal lines, only the surplus of one version counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineChange<'a> {
    pub removed: Vec<&'a [u8]>,
    pub added: Vec<&'a [u8]>,
}

impl<'a> LineChange<'a> {
    /// Compares two versions.
    pub fn between(old: &'a [u8], new: &'a [u8]) -> Self {
        let (old, new) = trim(old, new);
        let mut change = LineChange { removed: lines(old), added: lines(new) };
        if !change.removed.is_empty() && !change.added.is_empty() {
            let mut balance: HashMap<&[u8], i64> = HashMap::new();
            for line in &change.removed {
                *balance.entry(line).or_default() -= 1;
            }
            for line in &change.added {
                *balance.entry(line).or_default() += 1;
            }
            change.removed.retain(|line| is_surplus(&mut balance, line, -1));
            change.added.retain(|line| is_surplus(&mut balance, line, 1));
        }
        change
    }
}

/// Whether a version still has a surplus of a line; decrements it.
fn is_surplus<'a>(balance: &mut HashMap<&'a [u8], i64>, line: &'a [u8], sign: i64) -> bool {
    let count = balance.get_mut(line).filter(|count| **count * sign > 0);
    count.map(|count| *count -= sign).is_some()
}

/// Drops the common prefix and suffix lines.
fn trim<'a>(old: &'a [u8], new: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    let prefix = common(old, new);
    let start = memchr::memrchr(b'\n', &old[..prefix]).map_or(0, |newline| newline + 1);
    let (old, new) = (&old[start..], &new[start..]);
    let suffix = common_at_end(old, new);
    // A line cut at its beginning is not common; a complete one is, if a line ends before it in both.
    let is_start = |bytes: &[u8]| bytes.len() == suffix || bytes[bytes.len() - suffix - 1] == b'\n';
    let skip = if is_start(old) && is_start(new) {
        0
    } else {
        let tail = &old[old.len() - suffix..];
        memchr::memchr(b'\n', tail).map_or(suffix, |newline| newline + 1)
    };
    let suffix = suffix - skip;
    (&old[..old.len() - suffix], &new[..new.len() - suffix])
}

const STRIDE: usize = 256;

fn common(old: &[u8], new: &[u8]) -> usize {
    let equal = old.chunks_exact(STRIDE).zip(new.chunks_exact(STRIDE));
    let start = STRIDE * equal.take_while(|(old, new)| old == new).count();
    let rest = old[start..].iter().zip(&new[start..]);
    start + rest.take_while(|(old, new)| old == new).count()
}

fn common_at_end(old: &[u8], new: &[u8]) -> usize {
    let equal = old.rchunks_exact(STRIDE).zip(new.rchunks_exact(STRIDE));
    let end = STRIDE * equal.take_while(|(old, new)| old == new).count();
    let rest = old[..old.len() - end].iter().rev().zip(new[..new.len() - end].iter().rev());
    end + rest.take_while(|(old, new)| old == new).count()
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', bytes) {
        lines.push(&bytes[start..end]);
        start = end + 1;
    }
    if start < bytes.len() {
        lines.push(&bytes[start..]);
    }
    lines
}

/// Returns the similarity of two versions, in percent of their lines.
pub(super) fn likeness(one: &[u8], other: &[u8]) -> usize {
    let total = lines(one).len() + lines(other).len();
    let change = LineChange::between(one, other);
    let common = total - change.removed.len() - change.added.len();
    (common * 100).checked_div(total).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_changed_is_what_one_version_has_more_of_than_the_other(
            old in "([ab]{0,2}\n){0,12}[ab]{0,2}",
            new in "([ab]{0,2}\n){0,12}[ab]{0,2}",
            shared in "(x{0,9}\n){0,90}",
        ) {
            let (old, new) = (format!("{shared}{old}\n{shared}"), format!("{shared}{new}\n{shared}"));
            let change = LineChange::between(old.as_bytes(), new.as_bytes());
            let count = |lines: &[&[u8]], line: &[u8]| {
                lines.iter().filter(|other| **other == line).count()
            };
            let (old, new) = (lines(old.as_bytes()), lines(new.as_bytes()));
            for line in old.iter().chain(&new) {
                let (before, after) = (count(&old, line), count(&new, line));
                prop_assert_eq!(count(&change.added, line), after.saturating_sub(before));
                prop_assert_eq!(count(&change.removed, line), before.saturating_sub(after));
            }
            prop_assert!(change.added.len() <= new.len() && change.removed.len() <= old.len());
        }
    }

    #[test]
    fn a_missing_end_of_line_changes_no_line() {
        for (old, new) in [("a\nb", "a\nb\n"), ("", ""), ("a\n", "a")] {
            let change = LineChange::between(old.as_bytes(), new.as_bytes());
            assert_eq!(change, LineChange::default(), "{old:?} {new:?}");
        }
        let change = LineChange::between(b"a\n", b"a\n\nxa\n");
        assert_eq!(change.added, [&b""[..], b"xa"]);
    }
}
