//! Tests that hang are ended.

use std::thread;

use support::child;
use support::deadline::deadline;

#[test]
fn hanging_test_ends_after_the_scaled_time_limit() {
    if child::variant().is_some() {
        let _running = deadline();
        loop {
            thread::park();
        }
    }
    let scaled = [("STILLPOINT_TEST_TIME_FACTOR", "0.001")];
    let output = child::ended(hanging_test_ends_after_the_scaled_time_limit, "hang", &scaled);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(101) && said.contains("has not ended after 180ms"), "{said}");
}
