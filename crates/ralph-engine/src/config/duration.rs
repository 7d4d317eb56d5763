//! Human-readable durations: `30m`, `1h30m`, `45s`, `500ms`.

use std::fmt::Write;
use std::time::Duration;

/// The longest allowed duration. Sums of a few of them stay far from any overflow.
const LONGEST: Duration = Duration::from_hours(366 * 24);

const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// The text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DurationError {
    #[error("expected a duration such as `90s`, `30m` or `1h30m`, found `{0}`")]
    Malformed(String),
    #[error("`{0}` has no unit: write `{0}s` for seconds or `{0}m` for minutes")]
    NoUnit(String),
    #[error("unknown unit `{0}`: use `d`, `h`, `m`, `s` or `ms`")]
    UnknownUnit(String),
    #[error("`{0}` is longer than a year")]
    TooLong(String),
}

/// Parses a duration: integers with units, concatenated.
pub(super) fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let mut rest = text.trim();
    let too_long = || DurationError::TooLong(text.trim().to_owned());
    let mut total: u64 = 0;
    if rest.is_empty() {
        return Err(DurationError::Malformed(text.to_owned()));
    }
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| c.is_ascii_digit());
        let (unit, after) = split(after, char::is_alphabetic);
        if number.is_empty() || (unit.is_empty() && !after.is_empty()) {
            return Err(DurationError::Malformed(text.to_owned()));
        }
        if unit.is_empty() {
            return Err(DurationError::NoUnit(number.to_owned()));
        }
        let factor = UNITS.iter().find(|(name, _)| *name == unit);
        let (_, factor) = factor.ok_or_else(|| DurationError::UnknownUnit(unit.to_owned()))?;
        let number: u64 = number.parse().map_err(|_| too_long())?;
        total = number
            .checked_mul(*factor)
            .and_then(|part| total.checked_add(part))
            .ok_or_else(too_long)?;
        rest = after.trim_start();
    }
    let total = Duration::from_millis(total);
    if total > LONGEST { Err(too_long()) } else { Ok(total) }
}

/// Renders a duration to the millisecond; the result parses back.
pub(super) fn render_duration(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if rest == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, factor) in UNITS {
        if rest >= factor {
            write!(text, "{}{unit}", rest / factor).expect("a string can be written to");
            rest %= factor;
        }
    }
    text
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_usual_spellings_are_understood() {
        for (text, milliseconds) in [
            ("30m", 1_800_000),
            ("1h30m", 5_400_000),
            (" 1h 30m ", 5_400_000),
            ("45s", 45_000),
            ("500ms", 500),
            ("2d", 172_800_000),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn mistakes_are_explained() {
        for (text, message) in [
            ("30", "`30` has no unit: write `30s` for seconds or `30m` for minutes"),
            ("1h30", "`30` has no unit: write `30s` for seconds or `30m` for minutes"),
            ("5min", "unknown unit `min`: use `d`, `h`, `m`, `s` or `ms`"),
            ("", "expected a duration such as `90s`, `30m` or `1h30m`, found ``"),
            ("1.5h", "expected a duration such as `90s`, `30m` or `1h30m`, found `1.5h`"),
            ("-5m", "expected a duration such as `90s`, `30m` or `1h30m`, found `-5m`"),
            ("99999999999999999999s", "`99999999999999999999s` is longer than a year"),
            ("400d", "`400d` is longer than a year"),
        ] {
            assert_eq!(parse_duration(text).unwrap_err().to_string(), message);
        }
    }

    proptest! {
        #[test]
        fn what_is_rendered_parses_back(milliseconds in 0..LONGEST.as_millis()) {
            let duration = Duration::from_millis(u64::try_from(milliseconds).unwrap());
            prop_assert_eq!(parse_duration(&render_duration(duration)), Ok(duration));
        }

        #[test]
        fn any_text_parses_or_is_refused(text in "\\PC*") {
            let _ = parse_duration(&text);
        }
    }
}
