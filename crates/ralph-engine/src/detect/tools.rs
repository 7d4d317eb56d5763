//! Tools of the project that affect a new home: hooks that could be a gate, and tools that would check or package home
//! too.
//!
//! Files are only read. The findings are notes for a person; they change no setting.

use std::fs;

use camino::Utf8Path;

/// Hook managers: the configuration file, and the command that runs the checks.
const HOOKS: [(&str, &[&str]); 6] = [
    (".pre-commit-config.yaml", &["pre-commit", "run", "--all-files"]),
    ("lefthook.yml", &["lefthook", "run", "pre-commit", "--all-files"]),
    ("lefthook.yaml", &["lefthook", "run", "pre-commit", "--all-files"]),
    (".lefthook.yml", &["lefthook", "run", "pre-commit", "--all-files"]),
    (".husky/pre-commit", &["sh", ".husky/pre-commit"]),
    (".githooks/pre-commit", &["sh", ".githooks/pre-commit"]),
];

/// Returns the file that configures hooks for commits, and the command that runs all of their checks.
pub(crate) fn commit_hooks(root: &Utf8Path) -> Option<(&'static str, Vec<String>)> {
    let (file, run) = HOOKS.into_iter().find(|(file, _)| root.join(file).is_file())?;
    Some((file, run.iter().map(|word| (*word).to_owned()).collect()))
}

/// Tools that check every file of some kinds: their configuration files, and where those list exclusions.
const FORMATTERS: [(&str, &[&str], &str); 4] = [
    (
        "prettier",
        &[
            ".prettierrc",
            ".prettierrc.json",
            ".prettierrc.yaml",
            ".prettierrc.yml",
            ".prettierrc.js",
            ".prettierrc.cjs",
            ".prettierrc.mjs",
            ".prettierrc.toml",
            "prettier.config.js",
            "prettier.config.cjs",
            "prettier.config.mjs",
        ],
        ".prettierignore",
    ),
    (
        "markdownlint",
        &[".markdownlint.json", ".markdownlint.jsonc", ".markdownlint.yaml", ".markdownlint.yml"],
        ".markdownlintignore",
    ),
    ("biome", &["biome.json", "biome.jsonc"], "biome.json"),
    ("dprint", &["dprint.json", ".dprint.json"], "dprint.json"),
];

/// Returns each tool that would check the files of home as well, with the file that lists its exclusions.
pub(crate) fn formatters_over(root: &Utf8Path, home: &str) -> Vec<(&'static str, &'static str)> {
    let names_home = |file: &str| read(root, file).contains(home);
    let mut found: Vec<_> = FORMATTERS
        .into_iter()
        .filter(|(tool, configurations, _)| {
            configurations.iter().any(|file| root.join(file).is_file())
                || (*tool == "prettier" && read(root, "package.json").contains("\"prettier\""))
        })
        .filter(|(_, configurations, ignore)| {
            !names_home(ignore) && !configurations.iter().any(|file| names_home(file))
        })
        .map(|(tool, _, ignore)| (tool, ignore))
        .collect();
    if finds_packages_itself(root) {
        found.push(("setuptools", "pyproject.toml"));
    }
    found
}

/// Whether setuptools discovers packages next to `pyproject.toml`. It refuses to build if it finds two, and home looks
/// like one.
fn finds_packages_itself(root: &Utf8Path) -> bool {
    let Ok(manifest) = read(root, "pyproject.toml").parse::<toml::Table>() else { return false };
    let backend = manifest.get("build-system").and_then(|system| system.get("build-backend"));
    let is_setuptools = backend
        .and_then(toml::Value::as_str)
        .is_some_and(|backend| backend.starts_with("setuptools"));
    let settings = manifest.get("tool").and_then(|tool| tool.get("setuptools"));
    let names_packages = settings
        .is_some_and(|own| own.get("packages").is_some() || own.get("py-modules").is_some());
    is_setuptools
        && manifest.contains_key("project")
        && !names_packages
        && !root.join("src").is_dir()
        && !["setup.py", "setup.cfg"].iter().any(|file| root.join(file).is_file())
}

/// Reads a file of the project; empty if it cannot be read or is not a regular file.
fn read(root: &Utf8Path, file: &str) -> String {
    let path = root.join(file);
    let is_ordinary =
        fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() < 1 << 20);
    if is_ordinary { fs::read_to_string(&path).unwrap_or_default() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(&'static str, &'static str)> {
        let guard = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(guard.path()).unwrap();
        for (name, text) in files {
            fs::write(root.join(name), text).unwrap();
        }
        formatters_over(root, "ralph")
    }

    #[test]
    fn formatters_that_would_check_home_are_found_unless_they_leave_it_out() {
        assert_eq!(found(&[(".prettierrc", "{}")]), [("prettier", ".prettierignore")]);
        assert_eq!(found(&[(".prettierrc", "{}"), (".prettierignore", "ralph/\n")]), []);
        let package = ("package.json", r#"{"devDependencies": {"prettier": "3"}}"#);
        assert_eq!(found(&[package]), [("prettier", ".prettierignore")]);
        assert_eq!(found(&[("biome.json", r#"{"files": {"includes": ["!ralph"]}}"#)]), []);
        assert_eq!(found(&[("dprint.json", "{}")]), [("dprint", "dprint.json")]);
        assert_eq!(found(&[("package.json", "{}")]), []);
    }

    #[test]
    fn setuptools_that_finds_packages_itself_would_take_home_for_one() {
        let built =
            "[build-system]\nbuild-backend = \"setuptools.build_meta\"\n[project]\nname = \"x\"\n";
        assert_eq!(found(&[("pyproject.toml", built)]), [("setuptools", "pyproject.toml")]);
        let named = format!("{built}[tool.setuptools]\npackages = [\"x\"]\n");
        assert_eq!(found(&[("pyproject.toml", &named)]), []);
        let other =
            "[build-system]\nbuild-backend = \"hatchling.build\"\n[project]\nname = \"x\"\n";
        assert_eq!(found(&[("pyproject.toml", other)]), []);
        assert_eq!(found(&[("pyproject.toml", built), ("setup.cfg", "")]), []);
    }

    #[test]
    fn hooks_are_found_with_the_command_that_runs_them_all() {
        let guard = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(guard.path()).unwrap();
        assert_eq!(commit_hooks(root), None);
        fs::create_dir(root.join(".husky")).unwrap();
        fs::write(root.join(".husky/pre-commit"), "npm test\n").unwrap();
        assert_eq!(commit_hooks(root).unwrap().1, ["sh", ".husky/pre-commit"]);
        fs::write(root.join(".pre-commit-config.yaml"), "repos: []\n").unwrap();
        assert_eq!(commit_hooks(root).unwrap().1, ["pre-commit", "run", "--all-files"]);
    }
}
