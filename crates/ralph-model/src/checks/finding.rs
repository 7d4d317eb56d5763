//! The results of the second run of the gates, and their consequences.

use serde::{Deserialize, Serialize};

use super::{ChangedCheck, CheckChange, CheckClass};
use crate::gate::{GateRun, GateStatus};
use crate::glob::Glob;
use crate::id::TreeId;
use crate::testcount::TestCounts;

/// How many lost tests are listed by name.
const MOST_NAMED: usize = 20;

/// How the second run was compared with the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// By name: every test that passed at the base passed.
    Names,
    /// Not at all: the gate passed, but its runner named every passed test only at the base.
    Unnamed,
    /// By count: as many tests passed.
    Counts,
    /// The runner reports neither names nor counts.
    Exit,
}

/// The result of one gate on the candidate with the anchor's checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnchoredGate {
    pub gate: String,
    /// Whether everything that passed at the base passed.
    pub holds: bool,
    pub by: Measure,
    /// Tests that passed at the base and did not pass here; only the first ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// The end of the output, if it does not hold.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last: String,
}

/// The runs that are compared.
#[derive(Clone, Copy, Debug)]
pub struct AnchoredRuns<'a> {
    pub gate: &'a str,
    /// At the base, with the anchor's checks; `None` if there is no base or the gate cannot run there.
    pub base: Option<&'a GateRun>,
    /// At the candidate, with the anchor's checks.
    pub over: &'a GateRun,
}

impl AnchoredRuns<'_> {
    pub fn compare(&self) -> AnchoredGate {
        let over = self.over;
        let is_green = over.status == GateStatus::Passed;
        let names = self.base.and_then(|base| base.names.as_ref());
        let counts = self.base.and_then(|base| base.tests).filter(|tests| tests.passed > 0);
        let (by, kept, lost) = match (names, counts) {
            (Some(base), _) => match &over.names {
                Some(over) => {
                    let lost = base.missing_in(over);
                    (Measure::Names, lost.is_empty(), lost)
                }
                None if is_green => (Measure::Unnamed, false, Vec::new()),
                None => (Measure::Names, false, Vec::new()),
            },
            (None, Some(base)) => {
                let passed = over.tests.map_or(0, |tests: TestCounts| tests.passed);
                (Measure::Counts, passed >= base.passed, Vec::new())
            }
            (None, None) => (Measure::Exit, true, Vec::new()),
        };
        let holds = is_green && kept;
        AnchoredGate {
            gate: self.gate.to_owned(),
            holds,
            by,
            lost: lost.into_iter().take(MOST_NAMED).collect(),
            last: if holds { String::new() } else { over.output.last.clone() },
        }
    }
}

/// The result of running the gates on the candidate with the anchor's checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverlayFinding {
    pub tree: TreeId,
    pub gates: Vec<AnchoredGate>,
}

/// How a candidate changes its checks, and whether it passes with the anchor's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChecksFinding {
    pub changed: Vec<ChangedCheck>,
    /// Hints for the reviewer, one per line.
    pub hints: Vec<String>,
    pub overlay: Option<OverlayFinding>,
    /// Checks that the spec or the configuration allows to change, with the matching pattern.
    pub allowed: Vec<(String, String)>,
    /// Changed source files that a gate's own command runs, and checks that a gate changes while it runs. A run with the anchor's
    /// version of them proves nothing: they may be the code under check, or do not stay as they are.
    pub entries: Vec<String>,
}

impl ChecksFinding {
    /// Adds checks that a gate changed while it ran, though it did not do so before the work: no run proves anything with them.
    pub fn add_rewritten(&mut self, gate: &str, paths: impl IntoIterator<Item = String>) {
        for path in paths {
            self.hints.push(format!(
                "{path}: the gate `{gate}` changes it while it runs, and did not do so before"
            ));
            if !self.changed.iter().any(|check| check.path == path && !check.is_new_test()) {
                let (class, change) = (CheckClass::Test, CheckChange::Changed);
                self.changed.push(ChangedCheck { path: path.clone(), class, change });
            }
            self.entries.push(path);
        }
    }

    /// Whether the candidate passes with the anchor's checks.
    pub fn holds(&self) -> bool {
        let is_allowed = |path: &String| self.allowed.iter().any(|(allowed, _)| allowed == path);
        self.entries.iter().all(is_allowed)
            && self
                .overlay
                .as_ref()
                .is_none_or(|overlay| overlay.gates.iter().all(|gate| gate.holds))
    }

    /// Returns the changed checks that need approval.
    pub fn asked(&self) -> Vec<&ChangedCheck> {
        if self.holds() {
            return Vec::new();
        }
        // New tests alone can hide a failure of an old one, too.
        if self.changed.iter().all(ChangedCheck::is_new_test) {
            return self.changed.iter().collect();
        }
        self.not_allowed().collect()
    }

    /// Returns the changed checks that only need a review.
    pub fn told(&self) -> Vec<&ChangedCheck> {
        if self.holds() { self.not_allowed().collect() } else { Vec::new() }
    }

    fn not_allowed(&self) -> impl Iterator<Item = &ChangedCheck> {
        let is_allowed =
            |check: &&ChangedCheck| self.allowed.iter().any(|(path, _)| *path == check.path);
        self.changed.iter().filter(move |check| !check.is_new_test() && !is_allowed(check))
    }

    /// Returns the gates that do not hold.
    pub fn failing(&self) -> impl Iterator<Item = &AnchoredGate> {
        self.overlay.iter().flat_map(|overlay| &overlay.gates).filter(|gate| !gate.holds)
    }
}

/// Returns the patterns in the `Allow:` lines of a spec. Lines in a code block are examples.
pub fn allow_lines(spec: &str) -> Vec<Glob> {
    let mut in_block = false;
    let mut globs = Vec::new();
    for line in spec.lines() {
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            in_block = !in_block;
        }
        let Some(patterns) = line.trim_start_matches(['-', '*', ' ']).strip_prefix("Allow:") else {
            continue;
        };
        if !in_block {
            let words = patterns.split([',', ' ']).map(|word| word.trim_matches(['`', ' ']));
            globs.extend(words.filter(|word| !word.is_empty()).map(Glob::new));
        }
    }
    globs
}
