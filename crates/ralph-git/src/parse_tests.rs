use proptest::prelude::*;

use super::*;

const A: &str = "1111111111111111111111111111111111111111";
const B: &str = "2222222222222222222222222222222222222222";

fn id(text: &str) -> Oid {
    Oid::parse(text.as_bytes()).unwrap()
}

#[test]
fn an_id_is_whole_lower_case_and_not_zero() {
    assert!(Oid::parse(A.as_bytes()).is_some());
    assert!(Oid::parse("a".repeat(64).as_bytes()).is_some());
    for wrong in ["", "abc", &"0".repeat(40), &"A".repeat(40), &"1".repeat(41), &"g".repeat(40)] {
        assert_eq!(Oid::parse(wrong.as_bytes()), None, "{wrong}");
    }
}

#[test]
fn every_kind_of_status_line_is_read_with_spaces_newlines_and_odd_bytes_in_names() {
    let mut bytes = format!("# branch.oid {A}\0").into_bytes();
    bytes.extend(format!("1 .M N... 100644 100644 100644 {A} {A} a b\nc\0").bytes());
    bytes.extend(
        format!("2 R. N... 100644 100644 100644 {A} {A} R100 new name\0old name\0").bytes(),
    );
    bytes.extend(format!("u UU N... 100644 100644 100644 100644 {A} {A} {B} torn\0").bytes());
    bytes.extend(b"? \xff\xfe x\0! target/\0");
    let entry = |path: &[u8], state| StatusEntry { path: path_from(path), state };
    assert_eq!(
        parse_status(&bytes).unwrap(),
        [
            entry(b"a b\nc", PathState::Tracked { index: '.', worktree: 'M' }),
            entry(
                b"new name",
                PathState::Renamed { index: 'R', worktree: '.', from: PathBuf::from("old name") }
            ),
            entry(b"torn", PathState::Unmerged),
            entry(b"\xff\xfe x", PathState::Untracked),
            entry(b"target/", PathState::Ignored),
        ]
    );
    assert_eq!(parse_status(b"? cut off"), None);
    assert_eq!(parse_status(b"").unwrap(), []);
}

#[test]
fn a_raw_difference_keeps_renames_and_gone_objects() {
    let zero = "0".repeat(40);
    let bytes = format!(
        ":000000 100644 {zero} {A} A\0new\0:100644 000000 {A} {zero} D\0gone\0:100644 100644 {A} {B} R087\0from\0to\0"
    );
    let change = |kind, path: &str, modes: (&str, &str), id| PathChange {
        kind,
        path: PathBuf::from(path),
        modes: (modes.0.to_owned(), modes.1.to_owned()),
        id,
    };
    assert_eq!(
        parse_raw_diff(bytes.as_bytes()).unwrap(),
        [
            change(ChangeKind::Added, "new", ("000000", "100644"), Some(id(A))),
            change(ChangeKind::Deleted, "gone", ("100644", "000000"), None),
            change(
                ChangeKind::Renamed { from: PathBuf::from("from") },
                "to",
                ("100644", "100644"),
                Some(id(B))
            ),
        ]
    );
}

#[test]
fn settings_keep_their_scope_newlines_and_keys_without_a_value() {
    let bytes = b"local\0filter.a.b.clean\nrun\nthis\0global\0core.bare\0";
    let setting = |scope: &str, key: &str, value: &str| GitSetting {
        scope: scope.to_owned(),
        key: key.to_owned(),
        value: value.to_owned(),
    };
    assert_eq!(
        parse_settings(bytes).unwrap(),
        [setting("local", "filter.a.b.clean", "run\nthis"), setting("global", "core.bare", "")]
    );
}

#[test]
fn objects_are_read_one_after_another_whatever_is_in_them() {
    let bytes = format!("{A} blob 6\na\n{B}\nb\0 missing\n").replace(B, "x");
    assert_eq!(parse_batch(bytes.as_bytes()), None, "the size is wrong");
    let bytes = format!("{A} blob 5\na\nb c\nwhat missing\n{B} blob 0\n\n");
    let objects = parse_batch(bytes.as_bytes()).unwrap();
    assert_eq!(objects.len(), 3);
    assert_eq!(objects[0].as_ref().unwrap().1, b"a\nb c");
    assert_eq!(objects[1], None);
    assert_eq!(objects[2].as_ref().unwrap().1, b"");
}

#[test]
fn a_commit_gives_its_tree_and_all_its_parents() {
    let content = format!("tree {A}\nparent {B}\nparent {A}\nauthor x\n\nparent {B}\n");
    assert_eq!(
        parse_commit(id(B), content.as_bytes()).unwrap(),
        CommitHeader { id: id(B), tree: id(A), parents: vec![id(B), id(A)] }
    );
    assert_eq!(parse_commit(id(B), b"blob"), None);
}

#[test]
fn heads_of_worktrees_are_read_with_what_they_have_checked_out() {
    let zero = "0".repeat(40);
    let bytes = format!(
        "worktree /a b\0HEAD {A}\0branch refs/heads/x\0\0worktree /c\0HEAD {B}\0detached\0locked why\0\0worktree /d\0HEAD {zero}\0branch refs/heads/y\0\0worktree /e\0bare\0\0"
    );
    let found = parse_worktrees(bytes.as_bytes()).unwrap();
    let told: Vec<(&str, Option<Oid>, Option<&str>, bool)> = found
        .iter()
        .map(|one| {
            let path = one.path.to_str().unwrap();
            (path, one.head.clone(), one.branch.as_deref(), one.is_locked)
        })
        .collect();
    let expected = [
        ("/a b", Some(id(A)), Some("refs/heads/x"), false),
        ("/c", Some(id(B)), None, true),
        ("/d", None, Some("refs/heads/y"), false),
        ("/e", None, None, false),
    ];
    assert_eq!(told, expected);
}

proptest! {
    #[test]
    fn no_bytes_make_a_parser_panic(bytes in proptest::collection::vec(
        prop_oneof![Just(0_u8), Just(b' '), Just(b'\n'), Just(b':'), Just(b'1'), Just(b'2'), Just(b'R'), any::<u8>()], 0..200)
    ) {
        let _ = (parse_status(&bytes), parse_raw_diff(&bytes), parse_tree(&bytes), parse_settings(&bytes));
        let _ = (parse_batch(&bytes), parse_batch_check(&bytes), parse_refs(&bytes), parse_ids(&bytes));
        let _ = (parse_worktrees(&bytes), parse_commit(id(A), &bytes));
    }

    #[test]
    fn any_file_name_survives_a_status(name in proptest::collection::vec(1_u8.., 1..40)) {
        let mut bytes = format!("1 MM N... 100644 100644 100644 {A} {B} ").into_bytes();
        bytes.extend(&name);
        bytes.extend(b"\0? ");
        bytes.extend(&name);
        bytes.push(0);
        let entries = parse_status(&bytes).unwrap();
        prop_assert_eq!(entries.len(), 2);
        prop_assert!(entries.iter().all(|entry| entry.path == path_from(&name)));
    }
}
