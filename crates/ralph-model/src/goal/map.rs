//! `codebase_map.md`: its age, its remaining topics, and which changes a mapper may make.
//!
//! Dated entries are `## YYYY-MM-DD - Topic`; a date in brackets is accepted too, because prompts show it that way.
//! Topics are the checkboxes under the first heading that begins with `## Next Topics`.

use jiff::civil::Date;

/// The file's name in home.
pub const MAP_FILE: &str = "codebase_map.md";

const NEXT_TOPICS: &str = "## Next Topics";
const OPEN_BOX: &str = "- [ ] ";

/// The date and the title of an entry.
fn dated_entry(line: &str) -> Option<(Date, &str)> {
    let rest = line.strip_prefix("## ")?;
    let (date, title) = rest.split_once(" - ")?;
    let bare = date.strip_prefix('[').and_then(|date| date.strip_suffix(']')).unwrap_or(date);
    // Accept only the date form that the format's seed uses.
    let is_plain =
        bare.len() == 10 && bare.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    Some((bare.parse().ok().filter(|_| is_plain)?, title.trim()))
}

/// Returns the date of the most recent entry.
pub(crate) fn last_entry(map: &str) -> Option<Date> {
    map.lines().filter_map(|line| dated_entry(line).map(|(date, _)| date)).max()
}

/// Returns the lines of the first topic section.
fn topic_lines(map: &str) -> Option<impl Iterator<Item = &str>> {
    let mut lines = map.lines().skip_while(|line| !line.starts_with(NEXT_TOPICS));
    lines.next()?;
    Some(lines.take_while(|line| !line.starts_with("## ") && !line.starts_with("# ")))
}

/// Returns the remaining topics; `None` without a list of checkboxes.
pub fn open_topics(map: &str) -> Option<Vec<&str>> {
    let boxes = topic_lines(map)?.map(str::trim_start).filter_map(|line| {
        let ticked = ["- [x] ", "- [X] "].into_iter().any(|mark| line.starts_with(mark));
        if ticked { Some(None) } else { line.strip_prefix(OPEN_BOX).map(Some) }
    });
    let boxes: Vec<Option<&str>> = boxes.collect();
    (!boxes.is_empty()).then(|| boxes.into_iter().flatten().map(str::trim).collect())
}

/// Returns the topics that a prompt lists for maps without checkboxes: lines that begin with `n)`.
pub fn listed_topics(prompt: &str) -> Vec<&str> {
    let topic = |line: &'_ str| -> Option<(usize, usize)> {
        let text = line.trim_start();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let rest = text.get(digits..)?.strip_prefix(") ")?;
        (digits > 0 && !rest.trim().is_empty()).then(|| (line.len() - rest.len(), line.len()))
    };
    prompt.lines().filter_map(|line| topic(line).map(|(from, to)| line[from..to].trim())).collect()
}

/// Returns the next topic: the first open checkbox, or the first listed topic without an entry.
pub fn next_topic<'a>(map: &'a str, listed: &[&'a str]) -> Option<&'a str> {
    if let Some(open) = open_topics(map) {
        return open.into_iter().next();
    }
    let titles: Vec<String> = map
        .lines()
        .filter_map(|line| dated_entry(line).map(|(_, title)| title.to_lowercase()))
        .collect();
    let covered = |topic: &str| titles.iter().any(|title| title.contains(&short(topic)));
    listed.iter().copied().find(|topic| !covered(topic))
}

/// Returns a topic's name without its explanation.
fn short(topic: &str) -> String {
    let end = topic.find(['(', ':', ';']).unwrap_or(topic.len());
    topic[..end].trim().to_lowercase()
}

/// Why a mapper's version of the map is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    #[error("the map was not changed")]
    Unchanged,
    #[error("the map is empty")]
    Empty,
    #[error("the map has no new entry: append a section `## YYYY-MM-DD - Topic`")]
    NoEntry,
    #[error("the map lost earlier entries: {}", .0.join(", "))]
    Lost(Vec<String>),
}

/// Accepts a mapper's version of the map and ticks the checkbox of its topic.
///
/// Entries may only be added, and at least one must be.
pub fn take_map(before: &str, after: &str, topic: &str) -> Result<String, MapError> {
    if after.trim().is_empty() {
        return Err(MapError::Empty);
    }
    if after == before {
        return Err(MapError::Unchanged);
    }
    let headings = |map: &str| -> Vec<String> {
        map.lines().filter(|line| dated_entry(line).is_some()).map(str::to_owned).collect()
    };
    let (old, mut new) = (headings(before), headings(after));
    let mut lost = Vec::new();
    for heading in old {
        match new.iter().position(|found| *found == heading) {
            Some(at) => drop(new.remove(at)),
            None => lost.push(heading),
        }
    }
    if !lost.is_empty() {
        return Err(MapError::Lost(lost));
    }
    if new.is_empty() {
        return Err(MapError::NoEntry);
    }
    Ok(ticked(after, topic))
}

/// Ticks the checkbox of a topic.
fn ticked(map: &str, topic: &str) -> String {
    let mut is_ticked = false;
    let lines = map.split_inclusive('\n').map(|line| {
        let text = line.trim();
        let is_it = text.strip_prefix(OPEN_BOX).is_some_and(|found| found.trim() == topic);
        if is_ticked || !is_it {
            return line.to_owned();
        }
        is_ticked = true;
        line.replacen(OPEN_BOX, "- [x] ", 1)
    });
    lines.collect()
}

#[cfg(test)]
#[path = "map_tests.rs"]
mod tests;
