//! A run's scratch directory: its temporary files and its outbox, gone with the run.
//!
//! It lies directly below the system's temporary directory, because programs make unix sockets in theirs and such a
//! path may have no more than about a hundred bytes.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::id::RunId;

/// A directory of one run, removed when dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: Utf8PathBuf,
}

impl Scratch {
    pub(crate) fn create(id: &RunId) -> io::Result<Scratch> {
        let path = Scratch::place(id.as_str());
        let mut private = fs::DirBuilder::new();
        private.mode(0o700);
        // Not recursive: somebody else's directory of that name is an error, not a place to work in.
        private.create(&path)?;
        let scratch = Scratch { path };
        for directory in [scratch.temporary(), scratch.outbox(), scratch.channel()] {
            private.create(&directory)?;
        }
        Ok(scratch)
    }

    /// Where a run's scratch directory is, or was.
    pub(crate) fn place(id: &str) -> Utf8PathBuf {
        let below = Utf8PathBuf::from_path_buf(std::env::temp_dir());
        let nonce = id.rsplit('-').next().unwrap_or_default();
        below.unwrap_or_else(|_| "/tmp".into()).join(format!("ralph-{nonce}"))
    }

    pub(crate) fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// The agent's `TMPDIR`.
    pub(crate) fn temporary(&self) -> Utf8PathBuf {
        self.path.join("tmp")
    }

    /// Where the agent leaves files for the harness.
    pub(crate) fn outbox(&self) -> Utf8PathBuf {
        self.path.join("out")
    }

    /// Where the agent leaves requests for the harness.
    pub(crate) fn channel(&self) -> Utf8PathBuf {
        self.path.join("out").join("channel")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes a scratch directory, whatever the run did to the permissions in it.
pub(crate) fn remove(path: &Utf8Path) {
    if fs::remove_dir_all(path).is_ok() {
        return;
    }
    make_writable(path);
    let _ = fs::remove_dir_all(path);
}

fn make_writable(directory: &Utf8Path) {
    use std::os::unix::fs::PermissionsExt;
    let Ok(metadata) = fs::symlink_metadata(directory) else { return };
    if !metadata.is_dir() {
        return;
    }
    let _ = fs::set_permissions(directory, fs::Permissions::from_mode(0o700));
    for entry in directory.read_dir_utf8().into_iter().flatten().flatten() {
        make_writable(entry.path());
    }
}
