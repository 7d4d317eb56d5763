//! macOS has no namespaces: whoever asks for a view of its own is refused, and the trial says so.

use std::io;

use super::{NamespaceRefusal, NamespaceSupport, SetupError, SetupStep, View};

/// Nobody needs to be mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ids;

impl Ids {
    pub(crate) fn own() -> Ids {
        Ids
    }
}

pub(crate) fn fork_into(_view: &View) -> Result<Option<i32>, SetupError> {
    Err(refused())
}

pub(crate) fn enter(_view: &View, _writable: &[String], _ids: Ids) -> Result<(), SetupError> {
    Err(refused())
}

fn refused() -> SetupError {
    let source = io::Error::from_raw_os_error(libc::ENOTSUP);
    SetupError { step: SetupStep::Namespaces, path: None, source }
}

pub(crate) fn probe() -> NamespaceSupport {
    let refusal = NamespaceRefusal { step: SetupStep::Namespaces, errno: libc::ENOTSUP };
    NamespaceSupport { refusal: Some(refusal), ..NamespaceSupport::default() }
}

/// Nothing is tried in a process of its own here. Returns the exit code of one that was asked to.
pub(crate) fn serve_probe() -> i32 {
    1
}
