use super::*;

const ANCHOR: &str = r##"//! A crate.
#![allow(dead_code)]

/// One. "quoted"
pub fn one() -> u8 {
    let c = '{';
    let s = r#"}"#;
    1
}

pub mod inner {
    pub fn two() -> u8 { 2 }

    #[cfg(test)]
    mod tests {
        #[test]
        fn is_two() { assert_eq!(super::two(), 2); }
    }
}

struct S<'a>(&'a str);

impl<'a> S<'a> {
    fn real(&self) -> [u8; 2] { [1, 2] }
    #[cfg(test)]
    fn probe(&self) -> bool { true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_one() {
        assert_eq!(one(), 1);
    }
}
"##;

fn changed(candidate: &str) -> String {
    match InlineTests::compare(ANCHOR, candidate) {
        InlineTests::Changed { text } => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn source_that_changes_around_its_tests_leaves_them_as_they_are() {
    let candidate = ANCHOR.replace("    1\n}", "    3\n}").replace("{ 2 }", "{ 4 }");
    assert_eq!(InlineTests::compare(ANCHOR, &candidate), InlineTests::Same);
    assert_eq!(InlineTests::compare(ANCHOR, ANCHOR), InlineTests::Same);
    // Moving a whole test module within the file changes nothing.
    let at = ANCHOR.find("struct S").unwrap();
    let tests = ANCHOR.find("#[cfg(test)]\nmod tests {\n    use").unwrap();
    let moved = format!("{}{}\n{}", &ANCHOR[..at], &ANCHOR[tests..], &ANCHOR[at..tests]);
    assert_eq!(InlineTests::compare(ANCHOR, &moved), InlineTests::Same);
}

#[test]
fn tests_of_the_anchor_come_back_and_source_does_not() {
    let candidate = ANCHOR
        .replace("assert_eq!(one(), 1);", "")
        .replace("assert_eq!(super::two(), 2)", "assert!(true)")
        .replace("-> bool { true }", "-> bool { false }")
        .replace("    1\n}", "    9\n}");
    let text = changed(&candidate);
    assert!(text.contains("assert_eq!(one(), 1)"), "{text}");
    assert!(
        text.contains("assert_eq!(super::two(), 2)") && !text.contains("assert!(true)"),
        "{text}"
    );
    assert!(text.contains("-> bool { true }") && !text.contains("-> bool { false }"), "{text}");
    assert!(text.contains("    9\n}") && !text.contains("    1\n}"), "{text}");
    // Insertions are where they were: the tests of `inner` inside it, the function inside its `impl`.
    assert_eq!(gated_items(&text).gated.len(), 3);
    assert_eq!(InlineTests::compare(ANCHOR, &text), InlineTests::Same, "{text}");
}

#[test]
fn twins_other_conditions_and_deleted_tests_are_changes() {
    for candidate in [
        ANCHOR.replace("#[cfg(test)]\nmod tests", "#[cfg(all(test, windows))]\nmod tests"),
        ANCHOR.replace(
            "pub fn one()",
            "#[cfg(test)]\npub fn one() -> u8 { 1 }\n#[cfg(not(test))]\npub fn one()",
        ),
        ANCHOR[..ANCHOR.find("#[cfg(test)]\nmod tests {\n    use").unwrap()].to_owned(),
        format!(
            "{ANCHOR}\n#[cfg(any(test, feature = \"x\"))]\nmacro_rules! assert_eq {{ ($($t:tt)*) => {{}} }}\n"
        ),
    ] {
        let text = changed(&candidate);
        assert_eq!(InlineTests::compare(ANCHOR, &text), InlineTests::Same, "{text}");
    }
    // Code under `not(test)` is source.
    let text = changed(
        &ANCHOR.replace("pub fn one()", "#[cfg(test)]\nfn x() {}\n#[cfg(not(test))]\npub fn one()"),
    );
    assert!(text.contains("#[cfg(not(test))]\npub fn one()"), "{text}");
}

#[test]
fn added_tests_are_no_change_and_are_taken_out() {
    let more = format!("{ANCHOR}\n#[cfg(test)]\nmod more {{\n    #[test]\n    fn b() {{}}\n}}\n");
    let InlineTests::Added { text } = InlineTests::compare(ANCHOR, &more) else { panic!() };
    assert!(!text.contains("mod more"), "{text}");
    let fresh = "fn a() {}\n#[cfg(test)]\nmod tests { #[test] fn a() {} }\n";
    let InlineTests::Added { text } = InlineTests::compare("", fresh) else { panic!() };
    assert_eq!(text.trim(), "fn a() {}");
    // A test module that defines macros can affect other items.
    let macros = format!("#[cfg(test)]\n#[macro_use]\nmod macros;\n{ANCHOR}");
    changed(&macros);
}

#[test]
fn macros_for_tests_come_back_before_their_uses() {
    let anchor = "#![allow(x)]\n#[cfg(test)]\nmacro_rules! t { () => { 1 } }\nmod a;\n";
    let InlineTests::Changed { text } = InlineTests::compare(anchor, "#![allow(x)]\nmod a;\n")
    else {
        panic!()
    };
    assert!(text.find("macro_rules").unwrap() < text.find("mod a;").unwrap(), "{text}");
    assert!(text.find("#![allow").unwrap() < text.find("macro_rules").unwrap(), "{text}");
}

#[test]
fn modules_for_tests_are_known_by_their_declarations() {
    let text = "#[cfg(test)]\nmod helpers;\n#[cfg(test)]\n#[path = \"x_checks.rs\"]\nmod checks;\nmod real;\n";
    assert!(declares_test_module(text, "helpers") && declares_test_module(text, "x_checks.rs"));
    assert!(!declares_test_module(text, "real"));
    assert!(is_gated_file("//! x\n#![allow(y)]\n#![cfg(test)]\nfn a() {}\n"));
    assert!(
        !is_gated_file("#![cfg(not(test))]\nfn a() {}\n")
            && !is_gated_file("#[cfg(test)]\nmod a {}\n")
    );
}

#[test]
fn no_text_is_too_odd_to_be_scanned() {
    for text in [
        "#",
        "#[",
        "#![",
        "mod {",
        "'",
        "\"",
        "r#",
        "/*",
        "b'",
        "impl Foo<{ 3 }> for X { }",
        "}}}",
        "'\\",
        "é'é",
    ] {
        let _ = InlineTests::compare(text, ANCHOR);
        let _ = InlineTests::compare(ANCHOR, text);
        let _ = is_gated_file(text);
    }
}

proptest::proptest! {
    #[test]
    fn any_cut_of_a_file_is_scanned(at in 0..ANCHOR.len(), other in "[#!\\[\\](){};'\"a-z/* \\n]{0,40}") {
        let text = format!("{}{other}{}", &ANCHOR[..at], &ANCHOR[at..]);
        let _ = InlineTests::compare(ANCHOR, &text);
        let _ = InlineTests::compare(&text, ANCHOR);
    }
}

#[test]
fn a_file_that_is_named_by_a_path_belongs_to_what_names_it() {
    let text = "#[cfg(test)]\n#[path = \"kit/same.rs\"]\nmod same;\nmod a { #[cfg(test)] mod tests { include!(\"in.rs\"); } }\n\
                include!(\"table.rs\");\n";
    for (file, expected) in [
        ("same.rs", (true, false)),
        ("in.rs", (true, false)),
        ("table.rs", (false, true)),
        ("other.rs", (false, false)),
    ] {
        assert_eq!(names_file(text, file), expected, "{file}");
    }
}
