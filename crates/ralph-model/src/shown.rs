//! Makes text from agents, files and git safe to display: on one line, without terminal controls or hidden characters.
//!
//! Characters that have an effect but no glyph (controls, bidi controls, zero-width and other default-ignorable
//! characters, line and paragraph separators) are escaped. They are not removed, so that different texts still look
//! different. A backslash is kept, so that sanitizing is idempotent; the result is for reading and is never parsed
//! back. Emoji keep their joiners and selectors.

use std::borrow::Cow;
use std::fmt::Write;
use std::iter::Peekable;
use std::str::Chars;

const JOINER: char = '\u{200d}';
const EMOJI_STYLE: char = '\u{fe0f}';
const KEYCAP: char = '\u{20e3}';
/// The replacement of a tab in a longer text.
const TAB: &str = "    ";

/// Returns the text on one line, with every character that has an effect but no glyph escaped.
pub fn shown(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    let mut before = None;
    while let Some(c) = rest.next() {
        if is_hidden(c) && !is_part_of_emoji(before, c, &mut rest) {
            escape_into(&mut clean, c);
            before = None;
        } else {
            clean.push(c);
            before = Some(c);
        }
    }
    Cow::Owned(clean)
}

/// Returns the lines of a text, each sanitized by [`shown`], with tabs as spaces.
pub fn shown_lines(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let expanded = |line: &str| shown(&line.replace('\t', TAB)).into_owned();
    text.lines()
        .map(move |line| if line.contains('\t') { expanded(line).into() } else { shown(line) })
}

/// Removes terminal escape sequences from a program's output: colours, titles, cursor movements.
pub fn without_escapes(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            clean.push(c);
            continue;
        }
        match chars.next() {
            // A control sequence ends with its first letter-like character.
            Some('[') => {
                chars.find(|c| ('@'..='~').contains(c));
            }
            // An operating system command ends with a bell or with `ESC \`.
            Some(']') => {
                let end = chars.find(|c| matches!(c, '\u{7}' | '\u{1b}'));
                end.filter(|c| *c == '\u{1b}').and_then(|_| chars.next());
            }
            _ => {}
        }
    }
    Cow::Owned(clean)
}

/// Escapes in JSON what [`shown`] escapes in text. The value is unchanged: serialised JSON has these characters only in
/// strings, where they may be written as `\u` escapes.
pub fn shown_json(json: String) -> String {
    if is_plain_but_for_line_ends(&json) {
        return json;
    }
    let mut clean = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_hidden(c) && !matches!(c, '\n' | '\r' | '\t') {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(clean, "\\u{unit:04x}").expect("a string takes everything");
            }
        } else {
            clean.push(c);
        }
    }
    clean
}

/// Whether a character has an effect but no glyph.
pub fn is_hidden(c: char) -> bool {
    let is_listed = || {
        matches!(c,
            // Default_Ignorable_Code_Point: soft hyphen, fillers, variation selectors, bidi controls, joiners, tags.
            '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
            // Some readers treat these as line ends.
            | '\u{2028}'..='\u{2029}'
            // Interlinear annotations and hieroglyph joiners.
            | '\u{fff9}'..='\u{fffb}'
            | '\u{13430}'..='\u{1343f}'
        )
    };
    c.is_control() || !c.is_ascii() && is_listed()
}

pub(crate) fn escape_into(text: &mut String, c: char) {
    match c {
        '\n' | '\r' | '\t' => text.extend(c.escape_default()),
        c => text.extend(c.escape_unicode()),
    }
}

/// Whether a joiner or selector only affects how the surrounding emoji is drawn.
fn is_part_of_emoji(before: Option<char>, c: char, rest: &mut Peekable<Chars<'_>>) -> bool {
    let next = rest.peek().copied();
    match (before, c) {
        (Some(base), EMOJI_STYLE) if is_pictograph(base) => true,
        (Some('0'..='9' | '#' | '*'), EMOJI_STYLE) => next == Some(KEYCAP),
        (Some(base), JOINER) => {
            (is_pictograph(base) || base == EMOJI_STYLE) && next.is_some_and(is_pictograph)
        }
        _ => false,
    }
}

fn is_pictograph(c: char) -> bool {
    matches!(c, '\u{203c}'..='\u{27bf}' | '\u{2900}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
        && !is_hidden(c)
}

/// Whether a text is printable ASCII, as nearly all text is; runs at memory speed.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

fn is_plain_but_for_line_ends(text: &str) -> bool {
    // In chunks without an early exit, so that the compiler vectorises the comparison.
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n');
    text.as_bytes()
        .chunks(256)
        .all(|chunk| chunk.iter().fold(true, |all, byte| all & is_plain(byte)))
}

#[cfg(test)]
#[path = "shown_tests.rs"]
mod tests;
