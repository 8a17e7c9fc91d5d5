//! `bench percpu`: the cost of an operation on per-CPU data, beside alternatives.
//!
//! Every system runs the same loop: in one thread, in one thread a CPU, and in 16 threads a CPU, which the scheduler migrates. `op_ns`
//! is the CPU time of an operation: with more threads than CPUs the wall time would measure the scheduler.

mod systems;

use std::time::Duration;

use crate::harness::timed_loop::Threads;
use crate::harness::{self, Budget, Config, Metric, Plan, Recorder, Report, System, pin};

/// CPU time of an operation.
const OP: Metric = Metric::nanoseconds("op_ns");

/// Runs the bench.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let cpus = pin::allowed()?.len();
    let cells = Threads::all(cpus);
    let ops = systems::all(cpus);
    let measured: usize = ops.iter().map(|(_, systems)| systems.len() * cells.len()).sum();
    let timing = budget.split(measured as f64, Duration::from_millis(40));
    let mut recorder = Recorder::default();
    for (op, systems) in ops {
        let systems = systems.into_iter();
        let mut systems: Vec<_> = systems.map(|measure| System { name: measure.name(), measure }).collect();
        let title = &format!("bench percpu: {op}");
        let plan = Plan { title, timing, cells: &cells, systems: &mut systems, metrics: [&OP] };
        let config = |&Threads { count, per_cpu }: &Threads, _: &_| {
            Config::new([("op", op.into()), ("threads", count.into()), ("threads_per_cpu", per_cpu.into())])
        };
        harness::run(plan, &mut recorder, config, |threads, system, slice| {
            let system = system.measure.as_ref();
            Ok([threads.measure(slice, |timed_loop| system.run(timed_loop))?])
        })?;
    }
    Ok(Report::new("percpu", &recorder, Vec::new()))
}
