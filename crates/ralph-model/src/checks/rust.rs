//! Rust's inline tests: located by their spans, cut out and reinserted, never reformatted.
//!
//! A minimal scanner of tokens and items: it finds items gated by `cfg(test)` (in any form except under `not`) and
//! items marked as tests. It descends into modules and `impl` blocks that are not gated themselves. Text that is not
//! Rust gives nonsensical spans; the result does not compile, which the gates report.

use std::collections::BTreeMap;
use std::ops::Range;

/// How the tests inside a file changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InlineTests {
    /// Unchanged.
    Same,
    /// Tests were added; all others are unchanged.
    Added {
        text: String,
    },
    Changed {
        text: String,
    },
}

impl InlineTests {
    /// Compares two versions of a file; the text is the candidate's with the anchor's tests.
    pub(super) fn compare(anchor: &str, candidate: &str) -> InlineTests {
        let (before, after) = (gated_items(anchor), gated_items(candidate));
        let mut counts: BTreeMap<(&[String], &str), i64> = BTreeMap::new();
        for item in &before.gated {
            *counts.entry(item.key(anchor)).or_default() += 1;
        }
        let mut only_tests_added = true;
        for item in &after.gated {
            let left = counts.entry(item.key(candidate)).or_default();
            *left -= 1;
            only_tests_added &= *left >= 0 || item.is_test;
        }
        if counts.values().all(|count| *count == 0) {
            return InlineTests::Same;
        }
        let text = splice(anchor, &before, candidate, &after);
        if counts.values().all(|count| *count <= 0) && only_tests_added {
            InlineTests::Added { text }
        } else {
            InlineTests::Changed { text }
        }
    }
}

/// Whether a whole file is gated by its own attributes.
pub(super) fn is_gated_file(text: &str) -> bool {
    let tokens = Lexer::new(text).significant();
    let mut at = 0;
    while tokens.get(at..at + 2).is_some_and(|two| two[0].is(text, "#") && two[1].is(text, "!")) {
        let end = group_end(text, &tokens, at + 2);
        if gates_for_tests(&words(text, &tokens[at + 2..end])) {
            return true;
        }
        at = end;
    }
    false
}

/// Whether a file declares a module of this name that is compiled for tests only.
pub(super) fn declares_test_module(text: &str, name: &str) -> bool {
    let found = gated_items(text);
    found.gated.iter().any(|item| item.declares.as_deref() == Some(name))
}

/// Tells whether a text names a file by a path that it writes as a string: in what is compiled for tests, and elsewhere.
pub(super) fn names_file(text: &str, file: &str) -> (bool, bool) {
    let gated: Vec<Range<usize>> =
        gated_items(text).gated.into_iter().map(|item| item.core).collect();
    let is_named = |token: &Token| {
        let word = &text[token.range.clone()];
        let inside = word.strip_prefix('"').and_then(|word| word.strip_suffix('"'));
        inside.is_some_and(|path| path.rsplit('/').next() == Some(file))
    };
    let (mut in_tests, mut elsewhere) = (false, false);
    for token in Lexer::new(text).significant().iter().filter(|token| is_named(token)) {
        let is_gated = gated.iter().any(|range| range.contains(&token.range.start));
        in_tests |= is_gated;
        elsewhere |= !is_gated;
    }
    (in_tests, elsewhere)
}

/// One item that is compiled for tests only.
struct GatedItem {
    container: Vec<String>,
    /// Including the comments before it.
    whole: Range<usize>,
    /// Starting at its first attribute.
    core: Range<usize>,
    /// It is a test or a test module and cannot affect other items.
    is_test: bool,
    /// Its definition must precede its uses.
    is_macro: bool,
    /// The module it declares without a body, with `path` if it has that attribute.
    declares: Option<String>,
}

impl GatedItem {
    fn key<'a>(&'a self, text: &'a str) -> (&'a [String], &'a str) {
        (&self.container, text[self.core.clone()].trim())
    }
}

#[derive(Default)]
struct GatedItems {
    gated: Vec<GatedItem>,
    /// The bodies of the containers that were descended into: from after the inner attributes to the end.
    containers: BTreeMap<Vec<String>, Range<usize>>,
}

fn gated_items(text: &str) -> GatedItems {
    let tokens = Lexer::new(text).significant();
    let mut found = GatedItems::default();
    scan(text, &tokens, 0, text.len(), Vec::new(), &mut found);
    found
}

/// Scans the items of a file or of a body, given as a byte range.
fn scan(
    text: &str,
    tokens: &[Token],
    begin: usize,
    end: usize,
    container: Vec<String>,
    found: &mut GatedItems,
) {
    let mut at = 0;
    let mut last_end = begin;
    let mut start_of_items = begin;
    while at < tokens.len() {
        let first = at;
        let mut attributes = Vec::new();
        let mut is_inner = false;
        while tokens.get(at).is_some_and(|token| token.is(text, "#")) {
            is_inner = tokens.get(at + 1).is_some_and(|token| token.is(text, "!"));
            let open = at + 1 + usize::from(is_inner);
            let close = group_end(text, tokens, open);
            if is_inner {
                at = close;
                break;
            }
            attributes.push(words(text, &tokens[open.min(tokens.len())..close]));
            at = close.max(at + 1);
        }
        if is_inner {
            last_end = tokens[at.max(first + 1) - 1].range.end;
            start_of_items = last_end;
            at = at.max(first + 1);
            continue;
        }
        let head = at;
        let item = ItemEnd::find(text, tokens, head);
        at = item.next.max(first + 1);
        let core = tokens[first].range.start..tokens[at - 1].range.end;
        let whole = last_end..core.end;
        last_end = core.end;
        let kind = kind_of(text, &tokens[head..at]);
        let is_marked = attributes.iter().any(|attribute| marks_a_test(attribute));
        if is_marked || attributes.iter().any(|attribute| gates_for_tests(attribute)) {
            let is_module = kind.word == "mod";
            let is_macro = kind.word == "macro_rules"
                || attributes
                    .iter()
                    .any(|attribute| attribute.iter().any(|word| word == "macro_use"));
            let declares = (is_module && item.body.is_none()).then(|| {
                let path = attributes
                    .iter()
                    .find(|attribute| attribute.get(1).is_some_and(|word| word == "path"));
                let path = path.and_then(|attribute| attribute.get(3));
                path.map_or_else(|| kind.name.clone(), |path| path.trim_matches('"').to_owned())
            });
            found.gated.push(GatedItem {
                container: container.clone(),
                whole,
                core,
                is_test: is_marked || (is_module && !is_macro),
                is_macro,
                declares,
            });
        } else if let Some(body) = item.body
            && matches!(kind.word.as_str(), "mod" | "impl")
        {
            let mut inside = container.clone();
            inside.push(kind.header(text, &tokens[head..body.start]));
            let inner = &tokens[(body.start + 1).min(body.end)..body.end];
            let begin = tokens[body.start].range.end;
            let finish = tokens.get(body.end).map_or(end, |token| token.range.start);
            scan(text, inner, begin, finish, inside, found);
        }
    }
    found.containers.entry(container).or_insert(start_of_items..end);
}

/// Replaces the candidate's tests with the anchor's.
fn splice(anchor: &str, before: &GatedItems, candidate: &str, after: &GatedItems) -> String {
    // Insertions by position; those at the same position in order.
    let mut edits: Vec<(Range<usize>, String)> =
        after.gated.iter().map(|item| (item.whole.clone(), String::new())).collect();
    for item in &before.gated {
        let Some(place) = after.containers.get(&item.container) else { continue };
        let at = if item.is_macro { place.start } else { place.end };
        edits.push((at..at, format!("\n{}\n", &anchor[item.core.clone()])));
    }
    // Stable sort: equal positions keep their order. A cut that ends at an insertion point comes before the insertion.
    edits.sort_by_key(|(range, text)| (range.start, !text.is_empty() && range.start == range.end));
    let mut text = String::with_capacity(candidate.len() + anchor.len());
    let mut at = 0;
    for (range, put) in edits {
        if range.start >= at {
            text.push_str(&candidate[at..range.start]);
            at = range.end;
        }
        text.push_str(&put);
    }
    text.push_str(&candidate[at..]);
    text
}

/// The kind and name of an item.
struct ItemKind {
    word: String,
    name: String,
}

impl ItemKind {
    /// Identifies a container, ignoring white space and comments in its header.
    fn header(&self, text: &str, head: &[Token]) -> String {
        if self.word == "mod" {
            return format!("mod {}", self.name);
        }
        words(text, head).join(" ")
    }
}

/// Words that may precede the keyword of an item.
const QUALIFIERS: [&str; 6] = ["pub", "default", "unsafe", "async", "crate", "safe"];

fn kind_of(text: &str, tokens: &[Token]) -> ItemKind {
    let mut depth = 0_usize;
    let mut rest =
        tokens.iter().map(|token| &text[token.range.clone()]).filter(|word| match *word {
            "(" => {
                depth += 1;
                false
            }
            ")" => {
                depth = depth.saturating_sub(1);
                false
            }
            _ => depth == 0,
        });
    let word = rest.find(|word| !QUALIFIERS.contains(word)).unwrap_or_default();
    let name = rest.next().unwrap_or_default();
    let is_function = word == "const" && ["fn", "unsafe", "async", "extern"].contains(&name);
    let word = if is_function { "fn" } else { word };
    ItemKind { word: word.to_owned(), name: name.to_owned() }
}

/// The end of an item, as a token index.
struct ItemEnd {
    next: usize,
    /// The braces of its body.
    body: Option<Range<usize>>,
}

impl ItemEnd {
    fn find(text: &str, tokens: &[Token], head: usize) -> ItemEnd {
        let kind = kind_of(text, &tokens[head.min(tokens.len())..tokens.len().min(head + 16)]);
        let to_semicolon = ["use", "const", "static", "type"].contains(&kind.word.as_str());
        let mut at = head;
        while let Some(token) = tokens.get(at) {
            match &text[token.range.clone()] {
                ";" => return ItemEnd { next: at + 1, body: None },
                "{" => {
                    let close = group_end(text, tokens, at);
                    let before = at.checked_sub(1).map(|at| &text[tokens[at].range.clone()]);
                    // A constant in generic arguments.
                    let is_argument = matches!(before, Some("<" | ","));
                    if !to_semicolon && !is_argument {
                        return ItemEnd { next: close, body: Some(at..close.saturating_sub(1)) };
                    }
                    at = close;
                }
                "(" | "[" => at = group_end(text, tokens, at),
                _ => at += 1,
            }
        }
        ItemEnd { next: tokens.len(), body: None }
    }
}

/// Returns the index of the token after the group that opens at `open`.
fn group_end(text: &str, tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match &text[token.range.clone()] {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

fn words(text: &str, tokens: &[Token]) -> Vec<String> {
    tokens.iter().map(|token| text[token.range.clone()].to_owned()).collect()
}

/// Whether an attribute, given as words, compiles its item for tests only.
fn gates_for_tests(attribute: &[String]) -> bool {
    let Some(at) = attribute.iter().position(|word| word == "cfg") else { return false };
    let mut not_depth = None;
    let mut depth = 0_usize;
    for (index, word) in attribute.iter().enumerate().skip(at) {
        match word.as_str() {
            "(" => {
                depth += 1;
                if not_depth.is_none() && attribute[index - 1] == "not" {
                    not_depth = Some(depth);
                }
            }
            ")" => {
                if not_depth == Some(depth) {
                    not_depth = None;
                }
                depth = depth.saturating_sub(1);
            }
            "test" if not_depth.is_none() => return true,
            _ => {}
        }
    }
    false
}

/// Attributes that make a function a test.
const TEST_MARKS: [&str; 8] = [
    "test",
    "rstest",
    "test_case",
    "bench",
    "proptest",
    "quickcheck",
    "wasm_bindgen_test",
    "should_panic",
];

fn marks_a_test(attribute: &[String]) -> bool {
    let path =
        attribute.iter().skip(1).take_while(|word| !matches!(word.as_str(), "(" | "=" | "]"));
    path.last().is_some_and(|word| TEST_MARKS.contains(&word.as_str()))
}

/// A token that is neither white space nor a comment.
struct Token {
    range: Range<usize>,
}

impl Token {
    fn is(&self, text: &str, what: &str) -> bool {
        &text[self.range.clone()] == what
    }
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
}

impl<'a> Lexer<'a> {
    fn new(text: &'a str) -> Lexer<'a> {
        Lexer { text, bytes: text.as_bytes() }
    }

    fn significant(&self) -> Vec<Token> {
        let mut tokens = Vec::new();
        let mut at = if self.text.starts_with("#!/") { self.line_end(0) } else { 0 };
        while at < self.bytes.len() {
            let (end, counts) = self.token(at);
            if counts {
                tokens.push(Token { range: at..end });
            }
            at = end;
        }
        tokens
    }

    fn line_end(&self, at: usize) -> usize {
        self.text[at..].find('\n').map_or(self.bytes.len(), |end| at + end)
    }

    /// Returns the end of a token, and whether it is significant.
    fn token(&self, at: usize) -> (usize, bool) {
        let rest = &self.text[at..];
        let first = rest.chars().next().unwrap_or('\0');
        if first.is_whitespace() {
            return (at + first.len_utf8(), false);
        }
        if rest.starts_with("//") {
            return (self.line_end(at), false);
        }
        if rest.starts_with("/*") {
            return (self.comment_end(at), false);
        }
        if first == '"' {
            return (self.string_end(at + 1), true);
        }
        if first == '\'' {
            return (self.quote_end(at), true);
        }
        if first.is_alphanumeric() || first == '_' {
            let end = rest
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .map_or(self.bytes.len(), |end| at + end);
            return (self.literal_end(at, end).unwrap_or(end), true);
        }
        (at + first.len_utf8(), true)
    }

    /// Returns the end of a string or character literal with a prefix (`r`, `b`, `br`, `c`, `cr`).
    fn literal_end(&self, at: usize, end: usize) -> Option<usize> {
        let prefix = &self.text[at..end];
        match (prefix, self.bytes.get(end)?) {
            ("b" | "c", b'"') => Some(self.string_end(end + 1)),
            ("b", b'\'') => Some(self.quote_end(end)),
            ("r" | "br" | "cr", b'"' | b'#') => {
                let hashes = self.bytes[end..].iter().take_while(|byte| **byte == b'#').count();
                if self.bytes.get(end + hashes) != Some(&b'"') {
                    return None;
                }
                let close = format!("\"{}", "#".repeat(hashes));
                let inside = end + hashes + 1;
                let found = self.text[inside..].find(&close);
                Some(found.map_or(self.bytes.len(), |found| inside + found + close.len()))
            }
            _ => None,
        }
    }

    fn string_end(&self, mut at: usize) -> usize {
        while let Some(byte) = self.bytes.get(at) {
            match byte {
                b'\\' => at += 2,
                b'"' => return at + 1,
                _ => at += 1,
            }
        }
        self.bytes.len()
    }

    /// A character literal or a lifetime.
    fn quote_end(&self, at: usize) -> usize {
        let mut inside = self.text[at + 1..].char_indices();
        match inside.next() {
            Some((_, '\\')) => {
                let from = (at + 3).min(self.bytes.len());
                let close = self.bytes[from..].iter().position(|byte| *byte == b'\'');
                close.map_or(self.bytes.len(), |close| from + close + 1)
            }
            Some((_, _)) => match inside.next() {
                Some((end, '\'')) => at + 1 + end + 1,
                // The name that follows is a separate token.
                _ => at + 1,
            },
            None => at + 1,
        }
    }

    fn comment_end(&self, at: usize) -> usize {
        let mut depth = 0_usize;
        let mut at = at;
        while at < self.bytes.len() {
            match &self.bytes[at..self.bytes.len().min(at + 2)] {
                b"/*" => {
                    depth += 1;
                    at += 2;
                }
                b"*/" => {
                    depth -= 1;
                    at += 2;
                    if depth == 0 {
                        return at;
                    }
                }
                _ => at += 1,
            }
        }
        self.bytes.len()
    }
}

#[cfg(test)]
#[path = "rust_tests.rs"]
mod tests;
