//! Which item a person means by a short name: the number of a spec or of a loop's task, the id of a story without its
//! branch, the beginning of a name.

/// Tells whether a name stands for an item, in the order in which the ways to name one are tried.
const WAYS: [fn(&str, &str) -> bool; 4] = [is_whole, is_last_part, is_number, is_beginning];

/// Returns the places of the items that a name stands for: by the first way that fits any.
pub fn meant(items: &[&str], typed: &str) -> Vec<usize> {
    let by = |way: &fn(&str, &str) -> bool| {
        let items = items.iter().enumerate();
        let found: Vec<usize> =
            items.filter(|(_, item)| way(item, typed)).map(|(at, _)| at).collect();
        (!found.is_empty()).then_some(found)
    };
    if typed.is_empty() { Vec::new() } else { WAYS.iter().find_map(by).unwrap_or_default() }
}

fn is_whole(item: &str, typed: &str) -> bool {
    item == typed
}

/// Directories of specs are joined with `~`, stories follow their branch.
fn last_part(item: &str) -> &str {
    item.rsplit(['/', '~']).next().unwrap_or(item)
}

fn is_last_part(item: &str, typed: &str) -> bool {
    last_part(item).eq_ignore_ascii_case(typed)
}

/// `7` is the spec `0007-x` and the task `loop-7`.
fn is_number(item: &str, typed: &str) -> bool {
    let Ok(wanted) = typed.parse::<u64>() else { return false };
    let part = last_part(item);
    let part = part.strip_prefix("loop-").unwrap_or(part);
    let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    part[..digits].parse() == Ok(wanted)
}

fn is_beginning(item: &str, typed: &str) -> bool {
    item.starts_with(typed) || last_part(item).starts_with(typed)
}

#[cfg(test)]
mod tests {
    use super::meant;

    const ITEMS: [&str; 7] = [
        "0005-greet",
        "billing~0007-invoices",
        "ralph/dark/US-001",
        "ralph/dark/US-002",
        "loop-3",
        "t-5a5a",
        "0012-later",
    ];

    #[test]
    fn a_name_is_what_a_person_would_type() {
        let table = [
            ("0005-greet", &[0][..]),
            ("5", &[0]),
            ("0005", &[0]),
            ("7", &[1]),
            ("0007-invoices", &[1]),
            ("us-001", &[2]),
            ("US-00", &[2, 3]),
            ("ralph/dark", &[2, 3]),
            ("3", &[4]),
            ("loop-3", &[4]),
            ("t-5", &[5]),
            ("12", &[6]),
            ("1", &[]),
            ("", &[]),
            ("nothing", &[]),
        ];
        for (typed, expected) in table {
            assert_eq!(meant(&ITEMS, typed), expected, "{typed}");
        }
    }
}
