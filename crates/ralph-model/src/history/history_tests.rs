use super::*;
use crate::plan::{DoneAt, Kill, Plan, PlanContext, PlanError, Unfinished, commit_message};
use proptest::prelude::*;
use serde_json::json;

fn commit(number: usize) -> CommitId {
    format!("{number:040x}").parse().unwrap()
}

fn date(number: usize) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + i64::try_from(number).unwrap()).unwrap()
}

/// Compares two versions line by line; a line that only moved is not changed.
fn changed_lines<'a>(old: &'a str, new: &'a str) -> ChangedLines<'a> {
    let without = |lines: &'a str, others: &'a str| {
        let mut others: Vec<&str> = others.lines().collect();
        let is_left = |line: &&str| match others.iter().position(|other| other == line) {
            Some(at) => {
                others.swap_remove(at);
                false
            }
            None => true,
        };
        lines.lines().filter(is_left).map(str::as_bytes).collect()
    };
    ChangedLines { removed: without(old, new), added: without(new, old) }
}

/// A repository that contains only plans.
#[derive(Default)]
struct Repository {
    history: History,
    versions: Vec<String>,
}

impl Repository {
    /// Commits a version over its parents and returns its number.
    fn commit(&mut self, text: &str, parents: &[usize], subject: &str) -> usize {
        let number = self.versions.len();
        self.versions.push(text.to_owned());
        let empty = String::new();
        let olds: Vec<&String> = match parents {
            [] => vec![&empty],
            parents => parents.iter().map(|at| &self.versions[*at]).collect(),
        };
        let new = &self.versions[number];
        let changes: Vec<_> = olds.iter().map(|old| changed_lines(old, new)).collect();
        self.history.apply(&PlanVersion {
            commit: &commit(number),
            author: "a@example.org",
            date: date(number),
            branch: Some(if parents.len() > 1 { "main" } else { "feature" }),
            subject,
            changes: &changes,
        });
        number
    }

    /// Commits each text over the one before.
    fn line(&mut self, texts: &[&str]) {
        for text in texts {
            let parent = self.versions.len().checked_sub(1);
            self.commit(text, parent.as_slice(), "");
        }
    }

    fn view(&self, filter: &Filter<'_>) -> serde_json::Value {
        let now = Plan::parse(self.versions.last().unwrap().as_bytes());
        serde_json::to_value(self.history.log_view(&now, filter)).unwrap()["tasks"].take()
    }

    fn outcome(&self, id: &str) -> String {
        let view = self.view(&Filter::default());
        let task = view.as_array().unwrap().iter().find(|task| task["id"] == id).unwrap();
        task["outcome"].as_str().unwrap().to_owned()
    }

    fn recent(&self, filter: &Filter<'_>, most: usize) -> Vec<String> {
        let view = serde_json::to_value(self.history.recent_view(filter, most)).unwrap();
        let changes = view["changes"].as_array().unwrap().clone();
        changes
            .iter()
            .map(|one| {
                format!("{} {}", one["id"].as_str().unwrap(), one["change"].as_str().unwrap())
            })
            .collect()
    }
}

const SPEC: &str = "{\"t\":\"spec\",\"spec\":\"s\"}\n";
const P: &str = "{\"t\":\"task\",\"id\":\"t-1\",\"spec\":\"s\",\"name\":\"one\",\"notes\":\"n\",\"accept\":\"a\",\"deps\":[\"t-0\"],\"s\":\"p\"}\n";
const STONE: &str = "{\"t\":\"reject\",\"id\":\"t-1\",\"done_at\":\"abc\",\"reason\":\"no\"}\n";

fn done() -> String {
    P.replace("\"s\":\"p\"", "\"s\":\"d\",\"done_at\":\"abc\"")
}

fn rejected() -> String {
    P.replace("\"s\":\"p\"", "\"s\":\"p\",\"reject\":\"no\"")
}

#[test]
fn the_life_of_an_accepted_task_is_shown_with_every_key() {
    let mut repository = Repository::default();
    repository.line(&[&[SPEC, P].concat(), &[SPEC, &done()].concat(), SPEC]);
    let at = |number| json!({"commit": commit(number).as_str(), "date": date(number).to_string()});
    assert_eq!(
        repository.view(&Filter::default()),
        json!([{"id": "t-1", "desc": "one", "spec": "s", "branch": "feature", "author": "a@example.org",
            "created": at(0), "done": {"commit": "abc", "date": date(1).to_string()}, "accepted": at(2),
            "rejected": null, "cancelled": null, "outcome": "accepted", "notes": "n", "accept": "a", "deps": ["t-0"]}])
    );
    assert_eq!(
        repository.recent(&Filter::default(), 50),
        ["t-1 accepted", "t-1 done", "t-1 created"]
    );
    assert_eq!(repository.recent(&Filter::default(), 1), ["t-1 accepted"]);
}

/// B12.9.
#[test]
fn b12_9_the_order_of_events_decides_what_became_of_a_task() {
    let pending = [SPEC, P].concat();
    let done = [SPEC, &done()].concat();
    let rejected_now = [SPEC, &rejected(), STONE].concat();
    let redone =
        [SPEC, &rejected().replace("\"s\":\"p\"", "\"s\":\"d\",\"done_at\":\"def\""), STONE]
            .concat();
    let stone = [SPEC, STONE].concat();
    let other_spec = SPEC.replace("\"s\"}", "\"other\"}");
    for (versions, outcome) in [
        (vec![&*pending], "pending"),
        (vec![&pending, &done], "done"),
        (vec![&pending, &done, SPEC], "accepted"),
        (vec![&pending, SPEC], "cancelled"),
        (vec![&pending, &done, &rejected_now], "pending"),
        (vec![&pending, &done, &rejected_now, &stone], "rejected"),
        (vec![&pending, &done, &rejected_now, SPEC], "rejected"),
        (vec![&pending, &done, &rejected_now, &redone, &stone], "accepted"),
        (vec![&pending, &done, &rejected_now, &redone, &rejected_now, SPEC], "cancelled"),
        (vec![&pending, &done, &stone], "rejected"),
        (vec![&pending, &other_spec], "cancelled"),
        (vec![&pending, &done, &other_spec], "cancelled"),
        (vec![&pending, SPEC, &pending], "pending"),
        (vec![&pending, &done, SPEC, &done], "done"),
        (vec![&pending, &done, &pending, SPEC], "cancelled"),
    ] {
        let mut repository = Repository::default();
        repository.line(&versions);
        assert_eq!(repository.outcome("t-1"), outcome, "{versions:?}");
    }
}

/// A planner adds all its tasks at once, and their ids are random.
#[test]
fn tasks_that_came_together_are_told_in_the_order_of_the_file() {
    let mut repository = Repository::default();
    let line = |id: &str| {
        format!("{{\"t\": \"task\", \"id\": \"{id}\", \"name\": \"{id}\", \"s\": \"d\"}}\n")
    };
    let all = ["t-zz", "t-mm", "t-aa"].map(line).concat();
    repository.line(&[&all, ""]);
    let view = repository.view(&Filter::default());
    let ids: Vec<_> = view.as_array().unwrap().iter().map(|task| task["id"].clone()).collect();
    assert_eq!(ids, ["t-zz", "t-mm", "t-aa"]);
    let recent = repository.recent(&Filter::default(), 3);
    let ids: Vec<_> = recent.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(ids, ["t-aa", "t-mm", "t-zz"], "newest first: {recent:?}");
}

#[test]
fn a_done_task_that_is_deleted_was_not_accepted() {
    for subject in ["ralph: task delete - one", "ralph: cancel 1 task", "ralph: set spec s"] {
        let mut repository = Repository::default();
        repository.line(&[&[SPEC, P].concat(), &[SPEC, &done()].concat()]);
        repository.commit(SPEC, &[1], subject);
        assert_eq!(repository.outcome("t-1"), "cancelled", "{subject}");
    }
}

#[test]
fn a_task_that_comes_through_a_merge_was_created_and_done_on_its_branch() {
    let other = P.replace("t-1", "t-2");
    let mut repository = Repository::default();
    let base = repository.commit(SPEC, &[], "");
    let ours = repository.commit(&[SPEC, &other].concat(), &[base], "");
    let theirs = repository.commit(&[SPEC, P].concat(), &[base], "");
    let theirs = repository.commit(&[SPEC, &done()].concat(), &[theirs], "");
    repository.commit(&[SPEC, &other, &done()].concat(), &[ours, theirs], "Merge");
    assert_eq!(
        repository.recent(&Filter::default(), 50),
        ["t-1 done", "t-1 created", "t-2 created"]
    );
    let view = repository.view(&Filter::default());
    assert_eq!(view[1]["branch"], "feature");
    assert_eq!(view[1]["created"]["commit"], commit(2).as_str());
}

#[test]
fn what_only_a_merge_did_is_the_merge_s() {
    let mut repository = Repository::default();
    let base = repository.commit(&[SPEC, P].concat(), &[], "");
    let ours = repository.commit(&[SPEC, &P.replace("\"n\"", "\"m\"")].concat(), &[base], "");
    let theirs = repository.commit(&[SPEC, &P.replace("\"a\"", "\"b\"")].concat(), &[base], "");
    let both = P.replace("\"n\"", "\"m\"").replace("\"a\"", "\"b\"");
    let fresh = P.replace("t-1", "t-9");
    repository.commit(&[SPEC, &both, &fresh].concat(), &[ours, theirs], "Merge");
    assert_eq!(repository.recent(&Filter::default(), 50), ["t-9 created", "t-1 created"]);
    assert_eq!(repository.view(&Filter::default())[0]["notes"], "m");
}

#[test]
fn a_merge_that_keeps_what_one_side_accepted_leaves_the_task_open() {
    let done = [SPEC, &done()].concat();
    let mut repository = Repository::default();
    let base = repository.commit(&done, &[], "");
    let ours = repository.commit(SPEC, &[base], "");
    let theirs = repository.commit(&[&done, "\n"].concat(), &[base], "");
    repository.commit(&done, &[ours, theirs], "Merge");
    assert_eq!(repository.outcome("t-1"), "done");
}

#[test]
fn filters_take_spec_branch_date_and_commit() {
    let other = P.replace("t-1", "t-2").replace("\"spec\":\"s\"", "\"spec\":\"other\"");
    let mut repository = Repository::default();
    repository.line(&[
        &[SPEC, P].concat(),
        &[SPEC, P, &other].concat(),
        &[SPEC, &done(), &other].concat(),
    ]);
    let ids = |filter: &Filter<'_>| -> Vec<String> {
        let view = repository.view(filter);
        view.as_array()
            .unwrap()
            .iter()
            .map(|task| task["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ids(&Filter::default()), ["t-1", "t-2"]);
    assert_eq!(ids(&Filter { spec: Some("other"), ..Filter::default() }), ["t-2"]);
    assert_eq!(ids(&Filter { branch: Some("main"), ..Filter::default() }), [""; 0]);
    let since = Filter { since: Some(Since::Date(date(2))), ..Filter::default() };
    assert_eq!(ids(&since), ["t-1"]);
    assert_eq!(repository.recent(&since, 50), ["t-1 done"]);
    let old = |at: &CommitId| *at == commit(0);
    let since = Filter { since: Some(Since::Commit(&old)), ..Filter::default() };
    assert_eq!(repository.recent(&since, 50), ["t-1 done", "t-2 created"]);
}

#[test]
fn ids_of_tasks_and_issues_stay_known() {
    let issue = "{\"t\":\"issue\",\"id\":\"i-1\",\"desc\":\"d\"}\n";
    let mut repository = Repository::default();
    repository.line(&[&[SPEC, P, issue].concat(), SPEC]);
    let history = &repository.history;
    assert!(history.tasks.contains_key("t-1") && history.issues.contains("i-1"));
    assert!(!history.tasks.contains_key("t-2"));
}

#[test]
fn a_task_that_is_tried_for_ever_keeps_its_first_and_last_events_only() {
    let mut repository = Repository::default();
    repository.line(&[&[SPEC, P].concat()]);
    for number in 0..200 {
        let done = P.replace("\"s\":\"p\"", &format!("\"s\":\"d\",\"done_at\":\"{number}\""));
        repository.line(&[&[SPEC, &done].concat(), &[SPEC, P].concat()]);
    }
    let task = repository.history.tasks().next().unwrap().1;
    assert_eq!(task.events.len(), MOST_EVENTS);
    assert_eq!(task.events[0].what, What::Created);
    assert_eq!(task.events.last().unwrap().commit, commit(400));
}

#[test]
fn versions_that_cannot_be_read_are_passed_over() {
    let mut repository = Repository::default();
    let pending = [SPEC, P].concat();
    let torn = [SPEC, "<<<<<<< HEAD\n", P, "=======\n", &done(), ">>>>>>> x\n"].concat();
    repository.line(&[&pending, &torn, &[SPEC, &done()].concat(), SPEC]);
    assert_eq!(repository.outcome("t-1"), "accepted");
}

/// An operation on one of a few tasks.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Add,
    Done,
    Accept,
    Reject,
    Kill,
    Delete,
    Cancel,
}

fn any_deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => Just(Deed::Add),
        3 => Just(Deed::Done),
        2 => Just(Deed::Accept),
        2 => Just(Deed::Reject),
        1 => Just(Deed::Kill),
        1 => Just(Deed::Delete),
        1 => Just(Deed::Cancel),
    ]
}

fn perform(
    plan: &mut Plan<'_>,
    deed: Deed,
    id: &str,
    number: usize,
) -> Result<crate::plan::Change, PlanError> {
    let mut around = PlanContext {
        known: &|_| false,
        past_is_whole: &|| true,
        random: &mut || 0,
        done_at: DoneAt::Unborn,
    };
    match deed {
        Deed::Add => plan.add(&json!({"id": id, "name": id}).to_string(), &mut around),
        Deed::Done => plan.done(id, &DoneAt::Commit(commit(number))),
        Deed::Accept => plan.accept(&[id.to_owned()]),
        Deed::Reject => plan.reject(id, &format!("reason {number}")),
        Deed::Kill => plan.kill(id, Kill::Timeout, Some(&format!("{number}.log"))),
        Deed::Delete => plan.delete(id),
        Deed::Cancel => {
            let spec = plan.spec().unwrap_or_default().to_owned() + "x";
            plan.set_spec(&spec, Unfinished::Cancel)
        }
    }
}

proptest! {
    #[test]
    fn the_log_agrees_with_what_was_really_done_also_when_it_is_stored_half_way(
        deeds in prop::collection::vec((any_deed(), 0..3_usize), 1..40),
    ) {
        let mut repository = Repository::default();
        let mut text = SPEC.to_owned();
        repository.line(&[&text]);
        let mut expected: Vec<String> = Vec::new();
        let mut rejected_last = [false; 3];
        for (number, (deed, at)) in deeds.iter().enumerate() {
            let id = format!("t-000{at}");
            let copy = text.clone();
            let mut plan = Plan::parse(copy.as_bytes());
            let mut present: Vec<(usize, String)> = (0..3)
                .map(|at| (at, format!("t-000{at}")))
                .filter(|(_, id)| plan.task_view(id).is_some())
                .collect();
            present.sort_by_key(|(_, id)| copy.find(&format!("\"id\": \"{id}\"")));
            let history = &repository.history;
            let known = history.tasks.contains_key(&id) || history.issues.contains(&id);
            let Ok(change) = perform(&mut plan, *deed, &id, number) else { continue };
            match deed {
                Deed::Add => expected.push(format!("{id} {}", if known { "restored" } else { "created" })),
                Deed::Done => expected.push(format!("{id} done")),
                Deed::Accept => expected.push(format!("{id} accepted")),
                Deed::Reject => expected.push(format!("{id} rejected")),
                Deed::Kill => {
                    let was_done = Plan::parse(copy.as_bytes()).task_view(&id).is_some_and(|task| task.done_at.is_some());
                    if was_done {
                        expected.push(format!("{id} reopened"));
                    }
                    expected.push(format!("{id} killed"));
                }
                Deed::Delete | Deed::Cancel => {
                    let going = present.iter().filter(|(_, of)| matches!(deed, Deed::Cancel) || *of == id);
                    for (at, id) in going {
                        let end = if rejected_last[*at] { "removed" } else { "cancelled" };
                        expected.push(format!("{id} {end}"));
                    }
                }
            }
            match deed {
                Deed::Reject => rejected_last[*at] = true,
                Deed::Add | Deed::Done => rejected_last[*at] = false,
                _ => {}
            }
            let subject = commit_message(&[change]).unwrap();
            text = String::from_utf8(plan.render()).unwrap();
            let parent = repository.versions.len() - 1;
            repository.commit(&text, &[parent], &subject);
            let stored = serde_json::to_string(&repository.history).unwrap();
            let loaded: History = serde_json::from_str(&stored).unwrap();
            prop_assert_eq!(&loaded, &repository.history);
            repository.history = loaded;
        }
        let mut found = repository.recent(&Filter::default(), 1000);
        found.reverse();
        prop_assert_eq!(found, expected);
    }
}

/// A killed task counts as pending for `next`; its history follows what its line says.
#[test]
fn a_task_that_was_killed_and_done_all_the_same_is_accepted_when_it_leaves() {
    let killed = done().replace("\"s\":\"d\"", "\"s\":\"d\",\"kill\":\"timeout\"");
    assert!(killed.contains("kill"));
    let mut repository = Repository::default();
    repository.line(&[SPEC, &format!("{SPEC}{P}"), &format!("{SPEC}{killed}"), SPEC]);
    assert_eq!(repository.outcome("t-1"), "accepted");
    let view = repository.view(&Filter::default());
    assert_eq!(view[0]["done"]["commit"], "abc");
}

#[test]
fn an_accept_record_says_how_a_task_left() {
    let accept = "{\"t\":\"accept\",\"id\":\"t-1\",\"reason\":\"ok\"}\n";
    let rejected = format!("{P}{STONE}");
    for (before, after, outcome) in [
        (rejected.as_str(), format!("{STONE}{accept}"), "accepted"),
        (P, accept.to_owned(), "accepted"),
        (P, accept.replace("t-1", "t-2"), "cancelled"),
        (&rejected, STONE.to_owned(), "rejected"),
    ] {
        let mut repository = Repository::default();
        repository.line(&[SPEC, &format!("{SPEC}{before}"), &format!("{SPEC}{after}")]);
        assert_eq!(repository.outcome("t-1"), outcome, "{after}");
    }
}
