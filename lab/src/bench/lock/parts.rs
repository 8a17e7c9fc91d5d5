//! `bench lock-ablation`: what each mechanism and each constant of the lock is worth.
//!
//! The lock is a type of its mechanisms and constants. One is changed at a time; `stillpoint` is the lock that ships. A ratio above
//! 1 in `mops`, or below 1 in `max_wait_ns`, speaks for the lock as it ships.

use std::time::Duration;

use stillpoint::lock::lab::Policy;

use super::load::{Cell, Work};
use super::{Outcome, System, measure};
use crate::harness::report::OURS;
use crate::harness::{Budget, Report};
use crate::peers::stillpoint::Variant;

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
pub(crate) const NO_LEAD: System = System::new::<Variant<NoLead>>("no-lead");
pub(crate) const NO_RESERVE: System = System::new::<Variant<NoReserve>>("no-reservation");
pub(crate) const NO_QUANTUM: System = System::new::<Variant<NoQuantum>>("no-quantum");
pub(crate) const NO_DEFER: System = System::new::<Variant<NoDefer>>("no-deferred-kick");

/// With the same wrapper as the variants.
fn shipped(cell: Cell, work: Work, slice: Duration) -> anyhow::Result<Outcome> {
    super::load::run::<Variant<stillpoint::lock::lab::Shipped>>(cell, work, slice)
}

variants! {
    NoSteal "no-stealing" { const STEAL: bool = false; }
    NoLead "no-lead" { const LEAD: bool = false; }
    NoReserve "no-reservation" { const RESERVE: bool = false; }
    NoQuantum "no-quantum" { const LEAD: bool = false; const RESERVE: bool = false; }
    NoDefer "no-deferred-kick" { const DEFER: bool = false; }
    NoBypass "no-bypass" { const BYPASS: bool = false; }
    NoHint "no-cpu-hint" { const HINT: bool = false; }
    NoGap "no-gap" { const GAP: bool = false; }
    NoDemand "no-demand" { const DEMAND: bool = false; }
    NoStay "no-stay" { const STAY_NS: u64 = u64::MAX; }
    Spin1 "spin-1500" { const SPIN_NS: u32 = 1_500; }
    Spin24 "spin-24000" { const SPIN_NS: u32 = 24_000; }
    Head1 "head-1500" { const HEAD_NS: u32 = 1_500; }
    Head24 "head-24000" { const HEAD_NS: u32 = 24_000; }
    Gap1000 "gap-1000" { const GAP_NS: u32 = 1_000; }
    Gap16000 "gap-16000" { const GAP_NS: u32 = 16_000; }
    Kept0 "kept-0" { const KEPT_NS: u32 = 0; }
    Kept50 "kept-50000" { const KEPT_NS: u32 = 50_000; }
    Kept200 "kept-200000" { const KEPT_NS: u32 = 200_000; }
    QuantumHalf "quantum-half" { const QUANTUM_NS: u64 = 75_000; const RESERVE_NS: u64 = 100_000; }
    QuantumDouble "quantum-double" { const QUANTUM_NS: u64 = 300_000; const RESERVE_NS: u64 = 400_000; }
    QuantumFourfold "quantum-fourfold" { const QUANTUM_NS: u64 = 600_000; const RESERVE_NS: u64 = 800_000; }
    ReserveAtOnce "reserve-at-quantum" { const RESERVE_NS: u64 = 150_000; }
    ReserveLate "reserve-late" { const RESERVE_NS: u64 = 400_000; }
    ReserveIdle "reserve-idle-400" { const RESERVE_IDLE_NS: u64 = 400_000; }
    Stay500 "stay-500" { const STAY_NS: u64 = 500_000; }
    Stay5000 "stay-5000" { const STAY_NS: u64 = 5_000_000; }
    Look4 "look-4" { const LOOK_EVERY: u32 = 4; }
    Look64 "look-64" { const LOOK_EVERY: u32 = 64; }
}

/// Runs the bench.
///
/// # Errors
///
/// Fails if the machine does not allow the threads.
pub(crate) fn run(quick: bool, budget: Budget) -> anyhow::Result<Report> {
    let budget = if quick { budget.instead_of(SECONDS, QUICK_SECONDS) } else { budget };
    let (variants, cells) = if quick { (&VARIANTS[..11], &CELLS[2..]) } else { (VARIANTS, &CELLS[..]) };
    Ok(Report::new("lock-ablation", &measure("bench lock-ablation", variants, cells, budget)?, Vec::new()))
}
