//! The subset of HTTP/1.1 that the agent CLIs use, over any reader and writer.
//!
//! Bodies have a `content-length` and are uncompressed: that is what all four CLIs send. Chunked or compressed requests
//! are refused with a message. Responses keep the connection open; streams are chunked, so that a client can
//! distinguish a finished stream from a truncated one.

use std::io::{self, BufRead, Read, Write};

use serde_json::Value;

use super::dialect::SseEvent;

const MAX_HEAD: u64 = 64 * 1024;
const MAX_BODY: usize = 64 * 1024 * 1024;

/// A received request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// The path with its query.
    pub(crate) target: String,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// Why there is no request to answer.
#[derive(Debug)]
pub(crate) enum NoRequest {
    /// The client disconnected before a complete request.
    Gone,
    /// The request is of a kind that this server does not support.
    Refused { status: u16, reason: String },
}

impl From<io::Error> for NoRequest {
    fn from(_: io::Error) -> Self {
        NoRequest::Gone
    }
}

impl Request {
    /// Reads the next request of a connection.
    pub(crate) fn read(reader: &mut impl BufRead) -> Result<Request, NoRequest> {
        let mut head = reader.by_ref().take(MAX_HEAD);
        let first = read_line(&mut head)?;
        let mut words = first.split(' ');
        let (Some(method), Some(target), Some("HTTP/1.1"), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(refused(400, format!("not a request line: `{first}`")));
        };
        let mut headers = Vec::new();
        loop {
            let line = read_line(&mut head)?;
            if line.is_empty() {
                break;
            }
            let Some((name, value)) = line.split_once(':') else {
                return Err(refused(400, format!("not a header: `{line}`")));
            };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut request =
            Request { method: method.into(), target: target.into(), headers, body: Vec::new() };
        if let Some(encoding) = request.header("transfer-encoding") {
            return Err(refused(411, format!("transfer encoding `{encoding}` is not read here")));
        }
        if let Some(encoding) = request.header("content-encoding") {
            return Err(refused(415, format!("content encoding `{encoding}` is not read here")));
        }
        let length = request.header("content-length").unwrap_or("0");
        let length: usize =
            length.parse().map_err(|_| refused(400, format!("not a length: `{length}`")))?;
        if length > MAX_BODY {
            return Err(refused(413, format!("{length} bytes are too many")));
        }
        request.body = vec![0; length];
        reader.read_exact(&mut request.body)?;
        Ok(request)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the path without its query.
    pub(crate) fn path(&self) -> &str {
        self.target.split_once('?').map_or(self.target.as_str(), |(path, _)| path)
    }
}

fn read_line(head: &mut impl BufRead) -> Result<String, NoRequest> {
    let mut line = String::new();
    head.read_line(&mut line)?;
    line.strip_suffix("\r\n").map(str::to_owned).ok_or(NoRequest::Gone)
}

fn refused(status: u16, reason: String) -> NoRequest {
    NoRequest::Refused { status, reason }
}

/// How much of a response is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    /// The header announces all of it, half of it is sent.
    Half,
}

/// Writes a JSON response.
pub(crate) fn write_json(
    writer: &mut impl Write,
    status: u16,
    headers: &[(String, String)],
    body: &Value,
    extent: Extent,
) -> io::Result<()> {
    let body = body.to_string();
    let sent = match extent {
        Extent::Whole => body.len(),
        Extent::Half => body.len() / 2,
    };
    let head = head(status, "application/json", headers);
    write!(writer, "{head}content-length: {}\r\n\r\n", body.len())?;
    writer.write_all(&body.as_bytes()[..sent])?;
    writer.flush()
}

/// Writes a response without a body.
pub(crate) fn write_empty(writer: &mut impl Write, status: u16) -> io::Result<()> {
    let answer = head(status, "application/json", &[]) + "content-length: 0\r\n\r\n";
    writer.write_all(answer.as_bytes())?;
    writer.flush()
}

/// A stream of server-sent events; dropping it before `end` truncates it.
pub(crate) struct EventStream<'a, W: Write>(&'a mut W);

impl<'a, W: Write> EventStream<'a, W> {
    pub(crate) fn begin(writer: &'a mut W, headers: &[(String, String)]) -> io::Result<Self> {
        let head = head(200, "text/event-stream", headers)
            + "cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";
        writer.write_all(head.as_bytes())?;
        Ok(EventStream(writer))
    }

    pub(crate) fn send(&mut self, events: &[SseEvent]) -> io::Result<()> {
        for event in events {
            let text = event.render();
            write!(self.0, "{:x}\r\n{text}\r\n", text.len())?;
        }
        self.0.flush()
    }

    pub(crate) fn end(self) -> io::Result<()> {
        self.0.write_all(b"0\r\n\r\n")?;
        self.0.flush()
    }
}

fn head(status: u16, content_type: &str, headers: &[(String, String)]) -> String {
    // Clients read the number; the phrase is for people, and some CLIs print it.
    let phrase = match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        _ => "Scripted",
    };
    let mut head = format!("HTTP/1.1 {status} {phrase}\r\ncontent-type: {content_type}\r\n");
    for (name, value) in headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head
}
