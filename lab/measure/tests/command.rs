//! The command with all benches, as a user runs it.
#![cfg(feature = "bench")]

use std::collections::BTreeSet;
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

#[test]
fn bench_writes_rows_and_lists_skipped_systems() {
    // `map` takes minutes without optimization: `ci/lab.sh` runs it.
    for bench in ["read", "sync", "fence", "qsbr", "srcu", "arc", "percpu", "callback", "lock", "programs"] {
        let json = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{bench}.json"));
        let path = json.to_str().expect("the path is text");
        let quick: &[&str] = match bench {
            "lock" => &["--quick"],
            "programs" => &["--quick", "--cells", "bank"],
            _ => &[],
        };
        stillpoint(&[&["bench", bench, "--seconds", "0.5", "--rounds", "1", "--json", path], quick].concat());
        let text = std::fs::read_to_string(&json).expect("the report is there");
        let report: Value = serde_json::from_str(&text).expect("the report is JSON");
        assert_eq!(report["bench"], bench);
        assert!(report["cpus"]["median"].as_f64().is_some_and(|given| given > 0.0), "{text}");
        let rows = report["rows"].as_array().expect("rows");
        assert!(rows.iter().any(|row| row["system"] == "stillpoint"), "{text}");
        for part in ["ratios", "skipped"] {
            assert!(report[part].is_array(), "{text}");
        }
        assert_eq!(report["series"].is_array(), ["callback", "sync"].contains(&bench), "{text}");

        let keys: BTreeSet<&str> = rows
            .iter()
            .flat_map(|row| row["config"].as_object().expect("a configuration").keys())
            .map(String::as_str)
            .collect();
        let expected = match bench {
            "read" => "nesting threads",
            "sync" => "call callers idle_threads profile readers section_us",
            "percpu" => "op threads threads_per_cpu",
            "callback" => {
                "most_values ms node our_limit_bytes payload profile readers retired stall_ms threads"
            }
            "qsbr" => "asked_per_s profile readers threads",
            "srcu" => "guards profile threads",
            "arc" => "by held idle_threads strategy threads",
            "lock" => "cs_ns ncs_ns profile threads",
            "programs" => "busy profile program threads",
            _ => "backend callers running",
        };
        assert!(keys.iter().copied().eq(expected.split(' ')), "{keys:?}");
    }
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
    let (holds, verdicts, errors) =
        one_cpu(&["claims", "--only", "percpu", "--seconds", "0.3", "--out-dir", directory]);
    assert!(!holds && errors.contains("0 hold here, 0 do not hold here"), "{errors}");
    let why = "cannot be checked here: threads got 1.00 (1.00..1.00) of 1 CPUs";
    assert!(verdicts.contains(why), "{verdicts}");
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

#[test]
fn report_keeps_older_results_and_page_is_self_contained() {
    let into = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("report");
    let _ = std::fs::remove_dir_all(&into);
    let directory = into.to_str().expect("the path is text");
    let report = |parts: &str| {
        stillpoint(&["report", "--only", parts, "--seconds", "0.3", "--out-dir", directory]);
        let text = std::fs::read_to_string(into.join("report.json")).expect("the results are there");
        serde_json::from_str::<Value>(&text).expect("the results are JSON")
    };
    let benches = |document: &Value| -> Vec<String> {
        let results = document["results"].as_array().expect("results").iter();
        results.map(|result| result["bench"].as_str().expect("a name").to_owned()).collect()
    };
    let first = report("fence,read");
    assert_eq!(benches(&first), ["fence", "read"]);
    let second = report("read,srcu");
    assert_eq!(benches(&second), ["fence", "read", "srcu"]);
    assert_eq!(first["results"][0], second["results"][0]);
    assert!(second["machine"].as_array().is_some_and(|facts| !facts.is_empty()));

    // Each part has its run and its commit, and what is of two runs says so.
    let run = |part: usize| second["results"][part]["origin"]["run"].as_str().expect("a run");
    assert!(run(0) != run(1) && run(1) == run(2), "{second}");
    assert!(second["results"][0]["origin"]["commit"].is_string());
    let summary = std::fs::read_to_string(into.join("summary.md")).expect("the summary is there");
    assert!(summary.contains("not to be published"), "{summary}");
    let json = into.join("report.json");
    let output = Command::new(STILLPOINT)
        .args(["report", "--one-run", "--from"])
        .arg(&json)
        .arg("--out-dir")
        .arg(into.join("two"))
        .output()
        .expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("is not to be published"), "{errors}");

    let page = std::fs::read_to_string(into.join("report.html")).expect("the page is there");
    for part in ["This machine", "Enter, load, exit", "</svg>", "prefers-color-scheme"] {
        assert!(page.contains(part), "{part} is missing");
    }
    for foreign in ["<script", "http://", "https://", "<link", "url("] {
        assert!(!page.contains(foreign), "{foreign} is in the page");
    }
    assert!(summary.contains("| RCU read (enter, load, exit) |"), "{summary}");

    let json = json.to_str().expect("the path is text");
    let (drawn, again) = (into.join("again"), into.join("again/report.html"));
    stillpoint(&["report", "--from", json, "--out-dir", drawn.to_str().expect("the path is text")]);
    assert!(std::fs::read_to_string(again).expect("the page is there") == page);
    let compared = stdout(&["compare", json, json]);
    assert!(compared.contains("stillpoint: no difference seen in"), "{compared}");
}
