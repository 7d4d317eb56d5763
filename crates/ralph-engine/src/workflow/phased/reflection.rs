//! Asking how an accepted task went, where the person wants to know (`loop.reflect`). Nothing depends on the answer.

use ralph_model::build::Acceptance;
use ralph_model::phase::mailbox::{REFLECTIONS, SUMMARY};
use ralph_model::phase::{LoopRecord, LoopStanding, reflection_line};

use super::runs::VerifierInquiry;
use super::{Phased, PhasedEnd, REFLECTION, item_of};
use crate::run::RunResult;
use crate::workflow::WorkflowError;
use crate::workflow::driver::{Ended, WorkflowStep};

/// The largest file of reflections; older lines are dropped.
const LARGEST: usize = 512 << 10;

impl Phased<'_, '_> {
    /// Has a run without any say answer a survey about the task.
    pub(super) fn reflect(
        &mut self,
        record: &LoopRecord,
        item: &str,
        acceptance: &Acceptance,
    ) -> Result<WorkflowStep<PhasedEnd>, WorkflowError> {
        let summary = self.mailbox.read(SUMMARY).unwrap_or_default();
        let feedback = format!(
            "The task was accepted after {} iterations and {} gate failures in a row, with this summary:\n\n\
             <summary>\n{summary}\n</summary>\n\n\
             Change nothing, accept and reject nothing. Say how the work went, as one JSON object in your last message: \
             difficulty (an object of overall, findingCommands, fileOperations, debugging, each from 1, easy, to 5), \
             friction (a list of objects of command, expected, actual, suggestion), wishedFor, confusingParts, \
             workarounds, runtimeErrors (lists of sentences), wouldRecommend (true or false), oneSentenceSummary, and, if \
             you like, freeformComments.",
            record.iterations, record.failures,
        );
        let name = format!("{item}{REFLECTION}");
        let works = acceptance.works.clone();
        self.inquire(record, &VerifierInquiry { item: &name, feedback: &feedback, works })
    }

    /// Notes what a run said of the task. What is no answer is dropped.
    pub(super) fn conclude_reflection(
        &mut self,
        record: &LoopRecord,
        result: &RunResult,
    ) -> Result<(), WorkflowError> {
        let said = result.final_message.as_deref().unwrap_or_default();
        let (item, now) = (item_of(record.task.number), self.session.context.clock.now());
        let Some(line) = reflection_line(said, &item, &now.to_string()) else {
            return self.note("the reflection on the task could not be read, and is dropped");
        };
        let mut text = self.mailbox.read(REFLECTIONS).unwrap_or_default();
        while text.len() > LARGEST {
            let end = text.find('\n').map_or(text.len(), |end| end + 1);
            text.drain(..end);
        }
        self.mailbox.make_ready()?;
        self.mailbox.write(REFLECTIONS, &format!("{text}{line}\n"))?;
        Ok(())
    }

    /// A task that is done is done, even if asking how it went was stopped.
    pub(super) fn without_reflection(
        &self,
        ended: Ended<PhasedEnd>,
    ) -> Result<Ended<PhasedEnd>, WorkflowError> {
        let record = self.record()?;
        Ok(match (ended, record.map(|record| record.standing)) {
            (Ended::Stopped(_), Some(LoopStanding::Done { acceptance })) => {
                Ended::By(self.done(&acceptance))
            }
            (ended, _) => ended,
        })
    }
}
