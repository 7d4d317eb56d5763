//! A claim before the judge: the work on a story is committed and judged in every repository that has some.

use ralph_model::build::{Acceptance, Rejection, Work};
use ralph_model::id::RunId;
use ralph_model::journal::{QuestionKind, ReasonText, VerdictKind, VerdictReached};
use ralph_model::prd::Story;
use ralph_model::role::Role;
use ralph_model::story::StoryFact;
use ralph_model::verdict::{Claim, Verdict};

use super::store::StorySettling;
use super::{Stories, StoriesEnd};
use crate::gates::WorkRepository;
use crate::gates::pin::PinnedGates;
use crate::judge::{AgreedChecks, Case, Said};
use crate::workflow::WorkflowError;
use crate::workflow::driver::Turn;
use crate::workflow::findings::{Findings, changed_files};
use crate::workflow::merge_review::{self, ASKED_FIRST};
use crate::workflow::repositories::{BeforeAll, attestation};
use crate::workflow::review::{self, ReviewStanding};

/// How an implementer says that nothing has to change.
const SAY_NO_CHANGE: &str = "end with a line `NO_CHANGE_NEEDED: why`";

/// Who settles what the judge cannot decide.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Arbiter {
    NotAsked,
    /// A person was asked, and agrees.
    Agrees,
}

impl Stories<'_, '_> {
    /// Commits what a run left, and has the judge decide on the work.
    pub(super) fn judge(
        &mut self,
        item: &str,
        story: &Story,
        before: &BeforeAll,
        run: RunId,
    ) -> Result<Turn<StoriesEnd>, WorkflowError> {
        let message = format!("feat: {} - {}\n", story.id, story.title);
        let repositories = &self.project.repositories;
        if let Some(why) = repositories.commit_leftovers(before, &message, self.signing)? {
            self.back_to_branches(item)?;
            let reasons = vec![ReasonText::new("not_committed", &why)];
            return self.reject(item, Some(run), Rejection::plain(why), reasons);
        }
        let works = repositories.work_of(before)?;
        let rejected = self.markers(item)?.record.rejected;
        if let Some(work) = works.first().filter(|work| Some(&work.commit) == rejected.as_ref()) {
            self.back_to_branches(item)?;
            return self.reject_again(item, work, run);
        }
        let turn = self.judge_works(item, before, works, Arbiter::NotAsked, Some(run))?;
        Ok(turn)
    }

    /// Answers the claim of work that was rejected before: nothing about it has changed, so nothing is measured again.
    fn reject_again(
        &mut self,
        item: &str,
        work: &Work,
        run: RunId,
    ) -> Result<Turn<StoriesEnd>, WorkflowError> {
        const AGAIN: &str = "You claimed the same work again, and it is rejected as before";
        let earlier = self.markers(item)?.record.feedback.unwrap_or_default();
        let for_agent = if earlier.starts_with(AGAIN) {
            earlier
        } else {
            format!("{AGAIN}. Fix what is wrong with it:\n\n{earlier}")
        };
        let told = format!("{} was rejected before and is claimed again unchanged", work.commit);
        let reasons = vec![ReasonText::new("claimed_again", &told)];
        let commit = Some(work.commit.clone());
        self.reject(item, Some(run), Rejection { commit, for_agent, for_person: told }, reasons)
    }

    /// Has the judge measure work, and draws the conclusions. `run` made the claim; a person's decision has none.
    pub(super) fn judge_works(
        &mut self,
        item: &str,
        before: &BeforeAll,
        works: Vec<Work>,
        arbiter: Arbiter,
        run: Option<RunId>,
    ) -> Result<Turn<StoriesEnd>, WorkflowError> {
        let pinned = self.pin(item)?;
        let cases = match self.measured.take(item, &works) {
            Some(cases) => cases,
            None => self.examine(item, before, &pinned, &works)?,
        };
        self.back_to_branches(item)?;
        let review = self.review_of(item, &works, &cases)?;
        let mut found = match Findings::of(&works, &cases, &review, SAY_NO_CHANGE) {
            Ok(found) => found,
            Err(trouble) => return Ok(Turn::Trouble(trouble)),
        };
        self.hold_to_allowed_paths(&works, &cases, &mut found);
        if let Some(rejection) = found.rejected {
            return self.reject_by(review.by(), item, run, rejection, found.reasons);
        }
        self.project.keep_candidate(self.session, item, &works)?;
        if matches!(review, ReviewStanding::Wanted) && arbiter == Arbiter::NotAsked {
            self.measured.keep(item, &works, &cases);
            let question = ASKED_FIRST.to_owned();
            self.settle(item, &StoryFact::Undecided { run, works, question })?;
            return Ok(Turn::Progress);
        }
        let Some(first) = works.first() else {
            let why = "no commit found".to_owned();
            let reasons = vec![ReasonText::new("no_commit", &why)];
            return self.reject(item, run, Rejection::plain(why), reasons);
        };
        if let Some(question) = found.question.filter(|_| arbiter == Arbiter::NotAsked) {
            let verdict = Verdict::NeedsHuman { question: question.clone() };
            self.tell(VerdictReached {
                commit: Some(first.commit.to_string()),
                ..VerdictReached::of(item, "judge", &verdict)
            })?;
            let commit = question.commit().map(ToString::to_string);
            let question = question.to_string();
            let fact = StoryFact::Undecided { run, works, question: question.clone() };
            self.settle(item, &fact)?;
            return self.ask_person(item, question, QuestionKind::Accept, commit.as_deref());
        }
        let agreed = match arbiter {
            Arbiter::Agrees => AgreedChecks::Person,
            Arbiter::NotAsked => review.agreed(&cases),
        };
        let context = &self.session.context;
        let attested = attestation(context, item, Role::Implementer, review.receipt(), agreed);
        let repositories = &self.project.repositories;
        repositories.attest(&context.gates(item), before, &pinned, &cases, &attested)?;
        let done_at = Some(first.commit.clone());
        let level = merge_review::level(&context.state, item, &works, found.level)?;
        let acceptance = Acceptance { done_at, works, level };
        let by = if arbiter == Arbiter::Agrees { "person" } else { review.by() };
        self.tell(VerdictReached {
            item: item.to_owned(),
            commit: acceptance.done_at.as_ref().map(ToString::to_string),
            verdict: VerdictKind::Accepted,
            by: by.to_owned(),
            level: Some(acceptance.level),
            files: Some(changed_files(&cases)),
            ..VerdictReached::default()
        })?;
        let commit = acceptance.done_at.as_ref().map(ToString::to_string);
        match self.settle(item, &StoryFact::Accepted { run, acceptance })? {
            StorySettling::Whole | StorySettling::Unsettled => Ok(Turn::Progress),
            // Caused by others' changes, so it costs nothing: the next run gets feedback.
            StorySettling::Refused => Ok(Turn::Again),
            StorySettling::Stuck { question } => {
                self.ask_person(item, question, QuestionKind::Retry, commit.as_deref())
            }
        }
    }

    fn examine(
        &mut self,
        item: &str,
        before: &BeforeAll,
        pinned: &PinnedGates,
        works: &[Work],
    ) -> Result<Vec<Case>, WorkflowError> {
        let mut cases = Vec::new();
        let repositories = &self.project.repositories;
        for work in works {
            let said = Said::Work(work.clone());
            cases.push(self.session.with_gates(item, |context, tell| {
                repositories.examine(context, before, pinned, &said, tell)
            })?);
        }
        Ok(cases)
    }

    /// Says what is known of a question about work, which may wait for a verifier.
    fn review_of(
        &self,
        item: &str,
        works: &[Work],
        cases: &[Case],
    ) -> Result<ReviewStanding, WorkflowError> {
        let text = self.story(item)?.map(|story| text_of(&story)).unwrap_or_default();
        Ok(review::standing(&self.session.context.state, item, works, cases, &text)?)
    }

    /// Rejects work that changes files outside the paths that the person allowed.
    fn hold_to_allowed_paths(&self, works: &[Work], cases: &[Case], found: &mut Findings) {
        let mut outside = Vec::new();
        for (work, case) in works.iter().zip(cases) {
            let Claim::Commit(measured) = &case.claim else { continue };
            let Some(evidence) = measured.evidence.commit() else { continue };
            let repository = self.project.repositories.gates(&work.repository);
            let repository = repository.and_then(WorkRepository::real);
            for path in &evidence.changed {
                // Paths are allowed as the workspace names them.
                let named = match repository {
                    Some(repository) => repository.in_workspace(path),
                    None => Some(path.clone()),
                };
                let allowed = &self.options.allowed;
                if !named.as_ref().map_or(allowed.is_empty(), |path| is_allowed(allowed, path)) {
                    outside.push(named.unwrap_or_else(|| path.clone()));
                }
            }
        }
        if outside.is_empty() {
            return;
        }
        let why = format!("files outside the allowed paths were changed: {}", outside.join(", "));
        let agent = format!(
            "You changed files outside the allowed paths ({}): {}. Undo that.",
            self.options.allowed.join(", "),
            outside.join(", ")
        );
        found.reasons.push(ReasonText::new("outside_allowed_paths", &why));
        let commit = works.first().map(|work| work.commit.clone());
        let more = Rejection { commit, for_agent: agent, for_person: why };
        found.rejected = Some(match found.rejected.take() {
            None => more,
            Some(first) => first.and(&more),
        });
    }
}

/// What a story asks for, as a person reads it.
pub(super) fn text_of(story: &Story) -> String {
    let lines = [&story.title].into_iter().chain(&story.acceptance_criteria).chain([&story.notes]);
    lines.map(String::as_str).collect::<Vec<_>>().join("\n")
}

/// Whether a path is allowed: a directory ends in `/`, and includes itself.
fn is_allowed(allowed: &[String], path: &str) -> bool {
    allowed.is_empty()
        || allowed.iter().any(|entry| match entry.strip_suffix('/') {
            Some(directory) => path == directory || path.starts_with(entry.as_str()),
            None => path == entry,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_file_or_a_directory_with_all_below_it() {
        for (entries, path, expected) in [
            (&[][..], "any", true),
            (&["a.txt"], "a.txt", true),
            (&["a.txt"], "b.txt", false),
            (&["a.txt"], "a.txt.old", false),
            (&["a.txt"], "x/a.txt", false),
            (&["src/"], "src/a.rs", true),
            (&["src/"], "src/deep/a.rs", true),
            (&["src/"], "src", true),
            (&["src/"], "srcs/a.rs", false),
            (&["src"], "src/a.rs", false),
            (&["src/", "a.txt"], "a.txt", true),
            (&["Straße/"], "Straße/ü.txt", true),
            (&["with blank/"], "with blank/x", true),
            (&["./"], "a.txt", false),
        ] {
            let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
            assert_eq!(is_allowed(&entries, path), expected, "{entries:?} {path}");
        }
    }
}
