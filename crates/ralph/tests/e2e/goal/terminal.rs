//! Rich prompts on a real terminal: answers are edited, a paste is one answer, and the terminal is restored.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, tcgetattr};
use serde_json::Value;

use super::{Desk, GOAL, block, draft, envelope};
use crate::harness::{PATIENCE, RALPH, open_terminal};
use crate::support::process::processes_marked;

/// A `ralph` with its own terminal, and its output there.
struct Session {
    child: Child,
    terminal: OwnedFd,
    /// Held open, so that the terminal outlives the program.
    inside: OwnedFd,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
    seen: usize,
}

impl Session {
    fn start(desk: &Desk, args: &[&str]) -> Session {
        let (terminal, inside) = open_terminal();
        let copy = || Stdio::from(rustix::io::dup(&inside).unwrap());
        let mut variables = desk.place.variables();
        variables.retain(|(name, _)| name != "TERM");
        // `setsid` makes it the program's controlling terminal.
        let child = Command::new("setsid")
            .args(["--ctty", "--wait", RALPH])
            .args(args)
            .current_dir(desk.place.env.repo())
            .env_clear()
            .envs(variables)
            .env("TERM", "xterm")
            .stdin(copy())
            .stdout(File::create(desk.place.path("out")).unwrap())
            .stderr(copy())
            .spawn()
            .unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let mut output = File::from(rustix::io::dup(&terminal).unwrap());
        let kept = Arc::clone(&shown);
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                kept.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        Session { child, terminal, inside, shown, reader, seen: 0 }
    }

    fn screen(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// Waits until this and then a prompt is shown, after the text waited for before; then types.
    fn at(&mut self, text: &str, typed: &str) {
        self.after(text, "");
        // The editor is ready once its prompt is shown.
        self.after("> ", typed);
    }

    /// Waits until this is shown, after the text waited for before; then types.
    fn after(&mut self, text: &str, typed: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            if let Some(found) = screen.get(self.seen..).and_then(|rest| rest.find(text)) {
                self.seen += found + text.len();
                break;
            }
            assert!(Instant::now() < deadline, "no `{text}` on\n{screen}");
            thread::sleep(Duration::from_millis(5));
        }
        let mut writer = File::from(rustix::io::dup(&self.terminal).unwrap());
        writer.write_all(typed.as_bytes()).unwrap();
    }

    fn end(mut self) -> (Option<i32>, String) {
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "it does not end\n{}", self.screen());
            thread::sleep(Duration::from_millis(5));
        }
        let code = self.child.wait().unwrap().code();
        let modes = tcgetattr(self.inside.as_fd()).unwrap().local_modes;
        let usual = LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        assert!(modes.contains(usual), "the terminal is left as {modes:?}");
        // Once the inner side is closed, reading reaches the end.
        let Session { inside, reader, shown, .. } = self;
        drop(inside);
        reader.join().unwrap();
        (code, String::from_utf8_lossy(&shown.lock().unwrap()).into_owned())
    }
}

fn asks() -> String {
    [
        block("interviewer 1", &[], &envelope(&["Which pages?", "Since when?"], &Value::Null)),
        block("interviewer", &[], &envelope(&[], &draft(&["US-001"]))),
    ]
    .concat()
}

#[test]
fn answers_are_edited_and_a_paste_of_several_lines_is_one_answer() {
    let desk = Desk::new(&asks());
    let mut session = Session::start(&desk, &["plan", GOAL]);
    session.at("make test", "\r");
    // A bracketed paste; its newlines end no answer, and its `y` approves nothing.
    session.at("Which pages?", "\u{1b}[200~all of\nthem\ny\n\u{1b}[201~\r");
    // Typed wrong, erased, and continued on a second line.
    session.at("Since when?", "nevre\u{7f}\u{7f}er\\\rmind\r");
    session.at("Write this PRD", "y\r");
    let (code, screen) = session.end();
    assert_eq!(code, Some(0), "{screen}");
    let state = desk.state();
    let answer = |index: usize| state["qa"][index]["answer"].as_str().unwrap().to_owned();
    assert_eq!(answer(1), "all of\nthem\ny");
    assert_eq!(answer(2), "never\nmind");
    // Nothing for people is written to stdout.
    assert_eq!(std::fs::read_to_string(desk.place.path("out")).unwrap(), "");
}

/// Consent needs an answer to the question that was shown: neither keys typed before it nor the rest of a paste count.
#[test]
fn what_was_typed_before_a_consent_was_asked_for_does_not_give_it() {
    // Plain mode: the lines of a paste into one question.
    let desk = Desk::new(&asks());
    let mut session = Session::start(&desk, &["plan", GOAL, "--ui", "plain"]);
    session.at("make test", "\r");
    session.at("Which pages?", "all\r");
    session.at("Since when?", "now,\ry\ry\r");
    session.at("Write this PRD", "\u{3}");
    let (code, screen) = session.end();
    assert_eq!(code, Some(130), "{screen}");
    assert_eq!(desk.state()["qa"][2]["answer"], "now,\ny\ny");
    assert!(!desk.read("ralph/prd.json").contains("US-001"), "{screen}");

    // Rich mode: keys typed while the interviewer works.
    let desk = Desk::new(&asks().replace("[interviewer]\n", "[interviewer]\nsleep 2s\n"));
    let mut session = Session::start(&desk, &["plan", GOAL]);
    session.at("make test", "\r");
    session.at("Which pages?", "all\r");
    session.at("Since when?", "now\r");
    session.after("interviewer", "y\r");
    session.at("Write this PRD", "\u{3}");
    let (code, screen) = session.end();
    assert_eq!(code, Some(130), "{screen}");
    assert!(!desk.read("ralph/prd.json").contains("US-001"), "{screen}");
}

#[test]
fn ctrl_c_and_a_termination_stop_at_the_question_and_it_is_asked_again() {
    for how in ["ctrl-c", "term"] {
        let desk = Desk::new(&asks());
        let mut session = Session::start(&desk, &["plan", GOAL]);
        session.at("make test", "\r");
        session.at("Which pages?", "all\r");
        session.at("Since when?", if how == "ctrl-c" { "half\u{3}" } else { "half" });
        if how == "term" {
            let marked = processes_marked(desk.place.env.mark());
            let ralph = marked
                .iter()
                .find(|(_, line)| line.starts_with(RALPH) && !line.contains("__"))
                .unwrap();
            kill_process(Pid::from_raw(ralph.0).unwrap(), Signal::TERM).unwrap();
        }
        let (code, screen) = session.end();
        assert_eq!(code, Some(130), "{how}\n{screen}");
        assert!(screen.contains("ralph plan --resume"), "{how}\n{screen}");
        assert_eq!(desk.state()["qa"].as_array().unwrap().len(), 2);
        let mut session = Session::start(&desk, &["plan", "--resume"]);
        session.at("Since when?", "now\r");
        session.at("Write this PRD", "y\r");
        let (code, screen) = session.end();
        assert_eq!(code, Some(0), "{how}\n{screen}");
        assert!(!screen.contains("Which pages?"), "{how}\n{screen}");
        assert_eq!(desk.roles().len(), 2);
    }
}
