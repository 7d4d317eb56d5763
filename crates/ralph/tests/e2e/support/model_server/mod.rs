//! A scripted model on loopback for the real agent CLIs.
//!
//! It speaks four dialects, distinguished by path, on 127.0.0.1 and its own port. Everything is bounded: concurrent
//! connections, recorded requests, and the lifetime of the server, which ends with all its threads when it is dropped.
//! It does no billing and checks no key.

mod anthropic;
mod connection;
pub(crate) mod dialect;
mod gemini;
pub(crate) mod http;
mod openai_chat;
mod openai_responses;
pub(crate) mod script;
pub(crate) mod tools;

use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use dialect::{Dialect, Kind};
use script::{Script, Step};

const LIFE: Duration = Duration::from_mins(10);
const MAX_CONNECTIONS: usize = 64;
const MAX_REQUESTS: usize = 4096;

/// A received request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recorded {
    pub(crate) dialect: Option<Dialect>,
    pub(crate) kind: Kind,
    /// The step of the script that answered it.
    pub(crate) step: Option<usize>,
    pub(crate) at: SystemTime,
    /// With its query.
    pub(crate) path: String,
    /// Null if there was none or it is not JSON.
    pub(crate) body: Value,
}

/// A running model server.
pub(crate) struct ModelServer {
    port: u16,
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

impl ModelServer {
    /// Starts a server that plays `script`.
    pub(crate) fn start(script: Script) -> ModelServer {
        assert!(!script.is_empty(), "a script has at least one step");
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let shared = Arc::new(Shared::new(script));
        let acceptor = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || accept(&listener, &shared))
        };
        let keeper = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || keep(&shared, address, acceptor))
        };
        ModelServer { port: address.port(), shared, keeper: Some(keeper) }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the base URL, without a path.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns all requests so far, in order of arrival.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.shared.lock().requests.clone()
    }

    /// Returns the requests that consumed a step.
    pub(crate) fn turns(&self) -> Vec<Recorded> {
        self.requests().into_iter().filter(|request| request.kind == Kind::Main).collect()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(keeper) = self.keeper.take() {
            let ended = keeper.join();
            // A second panic would hide the first.
            assert!(thread::panicking() || ended.is_ok(), "a thread of the model server panicked");
        }
    }
}

/// The state shared by the threads of one server.
struct Shared {
    script: Script,
    state: Mutex<State>,
    stopped: Condvar,
    started: u128,
}

#[derive(Default)]
struct State {
    stopping: bool,
    played: usize,
    requests: Vec<Recorded>,
    /// Handles for waking blocked connections; `None` once the connection has ended.
    connections: Vec<Option<TcpStream>>,
}

impl Shared {
    fn new(script: Script) -> Shared {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Shared { script, state: Mutex::default(), stopped: Condvar::new(), started }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        self.lock().stopping = true;
        self.stopped.notify_all();
    }

    /// Waits until the server stops, at most `limit`; returns whether it stops.
    fn wait_for_stop(&self, limit: Duration) -> bool {
        let state = self.lock();
        let (state, _) = self
            .stopped
            .wait_timeout_while(state, limit, |state| !state.stopping)
            .unwrap_or_else(PoisonError::into_inner);
        state.stopping
    }

    /// Records a request that the script does not answer.
    fn record(&self, recorded: Recorded) {
        let mut state = self.lock();
        if state.requests.len() < MAX_REQUESTS {
            state.requests.push(recorded);
        }
    }

    /// Records a request that the script answers, and returns the step.
    fn record_turn(&self, mut recorded: Recorded) -> Step {
        let mut state = self.lock();
        let (place, step) = self.script.at(state.played);
        state.played += 1;
        recorded.step = Some(place);
        if state.requests.len() < MAX_REQUESTS {
            state.requests.push(recorded);
        }
        step.clone()
    }

    fn next_turn_id(&self) -> String {
        static TURNS: AtomicU64 = AtomicU64::new(0);
        format!("{:x}{:03x}", self.started, TURNS.fetch_add(1, Ordering::Relaxed))
    }

    /// Registers a connection, unless the server is full or stopping.
    fn admit(&self, stream: &TcpStream) -> Option<usize> {
        let handle = stream.try_clone().ok()?;
        let mut state = self.lock();
        let open = state.connections.iter().flatten().count();
        if state.stopping || open >= MAX_CONNECTIONS {
            return None;
        }
        state.connections.push(Some(handle));
        Some(state.connections.len() - 1)
    }

    fn dismiss(&self, place: usize) {
        self.lock().connections[place] = None;
    }
}

/// Accepts connections until the server stops, then waits for their threads to end.
fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut threads = Vec::new();
    for stream in listener.incoming() {
        if shared.lock().stopping {
            break;
        }
        let Ok(stream) = stream else { continue };
        let Some(place) = shared.admit(&stream) else { continue };
        let shared = Arc::clone(shared);
        threads.push(thread::spawn(move || {
            connection::serve(&stream, &shared);
            // The handle in the list would keep the socket open.
            shared.dismiss(place);
        }));
    }
    let panicked = threads.into_iter().filter_map(|thread| thread.join().err()).count();
    assert_eq!(panicked, 0, "connections of the model server panicked");
}

/// Stops the server on request, or when its lifetime is over.
fn keep(shared: &Shared, address: SocketAddr, acceptor: JoinHandle<()>) {
    shared.wait_for_stop(LIFE);
    shared.stop();
    for connection in shared.lock().connections.iter().flatten() {
        // An error means that the peer closed first.
        let _ = connection.shutdown(Shutdown::Both);
    }
    // Wakes the acceptor; if it has already ended, this does nothing.
    let _ = TcpStream::connect(address);
    acceptor.join().expect("the acceptor ends without a panic");
}
