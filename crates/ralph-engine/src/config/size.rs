//! Sizes in settings: an integer number of bytes with a unit, such as `512MiB`.

/// The units, largest first.
const UNITS: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Less would hardly fit a message.
const LEAST: u64 = 64 << 10;

pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = text[digits.len()..].trim_start();
    let factor = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let number = digits.parse::<u64>().ok();
    let size = number.zip(factor).and_then(|(number, (_, factor))| number.checked_mul(*factor));
    match size {
        None => Err(format!(
            "expected a whole number with `B`, `KiB`, `MiB`, `GiB` or `TiB`, found `{text}`"
        )),
        Some(size) if size < LEAST => Err(format!("it must be at least `{}`", render_size(LEAST))),
        Some(size) => Ok(size),
    }
}

pub(super) fn render_size(bytes: u64) -> String {
    let fits = |(_, factor): &&(&str, u64)| bytes.is_multiple_of(*factor);
    let (unit, factor) = UNITS.iter().find(fits).unwrap_or(&("B", 1));
    format!("{}{unit}", bytes / factor)
}

/// Renders a size with one decimal, rounded down, so that free space is never overstated.
pub(crate) fn approximate_size(bytes: u64) -> String {
    for (unit, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if bytes >> shift > 0 {
            let tenths = (bytes >> (shift - 10)) % 1024 * 10 / 1024;
            return format!("{}.{tenths} {unit}", bytes >> shift);
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_have_a_unit_and_are_not_tiny() {
        for (text, size) in [("1GiB", 1 << 30), (" 70000 b ", 70_000), ("64 kib", 64 << 10)] {
            assert_eq!(parse_size(text), Ok(size), "{text}");
        }
        for text in ["", "GiB", "1", "-1GiB", "1.5GiB", "1GB", "1 G", "99999999999TiB", "1KiB", "é"]
        {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_size_is_read_back(size in LEAST..) {
            prop_assert_eq!(parse_size(&render_size(size)), Ok(size));
        }

        #[test]
        fn any_text_is_a_size_or_none(text in "\\PC{0,12}") {
            let _ = parse_size(&text);
        }
    }
}
