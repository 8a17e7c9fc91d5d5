//! `bench percpu`: the cost of an operation on per-CPU data, beside alternatives.
//!
//! Every system runs the same loop: in one thread, in one thread a CPU, and in 16 threads a CPU, which the scheduler migrates. `op_ns`
//! is the CPU time of an operation: with more threads than CPUs the wall time would measure the scheduler.

mod systems;

use std::thread;
use std::time::Duration;

use crate::bench::read::turn::Turn;
use crate::harness::{Budget, Config, Metric, Progress, Recorder, Report, Schedule, crew, pin};
use systems::System;

/// CPU time of an operation.
const OP: Metric = Metric::nanoseconds("op_ns");

/// How many threads there are, and whether each has a CPU of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    pub(crate) threads: usize,
    pub(crate) per_cpu: usize,
}

impl Crowd {
    /// One thread, one a CPU, 16 a CPU.
    pub(crate) fn all(cpus: usize) -> Vec<Self> {
        let mut all = vec![Self { threads: 1, per_cpu: 1 }];
        if cpus > 1 {
            all.push(Self { threads: cpus, per_cpu: 1 });
        }
        all.push(Self { threads: 16 * cpus, per_cpu: 16 });
        all
    }

    /// Runs `run` in each thread; the mean of what they return.
    pub(crate) fn measure(
        self,
        cpus: &[usize],
        slice: Duration,
        run: impl Fn(&Turn) -> f64 + Sync,
    ) -> anyhow::Result<f64> {
        let turn = Turn::default();
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for &cpu in cpus.iter().cycle().take(self.threads) {
                let (turn, run) = (&turn, &run);
                let body = move || {
                    let pinned = if self.per_cpu == 1 { pin::to(cpu) } else { Ok(()) };
                    let op = run(turn);
                    pinned.map(|()| op)
                };
                threads.push(crew::spawn(scope, body).inspect_err(|_| turn.end())?);
            }
            turn.last_for(slice, self.threads);
            let mut sum = 0.0;
            for thread in threads {
                sum += crew::join(thread)??;
            }
            Ok(sum / self.threads as f64)
        })
    }
}

fn config(op: &'static str, crowd: Crowd) -> Config {
    let Crowd { threads, per_cpu } = crowd;
    Config::new([("op", op.into()), ("threads", threads.into()), ("threads_per_cpu", per_cpu.into())])
}

/// Runs the bench.
///
/// # Errors
///
/// Fails if threads cannot be started or bound to the CPUs of this process.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let cpus = pin::allowed()?;
    let crowds = Crowd::all(cpus.len());
    let ops = systems::all(cpus.len());
    let measured: usize = ops.iter().map(|(_, systems)| systems.len() * crowds.len()).sum();
    let (rounds, slice) = budget.split(measured as f64, Duration::from_millis(40));
    let progress =
        Progress::new("bench percpu", measured * rounds, slice * u32::try_from(measured * rounds)?);
    let mut recorder = Recorder::default();
    for (op, systems) in &ops {
        for &crowd in &crowds {
            systems.iter().for_each(|system| recorder.announce(system.name(), &OP, &config(op, crowd)));
        }
        let schedule = Schedule { rounds, cells: crowds.len(), systems: systems.len() };
        for step in schedule.steps() {
            let (crowd, system) = (crowds[step.cell], &systems[step.system]);
            let config = config(op, crowd);
            progress.show(|| format!("round {}/{rounds}: {}, {config}", step.round + 1, system.name()));
            let op = measure(system.as_ref(), crowd, &cpus, slice)?;
            recorder.record(step.round, system.name(), &OP, &config, op);
            progress.advance();
        }
    }
    drop(progress);
    Ok(Report::new("percpu", &recorder, Vec::new()))
}

fn measure(system: &dyn System, crowd: Crowd, cpus: &[usize], slice: Duration) -> anyhow::Result<f64> {
    crowd.measure(cpus, slice, |turn| system.run(turn))
}
