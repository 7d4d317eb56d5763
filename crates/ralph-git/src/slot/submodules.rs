//! The submodules of a slot, at their pinned commits, from the person's own clones of them.
//!
//! Objects are imported into the same mirror, hashed and checked like all others, so that one object store serves the
//! slot. A submodule that the person has not cloned, that lacks the commit, or that is a shallow clone stays empty and
//! is reported.

use std::path::{Component, Path, PathBuf};

use camino::{Utf8Path, Utf8PathBuf};

use super::super::call::Call;
use super::super::clearing::{is_real_dir, make_dirs, remove};
use super::super::item_refs::ItemKey;
use super::super::mirror::Mirror;
use super::super::parse::parse_settings;
use super::super::provision::Provision;
use super::super::{Git, GitError, Oid, RepositoryLocation, unexpected};
use super::files::{Others, WorkTree};
use super::git_dir::{GitDir, NewHead, write};
use super::person_side::PersonSide;
use super::{SlotError, Unfilled, lfs};

/// The repository whose submodules are filled, and their source.
pub(super) struct Filling<'a> {
    /// The person's clone of that repository.
    pub(super) person: &'a Git,
    pub(super) mirror: &'a Mirror,
    pub(super) git: &'a Git,
    pub(super) private: &'a Utf8Path,
}

impl Filling<'_> {
    /// Fills what a commit only references: submodules, and LFS files if wanted, from the person's store or one of
    /// these others.
    pub(super) fn fill_all(
        &self,
        commit: &Oid,
        needs: &Provision,
        with_lfs: bool,
        stores: &[&Utf8Path],
    ) -> Result<Unfilled, SlotError> {
        let mut unfilled = Unfilled::default();
        if !needs.submodules.is_empty() {
            unfilled.submodules = self.fill(commit, needs)?;
        }
        if needs.needs_lfs && with_lfs {
            let own: &Utf8Path = &self.person.place().common_dir;
            unfilled.lfs = lfs::fill(self.git, &[&[own], stores].concat())?;
        }
        Ok(unfilled)
    }

    /// Fills the submodules of a commit, recursively; returns those that stay empty.
    pub(super) fn fill(&self, commit: &Oid, needs: &Provision) -> Result<Vec<PathBuf>, SlotError> {
        let names = self.names(commit)?;
        let mut unfilled = Vec::new();
        for (path, pinned) in needs.submodules.iter().zip(&needs.pinned) {
            let name = names.iter().find(|(_, known)| Path::new(known) == path);
            let place = Utf8Path::from_path(path).zip(name);
            let filled = match place {
                Some((path, (name, _))) if is_safe_name(name) => {
                    self.fill_one(path, name, pinned)?
                }
                _ => None,
            };
            match filled {
                Some(below) => unfilled.extend(below.into_iter().map(|below| path.join(below))),
                None => unfilled.push(path.clone()),
            }
        }
        Ok(unfilled)
    }

    /// Returns the names and paths in a commit's `.gitmodules`.
    fn names(&self, commit: &Oid) -> Result<Vec<(String, String)>, GitError> {
        let blob = format!("--blob={commit}:.gitmodules");
        let args = ["config", &blob, "--list", "--null", "--show-scope"];
        let answer = self.mirror.git().call(Call::new(&args).accept(&[1, 128]))?;
        if answer.code != Some(0) {
            return Ok(Vec::new());
        }
        let settings =
            parse_settings(&answer.stdout).ok_or_else(|| unexpected(&args, &answer.stdout))?;
        let path_of =
            |key: &str| key.strip_prefix("submodule.")?.strip_suffix(".path").map(str::to_owned);
        let named = settings
            .into_iter()
            .filter_map(|setting| path_of(&setting.key).map(|name| (name, setting.value)));
        Ok(named.collect())
    }

    /// Fills one submodule; `None` if the person lacks what it needs.
    fn fill_one(
        &self,
        path: &Utf8Path,
        name: &str,
        pinned: &Oid,
    ) -> Result<Option<Vec<PathBuf>>, SlotError> {
        let Some(source) = self.source(path, name, pinned) else { return Ok(None) };
        let root = self.git.place().worktree.as_deref().unwrap_or(Utf8Path::new(""));
        if !is_real_dir(root, path) {
            // Excluded by a sparse checkout.
            return Ok(None);
        }
        self.mirror.take_commit(&source, pinned)?;
        let (worktree, git_dir) =
            (root.join(path), self.git.place().git_dir.join("modules").join(name));
        remove(worktree.join(".git"))?;
        remove(&git_dir)?;
        make_dirs(&git_dir)?;
        let person = PersonSide::read(&source)?;
        let mut config = person.config(None);
        config.set("core.worktree", worktree.as_str());
        let made = GitDir {
            path: git_dir.clone(),
            format: self.mirror.object_format(),
            objects: self.mirror.objects_dir(),
            shallow: None,
            head: NewHead::Detached(pinned),
            refs: Vec::new(),
            symbolic: Vec::new(),
            config,
            exclude: person.exclude(),
            attributes: person.attributes(),
            sparse: person.sparse(),
            hooks: person.hooks(),
        };
        made.write()?;
        write(worktree.join(".git").as_std_path(), format!("gitdir: {git_dir}\n").as_bytes())?;
        let place = RepositoryLocation {
            git_dir: git_dir.clone(),
            common_dir: git_dir,
            worktree: Some(worktree),
        };
        let git = Git::at(self.git.program().clone(), place);
        let private = self.private.join("modules").join(ItemKey::new(name).as_str());
        make_dirs(&private)?;
        let index = private.join("index");
        let kind = self.mirror.object_format().kind();
        WorkTree { git: &git, index, caches: &[], last: None, kind }
            .check_out(pinned, Others::Removed)?;
        let needs = Provision::of(self.mirror.git(), pinned)?;
        let below = Filling { person: &source, mirror: self.mirror, git: &git, private: &private };
        below.fill(pinned, &needs).map(Some)
    }

    /// Finds the person's clone of a submodule that has the pinned commit with all its history.
    fn source(&self, path: &Utf8Path, name: &str, pinned: &Oid) -> Option<Git> {
        let RepositoryLocation { git_dir, common_dir, worktree } = self.person.place();
        let absorbed = [git_dir, common_dir].map(|dir| dir.join("modules").join(name));
        let embedded = worktree.as_ref().map(|root| root.join(path).join(".git"));
        let found = absorbed.into_iter().chain(embedded).find(|dir| dir.join("HEAD").is_file())?;
        let git_dir: Utf8PathBuf = found.canonicalize_utf8().ok()?;
        let place =
            RepositoryLocation { git_dir: git_dir.clone(), common_dir: git_dir, worktree: None };
        let source = Git::at(self.person.program().clone(), place);
        let has_it = source.have(std::slice::from_ref(pinned)).is_ok_and(|found| found == [true]);
        (has_it && !source.is_shallow()).then_some(source)
    }
}

/// Whether a submodule's name is a directory below that of all submodules.
fn is_safe_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    !name.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}
