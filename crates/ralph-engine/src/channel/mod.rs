//! The channel of a run: an agent's `ralph task …` reaches the harness through a directory of requests and replies.
//!
//! A directory works inside any sandbox, and it is the agent's own: it may hold anything. So requests are opened as
//! strangers' files are, only so many of them are looked at, replies are never read back, and what was asked, by which
//! role, is decided and journalled here and nowhere else. A request that was not answered when Ralph died is lost with
//! its run.

mod arrivals;
mod client;
mod server;

pub use client::{CHANNEL_TIMEOUT, ChannelError, ask, changed_plan};
pub(crate) use server::{Applied, Attendant, Door, PlanChange, Serving};
#[cfg(test)]
pub(crate) use server::{Clerk, Decision};
pub use server::{Declined, Served};
pub(crate) use server::{MutationStore, NoStore};
