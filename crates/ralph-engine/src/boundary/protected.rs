//! What is watched in every run, whatever the role, and why.
//!
//! `git`'s own settings and hooks, because they are programs that run later as the person; home's state files and
//! `ralph.toml`, because they are what the harness believes; what keeps home's private files out of commits; that nobody's
//! specs and prompts vanish from home; the settings of the agent itself. Refs and the tree are
//! watched for roles that must not write at all. `shallow` is left out: it can only hide history, which evidence takes
//! from the mirror, and putting it back after a fetch would leave a repository with missing parents. Hooks that a
//! repository keeps among its files (`.husky`) are ordinary work.

use std::collections::BTreeSet;
use std::fs::{DirEntry, FileType};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use camino::Utf8Path;
use ralph_model::prompt::PromptKind;
use serde::{Deserialize, Serialize};

use crate::agent::covers;
use crate::git::{LARGEST, RepositoryLocation};
use crate::home::{CONFIG_FILE, INCLUDE_FILE};

/// What a watched file is, which decides what follows from a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Class {
    /// Git's settings and hooks: put back and reported; the run does not fail.
    Settings,
    /// What the harness believes: put back, and the run has failed.
    State,
    /// The settings of the agent itself: put back and reported; the run does not fail.
    Agent,
    /// What people wrote into home: theirs to remove. An edit is an agent's ordinary work.
    People,
    /// `HEAD`, refs and the index: of roles that must not write.
    Refs,
    /// Everything else in the workspace: of roles that must not write.
    Tree,
    /// The harness's own files outside the workspace, which the kernel keeps from every run.
    Private,
    /// What is out of a run's reach except for its permissions.
    Outside,
}

/// A file to look at, or a directory to look through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Watched {
    pub(super) path: PathBuf,
    pub(super) class: Class,
    pub(super) below: bool,
    /// It is a directory that is looked at itself: what others may do with it.
    pub(super) itself: bool,
    /// What in the directory is not looked at, as patterns.
    pub(super) data: Vec<String>,
}

impl Watched {
    pub(super) fn file(path: impl Into<PathBuf>, class: Class) -> Watched {
        Watched { path: path.into(), class, below: false, itself: false, data: Vec::new() }
    }

    /// A directory on the way to something that is watched.
    pub(super) fn directory(path: impl Into<PathBuf>, class: Class) -> Watched {
        Watched { itself: true, ..Watched::file(path, class) }
    }

    pub(super) fn below(path: impl Into<PathBuf>, class: Class) -> Watched {
        Watched { path: path.into(), class, below: true, itself: true, data: Vec::new() }
    }

    /// Whether a path in the directory is not looked at.
    pub(super) fn is_data(&self, path: &Path) -> bool {
        let inside = path.strip_prefix(&self.path).ok();
        inside.is_some_and(|inside| self.data.iter().any(|pattern| covers(pattern, inside)))
    }

    /// Whether it is where git looks for hooks.
    pub(super) fn holds_hooks(&self) -> bool {
        self.below && self.class == Class::Settings && self.path.ends_with("hooks")
    }
}

/// Whether a file among the hooks is one of the examples that git puts there. Git never runs them.
pub(super) fn is_sample(name: &[u8]) -> bool {
    name.ends_with(b".sample")
}

/// Files in a git directory that change what git does.
const SETTINGS: [&str; 7] = [
    "config",
    "config.worktree",
    "info/attributes",
    "info/exclude",
    "info/grafts",
    "info/sparse-checkout",
    "objects/info/alternates",
];

/// Directories that git makes as it needs them, for refs and what became of them.
const REF_DIRECTORIES: [&str; 6] =
    ["logs", "logs/refs", "logs/refs/heads", "refs/heads", "refs/remotes", "refs/tags"];

/// Finds the links among the files of a git directory, its refs and its logs. Git follows them when it writes: a person's
/// next merge or fetch would append names that an agent chose to the file that one leads to. A directory that cannot be
/// listed may have some.
fn links_in(git_dir: &Utf8Path) -> Vec<Watched> {
    let is_link = |_: &DirEntry, kind: FileType| kind.is_symlink();
    let (links, closed) = files_of_git(git_dir, &is_link);
    let links = links.into_iter().map(|link| Watched::file(link, Class::Settings));
    links.chain(closed.into_iter().map(|path| Watched::below(path, Class::Settings))).collect()
}

/// Finds the files there with which git would never finish, and of which it makes none itself.
pub(crate) fn endless_files_in(git_dir: &Utf8Path) -> Vec<PathBuf> {
    let is_endless = |entry: &DirEntry, kind: FileType| {
        kind.is_fifo()
            || entry.metadata().is_ok_and(|found| found.is_file() && found.len() > LARGEST)
    };
    files_of_git(git_dir, &is_endless).0
}

/// Finds files that lie directly in a git directory, or among its refs and logs, and what of these cannot be listed.
fn files_of_git(
    git_dir: &Utf8Path,
    is_wanted: &dyn Fn(&DirEntry, FileType) -> bool,
) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut found, mut closed) = (Vec::new(), Vec::new());
    let mut open = vec![git_dir.as_std_path().to_owned()];
    while let Some(directory) = open.pop() {
        let is_top = directory == git_dir.as_std_path();
        let Ok(entries) = directory.read_dir() else {
            closed.extend((!is_top).then_some(directory));
            continue;
        };
        for entry in entries.flatten() {
            let (Ok(kind), name) = (entry.file_type(), entry.file_name()) else { continue };
            if kind.is_dir() {
                if !is_top || name == "logs" || name == "refs" {
                    open.push(entry.path());
                }
            } else if is_wanted(&entry, kind) {
                found.push(entry.path());
            }
        }
    }
    (found, closed)
}

/// Whether it is a directory that git makes as it needs it.
pub(super) fn is_made_by_git(path: &Path) -> bool {
    REF_DIRECTORIES.iter().any(|name| path.ends_with(name))
}

/// The steps that are left of a rebase: `git rebase --continue` executes what they name.
pub(super) const REBASE_STEPS: &str = "rebase-merge/git-rebase-todo";

/// Files in the git directory of a repository inside another by which git finds programs to run, or other files that name
/// them.
pub(super) const REPOSITORY_SETTINGS: [&str; 4] =
    ["config", "config.worktree", "commondir", REBASE_STEPS];

/// Whether the steps of a rebase only move commits. A rebase that a run has left half done may stay.
pub(super) fn are_plain_steps(steps: &[u8]) -> bool {
    const PLAIN: [&str; 24] = [
        "pick",
        "p",
        "reword",
        "r",
        "edit",
        "e",
        "squash",
        "s",
        "fixup",
        "f",
        "drop",
        "d",
        "break",
        "b",
        "label",
        "l",
        "reset",
        "t",
        "merge",
        "m",
        "update-ref",
        "u",
        "noop",
        "#",
    ];
    let Ok(steps) = std::str::from_utf8(steps) else { return false };
    steps.lines().all(|line| {
        let word = line.split_whitespace().next().unwrap_or("#");
        // A comment need not have a space after its sign.
        PLAIN.contains(&word) || word.starts_with('#')
    })
}

/// Files of home that tell git what to leave out of commits, and how to merge.
const HOME_SETTINGS: [&str; 2] = [".gitignore", ".gitattributes"];

/// Files that people write in home, in addition to the files in `specs` and the prompt templates.
const PEOPLES_FILES: [&str; 2] = ["prompt.md", "understand_prompt.md"];

/// State files of home, and directories of them.
const STATE_FILES: [&str; 5] =
    ["plan.jsonl", "prd.json", "plan_state.json", "plan_transcript.md", "codebase_map.md"];
const STATE_DIRECTORIES: [&str; 4] =
    ["specs/plans", "specs/candidates", "specs/done", "specs/sessions"];

/// Lists what is watched of a repository's settings.
pub(super) fn git_settings(place: &RepositoryLocation) -> Vec<Watched> {
    let common = &place.common_dir;
    let mut watched: Vec<Watched> =
        SETTINGS.iter().map(|name| Watched::file(common.join(name), Class::Settings)).collect();
    watched.push(Watched::below(common.join("hooks"), Class::Settings));
    watched.push(Watched::below(common.join("refs/replace"), Class::Settings));
    // Whatever writes a ref or its log later would follow a link in the place of one of them.
    watched
        .extend(REF_DIRECTORIES.map(|name| Watched::directory(common.join(name), Class::Settings)));
    for directory in [Some(&place.git_dir), Some(common).filter(|common| **common != place.git_dir)]
    {
        watched.extend(directory.into_iter().flat_map(|directory| links_in(directory)));
    }
    // Where remotes were described before there was a configuration for it, and still are looked for.
    watched.push(Watched::below(common.join("remotes"), Class::Settings));
    watched.push(Watched::below(common.join("branches"), Class::Settings));
    watched.push(Watched::file(common.join("commondir"), Class::Settings));
    watched.push(Watched::file(place.git_dir.join(REBASE_STEPS), Class::Settings));
    if place.git_dir != place.common_dir {
        for name in ["config.worktree", "commondir", "gitdir"] {
            watched.push(Watched::file(place.git_dir.join(name), Class::Settings));
        }
    }
    if let Some(worktree) = &place.worktree {
        let link = worktree.join(".git");
        if link.is_file() {
            watched.push(Watched::file(link, Class::Settings));
        }
    }
    // Where another work tree of the same repository finds its settings.
    for entry in std::fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten() {
        for name in ["commondir", "config.worktree", REBASE_STEPS] {
            watched.push(Watched::file(entry.path().join(name), Class::Settings));
        }
    }
    for module in submodules(&common.join("modules")) {
        let files = REPOSITORY_SETTINGS.map(|name| module.join(name));
        watched.extend(files.map(|path| Watched::file(path, Class::Settings)));
        watched.push(Watched::below(module.join("hooks"), Class::Settings));
    }
    watched
}

/// Finds the git directories of submodules, whose names may have several parts.
fn submodules(modules: &Utf8Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::from(modules)];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let path = entry.path();
            if path.join("HEAD").exists() {
                open.push(path.join("modules"));
                found.push(path);
            } else if path.file_name().is_some_and(|name| name != "modules") {
                open.push(path);
            }
        }
    }
    found
}

/// Lists the files that record the state of history.
pub(super) fn git_refs(place: &RepositoryLocation) -> Vec<Watched> {
    let (own, common) = (&place.git_dir, &place.common_dir);
    let mut watched = vec![
        Watched::file(own.join("HEAD"), Class::Refs),
        Watched::file(own.join("index"), Class::Refs),
        Watched::file(common.join("packed-refs"), Class::Refs),
        Watched::file(common.join("reftable/tables.list"), Class::Refs),
        Watched::below(common.join("refs"), Class::Refs),
    ];
    if own != common {
        watched.push(Watched::file(common.join("HEAD"), Class::Refs));
    }
    watched
}

/// Lists what the harness believes.
pub(super) fn state(workspace: &Utf8Path, home: Option<&Utf8Path>) -> Vec<Watched> {
    let settings = [CONFIG_FILE, INCLUDE_FILE].map(|name| workspace.join(name));
    let mut watched: Vec<Watched> =
        settings.into_iter().map(|path| Watched::file(path, Class::State)).collect();
    if let Some(home) = home {
        let files = STATE_FILES.iter().map(|name| Watched::file(home.join(name), Class::State));
        watched.extend(files);
        let directories =
            STATE_DIRECTORIES.iter().map(|name| Watched::below(home.join(name), Class::State));
        watched.extend(directories);
        let settings =
            HOME_SETTINGS.iter().map(|name| Watched::file(home.join(name), Class::Settings));
        watched.extend(settings);
        // After the directories of state files, which are inside it: a path that is listed twice keeps its first class.
        watched.push(Watched::below(home.join("specs"), Class::People));
        let templates = PromptKind::ALL.iter().map(|kind| kind.file_name());
        let files = PEOPLES_FILES.into_iter().chain(templates);
        watched.extend(files.map(|name| Watched::file(home.join(name), Class::People)));
    }
    watched
}

/// Whether a state file is one that people edit by hand too.
pub(super) fn is_edited_by_hand(
    path: &Path,
    workspace: &Utf8Path,
    home: Option<&Utf8Path>,
) -> bool {
    let is_setting = [CONFIG_FILE, INCLUDE_FILE].iter().any(|name| path == workspace.join(name));
    let inside = home.and_then(|home| path.strip_prefix(home).ok());
    is_setting
        || inside.is_some_and(|inside| {
            let is_plan_of_spec = inside.starts_with("specs/plans")
                && inside.extension().is_some_and(|end| end == "md");
            ["plan.jsonl", "prd.json"].iter().any(|name| inside == Path::new(name))
                || is_plan_of_spec
        })
}

/// Lists the directories on the way from `top` to watched paths below it: closing one would hide its content.
pub(super) fn on_the_way(watched: &[Watched], top: &Utf8Path, class: Class) -> Vec<Watched> {
    let mut found: BTreeSet<&Path> = BTreeSet::new();
    let inside = watched.iter().filter(|watched| watched.path.starts_with(top));
    for watched in inside.filter(|watched| watched.class != Class::Agent) {
        let above = watched.path.ancestors().skip(1);
        found.extend(above.take_while(|above| above.starts_with(top)));
    }
    found.into_iter().map(|path| Watched::directory(path, class)).collect()
}

/// Returns the files that a git configuration includes, resolved against its own place.
pub(super) fn included(config: &Path, text: &[u8]) -> Vec<PathBuf> {
    let text = String::from_utf8_lossy(text);
    let mut inside = false;
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line.to_ascii_lowercase().starts_with("[include");
        }
        let Some((key, value)) = line.split_once('=').filter(|_| inside) else { continue };
        let key = key.rsplit(']').next().unwrap_or(key);
        let value = value.trim().trim_matches('"');
        // The person's home directory is out of reach, or the person's own affair.
        if key.trim().eq_ignore_ascii_case("path") && !value.starts_with('~') {
            let base = config.parent().unwrap_or(config);
            found.push(base.join(value));
        }
    }
    found
}

/// Merges what a run may change in a git configuration into what it was before: the `branch.*` entries.
///
/// Only keys that name no program and no address are taken, so that no entry can smuggle one in.
pub(super) fn merged_config(before: &[u8], now: &[u8]) -> Vec<u8> {
    let before = String::from_utf8_lossy(before);
    let now = String::from_utf8_lossy(now);
    let remotes: Vec<&str> =
        sections(&before).into_iter().filter_map(|(header, _)| remote_in(header)).collect();
    let mut merged = String::new();
    for (header, body) in sections(&before).into_iter().filter(|(header, _)| !is_branch(header)) {
        merged.push_str(header);
        merged.push_str(body);
    }
    for (header, body) in sections(&now).into_iter().filter(|(header, _)| is_branch(header)) {
        let lines: Vec<&str> = body.lines().filter(|line| is_harmless(line, &remotes)).collect();
        if !lines.is_empty() {
            if !merged.is_empty() && !merged.ends_with('\n') {
                merged.push('\n');
            }
            merged.push_str(header.trim_end());
            merged.push('\n');
            for line in lines {
                merged.push_str(line);
                merged.push('\n');
            }
        }
    }
    merged.into_bytes()
}

/// Splits a configuration at its section headers; what comes before the first has an empty one.
fn sections(text: &str) -> Vec<(&str, &str)> {
    let mut starts = vec![0];
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') && offset > 0 {
            starts.push(offset);
        }
        offset += line.len();
    }
    starts.push(text.len());
    let pieces = starts.windows(2).map(|pair| &text[pair[0]..pair[1]]);
    pieces
        .map(|piece| {
            let is_headed = piece.trim_start().starts_with('[');
            let end =
                if is_headed { piece.find('\n').map_or(piece.len(), |end| end + 1) } else { 0 };
            piece.split_at(end)
        })
        .collect()
}

fn is_branch(header: &str) -> bool {
    let header = header.trim();
    // A header with a setting on the same line is none that git writes.
    header.to_ascii_lowercase().starts_with("[branch \"") && header.ends_with("\"]")
}

/// The name of the remote that a section is about.
pub(super) fn remote_in(header: &str) -> Option<&str> {
    header.trim().strip_prefix("[remote \"")?.strip_suffix("\"]")
}

/// Whether an entry of a branch leads nowhere but to a remote that was known before: any other name is a path.
fn is_harmless(line: &str, remotes: &[&str]) -> bool {
    let Some((key, value)) = line.split_once('=') else { return false };
    let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
    let plain = |extra: &str| {
        value.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c) || extra.contains(c))
    };
    match key.as_str() {
        "remote" | "pushremote" => value == "." || remotes.contains(&value),
        "merge" => plain("/@+#"),
        "rebase" | "vscode-merge-base" => plain("/"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_entries_stay_and_nothing_hides_in_them() {
        let before = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = u\n[branch \"old\"]\n\tremote = origin\n";
        let now = "[core]\n\tbare = false\n\tfsmonitor = evil\n[branch \"p\"]\n\tremote = mirror.git\n[branch \"new\"]\n\tremote = origin\n\tmerge = refs/heads/new\n\
                   [branch \"x\"] fsmonitor = evil\n[branch \"y\"]\n\tremote = ext::sh -c evil\n[core]\n\thooksPath = /tmp\n";
        let merged = String::from_utf8(merged_config(before.as_bytes(), now.as_bytes())).unwrap();
        assert_eq!(
            merged,
            "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = u\n[branch \"new\"]\n\tremote = origin\n\tmerge = refs/heads/new\n"
        );
        let unchanged = merged_config(before.as_bytes(), before.as_bytes());
        assert_eq!(unchanged, before.as_bytes());
    }

    #[test]
    fn steps_of_a_rebase_that_start_a_program_are_not_plain() {
        let plain = "pick 1a2b3c one\n# exec in a comment\n#pick\n\nfixup -C 1a2b x\nupdate-ref refs/heads/x\nmerge -C 1a2b side\n";
        assert!(are_plain_steps(plain.as_bytes()) && are_plain_steps(b""));
        for more in ["exec id", "x id", "\texec id", "EXEC id", "\u{feff}exec id"] {
            assert!(!are_plain_steps(format!("{plain}{more}\n").as_bytes()), "{more}");
        }
        assert!(!are_plain_steps(b"pick \xff"));
    }

    #[test]
    fn included_files_are_found() {
        let config = Path::new("/w/.git/config");
        let text = "[core]\n\tpath = no\n[include]\n\tpath = ../shared\n[includeIf \"gitdir:/w\"] path = \"x\"\n\
                    [include]\n\tpath = ~/mine\n";
        assert_eq!(
            included(config, text.as_bytes()),
            [PathBuf::from("/w/.git/../shared"), PathBuf::from("/w/.git/x")]
        );
    }
}
