//! The baseline: what everything that is watched looked like before a run, and what is needed to put it back.
//!
//! It is kept from run to run. Before each run only changed files are recorded again, so that a run after which nothing
//! changed costs one `stat` per file, or nothing where the kernel tells that nothing happened ([`marks`]). It is stored in private state as a log of [`record`]s; a later record of a path
//! replaces the earlier. The log is complete before the run starts: if Ralph is killed, the next start compares with it.
//! It is worthless after a reboot and therefore never synced to disk.
//!
//! [`scan`] finds what differs from it, [`log`] reads and writes its file.
//!
//! [`record`]: super::record

mod log;
#[cfg_attr(not(target_os = "linux"), path = "baseline/no_marks.rs")]
mod marks;
mod scan;

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use camino::{Utf8Path, Utf8PathBuf};

use self::marks::Marks;
use super::protected::{Class, Watched, included};
use super::record::{Kept, RecordKept, append, read_content};
use super::tree_status::TreeStatus;
use super::walk::{Listed, Stamp};
use crate::files::PathError;
use crate::git::Git;

/// The largest file of the work tree that is kept, and how much is kept of all of them.
const TREE_CAP: u64 = 32 << 20;
const TREE_TOTAL: u64 = 512 << 20;
/// The same for the files of agents, among which programs may be.
const AGENT_CAP: u64 = 4 << 20;
const AGENT_TOTAL: u64 = 128 << 20;
/// How long the log may become before it is rewritten.
const LOG_CAP: u64 = 64 << 20;

/// One file as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BaselineEntry {
    pub(super) stamp: Stamp,
    pub(super) class: Class,
    pub(super) kept: Kept,
    seen: u32,
}

/// A path that is not as the baseline has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) path: PathBuf,
    pub(super) class: Class,
    pub(super) now: Option<Stamp>,
    /// It is a directory that cannot be looked through.
    pub(super) is_unread: bool,
}

impl Difference {
    fn new(path: impl Into<PathBuf>, class: Class, now: Option<Stamp>) -> Difference {
        Difference { path: path.into(), class, now, is_unread: false }
    }
}

/// Which part of the baseline a run needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    /// The work tree and refs.
    pub(super) tree: bool,
    /// Contents of the work tree: where the kernel does not keep the run from changing them.
    pub(super) contents: bool,
    pub(super) private: bool,
}

impl Scope {
    fn covers(self, class: Class) -> bool {
        match class {
            Class::Settings | Class::State | Class::Agent | Class::People => true,
            Class::Refs | Class::Tree => self.tree,
            Class::Private => self.private,
            // Looked at by itself.
            Class::Outside => false,
        }
    }
}

/// What there is to look at for a run.
pub(super) struct BaselineScope<'a> {
    pub(super) watched: Vec<Watched>,
    /// The workspace.
    pub(super) tree: &'a Utf8Path,
    /// What the harness itself writes there during a run.
    pub(super) exempt: Vec<PathBuf>,
    pub(super) scope: Scope,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Baseline {
    path: Utf8PathBuf,
    log: Option<File>,
    end: u64,
    /// By the bytes of their paths, which are hashed for every file of the tree.
    entries: HashMap<OsString, BaselineEntry>,
    generation: u32,
    /// There is a hook that git runs.
    has_hooks: bool,
    /// The examples among the hooks are looked at: only where there is a hook that might make use of them.
    samples: bool,
    /// Directories that git ignores: not walked.
    passed: HashSet<PathBuf>,
    /// The scope that the tree has been recorded with so far.
    tree: Option<Scope>,
    tree_bytes: u64,
    agent_bytes: u64,
    /// The last recorded walk of the tree, in walking order: a walk of an unchanged tree yields the same sequence.
    sequence: Vec<(OsString, Stamp)>,
    /// The files of each watched directory when it was last recorded, in walking order.
    watched: HashMap<PathBuf, Vec<(OsString, Stamp)>>,
    /// The directories of that walk, if all of them had been left alone for long enough to tell by their times whether
    /// they still are; else none.
    listed: Vec<Listed>,
    /// Watched directories that were as recorded when a baseline was last taken: these are worth a mark.
    calm: HashSet<PathBuf>,
    marks: Marks,
    /// Entries that lie in none of these watched directories, until an entry comes or goes.
    loose: Option<(Vec<PathBuf>, Vec<OsString>)>,
}

impl Baseline {
    /// Starts with nothing; the log is made when there is something to write.
    pub(crate) fn new(path: Utf8PathBuf) -> Baseline {
        Baseline {
            path,
            log: None,
            end: 0,
            entries: HashMap::new(),
            generation: 0,
            has_hooks: false,
            samples: false,
            passed: HashSet::new(),
            tree: None,
            tree_bytes: 0,
            agent_bytes: 0,
            sequence: Vec::new(),
            watched: HashMap::new(),
            listed: Vec::new(),
            calm: HashSet::new(),
            marks: Marks::default(),
            loose: None,
        }
    }

    /// Returns how long its log is.
    pub(crate) fn length(&self) -> u64 {
        self.end
    }

    pub(super) fn entry(&self, path: &Path) -> Option<&BaselineEntry> {
        self.entries.get(path.as_os_str())
    }

    /// Names the entries of a class.
    pub(super) fn of_class(&self, class: Class) -> impl Iterator<Item = (&Path, &BaselineEntry)> {
        let entries = self.entries.iter().filter(move |(_, entry)| entry.class == class);
        entries.map(|(path, entry)| (Path::new(path), entry))
    }

    /// Records how everything looks now.
    pub(super) fn take(
        &mut self,
        field: &BaselineScope<'_>,
        gits: &[Git],
    ) -> Result<(), PathError> {
        let scope = field.scope;
        let first = scope.tree && self.tree.is_none_or(|known| scope.contents && !known.contents);
        let mut status = None;
        if first {
            self.loose = None;
            self.entries.retain(|_, entry| entry.class != Class::Tree);
            self.passed.clear();
            self.tree_bytes = 0;
            status = TreeStatus::of(gits);
            self.tree = Some(scope);
        }
        let mut walked = Vec::new();
        let mut differences = self.differences(field, status.as_ref(), Some(&mut walked));
        if self.has_hooks && !self.samples {
            self.samples = true;
            walked.clear();
            // What was walked is not recorded yet.
            self.watched.clear();
            differences = self.differences(field, status.as_ref(), Some(&mut walked));
        }
        let is_new_directory = |found: &Difference| {
            found.class == Class::Tree
                && found.now.is_some_and(|now| now.kind().is_dir())
                && self.entry(&found.path).is_none()
        };
        if !first && differences.iter().any(is_new_directory) {
            // It may be one that git ignores, and full of what a build made.
            self.tree = None;
            self.watched.clear();
            return self.take(field, gits);
        }
        if !walked.is_empty() {
            self.sequence = walked;
        }
        self.absorb(differences, field, status.as_ref())
            .map_err(|source| PathError::new("write", &self.path, source))
    }

    /// Returns every path that is not as the baseline has it.
    pub(super) fn compare(&mut self, field: &BaselineScope<'_>) -> Vec<Difference> {
        self.differences(field, None, None)
    }

    fn absorb(
        &mut self,
        differences: Vec<Difference>,
        field: &BaselineScope<'_>,
        status: Option<&TreeStatus>,
    ) -> io::Result<()> {
        if differences.is_empty() {
            return Ok(());
        }
        self.loose = None;
        if self.end > LOG_CAP + 2 * self.tree_bytes {
            self.rewrite()?;
        }
        let mut text = Vec::new();
        if status.is_some() {
            for path in &self.passed {
                let stamp = Stamp::of(path);
                append(&mut text, path, Class::Tree, stamp, &RecordKept::Ignored, &[]);
            }
        }
        let mut open = differences;
        while let Some(Difference { path, class, now, .. }) = open.pop() {
            let Some(stamp) = now else {
                append(&mut text, &path, class, None, &RecordKept::Nothing, &[]);
                self.entries.remove(path.as_os_str());
                continue;
            };
            let (kept, content) = self.keep(&path, class, &stamp, field.scope, status);
            if class == Class::Settings && names_config(&path) {
                for path in included(&path, &content) {
                    let inside =
                        path.starts_with(field.tree) || self.entries.contains_key(path.as_os_str());
                    if let Some(stamp) = Stamp::of(&path).filter(|_| inside)
                        && self
                            .entries
                            .get(path.as_os_str())
                            .is_none_or(|known| known.class == Class::Tree)
                    {
                        open.push(Difference::new(path, Class::Settings, Some(stamp)));
                    }
                }
            }
            append(&mut text, &path, class, Some(stamp), &kept, &content);
            let kept = kept.at(self.end + (text.len() - content.len()) as u64);
            let path = path.into_os_string();
            self.entries.insert(path, BaselineEntry { stamp, class, kept, seen: self.generation });
            if text.len() > 4 << 20 {
                self.write(&text)?;
                text.clear();
            }
        }
        self.write(&text)
    }

    /// Decides what to keep of a file, and reads it.
    fn keep(
        &mut self,
        path: &Path,
        class: Class,
        stamp: &Stamp,
        scope: Scope,
        status: Option<&TreeStatus>,
    ) -> (RecordKept, Vec<u8>) {
        let nothing = (RecordKept::Nothing, Vec::new());
        if class == Class::Tree {
            if let Some(status) = status.filter(|status| !status.directories.is_empty()) {
                if let Some(id) = status.objects.get(path) {
                    return (RecordKept::Object(id.clone()), Vec::new());
                }
                if !stamp.kind().is_dir() && !status.dirty.contains(path) {
                    return (RecordKept::Ignored, Vec::new());
                }
            }
            let size = u64::try_from(stamp.size).unwrap_or(u64::MAX);
            if !scope.contents || size > TREE_CAP || self.tree_bytes + size > TREE_TOTAL {
                return nothing;
            }
            self.tree_bytes += size;
        }
        if class == Class::Agent && !stamp.kind().is_dir() {
            let size = u64::try_from(stamp.size).unwrap_or(u64::MAX);
            if size > AGENT_CAP || self.agent_bytes + size > AGENT_TOTAL {
                return nothing;
            }
            self.agent_bytes += size;
        }
        match read_content(path, stamp) {
            Some(content) => (RecordKept::Bytes(content.len() as u64), content),
            None => nothing,
        }
    }

    /// Drops the entry of a path that was left or put back after a run, so that the next comparison does not find it again.
    pub(super) fn forget(&mut self, path: &Path) {
        self.loose = None;
        self.entries.remove(path.as_os_str());
        self.watched.retain(|root, _| !path.starts_with(root));
    }
}

fn names_config(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "config" || name == "config.worktree")
}
