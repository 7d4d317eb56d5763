use super::*;
use proptest::prelude::*;

fn line(id: &str, rest: &str) -> String {
    format!("{{\"t\":\"task\",\"id\":\"{id}\",\"spec\":\"s\",\"name\":\"{id}\"{rest}}}\n")
}

const SPEC: &str = "{\"t\":\"spec\",\"spec\":\"s\"}\n";
const ISSUE: &str = "{\"t\":\"issue\",\"id\":\"i-1\",\"spec\":\"s\",\"desc\":\"odd\"}\n";

fn order(text: &str) -> Vec<String> {
    Plan::parse(text.as_bytes()).pending().into_iter().map(|task| task.id.into_owned()).collect()
}

#[test]
fn the_stage_follows_from_what_is_there_in_every_combination() {
    for bits in 0..32_u8 {
        let [spec, killed, pending, done, issue] = [1, 2, 4, 8, 16].map(|bit| bits & bit != 0);
        let mut text = String::new();
        for (there, line) in [
            (spec, SPEC.to_owned()),
            (killed, line("t-k", r#","s":"p","kill":"timeout""#)),
            (pending, line("t-p", r#","s":"p""#)),
            (done, line("t-d", r#","s":"d""#)),
            (issue, ISSUE.to_owned()),
        ] {
            text.push_str(if there { &line } else { "" });
        }
        let expected = match (spec, killed, pending, done, issue) {
            (false, ..) => Stage::Plan,
            (_, true, ..) => Stage::Decompose,
            (_, _, true, ..) => Stage::Build,
            (_, _, _, true, _) => Stage::Verify,
            (.., true) => Stage::Investigate,
            _ => Stage::Complete,
        };
        let plan = Plan::parse(text.as_bytes());
        assert_eq!(plan.stage(), expected, "{text}");
        let action = serde_json::to_value(plan.next_view()).unwrap()["action"].clone();
        assert_eq!(action, expected.name(), "{text}");
    }
    let unset = Plan::parse(b"{\"t\":\"spec\",\"spec\":\"\"}\n");
    assert_eq!((unset.stage(), unset.spec()), (Stage::Plan, None));
}

#[test]
fn dependencies_come_before_priority_and_priority_before_the_file() {
    let text = [
        SPEC.to_owned(),
        line("none", ""),
        line("low", r#","priority":"low""#),
        line("waits", r#","priority":"high","deps":["low"]"#),
        line("odd", r#","priority":"urgent""#),
        line("medium", r#","priority":"medium""#),
        line("high", r#","priority":"high""#),
    ]
    .concat();
    assert_eq!(order(&text), ["high", "medium", "low", "none", "odd", "waits"]);
}

/// B12.6.
#[test]
fn b12_6_a_dependency_that_was_accepted_or_is_done_is_satisfied() {
    let text = [
        SPEC.to_owned(),
        line("done", r#","s":"d""#),
        line("legacy", r#","s":"a""#),
        line("b", r#","deps":["a"]"#),
        line("a", r#","deps":["accepted-long-ago","done","legacy"]"#),
    ]
    .concat();
    assert_eq!(order(&text), ["a", "b"]);
}

#[test]
fn tasks_that_wait_for_each_other_come_last_and_nothing_stands_still() {
    let knot = [
        line("x", r#","deps":["y"]"#),
        line("y", r#","deps":["x"],"priority":"high""#),
        line("z", r#","deps":["z"],"priority":"low""#),
    ]
    .concat();
    assert_eq!(order(&format!("{SPEC}{knot}{}", line("free", ""))), ["free", "y", "z", "x"]);
    let plan = format!("{SPEC}{knot}");
    assert!(matches!(Plan::parse(plan.as_bytes()).next(), Next::Build(task) if task.id == "y"));
}

/// B12.17.
#[test]
fn b12_17_only_tasks_of_the_current_spec_are_built_verified_and_accepted() {
    let other = |id: &str, s: &str| line(id, s).replace("\"spec\":\"s\"", "\"spec\":\"old\"");
    let text = [
        SPEC.to_owned(),
        other("left", r#","s":"p","kill":"timeout""#),
        other("over", r#","s":"d""#),
        line("mine", r#","deps":["left"]"#),
        line("legacy", "").replace("\"spec\":\"s\",", ""),
    ]
    .concat();
    let plan = Plan::parse(text.as_bytes());
    assert_eq!(plan.stage(), Stage::Build);
    assert_eq!(order(&text), ["legacy", "mine"]);
    assert_eq!(plan.done_tasks().count(), 0);
    let mut plan = plan;
    assert_eq!(plan.accept_all(), Err(PlanError::NothingDone));
    assert!(plan.accept(&["over".to_owned()]).is_ok(), "a name is a name");
}

/// B12.8.
#[test]
fn b12_8_queries_show_every_field() {
    let text = [
        SPEC.to_owned(),
        line("t-1", r#","s":"p","priority":"low","reject":"not yet","deps":["t-0"],"parent":"p","supersedes":"o""#),
        line("t-2", r#","s":"d","done_at":"abc","created_from":"i-0","notes":"n","accept":"a""#),
        ISSUE.to_owned(),
    ]
    .concat();
    let plan = Plan::parse(text.as_bytes());
    let one = serde_json::json!({"id": "t-1", "name": "t-1", "spec": "s", "s": "p", "deps": ["t-0"], "priority": "low",
        "reject": "not yet", "parent": "p", "supersedes": "o"});
    let two = serde_json::json!({"id": "t-2", "name": "t-2", "spec": "s", "s": "d", "notes": "n", "accept": "a",
        "done_at": "abc", "created_from": "i-0"});
    let state = serde_json::to_value(plan.state_view()).unwrap();
    assert_eq!(
        state,
        serde_json::json!({"spec": "s", "tasks": {"pending": [one], "done": [two]},
            "issues": [{"id": "i-1", "desc": "odd", "spec": "s"}], "stage": "BUILD",
            "next": {"action": "BUILD", "task": one}})
    );
    assert_eq!(serde_json::to_value(plan.tasks_view()).unwrap(), state["tasks"]);
    assert_eq!(serde_json::to_value(plan.done_view()).unwrap(), serde_json::json!({"done": [two]}));
    assert_eq!(serde_json::to_value(plan.issues_view()).unwrap(), state["issues"]);
    assert_eq!(serde_json::to_value(plan.task_view("t-2")).unwrap(), two);
    assert!(plan.task_view("t-3").is_none());
}

#[test]
fn next_says_what_is_to_be_done_with_what() {
    let next = |text: &str| serde_json::to_value(Plan::parse(text.as_bytes()).next_view()).unwrap();
    assert_eq!(next(""), serde_json::json!({"action": "PLAN", "item": null}));
    assert_eq!(next(SPEC), serde_json::json!({"action": "COMPLETE", "item": null}));
    let done = [SPEC, &line("a", r#","s":"d""#), &line("b", r#","s":"d""#)].concat();
    assert_eq!(next(&done), serde_json::json!({"action": "VERIFY", "item": "2 done tasks"}));
    assert_eq!(
        next(&[SPEC, ISSUE].concat()),
        serde_json::json!({"action": "INVESTIGATE", "count": 1, "items": [{"id": "i-1", "desc": "odd", "spec": "s"}]})
    );
    let killed = line("k", r#","s":"p","kill":"context_limit","kill_log":"l","priority":"low""#);
    let flagged = line("f", r#","s":"p","decompose":true"#);
    let value = next(&[SPEC, &flagged, &killed].concat());
    assert_eq!(
        (&value["action"], &value["task"]["id"], &value["kill_reason"], &value["kill_log"]),
        (&"DECOMPOSE".into(), &"k".into(), &"context".into(), &"l".into())
    );
    assert_eq!(next(&[SPEC, &flagged].concat())["kill_reason"], serde_json::Value::Null);
}

#[test]
fn a_long_plan_is_ordered_and_searched_without_recursion_or_squares() {
    use std::fmt::Write as _;
    let count = 100_000;
    let mut text = SPEC.to_owned();
    for n in 0..count {
        let dep = (n + 1) % count;
        writeln!(
            text,
            r#"{{"t":"task","id":"t-{n}","spec":"s","name":"n","deps":["t-{dep}","t-0"],"s":"p"}}"#
        )
        .unwrap();
    }
    let mut plan = Plan::parse(text.as_bytes());
    assert_eq!(plan.pending().len(), count);
    assert_eq!(plan.problems(&|_| true).len(), 1, "one knot of them all");
    let chain =
        text.replacen(r#""t-1","t-0"],"s":"p""#, r#"],"s":"p""#, 1).replace(r#","t-0"]"#, "]");
    let chain = chain.replacen(r#""deps":[]"#, r#""deps":["t-1"]"#, 1);
    let chain = chain.replace(
        &format!(r#""id":"t-{}","spec":"s","name":"n","deps":["t-0"]"#, count - 1),
        &format!(r#""id":"t-{}","spec":"s","name":"n""#, count - 1),
    );
    plan = Plan::parse(chain.as_bytes());
    assert_eq!(plan.problems(&|_| true), []);
    assert!(matches!(plan.next(), Next::Build(task) if task.id == format!("t-{}", count - 1)));
    assert!(matches!(plan.prioritize(), Ok(Change::Prioritized { medium: 1, .. })));
}

/// The original definition of the order, round by round.
fn naive(tasks: &[(String, Option<Priority>, Vec<String>)]) -> Vec<String> {
    let key = |at: &usize| (tasks[*at].1.is_none(), tasks[*at].1, *at);
    let mut left: Vec<usize> = (0..tasks.len()).collect();
    let mut sorted = Vec::new();
    loop {
        let waiting: Vec<&String> = left.iter().map(|at| &tasks[*at].0).collect();
        let mut round: Vec<usize> = left
            .iter()
            .copied()
            .filter(|at| tasks[*at].2.iter().all(|on| !waiting.contains(&on)))
            .collect();
        let stuck = round.is_empty();
        if stuck {
            round.clone_from(&left);
        }
        round.sort_by_key(key);
        left.retain(|at| !round.contains(at));
        sorted.extend(round.into_iter().map(|at| tasks[at].0.clone()));
        if left.is_empty() {
            return sorted;
        }
    }
}

proptest! {
    #[test]
    fn order_is_what_rounds_would_give_and_next_is_its_first(
        tasks in prop::collection::vec((0..4_u8, prop::collection::vec(0..12_usize, 0..3)), 0..10),
    ) {
        let tasks: Vec<_> = tasks
            .into_iter()
            .enumerate()
            .map(|(at, (class, deps))| {
                let priority = [Some(Priority::High), Some(Priority::Medium), Some(Priority::Low), None][usize::from(class)];
                (format!("t-{at}"), priority, deps.into_iter().map(|on| format!("t-{on}")).collect::<Vec<_>>())
            })
            .collect();
        let mut text = SPEC.to_owned();
        for (id, priority, deps) in &tasks {
            let deps = serde_json::to_string(deps).unwrap();
            let priority = serde_json::to_string(priority).unwrap();
            let rest = format!(r#","deps":{deps},"priority":{priority}"#);
            text += &line(id, &rest);
        }
        let expected = naive(&tasks);
        prop_assert_eq!(&order(&text), &expected);
        let next = match Plan::parse(text.as_bytes()).next() {
            Next::Build(task) => Some(task.id.into_owned()),
            _ => None,
        };
        prop_assert_eq!(next.as_ref(), expected.first());
    }
}
