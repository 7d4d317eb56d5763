//! An agent's requests to the harness during a run, as messages in the run's channel.
//!
//! The channel is a directory: the agent's `ralph task …` moves a file with a [`Request`] into it and waits for one
//! with the [`Reply`]. The agent can write anything there, so a request has no effect until [`MutationRequest::check`]
//! and the plan allow it, and a reply is no evidence of anything. The engine handles the files; this module defines
//! their content.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::permission::{self, Asker, Mutation, Refusal, Target};

/// The version of requests and replies that this Ralph writes, and the only one it reads.
pub(crate) const CHANNEL_VERSION: u32 = 1;

/// The maximum size of a request, in bytes.
pub const LARGEST_REQUEST: usize = 64 << 10;

/// The maximum number of requests processed per run.
pub const MOST_REQUESTS: usize = 1000;

/// The maximum total size of the requests of one run: they are journalled, and journals are read at every start.
pub const MOST_REQUEST_BYTES: usize = 4 << 20;

/// A change to the plan with all its data, or a question about it.
///
/// Ids and tasks are as typed; the plan interprets them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MutationRequest {
    /// A name, a JSON object, or a JSON array of objects.
    TaskAdd {
        task: String,
    },
    /// Without an id: the next task.
    TaskDone {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// Why nothing had to change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        no_change: Option<String>,
    },
    /// Without ids: all done tasks.
    TaskAccept {
        #[serde(default)]
        ids: Vec<String>,
    },
    /// Without an id: the first done task.
    TaskReject {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        reason: String,
    },
    TaskDelete {
        id: String,
    },
    TaskPrioritize,
    /// Changes nothing. Without an id: all tasks.
    TaskShow {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    },
    IssueAdd {
        description: String,
    },
    /// Without an id: the first issue.
    IssueDone {
        #[serde(default)]
        ids: Vec<String>,
    },
    IssueDoneAll,
    SetSpec {
        spec: String,
        /// Unfinished tasks of another spec are cancelled.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cancel_unfinished: bool,
    },
}

impl MutationRequest {
    /// The change it asks for; `None` for a question, which any role may ask.
    pub const fn mutation(&self) -> Option<Mutation> {
        Some(match self {
            MutationRequest::TaskAdd { .. } => Mutation::TaskAdd,
            MutationRequest::TaskDone { .. } => Mutation::TaskDone,
            MutationRequest::TaskAccept { .. } => Mutation::TaskAccept,
            MutationRequest::TaskReject { .. } => Mutation::TaskReject,
            MutationRequest::TaskDelete { .. } => Mutation::TaskDelete,
            MutationRequest::TaskPrioritize => Mutation::TaskPrioritize,
            MutationRequest::TaskShow { .. } => return None,
            MutationRequest::IssueAdd { .. } => Mutation::IssueAdd,
            MutationRequest::IssueDone { .. } => Mutation::IssueDone,
            MutationRequest::IssueDoneAll => Mutation::IssueDoneAll,
            MutationRequest::SetSpec { .. } => Mutation::SetSpec,
        })
    }

    /// The command that asks for it.
    pub const fn command(&self) -> &'static str {
        match self.mutation() {
            Some(mutation) => mutation.command(),
            None => "ralph task show",
        }
    }

    /// The tasks and issues it names.
    fn named(&self) -> &[String] {
        match self {
            MutationRequest::TaskDone { id, .. } | MutationRequest::TaskReject { id, .. } => {
                id.as_slice()
            }
            MutationRequest::TaskDelete { id } => std::slice::from_ref(id),
            MutationRequest::TaskAccept { ids } | MutationRequest::IssueDone { ids } => ids,
            _ => &[],
        }
    }

    /// Checks what can be checked without the plan: whether this role may ask for it, and for the ids it names.
    pub fn check(&self, asker: Asker<'_>) -> Result<(), Refusal> {
        let Some(mutation) = self.mutation() else { return Ok(()) };
        permission::check(asker, mutation, None)?;
        let mut targets = self.named().iter().map(|id| Target { id });
        targets.try_for_each(|target| permission::check(asker, mutation, Some(target)))
    }
}

/// The name of a request: its time, its process, and a number that makes it unique within that instant.
///
/// Names sort by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestName {
    pub sequence: u64,
    pub process: u32,
    pub nonce: u32,
}

const REQUEST: &str = ".req";

impl RequestName {
    /// Parses the name of a request's file; other files do not belong to the channel.
    pub fn of_file(name: &str) -> Option<RequestName> {
        name.strip_suffix(REQUEST)?.parse().ok()
    }

    pub fn request_file(self) -> String {
        format!("{self}{REQUEST}")
    }

    pub fn reply_file(self) -> String {
        format!("{self}.reply")
    }

    /// The temporary file in which the request or the reply is written before it is renamed.
    pub fn unfinished_file(self, what: UnfinishedFile) -> String {
        match what {
            UnfinishedFile::Request => format!(".{self}.req.tmp"),
            UnfinishedFile::Reply => format!(".{self}.reply.tmp"),
        }
    }
}

/// A file that is still being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnfinishedFile {
    Request,
    Reply,
}

impl fmt::Display for RequestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}-{}-{:08x}", self.sequence, self.process, self.nonce)
    }
}

/// The text is not the name of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the name of a request")]
pub struct InvalidRequestName;

impl FromStr for RequestName {
    type Err = InvalidRequestName;

    fn from_str(text: &str) -> Result<Self, InvalidRequestName> {
        let mut parts = text.splitn(3, '-');
        let mut part = || parts.next().ok_or(InvalidRequestName);
        let sequence = part()?.parse().map_err(|_| InvalidRequestName)?;
        let process = part()?.parse().map_err(|_| InvalidRequestName)?;
        let nonce = u32::from_str_radix(part()?, 16).map_err(|_| InvalidRequestName)?;
        let name = RequestName { sequence, process, nonce };
        // Numbers have several spellings; only the canonical one is a valid name.
        if name.to_string() == text { Ok(name) } else { Err(InvalidRequestName) }
    }
}

/// The content of a request's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    v: NonZeroU32,
    id: String,
    pub args: MutationRequest,
}

/// The content of a reply's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    v: NonZeroU32,
    id: String,
    pub accepted: bool,
    /// One sentence, or the requested data.
    pub text: String,
}

/// A file that is not the request or reply that its name says.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    #[error("its version is {found}, but this Ralph uses {CHANNEL_VERSION}")]
    Version { found: u32 },
    #[error("it cannot be read")]
    Malformed(#[source] serde_json::Error),
    #[error("it bears the name of another one")]
    OtherName,
}

#[derive(Deserialize)]
struct VersionIn {
    v: NonZeroU32,
}

const VERSION: NonZeroU32 = NonZeroU32::new(CHANNEL_VERSION).expect("versions begin with 1");

impl Request {
    pub fn new(name: RequestName, args: MutationRequest) -> Request {
        Request { v: VERSION, id: name.to_string(), args }
    }

    pub fn render(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a request has string keys only")
    }

    /// Parses the content of the file of that name.
    pub fn parse(name: RequestName, bytes: &[u8]) -> Result<Request, MessageError> {
        check_version(bytes)?;
        let request: Request = serde_json::from_slice(bytes).map_err(MessageError::Malformed)?;
        if request.id == name.to_string() { Ok(request) } else { Err(MessageError::OtherName) }
    }
}

impl Reply {
    pub fn new(name: RequestName, accepted: bool, text: String) -> Reply {
        Reply { v: VERSION, id: name.to_string(), accepted, text }
    }

    pub fn render(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a reply has string keys only")
    }

    /// Parses the content of the file of that name.
    pub fn parse(name: RequestName, bytes: &[u8]) -> Result<Reply, MessageError> {
        check_version(bytes)?;
        let reply: Reply = serde_json::from_slice(bytes).map_err(MessageError::Malformed)?;
        if reply.id == name.to_string() { Ok(reply) } else { Err(MessageError::OtherName) }
    }
}

/// Another version may have a different format, so report its version number only.
fn check_version(bytes: &[u8]) -> Result<(), MessageError> {
    let VersionIn { v } = serde_json::from_slice(bytes).map_err(MessageError::Malformed)?;
    if v == VERSION { Ok(()) } else { Err(MessageError::Version { found: v.get() }) }
}

#[cfg(test)]
#[path = "channel_tests.rs"]
pub(crate) mod tests;
