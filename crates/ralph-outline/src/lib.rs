//! What a plan document promises: parsed, checked, and compared with a tree of files.
//!
//! A plan language is one file that implements [`language::PlanLanguage`]; `plan.tsx` and `plan.md` are there. What a plan
//! promises is an [`outline::Outline`], the same for every language; [`diff`] and [`scope`] compare it with a tree, and
//! [`checks`] are the loop's built-in gates.
//!
//! Everything here is pure: text and a [`tree::SourceTree`] come in, findings come out. It is a crate of its own because it
//! needs a TSX parser, which nothing else of the domain should have to compile. Any input, however hostile, ends in
//! findings with a line number: size and nesting are bounded before the parser sees a text.

pub mod checks;
pub mod diff;
pub mod feedback;
pub mod finding;
pub mod language;
mod markdown;
mod names;
pub mod outline;
pub mod rules;
pub mod scope;
pub mod tree;
mod tsx;
