//! A fast-forward in process, at a cost proportional to what changes: git reads the whole index for each of its
//! commands, and there are half a dozen of them.
//!
//! Only the plain case: few regular files, an index without special entries, and every touched file as the old commit
//! or as the new one has it. Anything else is [`Unfit`], and git decides. That includes a file that git does not write
//! byte by byte as it is committed (line endings): then git finds what was written here, which the note of the
//! fast-forward says is ours.

use std::fs::{self, File, Metadata};
use std::path::{Component, Path, PathBuf};

use gix_hash::{Kind, ObjectId};

use super::super::call::path_bytes;
use super::super::commits::ScratchIndex;
use super::super::direct::index::{IndexChange, IndexEdit, first_index, patch};
use super::super::direct::read_settled;
use super::super::direct::trees::NewObjects;
use super::super::parse::PathChange;
use super::super::scan::IndexFile;
use super::super::settings::{Settings, Unfit};
use super::super::tree_diff::tree_of;
use super::super::tree_edit::{TreeChange, find_entry};
use super::super::{Git, Oid, regular_file};
use super::follow::root_of;

/// With more files than this the git binary is faster.
const FEW: usize = 128;

const ODD: Unfit = Unfit("it is no matter of a few plain files");
const DIFFERS: Unfit = Unfit("a file is not as the commit has it");
const UNWRITABLE: Unfit = Unfit("the tree or its index cannot be written");

/// A file's content, and whether it is executable; `None` if there is none.
type Content = Option<(ObjectId, bool)>;

/// A fast-forward of a worktree whose `index.lock` is held, with nothing in its way.
pub(super) struct PlainForward {
    root: PathBuf,
    index_path: PathBuf,
    index: IndexFile,
    kind: Kind,
    files: Vec<ForwardedFile>,
}

/// A file that differs between the two commits.
struct ForwardedFile {
    path: PathBuf,
    before: Content,
    after: Content,
    /// It already has the new content.
    is_done: bool,
}

impl PlainForward {
    /// Names the files that had the new content before anything was written.
    pub(super) fn done(&self) -> Vec<PathBuf> {
        let done = self.files.iter().filter(|file| file.is_done);
        done.map(|file| file.path.clone()).collect()
    }

    /// Examines the touched files. Nothing is written.
    pub(super) fn examine(git: &Git, from: &Oid, touched: &[PathChange]) -> Result<Self, Unfit> {
        if touched.is_empty() || touched.len() > FEW {
            return Err(ODD);
        }
        let settings = Settings::read(git.program(), git.place())?;
        let is_special = ["core.sparseCheckout", "core.ignoreCase", "core.precomposeUnicode"];
        if is_special.iter().any(|key| settings.is_on(key) == Some(true))
            || settings.is_on("core.fileMode") == Some(false)
        {
            return Err(Unfit("its settings change what a checkout writes"));
        }
        let kind = settings.layout().format.kind();
        let index_path = git.place().git_dir.join("index").into_std_path_buf();
        let index = IndexFile::read(&index_path, kind)?;
        let unread = |_| Unfit("an object cannot be read in process");
        let (mut objects, _) = git.own_objects().map_err(|_| ODD)?;
        let base = tree_of(&mut objects, &from.to_id()).map_err(unread)?;
        let (root, files) = (root_of(git), Vec::new());
        let mut forward = PlainForward { root, index_path, index, kind, files };
        for change in touched {
            let path = &change.path;
            if !is_plain_name(path) {
                return Err(ODD);
            }
            let before = match find_entry(&mut objects, &base, path).map_err(unread)? {
                Some(TreeChange::Put { mode, id }) => Some(plain(&mode, id)?),
                Some(TreeChange::Remove) | None => None,
            };
            let after = match &change.id {
                Some(id) => Some(plain(change.modes.1.as_bytes(), id.to_id())?),
                None => None,
            };
            let index = &forward.index;
            if index.file(path) != before || before.is_none() && index.has(path) {
                return Err(DIFFERS);
            }
            let is_done = forward.is_done(path, after)?;
            forward.files.push(ForwardedFile { path: path.clone(), before, after, is_done });
        }
        forward.files.sort_by(|one, other| path_bytes(&one.path).cmp(path_bytes(&other.path)));
        Ok(forward)
    }

    /// Whether every file is still as it was when it was examined.
    pub(super) fn is_current(&self) -> bool {
        let is_same = |file: &ForwardedFile| {
            self.is_done(&file.path, file.after).is_ok_and(|is_done| is_done == file.is_done)
        };
        self.files.iter().all(is_same)
    }

    /// Whether a file has its new content already; otherwise it is as in the index.
    fn is_done(&self, path: &Path, after: Content) -> Result<bool, Unfit> {
        for above in path.ancestors().skip(1).filter(|above| *above != Path::new("")) {
            match fs::symlink_metadata(self.root.join(above)) {
                Ok(found) if found.is_dir() => {}
                Err(error) if regular_file::is_absence(&error) => {}
                _ => return Err(DIFFERS),
            }
        }
        if self.index.is_there(&self.root, path, self.kind) {
            return Ok(false);
        }
        let is_same = after.is_some_and(|after| self.found(path, after).is_some());
        if is_same { Ok(true) } else { Err(DIFFERS) }
    }

    /// Returns the metadata of a file if it has this content.
    fn found(&self, path: &Path, (id, executable): (ObjectId, bool)) -> Option<Metadata> {
        use std::os::unix::fs::MetadataExt;
        let (content, metadata) = read_settled(&self.root.join(path)).ok()?;
        let is_same = NewObjects::new(self.kind).add("blob", &content).is_ok_and(|has| has == id);
        (is_same && executable == (metadata.mode() & 0o100 != 0)).then_some(metadata)
    }

    /// Writes the files, and the new index to `index`; `check_out` writes the files of a temporary index that are not
    /// there, as git does on a checkout.
    pub(super) fn write(
        &self,
        index: &ScratchIndex,
        check_out: &dyn Fn(&ScratchIndex) -> Result<(), Unfit>,
    ) -> Result<(), Unfit> {
        for file in self.files.iter().filter(|file| !file.is_done && file.before.is_some()) {
            fs::remove_file(self.root.join(&file.path)).map_err(|_| UNWRITABLE)?;
            if file.after.is_none() {
                self.remove_empty_above(&file.path);
            }
        }
        let missing = self.files.iter().filter(|file| !file.is_done);
        let missing: Vec<IndexEdit<'_>> = missing.filter_map(|file| file.edit(None)).collect();
        if !missing.is_empty() {
            let few = ScratchIndex::beside(index);
            let file = File::create_new(few.name()).map_err(|_| UNWRITABLE)?;
            first_index(self.kind, &missing, &file)?;
            drop(file);
            check_out(&few)?;
        }
        self.write_index(index)
    }

    fn remove_empty_above(&self, path: &Path) {
        for above in path.ancestors().skip(1).filter(|above| *above != Path::new("")) {
            if fs::remove_dir(self.root.join(above)).is_err() {
                break;
            }
        }
    }

    fn write_index(&self, to: &ScratchIndex) -> Result<(), Unfit> {
        // Times and sizes of exactly the contents that the entries name: a file that is edited meanwhile differs.
        let mut present = Vec::new();
        for file in &self.files {
            let Some(after) = file.after else { continue };
            present.push((file, self.found(&file.path, after).ok_or(DIFFERS)?));
        }
        let edits = present.iter().filter_map(|(file, metadata)| file.edit(Some(metadata)));
        let edits: Vec<IndexEdit<'_>> = edits.collect();
        let gone = self.files.iter().filter(|file| file.after.is_none());
        let gone: Vec<&[u8]> = gone.map(|file| path_bytes(&file.path)).collect();
        let is_new = |file: &&ForwardedFile| file.before.is_none() && file.after.is_some();
        let count = |count: usize| i32::try_from(count).unwrap_or(0);
        let expected = count(self.files.iter().filter(is_new).count()) - count(gone.len());
        let change = IndexChange { edits: &edits, gone: &gone, watched: &[], expected };
        let (old, metadata) = regular_file::open(&self.index_path).map_err(|_| UNWRITABLE)?;
        let file = File::options().read(true).write(true).create_new(true).open(to.name());
        let file = file.map_err(|_| UNWRITABLE)?;
        let patched = patch(Some((&old, &metadata)), self.kind, &change, &file);
        let patched = patched.map_err(|_| Unfit("its index cannot be changed in process"))?;
        let kept = || -> std::io::Result<()> {
            if patched.keep_time {
                file.set_modified(metadata.modified()?)?;
            }
            file.set_permissions(metadata.permissions())
        };
        kept().map_err(|_| UNWRITABLE)
    }
}

impl ForwardedFile {
    fn edit<'f>(&'f self, file: Option<&'f Metadata>) -> Option<IndexEdit<'f>> {
        let (id, executable) = self.after?;
        Some(IndexEdit { path: path_bytes(&self.path), id, executable, file })
    }
}

/// Whether a path has no part that means something to git.
fn is_plain_name(path: &Path) -> bool {
    path.components().all(|part| {
        let Component::Normal(name) = part else { return false };
        let start = name.as_encoded_bytes().get(..4);
        !start.is_some_and(|start| start.eq_ignore_ascii_case(b".git"))
    })
}

fn plain(mode: &[u8], id: ObjectId) -> Result<(ObjectId, bool), Unfit> {
    match mode {
        b"100644" => Ok((id, false)),
        b"100755" => Ok((id, true)),
        _ => Err(ODD),
    }
}
