//! Finds the previous path of a moved file.

use gix_hash::ObjectId;

use super::super::direct::trees::items;
use super::super::objects::{ObjectError, ObjectKind, Objects};
use super::lines::likeness;

/// The maximum number of directories searched for one move; a commit that changes more is not a move of one file.
const MOST: usize = 20_000;
/// The minimum similarity of a moved file, in percent of the lines.
const ALIKE: usize = 50;

/// Finds the file of the same name that a commit removed when it added `blob` at a new path.
pub(super) fn origin(
    objects: &mut Objects,
    before: &ObjectId,
    after: &ObjectId,
    name: &[u8],
    blob: &ObjectId,
) -> Result<Option<Vec<u8>>, ObjectError> {
    let mut gone = Vec::new();
    let mut open = vec![(Vec::new(), *before, Some(*after))];
    let (mut old, mut new) = (Vec::new(), Vec::new());
    let mut looked_into = 0;
    while let Some((path, before, after)) = open.pop() {
        looked_into += 1;
        if looked_into > MOST {
            return Ok(None);
        }
        objects.read(&before, ObjectKind::Tree, &mut old)?;
        new.clear();
        if let Some(after) = after {
            objects.read(&after, ObjectKind::Tree, &mut new)?;
        }
        for item in items(&old, objects.kind).flatten() {
            let still = items(&new, objects.kind).flatten().find(|other| other.name == item.name);
            if still.as_ref().is_some_and(|other| other.id == item.id) {
                continue;
            }
            let mut below = path.clone();
            below.extend_from_slice(item.name);
            if item.is_tree() {
                below.push(b'/');
                let still = still.filter(super::super::direct::trees::TreeItem::is_tree);
                open.push((below, item.id, still.map(|other| other.id)));
            } else if item.name == name && item.is_file() && still.is_none() {
                gone.push((below, item.id));
            }
        }
    }
    if let Some((path, _)) = gone.iter().find(|(_, id)| id == blob) {
        return Ok(Some(path.clone()));
    }
    objects.read(blob, ObjectKind::Blob, &mut new)?;
    let mut best: Option<(usize, Vec<u8>)> = None;
    for (path, id) in gone {
        objects.read(&id, ObjectKind::Blob, &mut old)?;
        let alike = likeness(&old, &new);
        if alike >= ALIKE && best.as_ref().is_none_or(|(most, _)| alike > *most) {
            best = Some((alike, path));
        }
    }
    Ok(best.map(|(_, path)| path))
}
