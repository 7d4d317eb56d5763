//! How much a run committed, for people: nothing is decided by it, so what cannot be told is left out.

use ralph_model::journal::ChangeSize;

use super::Run;
use crate::boundary::endless_files_in;
use crate::git::change_size::{Distance, checked_out};
use crate::git::slot::check_files;
use crate::git::{Git, Oid, RepositoryLocation};

impl Run<'_, '_> {
    /// Returns where every repository stands that the run may commit in.
    pub(super) fn standing(&self) -> Vec<Option<Oid>> {
        if !self.request.role.writes_workspace() {
            return Vec::new();
        }
        self.context.work_places().iter().map(checked_out).collect()
    }

    /// Returns how much was committed since, where anything was.
    pub(super) fn changed_since(&self, standing: &[Option<Oid>]) -> Option<ChangeSize> {
        let mut sum = ChangeSize::default();
        for (place, then) in self.context.work_places().iter().zip(standing) {
            let Some(now) = checked_out(place).filter(|now| Some(now) != then.as_ref()) else {
                continue;
            };
            if !self.can_be_asked(place) {
                return None;
            }
            let git = Git::at(self.context.environment.git(), place.clone());
            let Distance { commits, files, added, removed } =
                git.distance(then.as_ref(), &now).ok()?;
            sum.commits += commits;
            sum.files += files;
            sum.added += added;
            sum.removed += removed;
        }
        (sum != ChangeSize::default()).then_some(sum)
    }

    /// Whether git can process what the run left without hanging; not checked yet at this point.
    fn can_be_asked(&self, place: &RepositoryLocation) -> bool {
        match self.context.slot {
            Some(_) => check_files(&place.git_dir).is_ok(),
            None => endless_files_in(&place.git_dir).is_empty(),
        }
    }
}
