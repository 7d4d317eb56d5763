//! What is on disk about stories: the PRD, and a record of each story in private state. Facts become writes here.

use camino::Utf8PathBuf;
use ralph_model::build::Acceptance;
use ralph_model::journal::StoryPassed;
use ralph_model::prd::{Prd, Story};
use ralph_model::story::{
    StoryFact, StoryInPrd, StoryMarkers, StoryRecord, StoryState, StoryWrite, heal, settle,
};

use super::Stories;
use crate::config::Limits;
use crate::files::{PathError, read_optional, replace_atomically};
use crate::gates::pin::PinnedGates;
use crate::git::item_refs::ItemKey;
use crate::state::Entry;
use crate::workflow::driver::forget_troubles;
use crate::workflow::home_committer::{CommittedFile, HomeCommitter};
use crate::workflow::isolation::landing::{LandingEnd, take_in};
use crate::workflow::merge_review::ASKED_FIRST;
use crate::workflow::overview::{lay_over, read_prd};
use crate::workflow::repositories::BEFORE;
use crate::workflow::{WorkflowError, equal_claims};

pub(super) const STORIES: Entry<StoryRecord> =
    Entry::new("stories", "what is known of the story is what the PRD says");

/// Whether all that a fact comes to was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StorySettling {
    Whole,
    /// Accepted work does not fit what the branch has become, and goes back.
    Refused,
    /// It was refused too often: a person decides.
    Stuck {
        question: String,
    },
    /// What it was merged with is to be judged, too.
    Unsettled,
}

/// What healing came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoryHealing {
    Nothing,
    Writes,
    /// Accepted work could not land.
    Refused,
}

impl Stories<'_, '_> {
    /// Returns what a story is called in the journal and in private state. Other branches have stories of the same ids;
    /// and an id may be any text, while directories are named after items.
    pub(super) fn item_of(&self, name: &str) -> String {
        format!("{}{}", self.items(), ItemKey::new(name))
    }

    /// Returns how the items of all stories on this branch begin.
    pub(super) fn items(&self) -> String {
        format!("{}/", self.options.branch)
    }

    pub(super) fn prd_in_checkout(&self) -> Utf8PathBuf {
        self.session.context.home_path().join(&self.options.prd)
    }

    fn prd_in_home(&self) -> Utf8PathBuf {
        self.project.home().join(&self.options.prd)
    }

    /// Reads the PRD: the stories of the checkout, with the `passes` of the branch.
    pub(super) fn prd(&self) -> Result<Prd, WorkflowError> {
        let path = self.prd_in_checkout();
        let stories = read_prd(&path)?;
        let parse = |bytes: Vec<u8>| Prd::parse(bytes).ok();
        let here = read_optional(&self.prd_in_home())?.and_then(parse);
        let tip = match self.project.committed_file(&self.options.prd)? {
            CommittedFile::Committed(found) => found.and_then(parse),
            CommittedFile::NoCommits => here.clone(),
        };
        Ok(lay_over(stories, tip.as_ref(), here.as_ref()))
    }

    /// Returns the stories that fail, each with its item, in the order in which they are taken.
    pub(super) fn failing(&self) -> Result<Vec<(String, Story)>, WorkflowError> {
        let prd = self.prd()?;
        let items = prd.story_names().into_iter().map(|name| self.item_of(&name));
        let mut failing: Vec<(String, Story)> =
            items.zip(prd.user_stories).filter(|(_, story)| !story.passes).collect();
        failing.sort_by_key(|(_, story)| story.priority);
        Ok(failing)
    }

    /// Returns the story of an item, if the PRD has it.
    pub(super) fn story(&self, item: &str) -> Result<Option<Story>, WorkflowError> {
        let prd = self.prd()?;
        let names = prd.story_names();
        let index = names.iter().position(|name| self.item_of(name) == item);
        Ok(index.map(|index| prd.user_stories[index].clone()))
    }

    pub(super) fn markers(&self, item: &str) -> Result<StoryMarkers, WorkflowError> {
        let record = STORIES.load(&self.session.context.state, item)?.unwrap_or_default();
        Ok(StoryMarkers::of(self.story(item)?.as_ref(), record))
    }

    pub(super) fn state_of(&self, item: &str) -> Result<StoryState, WorkflowError> {
        Ok(StoryState::of(&self.markers(item)?, self.most_rejections(item)?))
    }

    fn most_rejections(&self, item: &str) -> Result<u32, PathError> {
        let context = &self.session.context;
        let Limits { repeats, rejections, .. } = context.config.limits;
        equal_claims::most_rejections(&context.state, item, repeats, rejections)
    }

    /// Writes what a fact comes to. Work that cannot land goes back.
    pub(super) fn settle(
        &mut self,
        item: &str,
        fact: &StoryFact,
    ) -> Result<StorySettling, WorkflowError> {
        let markers = self.markers(item)?;
        let writes = match settle(&markers, fact, self.most_rejections(item)?) {
            // The person changed or removed the story while its run was judged: the run is concluded again.
            Err(_) if markers.in_prd != (StoryInPrd::Failing { changed: false }) => {
                return Err(WorkflowError::Overtaken);
            }
            settled => settled?,
        };
        self.write(item, &writes)
    }

    /// Completes what a crash cut short, and lets go of claims about a story that was changed or removed.
    pub(super) fn heal(&mut self, item: &str) -> Result<StoryHealing, WorkflowError> {
        let markers = self.markers(item)?;
        let writes = heal(&markers);
        if writes.is_empty() {
            return Ok(StoryHealing::Nothing);
        }
        // Gates of a merge run in the item's own clones.
        self.project.enter(self.session, item)?;
        let is_landing = writes.iter().any(|write| matches!(write, StoryWrite::Pass { .. }));
        let settled = self.write(item, &writes)?;
        if !is_landing {
            self.session.questions().withdraw(item)?;
        }
        Ok(if settled == StorySettling::Whole {
            StoryHealing::Writes
        } else {
            StoryHealing::Refused
        })
    }

    fn write(&mut self, item: &str, writes: &[StoryWrite]) -> Result<StorySettling, WorkflowError> {
        for write in writes {
            match write {
                StoryWrite::Record(record) => {
                    let state = &self.session.context.state;
                    if **record == StoryRecord::default() {
                        STORIES.forget(state, item)?;
                    } else {
                        STORIES.save(state, item, record)?;
                    }
                }
                StoryWrite::Pass { acceptance } => match self.pass(item, acceptance)? {
                    LandingEnd::Refused { why, tips } => {
                        return self.landing_refused(item, acceptance, why, &tips);
                    }
                    LandingEnd::Unsettled { .. } => {
                        let question = ASKED_FIRST.to_owned();
                        self.settle(item, &StoryFact::LandingUnsettled { question })?;
                        return Ok(StorySettling::Unsettled);
                    }
                    LandingEnd::Landed { .. } | LandingEnd::Nothing => {}
                },
                StoryWrite::ForgetBeginning => {
                    let state = &self.session.context.state;
                    PinnedGates::forget(state, item)?;
                    BEFORE.forget(state, item)?;
                    forget_troubles(state, item)?;
                    equal_claims::forget(state, item)?;
                    self.forget_notes(item)?;
                    self.project.leave_for_good(self.session, item)?;
                }
            }
        }
        Ok(StorySettling::Whole)
    }

    /// Puts accepted work on the branch, and a PRD in which its story passes.
    fn pass(&mut self, item: &str, acceptance: &Acceptance) -> Result<LandingEnd, WorkflowError> {
        let Some(story) = self.story(item)? else { return Ok(LandingEnd::Nothing) };
        let (prd, left) = self.prd_with(item)?;
        let landed = if self.project.is_in_place() || acceptance.works.is_empty() {
            take_in(&self.project.repositories, acceptance)?
        } else {
            self.land(item, &story, acceptance, &prd)?
        };
        let LandingEnd::Landed { level } = landed else { return Ok(landed) };
        // In place, where nothing had to change, and where home is not committed, it did not land with the work.
        self.write_prd(&story, &prd)?;
        let message = format!("ralph: {} passes", story.id);
        self.project.publish(self.session, &message, &[&self.options.prd])?;
        self.tell(StoryPassed {
            story: story.id.clone(),
            title: story.title.clone(),
            item: item.to_owned(),
            commit: acceptance.done_at.as_ref().map(ToString::to_string),
            level: Some(level),
            left: u32::try_from(left).ok(),
        })?;
        Ok(landed)
    }

    /// Returns the PRD in which the story of an item passes, and how many stories still fail in it.
    pub(super) fn prd_with(&self, item: &str) -> Result<(Vec<u8>, usize), WorkflowError> {
        let mut prd = self.prd()?;
        for (index, name) in prd.story_names().iter().enumerate() {
            if self.item_of(name) == item {
                prd.user_stories[index].passes = true;
            }
        }
        Ok((prd.render().into_bytes(), prd.failing().len()))
    }

    fn write_prd(&mut self, story: &Story, bytes: &[u8]) -> Result<(), WorkflowError> {
        let path = self.prd_in_home();
        let is_committed = match self.project.committed_file(&self.options.prd)? {
            CommittedFile::Committed(found) => found.as_deref() == Some(bytes),
            CommittedFile::NoCommits => true,
        };
        if is_committed && read_optional(&path)?.as_deref() == Some(bytes) {
            return Ok(());
        }
        let files = vec![path.clone()];
        let write = || replace_atomically(&path, bytes);
        let message = format!("ralph: {} passes", story.id);
        self.project.write_and_commit(self.session, files, write, &message, None)
    }

    /// Commits the person's PRD where the checkout is on the run's branch: what lands changes that file, and the checkout
    /// could not follow over an uncommitted one.
    pub(super) fn commit_prd(&mut self) -> Result<(), WorkflowError> {
        let context = &self.session.context;
        let path = self.prd_in_checkout();
        if !self.project.is_in_place() && !self.project.is_checked_out()? {
            return Ok(());
        }
        // In place the project's own committer is the person's, too.
        let opened;
        let committer = if self.project.is_in_place() {
            &self.project.committer
        } else {
            let (git, home) = (context.git(), context.home_path());
            opened = HomeCommitter::open(&git, home, &context.config.git);
            &opened
        };
        let is_current = match committer.file_at_head(&self.options.prd)? {
            CommittedFile::Committed(found) => found == read_optional(&path)?,
            CommittedFile::NoCommits => true,
        };
        if !is_current {
            committer.commit_files(&[path], "ralph: the PRD of a run")?;
        }
        Ok(())
    }

    /// Commits what is in flight of home to the branch.
    pub(super) fn publish(&mut self) -> Result<(), WorkflowError> {
        let message = "ralph: update home";
        self.project.commit_home(self.session, message, None)?;
        self.project.publish(self.session, message, &[])
    }
}
