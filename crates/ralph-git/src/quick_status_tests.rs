use std::fs;
use std::os::unix::fs::symlink;

use camino::Utf8Path;

use super::super::pathspec;
use super::super::testing::{World, write};
use super::*;

type Act<'a> = (&'a str, &'a dyn Fn(&World, &Utf8Path));

const ACTS: [Act<'static>; 16] = [
    ("nothing", &|_, _| {}),
    ("changed", &|_, dir| write(&dir.join("src/lib.rs"), "other\n")),
    ("changed in home", &|_, dir| write(&dir.join("tools/home/x"), "other\n")),
    ("removed", &|_, dir| fs::remove_file(dir.join("a.txt")).unwrap()),
    ("staged", &|world, dir| {
        write(&dir.join("src/lib.rs"), "other\n");
        world.git(dir, &["add", "src/lib.rs"]);
    }),
    ("staged in home", &|world, dir| {
        write(&dir.join("tools/home/x"), "other\n");
        world.git(dir, &["add", "-A"]);
    }),
    ("staged and put back", &|world, dir| {
        write(&dir.join("a.txt"), "other\n");
        world.git(dir, &["add", "a.txt"]);
        write(&dir.join("a.txt"), "a\n");
    }),
    ("no longer tracked", &|world, dir| drop(world.git(dir, &["rm", "-q", "--cached", "a.txt"]))),
    ("staged as removed", &|world, dir| drop(world.git(dir, &["rm", "-q", "src/lib.rs"]))),
    ("new", &|_, dir| write(&dir.join("new"), "n")),
    ("new in home", &|_, dir| write(&dir.join("tools/home/new"), "n")),
    ("new in a new directory", &|_, dir| write(&dir.join("dir/new"), "n")),
    ("ignored", &|_, dir| {
        write(&dir.join("x.log"), "n");
        write(&dir.join("tools/home/x.log"), "n");
        write(&dir.join("build/x"), "n");
    }),
    ("a link", &|_, dir| symlink("a.txt", dir.join("link")).unwrap()),
    ("a commit behind the index's back", &|world, dir| {
        let tree = world.git(dir, &["rev-parse", "HEAD~^{tree}"]);
        let commit = world.git(dir, &["commit-tree", "-m", "x", &tree]);
        world.git(dir, &["update-ref", "HEAD", &commit]);
    }),
    ("an empty directory", &|_, dir| fs::create_dir(dir.join("empty")).unwrap()),
];

fn prepared(world: &World) -> camino::Utf8PathBuf {
    let dir = world.repository("r");
    let files =
        [(".gitignore", "*.log\n/build/\n"), ("tools/home/x", "x\n"), ("tools/own.toml", "t\n")];
    world.commit(&dir, &files);
    dir
}

#[test]
fn whatever_it_says_git_says_too() {
    let own: Vec<PathBuf> = ["tools/home", "tools/own.toml"].map(PathBuf::from).into();
    let mut quick = Vec::new();
    for (what, act) in ACTS {
        let world = World::new();
        let dir = prepared(&world);
        act(&world, &dir);
        let git = world.open(&dir);
        let excluded = own.iter().map(|path| pathspec(":(top,literal,exclude)", path));
        let but: Vec<_> = std::iter::once(":(top)".into()).chain(excluded).collect();
        let within = Path::new("tools/home");
        let parts = [
            (Part::default(), vec![":(top)".into()]),
            (Part { but: &own, ..Part::default() }, but),
            (
                Part { within: Some(within), ..Part::default() },
                vec![pathspec(":(top,literal)", within)],
            ),
        ];
        for (number, (part, pathspecs)) in parts.iter().enumerate() {
            let told = git.status_of(pathspecs).unwrap();
            if let Some(status) = git.quick_status(part) {
                assert_eq!(status, told, "{what}, {number}");
                quick.push((what, number));
            }
        }
    }
    // It must not fall back in these cases.
    for what in ["nothing", "new", "new in home", "a link"] {
        assert!((0..3).all(|part| quick.contains(&(what, part))), "{what}: {quick:?}");
    }
    for what in ["changed in home", "staged in home"] {
        assert!(quick.contains(&(what, 1)), "{what}: {quick:?}");
    }
    assert!(quick.contains(&("changed", 2)) && quick.contains(&("ignored", 0)), "{quick:?}");
}

#[test]
fn without_a_commit_or_an_index_git_is_asked() {
    let world = World::new();
    let dir = world.path("empty");
    world.git(&world.root, &["init", "-q", dir.as_str()]);
    assert_eq!(world.open(&dir).quick_status(&Part::default()), None);
    let dir = prepared(&world);
    fs::remove_file(dir.join(".git/index")).unwrap();
    assert_eq!(world.open(&dir).quick_status(&Part::default()), None);
}

#[test]
fn among_some_files_all_that_is_staged_counts_and_nothing_else_is_looked_at() {
    let world = World::new();
    let dir = prepared(&world);
    let git = world.open(&dir);
    let home = Path::new("tools/home");
    let status = |among: &[&str]| {
        let among = among.iter().map(PathBuf::from).collect();
        let status = git.status_among(home, &among).unwrap();
        status.into_iter().map(|entry| entry.path).collect::<Vec<PathBuf>>()
    };
    let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<PathBuf>>();
    assert_eq!(status(&["tools/home/x", "tools/home/gone"]), paths(&[]));
    write(&dir.join("tools/home/new"), "n");
    write(&dir.join("tools/home/x.log"), "ignored");
    assert_eq!(status(&["tools/home/x"]), paths(&[]));
    let both = ["tools/home/new", "tools/home/x.log"];
    assert_eq!(status(&both), paths(&["tools/home/new"]));
    write(&dir.join("tools/home/x"), "other\n");
    assert_eq!(status(&["tools/home/x"]), paths(&["tools/home/x", "tools/home/new"]));
    world.git(&dir, &["add", "tools/home/x"]);
    assert_eq!(status(&[]), paths(&["tools/home/x", "tools/home/new"]));
}
