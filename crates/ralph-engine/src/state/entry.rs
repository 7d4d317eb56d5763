//! Records of private state: one JSON file per kind and item.
//!
//! All of them can be lost. A file that cannot be read counts as absent, because its reader can do the
//! work again; a record that decides something carries its own proof of being whole (see `gates::pin`).

use std::marker::PhantomData;

use camino::Utf8PathBuf;
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
    record: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> Entry<T> {
    pub(crate) const fn new(directory: &'static str) -> Entry<T> {
        Entry { directory, record: PhantomData }
    }

    /// Returns the file of an item's record.
    pub(crate) fn path(&self, state: &State, item: &str) -> Utf8PathBuf {
        state.directory().join(self.directory).join(format!("{}.json", file_name(item)))
    }

    pub(crate) fn load(&self, state: &State, item: &str) -> Result<Option<T>, PathError> {
        let bytes = read_optional(&self.path(state, item))?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
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
            let bytes = read_optional(&path)?;
            records.extend(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()));
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
            let bytes = read_optional(&path)?;
            let record: Option<T> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let Some(mut record) = record else { continue };
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

    const NAMES: Entry<Vec<String>> = Entry::new("names");

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
    fn a_record_that_cannot_be_read_counts_as_absent() {
        let place = Place::new();
        let state = place.state();
        NAMES.save(&state, "a", &vec![]).unwrap();
        std::fs::write(NAMES.path(&state, "a"), "{").unwrap();
        assert_eq!(NAMES.load(&state, "a").unwrap(), None);
        assert_eq!(NAMES.all(&state).unwrap(), Vec::<Vec<String>>::new());
    }
}
