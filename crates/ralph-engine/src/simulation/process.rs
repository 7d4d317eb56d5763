//! One process of Ralph in the world of a story: the command of its workflow, on the simulated machine.

use std::cell::RefCell;
use std::error::Error;
use std::rc::Rc;
use std::sync::Arc;

use ralph_model::contract::DEFAULT_MAGIC_PHRASE;
use ralph_model::plan::Plan;
use ralph_model::policy::budget::Budget;
use ralph_model::prd::PRD_FILE;
use ralph_model::role::Role;

use super::agents::Troupe;
use super::git::SimulatedGit;
use super::meanwhile::RUN_BRANCH;
use super::repository::SimulatedRepository;
use super::story::{Kind, spec_id};
use super::world::{
    Nobody, ProcessEnd, SimulatedClock, SimulatedWaiter, World, own_paths, plan_file, prompts,
};
use crate::ask::{AskPerson, Inquiry, NoReply};
use crate::files::simulated::ROOT;
use crate::plan_file::PlanFile;
use crate::run::{Environment, RunResources};
use crate::session::machine::Machine;
use crate::session::{Locking, Session, SessionRequest};
use crate::workflow::WorkflowError;
use crate::workflow::build::Build;
use crate::workflow::build::planning::{BeforeBuild, Existing, PlanningEnd};
use crate::workflow::driver::Ended;
use crate::workflow::home_committer::{HomeCommitter, HomePlace};
use crate::workflow::isolation::access::LandingRepository;
use crate::workflow::isolation::{Clones, PersonsRepository};
use crate::workflow::pause::RoundPause;
use crate::workflow::phased::{Phased, PhasedEnd};
use crate::workflow::pipeline::queue::{Queue, Selection};
use crate::workflow::pipeline::{Pipeline, PipelineOptions};
use crate::workflow::project::Project;
use crate::workflow::repositories::Repositories;
use crate::workflow::stories::{Stories, StoriesOptions};

/// The text of the loop's task.
pub(super) const TASK: &str = "Make it.";

/// No person is present during a workflow.
struct Away;

impl AskPerson for Away {
    fn text(&mut self, _: &Inquiry<'_>, _: Option<&str>) -> Result<String, NoReply> {
        Err(NoReply::Interrupted)
    }

    fn confirm(&mut self, _: &Inquiry<'_>, _: bool) -> Result<bool, NoReply> {
        Err(NoReply::Interrupted)
    }

    fn choose(&mut self, _: &Inquiry<'_>, _: &[&str], _: usize) -> Result<usize, NoReply> {
        Err(NoReply::Interrupted)
    }
}

/// Returns an error with its causes.
fn words(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// Runs the workflow of a story, like the corresponding command.
pub(super) fn run_process(world: &Rc<RefCell<World>>) -> ProcessEnd {
    run_workflow(world).unwrap_or_else(ProcessEnd::Failed)
}

fn run_workflow(world: &Rc<RefCell<World>>) -> Result<ProcessEnd, String> {
    let (story, git, workspace, home, config) = {
        let world = world.borrow();
        let World { story, git, workspace, home, .. } = &*world;
        let config = world.config();
        (Rc::clone(story), git.clone(), workspace.clone(), home.clone(), config)
    };
    let mut environment = Environment::default();
    environment.set("XDG_STATE_HOME", format!("{ROOT}/state"));
    let roles: &[Role] = match story.kind {
        Kind::Pipeline { .. } => &[Role::Planner, Role::Implementer, Role::Verifier],
        Kind::Build { .. } => {
            &[Role::Planner, Role::Builder, Role::Verifier, Role::Investigator, Role::Decomposer]
        }
        Kind::Stories { .. } => &[Role::Implementer, Role::Verifier],
        Kind::Loop => &[Role::Builder, Role::Verifier],
    };
    let machine = Machine {
        clock: &SimulatedClock,
        waiter: Box::new(SimulatedWaiter),
        performer: Box::new(Troupe { world: Rc::clone(world) }),
        resources: RunResources::simulated,
        signals: || Ok(None),
        confine: |_, _| Ok(()),
    };
    let request = SessionRequest {
        workspace: &workspace,
        home: &home,
        config: &config,
        environment: &environment,
        command: "ralph simulated",
        args: Vec::new(),
        roles,
        locking: Locking::Exclusive,
        budget: Budget::default(),
        wait_for_limits: story.waits,
        context_limit: None,
        reload: Box::new(|| Ok(config.clone())),
        mirror_report: Box::new(|_| {}),
        subscriber: Box::new(Nobody),
    };
    let (mut session, _) = Session::open_on(machine, request).map_err(|error| words(&error))?;
    world.borrow_mut().state = Some(session.context.state.clone());
    let repository = Arc::new(SimulatedRepository::of(git.clone(), None));
    let own = own_paths();
    let repositories = Repositories::only(Arc::clone(&repository) as _, own.clone());
    let exclude = workspace.root.join(".git/info/exclude");
    let worktree = workspace.root.clone();
    let place = HomePlace { git: Box::new(git.clone()), worktree, home: "ralph".into(), exclude };
    let committer = HomeCommitter::at(Some(place), &home.path, &config.git);
    let mut project = Project::of(repositories, prompts(), committer, home.path.clone(), None);
    if story.in_clones {
        isolate(&mut session, &mut project, &repository).map_err(|error| words(&error))?;
    } else {
        // A command asks the person about such files before it begins.
        let dirt = project.dirt(&session.context).map_err(|error| words(&error))?;
        let is_persons = |name: &String| story.dirt.iter().any(|(known, _)| known == name);
        let mut world = world.borrow_mut();
        world.misattributed.extend(dirt.into_iter().filter(|name| !is_persons(name)));
    }
    match story.kind {
        Kind::Pipeline { .. } => {
            let options = PipelineOptions {
                magic_phrase: DEFAULT_MAGIC_PHRASE.to_owned(),
                max_attempts: 6,
                repeats: 3,
                keep_going: true,
                forced: Vec::new(),
                renewed: Vec::new(),
            };
            let specs = project.home().join("specs");
            let queue = Queue { specs, selection: Selection::All { to: None }, validate: true };
            let report = Pipeline::new(&mut session, &mut project, &options).run(&queue);
            let report = report.map_err(|error| words(&error))?;
            let ends = report.ends.into_iter().map(|(spec, end)| (spec.to_string(), end));
            Ok(ProcessEnd::Pipeline(ends.collect()))
        }
        Kind::Build { .. } => run_build(&mut session, &mut project, &git),
        Kind::Stories { .. } => {
            let (pause, prd, branch) = (RoundPause::default(), PRD_FILE.into(), "main".to_owned());
            let options =
                StoriesOptions { iterations: 60, pause, prd, branch, allowed: Vec::new() };
            let mut away = Away;
            let mut stories = Stories::new(&mut session, &mut project, &mut away, options);
            stories.run().map(ProcessEnd::Stories).map_err(|error| words(&error))
        }
        Kind::Loop => {
            let ended = run_loop(&mut session, &mut project).map_err(|error| words(&*error))?;
            Ok(ProcessEnd::Loop(ended))
        }
    }
}

/// Builds a plan, which is made first where there is none, like `ralph build SPEC`.
fn run_build(
    session: &mut Session<'_>,
    project: &mut Project,
    git: &SimulatedGit,
) -> Result<ProcessEnd, String> {
    let root = project.home().parent().expect("home is in a repository");
    let at_work = git.beside(root).expect("home is in a repository");
    let plan = plan_file(&at_work, &session.context.state, project.home());
    let plan = Arc::new(plan.for_runs().map_err(|error| words(&error))?);
    let mut build = Build::new(session, project, Arc::clone(&plan), None);
    let planned = plan_first(&mut build, &plan).map_err(|error| words(&*error))?;
    if let Some(end) = planned
        && !matches!(end, Ended::By(PlanningEnd::Planned { .. }))
    {
        return Ok(ProcessEnd::Planning(end));
    }
    build.forget_planning_runs();
    build.run().map(ProcessEnd::Build).map_err(|error| words(&error))
}

/// Has the runs of a workflow work in clones, as opening a project does.
fn isolate(
    session: &mut Session<'_>,
    project: &mut Project,
    repository: &Arc<SimulatedRepository>,
) -> Result<(), WorkflowError> {
    let persons = Arc::clone(repository) as Arc<dyn LandingRepository>;
    let persons = PersonsRepository::only(persons, own_paths(), RUN_BRANCH);
    let clones = Clones::over(&session.context, vec![persons])?;
    let left = project.work_in(session, clones, |context, home| {
        let root = home.parent().expect("the draft has a root").to_owned();
        let git = repository.git.beside(&root).expect("the draft was opened");
        let plan = plan_file(&git, &context.state, home);
        let exclude = root.join(".git/info/exclude");
        let place = HomePlace { git: Box::new(git), worktree: root, home: "ralph".into(), exclude };
        (HomeCommitter::at(Some(place), home, &context.config.git), plan)
    })?;
    project.publish_left(session, &left)
}

/// Plans the spec unless it has tasks, like `ralph build SPEC`.
fn plan_first(
    build: &mut Build<'_, '_>,
    plan: &PlanFile,
) -> Result<Option<Ended<PlanningEnd>>, Box<dyn Error>> {
    let spec = format!("{}.md", spec_id(1));
    let bytes = plan.read()?;
    let found = Plan::parse(&bytes);
    Ok(match build.before_build(&found, Some(&spec))? {
        BeforeBuild::GoOnPlanning => Some(build.go_on_planning()?),
        BeforeBuild::Plan => Some(build.plan_spec(&spec, Existing::Keep)?),
        BeforeBuild::Nothing | BeforeBuild::SetSpec => None,
    })
}

/// Begins or resumes the task, like `ralph loop TASK`.
fn run_loop(
    session: &mut Session<'_>,
    project: &mut Project,
) -> Result<Ended<PhasedEnd>, Box<dyn Error>> {
    let mut phased = Phased::open(session, project, None)?;
    let is_untold = phased.completes_acceptance()?;
    let known = phased.current()?.filter(|record| is_untold || !record.is_over());
    let is_over = phased.current()?.is_some_and(|record| record.is_over());
    match known {
        Some(_) => drop(phased.resume(None)?),
        // The person sees in the history that the task is done, and does not request it again.
        None if is_over => {}
        None => phased.start(TASK)?,
    }
    Ok(phased.run()?)
}
