//! An agent's requests inside a run, its outbox, and questions to a person.

use std::fs;

use ralph_engine::clock::SystemClock;
use ralph_engine::journal::Journal;
use ralph_engine::questions::Questions;
use ralph_model::journal::QuestionKind;
use serde_json::{Value, json};

use crate::harness::{Place, Report};

/// A place with a home, so that `ralph.log` is written.
fn with_home(place: Place) -> Place {
    fs::create_dir_all(place.env.repo().join("ralph/specs")).unwrap();
    place
}

/// The entries of `ralph.log` with a given name.
fn logged(place: &Place, name: &str) -> Vec<Value> {
    let log = fs::read_to_string(place.env.repo().join("ralph/ralph.log")).unwrap();
    let entries = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    entries.filter(|entry| entry["event"] == name).map(|mut entry| entry["data"].take()).collect()
}

/// Runs a shell command as an agent under the kernel boundary; its output is its final message.
fn shell(place: &Place, role: &str, command: &str) -> Report {
    place.agent_run(&["--boundary", "kernel", "--role", role, "--agent-cmd", command])
}

fn said(report: &Report) -> String {
    report.json["final_message"]
        .as_str()
        .unwrap_or_else(|| panic!("{}", report.finished))
        .to_owned()
}

#[test]
fn every_role_is_answered_inside_the_kernel_boundary_with_a_sentence_it_can_act_on() {
    let place = with_home(Place::new());
    let command = "ralph task accept t-1 2>&1; echo $?; ralph issue add broken 2>&1; echo $?";
    let no_plan = "error: `ralph issue add` has no effect, for this run works on no plan: \
                   say it in the last message instead.";
    for (role, accept, issue) in [
        (
            "builder",
            "error: `ralph task accept` is refused to a run as builder: it may use `ralph task done` and `ralph issue add`.",
            no_plan,
        ),
        (
            "verifier",
            "error: `ralph task accept` has no effect, for this run works on no plan: say it in the last message instead.",
            no_plan,
        ),
        (
            "planner",
            "error: `ralph task accept` is refused to a run as planner: it may use `ralph task add`.",
            "error: `ralph issue add` is refused to a run as planner: it may use `ralph task add`.",
        ),
        (
            "mapper",
            "error: `ralph task accept` is refused to a run as mapper: write your result to the files in `$RALPH_OUT`.",
            "error: `ralph issue add` is refused to a run as mapper: write your result to the files in `$RALPH_OUT`.",
        ),
    ] {
        let report = shell(&place, role, command);
        assert_eq!(said(&report), format!("{accept}\n1\n{issue}\n1"), "{role}");
        assert_eq!(report.json["requests"], json!({"accepted": 0, "refused": 2, "ignored": 0}));
        assert_eq!(report.exit_code(), Some(0), "{}", report.finished);
    }
    let asked = logged(&place, "mutation_requested");
    assert_eq!(asked.len(), 8);
    assert_eq!(asked[0]["request"], json!({"kind": "task_accept", "ids": ["t-1"]}));
    assert_eq!(asked[0]["accepted"], false);
    assert!(asked[0]["text"].as_str().unwrap().contains("refused to a run as builder"));
    place.assert_nothing_left();
}

#[test]
fn a_rehearsed_agent_asks_in_order_and_each_request_is_journalled_with_all_it_says() {
    let script = "[builder]\nrun ralph task done t-9 --no-change 'it is so already'\n\
                  run ralph task done\nrun ralph task reject t-1 '- no tests'\nrun ralph task reject why\n\
                  run ralph task add '[{\"name\":\"a\"}]'\nrun ralph task prioritize\nrun ralph task delete t-1\n\
                  run ralph issue done\nrun ralph issue done-ids i-1 i-2\nrun ralph issue done-all\n\
                  run ralph set-spec other.md --yes\nfinal done\n";
    let place = with_home(Place::rehearsing(script));
    let report = place.agent_run(&[]);
    assert_eq!(report.outcome(), "completed", "{}", report.finished);
    let requests: Vec<Value> = logged(&place, "mutation_requested")
        .into_iter()
        .map(|mut asked| asked["request"].take())
        .collect();
    let expected = json!([
        {"kind": "task_done", "id": "t-9", "no_change": "it is so already"},
        {"kind": "task_done"},
        {"kind": "task_reject", "id": "t-1", "reason": "- no tests"},
        {"kind": "task_reject", "reason": "why"},
        {"kind": "task_add", "task": "[{\"name\":\"a\"}]"},
        {"kind": "task_prioritize"},
        {"kind": "task_delete", "id": "t-1"},
        {"kind": "issue_done", "ids": []},
        {"kind": "issue_done", "ids": ["i-1", "i-2"]},
        {"kind": "issue_done_all"},
        {"kind": "set_spec", "spec": "other.md", "cancel_unfinished": true},
    ]);
    assert_eq!(json!(requests), expected);
    let not_given = logged(&place, "mutation_requested")[0]["text"].clone();
    assert_eq!(
        not_given,
        "`ralph task done t-9` is refused: this run as builder was not given `t-9`: leave it to a run that is."
    );
    assert!(report.finished.to_string().contains("[channel] 0 requests accepted, 11 refused"));
}

#[test]
fn machines_get_the_answer_as_json() {
    let report = shell(&Place::new(), "builder", "ralph task show --json; echo $?");
    let (answer, code) =
        said(&report).rsplit_once('\n').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((&answer["accepted"], code.as_str()), (&json!(false), "1"));
    assert!(answer["message"].as_str().unwrap().contains("works on no plan"), "{answer}");
}

#[test]
fn what_cannot_be_meant_is_a_wrong_usage() {
    let place = Place::new();
    for wrong in [
        &["task", "reject"][..],
        &["task", "reject", "t-1", "why", "else"],
        &["task", "add", " "],
        &["task", "add", "--priority=high"],
        &["task", "forge"],
        &["answer"],
    ] {
        assert_eq!(place.ralph(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn nothing_in_the_channel_hangs_or_fools_the_harness() {
    let place = with_home(Place::new());
    fs::write(place.path("precious"), "untouched").unwrap();
    let name = |n: u32| format!("{n:020}-1-00000000");
    let (fifo, link, directory, huge, half, two) =
        (name(1), name(2), name(3), name(4), name(5), name(6));
    let precious = place.path("precious");
    let command = format!(
        "cd $RALPH_CHANNEL && mkfifo t && mv t {fifo}.req && ln -s {} t && mv -T t {link}.req && \
         mkdir t && mv -T t {directory}.req && head -c 70000 /dev/zero > t && mv t {huge}.req && \
         printf '{{\"v\":1,\"id\"' > t && mv t {half}.req && echo x > t && ln t u && mv u {two}.req && \
         ln -s {} {}.reply && ralph issue add honest 2>&1; echo $?",
        precious.display(),
        precious.display(),
        name(7),
    );
    let report =
        place.agent_run(&["--boundary", "off", "--timeout", "60s", "--agent-cmd", &command]);
    assert!(said(&report).ends_with("works on no plan: say it in the last message instead.\n1"));
    let reasons: Vec<Value> = logged(&place, "request_ignored")
        .into_iter()
        .map(|mut note| note["reason"].take())
        .collect();
    let expected = json!([
        "it is not a file",
        "it is a symbolic link",
        "it is larger than 65536 bytes",
        "it cannot be read",
        "it has several names (hard links)",
        "it has no name of a request",
    ]);
    assert_eq!(json!(reasons), expected);
    assert_eq!(logged(&place, "mutation_requested").len(), 1);
    assert_eq!(fs::read_to_string(&precious).unwrap(), "untouched");
    place.assert_nothing_left();
}

#[test]
fn a_flood_of_requests_is_cut_off_and_the_run_goes_on() {
    let place = with_home(Place::new());
    let command = "mkdir $TMPDIR/t; cd $TMPDIR/t; i=10000; while [ $i -lt 15000 ]; do \
                   n=000000000000000$i-1-00000000; \
                   echo '{\"v\":1,\"id\":\"'$n'\",\"args\":{\"kind\":\"task_show\"}}' > $n.req; i=$((i+1)); done; \
                   mv *.req $RALPH_CHANNEL; ralph task done 2>&1; echo $?";
    let report = shell(&place, "builder", command);
    assert_eq!(
        said(&report),
        "error: only 1000 requests or 4 MiB of a run are looked at: end the run with what you have done.\n1"
    );
    assert_eq!(report.json["requests"], json!({"accepted": 0, "refused": 1000, "ignored": 4001}));
    assert_eq!(logged(&place, "mutation_requested").len(), 0);
    let notes = logged(&place, "request_ignored");
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert_eq!(notes[0]["reason"], "only 1000 requests or 4 MiB of a run are looked at");
    place.assert_nothing_left();
}

#[test]
fn an_agent_that_swaps_its_channel_is_noticed_and_fools_nobody() {
    let place = with_home(Place::new());
    fs::create_dir(place.path("elsewhere")).unwrap();
    let command = format!(
        "mv $RALPH_CHANNEL $RALPH_OUT/old && ln -s {} $RALPH_CHANNEL; ralph task done 2>&1; echo $?",
        place.path("elsewhere").display()
    );
    let report = place.agent_run(&["--boundary", "off", "--agent-cmd", &command]);
    assert!(said(&report).contains("cannot use the channel"), "{}", report.finished);
    assert_eq!(logged(&place, "mutation_requested").len(), 0);
    let notes = logged(&place, "request_ignored");
    assert_eq!(notes[0]["reason"], "the directory of requests was moved or removed");
    assert_eq!(fs::read_dir(place.path("elsewhere")).unwrap().count(), 0);
}

#[test]
fn what_a_run_leaves_in_its_outbox_is_kept_beside_its_log() {
    let place = Place::new();
    fs::write(place.path("secret"), "secret").unwrap();
    let command = format!(
        "cd $RALPH_OUT && echo hello > note.md && ln -s /etc/passwd passwd && ln {} secret; mkfifo pipe; \
         mkdir nested && echo x > nested/x && truncate -s 5M large && echo done",
        place.path("secret").display()
    );
    let report = place.agent_run(&["--boundary", "off", "--agent-cmd", &command]);
    let kept = report.json["outbox"].as_array().unwrap().clone();
    assert_eq!(kept.len(), 1, "{}", report.finished);
    let path = kept[0].as_str().unwrap();
    let log = report.json["log"].as_str().unwrap();
    assert_eq!(path, format!("{}/out/note.md", log.rsplit_once('/').unwrap().0));
    assert_eq!(fs::read_to_string(path).unwrap(), "hello\n");
    let told = report.finished.to_string();
    for line in [
        "[left] not kept: `large`: it is larger than 4194304 bytes",
        "[left] not kept: `nested`: it is not a file",
        "[left] not kept: `passwd`: it is a symbolic link",
        "[left] not kept: `pipe`: it is not a file",
        "[left] not kept: `secret`: it has several names (hard links)",
    ] {
        assert!(told.contains(line), "{line}\n{told}");
    }
    let again = place.agent_run(&["--agent-cmd", "ls -A $RALPH_OUT"]);
    assert_eq!(said(&again), "channel");
}

/// Opens the journal of the place, as a workflow would.
fn journal(place: &Place) -> Journal {
    let state = place.path("state/ralph");
    let journal = fs::read_dir(&state)
        .unwrap()
        .map(|entry| entry.unwrap().path().join("journal.jsonl"))
        .find(|path| path.exists())
        .unwrap();
    let path = camino::Utf8PathBuf::from_path_buf(journal).unwrap();
    let mut journal = Journal::open(&path).unwrap();
    journal.fold().unwrap();
    journal
}

fn ask(place: &Place, item: &str, question: &str) {
    Questions { journal: &mut journal(place), clock: &SystemClock }
        .ask(item, question, QuestionKind::Accept, None)
        .unwrap();
}

fn status(place: &Place) -> Value {
    let finished = place.ralph(&["status", "--json"]);
    serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{finished}"))
}

#[test]
fn a_person_sees_what_waits_for_them_and_answers_it() {
    let place = Place::rehearsing("final hello\n");
    assert_eq!(place.agent_run(&[]).outcome(), "completed");
    let none = place.ralph(&["answer", "yes"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(none.to_string().contains("no open question"), "{none}");
    ask(&place, "0001-a", "Is it right that nothing\nneeds to change?");
    let screen = place.ralph(&["status"]);
    let line =
        "waits for you: ralph answer 0001-a \"…\"  (Is it right that nothing needs to change?)";
    assert!(screen.stdout.contains(line), "{screen}");
    ask(&place, "0002-b", "Which one?");
    let questions = status(&place)["questions"].clone();
    assert_eq!((&questions[0]["item"], &questions[1]["id"]), (&json!("0001-a"), &json!("q2")));
    let several = place.ralph(&["answer", "yes"]);
    assert_eq!(several.status.code(), Some(2));
    assert!(several.to_string().contains("hint: ralph answer 0002-b"), "{several}");
    let unsaid = place.ralph(&["answer"]);
    assert_eq!(unsaid.status.code(), Some(2));
    assert!(
        unsaid.to_string().contains("hint: ralph answer 0002-b \"…\"  (Which one?)"),
        "{unsaid}"
    );
    let answered = place.ralph(&["answer", "0001-a", "- in Welsh"]);
    assert_eq!(answered.status.code(), Some(0), "{answered}");
    assert_eq!(status(&place)["questions"].as_array().unwrap().len(), 1);
    // Options are options wherever they stand.
    let only = place.ralph(&["answer", "2", "the first", "--json"]);
    let told: Value = serde_json::from_str(&only.stdout).unwrap();
    assert_eq!(
        told,
        json!({
            "id": "q2", "item": "0002-b", "question": "Which one?", "answer": "the first", "taken_as": "text",
        })
    );
    assert_eq!(status(&place)["questions"], json!([]));
    assert_eq!(place.ralph(&["answer", "2", "the first", "--help"]).status.code(), Some(0));
}

/// A text that could mean yes is not guessed at; and an answer that was given can be corrected.
#[test]
fn an_answer_is_a_yes_or_is_not_and_can_be_corrected_until_it_is_acted_on() {
    let place = Place::rehearsing("final hello\n");
    assert_eq!(place.agent_run(&[]).outcome(), "completed");
    ask(&place, "0001-a", "Is it done?");
    for text in ["yes please", "Yes, accept it", "sure, fine"] {
        let unclear = place.ralph(&["answer", "1", text]);
        assert_eq!(unclear.status.code(), Some(2), "{unclear}");
        for part in ["begins like a yes", "ralph answer 0001-a yes  (accepts it", "\"not yet: "] {
            assert!(unclear.to_string().contains(part), "{unclear}");
        }
        assert_eq!(status(&place)["questions"].as_array().unwrap().len(), 1);
    }
    for (text, told) in [
        ("not yet: yes please", &["not accepted", "goes to the next attempt"][..]),
        ("ok", &["accepted as it is; ", "(instead of: not yet: yes please)"]),
        ("no", &["not accepted", "(instead of: ok)"]),
    ] {
        let answered = place.ralph(&["answer", "1", text]);
        assert_eq!(answered.status.code(), Some(0), "{answered}");
        for part in told {
            assert!(answered.to_string().contains(part), "{part}: {answered}");
        }
    }
    let journal = journal(&place);
    assert_eq!(journal.board().answered("0001-a").unwrap().answer.as_deref(), Some("no"));
}

#[test]
fn an_agent_cannot_answer_for_the_person() {
    let place = Place::new();
    let report =
        place.agent_run(&["--boundary", "off", "--agent-cmd", "ralph answer yes 2>&1; echo $?"]);
    assert!(said(&report).contains("is for people"), "{}", report.finished);
    assert!(said(&report).ends_with('2'));
}

#[test]
fn a_run_that_dies_with_a_request_open_leaves_nothing_behind() {
    let place = with_home(Place::new());
    let command = "cd $RALPH_CHANNEL; n=00000000000000000001-1-00000000; \
                   echo '{\"v\":1,\"id\":\"'$n'\",\"args\":{\"kind\":\"issue_done_all\"}}' > .t.tmp; mv .t.tmp $n.req; \
                   kill -9 $$";
    let report = place.agent_run(&["--agent-cmd", command]);
    assert_eq!(report.trouble(), "crash", "{}", report.finished);
    assert_eq!(logged(&place, "mutation_requested").len(), 1);
    assert!(report.json["duration_ms"].as_u64().unwrap() < 30_000);
    place.assert_nothing_left();
}
