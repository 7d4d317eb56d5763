//! The three kinds of runs, each from what the state asks for to the run's result.

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::id::CommitId;
use ralph_model::journal::{WorkflowFields, WorkflowKind};
use ralph_model::pipeline::{Fact, Markers, Phase, Replan};
use ralph_model::prompt::{
    self, PromptContext, SpecImplementPrompt, SpecPlanPrompt, SpecSource, SpecVerifyPrompt,
    Surroundings,
};
use ralph_model::role::Role;
use ralph_model::run::{RunOutcome, Trouble};
use ralph_model::verdict::Verdict;

use super::{Pipeline, SpecEnd, Turn, Work, list, none};
use crate::gates::checkout_for_verifier;
use crate::git::Oid;
use crate::outbox::{Outbox, OutboxFile};
use crate::run::RunResult;
use crate::workflow::WorkflowError;
use crate::workflow::desk::{Step, StepEnd};

/// What a planner leaves in its outbox.
pub(super) const PLAN: &str = "plan.md";
pub(super) const SCRATCHPAD: &str = "SCRATCHPAD.md";

/// What a fresh scratchpad says.
const FRESH_SCRATCHPAD: &str =
    "# Scratchpad\n\nNotes from one run to the next: findings, decisions, assumptions.\n";

/// The longest spec that is put into a prompt; what is longer has to be read.
const LONGEST_SPEC: usize = 200 << 10;

impl Pipeline<'_, '_, '_> {
    pub(super) fn plan(
        &mut self,
        work: &mut Work<'_>,
        markers: &Markers,
        number: u32,
        replan: Option<&Replan>,
    ) -> Result<Turn, WorkflowError> {
        let base = self.repositories.base()?;
        let begins = Fact::PlanningBegan { number, base };
        self.settle(work, &begins, "is being planned")?;
        self.repositories.note(&self.base_of(work)?)?;
        let fields = WorkflowFields {
            plan_attempt: Some(number),
            replanning: replan.is_some(),
            ..self.fields_of(markers)
        };
        self.tell(work.spec, WorkflowKind::PlanStart, fields)?;
        let old_plan = match replan {
            Some(replan) => self.store.text(&work.spec.archive(replan.archive))?,
            None => None,
        };
        let scratchpad = crate::files::read_optional(&self.store.scratchpad())?;
        let scratchpad = scratchpad.unwrap_or_else(|| FRESH_SCRATCHPAD.as_bytes().to_vec());
        let feedback = Self::failed_planning(markers);
        let source = self.source(work)?;
        let outbox = self.desk.context.place.outbox();
        let context = SpecPlanPrompt {
            surroundings: self.surroundings(&source, feedback.as_deref()),
            outbox: outbox.as_str(),
            gates: &work.pinned.gates,
            replan: replan.map(|replan| prompt::Replan {
                reason: &replan.reason,
                old_plan: old_plan.as_deref(),
            }),
            magic_phrase: &self.options.magic_phrase,
        };
        let files = [
            OutboxFile { name: PLAN, content: None },
            OutboxFile { name: SCRATCHPAD, content: Some(&scratchpad) },
        ];
        let call = Call {
            phase: Phase::Plan,
            role: Role::Planner,
            outbox: Outbox::Named(&files),
            directory: None,
            writable: &[],
        };
        let asked = self.ask(work, &call, &context);
        self.run_agent(work, markers, &call, &asked)
    }

    pub(super) fn implement(
        &mut self,
        work: &mut Work<'_>,
        markers: &Markers,
        feedback: Option<&str>,
    ) -> Result<Turn, WorkflowError> {
        work.case = None;
        work.pinned = self.pin(&work.item)?;
        self.commit_home(work.spec, "goes on")?;
        let base = self.base_of(work)?;
        let before = self.repositories.note(&base)?;
        before.save(self.desk.context.state, &work.item)?;
        self.tell(work.spec, WorkflowKind::ImplStart, self.fields_of(markers))?;
        let plan = self.store.text(&work.spec.plan_md())?.unwrap_or_default();
        let plan_path = self.store.path(work.spec.plan_md());
        let source = self.source(work)?;
        let context = SpecImplementPrompt {
            surroundings: self.surroundings(&source, feedback),
            plan: &plan,
            plan_path: plan_path.as_str(),
            gates: &work.pinned.gates,
            magic_phrase: &self.options.magic_phrase,
        };
        let call = Call {
            phase: Phase::Implement,
            role: Role::Implementer,
            outbox: Outbox::Named(&[]),
            directory: None,
            writable: &[],
        };
        let asked = self.ask(work, &call, &context);
        self.run_agent(work, markers, &call, &asked)
    }

    pub(super) fn verify(
        &mut self,
        work: &mut Work<'_>,
        markers: &Markers,
        commit: &CommitId,
        no_change: Option<&str>,
    ) -> Result<Turn, WorkflowError> {
        let fields = WorkflowFields { commit: Some(commit.to_string()), ..self.fields_of(markers) };
        if work.case.is_none() {
            self.tell(work.spec, WorkflowKind::CandidateLoaded, fields.clone())?;
            self.examine_candidate(work, markers, commit, no_change)?;
            let verdict = work.case.as_ref().map(Self::verdict_before_verification);
            if let Some(Ok(verdict @ Verdict::Rejected { .. })) = verdict {
                // It passed once; what it rests on has changed since.
                return self.reject(work, Phase::Verify, &verdict, Some(commit), None);
            }
        }
        let name = markers.candidate.as_ref().and_then(|record| record.repository.clone());
        let name = name.unwrap_or_default();
        let id = Oid::parse(commit.as_str().as_bytes()).expect("a commit's id is an object's id");
        let Some(repository) = self.repositories.gates(&name) else {
            return Ok(Turn::End(SpecEnd::Stuck {
                trouble: Trouble::Machine { message: format!("the repository `{name}` is gone") },
            }));
        };
        repository.mirror.fill(&repository.git, std::slice::from_ref(&id))?;
        let checkout = checkout_for_verifier(
            &self.gate_context,
            repository,
            &work.pinned,
            &id,
            &mut *self.observer,
        )?;
        self.tell(work.spec, WorkflowKind::VerifyStart, fields)?;
        let plan = self.store.text(&work.spec.plan_md())?.unwrap_or_default();
        let questions = work.case.as_ref().map(crate::judge::Case::questions).unwrap_or_default();
        let base = self.base_of(work)?;
        let key = if name.is_empty() { "." } else { &name };
        let source = self.source(work)?;
        work.spec_digest = Some(list::digest(&self.store, work.spec)?);
        let context = SpecVerifyPrompt {
            surroundings: self.surroundings(&source, None),
            plan: &plan,
            candidate: commit,
            base: base.get(key),
            checkout: checkout.directory.as_str(),
            gates: &work.pinned.gates,
            questions: &questions,
            no_change,
            magic_phrase: &self.options.magic_phrase,
        };
        let call = Call {
            phase: Phase::Verify,
            role: Role::Verifier,
            outbox: Outbox::Named(&[]),
            directory: Some(&checkout.directory),
            writable: std::slice::from_ref(&checkout.tree),
        };
        let asked = self.ask(work, &call, &context);
        self.run_agent(work, markers, &call, &asked)
    }

    /// Puts the prompt into words, for a fresh session or for the one that is gone on with.
    fn ask(&self, work: &Work<'_>, call: &Call<'_>, context: &impl PromptContext) -> Asked {
        let agent = self.desk.launch(call.role);
        let sessions = self.store.sessions(work.spec, self.now());
        let resume = self
            .limited_session(work, call)
            .or_else(|| sessions.resumable(call.phase, &agent.choice.name))
            .filter(|_| agent.adapter.traits().resumes)
            .map(str::to_owned);
        let prompt = match resume {
            Some(_) => self.prompts.render_resumed(context),
            None => self.prompts.render(context),
        };
        Asked { prompt, resume }
    }

    /// Returns the session of the last run if that run was cut short by its usage limit: a Ralph that waited for the
    /// limit and died goes on where that one would have.
    fn limited_session(&self, work: &Work<'_>, call: &Call<'_>) -> Option<&str> {
        let agent = &self.desk.launch(call.role).choice.name;
        let mut runs = self.desk.overview.runs().iter().rev();
        let (started, finished) = runs.find_map(|run| {
            let (_, started) = run.started.as_ref()?;
            let ours = started.item.as_deref() == Some(work.item.as_str());
            ours.then_some((started, run.finished.as_ref()))
        })?;
        let (_, finished) = finished?;
        let limited = matches!(
            &finished.outcome,
            RunOutcome::Trouble { trouble: Trouble::UsageLimit { .. } }
        );
        let same = started.role == call.role && started.agent == *agent;
        finished.session.as_deref().filter(|_| limited && same)
    }

    fn run_agent(
        &mut self,
        work: &mut Work<'_>,
        markers: &Markers,
        call: &Call<'_>,
        asked: &Asked,
    ) -> Result<Turn, WorkflowError> {
        let spec_path = self.store.path(work.spec.as_str());
        let step = Step {
            role: call.role,
            item: &work.item,
            attempt: markers.attempts_used() + 1,
            prompt: &asked.prompt,
            resume: asked.resume.as_deref(),
            outbox: call.outbox,
            directory: call.directory,
            writable: call.writable,
            variables: &[("RALPH_SPEC", spec_path.as_str())],
            given: &[],
        };
        let end = self.desk.step(&step, &mut *self.observer)?;
        if call.phase == Phase::Implement && !matches!(end, StepEnd::Ran(_)) {
            self.return_to_branches(&work.item)?;
        }
        match end {
            StepEnd::Ran(result) => {
                let markers = self.store.load(work.spec)?;
                self.take(work, &markers, &result)
            }
            StepEnd::Limited { agent, wait } => Ok(Turn::End(SpecEnd::Limited { agent, wait })),
            StepEnd::OutOfBudget(what) => Ok(Turn::End(SpecEnd::OutOfBudget(what))),
            StepEnd::Interrupted => Ok(Turn::End(SpecEnd::Interrupted)),
        }
    }

    /// Notes the session that the next run of a phase may go on with.
    pub(super) fn note_session(
        &mut self,
        work: &Work<'_>,
        phase: Phase,
        result: &RunResult,
        keep: bool,
    ) -> Result<(), WorkflowError> {
        let at = self.now();
        let mut sessions = self.store.sessions(work.spec, at);
        let session = result.session.as_deref().filter(|_| keep);
        sessions.note(phase, &result.agent, session, at);
        Ok(self.store.save_sessions(work.spec, &sessions)?)
    }

    /// Returns what the last planner did wrong, if it was a planner that failed last.
    fn failed_planning(markers: &Markers) -> Option<String> {
        let last = markers.plan.as_ref()?.tries.last()?;
        (last.phase == Phase::Plan).then(|| format!("The last planning failed: {}.", last.outcome))
    }

    fn base_of(
        &self,
        work: &Work<'_>,
    ) -> Result<ralph_model::pipeline::records::Base, WorkflowError> {
        let plan = self.store.load(work.spec)?.plan;
        Ok(plan.map(|plan| plan.base).unwrap_or_default())
    }

    pub(super) fn fields_of(&self, markers: &Markers) -> WorkflowFields {
        WorkflowFields {
            attempt: Some(markers.attempts_used() + 1),
            max_attempts: Some(self.options.max_attempts),
            ..none()
        }
    }

    fn source(&self, work: &Work<'_>) -> Result<Source, WorkflowError> {
        let path = self.store.path(work.spec.as_str());
        let mut text = self.store.text(work.spec.as_str())?.unwrap_or_default();
        if text.len() > LONGEST_SPEC {
            let end = text.floor_char_boundary(LONGEST_SPEC);
            text.truncate(end);
            text.push_str("\n\n(The spec goes on; read its file.)\n");
        }
        Ok(Source {
            id: work.spec.id().to_owned(),
            file: work.spec.as_str().to_owned(),
            path,
            text,
        })
    }

    fn surroundings<'p>(
        &'p self,
        source: &'p Source,
        feedback: Option<&'p str>,
    ) -> Surroundings<'p> {
        Surroundings {
            workspace: self.desk.context.workspace.as_str(),
            home: self.home.as_str(),
            spec: SpecSource {
                id: &source.id,
                path: source.path.as_str(),
                file: &source.file,
                text: &source.text,
            },
            rules: self.rules,
            feedback,
        }
    }
}

/// A spec as prompts show it.
struct Source {
    id: String,
    file: String,
    path: Utf8PathBuf,
    text: String,
}

/// What an agent is told.
struct Asked {
    prompt: String,
    /// The session that is gone on with.
    resume: Option<String>,
}

/// How a phase runs its agent.
struct Call<'a> {
    phase: Phase,
    role: Role,
    outbox: Outbox<'a>,
    directory: Option<&'a Utf8Path>,
    writable: &'a [Utf8PathBuf],
}
