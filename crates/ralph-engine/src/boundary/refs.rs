//! Refs as files: what they were, what they are, and which of them a run has moved.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::baseline::Baseline;
use super::protected::Class;
use super::walk::{WalkStep, walk};
use crate::git::undo::RefReturn;
use crate::git::{Oid, RepositoryLocation, read_regular, ref_name};

/// Every ref of a repository and what it holds: an id, or the name of another ref.
pub(super) type Refs = BTreeMap<String, String>;

/// Returns the refs that are not what the baseline has.
pub(super) fn moved(baseline: &Baseline, place: &RepositoryLocation) -> Vec<RefReturn> {
    differences(&before(baseline, place), &now(place))
}

/// Returns the refs that differ in the commit or other object that they name.
pub(super) fn differences(before: &Refs, now: &Refs) -> Vec<RefReturn> {
    let id =
        |refs: &Refs, name: &String| refs.get(name).and_then(|text| Oid::parse(text.as_bytes()));
    let mut names: Vec<&String> = before.keys().chain(now.keys()).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .filter(|name| before.get(*name) != now.get(*name))
        .map(|name| RefReturn { name: name.clone(), before: id(before, name), now: id(now, name) })
        .filter(|moved| moved.before != moved.now)
        .collect()
}

/// Returns every id that a ref had before the run.
pub(super) fn tips_before(baseline: &Baseline, place: &RepositoryLocation) -> Vec<Oid> {
    let ids = before(baseline, place);
    let mut ids: Vec<Oid> = ids.values().filter_map(|text| Oid::parse(text.as_bytes())).collect();
    ids.sort();
    ids.dedup();
    ids
}

fn before(baseline: &Baseline, place: &RepositoryLocation) -> Refs {
    let common = place.common_dir.as_std_path();
    let mut refs = Refs::new();
    if let Some(entry) = baseline.entry(&common.join("packed-refs")) {
        read_packed(&baseline.bytes(&entry.kept).unwrap_or_default(), &mut refs);
    }
    for class in [Class::Refs, Class::State, Class::Settings] {
        for (path, entry) in baseline.of_class(class) {
            let below = path.strip_prefix(common).ok().filter(|name| name.starts_with("refs"));
            if let Some(name) = below
                && let Some(bytes) = baseline.bytes(&entry.kept)
            {
                refs.insert(name_of(name), text_of(&bytes));
            }
        }
    }
    refs
}

pub(super) fn now(place: &RepositoryLocation) -> Refs {
    let common = place.common_dir.as_std_path();
    let mut refs = Refs::new();
    let packed = read_regular(&common.join("packed-refs")).ok().flatten();
    read_packed(&packed.unwrap_or_default(), &mut refs);
    walk(&common.join("refs"), &mut |path, _, stamp| {
        if stamp.kind().is_file()
            && let Ok(name) = path.strip_prefix(common)
            && let Ok(Some(bytes)) = read_regular(path)
        {
            refs.insert(name_of(name), text_of(&bytes));
        }
        WalkStep::Enter
    });
    // A process that is writing a ref has a lock next to it.
    refs.retain(|name, _| !name.to_ascii_lowercase().ends_with(".lock"));
    refs
}

fn name_of(path: &Path) -> String {
    ref_name(path.as_os_str().as_bytes())
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

fn read_packed(bytes: &[u8], refs: &mut Refs) {
    let text = ref_name(bytes);
    let lines = text.lines().filter(|line| !line.starts_with(['#', '^']));
    for (id, name) in lines.filter_map(|line| line.split_once(' ')) {
        refs.insert(name.to_owned(), id.to_owned());
    }
}
