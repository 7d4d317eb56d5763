//! The outbox of a run: files that a role has to produce, prepared before the run and collected after it.
//!
//! A read-only role changes nothing in the workspace; the harness puts the files it leaves here in place. The agent can
//! put anything here, so only regular files with a single link, a bounded size and an expected name are accepted.

use std::io::{self, Write};
use std::os::fd::BorrowedFd;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::Dir;

use crate::files::beneath::{create_in, directory_in};
use crate::files::plain::{NotPlain, open_directory, read_plain};
use crate::files::{PathError, create_log};

/// The maximum size of an accepted file.
pub(crate) const LARGEST_OUTBOX_FILE: usize = 4 << 20;

/// How many files are kept if any name is allowed, and how many are reported otherwise.
const MOST_FILES: usize = 20;

/// How many names of a crowded outbox are read.
const MOST_NAMES: usize = 1000;

/// The directory of the channel, which is inside the outbox but not one of its files.
const CHANNEL: &str = "channel";

/// The expected content of a run's outbox.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outbox<'a> {
    /// Only these files are accepted.
    Named(&'a [OutboxFile<'a>]),
    /// All regular files are copied to the run's logs.
    Kept,
}

/// A file that a role finds in its outbox, or has to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutboxFile<'a> {
    pub name: &'a str,
    /// Its content before the run; `None` if the role has to create it.
    pub content: Option<&'a [u8]>,
}

/// An accepted file of the outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    /// Whether it differs from its content before the run.
    pub(crate) changed: bool,
}

/// A refused file, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotTaken {
    pub name: String,
    pub reason: OutboxRefusal,
}

/// Why a file in an outbox is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutboxRefusal {
    #[error(transparent)]
    NotPlain(#[from] NotPlain),
    #[error("no file of that name was asked for")]
    Unexpected,
    #[error("its name is hidden, too long or no text")]
    Name,
    #[error("only {MOST_FILES} files are kept")]
    TooMany,
    #[error("the outbox itself was moved, removed or replaced")]
    Gone,
    #[error("it cannot be kept: {0}")]
    NotKept(io::ErrorKind),
}

/// The result of collecting an outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboxReport {
    /// The expected files, in order.
    pub(crate) taken: Vec<Taken>,
    /// The paths of the kept files.
    pub kept: Vec<Utf8PathBuf>,
    pub not_taken: Vec<NotTaken>,
}

impl OutboxReport {
    fn refuse(&mut self, name: impl Into<String>, reason: impl Into<OutboxRefusal>) {
        self.not_taken.push(NotTaken { name: name.into(), reason: reason.into() });
    }
}

/// Writes the initial files of a role into its empty outbox.
pub(crate) fn seed(directory: &Utf8Path, outbox: Outbox<'_>) -> Result<(), PathError> {
    let Outbox::Named(files) = outbox else { return Ok(()) };
    for file in files {
        let Some(content) = file.content else { continue };
        let path = directory.join(file.name);
        create_log(&path)?
            .write_all(content)
            .map_err(|source| PathError::new("write", &path, source))?;
    }
    Ok(())
}

/// Collects a run's files, after all its processes have ended. Kept files go to `logs`, a descriptor opened before the
/// run.
pub(crate) fn take(
    directory: &Utf8Path,
    outbox: Outbox<'_>,
    logs: &Utf8Path,
    held: Option<BorrowedFd<'_>>,
) -> OutboxReport {
    let mut report = OutboxReport::default();
    if matches!(outbox, Outbox::Named([])) {
        return report;
    }
    let Ok(opened) = open_directory(directory) else {
        report.refuse(directory.file_name().unwrap_or_default(), OutboxRefusal::Gone);
        return report;
    };
    let found = Dir::read_from(&opened).map(names).unwrap_or_default();
    let read = |name: &str| read_plain(&opened, name, LARGEST_OUTBOX_FILE);
    match outbox {
        Outbox::Named(files) => {
            for file in files {
                match read(file.name) {
                    Ok(bytes) => {
                        let changed = file.content != Some(&bytes);
                        report.taken.push(Taken { name: file.name.to_owned(), bytes, changed });
                    }
                    // The file was optional.
                    Err(NotPlain::Missing) if file.content.is_none() => {}
                    Err(reason) => report.refuse(file.name, reason),
                }
            }
            let others = found.iter().filter(|name| files.iter().all(|file| file.name != *name));
            for name in others.take(MOST_FILES) {
                report.refuse(name, OutboxRefusal::Unexpected);
            }
        }
        Outbox::Kept => {
            for name in &found {
                if report.kept.len() >= MOST_FILES {
                    report.refuse(name, OutboxRefusal::TooMany);
                    break;
                }
                match read(name) {
                    _ if !is_plain(name) => report.refuse(name, OutboxRefusal::Name),
                    Err(reason) => report.refuse(name, reason),
                    Ok(bytes) => match keep(logs, held, name, &bytes) {
                        Ok(path) => report.kept.push(path),
                        Err(problem) => {
                            report.refuse(name, OutboxRefusal::NotKept(problem.kind()));
                        }
                    },
                }
                if report.not_taken.len() >= MOST_FILES {
                    break;
                }
            }
        }
    }
    report
}

/// The sorted names in an outbox.
fn names(directory: Dir) -> Vec<String> {
    let mut names: Vec<String> = directory
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name != "." && name != ".." && name != CHANNEL)
        .take(MOST_NAMES)
        .collect();
    names.sort_unstable();
    names
}

/// Whether a name is acceptable for a file in the logs.
fn is_plain(name: &str) -> bool {
    let strange = |c: char| c.is_control() || c == char::REPLACEMENT_CHARACTER || c == '/';
    !name.starts_with('.') && name.len() <= 200 && !name.contains(strange)
}

fn keep(
    logs: &Utf8Path,
    held: Option<BorrowedFd<'_>>,
    name: &str,
    bytes: &[u8],
) -> io::Result<Utf8PathBuf> {
    let held = held.ok_or(io::ErrorKind::NotFound)?;
    create_in(directory_in(held, "out")?, name)?.write_all(bytes)?;
    Ok(logs.join("out").join(name))
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
