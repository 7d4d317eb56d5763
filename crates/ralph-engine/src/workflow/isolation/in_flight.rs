//! What is in flight, on refs of the person's repository: `refs/ralph/item/<key>/<n>`.
//!
//! While a workflow is at work the files of home that it has written are in its draft, in private state. After each
//! transition they are also committed to the item's ref, with what each of them was on the person's side. So whoever
//! looks at home sees them ([`super::overlay`]), and a workflow whose private state was lost takes them up again. The
//! refs go when what they hold is on the branch.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use camino::{Utf8Path, Utf8PathBuf};

use super::access::ItemAccess;
use super::draft::{HomeDraft, merge_home_file};
use crate::files::disk;
use crate::git::Oid;
use crate::git::home_copy::{HomeBlob, HomeChange};
use crate::git::item_refs::{ItemKey, ItemRecord, ItemRefError, ItemWrite};
use crate::workflow::WorkflowError;

const ITEM: &str = "Item: ";
const CHECKOUT: &str = "Checkout: ";
const HOME: &str = "Home: ";
const SEEN: &str = "Seen: ";
const WAS: &str = "Was: ";
/// Stands for a file that was not there.
const ABSENT: &str = "-";

/// A file that is in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FlyingFile {
    /// What it was on the person's side; `None` if it was not there.
    pub(super) was: Option<Oid>,
    /// What it is; `None` if it was removed.
    pub(super) now: Option<Vec<u8>>,
}

/// What is in flight of one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flight {
    pub(super) item: String,
    /// The work tree of the person's that it belongs to: several can share the refs of a repository.
    pub(super) checkout: Utf8PathBuf,
    /// Home, named from the root of the work tree.
    pub(super) home: PathBuf,
    /// The tip of the run's branch that it is to be laid over.
    pub(super) seen: Option<Oid>,
    /// By their paths from the root of the work tree.
    pub(super) files: BTreeMap<PathBuf, FlyingFile>,
}

impl Flight {
    fn message(&self, subject: &str) -> String {
        let Flight { item, checkout, home, seen, files } = self;
        let quoted =
            |path: &Path| serde_json::to_string(&path.to_string_lossy()).expect("it is text");
        let (subject, checkout) = (subject.trim_end(), quoted(checkout.as_std_path()));
        let home = quoted(home);
        let mut text = format!("{subject}\n\n{ITEM}{item}\n{CHECKOUT}{checkout}\n{HOME}{home}\n");
        if let Some(seen) = seen {
            let _ = writeln!(text, "{SEEN}{seen}");
        }
        for (path, file) in files {
            let was = file.was.as_ref().map_or(ABSENT, Oid::as_str);
            let _ = writeln!(text, "{WAS}{was} {}", quoted(path));
        }
        text
    }

    /// Reads what a ref holds; `None` if it is none that Ralph wrote.
    fn read(record: &ItemRecord) -> Option<Flight> {
        let (mut item, mut checkout, mut home, mut seen) = (None, None, None, None);
        let mut files = BTreeMap::new();
        for line in record.message.lines() {
            let path =
                |quoted: &str| serde_json::from_str::<String>(quoted).ok().map(PathBuf::from);
            if let Some(name) = line.strip_prefix(ITEM) {
                item = Some(name.to_owned());
            } else if let Some(quoted) = line.strip_prefix(CHECKOUT) {
                checkout = Utf8PathBuf::from_path_buf(path(quoted)?).ok();
            } else if let Some(quoted) = line.strip_prefix(HOME) {
                home = Some(path(quoted)?);
            } else if let Some(id) = line.strip_prefix(SEEN) {
                seen = Some(Oid::parse(id.as_bytes())?);
            } else if let Some((was, quoted)) =
                line.strip_prefix(WAS).and_then(|rest| rest.split_once(' '))
            {
                let was = if was == ABSENT { None } else { Some(Oid::parse(was.as_bytes())?) };
                let path = path(quoted)?;
                let now = record.files.iter().find(|(known, _)| *known == path);
                let now = now.map(|(_, content)| content.clone());
                files.insert(path, FlyingFile { was, now });
            }
        }
        Some(Flight { item: item?, checkout: checkout?, home: home?, seen, files })
    }

    /// Tells whether it is of a home in a work tree. What was in flight of a work tree that is gone, because the repository
    /// was moved or restored elsewhere, is anybody's to take up.
    pub(super) fn is_of(&self, checkout: &Utf8Path, home: &Path) -> bool {
        self.home == home && (self.checkout == checkout || !disk::exists(&self.checkout))
    }
}

/// Returns what is in flight in a repository.
pub(super) fn read_all(git: &dyn ItemAccess) -> Result<Vec<(ItemRecord, Flight)>, ItemRefError> {
    if !git.may_have_items() {
        return Ok(Vec::new());
    }
    let records = git.read_every_item()?;
    let read = |record: ItemRecord| {
        let flight = Flight::read(&record)?;
        Some((record, flight))
    };
    Ok(records.into_iter().filter_map(read).collect())
}

/// Writes what is in flight of an item to its ref. This workflow is the only one that has the item: whatever the ref
/// held is what it held before.
pub(super) fn write(
    git: &dyn ItemAccess,
    flight: &Flight,
    subject: &str,
) -> Result<(), ItemRefError> {
    let key = ItemKey::new(&flight.item);
    let (number, previous) = place_of(git, flight, &key)?;
    let files: Vec<(PathBuf, Vec<u8>)> = flight
        .files
        .iter()
        .filter_map(|(path, file)| Some((path.clone(), file.now.clone()?)))
        .collect();
    git.write_item(&ItemWrite {
        key: &key,
        number,
        files: &files,
        message: &flight.message(subject),
        previous: previous.as_ref(),
    })?;
    Ok(())
}

/// Returns the number of an item's state, and the state: another working tree may have an item of the same name in
/// flight.
fn place_of(
    git: &dyn ItemAccess,
    flight: &Flight,
    key: &ItemKey,
) -> Result<(u64, Option<Oid>), ItemRefError> {
    if !git.may_have_items() {
        return Ok((1, None));
    }
    let known: Vec<_> =
        read_all(git)?.into_iter().filter(|(record, _)| record.key == *key).collect();
    let own = known.iter().find(|(_, known)| known.is_of(&flight.checkout, &flight.home));
    if let Some((record, _)) = own {
        return Ok((record.number, Some(record.commit.clone())));
    }
    let highest = known.iter().map(|(record, _)| record.number).max();
    Ok((highest.map_or(1, |number| number + 1), None))
}

/// Removes the refs of a home: what they held is on the branch.
pub(super) fn clear(
    git: &dyn ItemAccess,
    checkout: &Utf8Path,
    home: &Path,
) -> Result<(), ItemRefError> {
    for (record, flight) in read_all(git)? {
        if flight.is_of(checkout, home) {
            // A later writer has it in flight.
            git.drop_item(&record)?;
        }
    }
    Ok(())
}

impl HomeDraft {
    /// Lays what was in flight over a tree of home, as far as the person has not put something else in its place.
    pub(super) fn lay_over(&self, tree: &Oid, flights: &[Flight]) -> Result<Oid, WorkflowError> {
        let mut changes = Vec::new();
        for (path, file) in flights.iter().flat_map(|flight| &flight.files) {
            let there = self.copy.blobs_in(tree, &[path.as_path()])?.remove(0);
            let after = match (&there, &file.now) {
                (there, now) if there.as_ref().map(|blob| &blob.id) == file.was.as_ref() => {
                    now.as_deref().map(|bytes| self.blob(bytes)).transpose()?
                }
                (Some(there), Some(now)) => Some(self.merged(path, file, now, there)?),
                _ => continue,
            };
            changes.push(HomeChange { path: path.clone(), after });
        }
        Ok(self.copy.tree_with(tree, &changes)?)
    }

    fn merged(
        &self,
        path: &Path,
        file: &FlyingFile,
        now: &[u8],
        there: &HomeBlob,
    ) -> Result<HomeBlob, WorkflowError> {
        let mut ids = vec![there.id.clone()];
        ids.extend(file.was.clone());
        let mut blobs = self.copy.blobs(&ids)?;
        let base = file.was.as_ref().and_then(|was| blobs.remove(was)).unwrap_or_default();
        let theirs = blobs.remove(&there.id).unwrap_or_default();
        self.blob(&merge_home_file(path, &base, now, theirs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_what_was_there_whatever_the_names() {
        let id = Oid::parse(b"0123456789012345678901234567890123456789").unwrap();
        let name = PathBuf::from("ralph/specs/plans/a \"b\"\nc.md");
        let file = FlyingFile { was: Some(id.clone()), now: Some(b"x".to_vec()) };
        let gone = FlyingFile { was: Some(id.clone()), now: None };
        let new = FlyingFile { was: None, now: Some(Vec::new()) };
        let files = [(name, file), ("ralph/b".into(), gone), ("ralph/c".into(), new)];
        let flight = Flight {
            item: "0001-a".to_owned(),
            checkout: "/w/a b".into(),
            home: "ralph".into(),
            seen: Some(id.clone()),
            files: files.into(),
        };
        let held = flight.files.iter();
        let record = ItemRecord {
            key: ItemKey::new("0001-a"),
            number: 1,
            commit: id,
            message: flight.message("ralph: 0001-a is planned"),
            files: held
                .filter_map(|(path, file)| Some((path.clone(), file.now.clone()?)))
                .collect(),
        };
        assert_eq!(Flight::read(&record), Some(flight));
        assert_eq!(Flight::read(&ItemRecord { message: "x\n".to_owned(), ..record }), None);
    }
}
