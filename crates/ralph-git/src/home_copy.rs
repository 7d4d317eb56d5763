//! Ralph's own copy of home: a small repository in private state whose commits contain only home.
//!
//! A workflow writes its state files here while agents work, so that the person's checkout stays unchanged until
//! something lands. The copy shares the object store of the private mirror: a landing needs no transfer of its commits.
//! Its branch has one commit on top of the tip it was last synchronised with, plus one commit for each transition.
//!
//! Not here: what to take from the person and how to merge it. The workflow decides that.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use camino::{Utf8Path, Utf8PathBuf};

use super::call::{Call, path_bytes};
use super::commits::parse_id;
use super::direct::trees::NewObjects;
use super::mirror::Mirror;
use super::objects::Objects;
use super::parse::PathChange;
use super::scan::IndexFile;
use super::settings::{OwnSettings, Unfit};
use super::tree_edit::{TreeChange, TreeChanges, find_entry};
use super::tree_move::TreeMove;
use super::{Git, GitError, LONG, ObjectError, Oid, RepositoryLocation, unexpected};

/// The branch of the copy.
const BRANCH: &str = "refs/heads/home";
/// Written last, so that a copy whose creation was interrupted is created again.
const READY: &str = "ralph-home-copy";

/// The prefix of the marks of completely created repositories.
const MADE: &str = "1\n";

/// The copy cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeCopyError {
    #[error("cannot create Ralph's copy of home in `{path}`")]
    Create {
        path: Utf8PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{}` cannot be a file of home", super::shown(path))]
    Path { path: PathBuf },
    #[error("files of home cannot be stored: {reason}")]
    Objects { reason: &'static str },
    #[error(transparent)]
    Read(#[from] ObjectError),
    #[error(transparent)]
    Git(#[from] GitError),
}

impl HomeCopyError {
    /// Converts it to a git error.
    fn into_git(self) -> GitError {
        match self {
            HomeCopyError::Git(error) => error,
            error => {
                GitError::Unexpected { args: "write-tree".to_owned(), output: error.to_string() }
            }
        }
    }
}

/// Whether the ref files of a copy are intact: a power failure, or another process, may have changed them.
fn is_whole(git_dir: &Utf8Path, mirror: &Mirror) -> bool {
    let read = |name: &str| fs::read_to_string(git_dir.join(name));
    let is_branch = read("HEAD").is_ok_and(|head| head == format!("ref: {BRANCH}\n"));
    let tip = read(BRANCH);
    let is_id = |text: &String| Oid::parse(text.trim_end().as_bytes()).is_some();
    let has_tip = match &tip {
        Ok(text) => is_id(text),
        // Unborn, or a packed ref.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    let borrows = git_dir.join("objects").read_link_utf8();
    is_branch
        && has_tip
        && has_own_config(git_dir, READY)
        && borrows.is_ok_and(|objects| objects == mirror.objects_dir())
}

/// Whether the configuration of a repository of Ralph's own is unchanged; `mark` has a copy of it.
pub(super) fn has_own_config(git_dir: &Utf8Path, mark: &str) -> bool {
    let read = |name: &str| fs::read_to_string(git_dir.join(name)).ok();
    let (Some(config), Some(mark)) = (read("config"), read(mark)) else { return false };
    // Marks of earlier versions have none.
    let known = mark.strip_prefix(MADE);
    known.is_some_and(|known| config == known || known.is_empty() && config.starts_with("[core]"))
}

/// Marks a repository of Ralph's own as complete, with its configuration.
pub(super) fn mark_made(git_dir: &Utf8Path, mark: &str) -> io::Result<()> {
    let config = fs::read_to_string(git_dir.join("config"))?;
    fs::write(git_dir.join(mark), format!("{MADE}{config}"))
}

fn is_missing(problem: &io::Error) -> bool {
    problem.kind() == io::ErrorKind::NotFound
}

fn unwritable(Unfit(reason): Unfit) -> HomeCopyError {
    HomeCopyError::Objects { reason }
}

/// A file of a tree: its mode as octal text, and its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeBlob {
    pub mode: String,
    pub id: Oid,
}

/// The new content of one path of a tree; `None` removes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeChange {
    pub path: PathBuf,
    pub after: Option<HomeBlob>,
}

impl From<PathChange> for HomeChange {
    fn from(change: PathChange) -> HomeChange {
        let PathChange { path, modes, id, .. } = change;
        HomeChange { path, after: id.map(|id| HomeBlob { mode: modes.1, id }) }
    }
}

/// The copy of one home.
#[derive(Clone, Debug)]
pub struct HomeCopy {
    git: Git,
    /// Home, relative to the root of the person's working tree and of the copy's.
    inside: PathBuf,
}

impl HomeCopy {
    /// Opens the copy in a directory, or creates it there. The flag says whether it is new.
    pub fn open(
        mirror: &Mirror,
        directory: &Utf8Path,
        inside: &Path,
    ) -> Result<(HomeCopy, bool), HomeCopyError> {
        let create = |source| HomeCopyError::Create { path: directory.to_owned(), source };
        let is_new = match directory.symlink_metadata() {
            Ok(found) if found.is_dir() => {
                let git_dir = directory.join(".git");
                !git_dir.join(READY).exists() || !is_whole(&git_dir, mirror)
            }
            Ok(_) => fs::remove_file(directory).map(|()| true).map_err(create)?,
            Err(_) => true,
        };
        if is_new {
            // Including its files, whose content is unknown.
            match fs::remove_dir_all(directory) {
                Err(error) if !is_missing(&error) => return Err(create(error)),
                _ => fs::create_dir_all(directory).map_err(create)?,
            }
        }
        let directory = directory.canonicalize_utf8().map_err(create)?;
        let git_dir = directory.join(".git");
        if is_new {
            let format = format!("--object-format={}", mirror.object_format().name());
            let args = ["init", "--quiet", "--template=", &format, directory.as_str()];
            Call::new(&args).run(mirror.git().program())?;
            let objects = git_dir.join("objects");
            fs::remove_dir_all(&objects).map_err(create)?;
            symlink(mirror.objects_dir(), &objects).map_err(create)?;
            fs::write(git_dir.join("HEAD"), format!("ref: {BRANCH}\n")).map_err(create)?;
            // Reflogs of its refs are never read. Neither is the checksum of its index, which is written for each
            // transition and is most of the cost where home has many files.
            let config = fs::read_to_string(git_dir.join("config")).map_err(create)?;
            let config =
                format!("{config}[core]\n\tlogallrefupdates = false\n[index]\n\tskipHash = true\n");
            fs::write(git_dir.join("config"), config).map_err(create)?;
            mark_made(&git_dir, READY).map_err(create)?;
        }
        let place = RepositoryLocation {
            git_dir: git_dir.clone(),
            common_dir: git_dir,
            worktree: Some(directory),
        };
        let git = Git::at(mirror.git().program().clone(), place).private();
        Ok((HomeCopy { git, inside: inside.to_owned() }, is_new))
    }

    pub fn git(&self) -> &Git {
        &self.git
    }

    /// Makes the next opening recreate the copy.
    pub fn give_up(&self) -> Result<(), HomeCopyError> {
        let path = self.git.place().git_dir.join(READY);
        let removed = fs::remove_file(&path);
        removed.map_err(|source| HomeCopyError::Create { path, source })
    }

    /// Whether all content of the copy's own commits is readable.
    pub fn is_sound(&self) -> bool {
        let args = ["rev-list", "--objects", "--quiet", "--no-walk", "HEAD"];
        let is_unborn = || self.git.place().git_dir.join(BRANCH).symlink_metadata().is_err();
        self.git.ask(&args).is_ok() || is_unborn()
    }

    /// Rebuilds the copy's index if it is unreadable. Files are compared with the commit in any case.
    pub fn mend_index(&self) -> Result<(), GitError> {
        let index = self.git.place().git_dir.join("index");
        let _ = match index.symlink_metadata() {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&index),
            Ok(_) => fs::remove_file(&index),
            Err(_) => Ok(()),
        };
        let tree = self.head_tree()?;
        self.git.call(Call::new(&["read-tree", tree.as_str()]).timeout(LONG)).map(|_| ())
    }

    /// Whether the index is readable.
    pub fn has_index(&self) -> bool {
        let Ok(own) = OwnSettings::read(self.git.place()) else { return false };
        let index = self.git.place().git_dir.join("index");
        IndexFile::read(index.as_std_path(), own.layout.format.kind()).is_ok()
    }

    /// Restores files of the copy to its last commit; files that it lacks are removed.
    pub fn restore(&self, paths: &[PathBuf]) -> Result<(), GitError> {
        let tree = self.head_tree()?;
        let root = self.git.place().worktree.clone().expect("a copy of home has a work tree");
        for path in paths {
            let file = root.as_std_path().join(path);
            let _ = match file.symlink_metadata() {
                Ok(found) if found.is_dir() => fs::remove_dir_all(&file),
                Ok(_) => fs::remove_file(&file),
                Err(_) => Ok(()),
            };
        }
        self.git.call(Call::new(&["read-tree", tree.as_str()]).timeout(LONG))?;
        self.git.call(Call::new(&["checkout-index", "--all", "--force"]).timeout(LONG)).map(|_| ())
    }

    /// Returns the tree with only home, as in a commit; an empty one without a commit or a home.
    pub fn tree_at(&self, commit: Option<&Oid>) -> Result<Oid, GitError> {
        let Some(commit) = commit else { return Ok(self.git.object_format()?.empty_tree()) };
        let mut name = format!("{commit}:").into_bytes();
        name.extend(path_bytes(&self.inside));
        let name = super::call::path_from(&name);
        let call = Call::new(&["rev-parse", "--verify", "--quiet", "--end-of-options"]);
        let answer = self.git.call(call.name(name.as_os_str()).accept(&[1, 128]))?;
        let found = (answer.code == Some(0)).then(|| Oid::parse(answer.stdout.trim_ascii()));
        let Some(mut tree) = found.flatten() else {
            return Ok(self.git.object_format()?.empty_tree());
        };
        for part in self.inside.components().rev() {
            let Component::Normal(name) = part else { continue };
            let mut input = format!("040000 tree {tree}\t").into_bytes();
            input.extend(name.as_encoded_bytes());
            input.push(0);
            let args = ["mktree", "-z"];
            let answer = self.git.call(Call::new(&args).input(&input))?;
            tree = parse_id(&args, &answer.stdout)?;
        }
        Ok(tree)
    }

    /// Returns the tree of the copy's latest commit.
    pub fn head_tree(&self) -> Result<Oid, GitError> {
        let header = match self.git.head()?.id() {
            Some(id) => self.git.commit_header(id)?,
            None => None,
        };
        match header {
            Some(header) => Ok(header.tree),
            None => Ok(self.git.object_format()?.empty_tree()),
        }
    }

    /// Returns the commits of the copy on top of a tip, oldest first: message and tree of each.
    pub fn steps(&self, tip: Option<&Oid>) -> Result<Vec<(String, Oid)>, GitError> {
        let since = tip.map(|tip| format!("^{tip}"));
        let mut args = vec!["log", "-z", "--reverse", "--topo-order", "--format=%T %B", "HEAD"];
        args.extend(since.as_deref());
        if self.git.head()?.id().is_none() {
            return Ok(Vec::new());
        }
        let output = self.git.ask(&args)?;
        let entries = output.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
        entries
            .map(|entry| {
                let text = String::from_utf8_lossy(entry);
                let (tree, message) = text.split_once(' ')?;
                Some((message.trim_end().to_owned() + "\n", Oid::parse(tree.as_bytes())?))
            })
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| unexpected(&args, &output))
    }

    /// Makes a commit of `tree` on top of `parent` the only one of the copy, and updates its files.
    ///
    /// Files first: after a crash in between, the next call finds them already as wanted.
    pub fn stand_on(&self, parent: Option<&Oid>, tree: &Oid) -> Result<(), GitError> {
        let before = self.head_tree()?;
        if before != *tree {
            // Only the difference between the trees is written. Git refuses that if the index or a file differs from
            // the previous commit: after a crash.
            let step = ["read-tree", "-m", "-u", before.as_str(), tree.as_str()];
            if self.step_in_process(&before, tree).is_err()
                && self.git.call(Call::new(&step).timeout(LONG)).is_err()
            {
                let args = ["read-tree", "--reset", "-u", tree.as_str()];
                self.git.call(Call::new(&args).timeout(LONG))?;
            }
        }
        let id = self.git.commit_tree(tree, parent, "ralph: update home\n")?;
        self.git.ask(&["update-ref", BRANCH, id.as_str()]).map(|_| ())
    }

    /// Writes the difference between two trees, at a cost independent of the size of home.
    fn step_in_process(&self, before: &Oid, tree: &Oid) -> Result<(), Unfit> {
        let kind = OwnSettings::read(self.git.place())?.layout.format.kind();
        let index = self.git.place().git_dir.join("index");
        let known = IndexFile::read(index.as_std_path(), kind)?;
        let git = &self.git;
        let step = TreeMove { git, kind, index: &index, from: before, to: tree, unsure: &[] };
        step.make_over_known(&known)
    }
}

impl Git {
    /// Returns the differences between two trees, path by path, without rename detection.
    pub fn tree_changes(&self, from: &Oid, to: &Oid) -> Result<Vec<HomeChange>, GitError> {
        if from == to {
            return Ok(Vec::new());
        }
        Ok(self.plain_changes(from, to)?.into_iter().map(HomeChange::from).collect())
    }

    /// Writes the tree that differs from another by these changes; returns its id.
    ///
    /// The cost depends on the directories on the way to the changes, not on the size of the tree.
    pub fn tree_with(&self, tree: &Oid, changes: &[HomeChange]) -> Result<Oid, GitError> {
        if changes.is_empty() {
            return Ok(tree.clone());
        }
        self.edited_tree(tree, changes).map_err(HomeCopyError::into_git)
    }

    fn edited_tree(&self, tree: &Oid, changes: &[HomeChange]) -> Result<Oid, HomeCopyError> {
        let mut wanted = TreeChanges::default();
        for HomeChange { path, after } in changes {
            let change = match after {
                Some(HomeBlob { mode, id }) => {
                    TreeChange::Put { mode: mode.clone().into_bytes(), id: id.to_id() }
                }
                None => TreeChange::Remove,
            };
            if !wanted.add(path, change) {
                return Err(HomeCopyError::Path { path: path.clone() });
            }
        }
        let (mut objects, mut fresh) = self.own_objects()?;
        let made = wanted.apply(&mut objects, &mut fresh, Some(tree.to_id()))?;
        self.keep_objects(&fresh)?;
        Ok(Oid::of(&made))
    }

    /// Returns the entries of a tree at some paths, in order.
    pub fn blobs_in(
        &self,
        tree: &Oid,
        paths: &[&Path],
    ) -> Result<Vec<Option<HomeBlob>>, HomeCopyError> {
        let (mut objects, _) = self.own_objects()?;
        let mut found = Vec::new();
        for path in paths {
            found.push(match find_entry(&mut objects, &tree.to_id(), path)? {
                Some(TreeChange::Put { mode, id }) => Some(HomeBlob {
                    mode: String::from_utf8_lossy(&mode).into_owned(),
                    id: Oid::of(&id),
                }),
                Some(TreeChange::Remove) | None => None,
            });
        }
        Ok(found)
    }

    /// Stores a content and returns its id.
    pub fn write_blob(&self, bytes: &[u8]) -> Result<Oid, GitError> {
        let (_, mut fresh) = self.own_objects()?;
        let id = fresh.add("blob", bytes).map_err(unwritable).map_err(HomeCopyError::into_git)?;
        self.keep_objects(&fresh).map_err(HomeCopyError::into_git)?;
        Ok(Oid::of(&id))
    }

    /// Returns the id that a content would have here.
    pub fn blob_id(&self, bytes: &[u8]) -> Result<Oid, HomeCopyError> {
        let (_, mut fresh) = self.own_objects()?;
        Ok(Oid::of(&fresh.add("blob", bytes).map_err(unwritable)?))
    }

    pub(super) fn own_objects(&self) -> Result<(Objects, NewObjects), GitError> {
        let kind = match OwnSettings::read(self.place()) {
            Ok(own) => own.layout.format.kind(),
            Err(_) => self.object_format()?.kind(),
        };
        let mut objects = Objects::open(self.place(), kind);
        objects.is_private = self.is_private;
        Ok((objects, NewObjects::new(kind)))
    }

    fn keep_objects(&self, fresh: &NewObjects) -> Result<(), HomeCopyError> {
        fresh.write(self.place().common_dir.join("objects").as_std_path()).map_err(unwritable)
    }

    /// Creates an unsigned commit with Ralph as its author.
    fn commit_tree(
        &self,
        tree: &Oid,
        parent: Option<&Oid>,
        message: &str,
    ) -> Result<Oid, GitError> {
        let mut args = vec!["commit-tree", "-F", "-"];
        if let Some(parent) = parent {
            args.extend(["-p", parent.as_str()]);
        }
        args.push(tree.as_str());
        let mut call = Call::new(&args).input(message.as_bytes());
        for (name, value) in [
            ("GIT_AUTHOR_NAME", "Ralph"),
            ("GIT_AUTHOR_EMAIL", "ralph@localhost"),
            ("GIT_COMMITTER_NAME", "Ralph"),
            ("GIT_COMMITTER_EMAIL", "ralph@localhost"),
        ] {
            call = call.env(name, value);
        }
        parse_id(&args, &self.call(call)?.stdout)
    }
}

#[cfg(test)]
#[path = "home_copy_tests.rs"]
mod tests;
