use std::fs;

use camino::{Utf8Path, Utf8PathBuf};

use super::super::testing::{World, write};
use super::*;

struct Scene {
    world: World,
    dir: Utf8PathBuf,
    git: Git,
    mirror: Mirror,
    before: Before,
    own: Vec<PathBuf>,
}

impl Scene {
    /// A repository with a home, as at the beginning of a run.
    fn new() -> Self {
        let world = World::new();
        let dir = world.repository("r");
        world.commit(&dir, &[("ralph/plan.jsonl", "1\n")]);
        Self::begin(world, dir)
    }

    fn begin(world: World, dir: Utf8PathBuf) -> Self {
        let git = world.open(&dir);
        let mirror = Mirror::open(&world.program(), &world.path("mirror"), &git).unwrap();
        let before = note(&git, &mirror);
        Scene { world, dir, git, mirror, before, own: vec![PathBuf::from("ralph")] }
    }

    fn repository(&self) -> EvidenceRepository<'_> {
        EvidenceRepository {
            git: &self.git,
            mirror: &self.mirror,
            before: &self.before,
            own: &self.own,
        }
    }

    fn measure(&self, claimed: &str) -> (Option<GitCommitEvidence>, RepositoryEvidence) {
        let mut evidence = measure(&[self.repository()], claimed).unwrap();
        (evidence.commits.pop(), evidence.repositories.pop().unwrap())
    }
}

fn note(git: &Git, mirror: &Mirror) -> Before {
    let refs = mirror.fill(git, &[]).unwrap();
    Before {
        begun: Vec::new(),
        theirs: Vec::new(),
        base: refs.head.id().cloned(),
        refs,
        dirt: Dirt::of(git, &[]).unwrap(),
        saved: None,
        hidden: Vec::new(),
    }
}

fn paths(changes: &[PathChange]) -> Vec<&str> {
    changes.iter().map(|change| change.path.to_str().unwrap()).collect()
}

#[test]
fn an_honest_commit_on_the_branch_has_everything_in_its_favour() {
    let scene = Scene::new();
    let first = scene.world.commit(&scene.dir, &[("src/lib.rs", "1")]);
    let id = scene.world.commit(&scene.dir, &[("src/new.rs", "2")]);
    let (commit, repository) = scene.measure(&id.as_str()[..12]);
    let commit = commit.unwrap();
    assert_eq!(commit.commit.id, id);
    assert_eq!(commit.commit.tree, scene.world.id(&scene.dir, "HEAD^{tree}"));
    assert!(commit.is_new_since_base && commit.is_new_in_run && commit.descends_from_base);
    assert!(commit.is_on_head);
    assert_eq!(commit.on_moved_refs, ["refs/heads/main"]);
    assert_eq!(paths(&commit.outside_home), ["src/lib.rs", "src/new.rs"]);
    assert_eq!(commit.inside_home, []);
    assert_eq!(repository.dropped, []);
    assert_eq!(repository.leftovers, Leftovers::default());
    // Ancestry, not the tip: the commit before the last is equally valid.
    let (commit, _) = scene.measure(first.as_str());
    let commit = commit.unwrap();
    assert!(commit.is_new_in_run && commit.descends_from_base && commit.is_on_head);
    assert_eq!(paths(&commit.outside_home), ["src/lib.rs"]);
}

#[test]
fn what_is_no_commit_or_an_old_one_is_told() {
    let scene = Scene::new();
    let base = scene.world.head(&scene.dir);
    for nothing in [&"1".repeat(40), "", "HEAD", "no hash at all"] {
        assert_eq!(scene.measure(nothing).0, None, "{nothing}");
    }
    let tree = scene.world.id(&scene.dir, "HEAD^{tree}");
    assert_eq!(scene.measure(tree.as_str()).0, None);
    let old = scene.world.id(&scene.dir, "HEAD^");
    for id in [&base, &old] {
        let commit = scene.measure(id.as_str()).0.unwrap();
        assert!(!commit.is_new_since_base && !commit.is_new_in_run);
        assert_eq!(commit.descends_from_base, *id == base);
    }
}

#[test]
fn a_commit_on_a_feature_branch_or_a_detached_head_counts_and_says_where_it_is() {
    let scene = Scene::new();
    let (world, dir) = (&scene.world, &scene.dir);
    world.git(dir, &["checkout", "-q", "-b", "feature/x"]);
    let id = world.commit(dir, &[("b", "1")]);
    world.git(dir, &["checkout", "-q", "main"]);
    let (commit, repository) = scene.measure(id.as_str());
    let commit = commit.unwrap();
    assert!(commit.is_new_in_run && commit.descends_from_base && !commit.is_on_head);
    assert_eq!(commit.on_moved_refs, ["refs/heads/feature/x"]);
    assert_eq!(repository.head_now, scene.before.refs.head);

    world.git(dir, &["checkout", "-q", "--detach"]);
    let id = world.commit(dir, &[("c", "1")]);
    let (commit, repository) = scene.measure(id.as_str());
    let commit = commit.unwrap();
    assert!(commit.is_on_head && commit.is_new_in_run);
    assert_eq!(commit.on_refs, [] as [String; 0]);
    assert_eq!(repository.head_now, Head::Detached { id: id.clone() });
    // It was left again: no ref points to it, and it is still found.
    world.git(dir, &["checkout", "-q", "main"]);
    let commit = scene.measure(id.as_str()).0.unwrap();
    assert!(!commit.is_on_head && commit.is_new_in_run && commit.on_refs.is_empty());
}

#[test]
fn a_commit_that_does_not_descend_from_the_base_is_told() {
    let scene = Scene::new();
    let (world, dir) = (&scene.world, &scene.dir);
    world.git(dir, &["checkout", "-q", "--orphan", "fresh"]);
    let id = world.commit(dir, &[("b", "1")]);
    let (commit, repository) = scene.measure(id.as_str());
    let commit = commit.unwrap();
    assert!(commit.is_new_since_base && commit.is_new_in_run && !commit.descends_from_base);
    assert_eq!(repository.dropped, []);
}

#[test]
fn a_commit_that_lacks_nothing_but_commits_of_home_builds_on_the_base() {
    let world = World::new();
    let dir = world.repository("r");
    world.git(&dir, &["branch", "-q", "pushed"]);
    world.commit(&dir, &[("ralph/plan.jsonl", "1")]);
    let scene = Scene::begin(world, dir);
    let (world, dir) = (&scene.world, &scene.dir);
    world.git(dir, &["checkout", "-q", "-b", "feature", "pushed"]);
    let id = world.commit(dir, &[("b", "1")]);
    let commit = scene.measure(id.as_str()).0.unwrap();
    assert!(commit.is_new_since_base && commit.descends_from_base);
    assert_eq!((paths(&commit.outside_home), paths(&commit.inside_home)), (vec!["b"], vec![]));
    // Changes to home in its own commits are still reported.
    let id = world.commit(dir, &[("ralph/plan.jsonl", "2")]);
    assert_eq!(paths(&scene.measure(id.as_str()).0.unwrap().inside_home), ["ralph/plan.jsonl"]);
}

#[test]
fn home_files_swept_in_are_told_apart_from_work() {
    let scene = Scene::new();
    let files = [("ralph/plan.jsonl", "2\n"), ("ralph/SCRATCHPAD.md", "x")];
    let id = scene.world.commit(&scene.dir, &files);
    let commit = scene.measure(id.as_str()).0.unwrap();
    assert_eq!(commit.outside_home, []);
    assert_eq!(paths(&commit.inside_home), ["ralph/SCRATCHPAD.md", "ralph/plan.jsonl"]);
    // A file moved out of home is a change outside; so is a sibling with the same prefix.
    fs::rename(scene.dir.join("ralph/plan.jsonl"), scene.dir.join("plan.jsonl")).unwrap();
    let id = scene.world.commit(&scene.dir, &[("ralph2/x", "1")]);
    let commit = scene.measure(id.as_str()).0.unwrap();
    assert!(paths(&commit.outside_home).contains(&"ralph2/x"));
    assert!(paths(&commit.outside_home).contains(&"plan.jsonl"));
}

#[test]
fn the_persons_dirt_is_told_from_leftovers() {
    let world = World::new();
    let dir = world.repository("r");
    write(&dir.join("a.txt"), "mine\n");
    write(&dir.join("notes"), "mine");
    write(&dir.join("draft"), "mine");
    write(&dir.join("staged"), "mine");
    world.git(&dir, &["add", "staged"]);
    let scene = Scene::begin(world, dir.clone());
    write(&dir.join("src/lib.rs"), "work");
    scene.world.git(&dir, &["commit", "-q", "-m", "x", "--", "src/lib.rs"]);
    write(&dir.join("left"), "over");
    write(&dir.join("draft"), "changed by the run");
    let id = scene.world.head(&dir);
    let (_, repository) = scene.measure(id.as_str());
    assert_eq!(
        repository.leftovers,
        Leftovers {
            new: vec![PathBuf::from("left")],
            touched: vec![PathBuf::from("draft")],
            vanished: vec![],
        }
    );
    let id = scene.world.commit(&dir, &[]);
    let (_, repository) = scene.measure(id.as_str());
    assert_eq!(repository.leftovers.vanished.len(), 4);
}

#[test]
fn rewritten_history_and_dropped_commits_are_named() {
    let world = World::new();
    let dir = world.repository("r");
    world.commit(&dir, &[("a", "1")]);
    let scene = Scene::begin(world, dir);
    let (world, dir) = (&scene.world, &scene.dir);
    let base = world.head(dir);
    // Amended: the base is lost, and the new commit does not descend from it.
    write(&dir.join("src/lib.rs"), "1");
    world.git(dir, &["commit", "-q", "-a", "--amend", "-m", "amended"]);
    let id = world.head(dir);
    let (commit, repository) = scene.measure(id.as_str());
    assert!(!commit.unwrap().descends_from_base);
    let lost = |name: &str| Dropped {
        name: name.to_owned(),
        old_tip: base.clone(),
        commits: vec![base.clone()],
    };
    assert_eq!(repository.dropped, [lost("refs/heads/main")]);
    // Kept by another branch, it is not lost.
    world.git(dir, &["branch", "keep", base.as_str()]);
    assert_eq!(scene.measure(id.as_str()).1.dropped, []);
}

#[test]
fn a_deleted_branch_or_tag_of_somebody_is_a_drop_and_a_merged_or_remote_one_is_not() {
    let world = World::new();
    let dir = world.repository("r");
    world.git(&dir, &["branch", "merged"]);
    world.git(&dir, &["checkout", "-q", "-b", "theirs"]);
    let theirs = world.commit(&dir, &[("t", "1")]);
    world.git(&dir, &["checkout", "-q", "--detach", "main"]);
    let tagged = world.commit(&dir, &[("u", "1")]);
    world.git(&dir, &["tag", "-a", "-m", "x", "v1"]);
    let tag = world.id(&dir, "v1");
    world.git(&dir, &["update-ref", "refs/remotes/o/x", theirs.as_str()]);
    world.git(&dir, &["checkout", "-q", "main"]);
    let scene = Scene::begin(world, dir.clone());
    let world = &scene.world;
    let id = world.commit(&dir, &[("b", "1")]);
    world.git(&dir, &["branch", "-q", "-D", "merged"]);
    world.git(&dir, &["update-ref", "-d", "refs/remotes/o/x"]);
    assert_eq!(scene.measure(id.as_str()).1.dropped, []);
    world.git(&dir, &["branch", "-q", "-D", "theirs"]);
    world.git(&dir, &["tag", "-d", "v1"]);
    let (commit, repository) = scene.measure(id.as_str());
    assert!(commit.unwrap().descends_from_base);
    let dropped = |name: &str, old_tip: &Oid, commit: &Oid| Dropped {
        name: name.to_owned(),
        old_tip: old_tip.clone(),
        commits: vec![commit.clone()],
    };
    assert_eq!(
        repository.dropped,
        [dropped("refs/heads/theirs", &theirs, &theirs), dropped("refs/tags/v1", &tag, &tagged)]
    );
}

#[test]
fn a_commit_in_a_sibling_repository_is_found_there() {
    let world = World::new();
    let [one, two] = ["one", "two"].map(|name| world.repository(name));
    world.commit(&two, &[("only", "two")]);
    let open = |dir: &Utf8Path, mirror: &str| {
        let git = world.open(dir);
        let mirror = Mirror::open(&world.program(), &world.path(mirror), &git).unwrap();
        let before = note(&git, &mirror);
        (git, mirror, before)
    };
    let opened = [open(&one, "m1"), open(&two, "m2")];
    let id = world.commit(&two, &[("b", "1")]);
    write(&one.join("left"), "over");
    let repositories: Vec<EvidenceRepository<'_>> = opened
        .iter()
        .map(|(git, mirror, before)| EvidenceRepository { git, mirror, before, own: &[] })
        .collect();
    let evidence = measure(&repositories, id.as_str()).unwrap();
    assert_eq!(evidence.commits.len(), 1);
    assert_eq!(evidence.commits[0].repository, 1);
    assert!(evidence.commits[0].is_new_in_run && evidence.commits[0].descends_from_base);
    assert_eq!(evidence.repositories[0].leftovers.new, [PathBuf::from("left")]);
    assert_eq!(evidence.repositories[1].leftovers, Leftovers::default());
}

#[test]
fn the_first_commit_of_all_is_evidence_too() {
    let world = World::new();
    let dir = world.path("r");
    world.git(&world.root, &["init", "-q", dir.as_str()]);
    let scene = Scene::begin(world, dir.clone());
    assert_eq!(scene.before.base, None);
    let id = scene.world.commit(&dir, &[("a", "1"), ("ralph/x", "1")]);
    let commit = scene.measure(id.as_str()).0.unwrap();
    assert!(commit.is_new_since_base && commit.is_new_in_run && commit.descends_from_base);
    assert_eq!(paths(&commit.outside_home), ["a"]);
}

#[test]
fn a_snapshot_survives_being_written_down() {
    let scene = Scene::new();
    write(&scene.dir.join("dirty"), "1");
    let before = note(&scene.git, &scene.mirror);
    let text = serde_json::to_string(&before).unwrap();
    assert_eq!(serde_json::from_str::<Before>(&text).unwrap(), before);
}
