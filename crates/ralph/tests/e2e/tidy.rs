//! Checks what the compiler cannot: the invariants and the module map of ARCHITECTURE.md, one meaning per type name,
//! no `pub` without a user outside the crate, and the edges between modules of the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The project's Rust sources below a directory, with their text.
fn sources(below: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut open = vec![root().join(below)];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    assert!(!found.is_empty(), "{below}");
    found
}

/// A source without its tests.
fn code(path: &Path, text: &str) -> String {
    let only_tests = ["_tests.rs", "test_place.rs", "files/simulated.rs"];
    let only_tests_below = ["simulation", "tests"].map(OsStr::new);
    let is_below = path.components().any(|part| only_tests_below.contains(&part.as_os_str()));
    if is_below || only_tests.iter().any(|end| path.to_string_lossy().ends_with(end)) {
        return String::new();
    }
    text.split("#[cfg(test)]\nmod tests").next().unwrap().to_owned()
}

/// Files that read what is Ralph's own or the kernel's, or check what it is first.
const OWN_FILES: &[&str] =
    &["checkout.rs", "home_copy.rs", "location.rs", "lock.rs", "mirror_mend.rs", "testing.rs"];

#[test]
fn what_the_architecture_promises_to_be_absent_is_absent() {
    for (crates, word, allowed) in [
        ("crates/ralph-model/src", "Command::new", &[][..]),
        ("crates/ralph-git/src", "Command::new", &[]),
        ("crates/ralph-engine/src", "Command::new", &[]),
        ("crates/ralph/src", "Command::new", &[]),
        ("crates/ralph-engine/src", "Timestamp::now", &["clock.rs"]),
        ("crates/ralph-engine/src", "SystemTime::now", &["clock.rs"]),
        ("crates/ralph-git/src", "Timestamp::now", &["signature.rs"]),
        ("crates/ralph-git/src", "SystemTime::now", &[]),
        ("crates/ralph/src", "Timestamp::now", &[]),
        ("crates/ralph-git/src", "println!", &[]),
        // A read where agents have been must not follow a link, wait at a pipe, or fill the memory: `read_regular`.
        ("crates/ralph-git/src", "fs::read(", &["checkout.rs", "replaced.rs"]),
        ("crates/ralph-git/src", "fs::read_to_string(", OWN_FILES),
        ("crates/ralph-engine/src/boundary", "fs::read(", &["nested.rs", "outside.rs"]),
        ("crates/ralph-engine/src/boundary", "fs::read_to_string(", &["marks.rs"]),
        ("crates/ralph-engine/src", "println!", &[]),
        ("crates/ralph-engine/src", "clap", &[]),
        ("crates/ralph/src", "println!", &["mod.rs"]),
        ("crates/ralph-engine/src", "LandedLevel::of_landing", &["landing.rs"]),
        ("crates/ralph/src", "LandedLevel::of_landing", &[]),
    ] {
        for (path, text) in sources(crates) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let found = code(&path, &text).contains(word) && !allowed.contains(&name.as_str());
            assert!(!found, "{} has `{word}`", path.display());
        }
    }
}

/// Turns of phrase that read as translated. They must not be in messages, help texts and prompts.
#[test]
fn texts_for_people_are_plain_english() {
    const STUMBLES: [&str; 14] = [
        "there is no ",
        "There is no ",
        "there are no ",
        " is to be ",
        " are to be ",
        "turned down",
        " put right",
        " afresh",
        " anew",
        " goes on",
        " be told ",
        " is told ",
        "Nobody can",
        "nobody knows",
    ];
    let mut found = Vec::new();
    for crates in CRATES {
        for (path, text) in sources(&format!("crates/{crates}/src")) {
            // The comments of arguments are help texts.
            let is_help = path.components().any(|part| part.as_os_str() == "args");
            for (number, line) in code(&path, &text).lines().enumerate() {
                let line = line.trim_start();
                let is_comment = line.starts_with("//") && !(is_help && line.starts_with("/// "));
                let line = line.split(" // ").next().unwrap_or_default();
                if !is_comment && STUMBLES.iter().any(|words| line.contains(words)) {
                    found.push(format!("{}:{}: {line}", path.display(), number + 1));
                }
            }
        }
    }
    for entry in fs::read_dir(root().join("crates/ralph-model/src/prompt/templates")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().filter(|line| STUMBLES.iter().any(|words| line.contains(words)));
        found.extend(lines.map(|line| format!("{}: {line}", path.display())));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Tests in the person's checkout are exceptions, each with its reason.
#[test]
fn the_architecture_lists_the_tests_that_run_in_place() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let table = map.split("| in place | why |").nth(1).expect("the table is there");
    let rows = table.lines().take_while(|line| line.is_empty() || line.starts_with('|'));
    let first = rows.filter_map(|row| row.strip_prefix('|')?.split('|').next().map(str::to_owned));
    let names: Vec<String> = first.collect();
    let listed: BTreeSet<&str> =
        names.iter().flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let below = root().join("crates/ralph/tests/e2e");
    let mut found = BTreeSet::new();
    for (path, text) in sources("crates/ralph/tests/e2e") {
        let name = path.strip_prefix(&below).unwrap().with_extension("");
        let defines = name.ends_with("mod") || name.ends_with("tidy");
        let words = [".in_place()", "\"--in-place\"", "run::in_place("];
        if !defines && words.iter().any(|word| text.contains(word)) {
            found.insert(name.to_str().unwrap().to_owned());
        }
    }
    let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(listed, found);
}

#[test]
fn every_module_says_what_it_is_for() {
    for crates in CRATES {
        for (path, text) in sources(&format!("crates/{crates}/src")) {
            let tests = path.to_string_lossy().ends_with("_tests.rs");
            assert!(tests || text.starts_with("//! "), "{} has no header", path.display());
        }
    }
}

#[test]
fn the_architecture_names_every_module() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for crates in ["ralph-model", "ralph-proc", "ralph-git", "ralph-outline", "ralph-engine"] {
        let lib = fs::read_to_string(root().join(format!("crates/{crates}/src/lib.rs"))).unwrap();
        let lines = lib.lines().filter_map(|line| line.trim_end_matches(';').split_once("mod "));
        for (before, module) in lines {
            if !before.trim_start().starts_with("//")
                && !["millis", "test_place", "testing", "tests"].contains(&module)
                && !module.ends_with("_tests")
            {
                assert!(
                    map.contains(&format!("`{module}`")),
                    "{crates}::{module} is not on the map"
                );
            }
        }
    }
    assert!(map.lines().count() <= 260, "a map that is longer than 260 lines is not read");
}

/// Names that several types may share.
const SHARED_NAMES: &[&str] = &[
    // Two implementations of the same thing, of which `cfg` compiles one.
    "Notifier",
    "TreeWatch",
];

/// Public items that no other crate names, at most. All of them are types in the signature of something that is named.
/// A number here may only go down.
const UNNAMED_OUTSIDE: &[(&str, usize)] = &[
    ("ralph-model", 42),
    ("ralph-proc", 2),
    ("ralph-git", 3),
    ("ralph-outline", 8),
    ("ralph-engine", 35),
];

/// Which top-level modules of `ralph-engine` each of them may use. `git` is the re-exported crate.
const ENGINE_EDGES: &[(&str, &str)] = &[
    ("agent", "rehearsal"),
    ("boundary", "agent clock config digest files git home state"),
    ("channel", "clock files journal"),
    ("config", "files git home"),
    ("detect", "agent config git"),
    ("doctor", "config detect home mailbox plan_file state trust"),
    ("files", "defect"),
    ("follow", "files"),
    ("gates", "boundary clock config digest files git repository run state"),
    ("home", "files git"),
    ("init", "boundary config detect files git home mailbox plan_file"),
    ("journal", "config digest files subscriber"),
    ("judge", "boundary gates git"),
    ("launch", "agent boundary config digest outbox rehearsal run"),
    ("mailbox", "digest files"),
    ("outbox", "files"),
    ("plan_file", "boundary digest files git home repository specs state"),
    ("prompts", "files specs"),
    ("questions", "clock files journal"),
    ("recover", "boundary clock files journal run state"),
    ("rehearsal", "agent clock"),
    ("repository", "git"),
    ("run", "agent boundary channel clock config files git journal outbox state subscriber"),
    (
        "session",
        "boundary channel clock config files gates git home init journal launch mailbox outbox plan_file prompts questions recover run state subscriber wait workflow",
    ),
    ("specs", "files"),
    ("state", "boundary config digest files home"),
    ("trust", "config digest files home state"),
    ("validate", "files plan_file prompts specs"),
    ("wait", "clock"),
    (
        "workflow",
        "ask boundary channel config defect detect digest files gates git home init judge mailbox plan_file prompts questions repository run session specs state wait",
    ),
];

const CRATES: &[&str] =
    &["ralph-model", "ralph-proc", "ralph-git", "ralph-outline", "ralph-engine", "ralph", "xtask"];

/// An item definition: visibility (empty where private), kind and name.
struct Item<'a> {
    visibility: &'a str,
    kind: &'a str,
    name: &'a str,
}

/// Finds the item definitions of a source, one per line at most, as `rustfmt` lays them out. Comments are ignored.
fn items(text: &str) -> impl Iterator<Item = Item<'_>> {
    text.lines().filter_map(|line| {
        let line = line.trim_start();
        let (visibility, mut rest) = match line.strip_prefix("pub") {
            Some(rest) if rest.starts_with('(') => line.split_at(line.find(')')? + 1),
            Some(rest) if rest.starts_with(' ') => line.split_at("pub".len()),
            _ => ("", line),
        };
        rest = rest.trim_start();
        for modifier in ["const fn ", "unsafe fn "] {
            if rest.starts_with(modifier) {
                rest = rest.split_once(' ')?.1;
            }
        }
        let (kind, rest) = rest.split_once(' ')?;
        let kinds = ["fn", "struct", "enum", "union", "trait", "type", "const", "static"];
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        (kinds.contains(&kind) && !name.is_empty()).then_some(Item { visibility, kind, name })
    })
}

fn is_visible_type(item: &Item<'_>) -> bool {
    let kinds = ["struct", "enum", "union", "trait", "type"];
    kinds.contains(&item.kind) && !item.visibility.is_empty()
}

/// All identifiers outside comments.
fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'))
        .filter(|word| !word.is_empty())
}

/// The modules that a source names by `crate::module`.
fn used_modules(text: &str) -> BTreeSet<&str> {
    let code = text.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    code.flat_map(|line| line.split("crate::").skip(1))
        .map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(rest))
        .collect()
}

#[test]
fn the_scanners_find_what_they_are_for() {
    let text = "/// pub struct Comment;\npub struct A<T> {\n    pub field: u8,\n}\npub(crate) enum B {\n\
                struct Private;\nimpl A {\n    pub const fn make() {}\n    pub const LIMIT: u8 = 1;\n";
    let found: Vec<_> = items(text).map(|item| (item.visibility, item.kind, item.name)).collect();
    let expected = [
        ("pub", "struct", "A"),
        ("pub(crate)", "enum", "B"),
        ("", "struct", "Private"),
        ("pub", "fn", "make"),
        ("pub", "const", "LIMIT"),
    ];
    assert_eq!(found, expected);
    let types: Vec<_> = items(text).filter(is_visible_type).map(|item| item.name).collect();
    assert_eq!(types, ["A", "B"]);
    assert_eq!(identifiers("a_b::C(d) // e").collect::<Vec<_>>(), ["a_b", "C", "d"]);
    let used =
        used_modules("use crate::files::x; // crate::no\nlet a = crate::git::b(crate::state::C);");
    assert_eq!(used, BTreeSet::from(["files", "git", "state"]));
}

#[test]
fn a_type_name_has_one_meaning_in_the_workspace() {
    let mut places: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for name in CRATES {
        for (path, text) in sources(&format!("crates/{name}/src")) {
            // What a system has in the place of a type of Linux's has its name.
            if path.ends_with("macos.rs") {
                continue;
            }
            for item in items(&code(&path, &text)).filter(is_visible_type) {
                places.entry(item.name.to_owned()).or_default().push(path.clone());
            }
        }
    }
    for (name, places) in places {
        let shared = SHARED_NAMES.contains(&name.as_str());
        assert_eq!(places.len() > 1, shared, "`{name}` is defined in {places:?}");
    }
}

#[test]
fn public_items_are_named_by_another_crate() {
    for (own, most) in UNNAMED_OUTSIDE {
        let mut outside = BTreeSet::new();
        for other in CRATES {
            let part = if other == own { "/tests" } else { "" };
            if root().join(format!("crates/{other}{part}")).is_dir() {
                for (_, text) in sources(&format!("crates/{other}{part}")) {
                    outside.extend(identifiers(&text).map(str::to_owned));
                }
            }
        }
        let mut unnamed = Vec::new();
        for (path, text) in sources(&format!("crates/{own}/src")) {
            let code = code(&path, &text);
            let public = items(&code).filter(|item| item.visibility == "pub");
            unnamed.extend(
                public.map(|item| item.name.to_owned()).filter(|name| !outside.contains(name)),
            );
        }
        unnamed.sort();
        assert_eq!(
            unnamed.len(),
            *most,
            "{own}: make these pub(crate), or lower the number: {unnamed:#?}"
        );
    }
}

/// A kind that is only read tells nothing: whoever looks at a journal would wait for it in vain.
#[test]
fn every_kind_of_event_has_a_writer() {
    let mut written = String::new();
    for part in ["crates/ralph-engine/src", "crates/ralph/src"] {
        for (path, text) in sources(part) {
            // What is taken apart is not made.
            written += &code(&path, &text).replace("let ", "let_");
        }
    }
    let kinds = root().join("crates/ralph-model/src/journal/kinds.rs");
    let kinds = fs::read_to_string(kinds).unwrap();
    let rows = kinds.lines().filter(|line| line.contains(" = \"") && line.ends_with("\","));
    let data: Vec<&str> =
        rows.map(|row| identifiers(row).nth(1).expect("a row names its data")).collect();
    assert!(data.len() > 60, "{data:?}");
    let is_written = |name: &&str| {
        [" {", "::of(", "::default()"].iter().any(|made| {
            let at = format!("{name}{made}");
            written.match_indices(&at).any(|(place, _)| {
                let before = written[..place].chars().next_back();
                before.is_none_or(|before| !before.is_alphanumeric() && before != '_')
            })
        })
    };
    let unwritten: Vec<&&str> = data.iter().filter(|name| !is_written(name)).collect();
    assert!(unwritten.is_empty(), "{unwritten:?}");
}

#[test]
fn modules_of_the_engine_use_only_what_the_table_allows() {
    let base = root().join("crates/ralph-engine/src");
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in sources("crates/ralph-engine/src") {
        let first = path.strip_prefix(&base).unwrap().components().next().unwrap();
        let module = first.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned();
        assert!(!text.contains("use crate::{"), "{}: one `use` per module", path.display());
        let code = code(&path, &text);
        let used = used_modules(&code).into_iter().filter(|used| *used != module);
        edges.entry(module.clone()).or_default().extend(used.map(str::to_owned));
    }
    edges.retain(|_, used| !used.is_empty());
    let allowed: BTreeMap<String, BTreeSet<String>> = ENGINE_EDGES
        .iter()
        .map(|(module, used)| (module.to_string(), used.split(' ').map(str::to_owned).collect()))
        .collect();
    assert_eq!(edges, allowed, "an edge that is gone leaves the table; a new one needs a reason");
}
