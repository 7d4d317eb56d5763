//! `ralph exec "<goal>"`: from a one-sentence goal to a run, with the person's consent at each step.

use ralph_engine::ask::{Consents, Scripted};
use ralph_engine::workflow::goal::exec::{Exec, ExecOptions, ExecOutcome};
use ralph_engine::workflow::goal::store::GoalStore;
use ralph_engine::workflow::pause::RoundPause;
use ralph_model::goal::exec::{ComputedCap, UnderstandMode};
use ralph_model::prd::PRD_FILE;
use ralph_model::role::Role;

use super::report::{JsonOutcome, report_interview, report_understanding, say_next};
use super::run::{JobCap, StoriesJob, implement};
use super::{EXEC_AGAIN, failed, open, person, prepare, rounds, stopped_before};
use crate::args::GlobalArgs;
use crate::args::goal::{ExecArgs, UnderstandChoice};
use crate::commands::agent_run::workflow_flags;
use crate::commands::print_json;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::Tone;
use crate::render::ask::TerminalPerson;
use crate::setup::{OpenProject, Setup};

/// Goes from a goal to a run.
pub(crate) fn exec(global: &GlobalArgs, args: &ExecArgs) -> Result<Exit, CliError> {
    if args.goal.is_none() && !args.interview.resume {
        return Err(CliError::usage("what is the goal?")
            .hint("`ralph exec \"<goal>\"`, or `ralph exec --resume` to continue"));
    }
    let flags = workflow_flags(&args.run.agent, args.run.in_place);
    let mut setup = Setup::load_for_goal(global, &flags, None)?.trusted(&flags)?;
    let lookup = |name: &str| std::env::var(name).ok();
    let branch = args.run.onto.clone().or_else(|| rounds::branch(None, &lookup));
    let consents = Consents {
        prd: args.interview.approve_prd,
        understand: args.approve_understand,
        run: args.approve_run,
    };
    let mut terminal = TerminalPerson::new(setup.ui);
    let mut person = person(&args.interview, consents, &mut terminal)?;
    let goal = args.goal.as_deref();
    let Some(start) = prepare(&mut setup, &args.interview, goal, &mut person)? else {
        return Ok(stopped_before(&setup, EXEC_AGAIN));
    };
    let store = GoalStore::new(&setup.home.path);
    let options = ExecOptions {
        understand: match args.understand {
            UnderstandChoice::Auto => UnderstandMode::Auto,
            UnderstandChoice::Always => UnderstandMode::Always,
            UnderstandChoice::Never => UnderstandMode::Never,
        },
        understand_cap: args.max_understand_iterations,
        run_cap: args.max_run_iterations,
        understand_prompt: store.understand_prompt().map_err(CliError::failed)?,
        branch: branch.clone(),
    };
    let roles = [Role::Interviewer, Role::Mapper];
    let OpenProject { mut session, project } = open(&setup, "ralph exec", &roles, &args.run)?;
    let outcome = Exec::new(&mut session, &project, &mut person, options).advance(start);
    let outcome = outcome.map_err(failed)?;
    drop(session);
    let print = |result: &str| {
        if setup.json { print_json(&JsonOutcome { result, goal, reason: None }) } else { Ok(()) }
    };
    match outcome {
        ExecOutcome::Planning(ended) => {
            let state = store.interview().map_err(failed)?;
            let state =
                state.ok_or_else(|| CliError::failed("the interview's state is missing"))?;
            report_interview(&setup, &ended, &state, EXEC_AGAIN)
        }
        ExecOutcome::Understanding(ended) => report_understanding(&setup, &ended, EXEC_AGAIN, None),
        ExecOutcome::Declined => {
            setup.ui.line("nothing was started");
            say_next(&setup, &["ralph understand", "ralph run"]);
            print("declined")?;
            Ok(Exit::Done)
        }
        ExecOutcome::AllPassing => {
            setup.ui.labelled(Tone::Good, "done", "all stories pass already");
            print("all_passing")?;
            Ok(Exit::Done)
        }
        ExecOutcome::RunConsented { cap } => start_run(&setup, args, branch, &cap, &mut person),
    }
}

/// Starts the run that the person consented to.
fn start_run(
    setup: &Setup,
    args: &ExecArgs,
    branch: Option<String>,
    cap: &ComputedCap,
    person: &mut Scripted<'_>,
) -> Result<Exit, CliError> {
    let job = StoriesJob {
        cap: JobCap::Exactly(cap.iterations),
        pause: RoundPause::default(),
        prd: PRD_FILE.into(),
        template: None,
        branch,
        allowed: Vec::new(),
        retry: false,
        options: &args.run,
    };
    implement(setup, &job, person)
}
