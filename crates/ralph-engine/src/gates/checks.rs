//! The tree of the second run: a candidate with the anchor's checks laid over it, made in the mirror.
//!
//! What the files are is read from the anchor (which scripts gates run, which packages only tests use), never from the
//! candidate; which class leads to what is `ralph_model::checks`' to say.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use camino::Utf8Path;
use ralph_model::checks::{
    ChangedCheck, CheckChange, CheckClass, ComparedPath, Laid, LeftPaths, LookedFor, ProjectLayout,
    Trials, changes_examples, hints_in, import_roots_in, lay_over, mentioned, module_key, named_by,
    scripts_of, wants_text,
};
use ralph_model::gate::GateSpec;
use ralph_model::glob::Glob;
use ralph_model::weaken::{ChangedFile, FileVersion, signs_of_weakening};

use super::GateRepository;
use super::pin::PinnedGates;
use crate::git::anchor::in_order;
use crate::git::evidence::is_own;
use crate::git::home_copy::{HomeBlob, HomeChange};
use crate::git::{Git, GitError, Oid, shown};

/// No file that people write tests in is larger. A larger one is restored, and not looked into.
pub(super) const LIMIT: usize = 4 << 20;
/// How many new files are looked into for hints.
const MOST_FILES: usize = 500;
/// How deep scripts that run scripts are followed, and how many are read.
const DEPTH: usize = 4;
pub(super) const MOST_SCRIPTS: usize = 200;
const MOST_HINTS: usize = 40;

/// Recipes at the root of a workspace, whose texts name what they run.
const RECIPES: [&str; 11] = [
    "Makefile",
    "GNUmakefile",
    "makefile",
    "justfile",
    "Justfile",
    ".justfile",
    "package.json",
    "tox.ini",
    "noxfile.py",
    "Taskfile.yml",
    "Rakefile",
];

/// Settings that say from where Python imports modules.
const PYTHON_SETTINGS: [&str; 8] = [
    "pyproject.toml",
    "pytest.ini",
    "setup.cfg",
    ".env",
    ".envrc",
    "conftest.py",
    "tests/conftest.py",
    "tests/__init__.py",
];

/// Programs that run what a file of CI says.
const RUNS_CI: [(&str, &str); 3] = [
    ("pre-commit", ".pre-commit-config.yaml"),
    ("prek", ".pre-commit-config.yaml"),
    ("lefthook", "lefthook.yml"),
];

/// What checks are compared with.
#[derive(Clone, Copy, Debug)]
pub struct ChecksRequest<'a> {
    /// The branch whose anchor counts; without one it is the base.
    pub branch: Option<&'a str>,
    /// What is Ralph's own in the repository.
    pub own: &'a [PathBuf],
    /// Checks that may be changed, by patterns for the workspace.
    pub allow: &'a [Glob],
}

/// A commit at which a gate runs once more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trial {
    pub(super) commit: Oid,
    /// Files that differ from the anchor's and are the candidate's in it, although they may be checks.
    pub(super) kept: Vec<String>,
}

/// A commit with the anchor's checks laid over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Overlay {
    /// The tree; that of the commit itself where no check differs.
    pub(super) tree: Oid,
    /// A commit of Ralph's own that has it, where it is another.
    pub(super) commit: Option<Oid>,
    /// Commits of Ralph's own, or the commit itself, that gates which passed at the base must pass at.
    pub(super) for_green: Vec<Trial>,
    /// The same for gates that did not pass at the base.
    pub(super) for_red: Vec<Trial>,
    /// Further ones for gates that passed at the base and tell nothing of their tests.
    pub(super) for_plain: Vec<Trial>,
    pub(super) changed: Vec<ChangedCheck>,
    pub(super) allowed: Vec<(String, String)>,
    pub(super) hints: Vec<String>,
    /// Changed files among the source that a gate's own command runs.
    pub(super) entries: Vec<String>,
}

/// Lays the checks of an anchor over a commit.
pub(super) struct CheckSurvey<'a> {
    pub(super) repository: &'a GateRepository,
    pub(super) pinned: &'a PinnedGates,
    pub(super) request: &'a ChecksRequest<'a>,
    /// The anchor's tree.
    pub(super) anchor: &'a Oid,
    /// What the gates looked for before the work began, where that is known.
    pub(super) looked: Option<LookedFor>,
}

/// A path that differs, from both sides.
struct Differing {
    path: PathBuf,
    candidate: Option<HomeBlob>,
    anchor: Option<HomeBlob>,
}

impl Differing {
    fn is_regular(&self) -> bool {
        let regular =
            |blob: &Option<HomeBlob>| blob.as_ref().is_none_or(|blob| blob.mode.starts_with("100"));
        regular(&self.candidate) && regular(&self.anchor)
    }
}

impl CheckSurvey<'_> {
    pub(super) fn git(&self) -> &Git {
        self.repository.mirror.git()
    }

    /// Makes the tree.
    pub(super) fn lay_over(&self, commit: &Oid) -> Result<Overlay, GitError> {
        let commit_tree = self.repository.mirror.tree_of(commit)?;
        let differing = self.differing(&commit_tree)?;
        if differing.is_empty() {
            return Ok(Overlay {
                tree: commit_tree,
                commit: None,
                for_green: Vec::new(),
                for_red: Vec::new(),
                for_plain: Vec::new(),
                changed: Vec::new(),
                allowed: Vec::new(),
                hints: Vec::new(),
                entries: Vec::new(),
            });
        }
        let compared = self.compared(&commit_tree, &differing)?;
        let layout = self.layout(&compared)?;
        let (laid, mut changed) = lay_over(&layout, &compared);
        let examples = self.changed_examples(&compared)?;
        let is_listed = |path: &String| changed.iter().any(|one| one.path == *path);
        let unlisted: Vec<String> =
            examples.iter().filter(|path| !is_listed(path)).cloned().collect();
        let (class, change) = (CheckClass::InlineTest, CheckChange::Changed);
        changed.extend(unlisted.into_iter().map(|path| ChangedCheck { path, class, change }));
        let tree = self.tree_laid(&commit_tree, &differing, &laid)?;
        let trials = Trials::of(&layout, &compared, &laid, &changed);
        let is_entry = |one: &ComparedPath| layout.is_entry_in_source(&one.path);
        let trees = |trials: &[LeftPaths]| -> Result<Vec<(Oid, Vec<String>)>, GitError> {
            let leaving = |left: &LeftPaths| -> Result<(Oid, Vec<String>), GitError> {
                let becomes = |(at, laid): (usize, &Laid)| {
                    if left.contains(&at) { Laid::Candidate } else { laid.clone() }
                };
                let laid: Vec<Laid> = laid.iter().enumerate().map(becomes).collect();
                let kept = left.iter().map(|at| compared[*at].path.clone()).collect();
                Ok((self.tree_laid(&commit_tree, &differing, &laid)?, kept))
            };
            trials.iter().map(leaving).collect()
        };
        let made = |trees: Vec<(Oid, Vec<String>)>| -> Result<Vec<Trial>, GitError> {
            let (mut made, mut seen) = (Vec::new(), BTreeSet::new());
            for (one, kept) in trees {
                // Where nothing is laid over, there is nothing to try.
                if tree == commit_tree || !seen.insert(one.to_string()) {
                    continue;
                }
                let commit = if one == commit_tree {
                    commit.clone()
                } else {
                    self.repository.mirror.twin_commit(commit, &one)?
                };
                made.push(Trial { commit, kept });
            }
            Ok(made)
        };
        let (for_green, for_red) = (made(trees(&trials.green)?)?, made(trees(&trials.red)?)?);
        let for_plain = made(trees(&trials.plain)?)?;
        let entries = compared.iter().filter(|one| is_entry(one) && one.in_anchor);
        let entries = entries.map(|one| one.path.clone()).chain(examples).collect();
        let own = if tree == commit_tree {
            None
        } else {
            for_green.first().map(|one| one.commit.clone())
        };
        let allowed = self.allowed(&changed);
        let hints = hints(&layout, &compared);
        Ok(Overlay {
            commit: own,
            tree,
            for_green,
            for_red,
            for_plain,
            changed,
            allowed,
            hints,
            entries,
        })
    }

    fn tree_laid(
        &self,
        commit_tree: &Oid,
        differing: &[Differing],
        laid: &[Laid],
    ) -> Result<Oid, GitError> {
        let edits = self.edits(differing, laid)?;
        self.git().tree_with(commit_tree, &edits)
    }

    /// Returns the files of source in which an example that is run as a test was changed. There is no run with the old one:
    /// it stands in the text of what it is about.
    fn changed_examples(&self, compared: &[ComparedPath]) -> Result<Vec<String>, GitError> {
        let has_changed = |one: &&ComparedPath| {
            let (Some(anchor), Some(candidate)) = (&one.anchor_text, &one.candidate_text) else {
                return false;
            };
            changes_examples(&one.path, anchor, candidate)
        };
        let paths = compared.iter().filter(has_changed).map(|one| one.path.clone());
        let (python, others): (Vec<String>, Vec<String>) =
            paths.partition(|path| path.strip_suffix(".py").is_some());
        // Python runs them only on request.
        let in_command = |gate: &GateSpec| gate.argv().iter().any(|word| word.contains("doctest"));
        let asks = !python.is_empty()
            && (self.pinned.gates.iter().any(in_command)
                || !self.git().files_with_word(self.anchor, "doctest")?.is_empty());
        Ok(others.into_iter().chain(python.into_iter().filter(|_| asks)).collect())
    }

    /// Returns every path outside of Ralph's own that the anchor has otherwise.
    fn differing(&self, tree: &Oid) -> Result<Vec<Differing>, GitError> {
        let to_anchor = self.git().tree_changes(tree, self.anchor)?;
        let from_anchor = self.git().tree_changes(self.anchor, tree)?;
        let mut ours: BTreeMap<PathBuf, Option<HomeBlob>> =
            from_anchor.into_iter().map(|change| (change.path, change.after)).collect();
        let differing =
            to_anchor.into_iter().filter(|change| !is_own(self.request.own, &change.path));
        Ok(differing
            .map(|HomeChange { path, after }| {
                let candidate = ours.remove(&path).flatten();
                Differing { path, candidate, anchor: after }
            })
            .collect())
    }

    fn compared(&self, tree: &Oid, differing: &[Differing]) -> Result<Vec<ComparedPath>, GitError> {
        // New files can be many, and hide no old one.
        let mut new = 0;
        let is_read: Vec<bool> = differing
            .iter()
            .map(|one| {
                new += usize::from(one.anchor.is_none());
                let is_wanted = one.anchor.is_some() || new <= MOST_FILES;
                one.is_regular() && (is_wanted || wants_text(&shown(&one.path)))
            })
            .collect();
        let mut wanted: Vec<(&Oid, &Path)> = Vec::new();
        for (one, _) in differing.iter().zip(&is_read).filter(|(_, is_read)| **is_read) {
            wanted.push((self.anchor, &one.path));
            wanted.push((tree, &one.path));
        }
        let mut texts = self
            .git()
            .files_at(&wanted, LIMIT)?
            .into_iter()
            .map(|found| found.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
        let mut compared = Vec::new();
        for (one, is_read) in differing.iter().zip(is_read) {
            let (anchor_text, candidate_text) = if is_read {
                (texts.next().flatten(), texts.next().flatten())
            } else {
                (None, None)
            };
            compared.push(ComparedPath {
                path: shown(&one.path),
                in_anchor: one.anchor.is_some(),
                in_candidate: one.candidate.is_some(),
                anchor_text,
                candidate_text,
                is_test_module: false,
            });
        }
        self.find_test_modules(&mut compared)?;
        Ok(compared)
    }

    /// Reads from the anchor what names alone do not say.
    fn layout(&self, compared: &[ComparedPath]) -> Result<ProjectLayout, GitError> {
        let entries = self.git().tree(self.anchor)?;
        let tree: BTreeSet<String> = entries.iter().map(|entry| shown(&entry.path)).collect();
        let named = self.named_scripts(&tree);
        let scripts = self.scripts(&tree, &named)?;
        let support_directories = self.support_directories(&tree)?;
        let looked = self.looked.clone();
        let mut layout = ProjectLayout {
            tree,
            named,
            scripts,
            support_directories,
            looked,
            ..Default::default()
        };
        layout.moved = moved(compared);
        layout.import_roots = self.import_roots(&layout)?;
        self.find_users(&mut layout, compared)?;
        let links = entries.iter().filter(|entry| entry.is_link()).map(|entry| &*entry.path);
        self.find_linked(&mut layout, compared, links)?;
        Ok(layout)
    }

    /// Returns the directories from which gates have Python import modules: as settings name them, and those of its scripts.
    fn import_roots(&self, layout: &ProjectLayout) -> Result<BTreeSet<String>, GitError> {
        let prefix = &self.repository.prefix;
        let settings = PYTHON_SETTINGS.iter().map(|name| prefix.join(name).into_string());
        let read: BTreeSet<String> =
            layout.scripts.iter().cloned().chain(settings.chain(recipes(prefix))).collect();
        let read: Vec<&String> = read.iter().filter(|path| layout.tree.contains(*path)).collect();
        let wanted: Vec<(&Oid, &Path)> =
            read.iter().map(|path| (self.anchor, Path::new(path.as_str()))).collect();
        let texts = self.git().files_at(&wanted, LIMIT)?.into_iter().flatten();
        let texts = texts.map(|text| String::from_utf8_lossy(&text).into_owned());
        let argvs = self.pinned.gates.iter().map(|gate| gate.argv().join("\n"));
        let mut roots: BTreeSet<String> = texts
            .chain(argvs)
            .flat_map(|text| import_roots_in(&text))
            .map(|root| prefix.join(root).into_string())
            .collect();
        let places =
            layout.named.iter().filter_map(|path| path.strip_suffix(".py")?.rsplit_once('/'));
        roots.extend(places.map(|(directory, _)| directory.to_owned()));
        Ok(roots)
    }

    /// Returns what gates and `setup` execute by their own words.
    fn named_scripts(&self, tree: &BTreeSet<String>) -> BTreeSet<String> {
        let commands = self.pinned.gates.iter().map(GateSpec::argv);
        let commands = commands.chain(self.pinned.setup.iter().map(Vec::as_slice));
        let from_root = |path: &String| self.repository.prefix.join(path).into_string();
        let mut named = BTreeSet::new();
        for path in scripts_of(commands) {
            let path = from_root(&path);
            // A module is named as interpreters find it. What a package is made of may be anything: it is only mentioned.
            let modules = named_by(&path, tree).into_iter();
            named.extend(modules.filter(|file| !file.ends_with("/__init__.py")));
            named.insert(path);
        }
        // What such a program runs stands in a file of CI.
        for (program, file) in RUNS_CI {
            let is_it =
                |argv: &[String]| argv.iter().any(|word| word.rsplit('/').next() == Some(program));
            if self.pinned.gates.iter().map(GateSpec::argv).any(is_it) {
                named.insert(from_root(&file.to_owned()));
            }
        }
        named
    }

    /// Returns these scripts, and what they and the recipes mention.
    fn scripts(
        &self,
        tree: &BTreeSet<String>,
        named: &BTreeSet<String>,
    ) -> Result<BTreeSet<String>, GitError> {
        let prefix = &self.repository.prefix;
        let recipes = recipes(prefix).filter(|path| tree.contains(path));
        let mut unread: BTreeSet<String> = named.iter().cloned().chain(recipes).collect();
        for path in named {
            let package =
                path.rsplit_once('/').map(|(package, _)| format!("{package}/__init__.py"));
            unread.extend(package.filter(|file| tree.contains(file)));
        }
        let is_package = |path: &&String| path.ends_with("/__init__.py");
        let mut scripts: BTreeSet<String> =
            named.iter().chain(unread.iter().filter(is_package)).cloned().collect();
        let mut read = BTreeSet::new();
        for _ in 0..DEPTH {
            let texts: Vec<String> = unread
                .iter()
                .filter(|path| read.len() < MOST_SCRIPTS && !read.contains(*path))
                .cloned()
                .collect();
            read.extend(texts.iter().cloned());
            let wanted: Vec<(&Oid, &Path)> =
                texts.iter().map(|path| (self.anchor, Path::new(path.as_str()))).collect();
            let contents = self.git().files_at(&wanted, LIMIT)?;
            let mut found = BTreeSet::new();
            for (path, content) in texts.iter().zip(contents) {
                let text = String::from_utf8_lossy(&content.unwrap_or_default()).into_owned();
                found.extend(mentioned(&text, path, tree));
                // Written for the directory that the gate runs in.
                let inside = prefix.join("x").into_string();
                found.extend(mentioned(&text, &inside, tree));
            }
            unread =
                found.into_iter().filter(|path| !read.contains(path) && !is_prose(path)).collect();
            if unread.is_empty() {
                break;
            }
            scripts.extend(unread.iter().cloned());
        }
        Ok(scripts)
    }

    /// Turns what becomes of each path into changes of the candidate's tree.
    fn edits(&self, differing: &[Differing], laid: &[Laid]) -> Result<Vec<HomeChange>, GitError> {
        let mut edits: BTreeMap<PathBuf, Option<HomeBlob>> = BTreeMap::new();
        for (one, laid) in differing.iter().zip(laid) {
            match laid {
                Laid::Candidate => {}
                Laid::Anchor => drop(edits.insert(one.path.clone(), one.anchor.clone())),
                Laid::Text(text) => {
                    let id = self.git().write_blob(text.as_bytes())?;
                    let mode = one.candidate.as_ref().map_or("100644", |blob| blob.mode.as_str());
                    let blob = HomeBlob { mode: mode.to_owned(), id };
                    edits.insert(one.path.clone(), Some(blob));
                }
            }
        }
        // What is put back wins over a file or link in the place of its directory, and over a directory in its own.
        let put: Vec<PathBuf> = edits
            .iter()
            .filter(|(_, after)| after.is_some())
            .map(|(path, _)| path.clone())
            .collect();
        for one in differing.iter().filter(|one| one.candidate.is_some()) {
            let is_put = edits.get(&one.path).is_some_and(Option::is_some);
            let in_the_way = put.iter().any(|path| {
                *path != one.path && (path.starts_with(&one.path) || one.path.starts_with(path))
            });
            if in_the_way && !is_put {
                edits.insert(one.path.clone(), None);
            }
        }
        Ok(in_order(edits.into_iter().map(|(path, after)| HomeChange { path, after }).collect()))
    }

    fn allowed(&self, changed: &[ChangedCheck]) -> Vec<(String, String)> {
        let globs: Vec<Glob> =
            self.request.allow.iter().map(|glob| from_root(self.repository, glob)).collect();
        let allowing = |check: &ChangedCheck| {
            let glob = globs.iter().find(|glob| glob.matches(&check.path))?;
            Some((check.path.clone(), glob.to_string()))
        };
        changed.iter().filter_map(allowing).collect()
    }
}

/// Returns the recipes at the root of a workspace.
fn recipes(prefix: &Utf8Path) -> impl Iterator<Item = String> {
    RECIPES.iter().map(|recipe| prefix.join(recipe).into_string())
}

/// Returns the new files that take the place of one that is gone, in another form.
fn moved(compared: &[ComparedPath]) -> BTreeSet<String> {
    let gone: BTreeSet<String> = compared
        .iter()
        .filter(|one| one.in_anchor && !one.in_candidate)
        .map(|one| module_key(&one.path))
        .collect();
    let is_moved = |one: &&ComparedPath| !one.in_anchor && gone.contains(&module_key(&one.path));
    compared.iter().filter(is_moved).map(|one| one.path.clone()).collect()
}

/// Returns the signs in the texts, which may mean nothing.
fn hints(layout: &ProjectLayout, compared: &[ComparedPath]) -> Vec<String> {
    let files: Vec<ChangedFile<'_>> = compared
        .iter()
        .map(|one| {
            let path = one.path.as_str();
            ChangedFile {
                base: one.anchor_text.as_deref().map(|text| FileVersion { path, text }),
                candidate: one.candidate_text.as_deref().map(|text| FileVersion { path, text }),
            }
        })
        .collect();
    let mut hints: Vec<String> = signs_of_weakening(&files);
    for path in compared {
        let Some(candidate) = &path.candidate_text else { continue };
        let anchor = path.anchor_text.as_deref().unwrap_or_default();
        if layout.class_of(&path.path, !path.in_anchor) == CheckClass::Source
            && !is_prose(&path.path)
        {
            hints.extend(hints_in(&path.path, anchor, candidate));
        }
    }
    hints.truncate(MOST_HINTS);
    hints
}

pub(super) fn is_prose(path: &str) -> bool {
    [".md", ".rst", ".adoc", ".txt"].iter().any(|end| path.ends_with(end))
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
