//! The anchor of a branch: the tree whose checks count, moved only by persons and by approved changes.
//!
//! A ref of the mirror for each branch points to a chain of Ralph's own commits. Each has the anchor as its tree; its
//! first parent is the candidate accepted at that time, its second the previous link. Differences between that
//! candidate and a later base are made by persons, so they move the anchor. A link whose candidate the base does not
//! contain (it never landed, or the branch was reset) is skipped; a branch without a link is entirely a person's. But a
//! file that equals an unapproved version stays unapproved, even if a rebase, a squash or another branch brought it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::call::Call;
use super::commits::parse_id;
use super::home_copy::HomeChange;
use super::mirror::Mirror;
use super::{Git, GitError, LONG, Oid};

/// How many words are looked for at once.
const WORDS_AT_ONCE: usize = 400;

const ANCHORS: &str = "refs/ralph/anchor/";
/// How many links are followed.
const LONGEST: usize = 100;
/// How many of each branch are compared file by file.
const LONGEST_COMPARED: usize = 20;

impl Mirror {
    /// Returns the tree with the checks by which work on a base is judged.
    pub fn anchor_tree(&self, branch: &str, base: &Oid) -> Result<Oid, GitError> {
        let tree = self.anchor_by_history(branch, base)?;
        self.without_unagreed(tree, base)
    }

    /// Removes unapproved changes from a tree, wherever they came from: a rebase, a squash or another branch changes
    /// the commits but not the contents of files.
    fn without_unagreed(&self, tree: Oid, base: &Oid) -> Result<Oid, GitError> {
        let git = self.git();
        let base_tree = self.tree_of(base)?;
        let mut back: BTreeMap<PathBuf, HomeChange> = BTreeMap::new();
        for link in self.anchors()? {
            // Compare with the base only if a link has unapproved changes: usually none has.
            let (mut link, mut newer) =
                (Some(link), Vec::<(Oid, Option<BTreeSet<PathBuf>>)>::new());
            for _ in 0..LONGEST_COMPARED {
                let Some(header) =
                    link.as_ref().map(|id| git.commit_header(id)).transpose()?.flatten()
                else {
                    break;
                };
                let Some(accepted) = header.parents.first() else { break };
                let accepted_tree = self.tree_of(accepted)?;
                let unagreed = git.tree_changes(&accepted_tree, &header.tree)?;
                if !unagreed.is_empty() {
                    let moved: BTreeSet<PathBuf> =
                        paths(git.tree_changes(&accepted_tree, &base_tree)?);
                    for (tree, differing) in &mut newer {
                        if differing.is_none() {
                            *differing = Some(paths(git.tree_changes(tree, &base_tree)?));
                        }
                    }
                    let is_agreed = |path: &PathBuf| {
                        newer.iter().any(|(_, differing)| {
                            differing.as_ref().is_some_and(|differing| !differing.contains(path))
                        })
                    };
                    for change in unagreed {
                        if !moved.contains(&change.path) && !is_agreed(&change.path) {
                            back.entry(change.path.clone()).or_insert(change);
                        }
                    }
                }
                newer.push((header.tree.clone(), None));
                link = header.parents.get(1).cloned();
            }
        }
        if back.is_empty() {
            return Ok(tree);
        }
        git.tree_with(&tree, &in_order(back.into_values().collect()))
    }

    /// Returns the newest link of every branch.
    fn anchors(&self) -> Result<Vec<Oid>, GitError> {
        Ok(self.git().refs_at(&[ANCHORS])?.into_iter().map(|link| link.id).collect())
    }

    fn anchor_by_history(&self, branch: &str, base: &Oid) -> Result<Oid, GitError> {
        let git = self.git();
        let base_tree = self.tree_of(base)?;
        let mut link = git.resolve(&anchor_ref(branch))?;
        for _ in 0..LONGEST {
            let Some(header) = link.as_ref().map(|id| git.commit_header(id)).transpose()?.flatten()
            else {
                break;
            };
            let Some(accepted) = header.parents.first() else { break };
            if git.is_ancestor(accepted, base)? {
                let accepted_tree = self.tree_of(accepted)?;
                if accepted_tree == header.tree {
                    return Ok(base_tree);
                }
                let by_persons = git.tree_changes(&accepted_tree, &base_tree)?;
                return git.tree_with(&header.tree, &in_order(by_persons));
            }
            link = header.parents.get(1).cloned();
        }
        Ok(base_tree)
    }

    /// Moves the anchor of a branch to an accepted candidate, without the unapproved changes: these are given as the
    /// candidate's required content at their paths.
    pub fn move_anchor(
        &self,
        branch: &str,
        candidate: &Oid,
        unanswered: Vec<HomeChange>,
    ) -> Result<(), GitError> {
        let git = self.git();
        let name = anchor_ref(branch);
        let last = git.resolve(&name)?;
        let candidate_tree = self.tree_of(candidate)?;
        let tree = git.tree_with(&candidate_tree, &in_order(unanswered))?;
        let mut before = last.clone();
        if let Some(id) = &last
            && let Some(header) = git.commit_header(id)?
            && header.parents.first() == Some(candidate)
        {
            if header.tree == tree {
                return Ok(());
            }
            before = header.parents.get(1).cloned();
        }
        if last.is_none() && tree == candidate_tree {
            return Ok(());
        }
        let parents: Vec<&Oid> = [Some(candidate), before.as_ref()].into_iter().flatten().collect();
        let link = self.own_commit(&tree, &parents, "ralph: anchor\n")?;
        git.call(Call::new(&["update-ref", &name, link.as_str()])).map(|_| ())
    }

    /// Creates a commit of Ralph's own in the mirror; the same tree and parents always give the same commit.
    fn own_commit(&self, tree: &Oid, parents: &[&Oid], message: &str) -> Result<Oid, GitError> {
        let mut args = vec!["commit-tree", "-F", "-"];
        args.extend(parents.iter().flat_map(|parent| ["-p", parent.as_str()]));
        args.push(tree.as_str());
        let mut call = Call::new(&args).input(message.as_bytes());
        for (name, value) in [
            ("GIT_AUTHOR_NAME", "Ralph"),
            ("GIT_AUTHOR_EMAIL", "ralph@localhost"),
            ("GIT_AUTHOR_DATE", "@86400 +0000"),
            ("GIT_COMMITTER_NAME", "Ralph"),
            ("GIT_COMMITTER_EMAIL", "ralph@localhost"),
            ("GIT_COMMITTER_DATE", "@86400 +0000"),
        ] {
            call = call.env(name, value);
        }
        parse_id(&args, &self.git().call(call)?.stdout)
    }

    /// Creates a commit that is like another but for its tree, so that a gate that reads the history finds the same.
    pub fn twin_commit(&self, commit: &Oid, tree: &Oid) -> Result<Oid, GitError> {
        let read = ["cat-file", "commit", commit.as_str()];
        let original = self.git().call(Call::new(&read))?.stdout;
        let mut twin = format!("tree {tree}\n").into_bytes();
        let (mut in_headers, mut is_left_out) = (true, false);
        for line in original.split_inclusive(|byte| *byte == b'\n') {
            in_headers &= line != b"\n";
            if in_headers {
                // A signature is that of the original. Lines that continue a header begin with a blank.
                let is_dropped = |name: &&[u8]| line.starts_with(name);
                let dropped: [&[u8]; 3] = [b"tree ", b"gpgsig", b"mergetag "];
                is_left_out = if line.starts_with(b" ") {
                    is_left_out
                } else {
                    dropped.iter().any(is_dropped)
                };
                if is_left_out {
                    continue;
                }
            }
            twin.extend_from_slice(line);
        }
        let args = ["hash-object", "-t", "commit", "-w", "--stdin"];
        parse_id(&args, &self.git().call(Call::new(&args).input(&twin))?.stdout)
    }

    /// Returns the tree of a commit, or the empty tree without a commit.
    pub fn tree_of(&self, commit: &Oid) -> Result<Oid, GitError> {
        let header = self.git().commit_header(commit)?;
        Ok(header.map_or_else(|| self.empty_tree(), |found| found.tree))
    }
}

impl Git {
    /// Returns the non-binary files of a commit or tree that contain a word.
    pub fn files_with_word(&self, tree: &Oid, word: &str) -> Result<Vec<PathBuf>, GitError> {
        Ok(self.files_with_any(tree, &[word])?.into_iter().collect())
    }

    /// Returns the non-binary files of a commit or tree that contain any of some words.
    pub fn files_with_any(
        &self,
        tree: &Oid,
        words: &[&str],
    ) -> Result<BTreeSet<PathBuf>, GitError> {
        let prefix = format!("{tree}:").into_bytes();
        let mut found = BTreeSet::new();
        for some in words.chunks(WORDS_AT_ONCE) {
            let mut args = vec!["grep", "-l", "-z", "-I", "-w", "-F"];
            args.extend(some.iter().flat_map(|word| ["-e", word]));
            args.extend([tree.as_str(), "--"]);
            let answer = self.call(Call::new(&args).accept(&[1]).timeout(LONG))?;
            let names = answer.stdout.split(|byte| *byte == 0);
            let names = names.filter_map(|name| name.strip_prefix(&prefix[..]));
            found.extend(names.map(super::call::path_from));
        }
        Ok(found)
    }
}

fn paths(changes: Vec<HomeChange>) -> BTreeSet<PathBuf> {
    changes.into_iter().map(|change| change.path).collect()
}

/// Sorts removals first, so that a file can replace a directory and vice versa.
pub fn in_order(mut changes: Vec<HomeChange>) -> Vec<HomeChange> {
    changes.sort_by_key(|change| change.after.is_some());
    changes
}

fn anchor_ref(branch: &str) -> String {
    let short = branch.strip_prefix("refs/heads/").unwrap_or(branch);
    format!("{ANCHORS}{}", short.replace('/', "+"))
}

#[cfg(test)]
#[path = "anchor_tests.rs"]
mod tests;
