//! Specs: their names, their required content, and selecting one.

pub mod check;
pub mod name;
pub mod select;
