//! What a run leaves in a git directory with which git would never finish, nor whoever else reads there: pipes, files of
//! terabytes (which take no space where they are sparse), and a `HEAD` that is not a file. It is put right before anything is
//! asked of the repository.

use std::fs;
use std::path::{Path, PathBuf};

use camino::Utf8Path;

use super::compare::{BoundaryFinding, BoundaryReport, FindingKind, Watch};
use super::protected::endless_files_in;
use super::restore::Saver;
use crate::files::create_new;
use crate::git::{RepositoryLocation, read_regular, shown};

impl Watch {
    /// Removes endless files, and puts `HEAD` back where there is none any more: without it there is no repository.
    pub(super) fn unblock_git(
        &self,
        before_repair: &dyn Fn(),
        saver: &mut Saver<'_>,
        report: &mut BoundaryReport,
    ) {
        for place in &self.places {
            let (head, lost_head) = (place.git_dir.join("HEAD"), self.lost_head(place));
            for path in endless(place) {
                before_repair();
                // There is nothing in it to keep.
                let is_gone = fs::remove_file(&path).is_ok();
                if path != head || lost_head.is_none() {
                    self.tell_of(&path, is_gone, report);
                }
            }
            if let Some(text) = lost_head {
                before_repair();
                let is_back = saver.put_away(head.as_std_path()).is_ok()
                    && create_new(&head, text.as_bytes()).is_ok();
                self.tell_of(head.as_std_path(), is_back, report);
            }
        }
    }

    /// Returns the content that `HEAD` had, if there is none any more.
    fn lost_head(&self, place: &RepositoryLocation) -> Option<String> {
        let before = self.refs.iter().find(|known| known.common_dir == place.common_dir)?;
        let head = before.head.as_ref()?;
        let path = place.git_dir.join("HEAD");
        let is_lost = match read_regular(path.as_std_path()) {
            Ok(found) => found.is_none(),
            // The directory may be closed, and is opened later.
            Err(_) => path.symlink_metadata().is_ok(),
        };
        is_lost.then(|| format!("{head}\n"))
    }

    fn tell_of(&self, path: &Path, done: bool, report: &mut BoundaryReport) {
        let path = shown(path.strip_prefix(&self.workspace).unwrap_or(path));
        let found = BoundaryFinding { path, what: FindingKind::Changed };
        if done {
            report.put_back.push(found);
        } else {
            report.violations.push(found.clone());
            report.left.push(found);
        }
    }
}

fn endless(place: &RepositoryLocation) -> Vec<PathBuf> {
    let mut directories: Vec<&Utf8Path> = vec![&place.git_dir, &place.common_dir];
    directories.dedup();
    directories.into_iter().flat_map(endless_files_in).collect()
}
