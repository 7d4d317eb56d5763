use std::panic::{AssertUnwindSafe, catch_unwind};

use camino::Utf8PathBuf;

use super::*;
use crate::files::append::AppendFile;
use crate::files::{read_optional, remove_durably, replace_atomically, replace_unsynced};

fn at(name: &str) -> Utf8PathBuf {
    Utf8Path::new(ROOT).join(name)
}

fn read(name: &str) -> Option<String> {
    read_optional(&at(name)).unwrap().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Runs until a fault kills the process; returns whether it did.
fn dies(planned: PlannedFault, work: impl FnOnce()) -> bool {
    start_process(vec![planned]);
    catch_unwind(AssertUnwindSafe(work)).is_err()
}

/// Repeats a story with a fault after each of its effects, until none strikes.
fn at_each_effect(fault: Fault, seed: u64, prepare: impl Fn(), work: impl Fn(), check: impl Fn()) {
    for after in 1.. {
        install(seed, Timestamp::UNIX_EPOCH);
        prepare();
        let died = dies(PlannedFault { after, fault }, &work);
        start_process(Vec::new());
        check();
        uninstall();
        if !died {
            assert!(after > 3, "the story has effects");
            return;
        }
    }
}

#[test]
fn a_file_that_is_replaced_is_old_or_new_after_any_loss_of_power() {
    for seed in 0..50 {
        let prepare = || replace_atomically(&at("file"), b"old").unwrap();
        let work = || replace_atomically(&at("file"), b"newer").unwrap();
        let check = || assert!(matches!(read("file").as_deref(), Some("old" | "newer")));
        at_each_effect(Fault::PowerLoss, seed, prepare, work, check);
    }
}

#[test]
fn what_was_not_synced_may_be_lost_and_what_was_is_not() {
    let mut found = std::collections::BTreeSet::new();
    for seed in 0..100 {
        install(seed, Timestamp::UNIX_EPOCH);
        start_process(Vec::new());
        let mut log = AppendFile::open(&at("log")).unwrap();
        log.append("one").unwrap();
        log.append_unsynced("two").unwrap();
        replace_unsynced(&at("file"), b"content").unwrap();
        let planned = PlannedFault { after: 1, fault: Fault::PowerLoss };
        assert!(dies(planned, || effect(|| "end".to_owned())));
        start_process(Vec::new());
        let text = read("log").unwrap();
        assert!(text.starts_with("one\n"), "{text:?}");
        found.insert((text, read("file")));
        uninstall();
    }
    let has = |log: &str, file: Option<&str>| found.contains(&(log.into(), file.map(Into::into)));
    assert!(has("one\n", None) && has("one\ntwo\n", Some("content")));
    assert!(has("one\n", Some("")), "a file can be there without its content: {found:?}");
    assert!(found.iter().any(|(log, _)| log == "one\nt" || log == "one\ntw"), "{found:?}");
}

#[test]
fn a_kill_loses_nothing_that_was_written_and_the_dead_write_no_more() {
    install(1, Timestamp::UNIX_EPOCH);
    let planned = PlannedFault { after: 4, fault: Fault::Kill };
    let died = dies(planned, || {
        let mut log = AppendFile::open(&at("log")).unwrap();
        log.append_unsynced("one").unwrap();
        log.append_unsynced("two").unwrap();
        unreachable!("the process is dead");
    });
    assert!(died);
    assert_eq!(get(&at("log")).unwrap(), b"one\ntwo\n");
    replace_atomically(&at("other"), b"").unwrap_err();
    start_process(Vec::new());
    replace_atomically(&at("other"), b"").unwrap();
    uninstall();
}

#[test]
fn what_was_removed_durably_stays_removed_when_the_power_fails() {
    for seed in 0..20 {
        install(seed, Timestamp::UNIX_EPOCH);
        start_process(Vec::new());
        replace_atomically(&at("record"), b"under way").unwrap();
        remove_durably(&at("record")).unwrap();
        let planned = PlannedFault { after: 1, fault: Fault::PowerLoss };
        assert!(dies(planned, || effect(|| "end".to_owned())));
        start_process(Vec::new());
        assert_eq!(read("record"), None, "{seed}");
        uninstall();
    }
}

#[test]
fn files_below_a_directory_are_found_however_its_path_ends() {
    install(1, Timestamp::UNIX_EPOCH);
    for name in ["one/file", "one/more/file", "one-more/file"] {
        put(&at(name), Some(b"content"));
    }
    for directory in ["one", "one/"] {
        let mut found = Vec::new();
        each_file_below(&at(directory), |name, _, _| found.push(name.to_owned()));
        assert_eq!(found, ["file", "more/file"], "{directory}");
    }
    uninstall();
}

#[test]
fn a_full_disk_leaves_files_and_logs_whole() {
    install(1, Timestamp::UNIX_EPOCH);
    start_process(Vec::new());
    replace_atomically(&at("file"), b"old").unwrap();
    let mut log = AppendFile::open(&at("log")).unwrap();
    log.append("one").unwrap();
    start_process(vec![PlannedFault { after: 1, fault: Fault::Full { writes: 2 } }]);
    effect(|| "the disk is full".to_owned());
    replace_atomically(&at("file"), b"newer").unwrap_err();
    log.append("two").unwrap_err();
    assert_eq!((read("file").unwrap(), read("log").unwrap()), ("old".into(), "one\n".into()));
    log.append("three").unwrap();
    assert_eq!(read("log").unwrap(), "one\nthree\n");
    uninstall();
}
