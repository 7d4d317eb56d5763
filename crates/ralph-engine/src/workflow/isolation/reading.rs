//! Clones for roles that only read and whose work lands nowhere: the interviewer and the mapper.
//!
//! Such a clone is at the checked-out commit, and is recreated when that has moved. Nothing of the person's changes for
//! it: no branch, no ref, no commit, not the checkout. Home is the person's own; only the harness writes it.

use ralph_model::pipeline::records::Base;

use super::equipment::Equipment;
use super::slots::{SlotPool, base_of, release};
use super::{PersonsRepository, open_pool, open_repositories, run_slot};
use crate::config::CheckoutConfig;
use crate::git::{GitProgram, Head};
use crate::run::RunSlot;
use crate::session::{Session, SessionContext};
use crate::workflow::WorkflowError;
use crate::workflow::repositories::{commit_id, key};

/// Where roles that only read work.
pub(crate) struct ReadingPlace {
    repositories: Vec<PersonsRepository>,
    slots: SlotPool,
    /// Nothing is built there: `setup` would keep the person waiting for nothing. What an earlier one left stays.
    checkout: CheckoutConfig,
}

impl ReadingPlace {
    /// Looks at the repositories. `None` where one of them has no commit yet: there is nothing to clone.
    pub(crate) fn open(
        program: &GitProgram,
        context: &SessionContext,
    ) -> Result<Option<ReadingPlace>, WorkflowError> {
        let branch_of = |git: &crate::git::Git| {
            Ok(match git.head()? {
                Head::Branch { name, .. } | Head::Unborn { name } => name,
                Head::Detached { .. } => String::new(),
            })
        };
        let repositories = open_repositories(program, context, branch_of)?;
        let slots = open_pool(context, &context.workspace.root, &repositories);
        let checkout = CheckoutConfig { setup: Vec::new(), ..context.config.checkout.clone() };
        let place = ReadingPlace { repositories, slots, checkout };
        let heads = place.heads()?;
        Ok((heads.len() == place.repositories.len()).then_some(place))
    }

    /// Returns what is checked out, in every repository that has a commit.
    fn heads(&self) -> Result<Base, WorkflowError> {
        let mut heads = Base::new();
        for repository in &self.repositories {
            if let Some(head) = repository.git().head()?.id() {
                repository.gates.fill_mirror(std::slice::from_ref(head))?;
                heads.insert(key(&repository.name), commit_id(head));
            }
        }
        Ok(heads)
    }

    /// Makes the clone of an item ready; returns it, with what people are to know.
    pub(crate) fn enter(
        &self,
        session: &mut Session<'_>,
        item: &str,
    ) -> Result<(RunSlot, Vec<String>), WorkflowError> {
        let heads = self.heads()?;
        let Session { context, journal, .. } = &mut *session;
        if base_of(&context.state, item)?.is_some_and(|base| base != heads) {
            release(&context.state, item)?;
        }
        let (clock, gates) = (context.clock, context.gates(item));
        let mut tell = |event| journal.record(clock.now(), None, event);
        let mut equipment = Equipment::with(&gates, &self.checkout, &mut tell);
        let ready =
            self.slots.enter(&context.state, item, &self.repositories, &heads, &mut equipment)?;
        let slot = run_slot(&self.repositories, &ready, context.home_path().to_owned());
        Ok((slot, equipment.notes))
    }
}
