//! A stack whose nodes are retired inside read-side sections: what an operation costs, and how much memory it takes.
//!
//! Threads push and pop inside a section ([`treiber`]), and pop retires the node there, as most programs do that link nodes by
//! hand. Each measurement has a process of its own (see [`crate::harness::worker`]), as the most memory that a process has had
//! is known of the whole process only.

mod treiber;
mod work;

use std::time::Duration;

use crate::harness::worker::Worker;
use crate::harness::{self, Better, Budget, Config, Metric, Plan, Recorder};
use work::{Answer, Load, Payload};
pub(crate) use work::{Args, serve};

/// Time of a push and a pop, all threads together, until everything has been freed.
const OPERATION: Metric = Metric::nanoseconds("op_ns");
/// The most memory that the process had.
const MEMORY: Metric = Metric::bytes("rss_bytes");
/// 1 if the system was stopped as it took more memory than it may ([`work::most_memory`]); missing if it was not.
const STOPPED: Metric = Metric::count("stopped", Better::Lower);

const THREADS: [usize; 4] = [1, 2, 4, 16];

/// Records what the operations cost and take.
pub(super) fn measure(budget: Budget, recorder: &mut Recorder) -> anyhow::Result<()> {
    let mut systems = work::systems();
    let cells: Vec<_> =
        Payload::ALL.into_iter().flat_map(|payload| THREADS.map(|threads| (threads, payload))).collect();
    let timing = budget.split((cells.len() * systems.len()) as f64, Duration::from_millis(250));
    let plan = Plan {
        title: "bench callback: stack",
        timing,
        cells: &cells,
        systems: &mut systems,
        metrics: [&OPERATION, &MEMORY, &STOPPED],
    };
    let config = |&(threads, payload): &(usize, Payload), _: &_| {
        Config::new([
            ("threads", threads.into()),
            ("node", payload.name().into()),
            ("retired", "inside sections".into()),
            ("ms", (timing.1.as_millis() as u64).into()),
        ])
    };
    harness::run(plan, recorder, config, |&(threads, payload), system, time| {
        let mut worker = Worker::start(&["stack", system.name], None)?;
        let answer: Answer = worker.measure(&Load { threads, payload, time })?;
        let stopped = if answer.stopped { 1.0 } else { f64::NAN };
        Ok([answer.operation_ns, answer.peak_bytes as f64, stopped])
    })
}
