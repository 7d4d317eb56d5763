//! Checks of git itself, and of the repository.

use std::time::Duration;

use camino::Utf8Path;
use ralph_proc::capture::{Answer, CaptureRequest, ask};

use super::{Area, Checkup, Finding};
use crate::detect::agents::parse_version;
use crate::home::{Repository, WorkspaceKind};
use crate::plan_file::merge_driver::{self, DriverState};

/// The oldest supported git version.
const OLDEST: (u32, u32) = (2, 30);

const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn examine(checkup: &Checkup<'_>) -> Vec<Finding> {
    let Some(git) = (checkup.look_up)("git") else {
        let advice = "install git 2.30 or later and make sure it is on PATH";
        return vec![Finding::problem(Area::Git, "git was not found on PATH", advice)];
    };
    let root = &checkup.workspace.root;
    let mut findings = vec![examine_version(&git, root)];
    findings.push(examine_identity(&git, root));
    findings.extend(examine_signing(checkup, &git));
    match &checkup.workspace.kind {
        WorkspaceKind::Plain => {
            let advice = "run `git init` there; workflows need a git repository (`init`, `agent run`, `sandbox`, `demo` and commands that only look do not)";
            let what = format!("`{root}` is not a git repository");
            findings.push(Finding::problem(Area::Git, what, advice));
        }
        WorkspaceKind::RepositoryCollection => {
            let what = format!("`{root}` holds several repositories");
            findings.push(Finding::ok(Area::Git, what));
        }
        WorkspaceKind::Repository(repository) => {
            findings.push(examine_repository(&git, root, repository));
            findings.extend(examine_driver(checkup, &git));
            findings.extend(examine_lock(repository));
        }
    }
    findings
}

fn examine_version(git: &Utf8Path, root: &Utf8Path) -> Finding {
    let answer = run(git, root, &["--version"]);
    let said = answer.as_ref().map(|answer| String::from_utf8_lossy(&answer.stdout).into_owned());
    let version = said.as_ref().ok().and_then(|said| parse_version(said));
    let Some(version) = version else {
        let advice = format!("run `{git} --version` to see why");
        return Finding::problem(Area::Git, format!("`{git}` does not report its version"), advice);
    };
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let what = format!("git {version} at `{git}`");
    if (major, minor) < OLDEST {
        let advice = format!("install git {}.{} or later", OLDEST.0, OLDEST.1);
        return Finding::problem(Area::Git, what, advice);
    }
    Finding::ok(Area::Git, what)
}

/// Whether commits have an identity. Git's own guess from user and host does not count.
fn examine_identity(git: &Utf8Path, root: &Utf8Path) -> Finding {
    let args = ["-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT"];
    let answer = run(git, root, &args).ok().filter(|answer| answer.code == Some(0));
    let identity = answer.map(|answer| String::from_utf8_lossy(&answer.stdout).into_owned());
    // The time follows the address.
    let identity = identity.as_deref().and_then(|text| text.rsplit_once('>'));
    match identity {
        Some((who, _)) => Finding::ok(Area::Git, format!("commits are made by {who}>")),
        None => Finding::note(
            Area::Git,
            "git has no user name and e-mail address here",
            "run `git config --global user.name NAME` and `git config --global user.email ADDRESS`",
        ),
    }
}

/// Ralph does not sign by itself: signing may ask for a passphrase.
fn examine_signing(checkup: &Checkup<'_>, git: &Utf8Path) -> Option<Finding> {
    let args = ["config", "--type=bool", "--get", "commit.gpgsign"];
    let answer = run(git, &checkup.workspace.root, &args).ok()?;
    let is_on = answer.code == Some(0) && answer.stdout.trim_ascii() == b"true";
    let signs = checkup.config.as_ref().is_ok_and(|config| config.git.sign);
    (is_on && !signs).then(|| {
        let what = "git signs your commits (`commit.gpgsign`), but Ralph's own and those of agents are unsigned";
        Finding::note(Area::Git, what, "set `git.sign = true` in ralph.toml to sign Ralph's own")
    })
}

fn examine_repository(git: &Utf8Path, root: &Utf8Path, repository: &Repository) -> Finding {
    let answer = match run(git, root, &["rev-parse", "--show-toplevel"]) {
        Ok(answer) => answer,
        Err(error) => {
            let what = format!("git cannot be run in `{root}`: {error}");
            return Finding::problem(Area::Git, what, "check the permissions of the directory");
        }
    };
    if answer.code != Some(0) {
        let said = String::from_utf8_lossy(&answer.stderr);
        let said = said.lines().next().unwrap_or("no answer").to_owned();
        let advice = format!("run `git -C {root} status`, and do what git says");
        return Finding::problem(Area::Git, format!("git refuses the repository: {said}"), advice);
    }
    let Repository { toplevel, git_dir } = repository;
    let kind = if git_dir.join("commondir").exists() {
        "a linked worktree"
    } else if *git_dir == toplevel.join(".git") {
        "a repository"
    } else {
        "a submodule, or a repository kept elsewhere"
    };
    let what = if root == toplevel {
        format!("`{root}` is {kind}")
    } else {
        format!("`{root}` is inside `{toplevel}`, {kind}")
    };
    let has_commit = run(git, root, &["rev-parse", "--quiet", "--verify", "HEAD^{commit}"])
        .is_ok_and(|answer| answer.code == Some(0));
    if has_commit {
        Finding::ok(Area::Git, what)
    } else {
        let advice = "make a first commit; Ralph compares work against it";
        Finding::problem(Area::Git, format!("{what} with no commits yet"), advice)
    }
}

/// Whether plans are merged by this very program, if home asks for that.
fn examine_driver(checkup: &Checkup<'_>, git: &Utf8Path) -> Option<Finding> {
    let named = checkup.config.ok().and_then(|config| config.home.as_deref());
    let home = checkup.workspace.home(named);
    let attributes = Some(home.path.join(".gitattributes")).filter(|path| path.is_file());
    let attributes = std::fs::read_to_string(attributes?).ok()?;
    if !merge_driver::asks_for_driver(&attributes) {
        return None;
    }
    let args = ["config", "--local", "--get", merge_driver::SETTING];
    let answer = run(git, &checkup.workspace.root, &args).ok()?;
    let configured = String::from_utf8_lossy(&answer.stdout);
    let configured = Some(configured.trim_end_matches('\n')).filter(|_| answer.code == Some(0));
    let advice = "run `ralph init`, which names this program and changes nothing else";
    Some(match merge_driver::state_of(configured, checkup.program) {
        DriverState::This => {
            Finding::ok(Area::Git, "plans are merged record by record, by this program")
        }
        DriverState::Another => {
            let what = "plans are merged by a different program";
            Finding::note(Area::Git, what, format!("see `git config {}`", merge_driver::SETTING))
        }
        DriverState::Absent => {
            Finding::note(Area::Git, "plans are merged line by line in this clone", advice)
        }
    })
}

/// Whether the index is locked, which blocks the person's own git.
fn examine_lock(repository: &Repository) -> Option<Finding> {
    let lock = repository.git_dir.join("index.lock");
    let what = format!("`{lock}` exists: git is running, or crashed");
    let advice = "if git is not running, remove it; Ralph removes its own at the next change";
    lock.exists().then(|| Finding::note(Area::Git, what, advice))
}

fn run(git: &Utf8Path, root: &Utf8Path, args: &[&str]) -> std::io::Result<Answer> {
    ask(&CaptureRequest {
        program: git.as_std_path(),
        args,
        names: &[],
        cwd: Some(root.as_std_path()),
        env: &[("LC_ALL", Some("C")), ("GIT_OPTIONAL_LOCKS", Some("0"))],
        timeout: PATIENCE,
        cap: 16 << 10,
    })
}
