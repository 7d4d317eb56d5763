//! `ralph understand`: one topic per run, and only the map changes.

use std::fs;

use super::{Desk, MAPPER};
use crate::harness::{PATIENCE, wait_until};

const MAP: &str = "# Map\n\n## Next Topics (checklist)\n\n- [ ] one\n- [ ] two\n- [ ] three\n";

fn desk(script: &str, map: &str) -> Desk {
    let desk = Desk::new(script);
    desk.write("ralph/codebase_map.md", map);
    desk.exits(0, &["init"]);
    desk.commit_all("a map");
    desk
}

#[test]
fn each_run_maps_one_topic_until_none_is_left() {
    let mapper = MAPPER.replace("[mapper]\n", "[mapper]\nrun cat > /dev/null\n");
    let desk = desk(&mapper, MAP);
    let before = desk.outside();
    let finished = desk.exits(0, &["understand"]);
    assert!(finished.stderr.contains("no topics are left to map"), "{finished}");
    assert_eq!(desk.roles(), ["mapper"; 3]);
    let topics = desk.logged("topic_mapped");
    let topics: Vec<&str> = topics.iter().map(|mapped| mapped["topic"].as_str().unwrap()).collect();
    assert_eq!(topics, ["one", "two", "three"]);
    let map = desk.read("ralph/codebase_map.md");
    assert_eq!(map.matches("- [x] ").count(), 3, "{map}");
    assert_eq!(map.matches("## 2026-11-18 - topic").count(), 3, "{map}");
    // The branch, every ref and everything outside home are unchanged.
    assert_eq!(desk.outside(), before);
    assert_eq!(desk.git(&["status", "--porcelain"]).trim(), "M ralph/codebase_map.md");
    let finished = desk.exits(0, &["understand"]);
    assert!(finished.stderr.contains("no topics are left"), "{finished}");
    assert_eq!(desk.roles().len(), 3);
}

#[test]
fn the_prompt_names_the_topic_the_file_and_the_day() {
    let script = MAPPER.replace(
        "[mapper]\n",
        "[mapper]\nexpect-prompt <topic>\nexpect-prompt one\nexpect-prompt /codebase_map.md\nexpect-prompt Append one section\n",
    );
    let desk = desk(&script, MAP);
    let finished = desk.exits(0, &["understand", "1"]);
    assert!(finished.stderr.contains("mapped 1 topic: 2 topics left"), "{finished}");
}

#[test]
fn a_map_without_boxes_takes_the_topics_of_the_prompt() {
    let desk = desk(MAPPER, "# Map\n");
    desk.write("ralph/understand_prompt.md", "Map it.\n\n1) Alpha\n2) Beta\n");
    desk.exits(0, &["understand", "1"]);
    let mapped = desk.logged("topic_mapped");
    assert_eq!(mapped[0]["topic"], "Alpha");
}

#[test]
fn a_map_that_loses_entries_or_gains_none_is_not_taken() {
    let old = format!("{MAP}\n## 2020-01-01 - Old\n\nkept\n");
    for (step, reason) in [
        ("run true", "the map was not changed"),
        ("run : > $RALPH_OUT/codebase_map.md", "the map is empty"),
        ("run sed -i s/one/1/ $RALPH_OUT/codebase_map.md", "lost earlier text"),
        ("outbox codebase_map.md ## 2026-11-18 - x", "lost earlier text"),
        ("run rm $RALPH_OUT/codebase_map.md", "missing from the outbox"),
    ] {
        let script = format!(
            "[mapper 1]\n{step}\nfinal done\n[mapper]\nexpect-prompt Fix these first\n{}",
            MAPPER.replace("[mapper]\n", "")
        );
        let desk = desk(&script, &old);
        let finished = desk.exits(1, &["understand", "2"]);
        assert!(finished.stderr.contains(reason), "{step}: {finished}");
        let map = desk.read("ralph/codebase_map.md");
        assert!(
            map.contains("## 2020-01-01 - Old\n\nkept") && map.contains("- [x] one"),
            "{step}: {map}"
        );
    }
}

/// C10.2, C10.3, C10.4: without the kernel boundary every other change aborts, in any run, including commits and
/// unusual names; files that were dirty before do not count.
#[test]
fn whatever_else_a_mapper_changes_aborts_the_command() {
    let last = "# Map\n\n## Next Topics\n- [ ] one\n";
    for (in_place, step, named) in [
        (false, "run echo x > new.txt", "new.txt"),
        (false, "run echo x > 'größe und so.txt'", "größe und so.txt"),
        (false, "run echo more >> README.md", "README.md"),
        (false, "run echo x > c.txt; git add c.txt; git commit -qm sneaky", "refs/heads/"),
        (true, "run echo x > new.txt", "new.txt"),
        (true, "run echo more >> README.md", "README.md"),
        (true, "run echo x > c.txt; git add c.txt; git commit -qm sneaky", "refs/heads/main"),
    ] {
        let script = MAPPER.replace("[mapper]\n", &format!("[mapper]\n{step}\n"));
        let desk = desk(&script, last);
        if in_place {
            desk.place.env.in_place();
        }
        desk.configure("boundary = \"detect\"");
        desk.write("dirty.txt", "mine");
        let before = desk.outside();
        let finished = desk.exits(1, &["understand"]);
        let context = || format!("{step} {in_place}: {finished}");
        assert!(finished.stderr.contains("the mapper made forbidden changes"), "{}", context());
        assert!(finished.stderr.contains(named), "{}", context());
        assert!(!finished.stderr.contains("dirty.txt"), "{}", context());
        assert!(finished.stderr.contains("boundary.diff"), "{}", context());
        assert_eq!(desk.read("ralph/codebase_map.md"), last, "nothing of such a run is taken");
        assert_eq!(desk.read("README.md"), "A repository.\n");
        assert!(!desk.place.env.commits().contains(&"sneaky".to_owned()));
        if !in_place {
            assert_eq!(desk.outside(), before, "{}", context());
        }
    }
    // With it the write does not happen at all, and the run counts.
    let script = MAPPER.replace("[mapper]\n", "[mapper]\nrun echo x > new.txt\n");
    let desk = desk(&script, last);
    desk.exits(0, &["understand"]);
    assert!(!desk.path("new.txt").exists());
}

/// A mapper that attacks the person's side, where only a comparison can detect it: a person has to look.
#[test]
fn what_changes_on_the_persons_side_meanwhile_is_theirs_to_explain() {
    let step = "run echo x >> $RALPH_HOME/prd.json";
    let script = MAPPER.replace("[mapper]\n", &format!("[mapper]\n{step}\n"));
    let desk = desk(&script, MAP);
    desk.configure("boundary = \"detect\"");
    let finished = desk.exits(3, &["understand"]);
    assert!(
        finished.stderr.contains("while the agent worked in its clone: ralph/prd.json"),
        "{finished}"
    );
}

/// The mapper reads a clone of what is checked out. No branch or commit is created for it, whatever the person has
/// checked out, and uncommitted changes are not visible.
#[test]
fn mapping_reads_a_clone_and_leaves_everything_of_the_persons_as_it_was() {
    type Prepare = fn(&Desk);
    let kinds: [(&str, Prepare); 4] = [
        ("a branch", |_| {}),
        ("another branch", |desk| {
            desk.git(&["switch", "-q", "-c", "feature"]);
            desk.write("feature.txt", "committed");
            desk.commit_all("a feature");
        }),
        ("no branch", |desk| {
            desk.git(&["checkout", "-q", "--detach"]);
        }),
        ("a merge under way", |desk| {
            fs::copy(desk.path(".git/refs/heads/main"), desk.path(".git/MERGE_HEAD")).unwrap();
        }),
    ];
    for (kind, prepare) in kinds {
        let script = MAPPER.replace(
            "[mapper]\n",
            "[mapper]\nrun test ! -e dirty.txt && test \"$PWD\" != \"${RALPH_HOME%/ralph}\" && git log -1 --format=%H >> $RALPH_OUT/codebase_map.md\n",
        );
        let desk = desk(&script, MAP);
        prepare(&desk);
        desk.write("dirty.txt", "mine");
        desk.write("staged.txt", "mine too");
        desk.git(&["add", "staged.txt"]);
        let (before, head) = (desk.outside(), desk.git(&["rev-parse", "HEAD"]));
        let finished = desk.exits(0, &["understand"]);
        assert!(
            finished.stderr.contains("agents will not see 2 changed files of yours"),
            "{finished}"
        );
        assert_eq!(desk.outside(), before, "{kind}");
        let map = desk.read("ralph/codebase_map.md");
        assert_eq!(map.matches(head.trim()).count(), 3, "{kind}: {map}");
        // No manual cleanup is needed.
        let slots = desk.exits(0, &["--json", "slots", "list"]);
        assert!(!slots.stdout.contains("understand"), "{slots}");
    }
}

/// Without a commit there is nothing to clone; no commit is created for it either.
#[test]
fn before_the_first_commit_mapping_reads_the_checkout() {
    let desk = desk(MAPPER, MAP);
    desk.git(&["update-ref", "-d", "HEAD"]);
    desk.exits(0, &["understand"]);
    assert_eq!(desk.read("ralph/codebase_map.md").matches("- [x] ").count(), 3);
    assert_eq!(desk.git(&["for-each-ref"]), "");
}

/// A commit that the person makes between two runs is visible to the next one.
#[test]
fn the_next_run_reads_what_was_committed_meanwhile() {
    let step = "run git log -1 --format=%s >> $RALPH_OUT/codebase_map.md\n";
    let script = MAPPER.replace("[mapper]\n", &format!("[mapper]\n{step}"));
    let desk = desk(&script, MAP);
    desk.exits(0, &["understand", "1"]);
    desk.write("later.txt", "x");
    desk.git(&["add", "later.txt"]);
    desk.git(&["commit", "-qm", "made meanwhile"]);
    desk.exits(0, &["understand", "1"]);
    let map = desk.read("ralph/codebase_map.md");
    assert!(map.contains("a map") && map.contains("made meanwhile"), "{map}");
}

#[test]
fn a_workspace_below_the_root_of_its_repository_works() {
    let desk = Desk::new(MAPPER);
    desk.write("sub/scripts/ralph/codebase_map.md", MAP);
    desk.write("sub/scripts/ralph/prompt.md", "x\n");
    let settings = desk.read("ralph.toml").replace("../script", "../../script");
    desk.write("sub/ralph.toml", &settings);
    desk.exits(0, &["init", "sub"]);
    desk.commit_all("a part");
    desk.exits(0, &["--root", "sub", "understand", "1"]);
    assert!(desk.read("sub/scripts/ralph/codebase_map.md").contains("- [x] one"));
    assert_eq!(desk.git(&["status", "--porcelain"]).trim(), "M sub/scripts/ralph/codebase_map.md");
}

#[test]
fn the_person_is_asked_after_each_run_if_they_want_to_be() {
    for (typed, runs, code) in
        [("3\n", 1, 0), ("quit\n", 1, 0), ("1\nq\n", 2, 0), ("skip\n", 3, 0), ("\n\n", 3, 0)]
    {
        let desk = desk(MAPPER, MAP);
        let said = desk.typed(code, &["understand", "--interactive"], typed);
        assert_eq!(desk.roles().len(), runs, "{typed:?}\n{said}");
        for option in ["1. Continue (default)", "2. Skip interactive", "3. Quit"] {
            assert!(said.contains(option), "{said}");
        }
    }
    let desk = desk(MAPPER, MAP);
    let finished = desk.exits(3, &["understand", "-i"]);
    assert!(finished.stderr.contains("needs a terminal"), "{finished}");
}

#[test]
fn a_persons_edit_of_the_map_meanwhile_is_not_lost() {
    let script = "[mapper 1]\nrun printf '\\n## 2026-11-18 - a\\n' >> $RALPH_OUT/codebase_map.md\n\
                  run while [ ! -e EDITED ]; do sleep 0.01; done\nfinal done\n";
    let desk = desk("", MAP);
    let edited = desk.place.path("edited");
    let script = script.replace("EDITED", edited.to_str().unwrap());
    fs::write(desk.place.path("script"), format!("{script}{MAPPER}")).unwrap();
    let running = desk.place.start(&["understand", "2"]);
    wait_until(PATIENCE, "the mapper is at work", || !desk.roles().is_empty());
    desk.write("ralph/codebase_map.md", &format!("{MAP}\nMine.\n"));
    fs::write(edited, "").unwrap();
    let (code, said) = running.finish();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("changed by someone else meanwhile"), "{said}");
    let map = desk.read("ralph/codebase_map.md");
    assert!(map.contains("Mine.") && map.contains("- [x] one"), "{map}");
}

#[test]
fn trouble_costs_no_iteration() {
    let script = format!("[mapper 1]\nexit 3\n{MAPPER}");
    let desk = desk(&script, "# Map\n\n## Next Topics\n- [ ] one\n");
    desk.exits(0, &["understand", "1"]);
    assert_eq!(desk.roles(), ["mapper"; 2]);
}
