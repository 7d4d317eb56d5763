//! The pipeline's files: markers are read from them, and facts are written to them one file at a time.
//!
//! State files that cannot be read stop the command and are never overwritten. Sessions are disposable: one that cannot
//! be read is dropped.

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use ralph_model::pipeline::done::DoneView;
use ralph_model::pipeline::records::{self, PlanRecord, SessionRecord, SpecIdentity};
use ralph_model::pipeline::{Markers, Write, text_mark};
use ralph_model::spec::name::SpecPath;
use serde::de::DeserializeOwned;

use crate::files::disk;
use crate::files::{
    PathError, create_directory, read_optional, remove_durably, remove_optional, rename_durably,
    replace_atomically,
};
use crate::workflow::WorkflowError;
use crate::workflow::isolation::overlay::HomeOverlay;

/// The files of one home's pipeline.
#[derive(Clone, Debug)]
pub struct SpecStore {
    home: Utf8PathBuf,
    /// The home that has what is never committed: the logs of runs, and sessions.
    logs: Utf8PathBuf,
    /// What is to be seen in place of files on disk, by who only looks.
    overlay: HomeOverlay,
}

impl SpecStore {
    pub fn new(home: &Utf8Path) -> SpecStore {
        SpecStore::with_logs(home, home)
    }

    /// Returns the store of a home whose logs are in another.
    pub(crate) fn with_logs(home: &Utf8Path, logs: &Utf8Path) -> SpecStore {
        let overlay = HomeOverlay::default();
        SpecStore { home: home.to_owned(), logs: logs.to_owned(), overlay }
    }

    /// Returns a store to look into: with what has landed or is in flight, and is not in the files yet.
    pub fn seen_through(home: &Utf8Path, overlay: HomeOverlay) -> SpecStore {
        SpecStore { overlay, ..SpecStore::new(home) }
    }

    /// Tells whether a file below `specs/` is there.
    pub fn has(&self, below: &str) -> bool {
        match self.overlay.file(Utf8Path::new("specs").join(below)) {
            Some(file) => file.is_some(),
            None => disk::exists(&self.path(below)),
        }
    }

    /// Returns what a file below `specs/` holds.
    fn bytes(&self, below: &str) -> Result<Option<Vec<u8>>, PathError> {
        match self.overlay.file(Utf8Path::new("specs").join(below)) {
            Some(file) => Ok(file.map(<[u8]>::to_vec)),
            None => read_optional(&self.path(below)),
        }
    }

    /// Returns the path of something below `specs/`.
    pub fn path(&self, below: impl AsRef<Utf8Path>) -> Utf8PathBuf {
        self.home.join("specs").join(below)
    }

    pub(crate) fn scratchpad(&self) -> Utf8PathBuf {
        self.home.join("SCRATCHPAD.md")
    }

    /// Returns the files that agents remember things in, those that are there.
    pub(crate) fn memory(&self) -> Vec<Utf8PathBuf> {
        let files = [self.scratchpad(), self.home.join("progress.txt")];
        files.into_iter().filter(|file| disk::exists(file)).collect()
    }

    /// Names a path as the state files do: from home.
    pub(crate) fn relative_to_home(&self, path: &Utf8Path) -> String {
        let inside = path.strip_prefix(&self.home).or_else(|_| path.strip_prefix(&self.logs));
        inside.unwrap_or(path).to_string()
    }

    /// Reads everything that is on disk about a spec.
    pub fn load(&self, spec: &SpecPath) -> Result<Markers, WorkflowError> {
        let plan_text = self.text(&spec.plan_md())?;
        let done = self.text(&spec.done())?;
        let plan: Option<PlanRecord> = self.record(&spec.plan_json())?;
        let plans = plan.as_ref().map_or(0, |plan| plan.attempt);
        let is_archived = |number: &u32| self.has(&spec.archive(*number));
        Ok(Markers {
            spec: identity(spec),
            done: done.as_deref().map(DoneView::read),
            plan,
            plan_text: plan_text
                .filter(|text| !text.trim().is_empty())
                .map(|text| text_mark(&text)),
            archived: (1..=plans).filter(is_archived).collect(),
            candidate: self.record(&spec.candidate())?,
        })
    }

    /// Returns a text below `specs/`, as far as it is text.
    pub(crate) fn text(&self, below: &str) -> Result<Option<String>, PathError> {
        let bytes = self.bytes(below)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn record<T: DeserializeOwned>(&self, below: &str) -> Result<Option<T>, WorkflowError> {
        let path = self.path(below);
        let Some(bytes) = self.bytes(below)? else { return Ok(None) };
        parse_record(&path, &bytes).map(Some)
    }

    /// Returns the number under which the done marker can be archived.
    pub(crate) fn next_done_archive(&self, spec: &SpecPath) -> u32 {
        let is_free = |number: &u32| !disk::exists(&self.path(done_archive(spec, *number)));
        (1..u32::MAX).find(is_free).unwrap_or(u32::MAX)
    }

    /// Returns the files that a write makes, changes or removes.
    pub(crate) fn files_of(&self, spec: &SpecPath, write: &Write) -> Vec<Utf8PathBuf> {
        let below: Vec<String> = match write {
            Write::Plan(_) => vec![spec.plan_json()],
            Write::PlanText(_) => vec![spec.plan_md()],
            Write::Scratchpad(_) => return vec![self.scratchpad()],
            Write::ArchivePlan { number } => vec![spec.plan_md(), spec.archive(*number)],
            Write::Candidate(_) | Write::RemoveCandidate => vec![spec.candidate()],
            // Which is never committed.
            Write::ForgetSessions => Vec::new(),
            Write::Done(_) => vec![spec.done()],
            Write::ArchiveDone { number } => vec![spec.done(), done_archive(spec, *number)],
        };
        below.iter().map(|below| self.path(below)).collect()
    }

    /// Returns the file that a write replaces, and what it is to hold; `None` for writes that move or remove files.
    pub(crate) fn replacement(
        &self,
        spec: &SpecPath,
        write: &Write,
    ) -> Option<(Utf8PathBuf, Vec<u8>)> {
        Some(match write {
            Write::Plan(record) => (self.path(spec.plan_json()), records::render(record)),
            Write::PlanText(text) => (self.path(spec.plan_md()), text.clone().into_bytes()),
            Write::Scratchpad(text) => (self.scratchpad(), text.clone().into_bytes()),
            Write::Candidate(record) => (self.path(spec.candidate()), records::render(record)),
            Write::Done(text) => (self.path(spec.done()), text.clone().into_bytes()),
            Write::ArchivePlan { .. }
            | Write::ArchiveDone { .. }
            | Write::RemoveCandidate
            | Write::ForgetSessions => return None,
        })
    }

    /// Performs writes, and then what makes them count. Where that fails, the files are as they were.
    pub fn perform_with<E>(
        &self,
        spec: &SpecPath,
        writes: &[Write],
        then: impl FnOnce() -> Result<(), E>,
    ) -> Result<Result<(), E>, PathError> {
        let files = writes.iter().flat_map(|write| self.files_of(spec, write));
        let before = files.map(|file| Ok((read_optional(&file)?, file)));
        let before: Vec<(Option<Vec<u8>>, Utf8PathBuf)> =
            before.collect::<Result<_, PathError>>()?;
        writes.iter().try_for_each(|write| self.perform(spec, write))?;
        let done = then();
        if done.is_err() {
            for (bytes, file) in &before {
                match bytes {
                    Some(bytes) => replace_atomically(file, bytes)?,
                    None => remove_durably(file)?,
                }
            }
        }
        Ok(done)
    }

    /// Performs one write.
    pub fn perform(&self, spec: &SpecPath, write: &Write) -> Result<(), PathError> {
        if let Some((path, bytes)) = self.replacement(spec, write) {
            create_directory(path.parent().expect("it is below home"))?;
            return replace_atomically(&path, &bytes);
        }
        match write {
            Write::ArchivePlan { number } => self.rename(&spec.plan_md(), &spec.archive(*number)),
            Write::RemoveCandidate => remove_durably(&self.path(spec.candidate())),
            Write::ForgetSessions => remove_durably(&self.session_file(spec)),
            Write::ArchiveDone { number } => {
                self.rename(&spec.done(), &done_archive(spec, *number))
            }
            _ => unreachable!("what replaces a file was done above"),
        }
    }

    /// Moves a file, if it is there.
    fn rename(&self, from: &str, to: &str) -> Result<(), PathError> {
        let from = self.path(from);
        if disk::exists(&from) { rename_durably(&from, &self.path(to)) } else { Ok(()) }
    }

    /// Returns what is known of a spec's sessions; what cannot be read is forgotten.
    pub(crate) fn sessions(&self, spec: &SpecPath, at: Timestamp) -> SessionRecord {
        let found = read_record(&self.session_file(spec)).ok().flatten();
        found.unwrap_or_else(|| SessionRecord::new(&identity(spec), at))
    }

    /// Removes a file of sessions that cannot be read, and says what was wrong with it.
    pub(crate) fn drop_broken_sessions(
        &self,
        spec: &SpecPath,
    ) -> Result<Option<String>, PathError> {
        let file = self.session_file(spec);
        let Err(problem) = read_record::<SessionRecord>(&file) else { return Ok(None) };
        remove_optional(&file)?;
        Ok(Some(problem.to_string()))
    }

    pub(crate) fn forget_sessions(&self, spec: &SpecPath) -> Result<(), PathError> {
        remove_optional(&self.path(spec.session()))
    }

    pub(crate) fn save_sessions(
        &self,
        spec: &SpecPath,
        record: &SessionRecord,
    ) -> Result<(), PathError> {
        let path = self.session_file(spec);
        create_directory(path.parent().expect("it is below `specs/`"))?;
        replace_atomically(&path, &records::render(record))
    }

    /// Returns the file of a spec's sessions, which git never has.
    fn session_file(&self, spec: &SpecPath) -> Utf8PathBuf {
        self.logs.join("specs").join(spec.session())
    }
}

/// Reads a record; one that cannot be read is an error that says where.
fn read_record<T: DeserializeOwned>(path: &Utf8Path) -> Result<Option<T>, WorkflowError> {
    let Some(bytes) = read_optional(path)? else { return Ok(None) };
    parse_record(path, &bytes).map(Some)
}

fn parse_record<T: DeserializeOwned>(path: &Utf8Path, bytes: &[u8]) -> Result<T, WorkflowError> {
    let unreadable = |error: records::RecordError| WorkflowError::StateFile {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    records::parse(bytes).map_err(unreadable)
}

/// Returns how the records name a spec.
pub fn identity(spec: &SpecPath) -> SpecIdentity {
    SpecIdentity { rel: spec.as_str().to_owned(), id: spec.id().to_owned() }
}

/// Files that people read have no fractions of seconds.
pub fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// Names an archived done marker, as archived plans are named.
fn done_archive(spec: &SpecPath, number: u32) -> String {
    let done = spec.done();
    let stem = done.strip_suffix(".md").unwrap_or(&done);
    format!("{stem}.attempt-{number}.md")
}
