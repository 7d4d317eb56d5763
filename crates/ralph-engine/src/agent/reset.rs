//! Parses the end of a usage limit from prose and error bodies of agents.
//!
//! Everything here is pure; the current time and zone come from the [`DecodeContext`]. If a text contains no parsable
//! time, the harness chooses how long to wait.

use std::time::Duration;

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use ralph_model::policy::limit::{reset_in_json, usage_limit_in_text};
use ralph_model::run::UsageLimit;

use super::DecodeContext;

/// Returns the usage limit reported in `text`, the end of a run's output.
///
/// Use only for a run that did not complete: an agent may well write about limits in its work.
pub(super) fn limit_in_text(text: &str, context: &DecodeContext) -> Option<UsageLimit> {
    let limit = usage_limit_in_text(text, &context.limit_patterns, context.now)?;
    Some(UsageLimit { resets_at: limit.resets_at.or_else(|| in_prose(text, context)) })
}

/// Returns the end of a limit according to `text`, from JSON keys or from prose.
pub(super) fn reset_time(text: &str, context: &DecodeContext) -> Option<Timestamp> {
    reset_in_json(text, context.now).or_else(|| in_prose(text, context))
}

fn in_prose(text: &str, context: &DecodeContext) -> Option<Timestamp> {
    for phrase in ["try again at ", "resets at ", "reset at ", "resets "] {
        if let Some(time) = after(text, phrase).and_then(|rest| time_of(rest, context)) {
            return Some(time);
        }
    }
    for phrase in ["try again in ", "retry in ", "resets in ", "reset in "] {
        if let Some(wait) = after(text, phrase).and_then(duration_of) {
            return context.now.checked_add(SignedDuration::try_from(wait).ok()?).ok();
        }
    }
    None
}

/// Returns the text after the first occurrence of an ASCII phrase, ignoring case.
fn after<'a>(text: &'a str, phrase: &str) -> Option<&'a str> {
    let at = text.to_ascii_lowercase().find(phrase)?;
    Some(&text[at + phrase.len()..])
}

/// Parses `7:32 PM`, `7pm (UTC)`, `Nov 18th, 2026 6:58 PM` or `Nov 18, 7pm`.
fn time_of(text: &str, context: &DecodeContext) -> Option<Timestamp> {
    let mut words = text
        .split([' ', ',', '\n'])
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| !word.is_empty() && *word != "at")
        .peekable();
    let month = words.peek().and_then(|word| month_of(word));
    let day = match month {
        Some(month) => {
            words.next();
            let day = words.next()?.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let year =
                words.peek().filter(|word| word.len() == 4).and_then(|word| word.parse().ok());
            if year.is_some() {
                words.next();
            }
            Some((year, month, day.parse().ok()?))
        }
        None => None,
    };
    let clock = words.next()?.to_ascii_lowercase();
    let attached = clock.strip_suffix("am").or_else(|| clock.strip_suffix("pm"));
    let (clock, half) = if let Some(digits) = attached {
        (digits, Some(clock.ends_with("pm")))
    } else {
        let half = words.peek().and_then(|word| match word.to_ascii_lowercase().as_str() {
            "am" => Some(false),
            "pm" => Some(true),
            _ => None,
        });
        if half.is_some() {
            words.next();
        }
        (clock.as_str(), half)
    };
    let time = clock_time(clock, half)?;
    let zone = words
        .next()
        .and_then(|word| word.strip_prefix('(')?.split(')').next())
        .and_then(|name| TimeZone::get(name).ok())
        .unwrap_or_else(|| context.zone.clone());
    next_moment(day, time, &zone, context.now)
}

fn month_of(word: &str) -> Option<i8> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let start = word.get(..3)?.to_ascii_lowercase();
    (1..).zip(MONTHS).find_map(|(number, month)| (month == start).then_some(number))
}

/// Parses `7:32` or `7` with am or pm, or `19:32` without.
fn clock_time(clock: &str, afternoon: Option<bool>) -> Option<Time> {
    let (hour, minute) = match clock.split_once(':') {
        Some((hour, minute)) => (hour, minute.parse().ok()?),
        None => (clock, 0),
    };
    let hour: i8 = hour.parse().ok()?;
    let hour = match afternoon {
        Some(afternoon) if (1..=12).contains(&hour) => hour % 12 + if afternoon { 12 } else { 0 },
        None if clock.contains(':') => hour,
        _ => return None,
    };
    Time::new(hour, minute, 0, 0).ok()
}

/// Returns the moment of a time with an optional date; without a date, the next such moment.
///
/// The times are truncated to the minute, so one within the last minute still counts as ahead.
fn next_moment(
    day: Option<(Option<i16>, i8, i8)>,
    time: Time,
    zone: &TimeZone,
    now: Timestamp,
) -> Option<Timestamp> {
    let today = now.to_zoned(zone.clone()).date();
    let at = |date: Date| {
        date.to_datetime(time).to_zoned(zone.clone()).ok().map(|zoned| zoned.timestamp())
    };
    let is_over = |moment: Timestamp| now.duration_since(moment) > SignedDuration::from_mins(1);
    match day {
        None => match at(today)? {
            moment if is_over(moment) => at(today.tomorrow().ok()?),
            moment => Some(moment),
        },
        Some((Some(year), month, day)) => at(Date::new(year, month, day).ok()?),
        Some((None, month, day)) => match at(Date::new(today.year(), month, day).ok()?)? {
            moment if is_over(moment) => at(Date::new(today.year() + 1, month, day).ok()?),
            moment => Some(moment),
        },
    }
}

/// Parses `3.5s`, `90 seconds`, `3 days 4 hours 12 minutes` at the beginning of `text`.
fn duration_of(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut seconds = None;
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let Ok(number) = rest[..end].parse::<f64>() else { break };
        let unit_text = rest[end..].trim_start();
        let end = unit_text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit_text.len());
        let unit = match &unit_text[..end] {
            "ms" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86400.0,
            _ => break,
        };
        seconds = Some(seconds.unwrap_or(0.0) + number * unit);
        rest = &unit_text[end..];
    }
    Duration::try_from_secs_f64(seconds?).ok()
}

#[cfg(test)]
#[path = "reset_tests.rs"]
mod tests;
