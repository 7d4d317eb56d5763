//! Agents of the simulation: each follows its script, depending on the state of the world.
//!
//! An agent whose run was cut short does the same in the next one, like real ones that see the existing state: it adds
//! no task twice and continues on an existing branch.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use camino::Utf8PathBuf;
use jiff::{SignedDuration, Timestamp};
use ralph_model::channel::MutationRequest;
use ralph_model::contract::{DEFAULT_MAGIC_PHRASE, PROMISE};
use ralph_model::permission::Asker;
use ralph_model::plan::Plan;
use ralph_model::role::Role;
use ralph_model::run::{ProcessExit, RunEnd, RunFacts, UsageLimit};

use super::git::{SimulatedGit, Tree};
use super::repository::{BROKEN, is_broken};
use super::story::{Act, Branching, Committing, Effort, Ending, Story};
use super::world::{MAILBOX, World};
use crate::boundary::Watch;
use crate::channel::{Clerk, Decision, Served};
use crate::files::PathError;
use crate::files::simulated::{self, effect, get, put};
use crate::outbox::{Outbox, OutboxReport, Taken};
use crate::run::{Closing, Environment, Performer, Run, RunError};

/// A plan that the loop accepts.
const PLAN: &str = "# Plan\n\n## Analysis\n- It is missing.\n\n## Steps\n1. `work/loop-1.txt` (new): make it.\n\n\
    ## Verification strategy\n- `/bin/true`\n";

/// The line that an implementer adds to the progress file.
pub(super) fn progress_line(key: &str, number: usize) -> String {
    format!("- {key} {number}\n")
}

/// The objection of a verifier that rejects good work.
pub(super) fn fault(number: usize) -> String {
    format!("fault {number}.")
}

/// Plays all agents.
pub(super) struct Troupe {
    pub(super) world: Rc<RefCell<World>>,
}

/// A run of an agent, as observed by the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Performance {
    pub(super) run: String,
    /// Its subject: a name that is the same in every play of the story.
    pub(super) key: String,
    pub(super) role: Role,
    /// How many of its kind had finished before it.
    pub(super) number: usize,
    pub(super) act: Act,
    /// Whether its result was stored, once known.
    pub(super) is_kept: Option<bool>,
    /// The tasks given to it.
    pub(super) given: Vec<String>,
    /// Whether a verifier has decided, once known: the decision is valid even if its run was cut short.
    pub(super) has_decided: Option<bool>,
}

impl Performer for Troupe {
    fn perform(
        &mut self,
        run: &mut Run<'_, '_>,
        _: &mut Environment,
    ) -> Result<(Closing, Option<Watch>), RunError> {
        let mut world = self.world.borrow_mut();
        let slot = run.context.slot;
        let key = world.key_of(run.request.item.unwrap_or_default(), run.request.role);
        let performance =
            world.begin(&key, run.id.to_string(), run.request.role, run.request.given);
        let stage = Stage {
            git: slot.and_then(|slot| world.git.beside(&slot.root)).unwrap_or(world.git.clone()),
            home: world.home_at_work(),
            landed: world.git.tip_tree(),
            story: Rc::clone(&world.story),
            key,
            number: performance.number,
            act: performance.act,
        };
        let limited_until = world.limited_until();
        if limited_until.is_some() {
            world.note_premature(run.id.as_str(), &stage.key);
        }
        let adds =
            world.story.person_adds && performance.number == 0 && run.context.store.is_some();
        drop(world);
        effect(|| format!("agent {} for {}: {}", run.request.role, stage.key, stage.act));
        simulated::pass(SignedDuration::from_secs(30));
        if adds {
            self.world.borrow_mut().person_adds_a_task();
        }
        let closing = if limited_until.is_some() {
            limited(limited_until)
        } else {
            stage.play(run, &self.world)
        };
        effect(|| format!("agent {} ends", run.request.role));
        if simulated::take_interrupt() {
            return Ok((Closing { end: Some(RunEnd::Interrupted), ..closing }, None));
        }
        Ok((closing, None))
    }
}

/// The state and actions of an agent in one run.
struct Stage {
    /// Where it works.
    git: SimulatedGit,
    home: Utf8PathBuf,
    /// What is on the run's branch.
    landed: Arc<Tree>,
    story: Rc<Story>,
    key: String,
    number: usize,
    act: Act,
}

/// An agent that printed text, used a tool and ended with this message.
fn said(message: &str) -> Closing {
    Closing {
        end: Some(RunEnd::Exited),
        exit: Some(ProcessExit::Code(0)),
        facts: RunFacts {
            session: Some("session".to_owned()),
            tool_calls: 1,
            last_text: Some("on it".to_owned()),
            final_message: Some(message.to_owned()),
            ..RunFacts::default()
        },
        outbox: Some(OutboxReport::default()),
        ..Closing::default()
    }
}

fn limited(resets_at: Option<Timestamp>) -> Closing {
    let mut closing = said("limit");
    closing.exit = Some(ProcessExit::Code(1));
    closing.facts.limit = Some(UsageLimit { resets_at });
    closing
}

impl Stage {
    fn play(&self, run: &mut Run<'_, '_>, world: &RefCell<World>) -> Closing {
        let role = run.request.role;
        if role.writes_workspace() {
            self.work();
        }
        let after = Duration::from_hours(1);
        let mut closing = match self.act.ending {
            Ending::Silent => {
                let mut closing = said("");
                closing.facts = RunFacts::default();
                closing
            }
            Ending::Crash => {
                let mut closing = said("");
                closing.exit = Some(ProcessExit::Code(1));
                closing.facts.final_message = None;
                closing
            }
            Ending::Limit { minutes, known } => {
                let span = SignedDuration::from_mins(i64::from(minutes));
                let until = simulated::now().saturating_add(span).expect("it is in range");
                world.borrow_mut().limit = known.then(|| (until, run.id.to_string()));
                limited(known.then_some(until))
            }
            Ending::TimeOut { idle: true } => {
                Closing { end: Some(RunEnd::IdleTimeout { after }), exit: None, ..said("") }
            }
            Ending::TimeOut { idle: false } => {
                Closing { end: Some(RunEnd::WallTimeout { after }), exit: None, ..said("") }
            }
            Ending::ContextFull => {
                let end = RunEnd::ContextLimit { used: 99, window: 100 };
                Closing { end: Some(end), exit: None, ..said("") }
            }
            _ if run.request.workflow == "pipeline" => self.answer_pipeline(run),
            _ if run.request.workflow == "run" => self.answer_run(run),
            _ if run.request.workflow == "loop" => self.answer_loop(role),
            // Failing to journal is a machine fault.
            _ => match self.answer_build(run) {
                Ok(served) => Closing { served, ..said("done") },
                Err(error) => Closing { fault: Some(error.to_string()), ..said("done") },
            },
        };
        if let Outbox::Named(files) = run.request.outbox
            && closing.outbox == Some(OutboxReport::default())
        {
            // Untouched files are collected unchanged.
            let untouched = files.iter().filter_map(|file| {
                let bytes = file.content?.to_vec();
                Some(Taken { name: file.name.to_owned(), bytes, changed: false })
            });
            closing.outbox =
                Some(OutboxReport { taken: untouched.collect(), ..OutboxReport::default() });
        }
        closing
    }

    fn file(&self) -> String {
        format!("work/{}.txt", self.key)
    }

    /// Changes the working tree as scripted.
    fn work(&self) {
        let Act { effort, branching, committing, spoils, .. } = self.act;
        match branching {
            Branching::Here => {}
            Branching::Branch => self.git.switch_new(&format!("{}-{}", self.key, self.number)),
            Branching::Detached => self.git.detach(),
        }
        if spoils {
            for (name, _) in &self.story.dirt {
                let committed = self.git.state().head_tree();
                let content = committed.get(name.as_str()).map(|blob| blob.content.clone());
                put(&self.git.root.join(name), content.as_deref());
                effect(|| format!("agent destroys {name}"));
            }
        }
        let text = match effort {
            Effort::Nothing => return,
            Effort::Good => format!("{} {}\n", self.key, self.number),
            Effort::Broken => format!("{} {} {BROKEN}\n", self.key, self.number),
        };
        put(&self.git.root.join(self.file()), Some(text.as_bytes()));
        effect(|| format!("agent writes {}", self.file()));
        match committing {
            Committing::Nothing => {}
            Committing::OwnFile => drop(self.git.commit_some(&[&self.file()], "work")),
            Committing::Everything => drop(self.git.commit_all("work")),
        }
    }

    fn head(&self) -> String {
        use crate::repository::GitAccess;
        let head = self.git.head().expect("a simulated repository answers");
        head.id().map(ToString::to_string).unwrap_or_default()
    }

    fn has_fault(&self, file: &str) -> bool {
        self.landed.get(file).is_none_or(|blob| is_broken(&blob.content))
    }

    /// Does what a role of the pipeline is asked to do, or fails to.
    fn answer_pipeline(&self, run: &Run<'_, '_>) -> Closing {
        let phrase = DEFAULT_MAGIC_PHRASE;
        match run.request.role {
            Role::Planner if self.act.ending == Ending::Unclaimed => said("a plan, some day"),
            Role::Planner => {
                let plan = format!("# Plan {}\n", self.number);
                let (name, bytes) = ("plan.md".to_owned(), plan.into_bytes());
                let taken = vec![Taken { name, bytes, changed: true }];
                let outbox = Some(OutboxReport { taken, ..OutboxReport::default() });
                Closing { outbox, ..said(&format!("planned\n{phrase}")) }
            }
            Role::Verifier => {
                let candidate = self.candidate().unwrap_or_default();
                let found = self.git.state().find(&candidate).map(|commit| commit.tree.clone());
                let has_fault = found.is_none_or(|tree| {
                    let own = tree.get(self.file().as_str());
                    own.is_none_or(|blob| is_broken(&blob.content))
                });
                match self.act.ending {
                    Ending::PlanInvalid => said("PLAN_INVALIDATION: it cannot work"),
                    Ending::Rejects | Ending::Unclaimed => said("I found a fault."),
                    _ if has_fault => said("It is broken."),
                    _ => said(&format!("fine\n{candidate}\n{phrase}")),
                }
            }
            _ => match self.act.ending {
                Ending::OldCommit => {
                    let first = self.git.state().commits[0].id.to_string();
                    said(&format!("done\n{first}\n{phrase}"))
                }
                Ending::NoSuchCommit => said(&format!("done\n{}\n{phrase}", "ab".repeat(20))),
                Ending::Unclaimed => said("I did some of it."),
                Ending::NoChange => {
                    let head = self.head();
                    said(&format!("NO_CHANGE_NEEDED: it is there\n{head}\n{phrase}"))
                }
                _ => said(&format!("done\n{}\n{phrase}", self.head())),
            },
        }
    }

    /// Does what a role of `ralph run` is asked to do, or fails to; an implementer's notes are in the outbox.
    fn answer_run(&self, run: &Run<'_, '_>) -> Closing {
        if run.request.role == Role::Verifier {
            return said("I think so.");
        }
        let mut closing = match self.act.ending {
            Ending::Unclaimed => said("I did some of it."),
            Ending::NoChange => said("NO_CHANGE_NEEDED: it is there"),
            _ => said(&format!("done\n{PROMISE}")),
        };
        if let Outbox::Named(files) = run.request.outbox {
            let taken = files.iter().filter_map(|file| {
                let mut bytes = file.content?.to_vec();
                let changed = file.name == "progress.txt";
                if changed {
                    bytes.extend_from_slice(progress_line(&self.key, self.number).as_bytes());
                }
                Some(Taken { name: file.name.to_owned(), bytes, changed })
            });
            closing.outbox =
                Some(OutboxReport { taken: taken.collect(), ..OutboxReport::default() });
        }
        closing
    }

    /// Does what a role of the loop is asked to do, or fails to: its answer is in the mailbox.
    fn answer_loop(&self, role: Role) -> Closing {
        if role == Role::Verifier {
            return said("I think so.");
        }
        let mail = self.git.root.join(MAILBOX);
        let write = |name: &str, text: &str| {
            put(&mail.join(name), Some(text.as_bytes()));
            effect(|| format!("agent writes {name}"));
        };
        let is_planned = get(&mail.join("phase.txt")).is_some_and(|phase| phase == b"build");
        match self.act.ending {
            Ending::Unclaimed => said("I did some of it."),
            Ending::NoChange => said("NO_CHANGE_NEEDED: it is there"),
            Ending::Asks => {
                write("question.md", "Which one?\n");
                write("status.txt", "waiting");
                said("I have a question.")
            }
            _ if !is_planned => {
                write("plan.md", PLAN);
                said("planned")
            }
            _ => {
                write("summary.md", "It is made.\n");
                write("status.txt", "complete");
                said("done")
            }
        }
    }

    /// Returns the commit that a verifier has to examine.
    fn candidate(&self) -> Option<String> {
        let path = self.home.join(format!("specs/candidates/{}.json", self.key));
        let record: serde_json::Value = serde_json::from_slice(&get(&path)?).ok()?;
        record.get("candidate_commit")?.as_str().map(str::to_owned)
    }

    /// Does what a role of the build loop is asked to do, or fails to. Returns the granted requests.
    fn answer_build(&self, run: &mut Run<'_, '_>) -> Result<Served, PathError> {
        let (role, given) = (run.request.role, run.request.given);
        let prompt = String::from_utf8_lossy(run.request.prompt).into_owned();
        let id = run.id.clone();
        let Some(store) = run.context.store.as_deref_mut() else {
            return Ok(Served::default());
        };
        let mut clerk = Clerk {
            store,
            journal: &mut *run.context.journal,
            clock: run.context.clock,
            asker: Asker { run: &id, role, given },
            served: Served::default(),
        };
        // If the machine failed, an agent asks again.
        let mut ask = |request: MutationRequest| -> Result<String, PathError> {
            let mut answer = String::new();
            for _ in 0..10 {
                let Decision { accepted, text, .. } = clerk.decide(request.clone())?;
                let is_machine = !accepted && text.starts_with("cannot ");
                answer = text;
                if !is_machine {
                    break;
                }
            }
            Ok(answer)
        };
        if self.act.ending == Ending::Unclaimed {
            return Ok(clerk.served);
        }
        match role {
            Role::Planner => {
                let names = self.story.task_names();
                for name in names.iter().filter(|name| !self.knows_task(name, &prompt)) {
                    ask(MutationRequest::TaskAdd { task: format!("{{\"name\":\"{name}\"}}") })?;
                }
            }
            Role::Builder => {
                if self.act.ending == Ending::WithIssue {
                    let description = format!("issue of {}", self.key);
                    // The plan in the working tree may be that of the agent's own branch.
                    let known = ask(MutationRequest::TaskShow { id: None })?;
                    if !known.contains(&format!("\"{description}\"")) {
                        ask(MutationRequest::IssueAdd { description })?;
                    }
                }
                let no_change = (self.act.ending == Ending::NoChange).then(|| "it is".into());
                ask(MutationRequest::TaskDone { id: None, no_change })?;
            }
            Role::Verifier if given.is_empty() => {}
            Role::Verifier => {
                let faulty = |id: &&String| self.has_fault(&self.file_of(id));
                let reason = fault(self.number);
                match given.iter().find(faulty) {
                    Some(id) => {
                        let (id, reason) = (Some(id.clone()), format!("it is broken, {reason}"));
                        ask(MutationRequest::TaskReject { id, reason })?;
                    }
                    None if self.act.ending == Ending::Rejects => {
                        ask(MutationRequest::TaskReject { id: None, reason })?;
                    }
                    None => {
                        ask(MutationRequest::TaskAccept { ids: Vec::new() })?;
                    }
                }
            }
            Role::Investigator => {
                for issue in given {
                    let name = format!("fix-{}", self.issue_text(issue).replace(' ', "-"));
                    if !self.knows_task(&name, &prompt) {
                        let task = format!("{{\"name\":\"{name}\",\"created_from\":\"{issue}\"}}");
                        ask(MutationRequest::TaskAdd { task })?;
                    }
                }
                ask(MutationRequest::IssueDoneAll)?;
            }
            Role::Decomposer => {
                for part in 1..=2 {
                    let name = format!("{}.{part}", self.key);
                    if !self.knows_task(&name, "") {
                        let task = format!("{{\"name\":\"{name}\"}}");
                        ask(MutationRequest::TaskAdd { task })?;
                    }
                }
                let id = given.first().cloned().unwrap_or_default();
                ask(MutationRequest::TaskDelete { id })?;
            }
            _ => {}
        }
        Ok(clerk.served)
    }

    fn plan(&self) -> Vec<u8> {
        get(&self.home.join("plan.jsonl")).unwrap_or_default()
    }

    /// Whether a task of a name exists, or existed according to the prompt.
    fn knows_task(&self, name: &str, prompt: &str) -> bool {
        let bytes = self.plan();
        let plan = Plan::parse(&bytes);
        let all = plan.tasks_view();
        let mut tasks = all.pending.iter().chain(&all.done);
        tasks.any(|task| task.name == name) || prompt.contains(&format!("\"{name}\""))
    }

    fn issue_text(&self, id: &str) -> String {
        let bytes = self.plan();
        let plan = Plan::parse(&bytes);
        let found = plan.issues().find(|issue| issue.id == id);
        found.map(|issue| issue.desc.to_string()).unwrap_or_default()
    }

    fn file_of(&self, id: &str) -> String {
        let bytes = self.plan();
        let plan = Plan::parse(&bytes);
        let name = plan.task_view(id).map(|task| task.name.to_string()).unwrap_or_default();
        format!("work/{name}.txt")
    }
}
