//! Finds the members of a line's JSON object without allocating.
//!
//! A plan of many thousand lines is read for one answer, so a line is scanned once and its values are borrowed. The
//! scanner accepts exactly valid JSON (a property test compares it with `serde_json`); it does not decode, and does not
//! interpret nested objects.

use std::borrow::Cow;
use std::ops::Range;

/// How deep arrays and objects may be nested in a member: the limit of `serde_json`.
const DEEPEST: u8 = 126;

/// The line is not one JSON object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotAnObject;

/// One value in its raw form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value<'a> {
    pub(crate) raw: &'a str,
    /// Whether it is a string that contains an escape.
    pub(crate) escaped: bool,
}

impl<'a> Value<'a> {
    pub(crate) fn is_null(self) -> bool {
        self.raw == "null"
    }

    pub(crate) fn is_string(self) -> bool {
        self.raw.starts_with('"')
    }

    /// Decodes a string; `None` if it is not one, or has an unpaired surrogate.
    pub(crate) fn text(self) -> Option<Cow<'a, str>> {
        if !self.is_string() {
            None
        } else if self.escaped {
            serde_json::from_str(self.raw).ok().map(Cow::Owned)
        } else {
            Some(Cow::Borrowed(&self.raw[1..self.raw.len() - 1]))
        }
    }

    /// Decodes an array of strings; `None` if it is not one.
    pub(crate) fn texts(self) -> Option<Vec<Cow<'a, str>>> {
        let mut scanner = Scanner { text: self.raw, at: 0 };
        let mut found = Vec::new();
        scanner.expect(b'[').ok()?;
        scanner.space();
        if scanner.peek() == Some(b']') {
            return Some(found);
        }
        loop {
            scanner.space();
            found.push(scanner.string_value().ok()?.text()?);
            scanner.space();
            match scanner.next()? {
                b',' => {}
                _ => return Some(found),
            }
        }
    }
}

/// One member of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member<'a> {
    pub(crate) key: Cow<'a, str>,
    pub(crate) value: Value<'a>,
    /// The position of the key, including quotes.
    pub(crate) key_at: Range<usize>,
    pub(crate) value_at: Range<usize>,
}

/// Calls `each` with the members of the object in `line`, in order.
pub(crate) fn members<'a>(
    line: &'a str,
    mut each: impl FnMut(Member<'a>),
) -> Result<(), NotAnObject> {
    let mut scanner = Scanner { text: line, at: 0 };
    scanner.space();
    scanner.expect(b'{')?;
    scanner.space();
    if scanner.peek() == Some(b'}') {
        scanner.at += 1;
        return scanner.end();
    }
    loop {
        scanner.space();
        let key_from = scanner.at;
        let key = scanner.string_value()?;
        let key_at = key_from..scanner.at;
        scanner.space();
        scanner.expect(b':')?;
        scanner.space();
        let value_from = scanner.at;
        let value = scanner.value()?;
        let value_at = value_from..scanner.at;
        each(Member { key: key.text().ok_or(NotAnObject)?, value, key_at, value_at });
        scanner.space();
        match scanner.next() {
            Some(b',') => {}
            Some(b'}') => return scanner.end(),
            _ => return Err(NotAnObject),
        }
    }
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline]
    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    #[inline]
    fn expect(&mut self, wanted: u8) -> Result<(), NotAnObject> {
        if self.next() == Some(wanted) { Ok(()) } else { Err(NotAnObject) }
    }

    #[inline]
    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    fn end(mut self) -> Result<(), NotAnObject> {
        self.space();
        if self.at == self.text.len() { Ok(()) } else { Err(NotAnObject) }
    }

    #[inline]
    fn value(&mut self) -> Result<Value<'a>, NotAnObject> {
        let from = self.at;
        if self.peek() == Some(b'"') {
            return self.string_value();
        }
        self.skip_value(DEEPEST)?;
        Ok(Value { raw: &self.text[from..self.at], escaped: false })
    }

    #[inline]
    fn string_value(&mut self) -> Result<Value<'a>, NotAnObject> {
        let from = self.at;
        let escaped = self.skip_string()?;
        Ok(Value { raw: &self.text[from..self.at], escaped })
    }

    /// Skips a string and returns whether it contains an escape.
    fn skip_string(&mut self) -> Result<bool, NotAnObject> {
        self.expect(b'"')?;
        let mut escaped = false;
        loop {
            self.at += plain(&self.text.as_bytes()[self.at..]);
            match self.next() {
                Some(b'"') => return Ok(escaped),
                Some(b'\\') => {
                    escaped = true;
                    self.skip_escape()?;
                }
                _ => return Err(NotAnObject),
            }
        }
    }

    fn skip_escape(&mut self) -> Result<(), NotAnObject> {
        match self.next() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(()),
            Some(b'u') => {
                for _ in 0..4 {
                    if !self.next().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                        return Err(NotAnObject);
                    }
                }
                Ok(())
            }
            _ => Err(NotAnObject),
        }
    }

    fn skip_value(&mut self, deeper: u8) -> Result<(), NotAnObject> {
        match self.peek() {
            Some(b'"') => self.skip_string().map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.skip_number(),
            Some(b't') => self.skip_word("true"),
            Some(b'f') => self.skip_word("false"),
            Some(b'n') => self.skip_word("null"),
            Some(b'[') => self.skip_many(deeper, b']', false),
            Some(b'{') => self.skip_many(deeper, b'}', true),
            _ => Err(NotAnObject),
        }
    }

    /// Skips an array or, `keyed`, an object.
    fn skip_many(&mut self, deeper: u8, close: u8, keyed: bool) -> Result<(), NotAnObject> {
        let deeper = deeper.checked_sub(1).ok_or(NotAnObject)?;
        self.at += 1;
        self.space();
        if self.peek() == Some(close) {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.space();
            if keyed {
                self.skip_string()?;
                self.space();
                self.expect(b':')?;
                self.space();
            }
            self.skip_value(deeper)?;
            self.space();
            match self.next() {
                Some(b',') => {}
                Some(byte) if byte == close => return Ok(()),
                _ => return Err(NotAnObject),
            }
        }
    }

    fn skip_word(&mut self, word: &str) -> Result<(), NotAnObject> {
        if !self.text[self.at..].starts_with(word) {
            return Err(NotAnObject);
        }
        self.at += word.len();
        Ok(())
    }

    fn skip_number(&mut self) -> Result<(), NotAnObject> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.next() {
            Some(b'0') => {}
            Some(b'1'..=b'9') => self.skip_digits(),
            _ => return Err(NotAnObject),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.some_digits()?;
        }
        Ok(())
    }

    fn some_digits(&mut self) -> Result<(), NotAnObject> {
        let from = self.at;
        self.skip_digits();
        if self.at > from { Ok(()) } else { Err(NotAnObject) }
    }

    fn skip_digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }
}

/// Returns how many bytes stand for themselves in a string. Most of a plan is strings, so they are looked at by eight bytes
/// at once.
#[inline]
fn plain(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        let ends = string_ends(u64::from_le_bytes(*word));
        if ends != 0 {
            return 8 * number + ends.trailing_zeros() as usize / 8;
        }
    }
    let end = rest.iter().position(|&byte| matches!(byte, b'"' | b'\\' | 0..0x20));
    bytes.len() - rest.len() + end.unwrap_or(rest.len())
}

/// Marks, by its highest bit, the first byte that is a quote, a backslash or a control character; bytes above it may be
/// marked without being one.
#[inline]
const fn string_ends(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGHEST: u64 = 0x80 * EACH;
    // A byte borrows from its highest bit if it is less than what is subtracted.
    const fn below(word: u64, limit: u64) -> u64 {
        word.wrapping_sub(limit * EACH) & !word & HIGHEST
    }
    below(word, 0x20)
        | below(word ^ (b'"' as u64 * EACH), 1)
        | below(word ^ (b'\\' as u64 * EACH), 1)
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
