//! `ralph validate`: checks all state files of a home.

use camino::Utf8Path;
use ralph_engine::config::Origin;
use ralph_engine::git::GitProgram;
use ralph_engine::home::CONFIG_FILE;
use ralph_engine::plan_file::known::PastIds;
use ralph_engine::plan_file::past::Past;
use ralph_engine::validate::{FileProblem, examine};
use serde::Serialize;

use super::print_either;
use crate::args::GlobalArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::plural;
use crate::render::text::StyledLine;
use crate::render::{Tone, Ui, styled};
use crate::setup::Scout;

#[derive(Serialize)]
struct Report {
    files: usize,
    problems: Vec<FileProblem>,
}

pub(crate) fn run(global: &GlobalArgs) -> Result<Exit, CliError> {
    let scout = Scout::look(global, global.root.as_deref())?;
    let named = scout.config.as_ref().ok().and_then(|config| config.home.clone());
    let named = named.or_else(|| global.home.clone());
    let home = scout.workspace.home(named.as_deref());
    let program = GitProgram::new("git", std::env::vars_os());
    // Opening private state would create it; validating creates nothing.
    let past = Past::of(&program, &home.path, None);
    let ids = PastIds::of(past.as_ref());
    let unsure = std::cell::OnceCell::new();
    // An incomplete history cannot tell whether something ever existed.
    let is_unsure = || unsure.get_or_init(|| past.as_ref().and_then(Past::gap)).is_some();
    let known = |id: &str| ids.has(id) || is_unsure();
    let found = examine(&home.path, &known);
    if let Some(Some(gap)) = unsure.get() {
        let told = format!("ids of former tasks were not checked: {gap}");
        scout.ui.note(&told);
    }
    for draft in &found.drafts {
        scout.ui.note(&format!(
            "a draft, which `ralph pipeline` passes over until it is filled in: {draft}"
        ));
    }
    let mut report = Report {
        files: found.files + usize::from(scout.workspace.root.join(CONFIG_FILE).exists()),
        problems: found.problems,
    };
    if let Err(error) = &scout.config {
        report.problems.extend(error.problems.iter().map(|problem| {
            let (path, line) = match &problem.origin {
                Origin::File { path, line, .. } => (path.clone(), Some(*line)),
                other => (other.to_string().into(), None),
            };
            FileProblem { path, line, message: problem.kind.to_string(), mend: None }
        }));
    }
    print_either(scout.ui, global.json, &report, || lines(scout.ui, &report, &home.path))?;
    Ok(if report.problems.is_empty() { Exit::Done } else { Exit::Unfinished })
}

/// Formats the report for people.
fn lines(ui: Ui, report: &Report, home: &Utf8Path) -> Vec<StyledLine> {
    if report.problems.is_empty() {
        let files = plural(report.files as u64, "file");
        return vec![styled!("{} {files} in `{home}`", ui.paint(Tone::Good, "OK:"))];
    }
    let mut lines = Vec::new();
    for problem in &report.problems {
        let line = problem.line.map(|line| format!(":{line}")).unwrap_or_default();
        let label = ui.paint(Tone::Bad, "error:");
        lines.push(styled!("{label} {}{line}: {}", problem.path, problem.message));
        if let Some(mend) = &problem.mend {
            lines.push(styled!("{} {mend}", ui.paint(Tone::Attention, "hint:")));
        }
    }
    lines
}
