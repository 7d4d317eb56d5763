//! Moves several refs atomically.

use ralph_proc::fault;

use super::super::call::Call;
use super::super::drivers::Drivers;
use super::super::identity::Identity;
use super::super::names::ref_bytes;
use super::super::{Git, GitError, Oid};

/// A transaction under construction.
pub(super) struct RefTransaction<'a> {
    git: &'a Git,
    message: &'a str,
    identity: Identity,
    zero: String,
    input: Vec<u8>,
    /// The expected current targets of the refs.
    expected: Vec<(String, Option<Oid>)>,
}

impl<'a> RefTransaction<'a> {
    /// Begins a transaction; the message is for reflogs, and `like` is any id of the repository.
    pub(super) fn new(git: &'a Git, message: &'a str, like: &Oid) -> Result<Self, GitError> {
        Ok(RefTransaction::with(git, message, like, &Drivers::of(git)?))
    }

    /// The same with known settings of the repository.
    pub(super) fn with(git: &'a Git, message: &'a str, like: &Oid, drivers: &Drivers) -> Self {
        RefTransaction {
            git,
            message,
            identity: Identity::of(git, drivers),
            zero: "0".repeat(like.as_str().len()),
            input: b"start\0".to_vec(),
            expected: Vec::new(),
        }
    }

    /// Requires that a ref is unchanged.
    pub(super) fn verify(&mut self, name: &str, now: Option<&Oid>) {
        self.command("verify", name, &[now]);
        self.expected.push((name.to_owned(), now.cloned()));
    }

    /// Moves, creates or deletes a ref, given its old target.
    pub(super) fn update(&mut self, name: &str, to: Option<&Oid>, from: Option<&Oid>) {
        match to {
            Some(_) => self.command("update", name, &[to, from]),
            None => self.command("delete", name, &[from]),
        }
        self.expected.push((name.to_owned(), from.cloned()));
    }

    /// Sets a ref, whatever it was.
    pub(super) fn set(&mut self, name: &str, to: &Oid) {
        self.command("update", name, &[Some(to)]);
        // No old value: any is accepted.
        self.input.push(0);
    }

    fn command(&mut self, command: &str, name: &str, ids: &[Option<&Oid>]) {
        self.input.extend(command.bytes().chain([b' ']));
        self.input.extend_from_slice(&ref_bytes(name));
        self.input.push(0);
        for id in ids {
            self.input.extend(id.map_or(self.zero.as_str(), Oid::as_str).bytes().chain([0]));
        }
    }

    /// Commits durably; `false` if a ref did not have its expected target, and nothing has changed.
    pub(super) fn commit(mut self) -> Result<bool, GitError> {
        self.input.extend(b"prepare\0commit\0");
        let args = ["update-ref", "-m", self.message, "--no-deref", "--stdin", "-z"];
        let mut call = Call::new(&args).config("core.fsync", "reference").input(&self.input);
        for (name, value) in &self.identity.variables {
            call = call.env(name, value);
        }
        let Err(error) = self.git.call(call) else {
            fault::after_write();
            return Ok(true);
        };
        // Messages differ between versions and ref storages; the current state does not.
        let now = self.git.refs()?;
        let is_kept =
            |(name, expected): &(String, Option<Oid>)| now.id_of(name) == expected.as_ref();
        if self.expected.iter().all(is_kept) { Err(error) } else { Ok(false) }
    }
}
