//! Patterns for paths inside a repository, as written in configuration.
//!
//! `*` matches any part of one name, `?` one character of it, `**` any number of directories. A pattern that ends with
//! `/` matches everything below; one without any other `/` is matched against the file name in any directory, like
//! git's ignore patterns. Character classes, braces and negation are not supported. Matching takes at most time
//! proportional to pattern length times path length.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A pattern for paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Glob {
    text: String,
    segments: Vec<String>,
}

impl Glob {
    pub fn new(text: impl Into<String>) -> Glob {
        let text = text.into();
        let pattern = text.strip_prefix("./").unwrap_or(&text);
        let (pattern, everything_below) = match pattern.strip_suffix('/') {
            Some(directory) => (directory, true),
            None => (pattern, false),
        };
        let mut segments = Vec::new();
        if !pattern.contains('/') {
            segments.push("**");
        }
        segments.extend(pattern.trim_start_matches('/').split('/'));
        if everything_below {
            segments.push("**");
        }
        let segments = segments.into_iter().map(str::to_owned).collect();
        Glob { text, segments }
    }

    pub fn matches(&self, path: &str) -> bool {
        let names: Vec<&str> = path.split('/').collect();
        // reached[n]: the pattern so far matches the first n names.
        let mut reached = vec![false; names.len() + 1];
        reached[0] = true;
        for segment in &self.segments {
            if segment == "**" {
                let first = reached.iter().position(|reached| *reached).unwrap_or(reached.len());
                reached[first..].fill(true);
                continue;
            }
            for at in (0..names.len()).rev() {
                reached[at + 1] = reached[at] && name_matches(segment, names[at]);
            }
            reached[0] = false;
        }
        reached[names.len()]
    }
}

impl From<String> for Glob {
    fn from(text: String) -> Glob {
        Glob::new(text)
    }
}

impl From<Glob> for String {
    fn from(glob: Glob) -> String {
        glob.text
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// Matches one name. On a mismatch the last `*` takes one more character, so there is no exponential backtracking.
fn name_matches(pattern: &str, name: &str) -> bool {
    let (mut pattern, mut name) = (pattern.chars(), name.chars());
    let mut last_star = None;
    loop {
        let rest = name.clone();
        match (pattern.next(), name.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                last_star = Some((pattern.clone(), rest.clone()));
                name = rest;
            }
            (Some('?'), Some(_)) => {}
            (Some(wanted), Some(found)) if wanted == found => {}
            (Some(_), None) => return false,
            (_, Some(_)) => {
                let Some((after_star, from)) = last_star.as_mut() else { return false };
                from.next();
                (pattern, name) = (after_star.clone(), from.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_mean_what_people_expect() {
        for (pattern, path, expected) in [
            ("tests/legacy/**", "tests/legacy/a.rs", true),
            ("tests/legacy/**", "tests/legacy/deep/a.rs", true),
            ("tests/legacy/**", "tests/other/a.rs", false),
            ("tests/legacy/", "tests/legacy/a.rs", true),
            ("tests/legacy/", "tests/legacy2/a.rs", false),
            ("tests/*", "tests/a.rs", true),
            ("tests/*", "tests/deep/a.rs", false),
            ("**/*_test.go", "a_test.go", true),
            ("**/*_test.go", "x/y/a_test.go", true),
            ("*.snap", "x/y/a.snap", true),
            ("/*.snap", "x/a.snap", false),
            ("/*.snap", "a.snap", true),
            ("a/**/b", "a/b", true),
            ("a/**/b", "a/x/y/b", true),
            ("a/**/b", "a/x/y/c", false),
            ("./src/?.rs", "src/a.rs", true),
            ("src/?.rs", "src/ab.rs", false),
            ("src/é*.rs", "src/été.rs", true),
            ("", "a", false),
        ] {
            assert_eq!(Glob::new(pattern).matches(path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn a_hostile_pattern_takes_no_time() {
        let path = format!("{}b", "a/".repeat(400));
        assert!(!Glob::new(format!("{}c", "**/a/".repeat(100))).matches(&path));
        assert!(!Glob::new(format!("{}c", "*a".repeat(200))).matches(&"a".repeat(2000)));
    }

    /// The naive definition, ignoring cost.
    fn plainly(pattern: &[char], name: &[char]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            (['*', rest @ ..], _) => (0..=name.len()).any(|taken| plainly(rest, &name[taken..])),
            ([first, rest @ ..], [found, others @ ..]) => {
                (*first == '?' || first == found) && plainly(rest, others)
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn a_name_matches_as_the_plain_definition_says(pattern in "[ab*?]{0,8}", name in "[ab]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(
                name_matches(&pattern, &name),
                plainly(&chars(&pattern), &chars(&name))
            );
        }

        #[test]
        fn every_path_matches_itself_and_its_directory(path in "[a-c]{1,3}(/[a-c]{1,3}){1,4}") {
            prop_assert!(Glob::new(path.clone()).matches(&path));
            prop_assert!(Glob::new("**").matches(&path));
            let (directory, _) = path.rsplit_once('/').unwrap();
            let prefix = format!("{directory}/");
            prop_assert!(Glob::new(prefix).matches(&path));
        }
    }
}
