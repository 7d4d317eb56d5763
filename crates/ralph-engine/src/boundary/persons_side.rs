//! What a run in a slot must not have reached, where only comparison can tell (`detect`): the person's refs, git
//! configuration and hooks, home and `ralph.toml`.
//!
//! Nothing is reverted: the person, who keeps working meanwhile, may have made the change, and its author cannot be
//! determined. The workflow stops and asks.

use std::collections::BTreeMap;
use std::fs;

use camino::{Utf8Path, Utf8PathBuf};

use crate::digest;
use crate::git::{Git, GitProgram, RepositoryLocation};

/// The person's side at one moment: what each thing was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PersonsSide {
    known: BTreeMap<String, String>,
}

/// What is looked at.
pub(crate) struct PersonsPlaces<'a> {
    pub(crate) program: GitProgram,
    pub(crate) repositories: &'a [RepositoryLocation],
    pub(crate) home: &'a Utf8Path,
    pub(crate) config: Utf8PathBuf,
}

impl PersonsSide {
    pub(crate) fn look(places: &PersonsPlaces<'_>) -> PersonsSide {
        let mut side = PersonsSide::default();
        for place in places.repositories {
            side.take_repository(&places.program, place);
        }
        side.take_file(&places.config);
        side.take_home(places.home, places.home);
        side
    }

    fn take_repository(&mut self, program: &GitProgram, place: &RepositoryLocation) {
        let name = place.worktree.as_deref().unwrap_or(&place.git_dir);
        let git = Git::at(program.clone(), place.clone());
        match git.refs() {
            Ok(snapshot) => {
                self.known.insert(format!("{name}: HEAD"), format!("{:?}", snapshot.head));
                for found in snapshot.refs {
                    // Ralph's own move while a run is under way.
                    if !found.name.starts_with("refs/ralph/") && found.name != "refs/notes/ralph" {
                        self.known.insert(format!("{name}: {}", found.name), found.id.to_string());
                    }
                }
            }
            // What cannot be read is not nothing.
            Err(error) => {
                self.known.insert(format!("{name}: refs"), error.to_string());
            }
        }
        for file in ["config", "config.worktree", "info/exclude", "info/attributes"] {
            self.take_file(&place.git_dir.join(file));
            self.take_file(&place.common_dir.join(file));
        }
        let hooks = place.common_dir.join("hooks");
        for entry in hooks.read_dir_utf8().into_iter().flatten().flatten() {
            self.take_file(entry.path());
        }
    }

    fn take_file(&mut self, path: &Utf8Path) {
        let Ok(found) = fs::symlink_metadata(path) else { return };
        let content = if found.is_symlink() {
            fs::read_link(path).map(|target| target.to_string_lossy().into_owned())
        } else {
            digest::of_file(path)
        };
        let content = content.unwrap_or_else(|error| error.to_string());
        let mode = std::os::unix::fs::PermissionsExt::mode(&found.permissions());
        self.known.insert(path.to_string(), format!("{mode:o} {content}"));
    }

    /// Takes the files of home, but for Ralph's logs and what is written while a run is under way.
    fn take_home(&mut self, home: &Utf8Path, directory: &Utf8Path) {
        for entry in directory.read_dir_utf8().into_iter().flatten().flatten() {
            let path = entry.path();
            let inside = path.strip_prefix(home).unwrap_or(path);
            let own = ["runs", "ralph.log", "specs/sessions"];
            if own.iter().any(|own| inside.starts_with(own)) {
                continue;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.take_home(home, path),
                _ => self.take_file(path),
            }
        }
    }

    /// Names what differs from an earlier look.
    pub(crate) fn changes_since(&self, before: &PersonsSide, workspace: &Utf8Path) -> Vec<String> {
        let names = self.known.keys().chain(before.known.keys());
        let mut changed: Vec<String> = names
            .filter(|name| self.known.get(*name) != before.known.get(*name))
            .map(|name| {
                let below = name.strip_prefix(workspace.as_str()).unwrap_or(name);
                below.trim_start_matches(['/', ':', ' ']).to_owned()
            })
            .collect();
        changed.sort();
        changed.dedup();
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_place::Place;

    #[test]
    fn refs_settings_hooks_and_home_are_compared_and_ralphs_own_are_not() {
        let place = Place::new();
        place.git(&["init", "-q"]);
        place.git(&["config", "user.name", "A B"]);
        place.git(&["config", "user.email", "a@b.c"]);
        place.git(&["commit", "-q", "--allow-empty", "-m", "first"]);
        place.write("ralph/specs/0001-a.md", "a");
        let repositories = super::super::repositories(&place.root);
        let home = place.root.join("ralph");
        let look = || {
            PersonsSide::look(&PersonsPlaces {
                program: GitProgram::new("git", std::env::vars_os()),
                repositories: &repositories,
                home: &home,
                config: place.root.join("ralph.toml"),
            })
        };
        let changes = |act: &dyn Fn()| {
            let before = look();
            act();
            look().changes_since(&before, &place.root)
        };
        assert_eq!(changes(&|| place.write("ralph/runs/x/log", "x")), [""; 0]);
        assert_eq!(changes(&|| drop(place.git(&["update-ref", "refs/ralph/x", "HEAD"]))), [""; 0]);
        assert_eq!(
            changes(&|| place.write("src/a.rs", "the agent's own tree is another")),
            [""; 0]
        );
        assert_eq!(changes(&|| drop(place.git(&["branch", "new"]))), ["refs/heads/new"]);
        assert_eq!(changes(&|| place.write("ralph.toml", "a = 1")), ["ralph.toml"]);
        assert_eq!(
            changes(&|| place.write(".git/hooks/post-commit", "x")),
            [".git/hooks/post-commit"]
        );
        assert_eq!(changes(&|| drop(place.git(&["config", "a.b", "c"]))), [".git/config"]);
        let spec = "ralph/specs/0001-a.md";
        assert_eq!(changes(&|| place.write(spec, "forged")), [spec]);
        assert_eq!(changes(&|| fs::remove_file(place.root.join(spec)).unwrap()), [spec]);
    }
}
