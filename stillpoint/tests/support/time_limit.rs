//! How long a step of a test may take before it counts as hanging, and how often a loop repeats.

use std::env;
use std::sync::LazyLock;
use std::time::Duration;

const FACTOR: &str = "STILLPOINT_TEST_TIME_FACTOR";

/// A factor from the environment, for slow machines: how much longer steps may take.
static TIME_FACTOR: LazyLock<f64> = LazyLock::new(|| {
    let Ok(text) = env::var(FACTOR) else { return 1.0 };
    let factor = text.parse().ok().filter(|factor| (0.001..1e6).contains(factor));
    factor.unwrap_or_else(|| panic!("{FACTOR} is {text:?}: it must be a number from 0.001 to 1e6"))
});

/// Three minutes, times that factor: the longest tests take some seconds, and many times that beside other load.
pub static TIME_LIMIT: LazyLock<Duration> = LazyLock::new(|| Duration::from_secs(180).mul_f64(*TIME_FACTOR));

/// Returns the repetitions of a loop that repeats `count` times: fewer, by that factor, on slow machines.
pub fn repetitions(count: usize) -> usize {
    ((count as f64 / TIME_FACTOR.max(1.0)) as usize).max(1)
}
