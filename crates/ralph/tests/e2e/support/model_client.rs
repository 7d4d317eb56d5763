//! A plain client of the scripted model server, which sees the exact bytes of a response: whole, truncated, or none.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use super::model_server::ModelServer;

/// A response as the client saw it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: String,
    pub(crate) body: String,
    /// The connection closed before the response was complete.
    pub(crate) cut: bool,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Returns the data of all events of a stream except the `[DONE]` of one dialect.
    pub(crate) fn events(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]").map(|d| serde_json::from_str(d).unwrap()).collect()
    }
}

/// A connection to the model server.
pub(crate) struct Client(pub(crate) BufReader<TcpStream>);

impl Client {
    pub(crate) fn connect(server: &ModelServer) -> Client {
        let url = server.url();
        let stream = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Client(BufReader::new(stream))
    }

    fn send(&mut self, request: &str) {
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
    }

    pub(crate) fn post(&mut self, path: &str, body: &Value) -> Option<Answer> {
        let body = body.to_string();
        self.send(&format!("POST {path} HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
        self.answer()
    }

    pub(crate) fn ask(&mut self, head: &str) -> Answer {
        self.send(&format!("{head}\r\n\r\n"));
        self.answer().expect("the server answers")
    }

    /// Reads a response; `None` if the connection closed before any of it.
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        let mut headers = String::new();
        while !headers.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut headers).unwrap() == 0 {
                assert_eq!(headers, "", "a head is never cut");
                return None;
            }
        }
        let status = headers.split(' ').nth(1).unwrap().parse().unwrap();
        let length = headers.lines().find_map(|line| line.strip_prefix("content-length: "));
        let (body, cut) = match length {
            Some(length) => self.read(length.parse().unwrap()),
            None => self.read_chunks(),
        };
        Some(Answer { status, headers, body, cut })
    }

    fn read(&mut self, length: u64) -> (String, bool) {
        let mut body = String::new();
        let got = self.0.by_ref().take(length).read_to_string(&mut body).unwrap();
        (body, (got as u64) < length)
    }

    fn read_chunks(&mut self) -> (String, bool) {
        let mut body = String::new();
        loop {
            let mut size = String::new();
            if self.0.read_line(&mut size).unwrap() == 0 {
                return (body, true);
            }
            let size = u64::from_str_radix(size.trim(), 16).unwrap();
            let (chunk, cut) = self.read(size + 2);
            body.push_str(chunk.strip_suffix("\r\n").unwrap_or(&chunk));
            if cut || size == 0 {
                return (body, cut);
            }
        }
    }
}
