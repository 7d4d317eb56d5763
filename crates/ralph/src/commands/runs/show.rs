//! `ralph runs show`: all details of a run, or of all runs of an item.

use ralph_engine::git::patch::PatchForm;
use ralph_model::board::RunView;
use serde::Serialize;

use super::view::{JsonRun, commit_of, decision, events_file, log_file, state_of};
use super::{Chosen, item_of, work};
use crate::commands::print_either;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::{count, dollars, duration, local_time};
use crate::render::text::StyledLine;
use crate::render::{Tone, Ui, styled};
use crate::setup::{Setup, now};

#[derive(Serialize)]
struct JsonItem<'b> {
    item: Option<&'b str>,
    runs: Vec<JsonRun<'b>>,
}

pub(super) fn run(setup: &Setup, chosen: &Chosen<'_>) -> Result<Exit, CliError> {
    if chosen.is_run {
        let run = chosen.runs[0];
        print_either(setup.ui, setup.json, &JsonRun::new(setup, run), || {
            details(setup, chosen, run)
        })?;
        return Ok(Exit::Done);
    }
    let runs = chosen.runs.iter().map(|run| JsonRun::new(setup, run)).collect();
    let json = JsonItem { item: chosen.item, runs };
    print_either(setup.ui, setup.json, &json, || {
        let mut lines = super::lines(setup, &chosen.runs);
        if let Some(last) = chosen.runs.last() {
            lines.push("".into());
            lines.extend(details(setup, chosen, last));
        }
        lines
    })?;
    Ok(Exit::Done)
}

fn field(ui: Ui, name: &str, value: &str) -> StyledLine {
    styled!("{}  {value}", ui.paint(Tone::Strong, &format!("{name:>8}")))
}

/// One run, with one line per detail.
fn details(setup: &Setup, chosen: &Chosen<'_>, run: &RunView) -> Vec<StyledLine> {
    let ui = setup.ui;
    let mut lines = vec![field(ui, "run", run.id.as_str())];
    if let Some((at, started)) = &run.started {
        lines.extend(item_of(run).map(|item| field(ui, "item", item)));
        let model = started.model.as_deref().map(|model| format!(" ({model})")).unwrap_or_default();
        let who =
            format!("{}, {}{model}, attempt {}", started.role, started.agent, started.attempt);
        lines.push(field(ui, "agent", &who));
        let slot = started.slot.map(|slot| format!(", in slot {slot}")).unwrap_or_default();
        lines.push(field(ui, "started", &format!("{}{slot}", local_time(*at, now()))));
        if let Some(session) = &started.resumed_session {
            lines.push(field(ui, "resumed", session));
        }
    }
    let (tone, state) = state_of(run);
    lines.push(styled!("{}  {}", ui.paint(Tone::Strong, "   ended"), ui.paint(tone, &state)));
    if let Some((_, finished)) = &run.finished {
        let cost = match finished.cost_usd {
            Some(usd) if finished.cost_is_estimate => format!("about {}", dollars(usd)),
            Some(usd) => dollars(usd),
            None => "cost unknown".to_owned(),
        };
        let about = if finished.usage_is_estimate { "about " } else { "" };
        let tokens = count(finished.usage.total());
        let used = format!("{}, {about}{tokens} tokens, {cost}", duration(finished.duration));
        lines.push(field(ui, "used", &used));
        lines.extend(finished.session.as_deref().map(|session| field(ui, "session", session)));
        lines.extend(finished.final_line.as_deref().map(|said| field(ui, "said", said)));
    }
    lines.extend(commit_of(run).map(|commit| field(ui, "commit", commit)));
    if let Some((tone, decided)) = decision(&setup.waiting_to_land(), run) {
        lines.push(styled!("{}  {}", ui.paint(Tone::Strong, " decided"), ui.paint(tone, &decided)));
    }
    for reason in run.verdict.iter().flat_map(|verdict| &verdict.reasons) {
        lines.extend(reason.text.lines().map(|line| styled!("          {line}")));
    }
    lines.extend(run.landed.as_deref().map(|landed| field(ui, "landed", landed)));
    let files = [("log", log_file(setup, run)), ("events", events_file(run))];
    for (name, path) in files {
        lines.extend(path.map(|path| field(ui, name, path.as_str())));
    }
    if run.landed.is_none() {
        lines.extend(kept(setup, chosen, run));
    }
    lines
}

/// The changes of a run's work, if it is not on the branch.
fn kept(setup: &Setup, chosen: &Chosen<'_>, run: &RunView) -> Vec<StyledLine> {
    let Ok(Some(work)) = work::find(setup, chosen) else { return Vec::new() };
    if work.is_on_branch {
        return Vec::new();
    }
    let summary = work.patch(PatchForm::Summary).unwrap_or_default();
    let summary = String::from_utf8_lossy(&summary).into_owned();
    let mut lines: Vec<StyledLine> =
        summary.lines().map(|line| styled!("          {}", line.trim_start())).collect();
    let name = if chosen.is_run { run.id.as_str() } else { chosen.item.unwrap_or_default() };
    let hint = format!(
        "`ralph runs diff {name}` shows this work, `ralph runs take {name}` creates a branch for it"
    );
    lines.push(setup.ui.paint(Tone::Faint, &hint).into());
    lines
}
