//! The identity of Ralph's commits, and the person's signing setup.
//!
//! A name may come from the repository's own configuration, because a person may have one per project; a program never
//! may.

use super::drivers::Drivers;
use super::settings::Settings;
use super::{Git, GitProgram};

/// The identity of a committer.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) variables: Vec<(&'static str, String)>,
}

/// Each variable with its corresponding settings, and the default if neither is set.
const VARIABLES: [(&str, &str, &str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "author.name", "user.name", "Ralph"),
    ("GIT_AUTHOR_EMAIL", "author.email", "user.email", "ralph@localhost"),
    ("GIT_COMMITTER_NAME", "committer.name", "user.name", "Ralph"),
    ("GIT_COMMITTER_EMAIL", "committer.email", "user.email", "ralph@localhost"),
];

impl Git {
    /// Returns the variables with the person's git identity, as far as environment and configuration define it.
    pub fn known_identity(&self) -> Vec<(&'static str, String)> {
        let known = match Settings::read(self.program(), self.place()) {
            Ok(settings) => known(self.program(), |key| settings.value(key)),
            Err(_) => match Drivers::of(self) {
                Ok(drivers) => known(self.program(), |key| drivers.value(key).map(str::to_owned)),
                Err(_) => return Vec::new(),
            },
        };
        known.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// Returns each variable's value from environment and configuration.
fn known(
    program: &GitProgram,
    setting: impl Fn(&str) -> Option<String>,
) -> [(&'static str, Option<String>); 4] {
    VARIABLES.map(|(variable, specific, general, _)| {
        let inherited = program.identity().iter().find(|(name, _)| name == variable);
        let value = inherited
            .map(|(_, value)| value.clone())
            .or_else(|| setting(specific))
            .or_else(|| setting(general))
            .filter(|value| !value.trim().is_empty());
        (variable, value)
    })
}

impl Identity {
    /// Takes the person's identity from environment and configuration; Ralph's own replaces missing parts.
    pub(super) fn of(git: &Git, drivers: &Drivers) -> Self {
        Self::from_settings(git.program(), |key| drivers.value(key).map(str::to_owned))
    }

    /// The same with settings that the caller has read.
    pub(super) fn from_settings(
        program: &GitProgram,
        setting: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let known = known(program, setting).into_iter().zip(VARIABLES);
        let variables = known.map(|((variable, value), (.., fallback))| {
            (variable, value.unwrap_or_else(|| fallback.to_owned()))
        });
        Identity { variables: variables.collect() }
    }
}

/// The person's signing setup, from settings that no repository can change.
pub(super) struct Signer {
    pub(super) option: String,
    pub(super) settings: Vec<(String, String)>,
}

impl Signer {
    /// Reads them.
    pub(super) fn of(drivers: &Drivers) -> Self {
        let key = drivers.persons_value("user.signingkey").unwrap_or_default();
        let settings = [
            ("gpg.format", "openpgp"),
            // The legacy name of the next one, which takes precedence.
            ("gpg.program", "gpg"),
            ("gpg.openpgp.program", drivers.persons_value("gpg.program").unwrap_or("gpg")),
            ("gpg.x509.program", "gpgsm"),
            ("gpg.ssh.program", "ssh-keygen"),
            ("gpg.ssh.defaultKeyCommand", ""),
        ]
        .map(|(name, usual)| {
            let value = drivers.persons_value(name).unwrap_or(usual);
            (name.to_owned(), value.to_owned())
        });
        Signer { option: format!("-S{key}"), settings: settings.to_vec() }
    }
}
