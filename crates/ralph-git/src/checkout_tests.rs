use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use super::super::testing::{World, read, write};
use super::*;

struct Bench {
    world: World,
    dir: Utf8PathBuf,
    git: Git,
    mirror: Mirror,
}

impl Bench {
    fn new() -> Self {
        let world = World::new();
        let dir = world.repository("r");
        let git = world.open(&dir);
        let mirror = Mirror::open(&world.program(), &world.path("mirror"), &git).unwrap();
        Bench { world, dir, git, mirror }
    }

    fn prepare(&self, commit: &Oid, caches: &[&str]) -> Result<Checkout, CheckoutError> {
        self.mirror.fill(&self.git, &[]).unwrap();
        let caches: Vec<Utf8PathBuf> = caches.iter().map(Utf8PathBuf::from).collect();
        Checkout::prepare(&self.mirror, &self.world.path("gate"), commit, &caches)
    }

    /// Prepares, and checks that the tree is exactly the commit's.
    fn exactly(&self, commit: &Oid, caches: &[&str]) -> Checkout {
        let checkout = self.prepare(commit, caches).unwrap();
        let tree = checkout.worktree();
        assert_eq!(self.world.head(tree), *commit);
        let status = self.world.git(tree, &["status", "--porcelain", "--ignored", "-uall"]);
        let foreign: Vec<&str> = status
            .lines()
            .filter(|line| !caches.iter().any(|cache| line[3..].starts_with(cache)))
            .collect();
        assert_eq!(foreign, Vec::<&str>::new());
        checkout
    }
}

#[test]
fn a_checkout_is_made_and_goes_back_and_forth_between_commits() {
    let bench = Bench::new();
    let first = bench.world.head(&bench.dir);
    std::fs::remove_file(bench.dir.join("a.txt")).unwrap();
    let second = bench.world.commit(&bench.dir, &[("a.txt/now/a/dir", "1"), ("src/x.rs", "2")]);
    let checkout = bench.exactly(&first, &[]);
    assert_eq!(read(&checkout.worktree().join("a.txt")), "a\n");
    assert!(!checkout.git_dir().starts_with(checkout.worktree()));
    for _ in 0..2 {
        let checkout = bench.exactly(&second, &[]);
        assert_eq!(read(&checkout.worktree().join("a.txt/now/a/dir")), "1");
        bench.exactly(&first, &[]);
    }
    assert_eq!(bench.world.git(&bench.dir, &["status", "--porcelain"]), "");
}

#[test]
fn what_a_gate_left_vanishes_also_if_the_commit_ignores_it() {
    let bench = Bench::new();
    let commit = bench.world.commit(&bench.dir, &[(".gitignore", "conftest.py\n*.o\nvenv/\n")]);
    let tree = bench.exactly(&commit, &[]).worktree().to_owned();
    write(&tree.join("conftest.py"), "planted");
    write(&tree.join("venv/bin/python"), "planted");
    write(&tree.join("src/deep/left.o"), "planted");
    write(&tree.join("nested/.git/HEAD"), "ref: refs/heads/x");
    std::fs::create_dir_all(tree.join("empty/dir")).unwrap();
    write(&tree.join("a.txt"), "changed");
    std::fs::remove_dir_all(tree.join("src")).unwrap();
    symlink("/etc", tree.join("src")).unwrap();
    let odd = std::os::unix::ffi::OsStringExt::from_vec(b"\xff.o".to_vec());
    let odd: std::ffi::OsString = odd;
    std::fs::write(tree.as_std_path().join(odd), "planted").unwrap();
    bench.exactly(&commit, &[]);
    assert_eq!(read(&tree.join("a.txt")), "a\n");
    assert!(!tree.join("empty").exists() && !tree.join("nested").exists());
    let left: Vec<String> =
        tree.read_dir_utf8().unwrap().map(|entry| entry.unwrap().file_name().to_owned()).collect();
    assert_eq!(left.len(), 4, "{left:?}");
}

#[test]
fn named_caches_stay_and_their_namesakes_elsewhere_do_not() {
    let bench = Bench::new();
    let first = bench.world.head(&bench.dir);
    let second = bench.world.commit(&bench.dir, &[("b", "1")]);
    let caches = ["target", "web/node_modules", "odd [a]*"];
    let checkout = bench.exactly(&first, &caches);
    assert_eq!(checkout.warm_caches(), [] as [Utf8PathBuf; 0]);
    let tree = checkout.worktree().to_owned();
    for cache in caches {
        write(&tree.join(cache).join("kept"), "1");
    }
    write(&tree.join("src/target/conftest.py"), "planted");
    write(&tree.join("web/other"), "planted");
    write(&tree.join("odd ax/planted"), "planted");
    let checkout = bench.prepare(&second, &caches).unwrap();
    assert_eq!(checkout.warm_caches(), caches.map(Utf8PathBuf::from));
    for gone in ["src/target", "web/other", "odd ax"] {
        assert!(!tree.join(gone).exists(), "{gone}");
    }
    assert_eq!(read(&tree.join("web/node_modules/kept")), "1");
    // Another program wrote the index: everything is checked out again, but the caches are kept.
    bench.world.git(&tree, &["update-index", "--assume-unchanged", "a.txt"]);
    write(&tree.join("a.txt"), "hidden");
    write(&tree.join("web/other"), "planted");
    bench.prepare(&second, &caches).unwrap();
    assert_eq!(read(&tree.join("a.txt")), "a\n");
    assert!(!tree.join("web/other").exists());
    assert_eq!(read(&tree.join("web/node_modules/kept")), "1");
}

#[test]
fn a_link_in_the_place_of_a_cache_is_not_followed_and_not_kept() {
    let bench = Bench::new();
    let first = bench.world.head(&bench.dir);
    let precious = bench.world.path("precious");
    write(&precious.join("file"), "mine");
    symlink(&precious, bench.dir.join("target")).unwrap();
    symlink(&precious, bench.dir.join("web")).unwrap();
    let linked = bench.world.commit(&bench.dir, &[]);
    let caches = ["target", "web/cache"];
    let tree = bench.exactly(&first, &caches).worktree().to_owned();
    write(&tree.join("target/kept"), "1");
    write(&tree.join("web/cache/kept"), "1");
    // The commit has symlinks at the paths of caches: the caches are removed.
    let checkout = bench.exactly(&linked, &caches);
    assert_eq!(checkout.warm_caches(), [] as [Utf8PathBuf; 0]);
    assert!(std::fs::symlink_metadata(tree.join("target")).unwrap().is_symlink());
    std::fs::create_dir(precious.join("cache")).unwrap();
    assert_eq!(bench.exactly(&linked, &caches).warm_caches(), [] as [Utf8PathBuf; 0]);
    // A gate created symlinks at the paths of caches: they are removed.
    bench.exactly(&first, &caches);
    symlink(&precious, tree.join("target")).unwrap();
    symlink(&precious, tree.join("web")).unwrap();
    bench.exactly(&first, &caches);
    assert!(std::fs::symlink_metadata(tree.join("target")).is_err());
    assert_eq!(read(&precious.join("file")), "mine");
    for wrong in ["", "..", "/etc", "a/../b", ".git", ".GIT/x"] {
        let error = bench.prepare(&first, &[wrong]).unwrap_err();
        assert!(matches!(error, CheckoutError::CacheName { .. }), "{wrong}: {error:?}");
    }
}

#[test]
fn a_git_directory_that_a_gate_tampered_with_is_made_anew() {
    let bench = Bench::new();
    let commit = bench.world.head(&bench.dir);
    let other = bench.world.repository("other");
    let checkout = bench.exactly(&commit, &[]);
    let (tree, git_dir) = (checkout.worktree().to_owned(), checkout.git_dir().to_owned());
    write(&tree.join(".git"), &format!("gitdir: {other}/.git\n"));
    bench.exactly(&commit, &[]);
    std::fs::remove_file(tree.join(".git")).unwrap();
    write(&tree.join(".git/HEAD"), "ref: refs/heads/x\n");
    bench.exactly(&commit, &[]);
    bench.world.git(&tree, &["config", "core.fsmonitor", "/bin/false"]);
    write(&tree.join("staged"), "1");
    bench.world.git(&tree, &["add", "-A"]);
    bench.exactly(&commit, &[]);
    assert!(!read(&git_dir.join("config")).contains("fsmonitor"));
    std::fs::remove_dir_all(&git_dir).unwrap();
    bench.exactly(&commit, &[]);
}

#[test]
fn directories_without_rights_are_removed_all_the_same() {
    let bench = Bench::new();
    let commit = bench.world.head(&bench.dir);
    let tree = bench.exactly(&commit, &[]).worktree().to_owned();
    write(&tree.join("locked/inner/file"), "1");
    write(&tree.join("src/left"), "1");
    for dir in ["locked/inner", "locked", "src"] {
        std::fs::set_permissions(tree.join(dir), Permissions::from_mode(0o500)).unwrap();
    }
    bench.exactly(&commit, &[]);
    assert!(!tree.join("locked").exists());
    unlock(tree.as_std_path(), &[]).unwrap();
    let mode = std::fs::metadata(tree.join("src")).unwrap().permissions().mode();
    assert_eq!(mode & 0o700, 0o700);
}

#[test]
fn what_setup_must_fill_in_is_named_and_its_key_follows_the_lock_files() {
    let bench = Bench::new();
    let plain = bench.world.head(&bench.dir);
    let first = bench.exactly(&plain, &[]).provision().clone();
    assert_eq!((first.needs_lfs, first.submodules.len()), (false, 0));
    let source = bench.world.commit(&bench.dir, &[("src/lib.rs", "changed")]);
    assert_eq!(bench.exactly(&source, &[]).provision().setup_key, first.setup_key);
    let locked = bench.world.commit(&bench.dir, &[("web/package-lock.json", "{}")]);
    let second = bench.exactly(&locked, &[]).provision().clone();
    assert_ne!(second.setup_key, first.setup_key);

    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n";
    let lfs = [("assets/.gitattributes", "*.bin filter=lfs -text\n"), ("assets/x.bin", pointer)];
    let lfs = bench.world.commit(&bench.dir, &lfs);
    let other = bench.world.repository("other");
    bench.world.git(&bench.dir, &["submodule", "--quiet", "add", other.as_str(), "sub"]);
    let whole = bench.world.commit(&bench.dir, &[]);
    assert!(bench.exactly(&lfs, &[]).provision().needs_lfs);
    let checkout = bench.exactly(&whole, &[]);
    assert_eq!(checkout.provision().submodules, [PathBuf::from("sub")]);
    assert_eq!(read(&checkout.worktree().join("assets/x.bin")), pointer);
    assert_ne!(checkout.provision().setup_key, second.setup_key);
}

#[test]
fn a_commit_that_the_mirror_lacks_is_an_error() {
    let bench = Bench::new();
    let nothing = Oid::parse("1".repeat(40).as_bytes()).unwrap();
    assert!(matches!(bench.prepare(&nothing, &[]), Err(CheckoutError::Git { .. })));
}

#[test]
fn a_file_that_both_commits_have_is_not_written_again() {
    let bench = Bench::new();
    let first = bench.world.head(&bench.dir);
    let second = bench.world.commit(&bench.dir, &[("src/lib.rs", "changed\n")]);
    let tree = bench.exactly(&first, &[]).worktree().to_owned();
    // Querying it has refreshed the index; from here on only `prepare` writes it.
    bench.prepare(&first, &[]).unwrap();
    let inode = || std::fs::metadata(tree.join("a.txt")).unwrap().ino();
    let before = inode();
    bench.prepare(&second, &[]).unwrap();
    assert_eq!(inode(), before);
    assert_eq!(read(&tree.join("src/lib.rs")), "changed\n");
}

#[test]
fn submodules_and_large_files_are_filled_from_the_persons_side_each_time() {
    let bench = Bench::new();
    let world = &bench.world;
    let other = world.repository("other");
    world.git(&bench.dir, &["submodule", "--quiet", "add", other.as_str(), "sub"]);
    let pointer = |content: &str| lfs_pointer(content);
    let (persons, agents) = ("a large file\n", "an agent's large file\n");
    let store = |git_dir: &Utf8Path, content: &str, bytes: &str| {
        let id = pointer(content).lines().nth(1).unwrap()["oid sha256:".len()..].to_owned();
        let path = format!("lfs/objects/{}/{}/{id}", &id[..2], &id[2..4]);
        write(&git_dir.join(path), bytes);
    };
    let (person_dir, clone_dir) = (bench.dir.join(".git"), world.path("clone.git"));
    store(&person_dir, persons, persons);
    store(&clone_dir, agents, agents);
    store(&clone_dir, "forged\n", "FORGED\n");
    let commit = world.commit(
        &bench.dir,
        &[
            (".gitattributes", "*.bin filter=lfs -text\n"),
            ("mine.bin", &*pointer(persons)),
            ("new.bin", &*pointer(agents)),
            ("forged.bin", &*pointer("forged\n")),
        ],
    );
    world.git(&bench.dir, &["config", "--global", "filter.lfs.smudge", "git-lfs smudge -- %f"]);
    // No network and no remote.
    std::fs::remove_dir_all(&other).unwrap();
    for _ in 0..3 {
        let checkout = bench.prepare(&commit, &[]).unwrap();
        let tree = checkout.worktree();
        let source =
            FillSource { mirror: &bench.mirror, person: &bench.git, clone: Some(&clone_dir) };
        let unfilled = checkout.fill(&source).unwrap();
        assert_eq!(unfilled.lfs, [PathBuf::from("forged.bin")]);
        assert!(unfilled.submodules.is_empty());
        assert_eq!(read(&tree.join("mine.bin")), persons);
        assert_eq!(read(&tree.join("new.bin")), agents);
        assert_eq!(read(&tree.join("sub/a.txt")), "a\n");
        assert_eq!(world.git(tree, &["status", "--porcelain", "--ignored", "-uall"]), "");
        assert!(!tree.join("sub/planted").exists());
        // A gate's changes there are not kept.
        write(&tree.join("mine.bin"), "changed");
        write(&tree.join("sub/a.txt"), "changed");
        write(&tree.join("sub/planted"), "x");
        write(&tree.join("sub/.git"), "gitdir: /nowhere\n");
    }
}

/// The pointer to a content, as LFS commits it.
fn lfs_pointer(content: &str) -> String {
    use sha2::Digest;
    let oid = super::super::oid::hex(&sha2::Sha256::digest(content.as_bytes()));
    let size = content.len();
    format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n")
}
