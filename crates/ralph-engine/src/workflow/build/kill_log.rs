//! How the plan names the log of a run that was killed: never by a path of this machine, as others read the plan too.
//!
//! Its path is relative to the workspace; if home is elsewhere, to home; if logs are in private state, to that.

use camino::{Utf8Path, Utf8PathBuf};

use crate::files::disk;

/// The places from which a log may be named, the first that holds it.
pub(super) struct LogBases<'a> {
    pub(super) workspace: &'a Utf8Path,
    pub(super) home: &'a Utf8Path,
    pub(super) private: &'a Utf8Path,
}

impl LogBases<'_> {
    /// Returns how the plan names a log.
    pub(super) fn name(&self, log: &Utf8Path) -> String {
        let bases = [self.workspace, self.home, self.private];
        let mut inside = bases.iter().filter_map(|base| log.strip_prefix(base).ok());
        // A home that the configuration names from the workspace may still lie outside of it.
        let inside = inside.find(|name| !name.components().any(|part| part.as_str() == ".."));
        // Kept nowhere that others know of, its own name is all that could mean anything to them.
        inside.unwrap_or_else(|| log.file_name().map_or(log, Utf8Path::new)).to_string()
    }

    /// Returns what an agent in the workspace reads a log by that the plan names.
    pub(super) fn find(&self, name: &str) -> Utf8PathBuf {
        if disk::exists(&self.workspace.join(name)) {
            return name.into();
        }
        let mut elsewhere = [self.home, self.private].into_iter().map(|base| base.join(name));
        elsewhere.find(|log| disk::exists(log)).unwrap_or_else(|| name.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_named_from_the_first_place_that_holds_it_and_found_by_that_name() {
        let directory = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(directory.path()).unwrap();
        let (workspace, home, private) = (root.join("work"), root.join("home"), root.join("state"));
        let bases = LogBases { workspace: &workspace, home: &home, private: &private };
        for (log, name, found) in [
            ("work/ralph/runs/1.log", "ralph/runs/1.log", "ralph/runs/1.log"),
            ("home/runs/2.log", "runs/2.log", "home/runs/2.log"),
            ("state/runs/3.log", "runs/3.log", "state/runs/3.log"),
        ] {
            let log = root.join(log);
            std::fs::create_dir_all(log.parent().unwrap()).unwrap();
            std::fs::write(&log, "").unwrap();
            assert_eq!(bases.name(&log), name);
            let expected = if found == name { found.into() } else { root.join(found) };
            assert_eq!(bases.find(name), expected);
        }
        let beside = workspace.join("../home");
        let from_beside = LogBases { home: &beside, ..bases };
        assert_eq!(from_beside.name(&beside.join("runs/2.log")), "runs/2.log");
        let bases = LogBases { home: &home, ..from_beside };
        assert_eq!(bases.name(Utf8Path::new("/elsewhere/4.log")), "4.log");
        assert_eq!(bases.find("gone.log"), "gone.log");
    }
}
