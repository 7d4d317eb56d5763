//! All ids that a plan ever had, in a growing file.
//!
//! Its first line identifies it, the second has the last commit it covers and the valid length; then come the ids, one
//! per line. New ids are written after the valid ones, then the second line is overwritten in place, so a crash between
//! the two leaves the old ids valid. Growing is much cheaper than renaming over the old file, which makes ext4 write
//! the new one to disk at once. An inconsistent file is ignored, and losing it only costs time, so it is not synced.
//! The caller must hold the plan's lock to write it.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::io;

use camino::Utf8PathBuf;
use ralph_model::plan::Record;

use super::past::{Past, PlanPast};
use crate::files::disk::open_to_patch;
use crate::files::{create_private_directory, read_optional, replace_unsynced};
use crate::git::Oid;

/// All ids that were ever in the plan.
#[derive(Default)]
pub(crate) struct KnownIds {
    /// One per line, with a newline before the first and after the last.
    kept: Vec<u8>,
    new: BTreeSet<String>,
}

impl KnownIds {
    pub(crate) fn has(&self, id: &str) -> bool {
        can_be_kept(id) && (self.new.contains(id) || self.is_kept(id))
    }

    /// Adds an id that may be known already.
    pub(crate) fn add(&mut self, id: &str) {
        if can_be_kept(id) && !self.new.contains(id) {
            self.new.insert(id.to_owned());
        }
    }

    /// Adds the ids in lines of a plan.
    pub(super) fn add_lines<'l>(&mut self, lines: impl IntoIterator<Item = &'l &'l [u8]>) {
        for line in lines {
            match Record::of_line(line) {
                Record::Task(head) => self.add(&head.id),
                Record::Issue { id } => self.add(&id),
                _ => {}
            }
        }
    }

    fn is_kept(&self, id: &str) -> bool {
        memchr::memmem::find(&self.kept, format!("\n{id}\n").as_bytes()).is_some()
    }

    /// The ids not stored yet, one per line.
    fn unkept(&self) -> Vec<u8> {
        let new = self.new.iter().filter(|id| !self.is_kept(id));
        new.flat_map(|id| [id.as_bytes(), b"\n"].concat()).collect()
    }
}

/// Ralph's own ids never have such a character; others are not looked up.
fn can_be_kept(id: &str) -> bool {
    !id.contains(['\n', '\0'])
}

/// All ids that were ever in the plan, read on first use.
pub struct PastIds<'a> {
    past: Option<&'a dyn PlanPast>,
    read: OnceCell<Option<KnownIds>>,
}

impl<'a> PastIds<'a> {
    /// Without a history, no id was ever in the plan.
    pub fn of(past: Option<&'a Past>) -> PastIds<'a> {
        PastIds::in_past(past.map(|past| past as &dyn PlanPast))
    }

    pub(super) fn in_past(past: Option<&'a dyn PlanPast>) -> PastIds<'a> {
        PastIds { past, read: OnceCell::new() }
    }

    fn read(&self) -> Option<&KnownIds> {
        self.read.get_or_init(|| self.past.and_then(|past| past.ids().ok())).as_ref()
    }

    /// Whether an id was in the plan, as far as its history is readable.
    pub fn has(&self, id: &str) -> bool {
        self.read().is_some_and(|known| known.has(id))
    }

    /// Whether the whole history could be read: the repository may be a shallow clone, or lack contents.
    pub fn is_whole(&self) -> bool {
        self.past.is_none_or(|past| !past.is_shallow() && self.read().is_some())
    }
}

/// The file.
pub(super) struct IdsFile {
    path: Utf8PathBuf,
    /// Its first line, which identifies it.
    about: String,
}

impl IdsFile {
    pub(super) fn at(path: Utf8PathBuf, about: String) -> Self {
        debug_assert!(!about.contains('\n'), "it is one line");
        IdsFile { path, about }
    }

    /// Returns the stored ids, and the last commit they cover; `None` if there is no valid content.
    pub(super) fn read(&self) -> Option<(Oid, KnownIds)> {
        let mut bytes = read_optional(&self.path).ok()??;
        let rest = bytes.strip_prefix(self.about.as_bytes())?.strip_prefix(b"\n")?;
        let line = &rest[..memchr::memchr(b'\n', rest)?];
        let (tip, length) = std::str::from_utf8(line).ok()?.split_once(' ')?;
        let tip = Oid::parse(tip.as_bytes())?;
        let length: usize = length.trim_start().parse().ok()?;
        let start = self.about.len() + 1 + line.len();
        let ids = bytes.get(start..length)?;
        // A power failure may leave zeros or truncate it.
        if !ids.ends_with(b"\n") || memchr::memchr(0, ids).is_some() {
            return None;
        }
        bytes.truncate(length);
        bytes.drain(..start);
        Some((tip, KnownIds { kept: bytes, new: BTreeSet::new() }))
    }

    /// Writes the stored and the new ids; on failure they are computed again.
    pub(super) fn write(&self, tip: &Oid, known: &KnownIds) {
        let new = known.unkept();
        let head = self.about.len() + 1;
        let kept = head + status(tip, 0).len() + known.kept.len().saturating_sub(1);
        let status = status(tip, kept + new.len());
        let grown = !known.kept.is_empty() && self.grow((kept, &new), (head, &status)).is_ok();
        if !grown {
            let ids = known.kept.get(1..).unwrap_or_default();
            let whole = [self.about.as_bytes(), b"\n", status.as_bytes(), ids, &new].concat();
            let directory = self.path.parent().expect("it lies in private state");
            let written = create_private_directory(directory)
                .and_then(|()| replace_unsynced(&self.path, &whole));
            drop(written);
        }
    }

    /// Writes the new ids, then the line that makes them valid, each at its offset.
    fn grow(&self, ids: (usize, &[u8]), status: (usize, &str)) -> io::Result<()> {
        let file = open_to_patch(&self.path, false)?;
        file.write_all_at(ids.1, ids.0 as u64)?;
        file.write_all_at(status.1.as_bytes(), status.0 as u64)
    }
}

/// The second line, of constant length.
fn status(tip: &Oid, length: usize) -> String {
    format!("{} {length:>15}\n", tip.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oid(digit: char) -> Oid {
        Oid::parse(digit.to_string().repeat(40).as_bytes()).unwrap()
    }

    struct World {
        directory: tempfile::TempDir,
    }

    impl World {
        fn file(&self) -> IdsFile {
            let path = self.directory.path().join("deep/ids");
            IdsFile::at(Utf8PathBuf::try_from(path).unwrap(), "{\"about\":1}".to_owned())
        }

        /// Three ids, two of which were added later.
        fn new() -> World {
            let world = World { directory: tempfile::tempdir().unwrap() };
            let mut known = KnownIds::default();
            known.add("t-one");
            world.file().write(&oid('a'), &known);
            for (tip, ids) in [('b', &["t-two", "t-one"][..]), ('c', &[]), ('d', &["t-three"])] {
                let (_, mut known) = world.file().read().unwrap();
                for id in ids {
                    known.add(id);
                }
                world.file().write(&oid(tip), &known);
            }
            world
        }
    }

    #[test]
    fn what_was_added_is_known_and_nothing_else_is() {
        let world = World::new();
        let (tip, known) = world.file().read().unwrap();
        assert_eq!(tip, oid('d'));
        assert_eq!(known.kept, b"\nt-one\nt-two\nt-three\n");
        for id in ["t-one", "t-two", "t-three"] {
            assert!(known.has(id));
        }
        for id in ["", "t-", "t-one\nt-two", "\n", oid('d').as_str(), "{\"about\":1}"] {
            assert!(!known.has(id), "{id:?}");
        }
    }

    #[test]
    fn ids_that_were_written_when_the_process_died_do_not_count() {
        let world = World::new();
        let bytes = std::fs::read(&world.file().path).unwrap();
        let (_, mut known) = world.file().read().unwrap();
        known.add("t-four");
        world.file().grow((bytes.len(), b"t-four\n"), (0, "")).unwrap();
        let (tip, after) = world.file().read().unwrap();
        assert_eq!((tip, after.has("t-four")), (oid('d'), false));
        world.file().write(&oid('e'), &known);
        let (tip, after) = world.file().read().unwrap();
        assert_eq!((tip, after.kept), (oid('e'), b"\nt-one\nt-two\nt-three\nt-four\n".to_vec()));
    }

    #[test]
    fn a_file_that_is_cut_emptied_or_about_something_else_is_not_believed() {
        let world = World::new();
        let path = world.file().path;
        let bytes = std::fs::read(&path).unwrap();
        for end in 0..bytes.len() {
            std::fs::write(&path, &bytes[..end]).unwrap();
            assert!(world.file().read().is_none(), "{end}");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] = 0;
            std::fs::write(&path, damaged).unwrap();
            assert!(world.file().read().is_none(), "{at}");
        }
        std::fs::write(&path, bytes).unwrap();
        let other = IdsFile { about: "{\"about\":2}".to_owned(), ..world.file() };
        assert!(other.read().is_none() && world.file().read().is_some());
    }
}
