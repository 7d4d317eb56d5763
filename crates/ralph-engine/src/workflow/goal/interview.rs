//! `ralph plan "<goal>"`: an interviewer asks, the person answers, a PRD is drafted, and the person decides on it.
//!
//! The state machine is `ralph_model::goal`; this file asks the person and runs the interviewer. Every answer is on
//! disk before the next question, so a killed interview resumes at the open question.

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use ralph_model::goal::{
    ExistingPrd, GoalBeginning, GoalEnd, GoalFact, GoalStage, GoalState, GoalStep, GoalWrite,
    OpenQuestion, settle,
};
use ralph_model::journal::{ConsentAsked, InterviewTurn, Note, PrdApproved};
use ralph_model::prd::{PRD_FILE, Prd};
use ralph_model::prompt::InterviewPrompt;
use ralph_model::role::Role;
use ralph_model::run::RunOutcome;

use super::store::GoalStore;
use super::{from_root, violation};
use crate::ask::{AskPerson, ConsentStep, Inquiry, MissingReply, NoReply};
use crate::detect::checks::detect_checks;
use crate::files::read_optional;
use crate::run::{RESULTS, RunReport, RunResult};
use crate::session::{AgentTask, Session, TaskContract};
use crate::workflow::driver::{
    Ended, Stop, Subject, Turn, Void, Workflow, WorkflowStep, drive, forget_troubles,
};
use crate::workflow::home_committer::CommittedFile;
use crate::workflow::overview::passing_on_branch;
use crate::workflow::project::{Project, work_root};
use crate::workflow::{WorkflowError, unfinished};

/// The name of the workflow in the results of its runs, and what they are for.
const WORKFLOW: &str = "goal";

/// How much of the map a prompt takes.
const MOST_MAP: usize = 64 << 10;

const CHANGES: &str = "What should change?";

/// What is offered where no command is known.
const UNKNOWN_CHECKS: &str = "not known yet";

/// An interview about one goal.
pub struct Interview<'r, 's> {
    session: &'r mut Session<'s>,
    project: &'r Project,
    person: &'r mut dyn AskPerson,
    store: GoalStore,
    state: GoalState,
    /// Where the diff of a run is that changed what it must not.
    diff: Option<Utf8PathBuf>,
}

/// How an interview ended by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterviewEnd {
    /// The PRD is written.
    Approved,
    /// The person wants nothing written, now.
    NotApproved,
    /// The interviewer's answers were not valid, again and again.
    NotValid { problems: Vec<String> },
    /// The interviewer asks and never drafts.
    NoDraft { turns: u32 },
    /// There is no person to ask.
    Missing(MissingReply),
    /// The interviewer changed what it must not.
    Violation { paths: Vec<String>, diff: Option<Utf8PathBuf> },
}

/// Which interview is held.
#[derive(Clone, Debug)]
pub enum Start {
    /// Goes on with the one that is there.
    Resume(Box<GoalState>),
    Begin {
        goal: String,
        map_was_missing: bool,
        instead_of: Option<Box<GoalState>>,
    },
}

impl<'r, 's> Interview<'r, 's> {
    /// Begins or resumes an interview.
    pub fn open(
        session: &'r mut Session<'s>,
        project: &'r Project,
        person: &'r mut dyn AskPerson,
        start: Start,
    ) -> Result<Interview<'r, 's>, WorkflowError> {
        let context = &session.context;
        let store = GoalStore::new(context.home_path());
        let state = match start {
            Start::Resume(state) => store.heal(state.renewed())?,
            Start::Begin { goal, map_was_missing, instead_of } => {
                if let Some(old) = instead_of {
                    store.archive(&old)?;
                }
                RESULTS.forget(&context.state, WORKFLOW)?;
                let root = context.workspace.root.as_str();
                let (goal, at) = (goal.trim(), context.clock.now());
                let beginning = GoalBeginning { goal, root, map_was_missing, at };
                let state = GoalState::begin(&beginning);
                store.write_all(&[GoalWrite::State(Box::new(state.clone()))])?;
                store.heal(state)?
            }
        };
        forget_troubles(&session.context.state, WORKFLOW)?;
        Ok(Interview { session, project, person, store, state, diff: None })
    }

    /// Holds the interview.
    pub fn hold(&mut self) -> Result<Ended<InterviewEnd>, WorkflowError> {
        let ended = drive(self);
        self.project.leave_reading(self.session, WORKFLOW)?;
        let ended = ended?;
        if ended == Ended::By(InterviewEnd::Approved) && !self.is_prd_committed()? {
            self.project.committer.prepare()?;
            let message = format!("ralph: a PRD for the goal \"{}\"", one_line(&self.state.goal));
            self.project.commit_home(self.session, &message, None)?;
        }
        Ok(ended)
    }

    /// Tells whether the PRD was committed before, by a command that had it approved and got no further.
    fn is_prd_committed(&self) -> Result<bool, WorkflowError> {
        let found = self.project.committer.file_at_head(Utf8Path::new(PRD_FILE))?;
        let now = read_optional(&self.store.prd_path())?;
        Ok(matches!(found, CommittedFile::Committed(found) if found.is_some() && found == now))
    }

    /// Returns what is known at the end.
    pub fn into_state(self) -> GoalState {
        self.state
    }

    fn now(&self) -> Timestamp {
        self.session.context.clock.now()
    }

    /// Reads the PRD that is there. One that does not fit the schema is as good as none for the interview: whoever
    /// began it was asked about that.
    fn prd(&self) -> Result<Option<Prd>, WorkflowError> {
        Ok(self.store.prd()?.valid())
    }

    /// Turns a fact into writes.
    fn settle(&mut self, fact: &GoalFact<'_>) -> Result<(), WorkflowError> {
        let prd = self.prd()?;
        let writes = settle(&self.state, fact, prd.as_ref(), self.now())?;
        if let Some(state) = self.store.write_all(&writes)? {
            self.state = state;
        }
        Ok(())
    }

    fn choose_existing(&mut self, prd: &Prd) -> Result<Turn<InterviewEnd>, WorkflowError> {
        let path =
            from_root(&self.session.context.workspace.root, &self.store.prd_path()).to_string();
        let session = &self.session.context;
        let commits = session.config.git.commit_home;
        let branch = prd.branch_name.clone();
        let (laid, _) = passing_on_branch(
            &session.git(),
            &self.store.prd_path(),
            prd.clone(),
            &branch,
            commits,
        )?;
        let mut context = vec![format!("A PRD already exists ({path}):")];
        context.extend(laid.summary());
        let options = ["update it", "overwrite it"];
        let inquiry = Inquiry {
            id: "existing",
            context: &context,
            question: "What should happen to it when the new one is approved?",
            consent: None,
        };
        let choice = match self.person.choose(&inquiry, &options, 0) {
            Ok(0) => ExistingPrd::Update,
            Ok(_) => ExistingPrd::Overwrite,
            Err(none) => return Ok(unanswered(none)),
        };
        self.settle(&GoalFact::ExistingChosen(choice))?;
        Ok(Turn::Progress)
    }

    fn confirm_checks(&mut self) -> Result<Turn<InterviewEnd>, WorkflowError> {
        let context = &self.session.context;
        let configured = context.config.gates.iter().map(|gate| gate.run.join(" "));
        let configured: Vec<String> = configured.collect();
        let mut commands = configured.clone();
        if commands.is_empty() {
            let found = detect_checks(&context.workspace.root);
            commands = found.gates.iter().map(|gate| gate.run.join(" ")).collect();
        }
        let known =
            if commands.is_empty() { UNKNOWN_CHECKS.to_owned() } else { commands.join("\n") };
        let inquiry = Inquiry {
            id: "checks",
            context: &[],
            question: "Which commands verify the work (type check, tests, lint)? One per line.",
            consent: None,
        };
        let answer = match self.person.text(&inquiry, Some(&known)) {
            Ok(answer) => answer,
            Err(none) => return Ok(unanswered(none)),
        };
        let (question, answer) = (inquiry.question, answer.as_str());
        self.settle(&GoalFact::ChecksConfirmed { question, answer })?;
        if let Some(reason) = not_gates(answer, &configured).filter(|_| answer != UNKNOWN_CHECKS) {
            self.session.record(Note { reason, ..Note::default() })?;
        }
        Ok(Turn::Progress)
    }

    fn ask(&mut self, open: &OpenQuestion) -> Result<Turn<InterviewEnd>, WorkflowError> {
        let (id, question) = (open.id.as_str(), open.question.as_str());
        let inquiry = Inquiry { id, context: &[], question, consent: None };
        let answer = match self.person.text(&inquiry, None) {
            Ok(answer) => answer,
            Err(none) => return Ok(unanswered(none)),
        };
        let answer = if answer.trim().is_empty() { "(no answer)" } else { &answer };
        self.settle(&GoalFact::Answered { answer })?;
        Ok(Turn::Progress)
    }

    fn review(&mut self, draft: &Prd) -> Result<Turn<InterviewEnd>, WorkflowError> {
        let summary = draft.summary();
        let path =
            from_root(&self.session.context.workspace.root, &self.store.prd_path()).to_string();
        let question = format!("Write this PRD to `{path}`?");
        let consent = Some(ConsentStep::Prd);
        let inquiry = Inquiry { id: "prd", context: &summary, question: &question, consent };
        let approved = match self.person.confirm(&inquiry, false) {
            Ok(approved) => approved,
            Err(none) => return Ok(unanswered(none)),
        };
        let answer = if approved { "yes" } else { "no" }.to_owned();
        let step = ConsentStep::Prd.name().to_owned();
        self.session.record(ConsentAsked { step, reasons: summary, answer })?;
        if approved {
            self.keep_replaced_prd()?;
            self.settle(&GoalFact::Approved)?;
            let count = |number: usize| u32::try_from(number).ok();
            let (stories, failing) =
                (count(draft.user_stories.len()), count(draft.failing().len()));
            let branch = draft.branch_name.clone();
            self.session.record(PrdApproved { branch, stories, failing })?;
            return Ok(Turn::Progress);
        }
        let inquiry = Inquiry { id: "changes", context: &[], question: CHANGES, consent: None };
        match self.person.text(&inquiry, Some("")) {
            Ok(answer) if answer.trim().is_empty() => Ok(Turn::End(InterviewEnd::NotApproved)),
            Ok(answer) => {
                let (question, answer) = (CHANGES, answer.as_str());
                self.settle(&GoalFact::ChangesWanted { question, answer })?;
                Ok(Turn::Progress)
            }
            Err(none) => Ok(unanswered(none)),
        }
    }

    /// Keeps the PRD that is about to be replaced, with whatever the person changed in it: in a commit, or else in a
    /// file beside it.
    fn keep_replaced_prd(&mut self) -> Result<(), WorkflowError> {
        if self.prd()?.is_none() {
            return Ok(());
        }
        if self.project.committer.commits() {
            let message = "ralph: save home before a new PRD";
            return self.project.commit_home(self.session, message, None);
        }
        let kept = self.store.copy_prd(self.now())?;
        let reason = format!("the previous PRD is kept as `{kept}`");
        Ok(self.session.record(Note { reason, ..Note::default() })?)
    }

    fn turn(&mut self, prd: Option<&Prd>) -> Result<WorkflowStep<InterviewEnd>, WorkflowError> {
        self.project.enter_to_read(self.session, WORKFLOW)?;
        let state = &self.state;
        let answers = state
            .qa
            .iter()
            .map(|known| format!("Q ({}): {}\nA: {}", known.id, known.question, known.answer));
        let answers = answers.collect::<Vec<_>>().join("\n\n");
        let mut map = self.store.map()?;
        if map.len() > MOST_MAP {
            map.truncate(map.floor_char_boundary(MOST_MAP));
            map.push_str("\n\n(The map continues; read its file.)\n");
        }
        let draft = state.last_prd_draft.as_ref().map(Prd::render);
        let updated = prd.filter(|_| state.existing_prd == Some(ExistingPrd::Update));
        let updated = updated.map(Prd::render);
        let problems = state.problems.iter().map(|problem| format!("- {problem}"));
        let problems = problems.collect::<Vec<_>>().join("\n");
        let feedback = match problems.as_str() {
            "" => None,
            problems => Some(format!("{problems}\n\nAnswer with valid JSON only.")),
        };
        let prompt = self.project.prompts.render(&InterviewPrompt {
            surroundings: self.project.goal_surroundings(self.session, feedback.as_deref()),
            goal: &state.goal,
            answers: Some(answers.as_str()),
            draft: draft.as_deref(),
            prd: updated.as_deref(),
            map: Some(map.as_str()),
        });
        let task = AgentTask::new(WORKFLOW, Role::Interviewer, WORKFLOW, prompt);
        let attempt = state.tries_made() + 1;
        let contract = TaskContract::Envelope;
        Ok(WorkflowStep::Run(Box::new(AgentTask { attempt, contract, ..task })))
    }

    fn step(&mut self) -> Result<WorkflowStep<InterviewEnd>, WorkflowError> {
        let prd = self.prd()?;
        let turn = match self.state.next(prd.is_some()) {
            GoalStep::ChooseExisting => self.choose_existing(&prd.expect("there is one"))?,
            GoalStep::ConfirmChecks => self.confirm_checks()?,
            GoalStep::Ask(open) => {
                let open = open.clone();
                self.ask(&open)?
            }
            GoalStep::Review(draft) => {
                let draft = draft.clone();
                self.review(&draft)?
            }
            GoalStep::Turn => return self.turn(prd.as_ref()),
            GoalStep::End(end) => Turn::End(match end {
                GoalEnd::Approved => InterviewEnd::Approved,
                GoalEnd::NotValid { problems } => InterviewEnd::NotValid { problems },
                GoalEnd::NoDraft { turns } => InterviewEnd::NoDraft { turns },
            }),
        };
        Ok(WorkflowStep::Turn(turn))
    }
}

impl<'s> Workflow<'s> for Interview<'_, 's> {
    type End = InterviewEnd;

    fn session(&mut self) -> &mut Session<'s> {
        self.session
    }

    fn item(&self) -> Option<String> {
        Some(WORKFLOW.to_owned())
    }

    fn subject(&self) -> Subject {
        Subject { item: self.item(), ..Subject::default() }
    }

    fn failure(&self) -> Option<&'static str> {
        Some("no_completion")
    }

    fn pending(&mut self) -> Result<Option<RunResult>, WorkflowError> {
        let found = RESULTS.load(&self.session.context.state, WORKFLOW)?;
        Ok(found.filter(|result| {
            result.workflow == WORKFLOW && self.state.settled_run.as_ref() != Some(&result.run)
        }))
    }

    fn next(&mut self) -> Result<WorkflowStep<InterviewEnd>, WorkflowError> {
        self.step()
    }

    fn ended(&mut self, report: RunReport, _: &RunResult) -> Result<(), WorkflowError> {
        let root = work_root(self.session);
        self.diff = violation::write_down(&self.session.context.git(), root, &report)?;
        Ok(())
    }

    fn conclude(&mut self, result: &RunResult) -> Result<Turn<InterviewEnd>, WorkflowError> {
        if let RunOutcome::Violation { paths } = &result.outcome {
            let (paths, diff) = (paths.clone(), self.diff.clone());
            return Ok(Turn::End(InterviewEnd::Violation { paths, diff }));
        }
        let run = &result.run;
        if let Some(why) = unfinished(&result.outcome) {
            self.settle(&GoalFact::TurnCutShort { run, why: &why })?;
        } else {
            let said = result.final_message.as_deref().unwrap_or_default();
            self.settle(&GoalFact::TurnEnded { run, said })?;
        }
        let problems = self.state.problems.clone();
        let count = |number: usize| u32::try_from(number).ok().filter(|number| *number > 0);
        let draft = self.state.last_prd_draft.as_ref();
        let draft = draft.filter(|_| self.state.state == GoalStage::ReviewPrd);
        self.session.record(InterviewTurn {
            goal: self.state.goal.clone(),
            questions: count(self.state.open_questions().len()),
            stories: draft.and_then(|draft| count(draft.user_stories.len())),
            problems: problems.clone(),
        })?;
        Ok(match unfinished(&result.outcome) {
            Some(_) => Turn::Failed,
            None if problems.is_empty() => Turn::Progress,
            // An answer in another form: a pause would mend nothing, and the tries are counted.
            None => Turn::Again,
        })
    }

    fn discard(&mut self, _: &RunResult, _: Void) -> Result<(), WorkflowError> {
        Ok(())
    }

    fn tries_again(&mut self) -> Result<bool, WorkflowError> {
        let has_prd = self.prd()?.is_some();
        Ok(!matches!(self.state.next(has_prd), GoalStep::End(_)))
    }
}

/// What follows when nobody answers.
fn unanswered(none: NoReply) -> Turn<InterviewEnd> {
    match none {
        NoReply::Interrupted => Turn::Stop(Stop::Interrupted),
        NoReply::Missing(missing) => Turn::End(InterviewEnd::Missing(missing)),
    }
}

/// Names the commands of an answer that no gate runs: agents are told of them, but they decide nothing.
fn not_gates(answer: &str, gates: &[String]) -> Option<String> {
    let commands = answer.lines().map(str::trim).filter(|line| !line.is_empty());
    let others: Vec<&str> =
        commands.filter(|command| gates.iter().all(|gate| gate != command)).collect();
    let words: Vec<String> =
        others.first()?.split_whitespace().map(|word| format!("{word:?}")).collect();
    let others: Vec<String> = others.iter().map(|command| format!("`{command}`")).collect();
    Some(format!(
        "no gate runs {}: agents are asked to run it, but it decides nothing; to have Ralph check it, add to ralph.toml: \
         [[gate]] with name = \"check\" and run = [{}]",
        others.join(", "),
        words.join(", ")
    ))
}

/// Puts a goal into one line of a commit message.
fn one_line(goal: &str) -> String {
    const LONGEST: usize = 50;
    let words = goal.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.chars().count() <= LONGEST {
        return words;
    }
    let cut: String = words.chars().take(LONGEST - 1).collect();
    format!("{}…", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use super::not_gates;

    #[test]
    fn commands_that_no_gate_runs_are_named_with_what_to_write() {
        let gates = ["make test".to_owned()];
        assert_eq!(not_gates("make test\n\n", &gates), None);
        let told = not_gates("make test\nnpm run lint\n tsc ", &gates).unwrap();
        assert!(told.contains("no gate runs `npm run lint`, `tsc`"), "{told}");
        assert!(told.contains("run = [\"npm\", \"run\", \"lint\"]"), "{told}");
    }
}
