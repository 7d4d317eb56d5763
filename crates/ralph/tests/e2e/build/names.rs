//! Files of any name that Linux allows, in a build.

use super::{Site, VERIFIER, task};
use crate::names::{are_all, maker, names, write_all};

#[test]
fn what_a_builder_leaves_is_committed_whatever_its_name() {
    let site = Site::planned("", &[task("t-aaaa")]).in_place();
    let repo = site.place.env.repo().clone();
    let makes = maker(&site.place)("made");
    let script = format!("[builder]\n{makes}run ralph task done\nfinal done\n{VERIFIER}");
    std::fs::write(site.place.path("script"), script).unwrap();
    write_all(&repo.join("tracked"), "tracked");
    write_all(&repo.join("ralph/notes"), "in home");
    site.commit_all("names");
    write_all(&repo.join("ralph"), "uncommitted, in home");
    site.exits(0, &["build"]);
    site.assert_complete();
    are_all(&repo.join("made"), "made");
    // Git quotes the names, so that each is on one line.
    let committed = site.git(&["ls-tree", "-r", "--name-only", "HEAD", "made"]);
    assert_eq!(committed.lines().count(), names().len(), "{committed}");
}
