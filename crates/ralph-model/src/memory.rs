//! Merges memory files (`SCRATCHPAD.md`, `progress.txt`): the lines of both sides are kept.
//!
//! These files are notes. A duplicate line is harmless, a lost one is not, so there are no conflicts: the result
//! contains everything that either side added since the common version, the person's additions last.

use std::collections::HashMap;

/// Merges `ours` and `theirs`, which both derive from `base`, and keeps every added line.
pub fn merge_notes(base: &[u8], ours: &[u8], theirs: &[u8]) -> Vec<u8> {
    if ours == base || ours == theirs {
        return theirs.to_vec();
    }
    if theirs == base {
        return ours.to_vec();
    }
    let mut result = ours.to_vec();
    let has_whole_lines = base.is_empty() || base.ends_with(b"\n");
    let added = match theirs.strip_prefix(base).filter(|_| has_whole_lines) {
        // It was merged before.
        Some(added) if holds_block(ours.strip_prefix(base).unwrap_or_default(), added) => {
            Vec::new()
        }
        Some(added) => added.to_vec(),
        None => added_lines(base, ours, theirs),
    };
    if !added.is_empty() && !result.is_empty() && !result.ends_with(b"\n") {
        result.push(b'\n');
    }
    result.extend(added);
    result
}

/// Returns `ours` completely, plus the lines that `theirs` added to `base`. Lines that an agent removed from its copy
/// are kept, because their owner is unknown.
pub fn add_notes(base: &[u8], ours: &[u8], theirs: &[u8]) -> Vec<u8> {
    if ours == base && theirs.starts_with(base) {
        return theirs.to_vec();
    }
    // With `ours` different from `base`, the merge keeps all of it.
    if ours != base && ours != theirs {
        return merge_notes(base, ours, theirs);
    }
    let mut result = ours.to_vec();
    let added = added_lines(base, ours, theirs);
    if !added.is_empty() && !result.is_empty() && !result.ends_with(b"\n") {
        result.push(b'\n');
    }
    result.extend(added);
    result
}

/// Whether a text contains these lines consecutively.
fn holds_block(text: &[u8], lines: &[u8]) -> bool {
    let split = |text: &[u8]| -> Vec<Vec<u8>> {
        text.split_inclusive(|byte| *byte == b'\n').map(|line| trimmed(line).to_vec()).collect()
    };
    let (text, lines) = (split(text), split(lines));
    !lines.is_empty() && text.windows(lines.len()).any(|found| found == lines)
}

/// Returns the lines that occur more often in `theirs` than in `base` and `ours`.
fn added_lines(base: &[u8], ours: &[u8], theirs: &[u8]) -> Vec<u8> {
    let mut known: HashMap<&[u8], usize> = HashMap::new();
    let (in_base, in_ours) = (count(base), count(ours));
    for (line, times) in in_base.iter().chain(&in_ours) {
        let most = known.entry(line).or_default();
        *most = (*most).max(*times);
    }
    let mut added = Vec::new();
    for line in theirs.split_inclusive(|byte| *byte == b'\n') {
        match known.get_mut(trimmed(line)) {
            Some(left) if *left > 0 => *left -= 1,
            _ => added.extend(line),
        }
    }
    added
}

fn count(text: &[u8]) -> HashMap<&[u8], usize> {
    let mut counts = HashMap::new();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        *counts.entry(trimmed(line)).or_default() += 1;
    }
    counts
}

fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_both_sides_added_is_kept() {
        for (base, ours, theirs, expected) in [
            ("a\n", "a\nours\n", "a\ntheirs\n", "a\nours\ntheirs\n"),
            ("a\n", "a\n", "b\n", "b\n"),
            ("a\n", "b\n", "a\n", "b\n"),
            ("", "x", "y", "x\ny"),
            ("a\n", "a\nx\ny\n", "a\nx", "a\nx\ny\n"),
            ("a\nb\n", "a\nb\nours\n", "a\nchanged\nb\n", "a\nb\nours\nchanged\n"),
            ("a\n", "new\n", "a\nx\nx\n", "new\nx\nx\n"),
        ] {
            let merged = merge_notes(base.as_bytes(), ours.as_bytes(), theirs.as_bytes());
            assert_eq!(
                String::from_utf8(merged).unwrap(),
                expected,
                "{base:?} {ours:?} {theirs:?}"
            );
        }
    }

    proptest! {
        /// Whatever an agent does to its copy, all of ours is kept.
        #[test]
        fn no_line_of_ours_is_lost(
            base in proptest::collection::vec("[ab]{0,2}", 0..6),
            more in proptest::collection::vec("[abc]{0,2}", 0..3),
            theirs in proptest::collection::vec("[abd]{0,2}", 0..6),
        ) {
            let text = |lines: &[String]| lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>();
            let (base, theirs) = (text(&base), text(&theirs));
            let ours = format!("{base}{}", text(&more));
            let merged = add_notes(base.as_bytes(), ours.as_bytes(), theirs.as_bytes());
            let merged = String::from_utf8(merged).unwrap();
            for line in ours.lines() {
                let times = |text: &str| text.lines().filter(|found| *found == line).count();
                prop_assert!(times(&merged) >= times(&ours), "{line} in {merged:?}");
            }
            for line in theirs.lines() {
                prop_assert!(merged.lines().any(|found| found == line), "{line} in {merged:?}");
            }
        }

        /// No line that a side added is missing.
        #[test]
        fn no_added_line_is_lost(
            base in proptest::collection::vec("[ab]{0,2}", 0..6),
            ours in proptest::collection::vec("[abc]{0,2}", 0..6),
            theirs in proptest::collection::vec("[abd]{0,2}", 0..6),
        ) {
            let text = |lines: &[String]| lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>();
            let merged = merge_notes(text(&base).as_bytes(), text(&ours).as_bytes(), text(&theirs).as_bytes());
            let merged = String::from_utf8(merged).unwrap();
            for line in ours.iter().chain(&theirs).filter(|line| !base.contains(line)) {
                prop_assert!(merged.lines().any(|found| found == line), "{line} in {merged:?}");
            }
        }
    }
}
