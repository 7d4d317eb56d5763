//! The plan in the mailbox: which document counts, and whether it is valid.

use ralph_model::phase::{LoopFact, LoopPhase, LoopRecord, PlanMark, PlanVerdict};
use ralph_outline::finding::report;
use ralph_outline::language::{LANGUAGES, PlanCheck, PlanSurroundings, find_plan};
use ralph_outline::outline::Outline;

use super::Phased;
use crate::digest;
use crate::mailbox::Mailbox;
use crate::workflow::WorkflowError;
use crate::workflow::repositories::BeforeAll;

/// A plan document that is in the mailbox.
pub(super) struct FoundPlan {
    pub(super) mark: PlanMark,
    pub(super) text: String,
}

fn mark(file: &str, text: &str) -> PlanMark {
    PlanMark { file: file.to_owned(), digest: digest::of_data(&text) }
}

/// Returns every plan document, also those that do not count.
pub(super) fn present_plans(mailbox: &Mailbox) -> Vec<PlanMark> {
    let read = |file: &str| mailbox.read(file);
    let found = LANGUAGES.iter().filter_map(|language| {
        let text = read(language.file_name()).filter(|text| language.is_plan(text))?;
        Some(mark(language.file_name(), &text))
    });
    found.collect()
}

/// How many failed checks of a plan are named to the person; the mailbox has all.
const MOST_FAILS_NAMED: usize = 3;

impl Phased<'_, '_> {
    /// Returns the plan that counts.
    pub(super) fn plan(&self) -> Option<FoundPlan> {
        let (language, text) = find_plan(|file| self.mailbox.read(file))?;
        Some(FoundPlan { mark: mark(language.file_name(), &text), text })
    }

    /// Validates the plan where that is due, and tells when the phase changes.
    pub(super) fn check_plan(
        &mut self,
        record: &LoopRecord,
        before: &BeforeAll,
    ) -> Result<(), WorkflowError> {
        let documents = present_plans(&self.mailbox);
        let verdict = match self.plan() {
            None => PlanVerdict::Absent,
            Some(FoundPlan { mark: plan, .. }) if record.validated.as_ref() == Some(&plan) => {
                PlanVerdict::Valid { plan, report: String::new() }
            }
            Some(found) => {
                let checked = self.examine_plan(before)?;
                let report = report(&checked.findings);
                let plan = found.mark;
                if checked.is_valid() {
                    PlanVerdict::Valid { plan, report }
                } else {
                    PlanVerdict::Invalid { plan, report }
                }
            }
        };
        let told = match &verdict {
            PlanVerdict::Invalid { plan, report } => {
                let fails: Vec<&str> =
                    report.lines().filter(|line| line.starts_with("FAIL")).collect();
                let checks = if fails.len() == 1 { "check" } else { "checks" };
                let first = fails[..fails.len().min(MOST_FAILS_NAMED)].join("; ");
                let more = if fails.len() > MOST_FAILS_NAMED { "; …" } else { "" };
                let (file, count) = (&plan.file, fails.len());
                Some(format!("{file} is not valid: {count} {checks} failed: {first}{more}"))
            }
            PlanVerdict::Valid { plan, .. } if record.phase == LoopPhase::Plan => {
                Some(format!("{} is valid; the phase is BUILD", plan.file))
            }
            PlanVerdict::Valid { plan, .. } if record.validated.as_ref() != Some(plan) => {
                Some(format!("{} was changed during BUILD; it is valid", plan.file))
            }
            PlanVerdict::Absent if record.phase == LoopPhase::Build => {
                Some("the plan is gone; the phase is PLAN again".to_owned())
            }
            _ => None,
        };
        self.settle(&LoopFact::PlanChecked { documents, verdict })?;
        told.map_or(Ok(()), |told| self.note(told))
    }

    /// Checks the plan that counts against the tree that the task began with.
    fn examine_plan(&self, before: &BeforeAll) -> Result<PlanCheck, WorkflowError> {
        let Some((language, text)) = find_plan(|file| self.mailbox.read(file)) else {
            return Ok(PlanCheck { outline: Outline::default(), findings: Vec::new() });
        };
        let context = &self.session.context;
        let tree = &self.tree_before(before)?;
        let root = self.root().as_std_path();
        let is_program = |name: &str| context.environment.find_program(name, root).is_some();
        let rules = &self.settings.rules;
        Ok(language.check(&text, &PlanSurroundings { rules, tree, is_program: &is_program }))
    }

    /// Returns what the validated plan promises, if there is one.
    pub(super) fn outline(
        &self,
        record: &LoopRecord,
        before: &BeforeAll,
    ) -> Result<Option<Outline>, WorkflowError> {
        if record.validated.is_none() {
            return Ok(None);
        }
        Ok(Some(self.examine_plan(before)?.outline))
    }
}
