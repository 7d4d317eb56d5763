//! Lines for a person: sanitized text, in spans that may have a tone.
//!
//! Invariant: a [`StyledLine`] contains no control character, nothing hidden and no line end, whatever it was made from
//! ([`shown`]). Colours are tones until the line is written, never escape sequences in a string: escape sequences in a
//! text are shown as text. `styled!` formats like `format!` and keeps the tones from `Ui::paint`; `format!` only loses
//! the tones.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt::{self, Write};

use ralph_model::shown::shown;
use unicode_width::UnicodeWidthChar;

/// A colour with a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
    Attention,
    Active,
    Progress,
    Faint,
    Strong,
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Attention => "33",
            Tone::Active => "34",
            Tone::Progress => "36",
            Tone::Faint => "90",
            Tone::Strong => "1",
        }
    }
}

thread_local! {
    /// The tone of the text being formatted. A formatter passes characters only, so the tone is passed out of band.
    static TONE: Cell<Option<Tone>> = const { Cell::new(None) };
}

/// A text with a tone.
#[derive(Clone, Debug)]
pub(crate) struct Painted {
    pub(super) tone: Tone,
    pub(super) text: String,
}

impl fmt::Display for Painted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outer = TONE.replace(Some(self.tone));
        let written = f.pad(&self.text);
        TONE.set(outer);
        written
    }
}

/// Whether a word that does not fit into a line is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LongWords {
    Broken,
    /// It exceeds its line: a path to copy stays in one piece.
    Whole,
}

/// A word of a line, and the number of spaces before it.
struct Word {
    space: usize,
    line: StyledLine,
}

/// One line for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StyledLine {
    spans: Vec<(Option<Tone>, String)>,
}

/// Formats a line that keeps the tones of its parts.
macro_rules! styled {
    ($($arguments:tt)*) => {
        $crate::render::text::StyledLine::format(format_args!($($arguments)*))
    };
}
pub(crate) use styled;

impl StyledLine {
    pub(crate) fn format(arguments: fmt::Arguments<'_>) -> StyledLine {
        let mut line = RawLine::default();
        line.write_fmt(arguments).expect("a line takes everything");
        line.finish()
    }

    /// Returns the width of the line in terminal columns.
    pub(crate) fn columns(&self) -> usize {
        self.spans.iter().map(|(_, text)| columns(text)).sum()
    }

    /// Returns the number of leading spaces.
    pub(super) fn indent(&self) -> usize {
        let text = self.to_string();
        text.len() - text.trim_start_matches(' ').len()
    }

    /// Truncates the line to `most` columns, with an ellipsis if anything is cut.
    pub(crate) fn cut(mut self, most: usize) -> StyledLine {
        if self.columns() <= most {
            return self;
        }
        let mut left = most;
        for (at, (_, text)) in self.spans.iter_mut().enumerate() {
            let wide = columns(text);
            // Even a span that exactly fills the space is followed by more that does not fit.
            if wide >= left {
                *text = cut(&format!("{text} "), left);
                self.spans.truncate(at + 1);
                break;
            }
            left -= wide;
        }
        self
    }

    /// Wraps the line between words into parts of at most `width` columns. Parts after the first are indented by
    /// `indent` spaces.
    pub(crate) fn wrap(
        self,
        width: usize,
        indent: usize,
        long_words: LongWords,
    ) -> Vec<StyledLine> {
        if self.columns() <= width {
            return vec![self];
        }
        let mut lines = vec![StyledLine::default()];
        let (mut used, mut is_begun) = (0, false);
        for Word { space, line: word } in self.words() {
            if is_begun && used + space + word.columns() > width {
                lines.push(StyledLine::default());
                used = 0;
            }
            // Leading spaces of the whole line are kept; those at a break are dropped.
            let space = if used > 0 || !is_begun { space } else { indent.min(width / 2) };
            is_begun = true;
            used += space;
            let line = lines.last_mut().expect("there is always a line");
            line.push(None, &" ".repeat(space));
            for (tone, text) in word.spans {
                for c in text.chars() {
                    if long_words == LongWords::Broken && used > 0 && used + columns_of(c) > width {
                        lines.push(StyledLine::default());
                        used = 0;
                    }
                    let line = lines.last_mut().expect("there is always a line");
                    line.push(tone, c.encode_utf8(&mut [0; 4]));
                    used += columns_of(c);
                }
            }
        }
        lines
    }

    /// The words of the line, each with the number of spaces before it.
    fn words(&self) -> Vec<Word> {
        let mut words: Vec<Word> = Vec::new();
        let (mut space, mut is_in_word) = (0, false);
        for (tone, text) in &self.spans {
            for c in text.chars() {
                if c == ' ' {
                    space += 1;
                    is_in_word = false;
                    continue;
                }
                if !is_in_word {
                    words.push(Word { space, line: StyledLine::default() });
                    (space, is_in_word) = (0, true);
                }
                let word = words.last_mut().expect("a word was begun");
                word.line.push(*tone, c.encode_utf8(&mut [0; 4]));
            }
        }
        words
    }

    fn push(&mut self, tone: Option<Tone>, text: &str) {
        match self.spans.last_mut() {
            _ if text.is_empty() => {}
            Some((last, before)) if *last == tone => before.push_str(text),
            _ => self.spans.push((tone, text.to_owned())),
        }
    }

    /// Returns the line without spaces at its end.
    pub(crate) fn trim_end(mut self) -> StyledLine {
        while let Some((_, text)) = self.spans.last_mut() {
            text.truncate(text.trim_end().len());
            if !text.is_empty() {
                break;
            }
            self.spans.pop();
        }
        self
    }

    /// Returns the bytes for a terminal, without a line end.
    pub(super) fn encode(&self, color: bool) -> String {
        let mut bytes = String::new();
        for (tone, text) in &self.spans {
            match tone.filter(|_| color) {
                Some(tone) => {
                    write!(bytes, "\x1b[{}m{text}\x1b[0m", tone.code())
                        .expect("a string takes everything");
                }
                None => bytes.push_str(text),
            }
        }
        bytes
    }
}

impl fmt::Display for StyledLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.encode(false))
    }
}

impl From<&str> for StyledLine {
    fn from(text: &str) -> StyledLine {
        StyledLine { spans: vec![(None, shown(text).into_owned())] }
    }
}

impl From<String> for StyledLine {
    fn from(text: String) -> StyledLine {
        text.as_str().into()
    }
}

impl From<&String> for StyledLine {
    fn from(text: &String) -> StyledLine {
        text.as_str().into()
    }
}

impl From<Painted> for StyledLine {
    fn from(painted: Painted) -> StyledLine {
        (&painted).into()
    }
}

impl From<&Painted> for StyledLine {
    fn from(Painted { tone, text }: &Painted) -> StyledLine {
        StyledLine { spans: vec![(Some(*tone), shown(text).into_owned())] }
    }
}

/// A line being formatted, not sanitized yet.
#[derive(Default)]
struct RawLine(StyledLine);

impl RawLine {
    fn finish(mut self) -> StyledLine {
        for (_, text) in &mut self.0.spans {
            if let Cow::Owned(clean) = shown(text) {
                *text = clean;
            }
        }
        self.0
    }
}

impl fmt::Write for RawLine {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.push(TONE.get(), text);
        Ok(())
    }
}

/// Returns the width of a sanitized text in terminal columns. Where terminals differ (multi-character emoji) it returns
/// the larger number: a line shorter than assumed does no harm.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

fn columns_of(c: char) -> usize {
    match c {
        // It may make the narrow character before it wide.
        '\u{fe0f}' => 1,
        c => c.width().unwrap_or(0),
    }
}

/// Truncates a sanitized text to `most` columns, with an ellipsis if anything is cut.
pub(crate) fn cut(text: &str, most: usize) -> String {
    let (mut used, mut end) = (0, 0);
    for (at, c) in text.char_indices() {
        used += columns_of(c);
        if used > most {
            let ellipsis = if most > 0 { "…" } else { "" };
            let kept = text[..end].trim_end_matches('\u{200d}');
            return format!("{kept}{ellipsis}");
        }
        // Up to here an ellipsis would fit as well.
        if used < most {
            end = at + c.len_utf8();
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn painted(tone: Tone, text: &str) -> Painted {
        Painted { tone, text: text.to_owned() }
    }

    #[test]
    fn tones_are_kept_and_colours_of_the_text_itself_are_text() {
        let name = "x\u{1b}[31m\ny";
        let line =
            styled!("{} {:>5}|{name}", painted(Tone::Good, "ok\u{7}"), painted(Tone::Bad, "no"));
        assert_eq!(
            line.encode(true),
            "\x1b[32mok\\u{7}\x1b[0m \x1b[31m   no\x1b[0m|x\\u{1b}[31m\\ny"
        );
        assert_eq!(line.encode(false), "ok\\u{7}    no|x\\u{1b}[31m\\ny");
        assert_eq!(format!("{}", painted(Tone::Good, "ok")), "ok", "format! loses the tone only");
        assert_eq!(styled!("a{}", painted(Tone::Faint, "  ")).trim_end(), "a".into());
    }

    #[test]
    fn lines_are_cut_by_the_columns_they_take() {
        for (text, most, expected) in [
            ("hello", 5, "hello"),
            ("hello", 4, "hel…"),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("e\u{301}e\u{301}e\u{301}", 3, "e\u{301}e\u{301}e\u{301}"),
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
            ("👩\u{200d}💻x", 4, "👩…"),
            ("abc", 1, "…"),
            ("abc", 0, ""),
        ] {
            assert_eq!(cut(text, most), expected, "{text} in {most}");
        }
        let line = styled!("{}{}", painted(Tone::Good, "ab"), painted(Tone::Bad, "日本"));
        assert_eq!(line.columns(), 6);
        assert_eq!(line.clone().cut(6), line);
        assert_eq!(
            line.clone().cut(5),
            styled!("{}{}", painted(Tone::Good, "ab"), painted(Tone::Bad, "日…"))
        );
        assert_eq!(line.clone().cut(2), styled!("{}", painted(Tone::Good, "a…")));
        for most in 0..8 {
            assert!(line.clone().cut(most).columns() <= most);
        }
    }

    #[test]
    fn lines_are_broken_between_words_and_long_words_where_that_is_wanted() {
        let wrap = |text: &str, width, long_words| {
            let lines = StyledLine::from(text).wrap(width, 0, long_words);
            lines.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(wrap("one two  three", 7, LongWords::Broken), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh ij", 3, LongWords::Broken), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrap("", 10, LongWords::Broken), [""]);
        assert_eq!(wrap("日本", 1, LongWords::Broken), ["日", "本"], "no line is empty");
        let lines = wrap("see /a/long/path now", 5, LongWords::Whole);
        assert_eq!(lines, ["see", "/a/long/path", "now"]);
        let text = "Any text 日本語 at all keeps its le\u{301}tters 👩💻 and is never wider than it may be.";
        for width in 2..80 {
            let lines = wrap(text, width, LongWords::Broken);
            assert!(lines.iter().all(|line| columns(line) <= width), "{lines:?}");
            let letters = |text: &str| text.split_whitespace().collect::<String>();
            assert_eq!(letters(&lines.concat()), letters(text));
        }
    }

    #[test]
    fn what_is_broken_keeps_its_tones_and_is_indented() {
        let line = styled!("  {} two three", painted(Tone::Good, "one"));
        let lines = line.wrap(9, 4, LongWords::Whole);
        let expected = [styled!("  {} two", painted(Tone::Good, "one")), "    three".into()];
        assert_eq!(lines, expected);
    }
}
