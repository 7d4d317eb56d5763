//! The gates of an item, held still from when work on it begins.
//!
//! They are taken from the configuration as the person left it and kept in private state, where no agent can write. A
//! resumed item goes on with what was kept. Between two runs, when whatever an agent did to `ralph.toml` has been put
//! back, a difference to the configuration is the person's: [`PinnedGates::changed_since`] names it, and pinning anew
//! takes it up. While an agent runs, it is not looked at.

use std::fmt;

use camino::Utf8PathBuf;
use ralph_model::gate::{CacheMode, Check, GateSpec};
use ralph_model::glob::Glob;
use ralph_model::verdict::ChangedChecks;
use serde::{Deserialize, Serialize};

use super::GateError;
use crate::config::{Config, Gate};
use crate::digest;
use crate::state::{Entry, State};

const PINS: Entry<PinRecord> =
    Entry::new("pins", "its gates are read from the configuration again");

/// Everything of the configuration that decides what gates say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedGates {
    pub gates: Vec<GateSpec>,
    /// Commands that make a checkout ready.
    pub setup: Vec<Vec<String>>,
    /// Directories of a checkout that are kept between runs, named from the workspace.
    pub caches: Vec<Utf8PathBuf>,
    /// Checks that may be changed.
    pub allow: Vec<Glob>,
    /// Who decides on other changed checks.
    #[serde(default)]
    pub changed_checks: ChangedChecks,
    /// Which caches gates may use at a candidate.
    #[serde(default)]
    pub cache: CacheMode,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PinRecord {
    /// The item itself, as its name may have been changed to make a file's.
    item: String,
    digest: String,
    pinned: PinnedGates,
}

/// One way in which the configuration differs from what was pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PinChange {
    GateAdded {
        name: String,
    },
    GateRemoved {
        name: String,
    },
    GateChanged {
        name: String,
    },
    CheckoutChanged,
    AllowChanged,
    /// What was kept could not be used.
    Damaged {
        reason: String,
    },
}

impl fmt::Display for PinChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PinChange::GateAdded { name } => write!(f, "the gate `{name}` is new"),
            PinChange::GateRemoved { name } => write!(f, "the gate `{name}` is gone"),
            PinChange::GateChanged { name } => write!(f, "the gate `{name}` was changed"),
            PinChange::CheckoutChanged => {
                f.write_str("the settings of [checkout], or `judge.cache`, were changed")
            }
            PinChange::AllowChanged => f.write_str("the setting for changed checks was changed"),
            PinChange::Damaged { reason } => {
                write!(
                    f,
                    "the recorded gates are damaged and were read from the configuration again: {reason}"
                )
            }
        }
    }
}

impl PinnedGates {
    /// Takes the gates from the configuration.
    pub fn of(config: &Config) -> PinnedGates {
        PinnedGates {
            gates: config.gates.iter().map(spec).collect(),
            setup: config.checkout.setup.clone(),
            caches: config.checkout.cache.iter().map(Utf8PathBuf::from).collect(),
            allow: config.allow.iter().map(Glob::new).collect(),
            changed_checks: config.changed_checks,
            cache: config.judge_cache,
        }
    }

    /// Tells one state of them from another.
    pub(crate) fn digest(&self) -> String {
        digest::of_data(self)
    }

    /// Returns how the configuration differs from these.
    pub(crate) fn changed_since(&self, config: &Config) -> Vec<PinChange> {
        let now = PinnedGates::of(config);
        let find =
            |gates: &[GateSpec], name: &str| gates.iter().find(|gate| gate.name == name).cloned();
        let mut changes = Vec::new();
        for gate in &self.gates {
            let name = gate.name.clone();
            match find(&now.gates, &name) {
                None => changes.push(PinChange::GateRemoved { name }),
                Some(other) if other != *gate => changes.push(PinChange::GateChanged { name }),
                Some(_) => {}
            }
        }
        for gate in now.gates.iter().filter(|gate| find(&self.gates, &gate.name).is_none()) {
            changes.push(PinChange::GateAdded { name: gate.name.clone() });
        }
        if (&now.setup, &now.caches, now.cache) != (&self.setup, &self.caches, self.cache) {
            changes.push(PinChange::CheckoutChanged);
        }
        if (&now.allow, now.changed_checks) != (&self.allow, self.changed_checks) {
            changes.push(PinChange::AllowChanged);
        }
        changes
    }

    /// Keeps them for an item, in place of what was kept.
    pub(crate) fn save(&self, state: &State, item: &str) -> Result<(), GateError> {
        let kept = PinRecord { item: item.to_owned(), digest: self.digest(), pinned: self.clone() };
        Ok(PINS.save(state, item, &kept)?)
    }

    /// Returns what was kept for an item.
    pub(crate) fn load(state: &State, item: &str) -> Result<Option<PinnedGates>, GateError> {
        let Some(kept) = PINS.load(state, item)? else { return Ok(None) };
        if kept.digest != kept.pinned.digest() || kept.item != item {
            let path = PINS.path(state, item);
            let reason = format!("`{path}`: they are not as they were written");
            return Err(GateError::Pinned { item: item.to_owned(), reason });
        }
        Ok(Some(kept.pinned))
    }

    /// Returns the gates of an item as they were kept, or keeps those of the configuration. Where it differs from what was
    /// kept, which between two runs is a person's doing, it is taken up, and how it differs is returned.
    pub(crate) fn keep(
        state: &State,
        item: &str,
        config: &Config,
    ) -> Result<(PinnedGates, Vec<PinChange>), GateError> {
        let mut changes = Vec::new();
        match PinnedGates::load(state, item) {
            Ok(None) => {}
            Ok(Some(kept)) => {
                changes = kept.changed_since(config);
                if changes.is_empty() {
                    return Ok((kept, changes));
                }
            }
            // As if they were lost: the person's configuration has them.
            Err(GateError::Pinned { reason, .. }) => changes.push(PinChange::Damaged { reason }),
            Err(error) => return Err(error),
        }
        let pinned = PinnedGates::of(config);
        pinned.save(state, item)?;
        Ok((pinned, changes))
    }

    /// Forgets what was kept for an item that is done.
    pub(crate) fn forget(state: &State, item: &str) -> Result<(), GateError> {
        Ok(PINS.forget(state, item)?)
    }
}

/// Returns a configured gate as everything else knows it.
pub(crate) fn spec(gate: &Gate) -> GateSpec {
    GateSpec {
        name: gate.name.clone(),
        check: Check::Command { argv: gate.run.clone() },
        timeout: gate.timeout,
        repo: gate.repo.clone(),
        paths: gate.paths.iter().map(Glob::new).collect(),
        fast: gate.fast,
        net: gate.net,
        unix: gate.unix,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_place::Place;

    const CONFIG: &str = "[checkout]\nsetup = [[\"npm\", \"ci\"]]\ncache = [\"target\"]\n\
        [protect]\nallow = [\"tests/legacy/**\"]\n\
        [[gate]]\nname = \"tests\"\nrun = [\"cargo\", \"test\"]\n\
        [[gate]]\nname = \"lint\"\nrun = [\"cargo\", \"clippy\"]\nfast = true\n";

    #[test]
    fn pinned_gates_survive_and_a_later_change_of_the_configuration_is_named_and_not_taken() {
        let place = Place::new();
        place.write("ralph.toml", CONFIG);
        let state = place.state();
        let pinned = PinnedGates::of(&place.load(None).unwrap());
        assert_eq!(pinned.gates[0].timeout, std::time::Duration::from_mins(30));
        assert_eq!(PinnedGates::load(&state, "spec 1/x").unwrap(), None);
        pinned.save(&state, "spec 1/x").unwrap();
        assert_eq!(pinned.changed_since(&place.load(None).unwrap()), []);
        let changed = CONFIG
            .replace("\"test\"]", "\"true\"]")
            .replace("lint", "format")
            .replace("\"target\"", "\"build\"")
            .replace("legacy", "old");
        place.write("ralph.toml", &changed);
        let config = place.load(None).unwrap();
        let kept = PinnedGates::load(&state, "spec 1/x").unwrap().unwrap();
        assert_eq!(kept, pinned);
        assert_eq!(
            kept.changed_since(&config),
            [
                PinChange::GateChanged { name: "tests".to_owned() },
                PinChange::GateRemoved { name: "lint".to_owned() },
                PinChange::GateAdded { name: "format".to_owned() },
                PinChange::CheckoutChanged,
                PinChange::AllowChanged,
            ]
        );
        PinnedGates::forget(&state, "spec 1/x").unwrap();
        assert_eq!(PinnedGates::load(&state, "spec 1/x").unwrap(), None);
    }

    #[test]
    fn gates_that_were_touched_in_private_state_are_not_used() {
        let place = Place::new();
        place.write("ralph.toml", CONFIG);
        let state = place.state();
        let pinned = PinnedGates::of(&place.load(None).unwrap());
        pinned.save(&state, "a").unwrap();
        let path = PINS.path(&state, "a");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("\"clippy\"", "\"check\"")).unwrap();
        // A file written next to it has not been touched.
        assert_eq!(PinnedGates::load(&state, "a").unwrap(), Some(pinned));
        PinnedGates::forget(&state, "a").unwrap();
        // An earlier Ralph wrote the record alone.
        let record = text.split_once('\n').unwrap().1.replace("\"clippy\"", "\"check\"");
        std::fs::write(&path, record).unwrap();
        let error = PinnedGates::load(&state, "a").unwrap_err();
        assert!(error.to_string().contains("not as they were written"), "{error}");
        assert!(error.to_string().contains(path.as_str()), "{error}");
    }

    #[test]
    fn gates_that_are_lost_in_private_state_are_taken_anew() {
        let place = Place::new();
        place.write("ralph.toml", CONFIG);
        let (state, config) = (place.state(), place.load(None).unwrap());
        for damage in ["", "{\"item\":", "junk", "[]"] {
            PinnedGates::of(&config).save(&state, "a").unwrap();
            let path = PINS.path(&state, "a");
            std::fs::write(&path, damage).unwrap();
            std::fs::write(state.directory().join("copies/pins/a.json"), damage).unwrap();
            let (pinned, changes) = PinnedGates::keep(&state, "a", &config).unwrap();
            assert_eq!((pinned, changes), (PinnedGates::of(&config), Vec::new()));
        }
    }
}
