//! The small values in steps: sizes, durations, bytes and words.

use std::time::Duration;

/// Parses `1000`, `500MB`, `10MiB`: bytes.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size (like `1000`, `500MB`, `10MiB`)");
    let (number, unit) = number_and_unit(text).ok_or_else(wrong)?;
    let factor = match unit {
        "" | "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(wrong()),
    };
    number.checked_mul(factor).ok_or_else(wrong)
}

/// Parses `500ms`, `2s`, `5m`, `1h`, `7d`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration (like `500ms`, `2s`, `5m`, `1h`, `7d`)");
    let (number, unit) = number_and_unit(text).ok_or_else(wrong)?;
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    // A hundred years are as good as forever, and no addition to a date overflows.
    let total = number.checked_mul(milliseconds).filter(|total| *total <= 36_500 * 86_400_000);
    Ok(Duration::from_millis(total.ok_or_else(wrong)?))
}

fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit))
}

/// Parses pairs of hexadecimal digits, with or without spaces between them.
pub(super) fn hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|character| !character.is_whitespace())
        .map(|character| {
            character
                .to_digit(16)
                .ok_or_else(|| format!("`{character}` is not a hexadecimal digit"))
        })
        .collect::<Result<_, _>>()?;
    if digits.is_empty() || digits.len() % 2 == 1 {
        return Err("bytes need two hexadecimal digits each".to_owned());
    }
    let byte = |pair: &[u32]| {
        u8::try_from(pair[0] * 16 + pair[1]).expect("two hexadecimal digits fit a byte")
    };
    Ok(digits.chunks_exact(2).map(byte).collect())
}

/// Takes one word from the front: up to a space, or in double quotes with `\"` and `\\`.
///
/// Returns the word and the rest, or `None` without a word.
pub(super) fn word(text: &str) -> Result<Option<(String, &str)>, String> {
    let text = text.trim_start();
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        return Ok((!word.is_empty()).then(|| (word.to_owned(), rest.trim_start())));
    };
    let mut word = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok(Some((word, quoted[at + 1..].trim_start()))),
            '\\' => match characters.next() {
                Some((_, escaped @ ('"' | '\\'))) => word.push(escaped),
                Some((_, other)) => word.extend(['\\', other]),
                None => break,
            },
            _ => word.push(character),
        }
    }
    Err("a `\"` is not closed".to_owned())
}
