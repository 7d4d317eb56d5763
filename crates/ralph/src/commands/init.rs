//! `ralph init`: creates a home and a `ralph.toml` from what it detects; never overwrites a file.
//!
//! The new files are committed, so that no later `git add -A` sweeps them up, and the detected gates run once: a gate
//! that fails on the person's own commit is reported here and not after the first paid run.

use std::io::IsTerminal;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_engine::detect::agents::find_agents;
use ralph_engine::detect::needed::{needed_advice, needed_files};
use ralph_engine::git::{Git, GitError, GitProgram};
use ralph_engine::home::{CONFIG_FILE, WorkspaceKind};
use ralph_engine::init::{
    InitPlan, InitRequest, InitStep, SetUpCommit, StepOutcome, perform, plan_init,
};
use ralph_engine::plan_file::merge_driver;
use ralph_engine::trust::ArmedItem;
use serde::Serialize;

use super::{gates, print_json, show_armed};
use crate::args::{GlobalArgs, InitArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::plural;
use crate::render::{self, Tone, Ui, styled};
use crate::setup::{Scout, Setup};

#[derive(Serialize)]
struct Report {
    root: String,
    home: String,
    created: Vec<String>,
    kept: Vec<String>,
    agent: Option<String>,
    gates: Vec<Vec<String>>,
    notes: Vec<String>,
    /// The commit of what was created.
    commit: Option<String>,
    /// Whether every detected gate passed at `HEAD`; absent if they were not run.
    gates_passed: Option<bool>,
}

pub(crate) fn run(global: &GlobalArgs, args: &InitArgs) -> Result<Exit, CliError> {
    let root = global.root.as_deref().unwrap_or(&args.dir);
    let scout = Scout::look(global, Some(root))?;
    let config = scout.config.as_ref();
    let agents = find_agents(config.ok(), &|program| scout.look_up(program));
    let was_unborn = is_unborn(&scout);
    // What is not trusted yet is there all the same: nothing of it is missing.
    let as_written = Scout::look(&GlobalArgs { trust: true, ..global.clone() }, Some(root))?.config;
    let as_written = as_written.as_ref().ok();
    let workspace = &scout.workspace;
    let plan = plan_init(&InitRequest { workspace, config, as_written, agents: &agents })
        .map_err(|error| refused(&error))?;
    let steps = perform(&plan).map_err(|error| refused(&error))?;
    let driver = install_merge_driver(&scout, &plan.home);
    let with = |outcome: StepOutcome| {
        let steps = steps.iter().filter(move |step| step.outcome == outcome);
        steps.map(|step| step.path.to_string()).collect::<Vec<_>>()
    };
    let (created, kept) = (with(StepOutcome::Created), with(StepOutcome::Kept));
    show_files(scout.ui, &plan, &steps);
    let settings = plan.root.join(CONFIG_FILE);
    let is_new = !kept.iter().any(|path| settings.as_str() == path.as_str());
    show_findings(scout.ui, &plan, driver, is_new);
    let needed = needed_files(&scout.git(), &plan.root, as_written);
    if !needed.is_empty() {
        let found = format!("ignored by git, so not in agents' clones: {}", needed.join(", "));
        scout.ui.labelled(Tone::Attention, "note", &format!("{found}; {}", needed_advice(&needed)));
    }
    let untrusted = trust_own(global, root, &created)?;
    let commit = if args.no_commit { None } else { commit(&scout, &plan, &steps) };
    let tries = !args.no_gates && !plan.gates.is_empty() && is_new;
    let gates_passed = if tries { try_gates(global, &plan, was_unborn) } else { None };
    if global.json {
        print_json(&Report {
            root: plan.root.to_string(),
            home: plan.home.to_string(),
            created,
            kept,
            agent: plan.agent.clone(),
            gates: plan.gates.iter().map(|gate| gate.run.clone()).collect(),
            notes: plan.notes.iter().map(ToString::to_string).collect(),
            commit,
            gates_passed,
        })?;
    } else if !created.is_empty() {
        show_next_steps(&scout, plan.agent.is_some() || !is_new);
    }
    if untrusted {
        scout.ui.important(styled!(
            "{} the existing settings are not trusted, so they have no effect: `ralph trust` shows them and asks",
            scout.ui.paint(Tone::Attention, "note:")
        ));
    }
    Ok(Exit::Done)
}

/// Trusts the files written just now. Existing settings are shown and asked about; returns whether they stay untrusted.
fn trust_own(global: &GlobalArgs, root: &Utf8Path, created: &[String]) -> Result<bool, CliError> {
    let scout = Scout::look(global, Some(root))?;
    let Some(trust) = scout.trust.clone().filter(|trust| trust.by.is_none()) else {
        return Ok(false);
    };
    let is_own = |item: &ArmedItem| {
        created.iter().any(|path| {
            item.origin
                .strip_prefix(path.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        })
    };
    if !trust.items.iter().all(is_own) {
        if !std::io::stdin().is_terminal() || global.json {
            return Ok(true);
        }
        show_armed(scout.ui, &trust);
        if !render::confirm("Some of these settings already existed. Trust them?") {
            return Ok(true);
        }
    }
    trust.agree(&scout.open_state()?).map_err(CliError::failed)?;
    Ok(false)
}

fn show_files(ui: Ui, plan: &InitPlan, steps: &[InitStep]) {
    let inside = |step: &&InitStep| step.path.starts_with(&plan.home);
    for (outcome, tone, label) in
        [(StepOutcome::Created, Tone::Good, "created"), (StepOutcome::Kept, Tone::Faint, "kept")]
    {
        let of_it = steps.iter().filter(|step| step.outcome == outcome);
        let (home, rest): (Vec<&InitStep>, Vec<&InitStep>) = of_it.partition(inside);
        // Directories are made along with their files; one that is empty is nothing to look at.
        let home: Vec<_> = home.into_iter().filter(|step| step.path.is_file()).collect();
        if !home.is_empty() {
            let name = plan.home.strip_prefix(&plan.root).unwrap_or(&plan.home);
            let count = plural(home.len() as u64, "file");
            ui.labelled(tone, label, &format!("{name}/ ({count}): specs, state and prompts"));
        }
        for step in rest {
            let name = step.path.strip_prefix(&plan.root).unwrap_or(&step.path);
            ui.labelled(tone, label, name.as_str());
        }
    }
}

/// Shows the findings. A kept `ralph.toml` may differ from them: it takes effect, and its notes list what it lacks.
fn show_findings(ui: Ui, plan: &InitPlan, driver: Result<bool, GitError>, is_new: bool) {
    match driver {
        Ok(true) => ui.labelled(
            Tone::Good,
            "merge",
            "installed the plan merge driver; run `ralph init` in each clone",
        ),
        Ok(false) => {}
        Err(error) => ui.important(styled!(
            "{} the plan merge driver was not installed, so git merges plans by line: {error}",
            ui.paint(Tone::Attention, "note:")
        )),
    }
    for gate in plan.gates.iter().filter(|_| is_new) {
        ui.labelled(
            Tone::Active,
            "gate",
            &format!("{}: {} ({})", gate.name, gate.run.join(" "), gate.why),
        );
    }
    if let Some(agent) = plan.agent.as_ref().filter(|_| is_new) {
        ui.labelled(Tone::Active, "agent", agent);
    }
    for note in &plan.notes {
        ui.important(styled!("{} {note}", ui.paint(Tone::Attention, "note:")));
        if let Some(hint) = note.hint() {
            ui.important(styled!("{} {hint}", ui.paint(Tone::Attention, "hint:")));
        }
    }
}

/// Commits the new files, after asking at a terminal. Returns the commit.
fn commit(scout: &Scout, plan: &InitPlan, steps: &[InitStep]) -> Option<String> {
    let ui = scout.ui;
    // A configuration that does not load is a note already; whether home belongs in git is not known with it.
    let settings = &scout.config.as_ref().ok()?.git;
    let program = GitProgram::new("git", std::env::vars_os());
    let commit = match SetUpCommit::plan(&program, plan, steps, settings) {
        Ok(commit) => commit?,
        Err(error) => return not_committed(ui, &error),
    };
    if is_unborn(scout) {
        ui.important(styled!(
            "{} the new files were not committed: the repository has no commit yet; add them to your first",
            ui.paint(Tone::Attention, "note:")
        ));
        return None;
    }
    let asks = std::io::stdin().is_terminal();
    if asks && !render::agree("Commit these files?") {
        ui.important("not committed; commit them before you start a workflow");
        return None;
    }
    match commit.make() {
        Ok(Some(id)) => {
            let short = id.as_str().get(..8).unwrap_or(id.as_str());
            ui.labelled(Tone::Good, "commit", &format!("{short} ralph: set up"));
            Some(id.to_string())
        }
        Ok(None) => None,
        Err(error) => not_committed(ui, &error),
    }
}

fn not_committed(ui: Ui, error: &dyn std::error::Error) -> Option<String> {
    let label = ui.paint(Tone::Attention, "note:");
    ui.important(styled!("{label} the new files were not committed: {error}"));
    None
}

/// Whether the repository has no commit yet.
fn is_unborn(scout: &Scout) -> bool {
    let git = Git::discover(scout.git(), &scout.workspace.root);
    git.is_ok_and(|git| git.resolve("HEAD").is_ok_and(|head| head.is_none()))
}

/// Returns the person's uncommitted files, the first few by name.
fn uncommitted(setup: &Setup, home: &Utf8Path) -> Option<String> {
    let git = Git::discover(setup.git(), &setup.workspace.root).ok()?;
    let worktree = git.place().worktree.clone()?;
    let is_theirs = |path: &std::path::Path| {
        let path = worktree.as_std_path().join(path);
        !path.starts_with(home) && !path.ends_with(CONFIG_FILE)
    };
    let entries = git.status().ok()?;
    let paths: Vec<_> =
        entries.iter().map(|entry| &entry.path).filter(|path| is_theirs(path)).collect();
    let shown: Vec<_> = paths.iter().take(3).map(|path| format!("`{}`", path.display())).collect();
    let more = paths.len().saturating_sub(shown.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!paths.is_empty()).then(|| format!("{}{more}", shown.join(", ")))
}

/// Runs the gates written into a new `ralph.toml`; failures are reported but stop nothing.
fn try_gates(global: &GlobalArgs, plan: &InitPlan, was_unborn: bool) -> Option<bool> {
    let at = GlobalArgs { root: Some(plan.root.clone()), ..global.clone() };
    let setup = Setup::load(&at, &[]).ok()?;
    let uncommitted = uncommitted(&setup, &plan.home);
    if was_unborn && let Some(files) = uncommitted {
        setup.ui.important(styled!(
            "{} the gates were not run: they run at a commit, and these files are not committed yet: {files}",
            setup.ui.paint(Tone::Attention, "note:")
        ));
        setup.ui.important(styled!(
            "{} commit them, then run `ralph doctor --gates`",
            setup.ui.paint(Tone::Attention, "hint:")
        ));
        return None;
    }
    match gates::try_at_head(&setup, "ralph init") {
        Ok(true) => Some(true),
        Ok(false) => {
            if let Some(files) = uncommitted {
                setup.ui.important(
                    format!("note: gates run at a commit; not committed here: {files}").as_str(),
                );
            }
            setup.ui.important(
                "hint: these gates do not pass on your own commit; install what is missing, fix the project or edit \
                 the gate in ralph.toml, then check with `ralph doctor --gates`",
            );
            Some(false)
        }
        // A repository without a commit, or a directory of several repositories.
        Err(error) => {
            let reason = format!("note: the gates were not run: {}", error.message);
            setup.ui.important(reason.as_str());
            None
        }
    }
}

fn show_next_steps(scout: &Scout, has_agent: bool) {
    let ui = scout.ui;
    ui.line("");
    ui.line("Next:");
    if scout.workspace.kind == WorkspaceKind::Plain {
        ui.line("  git init                   then `ralph init` again");
    }
    if !has_agent {
        ui.line("  ralph demo                 try it without an agent, then install one");
    }
    ui.line("  ralph specs new \"Title\"    write a spec, then run `ralph pipeline`");
    ui.line("  ralph exec \"<goal>\"        or start from one sentence");
    ui.line("  ralph doctor               check that this machine is ready");
}

/// Configures the merge driver in home's repository; `false` if it is already configured, or without a repository.
fn install_merge_driver(scout: &Scout, home: &Utf8Path) -> Result<bool, GitError> {
    if scout.workspace.kind == WorkspaceKind::Plain {
        return Ok(false);
    }
    let program = GitProgram::new("git", std::env::vars_os());
    match Git::discover(program, home) {
        Ok(git) => merge_driver::install(&git, &this_program()),
        Err(GitError::NotARepository { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the path of this program; only its name if the path is not UTF-8.
pub(super) fn this_program() -> Utf8PathBuf {
    let path = std::env::current_exe().ok();
    path.and_then(|path| Utf8PathBuf::from_path_buf(path).ok()).unwrap_or_else(|| "ralph".into())
}

fn refused(error: &ralph_engine::init::InitError) -> CliError {
    let source = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    let stopped = CliError::usage(format!("{error}{}", source.unwrap_or_default()));
    stopped.hints(error.hint())
}
