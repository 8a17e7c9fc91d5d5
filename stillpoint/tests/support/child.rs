//! Tests that need a process of their own: they run again, alone, in a child process. A test passes itself, and is
//! found by the path of its function, or of one inside, which is called `here`.

use std::any::type_name;
use std::env;
use std::process::{Command, Output};

const VARIANT: &str = "STILLPOINT_TEST_CHILD";

/// Returns the variant that the parent has requested, or `None` in the parent.
pub fn variant() -> Option<String> {
    env::var(VARIANT).ok()
}

/// Returns `true` in a process that runs only `test`. The parent runs that process, and returns `false`.
pub fn is_alone<T: Fn()>(test: T) -> bool {
    let is_child = variant().is_some();
    if !is_child {
        run(test, "alone", None);
    }
    is_child
}

/// Runs `test` in a child in which [`variant`] returns `variant`, with `STILLPOINT_FENCE` set to `fence` or unset.
pub fn run<T: Fn()>(test: T, variant: &str, fence: Option<&str>) {
    stderr(test, variant, fence);
}

/// [`run`], and returns the standard error of the child.
pub fn stderr<T: Fn()>(test: T, variant: &str, fence: Option<&str>) -> String {
    let fence = fence.map(|fence| ("STILLPOINT_FENCE", fence));
    with_environment(test, variant, fence.as_slice())
}

/// [`run`] with these variables set, and returns the standard error of the child.
pub fn with_environment<T: Fn()>(test: T, variant: &str, environment: &[(&str, &str)]) -> String {
    let output = ended(test, variant, environment);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let passed = output.status.success() && out.contains("1 passed");
    assert!(passed, "{}, child for {variant:?}: {}\n{out}\n{err}", type_name::<T>(), output.status);
    err.into_owned()
}

/// Runs `test` as [`with_environment`] does, and returns how the child has ended, which may be in any way.
pub fn ended<T: Fn()>(_: T, variant: &str, environment: &[(&str, &str)]) -> Output {
    let (_, test) = type_name::<T>().split_once("::").expect("a function of the program");
    let test = test.trim_end_matches("::here");
    let mut child = Command::new(env::current_exe().expect("the test knows its file"));
    child.args(["--exact", test, "--include-ignored", "--nocapture", "--test-threads=1"]);
    child.env(VARIANT, variant).env_remove("STILLPOINT_FENCE").envs(environment.iter().copied());
    child.output().expect("the child starts")
}
