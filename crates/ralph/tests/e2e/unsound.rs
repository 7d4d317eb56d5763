//! Unsound content in an agent's clone: its work is rejected with the reason; nothing of it is run, and no other item
//! is delayed.

use std::fs;

use crate::pipeline::{PHRASE, Stage, on, willing};

/// Objects and refs that must not be imported, each with a word of the reason.
const UNSOUND: &[(&str, &str, &str)] = &[
    (
        "a submodule whose update is a command",
        "printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = ./x\\n\\tupdate = !touch CANARY\\n' > .gitmodules; \
         git add -A; git commit -qm work",
        "gitmodulesUpdate",
    ),
    (
        "a submodule whose name leads out",
        "printf '[submodule \"../../x\"]\\n\\tpath = x\\n\\turl = ./x\\n' > .gitmodules; git add -A; git commit -qm work",
        "gitmodulesName",
    ),
    (
        "a submodule whose url is an option",
        "printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = --upload-pack=CANARY\\n' > .gitmodules; git add -A; \
         git commit -qm work",
        "gitmodulesUrl",
    ),
    (
        "a tree with a git directory",
        "blob=$(git hash-object -w greeting.txt); \
         tree=$( (git ls-tree HEAD; printf '100644 blob %s\\t.GIT\\n' $blob) | git mktree); \
         git update-ref HEAD $(git commit-tree -p HEAD -m work $tree)",
        "hasDotgit",
    ),
    (
        "a malformed commit",
        "git add -A; git commit -qm before; \
         id=$(git cat-file commit HEAD | sed s/^author.*// | git hash-object -t commit -w --stdin --literally); \
         git update-ref HEAD $id",
        "cannot be accepted",
    ),
    (
        "an object that is not there",
        "git add -A; git commit -qm work; id=$(git rev-parse HEAD:greeting.txt); \
         rm -f .git/objects/$(echo $id | cut -c1-2)/$(echo $id | cut -c3-)",
        "cannot be accepted",
    ),
    (
        "an object that is another",
        "git add -A; git commit -qm work; id=$(git rev-parse HEAD:greeting.txt); \
         file=.git/objects/$(echo $id | cut -c1-2)/$(echo $id | cut -c3-); \
         other=$(echo forged | git hash-object -w --stdin); rm -f $file; \
         cp .git/objects/$(echo $other | cut -c1-2)/$(echo $other | cut -c3-) $file",
        "cannot be accepted",
    ),
    (
        "a branch at a commit that is not there",
        "git add -A; git commit -qm work; echo 1234567890123456789012345678901234567890 > .git/refs/heads/ghost",
        "cannot be accepted",
    ),
];

/// Refs that git itself does not use: whatever the verdict, they cause no trouble.
const ODD: &[(&str, &str)] = &[
    ("a branch that is no id", "echo nonsense > .git/refs/heads/odd"),
    ("a branch that names itself", "echo 'ref: refs/heads/odd' > .git/refs/heads/odd"),
    (
        "a branch with a name of its own",
        "cp .git/refs/heads/ralph/0001-greeting '.git/refs/heads/a..b'",
    ),
    ("a branch at a blob", "git rev-parse HEAD:greeting.txt > .git/refs/heads/odd"),
    ("a directory in place of packed refs", "rm -f .git/packed-refs; mkdir .git/packed-refs"),
    ("a head that is none", "echo nonsense > .git/HEAD"),
    ("an index that is none", "echo nonsense > .git/index"),
    ("settings that cannot be read", "echo '[nonsense' > .git/config"),
    ("no objects at all", "rm -rf .git/objects"),
    ("no repository at all", "rm -rf .git"),
    (
        "a branch of another encoding",
        "cp .git/refs/heads/ralph/0001-greeting \"$(printf '.git/refs/heads/\\377')\"",
    ),
];

/// Files at which git would wait until its timeout, or with which it would fill its memory: it must not be asked at all.
const ENDLESS: &[(&str, &str)] = &[
    ("a pipe in place of what was fetched", "mkfifo .git/FETCH_HEAD"),
    ("a pipe in place of the head", "rm .git/HEAD; mkfifo .git/HEAD"),
    ("a pipe among the branches", "mkfifo .git/refs/heads/pipe"),
    ("a head of terabytes", "rm .git/HEAD; truncate -s 4T .git/HEAD"),
    ("an index of terabytes", "rm .git/index; truncate -s 4T .git/index"),
    ("packed refs of terabytes", "truncate -s 4T .git/packed-refs"),
];

fn claims() -> String {
    format!("final <<END\n${{HEAD}}\n{PHRASE}\nEND")
}

/// Two specs: the first implementer attacks in every run, the second works.
fn attacked(attack: &str, claim: &str, then: &str) -> Stage {
    let stage = Stage::with("", "", &["0001-greeting.md", "0002-other.md"]);
    let canary = stage.place.path("canary");
    let attack = attack.replace("CANARY", canary.to_str().unwrap());
    let first = format!("write greeting.txt hello\nrun {attack}\n{claim}");
    let honest =
        format!("write honest.txt done\nrun git add -A; git commit -qm honest\n{}", claims());
    let blocks =
        [on("implementer", 1, &first), on("implementer", 2, then), on("implementer", 3, &honest)];
    stage.script(&willing(&blocks));
    stage
}

/// The codes of all rejection reasons of the first spec.
fn codes(stage: &Stage) -> Vec<String> {
    let verdicts = stage.told("verdict");
    let reasons = verdicts
        .iter()
        .filter(|verdict| verdict["item"] == "0001-greeting")
        .filter_map(|verdict| verdict["reasons"].as_array())
        .flatten();
    reasons.map(|reason| reason["code"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_is_not_sound_is_a_rejection_that_names_it_and_is_never_run() {
    for (name, attack, word) in UNSOUND {
        let again = format!(
            "expect-prompt cannot be accepted\nexpect-prompt {word}\n\
             run rm -f .gitmodules .git/refs/heads/ghost; git checkout -q -f -B ralph/0001-greeting main; echo hello > greeting.txt; git add -A; git commit -qm mended\n{}",
            claims()
        );
        let stage = attacked(attack, &claims(), &again);
        let ended = stage.pipeline(&["--max-attempts", "3"]);
        assert_eq!(codes(&stage), ["unsound"], "{name}: {}", ended.finished);
        ended.exits(0);
        assert_eq!(stage.told("trouble"), [] as [serde_json::Value; 0], "{name}");
        assert!(!stage.place.path("canary").exists(), "{name}: it was run");
        assert_eq!(stage.read("greeting.txt"), "hello\n", "{name}");
        assert!(!stage.has(".gitmodules"), "{name}");
        assert_eq!(stage.row("0002-other.md")["state"], "done", "{name}");
        stage.git(&["fsck", "--strict", "--no-dangling"]);
    }
}

#[test]
fn an_agent_that_insists_stops_nobody_but_its_own_item() {
    let (_, attack, _) = UNSOUND[0];
    let stage = attacked(attack, &claims(), "final no");
    let script = fs::read_to_string(stage.place.path("script")).unwrap();
    // The first item's attempts are used up after one run.
    stage.script(
        &script
            .replace("[implementer 2]", "[implementer 9]")
            .replace("[implementer 3]", "[implementer 2]"),
    );
    stage.pipeline(&["--max-attempts", "1", "--keep-going"]).exits(1);
    assert_eq!(codes(&stage), ["unsound"]);
    assert_eq!(stage.row("0002-other.md")["state"], "done");
    assert!(!stage.place.path("canary").exists());
    stage.git(&["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn odd_refs_in_a_clone_are_no_trouble() {
    are_no_trouble(ODD);
}

#[test]
fn what_git_would_never_finish_with_is_found_before_git_is_asked() {
    are_no_trouble(ENDLESS);
}

fn are_no_trouble(left_behind: &[(&str, &str)]) {
    for (name, odd) in left_behind {
        let attack = format!("git add -A; git commit -qm work; {odd}");
        let again = format!(
            "write again.txt again\nrun git checkout -q -f -B fresh; git add -A; git commit -qm again\n{}",
            claims()
        );
        let stage = attacked(&attack, &format!("final {PHRASE}"), &again);
        let ended = stage.pipeline(&["--max-attempts", "2", "--keep-going"]);
        assert_eq!(
            stage.told("trouble"),
            [] as [serde_json::Value; 0],
            "{name}: {}",
            ended.finished
        );
        assert_eq!(stage.row("0002-other.md")["state"], "done", "{name}: {}", ended.finished);
    }
}
