//! Text of agents, files and git that would control a terminal, forge a line or hide something: none of it is shown
//! unsanitized, in any field and by any command.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ralph_model::shown::is_hidden;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;
use unicode_width::UnicodeWidthStr;

use crate::harness::{PATIENCE, Place, RALPH, wait_for_file};
use crate::pipeline::{AGREES, PHRASE, PLANS, Stage, claims, on};
use crate::support::process::{Finished, run};

/// A title, a cleared screen, a colour that Ralph never uses, the same as C1 characters, a bidi override, zero-width
/// characters.
const HOSTILE: &str = "h\u{1b}]0;t\u{7}\u{1b}[2J\u{1b}[35m\u{9b}2J\u{9d}x\u{9c}\u{202e}\u{2066}\u{200b}\u{feff}\u{ad}\u{7f}\u{2028}\u{e0041}h";

/// The same without characters that are impossible in a script line or a git name.
const IN_NAMES: &str = "n\u{9b}2J\u{202e}\u{200b}\u{2028}n";

/// The text that a newline in a name would put at the beginning of a line.
const FORGED: &str = "[done] forged";

/// Asserts that the text has no effect on a terminal, and no line of it begins like a forged one.
#[track_caller]
fn assert_harmless(what: &str, text: &str) {
    for line in text.lines() {
        assert!(!line.chars().any(is_hidden), "{what}: {line:?}");
        assert!(!line.starts_with(FORGED), "{what}: {line:?}");
    }
    assert!(!text.contains('\r'), "{what}: {text:?}");
}

#[track_caller]
fn assert_both_harmless(what: &str, finished: &Finished) {
    assert_harmless(&format!("stdout of {what}"), &finished.stdout);
    assert_harmless(&format!("stderr of {what}"), &finished.stderr);
    assert_ne!(finished.status.code(), Some(70), "{what}: {finished}");
}

/// Runs read-only commands, each as text and as JSON.
fn look_at_everything(place: &Place, more: &[&[&str]]) {
    let commands: [&[&str]; 12] = [
        &["status"],
        &["specs"],
        &["query"],
        &["query", "--table"],
        &["query", "tasks", "--table"],
        &["log"],
        &["log", "--table"],
        &["log", "--all"],
        &["log", "--all", "--table"],
        &["validate"],
        &["config"],
        &["gates", "list"],
    ];
    for args in commands.iter().chain(more) {
        for json in [false, true] {
            let mut args = args.to_vec();
            args.extend(json.then_some("--json"));
            assert_both_harmless(&args.join(" "), &place.ralph(&args));
        }
    }
}

fn log_of(place: &Place) -> String {
    fs::read_to_string(place.env.repo().join("ralph/ralph.log")).unwrap()
}

#[test]
fn the_pipeline_shows_hostile_text_as_text() {
    let says = format!(
        "session \"{IN_NAMES}\"\nmodel \"m{HOSTILE}\"\nsay {HOSTILE}\nsay <<END\none\r{HOSTILE}\nEND\n"
    );
    let makes_file = format!("run touch \"$(printf 'evil\\n{FORGED} {IN_NAMES}')\"\n");
    let plans = format!(
        "{says}{makes_file}outbox plan.md <<END\n# {HOSTILE}\nEND\nfinal {HOSTILE} {PHRASE}\n"
    );
    let fails = format!(
        "{says}error other {HOSTILE}\nretry 1\nrun git checkout -q -b 'b{IN_NAMES}'\nwrite greeting.txt adieu\n\
         commit \"{HOSTILE}\" greeting.txt\n{}",
        claims("${COMMIT}")
    );
    let builds = format!(
        "{says}write greeting.txt hello\ncommit \"{HOSTILE}\" greeting.txt\n{}",
        claims("${COMMIT}")
    );
    let breaks = format!("{says}stderr {HOSTILE}\nexit 7\n");
    let doubts = format!("{says}final <<END\n{HOSTILE}\n{FORGED}\nEND\n");
    let script = [
        PLANS.to_owned(),
        on("planner", 1, &plans),
        on("implementer", 1, &fails),
        on("implementer", 2, &breaks),
        format!("[implementer]\n{builds}"),
        AGREES.to_owned(),
        on("verifier", 1, &doubts),
    ];
    let stage = Stage::new(&script.concat());
    let gate = "printf 'g\\033]0;t\\007\\033[35m\\302\\233 \\342\\200\\256\\tx\\n'; ! grep -q adieu greeting.txt";
    let settings = format!(
        "boundary = \"detect\"\nlimits.backoff = \"0s\"\n[[gate]]\nname = \"g\"\nrun = {}\n",
        json!(["sh", "-c", gate])
    );
    stage.settings(&settings);
    stage.write("ralph/specs/0001-greeting.md", &format!("# Title {HOSTILE}\n\nDo it.\n"));
    stage.git(&["commit", "--all", "--quiet", "--message=hostile"]);
    assert_both_harmless("dry run", &stage.pipeline(&["--dry-run"]).finished);
    let refused = stage.pipeline(&["no\nerror: \u{1b}[2Jforged"]);
    assert_both_harmless("a spec that is none", &refused.exits(2).finished);
    let ended = stage.pipeline(&["--max-attempts", "6"]);
    assert_both_harmless("pipeline", &ended.finished);
    ended.says("\\u{202e}").says("\\u{1b}");
    assert_harmless("the log as JSON", &log_of(&stage.place));
    look_at_everything(
        &stage.place,
        &[&["specs", "show", "1"], &["agent", "list"], &["gates", "run"]],
    );
    let text = stage.pipeline(&["--force", "1", "--log-format", "text", "--stream"]);
    assert_both_harmless("pipeline again", &text.finished);
    assert_harmless("the log as text", &log_of(&stage.place));
    assert_harmless("Ralph's commits", &stage.git(&["log", "--grep=^ralph:", "--format=%B"]));
}

#[test]
fn the_build_loop_shows_hostile_text_as_text() {
    let script = format!(
        "[builder]\nsession \"s{IN_NAMES}\"\nsay {HOSTILE}\nappend ${{RALPH_TASK}} done\nrun ralph task done\nfinal {HOSTILE}\n\
         [verifier 1]\nrun ralph issue add '{HOSTILE}'\nrun ralph task reject '{HOSTILE}'\nfinal {HOSTILE}\n\
         [verifier]\nrun ralph task accept\nfinal fine\n[investigator]\nrun ralph issue done-all\nfinal {HOSTILE}\n"
    );
    let place = Place::rehearsing(&script);
    let repo = place.env.repo();
    fs::create_dir_all(repo.join("ralph/specs")).unwrap();
    fs::write(repo.join("ralph/specs/greet.md"), format!("# {HOSTILE}\n")).unwrap();
    let name = format!("Do {HOSTILE}\r\n{FORGED}");
    let records = [
        json!({"t": "spec", "spec": "greet.md"}),
        json!({"t": "task", "id": "t-a", "spec": "greet.md", "name": name, "s": "p", "notes": name}),
        json!({"t": "task", "id": "t-b", "spec": "greet.md", "name": name, "s": "p", "deps": ["t-a"], "accept": name}),
        json!({"t": "issue", "id": "i-c", "spec": "greet.md", "desc": name}),
    ];
    let lines = records.map(|record| record.to_string()).join("\n") + "\n";
    fs::write(repo.join("ralph/plan.jsonl"), lines).unwrap();
    place.env.git(&["add", "--all"]);
    place.env.git(&["commit", "--quiet", "--message=a plan"]);
    look_at_everything(&place, &[&["task", "show", "t-a"], &["query", "issues", "--table"]]);
    for args in [
        &["task", "add", HOSTILE][..],
        &["issue", "add", &name],
        &["task", "delete", HOSTILE],
        &["log", "--branch", IN_NAMES],
    ] {
        assert_both_harmless(&args.join(" "), &place.ralph(args));
    }
    assert_both_harmless("build", &place.ralph(&["build", "--max-iterations", "12"]));
    assert_harmless("the log as JSON", &log_of(&place));
    look_at_everything(&place, &[]);
    assert_harmless("commits", &place.env.git(&["log", "--format=%B"]));
}

#[test]
fn words_that_were_typed_are_repeated_harmlessly() {
    let place = Place::new();
    let word = format!("x\n{FORGED}\u{1b}[2J\u{202e}");
    for args in [
        &[word.as_str()][..],
        &["task", &word],
        &["status", &word],
        &["--root", &word, "status"],
        &["agent", "run", "--role", &word, "x"],
    ] {
        let finished = place.ralph(args);
        assert_eq!(finished.status.code(), Some(2), "{finished}");
        assert_both_harmless("a wrong word", &finished);
        assert!(finished.stderr.contains("\\u{1b}[2J\\u{202e}"), "{finished}");
    }
}

#[test]
fn a_program_gets_the_last_message_byte_for_byte_and_a_terminal_does_not() {
    let text = format!("{HOSTILE}\n\tsecond line");
    let place = Place::rehearsing(&format!("final <<END\n{text}\nEND\n"));
    let piped = place.ralph(&["agent", "run", "x"]);
    assert_eq!(piped.stdout, format!("{text}\n"));
    let screen = Screen::of(&place, &["agent", "run", "x"], 200);
    screen.assert_harmless();
    assert!(screen.plain().contains("    second line"), "{:?}", screen.bytes);
}

#[test]
fn the_status_line_fits_into_every_terminal() {
    let wide = "日本語のとても長い文章です👩\u{200d}💻 e\u{301}e\u{301} ⚠\u{fe0f} and many words that go on and on and on";
    let script = format!(
        "session \"{IN_NAMES}\"\nmodel \"m{HOSTILE}\"\nusage input=123456 output=99\ncost 12.34\nsay {wide}\nsleep 60ms\n\
         say {HOSTILE}\nsleep 60ms\nsay {wide}\nfinal done\n"
    );
    let place = Place::rehearsing(&script);
    for columns in [200, 80, 40, 17, 5, 1] {
        let screen = Screen::of(&place, &["agent", "run", "--role", "implementer", "x"], columns);
        screen.assert_harmless();
        let drawn: Vec<&str> = screen.bytes.split("\r\x1b[2K").skip(1).collect();
        // How often it is drawn depends on the load of the machine.
        assert!(drawn.len() > 1, "{:?}", screen.bytes);
        for line in drawn {
            // Text after a line end is not part of the status line.
            let line = without_own_colours(line.split(['\r', '\n']).next().unwrap());
            let is_kept = line.starts_with('[') || line.starts_with("done");
            assert!(is_kept || line.width() < usize::from(columns), "{columns}: {line:?}");
        }
    }
    Screen::of(&place, &["agent", "run", "--role", "implementer", "x"], 60).assert_fits(60);
}

#[test]
fn rows_of_runs_have_lines_of_their_own_where_they_are_too_wide() {
    let place = Place::rehearsing("final done\n");
    place.agent_run(&["--role", "implementer"]);
    for (args, columns, lines) in
        [("runs", 200, 1), ("runs", 80, 2), ("runs", 40, 3), ("status", 80, 1), ("status", 56, 2)]
    {
        let screen = Screen::of(&place, &[args], columns).plain();
        let is_of_row = |line: &&str| {
            ["implementer rehearsal", "completed in", "Z-"].iter().any(|part| line.contains(part))
                && !line.contains("attempt-1.log")
                && !line.contains("ralph runs tail")
        };
        let row: Vec<&str> = screen.lines().filter(is_of_row).collect();
        assert_eq!(row.len(), lines, "{args} {columns}: {screen}");
        let fits = |line: &&str| line.trim_end().width() <= usize::from(columns);
        assert!(row.iter().all(fits), "{args} {columns}: {screen}");
    }
}

#[test]
fn the_demo_fits_into_a_narrow_terminal() {
    Screen::of(&Place::new(), &["demo"], 60).assert_fits(60);
}

#[test]
fn the_status_line_fits_into_a_terminal_that_has_become_narrower() {
    let wide =
        "日本語 and many words that go on and on and on, and do not end before the line does";
    let script =
        format!("say {wide}\nrun touch ready; cat go\nsleep 60ms\nsay {wide}\nfinal done\n");
    let place = Place::rehearsing(&script);
    let go = place.env.repo().join("go");
    assert!(Command::new("mkfifo").arg(&go).status().unwrap().success());
    let terminal = Terminal::start(&place, &["agent", "run", "x"], 100);
    wait_for_file(&place.env.repo().join("ready"));
    terminal.resize(30);
    fs::write(&go, "go\n").unwrap();
    let screen = terminal.finish();
    let drawn = screen.bytes.split("\r\x1b[2K").map(without_own_colours);
    let drawn: Vec<String> = drawn.filter(|line| line.contains("rehearsal ·")).collect();
    assert!(drawn.first().unwrap().width() > 30, "{drawn:?}");
    assert!(drawn.last().unwrap().width() < 30, "{drawn:?}");
}

#[test]
fn quick_lines_are_not_lost() {
    let says = (0..60).map(|n| format!("say line {n}.")).collect::<Vec<_>>().join("\n");
    let place = Place::rehearsing(&format!("{says}\nfinal done\n"));
    let finished = place.ralph(&["agent", "run", "x"]);
    for n in 0..60 {
        assert!(finished.stderr.contains(&format!("[says] line {n}.\n")), "{n}: {finished}");
    }
    let flood = Place::rehearsing("flood json 20000\nfinal done\n");
    let finished = flood.ralph(&["agent", "run", "x"]);
    assert!(finished.stderr.contains("lines left out here; the log has all of them"), "{finished}");
}

#[test]
fn a_reader_that_goes_away_stops_nothing_and_changes_no_exit_code() {
    let stage = Stage::new(&[PLANS, crate::pipeline::BUILDS, AGREES].concat());
    let shell = |script: &str| {
        let script = format!("{script}; exit ${{PIPESTATUS[0]}}").replace("ralph", RALPH);
        run(
            &stage.place.env,
            Path::new("/bin/bash"),
            &["-c", &script],
            &stage.place.variables(),
            "",
            PATIENCE,
        )
    };
    // The reader takes one byte of many lines and exits.
    let finished = shell("ralph pipeline 2>&1 >/dev/null | head -c 1");
    assert_eq!(finished.status.code(), Some(0), "{finished}");
    assert_eq!(stage.row("0001-greeting.md")["state"], "done");
    for (command, code) in [
        ("ralph specs | true", 0),
        ("ralph status --json | true", 0),
        ("ralph log --all | true", 0),
        ("ralph --help | true", 0),
        ("ralph man | true", 0),
        ("ralph nonsense 2>&1 | true", 2),
        ("ralph agent run --json --agent-cmd 'cat >/dev/null; exit 3' x 2>&1 | true", 1),
        ("ralph status 2>&- >&- | true", 0),
    ] {
        let finished = shell(command);
        assert_eq!(finished.status.code(), Some(code), "{command}: {finished}");
    }
}

/// The bytes sent to a terminal of some width.
pub(crate) struct Screen {
    bytes: String,
}

/// A `ralph` whose output goes to a terminal.
pub(crate) struct Terminal {
    terminal: OwnedFd,
    child: Child,
}

impl Terminal {
    pub(crate) fn start(place: &Place, args: &[&str], columns: u16) -> Terminal {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        resize(&terminal, columns);
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let open = || {
            let side = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
            Stdio::from(OwnedFd::from(side))
        };
        let child = Command::new(RALPH)
            .args(args)
            .current_dir(place.env.repo())
            .env_clear()
            .envs(place.variables())
            .env("TERM", "xterm")
            .stdin(Stdio::null())
            .stdout(open())
            .stderr(open())
            .spawn()
            .unwrap();
        Terminal { terminal, child }
    }

    fn resize(&self, columns: u16) {
        resize(&self.terminal, columns);
    }

    fn finish(self) -> Screen {
        let (code, screen) = self.end();
        assert_eq!(code, Some(0));
        screen
    }

    /// Waits for its end; returns the exit code and the screen.
    pub(crate) fn end(mut self) -> (Option<i32>, Screen) {
        let mut bytes = Vec::new();
        // Once the other side is closed, reading ends with an error.
        let _ = File::from(self.terminal).read_to_end(&mut bytes);
        let code = self.child.wait().unwrap().code();
        (code, Screen { bytes: String::from_utf8(bytes).unwrap() })
    }
}

fn resize(terminal: &OwnedFd, columns: u16) {
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}

impl Screen {
    fn of(place: &Place, args: &[&str], columns: u16) -> Screen {
        Terminal::start(place, args, columns).finish()
    }

    /// The text without Ralph's own sequences.
    pub(crate) fn plain(&self) -> String {
        without_own_colours(&self.bytes).replace("\r\x1b[2K", "\n").replace("\r\n", "\n")
    }

    /// Permanent lines are wrapped between words; only a path stays whole.
    #[track_caller]
    fn assert_fits(&self, columns: usize) {
        for line in self.plain().lines().map(|line| line.trim_start().trim_end_matches('\r')) {
            let is_whole = !line.trim().contains(' ') || line.contains('/');
            assert!(line.width() <= columns || is_whole, "{line:?}");
        }
    }

    #[track_caller]
    fn assert_harmless(&self) {
        // Emoji keep their joiners on a screen.
        assert_harmless("the screen", &self.plain().replace(['\u{200d}', '\u{fe0f}'], ""));
    }
}

fn without_own_colours(text: &str) -> String {
    let codes = ["32", "31", "33", "34", "36", "90", "1", "0"].map(|code| format!("\x1b[{code}m"));
    codes.iter().fold(text.to_owned(), |text, code| text.replace(code.as_str(), ""))
}
