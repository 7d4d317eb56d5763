//! Permissions, owners and attributes of what lies outside a run's reach, where the kernel does not keep them from it: Landlock
//! alone lets a process change them wherever it runs as the person.
//!
//! What is looked at is the *protected set*: the person's workspace with its git directories, but for what git ignores and
//! its objects; private state; the directories on the way to both; the home directory with what lies directly in it, and what
//! lies in the directories of keys and settings there. A change is put back and named. Of times nobody can tell whether
//! the person changed them with the file, so they stay.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use camino::{Utf8Path, Utf8PathBuf};
use ralph_proc::end_note::FileTime;
use rustix::fs::{XattrFlags, lgetxattr, llistxattr, lremovexattr, lsetxattr};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::compare::{BoundaryFinding, BoundaryReport, FindingKind, is_later};
use super::protected::Class;
use super::record::{RecordKept, Records, append};
use super::restore::put_permissions_back;
use super::tree_status::TreeStatus;
use super::walk::{Stamp, WalkStep, walk};
use crate::git::{Git, GitProgram, RepositoryLocation};

/// Directories of a person's home in which everything is looked at: keys, and settings that name programs.
const GUARDED_IN_HOME: [&str; 7] =
    [".ssh", ".gnupg", ".aws", ".kube", ".config", ".docker", ".local/bin"];

/// What of private state is large, and judged by its own hashes.
const LARGE_IN_STATE: [&str; 4] = ["slots", "repositories", "displaced", "runs"];

/// The largest attribute that is kept.
const ATTRIBUTE_CAP: usize = 64 << 10;

/// The extended attributes of a file (access lists among them), by name.
type Attributes = Vec<(Vec<u8>, Vec<u8>)>;

/// What a file is to whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Metadata {
    stamp: Stamp,
    attributes: Attributes,
}

/// What is to be looked at.
pub(crate) struct OutsidePlaces<'a> {
    /// The person's repositories, where the run works elsewhere.
    pub(crate) repositories: &'a [RepositoryLocation],
    /// The person's workspace, where the run works elsewhere.
    pub(crate) workspace: Option<&'a Utf8Path>,
    pub(crate) user_home: Option<&'a Utf8Path>,
    pub(crate) state_base: &'a Utf8Path,
    pub(crate) state: &'a Utf8Path,
    /// What the run may write.
    pub(crate) granted: &'a [String],
}

/// The protected set before a run. Kept from run to run, and in a file for recovery after a crash.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    known: HashMap<PathBuf, Metadata>,
    order: Vec<PathBuf>,
    /// Directories of the workspace that git ignores, and those that it does not.
    ignored: HashSet<PathBuf>,
    followed: HashSet<PathBuf>,
}

impl Outside {
    /// Looks at everything, and writes it to a file if it is not as it was.
    pub(crate) fn take(
        &mut self,
        places: &OutsidePlaces<'_>,
        program: &dyn Fn() -> GitProgram,
        file: &Utf8Path,
    ) -> io::Result<()> {
        let mut found = Found::new(places);
        found.homes(places);
        if let Some(workspace) = places.workspace {
            self.workspace(workspace, places.repositories, program, &mut found);
        }
        let mut is_changed = found.order != self.order;
        let mut known = HashMap::with_capacity(found.order.len());
        for path in &found.order {
            let Ok(stamp) = look(path) else { continue };
            let before = self.known.remove(path).filter(|before| before.stamp == stamp);
            is_changed |= before.is_none();
            let metadata =
                before.unwrap_or_else(|| Metadata { stamp, attributes: attributes(path) });
            known.insert(path.clone(), metadata);
        }
        (self.known, self.order) = (known, found.order);
        if is_changed { self.write(file) } else { Ok(()) }
    }

    /// Lists what git follows in the workspace, and its git directories.
    fn workspace(
        &mut self,
        root: &Utf8Path,
        repositories: &[RepositoryLocation],
        program: &dyn Fn() -> GitProgram,
        found: &mut Found<'_>,
    ) {
        for _ in 0..2 {
            let mut is_unknown = false;
            let mut paths = vec![root.as_std_path().to_owned()];
            walk(root.as_std_path(), &mut |path, name, stamp| {
                if name == b".git" || found.is_granted(path) {
                    return WalkStep::Pass;
                }
                if stamp.kind().is_dir() && !self.followed.contains(path) {
                    is_unknown |= !self.ignored.contains(path);
                    return WalkStep::Pass;
                }
                paths.push(path.to_owned());
                WalkStep::Enter
            });
            if !is_unknown {
                found.add_all(&paths);
                break;
            }
            self.ask_git(root, repositories, program);
        }
        for place in repositories {
            let mut paths = vec![place.common_dir.as_std_path().to_owned()];
            walk(place.common_dir.as_std_path(), &mut |path, name, _| {
                paths.push(path.to_owned());
                let is_large = matches!(name, b"objects" | b"logs");
                if is_large { WalkStep::Pass } else { WalkStep::Enter }
            });
            found.add_all(&paths);
        }
    }

    /// Asks git which directories it ignores.
    fn ask_git(
        &mut self,
        root: &Utf8Path,
        repositories: &[RepositoryLocation],
        program: &dyn Fn() -> GitProgram,
    ) {
        let gits: Vec<Git> =
            repositories.iter().map(|place| Git::at(program(), place.clone())).collect();
        let status = TreeStatus::of(&gits);
        self.ignored.clear();
        self.followed.clear();
        walk(root.as_std_path(), &mut |path, name, stamp| {
            if name == b".git" || !stamp.kind().is_dir() {
                return WalkStep::Pass;
            }
            let is_followed =
                status.as_ref().is_none_or(|status| status.directories.contains(path));
            let set = if is_followed { &mut self.followed } else { &mut self.ignored };
            set.insert(path.to_owned());
            if is_followed { WalkStep::Enter } else { WalkStep::Pass }
        });
    }

    fn write(&self, file: &Utf8Path) -> io::Result<()> {
        let mut text = Vec::new();
        for (path, metadata) in self.order.iter().filter_map(|path| self.known.get_key_value(path))
        {
            let content = serde_json::to_vec(&metadata.attributes).expect("it is plain data");
            let kept = RecordKept::Bytes(content.len() as u64);
            append(&mut text, path, Class::Outside, Some(metadata.stamp), &kept, &content);
        }
        fs::write(file, text)
    }

    /// Reads what was known before a run of a Ralph that died.
    pub(crate) fn load(file: &Utf8Path) -> io::Result<Outside> {
        let bytes = fs::read(file)?;
        let mut outside = Outside::default();
        for record in Records::new(&bytes) {
            let (Some(stamp), super::record::Kept::Bytes { offset, length }) =
                (record.stamp, &record.kept)
            else {
                continue;
            };
            let range = usize::try_from(*offset).ok().zip(usize::try_from(offset + length).ok());
            let content = range.and_then(|(from, to)| bytes.get(from..to)).unwrap_or_default();
            let attributes = serde_json::from_slice(content).unwrap_or_default();
            outside.order.push(record.path.to_owned());
            outside.known.insert(record.path.to_owned(), Metadata { stamp, attributes });
        }
        Ok(outside)
    }

    /// Puts back what a run changed of permissions, owners and attributes, and tells of it: the run has failed.
    ///
    /// What was changed after everything of the run was `gone` is the person's, but for a directory, whose time tells
    /// of what is in it as well.
    pub(crate) fn settle(
        &self,
        gone: Option<FileTime>,
        before_repair: &dyn Fn(),
        report: &mut BoundaryReport,
    ) {
        // In this order a directory comes before what is in it.
        for path in &self.order {
            let Some(before) = self.known.get(path) else { continue };
            let (what, is_done) = match look(path) {
                Ok(now) if (now.ino, now.mtime) != (before.stamp.ino, before.stamp.mtime) => {
                    continue;
                }
                Ok(now) if !now.kind().is_dir() && is_later(gone, path) => continue,
                Ok(now) if now.ownership() != before.stamp.ownership() => {
                    before_repair();
                    let is_back = put_permissions_back(path, &before.stamp).is_ok()
                        && put_attributes_back(path, &before.attributes).is_ok();
                    (FindingKind::Permissions, is_back)
                }
                Ok(now) if now.ctime == before.stamp.ctime => continue,
                Ok(_) if attributes(path) != before.attributes => {
                    before_repair();
                    let is_back = put_attributes_back(path, &before.attributes).is_ok();
                    (FindingKind::Permissions, is_back)
                }
                Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => continue,
                Err(_) => (FindingKind::Unreadable, false),
            };
            let found = BoundaryFinding { path: crate::git::shown(path), what };
            report.violations.push(found.clone());
            if is_done { report.put_back.push(found) } else { report.left.push(found) }
        }
    }
}

/// The paths of the protected set, each once, a directory before what is in it.
struct Found<'a> {
    granted: &'a [String],
    seen: HashSet<PathBuf>,
    order: Vec<PathBuf>,
}

impl<'a> Found<'a> {
    fn new(places: &OutsidePlaces<'a>) -> Found<'a> {
        Found { granted: places.granted, seen: HashSet::new(), order: Vec::new() }
    }

    fn is_granted(&self, path: &Path) -> bool {
        self.granted.iter().any(|granted| path.starts_with(granted))
    }

    fn add(&mut self, path: &Path) {
        if !self.is_granted(path) && self.seen.insert(path.to_owned()) {
            self.order.push(path.to_owned());
        }
    }

    fn add_all(&mut self, paths: &[PathBuf]) {
        for path in paths {
            self.add(path);
        }
    }

    /// Adds the direct entries of a directory.
    fn add_entries(&mut self, directory: &Path) {
        let mut paths = Vec::new();
        walk(directory, &mut |path, _, _| {
            paths.push(path.to_owned());
            WalkStep::Pass
        });
        self.add_all(&paths);
    }

    /// Adds what is not the workspace's: the home directory, private state, and the ways to all of it.
    fn homes(&mut self, places: &OutsidePlaces<'_>) {
        let home = places.user_home.map(Utf8Path::as_std_path);
        let is_inside = |path: &Path| home.is_some_and(|home| path.starts_with(home));
        let ends = [places.workspace, Some(places.state_base)].into_iter().flatten();
        let guarded = home.iter().flat_map(|home| GUARDED_IN_HOME.map(|name| home.join(name)));
        let ends: Vec<PathBuf> = ends.map(PathBuf::from).chain(guarded).collect();
        for end in &ends {
            let mut way: Vec<&Path> = end.ancestors().take_while(|path| is_inside(path)).collect();
            way.reverse();
            for path in way {
                self.add(path);
            }
        }
        if let Some(home) = home {
            self.add(home);
            self.add_entries(home);
            for name in GUARDED_IN_HOME {
                self.add_entries(&home.join(name));
            }
        }
        self.add(places.state_base.as_std_path());
        self.add_entries(places.state_base.as_std_path());
        let (state, mut paths) = (places.state.as_std_path(), Vec::new());
        walk(state, &mut |path, name, _| {
            paths.push(path.to_owned());
            let is_large = LARGE_IN_STATE.iter().any(|large| large.as_bytes() == name);
            if is_large || path.parent() != Some(state) { WalkStep::Pass } else { WalkStep::Enter }
        });
        self.add_all(&paths);
    }
}

/// Looks at a path as it is, a directory by its own times as well. What stands for the time of the last change is when it was
/// made: a file that was removed and made again often has the number of the one before.
#[cfg(target_os = "linux")]
fn look(path: &Path) -> Result<Stamp, Errno> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, wanted)?;
    Ok(Stamp {
        ino: found.stx_ino,
        size: 0,
        mode: found.stx_mode.into(),
        uid: found.stx_uid,
        gid: found.stx_gid,
        mtime: (found.stx_btime.tv_sec, found.stx_btime.tv_nsec.into()),
        ctime: (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec.into()),
    })
}

/// Looks at a path. Only Linux has a boundary that leaves permissions to be looked at.
#[cfg(not(target_os = "linux"))]
fn look(path: &Path) -> Result<Stamp, Errno> {
    Stamp::of(path).ok_or(Errno::NOENT)
}

/// Reads the extended attributes of a path, sorted. Where they cannot be read there are none to put back.
fn attributes(path: &Path) -> Attributes {
    let mut names = vec![0_u8; ATTRIBUTE_CAP];
    let Ok(length) = llistxattr(path, &mut names[..]) else { return Attributes::new() };
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut found: Attributes = names
        .filter_map(|name| {
            let mut value = vec![0_u8; ATTRIBUTE_CAP];
            let length = lgetxattr(path, name, &mut value[..]).ok()?;
            value.truncate(length);
            Some((name.to_owned(), value))
        })
        .collect();
    found.sort();
    found
}

/// Makes the extended attributes of a path what they were.
fn put_attributes_back(path: &Path, before: &Attributes) -> io::Result<()> {
    if look(path)?.kind().is_symlink() {
        return Ok(());
    }
    let now = attributes(path);
    if now == *before {
        return Ok(());
    }
    let mode = fs::symlink_metadata(path)?.permissions().mode();
    for (name, _) in now.iter().filter(|(name, _)| !before.iter().any(|(known, _)| known == name)) {
        lremovexattr(path, name.as_slice())?;
    }
    for (name, value) in before.iter().filter(|attribute| !now.contains(attribute)) {
        lsetxattr(path, name.as_slice(), value, XattrFlags::empty())?;
    }
    // An access list takes part in the permissions.
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// The path of the file with the protected set, next to that of a baseline.
pub(crate) fn file_beside(baseline: &Utf8Path) -> Utf8PathBuf {
    baseline.with_extension("outside")
}

#[cfg(test)]
#[path = "outside_tests.rs"]
mod tests;
