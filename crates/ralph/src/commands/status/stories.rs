//! The PRD's part of the status: its branch, the number of passing stories, and the next one.

use ralph_engine::workflow::overview::{FailingStory, StoriesOverview};
use ralph_model::prd::PRD_FILE;

use crate::render::human::one_line;
use crate::render::text::StyledLine;
use crate::render::{Tone, Ui, styled};
use crate::setup::Setup;

/// Returns the status of the PRD; `None` without one with stories.
pub(super) fn overview(setup: &Setup) -> Option<StoriesOverview> {
    let path = setup.home.path.join(PRD_FILE);
    StoriesOverview::of(&setup.git(), &path, setup.config.git.commit_home)
}

pub(super) fn line(ui: Ui, found: &StoriesOverview) -> StyledLine {
    let next: Option<&FailingStory> = found.failing.first();
    let next = next.map(|story| format!("; next: {} {}", story.id, one_line(&story.title, 60)));
    let branch = if found.branch_exists { "" } else { " (not created yet)" };
    styled!(
        "{}    {}{branch}: {} of {} pass{}",
        ui.paint(Tone::Strong, "stories"),
        found.branch,
        found.passing,
        found.total,
        next.unwrap_or_default()
    )
}
