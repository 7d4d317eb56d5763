//! Runners that list single tests and may print no summary.

use serde::Deserialize;

use super::TestCounts;
use super::runners::number;

/// The output of `go test`. Plain output names failures only, so it gives no count.
#[derive(Clone, Debug, Default)]
pub(super) struct GoTests {
    pub(super) counts: TestCounts,
    pub(super) names_all: bool,
    pub(super) ran_some: bool,
    pub(super) found_none: bool,
}

/// The output of a TAP producer.
#[derive(Clone, Debug, Default)]
pub(super) struct TapTests {
    pub(super) counts: TestCounts,
    pub(super) planned: bool,
    pub(super) summarised: bool,
}

impl GoTests {
    pub(super) fn read_result(&mut self, text: &str) {
        let Some((result, name)) = text.strip_prefix("--- ").and_then(|rest| rest.split_once(": "))
        else {
            return;
        };
        if ["Test", "Example", "Fuzz"].iter().any(|kind| name.starts_with(kind)) {
            self.count(&result.to_ascii_lowercase());
        }
    }

    fn count(&mut self, result: &str) {
        match result {
            "pass" => self.counts.passed += 1,
            "fail" => self.counts.failed += 1,
            "skip" => self.counts.skipped += 1,
            _ => {}
        }
    }

    pub(super) fn read_event(&mut self, text: &str) {
        #[derive(Deserialize)]
        struct Event<'a> {
            #[serde(rename = "Action")]
            action: &'a str,
            #[serde(rename = "Package")]
            package: Option<&'a str>,
            #[serde(rename = "Test")]
            test: Option<String>,
        }
        if !text.contains("\"Action\":") {
            return;
        }
        let Ok(event) = serde_json::from_str::<Event<'_>>(text) else { return };
        if event.package.is_some() {
            self.names_all = true;
            if event.test.is_some() {
                self.count(event.action);
            }
        }
    }

    /// Parses the result line of a package.
    pub(super) fn read_package(&mut self, line: &str) {
        if !line.starts_with("ok  \t") {
            return;
        }
        if line.ends_with("[no tests to run]") || line.ends_with("[no test files]") {
            self.found_none = true;
        } else {
            self.ran_some = true;
        }
    }
}

impl TapTests {
    /// Parses the result line of one test.
    pub(super) fn read(&mut self, line: &str) {
        let (counted, rest) = match (line.strip_prefix("ok "), line.strip_prefix("not ok ")) {
            (Some(rest), _) => (&mut self.counts.passed, rest),
            (_, Some(rest)) => (&mut self.counts.failed, rest),
            _ => return,
        };
        if number(rest.trim_start()).is_none() {
            return;
        }
        let directive = rest.rsplit_once('#').map(|(_, directive)| directive.trim_start());
        let skipped = directive.is_some_and(|directive| {
            let directive = directive.to_ascii_lowercase();
            directive.starts_with("skip") || directive.starts_with("todo")
        });
        *(if skipped { &mut self.counts.skipped } else { counted }) += 1;
    }
}
