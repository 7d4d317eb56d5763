//! What a gate can access and leave behind: its checkout, its processes, its output, and the results of setup.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::gates::{GATE, Gated, attribution, cargo_says, log};
use crate::harness::{PATIENCE, wait_until};
use crate::support::process::run;

#[test]
fn a_gate_that_hangs_is_ended_in_time_and_leaves_nothing() {
    let gated = Gated::new("echo $$; sleep 1000 & sleep 1000", "");
    gated.place.configure(&format!("{GATE}timeout = \"300ms\"\n"));
    let (code, report) = gated.gates(&[]);
    assert_eq!(
        (code, report["gates"][0]["run"]["status"]["status"].as_str().unwrap()),
        (1, "timed_out")
    );
    assert!(log(&report).trim().parse::<u32>().is_ok());
    gated.place.assert_nothing_left();
}

#[test]
fn a_gate_that_leaves_a_daemon_leaves_nothing() {
    let check =
        "setsid sh -c 'echo $$; trap \"\" TERM HUP; while :; do sleep 1000; done' &\nsleep 0.2";
    let gated = Gated::new(check, "");
    let (code, report) = gated.gates(&[]);
    assert_eq!(code, 0, "{report}");
    assert!(log(&report).trim().parse::<u32>().is_ok());
    gated.place.assert_nothing_left();
}

#[test]
fn a_flood_of_output_is_kept_whole() {
    const SIZE: u64 = 1 << 28;
    let gated = Gated::new(&format!("head -c {SIZE} /dev/zero; {}", cargo_says(3)), "");
    let (code, report) = gated.gates(&[]);
    assert_eq!(code, 0, "{report}");
    let length = fs::metadata(report["gates"][0]["log"].as_str().unwrap()).unwrap().len();
    assert!(length > SIZE, "{length}");
}

#[test]
fn ctrl_c_ends_the_gates_and_everything_they_started() {
    let gated = Gated::new("echo $$ > \"$TMPDIR/../pid\"; sleep 1000", "");
    let running = gated.place.start(&["gates", "run"]);
    let tmp = gated.place.env.tmp();
    let pid_file = || {
        let scratches = fs::read_dir(&tmp).unwrap().map(|entry| entry.unwrap().path());
        scratches.map(|scratch| scratch.join("pid")).find(|pid| pid.exists())
    };
    wait_until(PATIENCE, "the gate runs", || {
        pid_file().is_some_and(|pid| fs::read_to_string(pid).unwrap().ends_with('\n'))
    });
    running.signal(Signal::INT);
    let (code, said) = running.finish();
    assert_eq!(code, Some(130), "{said}");
    gated.place.assert_nothing_left();
}

#[test]
fn a_gate_writes_its_checkout_and_nothing_else_and_has_no_network() {
    let check = r#"
touch inside && touch "$TMPDIR/scratch" || exit 9
for target in "$(git rev-parse --git-dir)/planted" "$OUTSIDE/planted" "$HOME/planted"; do
    if touch "$target" 2>/dev/null; then echo "wrote $target"; fi
done
git rev-parse HEAD
env | grep -E '^(RALPH_HOME|GIT_)' && exit 8
python3 - <<'PYTHON' || exit 7
import socket
def attempt(name, connect):
    try:
        connect(); print(name)
    except OSError:
        print("no", name)
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen()
attempt("own", lambda: socket.create_connection(server.getsockname()))
outside = ("127.0.0.1", PORT)
attempt("outside", lambda: socket.create_connection(outside))
attempt("multipath", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).connect(outside))
attempt("fast open", lambda: socket.socket().sendto(b"x", 0x20000000, outside))
attempt("datagram", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 9)))
attempt("hypervisor", lambda: socket.socket(40, socket.SOCK_STREAM))
try:
    socket.socket(socket.AF_UNIX); print("unix")
except PermissionError:
    print("no unix")
PYTHON
"#;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let check = check.replace("PORT", &listener.local_addr().unwrap().port().to_string());
    let gated = Gated::new(&check, "boundary = \"kernel\"");
    let mut variables = gated.place.variables();
    variables.push(("OUTSIDE".to_owned(), crate::support::text(&gated.place.env.repo())));
    variables.push(("GIT_DIR".to_owned(), "/nowhere".to_owned()));
    variables.push(("RALPH_HOME".to_owned(), "ralph".to_owned()));
    let closed = "no outside\nno multipath\nno fast open\nno datagram\nno hypervisor\nno unix\n";
    let open = "own\noutside\nno hypervisor\nunix\n";
    let landlock = "[sandbox]\nnamespaces = \"off\"\n";
    for (layers, more, expected) in [
        // In its own network namespace a gate can reach its own servers.
        ("", "", format!("own\n{closed}")),
        (landlock, "", format!("no own\n{closed}")),
        ("", "net = true\nunix = true\n", open.to_owned()),
        (landlock, "net = true\nunix = true\n", open.to_owned()),
    ] {
        let config = format!("boundary = \"kernel\"\n{layers}{GATE}{more}");
        gated.place.configure(&config);
        let ralph = std::path::Path::new(crate::harness::RALPH);
        let args = ["gates", "run", "--json"];
        let finished = run(&gated.place.env, ralph, &args, &variables, "", PATIENCE);
        let report: Value =
            serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{finished}"));
        let told = log(&report);
        // Whether a machine has these at all depends on the machine.
        let told: Vec<&str> = told
            .lines()
            .filter(|line| {
                more.is_empty()
                    || !["multipath", "fast open", "datagram"]
                        .iter()
                        .any(|kind| line.ends_with(kind))
            })
            .collect();
        let expected = format!("{}\n{expected}", gated.head());
        assert_eq!(told, expected.lines().collect::<Vec<_>>(), "{finished}");
    }
}

/// What a gate leaves, also in a cache, reaches no other gate at the same commit. What an accepted commit left in a cache is
/// there for the same gate the next time, as a copy.
#[test]
fn one_gate_leaves_nothing_for_the_next_but_a_cache_if_the_person_wants_it() {
    let none = json!({ "state": "cold" });
    let kept = json!({ "state": "warm", "paths": ["kept"] });
    // Which cache `second` finds, and what the report says of caches, the first time and the second.
    for (mode, sees, reports) in [
        ("accepted", "own", [&none, &kept]),
        ("cold", "none", [&none, &none]),
        ("warm", "first's", [&kept, &kept]),
    ] {
        let gated = Gated::new("true", "");
        gated.script("first", "mkdir -p kept; touch planted ignored kept/planted");
        gated.script(
            "second",
            "test ! -f planted || exit 1; echo found: $(ls kept 2>/dev/null | xargs); mkdir -p kept; touch kept/own",
        );
        gated.write(".gitignore", "ignored\n/ralph.toml\n");
        gated.commit("two gates");
        let two_gates = "[[gate]]\nname = \"first\"\nrun = [\"./first\"]\nfast = true\n\
                     [[gate]]\nname = \"second\"\nrun = [\"./second\"]\n";
        let settings = format!("[checkout]\ncache = [\"kept\"]\n[judge]\ncache = \"{mode}\"\n");
        gated.place.configure(&format!("{settings}{two_gates}"));
        for report in reports {
            let (code, found) = gated.gates(&[]);
            assert_eq!(code, 0, "{mode}: {found}");
            assert_eq!(found["gates"][0]["name"], "first", "fast ones first");
            assert_eq!(&found["caches"], report, "{mode}");
            if mode == "warm" {
                assert_eq!(found["level"], "checks_changed", "{found}");
            }
        }
        let report = gated.gates(&[]).1;
        let output = fs::read_to_string(report["gates"][1]["log"].as_str().unwrap()).unwrap();
        let expected = match sees {
            "own" => "found: own\n",
            "none" => "found:\n",
            _ => "found: own planted\n",
        };
        assert_eq!(output, expected, "{mode}");
    }
}

/// A virtual environment's Python finds its packages by the path with which it was started.
#[test]
fn a_program_that_is_named_by_a_path_is_told_that_path() {
    let gated = Gated::new("true", "");
    let gate = |run: &str| format!("[[gate]]\nname = \"g\"\nrun = {run}\n");
    let venv = "[checkout]\nsetup = [[\"sh\", \"-c\", \"mkdir -p venv/bin && ln -sf /bin/sh venv/bin/sh\"]]\n";
    let told = "case $0 in */venv/bin/sh) exit 0;; *) echo $0; exit 1;; esac";
    gated
        .place
        .configure(&format!("{venv}{}", gate(&format!("[\"venv/bin/sh\", \"-c\", \"{told}\"]"))));
    let finished = gated.place.ralph(&["gates", "run"]);
    assert_eq!(finished.status.code(), Some(0), "{finished}");
    gated.place.configure(&gate("[\"sh\", \"-c\", \"test $0 = sh\"]"));
    let finished = gated.place.ralph(&["gates", "run"]);
    assert_eq!(finished.status.code(), Some(0), "{finished}");
}

#[test]
fn setup_runs_when_it_must_and_its_failure_keeps_gates_from_running() {
    let gated = Gated::new("test -f deps/lib", "");
    gated.script("install", "mkdir -p deps; echo x >> deps/lib; test ! -f bad.lock");
    gated.write("Cargo.lock", "1");
    let base = gated.commit("setup");
    let with = |cache: &str| {
        gated.place.configure(&format!("[checkout]\nsetup = [[\"./install\"]]\n{cache}{GATE}"));
    };
    let setups = || {
        let finished = gated.place.ralph(&["gates", "run"]);
        assert_eq!(finished.status.code(), Some(0), "{finished}");
        finished.stderr.matches("[setup]").count()
    };
    with("cache = [\"deps\"]\n");
    assert_eq!((setups(), setups()), (1, 0), "kept in the cache");
    gated.write("Cargo.lock", "2");
    gated.commit("other dependencies");
    assert_eq!((setups(), setups()), (1, 0), "a lock file changed");
    with("");
    assert_eq!((setups(), setups()), (1, 1), "the reset takes it away");
    gated.write("bad.lock", "");
    gated.commit("setup fails");
    let (code, report) = gated.gates(&["--base", &base]);
    assert_eq!((code, attribution(&report).as_str()), (1, "broken"), "{report}");
    assert!(report["gates"][0]["obstacle"]["message"].as_str().unwrap().contains("./install"));
}

#[test]
fn submodules_and_large_files_that_nobody_filled_keep_gates_from_running() {
    let gated = Gated::new("true", "");
    let head = gated.head();
    let link = format!("160000,{head},sub");
    gated.place.env.git(&["update-index", "--add", "--cacheinfo", &link]);
    gated.place.env.git(&["commit", "--quiet", "--message", "a repository inside"]);
    // The gates ran before, but a submodule is for a person to decide on.
    let (_, report) = gated.gates(&["--base", &head]);
    assert_eq!(attribution(&report), "could_not_run", "{report}");
    let message = report["gates"][0]["obstacle"]["message"].as_str().unwrap();
    assert!(message.contains("`sub`") && message.contains(".gitmodules"), "{message}");
    assert!(!message.contains("submodule update"), "{message}");
    gated.write(".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = ../sub\n");
    gated.place.env.git(&["add", ".gitmodules"]);
    gated.place.env.git(&["commit", "--quiet", "--message", "submodule"]);
    let (_, report) = gated.gates(&[]);
    assert_eq!(attribution(&report), "could_not_run", "{report}");
    let message = report["gates"][0]["obstacle"]["message"].as_str().unwrap();
    assert!(message.contains("`sub`") && message.contains("submodule update"), "{message}");
    gated.place.env.git(&["rm", "--quiet", "--cached", "sub", ".gitmodules"]);
    fs::remove_file(gated.file(".gitmodules")).unwrap();
    gated.write(".gitattributes", "*.bin filter=lfs\n");
    gated.write("a.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
    gated.commit("large file");
    let (_, report) = gated.gates(&[]);
    assert_eq!(attribution(&report), "could_not_run", "{report}");
    let fill = "[checkout]\nsetup = [[\"sh\", \"-c\", \"echo content > a.bin\"]]\n";
    gated.place.configure(&format!("{fill}{GATE}"));
    assert_eq!(attribution(&gated.gates(&[]).1), "passed");
}

#[test]
fn a_workspace_in_a_subdirectory_runs_its_gates_there() {
    let gated = Gated::new("false", "");
    gated.script("part/check", "test -f only-here");
    gated.write("part/only-here", "");
    let base = gated.commit("a part");
    fs::rename(gated.file("ralph.toml"), gated.file("part/ralph.toml")).unwrap();
    gated.write(".gitignore", "ralph.toml\n");
    gated.write("part/src/x", "1");
    gated.commit("a change");
    let more = "paths = [\"src/**\"]\n";
    let config = fs::read_to_string(gated.file("part/ralph.toml")).unwrap();
    fs::write(gated.file("part/ralph.toml"), format!("{config}{more}")).unwrap();
    let root = crate::support::text(&gated.file("part"));
    let (code, report) = gated.gates(&["--root", &root, "--base", &base]);
    assert_eq!((code, attribution(&report).as_str()), (0, "passed"), "{report}");
    gated.write("elsewhere", "1");
    let later = gated.head();
    gated.commit("another change");
    let (_, report) = gated.gates(&["--root", &root, "--base", &later]);
    assert_eq!(report["unconcerned"], json!(["tests"]));
}

#[test]
fn two_ralphs_do_not_share_a_checkout() {
    let gated = Gated::new("touch \"$TMPDIR/../on\"; sleep 1000", "");
    let running = gated.place.start(&["gates", "run"]);
    let tmp = gated.place.env.tmp();
    wait_until(Duration::from_mins(1), "the gate runs", || {
        let scratches = fs::read_dir(&tmp).unwrap().map(|entry| entry.unwrap().path());
        scratches.into_iter().any(|scratch| scratch.join("on").exists())
    });
    let second = gated.place.ralph(&["gates", "run"]);
    assert_eq!(second.status.code(), Some(1), "{second}");
    assert!(second.stderr.contains("`ralph gates run` (pid"), "{second}");
    running.signal(Signal::INT);
    assert_eq!(running.finish().0, Some(130));
}

#[test]
fn without_the_kernel_gates_run_unconfined_and_the_report_says_so() {
    let gated = Gated::new("touch \"$HOME/written\"", "");
    gated.place.configure(&format!("boundary = \"detect\"\n{GATE}"));
    let (code, report) = gated.gates(&[]);
    assert_eq!((code, &report["boundary"]), (0, &json!("detect")), "{report}");
    assert!(gated.place.env.home().join("written").exists());
}
