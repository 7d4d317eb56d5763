//! Refuses workspaces that belong to another user, like git.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use camino::Utf8Path;
use ralph_proc::capture::{CaptureRequest, ask};

use crate::home::{CONFIG_FILE, Workspace, WorkspaceError, WorkspaceKind};

/// The timeout for asking git whether it accepts a repository.
const PATIENCE: Duration = Duration::from_secs(10);

/// Refuses a workspace of another user, unless git's configuration accepts it (`safe.directory`).
///
/// `sudo_uid` is the user who called `sudo`, whose directories root may use.
pub fn check_owner(workspace: &Workspace, sudo_uid: Option<&str>) -> Result<(), WorkspaceError> {
    let own = rustix::process::geteuid().as_raw();
    let caller = sudo_uid.filter(|_| own == 0).and_then(|uid| uid.parse().ok());
    let foreign = |path: &Utf8Path| {
        let owner = fs::symlink_metadata(path).ok()?.uid();
        (owner != own && Some(owner) != caller).then_some(owner)
    };
    let config = workspace.root.join(CONFIG_FILE);
    let (paths, repository) = match &workspace.kind {
        WorkspaceKind::Repository(repository) => {
            let git_dir = repository.git_dir.as_path();
            (vec![repository.toplevel.as_path(), git_dir], Some(&repository.toplevel))
        }
        WorkspaceKind::RepositoryCollection | WorkspaceKind::Plain => (vec![&*config], None),
    };
    for path in paths {
        let Some(owner) = foreign(path) else { continue };
        if repository.is_some_and(|toplevel| git_accepts(toplevel)) {
            return Ok(());
        }
        let is_repository = repository.is_some();
        let path = repository.map_or(path, |toplevel| toplevel).to_owned();
        return Err(WorkspaceError::ForeignOwner { path, owner, is_repository });
    }
    Ok(())
}

/// Asks git whether it would work in a repository, without running anything of the repository's.
fn git_accepts(toplevel: &Utf8Path) -> bool {
    let answer = ask(&CaptureRequest {
        program: Path::new("git"),
        args: &["rev-parse", "--git-dir"],
        names: &[],
        cwd: Some(toplevel.as_std_path()),
        env: &[("GIT_DIR", None), ("GIT_WORK_TREE", None)],
        timeout: PATIENCE,
        cap: 4096,
    });
    answer.is_ok_and(|answer| answer.code == Some(0))
}
