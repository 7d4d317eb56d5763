//! Detects settings in CI files and runner configuration that keep checks from running or failing.

use std::collections::HashSet;

use super::{FileVersion, Weakened, Weakening, at, counted, take};

/// Settings that make a failing step succeed, or keep it from running.
const DEFUSES_CI: [&str; 9] = [
    "continue-on-error: true",
    "allow_failure: true",
    "allow_failures:",
    "continueOnError: true",
    "soft_fail: true",
    "if: false",
    "when: never",
    "when: manual",
    "fail_ci_if_error: false",
];

/// Shell code that makes a failing command succeed.
const DEFUSES_SHELL: [&str; 5] = ["|| true", "|| :", "|| exit 0", "|| echo", "; true"];

/// Commands that check something.
const CHECKS: [&str; 34] = [
    "cargo test",
    "cargo nextest",
    "cargo clippy",
    "cargo check",
    "cargo fmt",
    "npm test",
    "npm run test",
    "npm run lint",
    "pnpm test",
    "pnpm run test",
    "yarn test",
    "pytest",
    "tox",
    "nox",
    "go test",
    "go vet",
    "mvn ",
    "gradlew ",
    "gradle ",
    "make test",
    "make check",
    "just test",
    "just check",
    "ctest",
    "rspec",
    "rake test",
    "phpunit",
    "dotnet test",
    "deno test",
    "bun test",
    "vitest",
    "jest",
    "mocha",
    "node --test",
];

/// Settings that make a runner skip tests or pass without any: the files, and the words.
///
/// Files are given by prefixes of their names.
const DEFUSES_RUNNER: [(&[&str], &[&str]); 12] = [
    (
        &["pytest.ini", ".pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini", "noxfile.py"],
        &[
            "--deselect",
            "--ignore",
            "-k ",
            "-m 'not",
            "-m \"not",
            "norecursedirs",
            "ignore_outcome",
        ],
    ),
    (&["conftest.py"], &["collect_ignore", "pytest.skip(", "mark.skip", "mark.xfail", "items[:]"]),
    (
        &["package.json", "jest.config.", "vitest.", "vite.config."],
        &[
            "testPathIgnorePatterns",
            "passWithNoTests",
            "testNamePattern",
            "modulePathIgnorePatterns",
        ],
    ),
    (&["vitest.", ".mocharc.", "karma.conf."], &["exclude", "ignore", "grep", "invert"]),
    (&["playwright.config."], &["testIgnore", "grepInvert", "grep:"]),
    (&["Cargo.toml"], &["test = false", "autotests = false", "doctest = false", "harness = false"]),
    (&["nextest.toml"], &["default-filter"]),
    (
        &["pom.xml"],
        &[
            "<skipTests>true",
            "<skip>true",
            "testFailureIgnore>true",
            "maven.test.skip",
            "<exclude>",
        ],
    ),
    (
        &["build.gradle"],
        &[
            "ignoreFailures",
            "enabled = false",
            "exclude '**",
            "exclude(\"**",
            "excludeTestsMatching",
        ],
    ),
    (&["phpunit.xml"], &["<exclude>"]),
    (&[".rspec", "Rakefile"], &["--tag ~", "--exclude", "exclude_pattern"]),
    (&["CMakeLists.txt", "CTestCustom"], &["DISABLED", "WILL_FAIL", "CUSTOM_TESTS_IGNORE"]),
];

/// Commands of a test script that test nothing.
const IDLE_COMMANDS: [&str; 5] = ["true", "exit 0", ":", "echo", "node -e"];

/// Returns how a CI file was weakened.
pub(super) fn ci(base: FileVersion<'_>, candidate: FileVersion<'_>) -> Vec<Weakening> {
    let mut found = Vec::new();
    for (line, by) in added_lines(base.text, candidate.text) {
        if DEFUSES_CI.iter().any(|needle| by.contains(needle)) || is_defused(&by) {
            found.push(at(candidate, Some(line), Weakened::CiDefused { by }));
        }
    }
    let checks = |text: &str| text.lines().map(uncommented).filter(|line| is_check(line)).count();
    let (before, after) = (checks(base.text), checks(candidate.text));
    if after < before {
        found.push(at(candidate, None, Weakened::CiChecksRemoved { before, after }));
    }
    found
}

fn is_check(line: &str) -> bool {
    CHECKS.iter().any(|check| line.contains(check))
}

/// Whether a line runs a check but continues if it fails.
fn is_defused(line: &str) -> bool {
    // A make recipe that begins with `-` may fail.
    let ignored_by_make = line.strip_prefix('-').is_some_and(|rest| !rest.starts_with([' ', '-']));
    is_check(line) && (ignored_by_make || DEFUSES_SHELL.iter().any(|needle| line.contains(needle)))
        || line == "set +e"
}

/// Returns how a runner's configuration was weakened.
pub(super) fn runner(base: FileVersion<'_>, candidate: FileVersion<'_>) -> Vec<Weakening> {
    let name = base.path.rsplit('/').next().unwrap_or(base.path);
    let mut found = Vec::new();
    for (files, needles) in DEFUSES_RUNNER {
        if !files.iter().any(|file| name.starts_with(file)) {
            continue;
        }
        let known: HashSet<String> =
            entries(base.text, needles).iter().flat_map(|(_, entry)| tokens(entry)).collect();
        for (line, entry) in entries(candidate.text, needles) {
            // Removing entries from a list excludes fewer tests, not more.
            if tokens(&entry).any(|token| !known.contains(&token)) {
                let by = entry.lines().next().unwrap_or_default().trim().to_owned();
                found.push(at(candidate, Some(line), Weakened::RunnerDefused { by }));
            }
        }
    }
    for (line, by) in added_lines(base.text, candidate.text) {
        if is_defused(&by) {
            found.push(at(candidate, Some(line), Weakened::RunnerDefused { by }));
        }
    }
    if name == "package.json" {
        found.extend(idle_scripts(base, candidate));
    }
    found
}

/// Returns the test scripts that a change made ineffective.
fn idle_scripts(base: FileVersion<'_>, candidate: FileVersion<'_>) -> Vec<Weakening> {
    let script = |line: &str| -> Option<String> {
        let (name, command) = line.trim().strip_prefix("\"test")?.split_once("\":")?;
        let a_script = name.is_empty() || name.starts_with(':');
        a_script.then(|| command.trim().trim_end_matches(',').trim_matches('"').to_owned())
    };
    let idle = |command: &str| IDLE_COMMANDS.iter().any(|idle| command.starts_with(idle));
    let tested = base.text.lines().filter_map(script).any(|command| !idle(&command));
    let idled = |(_, line): &(usize, String)| script(line).is_some_and(|command| idle(&command));
    added_lines(base.text, candidate.text)
        .into_iter()
        .filter(|added| tested && idled(added))
        .map(|(line, by)| at(candidate, Some(line), Weakened::RunnerDefused { by }))
        .collect()
}

/// Returns a line, or nothing if it is only a comment.
fn uncommented(line: &str) -> &str {
    let line = line.trim();
    if line.starts_with('#') || line.starts_with("//") { "" } else { line }
}

/// Returns the added lines, with their numbers.
fn added_lines(base: &str, candidate: &str) -> Vec<(usize, String)> {
    let mut known = counted(base.lines().map(uncommented));
    let lines = candidate.lines().map(uncommented).enumerate();
    lines
        .filter(|(_, line)| !take(&mut known, line))
        .map(|(at, line)| (at + 1, line.to_owned()))
        .collect()
}

/// Returns the lines with one of the needles, each with its continuation: up to the closing bracket, or all lines
/// indented deeper.
fn entries(text: &str, needles: &[&str]) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut entries = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if !needles.iter().any(|needle| uncommented(line).contains(needle)) {
            continue;
        }
        let mut entry = (*line).to_owned();
        let mut open = depth(line);
        for below in lines[at + 1..].iter().take(200) {
            let belongs = open > 0 || (!below.trim().is_empty() && indent(below) > indent(line));
            if !belongs {
                break;
            }
            entry.push('\n');
            entry.push_str(below);
            open += depth(below);
        }
        entries.push((at + 1, entry));
    }
    entries
}

/// How many brackets a line leaves open.
fn depth(line: &str) -> i64 {
    line.chars().fold(0, |depth, c| match c {
        '[' => depth + 1,
        ']' => depth - 1,
        _ => depth,
    })
}

/// Returns the comparable parts of an entry.
fn tokens(entry: &str) -> impl Iterator<Item = String> {
    entry
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | '[' | ']' | '"' | '\''))
        .filter(|token| token.contains(|c: char| c.is_alphanumeric()))
        .map(str::to_owned)
        .collect::<Vec<_>>()
        .into_iter()
}
