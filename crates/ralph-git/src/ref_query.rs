//! Answers about refs and `HEAD`, without a git process where a repository keeps its refs as files.
//!
//! A workflow asks for them hundreds of times per item, and starting git costs more than reading the files. Loose refs
//! are read before `packed-refs`, as git does: a ref that is packed meanwhile is found in one of them. Anything unusual
//! (a reftable, a link, a dangling symbolic ref, a name that git would not create) is left to the git binary.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::call::Call;
use super::names::{ref_bytes, ref_name};
use super::parse::{Ref, Worktree, parse_refs};
use super::refs::{RefFiles, is_lock, is_plain_name};
use super::settings::{OwnSettings, Unfit};
use super::{Git, GitError, Head, ObjectFormat, Oid, RepositoryLocation, regular_file, unexpected};

const ODD: Unfit = Unfit("one of its refs is odd");
/// Refs that each worktree has for itself.
const OF_WORKTREE: [&str; 3] = ["refs/bisect", "refs/rewritten", "refs/worktree"];

impl Git {
    /// Returns what `HEAD` is.
    pub fn head(&self) -> Result<Head, GitError> {
        self.place().check()?;
        RefFiles::of(self.place()).head().or_else(|_| self.head_by_git())
    }

    pub(super) fn head_by_git(&self) -> Result<Head, GitError> {
        let symbolic = ["symbolic-ref", "--quiet", "HEAD"];
        let name = self.ask_whether(&symbolic)?.map(|output| ref_name(output.trim_ascii()));
        let verify = ["rev-parse", "--verify", "--quiet", "HEAD"];
        let id = self.ask_whether(&verify)?.and_then(|output| Oid::parse(output.trim_ascii()));
        match (name, id) {
            (Some(name), Some(id)) => Ok(Head::Branch { name, id }),
            (Some(name), None) => Ok(Head::Unborn { name }),
            (None, Some(id)) => Ok(Head::Detached { id }),
            (None, None) => Err(unexpected(&verify, b"no HEAD")),
        }
    }

    /// Returns the object format of this repository.
    pub(crate) fn object_format(&self) -> Result<ObjectFormat, GitError> {
        self.place().check()?;
        if let Ok(own) = OwnSettings::read(self.place()) {
            return Ok(own.layout.format);
        }
        let args = ["rev-parse", "--show-object-format"];
        let output = self.ask(&args)?;
        match output.trim_ascii() {
            b"sha1" => Ok(ObjectFormat::Sha1),
            b"sha256" => Ok(ObjectFormat::Sha256),
            _ => Err(unexpected(&args, &output)),
        }
    }

    /// Returns the refs with these names, or below them, sorted by name; all refs for no names.
    pub(crate) fn refs_at(&self, names: &[&str]) -> Result<Vec<Ref>, GitError> {
        self.place().check()?;
        match refs_in_files(self.place(), names) {
            Ok(refs) => Ok(refs),
            Err(_) => self.refs_by_git(names),
        }
    }

    fn refs_by_git(&self, names: &[&str]) -> Result<Vec<Ref>, GitError> {
        let bytes: Vec<_> = names.iter().map(|name| ref_bytes(name)).collect();
        let patterns: Vec<PathBuf> =
            bytes.iter().map(|name| super::call::path_from(name)).collect();
        let args = ["for-each-ref", "--format=%(objectname) %(refname)"];
        let call = patterns.iter().fold(Call::new(&args), |call, name| call.name(name.as_os_str()));
        let output = self.call(call)?.stdout;
        parse_refs(&output).ok_or_else(|| unexpected(&args, &output))
    }

    /// Returns the only worktree of the repository; `None` if there are others, or if git has to be asked.
    pub(super) fn sole_worktree(&self) -> Option<Worktree> {
        let place = self.place();
        let path = place.worktree.as_ref()?;
        let is_main = place.git_dir == place.common_dir && place.git_dir == path.join(".git");
        let others = fs::symlink_metadata(place.common_dir.join("worktrees"));
        if !is_main || !others.is_err_and(|error| regular_file::is_absence(&error)) {
            return None;
        }
        let head = RefFiles::of(place).head().ok()?;
        let branch = match &head {
            Head::Branch { name, .. } | Head::Unborn { name } => Some(name.clone()),
            Head::Detached { .. } => None,
        };
        let head = head.id().cloned();
        Some(Worktree { path: path.into(), head, branch, ..Worktree::default() })
    }
}

fn refs_in_files(place: &RepositoryLocation, names: &[&str]) -> Result<Vec<Ref>, Unfit> {
    if !OwnSettings::read(place)?.layout.refs_are_files {
        return Err(Unfit("its refs are in a table"));
    }
    let names: Vec<&str> = names.iter().map(|name| name.trim_end_matches('/')).collect();
    if !names.iter().all(|name| is_plain_name(name) && name.starts_with("refs/")) {
        return Err(ODD);
    }
    let of_worktree = |name: &&str| OF_WORKTREE.iter().any(|own| is_at(name, own));
    if place.git_dir != place.common_dir && (names.is_empty() || names.iter().any(of_worktree)) {
        return Err(Unfit("its refs are in two places"));
    }
    let files = RefFiles::of(place);
    let mut found = BTreeMap::new();
    for name in if names.is_empty() { &["refs"][..] } else { &names } {
        read_loose(&files, place, name, &mut found)?;
    }
    if let Some(packed) = files.packed_refs()? {
        for line in packed.split(|byte| *byte == b'\n') {
            // A comment, or the target of the tag before it.
            if line.is_empty() || line.starts_with(b"#") || line.starts_with(b"^") {
                continue;
            }
            let (id, name) = line
                .split_at_checked(line.iter().position(|b| *b == b' ').ok_or(ODD)?)
                .ok_or(ODD)?;
            let name = std::str::from_utf8(&name[1..]).map_err(|_| ODD)?;
            if !names.is_empty() && !names.iter().any(|wanted| is_at(name, wanted)) {
                continue;
            }
            if !is_plain_name(name) {
                return Err(ODD);
            }
            let id = Oid::parse(id).ok_or(ODD)?;
            found.entry(name.to_owned()).or_insert(id);
        }
    }
    Ok(found.into_iter().map(|(name, id)| Ref { name: ref_name(name.as_bytes()), id }).collect())
}

/// Whether a ref is the named one, or below it.
fn is_at(name: &str, above: &str) -> bool {
    name.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Reads a loose ref, or all below a directory of them.
fn read_loose(
    files: &RefFiles<'_>,
    place: &RepositoryLocation,
    name: &str,
    found: &mut BTreeMap<String, Oid>,
) -> Result<(), Unfit> {
    let mut open = vec![name.to_owned()];
    while let Some(name) = open.pop() {
        let path = place.common_dir.join(&name);
        let kind = match fs::symlink_metadata(&path) {
            Ok(metadata) => metadata.file_type(),
            Err(error) if regular_file::is_absence(&error) => continue,
            Err(_) => return Err(ODD),
        };
        if kind.is_file() {
            if let Some(id) = files.read_following(&name)? {
                found.insert(name, id);
            }
            continue;
        }
        if !kind.is_dir() {
            return Err(ODD);
        }
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if regular_file::is_absence(&error) => continue,
            Err(_) => return Err(ODD),
        };
        for entry in entries {
            let entry = entry.map_err(|_| ODD)?.file_name();
            let entry = entry.to_str().ok_or(ODD)?;
            // Git passes over these.
            if entry.starts_with('.') || is_lock(entry) {
                continue;
            }
            let below = format!("{name}/{entry}");
            if !is_plain_name(&below) {
                return Err(ODD);
            }
            open.push(below);
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "ref_query_tests.rs"]
mod tests;
