//! The tree cache of an index: directories, parent first, each with its tree's id as long as nothing below has changed.

use super::super::settings::Unfit;
use super::index::TORN;

/// Returns the tree cache without the entries of the directories on the way to a path.
pub(super) fn forget(cache: &[u8], path: &[u8], hash_len: usize) -> Result<Vec<u8>, Unfit> {
    let mut out = Vec::with_capacity(cache.len());
    let mut nodes = TreeCache { rest: cache, hash_len };
    let mut path = path;
    // Nodes come parent first: siblings are copied whole, until the next directory of the path is reached.
    let mut left = 1_u64;
    let mut wanted: &[u8] = b"";
    while left > 0 {
        let node = nodes.next().ok_or(TORN)?;
        left -= 1;
        if node.name == wanted {
            out.extend_from_slice(node.name);
            out.extend_from_slice(format!("\0-1 {}\n", node.children).as_bytes());
            let Some(slash) = memchr::memchr(b'/', path) else { break };
            (wanted, path) = (&path[..slash], &path[slash + 1..]);
            left = node.children;
        } else {
            out.extend_from_slice(node.bytes);
            let mut below = node.children;
            while below > 0 {
                let node = nodes.next().ok_or(TORN)?;
                out.extend_from_slice(node.bytes);
                below = (below - 1).checked_add(node.children).ok_or(TORN)?;
            }
        }
    }
    out.extend_from_slice(nodes.rest);
    Ok(out)
}

/// Parses a tree cache, one directory at a time.
pub(crate) struct TreeCache<'a> {
    pub(crate) rest: &'a [u8],
    pub(crate) hash_len: usize,
}

pub(crate) struct CachedTree<'a> {
    bytes: &'a [u8],
    pub(crate) name: &'a [u8],
    pub(crate) children: u64,
    /// The tree's id, as long as nothing below has changed.
    pub(crate) id: Option<&'a [u8]>,
}

impl<'a> TreeCache<'a> {
    pub(crate) fn next(&mut self) -> Option<CachedTree<'a>> {
        let name = memchr::memchr(0, self.rest)?;
        let line = name + 1 + memchr::memchr(b'\n', &self.rest[name + 1..])?;
        let numbers = std::str::from_utf8(&self.rest[name + 1..line]).ok()?;
        let (entries, children) = numbers.split_once(' ')?;
        let is_valid = entries.parse::<i64>().ok()? >= 0;
        let end = line + 1 + if is_valid { self.hash_len } else { 0 };
        let bytes = self.rest.get(..end)?;
        self.rest = &self.rest[end..];
        let id = is_valid.then(|| &bytes[line + 1..]);
        Some(CachedTree { bytes, name: &bytes[..name], children: children.parse().ok()?, id })
    }
}
