//! Faults inside critical sections, for tests: compiled with `--cfg stillpoint_faults` only.
//!
//! Each section has numbered fault points. At a point a test can delay a thread, or make it trap. A trap is a signal
//! in the middle of the section, which aborts it. The signal handler may yield, sleep, move to another CPU, or
//! execute the same operation. The mutants that the tests name break sections in the same way, one step at a time, to
//! show that the tests notice.

use core::arch::global_asm;
use core::sync::atomic::{AtomicU32, Ordering::*};

use crate::sync::mutant;

#[cfg_attr(target_arch = "x86_64", path = "faults/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "faults/aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "faults/riscv64.rs")]
#[macro_use]
mod arch;

pub use arch::step_over;

/// Fault points of a section.
pub const POINTS: usize = 8;

/// What happens at a fault point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Fault {
    /// Nothing.
    None = 0,
    /// A breakpoint: `SIGTRAP`.
    Trap = 1,
    /// A delay of some microseconds.
    Delay = 2,
}

// Thread-local, so that instructions find it without a register: in programs, not in shared libraries.
global_asm!(
    ".pushsection .tbss, \"awT\", @nobits",
    ".balign 32",
    ".globl stillpoint_fault_points",
    "stillpoint_fault_points: .zero 32",
    ".popsection",
);
const _: () = assert!(4 * POINTS == 32);

fn points() -> &'static [AtomicU32; POINTS] {
    // SAFETY: the array above, which lives as long as the thread; no other thread gets the reference.
    unsafe { &*arch::points().cast() }
}

#[unsafe(no_mangle)]
static stillpoint_fault_mutant: AtomicU32 = AtomicU32::new(0);

/// Mutants of the sections themselves; the first has number 1.
const IN_SECTIONS: [&str; 7] = [
    "not-armed",
    "room-not-checked",
    "cpu-not-checked",
    "stop-not-checked",
    "committed-early",
    "interrupted-pop-finds-nothing",
    "gate-not-checked",
];

/// Breaks the sections by the mutant that is selected, if it is one of theirs. The caller has run no section yet.
pub fn select() {
    if let Some(index) = IN_SECTIONS.iter().position(|known| mutant(known)) {
        stillpoint_fault_mutant.store(index as u32 + 1, SeqCst);
    }
}

/// Makes `fault` happen when the calling thread passes `point`.
pub fn set(point: usize, fault: Fault) {
    points()[point].store(fault as u32, SeqCst);
}

/// Removes the fault. Returns `true` if there was one.
pub fn disarm(point: usize) -> bool {
    points()[point].swap(0, SeqCst) != 0
}
