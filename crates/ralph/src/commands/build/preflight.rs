//! Settled with the person before the first run: existing tasks, and an uncommitted plan.

use std::io::IsTerminal;

use ralph_engine::plan_file::PlanFile;
use ralph_engine::workflow::build::planning::Existing;
use ralph_model::plan::Plan;

use crate::commands::plan::not_made;
use crate::error::CliError;
use crate::render;
use crate::render::human::one_line;
use crate::setup::Setup;

/// How the question about unfinished tasks is answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Person,
    /// The answer is yes.
    Yes,
    Nobody,
}

/// Decides the fate of unfinished tasks; `None` if the person chooses to stop.
pub(super) fn existing(
    plan: &Plan<'_>,
    spec: &str,
    asked: Asked,
) -> Result<Option<Existing>, CliError> {
    let tasks = plan.unfinished();
    if tasks.is_empty() {
        return Ok(Some(Existing::Cancel));
    }
    let can_keep = plan.can_keep_all_for(spec);
    // Tasks of other specs do not matter while planning of the current one continues.
    if can_keep && tasks.iter().all(|task| task.spec != spec) {
        return Ok(Some(Existing::Keep));
    }
    if asked == Asked::Yes {
        return Ok(Some(if can_keep { Existing::Keep } else { Existing::Cancel }));
    }
    let mut lines = Vec::new();
    let mut specs: Vec<&str> = Vec::new();
    for task in &tasks {
        if !specs.contains(&&*task.spec) {
            specs.push(&task.spec);
        }
    }
    for spec in specs {
        lines.push(format!("Found unfinished tasks from spec '{spec}':"));
        let of_spec = tasks.iter().filter(|task| task.spec == spec);
        lines.extend(of_spec.map(|task| {
            format!("  - [{}] {}: {}", task.status, task.id, one_line(&task.name, 100))
        }));
    }
    if asked == Asked::Nobody || !std::io::stdin().is_terminal() {
        let does = if can_keep {
            "keeps them and plans what is missing"
        } else {
            "cancels them (git keeps them); `ralph build` finishes them"
        };
        return Err(CliError::person_needed(lines.join("\n"))
            .hint(format!("`ralph plan {spec} --yes` {does}")));
    }
    for line in &lines {
        render::important(line);
    }
    render::important("");
    render::important("What would you like to do?");
    if can_keep {
        render::important("  [k] Keep existing tasks and plan what is missing");
    }
    render::important("  [c] Cancel existing tasks and start fresh");
    render::important("  [a] Abort (keep current plan)");
    Ok(match render::choose("kca", 'a') {
        'k' if can_keep => Some(Existing::Keep),
        'c' => Some(Existing::Cancel),
        _ => None,
    })
}

/// Commits the plan before the first run, so that agents that add everything do not sweep it up. `false` if the person
/// declines.
pub(super) fn preflight(setup: &Setup, plan: &PlanFile, yes: bool) -> Result<bool, CliError> {
    if !plan.is_uncommitted().map_err(CliError::failed)? {
        return Ok(true);
    }
    if !plan.path().exists() {
        let path = plan.path();
        return Err(CliError::failed(format!(
            "`{path}` is committed, but missing from the work tree"
        ))
        .hint(format!("`git restore '{path}'` restores it; `ralph plan <spec>` starts over")));
    }
    if !yes && std::io::stdin().is_terminal() {
        render::important("plan.jsonl has uncommitted changes.");
        if !render::agree("Commit now?") {
            return Ok(false);
        }
    } else {
        setup.ui.note("plan.jsonl had uncommitted changes; they are committed");
    }
    plan.commit().map_err(|error| not_made(&error, plan.path()))?;
    Ok(true)
}
