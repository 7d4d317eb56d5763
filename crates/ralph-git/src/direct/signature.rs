//! The author and committer lines, in git's format.

use std::path::Path;

use gix_hash::ObjectId;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::super::identity::Identity;
use super::super::settings::{Settings, Unfit};
use super::super::{GitProgram, Oid, regular_file};

/// Author and committer of a commit made now.
pub(super) struct Signature {
    author: String,
    committer: String,
}

impl Signature {
    /// Takes the person's identity and the current time.
    pub(super) fn of(program: &GitProgram, settings: &Settings) -> Result<Self, Unfit> {
        let now = Timestamp::now();
        let offset = local_zone(program.time_zone()).to_offset(now).seconds() / 60;
        let sign = if offset < 0 { '-' } else { '+' };
        let (hours, minutes) = (offset.abs() / 60, offset.abs() % 60);
        let when = format!("{} {sign}{hours:02}{minutes:02}", now.as_second());
        let identity = Identity::from_settings(program, |key| settings.value(key));
        let line = |name: &str, email: &str| {
            let value = |wanted: &str| {
                let found = identity.variables.iter().find(|(name, _)| *name == wanted);
                found.map(|(_, value)| clean(value)).unwrap_or_default()
            };
            let (name, email) = (value(name), value(email));
            // Git rejects a name that consists only of punctuation.
            (!name.is_empty()).then(|| format!("{name} <{email}> {when}"))
        };
        let nameless = Unfit("nobody has such a name");
        Ok(Signature {
            author: line("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL").ok_or(nameless)?,
            committer: line("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL").ok_or(nameless)?,
        })
    }

    /// Writes a commit.
    pub(super) fn commit(&self, tree: &ObjectId, parent: Option<&Oid>, message: &str) -> Vec<u8> {
        let parent = parent.map(|id| format!("parent {id}\n")).unwrap_or_default();
        let Signature { author, committer } = self;
        format!(
            "tree {}\n{parent}author {author}\ncommitter {committer}\n\n{message}",
            tree.to_hex()
        )
        .into_bytes()
    }

    /// Writes the part of a reflog entry after the two ids.
    pub(super) fn log_entry(&self, message: &str) -> String {
        let subject = message.lines().next().unwrap_or_default();
        let subject = subject.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{}\tcommit: {subject}", self.committer)
    }
}

/// Returns the time zone of this machine, or of the person (`TZ`).
///
/// Only its single file is read: the library would read the names of all zones, which are not needed.
fn local_zone(named: Option<&str>) -> TimeZone {
    let zone =
        |path: &str| TimeZone::tzif("local", &regular_file::follow(Path::new(path)).ok()?).ok();
    let found = match named.map(|name| name.trim_start_matches(':')) {
        None => zone("/etc/localtime"),
        Some("") => None,
        Some(path) if path.starts_with('/') => zone(path),
        Some(name) if name.contains("..") => None,
        Some(name) => {
            zone(&format!("/usr/share/zoneinfo/{name}")).or_else(|| TimeZone::posix(name).ok())
        }
    };
    found.unwrap_or(TimeZone::UTC)
}

/// Removes characters that would break a commit header, and punctuation at both ends, like git.
fn clean(value: &str) -> String {
    let crud = |letter: char| letter <= ' ' || ".,:;<>\"\\'".contains(letter);
    value.trim_matches(crud).replace(['<', '>', '\n'], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zone_is_the_machines_unless_the_person_says_otherwise() {
        let at = |name| local_zone(name).to_offset(jiff::Timestamp::UNIX_EPOCH).seconds();
        assert_eq!((at(Some("")), at(Some("../../etc/passwd"))), (0, 0));
        assert_eq!(at(Some("XYZ-5:30")), 19_800);
        let system = TimeZone::system().to_offset(jiff::Timestamp::UNIX_EPOCH).seconds();
        assert_eq!(at(None), system);
    }

    #[test]
    fn names_are_cleaned_as_git_cleans_them() {
        for (name, expected) in
            [(" A. <B>\n\"C\". ", "A. B\"C"), ("\u{e9}va", "\u{e9}va"), ("...", "")]
        {
            assert_eq!(clean(name), expected);
        }
    }
}
