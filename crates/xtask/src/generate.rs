//! Output for the streaming benchmarks: as fast as a program can write, the same into a file or into Ralph.

use std::io::{self, Write};
use std::process::ExitCode;

/// The chore's name; only the benchmarks call it.
pub(crate) const WORD: &str = "__generate";

/// An event as Claude Code prints it, of the size seen in practice.
const EVENT: &str = concat!(
    r#"{"type":"assistant","message":{"model":"m","content":[{"type":"text","text":"a line of text"}],"#,
    r#""usage":{"input_tokens":12,"output_tokens":3}},"session_id":"0f8fad5b-d9cb-469f-a165"}"#,
    "\n"
);

/// Writes `text BYTES`, `json EVENTS`, `line BYTES` or `binary BYTES` to stdout.
pub(crate) fn run(mut args: impl Iterator<Item = String>) -> Result<ExitCode, String> {
    let kind = args.next().unwrap_or_default();
    let amount: usize = args
        .next()
        .and_then(|amount| amount.parse().ok())
        .ok_or_else(|| format!("usage: xtask {WORD} KIND AMOUNT"))?;
    let (piece, total): (Vec<u8>, usize) = match kind.as_str() {
        "text" => (format!("{}\n", "x".repeat(99)).into_bytes(), amount),
        "json" => (EVENT.as_bytes().to_vec(), EVENT.len() * amount),
        "line" => (vec![b'y'; 1024], amount),
        "binary" => ((0..=255).rev().collect(), amount),
        other => return Err(format!("cannot generate `{other}`")),
    };
    write(&piece, total).map_err(|error| error.to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// Writes `piece` over and over, `total` bytes in all, in blocks of whole pieces.
fn write(piece: &[u8], total: usize) -> io::Result<()> {
    let block = piece.repeat((128 << 10) / piece.len());
    let mut stdout = io::stdout().lock();
    let mut left = total;
    while left > 0 {
        let count = block.len().min(left);
        stdout.write_all(&block[..count])?;
        left -= count;
    }
    stdout.flush()
}
