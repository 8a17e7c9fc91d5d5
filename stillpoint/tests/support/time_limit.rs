//! How long a step of a test may take before it counts as hanging.

use std::env;
use std::sync::LazyLock;
use std::time::Duration;

const FACTOR: &str = "STILLPOINT_TEST_TIME_FACTOR";

/// A minute, times a factor from the environment for slow machines.
pub static TIME_LIMIT: LazyLock<Duration> = LazyLock::new(|| {
    let minute = Duration::from_secs(60);
    let Ok(text) = env::var(FACTOR) else { return minute };
    let factor = text.parse().ok().filter(|factor| (0.001..1e6).contains(factor));
    minute.mul_f64(
        factor.unwrap_or_else(|| panic!("{FACTOR} is {text:?}: it must be a number from 0.001 to 1e6")),
    )
});
