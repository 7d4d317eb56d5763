//! Both ways of committing, in process and by the git binary, under the same tests.

mod company;
mod content;
mod hostile;
mod makes;

use std::time::Duration;

use camino::Utf8Path;

use super::super::commits::commit_paths;
use super::super::testing::{World, write};
use super::*;

type Commit = fn(&Git, &CommitRequest<'_>) -> Result<Option<Committed>, CommitError>;

/// Both ways of committing must pass the same tests.
const WAYS: [(&str, Commit); 2] = [("git", commit_paths), ("direct", commit_files)];

const PLAN: &str = "ralph/plan.jsonl";

fn request<'a>(paths: &'a [PathBuf], message: &'a str) -> CommitRequest<'a> {
    let patience = Duration::from_mins(2);
    CommitRequest { paths, message, signing: Signing::Unsigned, patience }
}

fn plan() -> Vec<PathBuf> {
    vec![PathBuf::from(PLAN)]
}

fn status(world: &World, dir: &Utf8Path) -> Vec<String> {
    let status = world.git(dir, &["status", "--porcelain", "-uall"]);
    status.lines().map(str::trim_start).map(str::to_owned).collect()
}

fn leftovers(dir: &Utf8Path) -> Vec<String> {
    let names = dir.read_dir_utf8().unwrap().map(|entry| entry.unwrap().file_name().to_owned());
    let odd = |name: &String| {
        name.starts_with("ralph-") || Path::new(name).extension().is_some_and(|end| end == "lock")
    };
    names.filter(odd).collect()
}

/// A committed plan, with everything else in disorder.
fn disorder(world: &World, dir: &Utf8Path) {
    world.commit(dir, &[(PLAN, "1\n"), ("ralph/other", "1\n"), ("z/deep/file", "1\n"), ("b", "1")]);
    write(&dir.join("staged"), "new\n");
    write(&dir.join("a.txt"), "staged\n");
    world.git(dir, &["add", "staged", "a.txt"]);
    write(&dir.join("a.txt"), "staged and dirty\n");
    write(&dir.join("promised"), "later\n");
    world.git(dir, &["add", "-N", "promised"]);
    world.git(dir, &["rm", "-q", "--cached", "b"]);
    write(&dir.join("untracked"), "x\n");
}

/// Commits a new plan and checks everything that could have been damaged.
fn commit_and_check(
    world: &World,
    dir: &Utf8Path,
    commit: Commit,
    content: &str,
    case: &str,
) -> Oid {
    let before = status(world, dir);
    let parent = world.try_git(dir, &["rev-parse", "--verify", "-q", "HEAD"]).ok();
    write(&dir.join(PLAN), content);
    let git = world.open(dir);
    let made = commit(&git, &request(&plan(), "plan: take note\n\nWhy: \u{fc}.\n"));
    let made = made.unwrap_or_else(|error| panic!("{case}: {error:?}"));
    let made = made.unwrap_or_else(|| panic!("{case}: nothing to commit"));
    assert_eq!(made.id, world.head(dir), "{case}");
    assert_eq!(made.parent.as_ref().map(Oid::to_string), parent, "{case}");
    assert_eq!(made.paths, plan(), "{case}");
    assert_eq!(status(world, dir), before, "{case}");
    assert_eq!(world.git(dir, &["show", &format!("HEAD:{PLAN}")]) + "\n", content, "{case}");
    let changed = ["show", "--format=", "--name-only", "--no-renames", "HEAD"];
    assert_eq!(world.git(dir, &changed), PLAN, "{case}");
    let told = world.git(dir, &["log", "-1", "--format=%an|%ae|%cn|%s|%b"]);
    assert_eq!(told, "Person|p@example.org|Person|plan: take note|Why: \u{fc}.", "{case}");
    let log = world.git(dir, &["reflog", "-1", "--format=%H %gs"]);
    assert_eq!(log, format!("{} commit: plan: take note", made.id), "{case}");
    let branch = world.try_git(dir, &["symbolic-ref", "-q", "HEAD"]);
    if let Ok(branch) = branch {
        let log = world.git(dir, &["reflog", "-1", "--format=%H %gs", &branch]);
        assert_eq!(log, format!("{} commit: plan: take note", made.id), "{case}");
    }
    // Git itself keeps ids of trees in a sparse index that it has not written yet.
    if world.git(dir, &["config", "--default", "", "--get", "index.sparse"]) == "true" {
        world.git(dir, &["write-tree"]);
    }
    world.git(dir, &["fsck", "--strict", "--no-dangling"]);
    assert_eq!(commit(&git, &request(&plan(), "x")).unwrap(), None, "{case}");
    assert_eq!(world.head(dir), made.id, "{case}");
    for left in [&git.place().git_dir, &git.place().common_dir] {
        assert_eq!(leftovers(left), Vec::<String>::new(), "{case}");
    }
    made.id
}

fn index_of(dir: &Utf8Path) -> Vec<u8> {
    fs::read(dir.join(".git/index")).unwrap()
}
