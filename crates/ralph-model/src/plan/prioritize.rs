//! Assigns priorities to pending tasks: those with many dependents first, polish last.
//!
//! An existing priority is kept. The rules use the name, the number of direct dependents, and the length of the
//! dependency chains before and after the task.

use std::collections::HashMap;

use super::edit::MemberEdit;
use super::task_fields::{Priority, Status};
use super::{Change, Plan, PlanError};

const POLISH: &[&str] = &[
    "doc",
    "documentation",
    "readme",
    "comment",
    "cleanup",
    "clean up",
    "lint",
    "format",
    "formatting",
    "typo",
];
const SMALL: &[&str] =
    &["rename", "fix typo", "update", "add flag", "add field", "change", "alias", "tweak"];
const LARGE: &[&str] =
    &["refactor", "redesign", "rewrite", "implement", "overhaul", "migrate", "architecture"];

/// The dependency relations of a task with other pending ones.
#[derive(Clone, Copy, Debug, Default)]
struct Links {
    /// The number of direct dependents.
    blocks: usize,
    /// The longest chain of dependents.
    after: usize,
    /// The longest chain of dependencies.
    before: usize,
}

impl Links {
    fn priority(self, name: &str) -> Priority {
        let small = mentions(name, SMALL) && !mentions(name, LARGE);
        if mentions(name, POLISH) {
            Priority::Low
        } else if self.after >= 2
            || (self.before + self.after >= 2 && self.blocks >= 1)
            || (small && self.blocks >= 1)
            || self.blocks >= 3
        {
            Priority::High
        } else {
            Priority::Medium
        }
    }
}

/// Whether a name contains one of the words, singular or plural, as a whole word.
fn mentions(name: &str, words: &[&str]) -> bool {
    let name = name.to_lowercase();
    words.iter().any(|word| {
        name.match_indices(word).any(|(at, _)| {
            let before = name[..at].chars().next_back();
            let after = &name[at + word.len()..];
            let after = after.strip_prefix('s').unwrap_or(after).chars().next();
            !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
        })
    })
}

impl Plan<'_> {
    /// Sets the priority of every pending task of the current spec that has none.
    pub fn prioritize(&mut self) -> Result<Change, PlanError> {
        self.writable()?;
        let pending: Vec<usize> = self.with_status(Status::Pending).collect();
        let links = self.links(&pending);
        let mut counts = [0_usize; 3];
        let mut edits = Vec::new();
        for (at, links) in pending.into_iter().zip(links) {
            let task = self.task_at(at);
            if task.priority.is_none() {
                let priority = links.priority(&task.name);
                counts[priority as usize] += 1;
                edits.push((at, priority));
            }
        }
        if edits.is_empty() {
            return Ok(Change::Nothing);
        }
        for (at, priority) in edits {
            self.document.edit(at, &[MemberEdit::text("priority", priority.name())]);
        }
        let [high, medium, low] = counts;
        Ok(self.finish(Change::Prioritized { high, medium, low }))
    }

    /// Returns the relations of each task; chains end at cycles.
    fn links(&self, pending: &[usize]) -> Vec<Links> {
        let heads: Vec<_> =
            pending.iter().filter_map(|at| self.document.lines[*at].head()).collect();
        let nodes: HashMap<&str, usize> =
            heads.iter().enumerate().rev().map(|(node, head)| (&*head.id, node)).collect();
        let deps: Vec<Vec<usize>> = heads
            .iter()
            .map(|head| head.deps.iter().filter_map(|id| nodes.get(&**id).copied()).collect())
            .collect();
        let mut links = vec![Links::default(); heads.len()];
        let mut dependents = vec![Vec::new(); heads.len()];
        for (node, deps) in deps.iter().enumerate() {
            for &on in deps {
                links[on].blocks += 1;
                dependents[on].push(node);
            }
        }
        let mut unmet: Vec<usize> = deps.iter().map(Vec::len).collect();
        let mut taken: Vec<usize> = (0..heads.len()).filter(|node| unmet[*node] == 0).collect();
        let mut at = 0;
        while let Some(&node) = taken.get(at) {
            at += 1;
            for &dependent in &dependents[node] {
                links[dependent].before = links[dependent].before.max(links[node].before + 1);
                unmet[dependent] -= 1;
                if unmet[dependent] == 0 {
                    taken.push(dependent);
                }
            }
        }
        for &node in taken.iter().rev() {
            for &on in &deps[node] {
                links[on].after = links[on].after.max(links[node].after + 1);
            }
        }
        links
    }
}
