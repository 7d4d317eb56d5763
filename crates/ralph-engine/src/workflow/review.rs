//! One verifier's run before work lands, where the judge has a question: checks were changed and the work does not pass with
//! them as they were, or a gate was red before and after, or is flaky.
//!
//! The pipeline has a phase for that. Everywhere else the item waits as *undecided* while a record in private state says what
//! is asked, then what was said. What was said is tested each time the work is judged, so that a restart concludes the same.
//! An answer that cannot be used is asked for once more in the same session; then a person decides.

use ralph_model::build::Work;
use ralph_model::contract::{DEFAULT_MAGIC_PHRASE, FinalMessage};
use ralph_model::id::RunId;
use ralph_model::journal::Note;
use ralph_model::pipeline::records::Base;
use ralph_model::prompt::{Continuation, ReviewPrompt};
use ralph_model::receipt::{Opinion, VerifierReceipt};
use ralph_model::role::Role;
use ralph_model::run::{RunOutcome, Trouble};
use ralph_model::verdict::{
    Agreement, AnswerTest, CheckAnswer, CheckOpinion, Tested, VerifierQuestion, VerifierReport,
};
use serde::{Deserialize, Serialize};

use super::driver::{Turn, WorkflowStep};
use super::project::Project;
use super::repositories::{WorkCheckout, key};
use super::spec_text::SpecText;
use super::{WorkflowError, merge_review, unfinished};
use crate::files::PathError;
use crate::gates::pin::PinnedGates;
use crate::judge::{AgreedChecks, Case};
use crate::run::RunResult;
use crate::session::{AgentTask, Session};
use crate::state::{Entry, State};

/// How a verifier's item is named that is asked about work on an item.
pub(crate) const REVIEW: &str = "-review";
/// How often an answer may not be usable before a person is asked.
const MOST_SLIPS: u32 = 2;

const REVIEWS: Entry<ReviewRecord> = Entry::new("reviews", "a verifier is asked again");

/// What is asked about work, and what was said.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct ReviewRecord {
    pub(super) works: Vec<Work>,
    pub(super) questions: Vec<VerifierQuestion>,
    /// The run that answered last.
    #[serde(default)]
    pub(super) run: Option<RunId>,
    #[serde(default)]
    pub(super) said: Option<VerifierSaid>,
    /// What was wrong with the last answer.
    #[serde(default)]
    slip: Option<String>,
    #[serde(default)]
    slips: u32,
    #[serde(default)]
    session: Option<String>,
}

impl ReviewRecord {
    /// Asks these about work.
    pub(super) fn asking(works: &[Work], questions: Vec<VerifierQuestion>) -> ReviewRecord {
        ReviewRecord { works: works.to_vec(), questions, ..ReviewRecord::default() }
    }

    /// Takes what a verifier said. A run that did not end by itself said nothing that can be used.
    pub(super) fn answer(&mut self, result: &RunResult) {
        let message = match unfinished(&result.outcome) {
            Some(_) => String::new(),
            None => result.final_message.clone().unwrap_or_default(),
        };
        let (agent, model) = (result.agent.clone(), result.model.clone());
        self.said = Some(VerifierSaid { message, agent, model });
        self.session = result.session.clone().filter(|_| result.outcome == RunOutcome::Completed);
        self.run = Some(result.run.clone());
    }
}

/// What a verifier said.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct VerifierSaid {
    message: String,
    agent: String,
    model: Option<String>,
}

/// What comes of testing one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReviewAnswer {
    Agrees(Agreement),
    Objects(String),
    /// It cannot be used, for this reason.
    Slip(String),
}

/// What is known of the question about some work.
pub(super) enum ReviewStanding {
    NotNeeded,
    /// A verifier has to be asked, or asked again.
    Wanted,
    Agreed {
        agreement: Agreement,
        verifier: VerifierReceipt,
    },
    Objected {
        report: String,
    },
    /// No answer could be used.
    Unclear {
        why: String,
    },
}

impl ReviewStanding {
    /// Says of each work what the verifier says of it.
    pub(super) fn reports(&self, works: &[Work]) -> Vec<VerifierReport> {
        let report = |(at, work): (usize, &Work)| match self {
            ReviewStanding::Agreed { agreement, .. } => {
                VerifierReport::Verified { commit: work.commit.clone(), agreed: agreement.clone() }
            }
            ReviewStanding::Objected { report } if at == 0 => {
                VerifierReport::NotVerified { report: report.clone() }
            }
            _ => VerifierReport::NotAsked,
        };
        works.iter().enumerate().map(report).collect()
    }

    /// Returns what a receipt says of the verifier.
    pub(super) fn receipt(&self) -> Option<VerifierReceipt> {
        match self {
            ReviewStanding::Agreed { verifier, .. } => Some(verifier.clone()),
            _ => None,
        }
    }

    /// Returns who agreed with changed checks, if no person did.
    pub(super) fn agreed(&self, cases: &[Case]) -> AgreedChecks {
        match self {
            ReviewStanding::Agreed { agreement, .. } => agreed_by(cases, agreement),
            _ => AgreedChecks::Nobody,
        }
    }

    /// Returns who reached the verdict.
    pub(super) const fn by(&self) -> &'static str {
        match self {
            ReviewStanding::Agreed { .. } | ReviewStanding::Objected { .. } => "verifier",
            _ => "judge",
        }
    }
}

/// Says which changed checks a verifier agreed with, and why.
pub(super) fn agreed_by(cases: &[Case], agreement: &Agreement) -> AgreedChecks {
    let paths = cases.iter().flat_map(Case::asked_checks).collect();
    AgreedChecks::With { paths, answers: agreement.answers().to_vec() }
}

/// Tests the answers about changed checks in a message.
pub(super) fn tested(cases: &[Case], spec: &str, message: &str) -> Tested {
    let asked: Vec<String> = cases.iter().flat_map(Case::questioned_checks).collect();
    let (mut before, mut passed) = (Vec::new(), Vec::new());
    for case in cases {
        let (then, now) = case.passed_tests();
        before.extend(then);
        passed.extend(now);
    }
    AnswerTest { asked: &asked, spec, before, passed }.test(message)
}

/// Formats what a verifier calls weaker, for the agent that did the work.
pub(super) fn weaker(answers: &[CheckAnswer]) -> String {
    let told = answers.iter().filter_map(|answer| match &answer.opinion {
        CheckOpinion::Weaker { why } => {
            Some(format!("`{}` checks less than before: {why}", answer.path))
        }
        _ => None,
    });
    told.collect::<Vec<_>>().join("\n")
}

/// Formats what is wrong with answers, for the verifier.
pub(super) fn slips_of(slips: &[ralph_model::verdict::AnswerSlip]) -> String {
    slips.iter().map(|slip| format!("- {slip}")).collect::<Vec<_>>().join("\n")
}

/// Reads what a verifier says of work that the judge had a question about.
fn read(cases: &[Case], works: &[Work], spec: &str, message: &str) -> ReviewAnswer {
    let answer = FinalMessage::new(message);
    let tested = tested(cases, spec, message);
    if let Tested::Weaker(answers) = &tested {
        return ReviewAnswer::Objects(weaker(answers));
    }
    if answer.not_verified().is_some() {
        return ReviewAnswer::Objects(message.trim().to_owned());
    }
    let claim = answer.verifier_claim(DEFAULT_MAGIC_PHRASE);
    let Some(first) = works.first() else {
        return ReviewAnswer::Slip("nothing is asked".to_owned());
    };
    let is_verified = match VerifierReport::read(&claim, &first.commit, message) {
        VerifierReport::Verified { commit, .. } => commit == first.commit,
        VerifierReport::PlanInvalid { reason } => return ReviewAnswer::Objects(reason),
        _ => false,
    };
    match tested {
        Tested::Slips(slips) => ReviewAnswer::Slip(slips_of(&slips)),
        _ if !is_verified => ReviewAnswer::Slip(format!(
            "- the last two lines are not the commit's name and the phrase, and no line begins with `NOT_VERIFIED:`; they are: {}",
            answer.ending()
        )),
        Tested::Agreed(agreement) => ReviewAnswer::Agrees(agreement),
        Tested::Weaker(_) => unreachable!("it was returned above"),
    }
}

/// Says what is known of the questions about work, and about its merge with what the branch has become. Where a verifier is
/// to be asked, that is recorded.
pub(super) fn standing(
    state: &State,
    item: &str,
    works: &[Work],
    cases: &[Case],
    spec: &str,
) -> Result<ReviewStanding, PathError> {
    let of_work = standing_of_work(state, item, works, cases, spec)?;
    if !matches!(of_work, ReviewStanding::NotNeeded | ReviewStanding::Agreed { .. }) {
        return Ok(of_work);
    }
    Ok(match merge_review::standing(state, item, works)? {
        None => of_work,
        // The approvals of the work's verifier remain valid.
        Some(ReviewStanding::Agreed { .. }) if !matches!(of_work, ReviewStanding::NotNeeded) => {
            of_work
        }
        Some(of_merge) => of_merge,
    })
}

fn standing_of_work(
    state: &State,
    item: &str,
    works: &[Work],
    cases: &[Case],
    spec: &str,
) -> Result<ReviewStanding, PathError> {
    if !cases.iter().any(Case::needs_verifier) {
        return Ok(ReviewStanding::NotNeeded);
    }
    let questions: Vec<VerifierQuestion> = cases.iter().flat_map(Case::questions).collect();
    let kept = REVIEWS.load(state, item)?.filter(|kept| kept.works == works);
    let record = kept.unwrap_or_else(|| ReviewRecord::asking(works, questions.clone()));
    if record.said.is_none() {
        REVIEWS.save(state, item, &record)?;
        return Ok(ReviewStanding::Wanted);
    }
    let (standing, again) = standing_of(&record, cases, spec);
    if let Some(again) = again {
        REVIEWS.save(state, item, &ReviewRecord { questions, ..again })?;
    }
    Ok(standing)
}

/// Tests what was said about cases of the record's work. Returns a record too, if it is to be asked once more.
pub(super) fn standing_of(
    record: &ReviewRecord,
    cases: &[Case],
    spec: &str,
) -> (ReviewStanding, Option<ReviewRecord>) {
    let Some(said) = record.said.clone() else { return (ReviewStanding::Wanted, None) };
    let standing = match read(cases, &record.works, spec, &said.message) {
        ReviewAnswer::Agrees(agreement) => {
            let VerifierSaid { agent, model, .. } = said;
            let verifier = VerifierReceipt { agent, model, opinion: Opinion::Verified };
            ReviewStanding::Agreed { agreement, verifier }
        }
        ReviewAnswer::Objects(report) => ReviewStanding::Objected { report },
        ReviewAnswer::Slip(why) if record.slips + 1 >= MOST_SLIPS => {
            ReviewStanding::Unclear { why }
        }
        ReviewAnswer::Slip(why) => {
            let slips = record.slips + 1;
            let again = ReviewRecord { said: None, slip: Some(why), slips, ..record.clone() };
            return (ReviewStanding::Wanted, Some(again));
        }
    };
    (standing, None)
}

/// Tells whether a verifier is to be asked about this work, or about its merge.
pub(super) fn is_wanted(state: &State, item: &str, works: &[Work]) -> Result<bool, PathError> {
    let kept = REVIEWS.load(state, item)?;
    let is_wanted = kept.is_some_and(|kept| kept.works == works && kept.said.is_none());
    Ok(is_wanted || !merge_review::questions(state, item, works)?.is_empty())
}

/// Returns the gates that a verifier was asked about for this work.
pub(super) fn asked_gates(
    state: &State,
    item: &str,
    works: &[Work],
) -> Result<Vec<String>, PathError> {
    let kept = REVIEWS.load(state, item)?.filter(|kept| kept.works == works);
    let questions = kept.map(|kept| kept.questions).unwrap_or_default();
    let gates = questions.into_iter().filter_map(|question| match question {
        VerifierQuestion::Gate { report } => Some(report.gate),
        _ => None,
    });
    Ok(gates.collect())
}

/// Keeps what a verifier said.
pub(super) fn keep(state: &State, item: &str, result: &RunResult) -> Result<(), PathError> {
    if merge_review::keep(state, item, result)? {
        return Ok(());
    }
    let Some(mut record) = REVIEWS.load(state, item)? else { return Ok(()) };
    if record.run.as_ref() == Some(&result.run) {
        return Ok(());
    }
    record.answer(result);
    REVIEWS.save(state, item, &record)
}

/// Notes that a verifier's answer about work cannot be used; tells whether it is asked once more.
pub(super) fn note_slip(
    state: &State,
    item: &str,
    works: Vec<Work>,
    why: &str,
    result: &RunResult,
) -> Result<bool, PathError> {
    let kept = REVIEWS.load(state, item)?.filter(|kept| kept.works == works);
    let record = kept.unwrap_or_default();
    if record.run.as_ref() == Some(&result.run) {
        return Ok(record.slips < MOST_SLIPS);
    }
    let (run, session) = (Some(result.run.clone()), result.session.clone());
    let (slip, slips) = (Some(why.to_owned()), record.slips + 1);
    REVIEWS.save(state, item, &ReviewRecord { works, run, slip, slips, session, ..record })?;
    Ok(slips < MOST_SLIPS)
}

/// What was wrong with a verifier's last answer about work, and the session in which it can mend it.
pub(super) struct LastSlip {
    pub(super) why: String,
    pub(super) session: Option<String>,
}

/// Returns what was wrong with a verifier's last answer about this work.
pub(super) fn last_slip(
    state: &State,
    item: &str,
    works: &[Work],
) -> Result<Option<LastSlip>, PathError> {
    let kept = REVIEWS.load(state, item)?.filter(|kept| kept.works == works);
    Ok(kept.and_then(|kept| Some(LastSlip { why: kept.slip?, session: kept.session })))
}

/// Forgets what was said of work on an item.
pub(super) fn forget(state: &State, item: &str) -> Result<(), PathError> {
    merge_review::forget(state, item)?;
    REVIEWS.forget(state, item)
}

/// What a verifier is given to answer with.
pub(super) struct ReviewRequest<'a> {
    pub(super) workflow: &'static str,
    pub(super) item: &'a str,
    /// The text that decides.
    pub(super) source: &'a SpecText,
    /// What was to be done.
    pub(super) tasks: &'a str,
    pub(super) base: &'a Base,
    pub(super) pinned: &'a PinnedGates,
}

/// The step of a workflow whose work to review is gone: trouble, not a verdict.
pub(super) fn missing_work<E>() -> WorkflowStep<E> {
    let message = "the work to review is missing".to_owned();
    WorkflowStep::Turn(Turn::Trouble(Trouble::Machine { message }))
}

/// Returns the run of a verifier that answers what is asked about work, in a checkout of its own; `None` if the work is not
/// there any more.
pub(super) fn task(
    session: &mut Session<'_>,
    project: &Project,
    request: &ReviewRequest<'_>,
) -> Result<Option<AgentTask>, WorkflowError> {
    let state = &session.context.state;
    let record = match merge_review::open_review(state, request.item)? {
        Some(of_merge) => of_merge,
        None => REVIEWS.load(state, request.item)?.unwrap_or_default(),
    };
    let name = format!("{}{REVIEW}", request.item);
    let (repositories, pinned) = (&project.repositories, request.pinned);
    let checkouts = session.with_gates(&name, |context, tell| {
        repositories.checkouts_for_verifier(context, pinned, &record.works, tell)
    })?;
    let Some((first, others)) = checkouts.split_first() else { return Ok(None) };
    let elsewhere: Vec<String> = others.iter().map(|one| one.describe(request.base)).collect();
    let elsewhere = elsewhere.join("\n");
    if record.slip.is_some() {
        let reason = "the verifier's answer could not be used; asking it once more".to_owned();
        session.record(Note { task: Some(request.item.to_owned()), reason, ..Note::default() })?;
    }
    let context = ReviewPrompt {
        surroundings: project.surroundings(session, request.source, record.slip.as_deref()),
        tasks: request.tasks,
        commit: &first.work.commit,
        base: request.base.get(&key(&first.work.repository)),
        checkout: first.checkout.directory.as_str(),
        elsewhere: Some(elsewhere.as_str()).filter(|text| !text.is_empty()),
        gates: &pinned.gates,
        questions: &record.questions,
        magic_phrase: DEFAULT_MAGIC_PHRASE,
    };
    let launch = session.context.launch(Role::Verifier);
    let resume =
        record.session.filter(|_| record.slip.is_some() && launch.adapter.traits().resumes);
    let before = Continuation { is_resumed: resume.is_some(), ..Continuation::default() };
    let prompt = project.prompts.render_continued(&context, before);
    Ok(Some(AgentTask {
        attempt: session.journal.board().next_try(&name, Role::Verifier),
        resume,
        directory: Some(first.checkout.directory.clone()),
        writable: trees(&checkouts),
        ..AgentTask::new(request.workflow, Role::Verifier, &name, prompt)
    }))
}

fn trees(checkouts: &[WorkCheckout]) -> Vec<camino::Utf8PathBuf> {
    checkouts.iter().map(|found| found.checkout.tree.clone()).collect()
}

/// What was measured of work that waits for a verifier. Losing it costs time: it is measured again.
#[derive(Default)]
pub(super) struct MeasuredWork {
    kept: Option<(String, Vec<Work>, Vec<Case>)>,
}

impl MeasuredWork {
    pub(super) fn keep(&mut self, item: &str, works: &[Work], cases: &[Case]) {
        self.kept = Some((item.to_owned(), works.to_vec(), cases.to_vec()));
    }

    pub(super) fn take(&mut self, item: &str, works: &[Work]) -> Option<Vec<Case>> {
        let (kept, of, cases) = self.kept.take()?;
        (kept == item && of == works).then_some(cases)
    }
}
