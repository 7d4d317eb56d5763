//! Programs that try to get out of their bounds, each under the kernel boundary and under detection alone.
//!
//! `docs/boundary.md` tells people the same table; a test holds the two together.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Place, Report, wait_for_file};

/// How an escape ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The kernel, or the end of the run, prevents it.
    Stopped,
    /// It happens, is undone, and the run has failed.
    Undone,
    /// It happens, is undone and told; the run goes on.
    UndoneQuietly,
    /// It happens, and nobody sees it.
    Unseen,
}

impl End {
    const fn words(self) -> &'static str {
        match self {
            End::Stopped => "stopped",
            End::Undone => "undone, the run fails",
            End::UndoneQuietly => "undone and told",
            End::Unseen => "not seen",
        }
    }
}

struct Escape {
    name: &'static str,
    role: &'static str,
    /// What is tried, by a shell. It says `escaped` if it can tell that it did.
    script: &'static str,
    /// Succeeds if the escape has left its mark.
    mark: &'static str,
    kernel: End,
    detect: End,
}

const fn escape(
    name: &'static str,
    role: &'static str,
    script: &'static str,
    mark: &'static str,
    kernel: End,
    detect: End,
) -> Escape {
    Escape { name, role, script, mark, kernel, detect }
}

use End::{Stopped, Undone, UndoneQuietly, Unseen};

const ESCAPES: &[Escape] = &[
    escape(
        "write to a file of the workspace",
        "planner",
        "echo x >> README.md",
        "grep x README.md",
        Stopped,
        Undone,
    ),
    escape("make a file", "planner", "mkdir -p a/b; echo x > a/b/c", "test -e a", Stopped, Undone),
    escape("remove a file", "planner", "rm README.md", "test ! -e README.md", Stopped, Undone),
    escape("rename a file", "planner", "mv README.md other", "test -e other", Stopped, Undone),
    escape(
        "rename another file over one",
        "planner",
        "echo x > $TMPDIR/x; mv $TMPDIR/x README.md",
        "grep x README.md",
        Stopped,
        Undone,
    ),
    escape("truncate a file", "planner", ": > README.md", "test ! -s README.md", Stopped, Undone),
    escape(
        "change permissions",
        "planner",
        "chmod 777 README.md",
        "test -x README.md",
        Undone,
        Undone,
    ),
    escape(
        "edit in place and put the time back",
        "planner",
        "touch -r README.md $TMPDIR/t; printf 'B repository.\\n' > README.md; touch -r $TMPDIR/t README.md",
        "grep '^B' README.md",
        Stopped,
        Undone,
    ),
    escape(
        "write through a symbolic link",
        "planner",
        "ln -s $PWD/README.md $TMPDIR/l; echo x >> $TMPDIR/l",
        "grep x README.md",
        Stopped,
        Undone,
    ),
    escape(
        "write through a hard link",
        "planner",
        "ln README.md $TMPDIR/h && echo x >> $TMPDIR/h",
        "grep x README.md",
        Stopped,
        Undone,
    ),
    escape(
        "write through /proc/self/fd",
        "planner",
        "exec 3<README.md; echo x >> /proc/self/fd/3",
        "grep x README.md",
        Stopped,
        Undone,
    ),
    escape(
        "hide a file behind a new .gitignore",
        "planner",
        "echo planted > .gitignore; echo x > planted",
        "test -e planted",
        Stopped,
        Undone,
    ),
    escape(
        "overwrite what the person has not committed",
        "planner",
        "echo x > mine",
        "grep x mine",
        Stopped,
        Undone,
    ),
    escape(
        "commit as a role that must not",
        "planner",
        "git commit -q --allow-empty -m sneaky",
        "git log --format=%s -1 | grep sneaky",
        Stopped,
        Undone,
    ),
    escape(
        "move HEAD to another branch",
        "planner",
        "git symbolic-ref HEAD refs/heads/other",
        "grep other .git/HEAD",
        Stopped,
        Undone,
    ),
    escape(
        "stage a change",
        "planner",
        "git update-index --force-remove README.md",
        "git diff --cached --name-only | grep README",
        Stopped,
        UndoneQuietly,
    ),
    escape(
        "commit through a linked worktree",
        "planner",
        "git worktree add -q -b side ../side && cd ../side && git commit -q --allow-empty -m x",
        "git rev-parse -q --verify side",
        Stopped,
        Undone,
    ),
    escape(
        "write outside the workspace",
        "builder",
        "echo x > ../outside",
        "test -e ../outside",
        Stopped,
        Unseen,
    ),
    escape(
        "write to private state",
        "builder",
        "for f in ../state/ralph/*/state.json; do echo '{}' > $f; done",
        "grep -x '{}' ../state/ralph/*/state.json",
        Stopped,
        Undone,
    ),
    escape(
        "plant a hook",
        "builder",
        "echo 'touch evil' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        "test -e .git/hooks/pre-commit",
        UndoneQuietly,
        UndoneQuietly,
    ),
    escape(
        "put a link in the place of the hooks",
        "builder",
        "rm -rf .git/hooks; ln -s $TMPDIR .git/hooks",
        "test -L .git/hooks || test ! -e .git/hooks/mine",
        UndoneQuietly,
        UndoneQuietly,
    ),
    escape(
        "set core.fsmonitor",
        "builder",
        "git config core.fsmonitor 'touch evil; false'",
        "git config core.fsmonitor",
        UndoneQuietly,
        UndoneQuietly,
    ),
    escape(
        "set core.hooksPath",
        "builder",
        "git config core.hooksPath /tmp",
        "git config core.hooksPath",
        UndoneQuietly,
        UndoneQuietly,
    ),
    escape(
        "change a file that git's configuration includes",
        "builder",
        "printf '[core]\\n\\tpager = evil\\n' > shared.gitconfig",
        "grep evil shared.gitconfig",
        UndoneQuietly,
        UndoneQuietly,
    ),
    escape(
        "replace commits by a graft",
        "builder",
        "git replace -f HEAD $(git commit-tree -m fake HEAD^{tree})",
        "git replace -l | grep .",
        UndoneQuietly,
        UndoneQuietly,
    ),
    escape(
        "put another git directory in place",
        "builder",
        "mv .git hidden; git init -q .; git config core.fsmonitor evil",
        "git config core.fsmonitor || test -e hidden",
        Undone,
        Undone,
    ),
    escape(
        "change ralph.toml",
        "builder",
        "echo 'boundary = \"off\"' > ralph.toml",
        "grep off ralph.toml",
        Undone,
        Undone,
    ),
    escape(
        "change a state file of home",
        "builder",
        "echo x > ralph/plan.jsonl",
        "grep x ralph/plan.jsonl",
        Undone,
        Undone,
    ),
    escape(
        "mark a spec as done",
        "builder",
        "mkdir -p ralph/specs/done; echo x > ralph/specs/done/0001-a.md",
        "test -e ralph/specs/done/0001-a.md",
        Undone,
        Undone,
    ),
    escape(
        "move home away",
        "builder",
        "mv ralph aside",
        "test -e aside || test ! -e ralph",
        Undone,
        Undone,
    ),
    escape(
        "change what home keeps out of git",
        "builder",
        "echo '!runs' > ralph/.gitignore",
        "grep '!runs' ralph/.gitignore",
        UndoneQuietly,
        UndoneQuietly,
    ),
    escape(
        "remove a spec",
        "builder",
        "rm ralph/specs/0001-a.md",
        "test ! -e ralph/specs/0001-a.md",
        UndoneQuietly,
        UndoneQuietly,
    ),
    escape(
        "change the agent's own settings",
        "builder",
        "echo '{\"hooks\":{}}' > $HOME/.claude/settings.json",
        "grep hooks ../home/.claude/settings.json",
        UndoneQuietly,
        UndoneQuietly,
    ),
    escape(
        "mount something over the git directory",
        "builder",
        "unshare -m sh -c 'mount --bind $TMPDIR .git' && echo escaped",
        "test ! -e .git/HEAD",
        Stopped,
        Unseen,
    ),
    escape(
        "write to the memory of the guard",
        "builder",
        "(exec 3<>/proc/$GUARD/mem) && echo escaped",
        "false",
        Stopped,
        Unseen,
    ),
    escape(
        "signal the guard",
        "builder",
        "kill -0 $GUARD && echo escaped",
        "false",
        Stopped,
        Unseen,
    ),
    escape(
        "leave a daemon behind that writes later",
        "builder",
        "setsid sh -c 'trap \"\" TERM; echo > started; while [ ! -e go ]; do sleep 0.01; done; echo x > late' \
         >/dev/null 2>&1 & while [ ! -e started ]; do :; done",
        "touch go; test -e late",
        Stopped,
        Stopped,
    ),
    escape(
        "connect to a unix socket outside",
        "builder",
        "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Peer => \"../sock\") and print \"escaped\\n\"'",
        "false",
        Stopped,
        Unseen,
    ),
];

/// Climbs to the process that guards the run.
const FIND_GUARD: &str = "GUARD=$PPID\nwhile ! grep -qa __guard /proc/$GUARD/cmdline; do \
     GUARD=$(sed -n 's/^PPid:\t//p' /proc/$GUARD/status); done\n";

/// A place with everything in it that the escapes are about.
fn place_for(escape: &Escape) -> Place {
    let place = Place::new();
    let repo = place.env.repo();
    let claude = place.path("claude");
    let script = format!("{FIND_GUARD}({}) 2>&1\necho tried\n", escape.script);
    let said = r#"{"type":"result","subtype":"success","is_error":false,"result":"RESULT"}"#;
    // The agent is a program that says what a real one would, so that its settings are watched.
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
    fs::write(repo.join("ralph/.gitignore"), "runs/\nralph.log\nspecs/sessions/\n").unwrap();
    fs::write(repo.join("shared.gitconfig"), "[core]\n\tpager = cat\n").unwrap();
    place.env.git(&["config", "include.path", "../shared.gitconfig"]);
    place.env.git(&["add", "ralph", "shared.gitconfig"]);
    place.env.git(&["commit", "-q", "-m", "home"]);
    fs::create_dir_all(repo.join(".git/hooks")).unwrap();
    fs::write(repo.join(".git/hooks/mine"), "#!/bin/sh\n").unwrap();
    fs::write(repo.join("mine"), "not committed\n").unwrap();
    place.configure("agent = \"claude\"\n[agents.claude]\nexe = \"../claude\"\n");
    place
}

fn try_to(escape: &Escape, boundary: &str, expected: End) {
    let place = place_for(escape);
    let _listener = UnixListener::bind(place.path("sock")).unwrap();
    let before = picture(&place);
    let report = place.agent_run(&["--boundary", boundary, "--role", escape.role]);
    let told = format!("{} ({boundary})\n{}", escape.name, report.finished);
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
        // What cannot be seen is not asserted to succeed: a machine may have bounds of its own.
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

/// Tries them all, also after one has got out.
fn try_all(boundary: &str, expected: fn(&Escape) -> End) {
    let escaped: Vec<&str> = ESCAPES
        .iter()
        .filter(|escape| {
            std::panic::catch_unwind(|| try_to(escape, boundary, expected(escape))).is_err()
        })
        .map(|escape| escape.name)
        .collect();
    assert!(escaped.is_empty(), "{escaped:?}");
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

/// Every file of the repository and where its refs stand, but for what is Ralph's own or only a matter of time.
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
fn the_kernel_stops_what_it_can_and_the_rest_is_undone() {
    try_all("kernel", |escape| escape.kernel);
}

#[test]
fn without_the_kernel_what_is_watched_is_undone_all_the_same() {
    try_all("detect", |escape| escape.detect);
}

#[test]
fn the_document_tells_the_same_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/boundary.md");
    let text = fs::read_to_string(path).unwrap();
    let rows: Vec<String> = ESCAPES
        .iter()
        .map(|Escape { name, role, kernel, detect, .. }| {
            format!("| {name} | {role} | {} | {} |", kernel.words(), detect.words())
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

fn boundary<'a>(report: &'a Report, list: &str) -> Vec<&'a str> {
    let list = report.json["changes"][list].as_array().unwrap();
    list.iter().map(|found| found["path"].as_str().unwrap()).collect()
}

#[test]
fn what_is_undone_is_saved_first_in_a_commit_and_in_private_state() {
    let place = Place::new();
    fs::write(place.env.repo().join("mine"), "not committed\n").unwrap();
    let command = "echo agent > mine; echo agent > README.md; echo agent > new; echo done";
    let report =
        place.agent_run(&["--boundary", "detect", "--role", "planner", "--agent-cmd", command]);
    assert_eq!(boundary(&report, "violations"), ["README.md", "mine", "new"]);
    let commit = report.json["changes"]["displaced"].as_str().unwrap();
    for name in ["README.md", "mine", "new"] {
        assert_eq!(place.env.git(&["show", &format!("{commit}:{name}")]).trim(), "agent");
    }
    let saved = Path::new(report.json["changes"]["saved_in"].as_str().unwrap());
    assert_eq!(fs::read_to_string(saved.join("workspace/mine")).unwrap(), "agent\n");
    assert_eq!(fs::read_to_string(place.env.repo().join("mine")).unwrap(), "not committed\n");
    let status = place.ralph(&["status"]);
    assert!(
        status.to_string().contains("changed what it must not: README.md, mine, new"),
        "{status}"
    );
}

#[test]
fn a_branch_of_a_planner_is_kept_as_a_displaced_commit() {
    let place = Place::new();
    let main = place.env.git(&["rev-parse", "main"]);
    let command = "echo x > made; git add made; git commit -q -m sneaky; echo done";
    let report =
        place.agent_run(&["--boundary", "detect", "--role", "planner", "--agent-cmd", command]);
    assert_eq!(boundary(&report, "violations"), ["made", "refs/heads/main"]);
    assert_eq!(place.env.git(&["rev-parse", "main"]), main);
    assert_eq!(place.env.git(&["status", "--porcelain"]).trim(), "?? ralph.toml");
    let commit = report.json["changes"]["displaced"].as_str().unwrap();
    let kept = place.env.git(&["log", "--format=%s", commit]);
    assert!(kept.contains("sneaky"), "{kept}");
}

#[test]
fn what_a_person_does_while_a_confined_planner_runs_is_kept() {
    let place = Place::new();
    place.configure(&format!("writable = [{:?}]\n", place.path("ready-")));
    fs::create_dir(place.path("ready-")).unwrap();
    let command =
        "echo > ../ready-/yes; while [ ! -e ../ready-/go ]; do sleep 0.01; done; echo done";
    let args = ["agent", "run", "--json", "--boundary", "kernel", "--role", "planner"];
    let running = place.start(&[&args[..], &["--agent-cmd", command, "plan"]].concat());
    wait_for_file(&place.path("ready-/yes"));
    fs::write(place.env.repo().join("README.md"), "edited\n").unwrap();
    place.env.git(&["commit", "-q", "-am", "by hand"]);
    fs::write(place.env.repo().join("notes"), "mine\n").unwrap();
    fs::write(place.path("ready-/go"), "").unwrap();
    let (code, said) = running.finish();
    assert_eq!(code, Some(0), "{said}");
    let report: Value =
        serde_json::from_str(&fs::read_to_string(place.path("out")).unwrap()).unwrap();
    let kept: Vec<&str> = report["changes"]["kept"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| found["path"].as_str().unwrap())
        .collect();
    assert_eq!(kept, ["README.md", "notes", "refs/heads/main"]);
    assert_eq!(report["changes"]["violations"].as_array().unwrap().len(), 0);
    assert_eq!(place.env.commits()[0], "by hand");
}

#[test]
fn what_a_killed_ralph_could_not_compare_is_compared_at_the_next_start() {
    let place = Place::new();
    let toml = fs::read_to_string(place.env.repo().join("ralph.toml")).unwrap();
    let command = "echo evil > ralph.toml; echo x > .git/hooks/evil; echo > ready; sleep 600";
    let running = place.start(&["agent", "run", "--agent-cmd", command, "go"]);
    wait_for_file(&place.env.repo().join("ready"));
    running.signal(rustix::process::Signal::KILL);
    running.finish();
    // The broken configuration is in the way of the next start itself: it names what to do.
    fs::write(place.env.repo().join("ralph.toml"), "").unwrap();
    let report = place.agent_run(&["--agent-cmd", "echo fine"]);
    assert_eq!(report.outcome(), "completed");
    assert_eq!(fs::read_to_string(place.env.repo().join("ralph.toml")).unwrap(), toml);
    assert!(!place.env.repo().join(".git/hooks/evil").exists());
    let told = report.finished.to_string();
    assert!(told.contains("put back: .git/hooks/evil, ralph.toml"), "{told}");
}

#[test]
fn with_the_boundary_off_nothing_is_compared() {
    let place = Place::new();
    let command = "echo x >> README.md; echo 'boundary = \"off\"' >> ralph.toml; echo done";
    let report =
        place.agent_run(&["--boundary", "off", "--role", "planner", "--agent-cmd", command]);
    assert_eq!(report.outcome(), "completed");
    assert_eq!(boundary(&report, "put_back"), Vec::<&str>::new());
}

#[test]
fn branch_settings_of_a_builder_stay() {
    let place = Place::new();
    let command = "git config branch.main.remote origin; git config branch.main.merge refs/heads/main; echo ok";
    let report = place.agent_run(&["--agent-cmd", command]);
    assert_eq!(boundary(&report, "put_back"), Vec::<&str>::new(), "{}", report.finished);
    assert_eq!(place.env.git(&["config", "branch.main.remote"]).trim(), "origin");
}

#[test]
fn any_command_can_be_run_under_a_roles_boundary() {
    let place = Place::new();
    let command = "touch inside ../outside 2>/dev/null; test -e inside && echo in; test -e ../outside && echo out; \
                   echo x > $TMPDIR/x && cat; exit 7";
    for (role, expected) in [("builder", "in\n"), ("planner", "")] {
        let args = ["sandbox", "--boundary", "kernel", "--role", role, "--", "sh", "-c", command];
        let finished = place.ralph(&args);
        assert_eq!(finished.status.code(), Some(7), "{finished}");
        assert_eq!(finished.stdout, expected, "{finished}");
        let _ = fs::remove_file(place.env.repo().join("inside"));
    }
    let finished = place.ralph(&["sandbox", "--verbose", "--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(finished.status.code(), Some(143), "{finished}");
    assert!(finished.to_string().contains("boundary: kernel"), "{finished}");
    let scratches = fs::read_dir(place.env.tmp()).unwrap().count();
    assert_eq!(scratches, 0, "the scratch directories are gone");
    let finished = place.ralph(&["sandbox", "--", "no-such-program"]);
    assert_eq!(finished.status.code(), Some(2), "{finished}");
}
