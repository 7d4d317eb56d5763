//! The cost of a long journal: `ralph status` over a million lines, with and without a snapshot.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::{Bar, Bench, Best, MEBIBYTE, cost_and_peak, find, precise, progress, report};

/// The lines of one step of the build loop, as Ralph writes them.
const STEP: [&str; 10] = [
    r#""event":"iteration_start","data":{"iteration":@N,"stage":"BUILD","item":"t-@I","try":1,"task":"t-@I","name":"Read what comes after the header and say so","spec":"0001-reader.md"}}"#,
    r#""run":"@R","event":"run_started","data":{"item":"t-@I","role":"builder","agent":"codex","model":"gpt-5.5","attempt":1,"try":1,"boundary":"kernel","dir":"/home/someone/work/shop/ralph/runs/t-@I/@R","place":{"home":"runs/t-@I/@R"}}}"#,
    r#""run":"@R","event":"mutation_requested","data":{"request":{"kind":"task_done","id":"t-@I"},"accepted":true,"text":"t-@I is noted as done; Ralph checks it when you end."}}"#,
    r#""run":"@R","event":"run_finished","data":{"end":{"kind":"exited"},"exit":{"code":0},"outcome":{"kind":"completed"},"session":"019aa2b4-7c0e-7f00-8000-0000@N","model":"gpt-5.5-codex","usage":{"input":120345,"cache_read":984321,"cache_write":0,"output":20345},"cost_usd":0.4821,"duration_ms":412345,"cpu_ms":81234,"tool_calls":41,"context_max":120345,"retries":0,"stdout_bytes":812345,"final_line":"All tests pass; the task is done."}}"#,
    r#""event":"gate_started","data":{"item":"t-@I","commit":"c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00","at":"candidate","gate":"tests","attempt":"first","argv":["cargo","test"]}}"#,
    r#""event":"gate_finished","data":{"item":"t-@I","commit":"c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00","at":"candidate","gate":"tests","attempt":"first","status":"passed","attribution":"passed","duration_ms":41234,"tests":{"passed":312,"failed":0,"skipped":2},"warm":true,"log":{"state":"gates/c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00/tests-1.log"}}}"#,
    r#""event":"note","data":{"task":"t-@I","reason":"`main` was at c0ffee00 and is at c0ffee00 again"}}"#,
    r#""event":"verdict","data":{"item":"t-@I","commit":"c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00","verdict":"accepted","by":"judge","proven_by_gates":true,"files":4}}"#,
    r#""event":"task_done","data":{"task":"t-@I","commit":"c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00","proven_by_gates":true}}"#,
    r#""event":"iteration_result","data":{"iteration":@N,"stage":"BUILD","item":"t-@I","try":1,"result":"progress"}}"#,
];
const STEPS: usize = 100_000;
const STARTED: &str = r#"{"v":1,"at":"2026-01-01T00:00:00Z","event":"workflow_started","data":{"id":"20260101-000000Z-00000000000000ff","kind":"build","args":["build"],"pid":1,"started":1,"ralph":"0.1.0"}}"#;

impl Bench {
    /// `ralph status` with a million lines.
    pub(super) fn journal(&self) -> Result<bool, String> {
        let failed = |error: io::Error| format!("cannot prepare: {error}");
        let journal = self.long_journal().map_err(failed)?;
        let snapshot = journal.with_file_name("board.json");
        let (mut without, mut with) = (Best::default(), Best::default());
        for _ in 0..5 {
            let _ = fs::remove_file(&snapshot);
            without.take(cost_and_peak(&mut self.command(&self.ralph, &["status"]))?);
            if !snapshot.exists() {
                return Err("no snapshot was written".to_owned());
            }
            with.take(cost_and_peak(&mut self.command(&self.ralph, &["status", "--json"]))?);
        }
        progress(&format!("from nothing {:?}, with a snapshot {:?}", without.cpu, with.cpu));
        let peak = precise(with.peak.max(without.peak)) / precise(MEBIBYTE);
        let lines = "status over a million lines";
        let cpu = |best: &Best| best.cpu.as_secs_f64();
        Ok(report(&format!("{lines}, seconds of CPU"), cpu(&without), Bar::AtMost(1.5))
            & report(&format!("{lines} with a snapshot, the same"), cpu(&with), Bar::AtMost(0.3))
            & report(&format!("{lines}: peak memory in MiB"), peak, Bar::AtMost(64.0)))
    }

    /// Writes the journal of the workspace, and returns its path.
    fn long_journal(&self) -> io::Result<PathBuf> {
        let run = ["agent", "run", "--quiet", "--agent", "stub", "--file", "PROMPT.md"];
        if !self.command(&self.ralph, &run).status()?.success() {
            return Err(io::Error::other("ralph agent run failed"));
        }
        let mut found = Vec::new();
        find(&self.place.join("home/.local/state/ralph"), "journal.jsonl", &mut found);
        let [path] = found.as_slice() else { return Err(io::Error::other("no journal found")) };
        write_journal(path)?;
        Ok(path.clone())
    }
}

fn write_journal(path: &Path) -> io::Result<()> {
    let mut journal = BufWriter::new(File::create(path)?);
    writeln!(journal, "{STARTED}")?;
    for step in 0..STEPS {
        let (day, minute) = (step / 1440 % 28 + 1, step % 1440);
        let (month, hour, minute) = (step / 40_320 + 1, minute / 60, minute % 60);
        let at = format!("2026-{month:02}-{day:02}T{hour:02}:{minute:02}:07.123456789Z");
        let (number, item) = (step.to_string(), format!("{:05x}", step / 3));
        let run = format!("20260101-000000Z-{step:016x}");
        for line in STEP {
            let line = line.replace("@N", &number).replace("@I", &item).replace("@R", &run);
            let (start, wf) = (r#"{"v":1,"at":""#, r#""wf":"20260101-000000Z-00000000000000ff","#);
            let line = line.replacen(r#""event""#, &format!(r#"{wf}"event""#), 1);
            writeln!(journal, r#"{start}{at}",{line}"#)?;
        }
    }
    journal.flush()
}
