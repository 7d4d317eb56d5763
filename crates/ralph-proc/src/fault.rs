//! A fault point for tests: Ralph dies right after a durable write of their choice.
//!
//! `RALPH_CRASH_AFTER_WRITE=N` makes a debug build kill itself with SIGKILL after its Nth durable write: a file that was
//! replaced, made, moved or removed, an entry of the journal that is read back, a ref that was moved. Raising N until the
//! process lives to its end visits every instant at which a crash can find the files in another state. Runs do not
//! inherit the fault, and release builds do not have it.

/// Notes that a write is durable now, and dies if it is the one that was asked for.
pub fn after_write() {
    #[cfg(debug_assertions)]
    armed::count();
}

#[cfg(debug_assertions)]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use rustix::process::{Signal, getpid, kill_process};

    const VARIABLE: &str = "RALPH_CRASH_AFTER_WRITE";

    pub(super) fn count() {
        static FATAL: OnceLock<Option<u64>> = OnceLock::new();
        static WRITES: AtomicU64 = AtomicU64::new(0);
        let Some(fatal) = FATAL.get_or_init(asked) else { return };
        if WRITES.fetch_add(1, Ordering::SeqCst) + 1 == *fatal {
            // Nothing of this process may run on: whatever it would do next is what the crash prevents.
            while kill_process(getpid(), Signal::KILL).is_ok() {}
        }
    }

    fn asked() -> Option<u64> {
        if std::env::var_os("RALPH_RUN_ID").is_some() {
            return None;
        }
        std::env::var(VARIABLE).ok()?.parse().ok()
    }
}
