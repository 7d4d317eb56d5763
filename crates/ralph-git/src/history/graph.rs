//! The commits of a history, and their order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use gix_hash::ObjectId;

use super::super::Oid;
use super::super::objects::{ObjectError, ObjectKind, Objects};

/// A commit, reduced to what is needed here.
pub(super) struct Node {
    pub(super) id: ObjectId,
    pub(super) tree: ObjectId,
    parent_ids: Vec<ObjectId>,
    /// The parents that are in the graph, in the commit's order.
    pub(super) parents: Vec<u32>,
    /// An index into [`Graph::authors`].
    author: u32,
    /// An index into [`Graph::subjects`].
    subject: u32,
    /// An index into [`Graph::branches`].
    branch: u32,
    pub(super) time: (i64, i32),
    committed: i64,
    flags: u8,
}

/// Reachable from the tip.
const NEW: u8 = 1;
/// Reachable from the last known commit.
const OLD: u8 = 2;

/// The commits of a history.
#[derive(Default)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    authors: Vec<String>,
    /// Relevant subjects; the first one is empty.
    subjects: Vec<String>,
    /// Merged branches, by their names in the merge messages; the first one is the requested one.
    branches: Vec<String>,
    /// The commits to report, parents first.
    pub(super) order: Vec<u32>,
    numbers: HashMap<ObjectId, u32>,
    author_numbers: HashMap<Vec<u8>, u32>,
}

impl Graph {
    /// Reads the commits reachable from `tip` and not from `since`, and their parents; `None` if `since` is not an
    /// ancestor of `tip`.
    pub(super) fn read(
        objects: &mut Objects,
        tip: &ObjectId,
        since: Option<&ObjectId>,
        surroundings: &GraphOptions<'_>,
    ) -> Result<Option<Self>, ObjectError> {
        let nothing = || vec![String::new()];
        let mut graph = Graph { subjects: nothing(), branches: nothing(), ..Graph::default() };
        let mut reader = Reader { objects, surroundings, buffer: Vec::new() };
        let tip = graph.node(&mut reader, tip)?;
        match since {
            None => graph.expand_all(&mut reader, tip)?,
            Some(since) => {
                // A known commit that no longer exists was rewritten, and then garbage collected.
                let since = match graph.node(&mut reader, since) {
                    Err(ObjectError::Missing { .. }) => return Ok(None),
                    since => since?,
                };
                graph.expand_new(&mut reader, tip, since)?;
                if graph.nodes[since as usize].flags & NEW == 0 {
                    return Ok(None);
                }
            }
        }
        graph.link();
        graph.sort();
        graph.name_branches(tip);
        graph.numbers = HashMap::new();
        graph.author_numbers = HashMap::new();
        Ok(Some(graph))
    }

    pub(super) fn author(&self, node: &Node) -> &str {
        &self.authors[node.author as usize]
    }

    /// Returns the subject if it is relevant, otherwise an empty text.
    pub(super) fn subject(&self, node: &Node) -> &str {
        &self.subjects[node.subject as usize]
    }

    /// Returns the branch from which a merge brought the commit; `None` for the requested branch.
    pub(super) fn branch(&self, node: &Node) -> Option<&str> {
        Some(self.branches[node.branch as usize].as_str()).filter(|name| !name.is_empty())
    }

    /// Assigns commits to branches: those on the first-parent chain of the tip belong to none, and those that a merge
    /// brought in belong to the branch named in its message.
    fn name_branches(&mut self, tip: u32) {
        let mut named = vec![false; self.nodes.len()];
        let mut trunk = Some(tip);
        while let Some(number) = trunk {
            named[number as usize] = true;
            trunk = self.nodes[number as usize].parents.first().copied();
        }
        for at in (0..self.order.len()).rev() {
            let number = self.order[at] as usize;
            for which in 0..self.nodes[number].parents.len() {
                let parent = self.nodes[number].parents[which] as usize;
                if std::mem::replace(&mut named[parent], true) {
                    continue;
                }
                let merged = merged_branch(self.subject(&self.nodes[number])).map(str::to_owned);
                self.nodes[parent].branch = match merged.filter(|_| which > 0) {
                    None => self.nodes[number].branch,
                    Some(name) => {
                        let known = self.branches.iter().position(|known| *known == name);
                        let at = known.unwrap_or_else(|| {
                            self.branches.push(name);
                            self.branches.len() - 1
                        });
                        u32::try_from(at).expect("fewer branches than that")
                    }
                };
            }
        }
    }

    fn is_told(&self, number: u32) -> bool {
        self.nodes[number as usize].flags == NEW
    }

    fn expand_all(&mut self, reader: &mut Reader<'_>, tip: u32) -> Result<(), ObjectError> {
        self.nodes[tip as usize].flags = NEW;
        let mut open = vec![tip];
        while let Some(number) = open.pop() {
            for at in 0..self.nodes[number as usize].parent_ids.len() {
                let parent = self.nodes[number as usize].parent_ids[at];
                let parent = self.node(reader, &parent)?;
                let flags = &mut self.nodes[parent as usize].flags;
                if *flags == 0 {
                    *flags = NEW;
                    open.push(parent);
                }
            }
        }
        Ok(())
    }

    /// Walks back from both ends, youngest first, until only known commits are left.
    fn expand_new(
        &mut self,
        reader: &mut Reader<'_>,
        tip: u32,
        since: u32,
    ) -> Result<(), ObjectError> {
        self.nodes[tip as usize].flags |= NEW;
        self.nodes[since as usize].flags |= OLD;
        // Among commits of the same second the new ones first, so that known commits are reached before they are
        // followed.
        let key = |graph: &Graph, number: u32| {
            let node = &graph.nodes[number as usize];
            (node.committed, node.flags == NEW, number)
        };
        let mut open = BinaryHeap::from([key(self, tip), key(self, since)]);
        let mut new_in_open = 1_usize;
        let mut oldest_new = i64::MAX;
        let mut is_line = true;
        while let Some(&(committed, ..)) = open.peek() {
            // A commit on the single path from the tip to the known commit cannot also be its ancestor.
            let met_on_line = is_line && self.nodes[since as usize].flags & NEW != 0;
            // A wrong clock must not make a known commit look new: so the known side is followed until it is older than
            // everything new.
            if new_in_open == 0 && (met_on_line || committed < oldest_new) {
                break;
            }
            let (.., number) = open.pop().expect("it was just looked at");
            let flags = self.nodes[number as usize].flags;
            if flags == NEW {
                new_in_open -= 1;
                oldest_new = oldest_new.min(committed);
                is_line &= self.nodes[number as usize].parent_ids.len() == 1;
            }
            for at in 0..self.nodes[number as usize].parent_ids.len() {
                let parent = self.nodes[number as usize].parent_ids[at];
                let parent = self.node(reader, &parent)?;
                let before = self.nodes[parent as usize].flags;
                if before | flags != before {
                    self.nodes[parent as usize].flags |= flags;
                    let after = before | flags;
                    let is_open = open.iter().any(|(.., number)| *number == parent);
                    match (before == NEW && is_open, after == NEW) {
                        (true, false) => new_in_open -= 1,
                        (false, true) => new_in_open += 1,
                        _ => {}
                    }
                    if !is_open {
                        open.push(key(self, parent));
                    }
                }
            }
        }
        Ok(())
    }

    fn node(&mut self, reader: &mut Reader<'_>, id: &ObjectId) -> Result<u32, ObjectError> {
        if let Some(number) = self.numbers.get(id) {
            return Ok(*number);
        }
        reader.objects.read(id, ObjectKind::Commit, &mut reader.buffer)?;
        let commit = parse(&reader.buffer);
        let commit = commit.ok_or_else(|| ObjectError::Malformed { id: Oid::of(id) })?;
        let author = self.author_number(commit.author);
        let subject = match commit.subject(reader.surroundings.subjects) {
            None => 0,
            Some(subject) => {
                self.subjects.push(String::from_utf8_lossy(subject).into_owned());
                u32::try_from(self.subjects.len() - 1).expect("fewer commits than that")
            }
        };
        let is_edge = reader.surroundings.shallow.contains(id);
        let parents = if is_edge { Vec::new() } else { commit.parents };
        let number = u32::try_from(self.nodes.len()).expect("fewer commits than that");
        self.nodes.push(Node {
            id: *id,
            tree: commit.tree,
            parent_ids: parents,
            parents: Vec::new(),
            author,
            subject,
            branch: 0,
            time: commit.time,
            committed: commit.committed,
            flags: 0,
        });
        self.numbers.insert(*id, number);
        Ok(number)
    }

    fn author_number(&mut self, author: &[u8]) -> u32 {
        if let Some(number) = self.author_numbers.get(author) {
            return *number;
        }
        let number = u32::try_from(self.authors.len()).expect("fewer people than that");
        self.authors.push(String::from_utf8_lossy(author).into_owned());
        self.author_numbers.insert(author.to_vec(), number);
        number
    }

    /// Resolves the ids of parents to indices, for the commits whose parents matter.
    fn link(&mut self) {
        for number in 0..self.nodes.len() {
            let ids = std::mem::take(&mut self.nodes[number].parent_ids);
            if self.nodes[number].flags == NEW {
                let numbers = ids.iter().map(|id| self.numbers[id]);
                self.nodes[number].parents = numbers.collect();
            }
        }
    }

    fn sort(&mut self) {
        let mut children: Vec<Vec<u32>> = vec![Vec::new(); self.nodes.len()];
        let mut waiting = vec![0_usize; self.nodes.len()];
        let mut ready = BinaryHeap::new();
        let numbers = 0..u32::try_from(self.nodes.len()).expect("fewer commits than that");
        for number in numbers.filter(|number| self.is_told(*number)) {
            for parent in &self.nodes[number as usize].parents {
                if self.is_told(*parent) {
                    children[*parent as usize].push(number);
                    waiting[number as usize] += 1;
                }
            }
            if waiting[number as usize] == 0 {
                ready.push(Reverse((self.nodes[number as usize].committed, number)));
            }
        }
        while let Some(Reverse((_, number))) = ready.pop() {
            self.order.push(number);
            for child in std::mem::take(&mut children[number as usize]) {
                waiting[child as usize] -= 1;
                if waiting[child as usize] == 0 {
                    ready.push(Reverse((self.nodes[child as usize].committed, child)));
                }
            }
        }
    }
}

/// The options of a repository and of a query that are needed before commits are read.
pub(super) struct GraphOptions<'a> {
    /// Commits whose parents are missing.
    pub(super) shallow: HashSet<ObjectId>,
    /// Prefixes of relevant subjects.
    pub(super) subjects: &'a [&'a str],
}

struct Reader<'a> {
    objects: &'a mut Objects,
    surroundings: &'a GraphOptions<'a>,
    buffer: Vec<u8>,
}

struct Commit<'a> {
    tree: ObjectId,
    parents: Vec<ObjectId>,
    author: &'a [u8],
    time: (i64, i32),
    committed: i64,
    /// Everything after the names.
    rest: &'a [u8],
}

/// The prefix of merge messages that name the merged branch.
const MERGES: &str = "Merge ";

/// Longer subjects are truncated.
const LONGEST_SUBJECT: usize = 200;

impl Commit<'_> {
    /// Returns the subject if it has a relevant prefix.
    fn subject(&self, wanted: &[&str]) -> Option<&[u8]> {
        let from = if self.rest.starts_with(b"\n") {
            1
        } else {
            memchr::memmem::find(self.rest, b"\n\n")? + 2
        };
        let message = self.rest[from..].trim_ascii_start();
        let matters = wanted.iter().any(|start| message.starts_with(start.as_bytes()))
            || (self.parents.len() > 1 && message.starts_with(MERGES.as_bytes()));
        let end = memchr::memchr(b'\n', message).unwrap_or(message.len()).min(LONGEST_SUBJECT);
        matters.then(|| &message[..end])
    }
}

/// Returns the branch named in a merge message.
fn merged_branch(subject: &str) -> Option<&str> {
    let what = subject.strip_prefix(MERGES)?;
    if let Some((_, from)) =
        what.strip_prefix("pull request ").and_then(|it| it.split_once(" from "))
    {
        return from.split_once('/').map(|(_, branch)| branch.trim_end());
    }
    let what = what.strip_prefix("remote-tracking ").unwrap_or(what);
    what.strip_prefix("branch '")?.split('\'').next().filter(|name| !name.is_empty())
}

fn parse(bytes: &[u8]) -> Option<Commit<'_>> {
    let mut rest = bytes;
    let mut lines = std::iter::from_fn(|| {
        let end = memchr::memchr(b'\n', rest)?;
        let line = &rest[..end];
        rest = &rest[end + 1..];
        Some(line)
    });
    let tree = ObjectId::from_hex(lines.next()?.strip_prefix(b"tree ")?).ok()?;
    let mut parents = Vec::with_capacity(1);
    let mut line = lines.next()?;
    while let Some(id) = line.strip_prefix(b"parent ") {
        parents.push(ObjectId::from_hex(id).ok()?);
        line = lines.next()?;
    }
    let (author, time) = person(line.strip_prefix(b"author ")?)?;
    let (_, committed) = person(lines.next()?.strip_prefix(b"committer ")?)?;
    Some(Commit { tree, parents, author, time, committed: committed.0, rest })
}

/// Parses `Name <mail> 1700000000 +0100`; an invalid time becomes the epoch, like in git.
fn person(line: &[u8]) -> Option<(&[u8], (i64, i32))> {
    let end = memchr::memrchr(b'>', line)?;
    let text = std::str::from_utf8(&line[end + 1..]).unwrap_or_default();
    let mut words = text.split_ascii_whitespace();
    let seconds = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let zone: i32 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let offset = (zone / 100 * 60 + zone % 100).checked_mul(60).unwrap_or(0);
    Some((&line[..=end], (seconds, offset)))
}
