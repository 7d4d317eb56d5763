//! `codebase_map.md`: its age, its remaining topics, and which changes a mapper may make.
//!
//! Dated entries are `## YYYY-MM-DD - Topic`; a date in brackets is accepted too, because prompts show it that way.
//! Topics are the checkboxes under the first heading that begins with `## Next Topics`.

use jiff::civil::Date;

/// The file's name in home.
pub const MAP_FILE: &str = "codebase_map.md";

const NEXT_TOPICS: &str = "## Next Topics";
const OPEN_BOX: &str = "- [ ] ";
const TICKED_BOXES: [&str; 2] = ["- [x] ", "- [X] "];

/// How many lost lines an error names.
const MOST_LOST_NAMED: usize = 5;

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
        let ticked = TICKED_BOXES.iter().any(|mark| line.starts_with(mark));
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
    #[error(
        "the map has no new entry: the heading of the new section must be `## YYYY-MM-DD - Topic`, not `{0}`"
    )]
    Heading(String),
    #[error("the map lost earlier text, and may only gain some: {}", .0.join(" / "))]
    Lost(Vec<String>),
}

/// Accepts a mapper's version of the map and ticks the checkbox of its topic, and no other.
///
/// Text may only be added, and at least one entry must be: the rest is a person's, or an earlier mapper's.
pub fn take_map(before: &str, after: &str, topic: &str) -> Result<String, MapError> {
    if after.trim().is_empty() {
        return Err(MapError::Empty);
    }
    if after == before {
        return Err(MapError::Unchanged);
    }
    let mut new: Vec<(bool, &str)> = after.lines().map(bare).collect();
    let mut lost = Vec::new();
    for line in before.lines().filter(|line| !line.trim().is_empty()) {
        match new.iter().position(|found| *found == bare(line)) {
            Some(at) => drop(new.remove(at)),
            None => lost.push(line.trim().to_owned()),
        }
    }
    if !lost.is_empty() {
        lost.truncate(MOST_LOST_NAMED);
        return Err(MapError::Lost(lost));
    }
    let mut new = new.into_iter().filter(|(is_box, _)| !is_box).map(|(_, line)| line);
    let headings: Vec<&str> = new.by_ref().filter(|line| line.starts_with("##")).collect();
    if !headings.iter().any(|line| dated_entry(line).is_some()) {
        let heading = headings.first();
        return Err(heading.map_or(MapError::NoEntry, |line| MapError::Heading((*line).to_owned())));
    }
    Ok(with_boxes_of(before, after, topic))
}

/// Returns whether a line has a checkbox, and its text without trailing spaces and the state of that box.
fn bare(line: &str) -> (bool, &str) {
    let line = line.trim_end();
    box_of(line).map_or((false, line), |(_, text)| (true, text))
}

/// Returns whether a line's checkbox is ticked, and its text; `None` if it has none.
fn box_of(line: &str) -> Option<(bool, &str)> {
    let text = line.trim_start();
    let ticked =
        TICKED_BOXES.iter().find_map(|mark| text.strip_prefix(mark)).map(|rest| (true, rest));
    ticked.or_else(|| text.strip_prefix(OPEN_BOX).map(|rest| (false, rest)))
}

/// Returns the map `after` with each checkbox of `before` as it was, but for that of the topic, which is ticked.
fn with_boxes_of(before: &str, after: &str, topic: &str) -> String {
    let mut old: Vec<(bool, &str)> =
        before.lines().filter_map(|line| box_of(line.trim_end())).collect();
    let mut is_ticked = false;
    let lines = after.split_inclusive('\n').map(|line| {
        let Some((now, text)) = box_of(line.trim_end()) else { return line.to_owned() };
        let known = old.iter().position(|(_, old)| *old == text).map(|at| old.remove(at).0);
        let is_topic = !is_ticked && known != Some(true) && text.trim() == topic;
        is_ticked |= is_topic;
        match (is_topic || known.unwrap_or(now), now) {
            (true, false) => line.replacen(OPEN_BOX, TICKED_BOXES[0], 1),
            (false, true) => {
                let mark = TICKED_BOXES.into_iter().find(|mark| line.contains(mark));
                mark.map_or_else(|| line.to_owned(), |mark| line.replacen(mark, OPEN_BOX, 1))
            }
            _ => line.to_owned(),
        }
    });
    lines.collect()
}

#[cfg(test)]
#[path = "map_tests.rs"]
mod tests;
