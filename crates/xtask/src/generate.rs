//! Output for the streaming benchmarks, identical for a file and for Ralph: at the speed of buffered output, in blocks
//! of the standard libraries' size.

use std::io::{self, Write};
use std::process::ExitCode;

/// The subcommand's name; only the benchmarks call it.
pub(crate) const WORD: &str = "__generate";

/// An event of Claude Code, of a typical size.
const EVENT: &str = concat!(
    r#"{"type":"assistant","message":{"model":"m","content":[{"type":"text","text":"a line of text"}],"#,
    r#""usage":{"input_tokens":12,"output_tokens":3}},"session_id":"0f8fad5b-d9cb-469f-a165"}"#,
    "\n"
);

/// The end of a stream of events, as Claude Code prints it.
const RESULT: &str = concat!(
    r#"{"type":"result","subtype":"success","is_error":false,"result":"done","#,
    r#""session_id":"0f8fad5b-d9cb-469f-a165"}"#,
    "\n"
);

/// The buffer size of a buffered writer.
const BLOCK: usize = 8 << 10;

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
    let end = if kind == "json" { RESULT } else { "" };
    write(&piece, total, end).map_err(|error| error.to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// Writes `piece` over and over, `total` bytes in all, in blocks of whole pieces, then `end`.
fn write(piece: &[u8], total: usize, end: &str) -> io::Result<()> {
    let block = piece.repeat((BLOCK / piece.len()).max(1));
    #[expect(clippy::disallowed_methods, reason = "xtask is a tool of its own")]
    let mut stdout = io::stdout().lock();
    let mut left = total;
    while left > 0 {
        let count = block.len().min(left);
        stdout.write_all(&block[..count])?;
        left -= count;
    }
    stdout.write_all(end.as_bytes())?;
    stdout.flush()
}
