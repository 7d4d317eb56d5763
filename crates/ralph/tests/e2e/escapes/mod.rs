//! Programs that try to escape, each under the kernel boundary and under detection alone.
//!
//! `docs/boundary.md` has the same table for people; a test keeps the two in sync.

mod aftermath;
mod beyond;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::Path;

use self::table::{ESCAPES, End, Escape};
use crate::harness::{PROGRAM, Place, RALPH, open_terminal};

/// Walks up to the process that guards the run.
const FIND_GUARD: &str = "GUARD=$PPID\nwhile ! grep -qa __guard /proc/$GUARD/cmdline; do \
     GUARD=$(sed -n 's/^PPid:\t//p' /proc/$GUARD/status); done\n";

/// A place with everything that the escapes target.
fn place_for(escape: &Escape) -> Place {
    let place = Place::new();
    let repo = place.env.repo();
    let claude = place.path("claude");
    let script = format!("{FIND_GUARD}({}) 2>&1\necho tried\n", escape.script);
    let said = r#"{"type":"result","subtype":"success","is_error":false,"result":"RESULT"}"#;
    // The agent is a program that behaves like a real one, so that its settings are watched.
    let program = format!(
        "#!/bin/sh\nout=$(sh ../try | tr '\\n\"\\\\\\t' '    ')\n\
         echo '{{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\"}}'\n\
         echo '{}'\n",
        said.replace("RESULT", "'\"$out\"'")
    );
    fs::write(place.path("try"), script).unwrap();
    fs::write(&claude, program).unwrap();
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(place.env.home().join(".claude")).unwrap();
    fs::write(place.env.home().join(".claude/settings.json"), "{}\n").unwrap();
    fs::create_dir_all(repo.join("ralph/specs")).unwrap();
    fs::write(repo.join("ralph/specs/0001-a.md"), "# A\n").unwrap();
    fs::write(repo.join("ralph/plan.jsonl"), "{\"id\":1}\n").unwrap();
    fs::write(repo.join("ralph/.gitignore"), "runs/\nralph.log\nspecs/sessions/\n.*.ralph-tmp\n")
        .unwrap();
    fs::write(repo.join("shared.gitconfig"), "[core]\n\tpager = cat\n").unwrap();
    place.env.git(&["config", "include.path", "../shared.gitconfig"]);
    place.env.git(&["add", "ralph", "shared.gitconfig"]);
    place.env.git(&["commit", "-q", "-m", "home"]);
    place.env.git(&["init", "-q", "inner"]);
    fs::create_dir_all(repo.join(".git/hooks")).unwrap();
    fs::write(repo.join(".git/hooks/mine"), "#!/bin/sh\n").unwrap();
    fs::write(repo.join("mine"), "not committed\n").unwrap();
    fs::create_dir_all(place.env.home().join(".ssh")).unwrap();
    fs::write(place.env.home().join(".ssh/id"), "secret\n").unwrap();
    let fetched = place.env.home().join(".cargo/registry/src/i/a-1");
    fs::create_dir_all(&fetched).unwrap();
    fs::write(fetched.join("lib.rs"), "pub fn a() {}\n").unwrap();
    for name in [
        ".cargo/credentials.toml",
        ".m2/settings.xml",
        ".hex/hex.config",
        ".stack/upload/credentials.json",
        ".npmrc",
        ".config/gh/hosts.yml",
    ] {
        let path = place.env.home().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "secret\n").unwrap();
    }
    place.env.git(&["init", "-q", "--bare", ".git/modules/module"]);
    fs::create_dir_all(place.path("victim/work/inner")).unwrap();
    fs::write(place.path("victim/work/inner/file"), "mine\n").unwrap();
    fs::create_dir(place.path("victim/changes")).unwrap();
    fs::write(place.path("victim/file"), "").unwrap();
    place.configure("agent = \"claude\"\n[agents.claude]\nexe = \"../claude\"\n");
    place
}

/// The boundary of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Both,
    Landlock,
    Detect,
}

impl Held {
    fn expected(self, escape: &Escape) -> End {
        match self {
            Held::Both => escape.both,
            Held::Landlock => escape.landlock,
            Held::Detect => escape.detect,
        }
    }
}

/// What a person has on the machine besides files: sockets, and a terminal.
struct Outside {
    _stream: UnixListener,
    _datagrams: [UnixDatagram; 2],
    _terminal: (OwnedFd, OwnedFd),
}

impl Outside {
    fn new(place: &Place) -> Outside {
        let stream = UnixListener::bind(place.path("sock")).unwrap();
        let name = fs::metadata(place.path("sock")).unwrap().ino().to_string();
        let unnamed = SocketAddr::from_abstract_name(name).unwrap();
        let datagrams = [
            UnixDatagram::bind(place.path("datagrams")).unwrap(),
            UnixDatagram::bind_addr(&unnamed).unwrap(),
        ];
        let terminal = open_terminal();
        let path = rustix::termios::ttyname(&terminal.1, Vec::new()).unwrap();
        fs::write(place.path("terminal"), path.to_bytes()).unwrap();
        Outside { _stream: stream, _datagrams: datagrams, _terminal: terminal }
    }
}

fn try_to(escape: &Escape, held: Held) {
    let (expected, place) = (held.expected(escape), place_for(escape));
    let boundary = match held {
        Held::Both => "strict",
        Held::Landlock => "kernel",
        Held::Detect => "detect",
    };
    if held == Held::Landlock {
        place.more("[sandbox]\nnamespaces = \"off\"\n");
    }
    let _outside = Outside::new(&place);
    let before = picture(&place);
    let report = place.agent_run(&["--boundary", boundary, "--role", escape.role]);
    let told = format!("{} ({held:?})\n{}", escape.name, report.finished);
    let said = report.json["final_message"].as_str().unwrap_or_default();
    assert!(said.contains("tried"), "{told}");
    place.assert_nothing_left();
    let marked = shell_succeeds(&place, escape.mark);
    let names = |list: &str| report.json["changes"][list].as_array().unwrap().len();
    assert_eq!(names("left"), 0, "{told}");
    match expected {
        End::Stopped => {
            assert!(!marked && !said.contains("escaped"), "{told}");
            assert_eq!((names("violations"), names("put_back")), (0, 0), "{told}");
        }
        End::Undone => {
            assert!(!marked, "{told}");
            assert_eq!((report.outcome(), report.exit_code()), ("violation", Some(1)), "{told}");
            assert!(names("put_back") > 0, "{told}");
        }
        End::UndoneQuietly => {
            assert!(!marked, "{told}");
            assert_eq!(report.outcome(), "completed", "{told}");
            assert!(names("put_back") > 0, "{told}");
        }
        // An undetectable escape is not required to succeed: a machine may have its own restrictions.
        End::Unseen => {
            assert_eq!((names("violations"), names("put_back")), (0, 0), "{told}");
            return;
        }
    }
    if escape.name.contains("daemon") {
        return;
    }
    assert_eq!(picture(&place), before, "{told}");
}

/// Tries them all, even after one has succeeded: all with `RALPH_ESCAPES=all` (`cargo xtask escapes`), those whose names
/// contain its value with any other, and every third without it.
fn try_all(held: Held) {
    let which = std::env::var("RALPH_ESCAPES").unwrap_or_default();
    let is_tried = |number: usize, escape: &Escape| match which.as_str() {
        "" => number % 3 == held as usize,
        "all" => true,
        word => escape.name.contains(word),
    };
    let escaped: Vec<&str> = ESCAPES
        .iter()
        .enumerate()
        .filter(|(number, escape)| is_tried(*number, escape))
        .filter(|(_, escape)| std::panic::catch_unwind(|| try_to(escape, held)).is_err())
        .map(|(_, escape)| escape.name)
        .collect();
    assert!(escaped.is_empty(), "{escaped:?}");
}

/// Runs tests of this program as an unprivileged user if this one is root. Otherwise they have already run
/// unprivileged.
pub(crate) fn as_an_ordinary_user(tests: &[&str]) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = tempfile::Builder::new().prefix("ralph-").tempdir_in("/var/tmp").unwrap();
    let at = |name: &str| place.path().join(name);
    // Other users may not have access to root's build directory.
    fs::copy(std::env::current_exe().unwrap(), at("tests")).unwrap();
    fs::copy(RALPH, at("ralph")).unwrap();
    for (path, mode) in
        [(place.path().to_owned(), 0o755), (at("tests"), 0o755), (at("ralph"), 0o755)]
    {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let whole = std::env::var("RALPH_ESCAPES").unwrap_or_default();
    let told = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"])
        .arg(at("tests"))
        .arg("--exact")
        .args(tests)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .env("RALPH_ESCAPES", whole)
        .env(PROGRAM, at("ralph"))
        .current_dir("/")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&told.stdout);
    let counted = format!("{} passed", tests.len());
    assert!(told.status.success() && output.contains(&counted), "{output}");
}

fn shell_succeeds(place: &Place, command: &str) -> bool {
    let finished = crate::support::process::run(
        &place.env,
        Path::new("/bin/sh"),
        &["-c", command],
        &place.variables(),
        "",
        crate::harness::PATIENCE,
    );
    finished.status.success()
}

/// Every file of the repository and its refs, except Ralph's own and those that only depend on time.
fn picture(place: &Place) -> BTreeMap<String, (u32, Vec<u8>)> {
    let root = place.env.repo();
    let mut picture = BTreeMap::new();
    let mut open = vec![root.clone()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            let passed = [
                ".git/objects",
                ".git/logs",
                ".git/refs/ralph",
                ".git/worktrees",
                ".git/COMMIT_EDITMSG",
                ".git/index",
                "ralph/runs",
                "ralph/ralph.log",
            ];
            if passed.contains(&name.as_str()) {
                continue;
            }
            let found = fs::symlink_metadata(&path).unwrap();
            if found.is_dir() {
                open.push(path);
            } else {
                let content = fs::read(&path).unwrap_or_default();
                picture.insert(name, (found.permissions().mode(), content));
            }
        }
    }
    picture
}

#[test]
fn both_layers_stop_what_they_can_and_the_rest_is_undone() {
    try_all(Held::Both);
}

#[test]
fn landlock_alone_stops_what_it_can_and_the_rest_is_undone() {
    try_all(Held::Landlock);
}

#[test]
fn without_the_kernel_what_is_watched_is_undone_all_the_same() {
    try_all(Held::Detect);
}

#[test]
fn an_ordinary_user_is_held_by_both_layers() {
    as_an_ordinary_user(&["escapes::both_layers_stop_what_they_can_and_the_rest_is_undone"]);
}

#[test]
fn an_ordinary_user_is_held_by_landlock_alone() {
    as_an_ordinary_user(&["escapes::landlock_alone_stops_what_it_can_and_the_rest_is_undone"]);
}

#[test]
fn what_an_ordinary_user_changes_is_undone_without_the_kernel() {
    as_an_ordinary_user(&["escapes::without_the_kernel_what_is_watched_is_undone_all_the_same"]);
}

#[test]
fn reports_need_no_state_that_an_ordinary_user_can_write() {
    as_an_ordinary_user(&["plan::soundness::a_report_needs_no_state_that_can_be_written"]);
}

#[test]
fn the_document_tells_the_same_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/boundary.md");
    let text = fs::read_to_string(path).unwrap();
    let rows: Vec<String> = ESCAPES
        .iter()
        .map(|Escape { name, role, both, landlock, detect, .. }| {
            let [both, landlock, detect] = [both, landlock, detect].map(|end| end.words());
            format!("| {name} | {role} | {both} | {landlock} | {detect} |")
        })
        .collect();
    let told: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with("| what is tried"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .collect();
    assert_eq!(told, rows, "the table of docs/boundary.md should be:\n{}", rows.join("\n"));
}
