//! All kinds of repositories: index versions and extensions, layouts of refs and objects, clones and worktrees.

use camino::Utf8PathBuf;

use super::*;

/// A kind of repository, and whether it is handled in process.
struct Make {
    name: &'static str,
    in_process: bool,
    prepare: fn(&World) -> Utf8PathBuf,
}

fn plain(world: &World) -> Utf8PathBuf {
    let dir = world.repository("r");
    disorder(world, &dir);
    dir
}

fn initialised(world: &World, option: &str) -> Utf8PathBuf {
    let dir = world.path("r");
    world.git(&world.root, &["init", "-q", option, dir.as_str()]);
    world.commit(&dir, &[("a.txt", "a\n")]);
    disorder(world, &dir);
    dir
}

const MAKES: &[Make] = &[
    Make { name: "plain", in_process: true, prepare: plain },
    Make {
        name: "packed",
        in_process: true,
        prepare: |world| {
            let dir = plain(world);
            world.git(&dir, &["gc", "-q"]);
            dir
        },
    },
    Make {
        name: "detached",
        in_process: true,
        prepare: |world| {
            let dir = world.repository("r");
            world.git(&dir, &["checkout", "-q", "--detach"]);
            disorder(world, &dir);
            dir
        },
    },
    Make {
        name: "a branch in a directory",
        in_process: true,
        prepare: |world| {
            let dir = world.repository("r");
            world.git(&dir, &["checkout", "-q", "-b", "a/b/c"]);
            disorder(world, &dir);
            world.git(&dir, &["pack-refs", "--all"]);
            dir
        },
    },
    Make {
        name: "linked worktree",
        in_process: true,
        prepare: |world| {
            let main = world.repository("main");
            let dir = world.path("linked");
            world.git(&main, &["worktree", "add", "-q", "-b", "side", dir.as_str()]);
            disorder(world, &dir);
            dir
        },
    },
    Make {
        name: "submodule",
        in_process: true,
        prepare: |world| {
            let (inner, outer) = (world.repository("inner"), world.repository("outer"));
            world.git(&outer, &["submodule", "--quiet", "add", inner.as_str(), "sub"]);
            let dir = outer.join("sub");
            assert!(dir.join(".git").is_file());
            disorder(world, &dir);
            dir
        },
    },
    Make {
        name: "shallow clone",
        in_process: true,
        prepare: |world| {
            let origin = world.repository("origin");
            world.commit(&origin, &[("more", "1")]);
            let dir = world.path("shallow");
            let url = format!("file://{origin}");
            world.git(&world.root, &["clone", "-q", "--depth", "1", &url, dir.as_str()]);
            disorder(world, &dir);
            dir
        },
    },
    Make {
        name: "alternates",
        in_process: true,
        prepare: |world| {
            let origin = world.repository("origin");
            let dir = world.path("shared");
            world.git(&world.root, &["clone", "-q", "--shared", origin.as_str(), dir.as_str()]);
            disorder(world, &dir);
            dir
        },
    },
    Make {
        name: "sha256",
        in_process: true,
        prepare: |world| initialised(world, "--object-format=sha256"),
    },
    Make {
        name: "reftable",
        in_process: false,
        prepare: |world| initialised(world, "--ref-format=reftable"),
    },
    Make {
        name: "index of version 4",
        in_process: true,
        prepare: |world| {
            let dir = plain(world);
            world.git(&dir, &["update-index", "--index-version", "4"]);
            assert_eq!(index_of(&dir)[7], 4);
            dir
        },
    },
    Make {
        name: "untracked cache",
        in_process: true,
        prepare: |world| {
            let dir = plain(world);
            world.git(&dir, &["update-index", "--force-untracked-cache"]);
            status(world, &dir);
            assert!(memchr::memmem::find(&index_of(&dir), b"UNTR").is_some());
            dir
        },
    },
    Make {
        name: "index with offsets",
        in_process: true,
        prepare: |world| {
            let dir = plain(world);
            world.git(&dir, &["config", "index.recordEndOfIndexEntries", "true"]);
            world.git(&dir, &["config", "index.recordOffsetTable", "true"]);
            world.git(&dir, &["update-index", "--force-write-index"]);
            assert!(memchr::memmem::find(&index_of(&dir), b"EOIE").is_some());
            dir
        },
    },
    Make {
        name: "index without a checksum",
        in_process: true,
        prepare: |world| {
            let dir = plain(world);
            world.git(&dir, &["config", "index.skipHash", "true"]);
            world.git(&dir, &["update-index", "--force-write-index"]);
            assert!(index_of(&dir).ends_with(&[0; 20]));
            dir
        },
    },
    Make {
        name: "split index",
        in_process: false,
        prepare: |world| {
            let dir = plain(world);
            world.git(&dir, &["update-index", "--split-index"]);
            assert!(memchr::memmem::find(&index_of(&dir), b"link").is_some());
            dir
        },
    },
    Make {
        name: "sparse index",
        in_process: true,
        prepare: |world| {
            let dir = world.repository("r");
            world.commit(&dir, &[(PLAN, "1\n"), ("out/side/file", "1")]);
            world.git(&dir, &["sparse-checkout", "init", "--cone", "--sparse-index"]);
            world.git(&dir, &["sparse-checkout", "set", "ralph"]);
            assert!(memchr::memmem::find(&index_of(&dir), b"sdir").is_some());
            write(&dir.join("staged"), "new\n");
            world.git(&dir, &["add", "staged"]);
            dir
        },
    },
    Make {
        name: "shared by a group",
        in_process: false,
        prepare: |world| {
            let dir = plain(world);
            world.git(&dir, &["config", "core.sharedRepository", "group"]);
            dir
        },
    },
];

#[test]
fn every_make_of_repository_is_committed_to_and_left_in_order_by_both_ways() {
    for Make { name, prepare, .. } in MAKES {
        for (way, commit) in WAYS {
            let world = World::new();
            let dir = prepare(&world);
            let case = format!("{name}, {way}");
            let rounds = if way == "git" { 1 } else { 3 };
            for content in &["1\n2\n", "1\n2\n3\n", "1\n3\n"][..rounds] {
                commit_and_check(&world, &dir, commit, content, &case);
            }
        }
    }
}

#[test]
fn what_can_be_done_in_process_is_and_the_index_keeps_its_make() {
    for Make { name, in_process, prepare } in MAKES {
        let world = World::new();
        let dir = prepare(&world);
        let git = world.open(&dir);
        write(&dir.join(PLAN), "1\n2\n");
        let index = git.place().git_dir.join("index");
        let before = fs::read(&index).unwrap();
        let made = commit_in_process(&git, &request(&plan(), "x"));
        match made {
            Ok(made) => assert!(*in_process && made.is_some(), "{name}"),
            Err(Setback::Unfit(_)) => assert!(!in_process, "{name}: {made:?}"),
            Err(Setback::Refused(_)) => panic!("{name}: {made:?}"),
        }
        if !in_process {
            assert_eq!(fs::read(&index).unwrap(), before, "{name}");
            continue;
        }
        let after = fs::read(&index).unwrap();
        assert_eq!(after[..12], before[..12], "{name}");
        for part in ["TREE", "UNTR", "EOIE", "IEOT", "sdir"] {
            let has = |bytes: &[u8]| memchr::memmem::find(bytes, part.as_bytes()).is_some();
            assert_eq!(has(&after), has(&before), "{name}: {part}");
        }
    }
}

#[test]
fn the_trees_that_the_index_remembers_are_true_after_a_commit() {
    for (way, commit) in WAYS {
        let world = World::new();
        let dir = world.repository("r");
        world.commit(&dir, &[(PLAN, "1\n"), ("ralph/below/x", "1"), ("z/y/x", "1"), ("A/b", "1")]);
        world.git(&dir, &["write-tree"]);
        commit_and_check(&world, &dir, commit, "2\n", way);
        assert_eq!(world.id(&dir, "HEAD^{tree}").as_str(), world.git(&dir, &["write-tree"]));
        world.git(&dir, &["fsck", "--cache", "--strict"]);
    }
}

#[test]
fn an_unborn_branch_gets_its_first_commit_beside_what_is_staged() {
    for (way, commit) in WAYS {
        for staged in [false, true] {
            let world = World::new();
            let dir = world.path("r");
            world.git(&world.root, &["init", "-q", "-b", "deep/er", dir.as_str()]);
            if staged {
                write(&dir.join("staged"), "1");
                write(&dir.join("z"), "1");
                world.git(&dir, &["add", "."]);
            }
            commit_and_check(&world, &dir, commit, "1\n", way);
            commit_and_check(&world, &dir, commit, "2\n", way);
            assert_eq!(world.git(&dir, &["rev-list", "--count", "HEAD"]), "2");
        }
    }
}
