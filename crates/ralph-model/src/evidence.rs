//! Measurements of a claimed commit, and the faults found.
//!
//! Nothing here comes from the agent's text except the name of the commit. Uncommitted leftovers and home files swept
//! into the commit are facts, not faults. The engine does the measuring.

use serde::{Deserialize, Serialize};

use crate::id::{CommitId, TreeId};

/// The object found under the claimed name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "found", rename_all = "snake_case")]
pub enum Evidence {
    /// No repository of the workspace has a commit of this name.
    Nothing {
        claimed: CommitId,
    },
    /// The clone that the agent left is unsound, so nothing was imported from it.
    Unsound(Box<UnsoundClone>),
    Commit(Box<CommitEvidence>),
}

/// A clone that nothing can be imported from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsoundClone {
    pub claimed: CommitId,
    /// Its directory in the workspace, empty for the workspace itself.
    pub repository: String,
    pub problem: String,
}

/// Measurements of an existing commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitEvidence {
    pub commit: CommitId,
    pub tree: TreeId,
    /// The repository that contains it: its directory in the workspace, empty for the workspace itself.
    pub repository: String,
    /// The local refs that the run created or advanced and from which it is reachable; `HEAD` if detached.
    pub refs: Vec<String>,
    /// The commit at which work on the item began, in that repository.
    pub base: CommitId,
    /// Whether it did not exist yet when work on the item began.
    pub new_since_base: bool,
    pub descends_from_base: bool,
    /// The paths outside home that differ between base and commit.
    pub changed: Vec<String>,
    /// The paths in home that differ.
    pub changed_in_home: Vec<String>,
    /// The subset of these that records progress, if only the agent can have changed them.
    #[serde(default)]
    pub state_files: Vec<String>,
    /// How the run rewrote history that existed before it.
    pub rewritten: Vec<RewrittenRef>,
    /// The paths that the run changed and did not commit.
    pub leftovers: Vec<String>,
    /// Files that were copied into the clone only so that it works, and that the commit contains.
    #[serde(default)]
    pub copied: Vec<String>,
    /// The tree that gates and verifier checked, once they did.
    pub checked: Option<TreeId>,
}

/// A ref from which commits were dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewrittenRef {
    pub name: String,
    pub old_tip: CommitId,
    /// Commits that are no longer reachable from any ref; nearest to the old tip first.
    pub dropped: Vec<CommitId>,
}

/// A fault of a claimed commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum EvidenceFault {
    NoSuchCommit {
        claimed: CommitId,
    },
    /// Objects or refs left by the agent are forged, damaged or crafted to attack a checkout.
    Unsound(Box<UnsoundClone>),
    /// It is the base, or existed before work began.
    NotNew {
        commit: CommitId,
        base: CommitId,
    },
    NotFromBase {
        commit: CommitId,
        base: CommitId,
    },
    /// It is not reachable from any local ref.
    OnNoRef {
        commit: CommitId,
    },
    /// It does not differ from the base.
    ChangesNothing {
        commit: CommitId,
    },
    /// It differs from the base in home's files only.
    ChangesOnlyHome {
        commit: CommitId,
    },
    /// It changes files in which Ralph records progress.
    ChangesState {
        commit: CommitId,
        paths: Vec<String>,
    },
    RewroteHistory {
        rewritten: RewrittenRef,
    },
    /// It contains files that were only copied into the clone (`[checkout] copy`, `.worktreeinclude`).
    AddsCopied {
        commit: CommitId,
        paths: Vec<String>,
    },
}

/// Directories and files of home in which Ralph records plans and progress.
const STATE: [&str; 6] = [
    "specs/plans/",
    "specs/candidates/",
    "specs/done/",
    "specs/sessions/",
    "plan.jsonl",
    "plan_state.json",
];

/// Whether a file, relative to home, records progress. Notes and specs do not.
pub fn is_state_file(below_home: &str) -> bool {
    STATE.iter().any(|state| match state.strip_suffix('/') {
        Some(_) => below_home.starts_with(state),
        None => below_home == *state,
    })
}

impl Evidence {
    /// Returns the measurements of the commit, if there is one.
    pub fn commit(&self) -> Option<&CommitEvidence> {
        match self {
            Evidence::Commit(found) => Some(found),
            Evidence::Nothing { .. } | Evidence::Unsound(_) => None,
        }
    }

    /// Returns all faults, in the order in which they should be fixed.
    pub fn faults(&self) -> Vec<EvidenceFault> {
        match self {
            Evidence::Nothing { claimed } => {
                vec![EvidenceFault::NoSuchCommit { claimed: claimed.clone() }]
            }
            Evidence::Unsound(clone) => vec![EvidenceFault::Unsound(clone.clone())],
            Evidence::Commit(found) => found.faults(),
        }
    }
}

impl CommitEvidence {
    /// Returns a path of its repository, relative to the workspace.
    pub fn named(&self, path: &str) -> String {
        match self.repository.as_str() {
            "" => path.to_owned(),
            repository => format!("{repository}/{path}"),
        }
    }

    fn faults(&self) -> Vec<EvidenceFault> {
        let (commit, base) = (|| self.commit.clone(), || self.base.clone());
        let mut faults: Vec<_> = self
            .rewritten
            .iter()
            .map(|rewritten| EvidenceFault::RewroteHistory { rewritten: rewritten.clone() })
            .collect();
        if !self.new_since_base {
            // The changes of an old commit say nothing about this work.
            faults.push(EvidenceFault::NotNew { commit: commit(), base: base() });
            return faults;
        }
        if !self.descends_from_base {
            faults.push(EvidenceFault::NotFromBase { commit: commit(), base: base() });
        }
        if self.refs.is_empty() {
            faults.push(EvidenceFault::OnNoRef { commit: commit() });
        }
        if !self.copied.is_empty() {
            let paths = self.copied.clone();
            faults.push(EvidenceFault::AddsCopied { commit: commit(), paths });
        }
        if self.changed.is_empty() {
            faults.push(if self.changed_in_home.is_empty() {
                EvidenceFault::ChangesNothing { commit: commit() }
            } else {
                EvidenceFault::ChangesOnlyHome { commit: commit() }
            });
        }
        if !self.state_files.is_empty() {
            let paths = self.state_files.clone();
            faults.push(EvidenceFault::ChangesState { commit: commit(), paths });
        }
        faults
    }

    /// Whether gates and verifier checked a different tree than the commit's.
    pub(crate) fn checked_another_tree(&self) -> bool {
        self.checked.as_ref().is_some_and(|checked| *checked != self.tree)
    }
}

#[cfg(test)]
pub(crate) mod samples {
    use super::*;

    pub(crate) fn commit(digit: char) -> CommitId {
        digit.to_string().repeat(40).parse().unwrap()
    }

    pub(crate) fn tree(digit: char) -> TreeId {
        digit.to_string().repeat(40).parse().unwrap()
    }

    /// A commit without faults.
    pub(crate) fn sound() -> CommitEvidence {
        CommitEvidence {
            commit: commit('c'),
            tree: tree('e'),
            repository: String::new(),
            refs: vec!["refs/heads/main".to_owned()],
            base: commit('b'),
            new_since_base: true,
            descends_from_base: true,
            changed: vec!["src/lib.rs".to_owned()],
            changed_in_home: vec![],
            state_files: vec![],
            rewritten: vec![],
            leftovers: vec![],
            copied: vec![],
            checked: Some(tree('e')),
        }
    }

    pub(crate) fn rewritten() -> RewrittenRef {
        RewrittenRef {
            name: "refs/heads/main".to_owned(),
            old_tip: commit('a'),
            dropped: vec![commit('a')],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::samples::{commit, rewritten, sound};
    use super::*;

    #[test]
    fn a_commit_that_changes_state_files_is_at_fault_and_names_them() {
        let paths = vec!["ralph/specs/done/0001-a.md".to_owned()];
        let found = CommitEvidence { state_files: paths.clone(), ..sound() };
        let fault = EvidenceFault::ChangesState { commit: commit('c'), paths };
        assert_eq!(found.faults(), [fault]);
        for (path, is_state) in [
            ("specs/done/0001-a.md", true),
            ("specs/plans/area/0001-a.json", true),
            ("plan.jsonl", true),
            ("specs/0001-a.md", false),
            ("SCRATCHPAD.md", false),
            ("plan.jsonl.md", false),
        ] {
            assert_eq!(is_state_file(path), is_state, "{path}");
        }
    }

    #[test]
    fn every_combination_of_facts_has_the_faults_it_should() {
        for bits in 0..128_u32 {
            let bit = |at: u32| bits & (1 << at) != 0;
            let evidence = CommitEvidence {
                new_since_base: bit(0),
                descends_from_base: bit(1),
                refs: if bit(2) { vec!["HEAD".to_owned()] } else { vec![] },
                changed: if bit(3) { vec!["a".to_owned()] } else { vec![] },
                changed_in_home: if bit(4) { vec!["ralph/x".to_owned()] } else { vec![] },
                rewritten: if bit(5) { vec![rewritten()] } else { vec![] },
                leftovers: if bit(6) { vec!["left".to_owned()] } else { vec![] },
                ..sound()
            };
            let (commit, base) = (commit('c'), commit('b'));
            let mut expected = Vec::new();
            if bit(5) {
                expected.push(EvidenceFault::RewroteHistory { rewritten: rewritten() });
            }
            if !bit(0) {
                expected.push(EvidenceFault::NotNew { commit: commit.clone(), base: base.clone() });
            }
            if bit(0) && !bit(1) {
                expected.push(EvidenceFault::NotFromBase { commit: commit.clone(), base });
            }
            if bit(0) && !bit(2) {
                expected.push(EvidenceFault::OnNoRef { commit: commit.clone() });
            }
            if bit(0) && !bit(3) && bit(4) {
                expected.push(EvidenceFault::ChangesOnlyHome { commit: commit.clone() });
            }
            if bit(0) && !bit(3) && !bit(4) {
                expected.push(EvidenceFault::ChangesNothing { commit });
            }
            assert_eq!(Evidence::Commit(Box::new(evidence)).faults(), expected, "{bits:07b}");
        }
    }

    #[test]
    fn a_commit_with_copied_files_is_at_fault() {
        let paths = vec![".env".to_owned()];
        let evidence = CommitEvidence { copied: paths.clone(), ..sound() };
        let expected = EvidenceFault::AddsCopied { commit: commit('c'), paths };
        assert_eq!(Evidence::Commit(Box::new(evidence)).faults(), [expected]);
    }

    #[test]
    fn a_name_without_a_commit_is_the_only_fault() {
        assert_eq!(
            Evidence::Nothing { claimed: commit('d') }.faults(),
            [EvidenceFault::NoSuchCommit { claimed: commit('d') }]
        );
    }

    #[test]
    fn a_clone_that_is_not_sound_is_the_only_fault() {
        let (claimed, repository) = (commit('d'), "api".to_owned());
        let problem = "a bad object".to_owned();
        let clone = Box::new(UnsoundClone { claimed, repository, problem });
        let evidence = Evidence::Unsound(clone.clone());
        assert_eq!(evidence.commit(), None);
        assert_eq!(evidence.faults(), [EvidenceFault::Unsound(clone)]);
    }

    #[test]
    fn only_a_tree_that_was_looked_at_can_be_another() {
        let mut evidence = sound();
        assert!(!evidence.checked_another_tree());
        evidence.checked = None;
        assert!(!evidence.checked_another_tree());
        evidence.checked = Some(samples::tree('f'));
        assert!(evidence.checked_another_tree());
    }

    #[test]
    fn evidence_is_read_back_as_it_was_written() {
        let found = CommitEvidence { rewritten: vec![rewritten()], ..sound() };
        let evidence = Evidence::Commit(Box::new(found));
        let json = serde_json::to_string(&evidence).unwrap();
        assert_eq!(serde_json::from_str::<Evidence>(&json).unwrap(), evidence);
    }
}
