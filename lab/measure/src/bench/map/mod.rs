//! `bench map`: a concurrent hash map beside others.
//!
//! - `op_ns`: CPU time of the process for an operation, workers included; `wall_ns`: the time between two operations,
//!   whichever threads make them. `reads` is the percentage of gets; half of the others insert a random key, half
//!   remove one. So half of the keys are in the map, and every second get finds its key; with 100, every get does.
//!   Zipf keys have the exponent 0.99; the frequent keys are scattered over the table.
//! - `p999_ns`: a get, while another thread inserts keys until the table has grown four times and removes them again
//!   (`resizes` is 1), or replaces values (0).
//! - `bytes`: memory of an entry, allocated or mapped, after keys were inserted one by one: the mean of eight
//!   sizes between two powers of two.
//! - `churn_ns`, `churn_wall_ns`, `churn_peak_bytes`: a table whose entries come and go (see [`churn`]); with
//!   `--cells churn` only.
//! - `growth_ns`, `growth_longest_ns`: insertions while a table grows from nothing (see [`growth`]); with
//!   `--cells growth` only.
//! - `op_ns`, `wall_ns`, `bytes` of the map whose pairs are copied, in the grid of parlayhash: 8192 keys, and 8,388,608, with
//!   up to half of changes; with `--cells copy` only. `stillpoint` is that map there.
//!
//! Keys and values are 8 bytes, but for the `String` keys of a churn. All maps have the same hasher. `cds_lfht` has a
//! fixed number of buckets, one for each entry. It is not among the maps that grow: filled by one thread without a
//! pause, as here, a table of liburcu 0.13 that resizes itself as in liburcu's examples may stop growing.

pub mod churn;
mod growth;
mod latency;
mod load;
mod memory;

use crate::peers;
#[cfg(feature = "liburcu")]
use crate::peers::maps::Lfht;
use crate::peers::maps::{CDS_LFHT, CopyMap, Dashmap, Locked, Map, Papaya, Scc, Stillpoint};
use harness::report::OURS;
use harness::{Better, Budget, Config, Metric, Plan, Recorder, Report, System};
use load::{Cell, Keys, Maps};

const OP: Metric = Metric::nanoseconds("op_ns");
const WALL: Metric = Metric::nanoseconds("wall_ns");
const P999: Metric = Metric::nanoseconds("p999_ns");
const BYTES: Metric = Metric { name: "bytes", unit: "bytes", better: Better::Lower };

/// Keys of a table that fits into the caches, and of one that does not.
const SMALL: usize = 1 << 10;
const LARGE: usize = 1 << 20;

/// Keys of `--cells copy`: about ten thousand, and about ten million.
const GRID: [usize; 2] = [1 << 13, 1 << 23];

/// The measurements of a system, and its maps.
struct Measures {
    load: Box<dyn FnMut(Cell, std::time::Duration) -> anyhow::Result<[f64; 2]>>,
    latency: fn(bool, std::time::Duration) -> anyhow::Result<f64>,
    growth: fn() -> anyhow::Result<[f64; 2]>,
    bytes: fn() -> f64,
}

fn system<M: Map>() -> System<Measures> {
    let mut maps = Maps::<M>::default();
    let measure = Measures {
        load: Box::new(move |cell, slice| load::run(&mut maps, cell, slice)),
        latency: latency::run::<M>,
        growth: growth::run::<M>,
        bytes: memory::bytes::<M>,
    };
    System { name: M::NAME, measure }
}

/// The grid of parlayhash: tables that fit into a cache, and tables that fit into none, with up to half of updates.
fn grid() -> Vec<Cell> {
    let mut cells = Vec::new();
    for size in GRID {
        for keys in [Keys::Uniform, Keys::Zipf] {
            for reads in [100, 90, 50] {
                cells.extend([1, 2, 16].map(|threads| Cell { reads, threads, keys, size }));
            }
        }
    }
    cells
}

fn cells(quick: bool) -> Vec<Cell> {
    let mut cells = Vec::new();
    let (all_threads, all_keys): (&[usize], &[Keys]) =
        if quick { (&[1, 4], &[Keys::Uniform]) } else { (&[1, 2, 4, 16, 64], &[Keys::Uniform, Keys::Zipf]) };
    for size in [SMALL, LARGE] {
        for &keys in all_keys {
            for reads in [100, 98, 90] {
                for &threads in all_threads {
                    cells.push(Cell { reads, threads, keys, size });
                }
            }
        }
    }
    cells
}

/// Measures the map whose pairs are copied: as the library's, beside the one whose entries are referred to.
fn copied(budget: Budget) -> anyhow::Result<Report> {
    let mut systems = [
        System { name: OURS, ..system::<CopyMap>() },
        System { name: "stillpoint-hashmap", ..system::<Stillpoint>() },
        system::<Papaya>(),
        system::<Dashmap>(),
        system::<Scc>(),
        system::<Locked>(),
    ];
    let mut recorder = Recorder::new("map");
    operations(budget.share(0.95), &grid(), &mut systems, &mut recorder)?;
    bytes(budget.share(0.05), &mut systems, &mut recorder)?;
    Ok(Report::new(&recorder, Vec::new()))
}

fn operations(
    budget: Budget,
    cells: &[Cell],
    systems: &mut [System<Measures>],
    recorder: &mut Recorder,
) -> anyhow::Result<()> {
    Plan::new(budget, 50, cells, systems, [&OP, &WALL]).run(
        recorder,
        |cell, _| Some(cell.config()),
        |cell, system, slice| (system.measure.load)(*cell, slice),
    )
}

fn bytes(budget: Budget, systems: &mut [System<Measures>], recorder: &mut Recorder) -> anyhow::Result<()> {
    let once = Budget { rounds: Some(1), ..budget };
    Plan::new(once, 1, &[()], systems, [&BYTES]).run(
        recorder,
        |(), _| Some(Config::new([("size", LARGE.into())])),
        |(), system, _| Ok([(system.measure.bytes)()]),
    )
}

/// Runs the bench.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
    if budget.cells == Some("copy") {
        return copied(budget.quick_instead_of(180.0, 30.0));
    }
    if budget.cells == Some("churn") {
        let mut recorder = Recorder::new("map");
        churn::measure(budget.quick_instead_of(180.0, 30.0), &mut recorder)?;
        return Ok(Report::new(&recorder, Vec::new()));
    }
    let mut systems = [
        system::<Stillpoint>(),
        system::<Papaya>(),
        system::<Dashmap>(),
        system::<Scc>(),
        system::<Locked>(),
        #[cfg(feature = "liburcu")]
        system::<Lfht>(),
    ];
    let growing = systems.iter().position(|system| system.name == CDS_LFHT).unwrap_or(systems.len());
    let budget = budget.quick_instead_of(180.0, 30.0);
    let mut recorder = Recorder::new("map");
    if budget.cells == Some("growth") {
        let mut systems: Vec<_> = systems.into_iter().take(growing).chain([system::<CopyMap>()]).collect();
        Plan::new(budget, 3000, &[()], &mut systems, [&growth::MEAN, &growth::LONGEST]).run(
            &mut recorder,
            |(), _| Some(growth::config()),
            |(), system, _| (system.measure.growth)(),
        )?;
        return Ok(Report::new(&recorder, peers::missing(&[CDS_LFHT])));
    }
    operations(budget.share(0.85), &cells(budget.quick), &mut systems, &mut recorder)?;
    let growing = &mut systems[..growing];
    Plan::new(budget.share(0.12), 150, &[false, true], growing, [&P999]).run(
        &mut recorder,
        |&resizes, _| Some(Config::new([("resizes", u32::from(resizes).into())])),
        |&resizes, system, slice| Ok([(system.measure.latency)(resizes, slice)?]),
    )?;
    bytes(budget.share(0.03), growing, &mut recorder)?;
    Ok(Report::new(&recorder, peers::missing(&[CDS_LFHT])))
}
