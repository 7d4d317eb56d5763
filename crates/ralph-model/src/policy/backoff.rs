//! How long to wait after real failures: twice as long each time, a minute at most.

use std::time::Duration;

const LONGEST_SECONDS: u64 = 60;

/// Returns the wait after so many failures in a row, `None` after none.
///
/// There is no jitter: one home has one workflow at a time, so nobody else retries in step with it.
pub fn backoff(failures_in_a_row: u32) -> Option<Duration> {
    let seconds = match failures_in_a_row {
        0 => return None,
        1..=5 => 1 << failures_in_a_row,
        _ => LONGEST_SECONDS,
    };
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_a_minute() {
        let waits: Vec<_> =
            (0..9).map(|failures| backoff(failures).map(|wait| wait.as_secs())).collect();
        assert_eq!(
            waits,
            [None, Some(2), Some(4), Some(8), Some(16), Some(32), Some(60), Some(60), Some(60)]
        );
    }

    #[test]
    fn no_number_of_failures_overflows() {
        assert_eq!(backoff(u32::MAX), Some(Duration::from_mins(1)));
    }
}
