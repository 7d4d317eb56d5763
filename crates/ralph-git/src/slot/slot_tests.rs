use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::super::testing::{World, read, write};
use super::*;

pub(super) struct Bench {
    pub(super) world: World,
    /// The person's checkout.
    pub(super) person: Utf8PathBuf,
    pub(super) mirror: Mirror,
    pub(super) slot: Utf8PathBuf,
}

impl Bench {
    pub(super) fn new() -> Self {
        let world = World::new();
        let person = world.repository("r");
        Self::of(world, person)
    }

    pub(super) fn of(world: World, person: Utf8PathBuf) -> Self {
        let mirror =
            Mirror::open(&world.program(), &world.path("mirror"), &world.open(&person)).unwrap();
        let slot = world.path("slots/1/r");
        Bench { world, person, mirror, slot }
    }

    pub(super) fn try_prepare(
        &self,
        base: &Oid,
        caches: &[&str],
        exclude: &[&str],
    ) -> Result<(Slot, Unfilled), SlotError> {
        let git = self.world.open(&self.person);
        let refs = self.mirror.fill(&git, &[]).unwrap();
        let caches: Vec<Utf8PathBuf> = caches.iter().map(Utf8PathBuf::from).collect();
        let exclude: Vec<PathBuf> = exclude.iter().map(PathBuf::from).collect();
        let branch = branch_for(&ItemKey::new("0001-item"), &refs);
        let main = refs.id_of("refs/heads/main").cloned();
        Slot::prepare(&SlotRequest {
            directory: &self.slot,
            private: &self.private(),
            mirror: &self.mirror,
            person: &git,
            refs: &refs,
            base,
            branch: &branch,
            run_branch: main.as_ref().map(|id| ("refs/heads/main", id)),
            caches: &caches,
            exclude: &exclude,
        })
    }

    pub(super) fn prepare(&self, base: &Oid) -> Slot {
        self.try_prepare(base, &[], &[]).unwrap().0
    }

    pub(super) fn private(&self) -> Utf8PathBuf {
        self.world.path("private/1")
    }

    pub(super) fn reopen(&self) -> Result<Option<Slot>, SlotError> {
        Slot::open(&self.world.program(), &self.slot, &self.private())
    }

    /// Asserts that the slot's files are exactly those of a commit.
    pub(super) fn is_exactly(&self, commit: &Oid, but: &[&str]) {
        assert_eq!(self.world.head(&self.slot), *commit);
        let status = self.world.git(&self.slot, &["status", "--porcelain", "--ignored", "-uall"]);
        let foreign = |line: &&str| !but.iter().any(|cache| line[3..].starts_with(cache));
        let foreign: Vec<&str> = status.lines().filter(foreign).collect();
        assert_eq!(foreign, Vec::<&str>::new());
        // The index is correct: with an empty one the files are the same.
        std::fs::remove_file(self.slot.join(".git/index")).unwrap();
        self.world.git(&self.slot, &["read-tree", "HEAD"]);
        assert_eq!(self.world.git(&self.slot, &["diff", "HEAD", "--stat"]), "");
    }
}

/// An agent's action on its slot.
type Deed = (&'static str, fn(&Bench));

fn make_executable(path: &Utf8Path) {
    std::fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_slot_has_what_the_person_has_by_name_and_pushes_nowhere() {
    let bench = Bench::new();
    let (world, person) = (&bench.world, &bench.person);
    let origin = world.path("origin.git");
    world.git(&world.root, &["init", "-q", "--bare", origin.as_str()]);
    world.git(person, &["remote", "add", "origin", origin.as_str()]);
    world.git(person, &["remote", "add", "odd'name", "../elsewhere.git"]);
    world.git(person, &["push", "-q", "-u", "origin", "main"]);
    world.git(person, &["remote", "set-head", "origin", "main"]);
    world.git(person, &["tag", "light"]);
    world.git(person, &["tag", "-a", "-m", "annotated", "v1"]);
    world.git(person, &["branch", "private-branch"]);
    world.git(person, &["config", "user.name", "Per Project"]);
    write(&person.join(".git/info/exclude"), "scratch/\n");
    let hook = person.join(".git/hooks/pre-commit");
    write(&hook, "#!/bin/sh\ntouch hook-ran\n");
    make_executable(&hook);
    let base = world.head(person);
    let slot = bench.prepare(&base);
    bench.is_exactly(&base, &[]);
    let at = |args: &[&str]| world.git(&bench.slot, args);
    assert_eq!(slot.branch(), "refs/heads/ralph/0001-item");
    assert_eq!(at(&["symbolic-ref", "HEAD"]), slot.branch());
    assert_eq!(
        at(&["rev-parse", "main", "origin/main", "light", "v1^{commit}"]).lines().count(),
        4
    );
    assert_eq!(at(&["cat-file", "-t", "v1"]), "tag");
    assert_eq!(at(&["symbolic-ref", "refs/remotes/origin/HEAD"]), "refs/remotes/origin/main");
    assert_eq!(at(&["rev-parse", "--abbrev-ref", "main@{upstream}"]), "origin/main");
    assert!(world.try_git(&bench.slot, &["rev-parse", "--verify", "private-branch"]).is_err());
    assert_eq!(at(&["remote", "get-url", "origin"]), origin.as_str());
    let relative = person.join("../elsewhere.git");
    assert_eq!(at(&["remote", "get-url", "odd'name"]), relative.as_str());
    assert_eq!(at(&["config", "user.name"]), "Per Project");
    // Hooks exist and run for the agent.
    write(&bench.slot.join("work"), "1");
    write(&bench.slot.join("scratch/x"), "1");
    at(&["add", "-A"]);
    at(&["commit", "-q", "-m", "work"]);
    assert!(bench.slot.join("hook-ran").exists());
    assert_eq!(at(&["ls-files", "scratch"]), "");
    for target in ["origin", origin.as_str(), "https://example.org/x.git", "../../origin.git"] {
        let pushed = world.try_git(&bench.slot, &["push", target, "HEAD:refs/heads/pushed"]);
        assert!(pushed.unwrap_err().contains("pushing-is-switched-off"), "{target}");
    }
    assert_eq!(world.git(&origin, &["for-each-ref", "refs/heads/pushed"]), "");
    assert_eq!(world.git(person, &["status", "--porcelain"]), "");
}

#[test]
fn a_slot_is_made_ready_again_whatever_was_done_to_it() {
    let bench = Bench::new();
    let first = bench.world.commit(&bench.person, &[(".gitignore", "*.o\n"), ("d/x", "1")]);
    std::fs::remove_dir_all(bench.person.join("d")).unwrap();
    let second = bench.world.commit(&bench.person, &[("d", "a file"), ("a.txt", "b\n")]);
    let person_config = read(&bench.person.join(".git/config"));
    let deeds: &[Deed] = &[
        ("nothing", |_| {}),
        ("files", |bench| {
            let slot = &bench.slot;
            write(&slot.join("a.txt"), "changed");
            write(&slot.join("left.o"), "ignored");
            write(&slot.join("src/new/file"), "untracked");
            std::fs::remove_file(slot.join("src/lib.rs")).unwrap();
            let odd = OsString::from_vec(b"\xff\nodd".to_vec());
            std::fs::write(slot.as_std_path().join(odd), "x").unwrap();
        }),
        ("a changed file whose index says that it is not", |bench| {
            bench.world.git(&bench.slot, &["update-index", "--assume-unchanged", "a.txt"]);
            write(&bench.slot.join("a.txt"), "changed");
        }),
        ("commits, branches and a moved HEAD", |bench| {
            bench.world.commit(&bench.slot, &[("w", "1")]);
            bench.world.git(&bench.slot, &["switch", "-q", "-c", "other"]);
            bench.world.git(&bench.slot, &["branch", "-f", "main", "HEAD"]);
            bench.world.git(&bench.slot, &["tag", "-f", "fake"]);
        }),
        (".git is a link to the person's", |bench| {
            std::fs::remove_dir_all(bench.slot.join(".git")).unwrap();
            symlink(bench.person.join(".git"), bench.slot.join(".git")).unwrap();
        }),
        (".git is a file that leads to the person's", |bench| {
            std::fs::remove_dir_all(bench.slot.join(".git")).unwrap();
            write(&bench.slot.join(".git"), &format!("gitdir: {}/.git\n", bench.person));
        }),
        (".git is gone", |bench| std::fs::remove_dir_all(bench.slot.join(".git")).unwrap()),
        ("links inside of .git", |bench| {
            std::fs::remove_dir_all(bench.slot.join(".git/objects")).unwrap();
            symlink(bench.person.join(".git/objects"), bench.slot.join(".git/objects")).unwrap();
            std::fs::remove_file(bench.slot.join(".git/config")).unwrap();
            symlink(bench.person.join(".git/config"), bench.slot.join(".git/config")).unwrap();
        }),
        ("a directory is a link out of the slot", |bench| {
            std::fs::remove_dir_all(bench.slot.join("src")).unwrap();
            symlink(&bench.person, bench.slot.join("src")).unwrap();
        }),
        ("a worktree and nested repositories", |bench| {
            let tree = bench.slot.join("linked");
            bench.world.git(&bench.slot, &["worktree", "add", "-q", "--detach", tree.as_str()]);
            bench.world.git(&bench.slot, &["init", "-q", "nested"]);
            write(&bench.slot.join("nested/f"), "1");
            write(&bench.slot.join("half/.git/HEAD"), "nonsense");
            write(&bench.slot.join("src/.git"), "gitdir: /nowhere\n");
        }),
        ("locked directories", |bench| {
            for dir in ["locked/deep", "src"] {
                write(&bench.slot.join(dir).join("file"), "1");
                let mode = Permissions::from_mode(0o000);
                std::fs::set_permissions(bench.slot.join(dir), mode).unwrap();
            }
        }),
        ("directories deeper than a path can name", |bench| {
            let name = "d".repeat(200);
            let mut at = rustix::fs::open(
                bench.slot.as_std_path(),
                rustix::fs::OFlags::DIRECTORY,
                rustix::fs::Mode::empty(),
            )
            .unwrap();
            for _ in 0..30 {
                rustix::fs::mkdirat(&at, &name, rustix::fs::Mode::RWXU).unwrap();
                let flags = rustix::fs::OFlags::DIRECTORY;
                at = rustix::fs::openat(&at, &name, flags, rustix::fs::Mode::empty()).unwrap();
            }
        }),
        ("a damaged private index", |bench| {
            write(&bench.private().join("index"), "DIRC nonsense");
        }),
    ];
    let mut commits = [&first, &second].into_iter().cycle();
    bench.prepare(&first);
    for (name, deed) in deeds {
        deed(&bench);
        let commit = commits.next().unwrap();
        let slot = bench.prepare(commit);
        assert_eq!(
            bench.world.git(&bench.slot, &["symbolic-ref", "HEAD"]),
            slot.branch(),
            "{name}"
        );
        let tags = bench.world.git(&bench.slot, &["for-each-ref", "refs/tags"]);
        assert_eq!(tags, "", "{name}");
        bench.is_exactly(commit, &[]);
        assert_eq!(read(&bench.person.join(".git/config")), person_config, "{name}");
        assert_eq!(bench.world.git(&bench.person, &["status", "--porcelain"]), "", "{name}");
        assert_eq!(bench.world.head(&bench.person), second, "{name}");
    }
}

#[test]
fn caches_stay_warm_and_what_is_not_a_directory_there_does_not() {
    let bench = Bench::new();
    let base = bench.world.head(&bench.person);
    let caches = ["target", "web/node_modules"];
    let prepare = || bench.try_prepare(&base, &caches, &[]).unwrap();
    prepare();
    write(&bench.slot.join("target/kept"), "1");
    write(&bench.slot.join("web/node_modules/kept"), "1");
    write(&bench.slot.join("web/other"), "1");
    prepare();
    bench.is_exactly(&base, &caches);
    assert_eq!(read(&bench.slot.join("target/kept")), "1");
    assert_eq!(read(&bench.slot.join("web/node_modules/kept")), "1");
    let precious = bench.world.path("precious");
    write(&precious.join("node_modules/file"), "mine");
    std::fs::remove_dir_all(bench.slot.join("web")).unwrap();
    symlink(&precious, bench.slot.join("web")).unwrap();
    std::fs::remove_dir_all(bench.slot.join("target")).unwrap();
    symlink(&precious, bench.slot.join("target")).unwrap();
    prepare();
    bench.is_exactly(&base, &[]);
    assert_eq!(read(&precious.join("node_modules/file")), "mine");
    for name in ["", "../x", "/abs", "a/.GIT", "."] {
        let refused = bench.try_prepare(&base, &[name], &[]);
        assert!(matches!(refused, Err(SlotError::CacheName { .. })), "{name}");
    }
}

#[test]
fn a_directory_that_cannot_be_cleared_is_reported() {
    let bench = Bench::new();
    let base = bench.world.head(&bench.person);
    bench.prepare(&base);
    for path in ["stuck/file", "a.txt", ".git/HEAD"] {
        write(&bench.slot.join(path), "cannot be removed");
        let file = std::fs::File::open(bench.slot.join(path)).unwrap();
        let flags = rustix::fs::ioctl_getflags(&file).unwrap();
        if rustix::fs::ioctl_setflags(&file, flags | rustix::fs::IFlags::IMMUTABLE).is_err() {
            // Only root can create such files, and not on every file system.
            return;
        }
        let refused = bench.try_prepare(&base, &[], &[]);
        rustix::fs::ioctl_setflags(&file, flags).unwrap();
        let Err(error @ SlotError::Uncleared { .. }) = refused else {
            panic!("{path}: {refused:?}")
        };
        assert!(error.hint().is_some_and(|hint| hint.contains(bench.slot.as_str())));
        // It does not count as prepared, and can be used again once the file is gone.
        assert!(bench.reopen().unwrap().is_none());
        bench.prepare(&base);
        bench.is_exactly(&base, &[]);
    }
}

#[test]
fn a_prepared_slot_is_opened_again_untouched() {
    let bench = Bench::new();
    let base = bench.world.head(&bench.person);
    assert!(bench.reopen().unwrap().is_none());
    bench.prepare(&base);
    write(&bench.slot.join("half-done"), "work");
    let slot = bench.reopen().unwrap().unwrap();
    assert_eq!((slot.base(), slot.branch()), (&base, "refs/heads/ralph/0001-item"));
    assert_eq!(read(&bench.slot.join("half-done")), "work");
    let elsewhere = bench.world.path("slots/2/r");
    std::fs::create_dir_all(&elsewhere).unwrap();
    let other = Slot::open(&bench.world.program(), &elsewhere, &bench.private());
    assert!(other.unwrap().is_none());
    slot.point("refs/remotes/ralph/tip", &base).unwrap();
    assert_eq!(bench.world.id(&bench.slot, "ralph/tip"), base);
}

#[test]
fn a_repository_that_was_replaced_is_not_opened() {
    let deeds: &[Deed] = &[
        ("a link", |bench| {
            std::fs::remove_dir_all(bench.slot.join(".git")).unwrap();
            symlink(bench.person.join(".git"), bench.slot.join(".git")).unwrap();
        }),
        ("a file", |bench| {
            std::fs::remove_dir_all(bench.slot.join(".git")).unwrap();
            write(&bench.slot.join(".git"), &format!("gitdir: {}/.git\n", bench.person));
        }),
        ("commondir", |bench| {
            write(&bench.slot.join(".git/commondir"), bench.person.join(".git").as_str());
        }),
        ("refs", |bench| {
            std::fs::remove_dir_all(bench.slot.join(".git/refs")).unwrap();
            symlink(bench.person.join(".git/refs"), bench.slot.join(".git/refs")).unwrap();
        }),
        ("a FIFO among the objects", |bench| {
            let pack = bench.slot.join(".git/objects/pack/pack-1.idx");
            let kind = rustix::fs::FileType::Fifo;
            let mode = rustix::fs::Mode::RUSR;
            rustix::fs::mknodat(rustix::fs::CWD, pack.as_std_path(), kind, mode, 0).unwrap();
        }),
        ("a FIFO in a directory of refs that is called like one of hooks", |bench| {
            let name = bench.slot.join(".git/refs/heads/hooks/x");
            std::fs::create_dir_all(name.parent().unwrap()).unwrap();
            let kind = rustix::fs::FileType::Fifo;
            let mode = rustix::fs::Mode::RUSR;
            rustix::fs::mknodat(rustix::fs::CWD, name.as_std_path(), kind, mode, 0).unwrap();
        }),
    ];
    for (name, deed) in deeds {
        let bench = Bench::new();
        let base = bench.world.head(&bench.person);
        let slot = bench.prepare(&base);
        deed(&bench);
        let opened = bench.reopen();
        assert!(matches!(opened, Err(SlotError::Tampered { .. })), "{name}: {opened:?}");
        assert!(slot.transfer(&bench.mirror).is_err(), "{name}");
        bench.prepare(&base);
        bench.is_exactly(&base, &[]);
    }
}

#[test]
fn objects_are_borrowed_from_the_mirror_alone() {
    let bench = Bench::new();
    let base = bench.world.head(&bench.person);
    bench.prepare(&base);
    let secret = bench.world.repository("secret");
    let hidden = bench.world.commit(&secret, &[("key", "secret")]);
    write(
        &bench.slot.join(".git/objects/info/alternates"),
        &format!("{}\n{secret}/.git/objects\n", bench.mirror.objects_dir()),
    );
    bench.world.git(&bench.slot, &["update-ref", "refs/heads/stolen", hidden.as_str()]);
    let slot = bench.reopen().unwrap().unwrap();
    assert!(slot.transfer(&bench.mirror).is_err());
    assert_eq!(bench.mirror.git().have(&[hidden]).unwrap(), [false]);
}

#[test]
fn a_branch_is_named_so_that_it_fits_beside_all_others() {
    let bench = Bench::new();
    let key = ItemKey::new("0001-item");
    let name = || branch_for(&key, &bench.world.open(&bench.person).refs().unwrap());
    assert_eq!(name(), "refs/heads/ralph/0001-item");
    bench.world.git(&bench.person, &["branch", "ralph/0001-item/below"]);
    assert_eq!(name(), "refs/heads/ralph-0001-item");
    bench.world.git(&bench.person, &["branch", "-D", "ralph/0001-item/below"]);
    bench.world.git(&bench.person, &["branch", "ralph"]);
    assert_eq!(name(), "refs/heads/ralph-0001-item");
    bench.world.git(&bench.person, &["branch", "ralph-0001-item"]);
    assert_eq!(name(), "refs/heads/ralph-0001-item-2");
    bench.prepare(&bench.world.head(&bench.person));
}

#[test]
fn other_layouts_of_the_persons_repository_make_the_same_slot() {
    for format in ["sha1", "sha256"] {
        for refs in ["files", "reftable"] {
            let world = World::new();
            let person = world.path("r");
            let (format, refs) =
                (format!("--object-format={format}"), format!("--ref-format={refs}"));
            world.git(&world.root, &["init", "-q", &format, &refs, person.as_str()]);
            world.commit(&person, &[("a", "1")]);
            world.git(&person, &["tag", "v1"]);
            let bench = Bench::of(world, person);
            let base = bench.world.head(&bench.person);
            bench.prepare(&base);
            assert_eq!(bench.world.id(&bench.slot, "v1"), base);
            bench.is_exactly(&base, &[]);
            let work = bench.world.commit(&bench.slot, &[("b", "2")]);
            let slot = bench.reopen().unwrap().unwrap();
            let tips = slot.transfer(&bench.mirror).unwrap();
            assert_eq!(tips.id_of(slot.branch()), Some(&work));
            assert_eq!(bench.mirror.git().have(&[work]).unwrap(), [true]);
        }
    }
}

#[test]
fn a_sparse_checkout_stays_sparse() {
    let bench = Bench::new();
    bench.world.commit(&bench.person, &[("in/x", "1"), ("out/y", "2")]);
    bench.world.git(&bench.person, &["sparse-checkout", "set", "in"]);
    let base = bench.world.head(&bench.person);
    let slot = bench.prepare(&base);
    assert!(bench.slot.join("in/x").exists() && !bench.slot.join("out").exists());
    assert_eq!(bench.world.git(&bench.slot, &["status", "--porcelain"]), "");
    let request = LeftoverRequest {
        mirror: &bench.mirror,
        person: &bench.world.open(&bench.person),
        message: "left",
    };
    slot.transfer(&bench.mirror).unwrap();
    assert_eq!(slot.leftovers(&request).unwrap(), None);
    std::fs::remove_file(bench.slot.join("in/x")).unwrap();
    let left = slot.leftovers(&request).unwrap().unwrap();
    assert_eq!(left.paths, [PathBuf::from("in/x")]);
}

#[test]
fn a_linked_worktree_and_a_hooks_path_are_understood() {
    let bench = Bench::new();
    let hooks = bench.world.path("shared-hooks");
    write(
        &hooks.join("commit-msg"),
        "#!/bin/sh\ntouch \"$(git rev-parse --show-toplevel)/msg-ran\"\n",
    );
    make_executable(&hooks.join("commit-msg"));
    bench.world.git(&bench.person, &["config", "--global", "core.hooksPath", hooks.as_str()]);
    let linked = bench.world.path("linked");
    bench.world.git(&bench.person, &["worktree", "add", "-q", "-b", "feature", linked.as_str()]);
    let base = bench.world.commit(&linked, &[("f", "1")]);
    let bench = Bench { person: linked, ..bench };
    bench.prepare(&base);
    std::fs::remove_dir_all(&hooks).unwrap();
    bench.world.commit(&bench.slot, &[("w", "1")]);
    assert!(bench.slot.join("msg-ran").exists());
}

#[test]
fn submodules_come_from_the_persons_own_clones() {
    let bench = Bench::new();
    let (world, person) = (&bench.world, &bench.person);
    let inner = world.repository("inner");
    let outer = world.repository("outer");
    world.git(&outer, &["submodule", "--quiet", "add", inner.as_str(), "deep/inner"]);
    world.commit(&outer, &[("o", "1")]);
    world.git(
        person,
        &["submodule", "--quiet", "add", "--name", "odd/name", outer.as_str(), "libs/outer"],
    );
    world.git(person, &["submodule", "--quiet", "add", inner.as_str(), "lost"]);
    world.git(person, &["submodule", "--quiet", "update", "--init", "--recursive"]);
    let base = world.commit(person, &[("p", "1")]);
    std::fs::remove_dir_all(person.join(".git/modules/lost")).unwrap();
    // No network and no remote: the person's clones are enough.
    std::fs::remove_dir_all(&inner).unwrap();
    std::fs::remove_dir_all(&outer).unwrap();
    for _ in 0..2 {
        let (_, unfilled) = bench.try_prepare(&base, &[], &[]).unwrap();
        assert_eq!(unfilled.submodules, [PathBuf::from("lost")]);
        assert_eq!(read(&bench.slot.join("libs/outer/o")), "1");
        assert_eq!(read(&bench.slot.join("libs/outer/deep/inner/a.txt")), "a\n");
        assert_eq!(world.git(&bench.slot, &["status", "--porcelain"]), "");
        let status = world.git(&bench.slot, &["submodule", "status", "--recursive", "libs"]);
        assert!(status.lines().all(|line| !line.starts_with(['+', '-', 'U'])), "{status}");
        // An agent's changes there are not kept.
        write(&bench.slot.join("libs/outer/o"), "changed");
        write(&bench.slot.join("libs/outer/planted"), "x");
        world.git(&bench.slot.join("libs/outer"), &["config", "core.fsmonitor", "/evil"]);
        std::fs::remove_dir_all(bench.slot.join("libs/outer/deep")).unwrap();
        symlink("/", bench.slot.join("libs/outer/deep")).unwrap();
    }
    bench.try_prepare(&base, &[], &[]).unwrap();
    assert!(!bench.slot.join("libs/outer/planted").exists());
    assert_eq!(
        world.try_git(&bench.slot.join("libs/outer"), &["config", "core.fsmonitor"]),
        Err(String::new())
    );
}

#[test]
fn lfs_files_are_filled_from_the_persons_store() {
    let bench = Bench::new();
    let (world, person) = (&bench.world, &bench.person);
    let content = "a large file\n";
    let pointer = |content: &str| lfs::LfsPointer::of(&mut content.as_bytes()).unwrap();
    let object = pointer(content).object_in(person.join(".git").as_std_path());
    write(Utf8Path::from_path(&object).unwrap(), content);
    let files = [
        (".gitattributes", "*.bin filter=lfs -text\n"),
        ("a/x.bin", &*pointer(content).to_text()),
        ("gone.bin", &*pointer("nobody has it").to_text()),
        ("raw.bin", "never was a pointer"),
    ];
    let base = world.commit(person, &files);
    // Without LFS the person sees pointers, and so do agents.
    bench.prepare(&base);
    bench.is_exactly(&base, &[]);
    for (key, value) in [("smudge", "git-lfs smudge -- %f"), ("clean", "cat")] {
        world.git(person, &["config", "--global", &format!("filter.lfs.{key}"), value]);
    }
    for _ in 0..2 {
        let (slot, unfilled) = bench.try_prepare(&base, &[], &[]).unwrap();
        assert_eq!(unfilled.lfs, [PathBuf::from("gone.bin")]);
        assert_eq!(read(&bench.slot.join("a/x.bin")), content);
        assert_eq!(read(&bench.slot.join("raw.bin")), "never was a pointer");
        slot.transfer(&bench.mirror).unwrap();
        let git = world.open(person);
        let request = LeftoverRequest { mirror: &bench.mirror, person: &git, message: "left" };
        assert_eq!(slot.leftovers(&request).unwrap(), None);
        write(&bench.slot.join("a/x.bin"), "another large file");
        write(&bench.slot.join("new.bin"), "a third");
        let left = slot.leftovers(&request).unwrap().unwrap();
        assert_eq!(left.paths, ["a/x.bin", "new.bin"].map(PathBuf::from));
        let commit = left.commit.unwrap();
        let text = bench.mirror.git().file_at(&commit, Path::new("new.bin")).unwrap().unwrap();
        assert_eq!(text, pointer("a third").to_text().into_bytes());
        let stored = pointer("a third").object_in(person.join(".git").as_std_path());
        assert_eq!(std::fs::read_to_string(stored).unwrap(), "a third");
    }
}

#[test]
fn lfs_contents_that_an_agent_made_reach_the_persons_store_only_if_they_are_what_they_say() {
    let bench = Bench::new();
    let base = bench.world.commit(&bench.person, &[(".gitattributes", "*.bin filter=lfs -text\n")]);
    let slot = bench.prepare(&base);
    let pointer = |content: &str| lfs::LfsPointer::of(&mut content.as_bytes()).unwrap();
    let object = |dir: &Utf8Path, content: &str| {
        let path = pointer(content).object_in(dir.join(".git").as_std_path());
        Utf8PathBuf::from_path_buf(path).unwrap()
    };
    write(&object(&bench.slot, "good"), "good");
    write(&object(&bench.slot, "real"), "fake");
    symlink("/etc/hostname", {
        let link = object(&bench.slot, "link");
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        link
    })
    .unwrap();
    let texts = ["good", "real", "link", "nowhere"].map(|content| pointer(content).to_text());
    let names = ["a.bin", "b.bin", "c.bin", "d.bin"];
    let mut files: Vec<(&str, &str)> =
        names.iter().zip(&texts).map(|(name, text)| (*name, text.as_str())).collect();
    files.push(("plain.txt", "no pointer"));
    let commit = bench.world.commit(&bench.slot, &files);
    slot.transfer(&bench.mirror).unwrap();
    let person = bench.world.open(&bench.person);
    let missing = slot.transfer_lfs(&bench.mirror, &person, &commit).unwrap();
    assert_eq!(missing, ["b.bin", "c.bin", "d.bin"].map(PathBuf::from));
    assert_eq!(read(&object(&bench.person, "good")), "good");
    assert!(!object(&bench.person, "real").exists() && !object(&bench.person, "link").exists());
}
