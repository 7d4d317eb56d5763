//! Which files of home git should ignore: its own ignore file, or the repository's exclude list if home's lacks
//! entries.

use camino::Utf8Path;

use super::texts;
use crate::files::{PathError, create_directory, read_optional, replace_atomically};
use crate::git::RepositoryLocation;

/// Adds missing entries to home's ignore file.
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

/// Whether an ignore file contains only what Ralph writes.
pub(crate) fn is_own(text: &[u8]) -> bool {
    let is_ralphs = |line: &str| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || texts::IGNORED.contains(&line)
    };
    String::from_utf8_lossy(text).lines().all(is_ralphs)
}

/// Returns the entries that home's ignore file lacks.
pub(super) fn lacking(text: &str) -> Vec<String> {
    let has = |pattern: &str| {
        let bare = |text: &str| text.trim().trim_matches('/').to_owned();
        text.lines().any(|line| bare(line) == bare(pattern) || line.trim() == "*")
    };
    let missing = texts::IGNORED.iter().filter(|pattern| !has(pattern));
    missing.map(|pattern| (*pattern).to_owned()).collect()
}

/// Makes sure that the logs Ralph is about to write into a home do not show up as untracked files: if home's ignore
/// file does not list them, the repository's exclude list does. No committed file changes.
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

/// Adds missing lines to a repository's exclude list.
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
