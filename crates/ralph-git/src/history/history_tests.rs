use super::super::testing::{World, write};
use super::*;
use camino::Utf8Path;
use std::fmt::Write;

const PLAN: &str = "ralph/plan.jsonl";

/// A reported commit, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    commit: Oid,
    parents: usize,
    /// `-line` and `+line` for each parent.
    changes: Vec<Vec<String>>,
}

fn told(world: &World, dir: &Utf8Path, since: Option<&Oid>) -> (Walked, Vec<Told>) {
    let git = world.open(dir);
    let tip = git.tip("HEAD").unwrap().unwrap();
    let mut all = Vec::new();
    let query = HistoryQuery { path: Path::new(PLAN), tip: &tip, since, subjects: &[] };
    let walked = walk(&git, &query, &mut |version| {
        let texts = |sign: &str, lines: &[&[u8]]| -> Vec<String> {
            lines.iter().map(|line| format!("{sign}{}", String::from_utf8_lossy(line))).collect()
        };
        let changes = version
            .changes
            .iter()
            .map(|change| [texts("-", &change.removed), texts("+", &change.added)].concat());
        assert_eq!(version.author, "Person <p@example.org>");
        all.push(Told {
            commit: version.commit.clone(),
            parents: version.parents,
            changes: changes.collect(),
        });
        ControlFlow::Continue(())
    });
    (walked.unwrap(), all)
}

fn changes(all: &[Told]) -> Vec<Vec<Vec<&str>>> {
    all.iter()
        .map(|told| {
            told.changes.iter().map(|lines| lines.iter().map(String::as_str).collect()).collect()
        })
        .collect()
}

#[test]
fn a_history_is_told_oldest_first_and_only_as_far_as_it_is_new() {
    let world = World::new();
    let dir = world.repository("r");
    world.commit(&dir, &[(PLAN, "a\nb\n")]);
    world.commit(&dir, &[("other", "1")]);
    let known = world.commit(&dir, &[(PLAN, "a\nb\nc\n")]);
    world.commit(&dir, &[("other", "2")]);
    std::fs::remove_file(dir.join(PLAN)).unwrap();
    world.commit(&dir, &[]);
    let last = world.commit(&dir, &[(PLAN, "c\nx\n")]);
    let (walked, all) = told(&world, &dir, None);
    assert_eq!(walked, Walked::Told(4));
    assert_eq!(
        changes(&all),
        [
            vec![vec!["+a", "+b"]],
            vec![vec!["+c"]],
            vec![vec!["-a", "-b", "-c"]],
            vec![vec!["+c", "+x"]]
        ]
    );
    for packed in [false, true] {
        if packed {
            world.git(&dir, &["gc", "-q"]);
        }
        let (walked, new) = told(&world, &dir, Some(&known));
        assert_eq!((walked, new.as_slice()), (Walked::Told(2), &all[2..]));
        assert_eq!(told(&world, &dir, Some(&last)), (Walked::UpToDate, vec![]));
        assert_eq!(told(&world, &dir, None).1, all);
    }
    world.git(&dir, &["reset", "-q", "--hard", known.as_str()]);
    world.commit(&dir, &[(PLAN, "rewritten\n")]);
    assert_eq!(told(&world, &dir, Some(&last)), (Walked::Rewritten, vec![]));
    let gone = Oid::parse("1".repeat(40).as_bytes()).unwrap();
    assert_eq!(told(&world, &dir, Some(&gone)).0, Walked::Rewritten);
}

#[test]
fn a_merge_is_told_with_what_each_parent_had_and_after_both() {
    let world = World::new();
    let dir = world.repository("r");
    let base = world.commit(&dir, &[(PLAN, "1\n2\n3\n4\n5\n6\n7\n")]);
    world.git(&dir, &["checkout", "-q", "-b", "side"]);
    let side = world.commit(&dir, &[(PLAN, "1\n2\n3\n4\n5\n6\n7\nside\n")]);
    world.git(&dir, &["checkout", "-q", "main"]);
    let main = world.commit(&dir, &[(PLAN, "main\n1\n2\n3\n4\n5\n6\n7\n")]);
    world.git(&dir, &["merge", "-q", "-m", "merge", "side"]);
    let merge = world.head(&dir);
    // A merge that does not touch the file.
    world.git(&dir, &["checkout", "-q", "-b", "more"]);
    world.commit(&dir, &[("more", "1")]);
    world.git(&dir, &["checkout", "-q", "main"]);
    world.git(&dir, &["merge", "-q", "--no-ff", "-m", "merge", "more"]);
    let (_, all) = told(&world, &dir, None);
    let order: Vec<&Oid> = all.iter().map(|told| &told.commit).collect();
    assert_eq!((order[0], order[3], order.len()), (&base, &merge, 4));
    assert!(order[1..3].contains(&&side) && order[1..3].contains(&&main));
    assert_eq!(all[3].parents, 2);
    assert_eq!(all[3].changes, [["+side"], ["+main"]]);
    // Commits known on one side only are not reported again, whichever side that is.
    for (known, new) in [(&main, &side), (&side, &main), (&base, &side)] {
        let (_, told) = told(&world, &dir, Some(known));
        let commits: Vec<&Oid> = told.iter().map(|told| &told.commit).collect();
        assert!(commits.contains(&new) && commits.contains(&&merge), "{known}");
        assert!(!commits.contains(&known) && !commits.contains(&&base), "{known}");
        assert_eq!(told.len(), if *known == base { 3 } else { 2 });
    }
}

#[test]
fn a_file_is_followed_to_where_it_was_through_several_moves() {
    let world = World::new();
    let dir = world.repository("r");
    let old = "scripts/ralph/plan.jsonl";
    world.commit(&dir, &[("ralph.old/plan.jsonl", "1\n2\n3\n4\n"), ("decoy/plan.jsonl", "x\n")]);
    std::fs::create_dir_all(dir.join("scripts/ralph")).unwrap();
    world.git(&dir, &["mv", "ralph.old/plan.jsonl", old]);
    world.commit(&dir, &[]);
    let known = world.commit(&dir, &[(old, "1\n2\n3\n4\n5\n")]);
    std::fs::create_dir_all(dir.join("ralph")).unwrap();
    world.git(&dir, &["mv", old, PLAN]);
    world.git(&dir, &["rm", "-q", "decoy/plan.jsonl"]);
    world.commit(&dir, &[(PLAN, "1\n2\n3\n4\n5\n6\n")]);
    world.commit(&dir, &[(PLAN, "2\n3\n4\n5\n6\n")]);
    let (_, all) = told(&world, &dir, None);
    assert_eq!(
        changes(&all),
        [vec![vec!["+1", "+2", "+3", "+4"]], vec![vec!["+5"]], vec![vec!["+6"]], vec![vec!["-1"]]]
    );
    assert_eq!(told(&world, &dir, Some(&known)).1, all[2..]);
}

#[test]
fn a_branch_that_has_not_seen_the_move_is_told_by_the_old_path() {
    let world = World::new();
    let dir = world.repository("r");
    let old = "scripts/ralph/plan.jsonl";
    world.commit(&dir, &[(old, "1\n2\n3\n4\n5\n6\n7\n")]);
    world.git(&dir, &["checkout", "-q", "-b", "side"]);
    world.commit(&dir, &[(old, "1\n2\n3\n4\n5\n6\n7\nside\n")]);
    world.git(&dir, &["checkout", "-q", "main"]);
    std::fs::create_dir_all(dir.join("ralph")).unwrap();
    world.git(&dir, &["mv", old, PLAN]);
    world.commit(&dir, &[]);
    world.commit(&dir, &[(PLAN, "main\n1\n2\n3\n4\n5\n6\n7\n")]);
    world.git(&dir, &["merge", "-q", "-m", "merge", "side"]);
    let (_, all) = told(&world, &dir, None);
    let merge = all.last().unwrap();
    assert_eq!((all.len(), merge.parents), (4, 2));
    assert_eq!(merge.changes, [["+side"], ["+main"]]);
    assert!(all.iter().all(|told| told.changes.iter().flatten().all(|line| line.starts_with('+'))));
}

#[test]
fn a_file_that_only_shares_its_name_is_another() {
    let world = World::new();
    let dir = world.repository("r");
    world.commit(&dir, &[("old/plan.jsonl", "a\nb\nc\n")]);
    std::fs::remove_file(dir.join("old/plan.jsonl")).unwrap();
    world.commit(&dir, &[(PLAN, "x\ny\nz\n")]);
    assert_eq!(changes(&told(&world, &dir, None).1), [vec![vec!["+x", "+y", "+z"]]]);
}

#[test]
fn replacements_and_grafts_are_not_heard_and_a_shallow_clone_begins_at_its_edge() {
    let world = World::new();
    let dir = world.repository("r");
    let first = world.commit(&dir, &[(PLAN, "1\n")]);
    let second = world.commit(&dir, &[(PLAN, "1\n2\n")]);
    world.commit(&dir, &[(PLAN, "1\n2\n3\n")]);
    let (_, honest) = told(&world, &dir, None);
    world.git(&dir, &["replace", second.as_str(), first.as_str()]);
    write(&dir.join(".git/info/grafts"), &format!("{second}\n"));
    assert_eq!(told(&world, &dir, None).1, honest);
    let clone = world.path("clone");
    let url = format!("file://{dir}");
    world.git(&world.root, &["clone", "-q", "--depth", "2", &url, clone.as_str()]);
    let (_, all) = told(&world, &clone, None);
    assert_eq!(changes(&all), [vec![vec!["+1", "+2"]], vec![vec!["+3"]]]);
    assert_eq!(told(&world, &clone, Some(&second)).1, honest[2..]);
}

#[test]
fn a_repository_of_any_make_is_read() {
    for option in ["--object-format=sha256", "--ref-format=reftable"] {
        let world = World::new();
        let dir = world.path("r");
        world.git(&world.root, &["init", "-q", option, dir.as_str()]);
        world.commit(&dir, &[(PLAN, "1\n")]);
        world.commit(&dir, &[(PLAN, "2\n")]);
        assert_eq!(
            changes(&told(&world, &dir, None).1),
            [vec![vec!["+1"]], vec![vec!["-1", "+2"]]]
        );
        let git = world.open(&dir);
        for name in ["HEAD", "main", "refs/heads/main", "HEAD~1", "nothing", "refs/heads/../x"] {
            assert_eq!(git.tip(name).unwrap(), git.resolve(name).unwrap(), "{option} {name}");
        }
    }
}

#[test]
fn many_versions_are_told_as_git_tells_them_in_packs_of_either_direction() {
    let world = World::new();
    let dir = world.repository("r");
    let mut stream = String::new();
    for number in 0..400 {
        let mut plan = String::new();
        for line in 0..40 {
            let at = if number % 40 >= line { number / 40 } else { 0 };
            writeln!(plan, "{{\"id\":{line},\"at\":{at}}}").unwrap();
        }
        let from = if number == 0 { "from refs/heads/main^0\n" } else { "" };
        let who = format!("committer Person <p@example.org> {} +0130", 1_700_000_000 + number);
        let head = format!("commit refs/heads/main\n{who}\ndata 0\n{from}");
        let size = plan.len();
        writeln!(stream, "{head}M 644 inline {PLAN}\ndata {size}\n{plan}").unwrap();
    }
    write(&world.path("stream"), &stream);
    let script = format!("git -C {dir} fast-import --quiet < {}", world.path("stream"));
    world.git(&dir, &["-c", &format!("alias.import=!{script}"), "import"]);
    let mut seen = None;
    for packing in [&["status"][..], &["repack", "-adfq"], &["gc", "-q"]] {
        world.git(&dir, packing);
        let (_, all) = told(&world, &dir, None);
        for told in all.iter().filter(|_| seen.is_none()) {
            let commit = told.commit.as_str();
            let args = ["diff-tree", "-p", "-U0", "--no-commit-id", "--root", "-r", commit];
            let patch = world.git(&dir, &args);
            let is_change = |line: &&str| {
                line.starts_with(['-', '+']) && !line.starts_with("---") && !line.starts_with("+++")
            };
            let mut theirs: Vec<&str> = patch.lines().filter(is_change).collect();
            let mut ours: Vec<&str> = told.changes[0].iter().map(String::as_str).collect();
            theirs.sort_unstable();
            ours.sort_unstable();
            assert_eq!(ours, theirs);
        }
        let count = world.git(&dir, &["rev-list", "--count", "HEAD", "--", PLAN]);
        assert_eq!(all.len().to_string(), count);
        assert_eq!(seen.get_or_insert_with(|| all.clone()), &all);
    }
}

#[test]
fn a_visitor_that_has_enough_ends_the_walk_and_a_missing_object_is_named() {
    let world = World::new();
    let dir = world.repository("r");
    world.commit(&dir, &[(PLAN, "1\n")]);
    let tip = world.commit(&dir, &[(PLAN, "2\n")]);
    let git = world.open(&dir);
    let query = HistoryQuery { path: Path::new(PLAN), tip: &tip, since: None, subjects: &[] };
    let mut count = 0;
    let walked = walk(&git, &query, &mut |_| {
        count += 1;
        ControlFlow::Break(())
    });
    assert_eq!((walked.unwrap(), count), (Walked::Stopped, 1));
    let blob = world.id(&dir, &format!("HEAD:{PLAN}")).to_string();
    std::fs::remove_file(dir.join(".git/objects").join(&blob[..2]).join(&blob[2..])).unwrap();
    let error = walk(&git, &query, &mut |_| ControlFlow::Continue(())).unwrap_err();
    let HistoryError::Objects { source: ObjectError::Missing { id }, .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!(id.as_str(), blob);
}

/// Commits of the same second, as harnesses make them, cannot be ordered by date.
#[test]
fn in_a_line_of_commits_nothing_is_looked_at_that_came_before_what_is_known() {
    let world = World::new();
    let dir = world.repository("r");
    let first = world.commit(&dir, &[(PLAN, "1\n")]).to_string();
    world.commit(&dir, &[(PLAN, "2\n")]);
    let known = world.commit(&dir, &[(PLAN, "3\n")]);
    world.commit(&dir, &[(PLAN, "4\n")]);
    world.commit(&dir, &[(PLAN, "5\n")]);
    std::fs::remove_file(dir.join(".git/objects").join(&first[..2]).join(&first[2..])).unwrap();
    let (walked, all) = told(&world, &dir, Some(&known));
    assert_eq!(walked, Walked::Told(2));
    assert_eq!(changes(&all), [vec![vec!["-3", "+4"]], vec![vec!["-4", "+5"]]]);
}

#[test]
fn subjects_that_matter_are_told_and_branches_by_the_names_that_merges_give_them() {
    let world = World::new();
    let dir = world.repository("r");
    world.commit(&dir, &[(PLAN, "a\n")]);
    world.git(&dir, &["switch", "-q", "-c", "side/one"]);
    write(&dir.join(PLAN), "a\nside\n");
    world.git(&dir, &["add", "."]);
    world.git(&dir, &["commit", "-q", "-m", "ralph: cancel 1 task\n\nand more"]);
    world.git(&dir, &["switch", "-q", "-"]);
    world.commit(&dir, &[("other", "1")]);
    world.git(&dir, &["merge", "-q", "--no-edit", "side/one"]);
    let git = world.open(&dir);
    let tip = git.tip("HEAD").unwrap().unwrap();
    let mut all = Vec::new();
    let query = HistoryQuery {
        path: Path::new(PLAN),
        tip: &tip,
        since: None,
        subjects: &["ralph: cancel"],
    };
    walk(&git, &query, &mut |version| {
        all.push((version.subject.to_owned(), version.branch.map(str::to_owned)));
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(all[0], (String::new(), None));
    assert_eq!(all[1], ("ralph: cancel 1 task".to_owned(), Some("side/one".to_owned())));
    assert!(all[2].0.starts_with("Merge branch 'side/one'") && all[2].1.is_none(), "{all:?}");
}
