//! `.worktreeinclude`: the person's ignored files that are copied into Ralph's own clones and checkouts.
//!
//! The list exposes files, so it is treated like `ralph.toml`: it is read once, with the configuration, it is armed,
//! and it never comes from an agent's commit. There is one in the workspace, and one in each of its repositories.

use camino::{Utf8Path, Utf8PathBuf};

use super::armed::ArmedKey;
use super::problem::{ConfigProblem, ConfigProblemKind, Origin};
use super::value::SettingValue;
use crate::files::read_optional;
use crate::home::INCLUDE_FILE;

/// A list in the person's checkout.
pub(super) struct IncludeList {
    /// Its directory, relative to the workspace.
    pub(super) directory: Utf8PathBuf,
    pub(super) text: String,
    origin: Origin,
}

impl IncludeList {
    /// Returns the list as a setting that needs the person's trust.
    pub(super) fn armed(&self) -> ArmedKey {
        let lines = self.text.lines().map(str::trim_end);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        ArmedKey {
            key: self.directory.join(INCLUDE_FILE).into_string(),
            value: SettingValue::List(lines.map(str::to_owned).collect()).render(),
            origin: self.origin.clone(),
        }
    }
}

/// Reads the lists of a workspace.
pub(super) fn lists(root: &Utf8Path, problems: &mut Vec<ConfigProblem>) -> Vec<IncludeList> {
    let mut directories = vec![Utf8PathBuf::new()];
    if !root.join(".git").exists() {
        directories.extend(children_with_lists(root));
    }
    let mut lists = Vec::new();
    for directory in directories {
        let path = root.join(&directory).join(INCLUDE_FILE);
        let origin = Origin::File { path: path.clone(), line: 1, column: 1 };
        let read = match read_optional(&path) {
            Ok(None) => continue,
            Ok(Some(bytes)) => String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned()),
            Err(error) => Err(error.source.to_string()),
        };
        match read {
            Ok(text) => lists.push(IncludeList { directory, text, origin }),
            Err(reason) => {
                let kind = ConfigProblemKind::Unreadable { reason };
                problems.push(ConfigProblem { origin, kind });
            }
        }
    }
    lists
}

/// Returns the repositories below a workspace that have a list, sorted by name.
fn children_with_lists(root: &Utf8Path) -> Vec<Utf8PathBuf> {
    let entries = root.read_dir_utf8().into_iter().flatten().flatten();
    let has_list = |child: &Utf8Path| {
        child.join(".git").exists() && child.join(INCLUDE_FILE).symlink_metadata().is_ok()
    };
    let mut found: Vec<Utf8PathBuf> = entries
        .filter(|entry| has_list(entry.path()))
        .map(|entry| Utf8PathBuf::from(entry.file_name()))
        .collect();
    found.sort();
    found
}
