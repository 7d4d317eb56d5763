//! Recognises test-related lines, per language.

mod compiled;
mod scripted;

use super::language::Sign;

pub(super) use compiled::{csharp, go, jvm, rust, swift};
pub(super) use scripted::{bats, javascript, php, python, ruby};

fn test(name: impl Into<String>) -> Sign {
    Sign::Test { name: name.into(), skipped: false }
}

fn contains_any(code: &str, needles: &[&str]) -> bool {
    needles.iter().any(|needle| code.contains(needle))
}

fn starts_with_any(code: &str, needles: &[&str]) -> bool {
    needles.iter().any(|needle| code.starts_with(needle))
}

const fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii()
}

/// Returns the first word of a text.
fn word(text: &str) -> &str {
    let end = text.find(|c| !is_word(c)).unwrap_or(text.len());
    &text[..end]
}

/// Returns the text after a keyword if the line begins with it, preceded by modifiers only.
fn declares<'a>(code: &'a str, keyword: &str) -> Option<&'a str> {
    let mut rest = code;
    loop {
        let first = word(rest);
        if first.is_empty() {
            return None;
        }
        let after = rest[first.len()..].trim_start();
        if first == keyword {
            return Some(after);
        }
        // `pub(crate)` and `extern "C"` have more text before the next word.
        rest = after
            .strip_prefix('(')
            .and_then(|inside| inside.split_once(')'))
            .map_or(after, |(_, rest)| rest);
        rest = rest.trim_start().trim_start_matches("\"C\"").trim_start();
        if !MODIFIERS.contains(&first) {
            return None;
        }
    }
}

const MODIFIERS: [&str; 24] = [
    "pub",
    "async",
    "const",
    "unsafe",
    "extern",
    "export",
    "default",
    "public",
    "private",
    "protected",
    "internal",
    "static",
    "final",
    "abstract",
    "open",
    "override",
    "suspend",
    "sealed",
    "partial",
    "virtual",
    "data",
    "inline",
    "mutating",
    "nonisolated",
];

/// Splits off a leading bracketed part.
fn bracketed(code: &str, open: char, close: char) -> Option<(&str, &str)> {
    let inside = code.strip_prefix(open)?;
    let mut depth = 1_usize;
    for (at, c) in inside.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            depth -= 1;
            if depth == 0 {
                return Some((&inside[..at], inside[at + close.len_utf8()..].trim_start()));
            }
        }
    }
    Some((inside, ""))
}

/// Returns the content of a leading string literal.
fn string(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\'' | '`'))?;
    let inside = &text[1..];
    let end = inside.match_indices(quote).find(|(at, _)| !inside[..*at].ends_with('\\'));
    Some(inside[..end.map_or(inside.len(), |(at, _)| at)].to_owned())
}
