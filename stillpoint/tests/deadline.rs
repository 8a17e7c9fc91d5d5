//! Tests that hang are ended.
#![cfg(not(loom))]

#[path = "support/deadline.rs"]
mod deadline;

use std::env;
use std::process::Command;
use std::thread;

use deadline::deadline;

#[test]
fn hanging_test_ends_after_the_scaled_time_limit() {
    const HANG: &str = "STILLPOINT_TEST_CHILD";
    if env::var_os(HANG).is_some_and(|value| value == "hang") {
        let _running = deadline();
        loop {
            thread::park();
        }
    }
    let mut child = Command::new(env::current_exe().expect("the test knows its file"));
    let output = child.args(["--nocapture", "--test-threads=1"]).env(HANG, "hang");
    let output = output.env("STILLPOINT_TEST_TIME_FACTOR", "0.001").output().expect("the child starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(101) && said.contains("has not ended after 60ms"), "{said}");
}
