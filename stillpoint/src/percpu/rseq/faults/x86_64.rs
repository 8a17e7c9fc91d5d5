//! Fault points on x86-64.

use core::arch::asm;
use core::ffi::c_void;
use core::sync::atomic::AtomicU32;

/// A fault point of a section. Changes the flags.
macro_rules! fault_point {
    ($number:literal) => {
        concat!(
            "cmp dword ptr fs:[stillpoint_fault_points@tpoff + 4 * ",
            $number,
            "], 1\n",
            "jb 21f\n",
            "je 20f\n",
            ".rept 200\npause\n.endr\n",
            "jmp 21f\n",
            // The `nop` keeps the address behind the trap within the section.
            "20: int3\nnop\n",
            "21:\n",
        )
    };
}

/// The instructions `$broken` if the mutant is selected, otherwise `$right`. Changes the flags.
macro_rules! unless_mutant {
    ($number:literal, $right:expr, $broken:expr) => {
        concat!(
            "cmp dword ptr [rip + stillpoint_fault_mutant], ",
            $number,
            "\n",
            "jne 22f\n",
            $broken,
            "\njmp 23f\n",
            "22:\n",
            $right,
            "\n23:\n",
        )
    };
}

/// Returns the address of the first of the calling thread's fault points.
pub fn points() -> *const AtomicU32 {
    let points;
    // SAFETY: computes an address.
    unsafe {
        asm!("mov {p}, qword ptr fs:[0]", "lea {p}, [{p} + stillpoint_fault_points@tpoff]", p = out(reg) points)
    };
    points
}

/// Does nothing: the processor reports the address behind the trap.
///
/// # Safety
///
/// None: elsewhere `context` is the argument of a handler of `SIGTRAP`.
pub unsafe fn step_over(_context: *mut c_void) {}
