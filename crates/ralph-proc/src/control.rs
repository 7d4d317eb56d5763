//! The socket between harness and guard: whole lines of JSON in both directions.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// One end of the socket.
#[derive(Debug)]
pub(crate) struct Control {
    stream: UnixStream,
    /// Read ahead, but not consumed yet.
    ahead: Vec<u8>,
}

impl Control {
    pub(crate) fn new(stream: UnixStream) -> Control {
        Control { stream, ahead: Vec::new() }
    }

    /// The descriptor to poll for the next message, unless one has been read ahead.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether a message is available without waiting.
    pub(crate) fn has_message(&self) -> bool {
        self.ahead.contains(&b'\n')
    }

    pub(crate) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.send_with(message, &[])
    }

    /// Sends a message and the bytes after it; the message contains their number.
    pub(crate) fn send_with(&mut self, message: &impl Serialize, bytes: &[u8]) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        line.extend_from_slice(bytes);
        self.stream.write_all(&line)
    }

    /// Receives the bytes after a message.
    pub(crate) fn receive_bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let ahead = count.min(self.ahead.len());
        let mut bytes: Vec<u8> = self.ahead.drain(..ahead).collect();
        bytes.resize(count, 0);
        self.stream.read_exact(&mut bytes[ahead..])?;
        Ok(bytes)
    }

    /// Waits for the next message. `None`: the other end is gone.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut buffer = [0; 4096];
        loop {
            // Not memchr, which queries CPU features: in a virtual machine, for every guard, that costs more than
            // checking each byte of these short messages.
            if let Some(end) = self.ahead.iter().position(|byte| *byte == b'\n') {
                let message = serde_json::from_slice(&self.ahead[..end])?;
                self.ahead.drain(..=end);
                return Ok(Some(message));
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(None),
                Ok(count) => self.ahead.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_their_bytes_come_whole_and_in_order_and_the_end_is_told() {
        let (here, there) = UnixStream::pair().unwrap();
        let (mut here, mut there) = (Control::new(here), Control::new(there));
        let long = "x".repeat(100_000);
        let sender = std::thread::spawn(move || {
            for word in ["one", long.as_str(), "three"] {
                there.send_with(&word, word.as_bytes()).unwrap();
            }
        });
        let mut words: Vec<String> = Vec::new();
        while let Some(word) = here.receive::<String>().unwrap() {
            assert_eq!(here.receive_bytes(word.len()).unwrap(), word.as_bytes());
            words.push(word);
        }
        sender.join().unwrap();
        assert_eq!(words.iter().map(String::len).collect::<Vec<_>>(), [3, 100_000, 5]);
        assert!(!here.has_message());
    }
}
