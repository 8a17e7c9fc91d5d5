//! `bench lock-ablation`: ablation of the lock, by mechanism and constant, beside peers.
//!
//! A policy sets the mechanisms and constants of a lock. Each variant changes one; `stillpoint` is the default
//! policy. A ratio above 1 in `mops`, or below 1 in `max_wait_ns`, favours the default.
//!
//! - `mops_to_best_peer`: `mops` / those of the best of the [`PEERS`] in the round.
//! - `max_wait_to_std`: `max_wait_ns` / that of `std` in the round.
//!
//! The report draws the frontier of these two.

use stillpoint::lock::lab::{DefaultPolicy, Policy};

use super::load::{Cell, run as run_load};
use super::{MAX, MOPS, Measure, bottleneck, measure, selected};
use crate::peers::Lock;
use crate::peers::stillpoint::Variant;
use harness::plan::system;
use harness::report::OURS;
use harness::{Better, Budget, Metric, Profile, Report, System, systems};

/// The peers. The longest waits are divided by those of the first.
pub const PEERS: [&str; 3] =
    [std::sync::Mutex::<u64>::NAME, parking_lot_12::Mutex::<u64>::NAME, parking_lot::Mutex::<u64>::NAME];

pub const MOPS_TO_BEST_PEER: Metric =
    Metric { name: "mops_to_best_peer", unit: "ratio", better: Better::Higher };
pub const MAX_WAIT_TO_STD: Metric = Metric::ratio("max_wait_to_std");

/// The variants of the quick run and of the report.
const QUICK: [&str; 7] =
    [OURS, "no-stealing", "no-reservation", "no-yield", "one-yield", "two-yields", "yield-after-400us"];

/// Returns the cells in which the lock is the bottleneck, and others.
fn cells(quick: bool) -> Vec<Cell> {
    let rest = [
        Cell::new(2, 0, 0),
        Cell::new(8, 100, 2000),
        Cell::new(8, 100_000, 100_000),
        Cell::new(8, 300, 650).with_random_pauses(),
        Cell::new(32, 300, 650).with_random_pauses(),
    ];
    let rest = rest.into_iter().filter(|_| !quick);
    bottleneck().into_iter().chain(rest).collect()
}

/// The default policy, and variants of it.
macro_rules! variants {
    ($($type:ident $name:literal { $($item:tt)* })*) => {
        $(
            struct $type;
            impl Policy for $type { $($item)* }
        )*
        /// The mechanisms first.
        pub const VARIANTS: [System<Measure>; 17] =
            [system(OURS, run_load::<Variant<DefaultPolicy>>), $(system($name, run_load::<Variant<$type>>),)*];
    };
}

variants! {
    NoSteal "no-stealing" { const STEALING: bool = false; }
    NoReserve "no-reservation" { const RESERVATION: bool = false; }
    NoBypass "no-bypass" { const BYPASS: bool = false; }
    NoBackoff "no-backoff" { const BACKOFF_NS: u32 = 0; }
    Backoff250 "backoff-250ns" { const BACKOFF_NS: u32 = 250; }
    NoYield "no-yield" { const YIELDS: u32 = 0; }
    OneYield "one-yield" { const YIELDS: u32 = 1; }
    TwoYields "two-yields" { const YIELDS: u32 = 2; }
    YieldAfter25 "yield-after-25us" { const YIELD_AFTER_NS: u64 = 25_000; }
    YieldAfter100 "yield-after-100us" { const YIELD_AFTER_NS: u64 = 100_000; }
    YieldAfter400 "yield-after-400us" { const YIELD_AFTER_NS: u64 = 400_000; }
    QuantumHalf "quantum-half" { const QUANTUM_NS: u64 = 100_000; const RESERVE_NS: u64 = 125_000; }
    QuantumDouble "quantum-double" { const QUANTUM_NS: u64 = 400_000; const RESERVE_NS: u64 = 500_000; }
    QuantumFourfold "quantum-fourfold" { const QUANTUM_NS: u64 = 800_000; const RESERVE_NS: u64 = 1_000_000; }
    ReserveAtOnce "reserve-at-quantum" { const RESERVE_NS: u64 = 200_000; }
    ReserveLate "reserve-late" { const RESERVE_NS: u64 = 500_000; }
}

/// Returns the variants and the peers.
fn systems(quick: bool) -> Vec<System<Measure>> {
    let variants = VARIANTS.into_iter().filter(|variant| !quick || QUICK.contains(&variant.name));
    let peers: [System<Measure>; 3] = systems![run_load:
        std::sync::Mutex<u64>,
        parking_lot_12::Mutex<u64>,
        parking_lot::Mutex<u64>,
    ];
    variants.chain(peers).collect()
}

/// Runs the bench.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
    let (mut systems, cells) = (systems(budget.quick), selected(budget, cells(budget.quick))?);
    let mut recorder = measure("lock-ablation", &mut systems, &cells, budget.quick_instead_of(400.0, 80.0))?;
    for profile in Profile::every()? {
        for config in cells.iter().map(|cell| cell.config().on(*profile)) {
            for System { name, .. } in &systems {
                recorder.derive_ratio(&MOPS_TO_BEST_PEER, (name, &MOPS, &config), &PEERS);
                recorder.derive_ratio(&MAX_WAIT_TO_STD, (name, &MAX, &config), &PEERS[..1]);
            }
        }
    }
    Ok(Report::new(&recorder, Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_run_has_known_variants_and_all_peers() {
        let names: Vec<&str> = systems(true).iter().map(|system| system.name).collect();
        let missing: Vec<&&str> = QUICK.iter().chain(&PEERS).filter(|name| !names.contains(name)).collect();
        assert_eq!((names.len(), missing), (QUICK.len() + PEERS.len(), Vec::new()));
    }

    #[test]
    fn timed_cells_have_a_point_of_the_frontier_for_each_system() {
        let budget = Budget { seconds: 0.5, rounds: Some(1), quick: true, cells: Some("cpus+1") };
        let report = run(budget).expect("a measurement");
        let rows = |metric: &Metric| report.rows.iter().filter(|row| row.metric == metric.name).count();
        let (systems, cells) = (systems(true).len(), selected(budget, Vec::new()).expect("the set").len());
        let profiles = Profile::every().expect("CPUs").len();
        assert_eq!(rows(&MOPS_TO_BEST_PEER), systems * cells * profiles);
        let timed = if profiles > 1 { cells } else { cells - 1 };
        assert_eq!(rows(&MAX_WAIT_TO_STD), systems * timed * profiles);
        let std = report.rows.iter().filter(|row| row.system == "std" && row.metric == MAX_WAIT_TO_STD.name);
        assert!(std.map(|row| row.summary.median).all(|ratio| ratio == 1.0));
    }
}
