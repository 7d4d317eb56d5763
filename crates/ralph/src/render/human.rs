//! Human-readable numbers and times.

use std::time::Duration;

use camino::Utf8Path;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use ralph_model::shown::shown;

use super::text::{LongWords, StyledLine, columns, cut};

/// `2m 13s`, `1h 05m`, `850ms`: two units at most.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3600..86400 => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d {:02}h", seconds / 86400, seconds / 3600 % 24),
    }
}

/// `950`, `12.3k`, `4.1M`.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(crate) fn count(number: u64) -> String {
    match number {
        0..1000 => number.to_string(),
        1000..999_950 => format!("{:.1}k", number as f64 / 1e3),
        _ => format!("{:.1}M", number as f64 / 1e6),
    }
}

/// `1 run`, `3 runs`, `2 processes`.
pub(crate) fn plural(number: u64, thing: &str) -> String {
    let stem = thing.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u']));
    match (number, stem) {
        (1, _) => format!("{number} {thing}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) if thing.ends_with('s') => format!("{number} {thing}es"),
        (_, None) => format!("{number} {thing}s"),
    }
}

/// `1.2 GiB`.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(crate) fn bytes(number: u64) -> String {
    let mut value = number as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            let digits = usize::from(unit != "B" && value < 100.0);
            return format!("{value:.digits$} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

pub(crate) fn dollars(usd: f64) -> String {
    if usd > 0.0 && usd < 0.01 { format!("${usd:.4}") } else { format!("${usd:.2}") }
}

/// Local time, with the date if it is not today, and with the year if it is not this one.
pub(crate) fn local_time(at: Timestamp, now: Timestamp) -> String {
    let zone = TimeZone::system();
    let (at, now) = (at.to_zoned(zone.clone()), now.to_zoned(zone));
    let form = if at.date() == now.date() {
        "%H:%M"
    } else if at.year() == now.year() {
        "%a %d %b %H:%M"
    } else {
        "%d %b %Y %H:%M"
    };
    at.strftime(form).to_string()
}

/// The first non-blank line, sanitized and truncated to `width` columns.
pub(crate) fn one_line(text: &str, width: usize) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    cut(&shown(&line.replace('\t', " ")), width)
}

/// A human-readable number of tokens.
pub(crate) fn tokens(number: u64) -> String {
    format!("{} token{}", count(number), if number == 1 { "" } else { "s" })
}

/// A sanitized text padded with spaces to `width` columns.
pub(crate) fn padded(text: &str, width: usize) -> String {
    let text = shown(text);
    let gap = width.saturating_sub(columns(&text));
    format!("{text}{:gap$}", "")
}

/// The width of the widest text.
pub(crate) fn widest<'t>(texts: impl IntoIterator<Item = &'t str>) -> usize {
    texts.into_iter().map(|text| columns(&shown(text))).max().unwrap_or(0)
}

/// A path relative to a directory, if it is below it.
pub(crate) fn seen_from<'p>(directory: &Utf8Path, path: &'p Utf8Path) -> &'p Utf8Path {
    path.strip_prefix(directory).ok().filter(|rest| *rest != "").unwrap_or(path)
}

/// Wraps a text into sanitized lines of at most `width` columns, between words if possible.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let lines = StyledLine::from(text).wrap(width, 0, LongWords::Broken);
    lines.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_the_date_that_it_needs_and_fits_its_column() {
        let now: Timestamp = "2026-07-01T12:00:00Z".parse().unwrap();
        let shown = |at: &str| local_time(at.parse().unwrap(), now);
        assert_eq!(shown("2026-07-01T12:00:00Z").len(), "12:00".len());
        assert!(!shown("2026-03-05T12:00:00Z").contains("2026"));
        let long_ago = shown("2023-11-05T12:00:00Z");
        assert!(long_ago.contains("2023") && long_ago.len() <= 17, "{long_ago}");
    }

    #[test]
    fn columns_line_up_whatever_is_in_them() {
        let names = ["ab", "日本", "x\u{1b}"];
        assert_eq!(widest(names), 7);
        for name in names {
            assert_eq!(columns(&padded(name, 7)), 7, "{name:?}");
        }
    }

    #[test]
    fn paths_are_named_from_where_the_person_stands() {
        let seen = |path: &'static str| seen_from("/home/me".into(), path.into());
        assert_eq!(seen("/home/me/ralph/x.log"), "ralph/x.log");
        assert_eq!(seen("/home/you/x.log"), "/home/you/x.log");
        assert_eq!(seen("/home/me"), "/home/me");
    }

    #[test]
    fn numbers_read_well_at_every_size() {
        let ms = Duration::from_millis;
        let durations: Vec<String> =
            [850, 59_999, 133_000, 3_900_000, 90_000_000].map(|millis| duration(ms(millis))).into();
        assert_eq!(durations, ["850ms", "59s", "2m 13s", "1h 05m", "1d 01h"]);
        assert_eq!(
            [950, 12_345, 999_949, 4_100_000].map(count),
            ["950", "12.3k", "999.9k", "4.1M"]
        );
        assert_eq!([12, 2048, 1 << 30].map(bytes), ["12 B", "2.0 KiB", "1.0 GiB"]);
        assert_eq!(plural(1, "run"), "1 run");
        assert_eq!([plural(2, "run"), plural(3, "process")], ["2 runs", "3 processes"]);
        assert_eq!([plural(2, "story"), plural(0, "day")], ["2 stories", "0 days"]);
        assert_eq!([0.0, 0.0042, 1.5].map(dollars), ["$0.00", "$0.0042", "$1.50"]);
        assert_eq!(one_line("\n  hello\tworld and more\nx", 12), "hello world…");
        assert_eq!(one_line("a\u{1b}[2J\u{202e}b", 40), "a\\u{1b}[2J\\u{202e}b");
    }
}
