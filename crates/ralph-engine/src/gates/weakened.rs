//! What a change does to the checks it is going to be judged by, read from the mirror.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use ralph_model::gate::GateSpec;
use ralph_model::glob::Glob;
use ralph_model::weaken::{
    ChangedFile, FileVersion, Weakening, changed_gate_files, gate_files, weakenings,
};

use super::GateRepository;
use crate::files::read_optional;
use crate::git::{ChangeKind, GitError, Oid, PathChange};
use crate::home::CONFIG_FILE;

/// No file that people write tests in is larger. A protected file that grows beyond it counts as emptied.
const LIMIT: usize = 8 << 20;

/// Returns how the change between two commits weakens what it is judged by, these gates included, but for what is
/// allowed.
pub fn weakened(
    repository: &GateRepository,
    base: &Oid,
    candidate: &Oid,
    gates: &[GateSpec],
    allowed: &[Glob],
) -> Result<Vec<Weakening>, GitError> {
    let git = repository.mirror.git();
    let changes = git.changes(base, candidate)?;
    let before: Vec<Option<PathBuf>> = changes.iter().map(path_before).collect();
    let after: Vec<Option<PathBuf>> = changes.iter().map(path_after).collect();
    let texts = |commit, paths: &[Option<PathBuf>]| -> Result<Vec<Option<String>>, GitError> {
        let wanted: Vec<(&Oid, &Path)> =
            paths.iter().flatten().map(|path| (commit, path.as_path())).collect();
        let mut contents = git.files_at(&wanted, LIMIT)?.into_iter();
        let text = |content: Vec<u8>| match String::from_utf8_lossy(&content) {
            Cow::Borrowed(_) => String::from_utf8(content).unwrap_or_default(),
            Cow::Owned(text) => text,
        };
        Ok(paths
            .iter()
            .map(|path| path.as_ref().and_then(|_| contents.next().flatten()).map(text))
            .collect())
    };
    let (texts_before, texts_after) = (texts(base, &before)?, texts(candidate, &after)?);
    let names = |paths: &[Option<PathBuf>]| -> Vec<String> {
        let name = |path: &Option<PathBuf>| {
            path.as_deref().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()
        };
        paths.iter().map(name).collect()
    };
    let (names_before, names_after) = (names(&before), names(&after));
    let settings = persons_settings(repository);
    let is_persons = |at: &usize| {
        settings.as_ref().is_some_and(|(path, text)| {
            names_after[*at] == *path && texts_after[*at].as_ref() == Some(text)
        })
    };
    let files: Vec<ChangedFile<'_>> = (0..changes.len())
        .filter(|at| !is_persons(at))
        .map(|at| ChangedFile {
            base: texts_before[at]
                .as_deref()
                .map(|text| FileVersion { path: &names_before[at], text }),
            candidate: texts_after[at]
                .as_deref()
                .map(|text| FileVersion { path: &names_after[at], text }),
        })
        .collect();
    let allowed: Vec<Glob> = allowed.iter().map(|glob| from_root(repository, glob)).collect();
    let own: Vec<String> =
        gate_files(gates).iter().map(|file| repository.prefix.join(file).into_string()).collect();
    let mut found = weakenings(&files, &allowed);
    found.extend(changed_gate_files(&files, &own, &allowed));
    Ok(found)
}

/// Returns the path and the text of the configuration in the work tree.
///
/// It is the person's: whatever a run did to it has been put back. A candidate that has the same text changes nothing
/// about the gates, whoever committed it.
fn persons_settings(repository: &GateRepository) -> Option<(String, String)> {
    let path = repository.prefix.join(CONFIG_FILE);
    let file = repository.git.place().worktree.as_ref()?.join(&path);
    let text = String::from_utf8(read_optional(&file).ok()??).ok()?;
    Some((path.into_string(), text))
}

fn path_before(change: &PathChange) -> Option<PathBuf> {
    match &change.kind {
        ChangeKind::Added | ChangeKind::Copied { .. } => None,
        ChangeKind::Renamed { from } => Some(from.clone()),
        _ => Some(change.path.clone()),
    }
}

fn path_after(change: &PathChange) -> Option<PathBuf> {
    (change.kind != ChangeKind::Deleted).then(|| change.path.clone())
}

/// Patterns are written for the workspace, and paths are named from the root of its repository.
fn from_root(repository: &GateRepository, glob: &Glob) -> Glob {
    let (prefix, text) = (&repository.prefix, glob.to_string());
    let anchored = text.trim_end_matches('/').contains('/');
    if prefix.as_str().is_empty() || !anchored {
        return glob.clone();
    }
    let text = text.trim_start_matches("./").trim_start_matches('/');
    Glob::new(format!("{prefix}/{text}"))
}
