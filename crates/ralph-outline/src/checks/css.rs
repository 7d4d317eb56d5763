//! `css-theme-complete` and `css-no-tailwind-directives`.

use super::{CheckInput, CheckResult};

pub(super) fn theme_complete(input: &CheckInput<'_>) -> CheckResult {
    let css = &input.rules.css;
    let Some(variables) = &input.rules.registries.theme_variables else {
        return CheckResult::passed(
            "this check is off: `loop.registry.theme_variables` is not configured",
        );
    };
    let Some(text) = input.tree.read(css) else {
        return CheckResult::failed(format!("{css} is missing"));
    };
    let text = without_comments(&text);
    let missing: Vec<&str> = variables
        .iter()
        .map(String::as_str)
        .filter(|variable| !declares(&text, variable))
        .collect();
    let mut problems = Vec::new();
    if !missing.is_empty() {
        let (count, all) = (missing.len(), variables.len());
        let names = missing.join(", ");
        problems.push(format!("{css} lacks {count} of the theme's {all} variables: {names}"));
    }
    if !has_class(&text, ".dark") {
        problems.push(format!("{css} has no `.dark` theme"));
    }
    CheckResult::of(&problems)
}

pub(super) fn no_tailwind_directives(input: &CheckInput<'_>) -> CheckResult {
    let css = &input.rules.css;
    let text = without_comments(&input.tree.read(css).unwrap_or_default());
    let lines = text.lines().enumerate().filter(|(_, line)| line.contains("@tailwind"));
    let problems: Vec<String> =
        lines.map(|(at, line)| format!("{css}:{}: {}", at + 1, line.trim())).collect();
    CheckResult::of(&problems)
}

/// Whether a custom property is declared: its whole name, a colon, and a value.
fn declares(css: &str, variable: &str) -> bool {
    css.match_indices(variable).any(|(at, _)| {
        let before = css[..at].chars().next_back();
        let is_whole = before.is_none_or(|c| !c.is_alphanumeric() && c != '-' && c != '_');
        let rest = css[at + variable.len()..].trim_start();
        let value = rest.strip_prefix(':').map(str::trim_start);
        is_whole && value.is_some_and(|value| !value.is_empty() && !value.starts_with([';', '}']))
    })
}

fn has_class(css: &str, class: &str) -> bool {
    css.match_indices(class).any(|(at, _)| {
        let after = css[at + class.len()..].chars().next();
        after.is_none_or(|c| !c.is_alphanumeric() && c != '-' && c != '_')
    })
}

/// Replaces comments with blanks, which preserves line numbers.
fn without_comments(css: &str) -> String {
    let mut text = String::with_capacity(css.len());
    let mut rest = css;
    while let Some(start) = rest.find("/*") {
        let end = rest[start..].find("*/").map_or(rest.len(), |end| start + end + 2);
        text.push_str(&rest[..start]);
        text.extend(rest[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = &rest[end..];
    }
    text + rest
}
