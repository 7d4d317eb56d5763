//! The baseline: what everything that is watched looked like before a run, and what is needed to put it back.
//!
//! It is kept from run to run. Before each run only what changed since the last one is taken in anew, so that a run in
//! which nothing changed costs a look at each file and nothing else. It lies in private state as a log of [`record`]s; a
//! later record of a path replaces the earlier. A Ralph that died leaves it to the next one, so it is written before the
//! run starts. It means nothing after a reboot and is never forced to disk.
//!
//! [`record`]: super::record

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::protected::{Class, Watched, included, is_sample};
use super::record::{Kept, RecordKept, Recorded, Records, append, read_content};
use super::tree_status::TreeStatus;
use super::walk::{Listed, Stamp, WalkStep, walk, walk_named};
use crate::clock::{Clock, SystemClock};
use crate::files::{PathError, remove_optional};
use crate::git::Git;

/// The largest file of the work tree that is kept, and how much is kept of all of them.
const TREE_CAP: u64 = 32 << 20;
const TREE_TOTAL: u64 = 512 << 20;
/// How long the log may become before it is written anew.
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
        }
    }
}

/// What there is to look at for a run.
pub(super) struct BaselineScope<'a> {
    pub(super) watched: Vec<Watched>,
    /// The workspace.
    pub(super) tree: &'a Utf8Path,
    /// What the harness itself writes there while a run goes on.
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
    /// How the tree has been taken in so far.
    tree: Option<Scope>,
    tree_bytes: u64,
    /// The tree as it was walked when it was last taken in, in that order: the usual walk finds it again, word for word.
    sequence: Vec<(OsString, Stamp)>,
    /// The directories of that walk, if all of them had been left alone for long enough to tell by their times whether
    /// they still are; else none.
    listed: Vec<Listed>,
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
            sequence: Vec::new(),
            listed: Vec::new(),
        }
    }

    /// Reads what a dead Ralph left. A record that was cut short ends the log.
    pub(super) fn load(path: &Utf8Path) -> io::Result<Baseline> {
        let mut baseline = Baseline::new(path.to_owned());
        let mut bytes = Vec::new();
        let file = File::open(path)?;
        (&file).read_to_end(&mut bytes)?;
        let mut records = Records::new(&bytes);
        for Recorded { path, class, stamp, kept } in &mut records {
            match stamp {
                // A directory that was passed over is a record of its own: nothing below it is known.
                Some(stamp) if stamp.kind().is_dir() && kept == Kept::Ignored => {
                    baseline.passed.insert(path.to_owned());
                }
                Some(stamp) => {
                    let name = path.file_name().unwrap_or_default();
                    baseline.samples |= class == Class::Settings && is_sample(name.as_bytes());
                    let entry = BaselineEntry { stamp, class, kept, seen: 0 };
                    baseline.entries.insert(path.into(), entry);
                }
                None => {
                    baseline.entries.remove(path.as_os_str());
                }
            }
        }
        baseline.end = records.end();
        baseline.log = Some(file);
        Ok(baseline)
    }

    pub(super) fn entry(&self, path: &Path) -> Option<&BaselineEntry> {
        self.entries.get(path.as_os_str())
    }

    /// Names the entries of a class.
    pub(super) fn of_class(&self, class: Class) -> impl Iterator<Item = (&Path, &BaselineEntry)> {
        let entries = self.entries.iter().filter(move |(_, entry)| entry.class == class);
        entries.map(|(path, entry)| (Path::new(path), entry))
    }

    /// Reads a content that was kept in the log.
    pub(super) fn bytes(&self, kept: &Kept) -> Option<Vec<u8>> {
        let Kept::Bytes { offset, length } = kept else { return None };
        let mut bytes = vec![0; usize::try_from(*length).ok()?];
        self.log.as_ref()?.read_exact_at(&mut bytes, *offset).ok()?;
        Some(bytes)
    }

    /// Takes in how everything looks now.
    pub(super) fn take(
        &mut self,
        field: &BaselineScope<'_>,
        gits: &[Git],
    ) -> Result<(), PathError> {
        let scope = field.scope;
        let first = scope.tree && self.tree.is_none_or(|known| scope.contents && !known.contents);
        let mut status = None;
        if first {
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

    /// Looks at everything. `walked` takes the tree in the order it was walked in, if that was necessary.
    fn differences(
        &mut self,
        field: &BaselineScope<'_>,
        status: Option<&TreeStatus>,
        walked: Option<&mut Vec<(OsString, Stamp)>>,
    ) -> Vec<Difference> {
        self.generation = self.generation.wrapping_add(1);
        let mut found = Vec::new();
        let samples = self.samples;
        for watched in &field.watched {
            let Watched { path, class, below } = watched;
            let Some(stamp) = Stamp::of(path) else { continue };
            if !*below || !stamp.kind().is_dir() {
                // A directory in the place of a file differs by its kind.
                self.look(path, &stamp, *class, &mut found);
                continue;
            }
            let hooks = watched.holds_hooks();
            let wanted = |name: &[u8]| !hooks || samples || !is_sample(name);
            walk_named(path, &wanted, &mut |path, name, stamp| {
                if !stamp.kind().is_dir() {
                    self.has_hooks |= hooks && !is_sample(name);
                    self.look(path, stamp, *class, &mut found);
                }
                WalkStep::Enter
            });
        }
        let unchanged = field.scope.tree && status.is_none() && self.is_tree_unchanged(field);
        if field.scope.tree && !unchanged {
            self.walk_tree(field, status, walked, &mut found);
        }
        let generation = self.generation;
        let unseen = self.entries.iter().filter(|(_, entry)| {
            entry.seen != generation
                && field.scope.covers(entry.class)
                && !(unchanged && entry.class == Class::Tree)
        });
        for (path, entry) in unseen {
            // Not found where it was looked for, or not looked for by name: an included file.
            let now = Stamp::of(Path::new(path));
            if now != Some(entry.stamp) {
                found.push(Difference { path: path.into(), class: entry.class, now });
            }
        }
        if !found.is_empty() {
            // What is listed under two names counts under the first.
            let mut listed = HashSet::new();
            found.retain(|difference| listed.insert(difference.path.clone()));
        }
        found
    }

    /// Whether a walk finds exactly what the last one found. Much cheaper than looking each file up.
    fn is_tree_unchanged(&mut self, field: &BaselineScope<'_>) -> bool {
        // Directories come first: they are few, and where one has changed the tree is walked all the same.
        if !self.listed.is_empty() && self.listed.iter().all(Listed::is_same) {
            return self.are_files_unchanged(field.tree.as_std_path());
        }
        let began = SystemClock.now().as_second();
        let mut expected = self.sequence.iter();
        let mut unchanged = !self.sequence.is_empty();
        let listed = walk(field.tree.as_std_path(), &mut |path, name, stamp| {
            if !unchanged || self.is_passed(field, path, name, stamp) {
                return WalkStep::Pass;
            }
            unchanged = expected
                .next()
                .is_some_and(|(known, before)| known == path.as_os_str() && before == stamp);
            WalkStep::Enter
        });
        unchanged &= expected.next().is_none();
        if unchanged {
            self.remember(listed, began);
        }
        unchanged
    }

    /// Whether everything of the last walk looks as it did then: two fifths cheaper than to list every directory again.
    fn are_files_unchanged(&self, root: &Path) -> bool {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(directory) = openat(CWD, root, flags, Mode::empty()) else { return false };
        self.sequence.iter().all(|(path, before)| {
            let below = Path::new(path).strip_prefix(root);
            below.is_ok_and(|path| Stamp::below(&directory, path).as_ref() == Some(before))
        })
    }

    /// Keeps the directories of a walk, if their times will tell of every change.
    fn remember(&mut self, listed: Vec<Listed>, began: i64) {
        let settled = listed.iter().all(|directory| directory.is_settled(began));
        self.listed = if settled { listed } else { Vec::new() };
    }

    /// Whether something in the tree is not for us to look at.
    fn is_passed(
        &self,
        field: &BaselineScope<'_>,
        path: &Path,
        name: &[u8],
        stamp: &Stamp,
    ) -> bool {
        name == b".git"
            || stamp.kind().is_dir() && self.passed.contains(path)
            || field.exempt.iter().any(|exempt| exempt.as_os_str() == path.as_os_str())
    }

    fn walk_tree(
        &mut self,
        field: &BaselineScope<'_>,
        status: Option<&TreeStatus>,
        mut walked: Option<&mut Vec<(OsString, Stamp)>>,
        found: &mut Vec<Difference>,
    ) {
        let began = SystemClock.now().as_second();
        let is_taken = walked.is_some();
        let listed = walk(field.tree.as_std_path(), &mut |path, name, stamp| {
            if self.is_passed(field, path, name, stamp) {
                return WalkStep::Pass;
            }
            if stamp.kind().is_dir()
                && status.is_some_and(|status| !status.directories.contains(path))
            {
                self.passed.insert(path.to_owned());
                return WalkStep::Pass;
            }
            if let Some(walked) = &mut walked {
                walked.push((path.into(), *stamp));
            }
            self.look(path, stamp, Class::Tree, found);
            WalkStep::Enter
        });
        if is_taken {
            self.remember(listed, began);
        }
    }

    fn look(&mut self, path: &Path, stamp: &Stamp, class: Class, found: &mut Vec<Difference>) {
        match self.entries.get_mut(path.as_os_str()) {
            // What is listed under two names keeps the first.
            Some(entry) if entry.seen == self.generation => {}
            Some(entry) => {
                entry.seen = self.generation;
                if entry.stamp != *stamp {
                    let class = entry.class;
                    found.push(Difference { path: path.to_owned(), class, now: Some(*stamp) });
                }
            }
            None => found.push(Difference { path: path.to_owned(), class, now: Some(*stamp) }),
        }
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
        while let Some(Difference { path, class, now }) = open.pop() {
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
                        open.push(Difference { path, class: Class::Settings, now: Some(stamp) });
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
        match read_content(path, stamp) {
            Some(content) => (RecordKept::Bytes(content.len() as u64), content),
            None => nothing,
        }
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        if self.log.is_none() {
            let mut open = OpenOptions::new();
            open.read(true).write(true).create(true).truncate(true).mode(0o600);
            self.log = Some(open.open(&self.path)?);
        }
        let log = self.log.as_ref().expect("the log was opened above");
        log.write_all_at(text, self.end)?;
        self.end += text.len() as u64;
        Ok(())
    }

    /// Writes the log anew, with nothing in it that was replaced.
    fn rewrite(&mut self) -> io::Result<()> {
        let path = self.path.with_extension("new");
        let mut fresh = Baseline::new(path.clone());
        let entries = std::mem::take(&mut self.entries);
        for (path, mut entry) in entries {
            let content = self.bytes(&entry.kept).unwrap_or_default();
            let kept = RecordKept::of(&entry.kept);
            let mut text = Vec::new();
            append(&mut text, Path::new(&path), entry.class, Some(entry.stamp), &kept, &content);
            fresh.write(&text)?;
            entry.kept = kept.at(fresh.end - content.len() as u64);
            self.entries.insert(path, entry);
        }
        fs::rename(&path, &self.path)?;
        (self.log, self.end) = (fresh.log.take(), fresh.end);
        Ok(())
    }

    /// Takes in what was left or put back after a run, so that the next comparison does not find it again.
    pub(super) fn forget(&mut self, path: &Path) {
        self.entries.remove(path.as_os_str());
    }
}

impl Drop for Baseline {
    fn drop(&mut self) {
        if self.log.is_some() {
            let _ = remove_optional(&self.path);
        }
    }
}

fn names_config(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "config" || name == "config.worktree")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, Instant};

    use super::*;

    /// A tree that was taken in, with directories whose times are believed however young they are.
    fn taken(root: &Utf8Path) -> (Baseline, BaselineScope<'_>) {
        let scope = Scope { tree: true, contents: false, private: false };
        let field = BaselineScope { watched: Vec::new(), tree: root, exempt: Vec::new(), scope };
        let mut baseline = Baseline::new(root.with_extension("log"));
        baseline.take(&field, &[]).unwrap();
        assert!(baseline.listed.is_empty(), "they changed a moment ago");
        let listed = walk(root.as_std_path(), &mut |_, _, _| WalkStep::Enter);
        baseline.remember(listed, i64::MAX);
        (baseline, field)
    }

    /// Waits until the file system's clock ticks: until then a change can have the time of the one before it.
    fn wait_for_a_tick(probe: &Utf8Path) {
        let now = || {
            fs::write(probe, "").unwrap();
            Stamp::of(probe.as_std_path()).unwrap().ctime
        };
        let (before, deadline) = (now(), Instant::now() + Duration::from_secs(10));
        while now() == before {
            assert!(Instant::now() < deadline, "the clock stands still");
        }
    }

    #[test]
    fn directories_that_are_not_listed_again_hide_no_change() {
        let parent = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::try_from(parent.path().canonicalize().unwrap()).unwrap().join("r");
        fs::create_dir_all(root.join("a/b")).unwrap();
        let file = root.join("a/b/file");
        let changes: [&dyn Fn(); 5] = [
            &|| fs::write(&file, "2").unwrap(),
            &|| fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap(),
            &|| fs::set_permissions(root.join("a"), fs::Permissions::from_mode(0o700)).unwrap(),
            &|| fs::write(root.join("a/new"), "").unwrap(),
            &|| fs::remove_file(&file).unwrap(),
        ];
        for (number, change) in changes.iter().enumerate() {
            fs::write(&file, "1").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
            let _ = fs::remove_file(root.join("a/new"));
            let (mut baseline, field) = taken(&root);
            assert!(baseline.is_tree_unchanged(&field) && !baseline.listed.is_empty());
            wait_for_a_tick(&root.with_extension("probe"));
            change();
            assert!(!baseline.is_tree_unchanged(&field), "change {number} is not seen");
        }
    }
}
