//! Which paths are protected, judged by name only.

use std::fmt;

/// Why a file is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// It configures a CI service.
    Ci,
    /// It configures Ralph's gates.
    Gates,
    /// It configures a test runner, among other things.
    Runner,
    Tests,
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protection::Ci => "CI",
            Protection::Gates => "the gates",
            Protection::Runner => "test configuration",
            Protection::Tests => "tests",
        })
    }
}

const CI_DIRECTORIES: [&str; 6] = [
    ".github/workflows/",
    ".github/actions/",
    ".circleci/",
    ".buildkite/",
    ".woodpecker/",
    ".forgejo/workflows/",
];

const CI_FILES: [&str; 14] = [
    ".gitlab-ci.yml",
    ".travis.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    ".drone.yml",
    ".woodpecker.yml",
    ".cirrus.yml",
    ".appveyor.yml",
    "appveyor.yml",
    "Jenkinsfile",
    ".pre-commit-config.yaml",
    ".semaphore/semaphore.yml",
    "codecov.yml",
    "lefthook.yml",
];

/// Files that configure a runner; `config` says which settings count.
const RUNNER_FILES: [&str; 28] = [
    "pytest.ini",
    ".pytest.ini",
    "pyproject.toml",
    "setup.cfg",
    "tox.ini",
    "noxfile.py",
    "conftest.py",
    "package.json",
    "deno.json",
    "deno.jsonc",
    "bunfig.toml",
    "Cargo.toml",
    "nextest.toml",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "phpunit.xml",
    "phpunit.xml.dist",
    ".rspec",
    "Rakefile",
    "Makefile",
    "GNUmakefile",
    "makefile",
    "justfile",
    "Justfile",
    "Taskfile.yml",
    "CMakeLists.txt",
    "CTestCustom.cmake",
];

const RUNNER_STEMS: [&str; 7] = [
    "jest.config.",
    "vitest.config.",
    "vitest.workspace.",
    "vite.config.",
    ".mocharc.",
    "playwright.config.",
    "karma.conf.",
];

const TEST_DIRECTORIES: [&str; 7] =
    ["tests", "test", "spec", "specs", "__tests__", "testing", "e2e"];

/// Extensions of possible code; other files in a test directory are data.
const CODE: [&str; 27] = [
    "rs", "py", "js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "go", "java", "kt", "kts",
    "groovy", "scala", "rb", "php", "cs", "fs", "swift", "c", "cc", "cpp", "sh", "bats", "t",
];

/// Returns the protection of a path that exists at the base.
pub(crate) fn protection(path: &str) -> Option<Protection> {
    let (directories, name) = path.rsplit_once('/').unwrap_or(("", path));
    if CI_DIRECTORIES.iter().any(|directory| path.starts_with(directory))
        || CI_FILES.iter().any(|file| *file == path || *file == name)
    {
        return Some(Protection::Ci);
    }
    if name == "ralph.toml" {
        return Some(Protection::Gates);
    }
    if RUNNER_FILES.contains(&name) || RUNNER_STEMS.iter().any(|stem| name.starts_with(stem)) {
        return Some(Protection::Runner);
    }
    is_test(directories, name).then_some(Protection::Tests)
}

fn is_test(directories: &str, name: &str) -> bool {
    let Some((stem, extension)) = name.rsplit_once('.') else { return false };
    if !CODE.contains(&extension) {
        return false;
    }
    let marked = match extension {
        "go" => stem.ends_with("_test"),
        "py" => stem.starts_with("test_") || stem.ends_with("_test") || stem == "tests",
        "rs" => stem.ends_with("_test") || stem.ends_with("_tests") || stem == "tests",
        "rb" => stem.ends_with("_spec") || stem.ends_with("_test") || stem.starts_with("test_"),
        "java" | "kt" | "kts" | "groovy" | "scala" | "php" | "cs" | "fs" | "swift" => {
            ["Test", "Tests", "TestCase", "Spec", "IT"].iter().any(|end| stem.ends_with(end))
        }
        "bats" | "t" => true,
        _ => [".test", ".spec", "_test", "-test", "_spec", ".cy"]
            .iter()
            .any(|end| stem.ends_with(end)),
    };
    // Go compiles tests only in such files, in any directory.
    let in_directory = extension != "go"
        && directories.split('/').any(|directory| TEST_DIRECTORIES.contains(&directory));
    marked || in_directory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_protected_as_the_table_says() {
        for (path, expected) in [
            (".github/workflows/ci.yml", Some(Protection::Ci)),
            (".gitlab-ci.yml", Some(Protection::Ci)),
            ("sub/.travis.yml", Some(Protection::Ci)),
            ("Jenkinsfile", Some(Protection::Ci)),
            (".github/ISSUE_TEMPLATE.md", None),
            ("ralph.toml", Some(Protection::Gates)),
            ("Cargo.toml", Some(Protection::Runner)),
            ("web/package.json", Some(Protection::Runner)),
            ("jest.config.ts", Some(Protection::Runner)),
            (".config/nextest.toml", Some(Protection::Runner)),
            ("tests/it.rs", Some(Protection::Tests)),
            ("src/gate_tests.rs", Some(Protection::Tests)),
            ("src/lib.rs", None),
            ("tests/data/sample.json", None),
            ("pkg/a_test.go", Some(Protection::Tests)),
            ("test/helper.go", None),
            ("app/test_views.py", Some(Protection::Tests)),
            ("app/views.py", None),
            ("src/a.test.tsx", Some(Protection::Tests)),
            ("src/__tests__/a.js", Some(Protection::Tests)),
            ("src/attest.js", None),
            ("src/test/java/com/x/ATest.java", Some(Protection::Tests)),
            ("src/main/java/com/x/Contest.java", None),
            ("spec/models/user_spec.rb", Some(Protection::Tests)),
            ("tests/UserTest.php", Some(Protection::Tests)),
            ("A.Tests/UserTests.cs", Some(Protection::Tests)),
            ("checks/a.bats", Some(Protection::Tests)),
            ("README", None),
        ] {
            assert_eq!(protection(path), expected, "{path}");
        }
    }
}
