//! Tests that need a process of their own: they run themselves again, in a child that runs nothing else.

use std::env;
use std::process::Command;

const VARIANT: &str = "STILLPOINT_TEST_CHILD";

/// What the parent asked for, in a child; nothing in the parent.
pub fn variant() -> Option<String> {
    env::var(VARIANT).ok()
}

/// Runs `test` in a child of which [`variant`] is `variant`, with `STILLPOINT_FENCE` set to `fence` or not set.
pub fn run(test: &str, variant: &str, fence: Option<&str>) {
    stderr(test, variant, fence);
}

/// [`run`]; what the child wrote to its standard error.
pub fn stderr(test: &str, variant: &str, fence: Option<&str>) -> String {
    let fence = fence.map(|fence| ("STILLPOINT_FENCE", fence));
    with_environment(test, variant, fence.as_slice())
}

/// [`run`], with these variables set; what the child wrote to its standard error.
pub fn with_environment(test: &str, variant: &str, environment: &[(&str, &str)]) -> String {
    let mut child = Command::new(env::current_exe().expect("the test knows its file"));
    child.args(["--exact", test, "--include-ignored", "--nocapture", "--test-threads=1"]);
    child.env(VARIANT, variant).env_remove("STILLPOINT_FENCE").envs(environment.iter().copied());
    let output = child.output().expect("the child starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let passed = output.status.success() && out.contains("1 passed");
    assert!(passed, "{test}, child for {variant:?}: {}\n{out}\n{err}", output.status);
    err.into_owned()
}
