//! `bench fence`: the cost of a process-wide fence for its caller.
//!
//! A process chooses its backend once, so each backend is measured by a worker of its own (see
//! [`harness::worker`]). Another worker calls `membarrier` directly.

use std::hint::black_box;
use std::sync::atomic::{Ordering, compiler_fence};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::thread::{MembarrierCommand, membarrier};
use serde::{Deserialize, Serialize};
use stillpoint::fence;

use harness::controls::{Controls, join_all, spawn_all};
use harness::report::OURS;
use harness::timed_loop::thread_cpu_time;
use harness::worker::{Remote, Worker};
use harness::{Budget, Config, Metric, Plan, Recorder, Report, System, pin};

/// Time of a call, for each caller, and CPU time of the caller: where threads share CPUs, the time depends on whose
/// turn it is.
const HEAVY: Metric = Metric::nanoseconds("heavy_ns");
const HEAVY_CPU: Metric = Metric::nanoseconds("heavy_cpu_ns");
/// Concurrent callers.
const CALLERS: [usize; 3] = [1, 2, 8];

/// Light fences between two checks of the stop flag.
const BATCH: u32 = 1000;

/// The measured fences.
pub const REMOTES: [Remote<Load, Answer>; 3] = [
    Remote { system: OURS, name: "membarrier", backend: Some("membarrier"), measure: measure::<false> },
    Remote { system: OURS, name: "seqcst", backend: Some("seqcst"), measure: measure::<false> },
    Remote {
        system: "membarrier-syscall",
        name: "syscall",
        backend: Some("membarrier"),
        measure: measure::<true>,
    },
];

/// A request to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub struct Load {
    /// Threads that execute light fences without a pause.
    pub running: usize,
    /// Threads that call the heavy fence back to back.
    pub callers: usize,
    pub time: Duration,
}

/// The answer of a worker: the values of [`HEAVY`] and [`HEAVY_CPU`], if there are callers.
pub type Answer = Option<[f64; 2]>;

/// Runs the bench.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
    let (mut workers, skipped) = Remote::start("fence", &REMOTES)?;
    let mut recorder = Recorder::new("fence");
    measure_calls(&mut workers, &CALLERS, budget, &mut recorder)?;
    Ok(Report::new(&recorder, skipped))
}

/// Records the cost of a call beside 0 to 2 running threads a CPU, for each number of concurrent `callers`.
pub fn measure_calls(
    workers: &mut [System<Worker>],
    callers: &[usize],
    budget: Budget,
    recorder: &mut Recorder,
) -> anyhow::Result<()> {
    let running = running_threads(pin::allowed()?.len()).into_iter();
    let cells: Vec<_> =
        running.flat_map(|running| callers.iter().map(move |&callers| (running, callers))).collect();
    Plan::new(budget, 60, &cells, workers, [&HEAVY, &HEAVY_CPU]).run(
        recorder,
        |&(running, callers), worker| Some(config(worker.measure.backend(), running, callers)),
        |&(running, callers), worker, time| {
            let answer: Answer = worker.measure.measure(&Load { running, callers, time })?;
            answer.context("a worker has not called")
        },
    )
}

/// Returns the parameters of a measurement.
pub fn config(backend: &str, running: usize, callers: usize) -> Config {
    Config::new([("running", running.into()), ("callers", callers.into()), ("backend", backend.into())])
}

/// Returns numbers of running threads, from 0 up to twice the CPUs: each up to 4, then doubled.
pub fn running_threads(cpus: usize) -> Vec<usize> {
    let most = 2 * cpus;
    let doubled =
        std::iter::successors(Some(8), |number| Some(2 * number)).take_while(|&number| number < most);
    let mut numbers: Vec<usize> = (0..=most.min(4)).chain(doubled).chain([most]).collect();
    numbers.dedup();
    numbers
}

/// Measures in the worker: the library's fence, or the syscall.
fn measure<const SYSCALL: bool>(load: Load) -> anyhow::Result<Answer> {
    let controls = Controls::default();
    controls.scope(|scope| {
        spawn_all(scope, load.running, |_| run_light::<SYSCALL>(&controls))?;
        let callers = spawn_all(scope, load.callers, |_| call_heavy::<SYSCALL>(&controls))?;
        controls.ready.wait_for(load.running + load.callers);
        controls.start.open();
        thread::sleep(load.time);
        controls.stop();
        let callers = join_all(callers)?.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        let calls = callers.iter().map(|&(calls, _)| calls).sum::<u64>();
        let each = |of: fn(&[Duration; 2]) -> Duration| {
            callers.iter().map(|(_, times)| of(times)).sum::<Duration>().as_nanos() as f64 / calls as f64
        };
        Ok((calls > 0).then(|| [each(|times| times[0]), each(|times| times[1])]))
    })
}

/// A running thread.
fn run_light<const SYSCALL: bool>(controls: &Controls) {
    controls.ready.arrive();
    let mut count = 0_u32;
    while !controls.background_must_stop() {
        for _ in 0..BATCH {
            count = black_box(count.wrapping_add(1));
            if SYSCALL { compiler_fence(Ordering::SeqCst) } else { fence::light() }
        }
    }
}

/// A caller. Returns its calls, and the time and CPU time that they took.
fn call_heavy<const SYSCALL: bool>(controls: &Controls) -> anyhow::Result<(u64, [Duration; 2])> {
    controls.begin();
    let (start, cpu) = (Instant::now(), thread_cpu_time());
    let mut calls = 0_u64;
    while !controls.must_stop() || calls == 0 {
        if SYSCALL {
            membarrier(MembarrierCommand::PrivateExpedited).context("membarrier failed")?;
        } else {
            fence::heavy();
        }
        calls += 1;
    }
    Ok((calls, [start.elapsed(), thread_cpu_time() - cpu]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_threads_reach_twice_the_cpus() {
        assert_eq!(running_threads(1), [0, 1, 2]);
        assert_eq!(running_threads(3), [0, 1, 2, 3, 4, 6]);
        assert_eq!(running_threads(12), [0, 1, 2, 3, 4, 8, 16, 24]);
    }
}
