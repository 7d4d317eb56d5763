//! The number of the invocation: a persistent count per script and role.
//!
//! The count is incremented before the first step, so a killed invocation counts too. Two agents that start
//! concurrently get different numbers.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::role::Role;
use serde::{Deserialize, Serialize};

use crate::agent::EnvLookup;

/// The environment variable with the directory of the counts.
const STATE_VARIABLE: &str = "RALPH_REHEARSAL_STATE";

/// The count could not be incremented.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CountError {
    #[error(
        "no place for the rehearsal's counts: `RALPH_REHEARSAL_STATE`, `XDG_STATE_HOME`, `HOME` are unset"
    )]
    NoPlace,
    #[error("cannot keep the rehearsal's counts in `{path}`")]
    Unusable { path: Utf8PathBuf, source: io::Error },
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Counts {
    version: u32,
    /// For people who look into the file.
    script: Utf8PathBuf,
    runs: BTreeMap<Role, u32>,
}

/// Returns the directory of the counts: the only place the rehearsal agent writes to unless its script says so.
pub(crate) fn state_dir(env: EnvLookup<'_>) -> Option<Utf8PathBuf> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(Utf8PathBuf::from);
    set(STATE_VARIABLE)
        .or_else(|| set("XDG_STATE_HOME").map(|state| state.join("ralph/rehearsal")))
        .or_else(|| set("HOME").map(|home| home.join(".local/state/ralph/rehearsal")))
}

/// Increments the count of `role` for `script` and returns it.
pub(super) fn next(script: &Utf8Path, role: Role, env: EnvLookup<'_>) -> Result<u32, CountError> {
    let directory = state_dir(env).ok_or(CountError::NoPlace)?;
    raise(script, role, &directory)
        .map_err(|source| CountError::Unusable { path: directory, source })
}

fn raise(script: &Utf8Path, role: Role, directory: &Utf8Path) -> io::Result<u32> {
    let script = script.canonicalize_utf8()?;
    fs::create_dir_all(directory)?;
    let name = format!("{:016x}", fnv1a(script.as_str().as_bytes()));
    // The lock has a separate file, because the file of the counts is replaced.
    let lock = File::create(directory.join(format!("{name}.lock")))?;
    lock.lock()?;

    let path = directory.join(format!("{name}.json"));
    let mut counts = match fs::read(&path) {
        // Unreadable counts start over: they only select the next block.
        Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Counts::default(),
        Err(error) => return Err(error),
    };
    counts.version = 1;
    counts.script = script;
    let run = counts.runs.entry(role).or_default();
    *run = run.saturating_add(1);
    let invocation = *run;

    let new = directory.join(format!("{name}.new"));
    fs::write(&new, serde_json::to_vec(&counts)?)?;
    fs::rename(&new, &path)?;
    Ok(invocation)
}

/// The FNV-1a hash: stable across versions and programs, unlike the standard hasher.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
