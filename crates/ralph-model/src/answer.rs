//! How a person's answer to a question is taken.
//!
//! Only a yes or a no and nothing else decides; any other text is passed to the next attempt. A text that begins like a
//! yes and goes on could mean either, so it is not taken at all.

use serde::Serialize;

use crate::journal::QuestionKind;

/// The answers that accept the work, or have it tried again.
pub const YES: [&str; 7] = ["y", "yes", "ok", "okay", "done", "accept", "accepted"];

const NO: [&str; 4] = ["n", "no", "nope", "stop"];

/// Words that mean yes to a person and are not among [`YES`].
const LIKE_YES: [&str; 10] =
    ["agreed", "approve", "approved", "fine", "lgtm", "sure", "yea", "yeah", "yep", "yup"];

/// What an answer to a question of some kind comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TakenAs {
    Yes,
    No,
    /// It goes to the next attempt as it is.
    Text,
    /// It begins like a yes, and says more or says it in another word.
    Unclear,
}

/// Returns how an answer is taken.
pub fn taken_as(kind: QuestionKind, answer: &str) -> TakenAs {
    match kind {
        // Such a question is answered in one's own words.
        QuestionKind::Other => TakenAs::Text,
        _ if is_yes(answer) => TakenAs::Yes,
        QuestionKind::Retry if is_no(answer) => TakenAs::No,
        _ if begins_like_yes(answer) => TakenAs::Unclear,
        _ => TakenAs::Text,
    }
}

/// Whether a person's answer accepts the work as it is. Any other answer says what to do instead.
pub fn is_yes(answer: &str) -> bool {
    YES.contains(&bare(answer).as_str())
}

/// Tells whether a person's answer is a no and nothing else.
pub fn is_no(answer: &str) -> bool {
    NO.contains(&bare(answer).as_str())
}

fn bare(answer: &str) -> String {
    answer.trim().trim_end_matches(['.', '!']).to_lowercase()
}

fn begins_like_yes(answer: &str) -> bool {
    let is_part_of_word = |c: char| c.is_alphanumeric() || ['-', '_', '\''].contains(&c);
    let begin = answer.trim_start_matches(|c: char| !c.is_alphanumeric());
    let end = begin.find(|c| !is_part_of_word(c)).unwrap_or(begin.len());
    let word = begin[..end].to_lowercase();
    YES.iter().chain(&LIKE_YES).any(|yes| *yes == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_word_by_itself_decides_and_what_begins_like_a_yes_is_not_guessed_at() {
        use QuestionKind::{Accept, Other, Retry};
        use TakenAs::{No, Text, Unclear, Yes};
        for (answer, accept, retry) in [
            ("yes", Yes, Yes),
            (" Yes. ", Yes, Yes),
            ("OK!", Yes, Yes),
            ("accepted", Yes, Yes),
            ("yes please", Unclear, Unclear),
            ("Yes, accept it", Unclear, Unclear),
            ("yes: but in Welsh", Unclear, Unclear),
            ("- yes", Unclear, Unclear),
            ("\"yes\"", Unclear, Unclear),
            ("sure, fine", Unclear, Unclear),
            ("sure", Unclear, Unclear),
            ("LGTM", Unclear, Unclear),
            ("done-all is missing", Text, Text),
            ("Yesterday's header is missing", Text, Text),
            ("no", Text, No),
            ("Nope.", Text, No),
            ("no, yes was wrong", Text, Text),
            ("the header is missing", Text, Text),
            ("…", Text, Text),
        ] {
            assert_eq!(taken_as(Accept, answer), accept, "{answer}");
            assert_eq!(taken_as(Retry, answer), retry, "{answer}");
            assert_eq!(taken_as(Other, answer), Text, "{answer}");
        }
    }
}
