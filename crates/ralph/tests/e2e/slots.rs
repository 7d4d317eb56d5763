//! Preparing slots: copied files, `setup`, leftovers, warm caches, and slots that cannot be cleaned.

use std::fs;

use crate::clones::{ONE, isolated};
use crate::pipeline::{Stage, on, willing};

/// An implementer that runs a script and commits everything that git allows.
fn implements(script: &str) -> String {
    format!(
        "run {script}\nwrite greeting.txt hello\nrun git add -A; git commit -qm work\n\
         final <<END\n${{HEAD}}\nI AM HYPER SURE I AM DONE!\nEND"
    )
}

/// A stage with ignored files in the person's checkout.
fn with_env(script: &str, settings: &str) -> Stage {
    let stage = isolated(script, settings, ONE);
    stage.write(".gitignore", ".env*\n*.key\n");
    stage.write(".worktreeinclude", "*.key\n");
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "-qm", "ignores"]);
    stage.write(".env", "SECRET=1\n");
    stage.write("deep/a.key", "key\n");
    stage
}

const COPY: &str = "[checkout]\ncopy = [\".env\"]\n[[gate]]\nname = \"env\"\n\
    run = [\"sh\", \"-c\", \"grep -q SECRET=1 .env && test -e deep/a.key\"]\n";

#[test]
fn copied_files_are_in_slots_gates_and_checkouts_of_verifiers_and_never_work() {
    let agent = implements("grep -q SECRET=1 .env && test -e deep/a.key && echo changed > .env");
    let verifier =
        "expect-run grep -q SECRET=1 .env\nfinal <<END\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND";
    let script = willing(&[on("implementer", 1, &agent), on("verifier", 1, verifier)]);
    let stage = with_env(&script, COPY);
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "piv");
    assert_eq!(stage.git(&["show", "--name-only", "--format=", "HEAD~1"]), "greeting.txt");
    assert_eq!(stage.read(".env"), "SECRET=1\n");
    let gated = stage.told("gate_finished");
    assert!(gated.iter().all(|gate| gate["status"] == "passed"), "{gated:?}");
    assert_eq!(
        stage.git(&["for-each-ref", "refs/ralph/left/"]),
        "",
        "a copied file is no leftover"
    );
}

#[test]
fn a_candidate_that_has_a_copied_file_is_rejected_and_the_file_named() {
    let agent = implements("git add -f .env");
    let again = "expect-prompt must not be committed: .env\nrun git rm -q --cached .env; git commit -q --amend -m work\n\
        final <<END\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND";
    let script = willing(&[on("implementer", 1, &agent), on("implementer", 2, again)]);
    let stage = with_env(&script, COPY);
    stage.pipeline(&[]).exits(0).says(".env");
    assert_eq!(stage.runs(), "piiv");
    assert_eq!(stage.git(&["log", "--format=%h", "--", ".env"]), "", "it never reached the branch");
}

#[test]
fn what_an_agent_writes_into_the_list_of_copied_files_brings_nothing_along_and_does_not_land() {
    let names_more =
        implements("echo '.env' >> .worktreeinclude; mkdir deep; echo '*' > deep/.worktreeinclude");
    let looks = "run test -e deep/a.key && test ! -e .env && test ! -e deep/b.secret && echo ok > seen.txt\n\
        run git add -A; git commit -qm looked\nfinal <<END\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND";
    let script = willing(&[on("implementer", 1, &names_more), on("implementer", 2, looks)]);
    let stage = with_env(&script, "");
    stage.write(".gitignore", ".env*\n*.key\n*.secret\n");
    stage.write("deep/b.secret", "key\n");
    stage.write("ralph/specs/0002-b.md", "# Another\n\nWrite seen.txt.\n");
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "-qm", "more"]);
    stage.pipeline(&[]).exits(0).says(".worktreeinclude");
    assert_eq!(stage.runs(), "pivpiv");
    assert_eq!(stage.read(".worktreeinclude"), "*.key\n", "it is the person's");
    assert_eq!(stage.read("seen.txt"), "ok\n");
}

#[test]
fn names_of_copy_that_are_no_ignored_files_are_said() {
    let stage = with_env(&willing(&[]), "[checkout]\ncopy = [\".env.none\", \"notes.txt\"]\n");
    stage.write("notes.txt", "mine\n");
    stage
        .pipeline(&[])
        .exits(0)
        .says("`.env.none` of [checkout] copy is not an ignored file")
        .says("`notes.txt` is not copied into clones: git does not ignore it");
}

/// Changes a tracked file, creates one that git does not ignore, and fills a cache.
const SETUP: &str = "cache = [\"cache\"]\nsetup = [[\"sh\", \"-c\", \"echo x >> README.md; echo made > made.txt; \
    mkdir -p vendor cache; echo v > vendor/v; echo ran >> cache/count; git config user.name nobody\"]]\n";

#[test]
fn setup_runs_in_slots_and_neither_what_it_changes_nor_what_it_makes_is_work() {
    let agent = implements(
        "test -e made.txt && test -e vendor/v && test -z \"$(git status --porcelain)\" && git config user.name > who",
    );
    let script = willing(&[on("implementer", 1, &agent)]);
    let stage = isolated(&script, &format!("[checkout]\n{SETUP}"), ONE);
    stage
        .pipeline(&[])
        .exits(0)
        .says("`setup` changed tracked files, which were restored: README.md");
    let files = stage.git(&["show", "--name-only", "--format=", "HEAD~1"]);
    assert_eq!(files, "greeting.txt\nwho");
    assert_eq!(stage.read("README.md"), "A repository.\n");
    assert_ne!(stage.read("who"), "nobody\n", "the repository was made anew");
}

#[test]
fn caches_stay_warm_between_items_and_what_setup_changed_is_said_once() {
    let only_cache = "[checkout]\ncache = [\"cache\"]\nsetup = [[\"sh\", \"-c\", \
        \"echo x >> README.md; mkdir -p cache; echo ran >> cache/count\"]]\n";
    let counts = |file: &str| {
        format!(
            "expect-run test \"$(cat cache/count)\" = ran && echo built >> cache/built; wc -l < cache/built > {file}\n\
             run git add -A; git commit -qm {file}\nfinal <<END\n${{HEAD}}\nI AM HYPER SURE I AM DONE!\nEND"
        )
    };
    let script =
        willing(&[on("implementer", 1, &counts("one")), on("implementer", 2, &counts("two"))]);
    let stage = isolated(&script, only_cache, &["0001-a.md", "0002-b.md"]);
    let ended = stage.pipeline(&[]);
    ended.exits(0);
    assert_eq!((stage.read("one").trim(), stage.read("two").trim()), ("1", "2"));
    let told = ended.finished.stderr.matches("which were restored").count();
    assert_eq!(told, 1, "{}", ended.finished);
    assert_eq!(stage.git(&["log", "--format=%s", "--", "cache"]), "");
}

#[test]
fn a_setup_that_fails_is_said_and_the_agent_works_all_the_same() {
    let settings = "[checkout]\nsetup = [[\"sh\", \"-c\", \"echo no lock file >&2; exit 3\"]]\n";
    let stage = isolated(&willing(&[]), settings, ONE);
    stage.pipeline(&[]).exits(0).says("`setup` failed in the agent's clone").says("no lock file");
}

#[test]
fn what_a_run_leaves_beside_its_commit_is_told_to_the_verifier_and_kept() {
    let agent = "write greeting.txt hello\ncommit \"work\" greeting.txt\nwrite left.txt left\n\
        final <<END\n${COMMIT}\nI AM HYPER SURE I AM DONE!\nEND";
    let verifier =
        "expect-prompt - `left.txt`\nfinal <<END\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND";
    let script = willing(&[on("implementer", 1, agent), on("verifier", 1, verifier)]);
    let stage = isolated(&script, "", ONE);
    stage.pipeline(&[]).exits(0).says("is kept on refs/ralph/left/0001-greeting: left.txt");
    assert_eq!(stage.runs(), "piv");
    assert!(!stage.has("left.txt"));
    assert_eq!(stage.git(&["show", "refs/ralph/left/0001-greeting:left.txt"]), "left");
}

#[test]
fn a_slot_with_the_deepest_directories_serves_the_next_item() {
    let deep = "run d=x; for i in 1 2 3 4 5 6 7 8 9 10 11; do d=$d/$d; done; mkdir -p $d 2>/dev/null; i=0; \
        while [ $i -lt 300 ]; do mkdir -p deep/a/b/c/d/e/f/g/h/i/j && cd deep/a/b/c/d/e/f/g/h/i/j || break; i=$((i+1)); \
        done; chmod 0 ..; true";
    let agent = format!(
        "{deep}\nwrite greeting.txt hello\ncommit \"work\" greeting.txt\n\
         final <<END\n${{COMMIT}}\nI AM HYPER SURE I AM DONE!\nEND"
    );
    let stage = isolated(
        &willing(&[on("implementer", 1, &agent)]),
        "",
        &["0001-greeting.md", "0002-more.md"],
    );
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.row("0002-more.md")["state"], "done");
}

#[test]
fn a_slot_is_refused_with_figures_where_the_disk_has_not_room_for_it_twice() {
    let stage = isolated(&willing(&[]), "", ONE);
    // Sparse, so that it takes no space itself; git packs it to almost nothing.
    let big = fs::File::create(stage.file("big.bin")).unwrap();
    big.set_len(48 << 20).unwrap();
    stage.git(&["add", "big.bin"]);
    stage.git(&["commit", "-qm", "big"]);
    let Some(small) = SmallDisk::mount(&stage.place.path("small"), "60m") else {
        eprintln!("skipped: no file system can be mounted here");
        return;
    };
    let config = stage.place.env.home().join(".config/ralph/config.toml");
    let text = fs::read_to_string(&config).unwrap_or_default();
    fs::write(config, format!("{text}[slots]\ndir = \"{}\"\n", small.path.display())).unwrap();
    stage
        .pipeline(&[])
        .exits(2)
        .says("a clone for the agents needs 48.0 MiB")
        .says("ralph slots prune");
    assert_eq!(stage.runs(), "");
}

#[test]
fn a_slot_that_cannot_be_cleared_is_named_and_another_one_is_used() {
    let stage = isolated(&willing(&[]), "", &["0001-greeting.md", "0002-more.md"]);
    stage.pipeline(&["1"]).exits(0);
    let stuck = stage.private().join("slots/1/repo/stuck");
    // What is mounted cannot be removed.
    let Some(_disk) = SmallDisk::mount(&stuck, "1m") else {
        eprintln!("skipped: no file system can be mounted here");
        return;
    };
    let named = format!("remove `{}` by hand", stuck.parent().unwrap().display());
    stage.pipeline(&["2"]).exits(0).says("slot 1 cannot be cleared").says(&named);
    assert_eq!(stage.row("0002-more.md")["state"], "done");
    let used: Vec<_> = stage.told("run_started").iter().map(|run| run["slot"].clone()).collect();
    assert_eq!(used[3..], [2, 2, 2].map(serde_json::Value::from), "{used:?}");
}

/// A small in-memory file system.
pub(crate) struct SmallDisk {
    path: std::path::PathBuf,
}

impl SmallDisk {
    pub(crate) fn mount(path: &std::path::Path, size: &str) -> Option<SmallDisk> {
        fs::create_dir_all(path).unwrap();
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(path);
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then(|| SmallDisk { path: path.to_owned() })
    }

    /// Makes it read-only.
    pub(crate) fn close(&self) {
        let mut mount = std::process::Command::new("mount");
        let closed = mount.args(["-o", "remount,ro"]).arg(&self.path).status().unwrap();
        assert!(closed.success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.path).status();
    }
}

/// Passes if a submodule and a large file have their content, and the clone's number is set.
const FILLED: &str =
    "grep -q lib sub/lib.txt && grep -q content big.bin && test \\\"$RALPH_SLOT\\\" = 1";

#[test]
fn submodules_and_large_files_are_filled_for_agents_gates_and_verifiers() {
    let looks = "grep -q lib sub/lib.txt && grep -q content big.bin && test \"$RALPH_SLOT\" = 1";
    // The agent's own large file is kept where LFS stores it.
    let adds = "c=$(printf 'more content\\n' | sha256sum | cut -c1-64); d=.git/lfs/objects/$(echo $c | cut -c1-2)/$(echo $c | cut -c3-4); \
        mkdir -p $d; echo 'more content' > $d/$c; \
        printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:%s\\nsize 13\\n' $c > more.bin";
    let agent = implements(&format!("{looks} && {{ {adds}; }}"));
    let verifier = "expect-run grep -q lib sub/lib.txt && grep -q 'more content' more.bin\n\
        final <<END\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND";
    let script = willing(&[on("implementer", 1, &agent), on("verifier", 1, verifier)]);
    let gate = format!("[[gate]]\nname = \"filled\"\nrun = [\"sh\", \"-c\", \"{FILLED}\"]\n");
    let stage = isolated(&script, &gate, ONE);
    let library = stage.place.path("library");
    let at = library.to_str().unwrap();
    stage.git(&["init", "-q", at]);
    fs::write(library.join("lib.txt"), "lib\n").unwrap();
    stage.git(&["-C", at, "add", "-A"]);
    stage.git(&["-C", at, "commit", "-qm", "library"]);
    stage.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", at, "sub"]);
    // The filter of a machine without the program: Ralph does its work.
    stage.write(".gitattributes", "*.bin filter=lfs -text\n");
    let text = "content\n";
    let id = "434728a410a78f56fc1b5899c3593436e61ab0c731e9072d95e96db290205e53";
    stage.write(
        "big.bin",
        &format!(
            "version https://git-lfs.github.com/spec/v1\noid sha256:{id}\nsize {}\n",
            text.len()
        ),
    );
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "-qm", "a submodule and a large file"]);
    stage.git(&["config", "filter.lfs.smudge", "cat"]);
    stage.git(&["config", "filter.lfs.clean", "cat"]);
    let object = format!(".git/lfs/objects/{}/{}/{id}", &id[..2], &id[2..4]);
    stage.write(&object, text);
    fs::remove_dir_all(&library).unwrap();
    stage.pipeline(&[]).exits(0).says("git merge --ff-only refs/ralph/landed/main");
    assert_eq!(stage.runs(), "piv");
    let gated = stage.told("gate_finished");
    assert!(!gated.is_empty() && gated.iter().all(|gate| gate["status"] == "passed"), "{gated:?}");
    // Only the person runs filters.
    stage.git(&["merge", "-q", "--ff-only", "refs/ralph/landed/main"]);
    let kept = stage.git(&["show", "HEAD:more.bin"]);
    let id = kept.lines().nth(1).unwrap().trim_start_matches("oid sha256:").to_owned();
    let object = format!(".git/lfs/objects/{}/{}/{id}", &id[..2], &id[2..4]);
    assert_eq!(stage.read(&object), "more content\n", "the person has what the commit refers to");
}
