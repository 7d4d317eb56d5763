//! Merges one record that both sides changed.

use std::fmt;

use serde_json::Value;

use super::super::edit::{self, MemberEdit};
use super::super::record::Task;
use super::super::scan;
use super::super::task_fields::{Priority, Status};
use super::Outcome;

/// Why the changes of two sides are incompatible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clash {
    /// Both sides changed these fields, differently.
    Fields(Vec<String>),
    /// One side did the task, the other superseded or decomposed it.
    DoneAndReplaced,
    /// One side rejected the task, the other accepted or cancelled it.
    RejectedAndRemoved,
    /// Only the two sides combined make tasks wait for each other.
    Cycle { cycle: Vec<String> },
}

impl fmt::Display for Clash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Clash::Fields(fields) => {
                write!(f, "both sides changed `{}` differently", fields.join("`, `"))
            }
            Clash::DoneAndReplaced => {
                f.write_str("one side has it done, the other superseded or decomposed it")
            }
            Clash::RejectedAndRemoved => {
                f.write_str("one side rejected it, the other accepted or cancelled it")
            }
            Clash::Cycle { cycle } => {
                write!(f, "the merged dependencies form a cycle: {}", cycle.join(" → "))
            }
        }
    }
}

/// What the side that removed a task did with it, as far as is visible.
#[derive(Clone, Copy, Debug)]
pub(super) struct Removal {
    /// Other tasks replaced it.
    pub(super) replaced: bool,
    /// It was rejected there before it was removed.
    pub(super) rejected: bool,
}

/// Decides on a task that one side removed and the other kept.
pub(super) fn kept_or_gone(base: &str, kept: &str, removal: Removal) -> Outcome {
    let (Some(before), Some(task)) =
        (Task::of_line(base.as_bytes()), Task::of_line(kept.as_bytes()))
    else {
        return Outcome::Absent;
    };
    if newly_done(&task, Some(&before)) {
        return if removal.replaced {
            Outcome::Clash(Clash::DoneAndReplaced)
        } else {
            Outcome::Line(kept.to_owned())
        };
    }
    let newly_rejected = task.reject.is_some() && task.reject != before.reject;
    if newly_rejected && !removal.replaced && !removal.rejected {
        return Outcome::Clash(Clash::RejectedAndRemoved);
    }
    Outcome::Absent
}

/// Whether a task was done since the base, for the first time or again.
fn newly_done(task: &Task<'_>, base: Option<&Task<'_>>) -> bool {
    task.status == Status::Done
        && base.is_none_or(|base| base.status != Status::Done || base.done_at != task.done_at)
}

type Members<'a> = Vec<(String, &'a str)>;

fn members(line: &str) -> Members<'_> {
    let mut members = Vec::new();
    scan::members(line, |member| members.push((member.key.into_owned(), member.value.raw)))
        .expect("a record that was decoded is an object");
    members
}

fn get<'a>(members: &Members<'a>, key: &str) -> Option<&'a str> {
    members.iter().find(|(of, _)| of == key).map(|(_, raw)| *raw)
}

fn same(one: Option<&str>, other: Option<&str>) -> bool {
    one == other
        || match (one, other) {
            (Some(one), Some(other)) => {
                let [one, other] = [one, other].map(serde_json::from_str::<Value>);
                matches!((one, other), (Ok(one), Ok(other)) if one == other)
            }
            _ => false,
        }
}

/// Decides on a record that both sides have.
pub(super) fn both(base: Option<&str>, ours: &str, theirs: &str) -> Outcome {
    if ours == theirs || base == Some(theirs) {
        return Outcome::Line(ours.to_owned());
    }
    if base == Some(ours) {
        return Outcome::Line(theirs.to_owned());
    }
    let before = base.map(members).unwrap_or_default();
    let (our_members, their_members) = (members(ours), members(theirs));
    let theirs_only = their_members.iter().filter(|(key, _)| get(&our_members, key).is_none());
    let keys = our_members.iter().chain(theirs_only).map(|(key, _)| key.as_str());
    let (mut changes, mut clashing) = (Vec::new(), Vec::new());
    for key in keys {
        let three = Three {
            base: get(&before, key),
            ours: get(&our_members, key),
            theirs: get(&their_members, key),
        };
        match three.merged(key) {
            Some(Merge::Ours) => {}
            Some(Merge::Raw(raw)) => changes.push(MemberEdit::raw(key, raw.as_deref())),
            None => clashing.push(key.to_owned()),
        }
    }
    // A member that both sides removed is in neither list, so it stays removed.
    changes.extend(life(base, ours, theirs));
    if clashing.is_empty() {
        Outcome::Line(edit::edited(ours, &last_wins(changes)))
    } else {
        clashing.sort_unstable();
        Outcome::Clash(Clash::Fields(clashing))
    }
}

/// Keeps the last change to each member.
fn last_wins(changes: Vec<MemberEdit>) -> Vec<MemberEdit> {
    let mut kept: Vec<MemberEdit> = Vec::with_capacity(changes.len());
    for change in changes {
        kept.retain(|other| !other.is_about_same(&change));
        kept.push(change);
    }
    kept
}

/// One member in three versions.
struct Three<'a> {
    base: Option<&'a str>,
    ours: Option<&'a str>,
    theirs: Option<&'a str>,
}

enum Merge {
    Ours,
    /// Another value, or removal.
    Raw(Option<String>),
}

impl Three<'_> {
    /// Returns the merged member; `None` on a conflict.
    fn merged(&self, key: &str) -> Option<Merge> {
        if same(self.ours, self.theirs) || same(self.theirs, self.base) {
            return Some(Merge::Ours);
        }
        if same(self.ours, self.base) {
            return Some(Merge::Raw(self.theirs.map(str::to_owned)));
        }
        let sides = [self.ours, self.theirs];
        match key {
            "deps" => Some(Merge::Raw(self.dependencies())),
            "priority" => {
                let highest = sides.into_iter().flatten().min_by_key(|raw| {
                    let name: Option<String> = serde_json::from_str(raw).ok();
                    let known = name.and_then(|name| Priority::of_name(&name));
                    (known.is_none(), known, raw.to_owned())
                });
                Some(Merge::Raw(highest.map(str::to_owned)))
            }
            "reject" => {
                let mut reasons: Vec<String> = sides
                    .into_iter()
                    .flatten()
                    .filter_map(|raw| serde_json::from_str(raw).ok())
                    .collect();
                reasons.sort_unstable();
                let joined = reasons.join("; ");
                Some(Merge::Raw(serde_json::to_string(&joined).ok()))
            }
            // Whatever remains of these after `life` has decided may come from either side, as long as the choice is
            // deterministic.
            "s" | "done_at" | "kill" | "kill_log" | "decompose" | "kill_reason" => {
                let first = sides.into_iter().flatten().min();
                Some(Merge::Raw(first.map(str::to_owned)))
            }
            _ => None,
        }
    }

    fn dependencies(&self) -> Option<String> {
        let list = |raw: Option<&str>| -> Vec<String> {
            raw.and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default()
        };
        let (base, ours, theirs) = (list(self.base), list(self.ours), list(self.theirs));
        let mut merged: Vec<String> =
            base.iter().filter(|id| ours.contains(id) && theirs.contains(id)).cloned().collect();
        let mut added: Vec<String> =
            ours.into_iter().chain(theirs).filter(|id| !base.contains(id)).collect();
        added.sort_unstable();
        added.dedup();
        merged.extend(added);
        let quoted: Vec<String> =
            merged.iter().map(|id| Value::from(id.as_str()).to_string()).collect();
        (!quoted.is_empty()).then(|| format!("[{}]", quoted.join(", ")))
    }
}

/// Merges the members for the state of a task, which only make sense together.
fn life(base: Option<&str>, ours: &str, theirs: &str) -> Vec<MemberEdit> {
    let base = base.and_then(|line| Task::of_line(line.as_bytes()));
    let (Some(ours), Some(theirs)) =
        (Task::of_line(ours.as_bytes()), Task::of_line(theirs.as_bytes()))
    else {
        return Vec::new();
    };
    if ours.status == Status::Accepted || theirs.status == Status::Accepted {
        return vec![MemberEdit::text("s", "a")];
    }
    let done: Vec<_> =
        [&ours, &theirs].into_iter().filter(|task| newly_done(task, base.as_ref())).collect();
    if !done.is_empty() {
        let done_at = done.iter().filter_map(|task| task.done_at.as_deref()).min();
        let mut changes: Vec<_> =
            ["kill", "kill_log", "decompose", "kill_reason"].map(MemberEdit::none).into();
        changes.push(MemberEdit::text("s", "d"));
        changes.push(
            done_at
                .map_or_else(|| MemberEdit::none("done_at"), |at| MemberEdit::text("done_at", at)),
        );
        return changes;
    }
    if ours.status != theirs.status {
        return vec![MemberEdit::text("s", "p"), MemberEdit::none("done_at")];
    }
    Vec::new()
}
