//! Records of private state: one JSON file per kind and item.
//!
//! Each is written twice, with an increasing number and a digest: if one file is damaged or outdated, the other shows
//! that and is used. Losing both has consequences that each kind describes. Unreadable files are kept aside
//! ([`super::damaged`]); if both are unreadable, the record counts as absent.

use std::collections::BTreeSet;
use std::io;
use std::marker::PhantomData;

use camino::{Utf8Path, Utf8PathBuf};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{State, file_name};
use crate::digest;
use crate::files::{
    PathError, create_private_directory, list_optional, read_optional, remove_durably,
    replace_atomically, replace_unsynced,
};

/// The directory of the second copies, by kind.
pub(crate) const COPIES: &str = "copies";
/// The consequences of losing one of two copies, for people.
const COPY_SERVES: &str = "nothing is lost, there is another";

/// A kind of record, with its directory.
pub struct Entry<T> {
    directory: &'static str,
    /// The consequences of losing a record, for people.
    loss: &'static str,
    record: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> Entry<T> {
    pub(crate) const fn new(directory: &'static str, loss: &'static str) -> Entry<T> {
        Entry { directory, loss, record: PhantomData }
    }

    /// Returns the file of an item's record.
    pub(crate) fn path(&self, state: &State, item: &str) -> Utf8PathBuf {
        state.directory().join(self.directory).join(format!("{}.json", file_name(item)))
    }

    /// Returns the file of the second copy, given the first.
    fn copy_of(&self, state: &State, path: &Utf8Path) -> Utf8PathBuf {
        let name = path.file_name().expect("a record has a name");
        state.directory().join(COPIES).join(self.directory).join(name)
    }

    pub(crate) fn load(&self, state: &State, item: &str) -> Result<Option<T>, PathError> {
        self.read(state, &self.path(state, item))
    }

    fn read(&self, state: &State, path: &Utf8Path) -> Result<Option<T>, PathError> {
        let copy = self.copy_of(state, path);
        let (first, second) = (Sealed::read(path)?, Sealed::read(&copy)?);
        let second_wins = match (&first, &second) {
            (Reading::Whole(first), Reading::Whole(second)) => second.number > first.number,
            (_, Reading::Whole(_)) => true,
            _ => false,
        };
        if state.holds_run_lock() {
            if matches!(first, Reading::Damaged) {
                state.set_aside(path, if second_wins { COPY_SERVES } else { self.loss })?;
            }
            if matches!(second, Reading::Damaged) {
                remove_durably(&copy)?;
            }
            if second_wins && let Reading::Whole(sealed) = &second {
                create_private_directory(path.parent().expect("the file has a directory"))?;
                replace_atomically(path, &render(sealed.number, &sealed.record))?;
            }
        }
        let chosen = if second_wins { second } else { first };
        Ok(if let Reading::Whole(sealed) = chosen { Some(sealed.record) } else { None })
    }

    /// Whether an unreadable record of the item was kept aside.
    pub(crate) fn was_damaged(&self, state: &State, item: &str) -> bool {
        state.was_set_aside(&self.path(state, item))
    }

    /// Keeps a useless record aside. `loss` describes the consequences.
    pub(crate) fn set_aside(&self, state: &State, item: &str, loss: &str) -> Result<(), PathError> {
        let path = self.path(state, item);
        remove_durably(&self.copy_of(state, &path))?;
        state.set_aside(&path, loss)
    }

    /// Replaces the record durably.
    pub(crate) fn save(&self, state: &State, item: &str, record: &T) -> Result<(), PathError> {
        self.write(state, &self.path(state, item), record)
    }

    fn write(&self, state: &State, path: &Utf8Path, record: &T) -> Result<(), PathError> {
        let copy = self.copy_of(state, path);
        let number = |path: &Utf8Path| match Sealed::<T>::read(path) {
            Ok(Reading::Whole(sealed)) => sealed.number,
            _ => 0,
        };
        let number = number(path).max(number(&copy)) + 1;
        let bytes = render(number, record);
        create_private_directory(path.parent().expect("the file has a directory"))?;
        replace_atomically(path, &bytes)?;
        // Not synced: after a power failure the first copy exists and is newer.
        create_private_directory(copy.parent().expect("the file has a directory"))?;
        replace_unsynced(&copy, &bytes)
    }

    /// Removes the record. The second copy is removed first: alone it would look like a record whose first copy was
    /// lost.
    pub(crate) fn forget(&self, state: &State, item: &str) -> Result<(), PathError> {
        self.remove(state, &self.path(state, item))
    }

    fn remove(&self, state: &State, path: &Utf8Path) -> Result<(), PathError> {
        remove_durably(&self.copy_of(state, path))?;
        remove_durably(path)
    }

    /// Returns every readable record, in no particular order.
    pub(crate) fn all(&self, state: &State) -> Result<Vec<T>, PathError> {
        let mut records = Vec::new();
        for path in self.files(state)? {
            records.extend(self.read(state, &path)?);
        }
        Ok(records)
    }

    /// Lets a function change every readable record; changed ones are written.
    pub(crate) fn change_all(
        &self,
        state: &State,
        mut change: impl FnMut(&mut T) -> bool,
    ) -> Result<(), PathError> {
        for path in self.files(state)? {
            let Some(mut record) = self.read(state, &path)? else { continue };
            if change(&mut record) {
                self.write(state, &path, &record)?;
            }
        }
        Ok(())
    }

    /// Removes the records of all other items.
    pub(crate) fn retain<'i>(
        &self,
        state: &State,
        items: impl Iterator<Item = &'i str>,
    ) -> Result<(), PathError> {
        let kept: Vec<Utf8PathBuf> = items.map(|item| self.path(state, item)).collect();
        for path in self.files(state)? {
            if !kept.contains(&path) {
                self.remove(state, &path)?;
            }
        }
        Ok(())
    }

    pub(super) fn files(
        &self,
        state: &State,
    ) -> Result<impl Iterator<Item = Utf8PathBuf>, PathError> {
        let directory = state.directory().join(self.directory);
        let mut names = BTreeSet::new();
        for place in [&directory, &state.directory().join(COPIES).join(self.directory)] {
            let listed = list_optional(place)?.into_iter();
            names.extend(listed.filter_map(|entry| entry.name.into_string().ok()));
        }
        let files = names.into_iter().map(move |name| directory.join(name));
        Ok(files.filter(|path| path.extension() == Some("json")))
    }
}

/// A record on disk: a line with its number and the digest of the rest, then the record.
struct Sealed<T> {
    /// Incremented by each change.
    number: u64,
    record: T,
}

/// The first line of a record.
#[derive(Serialize, Deserialize)]
struct Seal {
    number: u64,
    digest: String,
}

/// The content of a file.
enum Reading<T> {
    Absent,
    Damaged,
    Whole(Sealed<T>),
}

impl<T: DeserializeOwned> Sealed<T> {
    fn read(path: &Utf8Path) -> Result<Reading<T>, PathError> {
        let bytes = match read_optional(path) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(Reading::Absent),
            // Something else is at its path, or at that of its directory: the next start moves it away.
            Err(problem) => {
                return match problem.source.kind() {
                    io::ErrorKind::NotADirectory => Ok(Reading::Absent),
                    io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput => {
                        Ok(Reading::Damaged)
                    }
                    _ => Err(problem),
                };
            }
        };
        Ok(Self::parse(&bytes).map_or(Reading::Damaged, Reading::Whole))
    }

    fn parse(bytes: &[u8]) -> Option<Sealed<T>> {
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
        let (seal, record) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
        let Ok(Seal { number, digest }) = serde_json::from_slice(seal) else {
            // Written by an earlier version.
            let record = serde_json::from_slice(bytes).ok()?;
            return Some(Sealed { number: 0, record });
        };
        if digest::of_bytes(record) != digest {
            return None;
        }
        Some(Sealed { number, record: serde_json::from_slice(record).ok()? })
    }
}

/// Renders a record with its seal.
fn render(number: u64, record: &impl Serialize) -> Vec<u8> {
    let record = serde_json::to_vec(record).expect("records are plain data");
    let seal = Seal { number, digest: digest::of_bytes(&record) };
    let mut bytes = serde_json::to_vec(&seal).expect("it is plain data");
    bytes.push(b'\n');
    bytes.extend(record);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_place::Place;

    const NAMES: Entry<Vec<String>> = Entry::new("names", "they are given again");

    #[test]
    fn a_record_is_kept_by_kind_and_item_until_it_is_forgotten() {
        let place = Place::new();
        let state = place.state();
        for item in ["a", "spec 1/x"] {
            assert_eq!(NAMES.load(&state, item).unwrap(), None);
            NAMES.save(&state, item, &vec![item.to_owned()]).unwrap();
            assert_eq!(NAMES.load(&state, item).unwrap(), Some(vec![item.to_owned()]));
        }
        assert_eq!(NAMES.all(&state).unwrap().len(), 2);
        let rename = |names: &mut Vec<String>| {
            let is_a = names[0] == "a";
            names.extend(is_a.then(|| "b".to_owned()));
            is_a
        };
        NAMES.change_all(&state, rename).unwrap();
        assert_eq!(NAMES.load(&state, "a").unwrap(), Some(vec!["a".into(), "b".into()]));
        assert_eq!(NAMES.load(&state, "spec 1/x").unwrap(), Some(vec!["spec 1/x".into()]));
        NAMES.retain(&state, ["spec 1/x"].into_iter()).unwrap();
        assert_eq!(NAMES.load(&state, "a").unwrap(), None);
        NAMES.forget(&state, "spec 1/x").unwrap();
        assert_eq!(NAMES.all(&state).unwrap(), Vec::<Vec<String>>::new());
    }

    #[test]
    fn whatever_becomes_of_one_writing_the_other_is_used() {
        let place = Place::new();
        let state = place.state().with_run_lock();
        let names = |text: &str| vec![text.to_owned()];
        let path = NAMES.path(&state, "a");
        let copy = NAMES.copy_of(&state, &path);
        NAMES.save(&state, "a", &names("old")).unwrap();
        let old = std::fs::read(&path).unwrap();
        NAMES.save(&state, "a", &names("new")).unwrap();
        let new = std::fs::read(&path).unwrap();
        let mut touched = new.clone();
        *touched.last_mut().unwrap() = b' ';
        for (damaged, other) in [(&path, &copy), (&copy, &path)] {
            let ways =
                [None, Some(&b""[..]), Some(b"\0\0"), Some(&new[..9]), Some(&old), Some(&touched)];
            for way in ways {
                match way {
                    Some(bytes) => std::fs::write(damaged, bytes).unwrap(),
                    None => std::fs::remove_file(damaged).unwrap(),
                }
                assert_eq!(NAMES.load(&state, "a").unwrap(), Some(names("new")), "{way:?}");
                assert_eq!(NAMES.all(&state).unwrap(), [names("new")], "{way:?}");
                NAMES.save(&state, "a", &names("new")).unwrap();
                assert_eq!(std::fs::read(damaged).unwrap(), std::fs::read(other).unwrap());
            }
        }
        NAMES.forget(&state, "a").unwrap();
        assert_eq!(NAMES.load(&state, "a").unwrap(), None);
        assert!(NAMES.all(&state).unwrap().is_empty() && !copy.exists());
        // An earlier version wrote only the record.
        std::fs::write(&path, "[\"plain\"]").unwrap();
        assert_eq!(NAMES.load(&state, "a").unwrap(), Some(names("plain")));
    }

    #[test]
    fn a_record_that_cannot_be_read_counts_as_absent_and_is_kept_and_named_once() {
        let place = Place::new();
        let looking = place.state();
        NAMES.save(&looking, "a", &vec![]).unwrap();
        let path = NAMES.path(&looking, "a");
        std::fs::remove_file(NAMES.copy_of(&looking, &path)).unwrap();
        std::fs::write(&path, "{").unwrap();
        // A reader without the run lock moves nothing: the record may just be in the middle of being replaced.
        assert_eq!(NAMES.load(&looking, "a").unwrap(), None);
        assert_eq!(NAMES.all(&looking).unwrap(), Vec::<Vec<String>>::new());
        assert!(path.exists() && looking.untold().is_empty());
        let working = looking.clone().with_run_lock();
        assert_eq!(NAMES.load(&working, "a").unwrap(), None);
        assert!(!path.exists() && NAMES.was_damaged(&working, "a"));
        let untold = working.untold();
        let told: Vec<&str> = untold.iter().map(|damaged| damaged.reason.as_str()).collect();
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("`names/a.json`") && told[0].ends_with("they are given again"));
        untold[0].was_told().unwrap();
        assert!(working.untold().is_empty());
        // A second one is kept next to the first.
        std::fs::write(&path, "[1]").unwrap();
        assert_eq!(NAMES.all(&working).unwrap(), Vec::<Vec<String>>::new());
        let kept = std::fs::read_dir(working.directory().join("damaged")).unwrap();
        let mut kept: Vec<String> =
            kept.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
        kept.retain(|text| !text.contains("names/a.json"));
        kept.sort();
        assert_eq!(kept, ["[1]", "{"]);
    }
}
