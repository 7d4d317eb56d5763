//! Detects added source lines that test for being under test. They only become hints in a question.

/// Code that detects a test environment or stands in for the runner.
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

/// Returns the signs in lines that were added to a source file.
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
    if changes_examples(path, anchor, candidate) {
        hints.push(format!(
            "{path}: an example in the documentation that is run as a test was changed"
        ));
    }
    hints
}

/// Whether an example in the documentation, which runners of Rust and Python execute, was removed.
pub fn changes_examples(path: &str, anchor: &str, candidate: &str) -> bool {
    let examples: fn(&str) -> Vec<String> = match path.rsplit_once('.') {
        Some((_, "rs")) => rust_examples,
        Some((_, "py" | "pyi")) => python_examples,
        _ => return false,
    };
    let mut now = examples(candidate);
    // Duplicates count individually.
    examples(anchor).iter().any(|example| match now.iter().position(|one| one == example) {
        Some(at) => {
            now.swap_remove(at);
            false
        }
        None => true,
    })
}

/// Returns the lines of the executed code blocks in doc comments.
fn rust_examples(text: &str) -> Vec<String> {
    const NOT_RUN: [&str; 4] = ["ignore", "no_run", "text", "compile_fail"];
    let mut lines = Vec::new();
    let mut block: Option<bool> = None;
    for line in text.lines() {
        let plain = line.trim();
        let Some(doc) = plain.strip_prefix("///").or_else(|| plain.strip_prefix("//!")) else {
            block = None;
            continue;
        };
        let doc = doc.trim();
        if let Some(kind) = doc.strip_prefix("```") {
            let is_run = || {
                let mut words = kind.split(',').map(str::trim).filter(|word| !word.is_empty());
                let is_rust = |word: &str| {
                    word == "rust" || word == "should_panic" || word.starts_with("edition")
                };
                !NOT_RUN.iter().any(|word| kind.contains(word)) && words.all(is_rust)
            };
            block = if block.is_some() { None } else { Some(is_run()) };
        } else if block == Some(true) && !doc.is_empty() {
            lines.push(doc.to_owned());
        }
    }
    lines
}

/// Returns the statements of interactive examples, each with its expected output.
fn python_examples(text: &str) -> Vec<String> {
    let mut examples: Vec<String> = Vec::new();
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with(">>> ") {
            examples.push(line.to_owned());
            inside = true;
        } else if line.is_empty() || line.ends_with("\"\"\"") || line.ends_with("'''") {
            inside = false;
        } else if let Some(last) = examples.last_mut().filter(|_| inside) {
            last.push('\n');
            last.push_str(line);
        }
    }
    examples
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
        for (from, to) in [(">>> one()", ">>> 1"), ("    1\n", "    2\n")] {
            assert_eq!(hints_in("a.py", python, &python.replace(from, to)).len(), 1);
        }
        let shown = old.replace("```\n/// assert", "```ignore\n/// assert");
        assert!(!changes_examples("src/lib.rs", &shown, ""));
    }
}
