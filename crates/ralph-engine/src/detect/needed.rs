//! Ignored files of a checkout that builds, tests or agents usually need, and that Ralph's clones lack by default.

use std::path::PathBuf;

use camino::Utf8Path;

use crate::config::Config;
use crate::git::{Git, GitProgram};

/// Names that are usually ignored and usually needed.
const NEEDED: &[&str] = &[
    ".env",
    ".env.local",
    ".env.test",
    ".env.development",
    ".envrc",
    ".npmrc",
    ".claude/settings.local.json",
    ".codex/config.toml",
    ".gemini/settings.json",
    "opencode.json",
    "CLAUDE.local.md",
    "local.properties",
    "config/master.key",
];

/// Returns the ignored files that look needed and that nothing copies, relative to the workspace.
pub fn needed_files(
    program: &GitProgram,
    workspace: &Utf8Path,
    config: Option<&Config>,
) -> Vec<String> {
    let there: Vec<PathBuf> = NEEDED
        .iter()
        .map(PathBuf::from)
        .filter(|name| workspace.as_std_path().join(name).is_file())
        .collect();
    if there.is_empty() {
        return Vec::new();
    }
    let Ok(git) = Git::discover(program.clone(), workspace) else { return Vec::new() };
    let root = git.place().worktree.clone().unwrap_or_default();
    let prefix = workspace.strip_prefix(&root).unwrap_or(Utf8Path::new(""));
    let named: Vec<PathBuf> = there.iter().map(|name| prefix.as_std_path().join(name)).collect();
    let ignored = git.ignored(&named).unwrap_or_default();
    let asked = config.map(Config::copied).cloned().unwrap_or_default();
    let copied = git.copied_files(prefix, &asked).unwrap_or_default().files;
    named
        .iter()
        .filter(|path| ignored.contains(*path) && !copied.contains(path))
        .filter_map(|path| path.strip_prefix(prefix.as_std_path()).ok()?.to_str())
        .map(str::to_owned)
        .collect()
}

/// Returns advice on them.
pub fn needed_advice(files: &[String]) -> String {
    let quoted: Vec<String> = files.iter().map(|file| format!("\"{file}\"")).collect();
    format!(
        "if builds, tests or agents need them, write `copy = [{}]` under `[checkout]` in ralph.toml, or name them in \
         .worktreeinclude",
        quoted.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_place::Place;

    #[test]
    fn ignored_files_that_nothing_brings_along_are_named() {
        let place = Place::new();
        place.git(&["init", "-q"]);
        place.write(".gitignore", ".env*\n.claude/\n");
        place.write(".env", "");
        place.write(".env.test", "");
        place.write(".npmrc", "not ignored");
        place.write(".claude/settings.local.json", "{}");
        place.write("ralph.toml", "[checkout]\ncopy = [\".env.test\"]\n");
        let program = GitProgram::new("git", std::env::vars_os());
        let config = place.load(None).unwrap();
        let found = needed_files(&program, &place.root, Some(&config));
        assert_eq!(found, [".env", ".claude/settings.local.json"]);
        assert!(
            needed_advice(&found).contains("copy = [\".env\", \".claude/settings.local.json\"]")
        );
    }
}
