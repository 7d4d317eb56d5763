//! A story: the work to do, each agent's behaviour run by run, the person's actions, and the faults.
//!
//! All of it is determined by a seed. Agents behave according to their subject and how often they have answered it,
//! never by time or chance, so that a disturbed story can be compared with the same story undisturbed.

use std::collections::BTreeMap;
use std::fmt;

use ralph_model::journal::QuestionKind;
use ralph_model::role::Role;

use crate::files::simulated::{Chance, Fault, PlannedFault};

/// The workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Pipeline {
        specs: usize,
    },
    Build {
        tasks: usize,
    },
    /// `ralph run`, with a PRD of this many stories.
    Stories {
        stories: usize,
    },
    /// `ralph loop`, with one task.
    Loop,
}

/// An agent's changes to the working tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    Nothing,
    Good,
    /// Its gates fail.
    Broken,
}

/// The branch on which an agent works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Branching {
    Here,
    Branch,
    Detached,
}

/// What an agent commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Committing {
    Nothing,
    OwnFile,
    /// Everything, including the person's uncommitted changes.
    Everything,
}

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It does what its role is asked to do, and claims it.
    Done,
    /// It claims a commit that existed before.
    OldCommit,
    /// It claims a commit that does not exist.
    NoSuchCommit,
    /// It ends properly without a claim.
    Unclaimed,
    Silent,
    Crash,
    /// At its usage limit, with or without a reported reset.
    Limit {
        minutes: u16,
        known: bool,
    },
    TimeOut {
        idle: bool,
    },
    ContextFull,
    /// It claims that nothing has to change.
    NoChange,
    /// A verifier rejects.
    Rejects,
    /// A verifier rejects the plan.
    PlanInvalid,
    /// A builder that also reports an issue.
    WithIssue,
    /// The loop's builder asks the person a question.
    Asks,
}

impl Ending {
    /// Whether it is not the work's fault.
    pub(super) const fn is_trouble(self) -> bool {
        matches!(self, Ending::Silent | Ending::Crash | Ending::Limit { .. })
    }

    /// Whether an implementer gets to write notes.
    pub(super) const fn leaves_notes(self) -> bool {
        !self.is_trouble() && !matches!(self, Ending::TimeOut { .. } | Ending::ContextFull)
    }
}

/// An agent's behaviour in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Act {
    pub(super) effort: Effort,
    pub(super) branching: Branching,
    pub(super) committing: Committing,
    /// It destroys the person's uncommitted changes.
    pub(super) spoils: bool,
    pub(super) ending: Ending,
}

impl Act {
    pub(super) const HONEST: Act = Act {
        effort: Effort::Good,
        branching: Branching::Here,
        committing: Committing::OwnFile,
        spoils: false,
        ending: Ending::Done,
    };

    const fn ending(ending: Ending) -> Act {
        Act { ending, ..Act::HONEST }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Act { effort, branching, committing, spoils, ending } = self;
        write!(f, "{ending:?} after {effort:?} work, {branching:?}, commits {committing:?}")?;
        if *spoils { write!(f, ", spoils") } else { Ok(()) }
    }
}

/// An agent's behaviour in its runs for one subject, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Script {
    pub(super) acts: Vec<Act>,
    /// Whether the acts repeat forever; otherwise it behaves honestly after all of them.
    pub(super) is_hopeless: bool,
}

impl Script {
    pub(super) fn act(&self, number: usize) -> Act {
        match self.acts.get(number) {
            Some(act) => *act,
            None if self.is_hopeless && !self.acts.is_empty() => {
                self.acts[number % self.acts.len()]
            }
            None => Act::HONEST,
        }
    }
}

/// How the person answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answers {
    /// Everything is tried again, and nothing is accepted that an agent only says.
    Strict,
    /// Any of the answers that there are, always the same one to the same kind of question about an item.
    Mixed { seed: u64 },
}

impl Answers {
    /// Returns how the person of a seed answers. It is drawn apart from the rest of the story.
    fn of(seed: u64) -> Answers {
        let mut chance = Chance::new(seed ^ 0xa25);
        if chance.percent(30) { Answers::Mixed { seed: chance.next() } } else { Answers::Strict }
    }

    /// Returns the answer to a question about an item.
    pub(super) fn answer(self, key: &str, asked: QuestionKind, is_stuck: bool) -> &'static str {
        const DO_IT: &str = "no, do the work";
        let seed = match self {
            // What is in the way of a landing is the person's own, and stays.
            Answers::Strict if asked == QuestionKind::Retry && !is_stuck => return "yes",
            Answers::Strict => return DO_IT,
            Answers::Mixed { seed } => seed,
        };
        let seed = key.bytes().fold(seed, |seed, byte| seed.rotate_left(5) ^ u64::from(byte));
        let answers: &[&str] = match asked {
            QuestionKind::Accept => &[DO_IT, "yes", "no"],
            QuestionKind::Retry => &["yes", "no", "try it in another way"],
            QuestionKind::Other => &[DO_IT, "yes"],
        };
        answers[Chance::new(seed).below(answers.len())]
    }
}

/// What the person does while agents work in clones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PersonsAct {
    /// A file of their own.
    Commits,
    /// A line of notes in home.
    CommitsNotes,
    /// They remove the first item from where it is asked for, and commit that.
    Withdraws,
    /// An untracked file where the first item's work is to be.
    IsInTheWay,
}

impl PersonsAct {
    pub(super) const ALL: [PersonsAct; 4] = [
        PersonsAct::Commits,
        PersonsAct::CommitsNotes,
        PersonsAct::Withdraws,
        PersonsAct::IsInTheWay,
    ];
}

/// A story.
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Story {
    pub(super) seed: u64,
    pub(super) kind: Kind,
    pub(super) scripts: BTreeMap<(String, Role), Script>,
    pub(super) has_gates: bool,
    pub(super) waits: bool,
    /// The person's uncommitted files: names and texts.
    pub(super) dirt: Vec<(String, String)>,
    /// Whether the person adds a task during the first run of a role.
    pub(super) person_adds: bool,
    pub(super) answers: Answers,
    /// Agents work in clones; otherwise in the person's checkout.
    pub(super) in_clones: bool,
    /// Faults by process.
    pub(super) faults: Vec<Vec<PlannedFault>>,
}

impl Story {
    /// Generates a story without faults.
    pub(super) fn of(seed: u64) -> Story {
        let mut chance = Chance::new(seed);
        let kind = match seed % 8 {
            0 | 4 => Kind::Stories { stories: 1 + chance.below(3) },
            1 => Kind::Loop,
            _ if chance.percent(50) => Kind::Pipeline { specs: 1 + chance.below(2) },
            _ => Kind::Build { tasks: 1 + chance.below(3) },
        };
        let mut scripts = BTreeMap::new();
        let hopeless = chance.percent(15);
        let subjects = subjects(kind);
        let hopeless_at = chance.below(subjects.len());
        for (at, (key, role)) in subjects.into_iter().enumerate() {
            let is_hopeless = hopeless && at == hopeless_at;
            if !is_hopeless && !chance.percent(60) {
                continue;
            }
            let count = if is_hopeless { 1 + chance.below(2) } else { 1 + chance.below(3) };
            let acts = (0..count).map(|_| act(&mut chance, kind, role, is_hopeless)).collect();
            scripts.insert((key, role), Script { acts, is_hopeless });
        }
        let dirt = if chance.percent(40) {
            let file = |n: usize| (format!("notes-{n}.txt"), format!("the person's {n}"));
            let mut dirt: Vec<_> = (0..=chance.below(2)).map(file).collect();
            if chance.percent(40) {
                dirt.push(("readme.txt".to_owned(), "as the person edits it".to_owned()));
            }
            dirt
        } else {
            Vec::new()
        };
        Story {
            seed,
            kind,
            scripts,
            has_gates: chance.percent(75),
            waits: chance.percent(85),
            dirt,
            person_adds: chance.percent(20),
            answers: Answers::of(seed),
            in_clones: Chance::new(seed ^ 0xc10e).percent(50),
            faults: Vec::new(),
        }
    }

    /// Whether an agent never does what it should.
    pub(super) fn is_hopeless(&self) -> bool {
        self.scripts.values().any(|script| script.is_hopeless)
    }

    /// Whether an agent ends on a different branch than it began on.
    pub(super) fn leaves_branches(&self) -> bool {
        let mut acts = self.scripts.values().flat_map(|script| &script.acts);
        acts.any(|act| act.branching != Branching::Here)
    }

    /// Whether an agent hits its usage limit on a different branch than it began on.
    pub(super) fn meets_limits_elsewhere(&self) -> bool {
        let mut acts = self.scripts.values().flat_map(|script| &script.acts);
        acts.any(|act| {
            act.branching != Branching::Here && matches!(act.ending, Ending::Limit { .. })
        })
    }

    /// Whether an agent that commits everything may find broken work of another spec, uncommitted in the same tree, and
    /// fail its gates for it: which spec comes first depends on where a process ended.
    pub(super) fn sweeps_up_broken_work(&self) -> bool {
        let has = |key: &str, is: &dyn Fn(&Act) -> bool| {
            let script = self.scripts.get(&(key.to_owned(), Role::Implementer));
            script.is_some_and(|script| script.acts.iter().any(is))
        };
        let leaves =
            |act: &Act| act.effort == Effort::Broken && act.committing == Committing::Nothing;
        let sweeps = |act: &Act| act.committing == Committing::Everything;
        let Kind::Pipeline { specs } = self.kind else { return false };
        let ids: Vec<String> = (1..=specs).map(spec_id).collect();
        ids.iter().any(|one| {
            has(one, &leaves) && ids.iter().any(|other| one != other && has(other, &sweeps))
        })
    }

    /// Whether a spec that waits for the person may find broken work of another one committed in the same tree, and
    /// fail its gates for it: once the person has answered, it comes first, wherever an interruption left the other.
    pub(super) fn meets_broken_work(&self) -> bool {
        let Kind::Pipeline { specs } = self.kind else { return false };
        let has = |key: &String, is: &dyn Fn(&Act) -> bool| {
            let script = self.scripts.get(&(key.clone(), Role::Implementer));
            script.is_some_and(|script| script.acts.iter().any(is))
        };
        let breaks =
            |act: &Act| act.effort == Effort::Broken && act.committing != Committing::Nothing;
        let waits = |act: &Act| act.ending == Ending::NoChange;
        let ids: Vec<String> = (1..=specs).map(spec_id).collect();
        let is_met = ids.iter().any(|one| {
            has(one, &waits) && ids.iter().any(|other| one != other && has(other, &breaks))
        });
        is_met && self.has_gates && self.has_fault(|fault| fault == Fault::Interrupt)
    }

    /// Whether a spec may stop for three troubles in a row and leave broken work committed, which the next one then finds
    /// at its base: a process that ends in between begins to count anew.
    pub(super) fn stops_with_broken_work(&self) -> bool {
        let Kind::Pipeline { specs: 2.. } = self.kind else { return false };
        self.scripts.values().any(|script| {
            let breaks =
                |act: &Act| act.effort == Effort::Broken && act.committing != Committing::Nothing;
            let troubles = script.acts.iter().filter(|act| act.ending.is_trouble()).count();
            troubles >= 3 && script.acts.iter().any(breaks)
        })
    }

    /// The tasks that a planner makes.
    pub(super) fn task_names(&self) -> Vec<String> {
        match self.kind {
            Kind::Pipeline { .. } | Kind::Stories { .. } | Kind::Loop => Vec::new(),
            Kind::Build { tasks } => (1..=tasks).map(|number| format!("t{number}")).collect(),
        }
    }

    pub(super) fn act(&self, key: &str, role: Role, number: usize) -> Act {
        let script = self.scripts.get(&(key.to_owned(), role));
        script.map_or(Act::HONEST, |script| script.act(number))
    }

    /// Adds faults to a story that has this many effects without any.
    pub(super) fn disturb(&mut self, effects: u64) {
        let (mut chance, mut own) =
            (Chance::new(self.seed ^ 0x5eed), Chance::new(self.seed ^ 0xac7));
        let processes = 1 + chance.below(4);
        for _ in 0..processes {
            let mut faults = Vec::new();
            let after = 1 + chance.next() % (effects + effects / 8 + 1);
            if self.in_clones && own.percent(50) {
                let fault = Fault::Person { act: own.below(PersonsAct::ALL.len()) };
                faults.push(PlannedFault { after: 1 + own.next() % (effects + 1), fault });
            }
            if chance.percent(25) {
                let fault = match chance.below(4) {
                    0 => Fault::Full { writes: 1 + u32::try_from(chance.below(4)).unwrap_or(0) },
                    1 => Fault::Failing,
                    2 => Fault::Interrupt,
                    _ => {
                        let seconds = i64::try_from(chance.below(14_400)).unwrap_or(0);
                        Fault::Jump { seconds: seconds - 7_200 }
                    }
                };
                faults.push(PlannedFault { after: 1 + chance.next() % (effects + 1), fault });
            }
            let fault = if chance.percent(35) { Fault::PowerLoss } else { Fault::Kill };
            faults.push(PlannedFault { after, fault });
            self.faults.push(faults);
        }
    }

    /// Whether the person acts while agents are at work.
    pub(super) fn has_persons_act(&self) -> bool {
        self.has_fault(|fault| matches!(fault, Fault::Person { .. }))
    }

    /// Whether a fault of a kind is planned.
    pub(super) fn has_fault(&self, is: impl Fn(Fault) -> bool) -> bool {
        self.faults.iter().flatten().any(|planned| is(planned.fault))
    }
}

/// The subjects of agents in a workflow.
fn subjects(kind: Kind) -> Vec<(String, Role)> {
    match kind {
        Kind::Pipeline { specs } => (1..=specs)
            .flat_map(|number| {
                let roles = [Role::Planner, Role::Implementer, Role::Verifier];
                roles.map(|role| (spec_id(number), role))
            })
            .collect(),
        Kind::Build { tasks } => {
            let mut subjects: Vec<_> =
                (1..=tasks).map(|number| (format!("t{number}"), Role::Builder)).collect();
            subjects.extend([
                ("plan".to_owned(), Role::Planner),
                ("verify".to_owned(), Role::Verifier),
                ("investigate".to_owned(), Role::Investigator),
            ]);
            subjects
        }
        Kind::Stories { stories } => (1..=stories)
            .flat_map(|number| {
                let opinion = (format!("{}?", user_story(number)), Role::Verifier);
                [(user_story(number), Role::Implementer), opinion]
            })
            .collect(),
        Kind::Loop => {
            let opinion = (format!("{LOOP_TASK}?"), Role::Verifier);
            vec![(LOOP_TASK.to_owned(), Role::Builder), opinion]
        }
    }
}

/// The name of the loop's task.
pub(super) const LOOP_TASK: &str = "loop-1";

/// The id of a story of the PRD.
pub(super) fn user_story(number: usize) -> String {
    format!("US-00{number}")
}

/// The id of a spec.
pub(super) fn spec_id(number: usize) -> String {
    format!("000{number}-spec")
}

fn act(chance: &mut Chance, kind: Kind, role: Role, is_hopeless: bool) -> Act {
    let is_build = matches!(kind, Kind::Build { .. });
    let limit = Ending::Limit {
        minutes: 1 + u16::try_from(chance.below(300)).unwrap_or(0),
        known: chance.percent(70),
    };
    let idle = chance.percent(50);
    let mut endings = vec![
        Ending::Done,
        Ending::Unclaimed,
        Ending::Silent,
        Ending::Crash,
        limit,
        Ending::TimeOut { idle },
        Ending::ContextFull,
    ];
    match role {
        _ if kind == Kind::Loop => {
            endings.extend([Ending::Done, Ending::Done, Ending::NoChange, Ending::Asks]);
        }
        Role::Implementer => endings.extend([
            Ending::Done,
            Ending::Done,
            Ending::OldCommit,
            Ending::NoSuchCommit,
            Ending::NoChange,
        ]),
        Role::Builder => {
            endings.extend([Ending::Done, Ending::Done, Ending::NoChange, Ending::WithIssue]);
        }
        Role::Verifier if is_build => endings.extend([Ending::Rejects, Ending::Rejects]),
        Role::Verifier => {
            endings.extend([Ending::Rejects, Ending::Rejects, Ending::PlanInvalid]);
        }
        _ => {}
    }
    if is_hopeless {
        // Honest work is not a hopeless case, and a limit that never ends never stops a workflow.
        endings.retain(|ending| {
            !matches!(ending, Ending::Done | Ending::WithIssue | Ending::Limit { .. })
        });
        if matches!(role, Role::Implementer | Role::Builder) {
            endings.extend([Ending::Done, Ending::Done]);
        }
    }
    let ending = *chance.pick(&endings);
    let mut act = Act::ending(ending);
    if matches!(role, Role::Implementer | Role::Builder) {
        act.effort = *chance.pick(&[Effort::Good, Effort::Good, Effort::Broken, Effort::Nothing]);
        if is_hopeless {
            act.effort = *chance.pick(&[Effort::Broken, Effort::Nothing]);
        }
        act.branching = match chance.below(10) {
            0 => Branching::Branch,
            1 => Branching::Detached,
            _ => Branching::Here,
        };
        act.committing = match chance.below(5) {
            0 | 1 => Committing::Nothing,
            2 => Committing::Everything,
            _ => Committing::OwnFile,
        };
        act.spoils = chance.percent(10);
    }
    act
}
