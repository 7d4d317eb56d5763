//! Reflogs that a run shortened. Commits that only they referred to cannot be restored once git has pruned them, so they are reported.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::compare::{BoundaryFinding, BoundaryReport, FindingKind, Watch};
use super::refs::Refs;
use super::walk::{WalkStep, walk};
use crate::git::{RepositoryLocation, ref_name, shown};

/// How much of the end of a log is looked at: more than its last line.
const END: u64 = 4 << 10;
/// Larger logs are not read.
const LARGEST: u64 = 64 << 20;
const HEADS: &str = "logs/refs/heads";

/// The end of a log before a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LogEnd {
    /// The path in the git directory.
    name: String,
    length: u64,
    /// The newest line. Git expires old entries by itself, but not that one.
    newest: String,
}

/// Notes the logs of `HEAD` and of branches.
pub(super) fn log_ends(place: &RepositoryLocation) -> Vec<LogEnd> {
    let mut ends = Vec::new();
    let mut note = |name: String, path: &Path| {
        if let Some((length, end)) = end_of(path)
            && let Some(line) = end.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty())
        {
            ends.push(LogEnd { name, length, newest: ref_name(line) });
        }
    };
    note("logs/HEAD".to_owned(), place.git_dir.join("logs/HEAD").as_std_path());
    let common = place.common_dir.as_std_path();
    walk(&common.join(HEADS), &mut |path, _, stamp| {
        if stamp.kind().is_file()
            && let Ok(name) = path.strip_prefix(common)
        {
            note(ref_name(name.as_os_str().as_encoded_bytes()), path);
        }
        WalkStep::Enter
    });
    ends
}

/// Returns the length of a file and its last bytes.
fn end_of(path: &Path) -> Option<(u64, Vec<u8>)> {
    let mut file = open(path)?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(END))).ok()?;
    let mut end = Vec::new();
    file.take(END).read_to_end(&mut end).ok()?;
    Some((length, end))
}

/// Opens a file; nothing that a run put in its place is followed or waited for.
fn open(path: &Path) -> Option<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().is_ok_and(|found| found.is_file()).then_some(file)
}

impl LogEnd {
    /// Whether its newest line is not in the log any more.
    fn is_lost(&self, path: &Path) -> bool {
        let Some(mut file) = open(path) else { return true };
        let Ok(length) = file.metadata().map(|found| found.len()) else { return true };
        if length == self.length || length > LARGEST {
            return false;
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).is_ok() && !ref_name(&text).contains(&self.newest)
    }
}

impl Watch {
    /// Tells which logs of `HEAD`, and of branches that are still there, have lost their newest entries.
    pub(super) fn tell_of_logs(
        &self,
        ends: &[LogEnd],
        place: &RepositoryLocation,
        now: &Refs,
        report: &mut BoundaryReport,
    ) {
        for end in ends {
            let reference = end.name.trim_start_matches("logs/");
            let is_head = reference == "HEAD";
            let directory = if is_head { &place.git_dir } else { &place.common_dir };
            let path = directory.join(&end.name);
            if (is_head || now.contains_key(reference)) && end.is_lost(path.as_std_path()) {
                let path = path.strip_prefix(&self.workspace).unwrap_or(&path);
                let path = shown(path.as_std_path());
                report.left.push(BoundaryFinding { path, what: FindingKind::Changed });
            }
        }
    }
}
