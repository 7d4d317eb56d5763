//! `done/<rel>.md`: its existence makes a spec done, its text is for people.

use std::fmt::Write;

use jiff::Timestamp;

use super::records::SpecIdentity;
use crate::id::CommitId;
use crate::proof::LandedLevel;

/// How many lines of the verifier's final message the marker keeps.
pub(crate) const DONE_TAIL: usize = 200;

const SPEC_DIGEST: &str = "Spec sha256: ";
const COMMIT: &str = "Candidate commit: ";
const VERIFY_RUN: &str = "Verify run logs: ";
/// Placeholder for an absent value.
const NONE: &str = "n/a";

/// The content of a done marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoneMarker {
    pub commit: Option<CommitId>,
    pub at: Timestamp,
    pub verify_run_dir: Option<String>,
    pub impl_run_dir: Option<String>,
    pub level: LandedLevel,
    /// Tells later whether the spec was changed since.
    pub spec_digest: String,
    /// The verifier's message, or who decided without one.
    pub said: String,
}

impl DoneMarker {
    /// Renders the marker of a spec.
    pub fn render(&self, spec: &SpecIdentity) -> String {
        let or_none = |text: Option<&str>| text.unwrap_or(NONE).to_owned();
        let mut text = String::from("DONE\n");
        for (name, value) in [
            (COMMIT, or_none(self.commit.as_ref().map(CommitId::as_str))),
            ("Verified at (UTC): ", self.at.to_string()),
            ("Spec id: ", spec.id.clone()),
            (VERIFY_RUN, or_none(self.verify_run_dir.as_deref())),
            ("Impl run logs: ", or_none(self.impl_run_dir.as_deref())),
            ("Proof: ", self.level.to_string()),
            (SPEC_DIGEST, self.spec_digest.clone()),
        ] {
            writeln!(text, "{name}{value}").expect("a string takes everything");
        }
        let lines: Vec<&str> = self.said.trim_end().lines().collect();
        let from = lines.len().saturating_sub(DONE_TAIL);
        writeln!(text, "\n## What was said last (at most {DONE_TAIL} lines)\n").expect("as above");
        for line in &lines[from..] {
            writeln!(text, "{line}").expect("as above");
        }
        text
    }
}

/// The fields that Ralph reads back from a marker; markers written by people have none of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoneView {
    pub commit: Option<CommitId>,
    pub verify_run_dir: Option<String>,
    pub spec_digest: Option<String>,
    pub proof: Option<String>,
}

impl DoneView {
    pub fn read(text: &str) -> DoneView {
        let header = || text.lines().take_while(|line| !line.is_empty());
        let value = |name: &str| header().find_map(|line| line.strip_prefix(name));
        DoneView {
            commit: value(COMMIT).and_then(|commit| commit.parse().ok()),
            verify_run_dir: value(VERIFY_RUN).filter(|dir| *dir != NONE).map(str::to_owned),
            spec_digest: value(SPEC_DIGEST).map(str::to_owned),
            proof: value("Proof: ").map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_tells_what_happened_and_is_read_back() {
        let said: Vec<String> = (0..300).map(|line| format!("line {line}")).collect();
        let marker = DoneMarker {
            commit: Some("a".repeat(40).parse().unwrap()),
            at: "2026-11-15T20:30:00Z".parse().unwrap(),
            verify_run_dir: Some("runs/0001-a/2".to_owned()),
            impl_run_dir: None,
            level: LandedLevel::NOT_PROVEN,
            spec_digest: "d1".to_owned(),
            said: said.join("\n"),
        };
        let spec = SpecIdentity { rel: "0001-a.md".to_owned(), id: "0001-a".to_owned() };
        let text = marker.render(&spec);
        let head: Vec<&str> = text.lines().take(8).collect();
        assert_eq!(
            head,
            [
                "DONE",
                &format!("Candidate commit: {}", "a".repeat(40)),
                "Verified at (UTC): 2026-11-15T20:30:00Z",
                "Spec id: 0001-a",
                "Verify run logs: runs/0001-a/2",
                "Impl run logs: n/a",
                "Proof: not proven",
                "Spec sha256: d1",
            ]
        );
        assert!(text.contains("\nline 100\n") && !text.contains("\nline 99\n"));
        let view = DoneView::read(&text);
        assert_eq!((view.commit, view.spec_digest.as_deref()), (marker.commit, Some("d1")));
        assert_eq!(DoneView::read("I did it by hand.\n"), DoneView::default());
    }
}
