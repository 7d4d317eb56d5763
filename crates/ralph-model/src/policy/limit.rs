//! Usage limits: detecting one in text, and how long to wait.
//!
//! Text is the last resort. It is used only for runs that did not complete, or whose completion is unknown, and only
//! the last lines count: an agent may well be working on code about rate limits.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::run::UsageLimit;

/// How many lines at the end of a run's output are searched.
pub const TAIL_LINES: usize = 200;

/// How many non-blank lines are searched for a run that may well have completed.
pub(crate) const CLOSING_LINES: usize = 10;

/// Lower-case phrases that providers and agents print on a limit.
const PHRASES: [&str; 17] = [
    "usage_limit_reached",
    "you've hit your usage limit",
    "you have hit your usage limit",
    "usage limit reached",
    "usage limit exceeded",
    "session limit reached",
    "5-hour limit reached",
    "weekly limit reached",
    "too many requests",
    "rate_limit_exceeded",
    "ratelimiterror",
    "rate limit exceeded",
    "rate limit reached",
    "exceeded your current quota",
    "quota exceeded",
    "insufficient_quota",
    "resource_exhausted",
];

/// The maximum number of consecutive waits for an agent that makes no progress in between: together they exceed a
/// window of five hours. A report about rate limits looks like a limit, and would otherwise be waited for endlessly.
pub const MOST_LIMITS_IN_A_ROW: u32 = 10;

/// The owner of a limit: an agent, and its command or login if known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitHolder {
    pub agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
}

impl LimitHolder {
    /// Returns a key that is unique to this holder.
    pub(crate) fn key(&self) -> String {
        match &self.account {
            None => self.agent.clone(),
            Some(account) => format!("{} {account}", self.agent),
        }
    }
}

/// Unix times from here on are in milliseconds; as seconds they would be thousands of years ahead.
const FIRST_MILLISECOND_STAMP: i64 = 100_000_000_000;

/// Searches the last lines of a run that did not complete for a usage limit. `own` are the person's phrases.
pub fn usage_limit_in_text(tail: &str, own: &[String], now: Timestamp) -> Option<UsageLimit> {
    let plain = |text: &str| text.to_lowercase().replace('\u{2019}', "'");
    let tail = plain(last_lines(tail, TAIL_LINES));
    let is_own = || own.iter().any(|phrase| tail.contains(&plain(phrase)));
    if !PHRASES.iter().any(|phrase| tail.contains(phrase)) && !is_own() {
        return None;
    }
    Some(UsageLimit { resets_at: reset_in_json(&tail, now) })
}

/// Searches the very last lines of a run that may well have completed for a usage limit.
pub(crate) fn usage_limit_at_the_end(
    tail: &str,
    own: &[String],
    now: Timestamp,
) -> Option<UsageLimit> {
    let lines = tail.lines().rev().filter(|line| !line.trim().is_empty()).take(CLOSING_LINES);
    let mut lines: Vec<&str> = lines.collect();
    lines.reverse();
    usage_limit_in_text(&lines.join("\n"), own, now)
}

/// Returns the reset time under a JSON key, even if the JSON is quoted inside other text.
pub fn reset_in_json(text: &str, now: Timestamp) -> Option<Timestamp> {
    last_number_of_key(text, "resets_in_seconds")
        .and_then(|seconds| now.checked_add(Duration::from_secs(seconds.unsigned_abs())).ok())
        .or_else(|| last_number_of_key(text, "resets_at").and_then(unix_time))
}

fn unix_time(number: i64) -> Option<Timestamp> {
    if number >= FIRST_MILLISECOND_STAMP {
        Timestamp::from_millisecond(number).ok()
    } else {
        Timestamp::from_second(number).ok()
    }
}

fn last_lines(text: &str, count: usize) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    match text.rmatch_indices('\n').nth(count - 1) {
        Some((newline, _)) => &text[newline + 1..],
        None => text,
    }
}

/// Returns the number after the last `key":`, where the quote may be missing or escaped, as in JSON inside JSON.
///
/// The last one, because an agent that retries prints the limit again each time.
fn last_number_of_key(text: &str, key: &str) -> Option<i64> {
    text.rmatch_indices(key).find_map(|(at, _)| {
        let rest = text[at + key.len()..].trim_start_matches('\\');
        let rest = rest.strip_prefix('"').unwrap_or(rest).trim_start();
        let rest = rest.strip_prefix(':')?.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    })
}

/// How long to wait for the end of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitPolicy {
    /// Added to a known reset, because clocks differ.
    pub margin: Duration,
    /// The first wait if the reset is unknown; each further one is twice as long.
    pub first_unknown: Duration,
    /// The longest wait if the reset is unknown.
    pub cap: Duration,
    /// A reset further ahead than this is ignored.
    ///
    /// Providers have weekly limits at most, so such a time was misread or made up. Waiting for it could mean waiting
    /// forever; asking again now and then costs nothing.
    pub horizon: Duration,
}

impl Default for LimitPolicy {
    fn default() -> Self {
        LimitPolicy {
            margin: Duration::from_secs(30),
            first_unknown: Duration::from_mins(1),
            cap: Duration::from_hours(1),
            horizon: Duration::from_hours(8 * 24),
        }
    }
}

/// A wait for the end of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitWait {
    pub until: Timestamp,
    /// Whether `until` comes from the provider rather than being a guess.
    pub known: bool,
}

impl LimitPolicy {
    /// Returns the end of the wait.
    ///
    /// A reset is known if it lies ahead, however little, and within the horizon. One that is past tells nothing: the limit
    /// was hit in spite of it. [`LimitPolicy::no_shorter`] keeps resets that lie just ahead each time from being waited for
    /// at the same short pace for ever.
    ///
    /// `unknown_in_a_row` counts the waits without a known reset since the agent's last success.
    pub fn wait_until(
        &self,
        limit: UsageLimit,
        unknown_in_a_row: u32,
        now: Timestamp,
    ) -> LimitWait {
        let latest = after(now, self.horizon);
        let believed = limit.resets_at.filter(|reset| *reset > now && *reset <= latest);
        if let Some(reset) = believed {
            return LimitWait { until: after(reset, self.margin), known: true };
        }
        self.guess(unknown_in_a_row, now)
    }

    /// Makes a wait at least as long as the growing ones, if the limit recurred right after the last `in_a_row` waits:
    /// resets that are always just ahead would otherwise be retried forever at the same short interval.
    #[must_use]
    pub fn no_shorter(&self, wait: LimitWait, in_a_row: u32, now: Timestamp) -> LimitWait {
        let Some(before) = in_a_row.checked_sub(1) else { return wait };
        let guess = self.guess(before, now);
        if guess.until > wait.until { guess } else { wait }
    }

    /// Returns a wait with an unknown end: twice as long as the previous one.
    fn guess(&self, before: u32, now: Timestamp) -> LimitWait {
        let factor = 1_u32.checked_shl(before).unwrap_or(u32::MAX);
        let wait = self.first_unknown.saturating_mul(factor).min(self.cap);
        LimitWait { until: after(now, wait), known: false }
    }
}

fn after(from: Timestamp, wait: Duration) -> Timestamp {
    from.checked_add(wait).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
#[path = "limit_tests.rs"]
mod tests;
