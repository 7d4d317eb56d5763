use super::*;

const EMPTY: &str = "{\"t\": \"spec\", \"spec\": \"s.md\"}\n";

/// A plan with the context that a change needs.
struct Desk {
    text: String,
    history: Vec<&'static str>,
    number: u64,
}

fn commit(digit: char) -> DoneAt {
    DoneAt::Commit(digit.to_string().repeat(40).parse().unwrap())
}

impl Desk {
    fn new(text: &str) -> Desk {
        Desk { text: text.to_owned(), history: Vec::new(), number: 0 }
    }

    /// Makes one change, as the store does: read, change, write.
    fn ask(
        &mut self,
        change: impl FnOnce(&mut Plan<'_>, &mut PlanContext<'_>) -> Result<Change, PlanError>,
    ) -> Result<Change, PlanError> {
        let (before, history) = (self.text.clone(), self.history.clone());
        let mut plan = Plan::parse(before.as_bytes());
        let number = &mut self.number;
        let mut random = || {
            *number += 1;
            *number
        };
        let known = |id: &str| history.contains(&id);
        let mut around = PlanContext {
            known: &known,
            past_is_whole: &|| true,
            random: &mut random,
            done_at: commit('c'),
        };
        let result = change(&mut plan, &mut around);
        let after = String::from_utf8(plan.render()).unwrap();
        if result.is_err() {
            assert_eq!(after, self.text, "what is refused changes nothing");
        }
        self.text = after;
        result
    }

    fn request(&mut self, request: &MutationRequest) -> Result<Change, PlanError> {
        self.ask(|plan, around| plan.apply(request, around))
    }

    fn add(&mut self, task: &str) -> Result<Change, PlanError> {
        self.request(&MutationRequest::TaskAdd { task: task.to_owned() })
    }

    fn refused(&mut self, task: &str) -> String {
        self.add(task).unwrap_err().to_string()
    }

    fn plan(&self) -> Plan<'_> {
        Plan::parse(self.text.as_bytes())
    }

    fn task(&self, id: &str) -> serde_json::Value {
        serde_json::to_value(self.plan().task_view(id).unwrap()).unwrap()
    }

    fn has(&self, id: &str) -> bool {
        self.plan().task_view(id).is_some()
    }
}

fn tasks(count: u32) -> Desk {
    let mut desk = Desk::new(EMPTY);
    let batch: Vec<_> = (1..=count)
        .map(|n| serde_json::json!({"id": format!("t-000{n}"), "name": format!("Task {n}")}))
        .collect();
    desk.add(&serde_json::to_string(&batch).unwrap()).unwrap();
    desk
}

#[test]
fn a_plain_name_becomes_a_task_with_a_new_id() {
    let mut desk = Desk::new(EMPTY);
    let change = desk.add("  Write it down ").unwrap();
    assert_eq!(change.to_string(), "Task added: t-baaa - Write it down");
    assert_eq!(change.subject().unwrap(), "ralph: task add - Write it down");
    assert_eq!(
        desk.text,
        format!(
            "{EMPTY}{}\n",
            r#"{"t": "task", "id": "t-baaa", "spec": "s.md", "name": "Write it down", "s": "p"}"#
        )
    );
}

/// B12.7.
#[test]
fn b12_7_every_field_of_an_object_is_kept() {
    let mut desk = Desk::new(EMPTY);
    desk.history = vec!["t-old1", "i-old1"];
    let sent = r#"{"t": "task", "s": "p", "spec": "s.md", "name": "N", "notes": "how", "accept": "check", "deps": ["t-old1", "t-old1"],
        "priority": "high", "parent": "t-old1", "created_from": "i-old1", "id": "t-mine1", "supersedes": null}"#;
    let change = desk.add(sent).unwrap();
    assert_eq!(change.to_string(), "Task added: t-mine1 - N (deps: t-old1)");
    assert_eq!(
        desk.task("t-mine1"),
        serde_json::json!({"id": "t-mine1", "name": "N", "spec": "s.md", "s": "p", "notes": "how", "accept": "check",
            "deps": ["t-old1"], "priority": "high", "parent": "t-old1", "decompose_depth": 1,
            "created_from": "i-old1"})
    );
}

#[test]
fn a_batch_may_name_its_own_tasks_in_any_order() {
    let mut desk = Desk::new(EMPTY);
    let change = desk
        .add(r#"[{"name": "second", "deps": ["t-aone"]}, {"id": "t-aone", "name": "first"}, {"name": "third", "deps": ["t-aone"]}]"#)
        .unwrap();
    assert_eq!(change.subject().unwrap(), "ralph: task add - 3 tasks");
    let order: Vec<_> =
        desk.plan().pending().iter().map(|task| task.name.clone().into_owned()).collect();
    assert_eq!(order, ["first", "second", "third"]);
}

#[test]
fn what_cannot_be_added_is_refused_with_a_way_on_and_nothing_of_its_batch_is_written() {
    let mut desk = tasks(1);
    desk.history = vec!["t-used"];
    for (sent, wanted) in [
        ("", "task 1 cannot be added: it has no `name`"),
        ("{", "it looks like JSON but cannot be parsed"),
        ("[fix] the parser", r#"send a name that begins like this as `{"name": "…"}`"#),
        ("{}", "task 1 cannot be added: it has no `name`"),
        (r#"{"name": " "}"#, "it has no `name`"),
        (r#"{"name": 5}"#, "its `name` is not a string"),
        ("[]", "no task to add"),
        (r#"[{"name": "a"}, "b"]"#, "task 2 cannot be added: it is not a JSON object"),
        (
            r#"{"name": "a", "dependencies": []}"#,
            "it has an unknown field `dependencies`; a new task has name, notes, accept, deps,",
        ),
        (r#"{"name": "a", "deps": "t-0001"}"#, "its `deps` is not an array of strings"),
        (
            r#"{"name": "a", "priority": "urgent"}"#,
            "its `priority` is not `high`, `medium` or `low`",
        ),
        (r#"{"name": "a", "s": "d"}"#, "its `s` is not `p`"),
        (
            r#"{"name": "a", "spec": "other.md"}"#,
            "it is for spec `other.md`, and the current one is `s.md`",
        ),
        (
            r#"{"name": "a", "id": "mine"}"#,
            "invalid task id `mine`; ids look like `t-1a2b` (4 to 10 of `a-z0-9`)",
        ),
        (r#"{"name": "a", "id": "t-0001"}"#, "the id `t-0001` is or was in use"),
        (r#"{"name": "a", "id": "t-used"}"#, "the id `t-used` is or was in use"),
        (
            r#"[{"name": "a", "id": "t-twin"}, {"name": "b", "id": "t-twin"}]"#,
            "task 2 cannot be added: the id `t-twin`",
        ),
        (
            r#"[{"name": "a"}, {"name": "b", "deps": ["t-none"]}]"#,
            "task 2 cannot be added: it depends on `t-none`, which was never",
        ),
        (r#"{"name": "a", "parent": "t-none"}"#, "its `parent` is `t-none`, which was never"),
        (r#"{"name": "a", "created_from": "i-none"}"#, "its `created_from` is `i-none`"),
        (
            r#"{"name": "a", "supersedes": "t-0001"}"#,
            "supersedes `t-0001`, which was not rejected; run `ralph task reject t-0001",
        ),
        (
            r#"{"name": "a", "id": "t-self", "deps": ["t-self"]}"#,
            "the dependencies would form a cycle: t-self → t-self",
        ),
        (
            r#"[{"name": "a", "id": "t-xxxx", "deps": ["t-yyyy"]}, {"name": "b", "id": "t-yyyy", "deps": ["t-xxxx"]}]"#,
            "the dependencies would form a cycle: t-xxxx → t-yyyy → t-xxxx",
        ),
    ] {
        let text = desk.refused(sent);
        assert!(text.contains(wanted), "{sent}: {text}");
    }
    assert_eq!(Desk::new("").add("a"), Err(PlanError::NoSpec));
}

#[test]
fn a_new_id_is_none_of_the_file_nor_of_its_history() {
    let mut desk = Desk::new(EMPTY);
    desk.history = vec!["t-baaa"];
    let Change::TasksAdded { tasks, .. } = desk.add("a").unwrap() else { panic!() };
    assert_ne!(tasks[0].id, "t-baaa");
}

/// B12.5 and B12.12.
#[test]
fn b12_5_done_marks_the_task_that_next_names_at_the_commit_that_holds_the_work() {
    let mut desk = tasks(2);
    desk.add(r#"{"name": "urgent", "id": "t-high", "priority": "high"}"#).unwrap();
    let request = MutationRequest::TaskDone { id: None, no_change: None };
    assert_eq!(desk.plan().targets(&request).unwrap(), ["t-high"]);
    let change = desk.request(&request).unwrap();
    assert_eq!(change.subject().unwrap(), "ralph: task done - urgent");
    assert_eq!(desk.task("t-high")["done_at"], "c".repeat(40));
    assert_eq!(desk.task("t-0001")["s"], "p");
}

#[test]
fn done_takes_an_id_and_refuses_what_is_not_pending() {
    let mut desk = tasks(2);
    desk.ask(|plan, _| plan.done("t-0002", &commit('a'))).unwrap();
    assert_eq!(
        desk.ask(|plan, _| plan.done("t-0002", &commit('a'))).unwrap_err().to_string(),
        "task `t-0002` is done already"
    );
    assert_eq!(
        desk.ask(|plan, _| plan.done("t-none", &commit('a'))).unwrap_err().to_string(),
        "task `t-none` is not in the plan"
    );
    desk.ask(|plan, _| plan.done("t-0001", &DoneAt::Unborn)).unwrap();
    assert!(desk.task("t-0001").get("done_at").is_none());
    assert_eq!(desk.ask(|plan, _| plan.done_next(&commit('a'))), Err(PlanError::NothingPending));
}

#[test]
fn an_id_that_stands_there_twice_is_not_guessed_at() {
    let line = "{\"t\":\"task\",\"id\":\"t-1\",\"name\":\"n\",\"s\":\"p\"}\n";
    let mut desk = Desk::new(&format!("{EMPTY}{line}{line}"));
    let error = desk.ask(|plan, _| plan.done("t-1", &commit('a'))).unwrap_err();
    assert_eq!(error.to_string(), "`t-1` is on line 2 and on line 3; give one of them another id");
}

#[test]
fn accept_takes_out_all_that_is_done_or_what_is_named() {
    let mut desk = tasks(3);
    assert_eq!(desk.ask(|plan, _| plan.accept_all()), Err(PlanError::NothingDone));
    desk.ask(|plan, _| plan.done("t-0001", &commit('a'))).unwrap();
    desk.ask(|plan, _| plan.done("t-0003", &commit('a'))).unwrap();
    let both = ["t-0001".to_owned(), "t-0002".to_owned()];
    assert_eq!(
        desk.ask(|plan, _| plan.accept(&both)).unwrap_err().to_string(),
        "task `t-0002` is pending, and only a task that is done is accepted or rejected"
    );
    let one = ["t-0003".to_owned(), "t-0003".to_owned()];
    let change = desk.ask(|plan, _| plan.accept(&one)).unwrap();
    assert_eq!(change.subject().unwrap(), "ralph: task accept - Task 3");
    let change = desk.request(&MutationRequest::TaskAccept { ids: Vec::new() }).unwrap();
    assert_eq!(change.to_string(), "Task accepted: t-0001 - Task 1");
    assert!(!desk.has("t-0001") && desk.has("t-0002") && !desk.has("t-0003"));
}

#[test]
fn reject_leaves_a_tombstone_and_the_reason_each_time() {
    let mut desk = tasks(2);
    assert_eq!(desk.ask(|plan, _| plan.reject_first("no")), Err(PlanError::NothingDone));
    assert!(matches!(
        desk.ask(|plan, _| plan.reject("t-0001", "no")),
        Err(PlanError::NotDone { status: Status::Pending, .. })
    ));
    for (digit, reason) in [('a', "first"), ('b', "second")] {
        desk.ask(|plan, _| plan.done("t-0002", &commit(digit))).unwrap();
        assert_eq!(desk.ask(|plan, _| plan.reject("t-0002", " ")), Err(PlanError::NoReason));
        let change = desk
            .request(&MutationRequest::TaskReject { id: None, reason: reason.to_owned() })
            .unwrap();
        assert_eq!(change.subject().unwrap(), "ralph: task reject - Task 2");
        let task = desk.task("t-0002");
        assert_eq!((&task["s"], &task["reject"]), (&"p".into(), &reason.into()));
        assert!(task.get("done_at").is_none());
    }
    let plan = desk.plan();
    let tombstones: Vec<_> = plan.document().lines().iter().filter_map(Line::tombstone).collect();
    assert_eq!(tombstones.len(), 2);
    assert_eq!(tombstones[0].done_at, "a".repeat(40));
    assert_eq!(tombstones[1].reason, "second");
}

#[test]
fn rejecting_what_has_no_commit_says_so() {
    let mut desk = tasks(1);
    desk.ask(|plan, _| plan.done("t-0001", &DoneAt::Unborn)).unwrap();
    desk.ask(|plan, _| plan.reject("t-0001", "no")).unwrap();
    assert!(desk.text.contains(r#""done_at": "unknown""#), "{}", desk.text);
}

#[test]
fn a_superseding_task_takes_the_place_of_the_rejected_one() {
    let mut desk = tasks(1);
    desk.add(r#"{"name": "after", "id": "t-after", "deps": ["t-0001"]}"#).unwrap();
    desk.ask(|plan, _| plan.done("t-0001", &commit('a'))).unwrap();
    desk.ask(|plan, _| plan.reject("t-0001", "wrong approach")).unwrap();
    let own = r#"{"name": "other way", "supersedes": "t-0001", "deps": ["t-0001"]}"#;
    assert!(desk.refused(own).contains("it depends on `t-0001`, which it supersedes"));
    let circle = r#"{"name": "other way", "supersedes": "t-0001", "deps": ["t-after"]}"#;
    assert!(desk.refused(circle).contains("the dependencies would form a cycle: t-after → "));
    let change =
        desk.add(r#"{"name": "other way", "id": "t-other", "supersedes": "t-0001"}"#).unwrap();
    assert_eq!(change.to_string(), "Task added: t-other - other way\nTask superseded: t-0001");
    assert!(!desk.has("t-0001"));
    assert_eq!(desk.task("t-after")["deps"], serde_json::json!(["t-other"]));
    assert_eq!(desk.task("t-other")["supersedes"], "t-0001");
    assert!(desk.text.contains(r#"{"t": "reject", "id": "t-0001""#));
}

#[test]
fn a_task_that_was_rejected_and_done_again_is_not_superseded() {
    let mut desk = tasks(1);
    for _ in 0..2 {
        desk.ask(|plan, _| plan.done("t-0001", &commit('a'))).unwrap();
        if !desk.text.contains("reject") {
            desk.ask(|plan, _| plan.reject("t-0001", "no")).unwrap();
        }
    }
    assert!(desk.refused(r#"{"name": "x", "supersedes": "t-0001"}"#).contains("was not rejected"));
}

#[test]
fn deleting_a_decomposed_task_hands_its_dependents_to_its_subtasks() {
    let mut desk = tasks(2);
    desk.add(r#"{"name": "after", "id": "t-after", "deps": ["t-0002", "t-0001"]}"#).unwrap();
    desk.ask(|plan, _| plan.kill("t-0001", Kill::Timeout, Some("runs/1.log"))).unwrap();
    desk.add(r#"[{"name": "a", "id": "t-suba", "parent": "t-0001", "deps": ["t-0001"]}, {"name": "b", "id": "t-subb", "parent": "t-0001", "deps": ["t-suba"]}]"#)
        .unwrap();
    let change = desk.request(&MutationRequest::TaskDelete { id: "t-0001".to_owned() }).unwrap();
    assert_eq!(
        change.to_string(),
        "Task deleted: t-0001 - Task 1; t-after now wait for t-suba, t-subb"
    );
    assert_eq!(desk.task("t-after")["deps"], serde_json::json!(["t-0002", "t-suba", "t-subb"]));
    assert!(desk.task("t-suba").get("deps").is_none());
    assert_eq!(desk.task("t-subb")["deps"], serde_json::json!(["t-suba"]));
    assert_eq!(desk.plan().stage(), Stage::Build);
}

#[test]
fn deleting_any_other_task_lets_go_of_its_dependents() {
    let mut desk = tasks(1);
    desk.add(r#"{"name": "after", "id": "t-after", "deps": ["t-0001"]}"#).unwrap();
    let before = desk.text.clone();
    let change = desk.ask(|plan, _| plan.delete("t-0001")).unwrap();
    assert_eq!(change.subject().unwrap(), "ralph: task delete - Task 1");
    let rest: Vec<_> = before.lines().filter(|line| !line.contains("\"id\": \"t-0001\"")).collect();
    assert_eq!(desk.text.lines().collect::<Vec<_>>(), rest, "no other line is touched");
    assert!(matches!(desk.plan().next(), Next::Build(task) if task.id == "t-after"));
    assert!(desk.ask(|plan, _| plan.delete("t-0001")).is_err());
}

#[test]
fn a_deletion_that_would_tie_a_knot_is_refused() {
    let mut desk = tasks(1);
    desk.add(r#"{"name": "after", "id": "t-after", "deps": ["t-0001"]}"#).unwrap();
    desk.add(r#"{"name": "sub", "id": "t-subb", "parent": "t-0001", "deps": ["t-after"]}"#)
        .unwrap();
    let error = desk.ask(|plan, _| plan.delete("t-0001")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the dependencies would form a cycle: t-after → t-subb → t-after"
    );
}

/// B12.18.
#[test]
fn b12_18_a_kill_is_noted_on_the_task_that_was_worked_on() {
    let twins = r#"[{"name": "same", "id": "t-twin1"}, {"name": "same", "id": "t-twin2"}]"#;
    let mut desk = Desk::new(EMPTY);
    desk.add(twins).unwrap();
    desk.ask(|plan, _| plan.done("t-twin2", &commit('a'))).unwrap();
    let change =
        desk.ask(|plan, _| plan.kill("t-twin2", Kill::Context, Some("runs/x.log"))).unwrap();
    assert_eq!(change.subject().unwrap(), "ralph: task killed by context - same");
    assert!(desk.task("t-twin1").get("kill").is_none());
    let task = desk.task("t-twin2");
    assert_eq!(
        (&task["s"], &task["kill"], &task["kill_log"]),
        (&"p".into(), &"context".into(), &"runs/x.log".into())
    );
    assert!(task.get("done_at").is_none());
    assert_eq!(
        desk.ask(|plan, _| plan.done_next(&commit('a'))).unwrap_err().to_string(),
        "the next task `t-twin2` was killed and waits to be decomposed; name it to mark it done anyway"
    );
    desk.ask(|plan, _| plan.done("t-twin2", &commit('b'))).unwrap();
    let task = desk.task("t-twin2");
    assert_eq!(task["s"], "d");
    assert!(task.get("kill").is_none() && task.get("kill_log").is_none());
}

#[test]
fn issues_come_and_go_first_by_id_and_all() {
    let mut desk = Desk::new(EMPTY);
    assert_eq!(desk.ask(|plan, _| plan.first_issue_done()), Err(PlanError::NoIssue));
    for what in ["a", "b", "c", "d", "e"] {
        desk.request(&MutationRequest::IssueAdd { description: what.to_owned() }).unwrap();
    }
    assert_eq!(
        desk.request(&MutationRequest::IssueAdd { description: " ".to_owned() }),
        Err(PlanError::NoDescription)
    );
    let ids: Vec<_> = desk.plan().issues().map(|issue| issue.id.into_owned()).collect();
    let change = desk.request(&MutationRequest::IssueDone { ids: Vec::new() }).unwrap();
    assert_eq!(change.subject().unwrap(), "ralph: issue done - a");
    let some = vec![ids[3].clone(), ids[1].clone()];
    let change = desk.request(&MutationRequest::IssueDone { ids: some }).unwrap();
    assert_eq!(change.subject().unwrap(), "ralph: issue done - 2 issues");
    let missing = vec![ids[2].clone(), "i-none".to_owned()];
    assert_eq!(
        desk.request(&MutationRequest::IssueDone { ids: missing }).unwrap_err().to_string(),
        "issue `i-none` is not in the plan"
    );
    let change = desk.request(&MutationRequest::IssueDoneAll).unwrap();
    assert_eq!(change.to_string().lines().count(), 2);
    assert_eq!(desk.request(&MutationRequest::IssueDoneAll), Ok(Change::Nothing));
    assert_eq!(desk.text, EMPTY);
}

#[test]
fn a_task_from_an_issue_inherits_its_priority() {
    let issue = r#"{"t":"issue","id":"i-1","spec":"s.md","desc":"d","priority":"high"}"#;
    let mut desk = Desk::new(&format!("{EMPTY}{issue}\n"));
    desk.add(r#"{"name": "a", "id": "t-aaaa", "created_from": "i-1"}"#).unwrap();
    desk.add(r#"{"name": "b", "id": "t-bbbb", "created_from": "i-1", "priority": "low"}"#).unwrap();
    assert_eq!(desk.task("t-aaaa")["priority"], "high");
    assert_eq!(desk.task("t-bbbb")["priority"], "low");
}

fn set_spec(desk: &mut Desk, spec: &str, cancel_unfinished: bool) -> Result<Change, PlanError> {
    desk.request(&MutationRequest::SetSpec { spec: spec.to_owned(), cancel_unfinished })
}

/// B12.2.
#[test]
fn b12_2_the_same_spec_keeps_its_tasks_and_another_one_asks() {
    let mut desk = tasks(2);
    desk.ask(|plan, _| plan.done("t-0001", &commit('a'))).unwrap();
    desk.ask(|plan, _| plan.reject("t-0001", "no")).unwrap();
    desk.request(&MutationRequest::IssueAdd { description: "odd".to_owned() }).unwrap();
    let before = desk.text.clone();
    assert_eq!(set_spec(&mut desk, "s.md", true), Ok(Change::Nothing));
    assert_eq!(desk.text, before);
    assert_eq!(
        set_spec(&mut desk, "new.md", false).unwrap_err().to_string(),
        "the plan has unfinished tasks of another spec: `t-0001`, `t-0002`; finish them, or cancel them with `--yes`"
    );
    let change = set_spec(&mut desk, "new.md", true).unwrap();
    assert_eq!(change.subject().unwrap(), "ralph: set spec new.md");
    assert_eq!(desk.text.lines().next().unwrap(), r#"{"t": "spec", "spec": "new.md"}"#);
    assert_eq!(desk.text.lines().count(), 2, "the issue stays: {}", desk.text);
    assert!(set_spec(&mut desk, " ", true).is_err());
    assert!(set_spec(&mut desk, "a\nb", true).is_err());
    let mut fresh = Desk::new("");
    set_spec(&mut fresh, "s.md", false).unwrap();
    assert_eq!(fresh.text, EMPTY);
}

#[test]
fn a_new_plan_clears_tombstones_and_may_cancel_what_is_left() {
    let mut desk = tasks(2);
    desk.ask(|plan, _| plan.done("t-0001", &commit('a'))).unwrap();
    desk.ask(|plan, _| plan.reject("t-0001", "no")).unwrap();
    let change = desk.ask(|plan, _| plan.clear_tombstones()).unwrap();
    assert_eq!(change.subject().unwrap(), "ralph: clear 1 tombstone");
    assert_eq!(desk.ask(|plan, _| plan.clear_tombstones()), Ok(Change::Nothing));
    let change = desk.ask(|plan, _| plan.cancel_unfinished()).unwrap();
    assert_eq!(change.subject().unwrap(), "ralph: cancel 2 tasks");
    assert_eq!(desk.text, EMPTY);
    assert_eq!(desk.ask(|plan, _| plan.cancel_unfinished()), Ok(Change::Nothing));
}

#[test]
fn priorities_follow_names_and_chains_and_never_overrule_a_person() {
    let mut desk = Desk::new(EMPTY);
    desk.add(
        r#"[{"id": "t-root", "name": "Lay the base"},
            {"id": "t-midd", "name": "Build on it", "deps": ["t-root"]},
            {"id": "t-leaf", "name": "Finish", "deps": ["t-midd"]},
            {"id": "t-docs", "name": "Update the README", "deps": ["t-root"]},
            {"id": "t-dock", "name": "Ship the docker image"},
            {"id": "t-smal", "name": "Rename the flag"},
            {"id": "t-user", "name": "Use the flag", "deps": ["t-smal"]},
            {"id": "t-big0", "name": "Update and rewrite the cache"},
            {"id": "t-big1", "name": "Use the cache", "deps": ["t-big0"]},
            {"id": "t-hubb", "name": "Hub"},
            {"id": "t-h001", "name": "h1", "deps": ["t-hubb"]},
            {"id": "t-h002", "name": "h2", "deps": ["t-hubb"]},
            {"id": "t-h003", "name": "h3", "deps": ["t-hubb"]},
            {"id": "t-mine", "name": "Fix typos", "priority": "high"}]"#,
    )
    .unwrap();
    let change = desk.request(&MutationRequest::TaskPrioritize).unwrap();
    for (id, priority) in [
        ("t-root", "high"),
        ("t-midd", "high"),
        ("t-leaf", "medium"),
        ("t-docs", "low"),
        ("t-dock", "medium"),
        ("t-smal", "high"),
        ("t-user", "medium"),
        ("t-big0", "medium"),
        ("t-hubb", "high"),
        ("t-h001", "medium"),
        ("t-mine", "high"),
    ] {
        assert_eq!(desk.task(id)["priority"], priority, "{id}");
    }
    let shown = serde_json::to_value(view::PrioritizedView::of(&change)).unwrap();
    assert_eq!(shown, serde_json::json!({"prioritized": 13, "high": 4, "medium": 8, "low": 1}));
    assert_eq!(change.subject().unwrap(), "ralph: prioritize 13 tasks");
    assert_eq!(desk.request(&MutationRequest::TaskPrioritize), Ok(Change::Nothing));
}

#[test]
fn names_are_cut_and_put_on_one_line_in_commit_messages() {
    let name = format!("first\nline \u{1b}[31m {}", "é".repeat(80));
    let task = Named { id: "t-1".to_owned(), name };
    let subject = Change::TaskDone { task }.subject().unwrap();
    assert_eq!(subject.lines().count(), 1);
    assert!(!subject.contains('\u{1b}'));
    assert_eq!(subject.strip_prefix("ralph: task done - ").unwrap().chars().count(), 50);
}

#[test]
fn several_changes_make_one_commit_that_names_them_all() {
    let named = |name: &str| Named { id: "t-1".to_owned(), name: name.to_owned() };
    let done = Change::TaskDone { task: named("one") };
    let issue = |number: usize| Change::IssueAdded {
        issue: Named { id: format!("i-{number:04}"), name: "x".repeat(500) },
    };
    let many = commit_message(&(0..1000).map(issue).collect::<Vec<_>>()).unwrap();
    assert!(many.starts_with("ralph: update plan (1000 changes)\n\n- issue add - x"), "{many}");
    assert!(many.ends_with("\nand 950 more\n") && many.len() < 10_000, "{many}");
    assert_eq!(commit_message(&[]), None);
    assert_eq!(commit_message(&[Change::Nothing]), None);
    assert_eq!(commit_message(&[Change::Nothing, done.clone()]).unwrap(), "ralph: task done - one");
    assert_eq!(
        commit_message(&[done, Change::IssueAdded { issue: named("two") }]).unwrap(),
        "ralph: update plan (2 changes)\n\n- task done - one\n- issue add - two\n"
    );
    let many = Change::TasksAccepted { tasks: (0..60).map(|_| named(&"x".repeat(200))).collect() };
    let message = many.message().unwrap();
    assert!(message.starts_with("ralph: task accept - 60 tasks\n\nTask accepted: t-1 - xxx"));
    assert!(message.ends_with("\nand 10 more") && message.lines().all(|line| line.len() <= 100));
}

#[test]
fn a_part_of_a_part_knows_its_depth_when_everything_above_it_has_gone() {
    let mut desk = Desk::new(EMPTY);
    desk.add(r#"{"id": "t-aaaa", "name": "big"}"#).unwrap();
    desk.history.push("t-aaaa");
    for (parent, part, depth) in
        [("t-aaaa", "t-bbbb", 1), ("t-bbbb", "t-cccc", 2), ("t-cccc", "t-dddd", 3)]
    {
        assert_eq!(desk.plan().depth(parent), depth - 1);
        desk.add(&format!(r#"{{"id": "{part}", "name": "part", "parent": "{parent}"}}"#)).unwrap();
        desk.ask(|plan, _| plan.delete(parent)).unwrap();
        assert_eq!(desk.plan().depth(part), depth);
        assert_eq!(desk.task(part)["decompose_depth"], depth);
    }
    desk.ask(|plan, around| plan.done("t-dddd", &around.done_at)).unwrap();
    desk.ask(|plan, _| plan.reject("t-dddd", "no")).unwrap();
    assert_eq!(desk.task("t-dddd")["decompose_depth"], 3, "a rewrite keeps it");
    assert!(desk.refused(r#"{"name": "x", "decompose_depth": 0}"#).contains("decompose_depth"));
}

#[test]
fn depth_is_counted_where_nobody_wrote_it_and_within_a_batch() {
    let mut desk = Desk::new(concat!(
        "{\"t\": \"spec\", \"spec\": \"s.md\"}\n",
        "{\"t\": \"task\", \"id\": \"t-old1\", \"name\": \"a\", \"s\": \"p\", \"parent\": \"t-gone\"}\n",
        "{\"t\": \"task\", \"id\": \"t-ring\", \"name\": \"a\", \"s\": \"p\", \"parent\": \"t-ring\"}\n",
    ));
    assert_eq!(desk.plan().depth("t-old1"), 1);
    assert!(desk.plan().depth("t-ring") > 3, "a circle is deep enough for anybody");
    assert_eq!(desk.plan().depth("t-none"), 0);
    desk.add(
        r#"[{"id": "t-one1", "name": "b", "parent": "t-old1"},
            {"id": "t-two2", "name": "c", "parent": "t-one1"}]"#,
    )
    .unwrap();
    assert_eq!((desk.plan().depth("t-one1"), desk.plan().depth("t-two2")), (2, 3));
}
