//! Checks the guide: the permissions of each role, and the list of commands.

use std::fs;
use std::path::Path;

use ralph_model::permission::{Mutation, Reach};
use ralph_model::role::Role;

fn guide() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plan.md")).unwrap()
}

#[test]
fn the_table_of_roles_is_the_one_that_decides() {
    let guide = guide();
    let roles: Vec<String> = Role::ALL.iter().map(ToString::to_string).collect();
    let head = format!("| | {} |", roles.join(" | "));
    assert!(guide.contains(&head), "{head}");
    for mutation in Mutation::ALL {
        let mut row = format!("| `{}` |", mutation.command());
        for role in Role::ALL {
            row.push_str(match role.reach(mutation) {
                Some(Reach::Any) => " yes |",
                Some(Reach::Given) => " given |",
                None => " – |",
            });
        }
        assert!(guide.contains(&row), "{row}");
    }
}
