//! Scenarios of clones, and of what their items leave there.

use camino::{Utf8Path, Utf8PathBuf};

use super::{Bench, Stage};
use crate::files::simulated::{ROOT, put};
use crate::git::{Head, Oid};
use crate::run::{Environment, RunResources};
use crate::simulation::meanwhile::{RUN_BRANCH, gate_context};
use crate::simulation::world::base_config;
use crate::test_place::Place;
use crate::workflow::isolation::access::{ClonePlace, CloneRequest, ItemClone};
use crate::workflow::isolation::equipment::Equipment;

impl Stage {
    /// Prepares a clone with nothing but the files of a commit.
    fn prepare_clone(&self, place: &ClonePlace, item: &str, at: &Oid) -> Box<dyn ItemClone> {
        let (elsewhere, config) = (Place::repository(), base_config());
        let state = elsewhere.state();
        let resources = RunResources::open(&state).unwrap();
        let environment = Environment::default();
        let gates = gate_context(&config, &state, &resources, &environment, &elsewhere.root);
        let mut tell = |_| Ok(());
        let mut equipment = Equipment::new(&gates, &config, &mut tell);
        let (branch, prefix) = (RUN_BRANCH, Utf8Path::new(""));
        let request = CloneRequest { place, item, branch, tip: at, at, prefix };
        self.repository().prepare_clone(&request, &mut equipment).unwrap()
    }

    fn write_in(&self, place: &ClonePlace, name: &str, text: &str) {
        let path = place.directory.join(name);
        match &self.bench {
            Bench::Real { .. } => std::fs::write(path, text).unwrap(),
            Bench::Simulated { .. } => put(&path, Some(text.as_bytes())),
        }
    }

    fn see_clone(&mut self, clone: &dyn ItemClone) {
        self.see(clone.branch());
        let head = match clone.git().head().unwrap() {
            Head::Branch { name, id } => (name, Some(self.name(&id))),
            other => (format!("{other:?}"), None),
        };
        self.see(head);
        let base = clone.git().resolve(RUN_BRANCH).unwrap().map(|id| self.name(&id));
        self.see(base);
        self.see(clone.git().status().unwrap());
        self.see(clone.leftovers("left\n").unwrap().map(|left| left.paths));
    }
}

/// A clone is made anew for each item: the next one finds nothing of what the last one left.
pub(super) fn one_item_after_the_other(stage: &mut Stage) {
    stage.write("work/a.txt", "a\n");
    stage.commit_all();
    let tip = stage.head_id();
    stage.repository().fill_mirror(std::slice::from_ref(&tip)).unwrap();
    let slot: Utf8PathBuf = match &stage.bench {
        Bench::Real { place, .. } => place.root.join("state/slot"),
        Bench::Simulated { .. } => format!("{ROOT}/slot").into(),
    };
    // A repository that is the whole workspace has no name of its own.
    let directory = slot.join("workspace").join("");
    let place = ClonePlace { directory, private: slot.join("private"), number: 1 };
    let is_there = stage.repository().open_clone(&place).unwrap().is_some();
    stage.see(is_there);
    let first = stage.prepare_clone(&place, "0001-a", &tip);
    stage.see_clone(&*first);
    stage.write_in(&place, "work/a.txt", "edited\n");
    stage.write_in(&place, "left.txt", "left\n");
    stage.see_clone(&*first);
    // As the item's last run left it.
    let again = stage.repository().open_clone(&place).unwrap().unwrap();
    stage.see_clone(&*again);
    let next = stage.prepare_clone(&place, "0002-b", &tip);
    stage.see_clone(&*next);
}
