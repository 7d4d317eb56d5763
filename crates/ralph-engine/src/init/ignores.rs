//! What of home git is not to see: its own ignore file, and the repository's where home has none that says it.

use camino::Utf8Path;

use super::texts;
use crate::files::{PathError, create_directory, read_optional, replace_atomically};
use crate::git::RepositoryLocation;

/// Makes home's ignore file hold what it should, beside what it holds.
pub(crate) fn complete_ignores(home: &Utf8Path) -> Result<(), PathError> {
    let path = home.join(".gitignore");
    let text = read_optional(&path)?;
    let mut text = text.map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default();
    let lines = lacking(&text);
    if lines.is_empty() {
        return Ok(());
    }
    if text.is_empty() {
        text = texts::ignore_file();
    } else {
        let gap = if text.ends_with('\n') { "" } else { "\n" };
        text = format!("{text}{gap}{}\n", lines.join("\n"));
    }
    replace_atomically(&path, text.as_bytes())
}

/// Tells whether an ignore file holds nothing but what Ralph writes.
pub(crate) fn is_own(text: &[u8]) -> bool {
    let is_ralphs = |line: &str| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || texts::IGNORED.contains(&line)
    };
    String::from_utf8_lossy(text).lines().all(is_ralphs)
}

/// Lists what an ignore file of home lacks.
pub(super) fn lacking(text: &str) -> Vec<String> {
    let has = |pattern: &str| {
        let bare = |text: &str| text.trim().trim_matches('/').to_owned();
        text.lines().any(|line| bare(line) == bare(pattern) || line.trim() == "*")
    };
    let missing = texts::IGNORED.iter().filter(|pattern| !has(pattern));
    missing.map(|pattern| (*pattern).to_owned()).collect()
}

/// Sees to it that the logs which Ralph is about to write into a home are not untracked files of the person's: where
/// home's ignore file does not name them, the repository's own list does. Nothing that is committed changes.
pub(crate) fn hide_logs(home: &Utf8Path) -> Result<(), PathError> {
    let text = read_optional(&home.join(".gitignore"))?.unwrap_or_default();
    let lines = lacking(&String::from_utf8_lossy(&text));
    if lines.is_empty() {
        return Ok(());
    }
    let Ok(place) = RepositoryLocation::discover(home) else { return Ok(()) };
    let Some(inside) = place.worktree.as_deref().and_then(|tree| home.strip_prefix(tree).ok())
    else {
        return Ok(());
    };
    let root = if inside.as_str().is_empty() { String::new() } else { format!("/{inside}") };
    let lines: Vec<String> = lines.iter().map(|line| format!("{root}/{line}")).collect();
    exclude(&place.common_dir.join("info/exclude"), &lines)
}

/// Adds lines to a repository's own list of what it ignores, but for those that it has.
pub(crate) fn exclude(path: &Utf8Path, lines: &[String]) -> Result<(), PathError> {
    let text = read_optional(path)?.unwrap_or_default();
    let mut text = String::from_utf8_lossy(&text).into_owned();
    let has = |line: &String| text.lines().any(|known| known.trim() == line);
    let missing: Vec<&String> = lines.iter().filter(|line| !has(line)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    for line in missing {
        text.push_str(line);
        text.push('\n');
    }
    create_directory(path.parent().expect("it has a directory"))?;
    replace_atomically(path, text.as_bytes())
}
