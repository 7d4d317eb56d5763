//! `feedback.md` after failed gates: each gate's output, what to do, and which part of the plan a file belongs to.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ralph_model::gate::BuiltIn;

/// The output of one gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateWords {
    pub name: String,
    pub built_in: Option<BuiltIn>,
    pub text: String,
}

/// Formats the feedback. `others` are reasons that do not come from a gate; `passed` has passed gates that printed a
/// note.
pub fn gate_feedback(
    failed: &[GateWords],
    others: &[String],
    passed: &[GateWords],
    owners: &BTreeMap<String, String>,
) -> String {
    // Writing to a string cannot fail.
    let mut text = "# Quality Gate Failures\n".to_owned();
    for reason in others {
        let _ = write!(text, "\n{}\n", reason.trim());
    }
    for GateWords { name, built_in, text: words } in failed {
        let _ = write!(text, "\n## {name}\n\n{}\n", quoted(words));
        for (path, owner) in owners.iter().filter(|(path, _)| words.contains(path.as_str())) {
            let _ = write!(text, "\n{path} belongs to {owner}.\n");
        }
        let fix =
            built_in.map_or("Fix what it reports; it runs again on the next completion.", fix);
        let _ = write!(text, "\nWhat to do: {fix}\n");
    }
    text.push_str(
        "\nFix all of these, then write `complete` to status.txt again. All gates run every time.\n",
    );
    let infos: Vec<&GateWords> =
        passed.iter().filter(|gate| !gate.text.trim().is_empty()).collect();
    if !infos.is_empty() {
        text.push_str("\n# Info\n");
    }
    for GateWords { name, text: words, .. } in infos {
        let _ = write!(text, "\n## {name}\n\n{}\n", words.trim());
    }
    text
}

/// A gate's output is untrusted data: use a fence that the output cannot close.
fn quoted(words: &str) -> String {
    let words = words.trim();
    if words.is_empty() {
        return "It printed nothing.".to_owned();
    }
    let mut fence = "```".to_owned();
    while words.contains(&fence) {
        fence.push('`');
    }
    format!("{fence}\n{words}\n{fence}")
}

const fn fix(gate: BuiltIn) -> &'static str {
    match gate {
        BuiltIn::HasSummary => "write what was built to summary.md, at least a sentence.",
        BuiltIn::PlanDiff => {
            "implement the parts that are missing, or change the plan if it was wrong."
        }
        BuiltIn::Scope => "add what the plan's markers say, and keep what they preserve.",
        BuiltIn::AppExists => "make the application's root component.",
        BuiltIn::AppHasContent => {
            "implement the sections of the plan, one file each, and use them in the root component."
        }
        BuiltIn::CssThemeComplete => "declare every variable of the theme, for light and for dark.",
        BuiltIn::CssNoTailwindDirectives => {
            "remove the `@tailwind` lines: the build adds these styles."
        }
        BuiltIn::NoHardcodedColors => {
            "use the theme's classes and variables (`bg-primary`, `var(--primary)`) instead of fixed colours."
        }
    }
}
