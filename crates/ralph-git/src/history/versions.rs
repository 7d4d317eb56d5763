//! The version of the file in each commit, and the changes between them.
//!
//! Packs store a version as a delta to another one, mostly its neighbour: packs from a stream to the previous one,
//! repacked ones to the next. Read in the wrong direction each version would be rebuilt from a whole chain of others.
//! So objects are read in batches, in the direction in which the last batch was stored.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use gix_hash::ObjectId;

use super::super::Oid;
use super::super::direct::trees::items;
use super::super::objects::{ObjectError, ObjectKind, Objects};
use super::graph::Graph;
use super::lines::LineChange;
use super::{CommittedVersion, Walked, moves};

/// How many small versions are read ahead.
const AHEAD: usize = 48;
/// The maximum memory of versions read ahead.
const AHEAD_BYTES: usize = 12 << 20;

/// The file in every commit of a graph.
pub(super) struct Versions {
    /// The paths of the file, the requested one first.
    paths: Vec<Vec<u8>>,
    /// For each commit the index of a path and the content, if it has the file.
    at: Vec<Option<(u32, ObjectId)>>,
}

impl Versions {
    /// Looks up the file in every commit, following moves backwards.
    pub(super) fn find(
        objects: &mut Objects,
        graph: &Graph,
        path: &[u8],
    ) -> Result<Self, ObjectError> {
        let mut versions = Versions { paths: Vec::new(), at: vec![None; graph.nodes.len()] };
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let all = in_order(graph);
        let mut open = vec![(path.to_vec(), all.clone())];
        while let Some((path, commits)) = open.pop() {
            if versions.paths.contains(&path) {
                continue;
            }
            let number = u32::try_from(versions.paths.len()).expect("fewer moves than that");
            versions.paths.push(path.clone());
            let found = look_up(objects, graph, &commits, &path)?;
            for (commit, blob) in commits.iter().zip(found) {
                let at = &mut versions.at[*commit as usize];
                *at = at.or_else(|| blob.map(|blob| (number, blob)));
            }
            // Branches that do not contain the move still have the file at the old path.
            let lacking = |commit: &u32| versions.at[*commit as usize].is_none();
            for origin in versions.origins(objects, graph, number, name)? {
                open.push((origin, all.iter().copied().filter(lacking).collect()));
            }
        }
        Ok(versions)
    }

    /// Finds the old path for commits that have the file here while none of their parents does.
    fn origins(
        &self,
        objects: &mut Objects,
        graph: &Graph,
        number: u32,
        name: &[u8],
    ) -> Result<Vec<Vec<u8>>, ObjectError> {
        let mut origins = Vec::new();
        for commit in &graph.order {
            let node = &graph.nodes[*commit as usize];
            let Some((path, blob)) = self.at[*commit as usize] else { continue };
            let is_new = node.parents.iter().all(|parent| self.at[*parent as usize].is_none());
            for parent in node.parents.iter().filter(|_| path == number && is_new) {
                let before = graph.nodes[*parent as usize].tree;
                origins.extend(moves::origin(objects, &before, &node.tree, name, &blob)?);
            }
        }
        Ok(origins)
    }

    fn blob(&self, commit: u32) -> Option<ObjectId> {
        self.at[commit as usize].map(|(_, blob)| blob)
    }

    fn is_changed(&self, graph: &Graph, commit: u32) -> bool {
        let (own, parents) = (self.blob(commit), &graph.nodes[commit as usize].parents);
        if parents.is_empty() {
            own.is_some()
        } else {
            parents.iter().any(|parent| self.blob(*parent) != own)
        }
    }
}

/// Returns every commit, those that are only inspected first.
fn in_order(graph: &Graph) -> Vec<u32> {
    let told: HashSet<u32> = graph.order.iter().copied().collect();
    let parents = graph.order.iter().flat_map(|commit| &graph.nodes[*commit as usize].parents);
    let mut known: Vec<u32> = parents.copied().filter(|parent| !told.contains(parent)).collect();
    known.sort_unstable();
    known.dedup();
    known.extend(&graph.order);
    known
}

/// Returns the entries of commits at a path.
fn look_up(
    objects: &mut Objects,
    graph: &Graph,
    commits: &[u32],
    path: &[u8],
) -> Result<Vec<Option<ObjectId>>, ObjectError> {
    let mut at: Vec<Option<ObjectId>> =
        commits.iter().map(|commit| Some(graph.nodes[*commit as usize].tree)).collect();
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    for (depth, name) in parts.iter().enumerate() {
        let is_last = depth + 1 == parts.len();
        let mut found: HashMap<ObjectId, Option<ObjectId>> = HashMap::new();
        let mut trees = Vec::new();
        for tree in at.iter().flatten() {
            if found.insert(*tree, None).is_none() {
                trees.push(*tree);
            }
        }
        let mut direction = Direction::default();
        for batch in trees.chunks(AHEAD) {
            direction.read(objects, batch, ObjectKind::Tree, |objects, tree, bytes| {
                let item = items(bytes, objects.kind).flatten().find(|item| item.name == *name);
                let item =
                    item.filter(|item| if is_last { item.is_file() } else { item.is_tree() });
                found.insert(*tree, item.map(|item| item.id));
            })?;
        }
        for tree in &mut at {
            *tree = tree.and_then(|tree| found[&tree]);
        }
    }
    Ok(at)
}

/// The order of objects in their pack.
#[derive(Default)]
struct Direction {
    backwards: bool,
}

impl Direction {
    /// Reads objects in the order that worked for the last batch.
    fn read(
        &mut self,
        objects: &mut Objects,
        batch: &[ObjectId],
        kind: ObjectKind,
        mut take: impl FnMut(&Objects, &ObjectId, &mut Vec<u8>),
    ) -> Result<(), ObjectError> {
        let (mut up, mut down, mut last) = (0, 0, None);
        let mut bytes = Vec::new();
        for number in 0..batch.len() {
            let number = if self.backwards { batch.len() - 1 - number } else { number };
            let place = objects.read(&batch[number], kind, &mut bytes)?;
            match (last, place) {
                (Some(last), Some(place)) if place > last => up += 1,
                (Some(_), Some(_)) => down += 1,
                _ => {}
            }
            last = place;
            take(objects, &batch[number], &mut bytes);
        }
        if down > up {
            self.backwards = !self.backwards;
        }
        Ok(())
    }
}

/// Reports the commits that changed the file.
pub(super) fn tell(
    objects: &mut Objects,
    graph: &Graph,
    versions: &Versions,
    visit: &mut dyn FnMut(&CommittedVersion<'_>) -> ControlFlow<()>,
) -> Result<Walked, ObjectError> {
    let changed: Vec<u32> =
        graph.order.iter().copied().filter(|commit| versions.is_changed(graph, *commit)).collect();
    let mut contents = Contents::default();
    let mut ahead = AHEAD;
    let mut rest = changed.as_slice();
    while !rest.is_empty() {
        let (batch, later) = rest.split_at(ahead.min(rest.len()));
        rest = later;
        let blobs = batch.iter().flat_map(|commit| {
            let parents = graph.nodes[*commit as usize].parents.iter();
            parents.chain(std::iter::once(commit)).filter_map(|commit| versions.blob(*commit))
        });
        contents.hold(objects, blobs)?;
        ahead = (AHEAD_BYTES / contents.largest.max(1)).clamp(1, AHEAD);
        for commit in batch {
            if tell_one(graph, versions, &contents, *commit, visit).is_break() {
                return Ok(Walked::Stopped);
            }
        }
    }
    Ok(Walked::Told(changed.len()))
}

fn tell_one(
    graph: &Graph,
    versions: &Versions,
    contents: &Contents,
    commit: u32,
    visit: &mut dyn FnMut(&CommittedVersion<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let node = &graph.nodes[commit as usize];
    let blob = versions.blob(commit);
    let new = contents.of(blob);
    let changes: Vec<LineChange<'_>> = if node.parents.is_empty() {
        vec![LineChange::between(&[], new)]
    } else {
        let parents = node.parents.iter().map(|parent| versions.blob(*parent));
        parents
            .map(|old| {
                if old == blob {
                    LineChange::default()
                } else {
                    LineChange::between(contents.of(old), new)
                }
            })
            .collect()
    };
    visit(&CommittedVersion {
        commit: Oid::of(&node.id),
        author: graph.author(node),
        subject: graph.subject(node),
        branch: graph.branch(node),
        time: node.time,
        parents: node.parents.len(),
        changes: &changes,
    })
}

/// The versions currently needed.
#[derive(Default)]
struct Contents {
    held: HashMap<ObjectId, Vec<u8>>,
    direction: Direction,
    largest: usize,
}

impl Contents {
    /// Drops all versions except these and reads the missing ones.
    fn hold(
        &mut self,
        objects: &mut Objects,
        blobs: impl Iterator<Item = ObjectId>,
    ) -> Result<(), ObjectError> {
        let mut seen = HashSet::new();
        let wanted: Vec<ObjectId> = blobs.filter(|blob| seen.insert(*blob)).collect();
        let mut spare = Vec::new();
        let held = std::mem::take(&mut self.held);
        for (blob, bytes) in held {
            if seen.contains(&blob) {
                self.held.insert(blob, bytes);
            } else {
                spare.push(bytes);
            }
        }
        let missing: Vec<ObjectId> =
            wanted.into_iter().filter(|blob| !self.held.contains_key(blob)).collect();
        let (held, largest) = (&mut self.held, &mut self.largest);
        self.direction.read(objects, &missing, ObjectKind::Blob, |_, blob, bytes| {
            *largest = (*largest).max(bytes.len());
            let spare = spare.pop().unwrap_or_default();
            held.insert(*blob, std::mem::replace(bytes, spare));
        })
    }

    fn of(&self, blob: Option<ObjectId>) -> &[u8] {
        blob.and_then(|blob| self.held.get(&blob)).map_or(&[], Vec::as_slice)
    }
}
