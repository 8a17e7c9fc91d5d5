//! What polls and parks of a runtime's threads cost, with stillpoint's readers in them. Rounds are interleaved; printed are
//! medians.
//!
//! First, a poll by itself, with a section of `rcu`, and if each poll were a section of `qsbr`: the CPU time of a task that
//! yields and continues, in a runtime with one thread.
//!
//! With `qsbr`, the end of each poll is a quiescent state. A thread that parks, or runs other tasks for long, must go
//! offline, as grace periods wait for it; the last row does so after each poll, the row before never does.
//!
//! Then, runtimes whose threads call `rcu::hint_idle` before they park, beside others: a grace period while 64 workers are
//! parked that have read, and a task that reads in a worker that parks before and after.
//!
//! ```sh
//! cargo run --release -p stillpoint-service --features service --bin polls
//! ```

use std::error::Error;
use std::hint::black_box;
use std::io;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use stillpoint::rcu::{self, Rcu};
use stillpoint::{Domain, qsbr};
use stillpoint_service::cpu;
use stillpoint_tokio::BuilderExt as _;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

const ROUNDS: usize = 15;
const POLLS: usize = 100_000;
/// The values that a poll reads.
const VALUES: usize = 4;

/// The workers that are parked during grace periods.
const WORKERS: usize = 64;
/// Grace periods, and tasks, of a round.
const PARKS: usize = 2000;

fn main() -> Result<(), Box<dyn Error>> {
    polls()?;
    parks()
}

fn polls() -> Result<(), Box<dyn Error>> {
    let runtime = Builder::new_current_thread().build()?;
    let in_rcu: [Rcu<u64>; VALUES] = std::array::from_fn(|_| Rcu::new(1));
    let in_qsbr: [Rcu<u64, qsbr::Global>; VALUES] = std::array::from_fn(|_| Rcu::new_in(1, qsbr::Global));
    let mut thread = qsbr::register();
    let mut rows = ["nothing", "a section of rcu", "a report of qsbr", "qsbr, offline between polls"]
        .map(|name| (name, Vec::new()));
    for _ in 0..ROUNDS {
        rows[0].1.push(time(&runtime, || 0));
        rows[1].1.push(time(&runtime, || sum(&in_rcu, &rcu::enter())));
        rows[2].1.push(time(&runtime, || {
            let sum = sum(&in_qsbr, &thread);
            thread.quiescent();
            sum
        }));
        rows[3].1.push(time(&runtime, || {
            let sum = sum(&in_qsbr, &thread);
            thread.offline(|| ());
            sum
        }));
    }
    println!("| a poll that reads {VALUES} values with | CPU ns |\n|---|--:|");
    for (name, times) in rows {
        println!("| {name} | {:.1} |", median(times));
    }
    Ok(())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

fn sum<D: Domain>(values: &[Rcu<u64, D>], section: &D::Section) -> u64 {
    values.iter().map(|value| *value.load(section)).sum()
}

/// Returns the CPU time in nanoseconds of a poll that calls `read`.
fn time(runtime: &Runtime, mut read: impl FnMut() -> u64) -> f64 {
    runtime.block_on(async {
        let begin = cpu::of_process();
        for _ in 0..POLLS {
            black_box(read());
            yield_now().await;
        }
        (cpu::of_process() - begin).as_nanos() as f64 / POLLS as f64
    })
}

fn parks() -> Result<(), Box<dyn Error>> {
    let mut grace_periods = [Vec::new(), Vec::new()];
    let mut tasks = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for hint in [false, true] {
            let runtime = runtime(hint, WORKERS)?;
            let all = Arc::new(Barrier::new(WORKERS));
            let readers: Vec<_> = (0..WORKERS)
                .map(|_| {
                    let all = Arc::clone(&all);
                    runtime.spawn(async move {
                        drop(rcu::enter());
                        all.wait();
                    })
                })
                .collect();
            readers.into_iter().try_for_each(|reader| runtime.block_on(reader))?;
            let begin = cpu::of_process();
            (0..PARKS).for_each(|_| rcu::synchronize());
            grace_periods[usize::from(hint)].push(per_park(begin));
            drop(runtime);

            let runtime = self::runtime(hint, 1)?;
            let begin = cpu::of_process();
            for _ in 0..PARKS {
                runtime.block_on(runtime.spawn(async { drop(rcu::enter()) }))?;
            }
            tasks[usize::from(hint)].push(per_park(begin));
        }
    }
    println!("\n| CPU ns | no hint | hint |\n|---|--:|--:|");
    for (name, [without, with]) in [("a grace period", grace_periods), ("a task that reads", tasks)] {
        println!("| {name} | {:.0} | {:.0} |", median(without), median(with));
    }
    Ok(())
}

fn runtime(hint: bool, workers: usize) -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    if hint {
        builder.hint_idle_on_park();
    }
    builder.worker_threads(workers).build()
}

fn per_park(begin: Duration) -> f64 {
    (cpu::of_process() - begin).as_nanos() as f64 / PARKS as f64
}
