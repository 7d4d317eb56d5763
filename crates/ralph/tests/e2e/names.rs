//! Unusual names that Linux allows: not UTF-8, with newlines, quotes or tabs, of maximum length.

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::harness::Place;
use crate::pipeline::{AGREES, PHRASE, PLANS, Stage, claims, on, willing};

/// Such names, as bytes.
pub(crate) fn names() -> Vec<Vec<u8>> {
    vec![
        b"caf\xe9".to_vec(),
        b"two\nlines".to_vec(),
        b"\"quoted\" 'twice'".to_vec(),
        b"a\ttab".to_vec(),
        b"-dash".to_vec(),
        b"back\\slash".to_vec(),
        vec![b'x'; 255],
        "ünïcode".as_bytes().to_vec(),
    ]
}

fn path(dir: &Path, name: &[u8]) -> PathBuf {
    dir.join(OsStr::from_bytes(name))
}

pub(crate) fn write_all(dir: &Path, text: &str) {
    fs::create_dir_all(dir).unwrap();
    for name in names() {
        fs::write(path(dir, &name), text).unwrap();
    }
}

pub(crate) fn are_all(dir: &Path, text: &str) {
    for name in names() {
        let path = path(dir, &name);
        assert_eq!(fs::read_to_string(&path).ok().as_deref(), Some(text), "{}", path.display());
    }
}

/// Writes a shell script that creates all of them in a given directory, and returns the step that runs it.
pub(crate) fn maker(place: &Place) -> impl Fn(&str) -> String {
    let mut script = "mkdir -p \"$1\"\n".to_owned();
    for name in names() {
        script.push_str("printf made > \"$1/$(printf '");
        for byte in name {
            write!(script, "\\{byte:03o}").unwrap();
        }
        script.push_str("')\"\n");
    }
    fs::write(place.path("make"), script).unwrap();
    let make = place.path("make").display().to_string();
    move |dir| format!("run sh {make} {dir}\n")
}

#[test]
fn the_pipeline_works_among_files_of_any_name() {
    for boundary in ["auto", "detect"] {
        let stage = Stage::new("").in_place();
        let makes = maker(&stage.place);
        let work = format!(
            "{}run git add -A new; git commit -qm work\n{}{}",
            makes("new"),
            makes("left"),
            claims("${HEAD}")
        );
        stage.script(&format!("{PLANS}[implementer]\n{work}{AGREES}"));
        stage.settings(&format!("boundary = \"{boundary}\"\n"));
        let repo = stage.place.env.repo().clone();
        write_all(&repo.join("tracked"), "tracked");
        write_all(&repo.join("ralph/notes"), "in home");
        write_all(&repo.join("ralph/specs/areas"), "in home");
        stage.git(&["add", "--all"]);
        stage.git(&["commit", "--quiet", "--message=names"]);
        write_all(&repo.join("mine"), "uncommitted");
        write_all(&repo.join("ralph"), "uncommitted, in home");
        for name in names() {
            fs::write(path(&repo.join("tracked"), &name), "changed").unwrap();
        }
        let refused = stage.pipeline(&[]);
        refused.exits(3).says("mine/caf\\xe9").says("mine/two\\nlines").says("--allow-dirty");
        stage.pipeline(&["--allow-dirty"]).exits(0);
        assert_eq!(stage.row("0001-greeting.md")["state"], "done", "{boundary}");
        are_all(&repo.join("tracked"), "changed");
        are_all(&repo.join("mine"), "uncommitted");
        are_all(&repo.join("new"), "made");
        for args in [&["status"][..], &["doctor"], &["specs"], &["log"]] {
            let shown = stage.ralph(args).finished;
            assert_ne!(shown.status.code(), Some(70), "{args:?} {shown}");
        }
    }
}

#[test]
fn a_read_only_role_that_writes_files_of_any_name_is_undone() {
    let stage = Stage::new("").in_place();
    let meddles = format!(
        "{}run rm -rf tracked\nrun sh ../branch\noutbox plan.md # Evil\nfinal {PHRASE}",
        maker(&stage.place)("evil")
    );
    let branch = "git update-ref \"refs/heads/$(printf 'caf\\351')\" HEAD\n";
    fs::write(stage.place.path("branch"), branch).unwrap();
    stage.script(&willing(&[on("planner", 1, &meddles)]));
    stage.settings("boundary = \"detect\"\n");
    let repo = stage.place.env.repo().clone();
    write_all(&repo.join("tracked"), "tracked");
    stage.git(&["add", "--all"]);
    stage.git(&["commit", "--quiet", "--message=names"]);
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "ppiv");
    are_all(&repo.join("tracked"), "tracked");
    assert!(!repo.join("evil").exists());
    let refs = stage.git(&["for-each-ref", "--format=%(refname)", "refs/heads"]);
    assert_eq!(refs, "refs/heads/main");
    let tried = stage.json("ralph/specs/plans/0001-greeting.json")["tries"][0]["outcome"].clone();
    assert!(tried.to_string().contains("caf"), "{tried}");
}

#[test]
fn a_branch_of_any_name_is_returned_to() {
    for name in [&b"caf\xe9"[..], "bücher/größe".as_bytes()] {
        let branches = "run git switch -q -c feature\nwrite half.txt half\ncommit \"half\" half.txt\n\
                        session impl-1\nlimit in 1s\nexit 1";
        let stage = Stage::new(&willing(&[on("implementer", 1, branches)]));
        let branch = [&b"ref: refs/heads/"[..], name, b"\n"].concat();
        let git_dir = stage.file(".git");
        let at = path(&git_dir.join("refs/heads"), name);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::copy(git_dir.join("refs/heads/main"), &at).unwrap();
        fs::write(git_dir.join("HEAD"), &branch).unwrap();
        stage.pipeline(&["--no-wait"]).exits(1);
        assert_eq!(fs::read(git_dir.join("HEAD")).unwrap(), branch);
        stage.pipeline(&[]).exits(0);
        assert_eq!(stage.runs(), "piiv");
        assert_eq!(fs::read(git_dir.join("HEAD")).unwrap(), branch);
        assert!(stage.git(&["log", "-1", "--format=%s"]).contains("is done"));
    }
}
