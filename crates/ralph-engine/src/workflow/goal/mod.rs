//! Goal-driven work: [`interview`] makes a PRD of a sentence, [`understand`] maps the code, topic by topic, and [`exec`]
//! goes from one to the other.
//!
//! Neither changes anything outside home, and nothing is committed before the person has approved of a PRD. [`store`]
//! keeps the files of home; [`violation`] writes down what a read-only run changed all the same.

pub mod exec;
pub mod interview;
pub mod store;
pub mod understand;
mod violation;

use camino::Utf8Path;

/// Names a file as the person finds it from the root of their workspace.
fn from_root<'p>(root: &Utf8Path, path: &'p Utf8Path) -> &'p Utf8Path {
    path.strip_prefix(root).unwrap_or(path)
}
