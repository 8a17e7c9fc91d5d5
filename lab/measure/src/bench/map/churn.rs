//! A table whose entries come and go, as those of sessions, connections, or a cache: what a step costs, and how much
//! memory the table takes.
//!
//! Each thread has its own keys, and a share of the entries. A step inserts a key, and removes the one that was
//! inserted longest ago. The keys exist before; an insertion of a `String` clones it.
//!
//! Each measurement has a worker of its own (see [`harness::worker`]), because the kernel counts the peak memory of a
//! process for all of its life.

use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::repeat;
use crate::peers::maps::{CopyMap, Dashmap, Key, Locked, Map, Papaya, Scc, Stillpoint};
use harness::worker::{Remote, Worker};
use harness::{Budget, Config, Metric, Plan, Recorder, System, memory};

/// CPU time of a step, and the time between two steps, whichever threads make them.
const STEP: Metric = Metric::nanoseconds("churn_ns");
const WALL: Metric = Metric::nanoseconds("churn_wall_ns");
/// The most memory that the map took.
const PEAK: Metric = Metric::bytes("churn_peak_bytes");

/// Entries of the map.
const ENTRIES: usize = 1 << 16;

const THREADS: [usize; 2] = [1, 2];

/// A request to a worker: one for each process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Load {
    keys: String,
    threads: usize,
    time: Duration,
}

/// Nanoseconds of CPU time of a step, and between two steps; the most bytes.
type Answer = [f64; 3];

const fn remote<S: Map<String>, N: Map>() -> Remote<Load, Answer> {
    Remote { system: N::NAME, name: N::NAME, backend: None, measure: measure_in_worker::<S, N> }
}

/// All systems of this build.
pub const REMOTES: &[Remote<Load, Answer>] = &[
    remote::<Stillpoint<String>, Stillpoint>(),
    // With numbers only.
    remote::<Stillpoint<String>, CopyMap>(),
    remote::<Papaya<String>, Papaya>(),
    remote::<Dashmap<String>, Dashmap>(),
    remote::<Scc<String>, Scc>(),
    remote::<Locked<String>, Locked>(),
];

/// Records cost and memory of the steps.
pub(super) fn measure(budget: Budget, recorder: &mut Recorder) -> anyhow::Result<()> {
    [u64::NAME, String::NAME].into_iter().try_for_each(|keys| with_keys(keys, budget.share(0.5), recorder))
}

fn with_keys(keys: &'static str, budget: Budget, recorder: &mut Recorder) -> anyhow::Result<()> {
    let remotes = REMOTES.iter().filter(|remote| keys == u64::NAME || remote.name != CopyMap::NAME);
    let mut systems: Vec<_> =
        remotes.map(|remote| System { name: remote.system, measure: remote.name }).collect();
    Plan::new(budget, 250, &THREADS, &mut systems, [&STEP, &WALL, &PEAK]).run(
        recorder,
        |&threads, _| {
            Some(Config::new([("keys", keys.into()), ("threads", threads.into()), ("size", ENTRIES.into())]))
        },
        |&threads, system, time| {
            let mut worker = Worker::start(&["churn", system.measure], None)?;
            worker.measure(&Load { keys: keys.to_owned(), threads, time })
        },
    )
}

fn measure_in_worker<S: Map<String>, N: Map>(load: Load) -> anyhow::Result<Answer> {
    if load.keys == u64::NAME { run::<u64, N>(&load) } else { run::<String, S>(&load) }
}

fn run<K: Key, M: Map<K>>(load: &Load) -> anyhow::Result<Answer> {
    let share = ENTRIES / load.threads;
    // Twice as many as there are at a time.
    let keys: Vec<K> = (0..2 * ENTRIES).map(K::with_number).collect();
    let resident = || memory::resident().context("the kernel does not say how much memory is resident");
    let (before, map) = (resident()?, &M::default());
    let [cpu, wall] = repeat(load.threads, load.time, |number| {
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
