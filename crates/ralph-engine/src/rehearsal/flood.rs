//! Floods: large, fast output of an exact size.

use std::io;

use ralph_model::event::AgentEvent;
use ralph_model::rehearsal::{Flood, FloodKind};

use super::stream::{Channel, RehearsalStream};

/// About the length of an ordinary line of an agent's JSON stream, including its line end.
const EVENT_LENGTH: usize = 170;

/// The approximate size of a write.
const CHUNK: usize = 256 * 1024;

/// Writes the flood. Its last byte is a line end, so that later output begins a new line.
pub(super) fn pour(flood: Flood) -> io::Result<()> {
    let unit = match flood.kind {
        FloodKind::Text | FloodKind::Stderr => text_line(),
        FloodKind::Json => event_line()?,
        FloodKind::Line => vec![b'x'; 1024],
        FloodKind::Binary => (0..=u8::MAX).rev().collect(),
    };
    let total = match flood.kind {
        FloodKind::Json => flood.amount.saturating_mul(unit.len() as u64),
        _ => flood.amount,
    };
    let channel = if flood.kind == FloodKind::Stderr { Channel::Stderr } else { Channel::Stdout };
    let Some(before_line_end) = total.checked_sub(1) else { return Ok(()) };

    let stream = RehearsalStream::new(channel);
    let chunk = unit.repeat(CHUNK / unit.len());
    let whole_chunks = before_line_end / chunk.len() as u64;
    for _ in 0..whole_chunks {
        stream.bytes(&chunk)?;
    }
    let left = usize::try_from(before_line_end % chunk.len() as u64)
        .expect("a remainder is smaller than the chunk, which is in memory");
    stream.line(&chunk[..left])
}

fn text_line() -> Vec<u8> {
    let mut line = b"The quick brown fox jumps over the lazy dog. ".repeat(3);
    line.truncate(99);
    line.push(b'\n');
    line
}

fn event_line() -> io::Result<Vec<u8>> {
    let event = |text: String| serde_json::to_vec(&AgentEvent::Text { text });
    let frame = event(String::new())?.len() + 1;
    let mut line = event("word ".repeat(EVENT_LENGTH).split_off(4 * EVENT_LENGTH + frame))?;
    line.push(b'\n');
    Ok(line)
}
