//! On macOS programs cannot be looked at: what they look for stays unknown, and whoever asks hears so.
#![expect(clippy::unused_self, reason = "there is something to do elsewhere")]

use std::io;
use std::path::Path;

use super::Looked;

pub(crate) struct Tracer;

/// What the child would need before it becomes the program.
pub(crate) struct Traced;

impl Tracer {
    #[expect(clippy::unnecessary_wraps, reason = "it can fail where there is something to prepare")]
    pub(crate) fn new(_root: &Path) -> io::Result<(Tracer, Traced)> {
        Ok((Tracer, Traced))
    }

    pub(crate) fn finish(self) -> Option<Looked> {
        None
    }
}

impl Traced {
    pub(crate) fn enter(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Whether programs can be traced here.
pub fn probe() -> bool {
    false
}

/// There is no probe process here. Returns the exit code of one that was requested.
pub(crate) fn serve_probe() -> i32 {
    1
}
