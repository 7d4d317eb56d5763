//! Notes on commits under `refs/notes/ralph`: the storage of receipts, so that they travel with the repository.
//!
//! Notes on other commits are unchanged. The commit that contains them is Ralph's own: unsigned, without hooks.

use ralph_proc::fault;

use super::call::Call;
use super::drivers::Drivers;
use super::identity::Identity;
use super::{Git, GitError, Oid};

/// The ref that holds the notes.
pub(super) const NOTES_REF: &str = "refs/notes/ralph";

/// The same, as an argument of `git notes`.
const REF_ARG: &str = "--ref=refs/notes/ralph";

/// Sets the note of a commit, replacing an existing one.
pub fn write_note(git: &Git, commit: &Oid, text: &str) -> Result<(), GitError> {
    let drivers = Drivers::of(git)?;
    let identity = Identity::of(git, &drivers);
    let args = ["notes", REF_ARG, "add", "--force", "--file=-", commit.as_str()];
    let mut call = Call::new(&args).configs(drivers.overrides()).input(text.as_bytes());
    for (name, value) in &identity.variables {
        call = call.env(name, value);
    }
    git.call(call)?;
    fault::after_write();
    Ok(())
}

/// Returns the note on a commit.
pub fn read_note(git: &Git, commit: &Oid) -> Result<Option<String>, GitError> {
    let Some(blob) = git.ask_whether(&["notes", REF_ARG, "list", commit.as_str()])? else {
        return Ok(None);
    };
    let Some(blob) = Oid::parse(blob.trim_ascii()) else { return Ok(None) };
    let text = git.ask(&["cat-file", "blob", blob.as_str()])?;
    Ok(Some(String::from_utf8_lossy(&text).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::World;
    use super::*;

    #[test]
    fn a_note_is_read_back_beside_others_and_travels_with_a_fetch() {
        let world = World::new();
        let dir = world.repository("r");
        let first = world.head(&dir);
        let second = world.commit(&dir, &[("b", "b")]);
        let git = world.open(&dir);
        assert_eq!(read_note(&git, &first).unwrap(), None);
        world.git(&dir, &["notes", "--ref=ralph", "add", "-m", "somebody's", first.as_str()]);
        world.git(&dir, &["config", "core.hooksPath", "/nowhere"]);
        write_note(&git, &second, "{\n  \"a\": 1\n}\n").unwrap();
        write_note(&git, &second, "{\n  \"a\": 2\n}\n").unwrap();
        assert_eq!(read_note(&git, &first).unwrap().as_deref(), Some("somebody's\n"));
        assert_eq!(read_note(&git, &second).unwrap().as_deref(), Some("{\n  \"a\": 2\n}\n"));
        let clone = world.path("clone");
        world.git(&world.root, &["clone", "-q", dir.as_str(), clone.as_str()]);
        let refspec = "refs/notes/ralph:refs/notes/ralph";
        world.git(&clone, &["fetch", "-q", "origin", refspec]);
        let clone = world.open(&clone);
        assert_eq!(read_note(&clone, &second).unwrap().as_deref(), Some("{\n  \"a\": 2\n}\n"));
    }

    #[test]
    fn no_hook_of_the_repository_runs_for_a_note() {
        let world = World::new();
        let dir = world.repository("r");
        let hook = dir.join(".git/hooks/reference-transaction");
        super::super::testing::write(&hook, "#!/bin/sh\ntouch ../hook-ran\n");
        world.git(&dir, &["config", "hook.x.command", "touch hook-ran"]);
        let made = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&hook, made).unwrap();
        write_note(&world.open(&dir), &world.head(&dir), "text").unwrap();
        assert!(!dir.join("hook-ran").exists() && !world.path("hook-ran").exists());
    }
}
