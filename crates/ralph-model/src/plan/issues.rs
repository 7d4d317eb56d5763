//! Changes to issues.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::edit::{MemberEdit, NewRecord};
use super::ids::{IdLength, IssueId};
use super::task_fields::Priority;
use super::{Change, Named, Plan, PlanContext, PlanError, Record};

/// Parses the argument of `issue add`: a text, or a JSON object with `desc`; any other JSON is treated as text.
fn wished(text: &str) -> Result<(String, Option<Priority>), PlanError> {
    let text = text.trim();
    let object = serde_json::from_str::<Map<String, Value>>(text).ok();
    let Some(object) = object.filter(|object| object.contains_key("desc")) else {
        return Ok((text.to_owned(), None));
    };
    let (mut description, mut priority) = (String::new(), None);
    for (field, value) in object {
        match (field.as_str(), &value) {
            (_, Value::Null) => {}
            ("desc", Value::String(text)) => text.trim().clone_into(&mut description),
            ("priority", Value::String(name)) if Priority::of_name(name).is_some() => {
                priority = Priority::of_name(name);
            }
            ("t", Value::String(kind)) if kind == "issue" => {}
            _ => return Err(PlanError::BadIssue { field }),
        }
    }
    Ok((description, priority))
}

impl Plan<'_> {
    /// Adds an issue; without a current spec it belongs to none, and is considered with the next one.
    pub fn add_issue(
        &mut self,
        description: &str,
        surroundings: &mut PlanContext<'_>,
    ) -> Result<Change, PlanError> {
        self.writable()?;
        let (description, priority) = wished(description)?;
        if description.is_empty() {
            return Err(PlanError::NoDescription);
        }
        let known = surroundings.known;
        let taken = self.ids();
        let length = IdLength::given((surroundings.past_is_whole)());
        let is_taken = |id: &str| taken.contains(id) || known(id);
        let id = IssueId::generate(surroundings.random, length, is_taken).to_string();
        let record = NewRecord::new("issue")
            .with(MemberEdit::text("id", &id))
            .with(MemberEdit::text("spec", self.spec().unwrap_or_default()))
            .with(MemberEdit::text("desc", &description))
            .with_text("priority", priority.map(Priority::name));
        self.document.insert(&[record]);
        Ok(self.finish(Change::IssueAdded { issue: Named { id, name: description } }))
    }

    /// Removes the first issue.
    pub(crate) fn first_issue_done(&mut self) -> Result<Change, PlanError> {
        self.writable()?;
        let first = self.issues().next().ok_or(PlanError::NoIssue)?.id.into_owned();
        self.issues_done(&[first])
    }

    /// Removes issues by id; an unknown id aborts the whole change.
    pub(crate) fn issues_done(&mut self, ids: &[String]) -> Result<Change, PlanError> {
        self.writable()?;
        let wanted: HashSet<&str> = ids.iter().map(String::as_str).collect();
        let issues: Vec<Named> = self
            .issues()
            .filter(|issue| wanted.contains(&*issue.id))
            .map(|issue| Named { id: issue.id.into_owned(), name: issue.desc.into_owned() })
            .collect();
        let there: HashSet<&str> = issues.iter().map(|issue| issue.id.as_str()).collect();
        if let Some(missing) = ids.iter().find(|id| !there.contains(id.as_str())) {
            return Err(PlanError::UnknownIssue { id: missing.clone() });
        }
        if issues.is_empty() {
            return Ok(Change::Nothing);
        }
        self.document.remove(
            |_, line| matches!(&line.record, Record::Issue { id } if wanted.contains(&**id)),
        );
        Ok(self.finish(Change::IssuesDone { issues }))
    }

    /// Removes all issues.
    pub(crate) fn all_issues_done(&mut self) -> Result<Change, PlanError> {
        self.writable()?;
        let ids: Vec<String> = self.issues().map(|issue| issue.id.into_owned()).collect();
        self.issues_done(&ids)
    }

    /// Returns the ids that belong to issues only.
    pub(super) fn issue_ids(&self) -> HashSet<&str> {
        let mut ids = HashSet::new();
        for line in &self.document.lines {
            if let Record::Issue { id } = &line.record {
                ids.insert(&**id);
            }
        }
        if !ids.is_empty() {
            for head in self.document.lines.iter().filter_map(super::Line::head) {
                ids.remove(&*head.id);
            }
        }
        ids
    }

    /// Returns every id that the file defines.
    pub(super) fn ids(&self) -> HashSet<&str> {
        let lines = self.document.lines.iter();
        lines
            .filter_map(|line| match &line.record {
                Record::Task(head) => Some(&*head.id),
                Record::Issue { id } | Record::Reject { id } => Some(&**id),
                _ => None,
            })
            .collect()
    }
}
