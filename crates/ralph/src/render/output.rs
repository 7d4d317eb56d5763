//! The only place that writes to the person's terminal, to a log or to a pipe.
//!
//! What is written to stderr is for people: a reader that went away, or a full disk, stops nothing. What is written to
//! stdout was asked for: a reader that has seen enough and went away is no error, anything else is.

#![expect(clippy::disallowed_methods, reason = "everybody else writes through this module")]

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::BorrowedFd;

use ralph_engine::home::in_persons_words;

/// As many columns as a terminal has that does not say.
const USUAL_WIDTH: usize = 80;

pub(super) fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

pub(super) fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Writes to stderr, if anybody listens.
pub(super) fn write_stderr(text: &str) {
    let _ = io::stderr().write_all(in_persons_words(text).as_bytes());
}

/// Writes to stdout, whole.
pub(super) fn write_stdout(text: &str) -> io::Result<()> {
    write_bytes(in_persons_words(text).as_bytes())
}

/// Writes bytes that programs read to stdout, whole.
pub(super) fn write_bytes(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    unless_gone(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

/// Copies a file to stdout, by the kernel where it can.
pub(crate) fn copy(file: &mut File) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    unless_gone(io::copy(file, &mut stdout).and_then(|_| stdout.flush()))
}

/// Where it can be seen that the reader of stdout has gone.
pub(crate) fn stdout_reader() -> BorrowedFd<'static> {
    rustix::stdio::stdout()
}

fn unless_gone(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Returns the columns of the terminal at stderr as it is now.
pub(super) fn stderr_width() -> usize {
    width(rustix::termios::tcgetwinsize(io::stderr()))
}

/// Returns the columns of the terminal at stdout as it is now.
pub(super) fn stdout_width() -> usize {
    width(rustix::termios::tcgetwinsize(io::stdout()))
}

fn width(size: rustix::io::Result<rustix::termios::Winsize>) -> usize {
    match size.map(|size| usize::from(size.ws_col)) {
        Ok(0) | Err(_) => USUAL_WIDTH,
        Ok(columns) => columns,
    }
}
