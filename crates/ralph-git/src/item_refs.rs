//! State of items in flight: `refs/ralph/item/<key>/<n>` in the person's repository.
//!
//! Each ref points to a small chain of commits whose trees contain only that item's files of home; the highest number
//! is current. A write is a compare-and-swap: objects are on disk before the ref moves, and the ref moves only from the
//! value that the caller read. So a crash leaves either the old or the new state.

use std::fmt;
use std::path::PathBuf;

use gix_hash::ObjectId;
use ralph_proc::fault;
use sha2::{Digest, Sha256};

use super::call::Call;
use super::commits::{CommitError, Signing, parse_id};
use super::direct::trees::NewObjects;
use super::drivers::Drivers;
use super::new_commit::NewCommit;
use super::objects::{ObjectKind, Objects};
use super::oid::hex;
use super::parse::parse_commit;
use super::settings::{OwnSettings, Unfit};
use super::tree_edit::{TreeChange, TreeChanges, all_files};
use super::{Git, GitError, ObjectError, Oid, read_regular};

const ITEMS: &str = "refs/ralph/item/";

/// The longest key in bytes; file systems allow 255 for a name, and git appends `.lock`.
const LONGEST: usize = 200;

/// An item's name, encoded for refs and file names.
///
/// Letters, digits, `-`, `_` and most dots are kept; `/` becomes `+`, every other byte `=xx`. Keys are unique; one that
/// is too long ends in a hash of the whole name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemKey(String);

impl ItemKey {
    pub fn new(name: &str) -> Self {
        let mut key = String::with_capacity(name.len());
        let letters: Vec<char> = name.chars().collect();
        for (at, letter) in letters.iter().enumerate() {
            let next = letters.get(at + 1);
            let is_plain = match letter {
                // Git allows no dot at either end of a name, none after another, and none before `lock`.
                '.' => {
                    at > 0
                        && next.is_some_and(|next| !matches!(next, '.' | '/'))
                        && !matches!(letters[at - 1], '/')
                        && !letters[at + 1..].starts_with(&['l', 'o', 'c', 'k'])
                }
                '-' => at > 0,
                '_' => true,
                other => other.is_alphanumeric(),
            };
            match letter {
                letter if is_plain => key.push(*letter),
                '/' => key.push('+'),
                letter => {
                    let mut bytes = [0; 4];
                    for byte in letter.encode_utf8(&mut bytes).bytes() {
                        key.push('=');
                        key.push_str(&hex(&[byte]));
                    }
                }
            }
        }
        if key.is_empty() {
            // Unambiguous: elsewhere `=` is always followed by two digits.
            key.push('=');
        }
        if key.len() > LONGEST {
            let digest = Sha256::digest(name.as_bytes());
            let end = (0..=LONGEST - 40).rev().find(|end| key.is_char_boundary(*end));
            key.truncate(end.unwrap_or(0));
            // Unambiguous as well.
            key.push_str("=_");
            key.push_str(&hex(&digest[..16]));
        }
        ItemKey(key)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the ref that keeps a run's uncommitted leftovers of this item.
    pub fn left_ref(&self) -> String {
        format!("refs/ralph/left/{self}")
    }

    fn item_ref(&self, number: u64) -> String {
        format!("{ITEMS}{self}/{number}")
    }
}

impl fmt::Display for ItemKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The state of an item in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemRecord {
    pub key: ItemKey,
    pub number: u64,
    pub commit: Oid,
    /// The commit message.
    pub message: String,
    /// The item's files of home, by their paths from the root of the working tree, sorted.
    pub files: Vec<(PathBuf, Vec<u8>)>,
}

/// A new state of an item.
#[derive(Clone, Copy, Debug)]
pub struct ItemWrite<'a> {
    pub key: &'a ItemKey,
    pub number: u64,
    pub files: &'a [(PathBuf, Vec<u8>)],
    pub message: &'a str,
    /// The expected current target of the ref; `None` if it must not exist.
    pub previous: Option<&'a Oid>,
}

/// The state of an item could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ItemRefError {
    /// Another process wrote it since it was read; nothing was changed.
    #[error("the state of item `{key}` changed meanwhile")]
    Lost { key: ItemKey },
    #[error("`{}` cannot be a file of an item", super::shown(path))]
    Path { path: PathBuf },
    #[error("the objects of item `{key}` cannot be written: {reason}")]
    Objects { key: ItemKey, reason: &'static str },
    #[error(transparent)]
    Read(#[from] ObjectError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error(transparent)]
    Git(#[from] GitError),
}

impl Git {
    /// Writes a new state of an item, if its ref still has the expected target; returns the commit.
    pub fn write_item(&self, write: &ItemWrite<'_>) -> Result<Oid, ItemRefError> {
        let unwritable = |Unfit(reason)| ItemRefError::Objects { key: write.key.clone(), reason };
        let (mut objects, is_shared) = self.object_store()?;
        let mut fresh = NewObjects::new(objects.kind);
        let mut changes = TreeChanges::default();
        for (path, content) in write.files {
            let id = fresh.add("blob", content).map_err(unwritable)?;
            if !changes.add(path, TreeChange::Put { mode: b"100644".to_vec(), id }) {
                return Err(ItemRefError::Path { path: path.clone() });
            }
        }
        let tree = Oid::of(&changes.apply(&mut objects, &mut fresh, None)?);
        if is_shared {
            // Git sets the file permissions that other users need.
            fresh.write_by_git(self)?;
        } else {
            let directory = self.place().common_dir.join("objects");
            fresh.write(directory.as_std_path()).map_err(unwritable)?;
        }
        fault::after_write();
        let parents: Vec<&Oid> = write.previous.into_iter().collect();
        let (message, signing) = (write.message, Signing::Unsigned);
        let commit = NewCommit { tree: &tree, parents: &parents, message, author: None, signing };
        let commit = commit.write(self, self, &Drivers::of(self)?)?;
        let name = write.key.item_ref(write.number);
        let moved = self.swap_ref(&name, write.previous, Some(&commit))?;
        moved.then_some(commit).ok_or_else(|| ItemRefError::Lost { key: write.key.clone() })
    }

    /// Returns the current state of an item: that of its highest number.
    pub fn read_item(&self, key: &ItemKey) -> Result<Option<ItemRecord>, ItemRefError> {
        let newest =
            self.item_refs(&format!("{ITEMS}{key}/"))?.into_iter().max_by_key(|found| found.1);
        let Some((key, number, commit)) = newest else { return Ok(None) };
        let (mut objects, _) = self.object_store()?;
        let (message, files) = content_of(&mut objects, &commit)?;
        Ok(Some(ItemRecord { key, number, commit, message, files }))
    }

    /// Returns the current state of every item in flight, sorted by key: one git call, then reads in process.
    pub fn read_items(&self) -> Result<Vec<ItemRecord>, ItemRefError> {
        let mut refs = self.item_refs(ITEMS)?;
        refs.sort();
        let (mut objects, _) = self.object_store()?;
        let mut records: Vec<ItemRecord> = Vec::new();
        for (at, (key, number, commit)) in refs.iter().enumerate() {
            if refs.get(at + 1).is_some_and(|next| next.0 == *key) {
                continue;
            }
            let (message, files) = content_of(&mut objects, commit)?;
            let (key, commit) = (key.clone(), commit.clone());
            records.push(ItemRecord { key, number: *number, commit, message, files });
        }
        Ok(records)
    }

    /// Returns all numbered states of every item in flight, sorted.
    pub fn read_every_item(&self) -> Result<Vec<ItemRecord>, ItemRefError> {
        let mut refs = self.item_refs(ITEMS)?;
        refs.sort();
        let (mut objects, _) = self.object_store()?;
        let mut records = Vec::new();
        for (key, number, commit) in refs {
            let (message, files) = content_of(&mut objects, &commit)?;
            records.push(ItemRecord { key, number, commit, message, files });
        }
        Ok(records)
    }

    /// Removes the ref of a state, if it is unchanged since the caller read it; returns whether it was.
    pub fn drop_item(&self, record: &ItemRecord) -> Result<bool, ItemRefError> {
        let name = record.key.item_ref(record.number);
        Ok(self.swap_ref(&name, Some(&record.commit), None)?)
    }

    /// Removes every ref of an item, if its current state is unchanged since the caller read it.
    pub fn delete_item(&self, record: &ItemRecord) -> Result<(), ItemRefError> {
        let refs = self.item_refs(&format!("{ITEMS}{}/", record.key))?;
        let lost = || ItemRefError::Lost { key: record.key.clone() };
        let newest = refs.iter().max_by_key(|found| found.1);
        if newest
            .is_some_and(|(_, number, commit)| (*number, commit) != (record.number, &record.commit))
        {
            return Err(lost());
        }
        for (key, number, commit) in &refs {
            if !self.swap_ref(&key.item_ref(*number), Some(commit), None)? {
                return Err(lost());
            }
        }
        Ok(())
    }

    /// Whether an item may be in flight, without a process.
    pub fn may_have_items(&self) -> bool {
        self.may_have_refs(ITEMS)
    }

    /// Whether there may be refs below a prefix that ends in a slash: checks a directory and a file, without a process.
    pub fn may_have_refs(&self, below: &str) -> bool {
        let common = &self.place().common_dir;
        let is_known = OwnSettings::read(self.place()).is_ok_and(|own| own.layout.refs_are_files);
        if !is_known || common.join(below).is_dir() {
            return true;
        }
        let Ok(packed) = read_regular(common.join("packed-refs").as_std_path()) else {
            return true;
        };
        packed.is_some_and(|packed| memchr::memmem::find(&packed, below.as_bytes()).is_some())
    }

    fn item_refs(&self, below: &str) -> Result<Vec<(ItemKey, u64, Oid)>, GitError> {
        let named = self.refs_at(&[below])?.into_iter().filter_map(|found| {
            let (key, number) = found.name.strip_prefix(ITEMS)?.rsplit_once('/')?;
            Some((ItemKey(key.to_owned()), number.parse().ok()?, found.id))
        });
        Ok(named.collect())
    }

    /// Opens the objects, and returns whether the repository is shared by several users.
    fn object_store(&self) -> Result<(Objects, bool), GitError> {
        self.place().check()?;
        let (format, is_shared) = match OwnSettings::read(self.place()) {
            Ok(own) => (own.layout.format, own.is_shared()),
            Err(_) => (self.object_format()?, true),
        };
        Ok((Objects::open(self.place(), format.kind()), is_shared))
    }

    /// Moves a ref if it is unchanged; `false` if it is not.
    pub(crate) fn swap_ref(
        &self,
        name: &str,
        old: Option<&Oid>,
        new: Option<&Oid>,
    ) -> Result<bool, GitError> {
        let zero = self.object_format()?.zero();
        let old_text = old.map_or(zero.as_str(), Oid::as_str);
        let args = match new {
            Some(new) => vec!["update-ref", "--no-deref", name, new.as_str(), old_text],
            None => vec!["update-ref", "--no-deref", "-d", name, old_text],
        };
        let call = Call::new(&args).config("core.fsync", "reference");
        match self.call(call) {
            Ok(_) => {
                fault::after_write();
                Ok(true)
            }
            Err(error) => {
                let args = ["rev-parse", "--verify", "--quiet", name];
                let now = self.ask_whether(&args)?;
                let now = now.map(|output| parse_id(&args, &output)).transpose()?;
                if now.as_ref() == old { Err(error) } else { Ok(false) }
            }
        }
    }
}

/// Files by their paths.
type Files = Vec<(PathBuf, Vec<u8>)>;

/// Returns the message and the files of a commit.
fn content_of(objects: &mut Objects, commit: &Oid) -> Result<(String, Files), ObjectError> {
    let mut bytes = Vec::new();
    objects.read(&commit.to_id(), ObjectKind::Commit, &mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let message = text.split_once("\n\n").map_or("", |(_, message)| message).to_owned();
    let tree = tree_id(objects, commit)?;
    Ok((message, all_files(objects, &tree)?))
}

/// Returns the tree of a commit.
pub(super) fn tree_id(objects: &mut Objects, commit: &Oid) -> Result<ObjectId, ObjectError> {
    let mut bytes = Vec::new();
    objects.read(&commit.to_id(), ObjectKind::Commit, &mut bytes)?;
    let header = parse_commit(commit.clone(), &bytes);
    header
        .map(|header| header.tree.to_id())
        .ok_or_else(|| ObjectError::Malformed { id: commit.clone() })
}

#[cfg(test)]
#[path = "item_refs_tests.rs"]
mod tests;
