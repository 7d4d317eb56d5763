//! Numbers and times as people read them.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

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
    let ending = match (number, thing.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{number} {thing}{ending}")
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

/// The time of day where the person is, with the date when it is not today.
pub(crate) fn local_time(at: Timestamp, now: Timestamp) -> String {
    let zone = TimeZone::system();
    let (at, now) = (at.to_zoned(zone.clone()), now.to_zoned(zone));
    let form = if at.date() == now.date() { "%H:%M" } else { "%a %d %b %H:%M" };
    at.strftime(form).to_string()
}

/// The first line with something on it, cut to `width` characters, without control characters.
pub(crate) fn one_line(text: &str, width: usize) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let clean: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if clean.chars().count() <= width {
        return clean;
    }
    let mut cut: String = clean.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!([0.0, 0.0042, 1.5].map(dollars), ["$0.00", "$0.0042", "$1.50"]);
        assert_eq!(one_line("\n  hello\tworld and more\nx", 12), "hello world…");
    }
}
