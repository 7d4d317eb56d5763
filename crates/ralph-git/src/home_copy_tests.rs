use std::path::Path;

use super::super::testing::{World, read, write};
use super::*;

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

    /// Commits files in the person's repository and updates the mirror.
    fn commit(&self, files: &[(&str, &str)]) -> Oid {
        let id = self.world.commit(&self.dir, files);
        self.mirror.fill(&self.world.open(&self.dir), &[]).unwrap();
        id
    }

    fn copy(&self, inside: &str) -> (HomeCopy, bool) {
        HomeCopy::open(&self.mirror, &self.world.path("state/home"), Path::new(inside)).unwrap()
    }
}

#[test]
fn the_copy_holds_home_alone_and_a_commit_in_it_is_in_the_mirror() {
    let stage = Stage::new();
    let first = stage.commit(&[("a b/ralph/plan.jsonl", "1\n"), ("code.rs", "x\n")]);
    let (copy, is_new) = stage.copy("a b/ralph");
    assert!(is_new);
    let tree = copy.tree_at(Some(&first)).unwrap();
    copy.stand_on(Some(&first), &tree).unwrap();
    let root = stage.world.path("state/home");
    assert_eq!(read(&root.join("a b/ralph/plan.jsonl")), "1\n");
    assert!(!root.join("code.rs").exists());
    assert!(!stage.copy("a b/ralph").1, "it is there already");

    write(&root.join("a b/ralph/specs/done/1.md"), "done\n");
    let made = stage.world.commit(&root, &[("a b/ralph/plan.jsonl", "2\n")]);
    let truth = stage.mirror.git();
    let file = Path::new("a b/ralph/plan.jsonl");
    assert_eq!(truth.file_at(&made, file).unwrap().as_deref(), Some(&b"2\n"[..]));
    let changes = copy.git().tree_changes(&tree, &copy.head_tree().unwrap()).unwrap();
    let paths: Vec<_> = changes.iter().map(|change| change.path.to_str().unwrap()).collect();
    assert_eq!(paths, ["a b/ralph/plan.jsonl", "a b/ralph/specs/done/1.md"]);
}

#[test]
fn it_is_brought_in_line_with_another_tree_whatever_was_there() {
    let stage = Stage::new();
    let first = stage.commit(&[("ralph/a", "1\n"), ("ralph/b", "1\n")]);
    let (copy, _) = stage.copy("ralph");
    copy.stand_on(Some(&first), &copy.tree_at(Some(&first)).unwrap()).unwrap();
    let root = stage.world.path("state/home");
    write(&root.join("ralph/c"), "in the way\n");
    let second = stage.commit(&[("ralph/a", "2\n"), ("ralph/c", "2\n")]);
    copy.stand_on(Some(&second), &copy.tree_at(Some(&second)).unwrap()).unwrap();
    assert_eq!(
        (read(&root.join("ralph/a")), read(&root.join("ralph/c"))),
        ("2\n".into(), "2\n".into())
    );
    assert_eq!(stage.world.git(&root, &["rev-parse", "HEAD^"]), second.as_str());
    assert_eq!(stage.world.git(&root, &["status", "--porcelain"]), "");
}

#[test]
fn a_tree_is_changed_by_path_and_a_commit_without_home_has_an_empty_one() {
    let stage = Stage::new();
    let first = stage.commit(&[("ralph/a", "1\n")]);
    let (copy, _) = stage.copy("ralph");
    let tree = copy.tree_at(Some(&first)).unwrap();
    let id = copy.git().write_blob(b"new\n").unwrap();
    let changes = [
        HomeChange { path: "ralph/a".into(), after: None },
        HomeChange {
            path: "ralph/x/y".into(),
            after: Some(HomeBlob { mode: "100644".to_owned(), id }),
        },
    ];
    let after = copy.git().tree_with(&tree, &changes).unwrap();
    assert_eq!(copy.git().tree_changes(&tree, &after).unwrap(), changes);
    let root = stage.world.git(&stage.dir, &["rev-list", "--max-parents=0", "HEAD"]);
    let empty = copy.tree_at(Oid::parse(root.as_bytes()).as_ref()).unwrap();
    assert_eq!(copy.git().tree(&empty).unwrap(), []);
}

/// As after a power failure without syncing.
#[test]
fn a_copy_whose_own_files_are_damaged_is_made_anew() {
    for name in ["HEAD", "refs/heads/home", "config"] {
        let stage = Stage::new();
        let first = stage.commit(&[("ralph/a", "1\n")]);
        let (copy, _) = stage.copy("ralph");
        let tree = copy.tree_at(Some(&first)).unwrap();
        copy.stand_on(Some(&first), &tree).unwrap();
        assert!(!stage.copy("ralph").1);
        fs::write(stage.world.path("state/home/.git").join(name), "").unwrap();
        let (copy, is_new) = stage.copy("ralph");
        assert!(is_new, "{name}");
        copy.stand_on(Some(&first), &tree).unwrap();
        assert_eq!(read(&stage.world.path("state/home/ralph/a")), "1\n");
    }
}
