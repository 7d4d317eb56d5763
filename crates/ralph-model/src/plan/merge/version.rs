//! One version of a plan, indexed by record.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::super::record::{Record, Tombstone};
use super::super::{Document, Line};

/// Identifies a record across three versions of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Spec,
    Task(String),
    Issue(String),
    /// Of several identical ones the first, second, and so on.
    Reject {
        id: String,
        done_at: String,
        reason: String,
        nth: usize,
    },
    Other {
        line: Vec<u8>,
        nth: usize,
    },
}

impl Key {
    fn of(line: &Line<'_>) -> Option<Key> {
        Some(match &line.record {
            Record::Blank | Record::Broken(_) => return None,
            Record::Spec { .. } => Key::Spec,
            Record::Task(head) => Key::Task(head.id.clone().into_owned()),
            Record::Issue { id } => Key::Issue(id.clone().into_owned()),
            Record::Reject { .. } => {
                let Tombstone { id, done_at, reason } = line.tombstone()?;
                let (id, done_at) = (id.into_owned(), done_at.into_owned());
                Key::Reject { id, done_at, reason: reason.into_owned(), nth: 0 }
            }
            Record::Other => Key::Other { line: line.content().to_vec(), nth: 0 },
        })
    }

    fn nth(self, nth: usize) -> Key {
        match self {
            Key::Reject { id, done_at, reason, .. } => Key::Reject { id, done_at, reason, nth },
            Key::Other { line, .. } => Key::Other { line, nth },
            Key::Spec | Key::Task(_) | Key::Issue(_) => self,
        }
    }

    pub(super) fn id(&self) -> Option<String> {
        match self {
            Key::Task(id) | Key::Issue(id) => Some(id.clone()),
            Key::Spec | Key::Reject { .. } | Key::Other { .. } => None,
        }
    }

    pub(super) fn describe(&self) -> String {
        self.id().map_or_else(|| "a current spec".to_owned(), |id| format!("`{id}`"))
    }
}

/// One version of the plan, indexed by record.
pub(super) struct MergeVersion<'d, 'a> {
    pub(super) document: &'d Document<'a>,
    pub(super) lines: HashMap<Key, usize>,
    /// The key of every line that has one.
    pub(super) keys: Vec<(usize, Key)>,
    /// Tasks that others supersede or were decomposed from.
    pub(super) replaced: HashSet<String>,
    /// How many tombstones a task has.
    rejected: HashMap<String, usize>,
}

impl<'d, 'a> MergeVersion<'d, 'a> {
    /// Indexes a version; one with a duplicate record is refused, with both lines.
    pub(super) fn of(
        document: &'d Document<'a>,
    ) -> Result<MergeVersion<'d, 'a>, (Key, usize, usize)> {
        let mut version = MergeVersion::empty(document);
        let mut alike = HashMap::new();
        for (at, line) in document.lines.iter().enumerate() {
            version.take(at, line, &mut alike)?;
        }
        Ok(version)
    }

    /// Indexes a version that can no longer be edited: of a duplicate record, only one line counts.
    ///
    /// When git merges two bases into one, it leaves conflicts between markers. Then the version that both sides began
    /// with counts, if it is there, otherwise the first one.
    pub(super) fn of_base(document: &'d Document<'a>) -> MergeVersion<'d, 'a> {
        let mut version = MergeVersion::empty(document);
        let mut alike = HashMap::new();
        let mut in_conflict = Vec::new();
        let mut is_side = false;
        for (at, line) in document.lines.iter().enumerate() {
            match line.content() {
                [b'<' | b'=', ..] => is_side = true,
                [b'|' | b'>', ..] => is_side = false,
                _ if is_side => in_conflict.push((at, line)),
                _ => drop(version.take(at, line, &mut alike)),
            }
        }
        for (at, line) in in_conflict {
            drop(version.take(at, line, &mut alike));
        }
        version
    }

    fn empty(document: &'d Document<'a>) -> MergeVersion<'d, 'a> {
        MergeVersion {
            document,
            lines: HashMap::new(),
            keys: Vec::new(),
            replaced: HashSet::new(),
            rejected: HashMap::new(),
        }
    }

    /// Adds a line unless its record is already there; `alike` counts identical records.
    fn take(
        &mut self,
        at: usize,
        line: &Line<'_>,
        alike: &mut HashMap<Key, usize>,
    ) -> Result<(), (Key, usize, usize)> {
        let Some(mut key) = Key::of(line) else { return Ok(()) };
        if matches!(key, Key::Reject { .. } | Key::Other { .. }) {
            let count = alike.entry(key.clone()).or_default();
            key = key.nth(*count);
            *count += 1;
        }
        if let Some(first) = self.lines.get(&key) {
            return Err((key, *first, at));
        }
        self.lines.insert(key.clone(), at);
        self.keys.push((at, key));
        if let Record::Reject { id } = &line.record {
            *self.rejected.entry(id.clone().into_owned()).or_default() += 1;
        }
        if let Some(task) = line.head().and_then(|_| line.task()) {
            self.replaced.extend(task.parent.map(Cow::into_owned));
            self.replaced.extend(task.supersedes.map(Cow::into_owned));
        }
        Ok(())
    }

    fn line(&self, key: &Key) -> Option<&'d Line<'a>> {
        self.lines.get(key).map(|at| &self.document.lines[*at])
    }

    pub(super) fn text(&self, key: &Key) -> Option<&'d str> {
        self.line(key).map(|line| {
            std::str::from_utf8(line.content()).expect("a record that was decoded is UTF-8")
        })
    }

    pub(super) fn rejections(&self, id: &str) -> usize {
        self.rejected.get(id).copied().unwrap_or_default()
    }

    /// Whether every task on the path depends on the next one here.
    pub(super) fn leads(&self, way: &[String]) -> bool {
        way.windows(2).all(|pair| {
            let line = self.line(&Key::Task(pair[0].clone()));
            let head = line.and_then(|line| line.head());
            head.is_some_and(|head| head.deps.iter().any(|dependency| *dependency == pair[1]))
        })
    }
}
