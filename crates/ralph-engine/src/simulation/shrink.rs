//! Minimises a failing story, and shows what happened in it.

use std::fmt::Write;

use super::story::{Answers, Kind, Story};
use super::{Logging, Told, tell_twice};

/// The maximum number of smaller stories to try.
const MOST_TRIES: usize = 2000;

/// Removes everything from a story that is not needed for it to fail.
pub(super) fn smallest(told: Told) -> Told {
    let mut best = told;
    let mut tries = 0;
    loop {
        let mut found = None;
        for smaller in smaller_than(&best.story) {
            tries += 1;
            if tries > MOST_TRIES {
                return best;
            }
            let told = tell_twice(smaller, Logging::On);
            if !told.wrong.is_empty() {
                found = Some(told);
                break;
            }
        }
        match found {
            Some(told) => best = told,
            None => return best,
        }
    }
}

/// Returns stories that lack one thing each.
fn smaller_than(story: &Story) -> Vec<Story> {
    let mut smaller = Vec::new();
    let mut push = |change: &dyn Fn(&mut Story)| {
        let mut changed = story.clone();
        change(&mut changed);
        // A story with faults must keep one: without any it would get new ones.
        if changed != *story && (story.faults.is_empty() || !changed.faults.is_empty()) {
            smaller.push(changed);
        }
    };
    for process in 0..story.faults.len() {
        push(&|story| drop(story.faults.remove(process)));
        for fault in 0..story.faults[process].len() {
            push(&|story| {
                story.faults[process].remove(fault);
            });
        }
    }
    for key in story.scripts.keys() {
        push(&|story| drop(story.scripts.remove(key)));
        for act in 0..story.scripts[key].acts.len() {
            push(&|story| {
                if let Some(script) = story.scripts.get_mut(key)
                    && script.acts.len() > 1
                {
                    script.acts.remove(act);
                }
            });
        }
    }
    push(&|story| story.dirt.clear());
    push(&|story| story.answers = Answers::Strict);
    push(&|story| story.person_adds = false);
    // The person acts only beside clones.
    if !story.has_persons_act() {
        push(&|story| story.in_clones = false);
    }
    push(&|story| story.has_gates = false);
    push(&|story| {
        story.kind = match story.kind {
            Kind::Pipeline { .. } => Kind::Pipeline { specs: 1 },
            Kind::Build { .. } => Kind::Build { tasks: 1 },
            Kind::Stories { .. } => Kind::Stories { stories: 1 },
            Kind::Loop => Kind::Loop,
        };
    });
    smaller
}

/// Shows a story and its events: runs, gates, commits, waits and faults, and the last change before each fault.
pub(super) fn trace(told: &Told) -> String {
    let mut text = format!("{:?}", told.story.kind);
    let Story { has_gates, waits, dirt, person_adds, answers, in_clones, .. } = &told.story;
    let _ = writeln!(text, ", gates: {has_gates}, waits for limits: {waits}");
    if *in_clones {
        let _ = writeln!(text, "agents work in clones");
    }
    if *answers != Answers::Strict {
        let _ = writeln!(text, "the person's answers differ");
    }
    if *person_adds {
        let _ = writeln!(text, "the person adds a task while agents run");
    }
    for (name, _) in dirt {
        let _ = writeln!(text, "uncommitted by the person: {name}");
    }
    for ((key, role), script) in &told.story.scripts {
        let _ = writeln!(text, "{role} for {key}:");
        for act in &script.acts {
            let _ = writeln!(text, "  {act}");
        }
        let _ = writeln!(text, "  then {}", if script.is_hopeless { "again" } else { "honest" });
    }
    let mut last = None;
    for line in &told.log {
        let what = line.get(6..).unwrap_or_default();
        let is_told = [
            "agent",
            "gate",
            "git commit",
            "git switch",
            "git reset",
            "git update-ref: ",
            "the checkout follows",
            "wait",
        ];
        if line.starts_with("--") || is_told.iter().any(|start| what.starts_with(start)) {
            let _ = writeln!(text, "{line}");
            last = None;
        } else if what.starts_with("! ") {
            if let Some(last) = last.take() {
                let _ = writeln!(text, "{last}");
            }
            let _ = writeln!(text, "{line}");
        } else {
            last = Some(line);
        }
    }
    text
}
