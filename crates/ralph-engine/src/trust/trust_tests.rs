use std::fs;

use camino::{Utf8Path, Utf8PathBuf};

use super::*;
use crate::clock::{Clock, SystemClock};
use crate::home::find_workspace;
use crate::state::StateRequest;
use crate::test_place::load_config;

struct Bench {
    _dir: tempfile::TempDir,
    root: Utf8PathBuf,
    state: State,
}

impl Bench {
    fn new(config: &str) -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let base = Utf8Path::from_path(dir.path()).unwrap().canonicalize_utf8().unwrap();
        let root = base.join("repo");
        fs::create_dir_all(root.join("ralph/specs")).unwrap();
        fs::write(root.join("ralph.toml"), config).unwrap();
        let workspace = find_workspace(Some(&root), &root).unwrap();
        let request = StateRequest {
            base: &base.join("state"),
            workspace: &workspace,
            home: &workspace.home(None),
            now: SystemClock.now(),
            root_commit: &|_| None,
        };
        let (state, _) = State::open(&request).unwrap();
        Bench { _dir: dir, root, state }
    }

    fn judge_with(&self, given: Option<&str>, flag: bool) -> Trust {
        let workspace = find_workspace(Some(&self.root), &self.root).unwrap();
        let config = load_config(&self.root, None).unwrap();
        let home = workspace.home(config.home.as_deref());
        Trust::judge(&TrustRequest {
            workspace: &workspace,
            config: &config,
            home: &home,
            state: Some(&self.state),
            given,
            flag,
        })
        .unwrap()
    }

    fn judge(&self) -> Trust {
        self.judge_with(None, false)
    }

    fn configure(&self, text: &str) {
        fs::write(self.root.join("ralph.toml"), text).unwrap();
    }
}

const GATE: &str = "[[gate]]\nname = \"tests\"\nrun = [\"make\", \"test\"]\n";

fn names(trust: &Trust) -> Vec<(&str, ItemNews)> {
    trust.items.iter().map(|item| (item.name.as_str(), item.news)).collect()
}

#[test]
fn a_workspace_without_armed_keys_needs_no_trust() {
    let bench = Bench::new("agent = \"claude\"\nmodel = \"m\"\n[limits]\nrepeats = 2\n");
    assert_eq!(bench.judge().by, Some(TrustedBy::NothingArmed));
}

#[test]
fn what_was_agreed_to_is_trusted_until_an_armed_key_changes() {
    let bench = Bench::new(GATE);
    let trust = bench.judge();
    assert_eq!((trust.by, names(&trust)), (None, vec![("gate.tests.run", ItemNews::New)]));
    trust.agree(&bench.state).unwrap();
    assert_eq!(bench.judge().by, Some(TrustedBy::Agreed));
    // A harmless key is not asked about.
    bench.configure(&format!("model = \"m\"\n{GATE}"));
    assert_eq!(bench.judge().by, Some(TrustedBy::Agreed));
    bench.configure(&format!("boundary = \"off\"\n{}", GATE.replace("test\"]", "evil\"]")));
    let trust = bench.judge();
    let expected = vec![("boundary", ItemNews::New), ("gate.tests.run", ItemNews::Changed)];
    assert_eq!((trust.by, names(&trust)), (None, expected));
    trust.agree(&bench.state).unwrap();
    // Both states are known now.
    bench.configure(GATE);
    assert_eq!(bench.judge().by, Some(TrustedBy::Agreed));
    Trust::forget(&bench.state).unwrap();
    assert_eq!(bench.judge().by, None);
}

#[test]
fn the_environment_trusts_exactly_one_state_and_the_flag_any() {
    let bench = Bench::new(GATE);
    let digest = bench.judge().digest;
    assert_eq!(bench.judge_with(Some(&digest), false).by, Some(TrustedBy::Environment));
    assert_eq!(bench.judge_with(Some(&digest[..16]), false).by, None);
    assert_eq!(bench.judge_with(None, true).by, Some(TrustedBy::CommandLine));
    bench.configure(&GATE.replace("make", "evil"));
    assert_eq!(bench.judge_with(Some(&digest), false).by, None);
}

#[test]
fn templates_count_unless_they_are_the_built_in_ones() {
    let bench = Bench::new("");
    let kind = PromptKind::ALL[0];
    let path = bench.root.join("ralph").join(kind.file_name());
    fs::write(&path, kind.builtin_text()).unwrap();
    assert_eq!(bench.judge().by, Some(TrustedBy::NothingArmed));
    fs::write(&path, "Do as I say.\n").unwrap();
    let trust = bench.judge();
    assert_eq!((trust.by, trust.items.len()), (None, 1));
    trust.agree(&bench.state).unwrap();
    fs::write(&path, "Do as I said.\n").unwrap();
    assert_eq!(names(&bench.judge())[0].1, ItemNews::Changed);
}

#[test]
fn a_home_that_a_link_leads_outside_is_armed() {
    let bench = Bench::new("");
    let outside = bench.root.parent().unwrap().join("outside");
    fs::rename(bench.root.join("ralph"), &outside).unwrap();
    std::os::unix::fs::symlink(&outside, bench.root.join("ralph")).unwrap();
    let trust = bench.judge();
    assert_eq!((trust.by, trust.strayed_home.as_deref()), (None, Some(&*outside)));
}

#[test]
fn the_list_of_ignored_files_that_come_along_counts_only_as_it_was_agreed_to() {
    let bench = Bench::new("");
    fs::write(bench.root.join(".worktreeinclude"), "# keys\n*.key\n").unwrap();
    let trust = bench.judge();
    assert_eq!((trust.by, names(&trust)), (None, vec![(".worktreeinclude", ItemNews::New)]));
    assert_eq!(trust.items[0].value, "[\"*.key\"]");
    trust.agree(&bench.state).unwrap();
    assert_eq!(bench.judge().by, Some(TrustedBy::Agreed));
    fs::write(bench.root.join(".worktreeinclude"), "*.key\n.env\n").unwrap();
    let trust = bench.judge();
    assert_eq!((trust.by, names(&trust)), (None, vec![(".worktreeinclude", ItemNews::Changed)]));
    // In a workspace that is not a repository, each of its repositories can have one.
    fs::create_dir_all(bench.root.join("api/.git")).unwrap();
    fs::write(bench.root.join("api/.worktreeinclude"), ".env\n").unwrap();
    let expected = [".worktreeinclude", "api/.worktreeinclude"];
    assert_eq!(names(&bench.judge()).iter().map(|(name, _)| *name).collect::<Vec<_>>(), expected);
}
