//! `ralph exec "<goal>"`: from a sentence to a run, with the person's consent at each step.

use ralph_engine::ask::Consents;
use ralph_engine::workflow::goal::exec::{Exec, ExecOptions, ExecOutcome};
use ralph_engine::workflow::goal::store::GoalStore;
use ralph_model::goal::exec::{ComputedCap, UnderstandMode};
use ralph_model::role::Role;

use super::report::{JsonOutcome, report_interview, report_understanding, say_next};
use super::{failed, open, person, prepare};
use crate::args::GlobalArgs;
use crate::args::goal::{ExecArgs, UnderstandChoice};
use crate::commands::agent_run::flags;
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
            .hint("`ralph exec \"<goal>\"`, or `ralph exec --resume` to go on"));
    }
    let mut setup = Setup::load_for_goal(global, &flags(&args.run.agent), None)?;
    let consents = Consents {
        prd: args.interview.approve_prd,
        understand: args.approve_understand,
        run: args.approve_run,
    };
    let mut terminal = TerminalPerson::new(setup.ui);
    let mut person = person(&args.interview, consents, &mut terminal)?;
    let goal = args.goal.as_deref();
    let Some(start) = prepare(&mut setup, &args.interview, goal, &mut person)? else {
        return Ok(Exit::Interrupted);
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
            let state = state.ok_or_else(|| CliError::failed("the interview's state is gone"))?;
            report_interview(&setup, &ended, &state)
        }
        ExecOutcome::Understanding(ended) => report_understanding(&setup, &ended),
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
        ExecOutcome::RunConsented { cap } => start_run(&cap),
    }
}

/// Starts the run that the person consented to.
fn start_run(cap: &ComputedCap) -> Result<Exit, CliError> {
    // Issue 15, part d: stories are implemented in slots, which come with issue 14.
    Err(CliError::failed(format!("this Ralph cannot implement stories yet; it would take {cap}"))
        .hint("the PRD is written and stays; `ralph build` implements specs today"))
}
