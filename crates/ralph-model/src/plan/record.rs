//! The content of one line of the plan.
//!
//! A line is decoded at two levels: [`Record`] borrows what order and stage need from every line; [`Task`] has every
//! field of a single task. Both translate the legacy spellings (`desc` for a task's name, `decompose`, `kill_reason`),
//! so readers never see them.

use std::borrow::Cow;

use super::flaw::Flaw;
use super::scan::{self, Value};
use super::task_fields::{Kill, Priority, Status};

/// The content of one line, as far as order and stage need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Only white space.
    Blank,
    Task(TaskHead<'a>),
    Issue {
        id: Cow<'a, str>,
    },
    /// The current spec; empty for none.
    Spec {
        spec: Cow<'a, str>,
    },
    /// The tombstone of a rejection.
    Reject {
        id: Cow<'a, str>,
    },
    /// A record of an unknown type, kept verbatim.
    Other,
    /// Not a record at all.
    Broken(Flaw),
}

/// The fields of a task that order and stage need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskHead<'a> {
    pub id: Cow<'a, str>,
    /// Empty if the line has none.
    pub spec: Cow<'a, str>,
    pub status: Status,
    pub priority: Option<Priority>,
    /// Whether a run of it was killed and it must be decomposed.
    pub killed: bool,
    pub deps: Vec<Cow<'a, str>>,
}

/// Every known field of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task<'a> {
    pub id: Cow<'a, str>,
    pub spec: Cow<'a, str>,
    pub name: Cow<'a, str>,
    pub notes: Option<Cow<'a, str>>,
    pub accept: Option<Cow<'a, str>>,
    pub deps: Vec<Cow<'a, str>>,
    pub status: Status,
    pub done_at: Option<Cow<'a, str>>,
    pub priority: Option<Priority>,
    pub reject: Option<Cow<'a, str>>,
    /// Whether it must be decomposed.
    pub killed: bool,
    /// Whether its line says done: a task killed since then counts as pending anyway.
    pub was_done: bool,
    /// The reason in its current spelling; an unknown one is passed through.
    pub kill: Option<Cow<'a, str>>,
    pub kill_log: Option<Cow<'a, str>>,
    pub parent: Option<Cow<'a, str>>,
    /// The number of its ancestors in the decomposition; these may be gone from the file.
    pub decompose_depth: Option<u32>,
    pub created_from: Option<Cow<'a, str>>,
    pub supersedes: Option<Cow<'a, str>>,
}

/// Every known field of an issue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue<'a> {
    pub id: Cow<'a, str>,
    pub spec: Cow<'a, str>,
    pub desc: Cow<'a, str>,
    pub priority: Option<Priority>,
}

/// A rejection that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tombstone<'a> {
    pub id: Cow<'a, str>,
    pub done_at: Cow<'a, str>,
    pub reason: Cow<'a, str>,
}

/// Defines the table of known keys; the first ones are in the order in which new lines are written.
macro_rules! keys {
    ($($key:ident = $name:literal),+ $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Key { $($key),+ }

        impl Key {
            const ALL: &'static [Key] = &[$(Key::$key),+];

            #[inline]
            fn of_name(name: &str) -> Option<Key> {
                let candidates = BY_LENGTH.get(name.len()).copied().unwrap_or_default();
                candidates.iter().copied().find(|key| same(name.as_bytes(), key.name().as_bytes()))
            }

            const fn name(self) -> &'static str {
                match self { $(Key::$key => $name),+ }
            }
        }
    };
}

/// Compares a few bytes without a function call.
#[inline]
fn same(one: &[u8], known: &[u8]) -> bool {
    one.len() == known.len() && one.iter().zip(known).all(|(one, other)| one == other)
}

keys! {
    T = "t", Id = "id", Spec = "spec", Name = "name", Desc = "desc", Notes = "notes", Deps = "deps",
    Accept = "accept", S = "s", DoneAt = "done_at", Priority = "priority", Reject = "reject", Kill = "kill",
    KillLog = "kill_log", Parent = "parent", DecomposeDepth = "decompose_depth", CreatedFrom = "created_from", Supersedes = "supersedes",
    Reason = "reason", Decompose = "decompose", KillReason = "kill_reason",
}

/// The keys by the length of their names, for fast lookup: every key of every line is looked up here.
const BY_LENGTH: [&[Key]; 16] = [
    &[],
    &[Key::T, Key::S],
    &[Key::Id],
    &[],
    &[Key::Spec, Key::Name, Key::Deps, Key::Desc, Key::Kill],
    &[Key::Notes],
    &[Key::Accept, Key::Reject, Key::Parent, Key::Reason],
    &[Key::DoneAt],
    &[Key::Priority, Key::KillLog],
    &[Key::Decompose],
    &[Key::Supersedes],
    &[Key::KillReason],
    &[Key::CreatedFrom],
    &[],
    &[],
    &[Key::DecomposeDepth],
];

/// Returns the position of a key in a newly written line; `None` if unknown.
pub(super) fn rank(key: &str) -> Option<usize> {
    Key::of_name(key).map(|key| key as usize)
}

/// Every known key.
#[cfg(test)]
pub(super) fn known_keys() -> impl Iterator<Item = &'static str> {
    Key::ALL.iter().map(|key| key.name())
}

/// The known members of one line.
struct Fields<'a> {
    values: [Option<Value<'a>>; Key::ALL.len()],
    twice: Option<Key>,
}

const TASK_TEXTS: &[Key] = &[
    Key::Spec,
    Key::Name,
    Key::Desc,
    Key::Notes,
    Key::Accept,
    Key::DoneAt,
    Key::Priority,
    Key::Reject,
    Key::Kill,
    Key::KillLog,
    Key::Parent,
    Key::CreatedFrom,
    Key::Supersedes,
    Key::KillReason,
];

impl<'a> Fields<'a> {
    fn of(line: &'a str) -> Result<Fields<'a>, Flaw> {
        let mut fields = Fields { values: [None; Key::ALL.len()], twice: None };
        scan::members(line, |member| {
            if let Some(key) = Key::of_name(&member.key)
                && fields.values[key as usize].replace(member.value).is_some()
            {
                fields.twice = Some(key);
            }
        })
        .map_err(|_| Flaw::of_no_object(line))?;
        Ok(fields)
    }

    /// A value that is present and not null.
    fn value(&self, key: Key) -> Option<Value<'a>> {
        self.values[key as usize].filter(|value| !value.is_null())
    }

    fn text(&self, key: Key) -> Result<Option<Cow<'a, str>>, Flaw> {
        let Some(value) = self.value(key) else { return Ok(None) };
        value.text().map(Some).ok_or(Flaw::WrongType { key: key.name(), wanted: "a string" })
    }

    fn needed(&self, key: Key) -> Result<Cow<'a, str>, Flaw> {
        self.text(key)?.ok_or(Flaw::Missing { key: key.name() })
    }

    /// Checks the type of members that are decoded lazily.
    fn check_texts(&self, keys: &[Key]) -> Result<(), Flaw> {
        for &key in keys {
            if let Some(value) = self.value(key)
                && (!value.is_string() || (value.escaped && value.text().is_none()))
            {
                return Err(Flaw::WrongType { key: key.name(), wanted: "a string" });
            }
        }
        Ok(())
    }

    fn known(&self) -> Result<(), Flaw> {
        self.twice.map_or(Ok(()), |key| Err(Flaw::Twice { key: key.name() }))
    }

    fn task(&self) -> Result<TaskHead<'a>, Flaw> {
        self.known()?;
        self.check_texts(TASK_TEXTS)?;
        let id = self.needed(Key::Id)?;
        if self.value(Key::Name).or(self.value(Key::Desc)).is_none() {
            return Err(Flaw::Missing { key: Key::Name.name() });
        }
        let killed = self.value(Key::Kill).or(self.value(Key::KillReason)).is_some()
            || self.flag(Key::Decompose)?;
        Ok(TaskHead {
            id,
            spec: self.text(Key::Spec)?.unwrap_or_default(),
            // A killed task is not done, whatever the line says: otherwise it would never be decomposed.
            status: match self.status()? {
                Status::Done if killed => Status::Pending,
                status => status,
            },
            priority: self.text(Key::Priority)?.and_then(|name| Priority::of_name(&name)),
            killed,
            deps: match self.value(Key::Deps) {
                None => Vec::new(),
                Some(value) => value.texts().ok_or(Flaw::WrongType {
                    key: Key::Deps.name(),
                    wanted: "an array of strings",
                })?,
            },
        })
    }

    fn status(&self) -> Result<Status, Flaw> {
        match self.text(Key::S)?.as_deref() {
            None | Some("p") => Ok(Status::Pending),
            Some("d") => Ok(Status::Done),
            Some("a") => Ok(Status::Accepted),
            Some(other) => Err(Flaw::UnknownStatus { found: other.to_owned() }),
        }
    }

    fn flag(&self, key: Key) -> Result<bool, Flaw> {
        match self.value(key).map(|value| value.raw) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(Flaw::WrongType { key: key.name(), wanted: "true or false" }),
        }
    }

    /// An invalid depth is not worth an error: it is recomputed from the parents.
    fn depth(&self) -> Option<u32> {
        self.value(Key::DecomposeDepth)?.raw.parse().ok()
    }

    fn record(&self) -> Result<Record<'a>, Flaw> {
        let kind = self.needed(Key::T)?;
        match &*kind {
            "task" => self.task().map(Record::Task),
            "issue" => {
                self.known()?;
                self.check_texts(&[Key::Spec, Key::Priority])?;
                self.needed(Key::Desc)?;
                self.needed(Key::Id).map(|id| Record::Issue { id })
            }
            "spec" => {
                self.known()?;
                Ok(Record::Spec { spec: self.text(Key::Spec)?.unwrap_or_default() })
            }
            "reject" => {
                self.known()?;
                self.check_texts(&[Key::DoneAt])?;
                self.needed(Key::Reason)?;
                self.needed(Key::Id).map(|id| Record::Reject { id })
            }
            _ => Ok(Record::Other),
        }
    }
}

impl<'a> Record<'a> {
    /// Decodes one line without its line end.
    pub fn of_line(line: &'a [u8]) -> Record<'a> {
        let Ok(text) = std::str::from_utf8(line) else { return Record::Broken(Flaw::NotUtf8) };
        if text.trim_ascii().is_empty() {
            return Record::Blank;
        }
        if !text.starts_with('{') && Flaw::is_marker(text) {
            return Record::Broken(Flaw::ConflictMarker);
        }
        Fields::of(text).and_then(|fields| fields.record()).unwrap_or_else(Record::Broken)
    }
}

impl<'a> Task<'a> {
    /// Decodes every field of a line that is a task.
    pub(crate) fn of_line(line: &'a [u8]) -> Option<Task<'a>> {
        let fields = Fields::of(std::str::from_utf8(line).ok()?).ok()?;
        (fields.needed(Key::T).ok()? == "task").then_some(())?;
        let TaskHead { id, spec, status, priority, killed, deps } = fields.task().ok()?;
        let text = |key| fields.text(key).ok().flatten();
        let kill = text(Key::Kill).or_else(|| text(Key::KillReason));
        Some(Task {
            id,
            spec,
            name: text(Key::Name).or_else(|| text(Key::Desc))?,
            notes: text(Key::Notes),
            accept: text(Key::Accept),
            deps,
            status,
            done_at: text(Key::DoneAt),
            priority,
            reject: text(Key::Reject),
            killed,
            was_done: fields.status() == Ok(Status::Done),
            kill: kill.map(|name| match Kill::of_name(&name) {
                Some(kill) => Cow::Borrowed(kill.name()),
                None => name,
            }),
            kill_log: text(Key::KillLog),
            parent: text(Key::Parent),
            decompose_depth: fields.depth(),
            created_from: text(Key::CreatedFrom),
            supersedes: text(Key::Supersedes),
        })
    }
}

/// Returns the task that a line of earlier tools marks as accepted.
pub(crate) fn accepted_by_line(line: &[u8]) -> Option<Cow<'_, str>> {
    let fields = Fields::of(std::str::from_utf8(line).ok()?).ok()?;
    (fields.needed(Key::T).ok()? == "accept").then_some(())?;
    fields.needed(Key::Id).ok()
}

impl<'a> Issue<'a> {
    /// Decodes every field of a line that is an issue.
    pub(crate) fn of_line(line: &'a [u8]) -> Option<Issue<'a>> {
        let fields = Fields::of(std::str::from_utf8(line).ok()?).ok()?;
        matches!(fields.record(), Ok(Record::Issue { .. })).then_some(())?;
        let text = |key| fields.text(key).ok().flatten();
        Some(Issue {
            id: text(Key::Id)?,
            spec: text(Key::Spec).unwrap_or_default(),
            desc: text(Key::Desc)?,
            priority: text(Key::Priority).and_then(|name| Priority::of_name(&name)),
        })
    }
}

impl<'a> Tombstone<'a> {
    /// Decodes every field of a line that is a tombstone.
    pub(crate) fn of_line(line: &'a [u8]) -> Option<Tombstone<'a>> {
        let fields = Fields::of(std::str::from_utf8(line).ok()?).ok()?;
        matches!(fields.record(), Ok(Record::Reject { .. })).then_some(())?;
        let text = |key| fields.text(key).ok().flatten();
        Some(Tombstone {
            id: text(Key::Id)?,
            done_at: text(Key::DoneAt).unwrap_or_default(),
            reason: text(Key::Reason)?,
        })
    }
}
