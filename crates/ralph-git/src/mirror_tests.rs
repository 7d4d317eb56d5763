use std::fs;
use std::path::Path;

use super::super::testing::{World, read, write};
use super::*;

struct Pair {
    world: World,
    dir: Utf8PathBuf,
    git: Git,
    mirror: Mirror,
}

impl Pair {
    /// A repository with one commit, mirrored.
    fn new() -> Self {
        let world = World::new();
        let dir = world.repository("r");
        Self::of(world, dir)
    }

    fn of(world: World, dir: Utf8PathBuf) -> Self {
        let git = world.open(&dir);
        let mirror = Mirror::open(&world.program(), &world.path("state/mirror"), &git).unwrap();
        mirror.fill(&git, &[]).unwrap();
        Pair { world, dir, git, mirror }
    }

    fn fill(&self) -> Result<RefsSnapshot, MirrorError> {
        self.mirror.fill(&self.git, &[])
    }

    fn mirrored(&self, commit: &Oid, path: &str) -> Option<Vec<u8>> {
        self.mirror.git().file_at(commit, Path::new(path)).unwrap()
    }

    /// Replaces the content of an object without changing its id.
    fn forge(&self, name: &str, content: &str) {
        let id = self.world.git(&self.dir, &["rev-parse", name]);
        write(&self.dir.join("forged.tmp"), content);
        let other = self.world.git(&self.dir, &["hash-object", "-w", "forged.tmp"]);
        fs::remove_file(self.dir.join("forged.tmp")).unwrap();
        let file = |id: &str| self.dir.join(format!(".git/objects/{}/{}", &id[..2], &id[2..]));
        fs::remove_file(file(&id)).unwrap();
        fs::copy(file(&other), file(&id)).unwrap();
    }
}

#[test]
fn everything_that_refs_and_heads_point_at_is_taken_in_and_kept() {
    let pair = Pair::new();
    let (world, dir) = (&pair.world, &pair.dir);
    let first = world.head(dir);
    let branch = world.commit(dir, &[("b", "1")]);
    world.git(dir, &["branch", "a"]);
    world.git(dir, &["tag", "-a", "-m", "x", "v1"]);
    world.git(dir, &["checkout", "-q", "--detach"]);
    let detached = world.commit(dir, &[("c", "1")]);
    write(&dir.join("a.txt"), "stashed\n");
    world.git(dir, &["stash", "-q"]);
    let stash = world.id(dir, "refs/stash");
    pair.fill().unwrap();
    // A branch that becomes a directory of branches, and discarded history.
    world.git(dir, &["branch", "-q", "-D", "a"]);
    world.git(dir, &["checkout", "-q", "-f", "-B", "a/b", first.as_str()]);
    let later = world.commit(dir, &[("d", "1")]);
    world.git(dir, &["branch", "-f", "main", "a/b"]);
    pair.fill().unwrap();
    let all = [first, branch, detached, stash, later, world.id(dir, "v1")];
    assert_eq!(pair.mirror.git().have(&all).unwrap(), [true; 6]);
    let objects = world.git(&world.path("state/mirror"), &["count-objects", "-v"]);
    assert!(!objects.contains("alternate"), "{objects}");
    world.git(&world.path("state/mirror"), &["fsck", "--strict"]);
}

#[test]
fn a_commit_that_nothing_points_at_any_more_is_taken_in_by_its_id() {
    let pair = Pair::new();
    pair.world.git(&pair.dir, &["checkout", "-q", "--detach"]);
    let lost = pair.world.commit(&pair.dir, &[("c", "1")]);
    pair.world.git(&pair.dir, &["checkout", "-q", "main"]);
    pair.world.git(&pair.dir, &["config", "uploadpack.hideRefs", "refs"]);
    pair.fill().unwrap();
    assert_eq!(pair.mirror.git().find_commit(lost.as_str()).unwrap(), None);
    pair.mirror.fill(&pair.git, std::slice::from_ref(&lost)).unwrap();
    assert_eq!(pair.mirrored(&lost, "c").unwrap(), b"1");
}

#[test]
fn an_object_that_is_overwritten_after_the_fill_changes_nothing_in_the_mirror() {
    let pair = Pair::new();
    let base = pair.world.head(&pair.dir);
    pair.forge("HEAD:a.txt", "forged\n");
    assert_eq!(pair.world.git(&pair.dir, &["show", "HEAD:a.txt"]), "forged");
    assert_eq!(pair.mirrored(&base, "a.txt").unwrap(), b"a\n");
    let next = pair.world.commit(&pair.dir, &[("b", "1")]);
    pair.fill().unwrap();
    assert_eq!(pair.mirrored(&next, "a.txt").unwrap(), b"a\n");
}

#[test]
fn an_object_that_is_overwritten_before_the_fill_is_called_forged() {
    let pair = Pair::new();
    let next = pair.world.commit(&pair.dir, &[("gate.sh", "cargo test\n")]);
    pair.forge("HEAD:gate.sh", "true\n");
    let error = pair.fill().unwrap_err();
    assert!(matches!(error, MirrorError::Forged { .. }), "{error:?}");
    assert_eq!(pair.mirror.git().find_commit(next.as_str()).unwrap().map(|_| ()), None);
}

#[test]
fn a_forged_tree_or_commit_is_noticed_too() {
    for name in ["HEAD^{tree}", "HEAD"] {
        let pair = Pair::new();
        pair.world.commit(&pair.dir, &[("b", "1")]);
        let id = pair.world.git(&pair.dir, &["rev-parse", name]);
        let other = pair.world.git(&pair.dir, &["rev-parse", &name.replace("HEAD", "HEAD^")]);
        let file = |id: &str| pair.dir.join(format!(".git/objects/{}/{}", &id[..2], &id[2..]));
        fs::remove_file(file(&id)).unwrap();
        fs::copy(file(&other), file(&id)).unwrap();
        let error = pair.fill().unwrap_err();
        let noticed = matches!(error, MirrorError::Forged { .. } | MirrorError::Damaged { .. });
        assert!(noticed, "{name}: {error:?}");
    }
}

#[test]
fn replace_refs_grafts_and_a_forged_shallow_file_change_nothing_in_the_mirror() {
    let pair = Pair::new();
    let (world, dir) = (&pair.world, &pair.dir);
    let base = world.head(dir);
    let next = world.commit(dir, &[("a.txt", "next\n")]);
    let evil = world.commit(dir, &[("a.txt", "evil\n")]);
    world.git(dir, &["reset", "-q", "--hard", next.as_str()]);
    world.git(dir, &["replace", next.as_str(), evil.as_str()]);
    assert_eq!(world.git(dir, &["show", "HEAD:a.txt"]), "evil");
    write(&dir.join(".git/info/grafts"), &format!("{next}\n"));
    pair.fill().unwrap();
    assert_eq!(pair.mirrored(&next, "a.txt").unwrap(), b"next\n");
    assert!(pair.mirror.git().is_ancestor(&base, &next).unwrap());
    assert!(pair.git.is_ancestor(&base, &next).unwrap());
    // History that becomes shallow later, with a commit on top: the mirror keeps what it knows.
    write(&dir.join(".git/shallow"), &format!("{next}\n"));
    fs::remove_file(dir.join(".git/info/grafts")).unwrap();
    world.git(dir, &["replace", "-d", next.as_str()]);
    let top = world.commit(dir, &[("b", "1")]);
    match pair.fill() {
        Ok(_) => assert!(pair.mirror.git().is_ancestor(&base, &top).unwrap()),
        Err(error) => assert!(matches!(error, MirrorError::Damaged { .. }), "{error:?}"),
    }
    assert!(pair.mirror.git().is_ancestor(&base, &next).unwrap());
    assert!(!pair.mirror.is_shallow());
}

#[test]
fn a_forged_commit_graph_does_not_lend_ancestors() {
    let pair = Pair::new();
    let (world, dir) = (&pair.world, &pair.dir);
    world.commit(dir, &[("b", "1")]);
    world.git(dir, &["commit-graph", "write", "--reachable"]);
    let graph = dir.join(".git/objects/info/commit-graph");
    let _ = fs::remove_file(&graph);
    fs::write(&graph, b"CGPH broken").unwrap();
    pair.fill().unwrap();
    assert_eq!(pair.mirror.git().root_commits().unwrap_or_default(), []);
    assert!(pair.mirror.git().have(&[world.head(dir)]).unwrap()[0]);
}

#[test]
fn a_re_pointed_git_file_is_called_forged() {
    let world = World::new();
    let main = world.repository("main");
    let other = world.repository("other");
    let linked = world.path("linked");
    world.git(&main, &["worktree", "add", "-q", linked.as_str()]);
    let pair = Pair::of(world, linked.clone());
    let next = pair.world.commit(&linked, &[("b", "1")]);
    pair.fill().unwrap();
    assert!(pair.mirrored(&next, "b").is_some());
    write(&linked.join(".git"), &format!("gitdir: {other}/.git\n"));
    assert!(matches!(pair.fill(), Err(MirrorError::Forged { .. })));
}

#[test]
fn a_deleted_object_store_is_called_damaged_and_the_mirror_has_what_it_had() {
    let pair = Pair::new();
    let base = pair.world.head(&pair.dir);
    let next = pair.world.commit(&pair.dir, &[("b", "1")]);
    fs::remove_dir_all(pair.dir.join(".git/objects")).unwrap();
    assert!(matches!(pair.fill(), Err(MirrorError::Damaged { .. })));
    fs::create_dir(pair.dir.join(".git/objects")).unwrap();
    let error = pair.fill().unwrap_err();
    assert!(matches!(error, MirrorError::Damaged { .. }), "{error:?}");
    assert_eq!(pair.mirrored(&base, "a.txt").unwrap(), b"a\n");
    assert_eq!(pair.mirror.git().find_commit(next.as_str()).unwrap(), None);
}

#[test]
fn a_tree_with_a_git_directory_in_it_is_called_unsafe() {
    for name in [".git", ".GIT", "git~1", ".."] {
        let pair = Pair::new();
        let (world, dir) = (&pair.world, &pair.dir);
        let blob = world.git(dir, &["rev-parse", "HEAD:a.txt"]);
        let raw: Vec<u8> =
            (0..20).map(|at| u8::from_str_radix(&blob[2 * at..2 * at + 2], 16).unwrap()).collect();
        let mut tree = format!("100644 {name}\0").into_bytes();
        tree.extend(raw);
        fs::write(world.path("tree"), tree).unwrap();
        let tree = world.path("tree");
        let args = ["hash-object", "-w", "-t", "tree", "--literally", tree.as_str()];
        let tree = world.git(dir, &args);
        let commit = world.git(dir, &["commit-tree", "-m", "x", "-p", "HEAD", &tree]);
        world.git(dir, &["update-ref", "refs/heads/main", &commit]);
        let error = pair.fill().unwrap_err();
        assert!(matches!(error, MirrorError::Unsafe { .. }), "{name}: {error:?}");
    }
}

#[test]
fn a_shallow_source_is_mirrored_as_far_as_it_goes_and_deepened_later() {
    let world = World::new();
    let origin = world.repository("origin");
    let base = world.head(&origin);
    world.commit(&origin, &[("b", "1")]);
    let dir = world.path("shallow");
    let url = format!("file://{origin}");
    world.git(&world.root, &["clone", "-q", "--depth=1", &url, dir.as_str()]);
    let pair = Pair::of(world, dir.clone());
    assert!(pair.mirror.is_shallow());
    let next = pair.world.commit(&dir, &[("c", "1")]);
    pair.fill().unwrap();
    assert_eq!(pair.mirrored(&next, "a.txt").unwrap(), b"a\n");
    pair.world.git(&dir, &["fetch", "-q", "--unshallow"]);
    pair.fill().unwrap();
    assert!(!pair.mirror.is_shallow());
    assert!(pair.mirror.git().is_ancestor(&base, &next).unwrap());
}

#[test]
fn a_source_without_its_old_blobs_is_mirrored_with_what_it_has() {
    let world = World::new();
    let origin = world.repository("origin");
    world.git(&origin, &["config", "uploadpack.allowFilter", "true"]);
    let base = world.head(&origin);
    world.commit(&origin, &[("a.txt", "new\n")]);
    let dir = world.path("partial");
    let url = format!("file://{origin}");
    world.git(&world.root, &["clone", "-q", "--filter=blob:none", &url, dir.as_str()]);
    let pair = Pair::of(world, dir.clone());
    let next = pair.world.commit(&dir, &[("c", "1")]);
    pair.fill().unwrap();
    assert_eq!(pair.mirrored(&next, "c").unwrap(), b"1");
    assert_eq!(pair.mirrored(&next, "a.txt").unwrap(), b"new\n");
    assert!(pair.mirror.git().is_ancestor(&base, &next).unwrap());
    assert_eq!(pair.mirrored(&base, "a.txt"), None);
    pair.world.commit(&dir, &[("gate", "cargo test\n")]);
    pair.forge("HEAD:gate", "true\n");
    let error = pair.fill().unwrap_err();
    assert!(matches!(error, MirrorError::Forged { .. }), "{error:?}");
}

#[test]
fn sha256_unborn_and_submodule_repositories_are_mirrored() {
    let world = World::new();
    let dir = world.path("r");
    world.git(&world.root, &["init", "-q", "--object-format=sha256", dir.as_str()]);
    let pair = Pair::of(world, dir.clone());
    assert_eq!(pair.mirror.object_format(), ObjectFormat::Sha256);
    let first = pair.world.commit(&dir, &[("a", "1")]);
    pair.fill().unwrap();
    assert_eq!(pair.mirrored(&first, "a").unwrap(), b"1");

    let world = World::new();
    let inner = world.repository("inner");
    let outer = world.repository("outer");
    world.git(&outer, &["submodule", "--quiet", "add", inner.as_str(), "sub"]);
    let pair = Pair::of(world, outer.join("sub"));
    let next = pair.world.commit(&outer.join("sub"), &[("b", "1")]);
    pair.fill().unwrap();
    assert_eq!(pair.mirrored(&next, "b").unwrap(), b"1");
}

#[test]
fn a_mirror_is_opened_again_and_one_that_was_not_finished_is_made_again() {
    let pair = Pair::new();
    let path = pair.world.path("state/mirror");
    // The mark also has the settings, by which damage to them is detected.
    let mark = read(&path.join("ralph-mirror"));
    assert_eq!(mark.strip_prefix("1\n"), Some(read(&path.join("config")).as_str()));
    let again = Mirror::open(&pair.world.program(), &path, &pair.git).unwrap();
    assert!(again.git().have(&[pair.world.head(&pair.dir)]).unwrap()[0]);
    let other = pair.world.path("half");
    fs::create_dir(&other).unwrap();
    write(&other.join("HEAD"), "ref: refs/heads/x\n");
    let half = Mirror::open(&pair.world.program(), &other, &pair.git).unwrap();
    half.fill(&pair.git, &[]).unwrap();
}

#[test]
fn tips_that_head_leads_to_are_forgotten_when_there_are_many_and_their_commits_are_not() {
    let pair = Pair::new();
    let (world, dir) = (&pair.world, &pair.dir);
    world.git(dir, &["checkout", "-q", "-b", "side"]);
    let side = world.commit(dir, &[("side", "1")]);
    world.git(dir, &["checkout", "-q", "-"]);
    let mut tips = vec![side];
    for number in 0..2 * MANY {
        tips.push(world.commit(dir, &[("a.txt", &number.to_string())]));
        pair.fill().unwrap();
        if number == 2 {
            world.git(dir, &["branch", "kept"]);
            world.git(dir, &["branch", "-q", "-D", "side"]);
        }
    }
    let seen = pair.mirror.seen().unwrap();
    assert!(seen.len() <= MANY + 1, "{} tips are kept", seen.len());
    assert!(seen.contains(&tips[0]), "it leads nowhere");
    assert!(seen.contains(&tips[3]), "a branch is there");
    assert!(pair.mirror.git().have(&tips).unwrap().iter().all(|there| *there));
    pair.fill().unwrap();
}

#[test]
fn a_full_disk_and_a_killed_git_are_not_called_damage_of_the_source() {
    let pair = Pair::new();
    let full = pair
        .mirror
        .classify(&pair.git, "fatal: write error: No space left on device\nfatal: bad pack\n");
    assert!(matches!(full, MirrorError::Git(GitError::DiskFull { .. })), "{full:?}");
    // On a full disk git does not always say so.
    let name = "refs/ralph/seen/1234";
    for line in [
        format!("error: cannot update ref '{name}': couldn't write '/m/{name}.lock'"),
        format!("error: cannot lock ref '{name}': Unable to create '/m/{name}.lock': Disc error"),
        "fatal: unable to write loose object file: Input/output error".to_owned(),
    ] {
        let unwritten = pair.mirror.classify(&pair.git, &line);
        assert!(matches!(unwritten, MirrorError::Write { .. }), "{unwritten:?}");
        assert!(!unwritten.is_of_source(), "{line}");
    }
    let killed = blame(&pair.git, GitError::from_failure("rev-parse".to_owned(), None, b""));
    assert!(matches!(killed, MirrorError::Git(GitError::Killed { .. })), "{killed:?}");
    let missing = pair.mirror.classify(&pair.git, "fatal: missing blob object\n");
    assert!(matches!(missing, MirrorError::Damaged { .. }), "{missing:?}");
}
