use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

fn any_line() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..20),
        Just(b"{\"t\":\"spec\",\"spec\":\"s\"}".to_vec()),
        "\\{\"t\" ?: ?\"task\",\"id\":\"t-[ab]{1,2}\", \"name\":\"[a\\\\\"]{0,3}\"\\}"
            .prop_map(String::into_bytes),
        Just(b"<<<<<<< HEAD".to_vec()),
        Just(Vec::new()),
    ]
}

/// An operation on a plan; numbers select among the existing items.
#[derive(Clone, Debug)]
enum Ask {
    Add { deps: Vec<usize>, parent: Option<usize>, supersedes: Option<usize> },
    Done(usize),
    DoneNext,
    Accept(usize),
    AcceptAll,
    Reject(usize),
    Delete(usize),
    Kill(usize),
    Prioritize,
    IssueAdd,
    IssueDone,
    SetSpec(u8, bool),
    ClearTombstones,
}

fn any_ask() -> impl Strategy<Value = Ask> {
    let at = || 0..12_usize;
    prop_oneof![
        4 => (prop::collection::vec(at(), 0..3), prop::option::of(at()), prop::option::of(at()))
            .prop_map(|(deps, parent, supersedes)| Ask::Add { deps, parent, supersedes }),
        3 => at().prop_map(Ask::Done),
        1 => Just(Ask::DoneNext),
        1 => at().prop_map(Ask::Accept),
        1 => Just(Ask::AcceptAll),
        2 => at().prop_map(Ask::Reject),
        1 => at().prop_map(Ask::Delete),
        1 => at().prop_map(Ask::Kill),
        1 => Just(Ask::Prioritize),
        1 => Just(Ask::IssueAdd),
        1 => Just(Ask::IssueDone),
        1 => (0..2_u8, any::<bool>()).prop_map(|(spec, cancel)| Ask::SetSpec(spec, cancel)),
        1 => Just(Ask::ClearTombstones),
    ]
}

/// Performs it, selecting tasks by their position in the file.
fn ask(plan: &mut Plan<'_>, what: &Ask, around: &mut PlanContext<'_>) -> Result<Change, PlanError> {
    let ids: Vec<String> = plan
        .document()
        .lines()
        .iter()
        .filter_map(|line| line.head().map(|head| head.id.clone().into_owned()))
        .collect();
    let id = |at: usize| ids.get(at % ids.len().max(1)).cloned().unwrap_or("t-none".to_owned());
    match what {
        Ask::Add { deps, parent, supersedes } => {
            let deps: Vec<_> = deps.iter().filter(|_| !ids.is_empty()).map(|at| id(*at)).collect();
            let mut task = serde_json::json!({"name": "a task", "deps": deps});
            if let (Some(parent), false) = (parent, ids.is_empty()) {
                task["parent"] = id(*parent).into();
            }
            if let Some(supersedes) = supersedes {
                task["supersedes"] = id(*supersedes).into();
            }
            let first = plan.add(&task.to_string(), around);
            if first.is_ok() || supersedes.is_none() {
                return first;
            }
            task["supersedes"] = serde_json::Value::Null;
            plan.add(&task.to_string(), around)
        }
        Ask::Done(at) => plan.done(&id(*at), &around.done_at),
        Ask::DoneNext => plan.done_next(&around.done_at),
        Ask::Accept(at) => plan.accept(&[id(*at)]),
        Ask::AcceptAll => plan.accept_all(),
        Ask::Reject(at) => plan.reject(&id(*at), "not good"),
        Ask::Delete(at) => plan.delete(&id(*at)),
        Ask::Kill(at) => plan.kill(&id(*at), Kill::Timeout, Some("runs/1.log")),
        Ask::Prioritize => plan.prioritize(),
        Ask::IssueAdd => plan.add_issue("odd", around),
        Ask::IssueDone => plan.first_issue_done(),
        Ask::SetSpec(spec, cancel) => {
            let unfinished = if *cancel { Unfinished::Cancel } else { Unfinished::Refuse };
            plan.set_spec(&format!("{spec}.md"), unfinished)
        }
        Ask::ClearTombstones => plan.clear_tombstones(),
    }
}

/// The ids of the lines that a change may touch, remove or add.
fn about(change: &Change, before: &Plan<'_>) -> Option<HashSet<String>> {
    let dependents = |gone: &[String]| -> Vec<String> {
        let heads = before.document().lines().iter().filter_map(Line::head);
        heads
            .filter(|head| head.deps.iter().any(|on| gone.iter().any(|gone| gone == on)))
            .map(|head| head.id.clone().into_owned())
            .collect()
    };
    let names = |items: &[Named]| items.iter().map(|item| item.id.clone()).collect::<Vec<_>>();
    Some(HashSet::from_iter(match change {
        Change::Nothing => Vec::new(),
        Change::TasksAdded { tasks, superseded } => {
            let added = tasks.iter().map(|task| task.id.clone());
            added.chain(superseded.clone()).chain(dependents(superseded)).collect()
        }
        Change::TaskDone { task }
        | Change::TaskRejected { task, .. }
        | Change::TaskKilled { task, .. } => {
            vec![task.id.clone()]
        }
        Change::TasksAccepted { tasks } => names(tasks),
        Change::TaskDeleted { task, heirs, .. } => {
            let mut ids = vec![task.id.clone()];
            if !heirs.is_empty() {
                ids.extend(dependents(std::slice::from_ref(&task.id)));
            }
            ids
        }
        Change::IssueAdded { issue } => vec![issue.id.clone()],
        Change::IssuesDone { issues } => names(issues),
        _ => return None,
    }))
}

fn id_of(line: &Line<'_>) -> Option<String> {
    match &line.record {
        Record::Task(head) => Some(head.id.clone().into_owned()),
        Record::Issue { id } | Record::Reject { id } => Some(id.clone().into_owned()),
        _ => None,
    }
}

proptest! {
    #[test]
    fn rendering_what_was_parsed_gives_the_same_bytes(
        lines in prop::collection::vec((any_line(), prop_oneof![Just(&b"\n"[..]), Just(&b"\r\n"[..])]), 0..8),
        last in any_line(),
    ) {
        let mut bytes: Vec<u8> = lines.iter().flat_map(|(line, end)| [line, *end].concat()).collect();
        bytes.extend(last);
        let plan = Plan::parse(&bytes);
        prop_assert_eq!(plan.render(), &bytes[..]);
        let _ = (plan.stage(), plan.next(), plan.pending(), plan.problems(&|_| false));
    }

    #[test]
    fn any_sequence_of_changes_keeps_the_plan_sound_and_touches_only_its_own_lines(
        asks in prop::collection::vec(any_ask(), 1..40),
    ) {
        let mut text = b"{\"t\":\"config\",\"x\":1}\n{\"t\":\"spec\",\"spec\":\"0.md\"}\n\n{\"t\":\"later\"}\n".to_vec();
        let mut ever: HashSet<String> = HashSet::new();
        let mut number = 0;
        for what in asks {
            let known = ever.clone();
            let known = |id: &str| known.contains(id);
            let mut random = || { number += 1; number };
            let done_at = DoneAt::Commit("a".repeat(40).parse().unwrap());
            let mut around = PlanContext { known: &known, past_is_whole: &|| true, random: &mut random, done_at };
            let before = Plan::parse(&text);
            let mut plan = before.clone();
            let result = ask(&mut plan, &what, &mut around);
            let after = plan.render();
            let reread = Plan::parse(&after);
            // The in-memory records after the change equal those parsed from the file.
            for (one, other) in plan.document().lines().iter().zip(reread.document().lines()) {
                prop_assert_eq!(&one.record, &other.record);
            }
            let shown = |plan: &Plan<'_>| serde_json::to_string(&plan.state_view()).unwrap();
            prop_assert_eq!(shown(&plan), shown(&reread));
            match result {
                Err(_) => prop_assert_eq!(&after, &text, "{:?}", what),
                Ok(change) => {
                    prop_assert_eq!(change.is_nothing(), after == text, "{:?} {:?}", what, change);
                    if let Some(about) = about(&change, &before) {
                        let foreign = |plan: &Plan<'_>| -> Vec<Vec<u8>> {
                            plan.document().lines().iter()
                                .filter(|line| !id_of(line).is_some_and(|id| about.contains(&id)))
                                .map(|line| line.bytes().to_vec())
                                .collect()
                        };
                        prop_assert_eq!(foreign(&before), foreign(&reread), "{:?} {:?}", what, change);
                    }
                }
            }
            ever.extend(reread.document().lines().iter().filter_map(id_of));
            let problems = reread.problems(&|id| ever.contains(id));
            prop_assert!(problems.is_empty(), "{:?}: {:?}", what, problems);
            prop_assert!(after.ends_with(b"\n"));
            let kept = reread.document().lines().iter().filter(|line| matches!(line.record, Record::Other | Record::Blank));
            prop_assert_eq!(kept.count(), 3);
            text = after;
        }
    }
}
