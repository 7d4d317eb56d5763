//! Scenarios of landings, of items in flight, and of the copy of home.

use std::path::{Path, PathBuf};

use super::{Bench, Stage};
use crate::files::simulated::ROOT;
use crate::git::Oid;
use crate::git::commits::Signing;
use crate::git::home_copy::HomeChange;
use crate::git::item_refs::{ItemKey, ItemWrite};
use crate::git::landing::{
    BranchTip, Carried, FileEdit, FollowOutcome, JudgedWork, LandingCommit, NewerCommits, TipState,
    TreeMerge,
};

const BRANCH: &str = "refs/heads/main";

impl Stage {
    /// Commits a file on a branch of its own, and returns to `main`.
    fn work(&mut self, branch: &str, file: &str, text: &str) -> Oid {
        self.switch_new(branch);
        self.write(file, text);
        self.commit_all();
        let work = self.head_id();
        self.git().switch_to(BRANCH).unwrap();
        self.repository().fill_mirror(std::slice::from_ref(&work)).unwrap();
        work
    }

    /// Reads where work lands; files of home in conflict get both sides.
    fn tip(&mut self) -> Option<TipState> {
        let tip = self.repository().landing().tip(BRANCH, &mut |sides| {
            let own = sides.conflicts.iter().filter(|path| path.starts_with("ralph"));
            let both =
                |path: &PathBuf| FileEdit { path: path.clone(), content: Some(b"both\n".to_vec()) };
            own.map(both).collect()
        });
        let (what, tip) = match tip.unwrap() {
            BranchTip::Unborn => ("unborn".to_owned(), None),
            BranchTip::At(tip) => ("at".to_owned(), Some(tip)),
            BranchTip::Newer(NewerCommits { read, merge }) => {
                self.see_refs();
                let landed = self.repository().landing().land_marked(BRANCH, &read, &merge, &[]);
                self.see(landed.unwrap());
                let landed = Some(merge.clone());
                ("newer".to_owned(), Some(TipState { commit: merge, landed, ..read }))
            }
            BranchTip::Diverged { .. } => ("diverged".to_owned(), None),
            BranchTip::Conflict { paths, .. } => (format!("conflict {paths:?}"), None),
        };
        if let Some(tip) = &tip {
            self.repository().fill_mirror(std::slice::from_ref(&tip.commit)).unwrap();
        }
        self.see(what);
        self.see_refs();
        tip
    }

    /// Makes the commit that lands work on a tip, with a file of home.
    fn landing_commit(&self, tip: &TipState, work: &Oid, plan: &str) -> Oid {
        let repository = self.repository();
        let landing = repository.landing();
        let edit =
            FileEdit { path: "ralph/plan.jsonl".into(), content: Some(plan.as_bytes().to_vec()) };
        let tree = landing.tree_of(work).unwrap();
        let own = [PathBuf::from("ralph")];
        let request = LandingCommit {
            tree: &tree,
            tip: &tip.commit,
            as_in_tip: &own,
            edits: &[edit],
            parents: &[work],
            message: "lands\n",
            signing: Signing::Unsigned,
        };
        landing.commit(&request).unwrap()
    }

    fn land(&mut self, tip: &TipState, commit: &Oid, marks: &[(&str, &Oid)]) {
        let landed = self.repository().landing().land_marked(BRANCH, tip, commit, marks);
        self.see(landed.unwrap());
        self.see_refs();
    }

    fn follow(&mut self) {
        let outcome = match self.repository().landing().follow(BRANCH).unwrap() {
            FollowOutcome::Current => "current".to_owned(),
            FollowOutcome::Followed { .. } => "followed".to_owned(),
            FollowOutcome::Waits { files, reason, .. } => format!("waits {files:?} {reason:?}"),
            FollowOutcome::NewerCommits { .. } => "newer commits".to_owned(),
            FollowOutcome::Diverged { .. } => "diverged".to_owned(),
        };
        self.see(outcome);
        self.see_refs();
        self.see_head();
        self.see_dirt();
    }

    fn see_file_at(&mut self, commit: &Oid, path: &str) {
        let found = self.repository().truth().file_at(commit, Path::new(path)).unwrap();
        self.see(found.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
    }
}

pub(super) fn landing(stage: &mut Stage) {
    let work = stage.work("work", "w.txt", "w\n");
    stage.write("ralph/notes.md", "the agent's\n");
    let tip = stage.tip().unwrap();
    let commit = stage.landing_commit(&tip, &work, "landed\n");
    for path in ["w.txt", "readme.txt", "ralph/plan.jsonl", "ralph/notes.md"] {
        stage.see_file_at(&commit, path);
    }
    stage.land(&tip, &commit, &[("refs/ralph/mark/one", &work)]);
    // Another landing on the same tip loses.
    stage.land(&tip, &commit, &[("refs/ralph/mark/two", &work)]);
    stage.see_head();
    // The person commits meanwhile.
    stage.write("persons.txt", "p\n");
    stage.commit(&["persons.txt"]);
    stage.land(&tip, &commit, &[]);
    stage.follow();
    let tip = stage.tip().unwrap();
    for path in ["w.txt", "persons.txt", "ralph/plan.jsonl"] {
        stage.see_file_at(&tip.commit, path);
    }
    stage.follow();
    stage.see_file("w.txt");
    stage.follow();
}

pub(super) fn what_is_in_the_way(stage: &mut Stage) {
    let work = stage.work("work", "readme.txt", "changed\n");
    let tip = stage.tip().unwrap();
    let commit = stage.landing_commit(&tip, &work, "landed\n");
    stage.write("readme.txt", "the person's\n");
    stage.write("ralph/plan.jsonl", "the person's\n");
    stage.land(&tip, &commit, &[]);
    stage.follow();
    stage.see_file("readme.txt");
    stage.remove("ralph/plan.jsonl");
    stage.write("readme.txt", "one\n");
    stage.follow();
    stage.see_file("readme.txt");
    stage.see_file("ralph/plan.jsonl");
    // A branch that is not checked out follows as well, and one that was moved back does not.
    let work = stage.work("more", "more.txt", "more\n");
    let tip = stage.tip().unwrap();
    let commit = stage.landing_commit(&tip, &work, "more\n");
    stage.land(&tip, &commit, &[]);
    stage.reset_hard();
    stage.tip();
    stage.follow();
}

pub(super) fn merging_for_a_landing(stage: &mut Stage) {
    let base = stage.head_id();
    let work = stage.work("work", "w.txt", "w\n");
    let other = stage.work("other", "w.txt", "other\n");
    stage.write("m.txt", "m\n");
    stage.write("ralph/plan.jsonl", "main\n");
    stage.commit(&["m.txt", "ralph/plan.jsonl"]);
    let main = stage.head_id();
    stage.repository().fill_mirror(&[]).unwrap();
    for (one, two) in [(&main, &work), (&work, &other)] {
        let (paths, tree) = match stage.repository().landing().merge(one, two, None).unwrap() {
            TreeMerge::Clean { tree } => (Vec::new(), Some(tree)),
            TreeMerge::Conflict { paths, .. } => (paths, None),
        };
        stage.see(paths);
        for path in ["w.txt", "m.txt"] {
            if let Some(tree) = &tree {
                stage.see_file_at(tree, path);
            }
        }
    }
    // The change alone, where the tip does not have what it was made on.
    let own = [PathBuf::from("ralph")];
    for (tip, from, to) in [(&other, &main, &main), (&main, &base, &work), (&work, &base, &work)] {
        let carried = stage.repository().landing().carry_over(tip, from, to, &own).unwrap();
        match carried {
            Carried::Commit(commit) => {
                stage.see_file_at(&commit, "w.txt");
                stage.see_file_at(&commit, "ralph/plan.jsonl");
                let is_on_tip = stage.repository().truth().is_ancestor(tip, &commit).unwrap();
                let has_work = stage.repository().truth().is_ancestor(to, &commit).unwrap();
                stage.see((is_on_tip, has_work));
            }
            Carried::Nothing => stage.see("nothing"),
            Carried::Conflict(paths) => stage.see(paths),
        }
    }
}

pub(super) fn items_in_flight(stage: &mut Stage) {
    let (one, other) = (ItemKey::new("main/US-001"), ItemKey::new("0001-a"));
    let files = [(PathBuf::from("ralph/a"), b"a\n".to_vec())];
    let see_items = |stage: &mut Stage| {
        let items = stage.repository().items().read_every_item().unwrap();
        for item in items {
            stage.see((item.key, item.number, item.message, item.files));
        }
        let items = stage.repository().items();
        let may_have = (items.may_have_items(), items.may_have_refs("refs/ralph/candidate/"));
        stage.see(may_have);
    };
    see_items(stage);
    let write = |stage: &Stage, key, number, previous: Option<&Oid>| {
        let message = "in flight\n\nItem: x\n";
        let write = ItemWrite { key, number, files: &files, message, previous };
        stage.repository().items().write_item(&write)
    };
    let first = write(stage, &one, 1, None).unwrap();
    write(stage, &other, 3, None).unwrap();
    see_items(stage);
    let is_lost = write(stage, &one, 1, None).is_err();
    let is_next = write(stage, &one, 1, Some(&first)).is_ok();
    stage.see((is_lost, is_next));
    let records = stage.repository().items().read_every_item().unwrap();
    for record in &records {
        let first = stage.repository().items().drop_item(record).unwrap();
        let second = stage.repository().items().drop_item(record).is_ok_and(|dropped| dropped);
        stage.see((first, second));
    }
    // Judged work that has not landed.
    let base = stage.head_id();
    let work = stage.work("work", "w.txt", "w\n");
    let judged = JudgedWork { base: base.clone(), work: work.clone() };
    stage.repository().landing().keep_candidate(BRANCH, &one, &judged).unwrap();
    stage.repository().landing().keep_candidate(BRANCH, &one, &judged).unwrap();
    let found = stage.repository().landing().candidate(BRANCH, &one).unwrap();
    stage.see(found == Some(judged));
    let found = stage.repository().landing().candidate(BRANCH, &other).unwrap();
    stage.see(found);
    stage.repository().landing().drop_landed_candidates(BRANCH, &base).unwrap();
    stage.see_refs();
    stage.repository().landing().drop_landed_candidates(BRANCH, &work).unwrap();
    stage.repository().landing().drop_candidate(BRANCH, &one).unwrap();
    stage.repository().landing().keep_left(&one, &work).unwrap();
    stage.see_refs();
}

pub(super) fn the_copy_of_home(stage: &mut Stage) {
    let directory = match &stage.bench {
        Bench::Real { place, .. } => place.root.join("state/draft"),
        Bench::Simulated { .. } => format!("{ROOT}/draft").into(),
    };
    let inside = Path::new("ralph");
    stage.write("ralph/plan.jsonl", "one\n");
    stage.write("work/a.txt", "a\n");
    stage.commit_all();
    let tip = stage.head_id();
    stage.repository().fill_mirror(std::slice::from_ref(&tip)).unwrap();
    let (home, is_new) = stage.repository().home_copy(&directory, inside).unwrap();
    stage.see((is_new, home.is_sound(), home.has_index()));
    let empty = home.tree_at(None).unwrap();
    stage.see(home.head_tree().unwrap() == empty);
    let tree = home.tree_at(Some(&tip)).unwrap();
    home.stand_on(Some(&tip), &tree).unwrap();
    stage.see(home.head_tree().unwrap() == tree);
    let status = home.git().status().unwrap();
    stage.see(status);
    let see_changes = |stage: &mut Stage, from: &Oid, to: &Oid| {
        let changes = home.git().tree_changes(from, to).unwrap();
        let changes: Vec<(PathBuf, bool)> =
            changes.into_iter().map(|one| (one.path, one.after.is_some())).collect();
        stage.see(changes);
    };
    see_changes(stage, &empty, &tree);
    // A change that is committed, and one that is not.
    let paths = [PathBuf::from("ralph/plan.jsonl")];
    let file = home.root().join(&*paths[0].to_string_lossy());
    match &stage.bench {
        Bench::Real { .. } => std::fs::write(&file, "two\n").unwrap(),
        Bench::Simulated { .. } => super::put(&file, Some(b"two\n")),
    }
    let request = super::CommitRequest {
        paths: &paths,
        message: "a step\n",
        signing: Signing::Unsigned,
        patience: std::time::Duration::from_secs(5),
    };
    home.git().commit_files(&request).unwrap();
    let steps = home.steps(Some(&tip)).unwrap();
    let messages: Vec<&String> = steps.iter().map(|(message, _)| message).collect();
    stage.see(messages);
    see_changes(stage, &tree, &home.head_tree().unwrap());
    match &stage.bench {
        Bench::Real { .. } => std::fs::write(&file, "somebody's\n").unwrap(),
        Bench::Simulated { .. } => super::put(&file, Some(b"somebody's\n")),
    }
    stage.see(home.git().status().unwrap().len());
    home.restore(&paths).unwrap();
    stage.see(home.git().status().unwrap().len());
    // Trees of contents.
    let id = home.write_blob(b"three\n").unwrap();
    stage.see(home.blob_id(b"three\n").unwrap() == id);
    let known = home.blobs_in(&tree, &[&paths[0], Path::new("ralph/none")]).unwrap();
    stage.see((known[0].is_some(), known[1].is_some()));
    let after = known[0].clone().map(|blob| crate::git::home_copy::HomeBlob { id, ..blob });
    let changes = [
        HomeChange { path: "ralph/new".into(), after },
        HomeChange { path: "ralph/plan.jsonl".into(), after: None },
    ];
    let edited = home.tree_with(&tree, &changes).unwrap();
    see_changes(stage, &tree, &edited);
    let file = home.git().file_at(&edited, Path::new("ralph/new")).unwrap();
    stage.see(file);
    // It is the same when it is opened again, until it is given up.
    let (again, is_new) = stage.repository().home_copy(&directory, inside).unwrap();
    stage.see((is_new, again.head_tree().unwrap() == home.head_tree().unwrap()));
    again.give_up().unwrap();
    let (anew, is_new) = stage.repository().home_copy(&directory, inside).unwrap();
    stage.see((is_new, anew.head_tree().unwrap() == empty));
}
