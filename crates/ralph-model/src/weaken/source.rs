//! Source text reduced to code.
//!
//! Comments and multi-line strings are blanked; single-line strings stay, because they contain names of tests. Line
//! numbers are preserved.

/// The comment and string syntax of a language.
#[derive(Clone, Copy, Debug)]
pub(super) struct Syntax {
    pub(super) line_comments: &'static [&'static str],
    /// `/* … */`
    pub(super) block_comments: bool,
    pub(super) long_strings: &'static [LongString],
    /// Whether `'` begins a string. In Rust it may begin a lifetime.
    pub(super) single_quotes: bool,
}

/// A kind of string that may span several lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LongString {
    /// `"""…"""` and `'''…'''`
    TripleQuotes,
    /// `` `…` ``
    Backticks,
    /// `r#"…"#`
    Raw,
    /// `"…"`, if such strings may span several lines
    Quotes,
}

#[derive(Clone, Debug, PartialEq)]
enum Inside {
    Code,
    Block,
    /// A multi-line string, and its terminator.
    Long(String),
}

/// Returns the lines of `text` with only code in them.
pub(super) fn code_lines(text: &str, syntax: &Syntax) -> Vec<String> {
    let mut inside = Inside::Code;
    text.lines().map(|line| code_of_line(line, syntax, &mut inside)).collect()
}

fn code_of_line(line: &str, syntax: &Syntax, inside: &mut Inside) -> String {
    let mut code = String::new();
    let mut rest = line;
    while let Some(next) = rest.chars().next() {
        match inside {
            Inside::Block => match rest.split_once("*/") {
                Some((_, after)) => (*inside, rest) = (Inside::Code, after),
                None => return code,
            },
            Inside::Long(end) => match end_of_long(rest, end) {
                Some(at) => {
                    code.push_str(end);
                    (*inside, rest) = (Inside::Code, &rest[at + end.len()..]);
                }
                None => return code,
            },
            Inside::Code => {
                if syntax.line_comments.iter().any(|comment| rest.starts_with(comment)) {
                    return code;
                }
                if let Some(after) = rest.strip_prefix("/*").filter(|_| syntax.block_comments) {
                    (*inside, rest) = (Inside::Block, after);
                } else if let Some((begin, end)) = long_string(rest, syntax, &code) {
                    code.push_str(&rest[..begin]);
                    let content = &rest[begin..];
                    // A string that ends on the same line is treated like any other.
                    if let Some(at) = end_of_long(content, &end) {
                        let (content, after) = content.split_at(at + end.len());
                        code.push_str(content);
                        rest = after;
                    } else {
                        (*inside, rest) = (Inside::Long(end), "");
                    }
                } else if let Some(quote) = QUOTED_QUOTES
                    .iter()
                    .find(|quote| rest.starts_with(**quote) && !syntax.single_quotes)
                {
                    code.push_str(quote);
                    rest = &rest[quote.len()..];
                } else if next == '"' || (next == '\'' && syntax.single_quotes) {
                    let end = end_of_string(rest, next);
                    code.push_str(&rest[..end]);
                    rest = &rest[end..];
                } else {
                    code.push(next);
                    rest = &rest[next.len_utf8()..];
                }
            }
        }
    }
    code
}

/// Character literals that look like the beginning of a string, in languages where `'` does not begin one.
const QUOTED_QUOTES: [&str; 3] = ["'\"'", "'\\\"'", "'\\''"];

/// Returns the end of a multi-line string. A one-character terminator may be escaped.
fn end_of_long(text: &str, end: &str) -> Option<usize> {
    if end.len() > 1 {
        return text.find(end);
    }
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let ends = !escaped && end.starts_with(c);
        escaped = !escaped && c == '\\';
        ends.then_some(at)
    })
}

/// Returns the length of the opening of a multi-line string, and its terminator.
fn long_string(rest: &str, syntax: &Syntax, before: &str) -> Option<(usize, String)> {
    if syntax.long_strings.contains(&LongString::TripleQuotes) {
        for quotes in ["\"\"\"", "'''"] {
            if rest.starts_with(quotes) {
                return Some((3, quotes.to_owned()));
            }
        }
    }
    if syntax.long_strings.contains(&LongString::Backticks) && rest.starts_with('`') {
        return Some((1, "`".to_owned()));
    }
    let word = before.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
    let in_a_word = !matches!(word, "" | "b" | "c");
    let raw = syntax.long_strings.contains(&LongString::Raw);
    if raw && rest.starts_with('r') && !in_a_word {
        let hashes = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
        if rest[1 + hashes..].starts_with('"') {
            return Some((hashes + 2, format!("\"{}", "#".repeat(hashes))));
        }
    }
    let quotes = syntax.long_strings.contains(&LongString::Quotes);
    if quotes && rest.starts_with('"') {
        return Some((1, "\"".to_owned()));
    }
    None
}

/// Returns the end of a single-line string.
fn end_of_string(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + c.len_utf8();
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weaken::language::Language;
    use proptest::prelude::*;

    fn code(path: &str, text: &str) -> String {
        let language = Language::of(path).unwrap();
        code_lines(text, &language.syntax).join("\n")
    }

    #[test]
    fn comments_and_long_strings_are_blanked() {
        for (path, text, expected) in [
            ("a.rs", "a // b\n/* c\nd */ e\nf", "a \n\n e\nf"),
            ("a.rs", "let a = r#\"\n#[test]\n\"#;", "let a = r#\"\n\n\"#;"),
            ("a.rs", "fn f<'a>(x: &'a str) {} // 'b", "fn f<'a>(x: &'a str) {} "),
            ("a.rs", "\"http://x\" // y", "\"http://x\" "),
            ("a.rs", "let a = \"\n#[test] \\\" \\\\\n\"; b", "let a = \"\n\n\"; b"),
            (
                "a.rs",
                "let a = '\"'; // b\nlet c = '\\\"'; // d",
                "let a = '\"'; \nlet c = '\\\"'; ",
            ),
            ("a.rs", "let a = br#\"\n// b\n\"#; c", "let a = br#\"\n\n\"#; c"),
            (
                "a.py",
                "x = 'a # b' # c\n\"\"\"\ndef test_x\n\"\"\"\ny",
                "x = 'a # b' \n\"\"\"\n\n\"\"\"\ny",
            ),
            ("a.py", "\"\"\"doc\"\"\"\ny", "\"\"\"doc\"\"\"\ny"),
            ("a.test.ts", "it(`a\nit('b')\n`, c) // d", "it(`\n\n`, c) "),
            ("a.test.ts", "it(`a`, b)", "it(`a`, b)"),
            ("a.test.ts", "it('it\\'s', b) /* x */ c", "it('it\\'s', b)  c"),
        ] {
            assert_eq!(code(path, text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_keeps_its_lines(text in "([a-z\"'`#/*\\\\ é]|\n|r#\"){0,60}") {
            for path in ["a.rs", "a.py", "a.ts", "a.go", "a.rb", "a.php"] {
                let language = Language::of(path).unwrap();
                let lines = code_lines(&text, &language.syntax).len();
                prop_assert_eq!(lines, text.lines().count());
            }
        }
    }
}
