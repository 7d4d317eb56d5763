use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;
use ralph_model::id::RunId;
use ralph_model::journal::parse_line;
use ralph_model::role::Role;

use super::*;
use crate::channel::client::{ChannelError, ask};
use crate::clock::SystemClock;
use crate::journal::for_each_line;
use crate::test_place::Place;

/// Long enough for any machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A store that records what was applied.
#[derive(Default)]
struct Memory {
    applied: Vec<String>,
}

impl MutationStore for Memory {
    fn apply(&mut self, request: &MutationRequest, asker: Asker<'_>) -> Result<Applied, Declined> {
        let told = |text: String| Ok(Applied { text, change: None });
        let text = match request {
            MutationRequest::IssueAdd { description } => description.clone(),
            MutationRequest::TaskShow { .. } => return told("all tasks".to_owned()),
            other => format!("{} {}", other.command(), asker.role),
        };
        if text == "bad" {
            return Err(Declined::Plan("the plan does not want it.".to_owned()));
        }
        self.applied.push(text.clone());
        told(format!("applied {text}"))
    }
}

struct Stage {
    place: Place,
    memory: Memory,
    role: Role,
}

impl Stage {
    fn new(role: Role) -> Stage {
        let stage = Stage { place: Place::new(), memory: Memory::default(), role };
        fs::create_dir(stage.channel()).unwrap();
        stage
    }

    fn channel(&self) -> Utf8PathBuf {
        self.place.root.join("channel")
    }

    fn journal(&self) -> Utf8PathBuf {
        self.place.root.join("journal.jsonl")
    }

    /// Serves while the agent does its `work`.
    fn during<T>(&mut self, work: impl FnOnce(&Utf8Path) -> T) -> (T, Served) {
        let door = Door::open(&self.channel()).unwrap();
        self.during_with(door, work)
    }

    fn during_with<T>(&mut self, door: Door, work: impl FnOnce(&Utf8Path) -> T) -> (T, Served) {
        let channel = self.channel();
        let mut journal = Journal::open(&self.journal()).unwrap();
        let run: RunId = "20261115-203000Z-00000001".parse().unwrap();
        let given = ["t-1".to_owned()];
        let attendant = Attendant {
            door,
            store: &mut self.memory,
            journal: &mut journal,
            clock: &SystemClock,
            asker: Asker { run: &run, role: self.role, given: &given },
        };
        let serving = Serving::new(attendant);
        let (done, served) = std::thread::scope(|scope| {
            // Acts as the supervising thread: polls until the work is done.
            let (stop, stopper) = std::io::pipe().unwrap();
            let attending = scope.spawn(move || {
                let mut serving = serving;
                loop {
                    let stop = std::os::fd::AsFd::as_fd(&stop);
                    let arrivals = &serving.door.arrivals;
                    if arrivals.wait(Some(stop), None).unwrap() {
                        return serving.finish();
                    }
                    serving.look();
                }
            });
            let done = work(&channel);
            drop(stopper);
            (done, attending.join().unwrap())
        });
        (done, served.unwrap())
    }

    fn events(&self) -> Vec<JournalEvent> {
        let mut events = Vec::new();
        for_each_line(&self.journal(), |line| {
            parse_line(line.as_bytes()).map(|entry| events.push(entry.event))
        })
        .unwrap();
        events
    }

    fn ignored(&self) -> Vec<String> {
        let reason = |event| match event {
            JournalEvent::RequestIgnored(ignored) => Some(ignored.reason),
            _ => None,
        };
        self.events().into_iter().filter_map(reason).collect()
    }
}

fn add(text: &str) -> MutationRequest {
    MutationRequest::IssueAdd { description: text.to_owned() }
}

fn name(sequence: u64) -> RequestName {
    RequestName { sequence, process: 1, nonce: 0 }
}

/// Moves a request into the channel without waiting for a reply.
fn drop_in(channel: &Utf8Path, sequence: u64, bytes: &[u8]) {
    let unfinished = channel.join(name(sequence).unfinished_file(UnfinishedFile::Request));
    fs::write(&unfinished, bytes).unwrap();
    fs::rename(unfinished, channel.join(name(sequence).request_file())).unwrap();
}

fn drop_request(channel: &Utf8Path, sequence: u64, request: MutationRequest) {
    drop_in(channel, sequence, &Request::new(name(sequence), request).render());
}

#[test]
fn requests_are_answered_while_the_agent_runs_and_journalled() {
    let mut stage = Stage::new(Role::Builder);
    let (replies, served) = stage.during(|channel| {
        let ask = |request| ask(channel, request, PATIENCE, &SystemClock).unwrap();
        let accept = MutationRequest::TaskAccept { ids: vec![] };
        let show = MutationRequest::TaskShow { id: None };
        [add("one"), accept, add("bad"), show].map(ask).map(|reply| (reply.accepted, reply.text))
    });
    let refusal = "`ralph task accept` is refused to a run as builder: it may use `ralph task done` and `ralph issue add`.";
    let expected = [
        (true, "applied one"),
        (false, refusal),
        (false, "the plan does not want it."),
        (true, "all tasks"),
    ];
    assert_eq!(replies, expected.map(|(accepted, text)| (accepted, text.to_owned())));
    let mutations = vec![Mutation::IssueAdd];
    assert_eq!(served, Served { accepted: 2, mutations, refused: 2, ignored: 0 });
    assert_eq!(stage.memory.applied, ["one"]);
    let journalled: Vec<_> = stage
        .events()
        .into_iter()
        .map(|event| match event {
            JournalEvent::MutationRequested(asked) => (asked.accepted, asked.text),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(journalled, replies[..3]);
    assert_eq!(stage.channel().read_dir_utf8().unwrap().count(), 0);
}

#[test]
fn requests_are_applied_in_the_order_in_which_they_came() {
    let mut stage = Stage::new(Role::Builder);
    let ((), served) = stage.during(|channel| {
        for number in 0..300 {
            drop_request(channel, number, add(&number.to_string()));
        }
    });
    assert_eq!(served.accepted, 300);
    let expected: Vec<String> = (0..300).map(|number: u32| number.to_string()).collect();
    assert_eq!(stage.memory.applied, expected);
}

#[test]
fn without_word_from_the_kernel_the_channel_works_as_well() {
    let mut stage = Stage::new(Role::Builder);
    let directory = open_directory(&stage.channel()).unwrap();
    let door = Door { directory, arrivals: Arrivals::that_looks() };
    let (reply, served) = stage
        .during_with(door, |channel| ask(channel, add("one"), PATIENCE, &SystemClock).unwrap());
    assert!(reply.accepted);
    assert_eq!(served.accepted, 1);
}

#[test]
fn what_is_left_when_the_agent_has_ended_is_taken_once() {
    let mut stage = Stage::new(Role::Builder);
    drop_request(&stage.channel(), 2, add("second"));
    drop_request(&stage.channel(), 1, add("first"));
    let ((), served) = stage.during(|_| ());
    assert_eq!(served.accepted, 2);
    assert_eq!(stage.memory.applied, ["first", "second"]);
}

#[test]
fn a_request_that_cannot_be_removed_is_applied_once() {
    let mut stage = Stage::new(Role::Builder);
    let ((), served) = stage.during(|channel| {
        let bytes = Request::new(name(1), add("one")).render();
        drop_in(channel, 1, &bytes);
        let reply = channel.join(name(1).reply_file());
        let deadline = Instant::now() + PATIENCE;
        while !reply.exists() {
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
        // The same request again, as if removing it had failed.
        drop_in(channel, 1, &bytes);
    });
    assert_eq!((served.accepted, stage.memory.applied.len()), (1, 1));
}

#[test]
fn nothing_that_an_agent_plants_hangs_or_fools_the_harness() {
    let mut stage = Stage::new(Role::Builder);
    stage.place.write("precious", "untouched");
    let precious = stage.place.root.join("precious");
    let whole = Request::new(name(8), add("half")).render();
    let (last, served) = stage.during(|channel| {
        // At the paths where the replies will be written.
        for sequence in 1..20 {
            symlink(&precious, channel.join(name(sequence).reply_file())).unwrap();
            let unfinished = name(sequence).unfinished_file(UnfinishedFile::Reply);
            symlink(&precious, channel.join(unfinished)).unwrap();
        }
        // Moved in like requests, so that the harness sees them while the agent runs.
        let move_in = |sequence: u64, make: &dyn Fn(&Utf8Path)| {
            let unfinished = channel.join("unfinished.tmp");
            make(&unfinished);
            fs::rename(unfinished, channel.join(name(sequence).request_file())).unwrap();
        };
        move_in(1, &|path| {
            assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        });
        move_in(2, &|path| symlink(&precious, path).unwrap());
        move_in(3, &|path| fs::create_dir(path).unwrap());
        drop_in(channel, 4, &vec![b' '; LARGEST_REQUEST + 1]);
        let twice = channel.join("twice");
        fs::write(&twice, Request::new(name(5), add("twice")).render()).unwrap();
        move_in(5, &|path| fs::hard_link(&twice, path).unwrap());
        drop_in(channel, 6, &Request::new(name(7), add("stolen name")).render());
        drop_in(channel, 8, &whole[..whole.len() / 2]);
        drop_in(channel, 9, br#"{"v":2}"#);
        fs::write(channel.join("evil.req"), "x").unwrap();
        drop_request(channel, 10, add("honest"));
        ask(channel, add("last"), PATIENCE, &SystemClock).unwrap()
    });
    assert!(last.accepted);
    let honest = stage.channel().join(name(10).reply_file());
    assert!(fs::symlink_metadata(honest).unwrap().is_file());
    assert_eq!(stage.memory.applied, ["honest", "last"]);
    assert_eq!(stage.place.read("precious"), "untouched");
    assert_eq!((served.accepted, served.refused), (2, 0));
    let mut reasons = stage.ignored();
    reasons.sort_unstable();
    let expected = [
        "it bears the name of another one",
        "it cannot be read",
        "it has no name of a request",
        "it has several names (hard links)",
        "it is a symbolic link",
        "it is larger than 65536 bytes",
        "it is not a file",
        "its version is 2, but this Ralph uses 1",
    ];
    assert_eq!(reasons, expected);
}

#[test]
fn of_a_flood_a_thousand_requests_are_looked_at_and_the_rest_is_noted_once() {
    let mut stage = Stage::new(Role::Builder);
    let (reply, served) = stage.during(|channel| {
        for number in 0..5000 {
            drop_request(channel, number, MutationRequest::TaskShow { id: None });
        }
        ask(channel, add("too late"), PATIENCE, &SystemClock).unwrap()
    });
    assert_eq!(
        reply.text,
        "only 1000 requests or 4 MiB of a run are looked at: end the run with what you have done."
    );
    assert_eq!((served.accepted, served.refused), (MOST_REQUESTS, 0));
    assert_eq!(stage.memory.applied.len(), 0);
    assert_eq!(stage.ignored(), ["only 1000 requests or 4 MiB of a run are looked at"]);
}

#[test]
fn large_requests_fill_the_journal_only_so_far() {
    let mut stage = Stage::new(Role::Builder);
    let large = "x".repeat(LARGEST_REQUEST - 1000);
    let ((), served) = stage.during(|channel| {
        for number in 0..100 {
            drop_request(channel, number, add(&large));
        }
    });
    assert_eq!(served.accepted, MOST_REQUEST_BYTES.div_ceil(large.len()));
    assert_eq!(served.accepted + served.ignored, 100);
}

#[test]
fn a_channel_that_was_swapped_is_noticed_and_the_old_one_still_holds() {
    let mut stage = Stage::new(Role::Builder);
    let elsewhere = stage.place.root.join("elsewhere");
    let ((), served) = stage.during(|channel| {
        fs::rename(channel, &elsewhere).unwrap();
        symlink("/etc", channel).unwrap();
        let asked = ask(channel, add("through a link"), PATIENCE, &SystemClock);
        assert!(matches!(asked, Err(ChannelError::Path(_))));
        drop_request(&elsewhere, 1, add("honest"));
    });
    assert_eq!(served.accepted, 1);
    assert_eq!(stage.ignored(), ["the directory of requests was moved or removed"]);
}

#[test]
fn nobody_there_is_said_and_the_request_withdrawn() {
    let stage = Stage::new(Role::Builder);
    let patience = Duration::from_millis(20);
    let error = ask(&stage.channel(), add("x"), patience, &SystemClock).unwrap_err();
    assert!(matches!(error, ChannelError::NoAnswer(_)), "{error}");
    assert_eq!(stage.channel().read_dir_utf8().unwrap().count(), 0);
    let huge = add(&"x".repeat(LARGEST_REQUEST));
    let error = ask(&stage.channel(), huge, patience, &SystemClock).unwrap_err();
    assert!(matches!(error, ChannelError::TooLarge { .. }), "{error}");
}

#[test]
fn without_a_plan_every_role_is_told_so() {
    let run: RunId = "20261115-203000Z-00000001".parse().unwrap();
    let asker = Asker { run: &run, role: Role::Builder, given: &[] };
    assert_eq!(
        NoStore.apply(&add("x"), asker).unwrap_err().to_string(),
        "`ralph issue add` has no effect, for this run works on no plan: say it in the last message instead."
    );
}
