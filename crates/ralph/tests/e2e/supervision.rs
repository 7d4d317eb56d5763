//! One agent process, whatever it does: started, followed, limited, terminated with all its descendants.
//!
//! Every test asserts that no process of the run is left, by the mark in their environment; tests of output compare the
//! log with what was written, byte for byte.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{Place, RALPH, wait_for_file, wait_until};
use crate::support::process::{processes_marked, run};

/// Every way of leaving a process behind, all ignoring polite signals.
const STUBBORN_FAMILY: &str = "ignore SIGINT SIGTERM SIGHUP\n\
     child exec sleep 600\n\
     setsid exec sleep 600\n\
     daemonise exec sleep 600\n\
     hold-pipe 600s\n\
     daemonise-env echo > ../outside/unmarked; exec tail -f $PWD/../outside/unmarked\n\
     run while [ ! -s ../outside/unmarked ]; do :; done\n\
     write ../outside/ready yes\n";

/// Finds the unmarked daemon by its command line: its own pid may be from another namespace.
fn unmarked_daemon_lives(place: &Place) -> bool {
    let repo = crate::support::text(&place.env.repo());
    let wanted = format!("{repo}/../outside/unmarked");
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    processes.into_iter().any(|process| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == wanted.as_bytes())
    })
}

fn rehearsing_outside(script: &str) -> Place {
    let place = Place::rehearsing(script);
    // The scripts report their progress through files next to the repository.
    let beside = place.path("outside");
    fs::create_dir(&beside).unwrap();
    place.configure(&format!(
        "agent = \"rehearsal\"\nwritable = [{beside:?}]\n[agents.rehearsal]\nscript = \"../script\"\n"
    ));
    place
}

#[test]
fn the_prompt_arrives_unchanged_and_both_streams_are_kept_apart_to_the_byte() {
    let place = Place::new();
    let mut prompt: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    prompt.extend_from_slice(&vec![b'x'; 5 << 20]);
    prompt.extend_from_slice("\r\nno line end ü".as_bytes());
    fs::write(place.path("prompt"), &prompt).unwrap();
    let command = "cat; echo to stderr >&2; printf 'no end' >&2";
    let finished =
        place.ralph(&["agent", "run", "--json", "--file", "../prompt", "--agent-cmd", command]);
    let report: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
    let log = fs::read(report["log"].as_str().unwrap()).unwrap();
    assert!(log == prompt, "{} bytes of {}", log.len(), prompt.len());
    let stderr = fs::read(report["stderr_log"].as_str().unwrap()).unwrap();
    assert_eq!(String::from_utf8(stderr).unwrap(), "to stderr\nno end");
    assert_eq!(report["outcome"]["kind"], "completed");
    place.assert_nothing_left();
}

#[test]
fn a_flood_of_any_kind_is_kept_whole_in_flat_memory() {
    let script = "[builder 1]\nflood line 60MB\nfinal done\n[builder 2]\nflood binary 60MB\nfinal done\n\
                  [builder 3]\nflood json 200000\nflood stderr 20MB\nfinal done\n";
    let place = Place::rehearsing(script);
    for bytes in [60_000_000, 60_000_000, 34_000_000] {
        let running = place.start(&["agent", "run", "--json", "flood"]);
        let status = format!("/proc/{}/status", running.pid());
        let mut peak = 0;
        while let Ok(text) = fs::read_to_string(&status) {
            let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
            let Some(line) = line else { break };
            let now: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
            peak = peak.max(now);
        }
        // Anonymous memory only: how much of the program's file is mapped depends on the size of the debug build.
        assert!((1..16 << 10).contains(&peak), "{peak} kB");
        let (code, said) = running.finish();
        assert_eq!(code, Some(0), "{said}");
        let out = fs::read_to_string(place.path("out")).unwrap();
        let report: serde_json::Value = serde_json::from_str(&out).unwrap();
        let log = fs::metadata(report["log"].as_str().unwrap()).unwrap().len();
        assert!((bytes..bytes + 1000).contains(&log), "{log} bytes kept of {bytes}");
    }
    place.assert_nothing_left();
}

#[test]
fn a_run_over_its_time_is_ended_with_all_that_ever_descended_from_it() {
    let place = rehearsing_outside(&format!("{STUBBORN_FAMILY}hang\n"));
    let report = place.agent_run(&["--timeout", "3s"]);
    assert_eq!((report.outcome(), report.exit_code()), ("timed_out", Some(1)));
    assert_eq!(report.json["exit"]["signal"], 9, "it ignored the interrupt and the termination");
    place.assert_nothing_left();
    assert!(!unmarked_daemon_lives(&place));
}

#[test]
fn an_agent_that_heeds_the_interrupt_is_not_terminated() {
    let place = Place::rehearsing("on SIGINT exit 7\nhang\n");
    let report = place.agent_run(&["--timeout", "500ms"]);
    assert_eq!(report.json["exit"]["code"], 7);
    assert_eq!(report.outcome(), "timed_out");
    place.assert_nothing_left();
}

#[test]
fn what_an_agent_leaves_behind_ends_with_it_and_a_held_pipe_holds_nobody() {
    let place = rehearsing_outside(&format!("{STUBBORN_FAMILY}final all done\n"));
    let report = place.agent_run(&[]);
    assert_eq!((report.outcome(), report.exit_code()), ("completed", Some(0)));
    assert_eq!(report.json["final_message"], "all done");
    assert_eq!(report.json["leftovers"], 5);
    place.assert_nothing_left();
    assert!(!unmarked_daemon_lives(&place));
}

#[test]
fn within_a_second_of_a_sigkill_of_ralph_nothing_it_started_is_alive() {
    let place = rehearsing_outside(&format!("{STUBBORN_FAMILY}hang\n"));
    let running = place.start(&["agent", "run", "work"]);
    wait_for_file(&place.path("outside/ready"));
    assert!(processes_marked(place.env.mark()).len() >= 6);
    running.signal(Signal::KILL);
    let gone = || processes_marked(place.env.mark()).iter().all(|(pid, _)| *pid == running.pid());
    wait_until(Duration::from_secs(1), "everything has ended", gone);
    assert!(!unmarked_daemon_lives(&place));
    running.finish();
}

/// Processes that fork and exit before they can be stopped, so that the successor keeps the others running.
const STORM: &str = "setsid perl -e '$0 = \"storm\"; fork for 1..5; my $end = time + 60; \
     while (time < $end) { kill \"CONT\", -1; exit if fork }'\n";

#[test]
fn within_a_second_of_a_sigkill_of_ralph_and_its_guards_nothing_of_a_namespace_is_alive() {
    let place = rehearsing_outside(&format!("{STUBBORN_FAMILY}{STORM}hang\n"));
    let running = place.start(&["agent", "run", "--boundary", "strict", "work"]);
    wait_for_file(&place.path("outside/ready"));
    // While stopped, Ralph cannot clean up after its guards.
    running.signal(Signal::STOP);
    let outside = |command: &str| command.contains("__guard");
    for (pid, _) in processes_marked(place.env.mark()).iter().filter(|(_, it)| outside(it)) {
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_raw(*pid).unwrap(),
            Signal::KILL,
        );
    }
    running.signal(Signal::KILL);
    let gone = || processes_marked(place.env.mark()).iter().all(|(pid, _)| *pid == running.pid());
    wait_until(Duration::from_secs(1), "everything has ended", gone);
    assert!(!unmarked_daemon_lives(&place));
    running.finish();
}

/// Both layers, and Landlock alone.
const HELD: [(&str, &str); 2] = [("strict", ""), ("kernel", "[sandbox]\nnamespaces = \"off\"\n")];

#[test]
fn a_storm_and_a_crowd_end_with_their_run_whatever_holds_it() {
    let crowd = "run trap '' TERM; i=0; while [ $i -lt 300 ]; do sleep 600 >/dev/null 2>&1 & i=$((i+1)); done\n";
    for (boundary, more) in HELD {
        let place = Place::rehearsing(&format!("{STORM}{crowd}final all done\n"));
        place.more(more);
        let report = place.agent_run(&["--boundary", boundary]);
        assert_eq!((report.outcome(), report.exit_code()), ("completed", Some(0)), "{boundary}");
        place.assert_nothing_left();
    }
}

#[test]
fn what_a_command_in_the_sandbox_leaves_behind_ends_with_it() {
    let command = "trap '' TERM HUP; setsid sleep 600 >/dev/null 2>&1 & echo left";
    for (boundary, more) in HELD {
        let place = Place::new();
        place.more(more);
        let finished = place.ralph(&["sandbox", "--boundary", boundary, "--", "sh", "-c", command]);
        assert_eq!(
            (finished.status.code(), finished.stdout.trim()),
            (Some(0), "left"),
            "{finished}"
        );
        place.assert_nothing_left();
    }
}

#[test]
fn a_descriptor_that_ralph_was_started_with_reaches_no_agent() {
    for (boundary, more) in HELD {
        let place = Place::new();
        place.more(more);
        let agent = "(echo evil >&3) 2>/dev/null; echo tried";
        let script = "exec \"$0\" agent run --boundary \"$1\" --agent-cmd \"$2\" work 3>>../given";
        let args = ["-c", script, RALPH, boundary, agent];
        let finished = run(
            &place.env,
            std::path::Path::new("/bin/sh"),
            &args,
            &place.variables(),
            "",
            crate::harness::PATIENCE,
        );
        assert!(finished.to_string().contains("tried"), "{finished}");
        assert_eq!(fs::read_to_string(place.path("given")).unwrap(), "", "{boundary}");
    }
}

#[test]
fn an_agent_in_the_kernels_bounds_cannot_signal_its_guard_or_ralph() {
    let place = Place::rehearsing(
        "kill-parent\n\
         run parent() { sed -n 's/^PPid:\t//p' /proc/$1/status; }; guard=$(parent $PPID); \
         ralph=$(parent $guard); for s in KILL STOP TERM; do kill -$s $guard; kill -$s $ralph; done 2>&1 | sort -u\n\
         final still here\n",
    );
    // In its own namespace an agent has no process id for them; attacks on the guard in there are among the escapes.
    place.more("[sandbox]\nnamespaces = \"off\"\n");
    let report = place.agent_run(&["--boundary", "kernel"]);
    assert_eq!(report.json["final_message"], "still here");
    let results: Vec<_> =
        report.events().into_iter().filter(|event| event["type"] == "tool_result").collect();
    assert_eq!(results[0]["ok"], false, "{results:?}");
    let refusals = results[1]["summary"].as_str().unwrap().to_owned();
    assert!(refusals.contains("not permitted"), "{refusals}");
    place.assert_nothing_left();
}

#[test]
fn without_the_kernel_a_killed_guard_is_noticed_and_its_charges_are_ended() {
    let place = rehearsing_outside(&format!("{STUBBORN_FAMILY}kill-parent\nhang\n"));
    let report = place.agent_run(&["--boundary", "off"]);
    assert_eq!((report.trouble(), report.exit_code()), ("machine", Some(1)));
    place.assert_nothing_left();
    assert!(!unmarked_daemon_lives(&place));
}

#[test]
fn a_run_that_kills_the_launcher_of_guards_costs_neither_itself_nor_the_next_run() {
    // The launcher is the parent from which the nearest guard was forked.
    let kill = "at=$PPID\nabove() { sed -n 's/^PPid:\\t//p' /proc/$1/status; }\n\
                while ! grep -qa __guard /proc/$at/cmdline; do at=$(above $at); done\n\
                launcher=$(above $at)\ngrep -qa __guard /proc/$launcher/cmdline || exit 1\n\
                kill -9 $launcher\nwhile [ \"$(above $at)\" = $launcher ]; do :; done\n";
    let script = "[builder 1]\nrun sh ../outside/kill\nfinal one\n[builder 2]\nfinal two\n";
    let place = rehearsing_outside(script);
    fs::write(place.path("outside/kill"), kill).unwrap();
    let finished = place.ralph(&["agent", "run", "--boundary", "off", "--repeat", "2", "work"]);
    assert!(finished.status.success(), "{finished}");
    assert_eq!(finished.to_string().matches("[done] completed").count(), 2, "{finished}");
    place.assert_nothing_left();
}

#[test]
fn words_and_variables_that_are_no_text_reach_the_agent_as_they_are() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let odd = std::ffi::OsStr::from_bytes(b"a=\xff\n=b");
    let command = "cat >/dev/null; printf %s \"$TEST_ODD\"";
    let mut ralph = std::process::Command::new(RALPH);
    ralph.args(["agent", "run", "--json", "--agent-cmd", command, "work"]);
    ralph.current_dir(place.env.repo()).env_clear().envs(place.variables()).env("TEST_ODD", odd);
    let report: serde_json::Value =
        serde_json::from_slice(&ralph.output().unwrap().stdout).unwrap();
    assert_eq!(fs::read(report["log"].as_str().unwrap()).unwrap(), odd.as_bytes());
    place.assert_nothing_left();
}

#[test]
fn what_survived_both_ralph_and_its_guard_is_ended_at_the_next_start() {
    let script = "[builder 1]\nsetsid exec sleep 600\nsetsid exec sleep 600\nwrite ../outside/guard ${RUN_ID}\nrun echo $PPID > ../outside/agent\n\
                  write ../outside/ready yes\nhang\n[builder 2]\nfinal fine\n";
    let place = rehearsing_outside(script);
    let running = place.start(&["agent", "run", "--boundary", "off", "work"]);
    wait_for_file(&place.path("outside/ready"));
    // While stopped, Ralph cannot clean up after its guard; then it is killed as well.
    running.signal(Signal::STOP);
    let mut guards = processes_marked(place.env.mark());
    guards.retain(|(_, command)| command.contains("__guard"));
    // The guard is a fork of the launcher, with the same command line.
    let is_guard = |pid: i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        guards.iter().any(|(parent, _)| status.contains(&format!("\nPPid:\t{parent}\n")))
    };
    let guard = guards.iter().find(|(pid, _)| is_guard(*pid)).unwrap();
    let guard = rustix::process::Pid::from_raw(guard.0).unwrap();
    rustix::process::kill_process(guard, Signal::KILL).unwrap();
    running.signal(Signal::KILL);
    running.finish();
    let left = processes_marked(place.env.mark());
    assert!(left.len() >= 2, "the test needs survivors: {left:?}");
    let report = place.agent_run(&["--boundary", "off"]);
    assert_eq!(report.outcome(), "completed");
    assert!(report.finished.to_string().contains("[leftovers] ended"), "{}", report.finished);
    place.assert_nothing_left();
    let status: serde_json::Value =
        serde_json::from_str(&place.ralph(&["status", "--json"]).stdout).unwrap();
    assert_eq!(status["runs"][0]["state"], "abandoned");
}

/// Its scratch directory is removed at the next start, as the record of its run names it: not what is none.
#[test]
fn a_record_that_names_a_directory_of_the_persons_has_nothing_removed() {
    let place = rehearsing_outside(
        "[builder 1]\nwrite ../outside/ready yes\nhang\n[builder 2]\nfinal fine\n",
    );
    let running = place.start(&["agent", "run", "--boundary", "off", "work"]);
    wait_for_file(&place.path("outside/ready"));
    running.signal(Signal::KILL);
    running.finish();
    let precious = place.path("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("file"), "mine\n").unwrap();
    let states = fs::read_dir(place.path("state/ralph")).unwrap().flatten();
    let records = states.flat_map(|state| fs::read_dir(state.path().join("live"))).flatten();
    let mut changed = 0;
    for record in
        records.flatten().filter(|entry| entry.path().extension() == Some("json".as_ref()))
    {
        let text = fs::read_to_string(record.path()).unwrap();
        let line = text.lines().next().unwrap();
        let mut run: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(run["scratch"].is_string(), "{text}");
        run["scratch"] = precious.to_str().unwrap().into();
        fs::write(record.path(), format!("{run}\n")).unwrap();
        changed += 1;
    }
    assert_eq!(changed, 1);
    let report = place.agent_run(&["--boundary", "off"]);
    assert_eq!(report.outcome(), "completed", "{}", report.finished);
    assert_eq!(fs::read_to_string(precious.join("file")).unwrap(), "mine\n");
}

#[test]
fn the_agents_own_retries_are_no_progress() {
    let place = Place::rehearsing(&"retry 1 503\nsleep 50ms\n".repeat(400));
    let report = place.agent_run(&["--idle-timeout", "700ms"]);
    assert_eq!(report.json["end"]["kind"], "idle_timeout");
    assert_eq!(report.trouble(), "server", "a provider that fails is not the work's fault");
    place.assert_nothing_left();
}

#[test]
fn an_open_tool_call_is_progress_and_silence_after_it_is_not() {
    let script = "say working\ntool-open build\nsleep 1500ms\ntool-close\nfinal built\n";
    let report = Place::rehearsing(script).agent_run(&["--idle-timeout", "700ms"]);
    assert_eq!(report.outcome(), "completed");
    let place = Place::rehearsing("say working\ntool-open build\nsleep 900ms\ntool-close\nhang\n");
    let report = place.agent_run(&["--idle-timeout", "400ms"]);
    assert_eq!(report.outcome(), "timed_out");
    assert_eq!(report.json["outcome"]["idle"], true);
    place.assert_nothing_left();
}

#[test]
fn ctrl_c_once_stops_the_agent_saves_and_says_how_to_go_on() {
    let place =
        rehearsing_outside("session s-42\non SIGINT exit 0\nwrite ../outside/ready yes\nhang\n");
    let running = place.start(&["agent", "run", "work"]);
    wait_for_file(&place.path("outside/ready"));
    running.signal(Signal::INT);
    let (code, said) = running.finish();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("--resume s-42"), "{said}");
    place.assert_nothing_left();
}

#[test]
fn ctrl_c_twice_stops_now_whatever_grace_was_configured() {
    let place = rehearsing_outside("ignore SIGINT SIGTERM\nwrite ../outside/ready yes\nhang\n");
    let config = fs::read_to_string(place.env.repo().join("ralph.toml")).unwrap();
    let config = config.replace("\"100ms\"", "\"10m\"");
    fs::write(place.env.repo().join("ralph.toml"), config).unwrap();
    let running = place.start(&["agent", "run", "work"]);
    wait_for_file(&place.path("outside/ready"));
    running.signal(Signal::INT);
    // Pending signals of one kind coalesce: send the second after the first was handled.
    wait_until(Duration::from_secs(30), "the first is heard", || {
        let pending = fs::read_to_string(format!("/proc/{}/status", running.pid())).unwrap();
        pending.lines().any(|line| line.starts_with("ShdPnd") && line.ends_with("0000000000000000"))
    });
    running.signal(Signal::INT);
    let (code, said) = running.finish();
    assert_eq!(code, Some(130), "{said}");
    place.assert_nothing_left();
}

#[test]
fn ctrl_z_stops_the_agent_and_the_clocks_too() {
    let script = "child exec sleep 600\nwrite ../outside/ready yes\n\
                  run while [ ! -e ../outside/go ]; do sleep 0.01; done\nfinal done\n";
    let place = rehearsing_outside(script);
    let running = place.start(&["agent", "run", "--timeout", "4s", "work"]);
    wait_for_file(&place.path("outside/ready"));
    running.signal(Signal::TSTP);
    let all_stopped = || {
        let others = processes_marked(place.env.mark());
        let mut agents = others.iter().filter(|(_, command)| !command.contains("__guard"));
        agents.all(|(pid, _)| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // A shell that waits for its forked child to exec is in state D while that child is stopped.
            stat.contains(") T ") || stat.contains(") D ")
        })
    };
    wait_until(Duration::from_secs(30), "all have stopped", all_stopped);
    // Longer than the run's whole time limit: it finishes only if the clock is paused.
    std::thread::sleep(Duration::from_millis(4500));
    assert!(all_stopped());
    fs::write(place.path("outside/go"), "").unwrap();
    running.signal(Signal::CONT);
    let (code, said) = running.finish();
    assert_eq!(code, Some(0), "{said}");
    place.assert_nothing_left();
}

#[test]
fn an_error_after_which_the_agent_can_only_fail_ends_the_run_at_once() {
    let place = Place::rehearsing("error auth the key is not accepted fatal\nhang\n");
    let report = place.agent_run(&[]);
    assert_eq!((report.trouble(), report.exit_code()), ("auth", Some(1)));
    assert_eq!(report.json["end"]["kind"], "hopeless");
    place.assert_nothing_left();
}

#[test]
fn a_log_that_cannot_be_written_ends_the_run_as_a_fault_of_the_machine() {
    let place = Place::rehearsing("flood text 50MB\nfinal done\n");
    let script = format!("ulimit -f 2000; exec {RALPH} agent run --json go");
    let shell = std::path::Path::new("/bin/sh");
    let finished =
        run(&place.env, shell, &["-c", &script], &place.variables(), "", crate::harness::PATIENCE);
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    let report: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(report["outcome"]["trouble"]["kind"], "machine");
    place.assert_nothing_left();
}

#[test]
fn a_program_that_cannot_be_started_is_told_before_or_as_trouble() {
    let place = Place::new();
    place.configure("agent = \"mine\"\n[agents.mine]\ncommand = [\"/no/such/program\"]\n");
    let finished = place.ralph(&["agent", "run", "work"]);
    assert_eq!(finished.status.code(), Some(2));
    assert!(finished.to_string().contains("`/no/such/program` of agent `mine`"), "{finished}");
    let broken = place.path("broken");
    fs::write(&broken, "#!/no/such/interpreter\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&broken, mode).unwrap();
    place.configure("agent = \"mine\"\n[agents.mine]\ncommand = [\"../broken\"]\n");
    let report = place.agent_run(&[]);
    assert_eq!((report.trouble(), report.exit_code()), ("spawn", Some(1)));
    place.assert_nothing_left();
}
