//! Signs in added lines of source: code that knows that it is tested. They are lines in a question, and nothing else.

/// What code says that asks whether it is being tested, or answers for the runner.
const SIGNS: [&str; 24] = [
    "pytest",
    "sys.modules",
    "sys._getframe",
    "inspect.stack",
    "inspect.currentframe",
    "NODE_ENV",
    "JEST_WORKER_ID",
    "VITEST",
    "process.argv",
    "require.main",
    "cfg!(test)",
    "macro_rules! assert",
    "os._exit",
    "_exit(",
    "process::exit",
    "process.exit",
    "init_array",
    "RUST_TEST",
    "CARGO_",
    "PYTEST",
    "testing.Testing",
    "is_test",
    "under_test",
    "atexit",
];

/// The most hints per file.
const MOST: usize = 5;

/// Returns the signs in lines that a file of source has and had not.
pub fn hints_in(path: &str, anchor: &str, candidate: &str) -> Vec<String> {
    let known: std::collections::HashSet<&str> = anchor.lines().map(str::trim).collect();
    let new = candidate.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let new = new.filter(|(_, line)| !known.contains(line));
    let mut hints: Vec<String> = new
        .filter_map(|(at, line)| {
            let sign = SIGNS.iter().find(|sign| line.contains(**sign))?;
            Some(format!("{path}:{at}: new code mentions `{sign}`"))
        })
        .take(MOST)
        .collect();
    if examples(anchor).iter().any(|example| !candidate.contains(example.as_str())) {
        hints.push(format!(
            "{path}: an example in the documentation that is run as a test was changed"
        ));
    }
    hints
}

/// Returns the lines of examples in documentation that runners execute: Rust's and Python's.
fn examples(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        let plain = line.trim();
        if plain.starts_with(">>> ") {
            lines.push(plain.to_owned());
        }
        let Some(doc) = plain.strip_prefix("///").or_else(|| plain.strip_prefix("//!")) else {
            inside = false;
            continue;
        };
        if doc.trim().starts_with("```") {
            inside = !inside;
        } else if inside && !doc.trim().is_empty() {
            lines.push(doc.trim().to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_lines_that_know_of_tests_and_changed_examples_are_told() {
        let old = "/// ```\n/// assert_eq!(one(), 1);\n/// ```\nfn one() {}\n";
        let new = "/// ```\n/// one();\n/// ```\nfn one() { if cfg!(test) {} }\n";
        let hints = hints_in("src/lib.rs", old, new);
        assert_eq!(hints.len(), 2, "{hints:?}");
        assert!(hints[0].starts_with("src/lib.rs:4:"), "{hints:?}");
        assert_eq!(hints_in("src/lib.rs", old, &format!("{old}fn two() {{}}\n")), [""; 0]);
        let python = "def one():\n    \"\"\"\n    >>> one()\n    1\n    \"\"\"\n";
        assert_eq!(hints_in("a.py", python, &python.replace(">>> one()", ">>> 1")).len(), 1);
    }
}
