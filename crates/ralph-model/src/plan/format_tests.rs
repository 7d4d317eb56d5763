use super::*;

/// The file with which the format was first described.
const SAMPLE: &str = r#"{"t": "spec", "spec": "coverage.md"}
{"t": "task", "id": "t-1a2b", "spec": "coverage.md", "name": "Add parser unit tests", "notes": "Cover edge cases", "accept": "pytest tests/test_parser.py passes", "s": "p"}
{"t": "task", "id": "t-3c4d", "spec": "coverage.md", "name": "Fix tokenizer edge case", "deps": ["t-1a2b"], "accept": "No panic on malformed input", "s": "p"}
{"t": "task", "id": "t-5e6f", "spec": "coverage.md", "name": "Integration tests", "deps": ["t-1a2b", "t-3c4d"], "accept": "All tests pass", "s": "p"}
{"t": "issue", "id": "i-7g8h", "spec": "coverage.md", "desc": "Flaky test in CI"}
"#;

fn at_commit() -> DoneAt {
    DoneAt::Commit("a".repeat(40).parse().unwrap())
}

fn lines_of(bytes: &[u8]) -> Vec<String> {
    String::from_utf8(bytes.to_vec()).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_sample_is_read_and_written_as_it_is() {
    let plan = Plan::parse(SAMPLE.as_bytes());
    assert_eq!(plan.render(), SAMPLE.as_bytes());
    assert_eq!(plan.spec(), Some("coverage.md"));
    assert_eq!(plan.problems(&|_| false), []);
    let last = plan.document().lines()[3].task().unwrap();
    assert_eq!((&*last.name, last.deps.len()), ("Integration tests", 2));
}

#[test]
fn every_field_of_a_task_is_read() {
    let line = concat!(
        r#"{"t":"task","id":"t-1","spec":"s.md","name":"N\u00e9","notes":"n","accept":"a","deps":["x","y"],"s":"p","#,
        r#""done_at":"abc","priority":"low","reject":"r","kill":"timeout","kill_log":"l","parent":"P","decompose_depth":2,"#,
        r#""created_from":"i-1","supersedes":"t-0"}"#
    );
    let task = Task::of_line(line.as_bytes()).unwrap();
    assert_eq!(
        task,
        Task {
            id: "t-1".into(),
            spec: "s.md".into(),
            name: "Né".into(),
            notes: Some("n".into()),
            accept: Some("a".into()),
            deps: vec!["x".into(), "y".into()],
            status: Status::Pending,
            done_at: Some("abc".into()),
            priority: Some(Priority::Low),
            reject: Some("r".into()),
            killed: true,
            was_done: false,
            kill: Some("timeout".into()),
            kill_log: Some("l".into()),
            parent: Some("P".into()),
            decompose_depth: Some(2),
            created_from: Some("i-1".into()),
            supersedes: Some("t-0".into()),
        }
    );
}

#[test]
fn legacy_lines_are_read() {
    let task = |line: &'static str| Task::of_line(line.as_bytes()).unwrap();
    let old = task(r#"{"t":"task","id":"17","desc":"old","s":"d"}"#);
    assert_eq!((&*old.name, &*old.spec, old.status), ("old", "", Status::Done));
    assert!(task(r#"{"t":"task","id":"t","name":"n","s":"p","decompose":true}"#).killed);
    assert!(
        !task(r#"{"t":"task","id":"t","name":"n","s":"p","decompose":false,"kill":null}"#).killed
    );
    let accepted = task(r#"{"t":"task","id":"t","name":"n","s":"a"}"#);
    assert_eq!(accepted.status, Status::Accepted);
    assert_eq!(task(r#"{"t":"task","id":"t","name":"n"}"#).status, Status::Pending);
}

/// B12.10.
#[test]
fn b12_10_kill_values_of_predecessors_are_read_as_today_s() {
    for (line, kill) in [
        (r#"{"t":"task","id":"t","name":"n","s":"p","kill":"timeout"}"#, "timeout"),
        (r#"{"t":"task","id":"t","name":"n","s":"p","kill":"context"}"#, "context"),
        (r#"{"t":"task","id":"t","name":"n","s":"p","kill":"context_limit"}"#, "context"),
        (r#"{"t":"task","id":"t","name":"n","s":"p","kill":"compaction_failed"}"#, "context"),
        (r#"{"t":"task","id":"t","name":"n","s":"p","kill_reason":"timeout"}"#, "timeout"),
        (r#"{"t":"task","id":"t","name":"n","s":"p","kill":"gremlins"}"#, "gremlins"),
    ] {
        let task = Task::of_line(line.as_bytes()).unwrap();
        assert!(task.killed, "{line}");
        assert_eq!(task.kill.as_deref(), Some(kill), "{line}");
    }
}

#[test]
fn a_killed_task_that_says_done_is_pending() {
    let bytes = br#"{"t":"spec","spec":"s"}
{"t":"task","id":"t-1","spec":"s","name":"n","s":"d","kill":"timeout"}"#;
    let plan = Plan::parse(bytes);
    assert_eq!(plan.stage(), Stage::Decompose);
    let [problem] = &plan.problems(&|_| false)[..] else { panic!("one problem") };
    assert_eq!(problem.kind, ProblemKind::KilledAndDone { id: "t-1".to_owned() });
}

#[test]
fn unknown_records_and_fields_survive_a_change_byte_for_byte() {
    let config = r#"{"t":"config",  "timeout_ms":300000, "id":7, "name":[1, 2.50]}"#;
    let task =
        r#"{ "x":{"y" :1e2},"t":"task","id":"t-1","s":"p","spec":"s","name":"n" ,"z":"\u0041" }"#;
    let stage = r#"{"t":"stage","stage":"BUILD","deps":"none"}"#;
    let text = format!("{config}\n\n{{\"t\":\"spec\",\"spec\":\"s\"}}\n{task}\n{stage}\n");
    let mut plan = Plan::parse(text.as_bytes());
    plan.done("t-1", &at_commit()).unwrap();
    let done = format!(
        r#"{{ "x":{{"y" :1e2}},"t":"task","id":"t-1","s":"d","spec":"s","name":"n","done_at":"{}" ,"z":"\u0041" }}"#,
        "a".repeat(40)
    );
    let expected = format!("{config}\n\n{{\"t\":\"spec\",\"spec\":\"s\"}}\n{done}\n{stage}\n");
    assert_eq!(String::from_utf8(plan.render()).unwrap(), expected);
}

#[test]
fn a_changed_line_keeps_its_order_spacing_and_end() {
    let text = "{\"t\":\"spec\",\"spec\":\"s\"}\r\n{\"id\":\"t-1\",\"t\":\"task\",\"s\":\"p\",\"name\":\"n\",\"spec\":\"s\"}\r\n";
    let mut plan = Plan::parse(text.as_bytes());
    plan.kill("t-1", Kill::Context, Some("a.log")).unwrap();
    let expected = text.replace(
        "\"s\":\"p\",\"name\":\"n\",\"spec\":\"s\"}",
        "\"s\":\"p\",\"name\":\"n\",\"spec\":\"s\",\"kill\":\"context\",\"kill_log\":\"a.log\"}",
    );
    assert_eq!(String::from_utf8(plan.render()).unwrap(), expected);
    plan.add_issue("odd", &mut surroundings(&mut || 1)).unwrap();
    let rendered = plan.render();
    assert!(rendered.ends_with(b"\"desc\": \"odd\"}\r\n"), "{rendered:?}");
}

fn surroundings(random: &mut dyn FnMut() -> u64) -> PlanContext<'_> {
    PlanContext { known: &|_| false, past_is_whole: &|| true, random, done_at: at_commit() }
}

#[test]
fn a_file_without_its_last_newline_gets_it_with_the_first_change() {
    let text = r#"{"t": "spec", "spec": "s"}"#;
    let mut plan = Plan::parse(text.as_bytes());
    assert_eq!(plan.render(), text.as_bytes());
    plan.add("first", &mut surroundings(&mut || 0)).unwrap();
    assert_eq!(
        lines_of(&plan.render()),
        [text, r#"{"t": "task", "id": "t-aaaa", "spec": "s", "name": "first", "s": "p"}"#]
    );
    assert!(plan.render().ends_with(b"\n"));
}

#[test]
fn new_lines_stand_behind_the_last_of_their_kind() {
    let mut plan = Plan::parse(SAMPLE.as_bytes());
    let mut numbers = 0..;
    let mut random = || numbers.next().unwrap();
    let mut around = surroundings(&mut random);
    plan.add(
        r#"{"name": "N", "deps": ["t-1a2b", "t-3c4d"], "accept": "A", "notes": "é\n"}"#,
        &mut around,
    )
    .unwrap();
    plan.add_issue("I", &mut around).unwrap();
    plan.done("t-1a2b", &at_commit()).unwrap();
    plan.reject("t-1a2b", "no").unwrap();
    let lines = lines_of(&plan.render());
    let before = lines_of(SAMPLE.as_bytes());
    assert_eq!(lines[..1], before[..1]);
    assert_eq!(lines[1], before[1].replace(r#""s": "p"}"#, r#""s": "p", "reject": "no"}"#));
    assert_eq!(lines[2..4], before[2..4]);
    assert_eq!(
        lines[4],
        r#"{"t": "task", "id": "t-aaaa", "spec": "coverage.md", "name": "N", "notes": "é", "deps": ["t-1a2b", "t-3c4d"], "accept": "A", "s": "p"}"#
    );
    assert_eq!(lines[5], before[4]);
    assert_eq!(lines[6], r#"{"t": "issue", "id": "i-baaa", "spec": "coverage.md", "desc": "I"}"#);
    let tombstone = format!(
        r#"{{"t": "reject", "id": "t-1a2b", "done_at": "{}", "reason": "no"}}"#,
        "a".repeat(40)
    );
    assert_eq!(lines[7], tombstone);
    assert_eq!(lines.len(), 8);
}

/// B12.1.
#[test]
fn b12_1_a_malformed_line_loses_nothing_and_stops_every_change() {
    let text = SAMPLE.replacen(
        "{\"t\": \"task\", \"id\": \"t-3c4d\"",
        "{\"t\": \"task\" \"id\": \"t-3c4d\"",
        1,
    );
    let mut plan = Plan::parse(text.as_bytes());
    assert_eq!(plan.done_tasks().count() + plan.pending().len(), 2, "the lines behind it are read");
    assert_eq!(plan.issues().count(), 1);
    for refused in [
        plan.kill("t-1a2b", Kill::Timeout, None),
        plan.clear_tombstones(),
        plan.cancel_unfinished(),
    ] {
        let text = refused.unwrap_err().to_string();
        assert!(
            text.contains("line 3: it is not JSON: ") && text.contains("at column 14"),
            "{text}"
        );
    }
    assert_eq!(plan.render(), text.as_bytes());
}

proptest::proptest! {
    /// B12.1.
    #[test]
    fn b12_1_nothing_that_can_be_asked_for_is_done_to_a_plan_that_cannot_be_read(
        request in crate::channel::tests::any_request(),
    ) {
        let text = format!("{SAMPLE}>>>>>>> theirs");
        let mut plan = Plan::parse(text.as_bytes());
        let refused = plan.apply(&request, &mut surroundings(&mut || 1));
        let unreadable = matches!(&refused, Err(PlanError::Unreadable { problems }) if problems[0].line == 6);
        proptest::prop_assert!(unreadable || request.mutation().is_none(), "{:?}", refused);
        proptest::prop_assert_eq!(plan.render(), text.as_bytes());
    }
}

#[test]
fn conflict_markers_are_reported_with_their_line_and_how_to_mend_them() {
    let text = "{\"t\":\"spec\",\"spec\":\"s\"}\n<<<<<<< HEAD\n{\"t\":\"issue\",\"id\":\"i-1\",\"desc\":\"a\"}\n||||||| base\n=======\n>>>>>>> other\n";
    let plan = Plan::parse(text.as_bytes());
    let problems = plan.problems(&|_| true);
    let lines: Vec<_> = problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [2, 4, 5, 6]);
    for problem in &problems {
        assert_eq!(problem.kind, ProblemKind::Broken(Flaw::ConflictMarker));
        assert!(problem.to_string().contains("keep the line of one side"), "{problem}");
    }
}

#[test]
fn lines_that_are_no_records_are_told_apart() {
    let reason = |line: &'static [u8]| match Record::of_line(line) {
        Record::Broken(flaw) => flaw.to_string(),
        other => panic!("{other:?}"),
    };
    for (line, wanted) in [
        (&b"\xff{}"[..], "it is not UTF-8"),
        (b"[1]", "it is not a JSON object"),
        (b"{}", "it has no `t`"),
        (br#"{"t":1}"#, "its `t` is not a string"),
        (br#"{"t":"task","name":"n"}"#, "it has no `id`"),
        (br#"{"t":"task","id":"t"}"#, "it has no `name`"),
        (br#"{"t":"task","id":1,"name":"n"}"#, "its `id` is not a string"),
        (br#"{"t":"task","id":"t","name":{}}"#, "its `name` is not a string"),
        (br#"{"t":"task","id":"t","name":"n","notes":1}"#, "its `notes` is not a string"),
        (
            br#"{"t":"task","id":"t","name":"n","deps":"x"}"#,
            "its `deps` is not an array of strings",
        ),
        (
            br#"{"t":"task","id":"t","name":"n","deps":[1]}"#,
            "its `deps` is not an array of strings",
        ),
        (br#"{"t":"task","id":"t","name":"n","s":"x"}"#, "its status `s` is `x`, not `p` or `d`"),
        (
            br#"{"t":"task","id":"t","name":"n","decompose":1}"#,
            "its `decompose` is not true or false",
        ),
        (br#"{"t":"task","id":"t","id":"u","name":"n"}"#, "it has `id` twice"),
        (br#"{"t":"task","id":"t","name":"\ud800"}"#, "its `name` is not a string"),
        (br#"{"t":"issue","id":"i"}"#, "it has no `desc`"),
        (br#"{"t":"spec","spec":1}"#, "its `spec` is not a string"),
        (br#"{"t":"reject","id":"t"}"#, "it has no `reason`"),
    ] {
        assert_eq!(reason(line), wanted);
    }
    assert_eq!(Record::of_line(b" \t"), Record::Blank);
    assert_eq!(Record::of_line(br#"{"t":"later","id":1,"id":2,"s":[]}"#), Record::Other);
}

#[test]
fn validate_reports_everything_at_once() {
    let text = r#"{"t":"spec","spec":"s"}
{"t":"spec","spec":"s2"}
{"t":"task","id":"t-1","spec":"s","name":"a","deps":["t-2","t-gone","t-never"],"s":"p"}
{"t":"task","id":"t-2","spec":"s","name":"b","deps":["t-1"],"s":"p","priority":"urgent","kill":"gremlins"}
{"t":"task","id":"t-2","spec":"s","name":"c","deps":["t-2"],"s":"p","parent":"t-x","supersedes":"t-gone"}
nonsense
{"t":"issue","id":"i-1","desc":"d","priority":"urgent"}
{"t":"issue","id":"i-1","desc":"d"}
"#;
    let problems = Plan::parse(text.as_bytes()).problems(&|id| id == "t-gone");
    let found: Vec<_> =
        problems.iter().map(|problem| (problem.line, problem.kind.to_string())).collect();
    let expected = [
        (2, "another current spec is on line 1"),
        (3, "task `t-1` depends on `t-never`, which was never in this plan"),
        (3, "task `t-1` depends on itself: t-1 → t-2 → t-1"),
        (4, "`t-2` has priority `urgent`, not `high`, `medium` or `low`; it counts as none"),
        (4, "task `t-2` was killed by `gremlins`, not by `timeout` or `context`"),
        (5, "`t-2` is already on line 4"),
        (5, "task `t-2` names `t-x` as its `parent`, which was never in this plan"),
        (6, "it is not JSON: expected ident at column 2"),
        (7, "`i-1` has priority `urgent`, not `high`, `medium` or `low`; it counts as none"),
        (8, "`i-1` is already on line 7"),
    ];
    assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    assert!(problems.iter().all(|problem| !problem.kind.mend().is_empty()));
}

#[test]
fn every_known_key_is_found_by_its_length() {
    for key in ["t", "s", "id", "name", "notes", "decompose_depth", "created_from", "kill_reason"] {
        assert!(super::record::rank(key).is_some(), "{key}");
    }
    assert_eq!(
        super::record::known_keys().filter(|key| super::record::rank(key).is_none()).count(),
        0
    );
    assert_eq!(super::record::rank("nam"), None);
}
