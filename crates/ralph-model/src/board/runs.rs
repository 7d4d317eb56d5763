//! The last runs, and those without a recorded end.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::RunId;
use crate::journal::{RunFinished, RunStarted, VerdictReached};

/// How many runs are kept, and how many more without a recorded end.
pub(super) const MOST_RUNS: usize = 1000;

/// One run as the journal knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunView {
    pub id: RunId,
    /// `None` if the journal begins in the middle of the run.
    pub started: Option<(Timestamp, Box<RunStarted>)>,
    pub finished: Option<(Timestamp, Box<RunFinished>)>,
    /// When its leftover processes were terminated, because its harness had died.
    pub abandoned: Option<Timestamp>,
    /// The commit of its item that was accepted as a candidate for verification.
    pub candidate: Option<String>,
    /// The last verdict on its item before the item's next run began.
    pub verdict: Option<Box<VerdictReached>>,
    /// The commit with which its item's work landed on the branch.
    pub landed: Option<String>,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RunState<'a> {
    /// It has begun and has no recorded end.
    Running,
    Finished(&'a RunFinished),
    /// Its harness died before it ended.
    Abandoned,
}

impl RunView {
    pub fn state(&self) -> RunState<'_> {
        match (&self.finished, self.abandoned) {
            (Some((_, finished)), _) => RunState::Finished(finished),
            (None, Some(_)) => RunState::Abandoned,
            (None, None) => RunState::Running,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RunLog {
    recent: VecDeque<RunView>,
    /// Older runs without an end: the end may still be recorded, and must count once.
    unfinished: VecDeque<RunView>,
    /// The highest id so far. Ids sort by time, so a higher one cannot be among those kept.
    highest: Option<RunId>,
}

impl RunLog {
    pub(super) fn started(&mut self, id: &RunId, at: Timestamp, started: &RunStarted) {
        let run = self.get_or_insert(id);
        run.started.get_or_insert_with(|| (at, Box::new(started.clone())));
    }

    /// Records the end of a run; returns `None` if it was recorded before.
    pub(super) fn finished(
        &mut self,
        id: &RunId,
        at: Timestamp,
        finished: &RunFinished,
    ) -> Option<&RunView> {
        let run = self.get_or_insert(id);
        if run.finished.is_some() {
            return None;
        }
        run.finished = Some((at, Box::new(finished.clone())));
        Some(run)
    }

    /// Records that a run's harness died. Gates are terminated like runs but have their own ids; an id that never began
    /// as a run is ignored.
    pub(super) fn abandoned(&mut self, id: &RunId, at: Timestamp) {
        if let Some(run) = self.get_mut(id) {
            run.abandoned = Some(at);
        }
    }

    /// Marks every run without a recorded end as abandoned unless it is still running.
    pub(super) fn abandon_all_but(&mut self, is_under_way: impl Fn(&RunId) -> bool) {
        for run in self.recent.iter_mut().chain(&mut self.unfinished) {
            if matches!(run.state(), RunState::Running) && !is_under_way(&run.id) {
                run.abandoned = run.started.as_ref().map(|(at, _)| *at);
            }
        }
    }

    pub(super) fn recent(&self) -> impl DoubleEndedIterator<Item = &RunView> + ExactSizeIterator {
        self.recent.iter()
    }

    pub(super) fn get(&self, id: &RunId) -> Option<&RunView> {
        // It is nearly always one of the latest.
        self.recent.iter().rev().chain(&self.unfinished).find(|run| run.id == *id)
    }

    pub(super) fn get_mut(&mut self, id: &RunId) -> Option<&mut RunView> {
        self.recent.iter_mut().rev().chain(&mut self.unfinished).find(|run| run.id == *id)
    }

    /// Returns the run of that id, inserting a new one if needed.
    fn get_or_insert(&mut self, id: &RunId) -> &mut RunView {
        if self.highest.as_ref().is_some_and(|highest| id <= highest) {
            let (recent, unfinished) = (&self.recent, &self.unfinished);
            if let Some(place) = recent.iter().rposition(|run| run.id == *id) {
                return &mut self.recent[place];
            }
            if let Some(place) = unfinished.iter().position(|run| run.id == *id) {
                return &mut self.unfinished[place];
            }
        } else {
            self.highest = Some(id.clone());
        }
        if self.recent.len() == MOST_RUNS
            && let Some(oldest) = self.recent.pop_front().filter(|run| run.finished.is_none())
        {
            if self.unfinished.len() == MOST_RUNS {
                self.unfinished.pop_front();
            }
            self.unfinished.push_back(oldest);
        }
        let id = id.clone();
        self.recent.push_back(RunView {
            id,
            started: None,
            finished: None,
            abandoned: None,
            candidate: None,
            verdict: None,
            landed: None,
        });
        self.recent.back_mut().expect("it was just added")
    }
}
