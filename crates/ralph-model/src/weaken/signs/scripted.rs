//! Scripting languages: tests are calls with a name, or functions with certain names.

use super::{bracketed, contains_any, declares, is_word, starts_with_any, string, test, word};
use crate::weaken::language::{Sign, SourceLine};

pub(in crate::weaken) fn python(line: SourceLine<'_>) -> Vec<Sign> {
    let code = line.code;
    let skips = contains_any(code, &["skip", "xfail", "expectedFailure"]);
    if code.starts_with('@') {
        return if skips { vec![Sign::SkipFollows] } else { vec![] };
    }
    if let Some(name) = declares(code, "def") {
        let name = word(name);
        let is_test = name.starts_with("test");
        return vec![if is_test { test(name) } else { Sign::Function { name: name.to_owned() } }];
    }
    if declares(code, "class").is_some() {
        return vec![Sign::Container];
    }
    let calls = ["pytest.skip(", "skipTest(", "SkipTest(", "pytest.xfail(", "pytest.importorskip("];
    let compact: String = code.chars().filter(|c| *c != ' ').collect();
    if (code.starts_with("pytestmark") && skips)
        || compact == "__test__=False"
        || code.starts_with("collect_ignore")
    {
        vec![Sign::SkipAll]
    } else if contains_any(code, &calls) {
        vec![Sign::SkipHere]
    } else {
        vec![]
    }
}

const KINDS: [&str; 6] = ["it", "test", "specify", "describe", "context", "suite"];

pub(in crate::weaken) fn javascript(line: SourceLine<'_>) -> Vec<Sign> {
    let code = line.code.trim_start_matches("await ").trim_start_matches("void ");
    if starts_with_any(code, &["this.skip(", "t.skip(", "ctx.skip(", "context.skip("]) {
        return vec![Sign::SkipHere];
    }
    let end = code.find(|c| !is_word(c) && c != '.').unwrap_or(code.len());
    let (head, call) = code.split_at(end);
    if !call.starts_with(['(', '`']) {
        return vec![];
    }
    let mut parts = head.strip_prefix("Deno.").unwrap_or(head).split('.');
    let first = parts.next().unwrap_or_default();
    let (kind, prefix) = match first.strip_prefix(['x', 'f']) {
        Some(kind) if KINDS.contains(&kind) => (kind, &first[..1]),
        _ => (first, ""),
    };
    let (mut suite, mut table) = (["describe", "context", "suite"].contains(&kind), false);
    let (mut skipped, mut focused) = (prefix == "x", prefix == "f");
    if !KINDS.contains(&kind) {
        return vec![];
    }
    for part in parts {
        match part {
            "skip" | "todo" | "fixme" | "ignore" | "failing" | "fails" => skipped = true,
            "skipIf" | "runIf" => (skipped, table) = (true, true),
            "only" => focused = true,
            "each" | "for" => table = true,
            "describe" => suite = true,
            "concurrent" | "serial" | "sequential" | "parallel" | "shuffle" => {}
            _ => return vec![],
        }
    }
    skipped |= contains_any(call, &["skip: true", "ignore: true", "todo: true"]);
    focused |= call.contains("only: true");
    let mut signs = if focused { vec![Sign::Focus] } else { vec![] };
    if suite {
        signs.push(if skipped { Sign::SkipAll } else { Sign::Container });
        return signs;
    }
    match name_in_call(call, line.below, table) {
        None if skipped => signs.push(Sign::SkipHere),
        name => signs.push(Sign::Test { name: name.unwrap_or_default(), skipped }),
    }
    signs
}

/// Returns the first argument of a call as a name; after a table of cases it is in a second call.
fn name_in_call(call: &str, below: &[String], table: bool) -> Option<String> {
    if !table {
        let first = call.strip_prefix('(')?.trim_start();
        let first = if first.is_empty() { below.first()?.trim() } else { first };
        return string(first);
    }
    let lines = std::iter::once(call).chain(below.iter().take(60).map(String::as_str));
    lines
        .filter_map(|line| line.split_once(")(").or_else(|| line.split_once("`(")))
        .find_map(|(_, name)| string(name.trim_start()))
}

pub(in crate::weaken) fn ruby(line: SourceLine<'_>) -> Vec<Sign> {
    let code = line.code;
    if let Some(name) = declares(code, "def") {
        let name = word(name);
        let is_test = name.starts_with("test_");
        return vec![if is_test { test(name) } else { Sign::Function { name: name.to_owned() } }];
    }
    let code = code.strip_prefix("RSpec.").unwrap_or(code);
    let first = word(code);
    let rest = code[first.len()..].trim_start_matches(['(', ' ']);
    let skipped = contains_any(rest, &["skip: ", ":skip", "pending: ", ":pending"]);
    let sign = match (first, string(rest)) {
        ("it" | "specify" | "example" | "test" | "fit", Some(name)) => Sign::Test { name, skipped },
        ("xit" | "xspecify" | "xexample", Some(name)) => Sign::Test { name, skipped: true },
        ("pending" | "skip", Some(name)) if code.ends_with(" do") => {
            Sign::Test { name, skipped: true }
        }
        ("skip" | "pending", _) => Sign::SkipHere,
        ("xdescribe" | "xcontext", _) => Sign::SkipAll,
        ("describe" | "context", _) if skipped => Sign::SkipAll,
        ("describe" | "context" | "fdescribe" | "fcontext" | "class" | "module", _) => {
            Sign::Container
        }
        _ => return vec![],
    };
    let focused = matches!(first, "fit" | "fdescribe" | "fcontext")
        || contains_any(rest, &["focus: true", ":focus"]);
    if focused { vec![Sign::Focus, sign] } else { vec![sign] }
}

pub(in crate::weaken) fn php(line: SourceLine<'_>) -> Vec<Sign> {
    let mut signs = Vec::new();
    let mut code = line.code;
    while let Some((attribute, rest)) =
        code.strip_prefix('#').and_then(|rest| bracketed(rest, '[', ']'))
    {
        code = rest;
        if word(attribute.rsplit('\\').next().unwrap_or_default()) == "Test" {
            signs.push(Sign::TestFollows);
        }
    }
    if let Some(name) = declares(code, "function") {
        let name = word(name);
        let is_test = name.starts_with("test");
        signs.push(if is_test { test(name) } else { Sign::Function { name: name.to_owned() } });
    } else if declares(code, "class").is_some() {
        signs.push(Sign::Container);
    } else if let Some(name) =
        ["it(", "test("].iter().find_map(|call| string(code.strip_prefix(call)?))
    {
        signs.push(test(name));
    }
    if contains_any(code, &["markTestSkipped(", "markTestIncomplete(", "->skip(", "->todo("]) {
        signs.push(Sign::SkipHere);
    }
    if code.contains("->only(") {
        signs.push(Sign::Focus);
    }
    signs
}

pub(in crate::weaken) fn bats(line: SourceLine<'_>) -> Vec<Sign> {
    let code = line.code;
    if let Some(name) = code.strip_prefix("@test ").and_then(|rest| string(rest.trim_start())) {
        vec![test(name)]
    } else if code == "skip" || code.starts_with("skip ") {
        vec![Sign::SkipHere]
    } else {
        vec![]
    }
}
