//! The gates of a loop: those that are configured, the loop's own, and those of its preset.

use std::time::Duration;

use ralph_model::gate::{BuiltIn, Check, GateSpec};

use super::Phased;
use crate::config::LoopPreset;
use crate::detect::checks::{SuggestedGate, detect_checks};
use crate::gates::pin::PinnedGates;
use crate::state::Entry;
use crate::workflow::WorkflowError;
use crate::workflow::driver::Subject;

/// The checks that were detected for each task.
pub(super) const DETECTED: Entry<Vec<GateSpec>> =
    Entry::new("loop-detected", "gates are detected again");

/// The gate that builds a web app.
pub(super) const BUILD: &str = "build-succeeds";

/// Every loop has these.
const OWN: [BuiltIn; 3] = [BuiltIn::HasSummary, BuiltIn::PlanDiff, BuiltIn::Scope];

const WEB_APP: [BuiltIn; 5] = [
    BuiltIn::AppExists,
    BuiltIn::AppHasContent,
    BuiltIn::CssThemeComplete,
    BuiltIn::CssNoTailwindDirectives,
    BuiltIn::NoHardcodedColors,
];

/// How long a gate of a preset may take.
const TIMEOUT: Duration = Duration::from_mins(30);

impl Phased<'_, '_> {
    /// Returns the gates of the task: the configured ones as they were pinned, then the loop's.
    ///
    /// What a preset adds comes from the person's configuration, from the harness itself, or was detected before the first
    /// run of the task: files that an agent changed decide nothing.
    pub(super) fn pin(&mut self, item: &str) -> Result<PinnedGates, WorkflowError> {
        let subject = Subject { item: Some(item.to_owned()), ..Subject::default() };
        let mut pinned = self.session.pin(item, subject)?;
        self.settings = self.session.loop_settings();
        let settings = &self.settings;
        let mut added: Vec<GateSpec> = OWN.map(GateSpec::from).to_vec();
        match settings.preset {
            LoopPreset::Generic if pinned.gates.is_empty() => {
                added.extend(self.detected(item)?);
            }
            LoopPreset::Generic | LoopPreset::Minimal => {}
            LoopPreset::WebApp => {
                added.extend(WEB_APP.map(GateSpec::from));
                let build = settings.build.clone();
                let npm = || ["npm", "run", "build"].map(str::to_owned).to_vec();
                added.push(command(BUILD, build.unwrap_or_else(npm)));
            }
        }
        // A person's own gate of the same name is the one that counts.
        added.retain(|gate| pinned.gates.iter().all(|own| own.name != gate.name));
        pinned.gates.append(&mut added);
        Ok(pinned)
    }
}

impl Phased<'_, '_> {
    /// Returns the checks that the project's files spoke for when the task began.
    fn detected(&self, item: &str) -> Result<Vec<GateSpec>, WorkflowError> {
        let context = &self.session.context;
        if let Some(kept) = DETECTED.load(&context.state, item)? {
            return Ok(kept);
        }
        let found = detect_checks(self.root()).gates;
        let gates: Vec<GateSpec> = found.iter().map(detected).collect();
        DETECTED.save(&context.state, item, &gates)?;
        Ok(gates)
    }
}

fn command(name: &str, argv: Vec<String>) -> GateSpec {
    GateSpec {
        name: name.to_owned(),
        check: Check::Command { argv },
        timeout: TIMEOUT,
        repo: None,
        paths: Vec::new(),
        fast: false,
        net: false,
        unix: false,
    }
}

fn detected(gate: &SuggestedGate) -> GateSpec {
    GateSpec { fast: gate.fast, repo: gate.repo.clone(), ..command(&gate.name, gate.run.clone()) }
}
