//! What an agent asks the harness for inside a run, as it travels through the run's channel.
//!
//! The channel is a directory: the agent's `ralph task …` moves a file with a [`Request`] into it and waits for one with
//! the [`Reply`]. The agent can write everything there, so a request is no more than a wish until [`MutationRequest::check`]
//! and the plan have said yes, and a reply is no evidence of anything. Files are the engine's; here is what they say.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::permission::{self, Asker, Mutation, Refusal, Target};

/// The version of requests and replies that this Ralph writes, and the only one it reads.
pub(crate) const CHANNEL_VERSION: u32 = 1;

/// The most bytes that a request may have.
pub const LARGEST_REQUEST: usize = 64 << 10;

/// How many requests of one run are looked at.
pub const MOST_REQUESTS: usize = 1000;

/// How many bytes the requests of one run may have in all: they are journalled, and journals are read at every start.
pub const MOST_REQUEST_BYTES: usize = 4 << 20;

/// A change to the plan with everything that belongs to it, or a question about it.
///
/// Ids and tasks are as they were typed: what they mean is the plan's to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MutationRequest {
    /// A name, a JSON object, or a JSON array of objects.
    TaskAdd {
        task: String,
    },
    /// No id stands for the task that is next.
    TaskDone {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// Why nothing had to change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        no_change: Option<String>,
    },
    /// No id stands for all that are done.
    TaskAccept {
        #[serde(default)]
        ids: Vec<String>,
    },
    /// No id stands for the first that is done.
    TaskReject {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        reason: String,
    },
    TaskDelete {
        id: String,
    },
    TaskPrioritize,
    /// Changes nothing. No id stands for all tasks.
    TaskShow {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    },
    IssueAdd {
        description: String,
    },
    /// No id stands for the first issue.
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
    /// The change it asks for; `None` for a question, which everybody may ask.
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

    /// The tasks and issues that it names.
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

    /// Checks what can be said without the plan: whether this role may ask for it, of what it names.
    pub fn check(&self, asker: Asker<'_>) -> Result<(), Refusal> {
        let Some(mutation) = self.mutation() else { return Ok(()) };
        permission::check(asker, mutation, None)?;
        let mut targets = self.named().iter().map(|id| Target { id });
        targets.try_for_each(|target| permission::check(asker, mutation, Some(target)))
    }
}

/// The name of a request: when it was made, by which process, and what tells it from others of that instant.
///
/// Names sort by the time they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestName {
    pub sequence: u64,
    pub process: u32,
    pub nonce: u32,
}

const REQUEST: &str = ".req";

impl RequestName {
    /// Reads the name of a request's file; any other file is none of the channel's.
    pub fn of_file(name: &str) -> Option<RequestName> {
        name.strip_suffix(REQUEST)?.parse().ok()
    }

    pub fn request_file(self) -> String {
        format!("{self}{REQUEST}")
    }

    pub fn reply_file(self) -> String {
        format!("{self}.reply")
    }

    /// Where the request or the reply is written before it is moved to its place.
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
        // Numbers can be written in several ways, and only one of them is a name.
        if name.to_string() == text { Ok(name) } else { Err(InvalidRequestName) }
    }
}

/// What stands in a request's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    v: NonZeroU32,
    id: String,
    pub args: MutationRequest,
}

/// What stands in the file of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    v: NonZeroU32,
    id: String,
    pub accepted: bool,
    /// One good sentence, or what was asked for.
    pub text: String,
}

/// A file that is no request or reply of its name.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    #[error("it has version {found}, and this ralph speaks {CHANNEL_VERSION}")]
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

    /// Reads what stands in the file of that name.
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

    /// Reads what stands in the file of that name.
    pub fn parse(name: RequestName, bytes: &[u8]) -> Result<Reply, MessageError> {
        check_version(bytes)?;
        let reply: Reply = serde_json::from_slice(bytes).map_err(MessageError::Malformed)?;
        if reply.id == name.to_string() { Ok(reply) } else { Err(MessageError::OtherName) }
    }
}

/// Another version may look quite different, and then its number is what there is to say.
fn check_version(bytes: &[u8]) -> Result<(), MessageError> {
    let VersionIn { v } = serde_json::from_slice(bytes).map_err(MessageError::Malformed)?;
    if v == VERSION { Ok(()) } else { Err(MessageError::Version { found: v.get() }) }
}

#[cfg(test)]
#[path = "channel_tests.rs"]
pub(crate) mod tests;
