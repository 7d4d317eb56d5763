//! Every known way in which a repository's configuration starts a program, planted for real, against every call.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use super::checkout::Checkout;
use super::commits::{CommitRequest, Signing, commit_paths};
use super::evidence::Dirt;
use super::mirror::Mirror;
use super::testing::{World, write};

/// A repository in which an agent planted something, and the program that must not run.
struct Trap {
    world: World,
    dir: Utf8PathBuf,
    program: Utf8PathBuf,
    trace: Utf8PathBuf,
}

impl Trap {
    fn new() -> Self {
        let world = World::new();
        let dir = world.repository("r");
        let (program, trace) = (world.path("evil"), world.path("trace"));
        write(&program, &format!("#!/bin/sh\necho \"$0 $*\" >> {trace}\n"));
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Trap { world, dir, program, trace }
    }

    fn config(&self, key: &str, value: &str) {
        self.world.git(&self.dir, &["config", key, value]);
    }

    fn hook(&self, name: &str) {
        let hooks = self.dir.join(".git/hooks");
        std::fs::create_dir_all(&hooks).unwrap();
        std::fs::copy(&self.program, hooks.join(name)).unwrap();
    }

    fn has_run(&self) -> bool {
        self.trace.exists()
    }

    fn forget(&self) {
        let _ = std::fs::remove_file(&self.trace);
    }
}

/// A way to plant something, and the plain git command that triggers it, if an ordinary one does.
type Plant = (&'static str, fn(&Trap), Option<&'static [&'static str]>);

const HOOKS: &[&str] = &[
    "pre-commit",
    "post-commit",
    "commit-msg",
    "prepare-commit-msg",
    "reference-transaction",
    "post-index-change",
    "post-checkout",
    "pre-auto-gc",
    "fsmonitor-watchman",
];

const PLANTS: &[Plant] = &[
    (
        "hooks",
        |trap| HOOKS.iter().for_each(|hook| trap.hook(hook)),
        Some(&["update-ref", "refs/heads/x", "HEAD"]),
    ),
    (
        "core.hooksPath",
        |trap| {
            let hooks = trap.world.path("elsewhere");
            std::fs::create_dir_all(&hooks).unwrap();
            for hook in HOOKS {
                std::fs::copy(&trap.program, hooks.join(hook)).unwrap();
            }
            trap.config("core.hooksPath", hooks.as_str());
        },
        Some(&["update-ref", "refs/heads/y", "HEAD"]),
    ),
    (
        "core.fsmonitor",
        |trap| trap.config("core.fsmonitor", trap.program.as_str()),
        Some(&["status"]),
    ),
    (
        "a filter that cleans",
        |trap| {
            trap.config("filter.a.b=c.clean", trap.program.as_str());
            write(&trap.dir.join(".git/info/attributes"), "* filter=a.b=c\n");
            write(&trap.dir.join("a.txt"), "touched\n");
        },
        Some(&["status"]),
    ),
    (
        "a filter that is a process, and required",
        |trap| {
            trap.config("filter.evil.process", trap.program.as_str());
            trap.config("filter.evil.smudge", trap.program.as_str());
            trap.config("filter.evil.required", "true");
            write(&trap.dir.join(".gitattributes"), "* filter=evil\n");
            write(&trap.dir.join("a.txt"), "touched again\n");
        },
        Some(&["diff", "--stat"]),
    ),
    (
        "core.attributesFile",
        |trap| {
            let attributes = trap.world.path("attributes");
            write(&attributes, "* filter=lfs diff=evil\n");
            trap.config("core.attributesFile", attributes.as_str());
            trap.config("filter.lfs.clean", trap.program.as_str());
            write(&trap.dir.join("a.txt"), "and again\n");
        },
        Some(&["diff", "--stat"]),
    ),
    (
        "external diff and textconv",
        |trap| {
            trap.config("diff.external", trap.program.as_str());
            trap.config("diff.evil.command", trap.program.as_str());
            trap.config("diff.evil.textconv", trap.program.as_str());
            write(&trap.dir.join(".gitattributes"), "* diff=evil\n");
            write(&trap.dir.join("a.txt"), "different\n");
        },
        Some(&["diff"]),
    ),
    (
        "gpg programs and a wish to sign",
        |trap| {
            for key in [
                "gpg.program",
                "gpg.openpgp.program",
                "gpg.ssh.program",
                "gpg.ssh.defaultKeyCommand",
            ] {
                trap.config(key, trap.program.as_str());
            }
            trap.config("commit.gpgSign", "true");
            trap.config("log.showSignature", "true");
        },
        None,
    ),
    (
        "pager, editor, askpass, ssh, credentials, proxy",
        |trap| {
            for key in [
                "core.pager",
                "core.editor",
                "sequence.editor",
                "core.askPass",
                "core.sshCommand",
                "credential.helper",
                "core.gitProxy",
                "core.alternateRefsCommand",
                "uploadpack.packObjectsHook",
                "pager.status",
                "pager.rev-list",
                "interactive.diffFilter",
            ] {
                trap.config(key, trap.program.as_str());
            }
        },
        None,
    ),
    (
        "aliases of the commands that we use",
        |trap| {
            for name in
                ["status", "rev-parse", "for-each-ref", "rev-list", "cat-file", "upload-pack"]
            {
                trap.config(&format!("alias.{name}"), &format!("!{}", trap.program));
            }
        },
        None,
    ),
    (
        "includeIf",
        |trap| {
            let included = trap.world.path("included");
            write(&included, &format!("[core]\n\tfsmonitor = {}\n", trap.program));
            trap.config("includeIf.gitdir:/.path", included.as_str());
        },
        Some(&["status"]),
    ),
    (
        "configuration of the worktree",
        |trap| {
            trap.config("extensions.worktreeConfig", "true");
            trap.world
                .git(&trap.dir, &["config", "--worktree", "core.fsmonitor", trap.program.as_str()]);
        },
        Some(&["status"]),
    ),
    (
        "a promise of missing objects, fetched by a program",
        |trap| {
            let blob = trap.world.git(&trap.dir, &["rev-parse", "HEAD:a.txt"]);
            let object = trap.dir.join(format!(".git/objects/{}/{}", &blob[..2], &blob[2..]));
            trap.config("extensions.partialClone", "evil");
            trap.config("core.repositoryFormatVersion", "1");
            trap.config("remote.evil.promisor", "true");
            trap.config("remote.evil.url", &format!("ext::{} %S", trap.program));
            trap.config("remote.evil.uploadpack", trap.program.as_str());
            trap.config("protocol.ext.allow", "always");
            std::fs::remove_file(object).unwrap();
        },
        Some(&["cat-file", "-p", "HEAD:a.txt"]),
    ),
    (
        "a hook in a submodule's configuration",
        |trap| {
            let other = trap.world.repository("other");
            trap.world.git(&trap.dir, &["submodule", "--quiet", "add", other.as_str(), "sub"]);
            trap.world
                .git(&trap.dir.join("sub"), &["config", "core.fsmonitor", trap.program.as_str()]);
            trap.config("submodule.sub.update", &format!("!{}", trap.program));
            trap.config("submodule.recurse", "true");
        },
        Some(&["status"]),
    ),
    (
        "another work tree and a bare repository",
        |trap| {
            let bait = trap.world.repository("bait");
            trap.world.git(&bait, &["config", "core.fsmonitor", trap.program.as_str()]);
            trap.config("core.worktree", bait.as_str());
            trap.config("core.fsmonitor", trap.program.as_str());
        },
        Some(&["status"]),
    ),
];

/// Makes every call that Ralph makes in a workspace; failing is allowed, starting a program is not.
fn make_every_call(trap: &Trap) {
    let Ok(git) = super::Git::discover(trap.world.program(), &trap.dir) else { return };
    let head = trap.world.id(&trap.dir, "HEAD");
    let _ = (git.object_format(), git.refs(), git.root_commits(), git.status());
    let _ =
        (git.find_commit(head.as_str()), git.have(std::slice::from_ref(&head)), git.tree(&head));
    let _ =
        (git.is_ancestor(&head, &head), git.merge_base(&head, &head), git.changes(&head, &head));
    let empty = git.object_format().unwrap().empty_tree();
    let _ = (git.changes(&empty, &head), git.new_commits(std::slice::from_ref(&head), &[]));
    let _ = (git.file_at(&head, Utf8Path::new("a.txt").as_std_path()), Dirt::of(&git, &[]));
    for signing in [Signing::Unsigned, Signing::AsThePersonDoes] {
        write(&trap.dir.join("ralph/plan.jsonl"), &format!("{signing:?}\n"));
        let _ = commit_paths(
            &git,
            &CommitRequest {
                paths: &[PathBuf::from("ralph"), PathBuf::from("a.txt")],
                message: "plan",
                signing,
                patience: Duration::ZERO,
            },
        );
    }
    let Ok(mirror) = Mirror::open(&trap.world.program(), &trap.world.path("mirror"), &git) else {
        return;
    };
    let _ = mirror.fill(&git, &[]);
    let dir = trap.world.path("checkout");
    for _ in 0..2 {
        let _ = Checkout::prepare(&mirror, &dir, &trap.world.id(&trap.dir, "HEAD"), &[]);
    }
}

#[test]
fn nothing_that_an_agent_plants_in_a_repository_is_run_by_a_call_of_ours() {
    for (name, plant, bait) in PLANTS {
        let trap = Trap::new();
        plant(&trap);
        if let Some(args) = bait {
            let _ = trap.world.try_git(&trap.dir, args);
            assert!(trap.has_run(), "{name}: the plant does not work, so the test proves nothing");
        }
        trap.forget();
        // Resolving names for the test itself must not trigger the trap.
        make_every_call(&trap);
        assert!(!trap.has_run(), "{name}: {}", std::fs::read_to_string(&trap.trace).unwrap());
    }
}

#[test]
fn an_index_cannot_call_a_changed_file_clean_by_settings() {
    let trap = Trap::new();
    trap.config("core.trustctime", "false");
    trap.config("core.checkStat", "minimal");
    trap.config("core.untrackedCache", "true");
    trap.config("status.showUntrackedFiles", "no");
    trap.config("core.worktree", "/");
    trap.config("core.bare", "false");
    write(&trap.dir.join("new.txt"), "1");
    let path = trap.dir.join("a.txt");
    let times = std::fs::metadata(&path).unwrap();
    write(&path, "b\n");
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(times.modified().unwrap()).unwrap();
    let git = trap.world.open(&trap.dir);
    let paths: Vec<PathBuf> = git.status().unwrap().into_iter().map(|entry| entry.path).collect();
    assert_eq!(paths, [PathBuf::from("a.txt"), PathBuf::from("new.txt")]);
}
