//! Merges two plans with a common base, record by record.
//!
//! What each side did to a task since the common base decides its fate:
//!
//! | one side | other side | result |
//! |---|---|---|
//! | untouched | anything | as the other side has it |
//! | added | – | added |
//! | done | edited, prioritised, killed, rejected an earlier attempt | done, with the other side's edits |
//! | done | done at another commit | done, at the commit that sorts first |
//! | done | removed (accepted, cancelled) | stays done: verified once more, no work is lost |
//! | done | superseded or decomposed | **conflict** |
//! | rejected | edited, killed | pending with the reason |
//! | rejected | rejected for another reason | pending with both reasons |
//! | rejected | superseded, decomposed, or rejected and removed | removed |
//! | rejected | removed (accepted, cancelled) | **conflict** |
//! | edited, prioritised, killed | removed | removed |
//! | a field | another field | both |
//! | a field | the same field otherwise | `priority`: the higher; `deps`: both sides' changes; else **conflict** |
//!
//! Issues follow the same rules as far as they apply. The current spec conflicts if both sides set different ones.
//! Tombstones and unknown records are a set: additions of either side are kept, removals of either side are applied.
//! Tasks that depend on one which the other side superseded or decomposed depend on its replacement. A dependency cycle
//! that neither side had is a conflict of the tasks in it.
//!
//! Lines are in our side's order, with their additions after ours. Swapping the sides gives the same records. A side
//! with unparsable lines is not merged at all; a base with such lines, or with a duplicate record, is used as far as it
//! can be parsed.

mod record;
mod version;

use std::collections::HashMap;
use std::fmt;

use super::edit::{self, MemberEdit};
use super::order::{self, Edges};
use super::record::Task;
use super::remove::{Heirs, closed, inherited};
use super::{Document, Line, Problem};

use version::{Key, MergeVersion};

pub use record::Clash;

/// One of the two plans that are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Ours,
    Theirs,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Side::Ours => "our side",
            Side::Theirs => "their side",
        })
    }
}

/// A side that cannot be merged record by record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    #[error("{side} cannot be read: {}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Unreadable { side: Side, problems: Vec<Problem> },
    #[error("{side} has {what} twice, on lines {first} and {second}")]
    Twice { side: Side, what: String, first: usize, second: usize },
}

/// A decision for a person; the plan has both versions between conflict markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The task or issue; `None` for the current spec.
    pub id: Option<String>,
    pub clash: Clash,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.id {
            Some(id) => write!(f, "`{id}`: {}", self.clash),
            None => write!(f, "the current spec: {}", self.clash),
        }
    }
}

/// The merged plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    pub bytes: Vec<u8>,
    /// Empty if nothing is left to decide.
    pub conflicts: Vec<Conflict>,
}

/// The fate of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Absent,
    Line(String),
    Clash(Clash),
}

/// Merges `ours` and `theirs`, which both derive from `base`.
pub fn merge(base: &[u8], ours: &[u8], theirs: &[u8]) -> Result<Merged, MergeError> {
    let (base, ours) = (Document::parse(base), Document::parse(ours));
    let theirs = Document::parse(theirs);
    let our_version = side(&ours, Side::Ours)?;
    let their_version = side(&theirs, Side::Theirs)?;
    let base = MergeVersion::of_base(&base);
    Ok(Merge { base, ours: our_version, theirs: their_version, results: HashMap::new() }.run())
}

fn side<'d, 'a>(
    document: &'d Document<'a>,
    side: Side,
) -> Result<MergeVersion<'d, 'a>, MergeError> {
    let problems: Vec<_> = document.broken().collect();
    if !problems.is_empty() {
        return Err(MergeError::Unreadable { side, problems });
    }
    MergeVersion::of(document).map_err(|(key, first, second)| MergeError::Twice {
        side,
        what: key.describe(),
        first: first + 1,
        second: second + 1,
    })
}

struct Merge<'d, 'a> {
    base: MergeVersion<'d, 'a>,
    ours: MergeVersion<'d, 'a>,
    theirs: MergeVersion<'d, 'a>,
    results: HashMap<Key, Outcome>,
}

impl Merge<'_, '_> {
    fn run(mut self) -> Merged {
        for (_, key) in self.ours.keys.iter().chain(&self.theirs.keys) {
            if !self.results.contains_key(key) {
                let outcome = self.outcome(key);
                self.results.insert(key.clone(), outcome);
            }
        }
        self.hand_over();
        self.refuse_new_cycles();
        self.assemble()
    }

    fn outcome(&self, key: &Key) -> Outcome {
        let (base, ours, theirs) =
            (self.base.text(key), self.ours.text(key), self.theirs.text(key));
        match (key, ours, theirs) {
            (Key::Task(id), Some(kept), None) => base
                .map_or(Outcome::Line(kept.to_owned()), |base| {
                    self.removed(id, base, kept, &self.theirs)
                }),
            (Key::Task(id), None, Some(kept)) => base
                .map_or(Outcome::Line(kept.to_owned()), |base| {
                    self.removed(id, base, kept, &self.ours)
                }),
            (_, Some(ours), Some(theirs)) => record::both(base, ours, theirs),
            (_, Some(kept), None) | (_, None, Some(kept)) => match base {
                None => Outcome::Line(kept.to_owned()),
                Some(_) => Outcome::Absent,
            },
            (_, None, None) => Outcome::Absent,
        }
    }

    /// A task that the side `gone` removed.
    fn removed(&self, id: &str, base: &str, kept: &str, gone: &MergeVersion<'_, '_>) -> Outcome {
        let fate = record::Removal {
            replaced: gone.replaced.contains(id) && !self.base.replaced.contains(id),
            rejected: gone.rejections(id) > self.base.rejections(id),
        };
        record::kept_or_gone(base, kept, fate)
    }

    /// Makes tasks of one side depend on what replaced a task on the other.
    fn hand_over(&mut self) {
        let mut heirs = Heirs::new();
        let tasks = self.in_order();
        for (_, task) in tasks.iter().filter_map(|key| self.merged_task(key)) {
            for replaced in [&task.parent, &task.supersedes].into_iter().flatten() {
                let key = Key::Task(replaced.clone().into_owned());
                let gone = self.base.lines.contains_key(&key)
                    && matches!(self.results.get(&key), None | Some(Outcome::Absent));
                if gone {
                    let heirs = heirs.entry(replaced.clone().into_owned()).or_default();
                    heirs.push(task.id.clone().into_owned());
                }
            }
        }
        for heirs in heirs.values_mut() {
            heirs.sort_unstable();
        }
        let mut edits = Vec::new();
        for key in &tasks {
            let Some((line, task)) = self.merged_task(key) else { continue };
            if let Some(deps) = inherited(&task.id, &task.deps, &heirs) {
                let line = edit::edited(line, &[MemberEdit::texts("deps", &deps)]);
                edits.push((key.clone(), Outcome::Line(line)));
            }
        }
        self.results.extend(edits);
    }

    fn refuse_new_cycles(&mut self) {
        let keys = self.in_order();
        let tasks: Vec<_> =
            keys.iter().filter_map(|key| Some((key, self.merged_task(key)?.1))).collect();
        let nodes: Vec<Edges<'_>> = tasks
            .iter()
            .map(|(_, task)| Edges {
                id: &task.id,
                deps: task.deps.iter().map(|id| &**id).collect(),
            })
            .collect();
        let mut clashes = Vec::new();
        for cycle in order::cycles(&nodes) {
            let way = closed(&nodes, &cycle);
            if self.ours.leads(&way) || self.theirs.leads(&way) {
                continue;
            }
            let differs = |node: &&usize| {
                let key = tasks[**node].0;
                self.ours
                    .text(key)
                    .is_some_and(|ours| self.theirs.text(key).is_some_and(|theirs| ours != theirs))
            };
            let mut guilty: Vec<_> = cycle.iter().filter(differs).collect();
            if guilty.is_empty() {
                guilty.extend(cycle.first());
            }
            for node in guilty {
                let clash = Clash::Cycle { cycle: way.clone() };
                clashes.push((tasks[*node].0.clone(), Outcome::Clash(clash)));
            }
        }
        drop(tasks);
        self.results.extend(clashes);
    }

    /// The keys of all tasks, ours first.
    fn in_order(&self) -> Vec<Key> {
        let theirs = self.theirs.keys.iter().filter(|(_, key)| !self.ours.lines.contains_key(key));
        let keys = self.ours.keys.iter().chain(theirs).map(|(_, key)| key);
        keys.filter(|key| matches!(key, Key::Task(_))).cloned().collect()
    }

    fn merged_task(&self, key: &Key) -> Option<(&str, Task<'_>)> {
        match self.results.get(key)? {
            Outcome::Line(line) => Some((line, Task::of_line(line.as_bytes())?)),
            Outcome::Absent | Outcome::Clash(_) => None,
        }
    }

    fn assemble(self) -> Merged {
        let mut conflicts = Vec::new();
        let mut document = Document::default();
        let mut key_of: HashMap<usize, &Key> =
            self.ours.keys.iter().map(|(at, key)| (*at, key)).collect();
        for (at, line) in self.ours.document.lines.iter().enumerate() {
            match key_of.remove(&at) {
                None => document.lines.push(line.clone()),
                Some(key) => document.lines.extend(self.result(key, line, &mut conflicts)),
            }
        }
        let added = self.theirs.keys.iter().filter(|(_, key)| !self.ours.lines.contains_key(key));
        let added = added
            .filter_map(|(at, key)| {
                self.result(key, &self.theirs.document.lines[*at], &mut conflicts)
            })
            .collect::<Vec<_>>();
        document.insert_by_kind(added);
        document.end_last_line();
        Merged { bytes: document.render(), conflicts }
    }

    /// The final line of a record; `like` is its version on one side.
    fn result<'l>(
        &self,
        key: &Key,
        like: &Line<'l>,
        conflicts: &mut Vec<Conflict>,
    ) -> Option<Line<'l>> {
        match self.results.get(key)? {
            Outcome::Absent => None,
            Outcome::Line(text) if text.as_bytes() == like.content() => Some(like.clone()),
            Outcome::Line(text) => Some(like.with_content(text)),
            Outcome::Clash(clash) => {
                conflicts.push(Conflict { id: key.id(), clash: clash.clone() });
                let [ours, base, theirs] = [&self.ours, &self.base, &self.theirs]
                    .map(|side| side.text(key).map(|line| format!("{line}\n")).unwrap_or_default());
                let block = format!(
                    "<<<<<<< ours\n{ours}||||||| base\n{base}=======\n{theirs}>>>>>>> theirs\n"
                );
                Some(Line::block(block, like.record.clone()))
            }
        }
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
