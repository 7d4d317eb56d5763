use super::super::testing::{World, write};
use super::super::{Call, Git, Oid};
use super::*;
use crate::parse::parse_raw_diff;

/// Git's own result.
fn told(git: &Git, from: &Oid, to: &Oid) -> Vec<PathChange> {
    let args = ["diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames"];
    let call = Call::new(&args).args([from.as_str(), to.as_str()]);
    parse_raw_diff(&git.call(call).unwrap().stdout).unwrap()
}

#[test]
fn trees_differ_as_git_says() {
    let world = World::new();
    let dir = world.repository("r");
    let git = world.open(&dir);
    let mut commits = vec![world.id(&dir, "HEAD")];
    let mut next = |change: &dyn Fn()| {
        change();
        commits.push(world.commit(&dir, &[]));
    };
    next(&|| write(&dir.join("deep/er/x"), "x"));
    // A file becomes a directory, with siblings whose names sort between both.
    next(&|| {
        for name in ["a", "a.b", "a-b", "a0"] {
            write(&dir.join(name), name);
        }
    });
    next(&|| {
        std::fs::remove_file(dir.join("a")).unwrap();
        write(&dir.join("a/b"), "now below");
        write(&dir.join("a0"), "changed");
    });
    next(&|| {
        std::fs::remove_file(dir.join("a0")).unwrap();
        std::os::unix::fs::symlink("a-b", dir.join("a0")).unwrap();
        world.git(&dir, &["update-index", "--chmod=+x", "a-b"]);
    });
    next(&|| std::fs::remove_dir_all(dir.join("deep")).unwrap());
    next(&|| {
        let id = world.id(&dir, "HEAD");
        world.git(&dir, &["update-index", "--add", "--cacheinfo", &format!("160000,{id},sub")]);
    });
    let empty = git.object_format().unwrap().empty_tree();
    commits.push(empty);
    for from in &commits {
        for to in &commits {
            let made = git.changes_in_process(from, to).unwrap();
            assert_eq!(made, told(&git, from, to), "{from} to {to}");
            let tree = world.id(&dir, &format!("{from}^{{tree}}"));
            assert_eq!(git.changes_in_process(&tree, to).unwrap(), made);
        }
    }
}

#[test]
fn what_cannot_be_read_is_told() {
    let world = World::new();
    let dir = world.repository("r");
    let git = world.open(&dir);
    let (head, blob) = (world.id(&dir, "HEAD"), world.id(&dir, "HEAD:a.txt"));
    let absent = Oid::parse(b"0123456789012345678901234567890123456789").unwrap();
    assert!(git.changes_in_process(&head, &blob).is_err());
    assert!(git.changes_in_process(&absent, &head).is_err());
}

#[test]
fn a_renamed_file_is_told_as_one() {
    let world = World::new();
    let dir = world.repository("r");
    let git = world.open(&dir);
    let before = world.id(&dir, "HEAD");
    world.git(&dir, &["mv", "src/lib.rs", "src/main.rs"]);
    let after = world.commit(&dir, &[]);
    let changes = git.changes(&before, &after).unwrap();
    assert!(matches!(&changes[..], [one] if matches!(one.kind, ChangeKind::Renamed { .. })));
}
