//! `bench lock-ablation`: ablation of the lock, by mechanism and constant.
//!
//! A policy sets the mechanisms and constants of a lock. Each variant changes one; `stillpoint` is the default
//! policy. A ratio above 1 in `mops`, or below 1 in `max_wait_ns`, favours the default.

use stillpoint::lock::lab::{DefaultPolicy, Policy};

use super::load::{Cell, run as run_load};
use super::{Measure, measure, selected};
use crate::harness::plan::system;
use crate::harness::report::OURS;
use crate::harness::{Budget, Report, System};
use crate::peers::stillpoint::Variant;

/// The quick ones last.
const CELLS: [Cell; 10] = [
    Cell::new(2, 0, 0),
    Cell::new(8, 100, 2000),
    Cell::new(8, 1000, 1000),
    Cell::new(8, 10_000, 10_000),
    Cell::new(8, 300, 650).with_random_pauses(),
    Cell::new(32, 300, 650).with_random_pauses(),
    Cell::new(64, 100, 100),
    Cell::new(64, 1000, 1000),
    Cell::new(64, 10_000, 10_000),
    Cell::new(64, 1000, 1000).on_one_cpu(),
];

/// The default policy, and variants of it.
macro_rules! variants {
    ($($type:ident $name:literal { $($item:tt)* })*) => {
        $(
            struct $type;
            impl Policy for $type { $($item)* }
        )*
        /// The mechanisms first, and the lock without those that it can do without.
        pub(crate) const VARIANTS: [System<Measure>; 14] =
            [system(OURS, run_load::<Variant<DefaultPolicy>>), $(system($name, run_load::<Variant<$type>>),)*];
    };
}

variants! {
    NoSteal "no-stealing" { const STEALING: bool = false; }
    NoReserve "no-reservation" { const RESERVATION: bool = false; }
    NoDefer "no-deferred-kick" { const DEFERRED_WAKE: bool = false; }
    NoBypass "no-bypass" { const BYPASS: bool = false; }
    NoBackoff "no-backoff" { const BACKOFF_NS: u32 = 0; }
    Minimal "minimal" {
        const DEFERRED_WAKE: bool = false;
        const BYPASS: bool = false;
        const BACKOFF_NS: u32 = 0;
    }
    Backoff1000 "backoff-1000" { const BACKOFF_NS: u32 = 1_000; }
    Backoff4000 "backoff-4000" { const BACKOFF_NS: u32 = 4_000; }
    QuantumHalf "quantum-half" { const QUANTUM_NS: u64 = 100_000; const RESERVE_NS: u64 = 125_000; }
    QuantumDouble "quantum-double" { const QUANTUM_NS: u64 = 400_000; const RESERVE_NS: u64 = 500_000; }
    QuantumFourfold "quantum-fourfold" { const QUANTUM_NS: u64 = 800_000; const RESERVE_NS: u64 = 1_000_000; }
    ReserveAtOnce "reserve-at-quantum" { const RESERVE_NS: u64 = 200_000; }
    ReserveLate "reserve-late" { const RESERVE_NS: u64 = 500_000; }
}

/// Runs the bench.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut variants = VARIANTS;
    let (variants, cells) =
        if budget.quick { (&mut variants[..7], &CELLS[6..]) } else { (&mut variants[..], &CELLS[..]) };
    let cells = selected(budget, cells.to_vec())?;
    let recorder = measure("lock-ablation", variants, &cells, budget.quick_instead_of(400.0, 80.0))?;
    Ok(Report::new(&recorder, Vec::new()))
}
