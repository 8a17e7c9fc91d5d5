//! The process that measures: threads that push and pop, and a look at how much memory that takes.

use std::fs;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use super::systems::{self, System};
use super::treiber::Stack;
use crate::harness::crew::{self, Arrivals, Gate};
use crate::harness::{lane, memory};

/// Operations between two looks at the stop flag.
const BATCH: u64 = 64;

/// Time between two looks at the memory.
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

    fn look(&self) -> u64;
}

impl Value for u64 {
    fn new(number: u64) -> Self {
        number
    }

    fn look(&self) -> u64 {
        *self
    }
}

impl Value for String {
    fn new(_: u64) -> Self {
        Self::from("a name of some length")
    }

    fn look(&self) -> u64 {
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
///
/// # Errors
///
/// Fails if a measurement does, or the parent is gone.
pub(crate) fn serve(args: &Args) -> anyhow::Result<()> {
    let systems = systems::all();
    let system = systems.iter().find(|system| system.name == args.system).context("no such system")?;
    lane::serve(None, |load: Load| (system.run)(&load))
}

/// Makes the measurement.
///
/// # Errors
///
/// Fails if the machine does not allow the threads, or does not tell how much memory there is.
pub(super) fn run<S: System>(load: &Load) -> anyhow::Result<Answer> {
    match load.payload {
        Payload::U64 => measure::<S, u64>(load),
        Payload::String => measure::<S, String>(load),
    }
}

/// What the process may take before it stops: 4 GiB, or half of what the machine has left.
fn most_memory() -> anyhow::Result<u64> {
    let offered = fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
    let available = memory::field(&offered, "MemAvailable").context("/proc/meminfo has no MemAvailable")?;
    Ok((4 << 30).min(available / 2))
}

/// What the threads wait for and look at.
#[derive(Debug, Default)]
struct Controls {
    ready: Arrivals,
    start: Gate,
    stop: AtomicBool,
}

fn measure<S: System, V: Value>(load: &Load) -> anyhow::Result<Answer> {
    let (system, stack, controls) = (S::new(), Stack::new(), Controls::default());
    let worked = thread::scope(|scope| {
        let worked = work::<S, V>(scope, &controls, &system, &stack, load);
        controls.stop.store(true, Ordering::Relaxed);
        controls.start.open();
        worked
    });
    let (start, operations, stopped) = worked?;
    system.finish();
    let operation_ns = start.elapsed().as_nanos() as f64 / operations as f64;
    let peak_bytes = memory::status("VmHWM").context("/proc/self/status does not tell the peak")?;
    Ok(Answer { operation_ns, peak_bytes, stopped })
}

/// Runs the threads; when they began, their operations, and whether they were stopped.
fn work<'scope, S: System, V: Value>(
    scope: &'scope Scope<'scope, '_>,
    controls: &'scope Controls,
    system: &'scope S,
    stack: &'scope Stack<V>,
    load: &Load,
) -> anyhow::Result<(Instant, u64, bool)> {
    let most = most_memory()?;
    let mut threads = Vec::new();
    for place in 0..load.threads {
        threads.push(crew::spawn(scope, move || {
            let thread = system.thread();
            controls.ready.arrive();
            controls.start.wait();
            operate::<S, V>(&thread, stack, place % 2 == 1, &controls.stop)
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
    controls.stop.store(true, Ordering::Relaxed);
    let mut operations = 0;
    for thread in threads {
        operations += crew::join(thread)?;
    }
    ensure!(stack.is_empty(), "the stack of {} is not empty", S::NAME);
    Ok((start, operations, stopped))
}

/// A thread: pushes and pops until told to stop, inside a section, or inside two; its operations.
fn operate<S: System, V: Value>(
    thread: &S::Thread<'_>,
    stack: &Stack<V>,
    nested: bool,
    stop: &AtomicBool,
) -> u64 {
    let operation = |guard: &S::Guard<'_>, number| {
        stack.push::<S>(V::new(number));
        black_box(stack.pop::<S, _>(guard, V::look));
    };
    let mut operations = 0;
    while !stop.load(Ordering::Relaxed) || operations == 0 {
        for _ in 0..BATCH {
            operations += 1;
            S::section(thread, |guard| {
                if nested {
                    S::section(thread, |guard| operation(guard, operations));
                } else {
                    operation(guard, operations);
                }
            });
        }
    }
    operations
}
