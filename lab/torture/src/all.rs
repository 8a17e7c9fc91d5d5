//! `torture all`: each torture in a process of its own, as backends are chosen once in each process.

use std::env;
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::common::{Common, NOT_CONCLUSIVE, not_conclusive};

const FENCE: &str = "STILLPOINT_FENCE";
const PERCPU: &str = "STILLPOINT_PERCPU";

/// The tortures, and the backends that each runs on.
const RUNS: [(&str, &str, &str); 13] = [
    ("rcu", FENCE, "membarrier"),
    ("rcu", FENCE, "seqcst"),
    ("qsbr", FENCE, "membarrier"),
    ("srcu", FENCE, "membarrier"),
    ("srcu", FENCE, "seqcst"),
    ("hazard", FENCE, "membarrier"),
    ("hazard", FENCE, "seqcst"),
    ("percpu", PERCPU, "rseq"),
    ("percpu", PERCPU, "atomic"),
    ("lock", FENCE, "membarrier"),
    ("rwlock", FENCE, "membarrier"),
    ("rwlock", FENCE, "seqcst"),
    ("map", FENCE, "membarrier"),
];

/// Runs all of them, each for its share of the time. A backend that the environment chooses is the only one. Returns
/// what passed.
pub(super) fn run(args: &Common, seed: u64) -> anyhow::Result<String> {
    let program = env::current_exe().context("cannot find this program to start it again")?;
    let mut runs = RUNS
        .map(|(part, variable, backend)| {
            let backend = match variable {
                _ if !cfg!(stillpoint_portable) => backend,
                FENCE => "seqcst",
                _ => "atomic",
            };
            (part, variable, env::var(variable).unwrap_or_else(|_| backend.to_owned()))
        })
        .to_vec();
    runs.dedup();
    let seconds = args.seconds / runs.len() as f64;
    let mut too_little = Vec::new();
    for (part, variable, backend) in &runs {
        println!("-- {part}, {variable}={backend}");
        let mut command = Command::new(&program);
        // As this process was called, up to `all`.
        command.args(env::args().skip(1).take_while(|argument| argument != "all"));
        command.args([part, "--seconds", &seconds.to_string(), "--seed", &seed.to_string()]);
        let status = command.env(variable, backend).status().context("cannot start this program again")?;
        let name = format!("{part} with {variable}={backend}");
        if status.code() == Some(NOT_CONCLUSIVE) {
            too_little.push(name);
        } else {
            ensure!(status.success(), "{name}: {status}");
        }
    }
    if !too_little.is_empty() {
        not_conclusive("all", &too_little.join(", "));
    }
    Ok(format!("{} runs of {seconds:.1} s", runs.len()))
}
