//! What follows from the differences that a comparison found: judged one by one, saved, put back.
//!
//! Settings come first, then refs, then files: whatever asks git must find the repository as it was before the run.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use camino::Utf8Path;
use jiff::{SignedDuration, Timestamp};
use ralph_proc::end_note::FileTime;
use rustix::io::Errno;

use super::InForce;
use super::baseline::{Baseline, Difference};
use super::compare::{BoundaryFinding, BoundaryReport, FindingKind, Watch, is_later, is_ref_later};
use super::nested;
use super::protected::{
    Class, REBASE_STEPS, are_plain_steps, is_edited_by_hand, is_made_by_git, merged_config,
};
use super::record::{Kept, read_content};
use super::refs;
use super::restore::{
    Saver, displaced_files, open_to_owner, overwrite, put_back, put_permissions_back,
};
use super::walk::Stamp;
use crate::digest;
use crate::files::note::read_note;
use crate::git::undo::DisplacedFile;
use crate::git::{Git, GitProgram, Oid, RepositoryLocation, shown};
use crate::home::{CONFIG_FILE, INCLUDE_FILE};
use crate::state::State;

/// How far the time of a file may lie behind the clock.
const TICK: SignedDuration = SignedDuration::from_millis(50);

pub(super) struct Settlement<'a> {
    pub(super) watch: &'a Watch,
    /// When nothing of the run was left, where its Ralph died and that is known.
    pub(super) gone: Option<FileTime>,
    pub(super) baseline: &'a mut Baseline,
    pub(super) state: &'a State,
    pub(super) writable: Vec<PathBuf>,
    pub(super) saver: Saver<'a>,
    pub(super) report: BoundaryReport,
    /// Contents of clean files that changed, as the repository has them.
    pub(super) objects: HashMap<Oid, Vec<u8>>,
    /// Paths that were put back, for the commit that keeps what they were.
    pub(super) undone: BTreeSet<PathBuf>,
    /// Commits that no ref leads to any more.
    pub(super) tips: Vec<Oid>,
    pub(super) program: &'a dyn Fn() -> GitProgram,
    /// To be called before anything is put back.
    pub(super) before_repair: &'a dyn Fn(),
    /// Home's files as another branch has them, where a run has left such a one checked out.
    pub(super) other_branch: Option<HashMap<PathBuf, Oid>>,
}

/// What is to become of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Not worth a word.
    Nothing,
    Kept,
    PutBack {
        violation: bool,
    },
}

impl Settlement<'_> {
    pub(super) fn run(mut self, differences: Vec<Difference>) -> BoundaryReport {
        let differences = self.open_directories(differences);
        let (refs, mut files): (Vec<_>, Vec<_>) =
            differences.into_iter().partition(|difference| difference.class == Class::Refs);
        files.sort_by(|one, other| one.path.cmp(&other.path));
        let is_early = |file: &Difference| {
            file.class == Class::Settings
                || file.path.file_name().is_some_and(|n| n == ".gitignore")
        };
        let (early, late): (Vec<_>, Vec<_>) = files.into_iter().partition(is_early);
        // Settings first, and what decides on what is ignored: whatever asks git later must find it as it was.
        self.fetch_objects(&early);
        self.files(&early);
        if !refs.is_empty() {
            self.refs(&refs);
        }
        self.fetch_objects(&late);
        let ignored = self.ignored(&late);
        let late: Vec<_> = late.into_iter().filter(|file| !ignored.contains(&file.path)).collect();
        self.files(&late);
        self.keep_commit();
        self.report.saved_in = self.saver.used().map(ToOwned::to_owned);
        self.report.sort();
        self.report
    }

    /// Gives directories the permissions back that they had, and looks again: what is in them may not have been seen.
    fn open_directories(&mut self, differences: Vec<Difference>) -> Vec<Difference> {
        let is_closed = |found: &Difference| {
            let before = self.baseline.entry(&found.path).map(|entry| entry.stamp);
            before
                .zip(found.now)
                .is_some_and(|(before, now)| now.kind().is_dir() && before.kind().is_dir())
        };
        let (mut closed, others): (Vec<_>, Vec<_>) = differences.into_iter().partition(is_closed);
        if closed.is_empty() {
            return others;
        }
        closed.sort_by(|one, other| one.path.cmp(&other.path));
        for directory in &mut closed {
            // It is reported as having been closed.
            directory.is_unread = false;
            self.file(directory);
        }
        let handled: HashSet<PathBuf> = closed.into_iter().map(|found| found.path).collect();
        let again = self.baseline.compare(&self.watch.field(self.state));
        again
            .into_iter()
            .filter(|found| found.is_unread || !handled.contains(&found.path))
            .collect()
    }

    /// Added paths are removed first, because they may be in the way; deeper paths before their parents.
    fn files(&mut self, files: &[Difference]) {
        let (added, others): (Vec<_>, Vec<_>) =
            files.iter().partition(|file| self.baseline.entry(&file.path).is_none());
        for file in added.into_iter().rev().chain(others) {
            self.file(file);
        }
    }

    /// Reads what clean files were, all at once.
    fn fetch_objects(&mut self, files: &[Difference]) {
        let mut ids: Vec<Oid> = files
            .iter()
            .filter_map(|file| match &self.baseline.entry(&file.path)?.kept {
                Kept::Object(id) => Some(id.clone()),
                _ => None,
            })
            .filter(|_| !self.watch.in_force.is_kernel())
            .collect();
        if let Some(there) = &self.other_branch {
            ids.extend(files.iter().filter_map(|file| there.get(&file.path).cloned()));
        }
        if ids.is_empty() {
            return;
        }
        for git in self.watch.gits(&(self.program)()) {
            self.objects.extend(git.blobs(&ids).unwrap_or_default());
        }
    }

    /// Returns the untracked files of the tree that git ignores, as the rules were before the run.
    fn ignored(&self, files: &[Difference]) -> HashSet<PathBuf> {
        let is_tracked = |file: &Difference| {
            matches!(
                self.baseline.entry(&file.path).map(|entry| &entry.kept),
                Some(Kept::Object(_))
            )
        };
        let new: Vec<&Difference> =
            files.iter().filter(|file| file.class == Class::Tree && !is_tracked(file)).collect();
        if new.is_empty() {
            return HashSet::new();
        }
        let mut ignored = HashSet::new();
        for git in self.watch.gits(&(self.program)()) {
            let Some(root) = git.place().worktree.clone() else { continue };
            let inside: Vec<PathBuf> = new
                .iter()
                .filter_map(|file| file.path.strip_prefix(&root).ok().map(Path::to_owned))
                .collect();
            if let Ok(found) = git.ignored(&inside) {
                ignored.extend(found.iter().map(|path| root.as_std_path().join(path)));
            }
        }
        ignored
    }

    fn file(&mut self, difference: &Difference) {
        let Difference { path, class, now, is_unread } = difference;
        let is_too_deep = *is_unread && is_too_long(path);
        let above = if is_too_deep { self.outermost_new(path) } else { None };
        let path = above.as_ref().unwrap_or(path);
        // Something before it may have changed this one as well: a directory that was put away.
        let now = if above.is_some() || now.is_some() { Stamp::of(path) } else { None };
        let before = self.baseline.entry(path).cloned();
        let what = match (&before, &now) {
            (None, None) if is_too_deep => {
                let found =
                    BoundaryFinding { path: self.shown(path), what: FindingKind::Unreadable };
                return self.tell(found, false, true);
            }
            (None, None) => return,
            (_, Some(_)) if *is_unread => FindingKind::Unreadable,
            (None, Some(_)) => FindingKind::Added,
            (Some(_), None) => FindingKind::Removed,
            (Some(before), Some(now)) if before.stamp == *now => return,
            (Some(before), Some(now)) if before.stamp.differs_in_permissions_only(now) => {
                FindingKind::Permissions
            }
            (Some(_), Some(_)) => FindingKind::Changed,
        };
        let found = BoundaryFinding { path: self.shown(path), what };
        let fate = self.fate(path, *class, what, before.as_ref().map(|entry| &entry.kept), now);
        let fate = match fate {
            Fate::PutBack { .. } if self.is_later(path, what, now) => Fate::Kept,
            fate => fate,
        };
        match fate {
            Fate::Nothing if *class == Class::People && what == FindingKind::Changed => {
                self.note_edit(path, before.as_ref().map(|entry| &entry.kept), now);
            }
            Fate::Nothing => {}
            Fate::Kept => self.report.kept.push(found),
            Fate::PutBack { violation } => {
                (self.before_repair)();
                let quiet = *class == Class::Agent && self.is_quiet(path, now);
                let done = match (&before, what) {
                    (Some(before), FindingKind::Permissions) => {
                        put_permissions_back(path, &before.stamp).is_ok()
                    }
                    // It is in the place of a file.
                    (Some(before), FindingKind::Unreadable) if !before.stamp.kind().is_dir() => {
                        open_to_owner(path).is_ok() && self.undo(path, *class, now, quiet)
                    }
                    // Its content is unknown: it is removed as a whole, and can be inspected where it is kept.
                    (_, FindingKind::Unreadable) => {
                        open_to_owner(path).is_ok() && self.saver.put_away(path).is_ok()
                    }
                    _ => self.undo(path, *class, now, quiet),
                };
                let is_file = now
                    .or(before.as_ref().map(|entry| entry.stamp))
                    .is_some_and(|it| it.kind().is_file());
                let is_edit = matches!(
                    what,
                    FindingKind::Changed | FindingKind::Added | FindingKind::Removed
                );
                let is_by_hand =
                    is_edited_by_hand(path, &self.watch.workspace, self.watch.home.as_deref());
                if *class == Class::State && is_by_hand && is_file && is_edit && done {
                    self.report.unattributed.push(found.clone());
                }
                // What could not be put back, and what an agent could leave for the person to run, is never passed over.
                let violation = violation || !done;
                if !(quiet && done) {
                    self.tell(found, done, violation);
                }
            }
        }
        self.baseline.forget(path);
    }

    /// Returns the outermost directory on the way to a path that is new; `None` if it is not known what was there before.
    fn outermost_new(&self, path: &Path) -> Option<PathBuf> {
        let mut outermost = None;
        for above in path.ancestors() {
            if self.baseline.entry(above).is_some() {
                return outermost;
            }
            outermost = Some(above.to_owned());
        }
        None
    }

    /// Records what a text of a person was that the run may edit: it is judged by that, not by its own edit.
    fn note_edit(&self, path: &Path, kept: Option<&Kept>, now: Option<Stamp>) {
        let before = kept.and_then(|kept| self.content(path, kept));
        let edited = now.and_then(|now| read_content(path, &now));
        if let (Some(path), Some(before), Some(edited)) =
            (Utf8Path::from_path(path), before, edited)
        {
            // Without it the file counts as it is.
            let _ = self.state.note_edited_text(path, before, &edited);
        }
    }

    /// Whether a change was made after the last process of the run had ended, and so not by the run. The time of a directory
    /// that existed before also changes with its entries, so it proves nothing.
    fn is_later(&self, path: &Path, what: FindingKind, now: Option<Stamp>) -> bool {
        let is_directory = now.is_some_and(|now| now.kind().is_dir());
        (what == FindingKind::Added || !is_directory) && is_later(self.gone, path)
    }

    fn fate(
        &self,
        path: &Path,
        class: Class,
        what: FindingKind,
        kept: Option<&Kept>,
        now: Option<Stamp>,
    ) -> Fate {
        if kept == Some(&Kept::Ignored) {
            return Fate::Nothing;
        }
        if self.is_of_other_branch(path, now) {
            return Fate::Nothing;
        }
        let reachable = self.could_write(path);
        if what == FindingKind::Unreadable {
            let persons = self.watch.in_force.is_kernel() && !reachable;
            return if persons { Fate::Kept } else { Fate::PutBack { violation: true } };
        }
        let is_readable = now.is_some_and(|now| now.kind().is_dir() && now.mode & 0o500 == 0o500);
        if class == Class::Agent && what == FindingKind::Permissions && is_readable {
            // Agents close their directories to others by themselves.
            return Fate::Nothing;
        }
        if class == Class::Tree {
            let is_directory = now.is_some_and(|now| now.kind().is_dir());
            return match (self.watch.in_force, what) {
                // Paths that the configuration grants in addition to the role's own.
                _ if reachable => Fate::Nothing,
                (in_force, FindingKind::Permissions) if in_force.has_view() => Fate::Kept,
                (_, FindingKind::Permissions) => Fate::PutBack { violation: true },
                (InForce::Kernel(_), _) if is_directory => Fate::Nothing,
                // The kernel lets a role set the times of files that it must not write.
                (InForce::Kernel(_), FindingKind::Changed) if self.is_touched_only(path, now) => {
                    Fate::Nothing
                }
                (InForce::Kernel(_), _) => Fate::Kept,
                _ if what == FindingKind::Changed && self.is_same(kept, path, now) => Fate::Nothing,
                // Directories come and go with their files.
                (_, FindingKind::Added) if is_directory && !is_empty(path) => Fate::Nothing,
                _ => Fate::PutBack { violation: true },
            };
        }
        if what == FindingKind::Changed && self.is_same(kept, path, now) {
            return Fate::Nothing;
        }
        let persons = self.watch.in_force.is_kernel() && !reachable;
        if what == FindingKind::Added && is_new_worktree(path, now) {
            return Fate::Nothing;
        }
        if class == Class::Settings && what == FindingKind::Added && self.is_plain(path, now) {
            return Fate::Nothing;
        }
        if class == Class::Agent && what != FindingKind::Removed {
            let content = now.and_then(|now| read_content(path, &now));
            if nested::is_plain_among_data(path, content.as_deref()) {
                return Fate::Nothing;
            }
        }
        if class == Class::Settings
            && is_made_by_git(path)
            && now.is_none_or(|now| now.kind().is_dir())
            && what != FindingKind::Permissions
        {
            return Fate::Nothing;
        }
        if class == Class::Settings && path.ends_with(REBASE_STEPS) && has_plain_steps(path, now) {
            return Fate::Nothing;
        }
        match class {
            // The harness wrote it, and has said so where that matters.
            Class::State if self.is_vouched(path, now) => Fate::Nothing,
            Class::People if what != FindingKind::Removed && self.watch.role.writes_workspace() => {
                Fate::Nothing
            }
            _ if persons
                && (what != FindingKind::Permissions || self.watch.in_force.has_view()) =>
            {
                Fate::Kept
            }
            Class::Settings | Class::Agent => Fate::PutBack { violation: false },
            Class::People if self.watch.role.writes_workspace() => {
                Fate::PutBack { violation: false }
            }
            Class::State
            | Class::Private
            | Class::Refs
            | Class::Tree
            | Class::People
            | Class::Outside => Fate::PutBack { violation: true },
        }
    }

    /// Whether it belongs to a repository that the run made, and runs nothing.
    fn is_plain(&self, path: &Path, now: Option<Stamp>) -> bool {
        let is_own = |place: &RepositoryLocation| {
            path.starts_with(&place.common_dir) || path.starts_with(&place.git_dir)
        };
        let content = now.and_then(|now| read_content(path, &now));
        !self.watch.places.iter().any(is_own)
            && nested::is_plain(self.watch.workspace.as_std_path(), path, content.as_deref())
    }

    /// Whether a file of home equals the version on the branch that the run left checked out: returning to the run's
    /// own branch restores that branch's version.
    fn is_of_other_branch(&self, path: &Path, now: Option<Stamp>) -> bool {
        let Some(there) = &self.other_branch else { return false };
        let home = self.watch.home.as_deref();
        let is_ours = home.is_some_and(|home| path.starts_with(home))
            || [CONFIG_FILE, INCLUDE_FILE]
                .iter()
                .any(|name| path == self.watch.workspace.join(name));
        let same = match (there.get(path), now) {
            (None, None) => true,
            (Some(id), Some(now)) => {
                read_content(path, &now).as_ref() == self.objects.get(id) && !now.kind().is_dir()
            }
            _ => false,
        };
        is_ours && same
    }

    /// Whether the kernel would have let the run write there.
    fn could_write(&self, path: &Path) -> bool {
        self.writable.iter().any(|granted| path.starts_with(granted))
    }

    /// Whether a file is the same as before but for its times.
    fn is_touched_only(&self, path: &Path, now: Option<Stamp>) -> bool {
        let before = self.baseline.entry(path).map(|entry| entry.stamp);
        before.zip(now).is_some_and(|(before, now)| before.differs_in_times_only(&now))
    }

    /// Whether a file that was touched still has the content and the permissions it had.
    fn is_same(&self, kept: Option<&Kept>, path: &Path, now: Option<Stamp>) -> bool {
        let (Some(kept), Some(now)) = (kept, now) else { return false };
        let Some(entry) = self.baseline.entry(path) else { return false };
        if entry.stamp.ownership() != now.ownership() {
            return false;
        }
        let before = self.content(path, kept);
        before.is_some_and(|before| read_content(path, &now).is_some_and(|now| now == before))
            || self.is_same_config(kept, path, now)
    }

    /// Whether a git configuration differs in `branch.*` alone, or an agent's settings in what does not count.
    fn is_same_config(&self, kept: &Kept, path: &Path, now: Stamp) -> bool {
        let (Some(before), Some(text)) = (self.baseline.bytes(kept), read_content(path, &now))
        else {
            return false;
        };
        self.merged(path, &before, &text).is_some_and(|merged| merged == text)
    }

    /// Returns a file as it was but for what a run may change in it; `None` where a file is put back whole.
    fn merged(&self, path: &Path, before: &[u8], now: &[u8]) -> Option<Vec<u8>> {
        let is_config = self.watch.places.iter().any(|place| {
            path == place.common_dir.join("config") || path == place.git_dir.join("config")
        }) || path.ends_with(".git/config");
        if is_config {
            return Some(merged_config(before, now));
        }
        let guarded = self.watch.guarded.iter().find(|guarded| guarded.path == path)?;
        guarded.merged(before, now)
    }

    /// Whether a change of an agent's file is one that its program makes by itself.
    fn is_quiet(&self, path: &Path, now: Option<Stamp>) -> bool {
        let before = self.baseline.entry(path).and_then(|entry| self.baseline.bytes(&entry.kept));
        let now = now.and_then(|now| read_content(path, &now));
        let (before, now) = (before.unwrap_or_default(), now.unwrap_or_default());
        self.watch.guarded.iter().any(|guarded| guarded.is_quiet(path, &before, &now))
    }

    fn is_vouched(&self, path: &Path, now: Option<Stamp>) -> bool {
        let (Some(path), Some(now)) = (Utf8Path::from_path(path), now) else { return false };
        let note = self.state.vouched(path);
        if !self.is_of_this_run(&note) {
            return false;
        }
        let Ok(Some(vouched)) = read_note(&note) else { return false };
        read_content(path.as_std_path(), &now)
            .is_some_and(|content| digest::of_bytes(&content) == vouched)
    }

    /// Whether something was vouched for during this run: what Ralph wrote earlier, a run may not bring back.
    fn is_of_this_run(&self, note: &Utf8Path) -> bool {
        let written = std::fs::metadata(note).and_then(|found| found.modified()).ok();
        let written = written.and_then(|time| Timestamp::try_from(time).ok());
        // The clock of a file system ticks more slowly than ours.
        written.is_some_and(|time| time + TICK >= self.watch.started)
    }

    fn content(&self, path: &Path, kept: &Kept) -> Option<Vec<u8>> {
        match kept {
            Kept::Nothing | Kept::Ignored => None,
            Kept::Bytes { .. } => self.baseline.bytes(kept),
            Kept::Object(id) => {
                let size = self.baseline.entry(path)?.stamp.size;
                let bytes = self.objects.get(id)?;
                // A filter or other line ends: the object is not what the file was.
                (i64::try_from(bytes.len()) == Ok(size)).then(|| bytes.clone())
            }
        }
    }

    /// Makes a path what it was. Returns whether that could be done.
    fn undo(&mut self, path: &Path, class: Class, now: Option<Stamp>, quiet: bool) -> bool {
        let before = self.baseline.entry(path).cloned();
        let mut content = None;
        if let Some(before) = before.as_ref().filter(|before| !before.stamp.kind().is_dir()) {
            content = self.content(path, &before.kept);
            if content.is_none() {
                // There is no replacement: keep what exists.
                return false;
            }
        }
        if let (Some(now), Some(before)) = (now, &content)
            && let Some(text) = read_content(path, &now)
            && let Some(merged) = self.merged(path, before, &text)
        {
            content = Some(merged);
        }
        if class == Class::Tree || path.starts_with(&self.watch.workspace) {
            self.undone.insert(path.to_owned());
        }
        if before.is_none() && now.is_some_and(|now| now.kind().is_dir()) && is_empty(path) {
            return std::fs::remove_dir(path).is_ok();
        }
        if let (Some(now), Some(content)) = (now, &content)
            && self.is_fixed(path, now)
        {
            return self.write_over(path, now, content, quiet);
        }
        let is_away = match now {
            // It is not needed again. The walk followed no symlink, and the run has ended.
            Some(_) if quiet => std::fs::remove_file(path).is_ok(),
            _ => self.saver.put_away(path).is_ok(),
        };
        if !is_away {
            return false;
        }
        match (before, content) {
            (None, _) => true,
            (Some(before), Some(content)) => {
                let floor = self.floor(path, class);
                put_back(path, &floor, &before.stamp, &content).is_ok()
            }
            (Some(before), None) => {
                std::fs::create_dir_all(path).is_ok()
                    && put_permissions_back(path, &before.stamp).is_ok()
            }
        }
    }

    /// Whether a file can be written and not be moved: an agent's own, in a directory that is not, such as the person's home
    /// directory. The agent cannot move it either.
    fn is_fixed(&self, path: &Path, now: Stamp) -> bool {
        let is_of_agent = self
            .watch
            .guarded
            .iter()
            .any(|guarded| !guarded.below && guarded.path.as_std_path() == path);
        let parent = path.parent().unwrap_or(path);
        now.kind().is_file() && is_of_agent && self.could_write(path) && !self.could_write(parent)
    }

    /// Puts a content into a file that stays where it is; what it had is saved.
    fn write_over(&mut self, path: &Path, now: Stamp, content: &[u8], quiet: bool) -> bool {
        let saved = quiet
            || read_content(path, &now).is_some_and(|bytes| self.saver.save(path, &bytes).is_ok());
        saved && overwrite(path, content).is_ok()
    }

    /// Returns the directory below which no link is followed.
    fn floor(&self, path: &Path, class: Class) -> PathBuf {
        if class != Class::Agent {
            if path.starts_with(&self.watch.workspace) {
                return self.watch.workspace.clone().into();
            }
            let dirs = self.watch.places.iter().map(|place| &place.common_dir);
            if let Some(dir) = dirs.into_iter().find(|dir| path.starts_with(dir)) {
                return dir.clone().into();
            }
        }
        path.parent().unwrap_or(path).to_owned()
    }

    /// What refs, `HEAD` and the index were: of roles that must not write, so all of it is put back.
    fn refs(&mut self, differences: &[Difference]) {
        for place in &self.watch.places.clone() {
            let common = place.common_dir.as_std_path();
            let of_place: Vec<&Difference> = differences
                .iter()
                .filter(|found| {
                    found.path.starts_with(common) || found.path.starts_with(&place.git_dir)
                })
                .collect();
            if of_place.is_empty() {
                continue;
            }
            let persons = self.watch.in_force.is_kernel();
            let git = Git::at((self.program)(), place.clone());
            if of_place.iter().any(|found| found.path.ends_with("reftable/tables.list")) {
                let found = BoundaryFinding { path: "refs".to_owned(), what: FindingKind::Changed };
                if persons {
                    self.report.kept.push(found);
                } else {
                    self.report.left.push(found.clone());
                    self.report.violations.push(found);
                }
            }
            let known = refs::tips_before(self.baseline, place);
            let mut returned = Vec::new();
            for moved in refs::moved(self.baseline, place) {
                let found = BoundaryFinding::of_ref(&moved);
                if persons || is_ref_later(self.gone, place, &moved.name) {
                    self.report.kept.push(found);
                    continue;
                }
                self.report.violations.push(found.clone());
                if self.is_runs_own(&git, moved.now.as_ref(), &known) {
                    self.tips.extend(moved.now.clone());
                    self.report.put_back.push(found);
                    returned.push(moved);
                } else {
                    self.report.left.push(found);
                }
            }
            if !returned.is_empty() {
                (self.before_repair)();
            }
            if !returned.is_empty() && git.return_refs(&returned).is_err() {
                let names: HashSet<&str> =
                    returned.iter().map(|moved| moved.name.as_str()).collect();
                let (left, done) = std::mem::take(&mut self.report.put_back)
                    .into_iter()
                    .partition(|found| names.contains(found.path.as_str()));
                self.report.put_back = done;
                self.report.left.extend::<Vec<BoundaryFinding>>(left);
            }
            for difference in of_place {
                let name = difference.path.file_name().unwrap_or_default();
                let whole = name == "HEAD" || name == "index";
                let persons = persons || is_later(self.gone, &difference.path);
                if whole && (!persons || name == "HEAD") {
                    self.whole(difference, persons, name == "HEAD");
                }
                self.baseline.forget(&difference.path);
            }
        }
    }

    /// `HEAD` and the index are put back as files.
    fn whole(&mut self, difference: &Difference, persons: bool, violation: bool) {
        let Difference { path, now, .. } = difference;
        let kept = self.baseline.entry(path).map(|entry| entry.kept.clone());
        if self.is_same(kept.as_ref(), path, *now) {
            return;
        }
        let found = BoundaryFinding { path: self.shown(path), what: FindingKind::Changed };
        if persons {
            self.report.kept.push(found);
            return;
        }
        (self.before_repair)();
        let saved = read_content(path, &now.or_else(|| Stamp::of(path)).unwrap_or_else(no_stamp));
        let done = saved.is_none_or(|bytes| self.saver.save(path, &bytes).is_ok())
            && kept.and_then(|kept| self.baseline.bytes(&kept)).is_some_and(|bytes| {
                let path = Utf8Path::from_path(path);
                path.is_some_and(|path| crate::files::replace_atomically(path, &bytes).is_ok())
            });
        self.tell(found, done, violation);
    }

    /// Whether every commit that a ref now has and none had before was made during the run.
    ///
    /// Without the kernel boundary more cannot be known. Commits made before, or brought by a fetch or a merge, are
    /// someone else's.
    fn is_runs_own(&self, git: &Git, now: Option<&Oid>, known: &[Oid]) -> bool {
        let Some(now) = now else { return true };
        let started = self.watch.started.as_second();
        git.times_of_new_commits(now, known)
            .is_ok_and(|times| times.iter().all(|time| time.as_second() >= started))
    }

    /// Makes the commit that keeps what was undone in work trees.
    fn keep_commit(&mut self) {
        if self.undone.is_empty() && self.tips.is_empty() {
            return;
        }
        let name = format!("refs/ralph/displaced/{}", self.watch.run);
        for git in self.watch.gits(&(self.program)()) {
            let Some(root) = git.place().worktree.clone() else { continue };
            let files: Vec<DisplacedFile> = self
                .undone
                .iter()
                .filter(|path| {
                    !path.starts_with(&git.place().git_dir)
                        && !path.starts_with(&git.place().common_dir)
                })
                .flat_map(|path| {
                    displaced_files(root.as_std_path(), path, &self.saver.place_of(path))
                })
                .collect();
            let kept = (!files.is_empty() || !self.tips.is_empty())
                && git.keep_displaced(&name, &files, &self.tips, self.watch.started).is_ok();
            if kept {
                self.report.displaced = Some(name.clone());
            }
        }
    }

    /// Reports a change that was to be undone, and whether it could be.
    fn tell(&mut self, found: BoundaryFinding, undone: bool, violation: bool) {
        if violation {
            self.report.violations.push(found.clone());
        }
        if undone { self.report.put_back.push(found) } else { self.report.left.push(found) }
    }

    fn shown(&self, path: &Path) -> String {
        shown(path.strip_prefix(&self.watch.workspace).unwrap_or(path))
    }
}

/// Whether a path is too long to be looked at.
fn is_too_long(path: &Path) -> bool {
    let found = std::fs::symlink_metadata(path);
    found.is_err_and(|error| Errno::from_io_error(&error) == Some(Errno::NAMETOOLONG))
}

/// Whether it is what git writes for a new work tree, which leads back to its own repository.
fn is_new_worktree(path: &Path, now: Option<Stamp>) -> bool {
    let above = path.ancestors().nth(2).and_then(Path::file_name);
    path.ends_with("commondir")
        && above.is_some_and(|name| name == "worktrees")
        && now.is_some_and(|now| read_content(path, &now).as_deref() == Some(b"../..\n"))
}

/// Whether nothing is started by whoever goes on with a rebase. One that was ended has no steps.
fn has_plain_steps(path: &Path, now: Option<Stamp>) -> bool {
    let is_plain = |now: Stamp| {
        now.kind().is_file()
            && read_content(path, &now).is_some_and(|steps| are_plain_steps(&steps))
    };
    now.is_none_or(is_plain)
}

fn is_empty(path: &Path) -> bool {
    std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

const fn no_stamp() -> Stamp {
    Stamp { ino: 0, size: 0, mode: 0o100_600, uid: 0, gid: 0, mtime: (0, 0), ctime: (0, 0) }
}
