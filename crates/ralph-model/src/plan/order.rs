//! The order of pending tasks, and cycles among them.
//!
//! Order is by rounds: a round takes every task whose dependencies are done, removed from the file, or taken in an
//! earlier round; within a round priority decides, then the file. Tasks in a cycle, or with a dependency in another
//! spec, come last by the same rule, so that a plan with a cycle still progresses. Everything here takes time linear in
//! tasks and dependencies.

use std::collections::HashMap;

use super::record::TaskHead;
use super::task_fields::Priority;

/// A task to order, with the number of its line.
pub(super) type Pending<'p, 'a> = (usize, &'p TaskHead<'a>);

const fn class(priority: Option<Priority>) -> usize {
    match priority {
        Some(Priority::High) => 0,
        Some(Priority::Medium) => 1,
        Some(Priority::Low) => 2,
        None => 3,
    }
}

/// The pending tasks of a plan by id, including those of other specs.
struct Waiting<'p> {
    nodes: HashMap<&'p str, Node>,
}

#[derive(Clone, Copy)]
enum Node {
    Here(usize),
    OtherSpec,
}

impl<'p> Waiting<'p> {
    fn of(tasks: &[Pending<'p, '_>], elsewhere: &[&'p str]) -> Waiting<'p> {
        let mut nodes = HashMap::with_capacity(tasks.len() + elsewhere.len());
        nodes.extend(elsewhere.iter().map(|id| (*id, Node::OtherSpec)));
        for (node, (_, head)) in tasks.iter().enumerate().rev() {
            nodes.insert(&*head.id, Node::Here(node));
        }
        Waiting { nodes }
    }
}

/// Returns the lines of `tasks` in execution order; `elsewhere` are pending tasks of other specs.
pub(super) fn order(tasks: &[Pending<'_, '_>], elsewhere: &[&str]) -> Vec<usize> {
    let waiting = Waiting::of(tasks, elsewhere);
    let mut unmet = vec![0_usize; tasks.len()];
    let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
    for (node, (_, head)) in tasks.iter().enumerate() {
        for dependency in &head.deps {
            match waiting.nodes.get(&**dependency) {
                None => {}
                Some(Node::OtherSpec) => unmet[node] += 1,
                Some(Node::Here(on)) => {
                    unmet[node] += 1;
                    dependents[*on].push(node);
                }
            }
        }
    }
    let mut round = vec![0_usize; tasks.len()];
    let mut taken: Vec<usize> = (0..tasks.len()).filter(|node| unmet[*node] == 0).collect();
    let mut rounds = usize::from(!taken.is_empty());
    let mut at = 0;
    while let Some(&node) = taken.get(at) {
        at += 1;
        for &dependent in &dependents[node] {
            unmet[dependent] -= 1;
            if unmet[dependent] == 0 {
                round[dependent] = round[node] + 1;
                rounds = rounds.max(round[dependent] + 1);
                taken.push(dependent);
            }
        }
    }
    for node in 0..tasks.len() {
        if unmet[node] > 0 {
            round[node] = rounds;
        }
    }
    by_class(tasks, &round, rounds + 1)
}

/// Sorts by round, then priority, then line, with a counting sort.
fn by_class(tasks: &[Pending<'_, '_>], round: &[usize], rounds: usize) -> Vec<usize> {
    let key = |node: usize| round[node] * 4 + class(tasks[node].1.priority);
    let mut next = vec![0_usize; rounds * 4 + 1];
    for node in 0..tasks.len() {
        next[key(node) + 1] += 1;
    }
    for at in 1..next.len() {
        next[at] += next[at - 1];
    }
    let mut sorted = vec![0; tasks.len()];
    for (node, (line, _)) in tasks.iter().enumerate() {
        sorted[next[key(node)]] = *line;
        next[key(node)] += 1;
    }
    sorted
}

/// Returns the first result of `order` without ordering the rest.
pub(super) fn first(tasks: &[Pending<'_, '_>], elsewhere: &[&str]) -> Option<usize> {
    let rank = |(line, head): &Pending<'_, '_>| (class(head.priority), *line);
    let best = tasks.iter().min_by_key(|task| rank(task))?;
    if best.1.deps.is_empty() {
        return Some(best.0);
    }
    // A task without dependencies can only be beaten by those before it, so only their dependencies matter.
    let free = tasks.iter().filter(|(_, head)| head.deps.is_empty()).min_by_key(|task| rank(task));
    let before = |task: &Pending<'_, '_>| {
        !task.1.deps.is_empty() && free.is_none_or(|free| rank(task) < rank(free))
    };
    let mut asked = Asked::default();
    for (_, head) in tasks.iter().filter(|task| before(task)) {
        head.deps.iter().for_each(|dependency| asked.ask(dependency));
    }
    let pending = tasks.iter().map(|(_, head)| &*head.id).chain(elsewhere.iter().copied());
    pending.for_each(|id| asked.answer(id));
    let met =
        |head: &TaskHead<'_>| head.deps.iter().all(|dependency| !asked.is_pending(dependency));
    let beats = tasks.iter().filter(|task| before(task) && met(task.1));
    let first = beats.min_by_key(|task| rank(task)).or(free);
    Some(first.unwrap_or(best).0)
}

/// A set of ids to look up. A bit filter rules out most ids without a lookup.
struct Asked<'p> {
    bits: Vec<u64>,
    pending: HashMap<&'p str, bool>,
}

impl Default for Asked<'_> {
    fn default() -> Self {
        Asked { bits: vec![0; Asked::BITS / 64], pending: HashMap::new() }
    }
}

impl<'p> Asked<'p> {
    const BITS: usize = 1 << 17;

    fn bit(id: &str) -> (usize, u64) {
        let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        let hash = id.bytes().fold(0x811c_9dc5, mix) as usize % Asked::BITS;
        (hash / 64, 1 << (hash % 64))
    }

    fn ask(&mut self, id: &'p str) {
        let (word, bit) = Asked::bit(id);
        self.bits[word] |= bit;
        self.pending.insert(id, false);
    }

    fn answer(&mut self, id: &str) {
        let (word, bit) = Asked::bit(id);
        if self.bits[word] & bit != 0
            && let Some(pending) = self.pending.get_mut(id)
        {
            *pending = true;
        }
    }

    fn is_pending(&self, id: &str) -> bool {
        self.pending.get(id).copied().unwrap_or(false)
    }
}

/// A task and what it depends on, for the search for cycles.
pub(super) struct Edges<'p> {
    pub(super) id: &'p str,
    pub(super) deps: Vec<&'p str>,
}

/// Returns the cycles, each as its nodes in order, smallest node first.
///
/// One cycle is returned per strongly connected component.
pub(super) fn cycles(nodes: &[Edges<'_>]) -> Vec<Vec<usize>> {
    let ids: HashMap<&str, usize> =
        nodes.iter().enumerate().rev().map(|(node, edges)| (edges.id, node)).collect();
    let edges: Vec<Vec<usize>> = nodes
        .iter()
        .map(|node| node.deps.iter().filter_map(|id| ids.get(id).copied()).collect())
        .collect();
    let knot = knots(&edges);
    let mut seen = vec![false; nodes.len()];
    let mut found = Vec::new();
    for start in 0..nodes.len() {
        let inside = |node: usize| edges[node].iter().copied().find(|to| knot[*to] == knot[node]);
        if seen[knot[start]] || inside(start).is_none() {
            continue;
        }
        seen[knot[start]] = true;
        found.push(walk(start, inside));
    }
    found
}

/// Follows edges inside a component until a node repeats, and returns the path from there.
fn walk(start: usize, inside: impl Fn(usize) -> Option<usize>) -> Vec<usize> {
    let mut way = vec![start];
    let mut at = HashMap::from([(start, 0)]);
    loop {
        let here = *way.last().expect("a way begins somewhere");
        let next = inside(here).expect("every node of a knot has an edge inside it");
        if let Some(&from) = at.get(&next) {
            let mut cycle = way.split_off(from);
            let smallest = (0..cycle.len()).min_by_key(|at| cycle[*at]).unwrap_or(0);
            cycle.rotate_left(smallest);
            return cycle;
        }
        at.insert(next, way.len());
        way.push(next);
    }
}

/// Returns for each node a representative of its strongly connected component (Tarjan, without recursion).
fn knots(edges: &[Vec<usize>]) -> Vec<usize> {
    const UNSEEN: usize = usize::MAX;
    let count = edges.len();
    let (mut index, mut low) = (vec![UNSEEN; count], vec![0; count]);
    let (mut knot, mut on_stack) = (vec![0; count], vec![false; count]);
    let mut stack = Vec::new();
    let mut next = 0;
    for root in 0..count {
        if index[root] != UNSEEN {
            continue;
        }
        let mut open = vec![(root, 0)];
        while let Some((node, edge)) = open.last_mut() {
            let node = *node;
            if *edge == 0 {
                index[node] = next;
                low[node] = next;
                next += 1;
                stack.push(node);
                on_stack[node] = true;
            }
            if let Some(&to) = edges[node].get(*edge) {
                *edge += 1;
                if index[to] == UNSEEN {
                    open.push((to, 0));
                } else if on_stack[to] {
                    low[node] = low[node].min(index[to]);
                }
                continue;
            }
            open.pop();
            if let Some((parent, _)) = open.last() {
                low[*parent] = low[*parent].min(low[node]);
            }
            if low[node] == index[node] {
                while let Some(member) = stack.pop() {
                    on_stack[member] = false;
                    knot[member] = node;
                    if member == node {
                        break;
                    }
                }
            }
        }
    }
    knot
}
