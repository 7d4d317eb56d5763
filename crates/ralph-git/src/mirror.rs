//! The private mirror: every commit that a workspace's repository ever pointed to, with objects hashed on arrival.
//!
//! Git does not hash what it reads, so a process with write access to an object store can change the *content* of a
//! commit without changing its id. The mirror is a bare repository in private state, filled by fetch, which hashes; it
//! never borrows objects from the workspace. Invariant: an object in the mirror matches its id, and none is ever
//! removed.
//!
//! Each seen tip is kept under `refs/ralph/seen/<id>`, named after itself: nothing is overwritten when a branch moves,
//! names cannot collide (`a` deleted, `a/b` created), and an existing tip costs nothing. The caller's [`RefsSnapshot`]
//! records which ref pointed where. Tags are handled as the tips that they are; git itself follows none. If there are
//! many, tips that are ancestors of `HEAD` and not targets of any ref are dropped: the tip of `HEAD` keeps their
//! commits.
//!
//! A source with missing blobs (a partial clone) cannot be fetched from without asking its remote, which would run
//! programs named in its configuration; instead the existing objects are packed and also hashed on arrival.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_proc::capture::Answer;

use super::call::Call;
use super::error::says_full;
use super::home_copy::mark_made;
use super::mirror_mend::looks_whole;
use super::oid::lines;
use super::parse::parse_refs;
use super::stash::Stash;
use super::{
    Git, GitError, GitProgram, ObjectFormat, Oid, RefsSnapshot, RepositoryLocation, unexpected,
};

pub(super) const SEEN: &str = "refs/ralph/seen/";
/// How many tips are kept before redundant ones are dropped: every fill checks each of them.
const MANY: usize = if cfg!(test) { 8 } else { 200 };
/// A first fill of a large repository.
pub(super) const TIMEOUT: Duration = Duration::from_mins(30);
/// Its presence means that the mirror was created completely.
pub(super) const READY: &str = "ralph-mirror";
/// Its presence means that the source lacked objects on purpose.
const PARTIAL: &str = "ralph-partial";
/// Its presence means that the source was shallow when the mirror was created.
const SHALLOW: &str = "ralph-shallow";

/// Old and harmless flaws of commits and trees in real histories; all others are refused.
const TOLERATED: &[&str] = &[
    "badDate",
    "badDateOverflow",
    "badEmail",
    "badFilemode",
    "badName",
    "badTimezone",
    "extraHeaderEntry",
    "missingEmail",
    "missingNameBeforeEmail",
    "missingSpaceBeforeDate",
    "missingSpaceBeforeEmail",
    "multipleAuthors",
    "zeroPaddedDate",
    "zeroPaddedFilemode",
];

/// The mirror could not import the workspace's objects.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// Objects do not match their ids, or the repository was replaced.
    #[error("the repository at `{source_dir}` was forged: {detail}")]
    Forged { source_dir: Utf8PathBuf, detail: String },
    /// Objects or refs are missing or cannot be read.
    #[error("the repository at `{source_dir}` is damaged: {detail}")]
    Damaged { source_dir: Utf8PathBuf, detail: String },
    /// An object matches its id but is crafted to attack a checkout.
    #[error("the repository at `{source_dir}` holds an unsafe object: {detail}")]
    Unsafe { source_dir: Utf8PathBuf, detail: String },
    /// The mirror itself was changed.
    #[error("Ralph's own copy of the repository, `{path}`, is damaged")]
    Unsound { path: Utf8PathBuf },
    #[error("cannot write the mirror `{path}`")]
    Write {
        path: Utf8PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the mirror did not answer")]
    Git(#[from] GitError),
}

impl MirrorError {
    /// Whether it concerns the content of the source rather than the machine.
    pub const fn is_of_source(&self) -> bool {
        matches!(
            self,
            MirrorError::Forged { .. } | MirrorError::Damaged { .. } | MirrorError::Unsafe { .. }
        )
    }

    /// Returns the problem, without the path of the source.
    pub fn problem(&self) -> String {
        match self {
            MirrorError::Forged { detail, .. } => format!("it was forged: {detail}"),
            MirrorError::Damaged { detail, .. } => format!("it is damaged: {detail}"),
            MirrorError::Unsafe { detail, .. } => format!("it holds an unsafe object: {detail}"),
            other => other.to_string(),
        }
    }
}

/// Git's messages when it cannot write.
const UNWRITTEN: [&str; 7] = [
    "cannot update ref",
    "cannot lock ref",
    "unable to write",
    "couldn't write",
    "could not write",
    "nable to create",
    "unable to append",
];

/// The owner of the source repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Person,
    Slot,
}

/// A private bare mirror of one repository.
#[derive(Clone, Debug)]
pub struct Mirror {
    pub(super) git: Git,
    pub(super) format: ObjectFormat,
}

impl Mirror {
    /// Opens the mirror in a directory, or creates it there for a source repository.
    pub fn open(program: &GitProgram, dir: &Utf8Path, source: &Git) -> Result<Self, MirrorError> {
        let write = |source| MirrorError::Write { path: dir.to_owned(), source };
        let is_link = dir.symlink_metadata().is_ok_and(|found| !found.is_dir());
        if is_link {
            fs::remove_file(dir).map_err(write)?;
        }
        fs::create_dir_all(dir).map_err(write)?;
        let dir = dir.canonicalize_utf8().map_err(write)?;
        let place =
            RepositoryLocation { git_dir: dir.clone(), common_dir: dir.clone(), worktree: None };
        let git = Git::at(program.clone(), place).private();
        if looks_whole(&dir) {
            let format = git.object_format()?;
            return Ok(Mirror { git, format });
        }
        let format = source.object_format().map_err(|error| blame(source, error))?;
        let mirror = Mirror { git, format };
        mirror.make_anew(source)?;
        Ok(mirror)
    }

    /// Creates an empty mirror around the existing objects.
    pub(super) fn init(&self, source: &Git) -> Result<(), MirrorError> {
        let dir = &self.git.place.git_dir;
        let write = |source| MirrorError::Write { path: dir.clone(), source };
        let format_arg = format!("--object-format={}", self.format.name());
        let args = ["init", "--quiet", "--bare", "--template=", &format_arg, dir.as_str()];
        Call::new(&args).run(self.git.program())?;
        if source.is_shallow() {
            fs::write(dir.join(SHALLOW), "").map_err(write)?;
        }
        // Written last, so that a mirror whose creation was interrupted is created again.
        mark_made(dir, READY).map_err(write)
    }

    /// Returns the mirror as a repository for queries; its answers are true.
    pub fn git(&self) -> &Git {
        &self.git
    }

    pub(crate) fn object_format(&self) -> ObjectFormat {
        self.format
    }

    /// Returns the id of the empty tree.
    pub fn empty_tree(&self) -> Oid {
        self.format.empty_tree()
    }

    /// Returns the directory of the mirror's objects; it must be writable only by Ralph.
    pub(crate) fn objects_dir(&self) -> Utf8PathBuf {
        self.git.place.git_dir.join("objects")
    }

    /// Whether history is shallow, because the source was.
    pub(crate) fn is_shallow(&self) -> bool {
        self.shallow_file().exists()
    }

    pub(super) fn shallow_file(&self) -> Utf8PathBuf {
        self.git.place.git_dir.join("shallow")
    }

    /// Imports everything that the source's refs and `HEAD`s point to, and returns them.
    ///
    /// `also` are commits that no ref points to any more, such as those claimed from a detached `HEAD`.
    pub fn fill(&self, source: &Git, also: &[Oid]) -> Result<RefsSnapshot, MirrorError> {
        self.fill_from(source, also, Origin::Person)
    }

    /// Imports everything that the refs and `HEAD`s of a slot point to, and returns them.
    ///
    /// Only the person's own repository can lack objects: a slot borrows all of the mirror's.
    pub(super) fn fill_from_slot(&self, slot: &Git) -> Result<RefsSnapshot, MirrorError> {
        self.fill_from(slot, &[], Origin::Slot)
    }

    /// Imports one commit of a submodule's repository.
    pub(super) fn take_commit(&self, source: &Git, id: &Oid) -> Result<(), MirrorError> {
        if self.seen()?.contains(id) {
            return Ok(());
        }
        let fetched = self.fetch(source, std::slice::from_ref(id))?;
        if fetched.code == Some(0) {
            return Ok(());
        }
        Err(self.classify(source, &String::from_utf8_lossy(&fetched.stderr)))
    }

    /// Keeps a commit that was created in the mirror itself.
    pub(super) fn keep(&self, id: &Oid) -> Result<(), GitError> {
        let name = format!("{SEEN}{id}");
        self.git.call(Call::new(&["update-ref", &name, id.as_str()])).map(|_| ())
    }

    fn fill_from(
        &self,
        source: &Git,
        also: &[Oid],
        origin: Origin,
    ) -> Result<RefsSnapshot, MirrorError> {
        source.place.check().map_err(|error| blame(source, error))?;
        let snapshot = source.refs().map_err(|error| blame(source, error))?;
        let mut seen = self.seen()?;
        let mut wanted = snapshot.tips();
        wanted.extend(also.iter().cloned());
        if origin == Origin::Person {
            let stash = source.existing(&Stash::of(source.place()));
            wanted.extend(stash.map_err(|error| blame(source, error))?.ids());
        }
        wanted.sort();
        wanted.dedup();
        let all = wanted.clone();
        wanted.retain(|id| !seen.contains(id));
        if wanted.is_empty() && !self.could_deepen(source) {
            return Ok(snapshot);
        }
        if self.mark(PARTIAL).exists() {
            self.take_packed(source, &wanted, &seen)?;
            return Ok(snapshot);
        }
        let mut fetched = self.fetch(source, &wanted)?;
        if fetched.code != Some(0) && !self.is_sound() {
            // The mirror lacks objects it should have: the source is not at fault, unless it is a clone that borrows
            // from it.
            if origin == Origin::Slot {
                return Err(MirrorError::Unsound { path: self.git.place.git_dir.clone() });
            }
            self.make_anew(source)?;
            (wanted, seen) = (all, HashSet::new());
            fetched = self.fetch(source, &wanted)?;
        }
        if fetched.code == Some(0) {
            if seen.len() + wanted.len() > MANY {
                self.forget_merged(&snapshot)?;
            }
            return Ok(snapshot);
        }
        if origin == Origin::Person && is_partial(source)? {
            self.take_packed(source, &wanted, &seen)?;
            fs::write(self.mark(PARTIAL), "")
                .map_err(|source| MirrorError::Write { path: self.mark(PARTIAL), source })?;
            return Ok(snapshot);
        }
        Err(self.classify(source, &String::from_utf8_lossy(&fetched.stderr)))
    }

    /// Derives the problem from git's error: of the source, or of the mirror that is written.
    fn classify(&self, source: &Git, stderr: &str) -> MirrorError {
        let source_dir = source_dir(source);
        // What cannot be written is the mirror: nothing is written in the source.
        if says_full(stderr) {
            return MirrorError::Git(GitError::DiskFull { args: "fetch".to_owned() });
        }
        let line = |needles: &[&str]| {
            stderr.lines().find(|line| needles.iter().any(|needle| line.contains(needle)))
        };
        // Git does not name the cause in all of these.
        if let Some(line) = line(&UNWRITTEN) {
            let path = self.git.place.git_dir.clone();
            return MirrorError::Write { path, source: io::Error::other(line.trim().to_owned()) };
        }
        let forged = [
            "did not receive expected object",
            "did not send all necessary objects",
            "COLLISION",
            "hash mismatch",
        ];
        if let Some(line) = line(&["fsck error", "error: object "]) {
            return MirrorError::Unsafe { source_dir, detail: line.trim().to_owned() };
        }
        if let Some(line) = line(&forged) {
            return MirrorError::Forged { source_dir, detail: line.trim().to_owned() };
        }
        let told = line(&["fatal:", "error:"]).unwrap_or("it cannot be fetched from");
        MirrorError::Damaged { source_dir, detail: told.trim().to_owned() }
    }

    fn mark(&self, name: &str) -> Utf8PathBuf {
        self.git.place.git_dir.join(name)
    }

    fn could_deepen(&self, source: &Git) -> bool {
        self.is_shallow() && !source.is_shallow()
    }

    fn seen(&self) -> Result<HashSet<Oid>, MirrorError> {
        Ok(self.git.refs_at(&[SEEN])?.into_iter().map(|seen| seen.id).collect())
    }

    /// Drops the tips that are ancestors of `HEAD` and not targets of any ref, and packs the others.
    fn forget_merged(&self, now: &RefsSnapshot) -> Result<(), GitError> {
        let Some(head) = now.head.id() else { return Ok(()) };
        let merged = format!("--merged={head}");
        let args = ["for-each-ref", "--format=%(objectname) %(refname)", &merged, SEEN];
        let output = self.git.ask(&args)?;
        let refs = parse_refs(&output).ok_or_else(|| unexpected(&args, &output))?;
        let tips = now.tips();
        let old = refs.iter().filter(|seen| tips.binary_search(&seen.id).is_err());
        let input = lines(old.map(|seen| &seen.id), |id| format!("delete {SEEN}{id} {id}"));
        self.git.call(Call::new(&["update-ref", "--stdin"]).input(input.as_bytes()))?;
        self.git.ask(&["pack-refs", "--all"]).map(|_| ())
    }

    fn fetch(&self, source: &Git, wanted: &[Oid]) -> Result<Answer, GitError> {
        let upload_pack = format!(
            "GIT_NO_REPLACE_OBJECTS=1 GIT_GRAFT_FILE=/dev/null GIT_NO_LAZY_FETCH=1 GIT_ALLOW_PROTOCOL= {} \
             -c core.commitGraph=false -c pack.useBitmaps=false -c core.fsmonitor=false \
             -c pack.window=0 -c pack.compression=0 \
             -c core.hooksPath=/dev/null -c safe.directory='*' upload-pack --strict",
            shell_quoted(&source.program.exe().to_string_lossy())
        );
        let source_dir = source.place.common_dir.as_str();
        let mut args = vec!["fetch", "--quiet", "--stdin", "--no-tags", "--no-write-fetch-head"];
        args.extend(["--no-auto-maintenance", "--no-recurse-submodules", "--no-prune"]);
        // A source that became shallow later is not trusted: that would cut off known history.
        if self.mark(SHALLOW).exists() {
            args.push("--update-shallow");
            if self.could_deepen(source) {
                args.push("--unshallow");
            }
        }
        args.extend(["--upload-pack", upload_pack.as_str(), source_dir]);
        let input = lines(wanted, |id| format!("{id}:{SEEN}{id}"));
        let fsck: Vec<(String, String)> = TOLERATED
            .iter()
            .map(|flaw| (format!("fetch.fsck.{flaw}"), "ignore".to_owned()))
            .collect();
        let call = Call::new(&args)
            .config("transfer.fsckObjects", "true")
            .config("protocol.version", "2")
            .configs(&fsck)
            .env("GIT_ALLOW_PROTOCOL", "file")
            .input(input.as_bytes())
            .timeout(TIMEOUT)
            .accept(&[1, 128]);
        self.git.call(call)
    }

    /// Imports the existing objects of a source that lacks some.
    fn take_packed(
        &self,
        source: &Git,
        wanted: &[Oid],
        seen: &HashSet<Oid>,
    ) -> Result<(), MirrorError> {
        if wanted.is_empty() {
            return Ok(());
        }
        let incoming = self.mark("incoming");
        let write = |source| MirrorError::Write { path: incoming.clone(), source };
        let _ = fs::remove_dir_all(&incoming);
        fs::create_dir_all(&incoming).map_err(write)?;
        let base = incoming.join("pack");
        let known: Vec<Oid> = seen.iter().cloned().collect();
        let there = source.have(&known).map_err(|error| blame(source, error))?;
        let known = known.iter().zip(there).filter_map(|(id, there)| there.then_some(id));
        let mut input = lines(wanted, Oid::to_string);
        input.push_str(&lines(known, |id| format!("^{id}")));
        let args = ["pack-objects", "--revs", "--missing=allow-any", "-q", base.as_str()];
        let packed = source
            .call(Call::new(&args).input(input.as_bytes()).timeout(TIMEOUT))
            .map_err(|error| blame(source, error))?;
        for hash in String::from_utf8_lossy(&packed.stdout).split_whitespace() {
            let name = format!("pack-{hash}.pack");
            let pack = self.objects_dir().join("pack").join(&name);
            fs::rename(incoming.join(&name), &pack).map_err(write)?;
            // Rebuilt from the contents; the index written by the source is ignored.
            let args = ["index-pack", "--fsck-objects", "--promisor=source", pack.as_str()];
            let indexed = self.git.call(Call::new(&args).timeout(TIMEOUT).accept(&[128]))?;
            if indexed.code != Some(0) {
                let _ = fs::remove_file(&pack);
                return Err(self.classify(source, &String::from_utf8_lossy(&indexed.stderr)));
            }
        }
        let _ = fs::remove_dir_all(&incoming);
        self.find_forged(source, wanted, seen)?;
        let input = lines(wanted, |id| format!("update {SEEN}{id} {id}"));
        self.git.call(Call::new(&["update-ref", "--stdin"]).input(input.as_bytes()))?;
        Ok(())
    }

    /// Distinguishes objects that the source lacks from those that do not match their id.
    fn find_forged(
        &self,
        source: &Git,
        wanted: &[Oid],
        seen: &HashSet<Oid>,
    ) -> Result<(), MirrorError> {
        let mut lacking: Vec<Oid> = Vec::new();
        for (id, there) in wanted.iter().zip(self.git.have(wanted)?) {
            if !there {
                lacking.push(id.clone());
            }
        }
        if lacking.is_empty() {
            let mut input = lines(wanted, Oid::to_string);
            input.push_str(&lines(seen, |id| format!("^{id}")));
            let args = ["rev-list", "--objects", "--missing=print", "--quiet", "--stdin"];
            let call = Call::new(&args).input(input.as_bytes()).timeout(TIMEOUT);
            let output = self.git.call(call).map_err(|error| blame(source, error))?.stdout;
            let missing = output.split(|byte| *byte == b'\n').filter_map(|l| l.strip_prefix(b"?"));
            lacking.extend(missing.filter_map(Oid::parse));
        }
        let there = source.have(&lacking).map_err(|error| blame(source, error))?;
        let Some((id, _)) = lacking.iter().zip(there).find(|(_, there)| *there) else {
            return Ok(());
        };
        let detail = format!("what it has as `{id}` is something else");
        Err(MirrorError::Forged { source_dir: source_dir(source), detail })
    }
}

fn source_dir(source: &Git) -> Utf8PathBuf {
    source.place.common_dir.clone()
}

/// Whether a repository lacks objects on purpose, because a remote promised to have them.
fn is_partial(source: &Git) -> Result<bool, GitError> {
    let pattern = r"^(extensions\.partialclone|remote\..*\.promisor)$";
    source.ask_whether(&["config", "--get-regexp", pattern]).map(|found| found.is_some())
}

/// Classifies a failed query of the source.
fn blame(source: &Git, error: GitError) -> MirrorError {
    let source_dir = source_dir(source);
    match error {
        GitError::Repointed { .. } => MirrorError::Forged { source_dir, detail: error.to_string() },
        GitError::Failed { stderr, .. } => MirrorError::Damaged { source_dir, detail: stderr },
        other => MirrorError::Git(other),
    }
}

pub(super) fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
#[path = "mirror_tests.rs"]
mod tests;
