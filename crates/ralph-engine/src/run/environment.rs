//! Environments: the person's own, and what runs get of it, with Ralph's additions and without variables that mislead
//! git.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use camino::Utf8Path;

use crate::boundary::cache_variables;
use crate::git::GitProgram;

/// Set when Ralph itself is started by git (a hook, an alias): in a run they would point git to the wrong repository.
const GIT_VARIABLES: [&str; 8] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
];

/// An environment under construction. Later settings win.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
    /// The git binary, once it was looked up, and the directories in which git finds other programs.
    git: Option<(PathBuf, OsString)>,
}

impl Environment {
    /// Starts from this process's environment.
    pub fn inherited(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Environment {
        let mut environment = Environment { variables: variables.into_iter().collect(), git: None };
        for name in GIT_VARIABLES {
            environment.variables.remove(OsStr::new(name));
        }
        environment
    }

    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.variables.insert(name.into(), value.into());
    }

    /// Removes every variable whose name `unwanted` matches.
    pub(crate) fn remove_where(&mut self, unwanted: impl Fn(&str) -> bool) {
        self.variables.retain(|name, _| !name.to_str().is_some_and(&unwanted));
    }

    /// Returns the names that are UTF-8.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().filter_map(|name| name.to_str())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// The value as text, for looking up directories; a value that is not UTF-8 counts as absent.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).and_then(OsStr::to_str).filter(|value| !value.is_empty()).map(str::to_owned)
    }

    /// Prepends `directory` to PATH.
    pub(crate) fn prepend_path(&mut self, directory: &Utf8Path) {
        let rest = self.get("PATH").unwrap_or_default().to_owned();
        let mut path = OsString::from(directory.as_str());
        if !rest.is_empty() {
            path.push(":");
            path.push(rest);
        }
        self.set("PATH", path);
    }

    /// Adds a setting for every git process of the run, in addition to existing ones.
    pub(crate) fn configure_git(&mut self, key: &str, value: &str) {
        let count: usize =
            self.text("GIT_CONFIG_COUNT").and_then(|count| count.parse().ok()).unwrap_or(0);
        self.set(format!("GIT_CONFIG_KEY_{count}"), key);
        self.set(format!("GIT_CONFIG_VALUE_{count}"), value);
        self.set("GIT_CONFIG_COUNT", (count + 1).to_string());
    }

    /// Removes settings for git processes, by their keys and values, and numbers the others anew.
    pub(super) fn drop_git_settings(&mut self, is_unwanted: impl Fn(&str, &str) -> bool) {
        let count = self.text("GIT_CONFIG_COUNT").and_then(|count| count.parse().ok());
        let Some(count) = count.filter(|count: &usize| *count > 0) else { return };
        let named = |number: usize| {
            ["KEY", "VALUE"].map(|kind| OsString::from(format!("GIT_CONFIG_{kind}_{number}")))
        };
        let mut kept = Vec::new();
        for number in 0..count {
            let [key, value] = named(number).map(|name| self.variables.remove(&name));
            let (Some(key), Some(value)) = (key, value) else { continue };
            if !is_unwanted(&key.to_string_lossy(), &value.to_string_lossy()) {
                kept.push([key, value]);
            }
        }
        self.set("GIT_CONFIG_COUNT", kept.len().to_string());
        for (number, pair) in kept.into_iter().enumerate() {
            self.variables.extend(named(number).into_iter().zip(pair));
        }
    }

    /// Looks up a program like a shell: a name on PATH, anything with a slash relative to `cwd`.
    ///
    /// Relative directories are skipped: with `.` on PATH a repository could bring its own `codex`.
    pub fn find_program(&self, name: &str, cwd: &Path) -> Option<PathBuf> {
        if name.contains('/') {
            let path = cwd.join(name);
            return is_executable(&path).then_some(path);
        }
        std::env::split_paths(self.get("PATH")?)
            .filter(|directory| directory.is_absolute())
            .map(|directory| directory.join(name))
            .find(|path| is_executable(path))
    }

    /// Looks up git once, in directories that are not below a workspace: agents write there, and a program they put in
    /// git's place would run as the person. The same holds for programs that git looks up itself (gpg, ssh, git-lfs).
    pub fn find_git(&mut self, workspace: &Utf8Path) {
        let is_outside = |path: &Path| {
            path.canonicalize().is_ok_and(|real| !real.starts_with(workspace.as_std_path()))
        };
        let mut narrowed = self.clone();
        narrowed.narrow_path(&[workspace]);
        let path = narrowed.get("PATH").unwrap_or_default().to_owned();
        let git = std::env::split_paths(&path)
            .map(|directory| directory.join("git"))
            .find(|git| is_executable(git) && is_outside(git));
        self.git = git.map(|git| (git, path));
    }

    /// Returns the variables that point the toolchains of runs to Ralph's own caches.
    pub fn cache_names(&self) -> Vec<&'static str> {
        let variables = cache_variables(Utf8Path::new("/"), &|name| self.text(name));
        variables.into_iter().map(|(name, _)| name).collect()
    }

    /// Returns a git with this environment.
    pub fn git(&self) -> GitProgram {
        let mut environment = self.clone();
        let Some((exe, path)) = environment.git.take() else {
            return GitProgram::new("git", environment.into_variables());
        };
        environment.set("PATH", path);
        GitProgram::new(exe, environment.into_variables())
    }

    pub(crate) fn into_variables(self) -> Vec<(OsString, OsString)> {
        self.variables.into_iter().collect()
    }
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        Environment::inherited(
            variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))),
        )
    }

    #[test]
    fn git_settings_are_added_to_those_that_are_there_and_git_is_not_misled() {
        let mut environment = environment(&[
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "user.name"),
            ("GIT_CONFIG_VALUE_0", "me"),
            ("GIT_DIR", "/elsewhere"),
        ]);
        environment.configure_git("commit.gpgsign", "false");
        assert_eq!(environment.text("GIT_CONFIG_COUNT").as_deref(), Some("2"));
        assert_eq!(environment.text("GIT_CONFIG_KEY_0").as_deref(), Some("user.name"));
        assert_eq!(environment.text("GIT_CONFIG_KEY_1").as_deref(), Some("commit.gpgsign"));
        assert_eq!(environment.text("GIT_DIR"), None);
    }

    #[test]
    fn git_is_never_taken_from_the_workspace() {
        use std::fs;
        use std::os::unix::fs::{PermissionsExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let top = Utf8Path::from_path(dir.path()).unwrap().canonicalize_utf8().unwrap();
        let work = top.join("work");
        for place in ["work/bin", "links", "outside"] {
            fs::create_dir_all(top.join(place)).unwrap();
        }
        for program in ["work/bin/git", "outside/git"] {
            fs::write(top.join(program), "").unwrap();
            fs::set_permissions(top.join(program), fs::Permissions::from_mode(0o755)).unwrap();
        }
        symlink(work.join("bin"), top.join("linked")).unwrap();
        symlink(work.join("bin/git"), top.join("links/git")).unwrap();
        let path = format!("work/bin:{work}/bin:{top}/linked:{top}/links:{top}/outside");
        let mut environment = environment(&[("PATH", &path)]);
        environment.find_git(&work);
        let path = format!("{top}/links:{top}/outside");
        let expected = (top.join("outside/git").into_std_path_buf(), OsString::from(path));
        assert_eq!(environment.git, Some(expected));
    }

    #[test]
    fn programs_are_found_on_the_path_and_relative_to_the_directory() {
        let environment = environment(&[("PATH", ".:bin:/nowhere:/bin:/usr/bin")]);
        let root = Path::new("/");
        assert_eq!(environment.find_program("sh", root), Some(PathBuf::from("/bin/sh")));
        assert_eq!(environment.find_program("bin/sh", root), Some(PathBuf::from("/bin/sh")));
        assert_eq!(environment.find_program("etc/passwd", root), None, "not executable");
        assert_eq!(environment.find_program("no-such-program", root), None);
    }
}
