//! The project's chores: `cargo xtask test`, `bench`, `check`.
fn main() {}
