use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;
use std::thread;

use proptest::prelude::*;
use tempfile::TempDir;

use super::append::{AppendFile, TornTail};
use super::*;

fn temp() -> (TempDir, Utf8PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::from_path_buf(directory.path().to_owned()).unwrap();
    (directory, path)
}

fn names(directory: &Utf8Path) -> Vec<String> {
    let entries = directory.read_dir_utf8().unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().to_owned()).collect();
    names.sort();
    names
}

/// Runs a function as an unprivileged user, because permissions do not restrict root.
fn as_ordinary_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            #[cfg(target_os = "linux")]
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            work()
        });
        worker.join().unwrap()
    })
}

#[test]
fn replacing_keeps_the_mode_and_leaves_nothing_else_behind() {
    let (_guard, directory) = temp();
    let path = directory.join("plan.jsonl");
    replace_atomically(&path, b"one").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    replace_atomically(&path, b"two").unwrap();
    replace_unsynced(&path, b"three").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"three");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(names(&directory), ["plan.jsonl"]);
}

#[test]
fn a_reader_never_sees_half_a_file() {
    let (_guard, directory) = temp();
    let path = directory.join("state.json");
    let versions = [vec![b'a'; 100_000], vec![b'b'; 300_000]];
    replace_unsynced(&path, &versions[0]).unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for turn in 0..200 {
                replace_unsynced(&path, &versions[turn % 2]).unwrap();
            }
        });
        while !writer.is_finished() {
            let seen = fs::read(&path).unwrap();
            assert!(versions.contains(&seen), "{} bytes", seen.len());
        }
    });
}

#[test]
fn links_are_refused_and_their_targets_untouched() {
    let (_guard, directory) = temp();
    let target = directory.join("target");
    fs::write(&target, "precious").unwrap();
    let link = directory.join("link");
    symlink(&target, &link).unwrap();
    let error = replace_atomically(&link, b"x").unwrap_err();
    assert_eq!(error.to_string(), format!("cannot write `{link}`"));
    assert_eq!(error.source.to_string(), "it is a symbolic link, which Ralph does not follow");
    assert_eq!(create_new(&link, b"x").unwrap(), Creation::AlreadyThere);
    AppendFile::open(&link).unwrap_err();
    assert_eq!(fs::read(&target).unwrap(), b"precious");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(names(&directory), ["link", "target"]);
}

#[test]
fn a_directory_or_a_pipe_in_the_way_is_an_error_and_no_hang() {
    let (_guard, directory) = temp();
    let pipe = directory.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    AppendFile::open(&pipe).unwrap_err();
    replace_atomically(&pipe, b"x").unwrap_err();
    replace_atomically(&directory, b"x").unwrap_err();
    assert_eq!(names(&directory), ["pipe"]);
}

#[test]
fn creating_never_overwrites() {
    let (_guard, directory) = temp();
    let path = directory.join("ralph.toml");
    assert_eq!(create_new(&path, b"mine").unwrap(), Creation::Created);
    assert_eq!(create_new(&path, b"yours").unwrap(), Creation::AlreadyThere);
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    assert_eq!(names(&directory), ["ralph.toml"]);
}

#[test]
fn a_read_only_directory_is_an_error_that_names_the_file() {
    let (_guard, directory) = temp();
    let path = directory.join("prd.json");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o555)).unwrap();
    let error = as_ordinary_user(|| replace_atomically(&path, b"new").unwrap_err());
    assert_eq!(error.path, path);
    assert_eq!(error.source.kind(), io::ErrorKind::PermissionDenied);
    assert_eq!(fs::read(&path).unwrap(), b"old");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(names(&directory), ["prd.json"]);
}

/// Plays the writer of [`a_write_that_does_not_fit_leaves_the_old_file`], in a process with a small file size limit.
#[test]
#[ignore = "a process of another test, started by it"]
fn writer_that_may_write_little() {
    let Ok(directory) = std::env::var("RALPH_TEST_LITTLE") else { return };
    let directory = Utf8PathBuf::from(directory);
    let big = vec![b'n'; 100_000];
    let error = replace_atomically(&directory.join("state.json"), &big).unwrap_err();
    assert_eq!(error.source.kind(), io::ErrorKind::FileTooLarge);
    create_new(&directory.join("fresh.json"), &big).unwrap_err();
    let mut log = AppendFile::open(&directory.join("log.jsonl")).unwrap();
    log.append("first").unwrap();
    log.append(&"x".repeat(100_000)).unwrap_err();
    assert_eq!(log.append("second").unwrap(), None);
}

#[test]
fn a_write_that_does_not_fit_leaves_the_old_file() {
    let (_guard, directory) = temp();
    fs::write(directory.join("state.json"), "old").unwrap();
    let test = std::env::current_exe().unwrap();
    // The file size limit is a few blocks; its signal is ignored, so that the write fails instead.
    let script = r#"trap "" XFSZ; ulimit -f 8; exec "$0" --exact files::tests::writer_that_may_write_little --ignored"#;
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(test)
        .env("RALPH_TEST_LITTLE", &directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    assert_eq!(names(&directory), ["log.jsonl", "state.json"]);
    assert_eq!(fs::read(directory.join("state.json")).unwrap(), b"old");
    assert_eq!(fs::read(directory.join("log.jsonl")).unwrap(), b"first\nsecond\n");
}

#[test]
fn what_dead_writers_left_is_removed_and_what_others_made_is_not() {
    let (_guard, directory) = temp();
    let mut child = Command::new("true").spawn().unwrap();
    let dead = child.id();
    child.wait().unwrap();
    let living = format!(".plan.jsonl.{}.0.ralph-tmp", std::process::id());
    for name in [&format!(".plan.jsonl.{dead}.3.ralph-tmp"), &living, "notes.ralph-tmp"] {
        fs::write(directory.join(name), "").unwrap();
    }
    let not_text = directory.as_std_path().join(OsStr::from_bytes(b"caf\xe9"));
    fs::write(&not_text, "").unwrap();
    remove_abandoned(&directory).unwrap();
    fs::remove_file(not_text).unwrap();
    assert_eq!(names(&directory), [&living, "notes.ralph-tmp"]);
}

#[test]
fn a_temporary_file_of_another_process_with_the_same_number_is_left_alone() {
    let (_guard, directory) = temp();
    let taken = |count| format!(".state.json.{}.{count}.ralph-tmp", std::process::id());
    for count in 0..200 {
        fs::write(directory.join(taken(count)), "another's").unwrap();
    }
    replace_atomically(&directory.join("state.json"), b"new").unwrap();
    for count in 0..200 {
        assert_eq!(fs::read(directory.join(taken(count))).unwrap(), b"another's");
    }
    assert_eq!(names(&directory).len(), 201);
    assert_eq!(fs::read(directory.join("state.json")).unwrap(), b"new");
}

#[test]
fn a_torn_last_line_is_cut_and_reported_once() {
    let (_guard, directory) = temp();
    let path = directory.join("journal.jsonl");
    fs::write(&path, "{\"a\":1}\n{\"b\":").unwrap();
    let mut file = AppendFile::open(&path).unwrap();
    assert_eq!(file.append("{}").unwrap(), Some(TornTail { bytes: 5 }));
    assert_eq!(file.append("{}").unwrap(), None);
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"a\":1}\n{}\n{}\n");
}

#[test]
fn lines_of_several_writers_do_not_mix() {
    let (_guard, directory) = temp();
    let path = directory.join("journal.jsonl");
    thread::scope(|scope| {
        for writer in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let mut file = AppendFile::open(path).unwrap();
                for turn in 0..10 {
                    assert_eq!(file.append(&format!("{writer} {turn}")).unwrap(), None);
                }
            });
        }
    });
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    let expected: Vec<_> =
        (0..4).flat_map(|writer| (0..10).map(move |turn| format!("{writer} {turn}"))).collect();
    assert_eq!(lines, expected);
}

#[test]
fn private_directories_are_closed_to_others_even_if_they_were_open() {
    let (_guard, directory) = temp();
    let path = directory.join("a/b");
    create_private_directory(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    create_private_directory(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn whatever_a_crash_left_the_whole_lines_survive(
        lines in prop::collection::vec("[a-z]{0,40}", 0..20),
        tail in prop_oneof![Just(String::new()), "[a-z]{1,10}", Just("t".repeat(9000))],
    ) {
        let (_guard, directory) = temp();
        let path = directory.join("journal.jsonl");
        let whole: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        fs::write(&path, format!("{whole}{tail}")).unwrap();
        let torn = AppendFile::open(&path).unwrap().append("next").unwrap();
        prop_assert_eq!(torn.map_or(0, |torn| torn.bytes), tail.len() as u64);
        prop_assert_eq!(fs::read_to_string(&path).unwrap(), format!("{whole}next\n"));
    }
}

#[test]
fn a_lock_that_somebody_keeps_holds_no_line_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = Utf8Path::from_path(directory.path()).unwrap().join("lines");
    let mut lines = super::append::AppendFile::open(&path).unwrap();
    lines.append("one").unwrap();
    // Every process that can read a file can lock it.
    let reader = fs::File::open(&path).unwrap();
    rustix::fs::flock(&reader, rustix::fs::FlockOperation::LockExclusive).unwrap();
    lines.append("two").unwrap();
    // The lock is not waited for again.
    let began = std::time::Instant::now();
    lines.append("three").unwrap();
    assert!(began.elapsed() < std::time::Duration::from_secs(1));
    drop(reader);
    lines.append("four").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\nthree\nfour\n");
}
