use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::*;
use crate::test_place::Place;

/// An outbox, and a directory for kept files.
struct Stage {
    place: Place,
}

impl Stage {
    fn new(outbox: Outbox<'_>) -> Stage {
        let stage = Stage { place: Place::new() };
        fs::create_dir_all(stage.outbox().join(CHANNEL)).unwrap();
        fs::create_dir(stage.logs()).unwrap();
        seed(&stage.outbox(), outbox).unwrap();
        stage
    }

    fn outbox(&self) -> Utf8PathBuf {
        self.place.root.join("outbox")
    }

    fn logs(&self) -> Utf8PathBuf {
        self.place.root.join("logs")
    }

    fn write(&self, name: &str, text: &str) {
        self.place.write(&format!("outbox/{name}"), text);
    }

    fn fifo(&self, name: &str) {
        let path = self.outbox().join(name);
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    fn take(&self, outbox: Outbox<'_>) -> OutboxReport {
        std::fs::create_dir_all(self.logs()).unwrap();
        let held = open_directory(&self.logs()).unwrap();
        take(&self.outbox(), outbox, &self.logs(), Some(std::os::fd::AsFd::as_fd(&held)))
    }
}

fn refusals(report: &OutboxReport) -> Vec<(&str, OutboxRefusal)> {
    report.not_taken.iter().map(|left| (left.name.as_str(), left.reason.clone())).collect()
}

const PLANNER: [OutboxFile<'static>; 2] = [
    OutboxFile { name: "plan.md", content: None },
    OutboxFile { name: "SCRATCHPAD.md", content: Some(b"old") },
];

#[test]
fn a_planner_finds_its_files_and_what_it_leaves_is_taken() {
    let outbox = Outbox::Named(&PLANNER);
    let stage = Stage::new(outbox);
    assert_eq!(stage.place.read("outbox/SCRATCHPAD.md"), "old");
    assert!(!stage.outbox().join("plan.md").exists());
    let untouched = stage.take(outbox);
    let scratchpad =
        Taken { name: "SCRATCHPAD.md".to_owned(), bytes: b"old".to_vec(), changed: false };
    assert_eq!(untouched, OutboxReport { taken: vec![scratchpad], ..OutboxReport::default() });
    stage.write("plan.md", "# Plan");
    stage.write("SCRATCHPAD.md", "new");
    let report = stage.take(outbox);
    let taken: Vec<_> =
        report.taken.iter().map(|file| (&*file.name, &*file.bytes, file.changed)).collect();
    assert_eq!(taken, [("plan.md", &b"# Plan"[..], true), ("SCRATCHPAD.md", b"new", true)]);
    assert_eq!(report.not_taken, []);
}

/// A trick: its name, how it is done, and why it fails.
type Trick = (&'static str, fn(&Stage), NotPlain);

#[test]
fn links_pipes_directories_and_large_files_are_refused_under_every_expected_name() {
    let tricks: [Trick; 6] = [
        (
            "link",
            |stage| symlink("/etc/passwd", stage.outbox().join("plan.md")).unwrap(),
            NotPlain::Link,
        ),
        (
            "hard link",
            |stage| {
                stage.place.write("secret", "x");
                fs::hard_link(stage.place.root.join("secret"), stage.outbox().join("plan.md"))
                    .unwrap();
            },
            NotPlain::SeveralNames,
        ),
        ("fifo", |stage| stage.fifo("plan.md"), NotPlain::NotAFile),
        (
            "directory",
            |stage| fs::create_dir(stage.outbox().join("plan.md")).unwrap(),
            NotPlain::NotAFile,
        ),
        (
            "large",
            |stage| {
                let file = fs::File::create(stage.outbox().join("plan.md")).unwrap();
                file.set_len(1 << 40).unwrap();
            },
            NotPlain::TooLarge { cap: LARGEST_OUTBOX_FILE },
        ),
        (
            "deleted",
            |stage| fs::remove_file(stage.outbox().join("SCRATCHPAD.md")).unwrap(),
            NotPlain::Missing,
        ),
    ];
    for (trick, play, reason) in tricks {
        let outbox = Outbox::Named(&PLANNER);
        let stage = Stage::new(outbox);
        play(&stage);
        let report = stage.take(outbox);
        let name = if trick == "deleted" { "SCRATCHPAD.md" } else { "plan.md" };
        assert_eq!(refusals(&report), [(name, OutboxRefusal::NotPlain(reason))], "{trick}");
        assert!(report.taken.iter().all(|file| file.name != name), "{trick}");
    }
}

#[test]
fn a_file_of_exactly_the_cap_is_taken() {
    let outbox = Outbox::Named(&PLANNER[..1]);
    let stage = Stage::new(outbox);
    stage.write("plan.md", &"x".repeat(LARGEST_OUTBOX_FILE));
    assert_eq!(stage.take(outbox).taken[0].bytes.len(), LARGEST_OUTBOX_FILE);
}

#[test]
fn what_nobody_asked_for_is_named_and_not_taken() {
    let outbox = Outbox::Named(&PLANNER[..1]);
    let stage = Stage::new(outbox);
    stage.write("plan.md", "p");
    stage.write("ralph.toml", "x");
    let report = stage.take(outbox);
    assert_eq!(refusals(&report), [("ralph.toml", OutboxRefusal::Unexpected)]);
    assert_eq!(report.taken.len(), 1);
}

#[test]
fn an_outbox_that_was_replaced_by_a_link_is_not_followed() {
    let outbox = Outbox::Named(&PLANNER[..1]);
    let stage = Stage::new(outbox);
    stage.place.write("elsewhere/plan.md", "x");
    fs::remove_dir_all(stage.outbox()).unwrap();
    symlink(stage.place.root.join("elsewhere"), stage.outbox()).unwrap();
    let report = stage.take(outbox);
    assert_eq!(refusals(&report), [("outbox", OutboxRefusal::Gone)]);
    assert_eq!(report.taken, []);
}

#[test]
fn where_any_name_is_good_plain_files_go_to_the_logs() {
    let stage = Stage::new(Outbox::Kept);
    stage.write("note.md", "hello");
    stage.write(".hidden", "x");
    stage.write("nested/deep.md", "x");
    symlink("/etc/passwd", stage.outbox().join("passwd")).unwrap();
    stage.fifo("pipe");
    let report = stage.take(Outbox::Kept);
    assert_eq!(report.kept, [stage.logs().join("out/note.md")]);
    assert_eq!(stage.place.read("logs/out/note.md"), "hello");
    let reasons = refusals(&report);
    let expected = [
        (".hidden", OutboxRefusal::Name),
        ("nested", NotPlain::NotAFile.into()),
        ("passwd", NotPlain::Link.into()),
        ("pipe", NotPlain::NotAFile.into()),
    ];
    assert_eq!(reasons, expected);
}

#[test]
fn no_more_than_twenty_files_are_kept() {
    let stage = Stage::new(Outbox::Kept);
    for number in 0..50 {
        stage.write(&format!("file-{number:02}"), "x");
    }
    let report = stage.take(Outbox::Kept);
    assert_eq!(report.kept.len(), MOST_FILES);
    assert_eq!(refusals(&report), [("file-20", OutboxRefusal::TooMany)]);
}
