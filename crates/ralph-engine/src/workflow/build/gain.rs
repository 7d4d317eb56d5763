//! Whether rounds of the loop bring the work nearer to its end.
//!
//! A round is a verification, an investigation, or a decomposition that came to nothing. Builders, verifiers and investigators that keep each other busy
//! (accept one task and add one, open an issue and make a task of it) would go on for ever while every single step
//! looks like progress. So the tasks and issues that are left are counted after each round: a round that does not bring
//! them below their lowest count so far has no net gain.

use ralph_model::id::RunId;
use ralph_model::plan::Plan;
use serde::{Deserialize, Serialize};

use super::{Build, BuildEnd};
use crate::digest;
use crate::state::Entry;
use crate::workflow::WorkflowError;

const GAINS: Entry<Gain> = Entry::new("rounds", "rounds without a gain are counted from zero");

/// How the count of what is left went, for one spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Gain {
    spec: String,
    fewest: usize,
    rounds_without: u32,
    /// The digest of the plan as the loop left it. `None` while the loop runs, or if it was killed.
    #[serde(default)]
    left: Option<String>,
    /// The run of the last round that was counted: its result may be concluded again after a crash.
    #[serde(default)]
    counted: Option<RunId>,
}

impl Gain {
    /// Counts the round of a run that left so much to do, once.
    fn after_round(self, spec: &str, open: usize, run: &RunId) -> Gain {
        if self.counted.as_ref() == Some(run) {
            return self;
        }
        let (spec, counted) = (spec.to_owned(), Some(run.clone()));
        if self.spec != spec || open < self.fewest {
            return Gain { spec, fewest: open, rounds_without: 0, left: None, counted };
        }
        Gain { rounds_without: self.rounds_without.saturating_add(1), counted, ..self }
    }
}

impl Build<'_, '_> {
    /// Resets the count of rounds if the plan was changed since the loop left it: that is progress by a person.
    pub(super) fn begin_rounds(&self) -> Result<(), WorkflowError> {
        let state = &self.session.context.state;
        let key = self.plan.path().as_str();
        let Some(gain) = GAINS.load(state, key)? else { return Ok(()) };
        match &gain.left {
            None => Ok(()),
            Some(left) if *left == digest::of_bytes(&self.plan.read()?) => {
                Ok(GAINS.save(state, key, &Gain { left: None, ..gain })?)
            }
            Some(_) => Ok(GAINS.forget(state, key)?),
        }
    }

    /// Notes how the loop leaves the plan.
    pub(super) fn end_rounds(&self) -> Result<(), WorkflowError> {
        let state = &self.session.context.state;
        let key = self.plan.path().as_str();
        let Some(gain) = GAINS.load(state, key)? else { return Ok(()) };
        let left = Some(digest::of_bytes(&self.plan.read()?));
        Ok(GAINS.save(state, key, &Gain { left, ..gain })?)
    }

    /// Returns an end if there were too many rounds without a net gain, also if an earlier loop counted them.
    pub(super) fn no_gain(&self, plan: &Plan<'_>) -> Result<Option<BuildEnd>, WorkflowError> {
        let gain = GAINS.load(&self.session.context.state, self.plan.path().as_str())?;
        let gain = gain.filter(|gain| plan.spec() == Some(&gain.spec));
        let rounds = gain.unwrap_or_default().rounds_without;
        let is_too_many = rounds >= self.session.context.config.limits.rounds;
        Ok(is_too_many.then(|| BuildEnd::NoGain { rounds, open: open_items(plan) }))
    }

    /// Resets the count of rounds: a person wants more of them.
    pub(super) fn forget_rounds(&self) -> Result<(), WorkflowError> {
        Ok(GAINS.forget(&self.session.context.state, self.plan.path().as_str())?)
    }

    /// Counts the round of a run.
    pub(super) fn count_round(&self, run: &RunId) -> Result<(), WorkflowError> {
        let bytes = self.plan.read()?;
        let plan = Plan::parse(&bytes);
        let open = open_items(&plan);
        let state = &self.session.context.state;
        let key = self.plan.path().as_str();
        let before = GAINS.load(state, key)?.unwrap_or_default();
        if open == 0 {
            return Ok(GAINS.forget(state, key)?);
        }
        let gain = before.after_round(plan.spec().unwrap_or_default(), open, run);
        Ok(GAINS.save(state, key, &gain)?)
    }
}

/// Counts what is left to do.
fn open_items(plan: &Plan<'_>) -> usize {
    plan.pending().len() + plan.done_tasks().count() + plan.issues().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u64) -> RunId {
        RunId::new(jiff::Timestamp::UNIX_EPOCH, number)
    }

    #[test]
    fn only_a_new_lowest_count_is_a_gain() {
        let table: [(&[usize], u32); 6] = [
            (&[5], 0),
            (&[5, 3, 1], 0),
            (&[5, 5, 5], 2),
            (&[2, 4, 1], 0),
            (&[2, 1, 2, 1, 2, 1], 4),
            (&[3, 4, 5, 6], 3),
        ];
        for (counts, rounds) in table {
            let gain = counts.iter().zip(1..).fold(Gain::default(), |gain, (open, number)| {
                gain.after_round("s", *open, &run(number))
            });
            assert_eq!(gain.rounds_without, rounds, "{counts:?}");
        }
        let twice = Gain::default().after_round("s", 3, &run(1)).after_round("s", 3, &run(2));
        assert_eq!(twice.clone().after_round("s", 3, &run(2)), twice, "it is counted once");
        let other = twice.after_round("t", 9, &run(3));
        assert_eq!((other.fewest, other.rounds_without), (9, 0));
    }
}
