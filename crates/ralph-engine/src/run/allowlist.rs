//! Which of the person's variables agents and gates get: an allowlist, the agent's own keys, and those the person
//! passes (`[env] pass`). Everything else is withheld: a run cannot leak a token it does not have.

use std::path::{Path, PathBuf};

use camino::Utf8Path;

use super::Environment;

/// Passed to every run. A name that ends in `*` matches all with that prefix.
const PASSED: &[&str] = &[
    // The session.
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "FORCE_COLOR",
    "CI",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    // The network.
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    // Toolchains.
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "RUSTFLAGS",
    "RUST_BACKTRACE",
    "CARGO_BUILD_*",
    "CARGO_NET_*",
    "CARGO_PROFILE_*",
    "CARGO_TARGET_*",
    "GOPATH",
    "GOROOT",
    "GOPROXY",
    "GOFLAGS",
    "GOMODCACHE",
    "GOCACHE",
    "GOTOOLCHAIN",
    "GOPRIVATE",
    "npm_config_registry",
    "npm_config_cache",
    "NVM_DIR",
    "VOLTA_HOME",
    "PNPM_HOME",
    "COREPACK_HOME",
    "VIRTUAL_ENV",
    "PYENV_ROOT",
    "PIP_INDEX_URL",
    "UV_*",
    "JAVA_HOME",
    "GRADLE_USER_HOME",
    "MAVEN_HOME",
    "DOTNET_ROOT",
    "ANDROID_HOME",
    "CC",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
    "LDFLAGS",
    "PKG_CONFIG_PATH",
    "NIX_*",
    "LOCALE_ARCHIVE",
    "SDKROOT",
    "DEVELOPER_DIR",
];

/// Passed to agents, which commit; gates do not.
pub(super) const GIT_IDENTITY: &[&str] = &[
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_KEY_*",
    "GIT_CONFIG_VALUE_*",
];

/// Words that a name matched only by a pattern must not contain. Nix's settings contain access tokens.
const SECRETS: [&str; 6] = ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "NIX_CONFIG"];

/// Variables of shells and desktops that no command needs: not mentioned when one fails.
const UNREMARKABLE: &[&str] = &[
    "_",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "PS1",
    "MAIL",
    "HIST*",
    "LS_COLORS",
    "LESS*",
    "PAGER",
    "EDITOR",
    "VISUAL",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "WINDOWID",
    "XAUTHORITY",
    "XDG_*",
    "DBUS_*",
    "SSH_*",
    "GPG_*",
    "TERM_*",
    "TMUX*",
    "STY",
    "VTE_*",
    "COLORFGBG",
    "KONSOLE_*",
    "GNOME_*",
    "DESKTOP_*",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "SYSTEMD_*",
    "WSL*",
    "RALPH_*",
    "GIT_*",
    "TMPDIR",
    "BASH_*",
    "ZSH*",
    "LD_LIBRARY_PATH",
    "MANPATH",
    "INFOPATH",
    "HOSTNAME",
    "HOSTTYPE",
    "MEMORY_*",
];

/// The maximum number of names listed when a command fails.
const MOST_NAMED: usize = 12;

impl Environment {
    /// Returns the part of it that a run gets. `own` are names and patterns that the agent or the person passes.
    pub(crate) fn passing(&self, own: &[&str]) -> Environment {
        let mut passing = self.clone();
        passing.remove_where(|name| {
            let is_own = own.iter().any(|pattern| fits(pattern, name));
            !is_own && !is_passed(name)
        });
        passing.drop_git_settings(may_hold_secret);
        passing
    }

    /// Returns the names that every run gets, and those that are withheld.
    pub fn passed_and_withheld(&self, own: &[String]) -> (Vec<String>, Vec<String>) {
        let passed = self.passing(&as_strs(own));
        (passed.names().map(str::to_owned).collect(), self.withheld_from(&passed))
    }

    /// Returns the names of the variables that are missing in another environment.
    pub(crate) fn withheld_from(&self, other: &Environment) -> Vec<String> {
        let names = self.names().filter(|name| other.get(name).is_none());
        names.map(str::to_owned).collect()
    }

    /// Removes directories from PATH: relative ones, and those below a path that agents may write.
    pub(crate) fn narrow_path(&mut self, writable: &[&Utf8Path]) {
        let Some(path) = self.get("PATH") else { return };
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let writable: Vec<PathBuf> = writable.iter().map(|path| real(path.as_std_path())).collect();
        let kept: Vec<PathBuf> = std::env::split_paths(path)
            .filter(|directory| {
                let directory_is_written = || {
                    let directory = real(directory);
                    writable.iter().any(|writable| directory.starts_with(writable))
                };
                directory.is_absolute() && !directory_is_written()
            })
            .collect();
        if let Ok(path) = std::env::join_paths(kept) {
            self.set("PATH", path);
        }
    }
}

pub(crate) fn as_strs(list: &[String]) -> Vec<&str> {
    list.iter().map(String::as_str).collect()
}

/// Whether a setting of git, given in the environment, is one by which it authenticates itself.
fn may_hold_secret(key: &str, value: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let has_address_with_login =
        key.starts_with("url.") && (key.contains('@') || value.contains('@'));
    key.starts_with("http.") || key.starts_with("credential.") || has_address_with_login
}

fn is_passed(name: &str) -> bool {
    let is_secret = || SECRETS.iter().any(|secret| name.to_ascii_uppercase().contains(secret));
    PASSED.iter().any(|pattern| {
        *pattern == name || (pattern.ends_with('*') && fits(pattern, name) && !is_secret())
    })
}

/// Whether a name matches a pattern: equal, or with the prefix of a pattern that ends in `*`.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    }
}

/// Lists the variables withheld from a failed command: first those its output mentions, then those a command could
/// need.
pub(crate) fn advice(withheld: &[String], output: &str) -> Option<String> {
    let words: Vec<&str> = output
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect();
    let is_named = |name: &&String| words.contains(&name.as_str());
    let could_miss = |name: &&String| !UNREMARKABLE.iter().any(|pattern| fits(pattern, name));
    let others = withheld.iter().filter(|name| could_miss(name) && !is_named(name));
    let names: Vec<&str> =
        withheld.iter().filter(is_named).chain(others).map(String::as_str).collect();
    if names.is_empty() {
        return None;
    }
    let more = names.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names = names[..names.len().min(MOST_NAMED)].join(", ");
    Some(format!("withheld from its environment: {names}{more}; `[env] pass` lets names through"))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        Environment::inherited(
            variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))),
        )
    }

    #[test]
    fn only_what_is_allowed_or_let_through_is_passed() {
        let names = [
            "PATH",
            "HOME",
            "LC_ALL",
            "https_proxy",
            "CARGO_HOME",
            "UV_INDEX",
            "UV_PUBLISH_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "GITHUB_TOKEN",
            "OPENAI_API_KEY",
            "DATABASE_URL",
            "SSH_AUTH_SOCK",
            "GIT_SSH_COMMAND",
            "LD_PRELOAD",
            "MAKEFLAGS",
            "NIX_CONFIG",
        ];
        let variables: Vec<(&str, &str)> = names.iter().map(|name| (*name, "x")).collect();
        let whole = environment(&variables);
        let passed = |own: &[&str]| -> Vec<String> {
            whole.passing(own).names().map(str::to_owned).collect()
        };
        let usual = ["CARGO_HOME", "HOME", "LC_ALL", "PATH", "UV_INDEX", "https_proxy"];
        assert_eq!(passed(&[]), usual);
        assert!(passed(&["OPENAI_*"]).contains(&"OPENAI_API_KEY".to_owned()));
        // The person's own settings take precedence over everything.
        let own = passed(&["UV_PUBLISH_TOKEN", "LD_PRELOAD"]);
        assert_eq!(own.len(), usual.len() + 2);
        assert_eq!(whole.withheld_from(&whole.passing(&[])).len(), names.len() - usual.len());
    }

    #[test]
    fn settings_of_git_by_which_it_logs_in_are_not_passed() {
        let whole = environment(&[
            ("GIT_CONFIG_COUNT", "4"),
            ("GIT_CONFIG_KEY_0", "user.name"),
            ("GIT_CONFIG_VALUE_0", "me"),
            ("GIT_CONFIG_KEY_1", "http.https://host/.extraheader"),
            ("GIT_CONFIG_VALUE_1", "Authorization: basic c2VjcmV0"),
            ("GIT_CONFIG_KEY_2", "url.https://me:secret@host/.insteadOf"),
            ("GIT_CONFIG_VALUE_2", "https://host/"),
            ("GIT_CONFIG_KEY_3", "safe.directory"),
            ("GIT_CONFIG_VALUE_3", "*"),
        ]);
        let passed = whole.passing(&["GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_*", "GIT_CONFIG_VALUE_*"]);
        let expected = [
            ("GIT_CONFIG_COUNT", "2"),
            ("GIT_CONFIG_KEY_0", "user.name"),
            ("GIT_CONFIG_KEY_1", "safe.directory"),
            ("GIT_CONFIG_VALUE_0", "me"),
            ("GIT_CONFIG_VALUE_1", "*"),
        ];
        let expected = expected.map(|(name, value)| (name.into(), value.into()));
        assert_eq!(passed.into_variables(), expected);
    }

    #[test]
    fn the_path_has_no_directory_that_an_agent_may_write() {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap();
        std::fs::create_dir_all(root.join("work/.venv/bin")).unwrap();
        std::os::unix::fs::symlink(root.join("work/.venv"), root.join("link")).unwrap();
        let path =
            format!(".:node_modules/.bin:{root}/work/.venv/bin:/usr/bin:{root}/link/bin:/bin");
        let mut narrowed = environment(&[("PATH", &path)]);
        narrowed.narrow_path(&[&root.join("work")]);
        assert_eq!(narrowed.text("PATH").as_deref(), Some("/usr/bin:/bin"));
    }

    #[test]
    fn a_failure_names_what_it_may_have_missed() {
        let withheld: Vec<String> =
            ["DATABASE_URL", "LS_COLORS", "DISPLAY", "MY_SETTING"].map(str::to_owned).to_vec();
        let text = advice(&withheld, "cannot open $DISPLAY\n").unwrap();
        assert!(text.contains("environment: DISPLAY, DATABASE_URL, MY_SETTING;"), "{text}");
        assert_eq!(advice(&["LS_COLORS".to_owned()], "failed"), None);
    }
}
