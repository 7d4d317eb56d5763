//! `ralph demo`: its promises hold, it uses nothing of the person's, and leaves nothing behind.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{PATIENCE, Place, RALPH, wait_until};
use crate::support::process::{Finished, run};
use crate::support::text;

/// Runs `ralph demo` outside any repository, with additional variables.
fn demo(place: &Place, args: &str, more: &[(&str, &str)]) -> Finished {
    let mut variables = place.variables();
    variables.retain(|(name, _)| more.iter().all(|(other, _)| name != other));
    variables.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let command = format!("cd / && exec {RALPH} demo {args}");
    run(&place.env, Path::new("/bin/sh"), &["-c", &command], &variables, "", PATIENCE)
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn entries(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn the_demo_does_what_it_shows_whatever_the_persons_settings_are() {
    let place = Place::new();
    let directory = place.path("kept");
    let settings = place.path("gitconfig");
    fs::write(&settings, "[commit]\n\tgpgsign = true\n[core]\n\thooksPath = /nowhere\n").unwrap();
    let ignore = place.env.home().join(".config/git");
    fs::create_dir_all(&ignore).unwrap();
    fs::write(ignore.join("ignore"), "*\n").unwrap();
    let finished = demo(
        &place,
        &format!("--keep --dir {}", text(&directory)),
        &[
            ("GIT_CONFIG_GLOBAL", &text(&settings)),
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "user.name"),
            ("GIT_CONFIG_VALUE_0", "Somebody"),
            ("GIT_INDEX_FILE", "/nowhere/index"),
            ("GIT_OBJECT_DIRECTORY", "/nowhere/objects"),
            ("RALPH_AGENT", "codex"),
            ("RALPH_HOME", "elsewhere"),
        ],
    );
    assert_eq!(finished.status.code(), Some(0), "{finished}");
    assert_eq!(finished.stdout, "");
    let wide = finished.stderr.lines().find(|line| line.chars().count() > 80);
    assert_eq!(wide, None);
    for told in [
        "Caught!",
        "which does not",
        "Plan discarded!",
        "ralph init",
        "ralph verify",
        "has not moved yet",
        "Meanwhile you commit",
        "as a merge",
    ] {
        assert!(finished.stderr.contains(told), "{told}\n{finished}");
    }

    let repository = directory.join("slug");
    let specs = repository.join("ralph/specs");
    for spec in ["0001-lower-case", "0002-single-dashes", "0003-symbols"] {
        let done = fs::read_to_string(specs.join(format!("done/{spec}.md"))).unwrap();
        assert!(done.contains("\nProof: gates passed\n"), "{done}");
    }
    let tries = |spec: &str| json(&specs.join(format!("plans/{spec}.json")))["tries"].clone();
    assert_eq!(tries("0001-lower-case").as_array().unwrap().len(), 0);
    let caught = tries("0002-single-dashes");
    assert_eq!(caught.as_array().unwrap().len(), 1, "{caught}");
    assert_eq!(caught[0]["phase"], "implement");
    assert!(caught[0]["outcome"].as_str().unwrap().contains("does not exist"), "{caught}");
    let old_plan = fs::read_to_string(specs.join("plans/0003-symbols.attempt-1.md")).unwrap();
    let new_plan = fs::read_to_string(specs.join("plans/0003-symbols.md")).unwrap();
    assert!(old_plan.contains("Q&A|qa") && !new_plan.contains("Q&A|qa"));
    assert_eq!(json(&specs.join("plans/0003-symbols.json"))["attempt"], 2);

    let git = |args: &[&str]| place.env.git(&[&["-C", &text(&repository)], args].concat());
    let mut authors: Vec<String> =
        git(&["log", "--format=%an"]).lines().map(str::to_owned).collect();
    authors.sort();
    authors.dedup();
    // In its clone the agent commits in the name of the repository's owner.
    assert_eq!(authors, ["Demo", "Ralph"]);
    // One for each spec, and one for the merge with the person's commit.
    assert_eq!(git(&["notes", "--ref=ralph", "list"]).lines().count(), 4);
    assert_eq!(git(&["log", "--merges", "--format=%s"]), "ralph: 0002-single-dashes is done");
    assert_eq!(git(&["status", "--porcelain"]), "");
    let slug = format!("cd {} && sh slug.sh ' Q&A  for   You! '", text(&repository));
    let made =
        run(&place.env, Path::new("/bin/sh"), &["-c", &slug], &place.variables(), "", PATIENCE);
    assert_eq!(made.stdout, "q-and-a-for-you\n");

    let kept = format!(". {0}/env && cd {0}/slug && {RALPH} status --json", text(&directory));
    let status =
        run(&place.env, Path::new("/bin/sh"), &["-c", &kept], &place.variables(), "", PATIENCE);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["pipeline"]["counts"]["done"], 3, "{status}");
    assert_eq!(status["pipeline"]["next"], Value::Null);
    assert_eq!(status["totals"]["runs"], 13);

    assert!(!place.path("state").exists(), "the person's state was touched");
    assert_eq!(entries(&place.env.home()), [".config"]);
    assert_eq!(entries(&place.env.tmp()), [] as [&str; 0]);
    place.assert_nothing_left();
}

#[test]
fn a_demo_that_is_not_kept_leaves_nothing_and_works_where_the_kernel_cannot_confine() {
    let place = Place::new();
    let finished = demo(&place, "--json", &[("RALPH_BOUNDARY", "detect")]);
    assert_eq!(finished.status.code(), Some(0), "{finished}");
    assert!(finished.stderr.contains("boundary: detect"), "{finished}");
    let report: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(report["repository"], Value::Null);
    assert_eq!(report["specs"].as_array().unwrap().len(), 3);
    let promises = report["promises"].as_array().unwrap();
    assert!(promises.len() == 7 && promises.iter().all(|promise| promise["kept"] == true));
    assert_eq!(entries(&place.env.tmp()), [] as [&str; 0]);
    assert_eq!(entries(&place.env.home()), [".config"]);
    place.assert_nothing_left();
}

#[test]
fn an_interrupted_demo_leaves_nothing() {
    let place = Place::new();
    let running = place.start(&["demo"]);
    wait_until(PATIENCE, "an implementer is at work", || {
        running.said().contains("[start] implementing")
    });
    running.signal(Signal::INT);
    let (code, said) = running.finish();
    assert_eq!(code, Some(130), "{said}");
    assert_eq!(entries(&place.env.tmp()), [] as [&str; 0]);
    place.assert_nothing_left();
}

#[test]
fn a_demo_that_cannot_begin_says_why_and_touches_nothing() {
    let place = Place::new();
    let programs = place.path("bin");
    fs::create_dir(&programs).unwrap();
    std::os::unix::fs::symlink("/bin/sh", programs.join("sh")).unwrap();
    let without_git = demo(&place, "", &[("PATH", &text(&programs))]);
    assert_eq!(without_git.status.code(), Some(2), "{without_git}");
    assert!(without_git.stderr.contains("`git` is not installed"), "{without_git}");
    assert_eq!(entries(&place.env.tmp()), [] as [&str; 0]);

    let taken = demo(&place, &format!("--dir {}", text(&place.env.repo())), &[]);
    assert_eq!(taken.status.code(), Some(2), "{taken}");
    assert!(taken.stderr.contains("is not empty"), "{taken}");
    assert!(place.env.repo().join("README.md").exists());
}
