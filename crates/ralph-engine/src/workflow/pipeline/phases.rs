//! The three kinds of runs, each from what the state asks for to the task of an agent.

use ralph_model::id::CommitId;
use ralph_model::journal::{CandidateLoaded, ImplStart, PlanStart, VerifyStart};
use ralph_model::pipeline::{Fact, Markers, Phase, Replan};
use ralph_model::prompt::{
    self, Continuation, PromptContext, SpecImplementPrompt, SpecPlanPrompt, SpecVerifyPrompt,
};
use ralph_model::role::Role;
use ralph_model::run::Trouble;
use ralph_model::verdict::Verdict;

use super::examination::commit_evidence;
use super::spec_work::SpecWork;
use super::{SpecEnd, WORKFLOW, list};
use crate::defect::{Defect, is_put_back};
use crate::run::{WantedItem, Wish};
use crate::session::{AgentTask, TaskContract, TaskFile, TaskOutbox};
use crate::specs::SPECS;
use crate::workflow::driver::{Turn, WorkflowStep};
use crate::workflow::repositories::BEFORE;

use crate::workflow::spec_text::SpecText;
use crate::workflow::{WorkflowError, merge_review, review};

/// What a planner leaves in its outbox.
pub(super) const PLAN: &str = "plan.md";
pub(super) const SCRATCHPAD: &str = "SCRATCHPAD.md";

/// What a fresh scratchpad says.
const FRESH_SCRATCHPAD: &str =
    "# Scratchpad\n\nNotes from one run to the next: findings, decisions, assumptions.\n";

impl SpecWork<'_, '_, '_> {
    pub(super) fn plan(
        &mut self,
        markers: &Markers,
        number: u32,
        replan: Option<&Replan>,
    ) -> Result<WorkflowStep<SpecEnd>, WorkflowError> {
        let base = self.pipeline.project.repositories.base()?;
        self.settle(&Fact::PlanningBegan { number, base }, "is being planned")?;
        self.pipeline.project.repositories.note(&self.base()?)?;
        let (item, attempt, max_attempts) = self.attempt(Phase::Plan, markers);
        let (plan_attempt, replanning) = (number, Some(replan.is_some()));
        self.tell(|spec| PlanStart {
            spec,
            item,
            attempt,
            max_attempts,
            plan_attempt,
            replanning,
        })?;
        let store = &self.pipeline.store;
        let old_plan = match replan {
            Some(replan) => store.text(&self.spec.archive(replan.archive))?,
            None => None,
        };
        let scratchpad = crate::files::read_optional(&store.scratchpad())?;
        let scratchpad = scratchpad.unwrap_or_else(|| FRESH_SCRATCHPAD.as_bytes().to_vec());
        let feedback = failed_planning(markers);
        let source = self.source()?;
        let context = &self.pipeline.session.context;
        let outbox = context.place.outbox();
        let prompt = SpecPlanPrompt {
            surroundings: self.pipeline.project.surroundings(
                self.pipeline.session,
                &source,
                feedback.as_deref(),
            ),
            outbox: outbox.as_str(),
            gates: &self.pinned.gates,
            replan: replan.map(|replan| prompt::PreviousPlan {
                reason: &replan.reason,
                old_plan: old_plan.as_deref(),
            }),
            magic_phrase: &self.pipeline.options.magic_phrase,
        };
        let mut task = self.task(Phase::Plan, Role::Planner, markers, &prompt, &[]);
        // A planner that plans again finds the plan that failed, to be changed where that is enough.
        let old_plan = Some(old_plan.unwrap_or_default().into_bytes());
        task.outbox = TaskOutbox::Files(vec![
            TaskFile { name: PLAN, content: old_plan },
            TaskFile { name: SCRATCHPAD, content: Some(scratchpad) },
        ]);
        let phrase = self.pipeline.options.magic_phrase.clone();
        task.contract = TaskContract::Planned { phrase };
        Ok(WorkflowStep::Run(Box::new(task)))
    }

    pub(super) fn implement(
        &mut self,
        markers: &Markers,
        feedback: Option<&str>,
    ) -> Result<WorkflowStep<SpecEnd>, WorkflowError> {
        self.cases = None;
        self.pin()?;
        self.pipeline.commit_home(self.spec, "continues")?;
        let base = self.base()?;
        let state = &self.pipeline.session.context.state;
        let earlier = BEFORE.load(state, &self.item)?;
        let uncommitted = self.pipeline.project.repositories.half_done(earlier.as_ref())?;
        let earlier = earlier.filter(|_| !is_put_back(Defect::TakesLeftoversForThePersons));
        let before = self.pipeline.project.repositories.note_spec(earlier.as_ref(), &base)?;
        BEFORE.save(state, &self.item, &before)?;
        let (item, attempt, max_attempts) = self.attempt(Phase::Implement, markers);
        self.tell(|spec| ImplStart { spec, item, attempt, max_attempts })?;
        let store = &self.pipeline.store;
        let plan = store.text(&self.spec.plan_md())?.unwrap_or_default();
        let plan_path = store.path(self.spec.plan_md());
        let source = self.source()?;
        let prompt = SpecImplementPrompt {
            surroundings: self.pipeline.project.surroundings(
                self.pipeline.session,
                &source,
                feedback,
            ),
            plan: &plan,
            plan_path: plan_path.as_str(),
            gates: &self.pinned.gates,
            magic_phrase: &self.pipeline.options.magic_phrase,
        };
        let mut task =
            self.task(Phase::Implement, Role::Implementer, markers, &prompt, &uncommitted);
        let phrase = self.pipeline.options.magic_phrase.clone();
        task.contract = TaskContract::Completed { phrase };
        Ok(WorkflowStep::Run(Box::new(task)))
    }

    pub(super) fn verify(
        &mut self,
        markers: &Markers,
        commit: &CommitId,
        no_change: Option<&str>,
    ) -> Result<WorkflowStep<SpecEnd>, WorkflowError> {
        let (item, attempt, max_attempts) = self.attempt(Phase::Verify, markers);
        if self.cases.is_none() {
            let candidate = commit.to_string();
            self.tell(|spec| CandidateLoaded { spec, commit: candidate, attempt, max_attempts })?;
            self.examine_candidate(markers)?;
            if let Some(Ok(verdict @ Verdict::Rejected { .. })) = self.verdict_so_far() {
                // It passed once; what it rests on has changed since.
                return self
                    .reject(Phase::Verify, &verdict, Some(commit.clone()), None)
                    .map(WorkflowStep::Turn);
            }
        }
        let works = works_of(markers, commit);
        let repositories = &self.pipeline.project.repositories;
        let checkouts = self.pipeline.session.with_gates(&self.item, |context, tell| {
            repositories.checkouts_for_verifier(context, &self.pinned, &works, tell)
        })?;
        let Some((first, others)) = checkouts.split_first() else {
            let message = format!("the repository of {commit} was not found");
            return Ok(WorkflowStep::Turn(Turn::Trouble(Trouble::Machine { message })));
        };
        let candidate = commit.to_string();
        self.tell(|spec| VerifyStart { spec, item, commit: candidate, attempt, max_attempts })?;
        let store = &self.pipeline.store;
        let plan = store.text(&self.spec.plan_md())?.unwrap_or_default();
        let mut questions = self.questions();
        let state = &self.pipeline.session.context.state;
        questions.extend(merge_review::questions(state, &self.item, &works)?);
        let cases = self.cases.iter().flatten();
        let beside: Vec<String> = cases
            .filter_map(|case| commit_evidence(&case.claim))
            .flat_map(|found| found.leftovers.clone())
            .collect();
        let base = self.base()?;
        let key = if works[0].repository.is_empty() { "." } else { &works[0].repository };
        let source = self.source()?;
        self.spec_digest = Some(list::digest(store, self.spec)?);
        let elsewhere: Vec<String> =
            others.iter().map(|checkout| checkout.describe(&base)).collect();
        let elsewhere = elsewhere.join("\n");
        let state = &self.pipeline.session.context.state;
        let slip = review::last_slip(state, &self.item, &works)?;
        let feedback = slip.as_ref().map(|slip| slip.why.as_str());
        let prompt = SpecVerifyPrompt {
            surroundings: self.pipeline.project.surroundings(
                self.pipeline.session,
                &source,
                feedback,
            ),
            plan: &plan,
            candidate: commit,
            base: base.get(key),
            checkout: first.checkout.directory.as_str(),
            elsewhere: Some(elsewhere.as_str()).filter(|text| !text.is_empty()),
            gates: &self.pinned.gates,
            questions: &questions,
            no_change,
            magic_phrase: &self.pipeline.options.magic_phrase,
        };
        let mut task = self.task(Phase::Verify, Role::Verifier, markers, &prompt, &beside);
        let agent = self.pipeline.session.context.launch(Role::Verifier);
        if agent.adapter.traits().resumes {
            task.resume = slip.and_then(|slip| slip.session);
        }
        task.directory = Some(first.checkout.directory.clone());
        task.writable = checkouts.iter().map(|found| found.checkout.tree.clone()).collect();
        Ok(WorkflowStep::Run(Box::new(task)))
    }

    /// Renders the prompt, for a fresh or a resumed session, with the uncommitted leftovers of earlier runs (for a
    /// verifier: in addition to the commit).
    fn task(
        &self,
        phase: Phase,
        role: Role,
        markers: &Markers,
        prompt: &impl PromptContext,
        left: &[String],
    ) -> AgentTask {
        let pipeline = &self.pipeline;
        let agent = pipeline.session.context.launch(role);
        let sessions = pipeline.store.sessions(self.spec, pipeline.now());
        let resume = pipeline.session.open_session(&self.item, role).or_else(|| {
            let kept = sessions.resumable(phase, &agent.choice.name);
            kept.filter(|_| agent.resumes()).map(str::to_owned)
        });
        let is_resumed = resume.is_some();
        let before = match role {
            // It has a checkout of its own.
            Role::Verifier => {
                Continuation { is_resumed, left_beside: left, ..Continuation::default() }
            }
            _ => Continuation {
                is_resumed,
                uncommitted: left,
                left_beside: &[],
                clone: pipeline.session.clone_of(),
            },
        };
        let text = pipeline.project.prompts.render_continued(prompt, before);
        let spec_path = pipeline.store.path(self.spec.as_str());
        AgentTask {
            attempt: markers.attempts_used() + 1,
            resume,
            variables: vec![("RALPH_SPEC", spec_path.to_string())],
            wanted: self.wanted(),
            ..AgentTask::new(WORKFLOW, role, &self.item, text)
        }
    }

    /// Returns where the person says whether the spec is still to be worked on: it is there, and not done.
    fn wanted(&self) -> Option<WantedItem> {
        let below = |path: &str| format!("{SPECS}/{path}");
        let files = [below(self.spec.as_str()), below(&self.spec.done())];
        let files = files.each_ref().map(String::as_str);
        self.pipeline.project.wanted(&self.item, &files, |files, _| match files {
            [_, Some(_)] => Wish::Decided,
            [Some(_), _] => Wish::Wanted,
            _ => Wish::Absent,
        })
    }

    /// Notes the phase that begins; returns the item, which attempt it is, and how many there are.
    fn attempt(&mut self, phase: Phase, markers: &Markers) -> (String, u32, u32) {
        self.phase = Some(phase);
        let max_attempts = self.pipeline.options.max_attempts;
        (self.item.clone(), markers.attempts_used() + 1, max_attempts)
    }

    pub(super) fn source(&self) -> Result<SpecText, WorkflowError> {
        let store = &self.pipeline.store;
        let path = store.path(self.spec.as_str());
        let text = store.text(self.spec.as_str())?.unwrap_or_default();
        let text = self.pipeline.session.context.state.judged_text(&path, text.into_bytes());
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok(SpecText::new(self.spec.id(), self.spec.as_str(), path, text))
    }
}

/// Returns the work of a candidate: its commit first, then what was done in other repositories.
pub(super) fn works_of(markers: &Markers, commit: &CommitId) -> Vec<ralph_model::build::Work> {
    let record = markers.candidate.as_ref();
    let repository = record.and_then(|record| record.repository.clone()).unwrap_or_default();
    let mut works = vec![ralph_model::build::Work { commit: commit.clone(), repository }];
    works.extend(record.map(|record| record.also.clone()).unwrap_or_default());
    works
}

/// Returns what the last planner did wrong, if it was a planner that failed last.
fn failed_planning(markers: &Markers) -> Option<String> {
    let last = markers.plan.as_ref()?.tries.last()?;
    (last.phase == Phase::Plan)
        .then(|| format!("The last planning attempt failed: {}.", last.outcome))
}
