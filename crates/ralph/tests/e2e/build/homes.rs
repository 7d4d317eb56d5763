//! Agents that move home away, empty it, or remove the ignore file for its private files.

use super::{SPEC, Site, VERIFIER, task};

/// An initialised site, with a builder that does something to home before its task.
fn site(doing: &str) -> Site {
    let script = format!(
        "[builder]\nappend t-aaaa done\nrun {doing}\nrun ralph task done\nfinal done\n{VERIFIER}"
    );
    let site = Site::planned(&script, &[task("t-aaaa")]).in_place();
    site.exits(0, &["init", "--no-commit"]);
    site.commit_all("set up");
    site
}

fn home_in_git(site: &Site) -> Vec<String> {
    site.git(&["ls-files", "ralph"]).lines().map(str::to_owned).collect()
}

#[test]
fn what_home_ignores_stays_out_of_git_though_an_agent_takes_the_ignores_away() {
    for boundary in ["auto", "detect", "off"] {
        for doing in ["rm ralph/.gitignore", "echo > ralph/.gitignore"] {
            let site = site(doing);
            let before = home_in_git(&site);
            let finished = site.exits(0, &["build", "--boundary", boundary]);
            let told = format!("{doing} ({boundary})\n{finished}");
            assert_eq!(home_in_git(&site), before, "{told}");
            assert!(site.path("ralph/ralph.log").exists(), "{told}");
            let is_told = finished.stderr.contains("reverted: ralph/.gitignore");
            assert_eq!(is_told, boundary != "off", "{told}");
            site.assert_complete();
        }
    }
}

#[test]
fn a_home_that_an_agent_moves_away_is_moved_back_whole() {
    for boundary in ["auto", "detect"] {
        let site = site("mv ralph ralph2");
        let before = home_in_git(&site);
        let finished = site.exits(1, &["build", "1", "--boundary", boundary]);
        assert!(finished.stderr.contains("forbidden change: ralph\n"), "{finished}");
        assert!(finished.stderr.contains("reverted: ralph\n"), "{finished}");
        assert!(!site.path("ralph2").exists(), "{finished}");
        assert_eq!(home_in_git(&site), before, "{finished}");
        assert_eq!(site.git(&["status", "--porcelain", "ralph"]), "", "{finished}");
        assert_eq!(site.logged("run_started").len(), 1, "the log is whole");
    }
}

#[test]
fn specs_of_a_home_that_an_agent_empties_are_put_back() {
    for boundary in ["auto", "detect"] {
        let site = site("rm -rf ralph");
        let before = site.git(&["ls-files", "ralph/.gitignore", "ralph/specs"]);
        let finished = site.exits(1, &["build", "1", "--boundary", boundary]);
        assert!(finished.stderr.contains("reverted: ralph/.gitattributes, "), "{finished}");
        assert!(site.path("ralph/specs").join(SPEC).exists(), "{finished}");
        assert_eq!(site.git(&["ls-files", "ralph/.gitignore", "ralph/specs"]), before);
        assert_eq!(site.git(&["ls-files", "ralph/ralph.log", "ralph/runs"]), "", "{finished}");
    }
}

#[test]
fn a_spec_that_an_agent_edits_is_its_work_and_one_that_it_removes_comes_back() {
    let site = site("sh -c 'echo more >> ralph/specs/greet.md; rm ralph/specs/README.md'");
    let finished = site.exits(0, &["build"]);
    assert!(finished.stderr.contains("reverted: ralph/specs/README.md\n"), "{finished}");
    assert!(site.git(&["show", "HEAD:ralph/specs/greet.md"]).ends_with("more"));
    site.assert_complete();
}
