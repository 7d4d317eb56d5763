//! Which known word a mistyped one was meant to be.

/// Returns `; did you mean ...?` where one of `known` is near to `word`, else nothing.
pub(crate) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(word, known).first() {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None => String::new(),
    }
}

/// Returns what is near to `word`, nearest first.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut near: Vec<_> = known
        .into_iter()
        .map(|candidate| (edit_distance(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(3))
        .collect();
    near.sort_unstable();
    near.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Counts the characters to insert, remove, replace or swap with their neighbour to get from one word to the other.
fn edit_distance(from: &str, to: &str) -> usize {
    // Words that differ so much in length are never near, and what was typed may be very long.
    if from.len().abs_diff(to.len()) > to.len() {
        return usize::MAX;
    }
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=to.len()).collect()];
    for (i, left) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, right) in to.iter().enumerate() {
            let replaced = rows[i][j] + usize::from(left != right);
            let mut best = replaced.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *left == to[j - 1] && from[i - 1] == *right {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}
