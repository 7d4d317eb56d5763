//! Tells from a plan's history in git that all tasks of a spec were accepted.
//!
//! A finished plan and one that nobody has planned yet look alike: neither has tasks. Private state records which spec
//! was planned; where it was lost, or in a fresh clone, the history of the plan is all there is.

use camino::Utf8Path;
use ralph_model::history::What;

use super::past::{Past, PastError, Tip};
use crate::files::read_optional;
use crate::git::{GitProgram, Oid, real_directory};
use crate::specs;

/// Where the plan and the spec are.
#[derive(Clone, Debug)]
pub struct PlanPlace<'a> {
    pub program: GitProgram,
    /// The person's home.
    pub home: &'a Utf8Path,
    /// The workspace.
    pub root: &'a Utf8Path,
    /// The branch whose plan it is; `None` for the one that is checked out.
    pub branch: Option<&'a str>,
}

impl PlanPlace<'_> {
    /// Whether tasks of a spec were accepted, and the spec reads as it did then. A history that cannot be read shows
    /// nothing.
    pub(crate) fn has_finished(&self, spec: &str) -> bool {
        self.find_finished(spec).unwrap_or(false)
    }

    fn find_finished(&self, spec: &str) -> Result<bool, PastError> {
        let Some(past) = Past::of(&self.program, self.home, None) else { return Ok(false) };
        let tip = match self.branch {
            Some(branch) => Some(past.named(branch)?),
            None => past.here()?,
        };
        let Some(tip) = tip else { return Ok(false) };
        let Some(accepted) = last_accepted(&past, &tip, spec)? else { return Ok(false) };
        let path = specs::locate(self.home, self.root, spec);
        let worktree = past.git().place().worktree.clone();
        let inside = path.parent().and_then(real_directory).and_then(|directory| {
            let path = directory.join(path.file_name()?);
            path.strip_prefix(worktree?).ok().map(Utf8Path::to_owned)
        });
        let Some(inside) = inside else { return Ok(false) };
        let then = past.git().file_at(&accepted, inside.as_std_path())?;
        Ok(then.is_some() && read_optional(&path).is_ok_and(|now| now == then))
    }
}

/// Returns the commit at which the last task of a spec was accepted.
fn last_accepted(past: &Past, tip: &Tip, spec: &str) -> Result<Option<Oid>, PastError> {
    let history = past.history(tip)?;
    let tasks = history.tasks().filter(|(_, task)| task.spec == spec);
    let ends = tasks.filter_map(|(_, task)| task.events.last());
    let accepted = ends.filter(|event| event.what == What::Accepted);
    let last = accepted.max_by_key(|event| event.number);
    Ok(last.and_then(|event| Oid::parse(event.commit.as_str().as_bytes())))
}
