//! The process that measures: threads that push and pop, and how much memory that takes.

use std::fs;
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use super::treiber::Stack;
use crate::harness::controls::{Controls, join_all};
use crate::harness::{System, crew, memory, worker};
use crate::peers::{Reclaim, crossbeam, seize, stillpoint};

/// Operations between two checks of the stop flag.
const BATCH: u64 = 64;

/// Time between two readings of the memory.
const TICK: Duration = Duration::from_millis(1);

/// What a node holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Payload {
    /// A number.
    U64,
    /// A destructor, and a second piece of memory.
    String,
}

impl Payload {
    pub(super) const ALL: [Self; 2] = [Self::U64, Self::String];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::U64 => "u64",
            Self::String => "String",
        }
    }
}

/// What a node holds, as a type.
trait Value: Send + 'static {
    fn new(number: u64) -> Self;

    fn read(&self) -> u64;
}

impl Value for u64 {
    fn new(number: u64) -> Self {
        number
    }

    fn read(&self) -> u64 {
        *self
    }
}

impl Value for String {
    fn new(_: u64) -> Self {
        Self::from("a name of some length")
    }

    fn read(&self) -> u64 {
        self.len() as u64
    }
}

/// A measurement to make: one a process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Load {
    pub(super) threads: usize,
    pub(super) payload: Payload,
    pub(super) time: Duration,
}

/// What a measurement gave.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    /// Time of an operation, until everything has been freed.
    pub(super) operation_ns: f64,
    /// The most memory of the process.
    pub(super) peak_bytes: u64,
    /// Whether it ended early, as it took too much memory.
    pub(super) stopped: bool,
}

/// Serve a measurement of nodes retired inside sections.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The system.
    system: String,
}

/// The child.
pub(crate) fn serve(args: &Args) -> anyhow::Result<()> {
    let systems = systems();
    let system = systems.iter().find(|system| system.name == args.system).context("no such system")?;
    worker::serve(None, |load: Load| (system.measure)(&load))
}

/// Makes the measurement of a system.
pub(super) type Measure = fn(&Load) -> anyhow::Result<Answer>;

fn system<R: Reclaim>() -> System<Measure> {
    System {
        name: R::NAME,
        measure: |load| match load.payload {
            Payload::U64 => measure::<R, u64>(load),
            Payload::String => measure::<R, String>(load),
        },
    }
}

/// All systems of this build.
pub(super) fn systems() -> Vec<System<Measure>> {
    vec![
        system::<stillpoint::Stillpoint<true>>(),
        system::<stillpoint::Stillpoint<false>>(),
        #[cfg(feature = "liburcu")]
        system::<crate::peers::liburcu::Workers<false>>(),
        system::<crossbeam::Epoch>(),
        system::<seize::Seize>(),
    ]
}

/// What the process may take before it stops: 4 GiB, or half of what the machine has left.
fn most_memory() -> anyhow::Result<u64> {
    let offered = fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
    let available = memory::field(&offered, "MemAvailable").context("/proc/meminfo has no MemAvailable")?;
    Ok((4 << 30).min(available / 2))
}

/// Runs the threads: the time of an operation, until everything has been freed.
fn measure<R: Reclaim, V: Value>(load: &Load) -> anyhow::Result<Answer> {
    let (system, stack, controls) = (R::new()?, Stack::new(), Controls::default());
    let most = most_memory()?;
    let (start, operations, stopped) = controls.scope(|scope| {
        let mut threads = Vec::new();
        for place in 0..load.threads {
            let (system, stack, controls) = (&system, &stack, &controls);
            threads.push(crew::spawn(scope, move || {
                let thread = system.thread();
                controls.begin();
                operate::<R, V>(&thread, stack, place % 2 == 1, controls)
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
    Ok(Answer { operation_ns, peak_bytes, stopped })
}

/// A thread: pushes and pops inside a section, or inside two; its operations.
fn operate<R: Reclaim, V: Value>(
    thread: &R::Thread<'_>,
    stack: &Stack<V>,
    nested: bool,
    controls: &Controls,
) -> u64 {
    let operation = |guard: &R::Guard<'_>, number| {
        stack.push::<R>(V::new(number));
        black_box(stack.pop::<R, _>(guard, V::read));
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
