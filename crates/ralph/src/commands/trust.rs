//! `ralph trust`: shows which of this repository's settings need trust, and records the person's decision.

use std::io::IsTerminal;

use ralph_engine::trust::{ArmedItem, ItemNews, Trust, TrustedBy, note_always};
use ralph_proc::tree::ancestors;
use serde::Serialize;

use super::print_json;
use crate::args::{GlobalArgs, TrustArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::{padded, widest};
use crate::render::{self, Tone, Ui, styled};
use crate::setup::Scout;

#[derive(Serialize)]
struct Report<'a> {
    root: &'a str,
    /// The value for `RALPH_TRUST`.
    digest: &'a str,
    trusted: bool,
    by: Option<TrustedBy>,
    items: &'a [ArmedItem],
}

pub(crate) fn run(global: &GlobalArgs, args: &TrustArgs) -> Result<Exit, CliError> {
    let scout = Scout::look(global, global.root.as_deref())?;
    let (ui, root) = (scout.ui, scout.workspace.root.clone());
    let Some(mut trust) = scout.trust.clone() else {
        let error = scout.config.err().map(|error| error.to_string()).unwrap_or_default();
        return Err(CliError::usage(error).hint("only settings that load can be trusted"));
    };
    if let Some(state) = scout.find_state()?
        && let Some(run) = state.run_guarded_by(ancestors).map_err(CliError::failed)?
    {
        return Err(CliError::usage(format!(
            "only a person can give trust, and this is run {run}"
        )));
    }
    if args.forget {
        if let Some(state) = scout.find_state()? {
            Trust::forget(&state).map_err(CliError::failed)?;
        }
        ui.line("forgotten; to undo --always, edit `trust.always` in your own configuration");
        return Ok(Exit::Done);
    }
    if args.always {
        let path =
            note_always(&|name| scout.environment.text(name), &root).map_err(CliError::usage)?;
        ui.labelled(Tone::Good, "trust", &format!("added `{root}` to `{path}`"));
        trust.by = Some(TrustedBy::Always);
    }
    if !global.json && !trust.items.is_empty() {
        show_armed(ui, &trust);
    }
    let may_ask = std::io::stdin().is_terminal() && !global.json;
    let agrees = trust.by.is_none() && (args.yes || (may_ask && render::confirm("Trust this?")));
    if agrees {
        trust.agree(&scout.open_state()?).map_err(CliError::failed)?;
        trust.by = Some(TrustedBy::Agreed);
    }
    if global.json {
        print_json(&Report {
            root: root.as_str(),
            digest: &trust.digest,
            trusted: trust.by.is_some(),
            by: trust.by,
            items: &trust.items,
        })?;
    } else if let Some(by) = trust.by {
        ui.labelled(Tone::Good, "trust", &by.to_string());
    }
    match trust.by {
        Some(_) => Ok(Exit::Done),
        None if may_ask => Err(CliError::declined()),
        None => Err(CliError::person_needed("no terminal to prompt on")
            .hint("`ralph trust --yes` agrees to what is listed")
            .hint(format!("for one machine or job: RALPH_TRUST={}", trust.digest))),
    }
}

/// Shows the settings that need trust.
pub(crate) fn show_armed(ui: Ui, trust: &Trust) {
    let what = "these settings and templates of the repository can start programs, reach outside it, or instruct agents:";
    ui.labelled(Tone::Attention, "trust", what);
    let width = widest(trust.items.iter().map(|item| item.name.as_str())).min(40);
    for item in &trust.items {
        let news = match item.news {
            ItemNews::Same => "",
            ItemNews::Changed => "  (changed)",
            ItemNews::New => "  (new)",
        };
        let origin = ui.paint(Tone::Faint, &format!("  # {}", item.origin));
        let news = ui.paint(Tone::Attention, news);
        ui.important(styled!("  {} = {}{news}{origin}", padded(&item.name, width), item.value));
    }
}
