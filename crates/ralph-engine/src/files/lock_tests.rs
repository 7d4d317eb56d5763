use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use camino::Utf8PathBuf;
use tempfile::TempDir;

use super::*;

const NO_TIME: Duration = Duration::ZERO;
/// A home that does not exist.
const NO_HOME: &str = "no home";

fn temp() -> (TempDir, Utf8PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::from_path_buf(directory.path().join("home.lock")).unwrap();
    (directory, path)
}

fn since() -> Timestamp {
    "2026-01-02T03:04:05.678901234Z".parse().unwrap()
}

fn me() -> LockOwner {
    LockOwner::current("ralph status", since())
}

/// Plays a `ralph build` that holds the lock until its stdin closes.
#[test]
#[ignore = "a process of other tests, started by them"]
fn holder() {
    let Ok(path) = std::env::var("RALPH_TEST_LOCK") else { return };
    let owner = LockOwner::current("ralph build", since());
    let lock = RunLock::acquire(Utf8Path::new(&path), &owner).unwrap();
    // A child that outlives the holder must not inherit the lock.
    let mut orphan = Command::new("sleep").arg("30").spawn().unwrap();
    println!("\nheld {}", orphan.id());
    io::stdin().read_line(&mut String::new()).unwrap();
    drop(lock);
    println!("\nreleased");
    orphan.kill().unwrap();
    orphan.wait().unwrap();
}

struct Holder {
    child: Child,
    orphan: Option<rustix::process::Pid>,
}

impl Holder {
    fn start(lock: &Utf8Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "files::lock::tests::holder", "--ignored", "--nocapture"])
            .env("RALPH_TEST_LOCK", lock)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let orphan = lines
            .by_ref()
            .find_map(|line| line.unwrap().strip_prefix("held ").map(|pid| pid.parse().unwrap()))
            .expect("the holder says that it holds the lock");
        // Also drain the rest, so that the holder never writes into a closed pipe.
        thread::spawn(move || lines.count());
        Holder { child, orphan: rustix::process::Pid::from_raw(orphan) }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let orphan = self.orphan.take().unwrap();
        assert!(rustix::process::test_kill_process(orphan).is_ok(), "the orphan lives on");
        rustix::process::kill_process(orphan, rustix::process::Signal::KILL).unwrap();
    }
}

#[test]
fn a_living_owner_is_named() {
    let (_guard, path) = temp();
    let holder = Holder::start(&path);
    let expected = format!("`ralph build` (pid {}, since 2026-01-02T03:04:05Z)", holder.child.id());
    let run = RunLock::acquire(&path, &me()).unwrap_err();
    assert_eq!(run.to_string(), format!("{expected} is already running here"));
    let write = WriteLock::acquire(&path, NO_HOME.into(), Duration::from_millis(3)).unwrap_err();
    assert_eq!(
        write.to_string(),
        format!("{expected} is writing in this home and did not finish within 3ms")
    );
    holder.kill();
}

#[test]
fn a_killed_owner_blocks_nobody_even_if_its_children_live_on() {
    let (_guard, path) = temp();
    let holder = Holder::start(&path);
    RunLock::acquire(&path, &me()).unwrap_err();
    holder.kill();
    let lock = RunLock::acquire(&path, &me()).unwrap();
    assert_eq!(current_owner(&path), Some(me()));
    drop(lock);
    assert_eq!(current_owner(&path), None);
}

#[test]
fn a_writer_waits_for_the_one_before_it() {
    let (_guard, path) = temp();
    let mut holder = Holder::start(&path);
    thread::scope(|scope| {
        let waiting =
            scope.spawn(|| WriteLock::acquire(&path, NO_HOME.into(), Duration::from_mins(1)));
        drop(holder.child.stdin.take());
        waiting.join().unwrap().unwrap();
    });
    assert!(holder.child.wait().unwrap().success());
}

#[test]
fn an_owner_that_is_not_who_the_file_says_is_not_named() {
    let (_guard, path) = temp();
    let lock = RunLock::acquire(&path, &me()).unwrap();
    let mut recycled = me();
    recycled.process.start += 1;
    recycled.process.boot = "another boot".to_owned();
    fs::write(&path, serde_json::to_vec(&recycled).unwrap()).unwrap();
    let error = RunLock::acquire(&path, &me()).unwrap_err();
    assert_eq!(error.to_string(), "another process is already running here");
    drop(lock);
    RunLock::acquire(&path, &me()).unwrap();
}

#[test]
fn a_stale_or_damaged_lock_file_blocks_nobody() {
    let (_guard, path) = temp();
    for content in
        ["", "{", "{\"process\":{\"pid\":1},\"command\":\"x\",\"since\":\"2026-01-02T03:04:05Z\"}"]
    {
        fs::write(&path, content).unwrap();
        WriteLock::acquire(&path, NO_HOME.into(), NO_TIME).unwrap();
    }
}

#[test]
fn who_writes_is_named_though_it_left_no_name() {
    let (_guard, path) = temp();
    let lock = WriteLock::acquire(&path, NO_HOME.into(), NO_TIME).unwrap();
    let error = WriteLock::acquire(&path, NO_HOME.into(), NO_TIME).unwrap_err().to_string();
    assert!(error.contains(&format!("(pid {})", std::process::id())), "{error}");
    drop(lock);
    WriteLock::acquire(&path, NO_HOME.into(), NO_TIME).unwrap();
}

/// Two private states, or two paths to one home, have different lock files.
#[test]
fn writers_with_different_lock_files_exclude_each_other_in_one_home() {
    let (directory, path) = temp();
    let home = Utf8Path::from_path(directory.path()).unwrap();
    let other = path.with_file_name("other.lock");
    let lock = WriteLock::acquire(&path, home, NO_TIME).unwrap();
    let error = WriteLock::acquire(&other, home, Duration::from_millis(3)).unwrap_err().to_string();
    assert!(error.contains(&format!("(pid {})", std::process::id())), "{error}");
    assert!(error.contains("within 3ms"), "{error}");
    drop(lock);
    WriteLock::acquire(&other, home, NO_TIME).unwrap();
}

#[test]
fn two_states_of_one_home_have_one_workflow_at_a_time() {
    let (guard, path) = temp();
    let other = path.with_file_name("other.lock");
    let shared = Utf8Path::from_path(guard.path()).unwrap();
    let first = RunLock::acquire_with(&path, Some(shared), &me()).unwrap();
    let second = RunLock::acquire_with(&other, Some(shared), &me()).unwrap_err();
    let pid = format!("(pid {})", std::process::id());
    assert!(second.to_string().contains(&pid), "{second}");
    drop(first);
    RunLock::acquire_with(&other, Some(shared), &me()).unwrap();
    RunLock::acquire_with(&other, Some(&shared.join("absent")), &me()).unwrap();
}
