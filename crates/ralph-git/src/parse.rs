//! Parsers of git's output.
//!
//! Pure. File names are bytes in git and are parsed as such; every requested format ends its fields with NUL. `None`
//! means that the text does not have the requested format.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::call::path_from;
use super::names::{path_record, ref_name};
use super::oid::Oid;

/// A ref and what it points at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ref {
    pub name: String,
    pub id: Oid,
}

/// What `HEAD` is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Head {
    Branch {
        name: String,
        id: Oid,
    },
    Detached {
        id: Oid,
    },
    /// A branch that has no commit yet.
    Unborn {
        name: String,
    },
}

impl Head {
    /// Returns the commit, if there is one.
    pub fn id(&self) -> Option<&Oid> {
        match self {
            Head::Branch { id, .. } | Head::Detached { id } => Some(id),
            Head::Unborn { .. } => None,
        }
    }

    /// Returns the name of the branch without `refs/heads/`; `None` if `HEAD` is detached.
    pub fn branch(&self) -> Option<&str> {
        match self {
            Head::Branch { name, .. } | Head::Unborn { name } => {
                Some(name.strip_prefix("refs/heads/").unwrap_or(name))
            }
            Head::Detached { .. } => None,
        }
    }
}

/// How one path differs between two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathChange {
    pub kind: ChangeKind,
    pub path: PathBuf,
    /// The modes before and after, as octal text; `000000` if absent.
    pub modes: (String, String),
    /// The new object; `None` if removed.
    pub id: Option<Oid>,
}

/// What happened to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    Added,
    Deleted,
    Modified,
    /// A file became a symlink or the like.
    TypeChanged,
    Renamed {
        from: PathBuf,
    },
    Copied {
        from: PathBuf,
    },
    Unmerged,
}

/// One path that differs from `HEAD`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusEntry {
    #[serde(with = "path_record")]
    pub path: PathBuf,
    pub state: PathState,
}

/// How a path differs in the index (first letter) and in the working tree (second letter).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathState {
    Tracked {
        index: char,
        worktree: char,
    },
    Renamed {
        index: char,
        worktree: char,
        #[serde(with = "path_record")]
        from: PathBuf,
    },
    Unmerged,
    Untracked,
    Ignored,
}

/// One entry of a tree, listed with its whole path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    pub(crate) mode: String,
    pub id: Oid,
    pub path: PathBuf,
}

impl TreeEntry {
    pub fn is_link(&self) -> bool {
        self.mode == "120000"
    }

    /// Whether it is a regular file, rather than a symlink or a nested repository.
    pub fn is_file(&self) -> bool {
        self.mode.starts_with("100")
    }
}

/// A setting, with the scope that it comes from (`local`, `global`, …).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GitSetting {
    pub(crate) scope: String,
    pub(crate) key: String,
    pub(crate) value: String,
}

/// The header of a requested object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectHeader {
    pub(crate) id: Oid,
    pub(crate) kind: String,
    pub(crate) size: usize,
}

/// An object with its content.
pub(super) type Object = (ObjectHeader, Vec<u8>);

/// A commit's tree and parents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitHeader {
    pub id: Oid,
    pub tree: Oid,
    pub parents: Vec<Oid>,
}

fn text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

/// Splits at NUL; the text after the last one must be empty.
fn fields(bytes: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let body = match bytes {
        [] => &[][..],
        [body @ .., 0] => body,
        _ => return None,
    };
    Some(body.split(|byte| *byte == 0).take(if bytes.is_empty() { 0 } else { usize::MAX }))
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// Reads lines that are object ids.
pub(super) fn parse_ids(bytes: &[u8]) -> Option<Vec<Oid>> {
    lines(bytes).map(Oid::parse).collect()
}

/// Reads `for-each-ref --format='%(objectname) %(refname)'`.
pub(super) fn parse_refs(bytes: &[u8]) -> Option<Vec<Ref>> {
    lines(bytes)
        .map(|line| {
            let space = line.iter().position(|byte| *byte == b' ')?;
            Some(Ref { id: Oid::parse(&line[..space])?, name: ref_name(&line[space + 1..]) })
        })
        .collect()
}

/// One worktree of a repository, as git lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Worktree {
    pub path: PathBuf,
    pub head: Option<Oid>,
    /// The branch that `HEAD` names, in full.
    pub branch: Option<String>,
    /// Locked against removal, such as one on a removable disk.
    pub(crate) is_locked: bool,
}

/// Reads `worktree list --porcelain -z`.
pub(super) fn parse_worktrees(bytes: &[u8]) -> Option<Vec<Worktree>> {
    let mut worktrees: Vec<Worktree> = Vec::new();
    for field in fields(bytes)? {
        if let Some(path) = field.strip_prefix(b"worktree ") {
            worktrees.push(Worktree { path: path_from(path), ..Worktree::default() });
            continue;
        }
        if field.is_empty() {
            continue;
        }
        let worktree = worktrees.last_mut()?;
        if let Some(id) = field.strip_prefix(b"HEAD ") {
            worktree.head = Oid::parse(id);
        } else if let Some(name) = field.strip_prefix(b"branch ") {
            worktree.branch = Some(ref_name(name));
        } else if field == b"locked" || field.starts_with(b"locked ") {
            worktree.is_locked = true;
        }
    }
    Some(worktrees)
}

/// Reads `diff-tree`/`diff-index` with `--raw -z`.
pub(super) fn parse_raw_diff(bytes: &[u8]) -> Option<Vec<PathChange>> {
    let mut fields = fields(bytes)?;
    let mut changes = Vec::new();
    while let Some(head) = fields.next() {
        let head = text(head)?;
        let mut parts = head.strip_prefix(':')?.split(' ');
        let modes = (parts.next()?.to_owned(), parts.next()?.to_owned());
        let (_, after, letter) = (parts.next()?, parts.next()?, parts.next()?);
        let path = path_from(fields.next()?);
        let (kind, path) = match letter.as_bytes().first()? {
            b'A' => (ChangeKind::Added, path),
            b'D' => (ChangeKind::Deleted, path),
            b'M' => (ChangeKind::Modified, path),
            b'T' => (ChangeKind::TypeChanged, path),
            b'U' => (ChangeKind::Unmerged, path),
            b'R' => (ChangeKind::Renamed { from: path }, path_from(fields.next()?)),
            b'C' => (ChangeKind::Copied { from: path }, path_from(fields.next()?)),
            _ => return None,
        };
        changes.push(PathChange { kind, path, modes, id: Oid::parse(after.as_bytes()) });
    }
    Some(changes)
}

/// Reads `status --porcelain=v2 -z`.
pub(super) fn parse_status(bytes: &[u8]) -> Option<Vec<StatusEntry>> {
    let mut fields = fields(bytes)?;
    let mut entries = Vec::new();
    while let Some(field) = fields.next() {
        let (&kind, rest) = field.split_first()?;
        if kind == b'#' {
            continue;
        }
        let rest = rest.strip_prefix(b" ")?;
        let (skipped, state) = match kind {
            b'?' => (0, PathState::Untracked),
            b'!' => (0, PathState::Ignored),
            b'u' => (9, PathState::Unmerged),
            b'1' | b'2' => {
                let [index, worktree, ..] = rest else { return None };
                let (index, worktree) = (char::from(*index), char::from(*worktree));
                match kind {
                    b'1' => (7, PathState::Tracked { index, worktree }),
                    _ => {
                        (8, PathState::Renamed { index, worktree, from: path_from(fields.next()?) })
                    }
                }
            }
            _ => return None,
        };
        let path = rest.splitn(skipped + 1, |byte| *byte == b' ').nth(skipped)?;
        entries.push(StatusEntry { path: path_from(path), state });
    }
    Some(entries)
}

/// Reads `ls-tree -r -z`.
pub(super) fn parse_tree(bytes: &[u8]) -> Option<Vec<TreeEntry>> {
    fields(bytes)?
        .map(|field| {
            let tab = field.iter().position(|byte| *byte == b'\t')?;
            let mut parts = field[..tab].split(|byte| *byte == b' ');
            let (mode, _, id) = (parts.next()?, parts.next()?, parts.next()?);
            let path = path_from(&field[tab + 1..]);
            Some(TreeEntry { mode: text(mode)?, id: Oid::parse(id)?, path })
        })
        .collect()
}

/// Reads `config --list --null --show-scope`.
pub(super) fn parse_settings(bytes: &[u8]) -> Option<Vec<GitSetting>> {
    let mut fields = fields(bytes)?;
    let mut settings = Vec::new();
    while let Some(scope) = fields.next() {
        let field = fields.next()?;
        let end = field.iter().position(|byte| *byte == b'\n').unwrap_or(field.len());
        let value = field.get(end + 1..).unwrap_or_default();
        // A key that is not UTF-8 stays recognisable: it contains the replacement character.
        settings.push(GitSetting {
            scope: text(scope)?,
            key: String::from_utf8_lossy(&field[..end]).into_owned(),
            value: String::from_utf8_lossy(value).into_owned(),
        });
    }
    Some(settings)
}

/// Reads `cat-file --batch-check`, one answer per question; `None` inside for what is missing or ambiguous.
pub(super) fn parse_batch_check(bytes: &[u8]) -> Option<Vec<Option<ObjectHeader>>> {
    lines(bytes)
        .map(|line| {
            if [&b" missing"[..], b" ambiguous", b" submodule"]
                .iter()
                .any(|end| line.ends_with(end))
            {
                return Some(None);
            }
            parse_object_header(line).map(Some)
        })
        .collect()
}

fn parse_object_header(line: &[u8]) -> Option<ObjectHeader> {
    let mut parts = line.split(|byte| *byte == b' ');
    let (id, kind, size) = (parts.next()?, parts.next()?, parts.next()?);
    Some(ObjectHeader { id: Oid::parse(id)?, kind: text(kind)?, size: text(size)?.parse().ok()? })
}

/// Reads `cat-file --batch`, one answer per question; `None` inside for what is missing.
pub(super) fn parse_batch(mut bytes: &[u8]) -> Option<Vec<Option<Object>>> {
    let mut objects = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let line = &bytes[..end];
        bytes = &bytes[end + 1..];
        if line.ends_with(b" missing") || line.ends_with(b" ambiguous") {
            objects.push(None);
            continue;
        }
        let header = parse_object_header(line)?;
        let content = bytes.get(..header.size)?.to_vec();
        bytes = bytes.get(header.size..)?.strip_prefix(b"\n")?;
        objects.push(Some((header, content)));
    }
    Some(objects)
}

/// Reads the head of a commit object.
pub(super) fn parse_commit(id: Oid, content: &[u8]) -> Option<CommitHeader> {
    let mut lines = content.split(|byte| *byte == b'\n');
    let tree = Oid::parse(lines.next()?.strip_prefix(b"tree ")?)?;
    let parents = lines.map_while(|line| line.strip_prefix(b"parent ")).map(Oid::parse);
    Some(CommitHeader { id, tree, parents: parents.collect::<Option<_>>()? })
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
