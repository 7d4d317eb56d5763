//! Commits a few files without a git process: like `commit_paths`, at a fraction of the cost.
//!
//! The order is the same. `index.lock` comes first, then everything is prepared: the files are read, the new index is
//! written to the lock, objects are on disk under their names. Then the branch moves by compare-and-swap, and last the
//! new index takes its place. Any obstacle before the branch moves (refs in a reftable, a split index, an unknown
//! extension, a required filter) leaves nothing behind, and [`commit_files`] falls back to the git binary. A crash
//! right after the branch moved leaves the paths staged as before; the next commit of them, which finds nothing to
//! commit, updates the index.
//!
//! No hook, filter or other program runs. A file is committed byte by byte as in the working tree; if attributes or
//! line endings might require anything else, git decides. Objects are synced before the ref that points to them, and
//! the ref before its rename, so that a power failure leaves the branch valid: at the new commit, or at the old one
//! with the file changed, which the next commit of it includes. The index is not synced, as in git: it can be recreated
//! from the commit.

mod attributes;
mod copy;
mod deflate;
pub(super) mod index;
mod signature;
pub(crate) mod tree_cache;
pub(super) mod trees;

use std::fs::{self, Metadata};
use std::io::{self, Seek};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use gix_hash::{Kind, ObjectId};
use ralph_proc::fault;

use super::call::path_bytes;
use super::commits::{CommitError, CommitRequest, Committed, Signing, commit_paths_as};
use super::lock::LockFile;
use super::objects::{ObjectKind, Objects};
use super::refs::{LookupStep, NotMoved, RefFiles};
use super::replaced::{HeldIndex, Replaced};
use super::settings::{Settings, Unfit};
use super::{Git, GitError, Head, Oid, RepositoryLocation, regular_file};
use index::{IndexChange, IndexEdit, NotPatched, Patched, Staged};
use signature::Signature;
use trees::{NewObjects, TreeEdit, Trees};

/// With more files than this the git binary is faster.
const FEW: usize = 16;
/// How many races against other committers may be lost.
const ATTEMPTS: usize = 32;

/// Commits the given files as in the working tree, in process if possible; `None` if `HEAD` already has them.
///
/// If another committer moves the branch meanwhile, the commit is retried on top of it.
pub fn commit_files(
    git: &Git,
    request: &CommitRequest<'_>,
) -> Result<Option<Committed>, CommitError> {
    commit(git, request, None, None)
}

/// Commits one file as written while the index was locked; `None` if `HEAD` already has it.
///
/// The working tree must still have the written content, otherwise [`CommitError::Replaced`].
pub fn commit_replaced(
    git: &Git,
    request: &CommitRequest<'_>,
    held: HeldIndex,
    replaced: Replaced<'_>,
) -> Result<Option<Committed>, CommitError> {
    commit(git, request, Some(held), Some(replaced))
}

fn commit(
    git: &Git,
    request: &CommitRequest<'_>,
    mut held: Option<HeldIndex>,
    replaced: Option<Replaced<'_>>,
) -> Result<Option<Committed>, CommitError> {
    let mut left = ATTEMPTS;
    loop {
        let made = match attempt(git, request, held.take(), replaced) {
            Ok(made) => Ok(made),
            Err(Setback::Unfit(_)) => commit_paths_as(git, request, replaced),
            Err(Setback::Refused(error)) => Err(error),
        };
        left -= 1;
        match made {
            Err(CommitError::Moved) if left > 0 => {}
            made => return made,
        }
    }
}

/// Why a commit was not made in process; nothing has changed.
#[derive(Debug)]
pub(super) enum Setback {
    #[expect(dead_code, reason = "git is asked whatever the reason, which tests print")]
    Unfit(Unfit),
    Refused(CommitError),
}

impl From<Unfit> for Setback {
    fn from(unfit: Unfit) -> Self {
        Setback::Unfit(unfit)
    }
}

impl From<GitError> for Setback {
    fn from(error: GitError) -> Self {
        Setback::Refused(error.into())
    }
}

/// The findings at the paths of a commit.
struct Found<'a> {
    files: Vec<FoundFile<'a>>,
    /// Attribute files that are missing in the working tree.
    unattributed: Vec<Vec<u8>>,
    /// Paths without a file.
    absent: Vec<&'a Path>,
}

/// A file in the working tree.
struct FoundFile<'a> {
    path: &'a Path,
    content: Vec<u8>,
    metadata: Metadata,
}

impl FoundFile<'_> {
    fn is_executable(&self) -> bool {
        self.metadata.permissions().mode() & 0o100 != 0
    }
}

/// Commits without a git process, or returns why not.
#[cfg(test)]
fn commit_in_process(git: &Git, request: &CommitRequest<'_>) -> Result<Option<Committed>, Setback> {
    attempt(git, request, None, None)
}

fn attempt(
    git: &Git,
    request: &CommitRequest<'_>,
    held: Option<HeldIndex>,
    replaced: Option<Replaced<'_>>,
) -> Result<Option<Committed>, Setback> {
    git.place().check()?;
    if request.signing == Signing::AsThePersonDoes {
        return Err(Unfit("signing takes a program").into());
    }
    let mut paths: Vec<&Path> = request.paths.iter().map(PathBuf::as_path).collect();
    paths.sort_by_key(|path| path_bytes(path));
    paths.dedup();
    if paths.is_empty() || paths.len() > FEW || request.message.contains('\0') {
        return Err(Unfit("it is no matter of a few files").into());
    }
    let settings = Settings::read(git.program(), git.place())?;
    if !settings.layout().refs_are_files {
        return Err(Unfit("its refs are in a table").into());
    }
    if settings.value("core.sharedRepository").is_some() {
        return Err(Unfit("it is shared by several people").into());
    }
    let signature = Signature::of(git.program(), &settings)?;
    let HeldIndex { lock } = match held {
        Some(held) => held,
        None => git.hold_index(request.patience)?,
    };
    let kind = settings.layout().format.kind();
    let bench = Bench { git, settings: &settings, kind, replaced };
    bench.commit(lock, &paths, request, &signature)
}

struct Bench<'a> {
    git: &'a Git,
    settings: &'a Settings,
    kind: Kind,
    replaced: Option<Replaced<'a>>,
}

impl Bench<'_> {
    fn place(&self) -> &RepositoryLocation {
        self.git.place()
    }

    /// Makes the whole commit.
    fn commit(
        &self,
        lock: LockFile,
        paths: &[&Path],
        request: &CommitRequest<'_>,
        signature: &Signature,
    ) -> Result<Option<Committed>, Setback> {
        let refs = RefFiles::of(self.place());
        let head = refs.head()?;
        let mut objects = Objects::open(self.place(), self.kind);
        let base = match head.id() {
            Some(id) => Some(tree_of(&mut objects, &id.to_id())?),
            None => None,
        };
        let mut trees = Trees::of(&mut objects);
        let Found { files, unattributed: watched, absent } = self.find_files(paths)?;
        for path in absent {
            // A path that is missing on both sides is no change.
            if self.replaced.is_some() || trees::find(&mut trees, base, path_bytes(path))?.is_some()
            {
                return Err(Unfit("a file has to be removed").into());
            }
        }
        if files.is_empty() {
            return Ok(None);
        }
        let paths: Vec<&Path> = files.iter().map(|file| file.path).collect();
        // Where permissions are meaningless (a foreign file system), only modes explicitly set in git count.
        let modes_count = self.settings.is_on("core.fileMode") != Some(false);
        let mut fresh = NewObjects::new(self.kind);
        let mut edits = Vec::new();
        let mut news = Vec::new();
        let mut at_head = Vec::new();
        for file in &files {
            if let Some(replaced) = self.replaced {
                replaced.check_content(file.path, &file.content).map_err(Setback::Refused)?;
            }
            let path = path_bytes(file.path);
            let old = trees::find(&mut trees, base, path)?;
            let mut one = NewObjects::new(self.kind);
            let id = one.add("blob", &file.content)?;
            let was_executable = old.as_ref().is_some_and(|(mode, _)| mode == b"100755");
            let executable = if modes_count { file.is_executable() } else { was_executable };
            let mode: &'static [u8] = if executable { b"100755" } else { b"100644" };
            if old.as_ref() != Some(&(mode.to_vec(), id)) {
                fresh.take(one);
                news.push(TreeEdit { path, id, mode });
            }
            at_head.push(old.map(|(_, id)| id));
            edits.push(IndexEdit { path, id, executable, file: Some(&file.metadata) });
        }
        let path = self.place().git_dir.join("index").into_std_path_buf();
        // What HEAD does not have is rarely staged yet.
        let expected = at_head.iter().filter(|id| id.is_none()).count();
        let index = NewIndex::prepare(lock, path, self.kind, &edits, &watched, expected)
            .map_err(|not| unpatched(&not, &paths))?;
        if let Some(replaced) = self.replaced {
            for ((path, staged), at_head) in paths.iter().zip(&index.before).zip(&at_head) {
                let Some(staged) = staged.as_ref().filter(|staged| !staged.promised) else {
                    continue;
                };
                if Some(staged.id) != *at_head {
                    replaced
                        .wait_for_switch(self.git, &head, path, &staged.id)
                        .map_err(Setback::Refused)?;
                }
            }
        }
        if news.is_empty() {
            if index.differs(&edits) {
                index.take_place()?;
            }
            return Ok(None);
        }
        let tree = trees::edit(&mut trees, &mut fresh, base, &news)?;
        let commit = signature.commit(&tree, head.id(), request.message);
        let id = Oid::of(&fresh.add("commit", &commit)?);
        fresh.write(self.place().common_dir.join("objects").as_std_path())?;
        fault::after_write();
        self.advance(&refs, &head, &id, request.message, signature)?;
        fault::after_write();
        let displaced = displaced(&files, &edits, &index.before, &at_head);
        index.take_place()?;
        let paths = news.iter().map(|edit| super::call::path_from(edit.path)).collect();
        let (parent, branch) = (head.id().cloned(), head.branch().map(str::to_owned));
        let replaced = at_head.first().copied().flatten().filter(|_| self.replaced.is_some());
        let replaced = replaced.map(|id| Oid::of(&id));
        Ok(Some(Committed { id, parent, branch, replaced, paths, displaced }))
    }

    fn advance(
        &self,
        refs: &RefFiles<'_>,
        head: &Head,
        id: &Oid,
        message: &str,
        signature: &Signature,
    ) -> Result<(), Setback> {
        let log_entry = signature.log_entry(message);
        let zero = self.settings.layout().format.zero();
        let begin_log = self.settings.is_on("core.logAllRefUpdates") != Some(false);
        let step = LookupStep { from: head, to: id, zero: &zero, log_entry: &log_entry, begin_log };
        refs.advance(&step).map_err(|not| match not {
            NotMoved::Changed => Setback::Refused(CommitError::Moved),
            NotMoved::Unfit(unfit) => Setback::Unfit(unfit),
            NotMoved::Failed(error) => error.into(),
        })
    }

    /// Reads the files.
    fn find_files<'p>(&self, paths: &[&'p Path]) -> Result<Found<'p>, Setback> {
        let Some(root) = self.place().worktree.as_ref().map(|root| root.as_std_path()) else {
            return Err(Unfit("it has no work tree").into());
        };
        let mut found = Found { files: Vec::new(), unattributed: Vec::new(), absent: Vec::new() };
        for path in paths {
            let inside = path.components().all(|part| {
                matches!(part, std::path::Component::Normal(name)
                    if !name.eq_ignore_ascii_case(".git"))
            });
            let bytes = path_bytes(path);
            if !inside || bytes.ends_with(b"/") || bytes.contains(&0) {
                return Err(Setback::Refused(CommitError::Outside { path: (*path).to_owned() }));
            }
            // In another spelling (`a//b`), it would be a different name in the index.
            if path.components().collect::<PathBuf>().as_os_str() != path.as_os_str() {
                return Err(Unfit("a path is written in an odd way").into());
            }
            for dir in path.ancestors().skip(1) {
                let is_dir = fs::symlink_metadata(root.join(dir)).is_ok_and(|found| found.is_dir());
                if !is_dir {
                    return Err(Unfit("a link or nothing leads to a file").into());
                }
            }
            match read_settled(&root.join(path)) {
                Ok((content, metadata)) => {
                    let missing = attributes::check(self.place(), root, path, &content)?;
                    found.unattributed.extend(missing);
                    found.files.push(FoundFile { path, content, metadata });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => found.absent.push(*path),
                Err(_) => return Err(Unfit("a file cannot be read as a file").into()),
            }
        }
        Ok(found)
    }
}

/// Reads a file that does not change during the read.
pub(super) fn read_settled(path: &Path) -> io::Result<(Vec<u8>, Metadata)> {
    for _ in 0..3 {
        let (file, before) = regular_file::open(path)?;
        let content = regular_file::read_open(&file, &before)?;
        let after = fs::symlink_metadata(path)?;
        let same = |of: &Metadata| (of.ino(), of.dev(), of.size(), of.ctime(), of.ctime_nsec());
        if same(&before) == same(&after) && after.size() == content.len() as u64 {
            return Ok((content, after));
        }
    }
    Err(io::Error::other("it changes all the time"))
}

fn tree_of(objects: &mut Objects, commit: &ObjectId) -> Result<ObjectId, Unfit> {
    let mut bytes = Vec::new();
    let missing = Unfit("the last commit is missing");
    objects.read(commit, ObjectKind::Commit, &mut bytes).map_err(|_| missing)?;
    let line =
        bytes.split(|byte| *byte == b'\n').next().and_then(|line| line.strip_prefix(b"tree "));
    line.and_then(|hex| ObjectId::from_hex(hex).ok()).ok_or(missing)
}

fn unpatched(not: &NotPatched, paths: &[&Path]) -> Setback {
    match not {
        NotPatched::Unfit(unfit) => Setback::Unfit(*unfit),
        NotPatched::Unmerged(number) => {
            Setback::Refused(CommitError::Unmerged { path: paths[*number].to_owned() })
        }
    }
}

/// Returns staged versions that neither the commit nor its parent has.
fn displaced(
    files: &[FoundFile<'_>],
    edits: &[IndexEdit<'_>],
    before: &[Option<Staged>],
    at_head: &[Option<ObjectId>],
) -> Vec<(PathBuf, Oid)> {
    let mut displaced = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let Some(staged) = before[number].as_ref().filter(|staged| !staged.promised) else {
            continue;
        };
        if staged.id != edits[number].id && Some(staged.id) != at_head[number] {
            displaced.push((file.path.to_owned(), Oid::of(&staged.id)));
        }
    }
    displaced
}

/// The new index, written to the lock and ready to replace the old one.
struct NewIndex {
    lock: LockFile,
    path: PathBuf,
    permissions: Option<fs::Permissions>,
    before: Vec<Option<Staged>>,
}

impl NewIndex {
    fn prepare(
        lock: LockFile,
        path: PathBuf,
        kind: Kind,
        edits: &[IndexEdit<'_>],
        watched: &[Vec<u8>],
        expected: usize,
    ) -> Result<Self, NotPatched> {
        let old = match regular_file::open(&path) {
            Ok(old) => Some(old),
            Err(error) if regular_file::is_absence(&error) => None,
            Err(_) => return Err(Unfit("its index cannot be read").into()),
        };
        let mut file = lock.file();
        let unwritable = |_| Unfit("its index cannot be written");
        file.rewind().map_err(unwritable)?;
        let given = old.as_ref().map(|(file, metadata)| (file, metadata));
        let expected = i32::try_from(expected).unwrap_or(0);
        let change = IndexChange { edits, gone: &[], watched, expected };
        let Patched { before, keep_time } = index::patch(given, kind, &change, file)?;
        let old = old.map(|(_, metadata)| metadata);
        if let Some(old) = old.as_ref().filter(|_| keep_time) {
            old.modified().and_then(|time| file.set_modified(time)).map_err(unwritable)?;
        }
        let permissions = old.map(|old| old.permissions());
        Ok(NewIndex { lock, path, permissions, before })
    }

    /// Whether the index differed from the edits.
    fn differs(&self, edits: &[IndexEdit<'_>]) -> bool {
        edits.iter().zip(&self.before).any(|(edit, before)| {
            before.as_ref().is_none_or(|staged| {
                staged.promised || staged.id != edit.id || staged.mode != edit.mode()
            })
        })
    }

    fn take_place(self) -> Result<(), Setback> {
        let NewIndex { lock, path, permissions, .. } = self;
        lock.become_file(&path, permissions)
            .map_err(|source| Setback::Refused(CommitError::Write { path, source }))
    }
}

#[cfg(test)]
mod tests;
