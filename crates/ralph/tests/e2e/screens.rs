//! The screens of a person, as files in `tests/screens` for review: the first hour as one session, and single screens
//! at widths of 40, 80 and 120 columns.
//!
//! `RALPH_SCREENS=write` rewrites them. Variable parts (ids, times, the temporary directory) are replaced; screens at a
//! width contain none, because they would affect where lines wrap.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use crate::harness::Place;
use crate::hostile_text::Terminal;

const AGENT: &str = r#"cat >/dev/null; P='I AM HYPER SURE I AM DONE!'
case $RALPH_ROLE in
planner) printf '# Plan\n\n## Steps\n1. Say hello.\n' >"$RALPH_OUT/plan.md"; echo "$P";;
implementer) echo hello >greeting.txt; git add -A; git commit -qm 'Say hello'; git rev-parse HEAD; echo "$P";;
verifier) git rev-parse HEAD; echo "$P";;
esac
"#;

/// A repository of a person who has never used Ralph.
fn project() -> Place {
    let place = Place::new();
    fs::remove_file(place.env.repo().join("ralph.toml")).unwrap();
    fs::write(place.env.repo().join("Makefile"), "test:\n\t@echo ok\n").unwrap();
    place.commit_all("the project");
    place
}

/// Compares a text with the file of that name.
#[track_caller]
fn assert_screen(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/screens").join(name);
    if std::env::var_os("RALPH_SCREENS").is_some_and(|word| word == "write") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        return;
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let differ = kept.lines().zip(text.lines()).position(|(kept, now)| kept != now);
    assert_eq!(kept, text, "{name}, from line {differ:?} on; RALPH_SCREENS=write writes it anew");
}

/// Runs a command in a terminal, and records it with its output.
fn note(session: &mut String, place: &Place, args: &[&str], columns: u16) {
    let (code, screen) = Terminal::start(place, args, columns).end();
    let quoted = args.iter().map(|word| {
        if word.contains([' ', '"']) { format!("\"{word}\"") } else { (*word).to_owned() }
    });
    let typed: Vec<String> = ["ralph".to_owned()].into_iter().chain(quoted).collect();
    let shown = screen.plain();
    let exit = code.filter(|code| *code != 0).map(|code| format!("(exit {code})\n"));
    writeln!(session, "$ {}\n{}{}", typed.join(" "), shown.trim_start(), exit.unwrap_or_default())
        .unwrap();
}

/// Replaces variable parts.
fn steady(text: &str, place: &Place) -> String {
    let base = place.env.repo().parent().unwrap().display().to_string();
    let text = text.replace(&base, "/home/ann");
    let lines = text.lines().map(|line| {
        let line = match line.split_once("boundary: ") {
            Some((before, _)) => format!("{before}boundary: kernel"),
            None => line.to_owned(),
        };
        let mut steady = String::new();
        let mut word = String::new();
        for c in line.chars().chain(['\n']) {
            if c.is_ascii_alphanumeric() || c == '-' || c == ':' || c == '.' {
                word.push(c);
            } else {
                steady.push_str(steady_word(&word));
                word.clear();
                steady.push(c);
            }
        }
        steady
    });
    lines.collect()
}

fn steady_word(word: &str) -> &str {
    let is_hex = |text: &str| text.chars().all(|c| c.is_ascii_hexdigit());
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let has_unit = |unit: &str| word.strip_suffix(unit).is_some_and(is_number);
    let (first, rest) = word.split_once(':').unwrap_or((word, ""));
    if word.len() == 33
        && word.starts_with("20")
        && word[9..].starts_with(|c: char| c.is_ascii_digit())
    {
        "20260101-120000Z-1a2b3c4d5e6f7081"
    } else if word.len() == 40 && is_hex(word) {
        "1a2b3c4d5e6f70811a2b3c4d5e6f70811a2b3c4d"
    } else if [7, 8, 12].contains(&word.len()) && is_hex(word) {
        "1a2b3c4d"
    } else if let Some((name, _)) =
        word.rsplit_once('-').filter(|(_, id)| id.len() == 12 && is_hex(id))
    {
        name
    } else if has_unit("ms") || has_unit("s") {
        "1s"
    } else if is_number(first) && is_number(rest) && rest.len() == 2 {
        "12:00"
    } else if (word.len() >= 3 && is_number(word))
        || word.strip_suffix('k').is_some_and(|n| is_number(&n.replace('.', "")))
    {
        "1000"
    } else {
        word
    }
}

/// From nothing to a finished spec, as in the README.
#[test]
fn the_first_hour() {
    let place = project();
    let agent = place.path("agent.sh");
    fs::write(&agent, AGENT).unwrap();
    let agent = format!("sh {}", agent.display());
    let mut session = String::new();
    let wide = 240;
    note(&mut session, &place, &[], wide);
    note(&mut session, &place, &["init", "--ui", "plain"], wide);
    note(&mut session, &place, &["specs", "new", "Say hello"], wide);
    note(&mut session, &place, &["pipeline", "--ui", "plain", "--agent-cmd", &agent], wide);
    let spec = place.env.repo().join("ralph/specs/0001-say-hello.md");
    fs::write(&spec, "# Say hello\n\n`greeting.txt` says hello.\n").unwrap();
    for args in [
        &["pipeline", "--ui", "plain"][..],
        &["pipeline", "--dry-run"],
        &["pipeline", "--ui", "plain", "--agent-cmd", &agent],
        &["specs"],
        &["status"],
        &["runs"],
        &["gates"],
        &["verify", "HEAD", "--ui", "plain"],
        &["answer", "yes"],
        &["pipeline", "--ui", "plain", "--agent-cmd", &agent],
    ] {
        note(&mut session, &place, args, wide);
    }
    assert_screen("first-hour.txt", &steady(&session, &place));
}

/// What `init` finds in projects of five kinds, among a person's changes, and where git is missing.
#[test]
fn the_first_minute_in_five_ecosystems() {
    let python = "[project]\nname = \"shop\"\n[tool.pytest.ini_options]\n";
    let node = "{\"scripts\": {\"test\": \"node --test\", \"lint\": \"eslint .\"}, \"devDependencies\": {\"eslint\": \"9\"}}\n";
    let projects: [(&str, &[(&str, &str)]); 5] = [
        (
            "Rust",
            &[
                ("Cargo.toml", "[package]\nname = \"shop\"\n"),
                ("Cargo.lock", ""),
                ("tests/a.rs", "#[test]\nfn a() {}\n"),
            ],
        ),
        (
            "Node",
            &[
                ("package.json", node),
                ("package-lock.json", "{}"),
                (".gitignore", ".env\n"),
                (".env", "K=1\n"),
            ],
        ),
        (
            "Python",
            &[("pyproject.toml", python), (".gitignore", ".venv\n"), (".venv/pyvenv.cfg", "")],
        ),
        ("Go", &[("go.mod", "module shop\n"), ("shop_test.go", "package shop\n")]),
        ("C", &[("Makefile", "check:\n\t@echo ok\n"), ("shop.c", "int main(){}\n")]),
    ];
    let mut session = String::new();
    for (name, files) in projects {
        let place = Place::new();
        fs::remove_file(place.env.repo().join("ralph.toml")).unwrap();
        for (file, text) in files {
            let path = place.env.repo().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        place.commit_all("the project");
        fs::write(place.env.repo().join("notes.txt"), "mine\n").unwrap();
        writeln!(session, "# {name}\n").unwrap();
        note(&mut session, &place, &["init", "--no-gates", "--no-commit"], 120);
        let settings = fs::read_to_string(place.env.repo().join("ralph.toml")).unwrap();
        let plain = settings.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let plain: Vec<&str> = plain.collect();
        writeln!(session, "$ grep '^[^#]' ralph.toml\n{}\n", plain.join("\n")).unwrap();
    }
    let place = Place::new();
    fs::remove_dir_all(place.env.repo().join(".git")).unwrap();
    fs::remove_file(place.env.repo().join("ralph.toml")).unwrap();
    writeln!(session, "# No git\n").unwrap();
    let mut last = String::new();
    for args in [&[][..], &["init"], &["specs"], &["pipeline"], &["status"]] {
        note(&mut last, &place, args, 120);
    }
    session.push_str(&steady(&last, &place));
    assert_screen("ecosystems.txt", &session);
}

/// Screens next to an editor, or on a phone.
#[test]
fn screens_at_three_widths() {
    for columns in [40, 80, 120] {
        let place = project();
        let mut session = String::new();
        note(&mut session, &place, &["init", "--no-gates", "--no-commit"], columns);
        place.commit_all("set up");
        for title in ["Say hello", "Reset a forgotten password by e-mail"] {
            place.ralph(&["specs", "new", title]);
        }
        let specs = place.env.repo().join("ralph/specs");
        fs::write(
            specs.join("0001-say-hello.md"),
            "# Say hello to everyone who asks for it\n\nx\n",
        )
        .unwrap();
        fs::write(specs.join("plans/0001-say-hello.md"), "# Plan\n\n1. Say hello.\n").unwrap();
        place.ralph(&["set-spec", "0002-reset-a-forgotten-password-by-e-mail.md"]);
        for name in ["Validate the address", "Send the message, and keep what was sent for a week"]
        {
            let task = format!(r#"{{"name": "{name}", "id": "t-{:04}"}}"#, name.len());
            place.ralph(&["task", "add", &task]);
        }
        for args in [
            &["specs"][..],
            &["query", "tasks", "--table"],
            &["agent", "list"],
            &["limits"],
            &["loop", "--resume", "--agent", "rehearsal"],
            &["pipeline", "99"],
            &["pipelin"],
            &["agent", "run", "--max-cost", "x", "y"],
            &["help", "answer"],
            &["config", "budget"],
        ] {
            note(&mut session, &place, args, columns);
        }
        assert_screen(&format!("columns-{columns}.txt"), &session);
    }
}
