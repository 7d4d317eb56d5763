use std::path::Path;

use super::super::testing::World;
use super::*;
use camino::Utf8PathBuf;

struct Stage {
    world: World,
    dir: Utf8PathBuf,
    mirror: Mirror,
}

impl Stage {
    fn new() -> Stage {
        let world = World::new();
        let dir = world.repository("r");
        let mirror =
            Mirror::open(&world.program(), &world.path("state/mirror"), &world.open(&dir)).unwrap();
        Stage { world, dir, mirror }
    }

    fn commit(&self, files: &[(&str, &str)]) -> Oid {
        let id = self.world.commit(&self.dir, files);
        self.mirror.fill(&self.world.open(&self.dir), &[]).unwrap();
        id
    }

    fn anchor(&self, base: &Oid, path: &str) -> String {
        let tree = self.mirror.anchor_tree("refs/heads/main", base).unwrap();
        let found = self.mirror.git().file_at(&tree, Path::new(path)).unwrap();
        String::from_utf8(found.unwrap_or_default()).unwrap()
    }

    /// Accepts a candidate except for its changes to some paths.
    fn accept(&self, base: &Oid, candidate: &Oid, unanswered: &[&str]) {
        let anchor = self.mirror.anchor_tree("refs/heads/main", base).unwrap();
        let mut changes = self.mirror.git().tree_changes(candidate, &anchor).unwrap();
        changes.retain(|change| unanswered.iter().any(|path| change.path == Path::new(path)));
        self.mirror.move_anchor("refs/heads/main", candidate, changes).unwrap();
    }
}

#[test]
fn unanswered_changes_stay_out_until_a_person_makes_them() {
    let stage = Stage::new();
    let base = stage.commit(&[("t", "1"), ("n", "1")]);
    assert_eq!(stage.anchor(&base, "t"), "1");
    let candidate = stage.commit(&[("t", "2"), ("n", "2")]);
    stage.accept(&base, &candidate, &["t"]);
    // The item itself continues with its original anchor, whether it has landed or not.
    assert_eq!((stage.anchor(&base, "t").as_str(), stage.anchor(&base, "n").as_str()), ("1", "1"));
    assert_eq!(
        (stage.anchor(&candidate, "t").as_str(), stage.anchor(&candidate, "n").as_str()),
        ("1", "2")
    );
    // A person's unrelated change does not affect it.
    let later = stage.commit(&[("other", "x")]);
    assert_eq!(
        (stage.anchor(&later, "t").as_str(), stage.anchor(&later, "other").as_str()),
        ("1", "x")
    );
    // The next item is measured against the same anchor, and leaves it unchanged.
    let next = stage.commit(&[("n", "3")]);
    stage.accept(&later, &next, &["t"]);
    assert_eq!(stage.anchor(&next, "t"), "1");
    let persons = stage.commit(&[("t", "mine")]);
    assert_eq!(stage.anchor(&persons, "t"), "mine");
}

#[test]
fn accepting_twice_is_accepting_once_and_a_reset_goes_back() {
    let stage = Stage::new();
    let base = stage.commit(&[("t", "1")]);
    let one = stage.commit(&[("t", "2")]);
    stage.accept(&base, &one, &["t"]);
    stage.accept(&base, &one, &["t"]);
    let two = stage.commit(&[("t", "3")]);
    stage.accept(&one, &two, &["t"]);
    assert_eq!(stage.anchor(&two, "t"), "1");
    assert_eq!(stage.anchor(&one, "t"), "1");
    assert_eq!(stage.anchor(&base, "t"), "1");
    // Approved after all.
    stage.accept(&one, &two, &[]);
    assert_eq!(stage.anchor(&two, "t"), "3");
}

#[test]
fn a_file_comes_back_where_the_candidate_has_a_directory_and_words_are_found() {
    let stage = Stage::new();
    let base = stage.commit(&[("tests/a.py", "import helpers\n")]);
    stage.world.git(&stage.dir, &["rm", "-q", "-r", "tests"]);
    let candidate = stage.commit(&[("tests", "a file")]);
    stage.accept(&base, &candidate, &["tests", "tests/a.py"]);
    assert_eq!(stage.anchor(&candidate, "tests/a.py"), "import helpers\n");
    let found = stage.mirror.git().files_with_word(&base, "helpers").unwrap();
    assert_eq!(found, [Path::new("tests/a.py")]);
    assert!(stage.mirror.git().files_with_word(&base, "helper").unwrap().is_empty());
}

/// A person's rebase or squash changes the commits, but does not approve anything.
#[test]
fn what_nobody_agreed_with_stays_so_in_other_commits_and_on_other_branches() {
    let stage = Stage::new();
    let base = stage.commit(&[("t", "1"), ("n", "1")]);
    let candidate = stage.commit(&[("t", "2"), ("n", "2")]);
    stage.accept(&base, &candidate, &["t"]);
    let git = |args: &[&str]| stage.world.git(&stage.dir, args);
    git(&["reset", "--quiet", "--soft", base.as_str()]);
    let squashed = stage.commit(&[("t", "2"), ("n", "2"), ("more", "x")]);
    assert!(!stage.mirror.git().is_ancestor(&candidate, &squashed).unwrap());
    assert_eq!(
        (stage.anchor(&squashed, "t").as_str(), stage.anchor(&squashed, "n").as_str()),
        ("1", "2")
    );
    let tree = stage.mirror.anchor_tree("refs/heads/other", &squashed).unwrap();
    let found = stage.mirror.git().file_at(&tree, Path::new("t")).unwrap();
    assert_eq!(found.unwrap(), b"1");
    // Once it is approved, it counts there too.
    let later = stage.commit(&[("n", "3")]);
    stage.accept(&squashed, &later, &[]);
    assert_eq!(stage.anchor(&later, "t"), "2");
    assert_eq!(stage.anchor(&squashed, "t"), "2");
    // A person's own version is theirs.
    let persons = stage.commit(&[("t", "mine")]);
    assert_eq!(stage.anchor(&persons, "t"), "mine");
}
