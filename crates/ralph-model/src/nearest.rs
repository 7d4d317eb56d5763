//! Suggestions for mistyped words.

/// Returns `; did you mean ...?` if one of `known` is close to `word`, otherwise nothing.
pub(crate) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(word, known).first() {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None => String::new(),
    }
}

/// Returns the words close to `word`, closest first, ignoring case.
///
/// The distance counts insertions, deletions, replacements and swaps of adjacent characters.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let word = word.to_lowercase();
    let mut near: Vec<_> = known
        .into_iter()
        .filter_map(|candidate| {
            let tolerance = candidate.len().div_ceil(3);
            // The typed word may be very long, and the time grows with its length.
            if word.len().abs_diff(candidate.len()) > candidate.len() {
                return None;
            }
            let distance = strsim::osa_distance(&word, &candidate.to_lowercase());
            (distance <= tolerance).then_some((distance, candidate))
        })
        .collect();
    near.sort_unstable();
    near.into_iter().map(|(_, candidate)| candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_come_nearest_first_and_far_ones_not_at_all() {
        for (word, known, expected) in [
            ("modell", &["mode", "model", "zebra"][..], &["model", "mode"][..]),
            ("modle", &["model"], &["model"]),
            ("Agent", &["agents", "agent"], &["agent", "agents"]),
            ("a", &["b"], &["b"]),
            ("", &["abc"], &[]),
            ("", &[""], &[""]),
            (&"x".repeat(100_000), &["model"], &[]),
        ] {
            assert_eq!(nearest(word, known.iter().copied()), expected, "{word:.9}");
        }
    }
}
