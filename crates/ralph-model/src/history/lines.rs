//! Which lines differ between two versions of a file of records.

use std::collections::HashMap;

/// Lines that a version took away and brought, without their ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedLines<'a> {
    pub removed: Vec<&'a [u8]>,
    pub added: Vec<&'a [u8]>,
}

/// Compares two versions line by line; a line that only moved is not changed.
pub fn changed_lines<'a>(old: &'a [u8], new: &'a [u8]) -> ChangedLines<'a> {
    let (old, new) = without_common_ends(old, new);
    let mut counts: HashMap<&[u8], isize> = HashMap::new();
    for line in lines(old) {
        *counts.entry(line).or_default() += 1;
    }
    let mut changed = ChangedLines::default();
    for line in lines(new) {
        match counts.get_mut(line) {
            Some(count) if *count > 0 => *count -= 1,
            _ => changed.added.push(line),
        }
    }
    for line in lines(old) {
        // Of lines that are alike the first ones are taken to be those that are left.
        if let Some(count) = counts.get_mut(line)
            && *count > 0
        {
            *count -= 1;
            changed.removed.push(line);
        }
    }
    changed
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.is_empty())
}

/// Cuts off what both begin and end with, in whole lines: most versions differ in one place.
fn without_common_ends<'a>(old: &'a [u8], new: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    let same = common(old.iter(), new.iter());
    let front = memchr::memrchr(b'\n', &old[..same]).map_or(0, |at| at + 1);
    let (old, new) = (&old[front..], &new[front..]);
    let same = common(old.iter().rev(), new.iter().rev());
    // The line in which they begin to be the same is cut only behind its end, and it is whole only if that end is in
    // both.
    let tail = &old[old.len() - same..];
    let back = memchr::memchr(b'\n', tail).map_or(0, |at| tail.len() - at - 1);
    (&old[..old.len() - back], &new[..new.len() - back])
}

fn common<'b>(one: impl Iterator<Item = &'b u8>, other: impl Iterator<Item = &'b u8>) -> usize {
    one.zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_what_differs_is_reported() {
        let changed = changed_lines(b"a\nb\nc\n", b"a\nB\nc\nd");
        assert_eq!(changed.removed, [b"b"]);
        assert_eq!(changed.added, [b"B", b"d"]);
    }

    #[test]
    fn moved_lines_and_other_ends_of_line_are_no_change() {
        assert_eq!(changed_lines(b"a\nb\nc\n", b"c\r\na\r\nb"), ChangedLines::default());
    }

    #[test]
    fn a_line_that_is_there_once_more_is_added() {
        assert_eq!(changed_lines(b"a\n", b"a\na\n").added, [b"a"]);
        assert_eq!(changed_lines(b"a\na\n", b"a\n").removed, [b"a"]);
    }

    fn counted(bytes: &[u8]) -> HashMap<&[u8], isize> {
        let mut counts = HashMap::new();
        lines(bytes).for_each(|line| *counts.entry(line).or_default() += 1);
        counts
    }

    proptest! {
        #[test]
        fn old_without_removed_and_with_added_is_new(
            old in "([abc]{0,2}\r?\n){0,8}[ab]?",
            new in "([abc]{0,2}\r?\n){0,8}[ab]?",
        ) {
            let changed = changed_lines(old.as_bytes(), new.as_bytes());
            let mut counts = counted(old.as_bytes());
            for line in &changed.removed {
                *counts.get_mut(line).unwrap() -= 1;
            }
            for line in &changed.added {
                prop_assert!(!changed.removed.contains(line));
                *counts.entry(line).or_default() += 1;
            }
            counts.retain(|_, count| *count != 0);
            prop_assert_eq!(counts, counted(new.as_bytes()));
        }
    }
}
