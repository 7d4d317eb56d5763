//! `ralph demo`: the pipeline on three specs, with a scripted agent.
//!
//! Everything shown really happens: the repository, the gates, the commits, the receipts and Ralph's judgement are
//! real, and only the agents' actions are scripted. At the end the results are checked, so the demo also tests the
//! machine it runs on.

mod person;
mod stage;

use std::sync::Arc;

use ralph_engine::gates::verify::CommitCheck;
use ralph_engine::git::Oid;
use ralph_engine::workflow::driver::Stop;
use ralph_engine::workflow::pipeline::SpecEnd;
use ralph_engine::workflow::pipeline::list::SpecRow;
use ralph_engine::workflow::pipeline::store::SpecStore;
use ralph_model::contract::DEFAULT_MAGIC_PHRASE;
use ralph_model::journal::JournalEvent;
use ralph_model::pipeline::{DEFAULT_ATTEMPTS, Phase};
use ralph_model::proof::ProofLevel;
use ralph_model::spec::name::SpecPath;
use ralph_proc::signal::{SignalPipe, SignalRequest};
use serde::Serialize;

use self::person::DemoPerson;
use self::stage::DemoStage;
use super::gates::GateRoom;
use super::pipeline::{Chosen, backlog, work};
use super::{print_json, specs, verify};
use crate::args::GlobalArgs;
use crate::args::pipeline::{DemoArgs, PipelineArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::wrap;
use crate::render::workflow::{Look, Narrator, WorkflowScreen};
use crate::render::{self, Tone, Ui, styled};
use crate::setup::Setup;

/// Longer lines are hard to read, even on wide terminals.
const WIDTH: usize = 80;

pub(crate) fn run(global: &GlobalArgs, args: &DemoArgs) -> Result<Exit, CliError> {
    // From here on an interrupt is polled, so that nothing is left behind.
    let signals = SignalPipe::install().map_err(CliError::failed)?;
    let stage = Arc::new(DemoStage::claim(args.dir.as_deref(), args.keep)?);
    require_git(&stage)?;
    // The demo wrote all of it itself, so it is trusted.
    let own = GlobalArgs { root: None, home: None, trust: true, ..global.clone() };
    let setup = stage.build(&own)?;
    introduce(setup.ui);
    let interrupted = || {
        render::important("interrupted");
        Ok(Exit::Interrupted)
    };
    if signals.take() == Some(SignalRequest::Stop) {
        return interrupted();
    }
    let backlog = backlog(&setup)?;
    let asked = everything();
    let chosen = Chosen::of(&asked, &backlog, setup.config.limits.repeats)?;
    let person = Arc::new(DemoPerson::new(&stage)?);
    let narrator = {
        let person = Arc::clone(&person);
        Narrator::new(move |event| person.act(event).or_else(|| caption(event)))
    };
    let look = Look {
        stream: true,
        width: Some(setup.ui.width_up_to(WIDTH)),
        narrator: Some(narrator),
        ..Look::default()
    };
    let screen = WorkflowScreen::new(setup.ui, look);
    let report = work(&setup, &asked, &chosen, screen)?;
    if report.ends.iter().any(|(_, end)| *end == SpecEnd::Stopped(Stop::Interrupted))
        || signals.take() == Some(SignalRequest::Stop)
    {
        return interrupted();
    }
    let rows = specs::rows(&setup, &backlog)?;
    let Some(receipts) = check_receipts(&setup, &rows)? else { return interrupted() };
    let promises = promises(&stage, &setup, &person, &backlog, &rows, &receipts)?;
    conclude(&stage, &setup, &rows, &receipts)?;
    if setup.json {
        let repository = args.keep.then(|| stage.repository().into_string());
        print_json(&JsonDemo { repository, specs: &rows, promises: &promises })?;
    }
    let broken: Vec<&str> =
        promises.iter().filter(|promise| !promise.kept).map(|promise| promise.what).collect();
    if broken.is_empty() {
        show_ways_on(&stage, setup.ui, args.keep);
        return Ok(Exit::Done);
    }
    let error = CliError::failed(format!("this did not happen: {}", broken.join("; ")));
    let hint = "that is a bug; please report it, with the output of `ralph doctor`";
    Err(if args.keep { error } else { error.hint("--keep leaves everything to look at") }
        .hint(hint))
}

fn require_git(stage: &DemoStage) -> Result<(), CliError> {
    let environment = stage.environment();
    for program in ["git", "sh"] {
        if environment.find_program(program, stage.directory().as_std_path()).is_none() {
            return Err(CliError::usage(format!("`{program}` is not installed"))
                .hint("the demo needs git and a shell"));
        }
    }
    Ok(())
}

/// The equivalent command: `ralph pipeline`.
fn everything() -> PipelineArgs {
    PipelineArgs {
        max_attempts: DEFAULT_ATTEMPTS,
        magic_phrase: DEFAULT_MAGIC_PHRASE.to_owned(),
        stream: true,
        anyway: true,
        ..PipelineArgs::default()
    }
}

fn introduce(ui: Ui) {
    say(
        ui,
        "Three specs for a small program go through plan, implement and verify. What the agents \
         say and do is scripted; the repository, the tests, the commits and what Ralph makes of \
         them are real.",
    );
    ui.line("");
}

/// Returns a comment on important events.
fn caption(event: &JournalEvent) -> Option<(Tone, String)> {
    let first = |spec: &str| spec.starts_with("0001");
    let (tone, text) = match event {
        JournalEvent::SpecQueue(queue) => (
            Tone::Active,
            match queue.index {
                1 => "A spec that goes straight through.",
                2 => "An agent that says it is done, and is not.",
                _ => "A plan that cannot work, whoever implements it.",
            },
        ),
        JournalEvent::PlanPass(pass) if first(&pass.spec) => {
            (Tone::Progress, "The planner may read everything and write nothing but this plan.")
        }
        JournalEvent::ImplRunComplete(complete) if first(&complete.spec) => {
            (Tone::Progress, "Only a claim. Ralph checks the commit out and runs your gates on it.")
        }
        JournalEvent::CandidateWritten(written) if first(&written.spec) => {
            (Tone::Progress, "Now a second agent looks at exactly this commit, with fresh eyes.")
        }
        JournalEvent::ImplRejected(rejected) if rejected.reason.contains("does not exist") => (
            Tone::Bad,
            "Caught! The agent said it was done. Ralph looked for the commit and found none; \
             the agent gets that as feedback and tries again.",
        ),
        JournalEvent::Landed(landed) if landed.merge == Some(true) => (
            Tone::Good,
            "Both are on main now: your commit and the agent's, as a merge that passed the gates itself.",
        ),
        JournalEvent::PlanInvalidated(_) => (
            Tone::Bad,
            "Plan discarded! The tests passed, but the result is not what the spec asks for. The old \
             plan is archived; the planner writes another and is given the reason.",
        ),
        _ => return None,
    };
    Some((tone, text.to_owned()))
}

/// Runs the gates of everything accepted again. Returns `None` if the person interrupts.
fn check_receipts(
    setup: &Setup,
    rows: &[SpecRow],
) -> Result<Option<Vec<(Oid, CommitCheck)>>, CliError> {
    let commits: Vec<Oid> = rows
        .iter()
        .filter_map(|row| Oid::parse(row.commit.as_deref().unwrap_or_default().as_bytes()))
        .collect();
    let room = GateRoom::open(setup)?;
    let quiet = setup.ui.silent();
    let checks = verify::check(setup, quiet, &room, &commits)?;
    let owned = |(commit, check): (&Oid, CommitCheck)| (commit.clone(), check);
    Ok(checks.map(|checks| checks.into_iter().map(owned).collect()))
}

/// A property that the demo demonstrates.
#[derive(Serialize)]
struct Promise {
    what: &'static str,
    kept: bool,
}

/// Checks what is on disk, independently of what was shown.
fn promises(
    stage: &DemoStage,
    setup: &Setup,
    person: &DemoPerson,
    backlog: &[SpecPath],
    rows: &[SpecRow],
    receipts: &[(Oid, CommitCheck)],
) -> Result<[Promise; 7], CliError> {
    let store = SpecStore::new(&setup.home.path);
    let markers = backlog.iter().map(|spec| store.load(spec)).collect::<Result<Vec<_>, _>>();
    let markers = markers.map_err(CliError::failed)?;
    let tries = |at: usize| {
        let plan = markers.get(at).and_then(|markers| markers.plan.as_ref());
        plan.map(|plan| plan.tries.as_slice()).unwrap_or_default()
    };
    let is_done = |row: &SpecRow| {
        row.state == "done"
            && row.proof.as_deref() == Some(ProofLevel::GatesPassed.to_string().as_str())
    };
    let claimed_nothing = matches!(tries(1), [only]
        if only.phase == Phase::Implement && only.outcome.contains("does not exist"));
    let planned_twice = markers.get(2).is_some_and(|markers| {
        markers.archived == [1] && markers.plan.as_ref().is_some_and(|plan| plan.attempt == 2)
    });
    let clean = stage.git(&["status", "--porcelain"])?.is_empty()
        && stage.git(&["symbolic-ref", "HEAD"])?.trim() == "refs/heads/main";
    Ok([
        Promise {
            what: "three specs are done, each with its gates passed",
            kept: rows.len() == 3 && rows.iter().all(is_done) && tries(0).is_empty(),
        },
        Promise { what: "a claim with no commit behind it is caught", kept: claimed_nothing },
        Promise { what: "a plan that cannot work is replaced", kept: planned_twice },
        Promise {
            what: "the receipts of all three hold",
            kept: receipts.len() == 3 && receipts.iter().all(|(_, c)| c.holds() == Some(true)),
        },
        Promise { what: "the checkout stays still until work lands", kept: person.saw_stillness() },
        Promise {
            what: "work that lands beside a person's commit is a merge, gated again",
            kept: person.was_merged()?,
        },
        Promise { what: "the working tree is clean, on its branch", kept: clean },
    ])
}

/// Shows the results.
fn conclude(
    stage: &DemoStage,
    setup: &Setup,
    rows: &[SpecRow],
    receipts: &[(Oid, CommitCheck)],
) -> Result<(), CliError> {
    let ui = setup.ui;
    let command = |text: &str| {
        ui.line("");
        ui.line(styled!("{} {}", ui.paint(Tone::Faint, "$"), ui.paint(Tone::Strong, text)));
    };
    command("ralph specs");
    for line in specs::table(ui, rows) {
        ui.line(line);
    }
    let commits = stage.git(&["log", "--format=%h%x09%s"])?;
    command(&format!("git log --oneline | head -{SHOWN}   # Ralph's own begin with `ralph:`"));
    for (commit, subject) in commits.lines().filter_map(|line| line.split_once('\t')).take(SHOWN) {
        ui.line(styled!("{} {subject}", ui.paint(Tone::Attention, commit)));
    }
    if let Some((commit, check)) = receipts.last() {
        let short = commit.as_str().get(..8).unwrap_or(commit.as_str());
        command(&format!("ralph verify {short}   # its gates again, from its receipt alone"));
        for line in verify::lines(ui, commit, check) {
            ui.line(line);
        }
    }
    Ok(())
}

/// How many of the last commits are shown.
const SHOWN: usize = 10;

fn show_ways_on(stage: &DemoStage, ui: Ui, keep: bool) {
    let rows = |rows: &[(&str, &str)]| {
        for (command, what) in rows {
            let gap = " ".repeat(32_usize.saturating_sub(command.len()).max(2));
            let what = ui.paint(Tone::Faint, what);
            ui.line(styled!("  {}{gap}{what}", ui.paint(Tone::Strong, command)));
        }
    };
    ui.line("");
    if keep {
        ui.line("All of it is there to look at:");
        ui.line(format!("  cd {}", stage.repository()));
        rows(&[
            (". ../env", "see what the demo saw, touch nothing of yours"),
            ("ralph specs show 2", "the attempt that was caught"),
            ("ls ralph/specs/plans", "the plans; attempt-1 is the discarded one"),
            ("ralph status", "the runs"),
            ("git log -p", "every change"),
        ]);
        ui.line("");
    }
    ui.line("The same with an agent of yours, in a repository of yours:");
    rows(&[
        ("ralph init", "detects your agent and checks"),
        ("ralph specs new \"What I want\"", "a spec to fill in"),
        ("ralph pipeline", "plan, implement, verify, done"),
    ]);
}

fn say(ui: Ui, text: &str) {
    for line in wrap(text, ui.width_up_to(WIDTH)) {
        ui.line(&line);
    }
}

#[derive(Serialize)]
struct JsonDemo<'a> {
    /// `null` if it was removed.
    repository: Option<String>,
    specs: &'a [SpecRow],
    promises: &'a [Promise],
}
