//! What a poll of a task costs by itself, with a section of `rcu`, and if each poll were a section of `qsbr`: the CPU time
//! of a task that yields and continues, in a runtime with one thread. Rounds are interleaved; printed are medians.
//!
//! With `qsbr`, the end of each poll is a quiescent state. A thread that parks, or runs other tasks for long, must go
//! offline, as grace periods wait for it; the last row does so after each poll, the row before never does.
//!
//! ```sh
//! cargo run --release -p stillpoint-service --features service --bin polls
//! ```

use std::error::Error;
use std::hint::black_box;

use stillpoint::rcu::{self, Rcu};
use stillpoint::{Domain, qsbr};
use stillpoint_service::cpu;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

const ROUNDS: usize = 15;
const POLLS: usize = 100_000;
/// The values that a poll reads.
const VALUES: usize = 4;

fn main() -> Result<(), Box<dyn Error>> {
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
    for (name, mut times) in rows {
        times.sort_unstable_by(f64::total_cmp);
        println!("| {name} | {:.1} |", times[times.len() / 2]);
    }
    Ok(())
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
