//! `bench program`: a program of locks, on the locks of several libraries.
//!
//! Each thread does one thing after another, at random: it moves money between two of 64 accounts, each under a mutex of
//! its own; looks a number up in a cache behind a reader-writer lock, or changes it; appends to a queue and wakes a
//! thread that waits for it by a condition variable; or takes from the queue, and waits if it is empty. It works for
//! 100 ns under each lock, and for a microsecond between. `mops` is the number of these things per microsecond,
//! `cpu_ns_per_op` the CPU time of one.

use std::array;
use std::collections::VecDeque;
use std::convert::identity;
use std::hint::black_box;
use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use fastrand::Rng;

use crate::bench::lock::load::Work;
use harness::controls::{Controls, join_all, spawn_all};
use harness::report::OURS;
use harness::timed_loop::thread_cpu_time;
use harness::{Better, Budget, Config, Metric, Plan, Recorder, Report, System, systems};

const MOPS: Metric = Metric { name: "mops", unit: "1/us", better: Better::Higher };
const CPU: Metric = Metric::nanoseconds("cpu_ns_per_op");

const THREADS: [usize; 4] = [2, 4, 16, 64];
const ACCOUNTS: usize = 64;
/// Money of each account at first.
const MONEY: u64 = 1000;

/// Nanoseconds of work under each lock, and without one.
const WORK_NS: u32 = 100;
const PAUSE_NS: u32 = 1000;

/// How long a thread waits for the queue, at most: all others may wait, too.
const PATIENCE: Duration = Duration::from_millis(1);

/// What a thread does, drawn from a number below 100.
#[derive(Clone, Copy, Debug)]
enum Step {
    Move,
    LookUp,
    Change,
    Append,
    Take,
}

impl Step {
    fn of(number: u32) -> Self {
        match number {
            0..40 => Self::Move,
            40..78 => Self::LookUp,
            78..80 => Self::Change,
            80..90 => Self::Append,
            _ => Self::Take,
        }
    }
}

/// The data of the program under the locks of a library.
trait Program: Sync {
    /// Name in the report.
    const NAME: &'static str;

    fn new() -> Self;

    /// Does one thing. The result depends on all work.
    fn step(&self, step: Step, random: &mut Rng, work: Work) -> u64;

    /// Returns the money of all accounts.
    fn money(&self) -> u64;
}

/// Implements [`Program`] with the locks of a library: the type, its name, the module of the locks, what makes a guard of
/// what they return, and how to wait for a condition variable.
macro_rules! program {
    (
        $type:ident, $name:expr, $($library:ident)::+, $guarded:expr,
        |$queue:ident, $filled:ident| $wait:expr
    ) => {
        struct $type {
            accounts: [CachePadded<$($library)::+::Mutex<u64>>; ACCOUNTS],
            cached: CachePadded<$($library)::+::RwLock<u64>>,
            queue: CachePadded<$($library)::+::Mutex<VecDeque<u64>>>,
            filled: $($library)::+::Condvar,
        }

        impl Program for $type {
            const NAME: &'static str = $name;

            fn new() -> Self {
                Self {
                    accounts: array::from_fn(|_| CachePadded::new($($library)::+::Mutex::new(MONEY))),
                    cached: CachePadded::new($($library)::+::RwLock::new(0)),
                    queue: CachePadded::new($($library)::+::Mutex::new(VecDeque::new())),
                    filled: $($library)::+::Condvar::new(),
                }
            }

            fn step(&self, step: Step, random: &mut Rng, work: Work) -> u64 {
                match step {
                    Step::Move => {
                        let (a, b) = (random.usize(..ACCOUNTS), random.usize(..ACCOUNTS - 1));
                        // Two accounts, in the order of their numbers.
                        let (a, b) = if b < a { (b, a) } else { (a, b + 1) };
                        let mut from = $guarded(self.accounts[a].lock());
                        let mut to = $guarded(self.accounts[b].lock());
                        let amount = u64::from(*from > 0);
                        *from -= amount;
                        *to += amount;
                        work.run(WORK_NS, *to)
                    }
                    Step::LookUp => {
                        let number = $guarded(self.cached.read());
                        work.run(WORK_NS, *number)
                    }
                    Step::Change => {
                        let mut number = $guarded(self.cached.write());
                        *number = work.run(WORK_NS, *number);
                        *number
                    }
                    Step::Append => {
                        let mut queue = $guarded(self.queue.lock());
                        queue.push_back(work.run(WORK_NS, random.u64(..)));
                        drop(queue);
                        self.filled.notify_one();
                        0
                    }
                    Step::Take => {
                        let mut queue = $guarded(self.queue.lock());
                        if queue.is_empty() {
                            let ($queue, $filled) = (queue, &self.filled);
                            queue = $wait;
                        }
                        let number = queue.pop_front().unwrap_or_default();
                        work.run(WORK_NS, number)
                    }
                }
            }

            fn money(&self) -> u64 {
                self.accounts.iter().map(|account| *$guarded(account.lock())).sum()
            }
        }
    };
}

macro_rules! with_timeout {
    ($queue:ident, $filled:ident) => {{
        let mut queue = $queue;
        $filled.wait_for(&mut queue, PATIENCE);
        queue
    }};
}

fn unpoisoned<G>(result: Result<G, PoisonError<G>>) -> G {
    result.unwrap_or_else(PoisonError::into_inner)
}

program!(Ours, OURS, stillpoint::lock, identity, |queue, filled| with_timeout!(queue, filled));
program!(Old, "parking_lot-0.12", parking_lot_12, identity, |queue, filled| with_timeout!(queue, filled));
program!(New, "parking_lot-0.13", parking_lot, identity, |queue, filled| with_timeout!(queue, filled));
program!(Std, "std", std::sync, unpoisoned, |queue, filled| {
    filled.wait_timeout(queue, PATIENCE).unwrap_or_else(PoisonError::into_inner).0
});

type Measure = fn(usize, Duration) -> anyhow::Result<[f64; 2]>;

fn systems() -> [System<Measure>; 4] {
    systems![measure: Ours, Std, Old, New]
}

/// Runs the bench.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut recorder = Recorder::new("program");
    Plan::new(budget, 200, &THREADS, &mut systems(), [&MOPS, &CPU]).run(
        &mut recorder,
        |&threads, _| Some(Config::new([("threads", threads.into())])),
        |&threads, system, slice| (system.measure)(threads, slice),
    )?;
    Ok(Report::new(&recorder, Vec::new()))
}

/// `threads` threads run the program for `slice`. Returns the values of the metrics.
fn measure<P: Program>(threads: usize, slice: Duration) -> anyhow::Result<[f64; 2]> {
    let (program, controls, work) = (P::new(), Controls::default(), Work::calibrated());
    let result = controls.scope(|scope| {
        let running = spawn_all(scope, threads, || {
            let mut random = Rng::new();
            controls.begin();
            let (cpu, mut steps, mut own) = (thread_cpu_time(), 0_u64, 1);
            while !controls.must_stop() || steps == 0 {
                own ^= program.step(Step::of(random.u32(..100)), &mut random, work);
                own = work.run(PAUSE_NS, own);
                steps += 1;
            }
            black_box(own);
            (steps as f64, thread_cpu_time() - cpu)
        })?;
        controls.ready.wait_for(threads);
        let begin = Instant::now();
        controls.start.open();
        thread::sleep(slice);
        controls.stop();
        let elapsed = begin.elapsed();
        let shares = join_all(running)?;
        let steps: f64 = shares.iter().map(|share| share.0).sum();
        let cpu: Duration = shares.iter().map(|share| share.1).sum();
        Ok([steps / elapsed.as_secs_f64() / 1e6, cpu.as_nanos() as f64 / steps])
    })?;
    let (money, expected) = (program.money(), MONEY * ACCOUNTS as u64);
    anyhow::ensure!(money == expected, "{}: {money} units of money instead of {expected}", P::NAME);
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_runs_on_all_locks_and_keeps_the_money() {
        for system in systems() {
            let values = (system.measure)(3, Duration::from_millis(20));
            let values = values.unwrap_or_else(|why| panic!("{}: {why}", system.name));
            assert!(values.iter().all(|&value| value > 0.0), "{}: {values:?}", system.name);
        }
    }
}
