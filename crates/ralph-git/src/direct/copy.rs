//! Copies a file through a small buffer, replacing a few bytes, and hashes the output.

use std::fs::File;
use std::io::{self, Read, Write};

use gix_hash::Kind;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::super::settings::Unfit;
use super::index::TORN;

/// The read size. Reused memory stays in the CPU cache; in tests chunks end at arbitrary places.
const CHUNK: usize = if cfg!(test) { 97 } else { 64 << 10 };

const UNWRITABLE: Unfit = Unfit("its index cannot be written");

/// A checksum against accidents only, so collision detection is not needed.
pub(super) enum Checksum {
    Sha1(Sha1),
    Sha256(Sha256),
}

impl Checksum {
    pub(super) fn new(kind: Kind) -> Self {
        match kind {
            Kind::Sha1 => Checksum::Sha1(Sha1::new()),
            _ => Checksum::Sha256(Sha256::new()),
        }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Checksum::Sha1(hash) => hash.update(bytes),
            Checksum::Sha256(hash) => hash.update(bytes),
        }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        match self {
            Checksum::Sha1(hash) => hash.finalize().to_vec(),
            Checksum::Sha256(hash) => hash.finalize().to_vec(),
        }
    }
}

/// The output, with its checksum, or with zeros in its place (`index.skipHash`).
pub(super) struct Sink<'a> {
    file: &'a File,
    checksum: Option<Checksum>,
    kind: Kind,
    len: u64,
}

impl<'a> Sink<'a> {
    pub(super) fn new(file: &'a File, kind: Kind) -> Self {
        Sink { file, checksum: Some(Checksum::new(kind)), kind, len: 0 }
    }

    pub(super) fn without_checksum(file: &'a File, kind: Kind) -> Self {
        Sink { checksum: None, ..Sink::new(file, kind) }
    }

    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<(), Unfit> {
        if let Some(checksum) = &mut self.checksum {
            checksum.update(bytes);
        }
        self.len += bytes.len() as u64;
        self.file.write_all(bytes).map_err(|_| UNWRITABLE)
    }

    /// Appends the checksum.
    pub(super) fn seal(self) -> Result<(), Unfit> {
        let zeros = || vec![0; self.kind.len_in_bytes()];
        let checksum = self.checksum.map_or_else(zeros, Checksum::finish);
        let mut file = self.file;
        file.write_all(&checksum).map_err(|_| UNWRITABLE)
    }
}

/// A file being copied into another.
pub(super) struct Copying<'a> {
    from: &'a File,
    /// The number of bytes to copy that are not in the buffer yet.
    left: u64,
    to: Sink<'a>,
    buffer: Vec<u8>,
    /// The start of the passed bytes that are not written yet.
    unwritten: usize,
    position: usize,
    end: usize,
    /// How many bytes were passed, skipped or replaced.
    passed: u64,
}

impl<'a> Copying<'a> {
    /// Copies the first `len` bytes of a file.
    pub(super) fn new(from: &'a File, len: u64, to: Sink<'a>) -> Self {
        let buffer = vec![0; CHUNK];
        Copying { from, left: len, to, buffer, unwritten: 0, position: 0, end: 0, passed: 0 }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.left == 0 && self.position == self.end
    }

    /// Returns the number of bytes read so far.
    pub(super) fn passed(&self) -> u64 {
        self.passed
    }

    /// Returns the number of bytes written so far.
    pub(super) fn written(&self) -> u64 {
        self.to.len + (self.position - self.unwritten) as u64
    }

    /// Returns the next `count` bytes.
    pub(super) fn ahead(&mut self, count: usize) -> Result<&[u8], Unfit> {
        if self.end - self.position < count {
            self.fill(count)?;
        }
        Ok(&self.buffer[self.position..self.position + count])
    }

    /// Returns the position of the next NUL, at least `start` bytes ahead.
    pub(super) fn nul_after(&mut self, start: usize) -> Result<usize, Unfit> {
        let mut looked_at = start;
        loop {
            let there = self.end - self.position;
            if let Some(rest) = self.buffer[self.position..self.end].get(looked_at..)
                && let Some(found) = memchr::memchr(0, rest)
            {
                return Ok(looked_at + found);
            }
            looked_at = looked_at.max(there);
            self.ahead(looked_at + 1)?;
        }
    }

    /// Copies the next `count` bytes.
    pub(super) fn pass(&mut self, count: usize) -> Result<(), Unfit> {
        if count <= self.end - self.position {
            self.position += count;
            self.passed += count as u64;
            return Ok(());
        }
        let mut left = count;
        while left > 0 {
            let step = left.min(CHUNK);
            self.ahead(step)?;
            self.position += step;
            self.passed += step as u64;
            left -= step;
        }
        Ok(())
    }

    /// Replaces the next `count` bytes.
    pub(super) fn replace(&mut self, count: usize, with: &[u8]) -> Result<(), Unfit> {
        self.write_passed()?;
        self.to.put(with)?;
        self.ahead(count)?;
        self.position += count;
        self.passed += count as u64;
        self.unwritten = self.position;
        Ok(())
    }

    /// Writes the rest and returns the sink.
    pub(super) fn finish(mut self) -> Result<Sink<'a>, Unfit> {
        self.write_passed()?;
        Ok(self.to)
    }

    fn write_passed(&mut self) -> Result<(), Unfit> {
        if self.unwritten < self.position {
            self.to.put(&self.buffer[self.unwritten..self.position])?;
        }
        self.unwritten = self.position;
        Ok(())
    }

    /// Reads until `count` bytes are buffered.
    fn fill(&mut self, count: usize) -> Result<(), Unfit> {
        self.write_passed()?;
        self.buffer.copy_within(self.position..self.end, 0);
        self.end -= self.position;
        (self.position, self.unwritten) = (0, 0);
        if u64::try_from(count - self.end).map_or(true, |wanted| wanted > self.left) {
            return Err(TORN);
        }
        if self.buffer.len() < count {
            self.buffer.resize(count, 0);
        }
        while self.end < count {
            let room = self.buffer.len() - self.end;
            let most = usize::try_from(self.left).map_or(room, |left| room.min(left));
            match self.from.read(&mut self.buffer[self.end..self.end + most]) {
                Ok(0) => return Err(TORN),
                Ok(read) => {
                    self.end += read;
                    self.left -= read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(TORN),
            }
        }
        Ok(())
    }
}
