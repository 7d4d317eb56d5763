//! Finds and disables programs under configuration keys whose names an agent can choose.
//!
//! `filter.<name>.*` runs when git compares or stores a file, `hook.<name>.*` when refs or the index change. The names
//! are chosen by the attacker, so they are listed first and each is overridden. A filter that the person installed
//! (LFS) is disabled as well: it reads the repository's configuration for programs to start. Files that need it are
//! found by [`Drivers::is_empty`] and an attribute check, and are not committed unfiltered.

use super::call::{Call, UserConfig};
use super::error::GitError;
use super::parse::{GitSetting, parse_settings};
use super::{Git, unexpected};

/// The settings in force in one repository, and the overrides that disable its drivers.
#[derive(Clone, Debug)]
pub(super) struct Drivers {
    settings: Vec<GitSetting>,
    overrides: Vec<(String, String)>,
    filters: bool,
}

impl Drivers {
    /// Lists the settings of a repository, including the person's own.
    pub(super) fn of(git: &Git) -> Result<Self, GitError> {
        let args = ["config", "--list", "--null", "--show-scope", "--includes"];
        let answer = git.call(Call::new(&args).person(UserConfig::Heard))?;
        let settings =
            parse_settings(&answer.stdout).ok_or_else(|| unexpected(&args, &answer.stdout))?;
        Self::from_settings(settings)
    }

    fn from_settings(settings: Vec<GitSetting>) -> Result<Self, GitError> {
        let mut overrides: Vec<(String, String)> = Vec::new();
        let mut filters = false;
        for GitSetting { key, scope, .. } in &settings {
            // Our own overrides are listed too.
            if scope == "command" {
                continue;
            }
            let Some((section, rest)) = key.split_once('.') else { continue };
            let Some((name, _)) = rest.rsplit_once('.') else { continue };
            let off: &[(&str, &str)] = match section {
                "filter" => {
                    &[("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")]
                }
                "hook" => &[("enabled", "false"), ("command", "true")],
                _ => continue,
            };
            if key.contains(char::REPLACEMENT_CHARACTER) {
                return Err(GitError::UnnameableDriver { key: key.clone() });
            }
            filters |= section == "filter";
            for (variable, value) in off {
                let pair = (format!("{section}.{name}.{variable}"), (*value).to_owned());
                if !overrides.contains(&pair) {
                    overrides.push(pair);
                }
            }
        }
        Ok(Drivers { settings, overrides, filters })
    }

    /// Returns the settings that disable every driver.
    pub(super) fn overrides(&self) -> &[(String, String)] {
        &self.overrides
    }

    /// Whether no filter is defined at all, so that no file needs one.
    pub(super) fn is_empty(&self) -> bool {
        !self.filters
    }

    /// Returns the settings of all files, in git's order.
    pub(super) fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        let from_files = self.settings.iter().filter(|setting| setting.scope != "command");
        from_files.map(|setting| (setting.key.as_str(), setting.value.as_str()))
    }

    /// Returns the last value of a setting, from any source.
    pub(super) fn value(&self, key: &str) -> Option<&str> {
        self.last(key, |_| true)
    }

    /// Returns the last value of a setting that no repository can set.
    pub(super) fn persons_value(&self, key: &str) -> Option<&str> {
        self.last(key, |scope| matches!(scope, "system" | "global"))
    }

    fn last(&self, key: &str, of_scope: impl Fn(&str) -> bool) -> Option<&str> {
        let found = |setting: &&GitSetting| {
            setting.key.eq_ignore_ascii_case(key)
                && setting.scope != "command"
                && of_scope(&setting.scope)
        };
        self.settings.iter().rev().find(found).map(|setting| setting.value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(scope: &str, key: &str, value: &str) -> GitSetting {
        GitSetting { scope: scope.to_owned(), key: key.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn drivers_are_switched_off_under_whatever_name_they_have() {
        let drivers = Drivers::from_settings(vec![
            setting("global", "user.name", "Person"),
            setting("local", "user.name", "Agent"),
            setting("local", "filter.a.b=c.clean", "evil"),
            setting("worktree", "hook.x.command", "evil"),
            setting("command", "filter.ours.clean", ""),
        ])
        .unwrap();
        let keys: Vec<&str> = drivers.overrides().iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(
            keys,
            [
                "filter.a.b=c.clean",
                "filter.a.b=c.smudge",
                "filter.a.b=c.process",
                "filter.a.b=c.required",
                "hook.x.enabled",
                "hook.x.command",
            ]
        );
        assert!(!drivers.is_empty());
        assert_eq!(drivers.value("user.name"), Some("Agent"));
        assert_eq!(drivers.persons_value("user.name"), Some("Person"));
    }

    #[test]
    fn a_driver_that_cannot_be_named_is_an_error() {
        let odd = vec![setting("local", "filter.\u{fffd}.clean", "evil")];
        assert!(matches!(Drivers::from_settings(odd), Err(GitError::UnnameableDriver { .. })));
    }
}
