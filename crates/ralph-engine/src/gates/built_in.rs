//! Built-in gates: the loop's own checks, run on the files of a commit as the mirror has them.
//!
//! No program is started and no checkout is made. They are not compared with the base: a task that was to add what is
//! missing has not done so because it was missing before. Passing one proves nothing about the work.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ralph_model::gate::{Attribution, BuiltIn, GateRun, GateStatus, Obstacle};
use ralph_model::run::ProcessExit;
use ralph_outline::checks::{self, CheckInput};
use ralph_outline::outline::Outline;
use ralph_outline::rules::LoopRules;
use ralph_outline::tree::SourceTree;

use super::assess::Points;
use super::runner::{Job, keep_text};
use super::{GateContext, GateError, GateRepository};
use crate::git::{ChangeKind, Git, GitError, Oid, PathChange};

/// The largest file that is read, and how many are.
const LARGEST: usize = 256 << 10;
const MOST_FILES: usize = 5000;

/// The extensions of the files whose text is read; of others only the names are known.
const READ: [&str; 8] = ["tsx", "jsx", "ts", "js", "css", "json", "md", "html"];

/// The input of built-in gates in addition to the commit.
#[derive(Clone, Copy)]
pub struct BuiltInContext<'a> {
    pub rules: &'a LoopRules,
    /// What the validated plan promises, if there is one.
    pub outline: Option<&'a Outline>,
    pub summary: Option<&'a str>,
    /// The work in all repositories of the workspace, as a plan names paths from there; else that of the one judged.
    pub(crate) files: Option<&'a CandidateFiles>,
}

impl<'a> BuiltInContext<'a> {
    pub const fn new(
        rules: &'a LoopRules,
        outline: Option<&'a Outline>,
        summary: Option<&'a str>,
    ) -> BuiltInContext<'a> {
        BuiltInContext { rules, outline, summary, files: None }
    }
}

/// The regular files of a commit in every repository, named from the workspace.
#[derive(Default)]
pub(crate) struct CommitTree {
    paths: Vec<String>,
    texts: BTreeMap<String, String>,
}

impl CommitTree {
    /// Adds the files of a commit of a repository.
    pub(crate) fn add(
        &mut self,
        repository: &GateRepository,
        commit: &Oid,
    ) -> Result<(), GitError> {
        let git = repository.mirror.git();
        let mut paths = Vec::new();
        for entry in git.tree(commit)?.iter().filter(|entry| entry.is_file()) {
            let Some(path) = entry.path.to_str() else { continue };
            paths.extend(repository.in_workspace(path).map(|named| (named, path.to_owned())));
        }
        paths.sort();
        self.texts.append(&mut texts(git, commit, &paths)?);
        self.paths.extend(paths.into_iter().map(|(named, _)| named));
        self.paths.sort();
        Ok(())
    }
}

impl SourceTree for CommitTree {
    fn paths(&self) -> &[String] {
        &self.paths
    }

    fn read(&self, path: &str) -> Option<String> {
        self.paths.binary_search_by(|known| known.as_str().cmp(path)).ok()?;
        Some(self.texts.get(path).cloned().unwrap_or_default())
    }
}

fn texts(
    git: &Git,
    commit: &Oid,
    paths: &[(String, String)],
) -> Result<BTreeMap<String, String>, GitError> {
    let is_read = |(inside, _): &&(String, String)| {
        Path::new(inside).extension().is_some_and(|found| READ.iter().any(|known| found == *known))
    };
    let wanted: Vec<&(String, String)> = paths.iter().filter(is_read).take(MOST_FILES).collect();
    let asked: Vec<(&Oid, &Path)> =
        wanted.iter().map(|(_, path)| (commit, Path::new(path))).collect();
    let found = git.files_at(&asked, LARGEST)?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let texts = wanted.iter().zip(found);
    Ok(texts.filter_map(|((inside, _), bytes)| Some((inside.clone(), text(bytes?)))).collect())
}

/// A candidate and where its work began, as built-in gates see them: in all repositories of the workspace.
#[derive(Default)]
pub(crate) struct CandidateFiles {
    candidate: CommitTree,
    base: Option<CommitTree>,
    changed: Vec<String>,
    added: Vec<String>,
    /// The changed paths that hold no work: they differ in white space alone, or are new and blank.
    idle: Vec<String>,
}

impl CandidateFiles {
    /// Adds a repository. Where it has no candidate nothing was changed in it.
    pub(crate) fn add(
        &mut self,
        repository: &GateRepository,
        candidate: Option<&Oid>,
        base: Option<&Oid>,
    ) -> Result<(), GitError> {
        let git = repository.mirror.git();
        if let Some(base) = base {
            self.base.get_or_insert_default().add(repository, base)?;
        }
        let Some(candidate) = candidate else {
            return base.map_or(Ok(()), |base| self.candidate.add(repository, base));
        };
        self.candidate.add(repository, candidate)?;
        let Some(base) = base else {
            // All of it is new.
            for entry in git.tree(candidate)?.iter().filter(|entry| entry.is_file()) {
                let path = entry.path.to_str().and_then(|path| repository.in_workspace(path));
                self.changed.extend(path.clone());
                self.added.extend(path);
            }
            return Ok(());
        };
        let changes = git.changes(base, candidate)?;
        let idle = idle(git, (base, candidate), &changes)?;
        self.idle.extend(idle.into_iter().filter_map(|path| repository.in_workspace(path)));
        for change in &changes {
            let path = change.path.to_str().and_then(|path| repository.in_workspace(path));
            self.changed.extend(path.clone());
            self.added.extend(path.filter(|_| change.kind == ChangeKind::Added));
        }
        Ok(())
    }

    pub(crate) fn input<'a>(&'a self, beside: &BuiltInContext<'a>) -> CheckInput<'a> {
        CheckInput {
            rules: beside.rules,
            tree: &self.candidate,
            before: self.base.as_ref().map(|base| base as &dyn SourceTree),
            changed: &self.changed,
            added: &self.added,
            idle: &self.idle,
            outline: beside.outline,
            summary: beside.summary,
        }
    }
}

/// Returns the changed files that hold no work: the same but for white space, or new and blank. A file that is too large
/// to be read is not among them.
fn idle<'c>(
    git: &Git,
    (base, candidate): (&Oid, &Oid),
    changes: &'c [PathChange],
) -> Result<Vec<&'c str>, GitError> {
    const EMPTY: [&str; 2] = [
        "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
        "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
    ];
    let kept = |change: &&PathChange| {
        matches!(change.kind, ChangeKind::Added | ChangeKind::Modified) && change.id.is_some()
    };
    let files: Vec<&PathChange> = changes.iter().filter(kept).take(MOST_FILES).collect();
    let at = |commit| files.iter().map(move |change| (commit, change.path.as_path()));
    let asked: Vec<(&Oid, &Path)> = at(base).chain(at(candidate)).collect();
    let mut before = git.files_at(&asked, LARGEST)?;
    let after = before.split_off(files.len());
    let words = |bytes: &[u8]| -> Vec<u8> {
        bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect()
    };
    let is_idle = |change: &PathChange, before: Option<Vec<u8>>, after: Vec<u8>| {
        let is_empty = change.id.as_ref().is_some_and(|id| EMPTY.contains(&id.as_str()));
        let is_known = is_empty || !after.is_empty();
        let was = before.unwrap_or_default();
        // A mode alone is a change: a script became executable.
        is_known && words(&was) == words(&after) && was != after || is_empty && was.is_empty()
    };
    let compared = files.into_iter().zip(before.into_iter().zip(after));
    let idle = compared.filter_map(|(change, (before, after))| {
        is_idle(change, before, after?).then(|| change.path.to_str()).flatten()
    });
    Ok(idle.collect())
}

/// Runs a built-in gate, and keeps what it says as its output.
pub(super) fn run(
    context: &GateContext<'_>,
    repository: &GateRepository,
    check: BuiltIn,
    points: &Points<'_>,
) -> Result<(GateRun, Attribution), GateError> {
    let job = Job {
        traced: false,
        caches: context.state.directory(),
        argv: &[],
        cwd: &repository.directory,
        tree: &repository.directory,
        timeout: Duration::ZERO,
        net: false,
        unix: false,
        commit: points.candidate.as_str(),
        name: check.name(),
    };
    let finish = |status, attribution, text: &str| {
        let output = keep_text(context, &job, text)?;
        Ok((
            GateRun {
                status,
                tests: None,
                names: None,
                rewrote: Vec::new(),
                duration: Duration::ZERO,
                output,
            },
            attribution,
        ))
    };
    let Some(beside) = &context.built_in else {
        let message = format!("`{}` is a gate of `ralph loop`", check.name());
        let obstacle = Obstacle::Setup { message: message.clone() };
        let status = GateStatus::CouldNotRun { obstacle: obstacle.clone() };
        return finish(status, Attribution::CouldNotRun { obstacle }, &message);
    };
    let mut own = CandidateFiles::default();
    let files = if let Some(files) = beside.files {
        files
    } else {
        own.add(repository, Some(points.candidate), points.base)?;
        &own
    };
    let found = checks::run(check, &files.input(beside));
    if found.passed {
        finish(GateStatus::Passed, Attribution::ProvedNothing, &found.text)
    } else {
        let exit = ProcessExit::Code(1);
        finish(GateStatus::Failed { exit }, Attribution::Failed, &found.text)
    }
}
