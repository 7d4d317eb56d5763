//! What the tests share: a scripted model for agents to talk to, and a plain client of it.

pub(crate) mod model_client;
pub(crate) mod model_server;
