//! The work of a completion before the judge: all gates run, and what they say goes into one feedback file.

use ralph_model::build::{Acceptance, Work};
use ralph_model::gate::Effect;
use ralph_model::id::RunId;
use ralph_model::journal::{QuestionKind, ReasonText, StepResult, VerdictKind, VerdictReached};
use ralph_model::phase::mailbox::{BUILD_ERRORS, PLAN_DIFF, SUMMARY, touched};
use ralph_model::phase::{LoopFact, LoopRecord, LoopStanding};
use ralph_model::run::Trouble;
use ralph_model::verdict::{PersonQuestion, Reason, Verdict};
use ralph_outline::checks::{changes_components, is_before_work, plan_diff};
use ralph_outline::diff::PlanDiff;
use ralph_outline::feedback::{GateWords, gate_feedback};

use super::gates::BUILD;
use super::{Phased, PhasedEnd, item_of};
use crate::config::LoopPreset;
use crate::files::plain::read_start;
use crate::gates::assess::GateFinding;
use crate::gates::{BuiltInContext, CandidateFiles};
use crate::judge::{AgreedChecks, Case, lowest};
use crate::run::RunResult;
use crate::workflow::WorkflowError;
use crate::workflow::driver::Turn;
use crate::workflow::isolation::landing::is_stuck_question;
use crate::workflow::merge_review::{self, ASKED_FIRST};
use crate::workflow::repositories::BeforeAll;
use crate::workflow::review::{self, ReviewStanding};

/// How much of a gate's output goes into the feedback.
const MOST_WORDS: usize = 16 << 10;

/// Who settles what the judge cannot decide.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PersonsWord {
    NotAsked,
    Given,
}

/// What the judge says of all work together.
#[derive(Default)]
struct Findings {
    reasons: Vec<Reason>,
    question: Option<PersonQuestion>,
}

/// The work in addition to its plan and base.
struct Comparison {
    diff: Option<PlanDiff>,
    is_begun: bool,
    /// An application without a plan, of which no component was changed.
    is_nothing_built: bool,
}

impl Findings {
    fn of(works: &[Work], cases: &[Case], review: &ReviewStanding) -> Result<Findings, Trouble> {
        let mut found = Findings::default();
        for (case, report) in cases.iter().zip(&review.reports(works)) {
            match case.verdict(report)? {
                Verdict::Rejected { reasons } => found.reasons.extend(reasons),
                // Only a verifier says that a plan is invalid, and there is none here.
                Verdict::Accepted { .. } | Verdict::PlanInvalid { .. } => {}
                Verdict::NeedsHuman { question } => {
                    found.question.get_or_insert(question);
                }
            }
        }
        if let (ReviewStanding::Unclear { why }, Some(work)) = (review, works.first()) {
            let (commit, said) = (work.commit.clone(), why.clone());
            found.question.get_or_insert(PersonQuestion::VerifierUnclear { commit, said });
        }
        Ok(found)
    }
}

impl Phased<'_, '_> {
    /// Has the judge decide on what a run says is complete.
    pub(super) fn judge(
        &mut self,
        record: &LoopRecord,
        before: &BeforeAll,
        result: &RunResult,
    ) -> Result<Turn<PhasedEnd>, WorkflowError> {
        let works = self.works(before)?;
        self.judge_works(record, before, works, Some(result.run.clone()), PersonsWord::NotAsked)
    }

    /// Has the judge decide on work. `run` made the claim; a person's decision has none.
    pub(super) fn judge_works(
        &mut self,
        record: &LoopRecord,
        before: &BeforeAll,
        works: Vec<Work>,
        run: Option<RunId>,
        consent: PersonsWord,
    ) -> Result<Turn<PhasedEnd>, WorkflowError> {
        let item = item_of(record.task.number);
        let pinned = self.pin(&item)?;
        let summary = self.mailbox.read(SUMMARY);
        let outline = self.outline(record, before)?;
        let (rules, files) = (self.settings.rules.clone(), self.files_of(before, &works)?);
        let beside = BuiltInContext {
            files: Some(&files),
            ..BuiltInContext::new(&rules, outline.as_ref(), summary.as_deref())
        };
        let cases = match self.measured.take(&item, &works) {
            Some(cases) => cases,
            None => self.examine(&item, before, &pinned, &works, beside)?,
        };
        self.back_to_branches(&item)?;
        let Comparison { diff, is_begun, is_nothing_built } = self.compare(&works, &files, &beside);
        self.write_reports(diff.as_ref(), &cases)?;
        let state = &self.session.context.state;
        let review = review::standing(state, &item, &works, &cases, &record.task.text)?;
        let mut found = match Findings::of(&works, &cases, &review) {
            Ok(found) => found,
            Err(trouble) => return Ok(Turn::Trouble(trouble)),
        };
        if !found.reasons.is_empty() || works.is_empty() {
            let reasons = found.reasons.iter().map(|reason| reason_text(reason, &cases)).collect();
            review::forget(&self.session.context.state, &item)?;
            self.tell_rejected(&item, works.first(), reasons)?;
            // A person's decision is about work that was examined when its run ended.
            let touched = match &run {
                Some(_) => touched(record, |name| self.mailbox.read(name)),
                None => Vec::new(),
            };
            let fact = LoopFact::GatesFailed {
                run,
                gates: failed_names(&found.reasons),
                feedback: feedback(&found.reasons, &cases, diff.as_ref()),
                before_work: !is_begun,
                touched,
            };
            self.settle(&fact)?;
            return Ok(Turn::Failed);
        }
        if matches!(review, ReviewStanding::Wanted) && consent == PersonsWord::NotAsked {
            self.measured.keep(&item, &works, &cases);
            let question = ASKED_FIRST.to_owned();
            self.settle(&LoopFact::Undecided { run, works, question })?;
            return Ok(Turn::Progress);
        }
        // Without a plan nothing tells a small fix of the styles from a scaffold that was left as it was.
        if let Some(work) = works.first().filter(|_| is_nothing_built) {
            let commit = work.commit.clone();
            found.question.get_or_insert(PersonQuestion::NothingBuilt { commit });
        }
        if let Some(question) = found.question.filter(|_| consent == PersonsWord::NotAsked) {
            let verdict = Verdict::NeedsHuman { question: question.clone() };
            self.tell(VerdictReached {
                commit: works.first().map(|work| work.commit.to_string()),
                ..VerdictReached::of(&item, "judge", &verdict)
            })?;
            let question = question.to_string();
            self.settle(&LoopFact::Undecided { run, works, question: question.clone() })?;
            return self.ask_person(&item, question, QuestionKind::Accept);
        }
        let agreed = match consent {
            PersonsWord::Given => AgreedChecks::Person,
            PersonsWord::NotAsked => review.agreed(&cases),
        };
        self.attest(&item, before, &pinned, &cases, (review.receipt(), agreed))?;
        let state = &self.session.context.state;
        let level = merge_review::level(state, &item, &works, lowest(&cases))?;
        let done_at = works.first().map(|work| work.commit.clone());
        let acceptance = Acceptance { done_at, works, level };
        let by = if consent == PersonsWord::Given { "person" } else { review.by() };
        self.tell(VerdictReached {
            item: item.clone(),
            commit: acceptance.done_at.as_ref().map(ToString::to_string),
            verdict: VerdictKind::Accepted,
            by: by.to_owned(),
            level: Some(acceptance.level),
            ..VerdictReached::default()
        })?;
        let summary = summary.unwrap_or_else(|| record.task.text.clone());
        self.settle(&LoopFact::Accepted { run, acceptance, summary })?;
        match self.record()?.map(|record| record.standing) {
            // A verifier is asked first, or it is only to be judged again.
            Some(LoopStanding::Undecided { question, .. }) if !is_stuck_question(&question) => {
                Ok(Turn::Again)
            }
            Some(LoopStanding::Undecided { question, .. }) => {
                self.ask_person(&item, question, QuestionKind::Retry)
            }
            // The branch has moved, which is others' luck.
            Some(LoopStanding::Working) => Ok(Turn::Again),
            _ => {
                self.reflects = self.settings.reflect;
                Ok(Turn::Progress)
            }
        }
    }

    /// Compares the work with the plan, and with where it began.
    fn compare(
        &self,
        works: &[Work],
        files: &CandidateFiles,
        beside: &BuiltInContext<'_>,
    ) -> Comparison {
        if works.is_empty() {
            return Comparison { diff: None, is_begun: true, is_nothing_built: false };
        }
        let input = files.input(beside);
        let is_web_app = self.settings.preset == LoopPreset::WebApp;
        Comparison {
            diff: plan_diff(&input),
            is_begun: !(is_web_app && is_before_work(&input)),
            is_nothing_built: is_web_app && input.outline.is_none() && !changes_components(&input),
        }
    }

    /// Writes the reports of gates that have a file of their own, and removes those that are clean.
    fn write_reports(&self, diff: Option<&PlanDiff>, cases: &[Case]) -> Result<(), WorkflowError> {
        match diff.filter(|diff| !diff.is_clean()) {
            Some(diff) => self.mailbox.write(PLAN_DIFF, &diff.report())?,
            None => self.mailbox.remove(PLAN_DIFF)?,
        }
        let findings = cases.iter().flat_map(|case| &case.assessment.findings);
        let is_broken = |finding: &&GateFinding| {
            finding.gate.name == BUILD && finding.attribution.effect() == Effect::Block
        };
        match findings.into_iter().find(is_broken) {
            Some(finding) => {
                let text = format!("# Build Errors\n\n```\n{}\n```\n", words(finding).text.trim());
                self.mailbox.write(BUILD_ERRORS, &text)?;
            }
            None => self.mailbox.remove(BUILD_ERRORS)?,
        }
        Ok(())
    }

    /// Tells that work is rejected, and why the iteration under way failed.
    pub(super) fn tell_rejected(
        &mut self,
        item: &str,
        work: Option<&Work>,
        reasons: Vec<ReasonText>,
    ) -> Result<(), WorkflowError> {
        let told: Vec<&str> = reasons.iter().map(|reason| reason.text.as_str()).collect();
        let told = (!told.is_empty()).then(|| told.join(" "));
        self.end_iteration(StepResult::Failed, told)?;
        self.tell(VerdictReached {
            item: item.to_owned(),
            commit: work.map(|work| work.commit.to_string()),
            verdict: VerdictKind::Rejected,
            by: "judge".to_owned(),
            reasons,
            ..VerdictReached::default()
        })
    }

    pub(super) fn tell_persons_verdict(
        &mut self,
        item: &str,
        verdict: VerdictKind,
        answer: &str,
    ) -> Result<(), WorkflowError> {
        self.tell(VerdictReached {
            item: item.to_owned(),
            verdict,
            by: "person".to_owned(),
            reasons: vec![ReasonText::new("person", answer)],
            ..VerdictReached::default()
        })
    }
}

fn failed_names(reasons: &[Reason]) -> Vec<String> {
    let name = |reason: &Reason| match reason {
        Reason::Gate { report } => report.gate.clone(),
        other => other.code().to_owned(),
    };
    reasons.iter().map(name).collect()
}

/// Says a reason for people: what one of the harness's own gates found is said in its words.
fn reason_text(reason: &Reason, cases: &[Case]) -> ReasonText {
    let Reason::Gate { report } = reason else { return ReasonText::from(reason) };
    let mut findings = cases.iter().flat_map(|case| &case.assessment.findings);
    let own = findings.find(|one| one.gate.name == report.gate && one.gate.built_in().is_some());
    let said = own.map(|finding| words(finding).text).unwrap_or_default();
    let line = said.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    match line {
        Some(line) => ReasonText::new(reason.code(), &format!("{}: {line}", report.gate)),
        None => ReasonText::from(reason),
    }
}

/// Formats everything that speaks against the work, in the gates' own words.
fn feedback(reasons: &[Reason], cases: &[Case], diff: Option<&PlanDiff>) -> String {
    let others: Vec<String> = reasons
        .iter()
        .filter(|reason| !matches!(reason, Reason::Gate { .. }))
        .map(Reason::for_agent)
        .collect();
    let findings = || cases.iter().flat_map(|case| &case.assessment.findings);
    let blocks = |finding: &&GateFinding| finding.attribution.effect() == Effect::Block;
    let failed: Vec<GateWords> = findings().filter(blocks).map(words).collect();
    let informs = |finding: &&GateFinding| !blocks(finding) && finding.gate.built_in().is_some();
    let passed: Vec<GateWords> = findings().filter(informs).map(words).collect();
    let owners = diff.map(|diff| diff.owners.clone()).unwrap_or_default();
    gate_feedback(&failed, &others, &passed, &owners)
}

/// Returns what a gate said: all of it for one of the harness's own, else how its output ended.
fn words(finding: &GateFinding) -> GateWords {
    let output = &finding.deciding().output;
    let built_in = finding.gate.built_in();
    let text = if built_in.is_some() {
        let bytes = read_start(output.path.as_str().into(), MOST_WORDS).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    } else {
        output.last.clone()
    };
    GateWords { name: finding.gate.name.clone(), built_in, text }
}
