//! `torture all`: each torture in a process of its own, as backends are chosen once in each process.

use std::env;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use super::common::{Common, NOT_CONCLUSIVE, TooLittle};

/// The tortures, and the backends that each runs on: those of the fence, or of per-CPU data.
const PARTS: [(&str, &str, &[&str]); 5] = [
    ("rcu", FENCE, &FENCES),
    ("qsbr", FENCE, &["membarrier"]),
    ("srcu", FENCE, &FENCES),
    ("percpu", "STILLPOINT_PERCPU", &["rseq", "atomic"]),
    ("lock", FENCE, &["membarrier"]),
];

const FENCE: &str = "STILLPOINT_FENCE";
const FENCES: [&str; 3] = ["membarrier", "signal", "seqcst"];

/// Runs all of them, each for its share of the time. A backend that the environment chooses is the only one. Returns what passed.
pub(super) fn run(args: &Common, seed: u64) -> anyhow::Result<String> {
    let program = env::current_exe().context("cannot find this program to start it again")?;
    let runs: Vec<_> = PARTS
        .iter()
        .flat_map(|&(part, variable, backends)| {
            let chosen = env::var(variable).ok();
            let backends = match chosen {
                Some(chosen) => vec![chosen],
                None => backends.iter().map(|&backend| backend.to_owned()).collect(),
            };
            backends.into_iter().map(move |backend| (part, variable, backend))
        })
        .collect();
    let seconds = args.seconds / runs.len() as f64;
    let mut too_little = Vec::new();
    for (part, variable, backend) in &runs {
        println!("-- {part}, {variable}={backend}");
        let mut command = Command::new(&program);
        // As this process was called, whatever comes before `all`.
        command.args(env::args().skip(1).take_while(|argument| argument != "all"));
        command.args([part, "--seconds", &seconds.to_string(), "--seed", &seed.to_string()]);
        let status = command.env(variable, backend).status().context("cannot start this program again")?;
        if status.code() == Some(NOT_CONCLUSIVE) {
            too_little.push(format!("{part} with {variable}={backend}"));
            continue;
        }
        ensure!(status.success(), "{part} with {variable}={backend}: {status}");
    }
    if !too_little.is_empty() {
        bail!(TooLittle(too_little.join(", ")));
    }
    Ok(format!("{} runs of {seconds:.1} s", runs.len()))
}
