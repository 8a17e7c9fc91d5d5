//! Tests that need a process of their own: they run again, alone, in a child process.

use std::env;
use std::process::Command;

const VARIANT: &str = "STILLPOINT_TEST_CHILD";

/// Returns the variant that the parent has requested, or `None` in the parent.
pub fn variant() -> Option<String> {
    env::var(VARIANT).ok()
}

/// Runs `test` in a child in which [`variant`] returns `variant`, with `STILLPOINT_FENCE` set to `fence` or unset.
pub fn run(test: &str, variant: &str, fence: Option<&str>) {
    stderr(test, variant, fence);
}

/// [`run`], and returns the standard error of the child.
pub fn stderr(test: &str, variant: &str, fence: Option<&str>) -> String {
    let fence = fence.map(|fence| ("STILLPOINT_FENCE", fence));
    with_environment(test, variant, fence.as_slice())
}

/// [`run`] with these variables set, and returns the standard error of the child.
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
