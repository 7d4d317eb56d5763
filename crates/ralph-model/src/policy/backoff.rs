//! The wait after real failures: doubled each time, up to a maximum.

use std::time::Duration;

/// Returns the wait after consecutive failures; `None` after none or if the maximum is zero.
///
/// There is no jitter: one home has one workflow at a time, so nothing else retries in step with it.
pub fn backoff(failures_in_a_row: u32, longest: Duration) -> Option<Duration> {
    let seconds = match failures_in_a_row {
        0 => 0,
        failures => 1_u64.checked_shl(failures).unwrap_or(u64::MAX),
    };
    Some(Duration::from_secs(seconds).min(longest)).filter(|wait| !wait.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    #[test]
    fn the_wait_doubles_up_to_the_longest() {
        let waits: Vec<_> =
            (0..9).map(|failures| backoff(failures, MINUTE).map(|wait| wait.as_secs())).collect();
        assert_eq!(
            waits,
            [None, Some(2), Some(4), Some(8), Some(16), Some(32), Some(60), Some(60), Some(60)]
        );
    }

    #[test]
    fn no_number_of_failures_overflows() {
        assert_eq!(backoff(u32::MAX, MINUTE), Some(MINUTE));
        assert_eq!(backoff(63, Duration::MAX), Some(Duration::from_secs(1 << 63)));
    }

    #[test]
    fn a_longest_wait_of_nothing_is_no_wait() {
        assert_eq!(backoff(3, Duration::ZERO), None);
    }
}
