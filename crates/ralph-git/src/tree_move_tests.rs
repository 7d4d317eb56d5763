use std::os::unix::fs::symlink;

use camino::Utf8PathBuf;

use super::super::scan::Part;
use super::super::testing::{World, write};
use super::*;

/// Moves a repository's working tree between two commits, and compares it with git's result.
fn move_and_compare(world: &World, dir: &Utf8PathBuf, from: &Oid, to: &Oid) -> Result<(), Unfit> {
    world.git(dir, &["checkout", "-q", "--force", "--detach", from.as_str()]);
    world.git(dir, &["clean", "-q", "-ffdx"]);
    move_only(world, dir, from, to)?;
    assert_moved(world, dir, to);
    Ok(())
}

fn move_only(world: &World, dir: &Utf8PathBuf, from: &Oid, to: &Oid) -> Result<(), Unfit> {
    let git = world.open(dir);
    let index = dir.join(".git/index");
    let known = IndexFile::read(index.as_std_path(), Kind::Sha1)?;
    let mut found = known.scan(dir.as_std_path(), &Part::default())?;
    known.confirm(dir.as_std_path(), &mut found, Kind::Sha1);
    let (kind, unsure) = (Kind::Sha1, &found.unsure);
    TreeMove { git: &git, kind, index: &index, from, to, unsure }.make(&known)
}

fn assert_moved(world: &World, dir: &Utf8PathBuf, to: &Oid) {
    world.git(dir, &["update-ref", "--no-deref", "HEAD", to.as_str()]);
    assert_eq!(world.git(dir, &["status", "--porcelain", "--ignored"]), "", "{to}");
    let tree = world.git(dir, &["rev-parse", &format!("{to}^{{tree}}")]);
    assert_eq!(world.git(dir, &["write-tree"]), tree);
    world.git(dir, &["fsck", "--no-dangling"]);
    let index = IndexFile::read(dir.join(".git/index").as_std_path(), Kind::Sha1).unwrap();
    let mut found = index.scan(dir.as_std_path(), &Part::default()).unwrap();
    index.confirm(dir.as_std_path(), &mut found, Kind::Sha1);
    assert!(found.is_clean(), "{found:?}");
}

#[test]
fn a_tree_becomes_another_as_git_would_have_it() {
    let world = World::new();
    let dir = world.repository("r");
    let mut commits = vec![world.id(&dir, "HEAD")];
    commits.push(world.commit(&dir, &[("deep/er/x", "x"), ("a.txt", "changed\n")]));
    std::fs::remove_dir_all(dir.join("deep")).unwrap();
    commits.push(world.commit(&dir, &[("z", "")]));
    std::fs::remove_file(dir.join("z")).unwrap();
    world.git(&dir, &["update-index", "--chmod=+x", "src/lib.rs"]);
    world.git(&dir, &["commit", "-qm", "executable"]);
    commits.push(world.id(&dir, "HEAD"));
    for from in &commits {
        for to in &commits {
            move_and_compare(&world, &dir, from, to).unwrap();
        }
    }
}

#[test]
fn what_was_changed_in_between_is_written_anew() {
    let world = World::new();
    let dir = world.repository("r");
    let from = world.id(&dir, "HEAD");
    let to = world.commit(&dir, &[("new", "n")]);
    world.git(&dir, &["checkout", "-q", "--detach", from.as_str()]);
    write(&dir.join("a.txt"), "somebody's\n");
    std::fs::remove_dir_all(dir.join("src")).unwrap();
    // Already written by a killed move.
    write(&dir.join("new"), "half");
    let index = dir.join(".git/index");
    let known = IndexFile::read(index.as_std_path(), Kind::Sha1).unwrap();
    let found = known.scan(dir.as_std_path(), &Part::default()).unwrap();
    assert_eq!(found.others, [PathBuf::from("new")]);
    move_only(&world, &dir, &from, &to).unwrap();
    assert_moved(&world, &dir, &to);
}

#[test]
fn line_ends_are_written_as_attributes_ask() {
    let world = World::new();
    let dir = world.repository("r");
    let from = world.commit(&dir, &[(".gitattributes", "*.bat text eol=crlf\n"), ("a.bat", "1\n")]);
    let to = world.commit(&dir, &[("a.bat", "1\n2\n"), ("b.bat", "3\n")]);
    move_and_compare(&world, &dir, &from, &to).unwrap();
    assert_eq!(std::fs::read(dir.join("a.bat")).unwrap(), b"1\r\n2\r\n");
    assert_eq!(std::fs::read(dir.join("b.bat")).unwrap(), b"3\r\n");
}

#[test]
fn what_is_not_plain_files_is_left_to_git() {
    type Act<'a> = &'a dyn Fn(&Utf8PathBuf);
    let acts: [Act<'_>; 4] = [
        &|dir| symlink("a.txt", dir.join("link")).unwrap(),
        &|dir| write(&dir.join(".gitattributes"), "* text\n"),
        &|dir| {
            std::fs::remove_file(dir.join("a.txt")).unwrap();
            write(&dir.join("a.txt/below"), "x");
        },
        &|dir| {
            for number in 0..=FEW {
                write(&dir.join(format!("many/{number}")), "x");
            }
        },
    ];
    for act in acts {
        let world = World::new();
        let dir = world.repository("r");
        let from = world.id(&dir, "HEAD");
        act(&dir);
        let to = world.commit(&dir, &[]);
        assert!(move_and_compare(&world, &dir, &from, &to).is_err());
    }
}

#[test]
fn a_directory_in_the_place_of_a_file_is_never_removed() {
    let world = World::new();
    let dir = world.repository("r");
    let from = world.id(&dir, "HEAD");
    let to = world.commit(&dir, &[("cache", "a file")]);
    world.git(&dir, &["checkout", "-q", "--detach", from.as_str()]);
    write(&dir.join("cache/warm"), "w");
    assert!(move_only(&world, &dir, &from, &to).is_err());
    assert!(dir.join("cache/warm").exists());
}
