//! Plan documents: parsed, checked, and compared with a tree of files.
//!
//! A plan language is one file that implements [`language::PlanLanguage`]; `plan.tsx` and `plan.md` exist. The content
//! of a plan is an [`outline::Outline`], the same for every language; [`diff`] and [`scope`] compare it with a tree,
//! and [`checks`] are the loop's built-in gates.
//!
//! Everything here is pure: text and a [`tree::SourceTree`] go in, findings come out. This is a separate crate because
//! it needs a TSX parser, which the rest of the domain should not have to compile. Any input, however hostile, results
//! in findings with a line number: size and nesting are bounded before parsing.

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
