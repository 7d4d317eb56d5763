//! Specs: what one is called, what every one of them must hold, and which one a person means.

pub mod check;
pub mod name;
pub mod select;
