//! A queue of jobs for many threads on little CPU time, as in a container with a quota.
//!
//! With more threads than CPUs, the thread that holds a lock, or is the next to get it, often does not run. Under a
//! lock that any running thread may take, some threads starve; a lock that is handed over in FIFO order collapses.
//! `lock::Mutex` does neither. The program uses it for a queue, and shows for how long jobs have waited.
//!
//! ```sh
//! cargo run --release -p stillpoint --example job_queue             # on one CPU; checks that each job is done once
//! cargo run --release -p stillpoint --example job_queue -- forever  # prints every second how long jobs wait
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};
use std::{env, hint, io, thread};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use stillpoint::lock::{Condvar, Mutex};
use stillpoint::percpu::{Counter, Histogram};

const WORKERS: usize = 32;
const PRODUCERS: usize = 4;
/// Jobs of each producer.
const JOBS: u64 = 10_000;
/// The capacity of the queue.
const CAPACITY: usize = 256;

struct Job {
    number: u64,
    since: Instant,
}

/// A bounded queue that can be closed.
struct Queue {
    jobs: Mutex<Jobs>,
    filled: Condvar,
    emptied: Condvar,
}

struct Jobs {
    waiting: VecDeque<Job>,
    is_closed: bool,
}

impl Queue {
    const fn new() -> Self {
        let jobs = Jobs { waiting: VecDeque::new(), is_closed: false };
        Self { jobs: Mutex::new(jobs), filled: Condvar::new(), emptied: Condvar::new() }
    }

    /// Appends a job. Blocks while the queue is full.
    fn push(&self, job: Job) {
        let mut jobs = self.jobs.lock();
        self.emptied.wait_while(&mut jobs, |jobs| jobs.waiting.len() >= CAPACITY);
        jobs.waiting.push_back(job);
        drop(jobs);
        self.filled.notify_one();
    }

    /// Removes the first job. Blocks while the queue is empty; returns `None` once it is closed and empty.
    fn pop(&self) -> Option<Job> {
        let mut jobs = self.jobs.lock();
        self.filled.wait_while(&mut jobs, |jobs| jobs.waiting.is_empty() && !jobs.is_closed);
        let job = jobs.waiting.pop_front();
        drop(jobs);
        self.emptied.notify_one();
        job
    }

    fn close(&self) {
        self.jobs.lock().is_closed = true;
        self.filled.notify_all();
    }
}

static QUEUE: Queue = Queue::new();
static DONE: Counter = Counter::new();
static NUMBERS: Counter = Counter::new();
static WAITED: Histogram = Histogram::new();

/// Does jobs until the queue is closed and empty.
fn work() {
    while let Some(job) = QUEUE.pop() {
        WAITED.record(job.since.elapsed().as_nanos() as u64);
        hint::black_box(
            (0..500).fold(job.number, |hash, round| (hash ^ round).wrapping_mul(0x100_0000_01b3)),
        );
        NUMBERS.add(job.number);
        DONE.add(1);
    }
}

fn produce(numbers: impl Iterator<Item = u64>) {
    numbers.for_each(|number| QUEUE.push(Job { number, since: Instant::now() }));
}

/// Confines this process to one of its CPUs, as a quota would.
fn confine() -> io::Result<()> {
    let all = sched_getaffinity(None)?;
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).find(|&cpu| all.is_set(cpu)).unwrap_or(0));
    Ok(sched_setaffinity(None, &one)?)
}

fn report(begun: Instant) {
    let waited = WAITED.snapshot();
    let at = |part| Duration::from_nanos(waited.quantile(part).unwrap_or(0));
    println!(
        "{} jobs in {:.1?}; one waited {:.1?} (median), {:.1?} (99%), {:.1?} (longest)",
        DONE.get(),
        begun.elapsed(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

fn main() -> io::Result<()> {
    let forever = env::args().nth(1).is_some();
    if !forever {
        confine()?;
    }
    let begun = Instant::now();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        let last = if forever { u64::MAX } else { JOBS * PRODUCERS as u64 };
        let producers: Vec<_> = (1..=PRODUCERS as u64)
            .map(|first| scope.spawn(move || produce((first..=last).step_by(PRODUCERS))))
            .collect();
        if forever {
            loop {
                thread::sleep(Duration::from_secs(1));
                report(begun);
            }
        }
        producers.into_iter().for_each(|producer| producer.join().expect("no producer fails"));
        QUEUE.close();
        workers.into_iter().for_each(|worker| worker.join().expect("no worker fails"));
    });
    report(begun);
    let jobs = JOBS * PRODUCERS as u64;
    assert_eq!(
        (DONE.get(), NUMBERS.get()),
        (jobs, jobs * (jobs + 1) / 2),
        "a job was not done, or done twice"
    );
    Ok(())
}
