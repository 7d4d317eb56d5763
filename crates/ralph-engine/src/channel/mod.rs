//! The channel of a run: an agent's `ralph task …` reaches the harness through a directory of requests and replies.
//!
//! A directory works inside any sandbox, and it is writable by the agent, so it may contain anything. Requests are
//! therefore opened as untrusted files, their number is bounded, replies are never read back, and the decision on each
//! request, with its role, is made and journalled only here. A request that was not answered when Ralph died is lost
//! with its run.

mod arrivals;
mod client;
mod server;

pub use client::{CHANNEL_TIMEOUT, ChannelError, ask, changed_plan};
pub(crate) use server::{Applied, Attendant, Door, PlanChange, Serving};
#[cfg(test)]
pub(crate) use server::{Clerk, Decision};
pub use server::{Declined, Served};
pub(crate) use server::{MutationStore, NoStore};
