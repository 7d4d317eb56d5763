//! The screen of a workflow matches its journal: checked for every story that `Place::ralph` plays.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ralph_model::board::Board;
use ralph_model::journal::{JournalEntry, JournalEvent, VerdictKind, parse_line};
use serde_json::Value;

use crate::harness::Place;
use crate::support::process::Finished;

type Facts = BTreeMap<&'static str, usize>;

/// The labels that correspond to one event each.
const LABELS: [&str; 14] = [
    "passed",
    "nothing",
    "built",
    "candidate",
    "planned",
    "plan-invalid",
    "killed",
    "accepted",
    "rejected",
    "budget",
    "answer",
    "landed",
    "passes",
    "mapped",
];

/// Returns all journals of a place.
fn journals(state: &Path) -> Vec<String> {
    let places = fs::read_dir(state.join("ralph")).into_iter().flatten().flatten();
    places.filter_map(|place| fs::read_to_string(place.path().join("journal.jsonl")).ok()).collect()
}

/// The total length of the journals.
pub(crate) fn length(state: &Path) -> usize {
    journals(state).iter().map(String::len).sum()
}

/// Compares a workflow's screen output with what it added to the journal.
pub(crate) fn assert_told(state: &Path, before: usize, finished: &Finished) {
    let [journal] = journals(state).try_into().unwrap_or_default();
    let whole = matches!(finished.status.code(), Some(0 | 1 | 3));
    let Some(new) = journal.get(before..).filter(|_| whole) else { return };
    let entries = new.lines().map(|line| parse_line(line.as_bytes()).unwrap());
    let told = entries.filter_map(|entry| label(&entry));
    assert_eq!(counted(said(&finished.stderr)), counted(told), "{finished}\n{new}");
}

fn counted(labels: impl Iterator<Item = &'static str>) -> Facts {
    labels.fold(Facts::new(), |mut facts, label| {
        *facts.entry(label).or_default() += 1;
        facts
    })
}

/// The labels on a screen, in order.
fn said(screen: &str) -> impl Iterator<Item = &'static str> {
    screen.lines().filter_map(|line| {
        let (label, _) = line.strip_prefix('[')?.split_once(']')?;
        LABELS.into_iter().find(|known| *known == label)
    })
}

/// The label of an entry, if the screen has one for it.
fn label(entry: &JournalEntry) -> Option<&'static str> {
    Some(match &entry.event {
        JournalEvent::GateFinished(gate) if gate.status == "passed" => "passed",
        JournalEvent::GateFinished(gate) if gate.status == "proved_nothing" => "nothing",
        JournalEvent::TaskDone(_) => "built",
        JournalEvent::CandidateWritten(_) => "candidate",
        JournalEvent::PlanPass(_) | JournalEvent::PlanAdopted(_) => "planned",
        JournalEvent::PlanInvalidated(_) => "plan-invalid",
        JournalEvent::TaskKilled(_) => "killed",
        JournalEvent::Verdict(verdict) if entry.run.is_some() => match verdict.verdict {
            VerdictKind::Accepted => "accepted",
            _ => "rejected",
        },
        JournalEvent::BudgetNear(_) => "budget",
        JournalEvent::PersonAnswered(_) => "answer",
        // Accepted work that waits for the person's checkout.
        JournalEvent::Landed(landed) if landed.waits.is_some() => "accepted",
        JournalEvent::Landed(_) => "landed",
        JournalEvent::StoryPassed(_) => "passes",
        JournalEvent::TopicMapped(mapped) if mapped.reason.is_none() => "mapped",
        _ => return None,
    })
}

/// Folds the journal of a place line by line and compares with `ralph status`, with or without a snapshot.
pub(crate) fn assert_status(place: &Place) {
    let [journal] = journals(&place.path("state")).try_into().expect("there is one journal");
    let mut board = Board::default();
    for line in journal.lines() {
        board.apply(&parse_line(line.as_bytes()).unwrap());
    }
    let finished = place.ralph(&["status", "--json", "--last", "1000"]);
    let status: Value = serde_json::from_str(&finished.stdout).unwrap();
    let ids: Vec<&str> = board.runs().map(|run| run.id.as_str()).collect();
    let runs = status["runs"].as_array().unwrap();
    let shown: Vec<&str> = runs.iter().map(|run| run["id"].as_str().unwrap()).collect();
    assert_eq!(shown, ids);
    let totals = board.totals();
    assert_eq!(status["totals"]["runs"], totals.finished_runs);
    assert_eq!(status["totals"]["tokens"], totals.usage.total());
    assert_eq!(status["totals"]["cost_usd"], Value::from(totals.cost_usd));
    let open: Vec<&str> = board.open_questions().map(|question| question.id.as_str()).collect();
    let questions = status["questions"].as_array().unwrap();
    let asked: Vec<&str> = questions.iter().map(|found| found["id"].as_str().unwrap()).collect();
    assert_eq!(asked, open);
    let last = board.workflows().next_back().expect("there was a workflow");
    assert_eq!(status["workflow"]["id"], last.started.id.as_str());
    let how = last.ended.as_ref().map(|(_, how)| how.as_str());
    assert_eq!(status["workflow"]["how"], Value::from(how));
    assert_eq!(status["gates"].as_array().unwrap().len(), board.gates().len());
}
