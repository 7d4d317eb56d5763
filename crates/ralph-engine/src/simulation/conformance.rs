//! One suite for both gits: each scenario is played with the real git in a temporary directory and with the simulated
//! one, with equal observations. Commit ids are replaced by the order of their first appearance.

mod clones;
mod landing;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use camino::Utf8PathBuf;

use super::git::SimulatedGit;
use super::repository::SimulatedRepository;
use crate::files::simulated::{self, ROOT, get, put};
use crate::gates::GateRepository;
use crate::git::commits::{CommitRequest, Signing};
use crate::git::evidence::{Before, Dirt};
use crate::git::replaced::Replaced;
use crate::git::undo::RefReturn;
use crate::git::{ChangeKind, GitProgram, Head, Oid};
use crate::repository::GitAccess;
use crate::test_place::Place;
use crate::workflow::isolation::access::LandingRepository;

/// A working tree and one of the two gits.
enum Bench {
    Real { place: Place, repository: Box<GateRepository> },
    Simulated { repository: SimulatedRepository },
}

/// A bench, and the observations so far.
struct Stage {
    bench: Bench,
    names: HashMap<String, String>,
    seen: Vec<String>,
}

fn program() -> GitProgram {
    let path = std::env::var_os("PATH").unwrap_or_default();
    GitProgram::new(
        "git",
        vec![("PATH".into(), path), ("GIT_CONFIG_GLOBAL".into(), "/dev/null".into())],
    )
}

impl Stage {
    fn real() -> Stage {
        let place = Place::new();
        place.git(&["init", "-q", "-b", "main"]);
        place.git(&["config", "user.name", "P"]);
        place.git(&["config", "user.email", "p@example.org"]);
        place.write("readme.txt", "one\n");
        place.write("ralph/.gitignore", "runs/\n*.log\n");
        place.git(&["add", "-A"]);
        place.git(&["commit", "-qm", "begin"]);
        let (state, root) = (place_state(&place), place.root.clone());
        let repository = GateRepository::open(&program(), &state, &root, &root).unwrap();
        Stage::on(Bench::Real { place, repository: Box::new(repository) })
    }

    fn simulated() -> Stage {
        simulated::install(1, jiff::Timestamp::UNIX_EPOCH);
        simulated::start_process(Vec::new());
        let root = Utf8PathBuf::from(format!("{ROOT}/ws"));
        put(&root.join("readme.txt"), Some(b"one\n"));
        put(&root.join("ralph/.gitignore"), Some(b"runs/\n*.log\n"));
        let git = SimulatedGit::init(&root);
        Stage::on(Bench::Simulated { repository: SimulatedRepository::of(git, None) })
    }

    fn on(bench: Bench) -> Stage {
        let mut stage = Stage { bench, names: HashMap::new(), seen: Vec::new() };
        stage.see_head();
        stage
    }

    fn repository(&self) -> &dyn LandingRepository {
        match &self.bench {
            Bench::Real { repository, .. } => &**repository,
            Bench::Simulated { repository } => repository,
        }
    }

    fn git(&self) -> &dyn GitAccess {
        self.repository().git()
    }

    fn write(&self, path: &str, text: &str) {
        match &self.bench {
            Bench::Real { place, .. } => place.write(path, text),
            Bench::Simulated { repository } => {
                put(&repository.git.root.join(path), Some(text.as_bytes()));
            }
        }
    }

    fn remove(&self, path: &str) {
        match &self.bench {
            Bench::Real { place, .. } => std::fs::remove_file(place.root.join(path)).unwrap(),
            Bench::Simulated { repository } => put(&repository.git.root.join(path), None),
        }
    }

    fn commit_all(&self) {
        match &self.bench {
            Bench::Real { place, .. } => {
                place.git(&["add", "-A"]);
                place.git(&["commit", "-qm", "all"]);
            }
            Bench::Simulated { repository } => drop(repository.git.commit_all("all")),
        }
    }

    fn switch_new(&self, branch: &str) {
        match &self.bench {
            Bench::Real { place, .. } => drop(place.git(&["switch", "-qc", branch])),
            Bench::Simulated { repository } => repository.git.switch_new(branch),
        }
    }

    fn detach(&self) {
        match &self.bench {
            Bench::Real { place, .. } => drop(place.git(&["switch", "-q", "--detach"])),
            Bench::Simulated { repository } => repository.git.detach(),
        }
    }

    fn reset_hard(&self) {
        match &self.bench {
            Bench::Real { place, .. } => drop(place.git(&["reset", "-q", "--hard", "HEAD~1"])),
            Bench::Simulated { repository } => repository.git.reset_hard(1),
        }
    }

    fn head_id(&self) -> Oid {
        self.git().head().unwrap().id().unwrap().clone()
    }

    /// Names a commit by its first appearance.
    fn name(&mut self, id: &Oid) -> String {
        let next = format!("c{}", self.names.len());
        self.names.entry(id.to_string()).or_insert(next).clone()
    }

    fn see(&mut self, what: impl std::fmt::Debug) {
        self.seen.push(format!("{what:?}"));
    }

    fn see_head(&mut self) {
        let head = self.git().head().unwrap();
        let at = head.id().map(|id| self.name(id));
        let what = match head {
            Head::Branch { name, .. } => name,
            Head::Detached { .. } => "detached".to_owned(),
            Head::Unborn { .. } => "unborn".to_owned(),
        };
        self.see((what, at));
    }

    fn see_refs(&mut self) {
        let refs = self.git().refs().unwrap().refs;
        let refs: Vec<(String, String)> = refs
            .into_iter()
            .filter(|found| !found.name.starts_with("refs/ralph/saved"))
            .map(|found| (found.name.clone(), self.name(&found.id)))
            .collect();
        self.see(refs);
    }

    fn dirt(&self) -> Dirt {
        self.git().dirt(&["ralph".into()]).unwrap()
    }

    fn see_dirt(&mut self) {
        let dirt = self.dirt().paths;
        let mut dirt: Vec<_> = dirt
            .iter()
            .map(|dirty| {
                (dirty.entry.path.clone(), dirty.entry.state.clone(), dirty.file.is_some())
            })
            .collect();
        dirt.sort_by(|one, other| one.0.cmp(&other.0));
        self.see(dirt);
    }

    fn see_home(&mut self) {
        let mut status = self.git().status_within("ralph".as_ref()).unwrap();
        status.sort_by(|one, other| one.path.cmp(&other.path));
        let among: BTreeSet<PathBuf> = status.iter().map(|entry| entry.path.clone()).collect();
        self.see(status);
        let mut status = self.git().status_among("ralph".as_ref(), &among).unwrap();
        status.sort_by(|one, other| one.path.cmp(&other.path));
        self.see(status);
    }

    fn see_file(&mut self, path: &str) {
        let content = match &self.bench {
            Bench::Real { place, .. } => std::fs::read(place.root.join(path)).ok(),
            Bench::Simulated { repository } => get(&repository.git.root.join(path)),
        };
        self.see(content.map(|content| String::from_utf8_lossy(&content).into_owned()));
    }

    fn see_changes(&mut self, from: &Oid, to: &Oid) {
        let changes = self.git().changes(from, to).unwrap();
        let changes: Vec<(PathBuf, ChangeKind, bool)> = changes
            .into_iter()
            .map(|change| (change.path, change.kind, change.id.is_some()))
            .collect();
        self.see(changes);
        let changes = self.git().tree_changes(from, to).unwrap();
        let changes: Vec<(PathBuf, bool)> =
            changes.into_iter().map(|change| (change.path, change.after.is_some())).collect();
        self.see(changes);
    }

    fn commit(&mut self, paths: &[&str]) {
        let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
        let request = CommitRequest {
            paths: &paths,
            message: "some\n",
            signing: Signing::Unsigned,
            patience: Duration::from_secs(5),
        };
        let result = self.git().commit_paths(&request);
        self.see(result.is_ok());
    }

    /// The state before a run, as a workflow records it.
    fn before(&self) -> Before {
        let dirt = self.dirt();
        Before {
            begun: Vec::new(),
            theirs: Vec::new(),
            base: self.git().head().unwrap().id().cloned(),
            saved: self.git().save_dirt(&dirt).unwrap(),
            refs: self.repository().fill_mirror(&[]).unwrap(),
            dirt,
            hidden: self.git().hidden(&["ralph".into()]).unwrap(),
        }
    }

    /// What the judge measures of a claim.
    fn see_evidence(&mut self, claimed: &Oid, before: &Before) {
        let found = self.repository().measure(claimed.as_str(), before, &["ralph".into()]).unwrap();
        for commit in &found.commits {
            let paths = |changes: &[crate::git::PathChange]| -> Vec<PathBuf> {
                changes.iter().map(|change| change.path.clone()).collect()
            };
            let refs = |names: &[String]| -> Vec<String> {
                let own = |name: &&String| !name.starts_with("refs/ralph/");
                names.iter().filter(own).cloned().collect()
            };
            self.see((
                (commit.is_new_since_base, commit.is_new_in_run, commit.descends_from_base),
                (refs(&commit.on_refs), refs(&commit.on_moved_refs), commit.is_on_head),
                (paths(&commit.outside_home), paths(&commit.inside_home)),
            ));
        }
        for repository in &found.repositories {
            let mut dropped = Vec::new();
            for lost in &repository.dropped {
                let commits: Vec<String> = lost.commits.iter().map(|id| self.name(id)).collect();
                dropped.push((lost.name.clone(), commits));
            }
            let leftovers = &repository.leftovers;
            self.see((dropped, leftovers.new.clone(), leftovers.vanished.clone()));
        }
    }
}

/// Private state is outside the working tree, otherwise it would be part of its dirt.
fn place_state(place: &Place) -> crate::state::State {
    let state = place.state();
    place.write(".git/info/exclude", "/state/\n");
    state
}

fn committing(stage: &mut Stage) {
    stage.write("work/a.txt", "a\n");
    stage.write("ralph/plan.jsonl", "{}\n");
    stage.write("ralph/runs/1.log", "ignored\n");
    stage.see_dirt();
    stage.see_home();
    let before = stage.head_id();
    stage.commit(&["work/a.txt"]);
    stage.see_head();
    stage.see_dirt();
    stage.commit(&["work/a.txt"]);
    stage.see_head();
    stage.write("work/a.txt", "b\n");
    stage.remove("readme.txt");
    stage.see_dirt();
    stage.commit(&["readme.txt", "work/a.txt", "ralph/plan.jsonl"]);
    stage.see_head();
    stage.see_home();
    let after = stage.head_id();
    stage.see_changes(&before, &after);
    stage.see_changes(&after, &before);
    let ignored = ["ralph/runs/1.log", "ralph/x.log", "ralph/plan.jsonl", "work/a.txt"];
    let ignored: Vec<PathBuf> = ignored.iter().map(PathBuf::from).collect();
    let mut found: Vec<PathBuf> = stage.git().ignored(&ignored).unwrap().into_iter().collect();
    found.sort();
    stage.see(found);
    let file = stage.git().file_at(&after, Path::new("work/a.txt")).unwrap();
    stage.see(file);
    let file = stage.git().file_at(&after, Path::new("readme.txt")).unwrap();
    stage.see(file);
}

fn renaming(stage: &mut Stage) {
    let before = stage.head_id();
    stage.write("moved.txt", "one\n");
    stage.remove("readme.txt");
    stage.commit(&["moved.txt", "readme.txt"]);
    let after = stage.head_id();
    stage.see_changes(&before, &after);
}

fn ancestry(stage: &mut Stage) {
    let base = stage.head_id();
    stage.switch_new("feat");
    stage.write("f.txt", "f\n");
    stage.commit_all();
    let feat = stage.head_id();
    stage.git().switch_to("refs/heads/main").unwrap();
    stage.write("m.txt", "m\n");
    stage.commit_all();
    let main = stage.head_id();
    stage.see_refs();
    for (one, other) in [(&base, &feat), (&feat, &base), (&feat, &main), (&main, &main)] {
        let is_ancestor = stage.git().is_ancestor(one, other).unwrap();
        let joint = stage.git().merge_base(one, other).unwrap().map(|id| stage.name(&id));
        stage.see((is_ancestor, joint));
    }
    let unknown = Oid::parse(&[b'a'; 40]).unwrap();
    let have = stage.git().have(&[base.clone(), unknown.clone(), feat.clone()]).unwrap();
    stage.see(have);
    for name in ["HEAD", "main", "refs/heads/feat", "nothing", unknown.as_str(), feat.as_str()] {
        let found = stage.git().resolve(name).unwrap().map(|id| stage.name(&id));
        stage.see((name.len(), found));
    }
    for claimed in [feat.as_str(), &feat.as_str()[..12], unknown.as_str(), "main", ""] {
        let found = stage.git().find_commit(claimed).unwrap();
        let found = found.map(|header| (stage.name(&header.id), header.parents.len()));
        stage.see(found);
    }
}

fn switching(stage: &mut Stage) {
    stage.switch_new("feat");
    stage.write("f.txt", "f\n");
    stage.commit_all();
    stage.write("left.txt", "left\n");
    stage.write("readme.txt", "edited\n");
    // Uncommitted changes are carried along.
    let switched = stage.git().switch_to("refs/heads/main").is_ok();
    stage.see(switched);
    stage.see_head();
    stage.see_dirt();
    stage.see_file("f.txt");
    stage.see_file("readme.txt");
    // A conflicting file stops it.
    stage.write("f.txt", "mine\n");
    let switched = stage.git().switch_to("refs/heads/feat").is_ok();
    stage.see(switched);
    stage.see_head();
    stage.see_file("f.txt");
    let switched = stage.git().switch_to("refs/heads/nothing").is_ok();
    stage.see(switched);
    stage.remove("f.txt");
    stage.git().switch_discarding("refs/heads/feat").unwrap();
    stage.see_head();
    stage.see_file("readme.txt");
    stage.see_file("left.txt");
    stage.detach();
    stage.see_head();
    stage.write("d.txt", "d\n");
    stage.commit_all();
    stage.see_head();
    stage.see_refs();
}

fn moving_forward(stage: &mut Stage) {
    stage.switch_new("feat");
    stage.write("f.txt", "f\n");
    stage.commit_all();
    let feat = stage.head_id();
    stage.git().switch_to("refs/heads/main").unwrap();
    stage.write("left.txt", "left\n");
    stage.git().fast_forward(&feat).unwrap();
    stage.see_head();
    stage.see_refs();
    stage.see_dirt();
    stage.reset_hard();
    stage.see_head();
    stage.see_file("left.txt");
    stage.write("m.txt", "m\n");
    stage.commit_all();
    let moved = stage.git().fast_forward(&feat).is_ok();
    stage.see(moved);
    stage.see_head();
    let name = "refs/ralph/accepted/x".to_owned();
    let set = RefReturn { name: name.clone(), before: Some(feat.clone()), now: None };
    let again = set.clone();
    let made = stage.git().return_refs(&[set]).is_ok();
    stage.see(made);
    let made = stage.git().return_refs(&[again]).is_ok();
    stage.see(made);
    stage.see_refs();
    let removal = RefReturn { name, before: None, now: Some(feat) };
    stage.git().return_refs(&[removal]).unwrap();
    stage.see_refs();
}

fn saving(stage: &mut Stage) {
    let nothing = stage.git().save_dirt(&stage.dirt()).unwrap();
    stage.see(nothing.is_none());
    stage.write("readme.txt", "edited\n");
    stage.write("notes.txt", "notes\n");
    let before = stage.before();
    let saved = before.saved.clone().unwrap();
    let files: Vec<(PathBuf, bool)> =
        saved.files.iter().map(|(path, id)| (path.clone(), id.is_some())).collect();
    stage.see(files);
    stage.see_dirt();
    let again = stage.git().save_dirt(&stage.dirt()).unwrap();
    stage.see(again.map(|again| again.name) == Some(saved.name.clone()));
    stage.remove("notes.txt");
    stage.write("readme.txt", "one\n");
    let now = stage.dirt();
    stage.see(before.dirt.leftovers(&now));
    stage.git().return_saved(&saved, &[Path::new("notes.txt")]).unwrap();
    stage.see_file("notes.txt");
    stage.see_file("readme.txt");
    stage.see_dirt();
}

fn holding(stage: &mut Stage) {
    let plan = "ralph/plan.jsonl";
    stage.write(plan, "old\n");
    stage.commit_all();
    let paths = [PathBuf::from(plan)];
    let request = CommitRequest {
        paths: &paths,
        message: "plan\n",
        signing: Signing::Unsigned,
        patience: Duration::from_secs(5),
    };
    let replace = |stage: &mut Stage, found: &str, after: &[u8]| {
        let held = stage.git().hold_index(Duration::from_secs(5)).unwrap();
        stage.write(plan, found);
        let result = held.commit(&request, Replaced { before: b"old\n", after });
        let result = result.map(drop).map_err(|error| error.to_string());
        stage.see(result);
        stage.see_head();
        stage.see_home();
    };
    replace(stage, "new\n", b"new\n");
    replace(stage, "somebody else's\n", b"newer\n");
}

fn evidence(stage: &mut Stage) {
    stage.write("readme.txt", "the person's\n");
    stage.write("notes.txt", "notes\n");
    let before = stage.before();
    let base = stage.head_id();
    stage.see_evidence(&base, &before);
    // The agent's own commit, one with the person's files, and one in home only.
    stage.write("work.txt", "work\n");
    stage.commit(&["work.txt"]);
    let own = stage.head_id();
    stage.see_evidence(&own, &before);
    stage.write("left.txt", "left\n");
    stage.see_evidence(&own, &before);
    stage.commit_all();
    let all = stage.head_id();
    stage.see_evidence(&all, &before);
    stage.see_evidence(&Oid::parse(&[b'a'; 40]).unwrap(), &before);
    // Another branch, a detached head, and a rewritten history.
    let before = stage.before();
    stage.switch_new("feat");
    stage.write("f.txt", "f\n");
    stage.commit_all();
    let feat = stage.head_id();
    stage.see_evidence(&feat, &before);
    stage.detach();
    stage.write("d.txt", "d\n");
    stage.commit_all();
    let detached = stage.head_id();
    stage.see_evidence(&detached, &before);
    stage.git().switch_to("refs/heads/main").unwrap();
    stage.see_evidence(&feat, &before);
    stage.reset_hard();
    stage.write("other.txt", "other\n");
    stage.commit_all();
    let rewritten = stage.head_id();
    stage.see_evidence(&rewritten, &before);
}

fn others_work(stage: &mut Stage) {
    let mut before = stage.before();
    let base = stage.head_id();
    stage.write("others.txt", "others\n");
    stage.commit_all();
    let others = stage.head_id();
    stage.see_evidence(&others, &before);
    // Commits of others are not evidence, even below one's own commit.
    let changes = stage.git().changes(&base, &others).unwrap();
    before.theirs = changes.into_iter().map(|change| (change.path, change.id)).collect();
    stage.see_evidence(&others, &before);
    stage.write("own.txt", "own\n");
    stage.commit_all();
    let own = stage.head_id();
    stage.see_evidence(&own, &before);
    // Commits that existed when the item began are not new.
    before.begun = vec![others.clone()];
    stage.see_evidence(&others, &before);
    stage.see_evidence(&own, &before);
}

#[test]
fn both_gits_are_seen_alike() {
    type Scenario = (&'static str, fn(&mut Stage));
    let scenarios: [Scenario; 15] = [
        ("committing", committing),
        ("renaming", renaming),
        ("ancestry", ancestry),
        ("switching", switching),
        ("moving forward", moving_forward),
        ("saving", saving),
        ("holding", holding),
        ("evidence", evidence),
        ("others' work", others_work),
        ("landing", landing::landing),
        ("what is in the way", landing::what_is_in_the_way),
        ("merging for a landing", landing::merging_for_a_landing),
        ("items in flight", landing::items_in_flight),
        ("the copy of home", landing::the_copy_of_home),
        ("a clone for one item after the other", clones::one_item_after_the_other),
    ];
    for (name, play) in scenarios {
        let [real, simulated] = [Stage::real, Stage::simulated].map(|bench| {
            let mut stage = bench();
            play(&mut stage);
            stage.seen
        });
        for (at, (real, simulated)) in real.iter().zip(&simulated).enumerate() {
            assert_eq!(real, simulated, "{name}: what was seen as number {at}");
        }
        assert_eq!(real.len(), simulated.len(), "{name}");
    }
    simulated::uninstall();
}
