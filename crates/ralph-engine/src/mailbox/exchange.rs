//! Synchronises two mailboxes: the person's, in the workspace, and the agent's, in its slot.
//!
//! The last common state is recorded, so that each change can be attributed to one side. The agent's changes are copied
//! out; if the person changed the same file meanwhile, theirs is kept next to it as `NAME.yours`. Changes by only the
//! person are copied in. Nothing of the person's is removed except the harness's own transient files, and only if
//! unchanged since the harness wrote them.
//!
//! Only documents are copied out, see [`goes_out`]: a person's program must not find anything there that it executes or
//! obeys, as git does with the configuration of a repository in its current directory.
//!
//! Every step is idempotent after a crash: a file that is equal on both sides is in sync. No run may be alive.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use camino::Utf8Path;
use rustix::fs::{Dir, FileType, Mode, OFlags, openat};

use super::{IGNORE_FILE, Mailbox};
use crate::digest;
use crate::files::plain::{open_directory, read_plain};
use crate::files::{PathError, create_directory};

/// The digests of the files that were equal on both sides.
pub(crate) type Agreed = BTreeMap<String, String>;

/// The direction of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The agent's changes are copied out, then the person's are copied in.
    In,
    /// Only the agent's changes are copied out; the person's stay until the next start.
    Out,
}

/// The results of an exchange that a person should know.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Exchanged {
    /// The person's files that were kept under another name.
    pub(crate) kept: Vec<String>,
    /// Files that are too large, too deep or not regular.
    pub(crate) left_out: Vec<String>,
}

/// The limits on the size of a copied file, on their total size, and on their depth.
const LARGEST: usize = 4 << 20;
const MOST_BYTES: usize = 64 << 20;
const MOST_FILES: usize = 2000;
pub(super) const DEEPEST: usize = 4;

/// The extensions of documents.
const DOCUMENTS: [&str; 7] = ["md", "txt", "json", "jsonl", "tsx", "log", "csv"];

/// Whether an agent's file may be copied into the workspace: a document whose path has no hidden component.
fn goes_out(name: &str) -> bool {
    let is_document = Utf8Path::new(name)
        .extension()
        .is_some_and(|found| DOCUMENTS.iter().any(|known| found.eq_ignore_ascii_case(known)));
    is_document && !name.split('/').any(is_hidden)
}

fn is_hidden(name: &str) -> bool {
    name.starts_with('.')
}

/// Synchronises two mailboxes. `passing` are files that only the harness writes and removes.
pub(crate) fn exchange(
    person: &Mailbox,
    agent: &Mailbox,
    agreed: &mut Agreed,
    passing: &[&str],
    direction: Direction,
) -> Result<Exchanged, PathError> {
    agent.unlock();
    let mut told = Exchanged::default();
    let outside = list(person, &mut Vec::new());
    let mut inside = list(agent, &mut told.left_out);
    inside.retain(|name, digest| {
        let is_kept = goes_out(name);
        // Files that the person put there and the agent left unchanged need not be mentioned.
        if !is_kept && agreed.get(name) != Some(digest) {
            told.left_out.push(name.clone());
        }
        is_kept
    });
    let is_changed = |agreed: &Agreed, name: &String, digest| agreed.get(name) != Some(digest);
    let went_out: BTreeSet<&String> = inside
        .iter()
        .filter(|(name, digest)| is_changed(agreed, name, digest))
        .map(|(name, _)| name)
        .collect();
    for name in &went_out {
        let (name, digest, theirs) = (*name, &inside[*name], outside.get(*name));
        if theirs != Some(digest) {
            if theirs.is_some() && theirs != agreed.get(name) {
                told.kept.push(keep_beside(person, name)?);
            }
            copy(agent, person, name)?;
        }
        agreed.insert(name.clone(), digest.clone());
    }
    for name in passing {
        let Some(theirs) = outside.get(*name) else { continue };
        if !inside.contains_key(*name) && agreed.get(*name) == Some(theirs) {
            person.remove(name)?;
            agreed.remove(*name);
        }
    }
    if direction == Direction::In {
        for (name, theirs) in &outside {
            let is_harness = passing.contains(&name.as_str());
            if !is_harness && !went_out.contains(name) && is_changed(agreed, name, theirs) {
                copy(person, agent, name)?;
                agreed.insert(name.clone(), theirs.clone());
            }
        }
    }
    Ok(told)
}

impl Mailbox {
    /// Returns a digest of its whole content.
    pub(crate) fn digest(&self) -> String {
        self.digest_but_for(&[])
    }

    /// Returns a digest of its content without these files.
    pub(crate) fn digest_but_for(&self, names: &[&str]) -> String {
        let mut files = list(self, &mut Vec::new());
        files.retain(|name, _| !names.contains(&name.as_str()));
        let lines = files.iter().map(|(name, digest)| format!("{digest} {name}\n"));
        digest::of_bytes(lines.collect::<String>().as_bytes())
    }
}

/// Returns the digests of all files except the mailbox's own mark.
fn list(mailbox: &Mailbox, left_out: &mut Vec<String>) -> BTreeMap<String, String> {
    let mut found = Listing { files: BTreeMap::new(), bytes: 0, left_out };
    if let Ok(directory) = open_directory(mailbox.path()) {
        found.walk(&directory, "", 0);
    }
    found.files
}

struct Listing<'a> {
    files: BTreeMap<String, String>,
    bytes: usize,
    left_out: &'a mut Vec<String>,
}

impl Listing<'_> {
    fn walk(&mut self, directory: &OwnedFd, prefix: &str, depth: usize) {
        let Ok(entries) = Dir::read_from(directory.as_fd()) else { return };
        for entry in entries.flatten() {
            let bytes = entry.file_name().to_bytes();
            let Ok(base) = std::str::from_utf8(bytes) else {
                self.left_out.push(format!("{prefix}{}", String::from_utf8_lossy(bytes)));
                continue;
            };
            let is_own = prefix.is_empty() && base == IGNORE_FILE;
            if [".", ".."].contains(&base) || is_own || base.ends_with(".ralph-tmp") {
                continue;
            }
            let name = format!("{prefix}{base}");
            if is_hidden(base) {
                self.left_out.push(name);
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let is_directory = entry.file_type() == FileType::Directory;
            let below = is_directory.then(|| openat(directory, base, flags, Mode::empty()));
            match below {
                Some(Ok(below)) if depth < DEEPEST => {
                    self.walk(&below, &format!("{name}/"), depth + 1);
                }
                Some(_) => self.left_out.push(name),
                None => self.file(directory, base, name),
            }
        }
    }

    fn file(&mut self, directory: &OwnedFd, base: &str, name: String) {
        let is_full = self.files.len() >= MOST_FILES || self.bytes >= MOST_BYTES;
        match read_plain(directory, base, LARGEST) {
            Ok(bytes) if !is_full => {
                self.bytes += bytes.len();
                self.files.insert(name, digest::of_bytes(&bytes));
            }
            _ => self.left_out.push(name),
        }
    }
}

/// Reads a file that [`list`] found.
fn read(mailbox: &Mailbox, name: &str) -> Option<Vec<u8>> {
    let (parent, base) = name.rsplit_once('/').unwrap_or(("", name));
    let directory = open_directory(&mailbox.path().join(parent)).ok()?;
    read_plain(&directory, base, LARGEST).ok()
}

fn copy(from: &Mailbox, to: &Mailbox, name: &str) -> Result<(), PathError> {
    let Some(bytes) = read(from, name) else { return Ok(()) };
    to.make_ready()?;
    // A symlink planted at the path of a directory is not followed.
    let mut parents: Vec<&Utf8Path> = Utf8Path::new(name).ancestors().skip(1).collect();
    parents.reverse();
    for parent in parents.into_iter().filter(|parent| !parent.as_str().is_empty()) {
        let path = to.path().join(parent);
        if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_dir()) {
            fs::remove_file(&path).map_err(|error| PathError::new("remove", &path, error))?;
        }
        create_directory(&path)?;
    }
    to.write_bytes(name, &bytes)
}

/// Keeps a person's file under a new name, and returns that name.
fn keep_beside(person: &Mailbox, name: &str) -> Result<String, PathError> {
    let bytes = read(person, name).unwrap_or_default();
    let candidates = (1_u32..).map(|number| match number {
        1 => format!("{name}.yours"),
        number => format!("{name}.yours-{number}"),
    });
    for kept in candidates {
        let known = read(person, &kept);
        if known.as_ref() == Some(&bytes) {
            return Ok(kept);
        }
        if known.is_none() && fs::symlink_metadata(person.path().join(&kept)).is_err() {
            person.write_bytes(&kept, &bytes)?;
            return Ok(kept);
        }
    }
    unreachable!("there are more numbers than files")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_place::Place;

    const PASSING: [&str; 1] = ["question.md"];

    struct Pair {
        _place: Place,
        person: Mailbox,
        agent: Mailbox,
        agreed: Agreed,
    }

    impl Pair {
        fn new() -> Pair {
            let place = Place::new();
            let person = Mailbox::new(&place.root.join("w/.ralph"));
            let agent = Mailbox::new(&place.root.join("s/.ralph"));
            person.make_ready().unwrap();
            agent.make_ready().unwrap();
            Pair { _place: place, person, agent, agreed: Agreed::new() }
        }

        fn sync(&mut self, direction: Direction) -> Exchanged {
            exchange(&self.person, &self.agent, &mut self.agreed, &PASSING, direction).unwrap()
        }
    }

    fn text(mailbox: &Mailbox, name: &str) -> String {
        String::from_utf8(read(mailbox, name).unwrap_or_default()).unwrap()
    }

    #[test]
    fn what_one_side_changed_goes_to_the_other_at_its_time() {
        let mut pair = Pair::new();
        create_directory(&pair.person.path().join("archive")).unwrap();
        pair.person.write("archive/old.md", "old").unwrap();
        pair.person.write("plan.md", "mine").unwrap();
        assert_eq!(pair.sync(Direction::In), Exchanged::default());
        assert_eq!(text(&pair.agent, "plan.md"), "mine");
        assert_eq!(text(&pair.agent, "archive/old.md"), "old");
        pair.agent.write("summary.md", "built").unwrap();
        pair.person.write("plan.md", "mine, later").unwrap();
        assert_eq!(pair.sync(Direction::Out), Exchanged::default());
        assert_eq!(text(&pair.person, "summary.md"), "built");
        assert_eq!(text(&pair.person, "plan.md"), "mine, later", "the agent has nothing newer");
        assert_eq!(text(&pair.agent, "plan.md"), "mine");
        pair.sync(Direction::In);
        assert_eq!(text(&pair.agent, "plan.md"), "mine, later");
    }

    #[test]
    fn what_both_changed_is_the_agents_and_the_persons_is_kept_beside_it() {
        for direction in [Direction::In, Direction::Out] {
            let mut pair = Pair::new();
            pair.person.write("plan.md", "first").unwrap();
            pair.sync(Direction::In);
            for (theirs, agents, kept) in
                [("a", "b", "plan.md.yours"), ("c", "d", "plan.md.yours-2")]
            {
                pair.person.write("plan.md", theirs).unwrap();
                pair.agent.write("plan.md", agents).unwrap();
                assert_eq!(pair.sync(direction).kept, [kept]);
                assert_eq!(text(&pair.person, "plan.md"), agents);
                assert_eq!(text(&pair.agent, "plan.md"), agents);
                assert_eq!(text(&pair.person, kept), theirs);
                assert_eq!(pair.sync(direction), Exchanged::default(), "once");
            }
        }
    }

    #[test]
    fn what_the_agent_removed_stays_with_the_person_unless_it_is_the_harnesss() {
        let mut pair = Pair::new();
        pair.agent.write("question.md", "which?").unwrap();
        pair.agent.write("plan.md", "plan").unwrap();
        pair.sync(Direction::Out);
        assert_eq!(text(&pair.person, "question.md"), "which?");
        pair.agent.remove("question.md").unwrap();
        pair.agent.remove("plan.md").unwrap();
        pair.sync(Direction::Out);
        assert!(read(&pair.person, "question.md").is_none());
        assert_eq!(text(&pair.person, "plan.md"), "plan");
        pair.sync(Direction::In);
        assert!(
            read(&pair.agent, "plan.md").is_none(),
            "what the agent removed does not come back"
        );
    }

    #[test]
    fn links_and_large_or_deep_files_are_left_out_and_never_followed() {
        let mut pair = Pair::new();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", pair.agent.path().join("link.md")).unwrap();
        std::os::unix::fs::symlink(outside.path(), pair.agent.path().join("archive")).unwrap();
        fs::write(pair.agent.path().join("large"), vec![0; LARGEST + 1]).unwrap();
        create_directory(&pair.agent.path().join("a/b/c/d/e")).unwrap();
        create_directory(&pair.person.path().join("archive")).unwrap();
        pair.person.write("archive/old.md", "old").unwrap();
        let mut told = pair.sync(Direction::In);
        told.left_out.sort();
        assert_eq!(told.left_out, ["a/b/c/d/e", "archive", "large", "link.md"]);
        assert!(!outside.path().join("old.md").exists(), "a link is not followed");
        assert_eq!(text(&pair.agent, "archive/old.md"), "old");
    }

    #[test]
    fn nothing_goes_out_that_a_program_of_the_persons_would_run_or_obey() {
        let mut pair = Pair::new();
        pair.person.write("sketch.svg", "mine").unwrap();
        pair.sync(Direction::In);
        assert_eq!(text(&pair.agent, "sketch.svg"), "mine", "the person may show anything");
        for name in
            [".git/config", ".envrc", "sub/.git/config", "sub/Makefile", "conftest.py", "a.sh"]
        {
            let path = pair.agent.path().join(name);
            create_directory(path.parent().unwrap()).unwrap();
            fs::write(&path, "[core]\n\tfsmonitor = touch pwned\n").unwrap();
        }
        pair.agent.write("sub/notes.md", "text").unwrap();
        let mut told = pair.sync(Direction::Out);
        told.left_out.sort();
        assert_eq!(
            told.left_out,
            [".envrc", ".git", "a.sh", "conftest.py", "sub/.git", "sub/Makefile"]
        );
        assert_eq!(text(&pair.person, "sub/notes.md"), "text");
        let mut there: Vec<String> = list(&pair.person, &mut Vec::new()).into_keys().collect();
        there.sort();
        assert_eq!(there, ["sketch.svg", "sub/notes.md"]);
        assert!(!pair.person.path().join(".git").exists());
    }

    #[test]
    fn a_crash_before_the_agreement_was_noted_repeats_nothing() {
        let mut pair = Pair::new();
        pair.person.write("plan.md", "first").unwrap();
        pair.sync(Direction::In);
        let noted = pair.agreed.clone();
        pair.agent.write("plan.md", "second").unwrap();
        pair.sync(Direction::Out);
        pair.agreed = noted;
        assert_eq!(pair.sync(Direction::In), Exchanged::default());
        assert_eq!(text(&pair.person, "plan.md"), "second");
    }
}
