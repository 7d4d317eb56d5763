//! The rehearsal agent as a program of its own: `rehearse SCRIPT [SESSION]`.

use ralph_engine::rehearsal::{PlayRequest, play};

fn main() {
    let mut args = std::env::args().skip(1);
    let script = args.next().expect("a script is named").into();
    std::process::exit(play(&PlayRequest { script, resume: args.next() }));
}
