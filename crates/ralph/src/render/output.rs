//! The only module that writes to the person's terminal, to a log or to a pipe.
//!
//! Output on stderr is informational: a closed reader or a full disk stops nothing. Output on stdout was requested: a
//! closed reader is not an error, anything else is.

#![expect(clippy::disallowed_methods, reason = "everybody else writes through this module")]

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::BorrowedFd;

use ralph_engine::home::in_persons_words;

/// The assumed width of a terminal that does not report one.
const USUAL_WIDTH: usize = 80;

pub(super) fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

pub(crate) fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Writes to stderr, ignoring errors.
pub(super) fn write_stderr(text: &str) {
    let _ = io::stderr().write_all(in_persons_words(text).as_bytes());
}

/// Writes all of a text to stdout.
pub(super) fn write_stdout(text: &str) -> io::Result<()> {
    write_bytes(in_persons_words(text).as_bytes())
}

/// Writes all bytes for programs to stdout.
pub(super) fn write_bytes(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    unless_gone(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

/// Copies a file to stdout, in the kernel if possible.
pub(crate) fn copy(file: &mut File) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    unless_gone(io::copy(file, &mut stdout).and_then(|_| stdout.flush()))
}

/// A descriptor on which the closing of stdout's reader is visible.
pub(crate) fn stdout_reader() -> BorrowedFd<'static> {
    rustix::stdio::stdout()
}

fn unless_gone(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Returns the current width of the terminal at stderr.
pub(super) fn stderr_width() -> usize {
    width(rustix::termios::tcgetwinsize(io::stderr()))
}

/// Returns the current width of the terminal at stdout.
pub(super) fn stdout_width() -> usize {
    width(rustix::termios::tcgetwinsize(io::stdout()))
}

fn width(size: rustix::io::Result<rustix::termios::Winsize>) -> usize {
    match size.map(|size| usize::from(size.ws_col)) {
        Ok(0) | Err(_) => USUAL_WIDTH,
        Ok(columns) => columns,
    }
}
