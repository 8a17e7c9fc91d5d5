//! `bench lock-ablation`: the mechanisms and constants of the lock, each changed alone, beside peers.
//!
//! A policy sets the mechanisms and constants of a lock. Each variant changes one; `stillpoint` is the default
//! policy. A ratio above 1 in `mops`, or below 1 in `max_wait_ns`, favours the default.

use stillpoint::lock::lab::{DefaultPolicy, Policy};

use super::load::{Cell, run as run_load};
use super::{Measure, measure};
use crate::peers::Lock as _;
use crate::peers::stillpoint::Variant;
use harness::plan::system;
use harness::report::OURS;
use harness::{Budget, Report, System, systems};

/// Cells in which the lock is all that threads do.
const CELLS: [Cell; 4] =
    [Cell::new(8, 100, 100), Cell::new(64, 100, 100), Cell::new(8, 1000, 1000), Cell::new(64, 1000, 1000)];

/// The default policy, and variants of it.
macro_rules! variants {
    ($($type:ident $name:literal { $($item:tt)* })*) => {
        $(
            struct $type;
            impl Policy for $type { $($item)* }
        )*
        /// The mechanisms first.
        const VARIANTS: [System<Measure>; 13] =
            [system(OURS, run_load::<Variant<DefaultPolicy>>), $(system($name, run_load::<Variant<$type>>),)*];
    };
}

variants! {
    NoSteal "no-stealing" { const STEALING: bool = false; }
    NoReserve "no-reservation" { const RESERVATION: bool = false; }
    NoBypass "no-bypass" { const BYPASS: bool = false; }
    NoBackoff "no-backoff" { const BACKOFF_NS: u32 = 0; }
    NoYield "no-yield" { const YIELDS: u32 = 0; }
    OneYield "one-yield" { const YIELDS: u32 = 1; }
    TwoYields "two-yields" { const YIELDS: u32 = 2; }
    YieldAfter25 "yield-after-25us" { const YIELD_AFTER_NS: u64 = 25_000; }
    YieldAfter400 "yield-after-400us" { const YIELD_AFTER_NS: u64 = 400_000; }
    QuantumHalf "quantum-half" { const QUANTUM_NS: u64 = 100_000; const RESERVE_NS: u64 = 125_000; }
    QuantumDouble "quantum-double" { const QUANTUM_NS: u64 = 400_000; const RESERVE_NS: u64 = 500_000; }
    ReserveLate "reserve-late" { const RESERVE_NS: u64 = 500_000; }
}

/// Runs the bench.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
    let peers: [System<Measure>; 3] = systems![run_load:
        std::sync::Mutex<u64>,
        parking_lot_12::Mutex<u64>,
        parking_lot::Mutex<u64>,
    ];
    let mut systems: Vec<_> = VARIANTS.into_iter().chain(peers).collect();
    Ok(Report::new(&measure("lock-ablation", &mut systems, &CELLS, budget)?, Vec::new()))
}
