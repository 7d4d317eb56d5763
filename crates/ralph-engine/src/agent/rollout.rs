//! Reads the end of a usage limit from the session files of the Codex CLI.
//!
//! Only the end of a file is read: a session may have hundreds of megabytes, and the last turn is at the end.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use camino::{Utf8Path, Utf8PathBuf};
use jiff::{SignedDuration, Timestamp};
use ralph_model::run::UsageLimit;
use serde::Deserialize;

use super::wire::{Count, Money, Str, read};

/// How many bytes at the end of a session file are read.
const TAIL_BYTES: u64 = 1024 * 1024;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Line<'a> {
    #[serde(borrow)]
    timestamp: Str<'a>,
    #[serde(borrow)]
    payload: Payload<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Payload<'a> {
    #[serde(borrow, rename = "type")]
    kind: Str<'a>,
    rate_limits: Option<RateLimits>,
    #[serde(borrow)]
    error: Option<TaskError<'a>>,
}

#[derive(Deserialize)]
struct RateLimits {
    primary: Option<Window>,
    secondary: Option<Window>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Window {
    used_percent: Money,
    resets_at: Count,
    resets_in_seconds: Count,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TaskError<'a> {
    #[serde(borrow)]
    codex_error_info: Str<'a>,
}

/// Returns the limit that the session's last turn hit, if its file records one.
pub(super) fn recorded_limit(codex_home: &Utf8Path, session: &str) -> Option<UsageLimit> {
    let path = session_file(&codex_home.join("sessions"), &format!("-{session}.jsonl"), 3)?;
    limit_in(&tail(&path)?)
}

/// Finds the newest file with such a suffix under the year, month and day directories.
fn session_file(directory: &Utf8Path, ending: &str, depth: u8) -> Option<Utf8PathBuf> {
    let mut names: Vec<String> = directory
        .read_dir_utf8()
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_owned()))
        .collect();
    names.sort_unstable();
    names.into_iter().rev().find_map(|name| {
        let path = directory.join(&name);
        match depth {
            0 => (name.starts_with("rollout-") && name.ends_with(ending)).then_some(path),
            _ => session_file(&path, ending, depth - 1),
        }
    })
}

/// Reads the end of a file, from the first complete line.
fn tail(path: &Utf8Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let start = file.metadata().ok()?.len().saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match start {
        0 => Some(text),
        _ => text.split_once('\n').map(|(_, whole)| whole.to_owned()),
    }
}

fn limit_in(tail: &str) -> Option<UsageLimit> {
    let mut is_limited = false;
    for text in tail.lines().rev() {
        // Lines of the conversation are long and irrelevant.
        if !text.contains("\"token_count\"") && !text.contains("\"task_complete\"") {
            continue;
        }
        let Some(line) = read::<Line<'_>>(text) else { continue };
        match (&*line.payload.kind, line.payload.rate_limits, line.payload.error) {
            ("task_complete", _, Some(error)) => {
                is_limited |= &*error.codex_error_info == "usage_limit_exceeded";
            }
            ("task_complete", _, None) => return None,
            ("token_count", Some(limits), _) => {
                let told_at = line.timestamp.parse().ok();
                return exhausted(&limits, is_limited)
                    .map(|window| UsageLimit { resets_at: window.reset(told_at) });
            }
            _ => {}
        }
    }
    is_limited.then_some(UsageLimit { resets_at: None })
}

/// Returns the window to wait for: the longest of the exhausted ones, otherwise, if the turn failed by a limit, the
/// fullest.
fn exhausted(limits: &RateLimits, is_limited: bool) -> Option<Window> {
    let windows = || [limits.primary, limits.secondary].into_iter().flatten();
    let used = |window: &Window| window.used_percent.0.unwrap_or(0.0);
    let by_use = |a: &Window, b: &Window| used(a).partial_cmp(&used(b)).unwrap_or(Ordering::Equal);
    let full = windows()
        .filter(|window| used(window) >= 100.0)
        .max_by_key(|window| window.resets_at.0.max(window.resets_in_seconds.0));
    full.or_else(|| windows().filter(|_| is_limited).max_by(by_use))
}

impl Window {
    fn reset(self, told_at: Option<Timestamp>) -> Option<Timestamp> {
        match (self.resets_at.0, self.resets_in_seconds.0) {
            (0, 0) => None,
            (0, seconds) => {
                let wait = SignedDuration::from_secs(i64::try_from(seconds).ok()?);
                told_at?.checked_add(wait).ok()
            }
            (epoch, _) => Timestamp::from_second(i64::try_from(epoch).ok()?).ok(),
        }
    }
}

#[cfg(test)]
#[path = "rollout_tests.rs"]
mod tests;
