//! What is not as the baseline has it, found by looking at every watched path, as cheaply as can be.
//!
//! A tree in which nothing changed is recognized without a lookup for each file: the last walk is repeated and compared in
//! order, and where the times of all directories can be trusted not even the directories are listed again.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::{Baseline, BaselineEntry, BaselineScope, Difference};
use crate::boundary::protected::{Class, Watched, is_sample};
use crate::boundary::tree_status::TreeStatus;
use crate::boundary::walk::{Listed, Stamp, WalkFindings, WalkStep, walk, walk_named};
use crate::clock::{Clock, SystemClock};

impl Baseline {
    /// Looks at everything. `walked` takes the tree in the order it was walked in, if that was necessary.
    pub(super) fn differences(
        &mut self,
        field: &BaselineScope<'_>,
        status: Option<&TreeStatus>,
        walked: Option<&mut Vec<(OsString, Stamp)>>,
    ) -> Vec<Difference> {
        self.generation = self.generation.wrapping_add(1);
        let mut found = Vec::new();
        let (samples, is_taken) = (self.samples, walked.is_some());
        // A directory that is watched separately is not visited again.
        let below = field.watched.iter().filter(|watched| watched.below);
        let roots: HashSet<&Path> = below.map(|watched| watched.path.as_path()).collect();
        let mut same: Vec<&Path> = Vec::new();
        for watched in &field.watched {
            let Watched { path, class, below, .. } = watched;
            let Some(stamp) = Stamp::of(path) else { continue };
            if stamp.kind().is_dir() && (*below || watched.itself) {
                self.look_at_directory(path, &stamp, *class, is_taken, &mut found);
            } else {
                // A directory in the place of a file differs by its kind.
                self.look(path, &stamp, *class, &mut found);
            }
            if !*below || !stamp.kind().is_dir() {
                continue;
            }
            if self.is_watched_unchanged(watched, &roots, is_taken) {
                same.push(path.as_path());
                continue;
            }
            let hooks = watched.holds_hooks();
            let wanted = |name: &[u8]| !hooks || samples || !is_sample(name);
            let mut order = Vec::new();
            let seen = walk_named(path, &wanted, &mut |path, name, stamp| {
                if watched.is_data(path) || (stamp.kind().is_dir() && roots.contains(path)) {
                    return WalkStep::Pass;
                }
                if stamp.kind().is_dir() {
                    self.look_at_directory(path, stamp, *class, is_taken, &mut found);
                    order.push((path.into(), *stamp));
                    return WalkStep::Enter;
                }
                self.has_hooks |= hooks && !is_sample(name);
                self.look(path, stamp, *class, &mut found);
                order.push((path.into(), *stamp));
                WalkStep::Enter
            });
            if !is_taken {
                self.tell_unread(seen.unread, *class, &mut found);
            }
            // A comparison finds what a run did, which is no order to go by.
            if is_taken && !hooks {
                self.watched.insert(path.clone(), order);
            }
        }
        let unchanged = field.scope.tree && status.is_none() && self.is_tree_unchanged(field);
        if field.scope.tree && !unchanged {
            self.walk_tree(field, status, walked, &mut found);
        }
        // The longest first: it is the one that a file was looked for in.
        let mut innermost: Vec<(&[u8], bool)> =
            roots.iter().map(|root| (root.as_os_str().as_bytes(), same.contains(root))).collect();
        innermost.sort_by_key(|(root, _)| Reverse(root.len()));
        let generation = self.generation;
        let mut check = |path: &OsStr, entry: &BaselineEntry| {
            let is_unseen = entry.seen != generation
                && field.scope.covers(entry.class)
                && !(unchanged && entry.class == Class::Tree);
            // Not found where it was looked for, or not looked for by name: an included file.
            let now = if is_unseen { Stamp::of(Path::new(path)) } else { return };
            // Directories come and go with their files.
            let is_nothing = now.is_none()
                && entry.stamp.kind().is_dir()
                && entry.class != Class::Tree
                && !is_taken;
            if now != Some(entry.stamp) && !is_nothing {
                found.push(Difference::new(path, entry.class, now));
            }
        };
        let is_loose = |path: &OsStr, entry: &BaselineEntry| {
            entry.class == Class::Tree || !is_in_same(&innermost, path)
        };
        if field.scope.tree {
            for (path, entry) in self.entries.iter().filter(|(path, entry)| is_loose(path, entry)) {
                check(path, entry);
            }
        } else {
            // Most entries lie where nothing changed. The few others are known from the last time.
            let known = self.loose.take().filter(|(before, _)| before.iter().eq(same.iter()));
            let loose = known.unwrap_or_else(|| {
                let entries = self.entries.iter().filter(|(path, entry)| is_loose(path, entry));
                let paths = entries.map(|(path, _)| path.clone()).collect();
                (same.iter().map(|path| path.to_path_buf()).collect(), paths)
            });
            for path in &loose.1 {
                if let Some(entry) = self.entries.get(path) {
                    check(path, entry);
                }
            }
            self.loose = Some(loose);
        }
        if !found.is_empty() {
            // What cannot be looked through says more than what else there is to say of a directory.
            let unread: HashSet<PathBuf> = found
                .iter()
                .filter(|found| found.is_unread)
                .map(|found| found.path.clone())
                .collect();
            // What is listed under two names counts under the first.
            let mut listed = HashSet::new();
            found.retain(|difference| {
                (difference.is_unread || !unread.contains(&difference.path))
                    && listed.insert(difference.path.clone())
            });
        }
        found
    }

    /// Whether a watched directory has exactly what it had when it was last recorded.
    fn is_watched_unchanged(
        &mut self,
        watched: &Watched,
        roots: &HashSet<&Path>,
        is_taken: bool,
    ) -> bool {
        let root = watched.path.as_path();
        let Some(known) = self.watched.get(root) else { return false };
        if self.entry(root).map(|entry| entry.stamp) != Stamp::of(root) {
            return false;
        }
        if self.marks.is_quiet(root) {
            return true;
        }
        // Marked before it is looked through, so that nothing goes unnoticed between the two.
        let mut marked = None;
        if is_taken && self.calm.contains(root) && self.marks.are_worthwhile(known.len()) {
            let (mut below, mut directories) = (Vec::new(), Vec::new());
            walk(root, &mut |path, _, stamp| {
                if roots.contains(path) || watched.is_data(path) {
                    return WalkStep::Pass;
                }
                below.push(path.to_owned());
                directories.extend(stamp.kind().is_dir().then(|| path.to_owned()));
                WalkStep::Enter
            });
            self.marks.put(root, &below);
            marked = Some(directories);
        }
        let mut directories = Vec::new();
        let mut expected = known.iter();
        let mut unchanged = true;
        walk(root, &mut |path, _, stamp| {
            if !unchanged || roots.contains(path) || watched.is_data(path) {
                return WalkStep::Pass;
            }
            if stamp.kind().is_dir() {
                directories.push(path.to_owned());
            }
            unchanged = expected
                .next()
                .is_some_and(|(known, before)| known == path.as_os_str() && before == stamp);
            WalkStep::Enter
        });
        unchanged &= expected.next().is_none();
        // In a directory that came in between, and has no mark, anything could happen.
        if unchanged && marked == Some(directories) {
            self.marks.found_unchanged(root);
        }
        if is_taken && unchanged {
            self.calm.insert(root.to_owned());
        } else if is_taken {
            self.calm.remove(root);
        }
        unchanged
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
        let WalkFindings { listed, .. } =
            walk(field.tree.as_std_path(), &mut |path, name, stamp| {
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
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
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

    /// Whether a path of the tree is left out: git directories, ignored directories, and what the harness writes.
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
        let seen = walk(field.tree.as_std_path(), &mut |path, name, stamp| {
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
            self.remember(seen.listed, began);
        } else {
            self.tell_unread(seen.unread, Class::Tree, found);
        }
    }

    /// Looks at a watched directory itself. That there is one more says nothing: what is in it is looked at.
    fn look_at_directory(
        &mut self,
        path: &Path,
        stamp: &Stamp,
        class: Class,
        is_taken: bool,
        found: &mut Vec<Difference>,
    ) {
        if is_taken || self.entry(path).is_some() {
            self.look(path, stamp, class, found);
        }
    }

    /// Tells of directories that cannot be looked through, unless that was so before.
    fn tell_unread(&self, unread: Vec<PathBuf>, class: Class, found: &mut Vec<Difference>) {
        for path in unread {
            let now = Stamp::of(&path);
            if self.entry(&path).is_none_or(|entry| Some(entry.stamp) != now) {
                found.push(Difference { is_unread: true, ..Difference::new(path, class, now) });
            }
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
                    found.push(Difference::new(path, class, Some(*stamp)));
                }
            }
            None => found.push(Difference::new(path, class, Some(*stamp))),
        }
    }
}

/// Whether the watched directory that a path is in was found as it was.
fn is_in_same(innermost: &[(&[u8], bool)], path: &OsStr) -> bool {
    let below = |root: &[u8]| {
        path.as_bytes().strip_prefix(root).is_some_and(|rest| rest.first() == Some(&b'/'))
    };
    innermost.iter().find(|(root, _)| below(root)).is_some_and(|(_, same)| *same)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, Instant};

    use camino::{Utf8Path, Utf8PathBuf};

    use super::*;
    use crate::boundary::baseline::Scope;

    /// A tree that was recorded, with directories whose times are believed however young they are.
    fn taken(root: &Utf8Path) -> (Baseline, BaselineScope<'_>) {
        let scope = Scope { tree: true, contents: false, private: false };
        let field = BaselineScope { watched: Vec::new(), tree: root, exempt: Vec::new(), scope };
        let mut baseline = Baseline::new(root.with_extension("log"));
        baseline.take(&field, &[]).unwrap();
        assert!(baseline.listed.is_empty(), "they changed a moment ago");
        let seen = walk(root.as_std_path(), &mut |_, _, _| WalkStep::Enter);
        baseline.remember(seen.listed, i64::MAX);
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

    /// Watched directories are marked once they have been left alone, and a change is found as it was before.
    #[test]
    #[cfg(target_os = "linux")]
    fn what_happens_in_a_marked_directory_is_found_under_whichever_name_it_was_done() {
        let place = crate::test_place::Place::new();
        for number in 0..1200 {
            place.write(&format!("state/{number}"), "1");
        }
        let root = place.root.join("state");
        let watched = vec![
            Watched::below(&root, Class::State),
            Watched::file(place.root.join("file"), Class::State),
        ];
        let scope = Scope { tree: false, contents: false, private: false };
        let field = BaselineScope { watched, tree: &place.root, exempt: Vec::new(), scope };
        let looked = RefCell::new(Baseline::new(place.root.join("log")));
        let found = || -> Vec<String> {
            let names = looked.borrow_mut().compare(&field).into_iter().map(|found| found.path);
            names
                .map(|path| path.strip_prefix(&place.root).unwrap().display().to_string())
                .collect()
        };
        let acts: [(&str, &dyn Fn()); 5] = [
            ("state/7", &|| {
                fs::hard_link(root.join("7"), place.root.join("other")).unwrap();
                fs::write(place.root.join("other"), "2").unwrap();
                fs::remove_file(place.root.join("other")).unwrap();
            }),
            ("state/new", &|| place.write("state/new", "1")),
            ("state/8", &|| fs::remove_file(root.join("8")).unwrap()),
            ("file", &|| place.write("file", "outside of what is marked")),
            ("state/fresh/file", &|| {
                fs::create_dir(root.join("fresh")).unwrap();
                let found = looked.borrow_mut().compare(&field);
                assert!(found.is_empty(), "an empty directory is nothing: {found:?}");
                place.write("state/fresh/file", "1");
            }),
        ];
        for (name, act) in acts {
            // Recorded, found so, marked.
            for _ in 0..3 {
                looked.borrow_mut().take(&field, &[]).unwrap();
            }
            assert!(looked.borrow_mut().marks.is_quiet(root.as_std_path()), "before {name}");
            assert_eq!(found(), [""; 0], "before {name}");
            wait_for_a_tick(&place.root.join("probe"));
            act();
            assert_eq!(found(), [name]);
            assert_eq!(found(), [name], "as long as it is not recorded");
        }
    }
}
