//! The command as a user runs it.

use std::process::Command;

#[test]
fn torture_prints_one_verdict() {
    let flood: &[&str] = &["flood", "--count", "300000", "--limit-mib", "4", "--stall-seconds", "0.2"];
    for arguments in [
        &["rcu", "--seconds", "1"],
        &["percpu", "--seconds", "1"],
        &["lock", "--seconds", "1"],
        &["rwlock", "--seconds", "1"],
        &["map", "--seconds", "1"],
        flood,
    ] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_torture")).args(arguments).output().expect("the program starts");
        let shown =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        let name = arguments[0];
        // On a busy machine a run may be too short to show anything.
        let verdict = if output.status.code() == Some(77) { "NOT CONCLUSIVE" } else { "passed" };
        assert_eq!(shown.matches(&format!("torture {name}: {verdict}, ")).count(), 1, "{shown}");
    }
}
