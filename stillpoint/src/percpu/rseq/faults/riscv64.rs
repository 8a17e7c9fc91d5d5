//! Fault points on riscv64. They use `t6`, which the sections clobber.

use core::arch::asm;
use core::ffi::c_void;
use core::sync::atomic::AtomicU32;

/// A fault point of a section.
macro_rules! fault_point {
    ($number:literal) => {
        concat!(
            "lui t6, %tprel_hi(stillpoint_fault_points)\n",
            "add t6, t6, tp, %tprel_add(stillpoint_fault_points)\n",
            "addi t6, t6, %tprel_lo(stillpoint_fault_points)\n",
            "lw t6, 4 * ",
            $number,
            "(t6)\n",
            "beqz t6, 21f\n",
            "andi t6, t6, 1\n",
            "bnez t6, 20f\n",
            "li t6, 2000\n",
            "24: addi t6, t6, -1\n",
            "bnez t6, 24b\n",
            "j 21f\n",
            // Of four bytes: see `step_over`.
            "20:\n",
            ".option push\n.option norvc\nebreak\n.option pop\n",
            "21:\n",
        )
    };
}

/// The instructions `$broken` if the mutant is selected, otherwise `$right`.
macro_rules! unless_mutant {
    ($number:literal, $right:expr, $broken:expr) => {
        concat!(
            "lla t6, stillpoint_fault_mutant\n",
            "lw t6, 0(t6)\n",
            "addi t6, t6, -",
            $number,
            "\n",
            "bnez t6, 22f\n",
            $broken,
            "\nj 23f\n",
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
            "lui {p}, %tprel_hi(stillpoint_fault_points)",
            "add {p}, {p}, tp, %tprel_add(stillpoint_fault_points)",
            "addi {p}, {p}, %tprel_lo(stillpoint_fault_points)",
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
    const TRAP: u32 = 0x0010_0073;
    // SAFETY: the caller's contract; the thread was about to execute the instruction.
    unsafe {
        let next = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.__gregs[libc::REG_PC];
        if (*next as *const u32).read_unaligned() == TRAP {
            *next += 4;
        }
    }
}
