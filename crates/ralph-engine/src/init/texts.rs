//! The texts of the files in a new home.

/// The entries of home's own ignore file.
pub(super) const IGNORED: [&str; 4] = ["runs/", "ralph.log", "specs/sessions/", ".*.ralph-tmp"];

/// Returns the text of home's own ignore file.
pub(super) fn ignore_file() -> String {
    format!("# Files that Ralph keeps out of git.\n{}\n", IGNORED.join("\n"))
}

pub(super) const SPECS: &str = "\
# Specs

A spec says in plain words what to build and how to check that it works. Write one per file, here or in a subdirectory,
and begin its name with four or more digits:

    0001-login.md
    0002-password-reset.md
    billing/0010-invoices.md

`ralph pipeline` plans, implements and verifies them in that order. `ralph specs` shows the state of each one, and
`ralph specs new` creates another. The pipeline ignores files without a number; `ralph plan FILE` turns one into tasks.

`plans`, `candidates`, `done` and `sessions` hold Ralph's own state. All but `sessions` belong in git.
";

pub(super) const SCRATCHPAD: &str = "\
# Scratchpad

Notes for the next run: decisions and their reasons, what was tried, what is still open.
";

pub(super) const PROGRESS: &str = "\
# Progress

## Codebase Patterns

Patterns of the whole codebase that every run should know.

## Iteration Notes

One section per story, the newest last: what was done, learned and left open.
";

/// A map with a checkbox for every topic in a mapper's prompt.
pub(super) fn codebase_map(topics: &[&str]) -> String {
    let boxes: Vec<String> = topics.iter().map(|topic| format!("- [ ] {topic}")).collect();
    format!(
        "\
# Codebase map

How this codebase works, written by `ralph understand`, one dated section per topic.

## Next Topics

{}
",
        boxes.join("\n")
    )
}
