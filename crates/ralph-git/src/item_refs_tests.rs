use proptest::prelude::*;

use super::super::testing::World;
use super::*;

/// Inverts [`ItemKey::new`] for keys that were not truncated.
fn name_of(key: &str) -> Vec<u8> {
    let mut name = Vec::new();
    let mut rest = key.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        (name, rest) = match (first, after) {
            (b'=', [high, low, after @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).unwrap();
                name.push(u8::from_str_radix(digits, 16).unwrap());
                (name, after)
            }
            (b'=', []) => (name, &[][..]),
            (b'+', after) => {
                name.push(b'/');
                (name, after)
            }
            (byte, after) => {
                name.push(*byte);
                (name, after)
            }
        };
    }
    name
}

proptest! {
    #[test]
    fn a_key_says_which_name_it_is_of(name in "([a-z./+=é \\-_]|lock|\\.\\.|\\PC){0,12}") {
        let key = ItemKey::new(&name);
        prop_assert_eq!(name_of(key.as_str()), name.as_bytes());
    }
}

#[test]
fn keys_are_readable() {
    for (name, key) in [
        ("0001-first-spec", "0001-first-spec"),
        ("billing/0010-größe", "billing+0010-größe"),
        ("v1.2-x", "v1.2-x"),
        ("a.lock", "a=2elock"),
        (".hidden", "=2ehidden"),
        ("-x", "=2dx"),
        ("", "="),
    ] {
        assert_eq!(ItemKey::new(name).as_str(), key);
    }
    let long = "x".repeat(5000);
    let (one, other) = (ItemKey::new(&format!("{long}1")), ItemKey::new(&format!("{long}2")));
    assert!(one != other && one.as_str().len() <= LONGEST);
    let wide = ItemKey::new(&"é".repeat(300));
    assert!(wide.as_str().len() <= LONGEST);
}

#[test]
fn git_takes_every_key_as_part_of_a_ref() {
    let world = World::new();
    let dir = world.repository("r");
    let names = [
        "a",
        "a/b",
        "a..b",
        "a.lock",
        "x.lock/y",
        ".a",
        "a.",
        "@",
        "@{x",
        "a~b^c:d?e*f[g\\h",
        "a b",
        "\u{7f}\u{1}",
        "-",
        "--",
        "é",
        "日本",
        "a//b",
        "/",
        "//",
        "~",
        "HEAD",
        "\"'`$(x)",
        "a\nb",
        "a/.b",
        "a./b",
        "a.lockb",
    ];
    for name in names {
        let key = ItemKey::new(name);
        let refs = [key.item_ref(3), key.left_ref(), format!("refs/heads/ralph/{key}")];
        for reference in refs {
            world.git(&dir, &["check-ref-format", &reference]);
            world.git(&dir, &["update-ref", &reference, "HEAD"]);
        }
        assert!(!key.as_str().contains('/'));
    }
    let long = ItemKey::new(&"x".repeat(5000)).item_ref(u64::MAX);
    world.git(&dir, &["update-ref", &long, "HEAD"]);
}

fn files(list: &[(&str, &str)]) -> Vec<(PathBuf, Vec<u8>)> {
    list.iter().map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_vec())).collect()
}

fn put(
    git: &Git,
    key: &ItemKey,
    number: u64,
    list: &[(&str, &str)],
    previous: Option<&Oid>,
) -> Result<Oid, ItemRefError> {
    git.write_item(&ItemWrite { key, number, files: &files(list), message: "planned\n", previous })
}

#[test]
fn the_state_of_an_item_is_read_back_and_moves_only_from_what_was_read() {
    for options in
        [&["--object-format=sha1"][..], &["--object-format=sha256"], &["--ref-format=reftable"]]
    {
        let world = World::new();
        let dir = world.path("r");
        let args = [&["init", "-q"], options, &[dir.as_str()]].concat();
        world.git(&world.root, &args);
        let head = world.commit(&dir, &[("a", "1")]);
        let git = world.open(&dir);
        let (one, other) = (ItemKey::new("area/0001-one"), ItemKey::new("0002-two"));
        assert_eq!(git.read_item(&one).unwrap(), None);
        assert_eq!(git.read_items().unwrap(), []);
        let state =
            [("ralph/specs/plans/one.md", "# Plan\n"), ("ralph/specs/plans/one.json", "{}\n")];
        let first = put(&git, &one, 1, &state, None).unwrap();
        put(&git, &other, 1, &[("ralph/x", "\0\n")], None).unwrap();
        let refused = put(&git, &one, 1, &state, None);
        assert!(matches!(refused, Err(ItemRefError::Lost { .. })), "{refused:?}");
        let second = put(&git, &one, 1, &state[..1], Some(&first)).unwrap();
        let refused = put(&git, &one, 1, &state, Some(&first));
        assert!(matches!(refused, Err(ItemRefError::Lost { .. })), "{refused:?}");
        assert_eq!(world.git(&dir, &["log", "--format=%s", &one.item_ref(1)]), "planned\nplanned");
        assert_eq!(world.git(&dir, &["log", "-1", "--format=%an", &one.item_ref(1)]), "Person");
        let found = git.read_item(&one).unwrap().unwrap();
        assert_eq!((&found.commit, found.number), (&second, 1));
        assert_eq!(found.files, files(&state[..1]));
        // The highest number counts, compared numerically.
        put(&git, &one, 9, &state, None).unwrap();
        put(&git, &one, 10, &state, None).unwrap();
        let all = git.read_items().unwrap();
        let keys: Vec<(&str, u64)> =
            all.iter().map(|found| (found.key.as_str(), found.number)).collect();
        assert_eq!(keys, [("0002-two", 1), ("area+0001-one", 10)]);
        assert_eq!(all[1].files, {
            let mut all = files(&state);
            all.sort();
            all
        });
        // A stale state can no longer be deleted.
        assert!(matches!(git.delete_item(&found), Err(ItemRefError::Lost { .. })));
        git.delete_item(&all[1]).unwrap();
        git.delete_item(&all[1]).unwrap();
        assert_eq!(git.read_items().unwrap(), [all[0].clone()]);
        assert_eq!(
            (world.head(&dir), world.git(&dir, &["status", "--porcelain"])),
            (head, String::new())
        );
        world.git(&dir, &["fsck", "--strict"]);
    }
}

#[test]
fn objects_of_a_shared_repository_are_written_by_git() {
    let world = World::new();
    let dir = world.repository("r");
    world.git(&dir, &["config", "core.sharedRepository", "group"]);
    let git = world.open(&dir);
    put(&git, &ItemKey::new("x"), 1, &[("a/b", "1"), ("c", "")], None).unwrap();
    assert_eq!(git.read_items().unwrap()[0].files, files(&[("a/b", "1"), ("c", "")]));
}

#[test]
fn a_path_that_no_tree_can_have_is_refused_and_an_empty_state_is_one() {
    let world = World::new();
    let git = world.open(&world.repository("r"));
    let key = ItemKey::new("x");
    for path in ["", "../x", "/x", "a/.git/config", "."] {
        let refused = put(&git, &key, 1, &[(path, "1")], None);
        assert!(matches!(refused, Err(ItemRefError::Path { .. })), "{path}");
    }
    put(&git, &key, 1, &[], None).unwrap();
    assert_eq!(git.read_item(&key).unwrap().unwrap().files, []);
}
