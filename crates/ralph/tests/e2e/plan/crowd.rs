//! B12.19: many processes that change the plan concurrently lose nothing.

use std::path::Path;

use crate::harness::PATIENCE;
use crate::support::process::start;

use super::{Desk, RALPH};

#[test]
fn b12_19_fifty_writers_at_once_lose_nothing() {
    const WRITERS: usize = 50;
    let desk = Desk::new();
    let before = desk.place.env.commits().len();
    let names: Vec<String> = (0..WRITERS).map(|number| format!("task number {number}")).collect();
    let running: Vec<_> = names
        .iter()
        .map(|name| {
            let args = ["task", "add", name.as_str()];
            start(&desk.place.env, Path::new(RALPH), &args, &desk.place.variables(), "")
        })
        .collect();
    for writer in running {
        let finished = writer.finish(PATIENCE);
        assert!(finished.status.success(), "{finished}");
    }
    let plan = desk.plan();
    for name in &names {
        assert_eq!(plan.matches(&format!("\"{name}\"")).count(), 1, "{name}");
    }
    let mut ids = desk.ids();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), WRITERS);
    let commits = desk.place.env.commits();
    assert_eq!(commits.len(), before + WRITERS, "one commit for each");
    for name in &names {
        assert!(commits.contains(&format!("ralph: task add - {name}")), "{name}");
    }
    assert_eq!(desk.git(&["status", "--porcelain"]), "");
    assert_eq!(desk.done(&["log", "--all"])["tasks"].as_array().unwrap().len(), WRITERS);
}
