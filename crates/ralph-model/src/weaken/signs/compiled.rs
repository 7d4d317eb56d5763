//! Compiled languages: tests are marked by attributes, or by names of typed functions.

use super::{bracketed, contains_any, declares, is_word, starts_with_any, string, test, word};
use crate::weaken::language::{Sign, SourceLine};

pub(in crate::weaken) fn rust(line: SourceLine<'_>) -> Vec<Sign> {
    const TESTS: [&str; 7] = [
        "test",
        "rstest",
        "test_case",
        "wasm_bindgen_test",
        "quickcheck",
        "property_test",
        "test_matrix",
    ];
    let mut signs = Vec::new();
    let mut code = line.code;
    loop {
        let (attribute, whole_file) = match (code.strip_prefix("#!"), code.strip_prefix('#')) {
            (Some(rest), _) => (rest, true),
            (None, Some(rest)) => (rest, false),
            (None, None) => break,
        };
        let Some((attribute, rest)) = bracketed(attribute, '[', ']') else { break };
        code = rest;
        let compact: String = attribute.chars().filter(|c| !c.is_whitespace()).collect();
        let path = compact.split(['(', '=']).next().unwrap_or_default();
        let last = path.rsplit("::").next().unwrap_or_default();
        let never = ["cfg(any())", "cfg(false)", "cfg(not(test))", "cfg(not(all()))", "cfg(FALSE)"];
        let skips = last == "ignore"
            || (last == "cfg_attr" && compact.contains("ignore"))
            || never.contains(&compact.as_str())
            || (last == "cfg" && compact.contains("feature="));
        if skips {
            signs.push(if whole_file { Sign::SkipAll } else { Sign::SkipFollows });
        } else if TESTS.contains(&last) {
            signs.push(Sign::TestFollows);
        }
    }
    if let Some(name) = declares(code, "fn") {
        signs.push(Sign::Function { name: word(name).to_owned() });
    } else if declares(code, "mod").is_some() || declares(code, "impl").is_some() {
        signs.push(Sign::Container);
    }
    signs
}

pub(in crate::weaken) fn go(line: SourceLine<'_>) -> Vec<Sign> {
    if starts_with_any(line.raw, &["//go:build", "// +build"]) {
        return vec![Sign::SkipAll];
    }
    if let Some(rest) = declares(line.code, "func") {
        let rest = match bracketed(rest, '(', ')') {
            Some((_, after_receiver)) => after_receiver,
            None => rest,
        };
        let name = word(rest);
        let is_test = ["Test", "Fuzz", "Example"].iter().any(|kind| {
            name.strip_prefix(kind)
                .is_some_and(|rest| !rest.starts_with(|c: char| c.is_lowercase()))
        });
        return vec![if is_test { test(name) } else { Sign::Function { name: name.to_owned() } }];
    }
    if contains_any(line.code, &[".Skip(", ".Skipf(", ".SkipNow("]) {
        vec![Sign::SkipHere]
    } else {
        vec![]
    }
}

/// Returns the function declared in a line of a C-like language: a word before a parenthesis, preceded by its type.
fn typed_function(code: &str) -> Option<String> {
    let (before, _) = code.split_once('(')?;
    let name_at = before.rfind(|c| !is_word(c)).map_or(0, |at| at + 1);
    let (types, name) = (before[..name_at].trim(), &before[name_at..]);
    let a_statement = contains_any(types, &["=", ".", "return", "new", "throw", "await"]);
    let keyword = ["if", "for", "while", "switch", "catch", "using", "lock"].contains(&name);
    (!types.is_empty() && !name.is_empty() && !a_statement && !keyword).then(|| name.to_owned())
}

pub(in crate::weaken) fn jvm(line: SourceLine<'_>) -> Vec<Sign> {
    const TESTS: [&str; 7] = [
        "Test",
        "ParameterizedTest",
        "RepeatedTest",
        "TestFactory",
        "TestTemplate",
        "Property",
        "Theory",
    ];
    let mut signs = Vec::new();
    let mut code = line.code;
    while let Some(rest) = code.strip_prefix('@') {
        let end = rest.find(|c| !is_word(c) && c != '.').unwrap_or(rest.len());
        let name = rest[..end].rsplit('.').next().unwrap_or_default();
        let after = rest[end..].trim_start();
        let (arguments, after) = bracketed(after, '(', ')').unwrap_or(("", after));
        code = after;
        if TESTS.contains(&name) {
            signs.push(Sign::TestFollows);
        }
        let compact: String = arguments.chars().filter(|c| *c != ' ').collect();
        if starts_with_any(name, &["Disabled", "Ignore", "EnabledIf", "EnabledOn"])
            || compact.contains("enabled=false")
        {
            signs.push(Sign::SkipFollows);
        }
    }
    if let Some(name) = declares(code, "fun").or_else(|| declares(code, "def")) {
        let name = string(name).unwrap_or_else(|| word(name).to_owned());
        signs.push(Sign::Function { name });
    } else if ["class", "interface", "object", "record"]
        .iter()
        .any(|kind| declares(code, kind).is_some())
    {
        signs.push(Sign::Container);
    } else if contains_any(
        code,
        &["assumeTrue(false", "assumeFalse(true", "SkipException(", "Assumptions.abort("],
    ) {
        signs.push(Sign::SkipHere);
    } else if let Some(name) = typed_function(code) {
        signs.push(Sign::Function { name });
    }
    signs
}

pub(in crate::weaken) fn csharp(line: SourceLine<'_>) -> Vec<Sign> {
    const TESTS: [&str; 7] =
        ["Test", "Fact", "Theory", "TestMethod", "TestCase", "DataTestMethod", "TestCaseSource"];
    let mut signs = Vec::new();
    let mut code = line.code;
    while let Some((attributes, rest)) =
        code.starts_with('[').then(|| bracketed(code, '[', ']')).flatten()
    {
        code = rest;
        for attribute in attributes.split(", ") {
            let name = word(attribute.trim());
            if TESTS.contains(&name) {
                signs.push(Sign::TestFollows);
            }
            let compact: String = attribute.chars().filter(|c| *c != ' ').collect();
            if ["Ignore", "Explicit"].contains(&name)
                || contains_any(&compact, &["Skip=", "Ignore="])
            {
                signs.push(Sign::SkipFollows);
            }
        }
    }
    if ["class", "record", "struct"].iter().any(|kind| declares(code, kind).is_some()) {
        signs.push(Sign::Container);
    } else if contains_any(
        code,
        &["Assert.Ignore(", "Assert.Inconclusive(", "Assert.Skip(", "Skip.If("],
    ) {
        signs.push(Sign::SkipHere);
    } else if let Some(name) = typed_function(code) {
        signs.push(Sign::Function { name });
    }
    signs
}

pub(in crate::weaken) fn swift(line: SourceLine<'_>) -> Vec<Sign> {
    let mut signs = Vec::new();
    let mut code = line.code;
    while let Some(rest) = code.strip_prefix('@') {
        let name = word(rest);
        let after = rest[name.len()..].trim_start();
        let (arguments, after) = bracketed(after, '(', ')').unwrap_or(("", after));
        code = after;
        if name == "Test" {
            signs.push(Sign::TestFollows);
        }
        if arguments.contains(".disabled(") {
            signs.push(Sign::SkipFollows);
        }
    }
    if let Some(name) = declares(code, "func") {
        let name = word(name);
        let is_test = name.starts_with("test");
        signs.push(if is_test { test(name) } else { Sign::Function { name: name.to_owned() } });
    } else if ["class", "struct", "extension"].iter().any(|kind| declares(code, kind).is_some()) {
        signs.push(Sign::Container);
    } else if code.contains("XCTSkip") {
        signs.push(Sign::SkipHere);
    }
    signs
}
