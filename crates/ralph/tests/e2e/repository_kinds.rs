//! Repositories of every kind, in every workflow: an agent with ordinary habits succeeds in a clone, and its work lands
//! where the person is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::crash;
use crate::harness::Place;
use crate::red_merge::{BRANCH, FLOWS, Flow, VERIFIES};

/// A kind of repository, made from the one of a place.
struct RepositoryKind {
    name: &'static str,
    /// Makes it, and returns its directory relative to the place's repository.
    make: fn(&Place) -> &'static str,
    /// The branch that is checked out, and the directory of the workspace in it.
    branch: &'static str,
    prefix: &'static str,
    /// What git's status says in the end.
    status: &'static str,
}

const PLAIN: RepositoryKind =
    RepositoryKind { name: "", make: |_| ".", branch: "refs/heads/work", prefix: "", status: "" };

const KINDS: &[RepositoryKind] = &[
    RepositoryKind {
        name: "linked worktree",
        make: |place| {
            place.env.git(&["worktree", "add", "--quiet", "-b", "feature", "../linked"]);
            "../linked"
        },
        branch: "refs/heads/feature",
        ..PLAIN
    },
    RepositoryKind {
        name: "worktree of a bare repository",
        make: |place| {
            place.env.git(&["clone", "--quiet", "--bare", ".", "../bare.git"]);
            place.env.git(&["-C", "../bare.git", "worktree", "add", "--quiet", "../tree", BRANCH]);
            "../tree"
        },
        ..PLAIN
    },
    RepositoryKind {
        name: "git directory elsewhere",
        make: |place| {
            place.env.git(&["init", "--quiet", "--separate-git-dir=../elsewhere.git"]);
            "."
        },
        ..PLAIN
    },
    RepositoryKind {
        name: "subdirectory",
        make: |place| {
            fs::create_dir(place.env.repo().join("sub")).unwrap();
            place.env.git(&["mv", "ralph", "ralph.toml", "sub/"]);
            place.commit_all("below");
            "sub"
        },
        prefix: "sub/",
        ..PLAIN
    },
    RepositoryKind { name: "shallow clone", make: |place| cloned(place, &["--depth=1"]), ..PLAIN },
    RepositoryKind {
        name: "partial clone",
        make: |place| {
            place.env.git(&["config", "uploadpack.allowFilter", "true"]);
            cloned(place, &["--filter=blob:none"])
        },
        ..PLAIN
    },
    RepositoryKind {
        name: "sparse checkout",
        make: |place| {
            fs::create_dir(place.env.repo().join("large")).unwrap();
            fs::write(place.env.repo().join("large/file.txt"), "large\n").unwrap();
            place.commit_all("large");
            place.env.git(&["sparse-checkout", "set", "--cone", "ralph"]);
            assert!(!place.env.repo().join("large").exists());
            "."
        },
        ..PLAIN
    },
    RepositoryKind {
        name: "packed refs and a tag of the branch's name",
        make: |place| {
            place.env.git(&["tag", BRANCH]);
            place.env.git(&["pack-refs", "--all"]);
            "."
        },
        ..PLAIN
    },
    RepositoryKind {
        name: "with a submodule",
        make: |place| {
            library(place);
            place.env.git(&[
                ALLOW[0],
                ALLOW[1],
                "submodule",
                "--quiet",
                "add",
                "../library",
                "sub",
            ]);
            place.commit_all("a submodule");
            "."
        },
        ..PLAIN
    },
    RepositoryKind {
        name: "in a submodule",
        make: |place| {
            let from = place.env.repo();
            place.env.git(&["init", "--quiet", "../outer"]);
            let add = ["submodule", "--quiet", "add", from.to_str().unwrap(), "inner"];
            place.env.git(&[&["-C", "../outer"][..], &ALLOW, &add].concat());
            "../outer/inner"
        },
        ..PLAIN
    },
    RepositoryKind {
        name: "detached head",
        make: |place| {
            place.env.git(&["checkout", "--quiet", "--detach"]);
            "."
        },
        branch: "refs/heads/ralph/detached-*",
        ..PLAIN
    },
    RepositoryKind {
        name: "branch without a commit",
        make: |place| {
            fs::remove_dir_all(place.env.repo().join(".git")).unwrap();
            place.env.git(&["init", "--quiet", "--initial-branch=work"]);
            "."
        },
        status: "?? README.md",
        ..PLAIN
    },
    RepositoryKind {
        name: "table of refs",
        make: |place| anew(place, "--ref-format=reftable"),
        ..PLAIN
    },
    RepositoryKind {
        name: "repository with SHA-256",
        make: |place| anew(place, "--object-format=sha256"),
        ..PLAIN
    },
    RepositoryKind {
        name: "directory behind a link",
        make: |place| {
            std::os::unix::fs::symlink(place.env.repo(), place.path("link")).unwrap();
            "../link"
        },
        ..PLAIN
    },
    RepositoryKind {
        name: "directory with an odd name",
        make: |place| {
            let odd = "../an \"odd' näme $x";
            place.env.git(&["clone", "--quiet", ".", odd]);
            odd
        },
        ..PLAIN
    },
    RepositoryKind {
        name: "branch called ralph",
        make: |place| {
            place.env.git(&["branch", "-m", "ralph"]);
            "."
        },
        branch: "refs/heads/ralph",
        ..PLAIN
    },
    RepositoryKind {
        name: "home kept out of git",
        make: |place| {
            place.more("[git]\ncommit_home = false\n");
            place.env.git(&["rm", "-r", "--quiet", "--cached", "ralph"]);
            fs::write(place.env.repo().join(".gitignore"), "/ralph/\n").unwrap();
            place.commit_all("without home");
            "."
        },
        ..PLAIN
    },
];

/// Lets git clone from a directory for a submodule.
const ALLOW: [&str; 2] = ["-c", "protocol.file.allow=always"];

fn cloned(place: &Place, how: &[&str]) -> &'static str {
    let from = format!("file://{}", place.env.repo().display());
    place.env.git(&[&["clone", "--quiet"][..], how, &[&from, "../cloned"]].concat());
    "../cloned"
}

/// Makes the repository anew in a format, where the installed git has it.
fn anew(place: &Place, format: &str) -> &'static str {
    if place.env.try_git(&["init", "--quiet", format, "../probe"]) {
        fs::remove_dir_all(place.env.repo().join(".git")).unwrap();
        place.env.git(&["init", "--quiet", format, "--initial-branch=work"]);
        place.commit_all("anew");
    }
    "."
}

fn library(place: &Place) {
    place.env.git(&["init", "--quiet", "../library"]);
    place.env.git(&["-C", "../library", "commit", "--quiet", "--allow-empty", "-m", "library"]);
}

fn git_in(place: &Place, directory: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(args)
        .current_dir(directory)
        .env_clear()
        .envs(place.env.environment())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

impl Flow {
    /// Returns where work lands: stories have a branch of their own.
    fn lands_on(&self, kind: &RepositoryKind) -> &'static str {
        if self.args[0] == "run" { "refs/heads/work" } else { kind.branch }
    }

    /// Returns a repository of a kind, and its directory.
    fn in_kind(&self, kind: &RepositoryKind) -> (Place, PathBuf) {
        let place = Self::project();
        let script = place.path("script");
        let (worker, claim) = (self.worker, self.claim);
        fs::write(
            &script,
            format!(
                "[planner]\noutbox plan.md # Plan\nfinal I AM HYPER SURE I AM DONE!\n\
                 [{worker}]\nwrite hello.txt hello\nrun git add -A; git commit -qm work\n{claim}\
                 [verifier]\nrun ralph task accept || true\n{VERIFIES}"
            ),
        )
        .unwrap();
        let toml = place.env.repo().join("ralph.toml");
        let settings = fs::read_to_string(&toml).unwrap();
        fs::write(&toml, settings.replace("../script", script.to_str().unwrap())).unwrap();
        place.commit_all("the script by its whole path");
        let made = (kind.make)(&place);
        let root = match made.strip_prefix("../") {
            Some(beside) => place.path(beside),
            None => place.env.repo().join(made.trim_start_matches('.')),
        };
        (place, root)
    }

    fn lands_in(&self, kind: &RepositoryKind) {
        let name = format!("{} in a {}", self.args[0], kind.name);
        let (place, root) = self.in_kind(kind);
        let git = |args: &[&str]| git_in(&place, &root, args);
        let files = |commit: &str| git(&["ls-tree", "-r", "--full-tree", "--name-only", commit]);
        let before = if kind.status.is_empty() { files("HEAD") } else { String::new() };
        let args = [&["--root", root.to_str().unwrap()], self.args].concat();
        let ended = place.ralph(&args);
        assert_eq!(ended.status.code(), Some(0), "{name}: {ended}");
        let branch = git(&["for-each-ref", "--format=%(refname)", self.lands_on(kind)]);
        let found = files(&branch);
        let work = format!("{}hello.txt", kind.prefix);
        assert!(found.lines().any(|one| one == work), "{name}: {branch} {found}\n{ended}");
        // Ralph moves only done files; everything else still exists.
        let lost: Vec<&str> = before
            .lines()
            .filter(|one| !one.contains("ralph/specs/") && !found.lines().any(|now| now == *one))
            .collect();
        assert_eq!(lost, Vec::<&str>::new(), "{name}");
        assert_eq!(git(&["status", "--porcelain", "--", "."]), kind.status, "{name}: {ended}");
        let left = git(&["for-each-ref", "--format=%(refname)", "refs/ralph/"]);
        let left: Vec<&str> = left.lines().filter(|name| !is_of_loop(name)).collect();
        assert_eq!(left, Vec::<&str>::new(), "{name}");
        git(&["fsck", "--connectivity-only"]);
    }
}

/// Whether a ref says between which commits a task of the loop is, for its rollback.
fn is_of_loop(name: &str) -> bool {
    name.starts_with("refs/ralph/loop/")
}

/// Plays a workflow in every kind; of those that share the code for landing with the pipeline, a third, another each day.
fn lands_in_every_kind(number: usize) {
    let day = usize::try_from(crash::seed()).unwrap();
    for (at, kind) in KINDS.iter().enumerate() {
        if number == 0 || (at + number + day).is_multiple_of(3) {
            FLOWS[number].lands_in(kind);
        }
    }
}

#[test]
fn a_spec_lands_in_every_kind_of_repository() {
    lands_in_every_kind(0);
}

#[test]
fn a_task_lands_in_every_kind_of_repository() {
    lands_in_every_kind(1);
}

#[test]
fn a_story_lands_in_every_kind_of_repository() {
    lands_in_every_kind(2);
}

#[test]
fn a_task_of_the_loop_lands_in_every_kind_of_repository() {
    lands_in_every_kind(3);
}
