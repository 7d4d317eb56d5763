//! Records of private state: one JSON file per kind and item.
//!
//! All of them can be lost, at a price that each kind names. A file that cannot be read counts as absent and is kept aside
//! ([`super::damaged`]); a record that decides something carries its own proof of being whole (see `gates::pin`).

use std::marker::PhantomData;

use camino::{Utf8Path, Utf8PathBuf};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{State, file_name};
use crate::files::disk;
use crate::files::{
    PathError, create_private_directory, read_optional, remove_durably, replace_atomically,
};

/// A kind of record, with the directory that keeps them.
pub struct Entry<T> {
    directory: &'static str,
    /// What follows from the loss of one, for people.
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

    pub(crate) fn load(&self, state: &State, item: &str) -> Result<Option<T>, PathError> {
        self.read(state, &self.path(state, item))
    }

    fn read(&self, state: &State, path: &Utf8Path) -> Result<Option<T>, PathError> {
        let Some(bytes) = read_optional(path)? else { return Ok(None) };
        let record = serde_json::from_slice(&bytes).ok();
        if record.is_none() && state.holds_run_lock() {
            state.set_aside(path, self.loss)?;
        }
        Ok(record)
    }

    /// Tells whether a record of the item was kept aside because it could not be read.
    pub(crate) fn was_damaged(&self, state: &State, item: &str) -> bool {
        state.was_set_aside(&self.path(state, item))
    }

    /// Replaces the record durably.
    pub(crate) fn save(&self, state: &State, item: &str, record: &T) -> Result<(), PathError> {
        let path = self.path(state, item);
        create_private_directory(path.parent().expect("the file has a directory"))?;
        replace_atomically(&path, &serde_json::to_vec(record).expect("records are plain data"))
    }

    pub(crate) fn forget(&self, state: &State, item: &str) -> Result<(), PathError> {
        remove_durably(&self.path(state, item))
    }

    /// Returns every record that can be read, in no particular order.
    pub(crate) fn all(&self, state: &State) -> Result<Vec<T>, PathError> {
        let mut records = Vec::new();
        for path in self.files(state) {
            records.extend(self.read(state, &path)?);
        }
        Ok(records)
    }

    /// Has every record that can be read changed; those are written that were.
    pub(crate) fn change_all(
        &self,
        state: &State,
        mut change: impl FnMut(&mut T) -> bool,
    ) -> Result<(), PathError> {
        for path in self.files(state) {
            let Some(mut record) = self.read(state, &path)? else { continue };
            if change(&mut record) {
                let bytes = serde_json::to_vec(&record).expect("records are plain data");
                replace_atomically(&path, &bytes)?;
            }
        }
        Ok(())
    }

    /// Forgets the records of all items but these.
    pub(crate) fn retain<'i>(
        &self,
        state: &State,
        items: impl Iterator<Item = &'i str>,
    ) -> Result<(), PathError> {
        let kept: Vec<Utf8PathBuf> = items.map(|item| self.path(state, item)).collect();
        for path in self.files(state) {
            if !kept.contains(&path) {
                remove_durably(&path)?;
            }
        }
        Ok(())
    }

    pub(super) fn files(&self, state: &State) -> impl Iterator<Item = Utf8PathBuf> {
        let directory = state.directory().join(self.directory);
        let listed = disk::list(&directory).into_iter().flatten();
        let names = listed.filter_map(|entry| entry.name.into_string().ok());
        names.map(move |name| directory.join(name)).filter(|path| path.extension() == Some("json"))
    }
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
    fn a_record_that_cannot_be_read_counts_as_absent_and_is_kept_and_named_once() {
        let place = Place::new();
        let looking = place.state();
        NAMES.save(&looking, "a", &vec![]).unwrap();
        let path = NAMES.path(&looking, "a");
        std::fs::write(&path, "{").unwrap();
        // A reader without the run lock moves nothing: the record may just be replaced.
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
        // A second one is kept beside the first.
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
