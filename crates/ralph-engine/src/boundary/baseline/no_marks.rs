//! Where the kernel has no marks for files, everything is looked at each time.

use std::path::{Path, PathBuf};

pub(super) use self::NoMarks as Marks;

/// There are none here.
#[derive(Debug, Default)]
pub(super) struct NoMarks;

impl NoMarks {
    pub(super) fn are_worthwhile(&self, _files: usize) -> bool {
        false
    }

    pub(super) fn is_quiet(&mut self, _root: &Path) -> bool {
        false
    }

    pub(super) fn put(&mut self, _root: &Path, _below: &[PathBuf]) {}

    pub(super) fn found_unchanged(&mut self, _root: &Path) {}
}
