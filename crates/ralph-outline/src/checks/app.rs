//! `app-exists` and `app-has-content`: the application's root component exists and is not the scaffold's.

use crate::tree::{SOURCES, has_extension, is_below};
use crate::tsx::SourceFacts;

use super::{CheckInput, CheckResult};

/// An application of at most this many characters counts as not started.
const BEGUN: usize = 200;

/// More capitalised tags than this count as content.
const TAGS: usize = 3;

pub(super) fn exists(input: &CheckInput<'_>) -> CheckResult {
    let app = &input.rules.app;
    if input.tree.read(app).is_some() {
        return CheckResult::passed("");
    }
    CheckResult::failed(format!("{app} is missing"))
}

pub(super) fn has_content(input: &CheckInput<'_>) -> CheckResult {
    let app = &input.rules.app;
    let Some(text) = input.tree.read(app) else {
        return CheckResult::failed(format!("{app} is missing"));
    };
    if let Some(phrase) = input.rules.scaffold_phrases.iter().find(|phrase| text.contains(*phrase))
    {
        return CheckResult::failed(format!(
            "{app} is still the default scaffold (it says \"{phrase}\"). Implement the sections of your plan."
        ));
    }
    let facts = SourceFacts::of(&text);
    let imports_part = facts.imports.iter().any(|module| {
        input.rules.stack.iter().any(|package| package == module)
            || ["sections", "components"]
                .iter()
                .any(|part| module.split('/').any(|name| name == *part))
    });
    let tags = facts.tags.iter().filter(|tag| tag.starts_with(char::is_uppercase)).count();
    // Unused imports are not content.
    if (imports_part && tags > 0) || tags > TAGS {
        return CheckResult::passed("");
    }
    CheckResult::failed(format!(
        "{app} has next to no content: it uses no section and no component that it imports, and has {tags} component elements"
    ))
}

/// Whether a component or other application code changed since the task began. Style sheets do not count.
pub fn changes_components(input: &CheckInput<'_>) -> bool {
    let is_code =
        |path: &String| is_below(path, &input.rules.source) && has_extension(path, &SOURCES);
    input.changed.iter().any(is_code)
}

/// Whether failing gates can be ignored because the application is not started: its root component is missing, nearly
/// empty, or still the scaffold's with no source changed.
pub fn is_before_work(input: &CheckInput<'_>) -> bool {
    let CheckInput { rules, tree, changed, .. } = *input;
    let Some(text) = tree.read(&rules.app) else { return true };
    let is_scaffold = rules.scaffold_phrases.iter().any(|phrase| text.contains(phrase));
    let is_source = |path: &String| is_below(path, &rules.source);
    text.trim().chars().count() <= BEGUN || (is_scaffold && !changed.iter().any(is_source))
}
