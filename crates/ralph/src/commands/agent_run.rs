//! `ralph agent run`: one supervised run of a prompt, or the same prompt several times.

use std::io::Read;

use ralph_engine::config::FlagValue;
use ralph_engine::files::lock::LockError;
use ralph_engine::session::{AgentTask, Locking, Opening, Session, SessionError, SessionRequest};
use ralph_engine::workflow::driver::Ended;
use ralph_engine::workflow::repeat::{RepeatEnd, Repeated, repeat};
use ralph_model::policy::budget::Budget;

use super::read_argument;
use crate::args::{AgentOptions, AgentRunArgs, GlobalArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::agent_run::{AgentRunScreen, announce, show_report, show_stop};
use crate::setup::{Setup, arguments};

pub(crate) fn run(global: &GlobalArgs, args: &AgentRunArgs) -> Result<Exit, CliError> {
    let agent_flags = flags(&args.agent);
    let setup = Setup::load(global, &agent_flags)?.trusted(&agent_flags)?;
    let prompt = read_prompt(args)?;
    let screen = AgentRunScreen::new(setup.ui, setup.cwd.clone(), args.repeat);
    // Two agents that change one workspace would interfere; read-only ones do not.
    let locking = if args.role.writes_workspace() { Locking::Exclusive } else { Locking::Shared };
    let opened = Session::open(SessionRequest {
        workspace: &setup.workspace,
        home: &setup.home,
        config: &setup.config,
        environment: &setup.environment,
        command: "ralph agent run",
        args: arguments(),
        roles: std::slice::from_ref(&args.role),
        locking,
        budget: budget(&setup, args),
        wait_for_limits: setup.config.limits.wait && !args.no_wait,
        context_limit: None,
        reload: Box::new(|| setup.reload(&flags(&args.agent))),
        mirror_report: setup.mirror_report(),
        subscriber: Box::new(screen),
    });
    let (mut session, opening) = opened.map_err(|error| {
        let held = matches!(error, SessionError::Lock(LockError::RunHeld { .. }));
        let error = CliError::from(error);
        if held { error.hint("a run with a read-only --role can run beside it") } else { error }
    })?;
    setup.show_opening(&Opening { warnings: Vec::new(), ..opening });
    let launch = session.context.launch(args.role);
    let (agent, boundary) = (launch.choice.name.clone(), session.context.boundary);
    if args.resume.is_some() && !launch.resumes() {
        return Err(CliError::usage(format!("agent `{agent}` cannot resume a session"))
            .hint(format!("set `resume` in [agents.{agent}], or leave --resume out")));
    }
    announce(setup.ui, launch, args.role, boundary);
    let task = AgentTask::plain(args.role, prompt, args.resume.clone());
    let Repeated { ended, last, notes } =
        repeat(&mut session, task, args.repeat).map_err(CliError::failed)?;
    drop(session);
    for note in &notes {
        setup.ui.note(note);
    }
    let exit = match &ended {
        Ended::By(RepeatEnd::Completed) => Exit::Done,
        Ended::By(RepeatEnd::Failed) => Exit::Unfinished,
        Ended::Stopped(stop) => show_stop(stop, &agent, last.as_ref()),
    };
    if let Some(report) = &last {
        show_report(setup.ui, &setup.cwd, report, setup.json.then_some(boundary))?;
    }
    Ok(exit)
}

/// The options of a command that runs agents, as settings with the highest precedence.
pub(crate) fn flags(options: &AgentOptions) -> Vec<FlagValue<'_>> {
    let once = options.ignore_limit.then_some(FlagValue {
        flag: "--ignore-limit",
        key: "limits.remember",
        value: "false",
    });
    [
        ("--agent", "agent", &options.agent),
        ("--agent-cmd", "agent_cmd", &options.agent_cmd),
        ("--model", "model", &options.model),
        ("--reasoning", "reasoning", &options.reasoning),
        ("--timeout", "timeout", &options.timeout),
        ("--idle-timeout", "idle_timeout", &options.idle_timeout),
        ("--boundary", "boundary", &options.boundary),
    ]
    .into_iter()
    .filter_map(|(flag, key, value)| Some(FlagValue { flag, key, value: value.as_deref()? }))
    .chain(once)
    .collect()
}

/// Returns the flags of a command that runs a workflow.
pub(crate) fn workflow_flags(options: &AgentOptions, in_place: bool) -> Vec<FlagValue<'_>> {
    let mut flags = flags(options);
    if in_place {
        flags.push(FlagValue { flag: "--in-place", key: "isolation", value: "in-place" });
    }
    flags
}

fn budget(setup: &Setup, args: &AgentRunArgs) -> Budget {
    let budget = setup.budget(args.max_tokens, args.max_cost);
    let default_failures = (args.repeat > 1).then_some(3);
    Budget {
        consecutive_failures: args
            .max_failures
            .or(budget.consecutive_failures)
            .or(default_failures),
        ..budget
    }
}

/// The largest prompt that is read from a file.
const LARGEST: u64 = 64 << 20;

fn read_prompt(args: &AgentRunArgs) -> Result<Vec<u8>, CliError> {
    let prompt = match (&args.prompt, &args.file) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(file)) if file != "-" => read_argument(file, "prompt", LARGEST)?,
        (None, _) => {
            if std::io::IsTerminal::is_terminal(&std::io::stdin()) {
                return Err(CliError::usage("no prompt given")
                    .hint("give it as an argument, with --file, or through a pipe"));
            }
            let mut text = Vec::new();
            std::io::stdin().read_to_end(&mut text).map_err(CliError::failed)?;
            text
        }
    };
    if prompt.iter().all(u8::is_ascii_whitespace) {
        return Err(CliError::usage("the prompt is empty")
            .hint("say in it what the agent is to do: `ralph agent run \"…\"`"));
    }
    Ok(prompt)
}
