//! A snapshot of a journal's board, so that not every start has to read all of a long journal.
//!
//! Invariant: a snapshot is only a cache. It is the board of all lines before an offset, and is used only if the
//! journal still has the same bytes before that offset; on any mismatch the journal is folded from the beginning. It is
//! written only directly after folding from the file, never from a session's board: other processes may have added
//! lines between the session's own.

use camino::Utf8Path;
use ralph_model::board::{BOARD_VERSION, Board};
use ralph_model::journal::JournalLineError;
use serde::{Deserialize, Serialize};

use super::{Lines, ReadJournalError, open_optional};
use crate::digest;
use crate::files::disk::DiskFile;
use crate::files::{read_optional, replace_unsynced};

/// A new snapshot is written after folding this many bytes.
const WORTH_KEEPING: u64 = 4 << 20;

/// How many bytes before the offset are compared.
const COMPARED: u64 = 4 << 10;

#[derive(Serialize, Deserialize)]
struct Snapshot {
    version: u32,
    /// The version of the program that folded: another may fold differently.
    ralph: String,
    offset: u64,
    /// The number of lines before the offset.
    lines: usize,
    /// The digest of the bytes directly before the offset.
    digest: String,
    board: Board,
}

/// Folds a journal, starting from its snapshot if that is valid. A missing journal is empty.
pub fn load_board(journal: &Utf8Path) -> Result<Board, ReadJournalError<JournalLineError>> {
    load(journal, WORTH_KEEPING)
}

fn load(
    journal: &Utf8Path,
    worth_keeping: u64,
) -> Result<Board, ReadJournalError<JournalLineError>> {
    let Some(file) = open_optional(journal)? else { return Ok(Board::default()) };
    let path = journal.with_file_name("board.json");
    let (mut board, begin, lines) = match read(&path, &file) {
        Some(Snapshot { board, offset, lines, .. }) => (board, offset, lines),
        None => (Board::default(), 0, 0),
    };
    let mut reader = Lines::new(journal, &file, begin, lines);
    while let Some(line) = reader.next()? {
        let applied = board.apply_line(line);
        applied.map_err(|source| reader.refused(source))?;
    }
    if reader.offset() - begin >= worth_keeping {
        // A reader without write access has to fold again next time.
        let _ = write(&path, &file, &reader, &board);
    }
    Ok(board)
}

/// Reads a snapshot that matches the journal.
fn read(path: &Utf8Path, journal: &DiskFile) -> Option<Snapshot> {
    let text = read_optional(path).ok()??;
    let snapshot: Snapshot = serde_json::from_slice(&text).ok()?;
    let fits = snapshot.version == BOARD_VERSION
        && snapshot.ralph == env!("CARGO_PKG_VERSION")
        && digest_before(journal, snapshot.offset)? == snapshot.digest;
    fits.then_some(snapshot)
}

fn write(path: &Utf8Path, journal: &DiskFile, reader: &Lines<'_>, board: &Board) -> Option<()> {
    let offset = reader.offset();
    let snapshot = Snapshot {
        version: BOARD_VERSION,
        ralph: env!("CARGO_PKG_VERSION").to_owned(),
        offset,
        lines: reader.number(),
        digest: digest_before(journal, offset)?,
        board: board.clone(),
    };
    let text = serde_json::to_vec(&snapshot).expect("a board is plain data");
    replace_unsynced(path, &text).ok()
}

/// Hashes the bytes directly before an offset; `None` if the journal is shorter, or no line ends there.
fn digest_before(journal: &DiskFile, offset: u64) -> Option<String> {
    let begin = offset.saturating_sub(COMPARED);
    let mut bytes = vec![0; usize::try_from(offset - begin).ok()?];
    journal.read_exact_at(&mut bytes, begin).ok()?;
    (bytes.last() == Some(&b'\n')).then(|| digest::of_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use camino::Utf8PathBuf;
    use proptest::prelude::*;
    use ralph_model::journal::{JournalEntry, Note, QuestionAsked, render_line};

    use super::*;
    use crate::test_place::Place;

    fn lines(count: usize) -> Vec<String> {
        let line = |number: usize| {
            let event = if number.is_multiple_of(3) {
                Note { reason: format!("{number}"), ..Note::default() }.into()
            } else {
                let (id, item) = (format!("q{number}"), format!("item-{}", number % 7));
                let question = "?".repeat(number % 50);
                let (kind, choices, commit) = (None, Vec::new(), None);
                QuestionAsked { id, item, question, kind, choices, commit }.into()
            };
            let at = jiff::Timestamp::from_second(1_800_000_000).unwrap();
            render_line(&JournalEntry { at, run: None, wf: None, event })
        };
        (0..count).map(line).collect()
    }

    fn fold(lines: &[String]) -> Board {
        let mut board = Board::default();
        for line in lines {
            board.apply_line(line.trim_end()).unwrap();
        }
        board
    }

    fn place() -> (Place, Utf8PathBuf, Utf8PathBuf) {
        let place = Place::new();
        let (journal, snapshot) = (place.root.join("journal.jsonl"), place.root.join("board.json"));
        (place, journal, snapshot)
    }

    #[test]
    fn a_short_journal_has_no_snapshot_and_a_missing_one_is_empty() {
        let (_guard, journal, snapshot) = place();
        assert_eq!(load_board(&journal).unwrap(), Board::default());
        fs::write(&journal, lines(100).concat()).unwrap();
        assert_eq!(load_board(&journal).unwrap(), fold(&lines(100)));
        assert!(!snapshot.exists());
    }

    #[test]
    fn a_snapshot_that_is_odd_in_any_way_is_not_used() {
        let (_guard, journal, snapshot) = place();
        let lines = lines(200);
        fs::write(&journal, lines[..150].concat()).unwrap();
        load(&journal, 1).unwrap();
        let good = fs::read_to_string(&snapshot).unwrap();
        let offset = lines[..150].concat().len();
        // It is really used: a forged value in lines that are not folded again is visible.
        let forged = good.replace("\"asked\":100", "\"asked\":1000");
        fs::write(&snapshot, &forged).unwrap();
        assert_eq!(load(&journal, u64::MAX).unwrap().questions_asked(), 1000);
        for odd in [
            String::new(),
            forged[..forged.len() / 2].to_owned(),
            forged.replace(&format!("\"version\":{BOARD_VERSION}"), "\"version\":0"),
            forged.replace(
                &format!("\"ralph\":\"{}\"", env!("CARGO_PKG_VERSION")),
                "\"ralph\":\"0\"",
            ),
            forged.replace(&format!("\"offset\":{offset}"), &format!("\"offset\":{}", offset - 1)),
            forged.replace(&format!("\"offset\":{offset}"), "\"offset\":99999999"),
            forged.replace("\"digest\":\"", "\"digest\":\"0"),
        ] {
            assert_ne!(odd, forged);
            fs::write(&snapshot, odd).unwrap();
            assert_eq!(load(&journal, u64::MAX).unwrap(), fold(&lines[..150]));
        }
        // A different journal at the same path, longer than the old one.
        fs::write(&snapshot, &forged).unwrap();
        let other: Vec<String> = lines.iter().map(|line| line.replace("item-", "other-")).collect();
        fs::write(&journal, other.concat()).unwrap();
        assert_eq!(load(&journal, u64::MAX).unwrap(), fold(&other));
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named_with_its_number_behind_a_snapshot_too() {
        let (_guard, journal, _) = place();
        fs::write(&journal, lines(10).concat()).unwrap();
        load(&journal, 1).unwrap();
        fs::write(&journal, format!("{}{{}}\n", lines(10).concat())).unwrap();
        let error = load(&journal, 1).unwrap_err().to_string();
        assert_eq!(error, format!("`{journal}` line 11 is not a fact"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]

        /// However often and wherever a snapshot was written, with or without a torn tail.
        #[test]
        fn with_snapshots_a_journal_folds_as_without(
            mut cuts in prop::collection::vec(0..120_usize, 1..5),
            torn in "[a-z]{0,5}",
        ) {
            let (_guard, journal, _) = place();
            let lines = lines(120);
            cuts.sort_unstable();
            for cut in cuts {
                fs::write(&journal, format!("{}{torn}", lines[..cut].concat())).unwrap();
                prop_assert_eq!(load(&journal, 1).unwrap(), fold(&lines[..cut]));
            }
            fs::write(&journal, lines.concat()).unwrap();
            prop_assert_eq!(load(&journal, 1).unwrap(), fold(&lines));
        }
    }
}
