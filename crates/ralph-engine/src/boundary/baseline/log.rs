//! The file of a baseline: an append-only log of records, which contents that were kept are read from.
//!
//! A record that a crash cut short ends the log; nothing after it is read. The log is removed when the baseline is dropped.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use camino::Utf8Path;

use super::{Baseline, BaselineEntry};
use crate::boundary::protected::{Class, is_sample};
use crate::boundary::record::{Kept, RecordKept, Recorded, Records, append};
use crate::files::remove_optional;

impl Baseline {
    /// Reads the log of a process that died.
    pub(in crate::boundary) fn load(path: &Utf8Path) -> io::Result<Baseline> {
        let mut baseline = Baseline::new(path.to_owned());
        let mut bytes = Vec::new();
        let file = File::open(path)?;
        (&file).read_to_end(&mut bytes)?;
        let mut records = Records::new(&bytes);
        for Recorded { path, class, stamp, kept } in &mut records {
            match stamp {
                // A directory that was passed over is a record of its own: nothing below it is known.
                Some(stamp) if stamp.kind().is_dir() && kept == Kept::Ignored => {
                    baseline.passed.insert(path.to_owned());
                }
                Some(stamp) => {
                    let name = path.file_name().unwrap_or_default();
                    baseline.samples |= class == Class::Settings && is_sample(name.as_bytes());
                    let entry = BaselineEntry { stamp, class, kept, seen: 0 };
                    baseline.entries.insert(path.into(), entry);
                }
                None => {
                    baseline.entries.remove(path.as_os_str());
                }
            }
        }
        baseline.end = records.end();
        baseline.log = Some(file);
        Ok(baseline)
    }

    /// Reads a content that was kept in the log.
    pub(in crate::boundary) fn bytes(&self, kept: &Kept) -> Option<Vec<u8>> {
        let Kept::Bytes { offset, length } = kept else { return None };
        let mut bytes = vec![0; usize::try_from(*length).ok()?];
        self.log.as_ref()?.read_exact_at(&mut bytes, *offset).ok()?;
        Some(bytes)
    }

    pub(super) fn write(&mut self, text: &[u8]) -> io::Result<()> {
        if self.log.is_none() {
            let mut open = OpenOptions::new();
            open.read(true).write(true).create(true).truncate(true).mode(0o600);
            self.log = Some(open.open(&self.path)?);
        }
        let log = self.log.as_ref().expect("the log was opened above");
        log.write_all_at(text, self.end)?;
        self.end += text.len() as u64;
        Ok(())
    }

    /// Rewrites the log without replaced entries.
    pub(super) fn rewrite(&mut self) -> io::Result<()> {
        let path = self.path.with_extension("new");
        let mut fresh = Baseline::new(path.clone());
        let entries = std::mem::take(&mut self.entries);
        for (path, mut entry) in entries {
            let content = self.bytes(&entry.kept).unwrap_or_default();
            let kept = RecordKept::of(&entry.kept);
            let mut text = Vec::new();
            append(&mut text, Path::new(&path), entry.class, Some(entry.stamp), &kept, &content);
            fresh.write(&text)?;
            entry.kept = kept.at(fresh.end - content.len() as u64);
            self.entries.insert(path, entry);
        }
        fs::rename(&path, &self.path)?;
        (self.log, self.end) = (fresh.log.take(), fresh.end);
        Ok(())
    }
}

impl Drop for Baseline {
    fn drop(&mut self) {
        if self.log.is_some() {
            let _ = remove_optional(&self.path);
        }
    }
}
