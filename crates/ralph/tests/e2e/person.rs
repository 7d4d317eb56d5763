//! A person working in the same repository while agents work in clones: random, seeded and reproducible.
//!
//! A story is a run of some specs. Whenever an implementer is working, it waits, and the person does some things:
//! commits, amends, squashes, rebases, merges, switches branches, edits specs and gates, leaves files changed or staged,
//! also such as will land, resets the branch, collects garbage. Afterwards, and at each check in between, everything of theirs is unchanged; in the end
//! every accepted item is on the branch, or the reason is reported and the work is kept.
//!
//! `cargo xtask person` runs many stories; `cargo xtask person --seed N` repeats one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::clones::isolated;
use crate::harness::{PATIENCE, wait_until};
use crate::pipeline::Stage;

const SPECS: &[&str] = &["0001-one.md", "0002-two.md"];

/// The initial number of commits of a story.
const BEGINNING: u32 = 3;

/// A fast gate that checks what lands.
const GATE: &str =
    "[[gate]]\nname = \"sound\"\nrun = [\"sh\", \"-c\", \"! grep -rq BROKEN . --include=*.txt\"]\n";

/// Agents that always do their work, and merge concurrent changes when told to.
fn script(stage: &Stage) -> String {
    let go = stage.place.path("go");
    format!(
        "[planner]\noutbox plan.md <<END\n# Plan\n\nDo it.\nEND\nfinal I AM HYPER SURE I AM DONE!\n\
         [implementer]\nwrite work-${{INVOCATION}}.txt done ${{INVOCATION}}\n\
         run if git rev-parse -q --verify ralph/tip >/dev/null; then git merge -q -m merged ralph/tip >/dev/null 2>&1 || \
         {{ git checkout -q --theirs . 2>/dev/null; git add -A; git commit -qm resolved; }}; fi; echo ${{INVOCATION}} >> shared.txt; \
         git add -A; git commit -qm 'work ${{INVOCATION}}'\n\
         run touch .git/begun-${{INVOCATION}}; while [ ! -e {go}-${{INVOCATION}} ]; do sleep 0.02; done\n\
         final <<END\n${{HEAD}}\nI AM HYPER SURE I AM DONE!\nEND\n\
         [verifier]\nfinal <<END\nIt holds.\n${{HEAD}}\nI AM HYPER SURE I AM DONE!\nEND\n",
        go = go.display()
    )
}

/// Pseudo-random numbers that depend only on the seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// The person: their actions, and their data.
struct Person<'s> {
    stage: &'s Stage,
    dice: Dice,
    /// For the message of a failed story.
    told: String,
    /// Files they changed or created and have not committed.
    dirt: BTreeMap<String, String>,
    /// Those of them that are new in their index.
    staged: BTreeSet<String>,
    /// Their own files on `main`, as last seen.
    on_main: BTreeMap<String, String>,
    /// Their branches on which nothing may land.
    branches: BTreeMap<String, String>,
    current: String,
    made: u32,
    /// They removed commits from `main`, possibly Ralph's too.
    moved_back: bool,
}

impl Person<'_> {
    fn git(&self, args: &[&str]) -> String {
        self.stage.git(args)
    }

    /// Checks that everything of theirs is unchanged.
    #[track_caller]
    fn look(&mut self) {
        let told = &self.told;
        for (path, text) in &self.dirt {
            let now = fs::read_to_string(self.stage.file(path)).unwrap_or_default();
            assert_eq!(now, *text, "{path} was theirs\n{told}");
        }
        let staged = self.git(&["diff", "--cached", "--name-only", "--diff-filter=A"]);
        assert!(staged.lines().eq(&self.staged), "staged: {staged}\n{told}");
        for (branch, id) in &self.branches {
            assert_eq!(self.git(&["rev-parse", branch]), *id, "{branch}\n{told}");
        }
        assert_eq!(self.git(&["branch", "--show-current"]), self.current, "{told}");
        for (path, text) in &self.on_main {
            let now = self.git(&["show", &format!("main:{path}")]);
            assert_eq!(now, *text, "{path} of main\n{told}");
        }
    }

    /// Records the content of `main`: the person has just changed or seen it.
    fn remember(&mut self) {
        self.on_main.clear();
        for path in self.git(&["ls-tree", "--name-only", "main"]).lines() {
            if path.starts_with("mine-") {
                let text = self.git(&["show", &format!("main:{path}")]);
                self.on_main.insert(path.to_owned(), text);
            }
        }
        self.current = self.git(&["branch", "--show-current"]);
        for branch in
            self.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads/"]).lines()
        {
            if branch != "main" {
                self.branches.insert(branch.to_owned(), self.git(&["rev-parse", branch]));
            }
        }
    }

    /// Performs one action, if currently possible.
    fn act(&mut self) {
        self.look();
        self.made += 1;
        let number = self.made;
        let is_on_main = self.current == "main";
        let count: u32 = self.git(&["rev-list", "--count", "HEAD"]).parse().unwrap();
        // The initial commits are never removed.
        let is_plain = count > BEGINNING + 2
            && self.git(&["rev-list", "--count", "--merges", "HEAD~2..HEAD"]) == "0";
        let what = match self.dice.roll(15) {
            0 | 1 => {
                let path = format!("mine-{number}.txt");
                self.stage.write(&path, &format!("mine {number}\n"));
                self.git(&["add", &path]);
                self.git(&["commit", "-qm", &format!("mine {number}"), "--", &path]);
                "commits"
            }
            2 if !self.dirt.contains_key("shared.txt") && self.stage.has("shared.txt") => {
                let text = self.stage.read("shared.txt") + &format!("person {number}\n");
                self.stage.write("shared.txt", &text);
                self.git(&["commit", "-qm", &format!("shared {number}"), "--", "shared.txt"]);
                "commits to a file that agents change"
            }
            3 => {
                self.git(&[
                    "commit",
                    "-q",
                    "--amend",
                    "--only",
                    "-m",
                    &format!("amended {number}"),
                ]);
                "amends"
            }
            4 if is_plain && self.dirt.is_empty() => {
                self.git(&["rebase", "-q", "--force-rebase", "HEAD~2"]);
                "rebases"
            }
            5 if self.dirt.is_empty() && is_on_main => {
                self.git(&["switch", "-q", "-c", &format!("other-{number}")]);
                "switches to a new branch"
            }
            5 if self.dirt.is_empty() => {
                self.git(&["switch", "-q", "main"]);
                "switches back"
            }
            6 if is_on_main => {
                let path = "ralph/specs/0002-two.md";
                let text = self.stage.read(path) + &format!("\nAlso {number}.\n");
                self.stage.write(path, &text);
                self.git(&["commit", "-qm", &format!("spec {number}"), "--", path]);
                "edits a spec"
            }
            7 if is_on_main => {
                let text = self.stage.read("ralph.toml")
                    + &format!("[[gate]]\nname = \"more-{number}\"\nrun = [\"true\"]\n");
                self.stage.write("ralph.toml", &text);
                self.git(&["commit", "-qm", &format!("gate {number}"), "--", "ralph.toml"]);
                "adds a gate"
            }
            8 => {
                // A file that the current implementer, or a later one, will land.
                let path = format!("work-{}.txt", 1 + self.dice.roll(3));
                if !self.stage.has(&path) {
                    self.leave(&path, format!("half written {number}\n"));
                }
                "has a file in the way"
            }
            9 if is_on_main && is_plain && self.dirt.is_empty() => {
                self.git(&["reset", "-q", "--keep", "HEAD~1"]);
                self.moved_back = true;
                "moves the branch back"
            }
            10 if is_plain && self.dirt.is_empty() => {
                self.git(&["reset", "-q", "--soft", "HEAD~2"]);
                self.git(&["commit", "-qm", &format!("squashed {number}")]);
                "squashes"
            }
            11 if count > BEGINNING + 2 && self.dirt.is_empty() => {
                self.merge_own_branch(number);
                "merges a branch of their own"
            }
            12 => {
                let path = format!("staged-{number}.txt");
                self.leave(&path, format!("staged {number}\n"));
                self.git(&["add", &path]);
                self.staged.insert(path);
                "stages a file"
            }
            13 if self.stage.has("shared.txt") => {
                let text = self.stage.read("shared.txt");
                self.leave("shared.txt", format!("{text}half written {number}\n"));
                "changes a file that agents change"
            }
            _ => {
                self.git(&["gc", "--quiet", "--prune=now"]);
                "collects garbage"
            }
        };
        let _ = writeln!(self.told, "  {number}: {what} (on {})", self.current);
        self.remember();
    }

    /// Writes a file and does not commit it.
    fn leave(&mut self, path: &str, text: String) {
        self.stage.write(path, &text);
        self.dirt.insert(path.to_owned(), text);
    }

    fn merge_own_branch(&self, number: u32) {
        let (path, side) = (format!("mine-{number}.txt"), format!("side-{number}"));
        self.git(&["switch", "-q", "-c", &side, "HEAD~1"]);
        self.stage.write(&path, &format!("mine {number}\n"));
        self.git(&["add", &path]);
        self.git(&["commit", "-qm", &format!("aside {number}"), "--", &path]);
        self.git(&["switch", "-q", &self.current]);
        self.git(&["merge", "-q", "--no-edit", &side]);
    }

    /// Cleans up everything that can keep work from reaching the checkout.
    fn tidy_up(&mut self) {
        self.look();
        self.git(&["reset", "-q"]);
        self.staged.clear();
        for path in std::mem::take(&mut self.dirt).into_keys() {
            if self.git(&["ls-files", "--", &path]).is_empty() {
                fs::remove_file(self.stage.file(path)).unwrap();
            } else {
                self.git(&["checkout", "-q", "--", &path]);
            }
        }
        self.git(&["switch", "-q", "main"]);
        self.remember();
    }
}

fn slot_marks(stage: &Stage, number: u32) -> bool {
    let states = fs::read_dir(stage.place.path("state/ralph")).into_iter().flatten().flatten();
    let slots =
        states.flat_map(|state| fs::read_dir(state.path().join("slots")).into_iter().flatten());
    slots.flatten().any(|slot| slot.path().join(format!("repo/.git/begun-{number}")).exists())
}

/// Runs the story of a seed.
fn tell(seed: u64) {
    let stage = isolated("", GATE, SPECS);
    stage.script(&script(&stage));
    stage.write("shared.txt", "start\n");
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "-qm", "shared"]);
    let mut person = Person {
        stage: &stage,
        dice: Dice(seed),
        told: format!("seed {seed}\n"),
        dirt: BTreeMap::new(),
        staged: BTreeSet::new(),
        on_main: BTreeMap::new(),
        branches: BTreeMap::new(),
        current: "main".to_owned(),
        made: 0,
        moved_back: false,
    };
    let mut agent = 1;
    let mut last = String::new();
    for start in 1..=4 {
        let running = stage.place.start(&["pipeline"]);
        loop {
            let marked = |number| slot_marks(&stage, number);
            wait_until(PATIENCE, &format!("an agent or the end\n{}", person.told), || {
                marked(agent) || running.is_over()
            });
            if !marked(agent) {
                break;
            }
            // The last start is undisturbed, so that everything can complete.
            if start < 4 {
                for _ in 0..person.dice.roll(4) {
                    person.act();
                }
            }
            fs::write(format!("{}-{agent}", stage.place.path("go").display()), "").unwrap();
            agent += 1;
        }
        let (code, said) = running.finish();
        let _ = writeln!(person.told, "start {start} ended with {code:?}\n{said}");
        last = said;
        person.tidy_up();
        // A branch that refuses work three times in a row leads to a question, which they answer.
        if last.contains("3 times in a row") {
            stage.ralph(&["answer", "no, merge what came meanwhile"]).exits(0);
        }
        stage.ralph(&["land"]);
        person.look();
        if code == Some(0) && start > 1 {
            break;
        }
    }
    let told = &person.told;
    stage.git(&["fsck", "--strict", "--connectivity-only"]);
    let waits = stage.git(&["for-each-ref", "--format=%(refname)", "refs/ralph/landed/"]);
    let is_said = waits.is_empty() || last.contains("rewritten") || last.contains("both changed");
    assert!(is_said, "work waits and nobody says why: {waits}\n{told}");
    let reachable = stage.git(&["rev-list", "main", "--glob=refs/ralph/landed/*"]);
    let files = stage.git(&["ls-tree", "--name-only", "main"]);
    let works = files.lines().filter(|path| path.starts_with("work-")).count();
    for landed in stage.told("landed") {
        let Some(candidate) = landed["candidate"].as_str() else { continue };
        // Work that was carried over landed as another commit. A person who amended or rebased created other commits of
        // the same work; one who reset the branch removed it.
        let is_kept = person.moved_back
            || reachable.lines().any(|known| known == candidate || landed["commit"] == known)
            || works >= SPECS.len();
        assert!(is_kept, "{landed} is nowhere\n{told}");
    }
    if waits.is_empty() {
        for spec in SPECS {
            assert_eq!(stage.row(spec)["state"], "done", "{spec}\n{told}");
        }
        assert_eq!(stage.git(&["status", "--porcelain"]), "", "{told}");
    }
}

/// The seeds to run: a range, or a sample that is another each day, to cover many over time.
fn seeds() -> Vec<u64> {
    let Ok(range) = std::env::var("RALPH_PERSON_SEEDS") else {
        let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 86_400;
        return vec![3, 1_000_000 + 2 * day, 1_000_001 + 2 * day];
    };
    let (first, last) = range.split_once('-').unwrap();
    (first.parse().unwrap()..=last.parse().unwrap()).collect()
}

#[test]
fn whatever_a_person_does_meanwhile_nothing_of_theirs_is_lost_and_work_lands() {
    let mut wrong = Vec::new();
    for seed in seeds() {
        let is_fine = catch_unwind(AssertUnwindSafe(|| tell(seed))).is_ok();
        println!("seed {seed} {}", if is_fine { "is fine" } else { "goes wrong" });
        wrong.extend((!is_fine).then_some(seed));
    }
    assert!(wrong.is_empty(), "`cargo xtask person --seed N` repeats these: {wrong:?}");
}
