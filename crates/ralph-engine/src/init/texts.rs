//! The texts of the files in a new home.

/// The entries of home's own ignore file.
pub(super) const IGNORED: [&str; 4] = ["runs/", "ralph.log", "specs/sessions/", ".*.ralph-tmp"];

/// Returns the text of home's own ignore file.
pub(super) fn ignore_file() -> String {
    format!("# Files that Ralph keeps out of git.\n{}\n", IGNORED.join("\n"))
}

pub(super) const SPECS: &str = "\
# Specs

A spec says in plain words what is to be built and how one can tell that it works. Write one per file, here or in a
directory below, and begin its name with four or more digits:

    0001-login.md
    0002-password-reset.md
    billing/0010-invoices.md

`ralph pipeline` takes them in that order: it has each one planned, implemented and verified. `ralph specs` shows how far
each one is, `ralph specs new` starts another. A file without a number is left alone by the pipeline; `ralph plan FILE`
makes tasks of it.

`plans`, `candidates`, `done` and `sessions` hold Ralph's own state. All but `sessions` belong in git.
";

pub(super) const SCRATCHPAD: &str = "\
# Scratchpad

What agents want the next run to know: decisions and their reasons, what was tried, what is still open.
";

pub(super) const PROGRESS: &str = "\
# Progress

## Codebase Patterns

What holds for the whole codebase and every run should know.

## Iteration Notes

One section per story, the newest last: what was done, what was learned, what is left.
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
