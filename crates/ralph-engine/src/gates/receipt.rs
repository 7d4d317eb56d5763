//! Receipts in a repository: notes on accepted commits, written by Ralph and read by anyone.

use ralph_model::receipt::{Receipt, ReceiptError};

use crate::git::notes::{read_note, write_note};
use crate::git::{Git, GitError, Oid};

/// A receipt could not be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum ReceiptFault {
    #[error("the note on `{commit}` is not a receipt")]
    Unreadable {
        commit: Oid,
        #[source]
        source: ReceiptError,
    },
    #[error("the receipt on `{commit}` is about `{about}`")]
    AboutAnother { commit: Oid, about: String },
    #[error(transparent)]
    Git(#[from] GitError),
}

/// Puts a receipt on the commit that it is about.
pub(crate) fn write_receipt(
    git: &Git,
    commit: &Oid,
    receipt: &Receipt,
) -> Result<(), ReceiptFault> {
    let about = receipt.candidate.commit.as_str();
    if about != commit.as_str() {
        let (commit, about) = (commit.clone(), about.to_owned());
        return Err(ReceiptFault::AboutAnother { commit, about });
    }
    Ok(write_note(git, commit, &receipt.render())?)
}

/// Returns the receipt on a commit.
pub fn read_receipt(git: &Git, commit: &Oid) -> Result<Option<Receipt>, ReceiptFault> {
    let Some(text) = read_note(git, commit)? else { return Ok(None) };
    let receipt = Receipt::parse(&text)
        .map_err(|source| ReceiptFault::Unreadable { commit: commit.clone(), source })?;
    let about = receipt.candidate.commit.as_str();
    if about != commit.as_str() {
        let (commit, about) = (commit.clone(), about.to_owned());
        return Err(ReceiptFault::AboutAnother { commit, about });
    }
    Ok(Some(receipt))
}
