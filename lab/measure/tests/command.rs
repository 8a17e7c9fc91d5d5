//! The command, as a user runs it. `ci/lab.sh` runs all benches.
#![cfg(feature = "bench")]

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

const STILLPOINT: &str = env!("CARGO_BIN_EXE_stillpoint");

fn stillpoint(arguments: &[&str]) -> Output {
    let output = Command::new(STILLPOINT).args(arguments).output().expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "stillpoint {arguments:?} failed: {errors}");
    output
}

fn stdout(arguments: &[&str]) -> String {
    String::from_utf8(stillpoint(arguments).stdout).expect("the output is text")
}

/// The value that `probe` prints for `name`.
fn probed<'a>(probe: &'a str, name: &str) -> &'a str {
    let line = probe.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.trim()
}

#[test]
fn probe_names_the_chosen_fence() {
    let probe = stdout(&["probe"]);
    let fence = probed(&probe, "fence ");
    assert!(["membarrier", "seqcst"].iter().any(|name| fence.starts_with(name)), "{probe}");
}

#[test]
fn denied_syscall_fails_with_errno_and_library_falls_back() {
    for (errno, message) in [("ENOSYS", "(os error 38)"), ("EPERM", "(os error 1)")] {
        let probe =
            stdout(&["seccomp-deny", "--errno", errno, "membarrier", "rseq", "--", STILLPOINT, "probe"]);
        assert!(probed(&probe, "membarrier ").ends_with(message), "{probe}");
        assert!(probed(&probe, "rseq ").ends_with(message), "{probe}");
        assert!(probed(&probe, "fence ").starts_with("seqcst"), "{probe}");
    }
}

#[test]
fn seccomp_deny_passes_on_arguments_and_exit_status() {
    let output = Command::new(STILLPOINT)
        .args(["seccomp-deny", "membarrier", "--", "sh", "-c", "echo \"$1\"; exit 7", "sh", "--json"])
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stdout, b"--json\n");
}

/// As in a container with one CPU.
#[test]
fn one_cpu_is_too_few_to_publish_or_to_judge() {
    let one_cpu = |arguments: &[&str]| {
        let run = || {
            // The command inherits it.
            harness::pin::to(harness::pin::allowed().expect("CPUs")[0]).expect("it may use the CPU");
            Command::new(STILLPOINT).args(arguments).output().expect("the program starts")
        };
        let output = std::thread::scope(|scope| scope.spawn(run).join().expect("no panic"));
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (output.status.success(), text(output.stdout), text(output.stderr))
    };
    let into = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("one-cpu");
    let directory = into.to_str().expect("the path is text");
    // Nothing is measured of what cannot be judged.
    let (holds, verdicts, errors) = one_cpu(&["claims", "--only", "percpu", "--out-dir", directory]);
    assert!(!holds && errors.contains("0 hold here, 0 do not hold here"), "{errors}");
    assert!(verdicts.contains("cannot be checked here: threads get 1.00 CPUs"), "{verdicts}");
    let (measured, _, errors) =
        one_cpu(&["report", "--only", "percpu", "--seconds", "0.3", "--out-dir", directory]);
    assert!(measured, "{errors}");
    let json = into.join("report.json");
    let json = json.to_str().expect("the path is text");
    let (recorded, _, errors) = one_cpu(&["report", "--one-run", "--from", json, "--out-dir", directory]);
    assert!(!recorded && errors.contains("not to be published** (percpu: threads got 1.00"), "{errors}");
}

#[test]
fn reads_without_membarrier_are_measured_on_the_fallback() {
    let into = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("denied");
    let directory = into.to_str().expect("the path is text");
    stillpoint(&["report", "--only", "read-no-membarrier", "--seconds", "0.3", "--out-dir", directory]);
    let text = std::fs::read_to_string(into.join("report.json")).expect("the results are there");
    let report: Value = serde_json::from_str(&text).expect("the results are JSON");
    assert_eq!(report["results"][0]["bench"], "read-no-membarrier");
    assert_eq!(report["results"][0]["machine"]["fence"], "seqcst");
}
