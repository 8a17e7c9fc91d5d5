//! `bench lock-parts`: what each mechanism and each constant of the lock is worth.
//!
//! The lock is a type of its mechanisms and constants. One is changed at a time; `stillpoint` is the lock that ships. A ratio above
//! 1 in `mops`, or below 1 in `max_wait_ns`, speaks for the lock as it ships.

use std::time::Duration;

use stillpoint::lock::lab::Policy;

use super::load::{Cell, Work};
use super::systems::{System, Variant};
use super::{Outcome, measure};
use crate::harness::report::OURS;
use crate::harness::{Budget, Report};

/// Usual time of all variants.
pub(crate) const SECONDS: f64 = 400.0;
const QUICK_SECONDS: f64 = 80.0;

const CELLS: [Cell; 5] = [
    Cell::new(2, 0, 0),
    Cell::new(8, 100, 2000),
    Cell::new(64, 100, 100),
    Cell::new(64, 1000, 1000),
    Cell::new(64, 1000, 1000).on_one_cpu(),
];

/// The lock that ships, and variants of it.
macro_rules! variants {
    ($($type:ident $name:literal { $($item:tt)* })*) => {
        $(
            struct $type;
            impl Policy for $type { $($item)* }
        )*
        const VARIANTS: &[System] = &[
            SHIPPED,
            $(System::new::<Variant<$type>>($name),)*
        ];
    };
}

/// The lock that ships.
pub(crate) const SHIPPED: System = System { name: OURS, run: shipped, only_spins: false };
/// Variants that others ask for.
pub(crate) const NO_STEAL: System = System::new::<Variant<NoSteal>>("no-stealing");
pub(crate) const NO_RESERVE: System = System::new::<Variant<NoReserve>>("no-reservation");
pub(crate) const NO_DEFER: System = System::new::<Variant<NoDefer>>("no-deferred-kick");

/// With the same wrapper as the variants.
fn shipped(cell: Cell, work: Work, slice: Duration) -> anyhow::Result<Outcome> {
    super::load::run::<Variant<stillpoint::lock::lab::Shipped>>(cell, work, slice)
}

variants! {
    NoSteal "no-stealing" { const STEAL: bool = false; }
    NoReserve "no-reservation" { const RESERVE: bool = false; }
    NoDefer "no-deferred-kick" { const DEFER: bool = false; }
    NoBypass "no-bypass" { const BYPASS: bool = false; }
    NoBackoff "no-backoff" { const BACKOFF_NS: u32 = 0; }
    Backoff1000 "backoff-1000" { const BACKOFF_NS: u32 = 1_000; }
    Backoff16000 "backoff-16000" { const BACKOFF_NS: u32 = 16_000; }
    QuantumHalf "quantum-half" { const QUANTUM_NS: u64 = 75_000; const RESERVE_NS: u64 = 100_000; }
    QuantumDouble "quantum-double" { const QUANTUM_NS: u64 = 300_000; const RESERVE_NS: u64 = 400_000; }
    QuantumFourfold "quantum-fourfold" { const QUANTUM_NS: u64 = 600_000; const RESERVE_NS: u64 = 800_000; }
    ReserveAtOnce "reserve-at-quantum" { const RESERVE_NS: u64 = 150_000; }
    ReserveLate "reserve-late" { const RESERVE_NS: u64 = 400_000; }
}

/// Runs the bench.
///
/// # Errors
///
/// Fails if the machine does not allow the threads.
pub(crate) fn run(quick: bool, budget: Budget) -> anyhow::Result<Report> {
    let budget = if quick { budget.instead_of(SECONDS, QUICK_SECONDS) } else { budget };
    let (variants, cells) = if quick { (&VARIANTS[..6], &CELLS[2..]) } else { (VARIANTS, &CELLS[..]) };
    Ok(Report::new("lock-parts", &measure("bench lock-parts", variants, cells, budget)?, Vec::new()))
}
