//! Judged work that has not landed yet, under refs of the person's repository: `refs/ralph/candidate/`.
//!
//! The work itself is in the mirror, which is private state. If that is lost, the item continues from here.

use super::super::Oid;
use super::super::item_refs::ItemKey;
use super::transaction::RefTransaction;
use super::{Landing, LandingError, short_name};

const CANDIDATES: &str = "refs/ralph/candidate/";

/// The work of an item on a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedWork {
    /// The base.
    pub base: Oid,
    pub work: Oid,
}

/// The refs of a candidate: a branch is checked out in only one worktree, so no two have the same item on it.
struct CandidateRefs {
    base: String,
    work: String,
}

impl CandidateRefs {
    fn of(branch: &str, key: &ItemKey) -> Result<Self, LandingError> {
        let below = format!("{CANDIDATES}{}/{key}", ItemKey::new(short_name(branch)?));
        Ok(CandidateRefs { base: format!("{below}/base"), work: format!("{below}/work") })
    }
}

impl Landing<'_> {
    /// Keeps work of the mirror for an item that will land on a branch, given in full.
    pub fn keep_candidate(
        &self,
        branch: &str,
        key: &ItemKey,
        candidate: &JudgedWork,
    ) -> Result<(), LandingError> {
        if self.candidate(branch, key)?.as_ref() == Some(candidate) {
            return Ok(());
        }
        self.bring(&candidate.work)?;
        let names = CandidateRefs::of(branch, key)?;
        let mut refs = RefTransaction::new(self.person, "ralph: candidate", &candidate.work)?;
        refs.set(&names.base, &candidate.base);
        refs.set(&names.work, &candidate.work);
        refs.commit()?;
        Ok(())
    }

    /// Returns the kept work of an item.
    pub fn candidate(
        &self,
        branch: &str,
        key: &ItemKey,
    ) -> Result<Option<JudgedWork>, LandingError> {
        if !self.person.may_have_refs(CANDIDATES) {
            return Ok(None);
        }
        let names = CandidateRefs::of(branch, key)?;
        let (base, work) = (self.person.resolve(&names.base)?, self.person.resolve(&names.work)?);
        Ok(base.zip(work).map(|(base, work)| JudgedWork { base, work }))
    }

    /// Removes all kept work that is an ancestor of a commit: it has landed, and a crash prevented removing it.
    pub fn drop_landed_candidates(&self, branch: &str, tip: &Oid) -> Result<(), LandingError> {
        if !self.person.may_have_refs(CANDIDATES) {
            return Ok(());
        }
        let below = format!("{CANDIDATES}{}/", ItemKey::new(short_name(branch)?));
        let found = self.person.refs_at(&[&below])?;
        for work in found.iter().filter(|one| one.name.ends_with("/work")) {
            if !self.person.is_ancestor(&work.id, tip)? {
                continue;
            }
            let mut refs = RefTransaction::new(self.person, "ralph: candidate", &work.id)?;
            refs.update(&work.name, None, Some(&work.id));
            let base = format!("{}/base", work.name.trim_end_matches("/work"));
            if let Some(base) = found.iter().find(|one| one.name == base) {
                refs.update(&base.name, None, Some(&base.id));
            }
            refs.commit()?;
        }
        Ok(())
    }

    /// Removes the kept work of an item: it has landed, or was given up.
    pub fn drop_candidate(&self, branch: &str, key: &ItemKey) -> Result<(), LandingError> {
        let Some(candidate) = self.candidate(branch, key)? else { return Ok(()) };
        let names = CandidateRefs::of(branch, key)?;
        let mut refs = RefTransaction::new(self.person, "ralph: candidate", &candidate.work)?;
        refs.update(&names.base, None, Some(&candidate.base));
        refs.update(&names.work, None, Some(&candidate.work));
        refs.commit()?;
        Ok(())
    }
}
