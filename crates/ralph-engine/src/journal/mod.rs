//! The journal: one line per fact, in private state, and mirrored for people.
//!
//! Invariant: when [`Journal::append`] returns without an error, the line and all before it are on disk. The mirror
//! (`ralph.log` in home) is write-only: agents can write there, so nothing is ever read from it, symlinks at its path
//! are not followed, and a mirror that cannot be written delays nothing and is reported once.
//!
//! After a fact is on disk, it is folded into the journal's board and then passed to its subscriber.

mod snapshot;

use std::io::{self, BufRead, BufReader};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use ralph_model::board::Board;
use ralph_model::id::RunId;
use ralph_model::journal::{
    JournalEntry, JournalEvent, JournalLineError, PlanChanged, WorkflowStarted, render_line,
    render_text,
};
use ralph_model::plan::Change;

pub use self::snapshot::load_board;
use crate::config::LogFormat;
use crate::files::append::{AppendFile, TornTail};
use crate::files::disk::{DiskFile, DiskReader, open_to_append, open_to_read};
use crate::files::{PathError, fault, read_optional, replace_atomically};
use crate::subscriber::{RunObserver, Subscriber, Unobserved};

/// Facts, appended and read back in order.
pub struct Journal {
    path: Utf8PathBuf,
    file: AppendFile,
    mirror: Option<JournalMirror>,
    report: Option<MirrorReport>,
    /// The invocation that these lines belong to.
    workflow: Option<RunId>,
    /// Its start, deferred until there is something else to record: an invocation that does nothing leaves no line.
    opening: Option<(Timestamp, JournalEvent)>,
    board: Board,
    subscriber: Option<Box<dyn Subscriber>>,
}

/// Called with the first problem of the mirror, and then not again.
pub type MirrorReport = Box<dyn FnOnce(&PathError) + Send>;

/// The copy of the journal for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JournalMirror {
    pub(crate) path: Utf8PathBuf,
    pub(crate) format: LogFormat,
}

/// One rendered fact.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalLine<'a> {
    /// The line in the journal.
    pub record: &'a str,
    /// The line in the mirror, if it differs.
    pub mirrored: Option<&'a str>,
}

/// The journal could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadJournalError<E> {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("`{path}` line {line} is not a fact")]
    Line {
        path: Utf8PathBuf,
        line: usize,
        #[source]
        source: E,
    },
    #[error("`{path}` line {line} is not UTF-8")]
    NotText { path: Utf8PathBuf, line: usize },
}

impl ReadJournalError<JournalLineError> {
    /// Whether a line is damaged, rather than from a newer Ralph.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            ReadJournalError::Path(_) => false,
            ReadJournalError::Line { source, .. } => {
                !matches!(source, JournalLineError::Newer { .. })
            }
            ReadJournalError::NotText { .. } => true,
        }
    }
}

impl Journal {
    /// Opens a journal, or creates it. Its board is empty until [`Journal::fold`].
    pub fn open(path: &Utf8Path) -> Result<Self, PathError> {
        Ok(Journal {
            path: path.to_owned(),
            file: AppendFile::open(path)?,
            mirror: None,
            report: None,
            workflow: None,
            opening: None,
            board: Board::default(),
            subscriber: None,
        })
    }

    /// Mirrors the journal to a file, which is written only while its directory exists.
    pub(crate) fn mirrored(self, mirror: Option<JournalMirror>) -> Self {
        Journal { mirror, ..self }
    }

    /// Folds everything recorded, including by other processes.
    pub fn fold(&mut self) -> Result<(), ReadJournalError<JournalLineError>> {
        self.board = load_board(&self.path)?;
        Ok(())
    }

    /// Whether the last line is complete.
    pub(crate) fn is_whole(&self) -> Result<bool, PathError> {
        self.file.is_whole()
    }

    /// Keeps a damaged journal aside, and continues with the readable lines. The caller must hold the run lock.
    /// `keep_aside` gets the whole journal, and what is lost.
    pub(crate) fn repair(
        &mut self,
        keep_aside: impl FnOnce(&Utf8Path, &[u8], &str) -> Result<(), PathError>,
    ) -> Result<(), PathError> {
        let bytes = read_optional(&self.path)?.unwrap_or_default();
        let (mut good, mut bad) = (Vec::new(), 0);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = line.strip_suffix(b"\n").and_then(|line| str::from_utf8(line).ok());
            match text.map(|text| Board::default().apply_line(text)) {
                Some(Ok(()) | Err(JournalLineError::Newer { .. })) => good.extend_from_slice(line),
                _ => bad += 1,
            }
        }
        let loss = format!(
            "{bad} of its lines cannot be read and are ignored; what they recorded is lost"
        );
        keep_aside(&self.path, &bytes, &loss)?;
        replace_atomically(&self.path, &good)?;
        self.file = AppendFile::open(&self.path)?;
        Ok(())
    }

    /// The fold of all recorded entries, except those by other processes since [`Journal::fold`].
    pub const fn board(&self) -> &Board {
        &self.board
    }

    /// Marks all further lines with one invocation, and sets the subscriber. The start is recorded before the first of
    /// them.
    pub(crate) fn attach(
        &mut self,
        at: Timestamp,
        started: WorkflowStarted,
        subscriber: Box<dyn Subscriber>,
    ) {
        self.workflow = Some(started.id.clone());
        self.opening = Some((at, started.into()));
        self.subscriber = Some(subscriber);
    }

    /// Whether anything of the invocation was recorded.
    pub(crate) const fn has_begun(&self) -> bool {
        self.opening.is_none()
    }

    /// Returns the observer of a run that has begun.
    pub(crate) fn follow(&mut self, run: &RunId) -> Box<dyn RunObserver> {
        match &mut self.subscriber {
            Some(subscriber) => subscriber.follow(run, &self.board),
            None => Box::new(Unobserved),
        }
    }

    /// Shows that the wait recorded last continues.
    pub(crate) fn waiting(&mut self, left: Duration) {
        if let Some(subscriber) = &mut self.subscriber {
            subscriber.waiting(left);
        }
    }

    /// Sets the callback for problems of the mirror.
    pub fn report_mirror_problem(&mut self, report: MirrorReport) {
        self.report = Some(report);
    }

    /// Appends a fact durably. Returns the torn line of a dead writer if it had to be truncated first.
    pub(crate) fn append(&mut self, line: JournalLine<'_>) -> Result<Option<TornTail>, PathError> {
        let torn = self.file.append(line.record)?;
        self.append_to_mirror(line);
        Ok(torn)
    }

    /// Writes the mirror, and reports its first problem.
    fn append_to_mirror(&mut self, line: JournalLine<'_>) {
        if let Some(mirror) = &self.mirror
            && let Err(problem) =
                append_to_mirror(&mirror.path, line.mirrored.unwrap_or(line.record))
            && problem.kind() != io::ErrorKind::NotFound
            && let Some(report) = self.report.take()
        {
            report(&PathError::new("append to", &mirror.path, problem));
        }
    }

    /// Records an event, mirrored in the configured format; then it is folded and passed on. It is durable, except for
    /// facts that home contains too: those become durable with the next line. One start may skip thousands of specs.
    pub(crate) fn record(
        &mut self,
        at: Timestamp,
        run: Option<&RunId>,
        event: impl Into<JournalEvent>,
    ) -> Result<(), PathError> {
        if let Some((at, started)) = self.opening.take() {
            self.record(at, None, started)?;
        }
        let (run, wf, event) = (run.cloned(), self.workflow.clone(), event.into());
        let entry = JournalEntry { at, run, wf, event };
        let record = render_line(&entry);
        let as_text = self.mirror.as_ref().is_some_and(|mirror| mirror.format == LogFormat::Text);
        let text = as_text.then(|| render_text(&entry));
        let line = JournalLine { record: record.trim_end(), mirrored: text.as_deref() };
        if entry.event.is_in_home() {
            self.file.append_unsynced(line.record)?;
            self.append_to_mirror(line);
        } else {
            self.append(line)?;
        }
        if entry.event.is_decisive() {
            fault::after_write();
        }
        self.board.apply(&entry);
        if let Some(subscriber) = &mut self.subscriber {
            subscriber.recorded(&entry, &self.board);
        }
        Ok(())
    }
}

/// Records a person's change to the plan. The mirror in home is not written: such a command changes only the plan
/// there. The line is not synced: the plan's own commit is the durable record of the change, and a sync would cost such
/// a command a tenth of its time.
pub fn record_persons_change(
    journal: &Utf8Path,
    at: Timestamp,
    change: &Change,
) -> Result<(), PathError> {
    let event = PlanChanged::of("person", change).into();
    let line = render_line(&JournalEntry { at, run: None, wf: None, event });
    AppendFile::open(journal)?.append_unsynced(line.trim_end())?;
    Ok(())
}

/// Reads a journal from the beginning, one line at a time. A missing journal is empty.
///
/// A last line without a line end is a torn write; it is skipped and reported.
pub fn for_each_line<E>(
    path: &Utf8Path,
    mut take: impl FnMut(&str) -> Result<(), E>,
) -> Result<Option<TornTail>, ReadJournalError<E>> {
    let Some(file) = open_optional(path)? else { return Ok(None) };
    let mut lines = Lines::new(path, &file, 0, 0);
    while let Some(line) = lines.next()? {
        take(line).map_err(|source| lines.refused(source))?;
    }
    Ok(lines.torn)
}

fn open_optional(path: &Utf8Path) -> Result<Option<DiskFile>, PathError> {
    match open_to_read(path) {
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(problem) => Err(PathError::new("read", path, problem)),
        Ok(file) => Ok(Some(file)),
    }
}

/// Reads the complete lines of a journal, starting at an offset.
struct Lines<'f> {
    path: Utf8PathBuf,
    reader: BufReader<DiskReader<'f>>,
    bytes: Vec<u8>,
    offset: u64,
    number: usize,
    torn: Option<TornTail>,
}

impl<'f> Lines<'f> {
    /// The read size: long journals are read completely.
    const CHUNK: usize = 256 << 10;

    fn new(path: &Utf8Path, file: &'f DiskFile, offset: u64, number: usize) -> Self {
        let reader = BufReader::with_capacity(Self::CHUNK, file.reader(offset));
        Lines { path: path.to_owned(), reader, bytes: Vec::new(), offset, number, torn: None }
    }

    /// Returns the next line without its line end.
    fn next<E>(&mut self) -> Result<Option<&str>, ReadJournalError<E>> {
        self.bytes.clear();
        let read = self.reader.read_until(b'\n', &mut self.bytes);
        let read = read.map_err(|source| PathError::new("read", &self.path, source))?;
        if read == 0 {
            return Ok(None);
        }
        if self.bytes.pop_if(|byte| *byte == b'\n').is_none() {
            self.torn = Some(TornTail { bytes: read as u64 });
            return Ok(None);
        }
        self.offset += read as u64;
        self.number += 1;
        match str::from_utf8(&self.bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(ReadJournalError::NotText { path: self.path.clone(), line: self.number }),
        }
    }

    /// The error for an unusable line.
    fn refused<E>(&self, source: E) -> ReadJournalError<E> {
        ReadJournalError::Line { path: self.path.clone(), line: self.number, source }
    }

    /// The end offset of the last complete line.
    const fn offset(&self) -> u64 {
        self.offset
    }

    /// The number of lines before that offset.
    const fn number(&self) -> usize {
        self.number
    }
}

/// The mirror is reopened for each line, so that a person may move or delete it at any time.
fn append_to_mirror(path: &Utf8Path, text: &str) -> io::Result<()> {
    let mut line = text.to_owned();
    line.push('\n');
    open_to_append(path)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::mpsc;

    use proptest::prelude::*;

    use super::*;

    fn json(path: &Utf8Path) -> JournalMirror {
        JournalMirror { path: path.to_owned(), format: LogFormat::Json }
    }

    fn temp() -> (tempfile::TempDir, Utf8PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(directory.path().to_owned()).unwrap();
        (directory, path)
    }

    fn record(record: &str) -> JournalLine<'_> {
        JournalLine { record, mirrored: None }
    }

    fn read(path: &Utf8Path) -> (Vec<String>, Option<TornTail>) {
        let mut lines = Vec::new();
        let torn = for_each_line(path, |line| {
            lines.push(line.to_owned());
            Ok::<_, std::convert::Infallible>(())
        });
        (lines, torn.unwrap())
    }

    #[test]
    fn facts_are_read_back_and_mirrored_as_json_or_text() {
        let (_guard, directory) = temp();
        let (path, mirror) = (directory.join("journal.jsonl"), directory.join("ralph.log"));
        assert_eq!(read(&path), (vec![], None));
        let mut journal = Journal::open(&path).unwrap().mirrored(Some(json(&mirror)));
        journal.append(record("{\"a\":1}")).unwrap();
        journal.append(JournalLine { record: "{\"b\":2}", mirrored: Some("b is 2") }).unwrap();
        assert_eq!(read(&path).0, ["{\"a\":1}", "{\"b\":2}"]);
        assert_eq!(fs::read_to_string(&mirror).unwrap(), "{\"a\":1}\nb is 2\n");
        fs::remove_file(&mirror).unwrap();
        journal.append(record("{}")).unwrap();
        assert_eq!(fs::read_to_string(&mirror).unwrap(), "{}\n");
    }

    #[test]
    fn without_a_home_there_is_no_mirror_and_no_complaint() {
        let (_guard, directory) = temp();
        let path = directory.join("journal.jsonl");
        let mut journal =
            Journal::open(&path).unwrap().mirrored(Some(json(&directory.join("ralph/ralph.log"))));
        journal.report_mirror_problem(Box::new(|problem| panic!("{problem}")));
        journal.append(record("{}")).unwrap();
        assert!(!directory.join("ralph").exists());
    }

    #[test]
    fn a_mirror_that_leads_elsewhere_is_not_written_and_stops_nothing() {
        let (_guard, directory) = temp();
        let (path, mirror) = (directory.join("journal.jsonl"), directory.join("ralph.log"));
        let precious = directory.join("precious");
        fs::write(&precious, "").unwrap();
        symlink(&precious, &mirror).unwrap();
        let mut journal = Journal::open(&path).unwrap().mirrored(Some(json(&mirror)));
        let (tell, told) = mpsc::channel();
        journal.report_mirror_problem(Box::new(move |problem| {
            tell.send(problem.path.clone()).unwrap();
        }));
        journal.append(record("1")).unwrap();
        journal.append(record("2")).unwrap();
        assert_eq!(read(&path).0, ["1", "2"]);
        assert_eq!(fs::read(&precious).unwrap(), b"");
        assert_eq!(told.iter().collect::<Vec<_>>(), [mirror], "once");
    }

    #[test]
    fn a_line_nobody_understands_is_named() {
        let (_guard, directory) = temp();
        let path = directory.join("journal.jsonl");
        fs::write(&path, "good\nbad\n").unwrap();
        let error = for_each_line(&path, |line| match line {
            "bad" => Err(io::Error::other("no fact")),
            _ => Ok(()),
        });
        let message = format!("`{path}` line 2 is not a fact");
        assert_eq!(error.unwrap_err().to_string(), message);
        fs::write(&path, b"good\n\xff\n").unwrap();
        let error = for_each_line(&path, |_| Ok::<_, io::Error>(())).unwrap_err();
        assert_eq!(error.to_string(), format!("`{path}` line 2 is not UTF-8"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn cut_anywhere_a_journal_keeps_its_whole_lines_and_goes_on(
            lines in prop::collection::vec("[ -~é]{0,30}", 1..8),
            cut in any::<prop::sample::Index>(),
        ) {
            let (_guard, directory) = temp();
            let path = directory.join("journal.jsonl");
            let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
            let kept = &text.as_bytes()[..cut.index(text.len())];
            fs::write(&path, kept).unwrap();
            let whole = kept.split(|byte| *byte == b'\n').count() - 1;
            let (before, torn) = read(&path);
            prop_assert_eq!(&before, &lines[..whole]);
            let mut journal = Journal::open(&path).unwrap();
            prop_assert_eq!(journal.append(record("next")).unwrap(), torn);
            let (after, torn) = read(&path);
            prop_assert_eq!(&after[..whole], &lines[..whole]);
            prop_assert_eq!(&after[whole..], ["next"]);
            prop_assert_eq!(torn, None);
        }
    }
}
