//! Tests of the scripted model server itself, with a plain client.

use std::io::{Cursor, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::model_client::{Answer, Client};
use crate::support::model_server::ModelServer;
use crate::support::model_server::dialect::{Dialect, Kind};
use crate::support::model_server::http::{NoRequest, Request};
use crate::support::model_server::script::{Script, Tokens};
use crate::support::model_server::tools::{Offer, ToolCall, shell_call, write_call};

const RESPONSES: &str = "/v1/responses";
const MESSAGES: &str = "/v1/messages?beta=true";
const CHAT: &str = "/v1/chat/completions";
const GEMINI: &str = "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse";

fn post(server: &ModelServer, path: &str, body: &Value) -> Answer {
    Client::connect(server).post(path, body).expect("the server answers")
}

/// A streaming request of each dialect that offers that CLI's shell tool.
fn requests() -> [(&'static str, Dialect, Value); 4] {
    let schema =
        |name: &str| json!({ "type": "object", "properties": { name: { "type": "string" } } });
    let function = json!({ "name": "bash", "parameters": schema("command") });
    let declared =
        json!({ "name": "run_shell_command", "parametersJsonSchema": schema("command") });
    [
        (
            RESPONSES,
            Dialect::OpenAiResponses,
            json!({ "stream": true, "tools": [
                { "type": "web_search" },
                { "type": "function", "name": "exec_command", "parameters": schema("cmd") },
            ]}),
        ),
        (
            MESSAGES,
            Dialect::Anthropic,
            json!({ "stream": true, "tools": [{ "name": "Bash", "input_schema": schema("command") }] }),
        ),
        (
            CHAT,
            Dialect::OpenAiChat,
            json!({ "stream": true, "tools": [{ "type": "function", "function": function }] }),
        ),
        (GEMINI, Dialect::Gemini, json!({ "tools": [{ "functionDeclarations": [declared] }] })),
    ]
}

#[test]
fn a_shell_step_calls_the_tool_that_each_dialect_offered() {
    for (path, dialect, request) in requests() {
        let server = ModelServer::start(Script::new().shell("make"));
        let events = post(&server, path, &request).events();
        let parsed = |text: &Value| serde_json::from_str::<Value>(text.as_str().unwrap()).unwrap();
        let call = match dialect {
            Dialect::OpenAiResponses => {
                let item = &events.last().unwrap()["response"]["output"][0];
                json!([item["name"], parsed(&item["arguments"])])
            }
            Dialect::Anthropic => {
                let input = parsed(&events[2]["delta"]["partial_json"]);
                json!([events[1]["content_block"]["name"], input])
            }
            Dialect::OpenAiChat => {
                let function = &events[1]["choices"][0]["delta"]["tool_calls"][0]["function"];
                json!([function["name"], parsed(&function["arguments"])])
            }
            Dialect::Gemini => {
                let part = &events[1]["candidates"][0]["content"]["parts"][0];
                json!([part["functionCall"]["name"], part["functionCall"]["args"]])
            }
        };
        let expected = match dialect {
            Dialect::OpenAiResponses => json!(["exec_command", { "cmd": "make" }]),
            Dialect::Anthropic => json!(["Bash", { "command": "make" }]),
            Dialect::OpenAiChat => json!(["bash", { "command": "make" }]),
            Dialect::Gemini => json!(["run_shell_command", { "command": "make" }]),
        };
        assert_eq!(call, expected, "{dialect:?}");
        let recorded = &server.requests()[0];
        assert_eq!(
            (recorded.dialect, recorded.kind, recorded.step, recorded.path.as_str()),
            (Some(dialect), Kind::Main, Some(0), path)
        );
        assert_eq!(recorded.body, request);
    }
}

#[test]
fn a_claim_names_the_commit_that_the_last_tool_printed() {
    let (older, newer) = ("a1".repeat(20), "b2".repeat(20));
    for (path, dialect, mut request) in requests() {
        let printed = [&older, &newer].map(|commit| format!("in 0.1 s:\n{commit}\n"));
        let (field, history) = match dialect {
            Dialect::OpenAiResponses => ("input", printed.map(|output| {
                json!({ "type": "function_call_output", "call_id": "1", "output": output })
            })),
            Dialect::Anthropic => ("messages", printed.map(|content| {
                json!({ "role": "user", "content": [{ "type": "tool_result", "content": content }] })
            })),
            Dialect::OpenAiChat => {
                ("messages", printed.map(|content| json!({ "role": "tool", "content": content })))
            }
            Dialect::Gemini => ("contents", printed.map(|output| {
                let called = json!({ "name": "shell", "response": { "output": output } });
                json!({ "role": "user", "parts": [{ "functionResponse": called }] })
            })),
        };
        let server = ModelServer::start(Script::new().claim("built", "done"));
        assert_eq!(post(&server, path, &request).status, 500, "{dialect:?} without a tool");
        request[field] = json!(history);
        let answer = post(&server, path, &request);
        let said = json!(format!("built\n\n{newer}\ndone")).to_string();
        assert!(answer.body.contains(&said), "{dialect:?}: {}", answer.body);
    }
}

#[test]
fn the_same_tokens_are_reported_the_way_each_vendor_counts() {
    let tokens = Tokens { input: 100, cached: 30, output: 20, reasoning: 5 };
    for (path, dialect, request) in requests() {
        let server = ModelServer::start(Script::new().text("hello").usage(tokens));
        let answer = post(&server, path, &request);
        assert!(answer.body.contains("hello"), "{dialect:?}: {}", answer.body);
        let events = answer.events();
        let last = events.last().unwrap();
        let (got, expected) = match dialect {
            Dialect::OpenAiResponses => {
                let usage = &last["response"]["usage"];
                (json!([usage["input_tokens"], usage["output_tokens"]]), json!([100, 20]))
            }
            Dialect::Anthropic => {
                let usage = &events[events.len() - 2]["usage"];
                let cached = &usage["cache_read_input_tokens"];
                (
                    json!([usage["input_tokens"], cached, usage["output_tokens"]]),
                    json!([70, 30, 20]),
                )
            }
            Dialect::OpenAiChat => {
                let usage = &last["usage"];
                (json!([usage["prompt_tokens"], usage["completion_tokens"]]), json!([100, 20]))
            }
            Dialect::Gemini => {
                let usage = &last["usageMetadata"];
                let thoughts = &usage["thoughtsTokenCount"];
                (
                    json!([usage["promptTokenCount"], usage["candidatesTokenCount"], thoughts]),
                    json!([100, 15, 5]),
                )
            }
        };
        assert_eq!(got, expected, "{dialect:?}");
    }
}

#[test]
fn a_request_that_wants_no_stream_gets_one_document() {
    let server = ModelServer::start(Script::new().text("whole"));
    for (path, dialect, mut request) in requests() {
        if dialect == Dialect::OpenAiResponses {
            continue;
        }
        request["stream"] = json!(false);
        let path = path.replace(":streamGenerateContent?alt=sse", ":generateContent");
        let answer = post(&server, &path, &request).json();
        let text = match dialect {
            Dialect::Anthropic => &answer["content"][0]["text"],
            Dialect::OpenAiChat => &answer["choices"][0]["message"]["content"],
            _ => &answer["candidates"][0]["content"]["parts"][0]["text"],
        };
        assert_eq!(text, "whole", "{dialect:?}");
    }
}

#[test]
fn requests_without_tools_are_answered_beside_the_script() {
    let server = ModelServer::start(Script::new().text("first").text("second"));
    let bare = json!({ "stream": false });
    let title = post(&server, CHAT, &bare).json();
    assert_eq!(title["choices"][0]["message"]["content"], "aux");
    let probe = json!({ "generationConfig": { "responseMimeType": "application/json" } });
    let path = "/v1beta/models/m:generateContent";
    let choice = post(&server, path, &probe).json();
    assert_eq!(choice["candidates"][0]["content"]["parts"], json!([{ "text": "{}" }]));
    let (path, _, request) = &requests()[2];
    assert!(post(&server, path, request).body.contains("first"));
    let kinds: Vec<_> = server.requests().iter().map(|request| request.kind).collect();
    assert_eq!(kinds, [Kind::Aux, Kind::Aux, Kind::Main]);
}

#[test]
fn steps_play_as_often_as_they_say_and_the_last_one_for_ever() {
    let server = ModelServer::start(Script::new().text("one").text("two").times(2).text("three"));
    let (path, _, request) = &requests()[2];
    let mut client = Client::connect(&server);
    for expected in ["one", "two", "two", "three", "three"] {
        assert!(client.post(path, request).unwrap().body.contains(expected), "{expected}");
    }
    let steps: Vec<_> = server.turns().iter().map(|turn| turn.step.unwrap()).collect();
    assert_eq!(steps, [0, 1, 1, 2, 2]);
}

#[test]
fn an_http_step_answers_with_its_status_headers_and_body() {
    let body = json!({ "error": { "type": "rate_limit_error" } });
    let script = Script::new().http(429, &[("retry-after", "3")], body.clone());
    let server = ModelServer::start(script);
    let (path, _, request) = &requests()[1];
    let answer = post(&server, path, request);
    assert_eq!((answer.status, answer.json()), (429, body));
    assert!(answer.headers.contains("\r\nretry-after: 3\r\n"), "{}", answer.headers);
}

#[test]
fn an_error_inside_a_stream_follows_its_opening() {
    let error = json!({ "code": "rate_limit_exceeded", "message": "slow down" });
    for (path, dialect, request) in requests() {
        let server = ModelServer::start(Script::new().sse_error(error.clone()));
        let answer = post(&server, path, &request);
        let events = answer.events();
        let got = match dialect {
            Dialect::OpenAiResponses => &events[1]["response"]["error"],
            _ => &events[1]["error"],
        };
        assert_eq!((answer.status, events.len(), got), (200, 2, &error), "{dialect:?}");
    }
}

#[test]
fn a_stream_can_be_refused_or_cut() {
    for (path, dialect, request) in requests() {
        let server = ModelServer::start(Script::new().drop_before().drop_mid().text("ok"));
        assert!(Client::connect(&server).post(path, &request).is_none(), "{dialect:?}");
        let cut = post(&server, path, &request);
        assert!(cut.cut && cut.events().len() == 1, "{dialect:?}: {cut:?}");
        assert!(!post(&server, path, &request).cut, "{dialect:?}");
    }
    let server = ModelServer::start(Script::new().drop_mid());
    let (path, _, mut request) = requests()[1].clone();
    request["stream"] = json!(false);
    assert!(post(&server, path, &request).cut);
}

#[test]
fn a_step_that_hangs_answers_late() {
    let delay = Duration::from_millis(50);
    let server = ModelServer::start(Script::new().text("late").hang(delay));
    let (path, _, request) = &requests()[0];
    let asked = Instant::now();
    assert!(post(&server, path, request).body.contains("late"));
    assert!(asked.elapsed() >= delay);
}

#[test]
fn dropping_the_server_wakes_what_hangs_and_closes_the_port() {
    let server = ModelServer::start(Script::new().text("never").hang(Duration::from_secs(500)));
    let port = server.port();
    let mut idle = Client::connect(&server);
    idle.ask("HEAD / HTTP/1.1");
    let mut waiting = Client::connect(&server);
    let (path, _, request) = requests()[0].clone();
    let waiter = thread::spawn(move || waiting.post(path, &request));
    while server.turns().is_empty() {
        thread::yield_now();
    }
    let dropped = Instant::now();
    drop(server);
    assert!(waiter.join().unwrap().is_none());
    assert!(idle.answer().is_none());
    assert!(dropped.elapsed() < Duration::from_secs(20));
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn what_clients_ask_besides_turns_is_answered() {
    let server = ModelServer::start(Script::new().text("unused"));
    let mut client = Client::connect(&server);
    assert_eq!(client.ask("HEAD / HTTP/1.1").status, 200);
    let models = client.ask("GET /v1/models?limit=9 HTTP/1.1");
    assert_eq!(models.json()["data"][0]["id"], "scripted");
    let socket = "GET /v1/responses HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade";
    assert_eq!(client.ask(socket).status, 426);
    let count = client.post("/v1/messages/count_tokens", &json!({})).unwrap();
    assert_eq!(count.json(), json!({ "input_tokens": 100 }));
    let count = client.post("/v1beta/models/m:countTokens", &json!({})).unwrap();
    assert_eq!(count.json(), json!({ "totalTokens": 100 }));
    assert_eq!(client.post("/v1/elsewhere", &json!({})).unwrap().status, 404);
    let kinds: Vec<_> = server.requests().iter().map(|request| request.kind).collect();
    assert_eq!(
        kinds,
        [
            Kind::Head,
            Kind::Models,
            Kind::Upgrade,
            Kind::CountTokens,
            Kind::CountTokens,
            Kind::Unknown
        ]
    );
}

#[test]
fn requests_of_a_kind_that_is_not_read_are_refused_by_name() {
    let server = ModelServer::start(Script::new().text("unused"));
    for (head, status, named) in [
        ("POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked", 411, "chunked"),
        ("POST /v1/messages HTTP/1.1\r\ncontent-encoding: zstd", 415, "zstd"),
        ("POST /v1/messages HTTP/1.1\r\ncontent-length: many", 400, "many"),
        ("POST /v1/messages HTTP/1.1\r\ncontent-length: 99999999999", 413, "99999999999"),
        ("POST /v1/messages HTTP/1.0", 400, "HTTP/1.0"),
    ] {
        let answer = Client::connect(&server).ask(head);
        assert_eq!(answer.status, status, "{head}");
        assert!(answer.body.contains(named), "{head}: {}", answer.body);
    }
}

#[test]
fn a_request_cut_anywhere_is_no_request() {
    let whole = "POST /v1/messages HTTP/1.1\r\nA: b\r\ncontent-length: 4\r\n\r\nbody";
    for length in 0..whole.len() {
        let read = Request::read(&mut Cursor::new(&whole[..length]));
        assert!(matches!(read, Err(NoRequest::Gone)), "{length}: {read:?}");
    }
    let request = Request::read(&mut Cursor::new(whole)).unwrap();
    assert_eq!((request.path(), request.header("a")), ("/v1/messages", Some("b")));
    assert_eq!(request.body, b"body");
}

#[test]
fn no_more_connections_are_served_than_the_bound_allows() {
    let server = ModelServer::start(Script::new().text("unused"));
    let mut clients: Vec<_> = (0..64).map(|_| Client::connect(&server)).collect();
    for client in &mut clients {
        assert_eq!(client.ask("HEAD / HTTP/1.1").status, 200);
    }
    let mut late = Client::connect(&server);
    // The refusal may arrive before the request is written.
    let _ = late.0.get_mut().write_all(b"HEAD / HTTP/1.1\r\n\r\n");
    let mut nothing = Vec::new();
    let _ = late.0.read_to_end(&mut nothing);
    assert_eq!(nothing, b"");
}

#[test]
fn a_shell_step_without_an_offered_shell_fails_with_what_was_offered() {
    let server = ModelServer::start(Script::new().shell("make"));
    let request = json!({ "tools": [{ "name": "Read", "input_schema": {} }] });
    let answer = post(&server, MESSAGES, &request);
    assert_eq!(answer.status, 500);
    assert!(answer.body.contains("Read"), "{}", answer.body);
}

#[test]
fn a_tool_with_an_unknown_required_argument_is_not_called() {
    let schema = json!({ "properties": { "command": {} }, "required": ["command", "reason"] });
    let offer = Offer::from([("Bash".to_owned(), schema)]);
    assert!(shell_call("make", &offer).unwrap_err().contains("`reason`"));
}

#[test]
fn a_write_step_falls_back_to_the_shell_of_a_request_that_offers_only_that() {
    let server = ModelServer::start(Script::new().write("a.txt", "text"));
    let (path, _, request) = &requests()[0];
    let events = post(&server, path, request).events();
    let call = &events.last().unwrap()["response"]["output"][0];
    assert_eq!(call["arguments"], json!({ "cmd": "printf %s 'text' > 'a.txt'" }).to_string());
}

#[test]
fn a_file_is_written_by_the_offered_tool_or_by_the_shell() {
    let call = |name: &str, input| Ok(ToolCall { name: name.to_owned(), input });
    let schema = json!({ "properties": { "filePath": {}, "content": {} } });
    let writer = Offer::from([("write".to_owned(), schema)]);
    assert_eq!(
        write_call("a.txt", "it's", &writer),
        call("write", json!({ "filePath": "a.txt", "content": "it's" }))
    );
    let schema = json!({ "properties": { "command": { "type": "array" } } });
    let shell = Offer::from([("shell".to_owned(), schema)]);
    assert_eq!(
        write_call("a.txt", "it's", &shell),
        call("shell", json!({ "command": ["bash", "-lc", r"printf %s 'it'\''s' > 'a.txt'"] }))
    );
}
