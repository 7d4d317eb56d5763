//! The agent's end of the channel: leaves a request and waits for the reply.

use std::fs::{self, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use camino::Utf8Path;
use ralph_model::channel::{
    LARGEST_REQUEST, MessageError, MutationRequest, Reply, Request, RequestName, UnfinishedFile,
};

use super::arrivals::Arrivals;
use crate::clock::Clock;
use crate::files::PathError;
use crate::files::plain::{NotPlain, open_directory, read_plain};

/// How long an agent waits for a reply.
pub const CHANNEL_TIMEOUT: Duration = Duration::from_secs(30);

/// Replies come from the harness; this only bounds their size.
const LARGEST_REPLY: usize = 4 << 20;

/// The plan including the run's changes, in the directory of the replies.
pub(super) const PLAN_VIEW: &str = "plan.reply";

/// Larger than any realistic plan.
const LARGEST_PLAN: usize = 256 << 20;

/// The harness could not be reached, or did not reply.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    #[error(
        "the request has {bytes} bytes, and at most {LARGEST_REQUEST} are taken: ask in several steps"
    )]
    TooLarge { bytes: usize },
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("the harness did not answer within {} s: continue with the work and try again later", .0.as_secs())]
    NoAnswer(Duration),
    #[error("the reply of the harness is not one")]
    Reply(#[source] MessageError),
    #[error("the reply of the harness cannot be taken")]
    ReplyFile(#[source] NotPlain),
}

/// Sends a request to the harness of the run whose channel is `directory`.
pub fn ask(
    directory: &Utf8Path,
    request: MutationRequest,
    patience: Duration,
    clock: &dyn Clock,
) -> Result<Reply, ChannelError> {
    let name = new_name(clock);
    let bytes = Request::new(name, request).render();
    if bytes.len() > LARGEST_REQUEST {
        return Err(ChannelError::TooLarge { bytes: bytes.len() });
    }
    let error = |source: io::Error| PathError::new("use the channel", directory, source);
    let opened = open_directory(directory).map_err(error)?;
    // Watch before the request is written, so that no reply is missed.
    let arrivals = Arrivals::of(directory);
    leave(directory, name, &bytes).map_err(error)?;
    let deadline = clock.monotonic() + patience;
    loop {
        match read_plain(&opened, &name.reply_file(), LARGEST_REPLY) {
            Ok(bytes) => {
                let _ = fs::remove_file(directory.join(name.reply_file()));
                return Reply::parse(name, &bytes).map_err(ChannelError::Reply);
            }
            Err(NotPlain::Missing) => {}
            Err(problem) => return Err(ChannelError::ReplyFile(problem)),
        }
        let left = deadline.saturating_sub(clock.monotonic());
        if left.is_zero() {
            // Withdrawn, so that a request reported as failed does not take effect later.
            let _ = fs::remove_file(directory.join(name.request_file()));
            return Err(ChannelError::NoAnswer(patience));
        }
        arrivals.wait(None, Some(left)).map_err(error)?;
        arrivals.news();
    }
}

/// Returns the plan including the changes of the run whose channel is `directory`; `None` if it has none.
pub fn changed_plan(directory: &Utf8Path) -> Result<Option<Vec<u8>>, ChannelError> {
    let error = |source: io::Error| PathError::new("use the channel", directory, source);
    let opened = open_directory(directory).map_err(error)?;
    match read_plain(&opened, PLAN_VIEW, LARGEST_PLAN) {
        Ok(plan) => Ok(Some(plan)),
        Err(NotPlain::Missing) => Ok(None),
        Err(problem) => Err(ChannelError::ReplyFile(problem)),
    }
}

fn new_name(clock: &dyn Clock) -> RequestName {
    RequestName {
        sequence: u64::try_from(clock.monotonic().as_nanos()).unwrap_or(u64::MAX),
        process: std::process::id(),
        nonce: random(),
    }
}

/// A hasher's seed is random, which suffices here.
fn random() -> u32 {
    let [a, b, c, d, ..] = RandomState::new().hash_one(()).to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Writes the request atomically.
fn leave(directory: &Utf8Path, name: RequestName, bytes: &[u8]) -> io::Result<()> {
    let unfinished = directory.join(name.unfinished_file(UnfinishedFile::Request));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    let moved = file
        .write_all(bytes)
        .and_then(|()| fs::rename(&unfinished, directory.join(name.request_file())));
    if moved.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    moved
}
