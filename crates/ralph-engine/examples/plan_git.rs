//! What the plan's store asks of git, as a program to be measured: `plan_git commit|history|news PATH`.

#![expect(clippy::print_stdout, reason = "says what it did")]

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use camino::Utf8Path;
use ralph_engine::git::commits::{CommitRequest, Signing};
use ralph_engine::git::direct::commit_files;
use ralph_engine::git::history::{HistoryQuery, walk};
use ralph_engine::git::{Git, GitProgram};

fn main() {
    let mut args = std::env::args().skip(1);
    let what = args.next().expect("a measure is named");
    let path = PathBuf::from(args.next().expect("a path is named"));
    let program = GitProgram::new("git", std::env::vars_os());
    let git = Git::discover(program, Utf8Path::new(".")).expect("this is a repository");
    if what == "commit" {
        let patience = Duration::from_secs(10);
        let paths = [path];
        let signing = Signing::Unsigned;
        let request = CommitRequest { paths: &paths, message: "plan: x\n", signing, patience };
        let made = commit_files(&git, &request).expect("it is committed");
        println!("{}", made.expect("there is something to commit").id);
        return;
    }
    let tip = git.tip("HEAD").expect("it has a tip").expect("it has a commit");
    let since = (what == "news").then_some(&tip);
    let query = HistoryQuery { path: &path, tip: &tip, since, subjects: &[] };
    let mut lines = 0;
    let walked = walk(&git, &query, &mut |version| {
        lines += version.changes.iter().map(|change| change.added.len()).sum::<usize>();
        ControlFlow::Continue(())
    });
    println!("{:?}, {lines} lines", walked.expect("it is read"));
}
