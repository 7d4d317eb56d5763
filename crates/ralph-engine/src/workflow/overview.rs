//! The state of a PRD's stories: what the checkout asks for, and what passes on the branch. Read-only.

use camino::Utf8Path;
use ralph_model::prd::{Prd, Story};
use serde::Serialize;

use crate::files::read_optional;
use crate::git::{Git, GitProgram, Head};
use crate::workflow::WorkflowError;

/// A PRD and the state of its stories.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoriesOverview {
    pub branch: String,
    /// Whether the branch is there.
    pub branch_exists: bool,
    /// Whether it is checked out.
    pub checked_out: bool,
    pub total: usize,
    pub passing: usize,
    /// In the order in which they are taken.
    pub failing: Vec<FailingStory>,
}

/// A story that does not pass yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailingStory {
    pub id: String,
    pub title: String,
    pub priority: i64,
}

/// Reads a PRD. One that does not fit the schema stops the command.
pub(crate) fn read_prd(path: &Utf8Path) -> Result<Prd, WorkflowError> {
    let invalid = |reason: String| WorkflowError::StateFile { path: path.to_owned(), reason };
    let bytes = read_optional(path)?.ok_or_else(|| invalid("it no longer exists".to_owned()))?;
    Prd::parse(&bytes).map_err(|error| invalid(error.to_string()))
}

/// Takes `passes` from the tip of the branch. What a person took back in their own copy, `here`, fails again.
pub(super) fn lay_over(stories: Prd, tip: Option<&Prd>, here: Option<&Prd>) -> Prd {
    let laid = stories.with_passes_of(tip);
    match here {
        Some(here) => laid.without_failing_of(here),
        None => laid,
    }
}

/// Lays what passes on a branch over the stories of a PRD; tells also whether the branch is there.
///
/// Where home is not committed the file itself says what passes.
pub fn passing_on_branch(
    program: &GitProgram,
    path: &Utf8Path,
    prd: Prd,
    branch: &str,
    commits_home: bool,
) -> Result<(Prd, bool), WorkflowError> {
    let home = path.parent().unwrap_or(path);
    let Ok(git) = Git::discover(program.clone(), home) else { return Ok((prd, false)) };
    // What has landed and waits for the checkout counts.
    let landed = git.resolve(&format!("refs/ralph/landed/{branch}"))?;
    let branch = git.resolve(&format!("refs/heads/{branch}"))?;
    let exists = branch.is_some();
    // Without the branch a run begins at the checkout's `HEAD`.
    let tip = match landed.or(branch) {
        None => git.head()?.id().cloned(),
        tip => tip,
    };
    let worktree = git.place().worktree.as_deref();
    let inside = worktree.and_then(|worktree| path.strip_prefix(worktree).ok());
    let (Some(tip), Some(inside), true) = (tip, inside, commits_home) else {
        return Ok((prd, exists));
    };
    let found = git.file_at(&tip, inside.as_std_path())?;
    Ok((lay_over(prd, parse(found).as_ref(), None), exists))
}

fn parse(bytes: Option<Vec<u8>>) -> Option<Prd> {
    Prd::parse(bytes?).ok()
}

impl StoriesOverview {
    /// Looks at a PRD and its own branch; `None` where there are no stories, or none that can be read.
    pub fn of(program: &GitProgram, prd: &Utf8Path, commits_home: bool) -> Option<StoriesOverview> {
        let branch = read_prd(prd).ok()?.branch_name;
        StoriesOverview::on_branch(program, prd, &branch, commits_home)
    }

    /// Looks at a PRD and the branch that its stories are implemented on.
    pub fn on_branch(
        program: &GitProgram,
        prd: &Utf8Path,
        branch: &str,
        commits_home: bool,
    ) -> Option<StoriesOverview> {
        let stories = read_prd(prd).ok().filter(|found| !found.user_stories.is_empty())?;
        let found = passing_on_branch(program, prd, stories, branch, commits_home);
        let (laid, branch_exists) = found.ok()?;
        let failing = |story: &Story| FailingStory {
            id: story.id.clone(),
            title: story.title.clone(),
            priority: story.priority,
        };
        let failing: Vec<FailingStory> = laid.failing().into_iter().map(failing).collect();
        let total = laid.user_stories.len();
        let home = prd.parent().unwrap_or(prd);
        let head = Git::discover(program.clone(), home).ok().and_then(|git| git.head().ok());
        let full = format!("refs/heads/{branch}");
        let checked_out =
            matches!(head, Some(Head::Branch { name, .. } | Head::Unborn { name }) if name == full);
        Some(StoriesOverview {
            branch: branch.to_owned(),
            branch_exists,
            checked_out,
            total,
            passing: total - failing.len(),
            failing,
        })
    }
}
