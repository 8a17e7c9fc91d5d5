//! Threads that get, insert and remove random keys.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{iter, thread};

use fastrand::Rng;
use rustix::time::{ClockId, clock_gettime};

use crate::peers::maps::{Key as _, Map};
use harness::controls::{Controls, join_all};
use harness::{Config, crew, pin};

/// Operations between two looks at the stop flag.
const BATCH: usize = 64;
/// Numbers that are drawn before the measurement.
const DRAWN: usize = 1 << 20;

/// How often which keys are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    Uniform,
    Zipf,
}

/// A mix of operations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    /// Percentage of gets.
    pub(super) reads: u32,
    pub(super) threads: usize,
    pub(super) keys: Keys,
    /// Entries of the map.
    pub(super) size: usize,
}

impl Cell {
    pub(super) fn config(self) -> Config {
        let keys = if self.keys == Keys::Zipf { "zipf" } else { "uniform" };
        Config::new([
            ("reads", self.reads.into()),
            ("threads", self.threads.into()),
            ("keys", keys.into()),
            ("size", self.size.into()),
        ])
    }

    /// Returns the number of keys: those of a map that changes are in it half of the time.
    fn universe(self) -> usize {
        if self.reads == 100 { self.size } else { 2 * self.size }
    }
}

/// The maps of a system, by size, and whether they change.
#[derive(Debug)]
pub(super) struct Maps<M>(BTreeMap<(usize, bool), M>);

impl<M> Default for Maps<M> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// Numbers with the Zipf distribution of `universe` keys.
fn zipf(universe: usize) -> Box<[u32]> {
    let mut sum = 0.0;
    let cumulated: Vec<f64> = (1..=universe)
        .map(|rank| {
            sum += (rank as f64).powf(-0.99);
            sum
        })
        .collect();
    let mut rng = Rng::with_seed(universe as u64);
    iter::repeat_with(|| cumulated.partition_point(|&below| below < rng.f64() * sum) as u32)
        .take(DRAWN)
        .collect()
}

/// Returns the drawn numbers of a universe.
fn drawn(universe: usize) -> &'static [u32] {
    static DRAWN: [OnceLock<Box<[u32]>>; 32] = [const { OnceLock::new() }; 32];
    DRAWN[universe.ilog2() as usize].get_or_init(|| zipf(universe))
}

/// Runs a cell. Returns the nanoseconds of CPU time of an operation, and those between two operations.
pub(super) fn run<M: Map>(maps: &mut Maps<M>, cell: Cell, slice: Duration) -> anyhow::Result<[f64; 2]> {
    let map = maps.0.entry((cell.size, cell.reads < 100)).or_insert_with(|| {
        let _thread = M::register();
        let map = M::for_entries(cell.size);
        let step = cell.universe() / cell.size;
        (0..cell.universe())
            .step_by(step)
            .for_each(|number| map.insert(u64::with_number(number), number as u64));
        if cell.reads < 100 {
            // For a while: a table that the numbers fill exactly would be resized during a measurement.
            let more = || (1..cell.universe()).step_by(16);
            more().for_each(|number| map.insert(u64::with_number(number), number as u64));
            more().for_each(|number| map.remove(&u64::with_number(number)));
        }
        map
    });
    let zipf = (cell.keys == Keys::Zipf).then(|| drawn(cell.universe()));
    let (controls, cpus, map) = (Controls::default(), pin::allowed()?, &*map);
    controls.scope(|scope| {
        let mut threads = Vec::new();
        for (number, &cpu) in cpus.iter().cycle().take(cell.threads).enumerate() {
            let controls = &controls;
            threads.push(crew::spawn(scope, move || {
                let pinned = if cell.threads <= pin::allowed()?.len() { pin::to(cpu) } else { Ok(()) };
                let _thread = M::register();
                let mut rng = Rng::with_seed(number as u64);
                batch(map, cell, zipf, &mut rng);
                controls.begin();
                let mut batches = 0_u64;
                while !controls.must_stop() {
                    black_box(batch(map, cell, zipf, &mut rng));
                    batches += 1;
                }
                pinned.map(|()| batches)
            })?);
        }
        controls.ready.wait_for(cell.threads);
        let (cpu, begin) = (process_cpu_time(), Instant::now());
        controls.start.open();
        thread::sleep(slice);
        controls.stop();
        let batches: u64 = join_all(threads)?.into_iter().sum::<anyhow::Result<u64>>()?;
        let operations = (batches * BATCH as u64) as f64;
        let times = [process_cpu_time() - cpu, begin.elapsed()];
        Ok(times.map(|time| time.as_nanos() as f64 / operations))
    })
}

/// A few operations.
#[inline(never)]
fn batch<M: Map>(map: &M, cell: Cell, zipf: Option<&[u32]>, rng: &mut Rng) -> u64 {
    let mut sum = 0_u64;
    let mut at = rng.usize(..DRAWN - BATCH);
    for _ in 0..BATCH {
        let random = rng.u64(..);
        let number = match zipf {
            Some(drawn) => {
                at += 1;
                drawn[at] as usize
            }
            None => random as usize & (cell.universe() - 1),
        };
        let key = u64::with_number(number);
        // 0 to 199: halves of a percent.
        let draw = (((random >> 40) * 200) >> 24) as u32;
        if draw < 2 * cell.reads {
            sum = sum.wrapping_add(map.get(&key).unwrap_or(0));
        } else if draw.is_multiple_of(2) {
            map.insert(key, random);
        } else {
            map.remove(&key);
        }
    }
    sum
}

pub(super) fn process_cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    // The clock starts at zero with the process, so neither part is negative.
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
