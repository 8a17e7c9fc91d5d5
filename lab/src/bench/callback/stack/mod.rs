//! A stack whose nodes are retired inside read-side sections: what an operation costs, and how much memory it takes.
//!
//! Threads push and pop inside a section ([`treiber`]), and pop retires the node there, as most programs do that link nodes by
//! hand. Each measurement has a process of its own (see [`crate::harness::lane`]), as the most memory that a process has had
//! is known of the whole process only.

mod systems;
mod treiber;
mod work;

use std::time::Duration;

use crate::harness::lane::Lane;
use crate::harness::{Better, Budget, Config, Metric, Progress, Recorder, Schedule};
use work::{Answer, Load, Payload};
pub(crate) use work::{Args, serve};

/// Time of a push and a pop, all threads together, until everything has been freed.
const OPERATION: Metric = Metric::nanoseconds("op_ns");
/// The most memory that the process had.
const MEMORY: Metric = Metric::bytes("rss_bytes");
/// 1 if the system was stopped as it took more memory than it may ([`work::most_memory`]); missing if it was not.
const STOPPED: Metric = Metric::count("stopped", Better::Lower);

const THREADS: [usize; 4] = [1, 2, 4, 16];

fn config(threads: usize, payload: Payload, slice: Duration) -> Config {
    Config::new([
        ("threads", threads.into()),
        ("node", payload.name().into()),
        ("retired", "inside sections".into()),
        ("ms", (slice.as_millis() as u64).into()),
    ])
}

/// Records what the operations cost and take.
///
/// # Errors
///
/// Fails if a process does, or cannot be started.
pub(super) fn measure(budget: Budget, recorder: &mut Recorder) -> anyhow::Result<()> {
    let systems = systems::all();
    let cells: Vec<_> =
        Payload::ALL.into_iter().flat_map(|payload| THREADS.map(|threads| (threads, payload))).collect();
    let (rounds, slice) = budget.split((cells.len() * systems.len()) as f64, Duration::from_millis(250));
    let schedule = Schedule { rounds, cells: cells.len(), systems: systems.len() };
    let progress = Progress::new("bench callback: stack", schedule.len(), slice * schedule.len() as u32);
    for &(threads, payload) in &cells {
        for metric in [&OPERATION, &MEMORY, &STOPPED] {
            systems
                .iter()
                .for_each(|system| recorder.announce(system.name, metric, &config(threads, payload, slice)));
        }
    }
    for step in schedule.steps() {
        let ((threads, payload), system) = (cells[step.cell], &systems[step.system]);
        let config = config(threads, payload, slice);
        progress.show(|| format!("round {}/{rounds}: {}, {config}", step.round + 1, system.name));
        let mut lane = Lane::start(&["stack", system.name], None)?;
        let answer: Answer = lane.measure(&Load { threads, payload, time: slice })?;
        let mut record = |metric, value| recorder.record(step.round, system.name, metric, &config, value);
        record(&OPERATION, answer.operation_ns);
        record(&MEMORY, answer.peak_bytes as f64);
        if answer.stopped {
            record(&STOPPED, 1.0);
        }
        progress.advance();
    }
    Ok(())
}
