//! Splices a go.mod: replacements of modules from the anchor, all else from the candidate.

use std::collections::{BTreeMap, BTreeSet};

use super::manifest::Spliced;

/// What a module is replaced by stays as it was if the anchor knows the module: tests may import it.
pub(super) fn go_mod(anchor: &str, candidate: &str) -> Spliced {
    let (before, now) = (GoModule::read(anchor), GoModule::read(candidate));
    let is_old = |module: &String| before.known.contains(module);
    let wanted: BTreeMap<&String, &String> =
        now.replaced.iter().filter(|(module, _)| !is_old(module)).chain(&before.replaced).collect();
    if wanted == now.replaced.iter().collect() {
        return Spliced::Same;
    }
    let mut text = now.rest;
    for (module, by) in wanted {
        text.extend(["replace ", module, " => ", by, "\n"]);
    }
    Spliced::Text(text)
}

/// A go.mod, with the replacements apart.
#[derive(Default)]
struct GoModule {
    replaced: BTreeMap<String, String>,
    /// Modules that it names.
    known: BTreeSet<String>,
    rest: String,
}

impl GoModule {
    fn read(text: &str) -> GoModule {
        let mut module = GoModule::default();
        let mut block = "";
        for line in text.lines() {
            let plain = line.split("//").next().unwrap_or(line).trim();
            let (verb, rest) = match block {
                "" => plain.split_once([' ', '\t']).unwrap_or((plain, "")),
                block => (block, plain),
            };
            let name = rest.split_whitespace().next().unwrap_or_default();
            module.known.insert(name.to_owned());
            let is_replacement = verb == "replace";
            if block.is_empty() && rest.trim() == "(" {
                block = if is_replacement { "replace" } else { "other" };
            } else if plain == ")" {
                block = "";
            } else if let Some((left, right)) = rest.split_once("=>").filter(|_| is_replacement) {
                module.replaced.insert(left.trim().to_owned(), right.trim().to_owned());
            }
            if !is_replacement {
                module.rest.push_str(line);
                module.rest.push('\n');
            }
        }
        module
    }
}
