use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::super::super::testing::write;
use super::super::tests::Bench;
use super::*;

fn leftovers(bench: &Bench) -> Option<KeptLeftovers> {
    let slot = bench.reopen().unwrap().unwrap();
    slot.transfer(&bench.mirror).unwrap();
    let person = bench.world.open(&bench.person);
    slot.leftovers(&LeftoverRequest { mirror: &bench.mirror, person: &person, message: "left\n" })
        .unwrap()
}

fn names(paths: &[PathBuf]) -> Vec<&[u8]> {
    paths.iter().map(|path| path_bytes(path)).collect()
}

#[test]
fn everything_that_add_all_would_take_is_in_the_commit() {
    let bench = Bench::new();
    bench.world.commit(
        &bench.person,
        &[(".gitignore", "*.o\n"), ("gone", "1"), ("was/dir", "1"), ("file", "1"), ("link", "1")],
    );
    let base = bench.world.head(&bench.person);
    bench.try_prepare(&base, &["target"], &["copied.env", "made [by] setup"]).unwrap();
    assert_eq!(leftovers(&bench), None);
    let slot = bench.slot.clone();
    let own = bench.world.commit(&slot, &[("committed", "1")]);
    write(&slot.join("a.txt"), "changed\n");
    std::fs::remove_file(slot.join("gone")).unwrap();
    std::fs::remove_dir_all(slot.join("was")).unwrap();
    symlink("/etc", slot.join("was")).unwrap();
    std::fs::remove_file(slot.join("file")).unwrap();
    write(&slot.join("file/below"), "now a directory");
    std::fs::remove_file(slot.join("link")).unwrap();
    symlink("a.txt", slot.join("link")).unwrap();
    std::fs::write(slot.as_std_path().join(OsStr::from_bytes(b"odd\n\xff")), "1").unwrap();
    let run = slot.join("run.sh");
    write(&run, "#!/bin/sh\n");
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o755)).unwrap();
    for not_work in ["x.o", "target/debug/x", "copied.env", "made [by] setup/x"] {
        write(&slot.join(not_work), "not work");
    }
    bench.world.git(&slot, &["init", "-q", "nested"]);
    write(&slot.join("nested/f"), "1");
    let left = leftovers(&bench).unwrap();
    let expected: [&[u8]; 9] = [
        b"a.txt",
        b"file",
        b"file/below",
        b"gone",
        b"link",
        b"odd\n\xff",
        b"run.sh",
        b"was",
        b"was/dir",
    ];
    assert_eq!(names(&left.paths), expected);
    assert_eq!((&left.parent, names(&left.nested)), (&own, vec![&b"nested"[..]]));
    // The same result as git itself.
    let commit = left.commit.clone().unwrap();
    std::fs::remove_dir_all(slot.join("nested")).unwrap();
    bench.world.git(&slot, &["add", "-A"]);
    let tree = bench.world.git(&slot, &["write-tree"]);
    assert_eq!(bench.world.git(&bench.slot, &["rev-parse", &format!("{commit}^{{tree}}")]), tree);
    let author = bench.world.git(&slot, &["log", "-1", "--format=%an %s", commit.as_str()]);
    assert_eq!(author, "Person left");
    // Repeated, the same tree; and after it was adopted, nothing is left.
    let again = leftovers(&bench).unwrap();
    assert_eq!(again.paths, left.paths);
    bench.reopen().unwrap().unwrap().adopt(&again).unwrap();
    assert_eq!(bench.world.head(&slot), again.commit.unwrap());
    assert_eq!(bench.world.git(&slot, &["symbolic-ref", "HEAD"]), "refs/heads/ralph/0001-item");
    assert_eq!(bench.world.git(&slot, &["status", "--porcelain"]), "");
    assert_eq!(leftovers(&bench), None);
    assert_eq!(bench.world.git(&bench.person, &["status", "--porcelain"]), "");
}

#[test]
fn nothing_that_an_agent_planted_runs_or_hides_a_change() {
    let bench = Bench::new();
    let base = bench.world.head(&bench.person);
    bench.prepare(&base);
    let (slot, trace) = (bench.slot.clone(), bench.world.path("trace"));
    let evil = bench.world.path("evil");
    write(&evil, &format!("#!/bin/sh\necho \"$0 $*\" >> {trace}\ncat\n"));
    std::fs::set_permissions(&evil, std::fs::Permissions::from_mode(0o755)).unwrap();
    let config = |key: &str, value: &str| bench.world.git(&slot, &["config", key, value]);
    config("extensions.worktreeConfig", "true");
    bench.world.git(&slot, &["config", "--worktree", "core.pager", evil.as_str()]);
    write(&bench.world.path("included"), "[user]\n\tname = Somebody\n");
    config("include.path", bench.world.path("included").as_str());
    config("core.excludesFile", bench.world.path("hide").as_str());
    write(&bench.world.path("hide"), "*\n");
    write(&slot.join(".git/info/exclude"), "*\n");
    write(&slot.join("src/lib.rs"), "changed but assumed not to be\n");
    bench.world.git(&slot, &["update-index", "--assume-unchanged", "src/lib.rs"]);
    bench.world.git(&slot, &["update-index", "--skip-worktree", "a.txt"]);
    write(&slot.join("a.txt"), "hidden too\n");
    // Last, because they run for everything that the test does with git.
    config("core.fsmonitor", evil.as_str());
    config("core.hooksPath", bench.world.path("hooks").as_str());
    for hook in ["reference-transaction", "post-index-change", "pre-commit", "post-commit"] {
        write(&bench.world.path("hooks").join(hook), "");
        std::fs::copy(&evil, bench.world.path("hooks").join(hook)).unwrap();
    }
    for key in ["clean", "smudge", "process"] {
        config(&format!("filter.e.{key}"), evil.as_str());
    }
    config("filter.e.required", "true");
    write(&slot.join(".git/info/attributes"), "* filter=e\n");
    let sub = slot.join("nested");
    bench.world.git(&bench.world.root, &["init", "-q", sub.as_str()]);
    bench.world.git(&sub, &["config", "core.fsmonitor", evil.as_str()]);
    let _ = std::fs::remove_file(&trace);
    let left = leftovers(&bench).unwrap();
    bench.reopen().unwrap().unwrap().adopt(&left).unwrap();
    assert!(!trace.exists(), "{}", std::fs::read_to_string(&trace).unwrap_or_default());
    assert_eq!(names(&left.paths), [&b"a.txt"[..], b"src/lib.rs"]);
    // The trap is armed: any git of the agent triggers it.
    let _ = bench.world.try_git(&slot, &["status"]);
    assert!(trace.exists());
}

#[test]
fn a_submodule_is_not_entered_and_its_new_commit_is_a_change() {
    let bench = Bench::new();
    let lib = bench.world.repository("lib");
    bench.world.git(&bench.person, &["submodule", "--quiet", "add", lib.as_str(), "lib"]);
    let base = bench.world.commit(&bench.person, &[("p", "1")]);
    bench.prepare(&base);
    let (trace, sub) = (bench.world.path("trace"), bench.slot.join("lib"));
    assert!(sub.join("a.txt").exists());
    let evil = bench.world.path("evil");
    write(&evil, &format!("#!/bin/sh\ntouch {trace}\n"));
    std::fs::set_permissions(&evil, std::fs::Permissions::from_mode(0o755)).unwrap();
    write(&sub.join("a.txt"), "dirty");
    bench.world.git(&sub, &["config", "core.fsmonitor", evil.as_str()]);
    assert_eq!(leftovers(&bench), None);
    bench.world.git(&sub, &["config", "--unset", "core.fsmonitor"]);
    bench.world.commit(&sub, &[("b", "1")]);
    bench.world.git(&sub, &["config", "core.fsmonitor", evil.as_str()]);
    let _ = std::fs::remove_file(&trace);
    let left = leftovers(&bench).unwrap();
    assert_eq!(names(&left.paths), [&b"lib"[..]]);
    assert!(!trace.exists());
}

#[test]
fn a_file_that_needs_a_filter_is_never_committed_raw() {
    let bench = Bench::new();
    let base = bench.world.commit(&bench.person, &[(".gitattributes", "*.key filter=git-crypt\n")]);
    bench.prepare(&base);
    write(&bench.slot.join("secret.key"), "in plain text");
    let left = leftovers(&bench).unwrap();
    assert_eq!((left.commit, names(&left.unfiltered)), (None, vec![&b"secret.key"[..]]));
}
