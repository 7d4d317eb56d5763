//! The first hour with Ralph: setup, status, the first spec.

use std::fs;

use serde_json::Value;

use crate::harness::Place;

/// A repository with one commit, a gate defined by the project itself, and no trace of Ralph.
fn project(recipe: &str) -> Place {
    let place = Place::new();
    fs::remove_file(place.env.repo().join("ralph.toml")).unwrap();
    fs::write(place.env.repo().join("Makefile"), format!("test:\n\t{recipe}\n")).unwrap();
    place.commit_all("the project");
    place
}

#[test]
fn init_commits_what_it_made_and_nothing_of_the_persons() {
    let place = project("@echo ok");
    fs::write(place.env.repo().join("notes.txt"), "mine").unwrap();
    fs::write(place.env.repo().join("staged.txt"), "mine").unwrap();
    place.env.git(&["add", "staged.txt"]);
    let finished = place.ralph(&["init"]);
    assert_eq!(finished.status.code(), Some(0), "{finished}");
    assert_eq!(place.env.git(&["status", "--porcelain"]), "A  staged.txt\n?? notes.txt");
    assert_eq!(place.env.git(&["log", "-1", "--format=%s"]), "ralph: set up");
    let files = place.env.git(&["show", "--name-only", "--format=", "HEAD"]);
    let is_ralphs = |name: &str| name == "ralph.toml" || name.starts_with("ralph/");
    assert!(files.lines().all(is_ralphs), "{files}");
    assert!(files.lines().any(|name| name == "ralph.toml"), "{files}");
    // The detected gate ran.
    assert!(finished.stderr.contains("tests"), "{finished}");
    assert!(finished.stderr.contains("passed"), "{finished}");
}

#[test]
fn init_leaves_everything_uncommitted_if_asked_to() {
    let place = project("@echo ok");
    let finished = place.ralph(&["init", "--no-commit", "--no-gates", "--json"]);
    let report: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(report["commit"], Value::Null, "{finished}");
    assert_eq!(report["gates_passed"], Value::Null, "{finished}");
    let status = place.env.git(&["status", "--porcelain"]);
    assert_eq!(status, "?? ralph.toml\n?? ralph/");
}

#[test]
fn init_asks_before_it_commits_at_a_terminal() {
    let place = project("@echo ok");
    let (code, shown) = place.at_terminal(&["init", "--no-gates"], b"n\n");
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("Commit these files?"), "{shown}");
    assert_eq!(place.env.git(&["log", "-1", "--format=%s"]), "the project");
}

/// What the clone has is not trusted there yet, but it is not missing; and nothing is left to commit.
#[test]
fn init_in_a_clone_of_a_project_that_is_set_up_knows_its_gate_and_asks_for_no_commit() {
    let place = project("@echo ok");
    let settings =
        "[checkout]\ncopy = [\".env\"]\n[[gate]]\nname = \"tests\"\nrun = [\"make\", \"test\"]\n";
    fs::write(place.env.repo().join("ralph.toml"), settings).unwrap();
    fs::write(place.env.repo().join(".gitignore"), ".env\n").unwrap();
    place.ralph(&["init", "--no-gates"]);
    place.commit_all("set up");
    place.env.git(&["clean", "-dfxq"]);
    let _ = fs::remove_dir_all(place.path("state"));
    fs::write(place.env.repo().join(".env"), "KEY=1\n").unwrap();
    place.env.trust_nothing();
    let (code, shown) = place.at_terminal(&["init"], b"n\n");
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("gate.tests.run"), "{shown}");
    for wrong in ["without a gate", "not in agents' clones", "Commit these files?", "[created]"] {
        assert!(!shown.contains(wrong), "{wrong}: {shown}");
    }
    assert_eq!(place.env.git(&["log", "-1", "--format=%s"]), "set up");
}

#[test]
fn init_shows_a_gate_that_fails_on_the_persons_own_commit() {
    let place = project("@echo no such module: pytest; exit 1");
    let finished = place.ralph(&["init", "--json"]);
    assert_eq!(finished.status.code(), Some(0), "{finished}");
    let report: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(report["gates_passed"], false, "{finished}");
    assert!(finished.stderr.contains("no such module: pytest"), "{finished}");
    assert!(finished.stderr.contains("ralph doctor --gates"), "{finished}");
    let later = place.ralph(&["doctor", "--gates"]);
    assert_eq!(later.status.code(), Some(1), "{later}");
    assert!(later.stderr.contains("no such module: pytest"), "{later}");
}

/// A gate runs at a commit, so before the first commit it cannot run.
#[test]
fn init_above_several_repositories_tries_each_gate_in_its_own() {
    let place = Place::new();
    let workspace = place.path("workspace");
    for name in ["api", "web"] {
        let repository = workspace.join(name);
        fs::create_dir_all(&repository).unwrap();
        fs::write(repository.join("Makefile"), "test:\n\t@echo ok\n").unwrap();
        let at = repository.to_str().unwrap();
        place.env.git(&["init", "-q", at]);
        place.env.git(&["-C", at, "add", "-A"]);
        place.env.git(&["-C", at, "commit", "-qm", "begin"]);
    }
    let finished = place.ralph(&["init", workspace.to_str().unwrap()]);
    assert_eq!(finished.status.code(), Some(0), "{finished}");
    for (name, gate) in [("api", "api-tests"), ("web", "web-tests")] {
        assert!(finished.stderr.contains(&format!("[repository] {name}\n")), "{finished}");
        assert!(finished.stderr.contains(&format!("[passed] {gate}: ")), "{finished}");
    }
    assert!(!finished.stderr.contains("[skipped]"), "{finished}");
}

#[test]
fn init_before_the_first_commit_runs_no_gate_and_says_what_to_do() {
    let place = project("@echo ok");
    fs::remove_dir_all(place.env.repo().join(".git")).unwrap();
    place.env.git(&["init", "--quiet"]);
    let finished = place.ralph(&["init", "--json"]);
    assert_eq!(finished.status.code(), Some(0), "{finished}");
    let report: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(report["gates_passed"], Value::Null, "{finished}");
    assert_eq!(report["commit"], Value::Null, "{finished}");
    assert!(finished.stderr.contains("the repository has no commit yet"), "{finished}");
    assert!(finished.stderr.contains("`Makefile`"), "{finished}");
    assert!(finished.stderr.contains("commit them, then run `ralph doctor --gates`"), "{finished}");
    assert!(!finished.stderr.contains("[failed]"), "{finished}");
    place.commit_all("the project");
    let later = place.ralph(&["doctor", "--gates"]);
    assert!(later.stderr.contains("[passed] tests"), "{later}");
}

#[test]
fn a_gate_that_fails_because_its_files_are_not_committed_is_explained() {
    let place = project("@echo ok");
    fs::write(place.env.repo().join("Makefile"), "test:\n\ttrue\nlint:\n\ttrue\n").unwrap();
    let finished = place.ralph(&["init"]);
    assert!(finished.stderr.contains("not committed here: `Makefile`"), "{finished}");
}

#[test]
fn doctor_names_programs_of_gates_that_are_not_installed() {
    let place = project("@echo ok");
    let settings = "[checkout]\nsetup = [[\"no-such-tool\", \"install\"], [\"./configure\"]]\n\
        [[gate]]\nname = \"vet\"\nrun = [\"no-such-go\", \"vet\"]\n\
        [[gate]]\nname = \"tests\"\nrun = [\"no-such-go\", \"test\"]\n";
    fs::write(place.env.repo().join("ralph.toml"), settings).unwrap();
    let finished = place.ralph(&["doctor"]);
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    let shown = finished.to_string();
    assert!(
        shown.contains("`no-such-go` not found, needed by gate `vet`, gate `tests`"),
        "{shown}"
    );
    assert!(shown.contains("`no-such-tool` not found, needed by `setup`"), "{shown}");
    assert!(!shown.contains("configure"), "{shown}");
}

#[test]
fn init_points_out_hooks_and_formatters_and_a_second_init_shows_nothing_that_is_not_so() {
    let place = project("@echo ok");
    fs::write(place.env.repo().join(".pre-commit-config.yaml"), "repos: []\n").unwrap();
    fs::write(place.env.repo().join(".prettierrc"), "{}\n").unwrap();
    let first = place.ralph(&["init", "--no-gates"]);
    for part in [
        "`run = [\"pre-commit\", \"run\", \"--all-files\"]`",
        "exclude `ralph/` in `.prettierignore`",
    ] {
        assert!(first.stderr.contains(part), "{part}\n{first}");
    }
    let settings = "agent = \"rehearsal\"\n[[gate]]\nname = \"own\"\nrun = [\"true\"]\n";
    fs::write(place.env.repo().join("ralph.toml"), settings).unwrap();
    let second = place.ralph(&["init", "--no-gates"]);
    assert!(!second.stderr.contains("[agent]") && !second.stderr.contains("[gate] "), "{second}");
    assert!(second.stderr.contains("without a gate for the tests"), "{second}");
}

#[test]
fn help_is_a_command_too() {
    let place = project("@echo ok");
    for (words, same) in [
        (&["help"][..], &["--help"][..]),
        (&["help", "pipeline"], &["pipeline", "--help"]),
        (&["help", "agent", "run"], &["agent", "run", "--help"]),
    ] {
        let helped = place.ralph(words);
        assert_eq!(helped.status.code(), Some(0), "{helped}");
        assert_eq!(helped.stdout, place.ralph(same).stdout);
    }
    assert_eq!(place.ralph(&["help", "nonsense"]).status.code(), Some(2));
}

#[test]
fn wrong_values_are_answered_with_what_is_expected() {
    let place = project("@echo ok");
    fs::create_dir_all(place.env.repo().join("ralph/specs")).unwrap();
    fs::write(place.env.repo().join("nul.txt"), "a\0b").unwrap();
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        place.env.repo().join("fifo").as_path(),
        rustix::fs::Mode::RWXU,
    )
    .unwrap();
    for (args, part) in [
        (&["agent", "run", "--role", "nobody", "x"][..], "roles: planner, interviewer"),
        (&["agent", "run", "--max-cost", "abc", "x"], "such as 5 or 0.50"),
        (&["pipeline", "--max-cost=-1"], "such as 5 or 0.50"),
        (&["agent", "run", "--timeout", "abc", "x"], "such as `90s`"),
        (&["agent", "run", "--agent", "nope", "x"], "known: `claude`, `codex`"),
        (&["plan", ""], "the text is empty"),
        (&["exec", "  "], "the text is empty"),
        (&["loop", "--resume", "--answer", ""], "the text is empty"),
        (&["loop", "--file", "fifo"], "cannot read `fifo`: it is not a file"),
        (&["loop", "--file", "/dev/zero"], "`--file -` reads standard input"),
        (&["agent", "run", "--file", "fifo"], "cannot read `fifo`: it is not a file"),
        (&["loop", "--file", "nul.txt"], "is not text"),
    ] {
        let finished = place.ralph(args);
        assert_eq!(finished.status.code(), Some(2), "{finished}");
        assert!(finished.stderr.contains(part), "{part}\n{finished}");
    }
}

#[test]
fn ralph_alone_says_how_to_begin_or_where_things_stand() {
    let place = project("@echo ok");
    let (code, shown) = place.at_terminal(&[], b"");
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("ralph init"), "{shown}");
    assert_eq!(place.ralph(&[]).status.code(), Some(2));
    place.ralph(&["init", "--no-gates"]);
    let standing = place.ralph(&[]);
    assert_eq!(standing.status.code(), Some(0), "{standing}");
    assert!(standing.stdout.contains("workspace"), "{standing}");
}

#[test]
fn ralph_alone_offers_to_build_a_plan_at_a_terminal_and_builds_without_one() {
    let place = Place::rehearsing("[builder]\nfinal no\n");
    place.ralph(&["init", "--no-gates"]);
    fs::write(place.env.repo().join("ralph/specs/0001-x.md"), "# X\n\nAdd x.\n").unwrap();
    place.commit_all("a spec");
    assert_eq!(place.ralph(&["set-spec", "0001-x.md"]).status.code(), Some(0));
    assert_eq!(place.ralph(&["task", "add", "one"]).status.code(), Some(0));
    let (code, shown) = place.at_terminal(&[], b"n\n");
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("Continue with `ralph build`?"), "{shown}");
    assert_eq!(place.roles(), Vec::<String>::new());
    let built = place.ralph(&[]);
    assert_eq!(built.status.code(), Some(1), "{built}");
    assert!(place.roles().iter().all(|role| role == "builder"), "{:?}", place.roles());
    assert!(!place.roles().is_empty());
}

#[test]
fn a_spec_from_the_template_is_passed_over_until_it_was_filled_in() {
    let place = Place::rehearsing("[planner]\nfinal no\n");
    place.ralph(&["init", "--no-gates"]);
    let none = place.ralph(&["specs"]);
    assert_eq!(
        (none.status.code(), none.stdout.contains("no specs yet")),
        (Some(0), true),
        "{none}"
    );
    assert_eq!(place.ralph(&["specs", "--json"]).stdout, "[]\n");
    assert_eq!(place.ralph(&["specs", "new", "Greet"]).status.code(), Some(0));
    for command in ["pipeline", "validate"] {
        let finished = place.ralph(&[command]);
        assert_eq!(finished.status.code(), Some(0), "{finished}");
        let shown = finished.to_string();
        assert!(shown.contains("a draft") && shown.contains("0001-greet.md"), "{shown}");
    }
    let named = place.ralph(&["pipeline", "1"]);
    assert_eq!(named.status.code(), Some(2), "{named}");
    assert!(named.stderr.contains("0001-greet.md:5"), "{named}");
    assert_eq!(place.roles(), Vec::<String>::new());
    // It affects only itself, not other specs given by name.
    assert_eq!(place.ralph(&["specs", "new", "Wave"]).status.code(), Some(0));
    fs::write(place.env.repo().join("ralph/specs/0002-wave.md"), "# Wave\n\nWave.\n").unwrap();
    let named = place.ralph(&["pipeline", "2", "--dry-run"]);
    assert_eq!(named.status.code(), Some(0), "{named}");
    // Beside others it is passed over and named; asked for by name it is refused.
    let all = place.ralph(&["pipeline", "--dry-run", "--json"]);
    let rows: Value = serde_json::from_str(&all.stdout).unwrap();
    assert_eq!((&rows[0]["action"], &rows[1]["action"]), (&"skip".into(), &"plan".into()), "{all}");
    let worked = place.ralph(&["pipeline", "--max-attempts", "1"]);
    assert!(worked.stderr.contains("[skip] a draft: "), "{worked}");
    assert!(worked.stderr.contains("0001-greet.md:5"), "{worked}");
    assert!(place.roles().iter().all(|role| role == "planner"), "{worked}");
    assert!(place.ralph(&["runs", "show", "2"]).stdout.contains("0002-wave"));
    assert_eq!(place.ralph(&["pipeline", "1"]).status.code(), Some(2));
    assert!(place.ralph(&["specs"]).stdout.contains("draft"));
    let missing = place.ralph(&["pipeline", "99"]);
    assert!(missing.stderr.contains("spec `99` not found"), "{missing}");
}

/// It is not committed, so no clone contains it.
#[test]
fn a_command_that_names_a_script_beside_the_person_finds_it_from_clones() {
    let place = project("@true");
    assert_eq!(place.ralph(&["init", "--no-gates"]).status.code(), Some(0));
    fs::write(place.env.repo().join("ralph/specs/0001-x.md"), "# X\n\nAdd x.\n").unwrap();
    place.commit_all("a spec");
    let script = "#!/bin/sh\ncat >/dev/null\ncase $RALPH_ROLE in\nplanner) echo plan >\"$RALPH_OUT/plan.md\" ;;\n\
        implementer) echo x >>x; git add -A; git commit -qm x ;;\nesac\n\
        git rev-parse HEAD; echo 'I AM HYPER SURE I AM DONE!'\n";
    let path = place.env.repo().join("agent.sh");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for (number, command) in ["./agent.sh", "sh agent.sh --flag"].into_iter().enumerate() {
        let mut args = vec!["pipeline", "--agent-cmd", command];
        args.extend(
            (number > 0).then_some("--force").into_iter().chain((number > 0).then_some("1")),
        );
        let finished = place.ralph(&args);
        assert_eq!(finished.status.code(), Some(0), "{command}: {finished}");
    }
    assert_eq!(place.env.git(&["show", "HEAD:x"]), "x\nx");
    assert_eq!(place.env.git(&["status", "--porcelain"]), "?? agent.sh");
}

/// The README's own first steps, with an agent that only commits whatever it finds.
#[test]
fn an_agent_that_only_adds_and_commits_is_never_done() {
    let place = project("@echo ok");
    assert_eq!(place.ralph(&["init"]).status.code(), Some(0));
    assert_eq!(place.ralph(&["specs", "new", "Greet"]).status.code(), Some(0));
    let spec = place.env.repo().join("ralph/specs/0001-greet.md");
    fs::write(&spec, "# Greet\n\n`greeting.txt` says hello.\n").unwrap();
    let sweeps = "cat >/dev/null; echo plan >\"$RALPH_OUT/plan.md\"; git add -A; git commit -qm work; \
        git rev-parse HEAD; echo 'I AM HYPER SURE I AM DONE!'";
    fs::write(place.path("a.sh"), sweeps).unwrap();
    let agent = format!("sh {}", place.path("a.sh").display());
    for more in [&[][..], &["--in-place", "--retry"], &["--in-place", "--retry", "--allow-dirty"]] {
        if more.contains(&"--allow-dirty") {
            // The first attempt commits them, the second claims the branch that has them.
            fs::write(place.env.repo().join("notes.txt"), "mine\n").unwrap();
            fs::write(place.env.repo().join("Makefile"), "test:\n\t@true\n").unwrap();
        }
        let args = ["pipeline", "--max-attempts", "2", "--agent-cmd", &agent];
        let finished = place.ralph(&[&args[..], more].concat());
        assert_eq!(finished.status.code(), Some(1), "{finished}");
        let specs = place.ralph(&["specs", "--json"]);
        let rows: Value = serde_json::from_str(&specs.stdout).unwrap();
        assert_ne!(rows[0]["state"], "done", "{rows}\n{finished}");
    }
    assert_eq!(
        place.env.git(&["log", "--format=%s", "--", ":!ralph", ":!ralph.toml"]),
        "work\nthe project\nstart"
    );
}
