//! The agent's own stdout and stderr, unbuffered.
//!
//! Every event is one write, so output of other processes to the same pipe comes between lines, not into them.

use std::io;
use std::os::fd::BorrowedFd;

use ralph_model::event::AgentEvent;

#[derive(Clone, Copy, Debug)]
pub(super) enum Channel {
    Stdout,
    Stderr,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RehearsalStream {
    channel: Channel,
}

impl RehearsalStream {
    pub(super) const fn new(channel: Channel) -> Self {
        Self { channel }
    }

    pub(super) fn bytes(self, mut bytes: &[u8]) -> io::Result<()> {
        let descriptor: BorrowedFd<'static> = match self.channel {
            Channel::Stdout => rustix::stdio::stdout(),
            Channel::Stderr => rustix::stdio::stderr(),
        };
        while !bytes.is_empty() {
            let written = rustix::io::retry_on_intr(|| rustix::io::write(descriptor, bytes))?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    pub(super) fn line(self, text: &[u8]) -> io::Result<()> {
        self.bytes(&[text, b"\n"].concat())
    }

    pub(super) fn event(self, event: &AgentEvent) -> io::Result<()> {
        self.line(&serde_json::to_vec(event)?)
    }
}
