//! Creates one commit object with git: any number of parents, in the person's name, signed if the person signs.

use std::time::Duration;

use super::call::{Call, UserConfig};
use super::commits::{CommitError, Signing, parse_id};
use super::drivers::Drivers;
use super::identity::{Identity, Signer};
use super::{Git, Oid};

/// Signing may wait for a person's passphrase.
const SIGNING: Duration = Duration::from_mins(2);

/// Author or committer with the time, in git's format.
pub(super) struct Author {
    pub(super) name: String,
    pub(super) email: String,
    pub(super) date: String,
}

/// A commit to create. No ref points to it afterwards.
pub(super) struct NewCommit<'a> {
    pub(super) tree: &'a Oid,
    pub(super) parents: &'a [&'a Oid],
    pub(super) message: &'a str,
    /// The author, if it is not the person.
    pub(super) author: Option<&'a Author>,
    pub(super) signing: Signing,
}

impl Author {
    /// Git refuses names that are empty or consist of punctuation.
    fn is_usable(&self) -> bool {
        self.name.chars().any(char::is_alphanumeric) && !self.date.is_empty()
    }
}

impl NewCommit<'_> {
    /// Writes it to a repository, which need not be the one whose settings define the person.
    pub(super) fn write(
        &self,
        into: &Git,
        person: &Git,
        drivers: &Drivers,
    ) -> Result<Oid, CommitError> {
        let mut args = vec!["commit-tree", "-F", "-"];
        args.extend(self.parents.iter().flat_map(|parent| ["-p", parent.as_str()]));
        let mut call = Call::new(&[]).person(UserConfig::Heard).input(self.message.as_bytes());
        let identity = Identity::of(person, drivers);
        for (name, value) in &identity.variables {
            call = call.env(name, value);
        }
        if let Some(Author { name, email, date }) = self.author.filter(|author| author.is_usable())
        {
            call = call.env("GIT_AUTHOR_NAME", name).env("GIT_AUTHOR_EMAIL", email);
            call = call.env("GIT_AUTHOR_DATE", date);
        }
        let signer = Signer::of(drivers);
        if self.signing == Signing::AsThePersonDoes {
            args.push(&signer.option);
            call = call.configs(&signer.settings).timeout(SIGNING);
        }
        args.push(self.tree.as_str());
        let call = call
            .configs(drivers.overrides())
            .config("i18n.commitEncoding", "UTF-8")
            .config("core.fsync", "loose-object")
            .args(args.iter().copied());
        let output = into.call(call).map_err(|error| match self.signing {
            Signing::AsThePersonDoes => CommitError::NotSigned(error),
            Signing::Unsigned => CommitError::Git(error),
        })?;
        Ok(parse_id(&args, &output.stdout)?)
    }
}
