//! Fault points on aarch64. They use `x16`, which the sections clobber, and keep the flags.

use core::arch::asm;
use core::ffi::c_void;
use core::sync::atomic::AtomicU32;

/// A fault point of a section.
macro_rules! fault_point {
    ($number:literal) => {
        concat!(
            "mrs x16, tpidr_el0\n",
            "add x16, x16, #:tprel_hi12:stillpoint_fault_points, lsl #12\n",
            "add x16, x16, #:tprel_lo12_nc:stillpoint_fault_points\n",
            "ldr w16, [x16, #4 * ",
            $number,
            "]\n",
            "cbz w16, 21f\n",
            "tbnz w16, #0, 20f\n",
            "mov w16, #2000\n",
            "24: sub w16, w16, #1\n",
            "cbnz w16, 24b\n",
            "b 21f\n",
            "20: brk #0\n",
            "21:\n",
        )
    };
}

/// The instructions `$broken` if the mutant is selected, otherwise `$right`.
macro_rules! unless_mutant {
    ($number:literal, $right:expr, $broken:expr) => {
        concat!(
            "adrp x16, stillpoint_fault_mutant\n",
            "ldr w16, [x16, :lo12:stillpoint_fault_mutant]\n",
            "sub w16, w16, #",
            $number,
            "\n",
            "cbnz w16, 22f\n",
            $broken,
            "\nb 23f\n",
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
        asm!(
            "mrs {p}, tpidr_el0",
            "add {p}, {p}, #:tprel_hi12:stillpoint_fault_points, lsl #12",
            "add {p}, {p}, #:tprel_lo12_nc:stillpoint_fault_points",
            p = out(reg) points,
        );
    }
    points
}

/// Has the handler return behind the trap, unless the kernel has aborted the section: the abort handler does not
/// begin with this instruction.
///
/// # Safety
///
/// `context` is the argument of a handler of `SIGTRAP`.
pub unsafe fn step_over(context: *mut c_void) {
    const TRAP: u32 = 0xd420_0000;
    // SAFETY: the caller's contract; the thread was about to execute the instruction.
    unsafe {
        let next = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.pc;
        if *(*next as *const u32) == TRAP {
            *next += 4;
        }
    }
}
