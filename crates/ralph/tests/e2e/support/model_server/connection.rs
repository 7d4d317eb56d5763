//! One connection of the model server: reads requests, answers each from the script, until either side closes.

use std::io::{self, BufReader, BufWriter, Write};
use std::net::{Shutdown, TcpStream};
use std::time::SystemTime;

use serde_json::{Value, json};

use super::dialect::{Dialect, Kind, Rendered, Turn};
use super::http::{self, EventStream, Extent, NoRequest, Request};
use super::script::{Act, Step, Tokens};
use super::tools::{self, Offer, ToolCall};
use super::{Recorded, Shared};

/// Whether the connection stays open after a response.
enum Next {
    KeepOpen,
    Close,
}

/// A request to the model.
struct Asked {
    dialect: Dialect,
    request: Request,
    body: Value,
}

/// Serves a connection to its end.
pub(super) fn serve(stream: &TcpStream, shared: &Shared) {
    // A response is sent in pieces; with Nagle's algorithm each would wait for the peer's delayed acknowledgement.
    let _ = stream.set_nodelay(true);
    let mut reader = BufReader::new(stream);
    let mut writer = BufWriter::new(stream);
    loop {
        let answered = match Request::read(&mut reader) {
            Ok(request) => answer(request, &mut writer, shared),
            Err(NoRequest::Gone) => break,
            Err(NoRequest::Refused { status, reason }) => {
                shared.record(Recorded {
                    dialect: None,
                    kind: Kind::Unknown,
                    step: None,
                    at: SystemTime::now(),
                    path: String::new(),
                    body: json!(reason),
                });
                error(&mut writer, status, &reason).map(|()| Next::Close)
            }
        };
        // A client killed in the middle of a response is an ordinary end here.
        let Ok(Next::KeepOpen) = answered else { break };
    }
    let _ = stream.shutdown(Shutdown::Both);
}

fn answer(request: Request, writer: &mut impl Write, shared: &Shared) -> io::Result<Next> {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let asked = match request.method.as_str() {
        "POST" => Dialect::of_post(request.path()),
        _ => None,
    };
    let mut recorded = Recorded {
        dialect: asked.map(|(dialect, _)| dialect),
        kind: Kind::Unknown,
        step: None,
        at: SystemTime::now(),
        path: request.target.clone(),
        body: body.clone(),
    };
    if let Some((dialect, Kind::Main)) = asked {
        let asked = Asked { dialect, request, body };
        return answer_turn(&asked, recorded, writer, shared);
    }
    let upgrade = request.header("upgrade").is_some();
    recorded.kind = match (asked, request.method.as_str()) {
        (Some((_, kind)), _) => kind,
        (None, "HEAD") => Kind::Head,
        (None, "GET") if upgrade => Kind::Upgrade,
        (None, "GET") if request.path().ends_with("/models") => Kind::Models,
        (None, _) => Kind::Unknown,
    };
    let (dialect, kind) = (recorded.dialect, recorded.kind);
    shared.record(recorded);
    match (kind, dialect) {
        (Kind::CountTokens, Some(dialect)) => ok(writer, &dialect.token_count())?,
        (Kind::Head, _) => http::write_empty(writer, 200)?,
        (Kind::Upgrade, _) => error(writer, 426, "no web sockets here")?,
        (Kind::Models, _) => {
            let model = json!({ "id": "scripted", "object": "model" });
            ok(writer, &json!({ "object": "list", "data": [model], "models": [] }))?;
        }
        _ => error(writer, 404, "not here")?,
    }
    Ok(Next::KeepOpen)
}

/// Answers a request to the model: from the script, or outside it if the request offers no tools.
fn answer_turn(
    asked: &Asked,
    mut recorded: Recorded,
    writer: &mut impl Write,
    shared: &Shared,
) -> io::Result<Next> {
    let offer = asked.dialect.offer(&asked.body);
    let mut turn =
        Turn { id: shared.next_turn_id(), text: None, call: None, tokens: Tokens::default() };
    if offer.is_empty() {
        recorded.kind = Kind::Aux;
        shared.record(recorded);
        turn.text = Some("aux".to_owned());
        let rendered = asked.dialect.render(&turn, asked.request.path(), &asked.body);
        return send(&rendered, &[], writer).map(|()| Next::KeepOpen);
    }
    recorded.kind = Kind::Main;
    let step = shared.record_turn(recorded);
    if shared.wait_for_stop(step.delay) {
        return Ok(Next::Close);
    }
    turn.tokens = step.tokens;
    match call_for(&step.act, &offer) {
        Ok(call) => turn.call = call,
        Err(reason) => return error(writer, 500, &reason).map(|()| Next::Close),
    }
    match said(&step.act, asked) {
        Ok(text) => turn.text = text,
        Err(reason) => return error(writer, 500, &reason).map(|()| Next::Close),
    }
    perform(&step, asked, &turn, writer)
}

fn perform(step: &Step, asked: &Asked, turn: &Turn, writer: &mut impl Write) -> io::Result<Next> {
    let headers = &step.headers;
    let rendered = asked.dialect.render(turn, asked.request.path(), &asked.body);
    match (&step.act, rendered) {
        (Act::Text(_) | Act::Claim { .. } | Act::Shell(_) | Act::Write { .. }, rendered) => {
            send(&rendered, headers, writer)?;
        }
        (Act::Http { status, body }, _) => {
            http::write_json(writer, *status, headers, body, Extent::Whole)?;
        }
        (Act::SseError(error), Rendered::Stream { opening, .. }) => {
            let rest = vec![asked.dialect.error_event(turn, error)];
            send(&Rendered::Stream { opening, rest }, headers, writer)?;
        }
        (Act::SseError(error), Rendered::Whole(_)) => {
            let body = json!({ "error": error });
            http::write_json(writer, 500, headers, &body, Extent::Whole)?;
        }
        (Act::DropBefore, _) => return Ok(Next::Close),
        (Act::DropMid, Rendered::Stream { opening, .. }) => {
            EventStream::begin(writer, headers)?.send(&opening)?;
            return Ok(Next::Close);
        }
        (Act::DropMid, Rendered::Whole(body)) => {
            http::write_json(writer, 200, headers, &body, Extent::Half)?;
            return Ok(Next::Close);
        }
    }
    Ok(Next::KeepOpen)
}

/// Sends a whole turn.
fn send(
    rendered: &Rendered,
    headers: &[(String, String)],
    writer: &mut impl Write,
) -> io::Result<()> {
    match rendered {
        Rendered::Whole(body) => http::write_json(writer, 200, headers, body, Extent::Whole),
        Rendered::Stream { opening, rest } => {
            let mut stream = EventStream::begin(writer, headers)?;
            stream.send(opening)?;
            stream.send(rest)?;
            stream.end()
        }
    }
}

fn call_for(act: &Act, offer: &Offer) -> Result<Option<ToolCall>, String> {
    match act {
        Act::Shell(command) => tools::shell_call(command, offer).map(Some),
        Act::Write { path, content } => tools::write_call(path, content, offer).map(Some),
        Act::Text(_)
        | Act::Claim { .. }
        | Act::Http { .. }
        | Act::SseError(_)
        | Act::DropBefore
        | Act::DropMid => Ok(None),
    }
}

fn said(act: &Act, asked: &Asked) -> Result<Option<String>, String> {
    match act {
        Act::Text(text) => Ok(Some(text.clone())),
        Act::Claim { report, last_line } => {
            let printed = asked.dialect.last_result(&asked.body).to_string();
            let commit = tools::commit_in(&printed)
                .ok_or_else(|| format!("no commit in what the last tool printed: {printed}"))?;
            Ok(Some(format!("{report}\n\n{commit}\n{last_line}")))
        }
        _ => Ok(None),
    }
}

fn ok(writer: &mut impl Write, body: &Value) -> io::Result<()> {
    http::write_json(writer, 200, &[], body, Extent::Whole)
}

fn error(writer: &mut impl Write, status: u16, message: &str) -> io::Result<()> {
    let body = json!({ "error": { "message": message, "type": "model_server" } });
    http::write_json(writer, status, &[], &body, Extent::Whole)
}
