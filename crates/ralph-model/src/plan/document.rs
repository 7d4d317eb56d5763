//! `plan.jsonl` as a list of lines, each with its original bytes.
//!
//! Parsing and rendering round-trips any bytes. An unchanged line is never rewritten; an edited one keeps its order of
//! keys, its spacing, its line end, and every unknown member (`edit`).

use std::borrow::Cow;

use super::edit::{self, MemberEdit, NewRecord};
use super::flaw::{Problem, ProblemKind};
use super::record::{Issue, Record, Task, TaskHead, Tombstone};

/// One line with its line end, and its parsed content.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    raw: Cow<'a, [u8]>,
    pub record: Record<'a>,
}

impl<'a> Line<'a> {
    fn borrowed(raw: &'a [u8]) -> Line<'a> {
        Line { raw: Cow::Borrowed(raw), record: Record::of_line(without_end(raw)) }
    }

    pub(super) fn owned(raw: Vec<u8>) -> Line<'static> {
        // Written lines are short and rare, so decoding into owned values is cheap enough.
        let record = owned_record(&Record::of_line(without_end(&raw)));
        Line { raw: Cow::Owned(raw), record }
    }

    /// Makes several lines that are placed together where `record` would be.
    pub(super) fn block(text: String, record: Record<'a>) -> Line<'a> {
        Line { raw: Cow::Owned(text.into_bytes()), record }
    }

    /// Returns the line with other content and the same line end.
    pub(super) fn with_content(&self, content: &str) -> Line<'static> {
        let mut raw = content.as_bytes().to_vec();
        raw.extend_from_slice(self.end());
        Line::owned(raw)
    }

    /// Returns the line without its line end.
    pub(crate) fn content(&self) -> &[u8] {
        without_end(&self.raw)
    }

    /// Returns the line with its line end.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.raw
    }

    fn end(&self) -> &[u8] {
        &self.raw[self.content().len()..]
    }

    pub(super) fn head(&self) -> Option<&TaskHead<'a>> {
        match &self.record {
            Record::Task(head) => Some(head),
            _ => None,
        }
    }

    pub(crate) fn task(&self) -> Option<Task<'_>> {
        Task::of_line(self.content())
    }

    pub(crate) fn issue(&self) -> Option<Issue<'_>> {
        Issue::of_line(self.content())
    }

    pub fn tombstone(&self) -> Option<Tombstone<'_>> {
        Tombstone::of_line(self.content())
    }
}

fn without_end(raw: &[u8]) -> &[u8] {
    let line = raw.strip_suffix(b"\n").unwrap_or(raw);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn owned_record(record: &Record<'_>) -> Record<'static> {
    let owned = |text: &Cow<'_, str>| Cow::Owned(text.clone().into_owned());
    match record {
        Record::Blank => Record::Blank,
        Record::Other => Record::Other,
        Record::Broken(flaw) => Record::Broken(flaw.clone()),
        Record::Issue { id } => Record::Issue { id: owned(id) },
        Record::Spec { spec } => Record::Spec { spec: owned(spec) },
        Record::Reject { id } => Record::Reject { id: owned(id) },
        Record::Task(head) => Record::Task(TaskHead {
            id: owned(&head.id),
            spec: owned(&head.spec),
            status: head.status,
            priority: head.priority,
            killed: head.killed,
            deps: head.deps.iter().map(owned).collect(),
        }),
    }
}

/// The position of each kind of line: a new one goes after the last of its kind, or of a preceding kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Spec,
    Task,
    Issue,
    Reject,
}

impl Place {
    fn of(record: &Record<'_>) -> Option<Place> {
        match record {
            Record::Spec { .. } => Some(Place::Spec),
            Record::Task(_) => Some(Place::Task),
            Record::Issue { .. } => Some(Place::Issue),
            Record::Reject { .. } => Some(Place::Reject),
            Record::Blank | Record::Other | Record::Broken(_) => None,
        }
    }
}

/// A plan's lines.
#[derive(Clone, Debug, Default)]
pub struct Document<'a> {
    pub(super) lines: Vec<Line<'a>>,
}

impl<'a> Document<'a> {
    /// Parses any bytes; [`Document::broken`] reports the errors.
    pub fn parse(bytes: &'a [u8]) -> Document<'a> {
        let mut lines = Vec::with_capacity(bytes.len() / 128 + 1);
        let mut from = 0;
        for end in memchr::memchr_iter(b'\n', bytes) {
            lines.push(Line::borrowed(&bytes[from..=end]));
            from = end + 1;
        }
        if from < bytes.len() {
            lines.push(Line::borrowed(&bytes[from..]));
        }
        Document { lines }
    }

    pub(crate) fn render(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.lines.iter().map(|line| line.raw.len()).sum());
        for line in &self.lines {
            bytes.extend_from_slice(&line.raw);
        }
        bytes
    }

    pub fn lines(&self) -> &[Line<'a>] {
        &self.lines
    }

    /// Returns every line that cannot be parsed.
    pub fn broken(&self) -> impl Iterator<Item = Problem> {
        self.lines.iter().zip(1..).filter_map(|(line, number)| match &line.record {
            Record::Broken(flaw) => {
                Some(Problem { line: number, kind: ProblemKind::Broken(flaw.clone()) })
            }
            _ => None,
        })
    }

    /// Sets or removes members of one line.
    pub(super) fn edit(&mut self, at: usize, changes: &[MemberEdit]) {
        let line = &self.lines[at];
        let text = std::str::from_utf8(line.content()).expect("a record that was decoded is UTF-8");
        self.lines[at] = line.with_content(&edit::edited(text, changes));
    }

    /// The line end used here.
    fn line_end(&self) -> &'static [u8] {
        match self.lines.first() {
            Some(line) if line.end() == b"\r\n" => b"\r\n",
            _ => b"\n",
        }
    }

    /// Inserts new records of one kind after the last of that kind.
    pub(super) fn insert(&mut self, records: &[NewRecord]) {
        let lines = records.iter().map(|record| Line::owned(record.render().into_bytes()));
        self.insert_lines(lines.collect());
    }

    /// Inserts lines of one kind after the last of that kind, or of a preceding kind.
    pub(super) fn insert_lines(&mut self, mut lines: Vec<Line<'a>>) {
        let Some(first) = lines.first() else { return };
        let at = match Place::of(&first.record) {
            None => self.lines.len(),
            Some(place) => {
                let before =
                    |line: &Line<'_>| Place::of(&line.record).is_some_and(|of| of <= place);
                match self.lines.iter().rposition(before) {
                    Some(last) => last + 1,
                    None if place == Place::Spec => 0,
                    // After the unknown records, and before the next kind.
                    None => self
                        .lines
                        .iter()
                        .position(|line| Place::of(&line.record).is_some())
                        .unwrap_or(self.lines.len()),
                }
            }
        };
        let end = self.line_end();
        self.end_last_line();
        for line in &mut lines {
            if line.end().is_empty() {
                line.raw.to_mut().extend_from_slice(end);
            }
        }
        self.lines.splice(at..at, lines);
    }

    /// Inserts each of the lines after the last of its kind.
    pub(super) fn insert_by_kind(&mut self, lines: Vec<Line<'a>>) {
        let mut groups: Vec<(Option<Place>, Vec<Line<'a>>)> = Vec::new();
        for line in lines {
            let place = Place::of(&line.record);
            match groups.iter_mut().find(|(of, _)| *of == place) {
                Some((_, group)) => group.push(line),
                None => groups.push((place, vec![line])),
            }
        }
        for (_, group) in groups {
            self.insert_lines(group);
        }
    }

    /// Terminates the last line, so that an append starts a new one.
    pub(super) fn end_last_line(&mut self) {
        let end = self.line_end();
        if let Some(last) = self.lines.last_mut()
            && last.end().is_empty()
        {
            last.raw.to_mut().extend_from_slice(end);
        }
    }

    /// Removes the lines for which `gone` returns true.
    pub(super) fn remove(&mut self, mut gone: impl FnMut(usize, &Line<'_>) -> bool) {
        let mut at = 0;
        self.lines.retain(|line| {
            at += 1;
            !gone(at - 1, line)
        });
    }
}
