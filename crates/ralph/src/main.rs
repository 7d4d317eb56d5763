//! The `ralph` program.
fn main() {}
