//! Repositories of every kind: an agent with ordinary habits succeeds in a clone, and its work lands where the person
//! is.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::clones::ONE;
use crate::pipeline::{Stage, on, willing};

/// An implementer that adds everything and commits.
const HONEST: &str = "write greeting.txt hello\nrun git add -A; git commit -qm work\n\
                      final <<END\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND";

/// A kind of repository: how to make it next to a stage's, and where its work is found.
struct RepositoryKind {
    name: &'static str,
    /// Creates it, and returns its directory relative to the stage's repository.
    make: fn(&Stage) -> &'static str,
    /// The commit and path of the work that has landed.
    landed: &'static str,
}

const KINDS: &[RepositoryKind] = &[
    RepositoryKind {
        name: "linked worktree",
        make: |stage| {
            stage.git(&["worktree", "add", "--quiet", "-b", "feature", "../linked"]);
            "../linked"
        },
        landed: "feature:greeting.txt",
    },
    RepositoryKind {
        name: "subdirectory",
        make: |stage| {
            fs::create_dir(stage.file("sub")).unwrap();
            stage.git(&["mv", "ralph", "ralph.toml", "sub/"]);
            stage.place.commit_all("below");
            "sub"
        },
        landed: "main:sub/greeting.txt",
    },
    RepositoryKind {
        name: "shallow clone",
        make: |stage| {
            clone(stage, &["--depth=1"]);
            "../cloned"
        },
        landed: "main:greeting.txt",
    },
    RepositoryKind {
        name: "partial clone",
        make: |stage| {
            stage.git(&["config", "uploadpack.allowFilter", "true"]);
            clone(stage, &["--filter=blob:none"]);
            "../cloned"
        },
        landed: "main:greeting.txt",
    },
    RepositoryKind {
        name: "sparse checkout",
        make: |stage| {
            stage.write("large/file.txt", "large\n");
            stage.place.commit_all("large");
            stage.git(&["sparse-checkout", "set", "--cone", "ralph"]);
            assert!(!stage.has("large"));
            "."
        },
        landed: "main:greeting.txt",
    },
    RepositoryKind {
        name: "packed refs and a tag of the branch's name",
        make: |stage| {
            stage.git(&["tag", "main"]);
            stage.git(&["pack-refs", "--all"]);
            "."
        },
        landed: "refs/heads/main:greeting.txt",
    },
];

fn git_in(stage: &Stage, directory: &PathBuf, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(args)
        .current_dir(directory)
        .env_clear()
        .envs(stage.place.env.environment())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

fn clone(stage: &Stage, how: &[&str]) {
    let from = format!("file://{}", stage.place.env.repo().display());
    let mut args = vec!["clone", "--quiet"];
    args.extend_from_slice(how);
    args.extend([from.as_str(), "../cloned"]);
    stage.git(&args);
}

#[test]
fn honest_work_lands_in_every_kind_of_repository() {
    for kind in KINDS {
        let stage = Stage::with(&willing(&[on("implementer", 1, HONEST)]), "", ONE);
        let script = stage.place.path("script");
        let settings = stage.read("ralph.toml");
        let named = settings.replace("../script", script.to_str().unwrap());
        stage.write("ralph.toml", &named);
        stage.place.commit_all("the script by its whole path");
        let root = stage.file((kind.make)(&stage));
        let root = root.canonicalize().unwrap();
        let files = |commit: &str| {
            git_in(&stage, &root, &["ls-tree", "-r", "--full-tree", "--name-only", commit])
        };
        let before = files("HEAD");
        let ended = stage.ralph(&["--root", root.to_str().unwrap(), "pipeline"]);
        assert_eq!(ended.finished.status.code(), Some(0), "{}: {}", kind.name, ended.finished);
        let (commit, path) = kind.landed.split_once(':').unwrap();
        let found = files(commit);
        assert!(found.lines().any(|one| one == path), "{}: {found}\n{}", kind.name, ended.finished);
        // Ralph moves only done files; everything else still exists.
        let lost: Vec<&str> = before
            .lines()
            .filter(|one| !one.contains("ralph/specs/") && !found.lines().any(|now| now == *one))
            .collect();
        assert_eq!(lost, Vec::<&str>::new(), "{}", kind.name);
        let status = git_in(&stage, &root, &["status", "--porcelain", "--", "."]);
        assert_eq!(status, "", "{}", kind.name);
        let left = git_in(&stage, &root, &["for-each-ref", "--format=%(refname)", "refs/ralph/"]);
        assert_eq!(left, "", "{}", kind.name);
        git_in(&stage, &root, &["fsck", "--connectivity-only"]);
    }
}
