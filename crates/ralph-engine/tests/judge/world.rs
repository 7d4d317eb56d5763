//! A workspace with one or two repositories, private state, and a judge.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_engine::boundary::{InForce, Layers, in_force};
use ralph_engine::clock::SystemClock;
use ralph_engine::config::{BoundaryMode, Namespaces, SandboxConfig};
use ralph_engine::gates::assess::Extent;
use ralph_engine::gates::pin::PinnedGates;
use ralph_engine::gates::verify::{CommitCheck, verify};
use ralph_engine::gates::{BuiltInContext, GateContext, GateRepository, JudgedRepository};
use ralph_engine::git::copied::CopyList;
use ralph_engine::git::evidence::{Before, Dirt};
use ralph_engine::git::{GitProgram, Oid};
use ralph_engine::home::find_workspace;
use ralph_engine::judge::{AgreedChecks, Attested, Case, Judge, JudgeError, Judged, Said};
use ralph_engine::run::{Environment, RunResources};
use ralph_engine::state::{State, StateRequest};
use ralph_model::gate::{Check, GateSpec};
use ralph_model::receipt::{Receipt, Worker};
use ralph_outline::rules::LoopRules;
use ralph_proc::sandbox::{SocketAccess, Support};

static COPY: CopyList = CopyList { names: Vec::new(), patterns: Vec::new() };
static SANDBOX: SandboxConfig = SandboxConfig {
    show: Vec::new(),
    unix_sockets: SocketAccess::Denied,
    namespaces: Namespaces::Auto,
};

pub(crate) struct World {
    _guard: tempfile::TempDir,
    pub(crate) root: Utf8PathBuf,
    state: State,
    place: RunResources,
    environment: Environment,
    pub(crate) pinned: PinnedGates,
    repositories: Vec<(String, GateRepository, Before)>,
    pub(crate) rules: LoopRules,
    pub(crate) extent: Extent,
    pub(crate) summary: Option<&'static str>,
}

impl World {
    /// A workspace that is a repository, with the gate `./check`.
    pub(crate) fn new(check: &str) -> World {
        let guard = tempfile::tempdir().unwrap();
        let base = Utf8Path::from_path(guard.path()).unwrap().canonicalize_utf8().unwrap();
        let root = base.join("ws");
        fs::create_dir(&root).unwrap();
        git(&root, &["init", "--quiet", "--initial-branch=main"]);
        write(&root.join("check"), &format!("#!/bin/sh\n{check}\n"));
        write(&root.join("ralph/prompt.md"), "home");
        git(&root, &["add", "--all"]);
        git(&root, &["update-index", "--chmod=+x", "check"]);
        git(&root, &["commit", "--quiet", "--message=base"]);
        git(&root, &["checkout", "--quiet", "--force", "HEAD", "--", "check"]);
        let workspace = find_workspace(Some(&root), &root).unwrap();
        let home = workspace.home(None);
        let (state, _) = State::open(&StateRequest {
            base: &base.join("state"),
            workspace: &workspace,
            home: &home,
            now: jiff::Timestamp::UNIX_EPOCH,
            root_commit: &|_| None,
        })
        .unwrap();
        let place = RunResources::open(&state).unwrap();
        let pinned = PinnedGates { gates: vec![gate("tests", &["./check"])], ..Default::default() };
        World {
            _guard: guard,
            root,
            state,
            place,
            environment: Environment::inherited(std::env::vars_os()),
            pinned,
            repositories: Vec::new(),
            rules: LoopRules::web_app(),
            extent: Extent::UntilRejected,
            summary: None,
        }
    }

    /// Work on an item begins: records the current state of the workspace and of the named repositories in it.
    pub(crate) fn begin(&mut self, siblings: &[&str]) {
        self.repositories.clear();
        let program = GitProgram::new("git", std::env::vars_os());
        for name in [""].iter().chain(siblings) {
            let dir = self.root.join(name);
            let repository = GateRepository::open(&program, &self.state, &dir, &self.root).unwrap();
            let refs = repository.mirror.fill(&repository.git, &[]).unwrap();
            let before = Before {
                base: refs.head.id().cloned(),
                begun: refs.tips_of_persons(),
                theirs: Vec::new(),
                refs,
                dirt: Dirt::of(&repository.git, &[]).unwrap(),
                saved: None,
                hidden: Vec::new(),
            };
            self.repositories.push(((*name).to_owned(), repository, before));
        }
    }

    /// Another run for the same item begins: its base is kept, everything else is recorded again.
    pub(crate) fn next_attempt(&mut self) {
        for (_, repository, before) in &mut self.repositories {
            before.refs = repository.mirror.fill(&repository.git, &[]).unwrap();
            before.dirt = Dirt::of(&repository.git, &[]).unwrap();
        }
    }

    pub(crate) fn examine(&self, said: &Said) -> Result<Case, JudgeError> {
        self.with_judge(|judge| judge.examine(said, &mut |_| Ok(())))
    }

    /// Judges the claim of a commit.
    pub(crate) fn examine_commit(&self, commit: &str) -> Case {
        self.examine(&Said::Commit { claimed: commit.parse().unwrap() }).unwrap()
    }

    pub(crate) fn attest(&self, case: &Case) -> Receipt {
        self.attest_agreed(case, AgreedChecks::Nobody)
    }

    pub(crate) fn attest_agreed(&self, case: &Case, agreed: AgreedChecks) -> Receipt {
        let attested = Attested {
            item: "0001-item",
            worker: Worker { agent: "rehearsal".to_owned(), model: None },
            boundary: InForce::Kernel(Layers::LANDLOCK),
            verifier: None,
            at: jiff::Timestamp::UNIX_EPOCH,
            agreed,
            ralph: "0.0.0",
        };
        self.with_judge(|judge| judge.attest(case, attested)).unwrap().unwrap()
    }

    pub(crate) fn repository(&self) -> &GateRepository {
        &self.repositories[0].1
    }

    pub(crate) fn verify(&self, commit: &str) -> CommitCheck {
        let commit = Oid::parse(commit.as_bytes()).unwrap();
        verify(&self.context(), self.repository(), &commit, &mut |_| Ok(())).unwrap()
    }

    fn context(&self) -> GateContext<'_> {
        GateContext {
            item: None,
            state: &self.state,
            place: &self.place,
            environment: &self.environment,
            pass: &[],
            workspace: &self.root,
            boundary: in_force(BoundaryMode::Auto, Support::probe()).unwrap(),
            sandbox: &SANDBOX,
            writable: &[],
            interrupt_grace: Duration::from_millis(100),
            terminate_grace: Duration::from_millis(100),
            log: 1 << 30,
            clock: &SystemClock,
            command: "ralph test",
            signals: None,
            extent: self.extent,
            copy: &COPY,
            slot: None,
            built_in: Some(BuiltInContext::new(&self.rules, None, self.summary)),
        }
    }

    fn with_judge<T>(&self, use_it: impl FnOnce(&Judge<'_>) -> T) -> T {
        let own = [PathBuf::from("ralph")];
        let repositories: Vec<Judged<'_>> = self
            .repositories
            .iter()
            .map(|(name, repository, before)| Judged {
                repository: repository as &dyn JudgedRepository,
                name,
                before,
                own: if name.is_empty() { &own } else { &[] },
                branch: Some("main"),
            })
            .collect();
        use_it(&Judge {
            context: &self.context(),
            repositories: &repositories,
            pinned: &self.pinned,
            in_slot: false,
            merges: false,
        })
    }

    /// Writes a file of the workspace and commits everything; returns the commit.
    pub(crate) fn work(&self, name: &str, text: &str) -> String {
        self.work_in("", name, text)
    }

    pub(crate) fn work_in(&self, repository: &str, name: &str, text: &str) -> String {
        let dir = self.root.join(repository);
        write(&dir.join(name), text);
        git(&dir, &["add", "--all"]);
        git(&dir, &["commit", "--quiet", "--message=work"]);
        git(&dir, &["rev-parse", "HEAD"])
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        git(&self.root, args)
    }
}

pub(crate) fn gate(name: &str, argv: &[&str]) -> GateSpec {
    GateSpec {
        name: name.to_owned(),
        check: Check::Command { argv: argv.iter().map(|word| (*word).to_owned()).collect() },
        timeout: Duration::from_mins(1),
        repo: None,
        paths: Vec::new(),
        fast: false,
        net: false,
        unix: false,
    }
}

pub(crate) fn write(path: &Utf8Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Runs git like an agent.
pub(crate) fn git(dir: &Utf8Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Agent", "-c", "user.email=a@example.org"])
        .args(["-c", "protocol.file.allow=always"])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
