use std::fs;
use std::io::Write;
use std::os::fd::AsFd;

use proptest::prelude::*;

use super::*;
use crate::files::append::AppendFile;

struct Place {
    _directory: tempfile::TempDir,
    path: Utf8PathBuf,
}

fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    let path = Utf8Path::from_path(directory.path()).unwrap().join("lines");
    Place { _directory: directory, path }
}

fn append(path: &Utf8Path, bytes: &[u8]) {
    File::options().append(true).create(true).open(path).unwrap().write_all(bytes).unwrap();
}

/// The delivered lines as text; a restart as `!`.
fn taken(follower: &mut Follower) -> Vec<String> {
    let mut seen = Vec::new();
    follower
        .take(|followed| {
            seen.push(match followed {
                Followed::Line(line) => String::from_utf8(line.to_vec()).unwrap(),
                Followed::Restarted => "!".to_owned(),
            });
        })
        .unwrap();
    seen
}

#[test]
fn lines_are_handed_on_when_they_are_complete() {
    let Place { path, .. } = &place();
    let mut follower = Follower::new(path, 0);
    assert_eq!(taken(&mut follower), [""; 0], "there is no file yet");
    append(path, b"one\ntw");
    assert_eq!(taken(&mut follower), ["one"]);
    assert_eq!((taken(&mut follower).len(), follower.cursor()), (0, 4));
    append(path, b"o\n\nthree\n");
    assert_eq!(taken(&mut follower), ["two", "", "three"]);
    let mut later = Follower::new(path, 4);
    assert_eq!(taken(&mut later), ["two", "", "three"], "a cursor stays valid");
}

#[test]
fn a_torn_tail_that_the_next_writer_cuts_is_never_seen() {
    let Place { path, .. } = &place();
    let mut follower = Follower::new(path, 0);
    append(path, b"one\nhalf a li");
    assert_eq!(taken(&mut follower), ["one"]);
    AppendFile::open(path).unwrap().append("two").unwrap();
    assert_eq!(taken(&mut follower), ["two"]);
}

#[test]
fn a_file_that_was_cut_or_replaced_is_read_from_its_beginning() {
    let Place { path, .. } = &place();
    append(path, b"one\ntwo\n");
    let mut follower = Follower::new(path, 0);
    assert_eq!(taken(&mut follower), ["one", "two"]);
    fs::write(path, "new\n").unwrap();
    assert_eq!(taken(&mut follower), ["!", "new"]);
    // Truncated and grown again before the next call.
    fs::write(path, "much longer than before\n").unwrap();
    assert_eq!(taken(&mut follower), ["!", "much longer than before"]);
    // Lines appended to the old file before it was replaced are not lost.
    append(path, b"last\n");
    fs::write(path.with_extension("new"), "other\n").unwrap();
    fs::rename(path.with_extension("new"), path).unwrap();
    assert_eq!(taken(&mut follower), ["last", "!", "other"]);
    fs::remove_file(path).unwrap();
    assert_eq!(taken(&mut follower), [""; 0]);
    append(path, b"again\n");
    assert_eq!(taken(&mut follower), ["!", "again"]);
    assert_eq!(taken(&mut Follower::new(path, 1000)), ["!", "again"], "a cursor of another file");
}

#[test]
fn the_last_lines_are_found_from_the_end() {
    let Place { path, .. } = &place();
    assert_eq!(start_of_last(path, 3).unwrap(), 0);
    let long = "x".repeat(CHUNK);
    append(path, format!("one\n{long}\ntwo\nthree\ntorn").as_bytes());
    let last = |count| taken(&mut Follower::new(path, start_of_last(path, count).unwrap()));
    assert_eq!(last(0), [""; 0]);
    assert_eq!(last(1), ["three"]);
    assert_eq!(last(2), ["two", "three"]);
    assert_eq!(last(3), [&long, "two", "three"]);
    assert_eq!(last(9), ["one", &long, "two", "three"]);
}

#[test]
fn what_is_no_file_is_refused_and_nobody_hangs() {
    let Place { path, .. } = &place();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path.as_std_path(),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let refused = Follower::new(path, 0).take(|_| {}).unwrap_err();
    assert!(refused.source.to_string().contains("not a file"), "{refused}");
}

#[test]
fn a_follower_is_woken_by_a_line_and_by_its_reader_going_away() {
    let Place { path, .. } = &place();
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let mut follower = Follower::new(path, 0);
    assert_eq!(taken(&mut follower), [""; 0]);
    std::thread::scope(|scope| {
        scope.spawn(|| append(path, b"one\n"));
        let mut seen = Vec::new();
        while seen.is_empty() {
            assert!(!wait([&mut follower], writer.as_fd()).unwrap());
            seen = taken(&mut follower);
        }
        assert_eq!(seen, ["one"]);
    });
    drop(reader);
    assert!(wait([&mut follower], writer.as_fd()).unwrap());
}

proptest! {
    #[test]
    fn any_pieces_give_the_same_lines(
        lines in prop::collection::vec("[a-c]{0,5}", 0..12),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let Place { path, .. } = &place();
        let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let mut follower = Follower::new(path, 0);
        let (mut seen, mut by_cursor) = (Vec::new(), Vec::new());
        for piece in cuts.windows(2) {
            append(path, &text.as_bytes()[piece[0]..piece[1]]);
            let mut resumed = Follower::new(path, follower.cursor());
            by_cursor.extend(taken(&mut resumed));
            seen.extend(taken(&mut follower));
            prop_assert_eq!(resumed.cursor(), follower.cursor());
        }
        prop_assert_eq!(&seen, &lines);
        prop_assert_eq!(by_cursor, lines);
    }
}
