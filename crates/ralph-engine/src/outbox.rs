//! The outbox of a run: files that a role is to produce, put there before the run and taken from there after it.
//!
//! A read-only role changes nothing in the workspace; what it leaves here the harness puts in place. The agent can put
//! anything here, so only regular files are taken, with one name, of a bounded size, under names that were expected.

use std::io::{self, Write};
use std::os::fd::BorrowedFd;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::Dir;

use crate::files::beneath::{create_in, directory_in};
use crate::files::plain::{NotPlain, open_directory, read_plain};
use crate::files::{PathError, create_log};

/// The most bytes that are taken of one file.
pub(crate) const LARGEST_OUTBOX_FILE: usize = 4 << 20;

/// How many files are kept where any name is allowed, and how many are reported otherwise.
const MOST_FILES: usize = 20;

/// How many names of a crowded outbox are looked at.
const MOST_NAMES: usize = 1000;

/// The directory of the channel, which is inside the outbox and not one of its files.
const CHANNEL: &str = "channel";

/// What a run is to leave in its outbox.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outbox<'a> {
    /// These files are taken, and nothing else.
    Named(&'a [OutboxFile<'a>]),
    /// Whatever plain files there are go to the run's logs.
    Kept,
}

/// A file that a role finds, or is to make, in its outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutboxFile<'a> {
    pub name: &'a str,
    /// What it holds before the run; `None` if the role is to make it.
    pub content: Option<&'a [u8]>,
}

/// A file that was taken from the outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    /// Whether it differs from what was there before the run.
    pub(crate) changed: bool,
}

/// A file that was not taken, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotTaken {
    pub name: String,
    pub reason: OutboxRefusal,
}

/// Why something in an outbox is not taken.
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

/// What became of an outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboxReport {
    /// The files that were asked for, in that order.
    pub(crate) taken: Vec<Taken>,
    /// Where the files went that were kept.
    pub kept: Vec<Utf8PathBuf>,
    pub not_taken: Vec<NotTaken>,
}

impl OutboxReport {
    fn refuse(&mut self, name: impl Into<String>, reason: impl Into<OutboxRefusal>) {
        self.not_taken.push(NotTaken { name: name.into(), reason: reason.into() });
    }
}

/// Puts what the role is to find into its empty outbox.
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

/// Takes what a run left, when nothing of the run is alive any more. What is kept goes to `logs`, which are held open since
/// before the run.
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
                    // It was not asked for.
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

/// The names in an outbox, sorted.
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

/// Whether a name is good for a file among the logs.
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
