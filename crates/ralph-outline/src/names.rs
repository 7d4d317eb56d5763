//! Compares names across spellings: `data-table`, `DataTable`, `dataTable`, `data_table`.

/// Splits a name into lower-case words. A trailing plural `s` is dropped from words of more than three letters.
pub(crate) fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut fresh = true;
    let mut last_is_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() {
            fresh = true;
            continue;
        }
        if fresh || (c.is_uppercase() && last_is_lower) {
            words.push(String::new());
            fresh = false;
        }
        last_is_lower = c.is_lowercase() || c.is_numeric();
        if let Some(word) = words.last_mut() {
            word.extend(c.to_lowercase());
        }
    }
    for word in &mut words {
        if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") {
            word.pop();
        }
    }
    words
}

/// Whether a token matches a name: its words equal or contain the words of the name.
pub(crate) fn names(token: &str, name: &[String]) -> bool {
    let token = words(token);
    !name.is_empty() && token.windows(name.len()).any(|part| part == name)
}

/// Returns the identifiers in a text, including hyphenated ones.
pub(crate) fn tokens(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-')
        .filter(|token| !token.is_empty())
}

/// Returns the name of a file without directory and extension.
pub(crate) fn base_name(path: &str) -> &str {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split('.').next().unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_name_are_one_name() {
        let name = words("data-table");
        for token in [
            "data-table",
            "DataTable",
            "dataTable",
            "data_table",
            "DataTables",
            "TheDataTableSection",
        ] {
            assert!(names(token, &name), "{token}");
        }
        for token in ["data", "table-data", "databasetable", ""] {
            assert!(!names(token, &name), "{token}");
        }
        assert!(!names("heroic", &words("hero")));
        assert!(!names("anything", &words("--")));
    }
}
