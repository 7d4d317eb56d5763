//! Former defects of Ralph, each at its original place. The simulation reintroduces one and has to find it (`cargo
//! xtask simulate --defect all`). Outside tests there are none: the checks compile to nothing.

/// A defect that can be reintroduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Defect {
    /// The result of a run that had ended when Ralph was killed is ignored, and the run repeated.
    RepeatsFinishedRuns = 1,
    /// Uncommitted leftovers of an earlier run of a spec are attributed to the person.
    TakesLeftoversForThePersons,
    /// Pauses between rejected attempts do not grow.
    NeverBacksOff,
    /// Alternating kinds of trouble never reach a limit.
    NeverGivesUp,
    /// Files of private state are replaced without syncing.
    DoesNotSync,
    /// Accepted work lands although the person has withdrawn its item meanwhile.
    LandsWhatWasWithdrawn,
}

#[cfg(not(test))]
pub(crate) const fn is_put_back(_: Defect) -> bool {
    false
}

#[cfg(test)]
pub(crate) use self::put_back::{is_put_back, put_back};

#[cfg(test)]
mod put_back {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::Defect;

    static PUT_BACK: AtomicU8 = AtomicU8::new(0);

    impl Defect {
        /// All of them, by their names in xtask.
        pub(crate) const ALL: [(&str, Defect); 6] = [
            ("repeats-finished-runs", Defect::RepeatsFinishedRuns),
            ("takes-leftovers-for-the-persons", Defect::TakesLeftoversForThePersons),
            ("never-backs-off", Defect::NeverBacksOff),
            ("never-gives-up", Defect::NeverGivesUp),
            ("does-not-sync", Defect::DoesNotSync),
            ("lands-what-was-withdrawn", Defect::LandsWhatWasWithdrawn),
        ];
    }

    pub(crate) fn is_put_back(defect: Defect) -> bool {
        PUT_BACK.load(Ordering::Relaxed) == defect as u8
    }

    /// Reintroduces a defect for all threads of this process, or removes it again.
    pub(crate) fn put_back(defect: Option<Defect>) {
        PUT_BACK.store(defect.map_or(0, |defect| defect as u8), Ordering::Relaxed);
    }
}
