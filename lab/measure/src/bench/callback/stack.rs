//! A stack whose nodes are retired inside read-side sections: what an operation costs, and how much memory it takes.
//!
//! Threads push and pop inside a section (see [`Stack`]), and pop retires the node there, as most programs do that link
//! nodes by hand. Each measurement has a worker of its own (see [`harness::worker`]), because the kernel counts
//! the peak memory of a process for all of its life.

use std::fs;
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use super::Payload;
use super::treiber::Stack;
use crate::peers::{Reclaim, crossbeam, seize, stillpoint};
use harness::controls::{Controls, join_all};
use harness::worker::{Remote, Worker};
use harness::{Better, Budget, Config, Metric, Plan, Recorder, System, crew, memory};

/// Time of a push and a pop, all threads together, until everything has been freed.
const OPERATION: Metric = Metric::nanoseconds("op_ns");
/// The most memory that the process had.
const MEMORY: Metric = Metric::bytes("rss_bytes");
/// 1 if the system was stopped because it took too much memory ([`most_memory`]); missing if it was not.
const STOPPED: Metric = Metric::count("stopped", Better::Lower);

/// Operations between two checks of the stop flag.
const BATCH: u64 = 64;

/// Time between two readings of the memory.
const TICK: Duration = Duration::from_millis(1);

const THREADS: [usize; 4] = [1, 2, 4, 16];
const U64: &str = "u64";
const STRING: &str = "String";

impl Payload for u64 {
    fn new(number: u64) -> Self {
        number
    }

    fn sum(&self) -> u64 {
        *self
    }
}

/// A destructor, and a second allocation.
impl Payload for String {
    fn new(_: u64) -> Self {
        Self::from("a name of some length")
    }

    fn sum(&self) -> u64 {
        self.len() as u64
    }
}

/// A request to a worker: one for each process.
#[derive(Debug, Serialize, Deserialize)]
pub struct Load {
    threads: usize,
    /// The type of the value of a node.
    node: String,
    time: Duration,
}

/// Nanoseconds of an operation, peak memory, and whether the measurement ended early because it took too much.
type Answer = (f64, u64, bool);

const fn remote<R: Reclaim>() -> Remote<Load, Answer> {
    Remote { system: R::NAME, name: R::NAME, backend: None, measure: Ok(measure_in_worker::<R>) }
}

/// All systems of this build.
pub const REMOTES: &[Remote<Load, Answer>] = &[
    remote::<stillpoint::Stillpoint<true>>(),
    remote::<stillpoint::Stillpoint<false>>(),
    #[cfg(feature = "liburcu")]
    remote::<crate::peers::liburcu::Workers<false>>(),
    remote::<crossbeam::Epoch>(),
    remote::<seize::Seize>(),
];

/// Records cost and memory of the operations.
pub(super) fn measure(budget: Budget, recorder: &mut Recorder) -> anyhow::Result<()> {
    let mut systems: Vec<_> =
        REMOTES.iter().map(|remote| System { name: remote.system, measure: remote.name }).collect();
    let cells: Vec<_> =
        [U64, STRING].iter().flat_map(|node| THREADS.map(|threads| (threads, *node))).collect();
    let slice_ms = 250;
    let ms = budget.split(cells.len() * systems.len(), slice_ms).1.as_millis() as u64;
    Plan::new(budget, slice_ms, &cells, &mut systems, [&OPERATION, &MEMORY, &STOPPED]).run(
        recorder,
        |&(threads, node), _| {
            Some(Config::new([
                ("threads", threads.into()),
                ("node", node.into()),
                ("retired", "inside sections".into()),
                ("ms", ms.into()),
            ]))
        },
        |&(threads, node), system, time| {
            let mut worker = Worker::start(&["stack", system.measure], None)?;
            let load = Load { threads, node: node.to_owned(), time };
            let (operation_ns, peak_bytes, stopped): Answer = worker.measure(&load)?;
            Ok([operation_ns, peak_bytes as f64, if stopped { 1.0 } else { f64::NAN }])
        },
    )
}

/// Returns the memory that the process may take before it stops: 4 GiB, or half of what the machine has left.
fn most_memory() -> anyhow::Result<u64> {
    let offered = fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
    let available = memory::field(&offered, "MemAvailable").context("/proc/meminfo has no MemAvailable")?;
    Ok((4 << 30).min(available / 2))
}

fn measure_in_worker<R: Reclaim>(load: Load) -> anyhow::Result<Answer> {
    if load.node == U64 { push_and_pop::<R, u64>(&load) } else { push_and_pop::<R, String>(&load) }
}

fn push_and_pop<R: Reclaim, P: Payload>(load: &Load) -> anyhow::Result<Answer> {
    let (system, stack, controls) = (R::new()?, Stack::new(), Controls::default());
    let most = most_memory()?;
    let (start, operations, stopped) = controls.scope(|scope| {
        let mut threads = Vec::new();
        for place in 0..load.threads {
            let (system, stack, controls) = (&system, &stack, &controls);
            threads.push(crew::spawn(scope, move || {
                let thread = system.thread();
                controls.begin();
                operate::<R, P>(&thread, stack, place % 2 == 1, controls)
            })?);
        }
        controls.ready.wait_for(load.threads);
        let start = Instant::now();
        controls.start.open();
        let mut stopped = false;
        while start.elapsed() < load.time && !stopped {
            thread::sleep(TICK);
            stopped = memory::status("VmRSS").is_some_and(|now| now > most);
        }
        controls.stop();
        Ok((start, join_all(threads)?.into_iter().sum::<u64>(), stopped))
    })?;
    ensure!(stack.is_empty(), "the stack of {} is not empty", R::NAME);
    drop(system.finish());
    let operation_ns = start.elapsed().as_nanos() as f64 / operations as f64;
    let peak_bytes = memory::status("VmHWM").context("/proc/self/status has no VmHWM")?;
    Ok((operation_ns, peak_bytes, stopped))
}

/// A thread: pushes and pops inside a section, or inside two. Returns the number of its operations.
fn operate<R: Reclaim, P: Payload>(
    thread: &R::Thread<'_>,
    stack: &Stack<P>,
    nested: bool,
    controls: &Controls,
) -> u64 {
    let operation = |guard: &R::Guard<'_>, number| {
        stack.push::<R>(P::new(number));
        black_box(stack.pop::<R, _>(guard, P::sum));
    };
    let mut operations = 0;
    while !controls.must_stop() || operations == 0 {
        for _ in 0..BATCH {
            operations += 1;
            let guard = R::enter(thread);
            if nested {
                operation(&R::enter(thread), operations);
            } else {
                operation(&guard, operations);
            }
        }
    }
    operations
}
