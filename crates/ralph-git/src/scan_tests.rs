use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use camino::Utf8Path;

use super::super::Oid;
use super::super::testing::{World, write};
use super::*;

/// A repository whose index is newer than its files.
fn settled(world: &World) -> camino::Utf8PathBuf {
    let dir = world.repository("r");
    let files = [("a.b", "1"), ("a/b", "2"), ("a/c/d", "3"), ("a0", "4"), ("home/x/y", "5")];
    world.commit(&dir, &files);
    date_index(&dir);
    dir
}

fn date_index(dir: &Utf8Path) {
    let later = SystemTime::now() + Duration::from_secs(10);
    fs::File::options()
        .write(true)
        .open(dir.join(".git/index"))
        .unwrap()
        .set_modified(later)
        .unwrap();
}

fn index(dir: &Utf8Path) -> Result<IndexFile, Unfit> {
    IndexFile::read(dir.join(".git/index").as_std_path(), Kind::Sha1)
}

fn scan(dir: &Utf8Path, but: &[&str]) -> TreeScan {
    let but: Vec<PathBuf> = but.iter().map(PathBuf::from).collect();
    let part = Part { but: &but, ..Part::default() };
    let mut found = index(dir).unwrap().scan(dir.as_std_path(), &part).unwrap();
    found.unsure.sort();
    found.others.sort();
    found
}

fn paths(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}

#[test]
fn a_tree_as_it_was_checked_out_is_clean() {
    let world = World::new();
    let dir = settled(&world);
    assert!(scan(&dir, &[]).is_clean());
}

#[test]
fn whatever_is_done_to_a_file_is_seen() {
    type Act<'a> = (&'a str, &'a dyn Fn(&Utf8Path), &'a [&'a str], &'a [&'a str]);
    let acts: [Act<'_>; 9] = [
        ("written", &|dir| write(&dir.join("a/b"), "9"), &["a/b"], &[]),
        (
            "written, with its time put back",
            &|dir| {
                let then = fs::metadata(dir.join("a/b")).unwrap().modified().unwrap();
                write(&dir.join("a/b"), "9");
                let file = fs::File::options().write(true).open(dir.join("a/b")).unwrap();
                file.set_modified(then).unwrap();
            },
            &["a/b"],
            &[],
        ),
        ("removed", &|dir| fs::remove_file(dir.join("a/c/d")).unwrap(), &["a/c/d"], &[]),
        (
            "a directory removed",
            &|dir| fs::remove_dir_all(dir.join("a")).unwrap(),
            &["a/b", "a/c/d"],
            &[],
        ),
        (
            "one removed, another made",
            &|dir| {
                fs::remove_file(dir.join("a0")).unwrap();
                write(&dir.join("new"), "n");
            },
            &["a0"],
            &["new"],
        ),
        ("made", &|dir| write(&dir.join("a/c/new"), "n"), &[], &["a/c/new"]),
        ("a directory made", &|dir| write(&dir.join("a/n/e/w"), "n"), &[], &["a/n"]),
        (
            "executable",
            &|dir| fs::set_permissions(dir.join("a0"), fs::Permissions::from_mode(0o755)).unwrap(),
            &["a0"],
            &[],
        ),
        (
            "a repository inside",
            &|dir| write(&dir.join("home/.git/config"), ""),
            &[],
            &["home/.git"],
        ),
    ];
    for (what, act, unsure, others) in acts {
        let world = World::new();
        let dir = settled(&world);
        act(&dir);
        let found = scan(&dir, &[]);
        assert_eq!((found.unsure, found.others), (paths(unsure), paths(others)), "{what}");
    }
}

#[test]
fn what_is_left_out_is_not_looked_at_and_what_is_beside_it_is() {
    let world = World::new();
    let dir = settled(&world);
    write(&dir.join("home/x/y"), "changed");
    write(&dir.join("made/cache/deep"), "c");
    write(&dir.join("made/beside"), "b");
    write(&dir.join("made/cached"), "b");
    let found = scan(&dir, &["home", "made/cache"]);
    assert_eq!(found, TreeScan { unsure: vec![], others: paths(&["made/beside", "made/cached"]) });
    let within = Part { within: Some("home/x".as_ref()), ..Part::default() };
    let only = index(&dir).unwrap().scan(dir.as_std_path(), &within).unwrap();
    assert_eq!(only, TreeScan { unsure: paths(&["home/x/y"]), others: vec![] });
}

#[test]
fn what_is_tracked_in_a_kept_directory_is_looked_at_and_nothing_else_in_it() {
    let world = World::new();
    let dir = settled(&world);
    write(&dir.join("a/made"), "m");
    write(&dir.join("a/c/made"), "m");
    write(&dir.join("a/c/d"), "changed");
    let kept = paths(&["a"]);
    let part = Part { kept: &kept, ..Part::default() };
    let found = index(&dir).unwrap().scan(dir.as_std_path(), &part).unwrap();
    assert_eq!(found, TreeScan { unsure: paths(&["a/c/d"]), others: vec![] });
}

#[test]
fn a_link_in_place_of_a_directory_is_left_to_git() {
    let world = World::new();
    let dir = settled(&world);
    fs::rename(dir.join("a"), dir.join("elsewhere")).unwrap();
    symlink("elsewhere", dir.join("a")).unwrap();
    assert!(index(&dir).unwrap().scan(dir.as_std_path(), &Part::default()).is_err());
}

#[test]
fn what_may_have_changed_with_the_index_is_compared_by_content() {
    let world = World::new();
    let dir = settled(&world);
    let then = fs::metadata(dir.join("a0")).unwrap().modified().unwrap();
    let file = fs::File::options().write(true).open(dir.join(".git/index")).unwrap();
    file.set_modified(then).unwrap();
    let index = index(&dir).unwrap();
    let mut found = index.scan(dir.as_std_path(), &Part::default()).unwrap();
    assert!(found.unsure.contains(&"a0".into()), "{found:?}");
    index.confirm(dir.as_std_path(), &mut found, Kind::Sha1);
    assert!(found.is_clean(), "{found:?}");
    write(&dir.join("a0"), "5");
    let mut found = index.scan(dir.as_std_path(), &Part::default()).unwrap();
    index.confirm(dir.as_std_path(), &mut found, Kind::Sha1);
    assert_eq!(found.unsure, paths(&["a0"]));
}

#[test]
fn an_index_that_says_more_is_left_to_git() {
    let odd: [&[&str]; 5] = [
        &["update-index", "--index-version", "4"],
        &["update-index", "--assume-unchanged", "a0"],
        &["update-index", "--skip-worktree", "a0"],
        &["update-index", "--split-index"],
        &[
            "update-index",
            "--add",
            "--cacheinfo",
            "160000,0123456789012345678901234567890123456789,sub",
        ],
    ];
    for args in odd {
        let world = World::new();
        let dir = settled(&world);
        world.git(&dir, args);
        assert!(index(&dir).is_err(), "{args:?}");
    }
    let world = World::new();
    let dir = settled(&world);
    let whole = fs::read(dir.join(".git/index")).unwrap();
    for end in 0..whole.len() {
        // Truncated anywhere it is not an index, or at least does not cause a panic.
        fs::write(dir.join(".git/index"), &whole[..end]).unwrap();
        let _ = index(&dir);
    }
}

#[test]
fn the_index_knows_trees_until_something_below_is_staged() {
    let world = World::new();
    let dir = settled(&world);
    let tree = |path: &str| index(&dir).unwrap().trees().get(path.as_bytes()).map(Oid::of);
    assert_eq!(tree(""), Some(world.id(&dir, "HEAD^{tree}")));
    assert_eq!(tree("home/x"), Some(world.id(&dir, "HEAD:home/x")));
    assert_eq!(tree("none"), None);
    world.git(&dir, &["rm", "-q", "--cached", "a/b"]);
    assert_eq!((tree(""), tree("a")), (None, None));
    assert_eq!(tree("home"), Some(world.id(&dir, "HEAD:home")));
}
