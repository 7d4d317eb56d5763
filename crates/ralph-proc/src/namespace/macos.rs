//! macOS has no namespaces: a requested view is refused, and the probe reports that.

use std::io;

use super::{NamespaceRefusal, NamespaceSupport, SetupError, SetupStep, View};

/// No mapping is needed.
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

/// There is no probe process here. Returns the exit code of one that was requested.
pub(crate) fn serve_probe() -> i32 {
    1
}
