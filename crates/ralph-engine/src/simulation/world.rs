//! The world of a story: a home in a repository on the simulated disk, its agents, and the person who restarts Ralph
//! until there is nothing left to do.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::{SignedDuration, Timestamp};
use ralph_model::journal::{AnswerOrigin, JournalEntry, JournalEvent, QuestionKind, parse_line};
use ralph_model::plan::{DoneAt, Plan};
use ralph_model::prd::{PRD_FILE, Prd, Story as UserStory};
use ralph_model::prompt::Prompts;
use ralph_model::role::Role;
use ralph_model::run::{RunOutcome, Trouble};
use ralph_proc::signal::SignalPipe;

use super::agents::{Performance, fault};
use super::git::SimulatedGit;
use super::meanwhile::Meanwhile;
use super::process::run_process;
use super::repository::SimulatedPast;
use super::story::{Kind, Story, spec_id, user_story};
use crate::clock::Clock;
use crate::config::{Config, Isolation};
use crate::files::simulated::{self, Died, ROOT, get, put};
use crate::git::commits::Signing;
use crate::home::{Home, Workspace, WorkspaceKind};
use crate::journal::Journal;
use crate::plan_file::PlanFile;
use crate::questions::Questions;
use crate::state::State;
use crate::subscriber::{RunObserver, Subscriber, Unobserved};
use crate::wait::{Waited, Waiter};
use crate::workflow::build::BuildEnd;
use crate::workflow::build::planning::PlanningEnd;
use crate::workflow::driver::{Ended, Stop};
use crate::workflow::isolation::landing::is_stuck_question;
use crate::workflow::phased::PhasedEnd;
use crate::workflow::pipeline::SpecEnd;
use crate::workflow::stories::StoriesEnd;

/// More runs than any terminating story needs.
const MOST_RUNS: usize = 150;
/// More processes than any person would start.
const MOST_PROCESSES: usize = 60;
/// How often a person restarts a stuck workflow, and how often they answer for one item.
const PATIENCE: usize = 4;

/// The maximum number of troubles per item.
pub(super) const MOST_TROUBLES: usize = 8;

/// The simulated clock of this thread.
pub(super) struct SimulatedClock;

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        simulated::now()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(simulated::monotonic())
    }
}

/// Waits by advancing the clock.
pub(super) struct SimulatedWaiter;

impl Waiter for SimulatedWaiter {
    fn wait_until(
        &mut self,
        clock: &dyn Clock,
        _: Option<&SignalPipe>,
        until: Timestamp,
        tick: &mut dyn FnMut(Duration),
    ) -> Waited {
        tick(Duration::ZERO);
        simulated::effect(|| format!("wait until {until}"));
        if simulated::take_interrupt() {
            return Waited::Interrupted;
        }
        let left = until.duration_since(clock.now());
        if left.is_positive() {
            simulated::pass(left);
        }
        Waited::Reached
    }
}

pub(super) struct Nobody;

impl Subscriber for Nobody {
    fn recorded(&mut self, _: &JournalEntry, _: &ralph_model::board::Board) {}

    fn follow(
        &mut self,
        _: &ralph_model::id::RunId,
        _: &ralph_model::board::Board,
    ) -> Box<dyn RunObserver> {
        Box::new(Unobserved)
    }

    fn waiting(&mut self, _: Duration) {}
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ProcessEnd {
    Died,
    /// With an error, as text.
    Failed(String),
    Panicked(String),
    TooManyRuns,
    Pipeline(Vec<(String, SpecEnd)>),
    Build(Ended<BuildEnd>),
    Planning(Ended<PlanningEnd>),
    Stories(Ended<StoriesEnd>),
    Loop(Ended<PhasedEnd>),
}

/// The panic payload for a workflow that does not end.
struct TooManyRuns;

/// The world.
pub(super) struct World {
    pub(super) story: Rc<Story>,
    pub(super) git: SimulatedGit,
    pub(super) workspace: Workspace,
    pub(super) home: Home,
    pub(super) performances: Vec<Performance>,
    /// The end of the agents' usage limit, and the run that hit it.
    pub(super) limit: Option<(Timestamp, String)>,
    /// Runs started although the limit was in force.
    pub(super) premature: Vec<String>,
    /// The journal entries read so far, and the offset.
    pub(super) journal: Vec<JournalEntry>,
    read: usize,
    pub(super) ends: Vec<ProcessEnd>,
    /// The number of effects of all processes.
    pub(super) effects: u64,
    /// What was acknowledged to the person to be in the plan.
    pub(super) acknowledged: Vec<String>,
    /// What the person accepted although no work shows it.
    pub(super) agreed: BTreeSet<String>,
    /// Files that runs left, and that Ralph took for the person's.
    pub(super) misattributed: BTreeSet<String>,
    pub(super) state: Option<State>,
    /// What the person did while Ralph was at work in clones.
    pub(super) meanwhile: Rc<Meanwhile>,
    /// What went wrong when the person had their checkout brought along in the end.
    pub(super) brought: Vec<String>,
}

/// The mailbox of the loop, relative to the root.
pub(super) const MAILBOX: &str = ".ralph";

/// Ralph's own paths in the working tree.
pub(super) fn own_paths() -> Vec<PathBuf> {
    ["ralph", "ralph.toml", MAILBOX].map(PathBuf::from).to_vec()
}

/// A PRD of this many stories.
fn prd(stories: usize) -> Prd {
    let story = |number: usize| UserStory {
        id: user_story(number),
        title: format!("Story {number}"),
        acceptance_criteria: vec!["it is there".to_owned()],
        priority: i64::try_from(number).unwrap_or(0),
        passes: false,
        notes: String::new(),
    };
    let user_stories = (1..=stories).map(story).collect();
    Prd { branch_name: "main".to_owned(), user_stories }
}

/// The configuration of all stories, before their own settings.
pub(super) fn base_config() -> Config {
    thread_local! {
        static CONFIG: Config = {
            let directory = tempfile::tempdir().expect("a directory can be made");
            let root = Utf8Path::from_path(directory.path()).expect("its path is text");
            let text = format!(
                "boundary = \"off\"\nagent = \"claude\"\n[agents.claude]\nexe = \"/bin/true\"\n\
                 [git]\nsign = false\n\
                 [limits]\nrounds = 6\nrejections = 3\ntroubles = {MOST_TROUBLES}\n\
                 [[gate]]\nname = \"check\"\nrun = [\"/bin/true\"]\n"
            );
            std::fs::write(root.join("ralph.toml"), text).expect("it can be written");
            crate::test_place::load_config(root, None).expect("it is sound")
        };
    }
    CONFIG.with(Clone::clone)
}

pub(super) fn prompts() -> Prompts {
    thread_local! {
        static PROMPTS: Prompts = Prompts::builtin();
    }
    PROMPTS.with(Clone::clone)
}

impl World {
    /// Creates the initial world of a story.
    pub(super) fn new(story: Rc<Story>) -> Rc<RefCell<World>> {
        let begin = Timestamp::from_second(1_800_000_000).expect("it is in range");
        simulated::install(story.seed ^ 0xd15c, begin);
        let root = Utf8PathBuf::from(format!("{ROOT}/ws"));
        put(&root.join("readme.txt"), Some(b"as committed\n"));
        put(
            &root.join("ralph/.gitignore"),
            Some(b"runs/\nralph.log\nspecs/sessions/\n.*.ralph-tmp\n"),
        );
        let specs = match story.kind {
            Kind::Pipeline { specs } => specs,
            Kind::Build { .. } => 1,
            Kind::Stories { .. } | Kind::Loop => 0,
        };
        if let Kind::Stories { stories } = story.kind {
            put(&root.join("ralph").join(PRD_FILE), Some(prd(stories).render().as_bytes()));
        }
        for number in 1..=specs {
            let id = spec_id(number);
            let text = format!("# {id}\n\nMake it.\n");
            put(&root.join(format!("ralph/specs/{id}.md")), Some(text.as_bytes()));
        }
        let git = SimulatedGit::init(&root);
        for (name, text) in &story.dirt {
            put(&root.join(name), Some(text.as_bytes()));
        }
        let home = Home { path: root.join("ralph"), exists: true };
        let workspace = Workspace { root, kind: WorkspaceKind::Plain };
        let meanwhile = Rc::new(Meanwhile::new(Rc::clone(&story), git.clone()));
        let acts = Rc::clone(&meanwhile);
        simulated::attend(Rc::new(move |act| acts.act(act)));
        Rc::new(RefCell::new(World {
            story,
            git,
            workspace,
            home,
            performances: Vec::new(),
            limit: None,
            premature: Vec::new(),
            journal: Vec::new(),
            read: 0,
            ends: Vec::new(),
            effects: 0,
            acknowledged: Vec::new(),
            agreed: BTreeSet::new(),
            misattributed: BTreeSet::new(),
            state: None,
            meanwhile,
            brought: Vec::new(),
        }))
    }

    pub(super) fn config(&self) -> Config {
        let mut config = base_config();
        if !self.story.has_gates {
            config.gates.clear();
        }
        config.mailbox = self.workspace.root.join(MAILBOX);
        config.isolation = if self.story.in_clones { Isolation::Clone } else { Isolation::InPlace };
        config
    }

    /// Returns a run's subject in the story's terms.
    pub(super) fn key_of(&self, item: &str, role: Role) -> String {
        match self.story.kind {
            Kind::Pipeline { .. } => return item.to_owned(),
            Kind::Stories { .. } | Kind::Loop => {
                let name = item.strip_prefix("main/").unwrap_or(item);
                return name.replace("-opinion", "?");
            }
            Kind::Build { .. } => {}
        }
        let (id, end) = match item.split_once("-decompose") {
            Some((id, _)) => (id, ""),
            None => match (item.strip_suffix("-opinion"), item.strip_suffix("-review")) {
                (Some(id), _) => (id, "?"),
                (None, Some(id)) => (id, "!"),
                (None, None) => (item, ""),
            },
        };
        let bytes = get(&self.home_at_work().join("plan.jsonl")).unwrap_or_default();
        let plan = Plan::parse(&bytes);
        let name = plan.task_view(id).map(|task| task.name.to_string());
        let _ = role;
        format!("{}{end}", name.unwrap_or_else(|| id.to_owned()))
    }

    /// Records the start of a run, and returns its agent's behaviour.
    pub(super) fn begin(
        &mut self,
        key: &str,
        run: String,
        role: Role,
        given: &[String],
    ) -> Performance {
        if self.performances.len() >= MOST_RUNS {
            std::panic::resume_unwind(Box::new(TooManyRuns));
        }
        self.learn();
        self.learn_decisions();
        let same = |known: &&Performance| known.key == key && known.role == role;
        let kept = self.performances.iter().filter(same);
        let is_given =
            |known: &&Performance| known.is_kept == Some(true) || known.has_decided == Some(true);
        let number = kept.filter(is_given).count();
        let act = self.story.act(key, role, number);
        let key = key.to_owned();
        // At its limit an agent does nothing.
        let is_kept = self.limited_until().map(|_| false);
        let given = given.to_vec();
        let performance =
            Performance { run, key, role, number, act, is_kept, given, has_decided: None };
        self.performances.push(performance.clone());
        performance
    }

    /// Checks whether a verifier whose run has ended has decided: the plan contains its rejection, or no longer its
    /// accepted task.
    fn learn_decisions(&mut self) {
        let bytes = get(&self.home_at_work().join("plan.jsonl")).unwrap_or_default();
        let plan = Plan::parse(&bytes);
        for known in self.performances.iter_mut().filter(|known| known.has_decided.is_none()) {
            let rejected = memchr::memmem::find(&bytes, fault(known.number).as_bytes()).is_some();
            let is_gone = |id: &String| plan.task_view(id).is_none();
            let accepted = !known.given.is_empty() && known.given.iter().all(is_gone);
            // Other verifiers give an opinion, which an interrupted run has not given.
            known.has_decided = Some(known.key == "verify" && (rejected || accepted));
        }
    }

    /// The end of the usage limit, if it is in force.
    pub(super) fn limited_until(&self) -> Option<Timestamp> {
        self.limit.as_ref().map(|(until, _)| *until).filter(|until| simulated::now() < *until)
    }

    /// Records a run that was started although Ralph could know that the limit is in force: it is recorded, or the run
    /// that hit it was for the same item. Another item may hit it once more, at no cost.
    pub(super) fn note_premature(&mut self, run: &str, key: &str) {
        let is_of = |entry: &JournalEntry, hit: &str| {
            matches!(&entry.event, JournalEvent::RunFinished(_))
                && entry.run.as_ref().is_some_and(|run| run.as_str() == hit)
        };
        let is_recorded = |hit: &str| {
            let mut later = self.journal.iter().skip_while(|entry| !is_of(entry, hit));
            later.any(|entry| matches!(&entry.event, JournalEvent::LimitWaitStarted(_)))
        };
        let knew = |hit: &str| {
            let mut met = self.performances.iter().filter(|known| known.run == hit);
            met.any(|met| met.is_kept == Some(true) && (met.key == key || is_recorded(hit)))
        };
        if self.limit.as_ref().is_some_and(|(_, hit)| knew(hit)) {
            self.premature.push(run.to_owned());
        }
    }

    /// Reads new journal entries: they say which results were stored.
    pub(super) fn learn(&mut self) {
        let Some(state) = &self.state else { return };
        let content = get(&state.journal()).unwrap_or_default();
        if content.len() < self.read {
            // Lines that were not synced are gone.
            self.journal.clear();
            self.read = 0;
        }
        while let Some(end) = memchr::memchr(b'\n', &content[self.read..]) {
            let line = &content[self.read..=self.read + end];
            self.read += end + 1;
            let Ok(entry) = parse_line(line) else { continue };
            self.journal.push(entry);
        }
        for performance in self.performances.iter_mut().filter(|known| known.is_kept.is_none()) {
            let finished = self.journal.iter().rev().find_map(|entry| match &entry.event {
                JournalEvent::RunFinished(finished)
                    if entry.run.as_ref().is_some_and(|run| run.as_str() == performance.run) =>
                {
                    Some(finished)
                }
                _ => None,
            });
            performance.is_kept = finished.map(|finished| {
                !matches!(
                    finished.outcome,
                    RunOutcome::Interrupted
                        | RunOutcome::Trouble { trouble: Trouble::Machine { .. } }
                )
            });
        }
    }

    /// Returns where home is read and written while a workflow is at work: in place, or its draft.
    pub(super) fn home_at_work(&self) -> Utf8PathBuf {
        let draft = self.state.as_ref().map(|state| state.draft(&self.home.path));
        let is_there = |draft: &Utf8PathBuf| {
            self.story.in_clones
                && self.git.beside(draft).is_some_and(|git| git.state().here().is_whole)
        };
        draft.filter(is_there).map_or_else(|| self.home.path.clone(), |draft| draft.join("ralph"))
    }

    /// Whether any task of the spec was ever worked on.
    fn is_planned(&self) -> bool {
        let names = self.story.task_names();
        self.performances.iter().any(|known| names.contains(&known.key))
    }

    /// The person adds a task with a separate command, while Ralph is running.
    pub(super) fn person_adds_a_task(&mut self) {
        let name = "persons-task";
        let Some(state) = self.state.clone() else { return };
        if !matches!(self.story.kind, Kind::Build { .. })
            || self.acknowledged.iter().any(|known| known == name)
        {
            return;
        }
        simulated::unharmed(|| {
            let plan = plan_file(&self.git, &state, &self.home.path);
            let added = plan.with_context(DoneAt::Unborn, |context| {
                plan.change_and_commit(|plan| {
                    plan.add(&format!("{{\"name\":\"{name}\"}}"), context)
                })
            });
            if added.is_ok() {
                self.acknowledged.push(name.to_owned());
            }
        });
    }
}

/// Opens the plan of a home in a repository of the machine.
pub(super) fn plan_file(git: &SimulatedGit, state: &State, home: &Utf8Path) -> PlanFile {
    let past = SimulatedPast { git: git.clone(), path: PathBuf::from("ralph/plan.jsonl") };
    let home = Home { path: home.to_owned(), exists: true };
    PlanFile::over(Some(Box::new(past)), state, &home, Signing::Unsigned)
}

/// Plays a story to its end. The person starts Ralph until there is nothing left to do.
pub(super) fn tell(world: &Rc<RefCell<World>>) {
    tell_processes(world);
    let mut world = world.borrow_mut();
    if world.story.in_clones {
        simulated::start_process(Vec::new());
        let meanwhile = Rc::clone(&world.meanwhile);
        let brought = meanwhile.bring_along(&world.config(), world.state.as_ref());
        world.brought = brought;
    }
}

fn tell_processes(world: &Rc<RefCell<World>>) {
    let (mut stuck, mut answers) = (0, 0);
    for number in 0..MOST_PROCESSES {
        let story = Rc::clone(&world.borrow().story);
        simulated::start_process(story.faults.get(number).cloned().unwrap_or_default());
        simulated::note(|| format!("-- process {}", number + 1));
        let end = catch_unwind(AssertUnwindSafe(|| run_process(world)))
            .unwrap_or_else(|payload| died_of(payload.as_ref()));
        simulated::end_process();
        simulated::note(|| format!("-- ended: {end:?}"));
        world.borrow_mut().ends.push(end.clone());
        world.borrow_mut().effects += simulated::effects();
        if matches!(end, ProcessEnd::Died) {
            // The disk loses power before anything reads it.
            simulated::start_process(Vec::new());
        }
        world.borrow_mut().learn();
        let goes_on = match &end {
            ProcessEnd::Died | ProcessEnd::Failed(_) => true,
            // The person's own task is built; the spec, whose planning had failed, is not.
            ProcessEnd::Build(Ended::By(BuildEnd::Complete)) if !world.borrow().is_planned() => {
                stuck += 1;
                stuck <= PATIENCE
            }
            ProcessEnd::Panicked(_)
            | ProcessEnd::TooManyRuns
            | ProcessEnd::Build(Ended::By(BuildEnd::Complete | BuildEnd::NoGain { .. }))
            | ProcessEnd::Stories(Ended::By(_))
            | ProcessEnd::Loop(Ended::By(
                PhasedEnd::Done { .. } | PhasedEnd::OutOfIterations { .. } | PhasedEnd::NoTask,
            )) => false,
            ProcessEnd::Pipeline(ends) => {
                let stops: Vec<&Stop> = ends
                    .iter()
                    .filter_map(|(_, end)| match end {
                        SpecEnd::Stopped(stop) => Some(stop),
                        _ => None,
                    })
                    .collect();
                let unusable = ends.iter().any(|(_, end)| matches!(end, SpecEnd::Unusable { .. }));
                stuck += usize::from(unusable);
                (unusable && stuck <= PATIENCE)
                    || stops.iter().any(|stop| acts_on(world, stop, &mut stuck, &mut answers))
            }
            ProcessEnd::Build(Ended::Stopped(stop))
            | ProcessEnd::Planning(Ended::Stopped(stop))
            | ProcessEnd::Stories(Ended::Stopped(stop))
            | ProcessEnd::Loop(Ended::Stopped(stop)) => {
                acts_on(world, stop, &mut stuck, &mut answers)
            }
            ProcessEnd::Build(Ended::By(_))
            | ProcessEnd::Planning(Ended::By(_))
            | ProcessEnd::Loop(Ended::By(PhasedEnd::Aborted { .. } | PhasedEnd::Idle { .. })) => {
                stuck += 1;
                stuck <= PATIENCE
            }
        };
        if !goes_on {
            return;
        }
    }
}

/// Performs the person's reaction when Ralph stopped; returns whether to start Ralph again.
fn acts_on(
    world: &Rc<RefCell<World>>,
    stop: &Stop,
    stuck: &mut usize,
    answers: &mut usize,
) -> bool {
    match stop {
        // Starting again confirms that unexplained changes were the person's.
        Stop::Interrupted | Stop::Unexplained { .. } => true,
        Stop::Limited { wait, .. } => {
            let left = wait.until.duration_since(simulated::now());
            simulated::pass(left.max(SignedDuration::ZERO));
            true
        }
        Stop::Stuck { .. } => {
            *stuck += 1;
            *stuck <= PATIENCE
        }
        Stop::TooMuchTrouble { .. } | Stop::OutOfBudget(_) | Stop::Declined { .. } => false,
        Stop::Waiting { item, question, asked } => {
            *answers += 1;
            if *answers > PATIENCE {
                return false;
            }
            let key = world.borrow().key_of(item, Role::Implementer);
            let is_stuck = is_stuck_question(question);
            let answer = world.borrow().story.answers.answer(&key, *asked, is_stuck);
            simulated::note(|| format!("-- the person answers `{answer}` for {key}"));
            if *asked == QuestionKind::Accept && answer == "yes" {
                world.borrow_mut().agreed.insert(key);
            }
            let state = world.borrow().state.clone();
            let path = state.expect("the question was asked in a state").journal();
            let mut journal = Journal::open(&path).expect("nothing harms the person");
            journal.fold().expect("the journal is sound");
            let mut questions = Questions { journal: &mut journal, clock: &SimulatedClock };
            questions.answer(Some(item), answer, AnswerOrigin::Cli).is_ok()
        }
    }
}

fn died_of(payload: &(dyn Any + Send)) -> ProcessEnd {
    if payload.is::<Died>() {
        return ProcessEnd::Died;
    }
    if payload.is::<TooManyRuns>() {
        return ProcessEnd::TooManyRuns;
    }
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    ProcessEnd::Panicked(text.unwrap_or_default())
}
