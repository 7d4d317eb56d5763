//! Writes records: new ones in the plan's own style, changed ones in the style of their line.

use std::borrow::Cow;

use super::record::rank;
use super::scan;

/// A member to set or remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MemberEdit {
    key: Cow<'static, str>,
    value: Option<NewValue>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum NewValue {
    /// Raw JSON.
    Json(String),
    /// Strings, spaced like the rest of the line.
    Texts(Vec<String>),
}

impl MemberEdit {
    pub(super) fn text(key: &'static str, text: &str) -> MemberEdit {
        let json = serde_json::to_string(text).expect("a string is always JSON");
        MemberEdit { key: Cow::Borrowed(key), value: Some(NewValue::Json(json)) }
    }

    pub(super) fn number(key: &'static str, number: u32) -> MemberEdit {
        MemberEdit { key: Cow::Borrowed(key), value: Some(NewValue::Json(number.to_string())) }
    }

    /// Sets a list, or removes it if empty.
    pub(super) fn texts(key: &'static str, texts: &[impl AsRef<str>]) -> MemberEdit {
        let texts: Vec<_> = texts.iter().map(|text| text.as_ref().to_owned()).collect();
        let value = (!texts.is_empty()).then_some(NewValue::Texts(texts));
        MemberEdit { key: Cow::Borrowed(key), value }
    }

    pub(super) fn none(key: &'static str) -> MemberEdit {
        MemberEdit { key: Cow::Borrowed(key), value: None }
    }

    pub(super) fn is_about_same(&self, other: &MemberEdit) -> bool {
        self.key == other.key
    }

    /// Sets any member to raw JSON, or removes it.
    pub(super) fn raw(key: &str, json: Option<&str>) -> MemberEdit {
        MemberEdit {
            key: Cow::Owned(key.to_owned()),
            value: json.map(|json| NewValue::Json(json.to_owned())),
        }
    }
}

/// A record that is not in the plan yet.
#[derive(Clone, Debug)]
pub(super) struct NewRecord {
    members: Vec<MemberEdit>,
}

impl NewRecord {
    pub(super) fn new(kind: &'static str) -> NewRecord {
        NewRecord { members: vec![MemberEdit::text("t", kind)] }
    }

    #[must_use]
    pub(super) fn with(mut self, member: MemberEdit) -> NewRecord {
        self.members.push(member);
        self
    }

    #[must_use]
    pub(super) fn with_text(self, key: &'static str, text: Option<&str>) -> NewRecord {
        match text {
            Some(text) => self.with(MemberEdit::text(key, text)),
            None => self,
        }
    }

    pub(super) fn render(&self) -> String {
        edited("{}", &self.members)
    }
}

struct Style<'a> {
    colon: &'a str,
    comma: &'a str,
}

impl Style<'_> {
    fn value(&self, value: &NewValue) -> String {
        match value {
            NewValue::Json(json) => json.clone(),
            NewValue::Texts(texts) => {
                let texts: Vec<_> = texts
                    .iter()
                    .map(|text| serde_json::to_string(text).expect("a string is always JSON"))
                    .collect();
                format!("[{}]", texts.join(self.comma))
            }
        }
    }
}

/// One member of the line being written.
struct Chunk<'a> {
    rank: Option<usize>,
    /// The separator between it and the previous member.
    comma: Option<&'a str>,
    key: Cow<'a, str>,
    text: Cow<'a, str>,
}

/// Returns the object with members set and removed; everything else is unchanged, byte for byte.
pub(super) fn edited(line: &str, changes: &[MemberEdit]) -> String {
    let mut members = Vec::new();
    scan::members(line, |member| members.push(member)).expect("only objects are edited");
    let style = Style {
        colon: members.first().map_or(": ", |first| &line[first.key_at.end..first.value_at.start]),
        comma: match members.as_slice() {
            [first, second, ..] => &line[first.value_at.end..second.key_at.start],
            _ => ", ",
        },
    };
    let (head, tail) = match (members.first(), members.last()) {
        (Some(first), Some(last)) => (&line[..first.key_at.start], &line[last.value_at.end..]),
        _ => ("{", "}"),
    };
    let mut end = None;
    let mut chunks: Vec<Chunk<'_>> = Vec::with_capacity(members.len() + changes.len());
    for member in &members {
        let comma = end.replace(member.value_at.end).map(|end| &line[end..member.key_at.start]);
        let text = match changes.iter().find(|change| change.key == member.key) {
            None => Cow::Borrowed(&line[member.key_at.start..member.value_at.end]),
            Some(MemberEdit { value: None, .. }) => continue,
            Some(MemberEdit { value: Some(value), .. }) => Cow::Owned(format!(
                "{}{}",
                &line[member.key_at.start..member.value_at.start],
                style.value(value)
            )),
        };
        chunks.push(Chunk { rank: rank(&member.key), comma, key: member.key.clone(), text });
    }
    for MemberEdit { key, value } in changes {
        let Some(value) = value else { continue };
        if chunks.iter().any(|chunk| chunk.key == *key) {
            continue;
        }
        let rank = rank(key);
        let at = match rank {
            Some(rank) => chunks
                .iter()
                .rposition(|chunk| chunk.rank.is_some_and(|of| of < rank))
                .map_or(0, |before| before + 1),
            None => chunks.len(),
        };
        let quoted = serde_json::to_string(&**key).expect("a string is always JSON");
        let text = Cow::Owned(format!("{quoted}{}{}", style.colon, style.value(value)));
        chunks.insert(at, Chunk { rank, comma: None, key: Cow::Borrowed(key), text });
    }
    let mut out = head.to_owned();
    for (at, chunk) in chunks.iter().enumerate() {
        if at > 0 {
            out.push_str(chunk.comma.unwrap_or(style.comma));
        }
        out.push_str(&chunk.text);
    }
    out + tail
}
