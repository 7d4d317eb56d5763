use std::time::{Duration, SystemTime};

use super::*;

/// A checkout with a tree, and the sets beside it.
struct Kept {
    dir: tempfile::TempDir,
    kept: KeptCaches,
}

const GATE: &str = "tests";

impl Kept {
    fn new() -> Kept {
        let dir = tempfile::tempdir().unwrap();
        let checkout = Utf8PathBuf::from_path_buf(dir.path().to_owned()).unwrap();
        fs::create_dir(checkout.join("tree")).unwrap();
        Kept { kept: KeptCaches::new(&checkout), dir }
    }

    fn tree(&self) -> Utf8PathBuf {
        Utf8PathBuf::from_path_buf(self.dir.path().join("tree")).unwrap()
    }

    /// Resets the tree, as a checkout does before a run.
    fn reset(&self) {
        remove_tree(self.tree().as_std_path()).unwrap();
        fs::create_dir(self.tree()).unwrap();
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.tree().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.tree().join(path)).ok()
    }

    fn bring(&self, gate: &str, at: &Oid) -> Vec<Utf8PathBuf> {
        self.kept.bring(gate, at, &self.tree(), &caches()).unwrap().0
    }

    /// Has a gate run at a commit and leave this in its cache.
    fn run(&self, gate: &str, at: &Oid, text: &str) {
        self.reset();
        self.bring(gate, at);
        self.write("web/cache/deep/file", text);
        self.kept.keep(gate, &self.tree(), &caches(), at, None).unwrap();
    }

    fn found(&self, gate: &str, at: &Oid) -> Option<String> {
        self.reset();
        self.bring(gate, at);
        self.read("web/cache/deep/file")
    }
}

fn caches() -> Vec<Utf8PathBuf> {
    vec!["web/cache".into(), "target".into()]
}

fn commit(digit: &str) -> Oid {
    Oid::parse(digit.repeat(40).as_bytes()).unwrap()
}

#[test]
fn a_run_begins_with_what_accepted_commits_left_for_its_gate_and_changes_a_copy() {
    let kept = Kept::new();
    let [one, two, three] = ["1", "2", "3"].map(commit);
    kept.run(GATE, &one, "of one");
    // Nothing is accepted yet, not even for another try at the same commit.
    assert_eq!(kept.found(GATE, &one), None);
    kept.run(GATE, &one, "of one");
    kept.kept.settle(&|filler| *filler == one).unwrap();
    assert_eq!(kept.found(GATE, &two).as_deref(), Some("of one"));
    assert_eq!(kept.found("lint", &two), None, "each gate has its own");
    kept.run(GATE, &two, "of two");
    assert_eq!(kept.found(GATE, &two).as_deref(), Some("of one"), "the same commit again");
    kept.run(GATE, &two, "of two");
    kept.kept.settle(&|filler| *filler == one).unwrap();
    assert_eq!(kept.found(GATE, &three).as_deref(), Some("of one"), "two was rejected");
}

#[test]
fn an_incomplete_set_is_no_set_and_links_are_not_followed() {
    let kept = Kept::new();
    let one = commit("1");
    kept.run(GATE, &one, "of one");
    kept.kept.settle(&|_| true).unwrap();
    let outside = kept.dir.path().join("outside");
    fs::create_dir_all(outside.join("cache")).unwrap();
    fs::write(outside.join("cache/precious"), "").unwrap();
    // The commit has a link above the cache.
    kept.reset();
    symlink(&outside, kept.tree().join("web")).unwrap();
    assert_eq!(kept.bring(GATE, &one), [] as [Utf8PathBuf; 0]);
    assert_eq!(fs::read_dir(outside.join("cache")).unwrap().count(), 1);
    // So has what the run left.
    kept.kept.keep(GATE, &kept.tree(), &caches(), &one, None).unwrap();
    assert!(outside.join("cache/precious").exists());
    assert_eq!(kept.found(GATE, &one).as_deref(), Some("of one"));
    fs::remove_file(kept.kept.set(GATE, ACCEPTED).join(FILLER)).unwrap();
    assert_eq!(kept.found(GATE, &one), None);
}

#[test]
fn what_is_of_the_commit_stays_and_times_are_those_of_the_cache() {
    let kept = Kept::new();
    let one = commit("1");
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    kept.write("target/tracked", "cached");
    kept.write("target/product", "cached");
    symlink("product", kept.tree().join("target/link")).unwrap();
    let file = File::open(kept.tree().join("target/product")).unwrap();
    file.set_modified(long_ago).unwrap();
    kept.kept.keep(GATE, &kept.tree(), &caches(), &one, None).unwrap();
    kept.kept.settle(&|_| true).unwrap();
    kept.reset();
    kept.write("target/tracked", "of the commit");
    kept.write("source", "new");
    // A gate of a candidate makes its source look older than the product.
    File::open(kept.tree().join("source")).unwrap().set_modified(long_ago).unwrap();
    assert_eq!(kept.bring(GATE, &one), [Utf8PathBuf::from("target")]);
    assert_eq!(kept.read("target/tracked").as_deref(), Some("of the commit"));
    assert_eq!(kept.read("target/link").as_deref(), Some("cached"));
    let time = |path: &str| fs::metadata(kept.tree().join(path)).unwrap().modified().unwrap();
    assert_eq!(time("target/product"), long_ago);
    assert!(time("source") > long_ago + Duration::from_secs(1));
}

#[test]
fn setup_runs_once_for_all_gates_of_a_candidate() {
    let kept = Kept::new();
    let [one, two] = ["1", "2"].map(commit);
    let setup = SetUp { key: "new lock file".to_owned(), caches: vec!["web/cache".into()] };
    kept.write("web/cache/deep/file", "installed");
    kept.kept.keep_set_up(&kept.tree(), &caches(), &one, &setup).unwrap();
    let brought = |at: &Oid| {
        kept.reset();
        let (_, setup) = kept.kept.bring("lint", at, &kept.tree(), &caches()).unwrap();
        (kept.read("web/cache/deep/file"), setup.map(|setup| setup.key))
    };
    assert_eq!(brought(&one), (Some("installed".to_owned()), Some("new lock file".to_owned())));
    assert_eq!(brought(&two), (None, None), "another candidate");
    kept.kept.settle(&|_| true).unwrap();
    assert_eq!(brought(&one), (None, None), "only while it is judged");
}
