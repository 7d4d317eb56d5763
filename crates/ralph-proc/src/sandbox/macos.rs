//! Ralph uses no kernel boundary on macOS: a requested one is refused, so that nothing runs unconfined by mistake.
#![expect(clippy::unused_self, reason = "there is something to do elsewhere")]

use std::io;

use super::Confinement;

pub(crate) struct Prepared;

impl Prepared {
    pub(crate) fn new(_confinement: &Confinement) -> io::Result<Prepared> {
        Err(io::Error::other("this system has no kernel boundary for agents"))
    }

    pub(crate) fn enter(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

pub(super) fn confine_this_thread(_writable: &[String]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// There is no Landlock.
pub(super) const fn landlock_abi() -> i32 {
    0
}
