//! `ralph understand`: maps the code, one topic per run.

use ralph_engine::ask::{Answers, Consents, Scripted};
use ralph_engine::workflow::goal::store::GoalStore;
use ralph_engine::workflow::goal::understand::{Understand, UnderstandOptions, topics_in};
use ralph_model::prompt::PromptKind;
use ralph_model::role::Role;

use super::report::report_understanding;
use super::{open, rounds};
use crate::args::GlobalArgs;
use crate::args::goal::UnderstandArgs;
use crate::commands::agent_run::workflow_flags;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::ask::TerminalPerson;
use crate::setup::{OpenProject, Setup, current_directory};

/// Maps the code.
pub(crate) fn understand(global: &GlobalArgs, args: &UnderstandArgs) -> Result<Exit, CliError> {
    let lookup = |name: &str| std::env::var(name).ok();
    let template = rounds::prompt(&args.rounds, &lookup);
    let cwd = current_directory()?;
    let root = rounds::root_of(template.as_deref(), &cwd)
        .or_else(|| rounds::root_of(args.ignored.prd.as_deref(), &cwd));
    let agent_flags = workflow_flags(&args.run.agent, args.run.in_place);
    let setup =
        Setup::load_for_goal(global, &agent_flags, root.as_deref())?.trusted(&agent_flags)?;
    setup.require_repository()?;
    setup.require_home()?;
    let iterations = rounds::iterations(args.iterations, &lookup)?;
    let pause = rounds::pause(&args.rounds, &lookup)?;
    if args.ignored.branch.is_some() || args.ignored.allowed_paths.is_some() {
        setup.ui.note(
            "--branch and --allowed-paths have no effect: `ralph understand` only changes the map",
        );
    }
    let mut run = args.run.clone();
    run.stream |= rounds::is_raw(&args.rounds, &lookup);
    let roles = [Role::Mapper];
    let OpenProject { mut session, mut project } = open(&setup, "ralph understand", &roles, &run)?;
    let store = GoalStore::new(&setup.home.path);
    let prompt = match &template {
        None => store.understand_prompt().map_err(CliError::failed)?,
        Some(path) => {
            let place = rounds::find_template(&setup, path);
            project.use_template(PromptKind::Understand, &place).map_err(CliError::usage)?
        }
    };
    let mut terminal = TerminalPerson::new(setup.ui);
    let otherwise: Option<&mut dyn ralph_engine::ask::AskPerson> = Some(&mut terminal);
    let (answers, consents) = (Answers::default(), Consents::default());
    let mut person = Scripted { answers, consents, otherwise, show: Box::new(|_, _| {}) };
    let options = UnderstandOptions { iterations, listed: topics_in(&prompt), pause };
    let ended = Understand::new(&mut session, &project, &mut person, options).run();
    let ended = ended.map_err(|error| {
        CliError::failed(error).hint("nothing is lost: `ralph understand` continues")
    })?;
    drop(session);
    report_understanding(&setup, &ended, "ralph understand", args.iterations)
}
