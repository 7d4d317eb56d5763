//! What the person does in their repository while agents work in clones, and what must be true of it afterwards.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use camino::Utf8Path;
use ralph_model::plan::Plan;
use ralph_model::prd::{PRD_FILE, Prd};

use super::git::SimulatedGit;
use super::repository::SimulatedRepository;
use super::story::{Kind, LOOP_TASK, PersonsAct, Story, spec_id, user_story};
use super::world::{SimulatedClock, own_paths};
use crate::boundary::InForce;
use crate::config::Config;
use crate::files::simulated::{get, note, put};
use crate::gates::GateContext;
use crate::gates::assess::Extent;
use crate::gates::pin::PinnedGates;
use crate::git::Oid;
use crate::repository::GitAccess;
use crate::run::{Environment, RunResources};
use crate::state::State;
use crate::workflow::WorkflowError;
use crate::workflow::isolation::PersonsRepository;

/// The branch that work lands on, which is checked out.
pub(super) const RUN_BRANCH: &str = "refs/heads/main";

/// Notes in home that the person adds a line to.
const NOTES: &str = "ralph/SCRATCHPAD.md";
/// What the person writes where work is to be.
const IN_THE_WAY: &[u8] = b"the person's, in the way\n";

/// The person's doings.
pub(super) struct Meanwhile {
    story: Rc<Story>,
    git: SimulatedGit,
    /// How often they did something.
    count: Cell<usize>,
    /// Their commits.
    commits: RefCell<Vec<Oid>>,
    /// Their lines of notes.
    notes: RefCell<Vec<String>>,
    /// The file of an item that they withdrew before its work was on the branch.
    withdrawn: RefCell<Option<String>>,
    /// A file that they have not committed.
    in_the_way: RefCell<Option<String>>,
}

impl Meanwhile {
    pub(super) fn new(story: Rc<Story>, git: SimulatedGit) -> Meanwhile {
        Meanwhile {
            story,
            git,
            count: Cell::new(0),
            commits: RefCell::default(),
            notes: RefCell::default(),
            withdrawn: RefCell::default(),
            in_the_way: RefCell::default(),
        }
    }

    /// Does what a number stands for.
    pub(super) fn act(&self, act: usize) {
        let act = PersonsAct::ALL[act];
        note(|| format!("-- the person: {act:?}"));
        self.count.set(self.count.get() + 1);
        match act {
            PersonsAct::Commits => {
                let name = format!("persons-{}.txt", self.count.get());
                self.write_and_commit(&name, b"the person's\n");
            }
            PersonsAct::CommitsNotes => {
                let line = format!("- the person's {}\n", self.count.get());
                let mut text = get(&self.git.root.join(NOTES)).unwrap_or_default();
                text.extend_from_slice(line.as_bytes());
                self.write_and_commit(NOTES, &text);
                self.notes.borrow_mut().push(line);
            }
            PersonsAct::Withdraws => self.withdraw(),
            PersonsAct::IsInTheWay => {
                let name = self.first_file();
                let path = self.git.root.join(&name);
                if get(&path).is_none() {
                    put(&path, Some(IN_THE_WAY));
                    *self.in_the_way.borrow_mut() = Some(name);
                }
            }
        }
    }

    fn write_and_commit(&self, name: &str, text: &[u8]) {
        put(&self.git.root.join(name), Some(text));
        self.commit(name);
    }

    fn commit(&self, name: &str) {
        let made = self.git.commit_some(&[name], "the person's");
        self.commits.borrow_mut().extend(made);
    }

    /// The file of the work of the first item.
    fn first_file(&self) -> String {
        let key = match self.story.kind {
            Kind::Pipeline { .. } => spec_id(1),
            Kind::Build { .. } => "t1".to_owned(),
            Kind::Stories { .. } => user_story(1),
            Kind::Loop => LOOP_TASK.to_owned(),
        };
        format!("work/{key}.txt")
    }

    /// Withdraws the first item, if it is asked for and its work is not on the branch yet.
    fn withdraw(&self) {
        let name = self.first_file();
        if self.git.tip_tree().contains_key(name.as_str()) {
            return;
        }
        let home = self.git.root.join("ralph");
        let is_withdrawn = match self.story.kind {
            Kind::Pipeline { .. } => {
                let spec = format!("specs/{}.md", spec_id(1));
                put(&home.join(&spec), None);
                self.commit(&format!("ralph/{spec}"));
                true
            }
            Kind::Build { .. } => {
                let path = home.join("plan.jsonl");
                let bytes = get(&path).unwrap_or_default();
                let plan = Plan::parse(&bytes);
                let tasks = plan.tasks_view();
                let mut all = tasks.pending.iter().chain(&tasks.done);
                let id = all.find(|task| task.name == "t1").map(|task| task.id.to_string());
                id.is_some_and(|id| {
                    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
                    let is_other = |line: &&[u8]| {
                        memchr::memmem::find(line, format!("\"{id}\"").as_bytes()).is_none()
                    };
                    let rest: Vec<u8> = lines.filter(is_other).flatten().copied().collect();
                    self.write_and_commit("ralph/plan.jsonl", &rest);
                    true
                })
            }
            Kind::Stories { .. } => {
                let text = get(&home.join(PRD_FILE)).unwrap_or_default();
                let prd = Prd::parse(&text).ok();
                prd.is_some_and(|mut prd| {
                    let is_other = prd.user_stories.len() > 1;
                    if is_other {
                        prd.user_stories.retain(|story| story.id != user_story(1));
                        let text = prd.render();
                        self.write_and_commit(&format!("ralph/{PRD_FILE}"), text.as_bytes());
                    }
                    is_other
                })
            }
            Kind::Loop => false,
        };
        if is_withdrawn {
            *self.withdrawn.borrow_mut() = Some(name);
        }
    }

    /// Whether they withdrew any item.
    pub(super) fn has_withdrawn(&self) -> bool {
        self.withdrawn.borrow().is_some()
    }

    /// Whether they withdrew the item of this name.
    pub(super) fn has_withdrawn_item(&self, key: &str) -> bool {
        self.withdrawn.borrow().as_deref() == Some(&*format!("work/{key}.txt"))
    }

    /// Whether a file of the checkout is the person's doing.
    pub(super) fn is_persons(name: &str) -> bool {
        name.starts_with("persons-")
    }

    /// Has the checkout follow what has landed, as `ralph land` does, once nothing is in the way; returns what is wrong.
    pub(super) fn bring_along(&self, config: &Config, state: Option<&State>) -> Vec<String> {
        let mut wrong = Vec::new();
        if let Some(name) = self.in_the_way.borrow_mut().take() {
            let path = self.git.root.join(&name);
            if get(&path).as_deref() != Some(IN_THE_WAY) {
                wrong.push(format!("the person's uncommitted `{name}` is lost"));
            }
            put(&path, None);
        }
        let repository = Arc::new(SimulatedRepository::of(self.git.clone(), None));
        let repository = PersonsRepository::only(repository, own_paths(), RUN_BRANCH);
        // Without private state nothing has landed.
        let Some(state) = state else { return wrong };
        let place = RunResources::simulated(state).expect("the disk has room");
        let environment = Environment::default();
        let context = gate_context(config, state, &place, &environment, &self.git.root);
        let pinned = PinnedGates::of(config);
        let brought = repository.bring_along(|newer| {
            newer.assess(&context, &pinned, &mut |_| Ok(())).map_err(WorkflowError::from)
        });
        match brought {
            Ok((None, _)) => {}
            Ok((Some(waits), _)) => wrong.push(format!("the checkout does not follow: {waits}")),
            Err(error) => wrong.push(format!("the checkout cannot follow: {error}")),
        }
        wrong
    }

    /// Returns what became of the person's doings that must not.
    pub(super) fn check(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let head = self.git.head().expect("it answers");
        let head = head.id().expect("there is a commit").clone();
        for commit in &*self.commits.borrow() {
            if !self.git.is_ancestor(commit, &head).expect("it answers") {
                wrong.push(format!("the person's commit {commit} is not on the branch any more"));
            }
        }
        let notes = get(&self.git.root.join(NOTES)).unwrap_or_default();
        for line in &*self.notes.borrow() {
            if memchr::memmem::find(&notes, line.as_bytes()).is_none() {
                wrong.push(format!("the person's note {line:?} is lost"));
            }
        }
        let tree = self.git.state().head_tree();
        if let Some(name) = &*self.withdrawn.borrow()
            && tree.contains_key(name.as_str())
        {
            wrong.push(format!("`{name}` landed although the person had withdrawn it"));
        }
        wrong.extend(self.landed_twice(head));
        wrong
    }

    /// Returns the landings that are on the branch twice.
    fn landed_twice(&self, head: Oid) -> Vec<String> {
        let state = self.git.state();
        let commits = state.reachable(std::iter::once(head));
        let mut found: Vec<&str> = Vec::new();
        let mut wrong = Vec::new();
        for number in commits {
            let message = state.commits[number].message.lines().next().unwrap_or_default();
            let is_landing = message.starts_with("ralph: ")
                && (message.ends_with(" passes") || message.ends_with(" is done"));
            if is_landing && found.contains(&message) {
                wrong.push(format!("{message:?} is on the branch twice"));
            }
            found.push(message);
        }
        wrong
    }
}

/// What `ralph land` runs gates with.
pub(super) fn gate_context<'a>(
    config: &'a Config,
    state: &'a State,
    place: &'a RunResources,
    environment: &'a Environment,
    workspace: &'a Utf8Path,
) -> GateContext<'a> {
    GateContext {
        item: None,
        state,
        place,
        environment,
        pass: &config.env_pass,
        workspace,
        boundary: InForce::Off,
        sandbox: &config.sandbox,
        writable: &config.writable,
        interrupt_grace: config.limits.interrupt_grace,
        terminate_grace: config.limits.terminate_grace,
        log: config.limits.log,
        clock: &SimulatedClock,
        command: "ralph land",
        signals: None,
        extent: Extent::All,
        copy: &config.checkout.copy,
        slot: None,
        built_in: None,
    }
}
