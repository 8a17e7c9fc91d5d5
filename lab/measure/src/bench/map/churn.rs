//! A table whose entries come and go, as those of sessions, connections, or a cache: what a step costs, and how much
//! memory the table takes.
//!
//! Each thread has its own keys, and a share of the entries. A step inserts a key, and removes the one that was
//! inserted longest ago. The keys exist before; an insertion of a `String` clones it.
//!
//! Each measurement has a worker of its own also because the kernel counts the peak memory of a process for all of
//! its life.

use std::time::Duration;

use anyhow::Context as _;

use super::repeat;
use super::systems::{self, Measures, Request, SYSTEMS};
use crate::peers::maps::{Key, Map};
use harness::{Budget, Config, Metric, Plan, Recorder, memory};

/// CPU time of a step, and the time between two steps, whichever threads make them.
const STEP: Metric = Metric::nanoseconds("churn_ns");
const WALL: Metric = Metric::nanoseconds("churn_wall_ns");
/// The most memory that the map took.
const PEAK: Metric = Metric::bytes("churn_peak_bytes");

/// Entries of the map.
const ENTRIES: usize = 1 << 16;

const THREADS: [usize; 2] = [1, 2];

/// Nanoseconds of CPU time of a step, and between two steps; the most bytes.
pub type Churn = fn(usize, Duration) -> anyhow::Result<[f64; 3]>;

/// Records cost and memory of the steps.
pub fn measure(budget: Budget, recorder: &mut Recorder) -> anyhow::Result<()> {
    for (keys, strings) in [(u64::NAME, false), (String::NAME, true)] {
        Plan::new(budget.share(0.5), 250, &THREADS, &mut SYSTEMS.clone(), [&STEP, &WALL, &PEAK]).run(
            recorder,
            |&threads, system| {
                let Measures { numbers, strings: of_strings, .. } = system.measure;
                let is_measured = if strings { of_strings.is_some() } else { numbers.is_some() };
                is_measured.then(|| {
                    Config::new([
                        ("keys", keys.into()),
                        ("threads", threads.into()),
                        ("size", ENTRIES.into()),
                    ])
                })
            },
            |&threads, system, time| systems::measure(system.name, Request::Churn(strings, threads, time)),
        )?;
    }
    Ok(())
}

pub fn run<K: Key, M: Map<K>>(threads: usize, time: Duration) -> anyhow::Result<[f64; 3]> {
    let share = ENTRIES / threads;
    // Twice as many as there are at a time.
    let keys: Vec<K> = (0..2 * ENTRIES).map(K::with_number).collect();
    let resident = || memory::resident().context("the kernel does not say how much memory is resident");
    let (before, map) = (resident()?, &M::default());
    let [cpu, wall] = repeat(threads, time, |number| {
        let keys = &keys[2 * share * number..][..2 * share];
        keys[..share].iter().for_each(|key| map.insert(key.clone(), 0));
        // Inserts a key, and removes the one that was inserted as many steps ago as there are entries.
        move |at| {
            map.insert(keys[(share + at) % keys.len()].clone(), at as u64);
            map.remove(&keys[at % keys.len()]);
        }
    })?;
    let peak = memory::status("VmHWM").context("the kernel does not say how much memory was resident")?;
    Ok([cpu, wall, peak.saturating_sub(before) as f64])
}
