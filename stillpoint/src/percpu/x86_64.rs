//! The critical sections on x86-64. See [`super::section`] for what each does and what they have in common.
//!
//! The areas lie at the same distance from `fs` in every thread (`offset`), so a section needs no thread pointer. A plain
//! store releases and a plain load acquires, as on every x86.

use core::arch::asm;

use super::section::Place;

/// Says where the section that begins at `4` and ends before `5` goes on if it is interrupted: at `6`. The kernel finds this
/// through `rseq_cs`, which is set last before `4`.
macro_rules! arm {
    () => {
        concat!(
            ".pushsection __rseq_cs, \"aw\", @progbits\n",
            ".balign 32\n",
            "3:\n",
            ".long 0, 0\n",
            ".quad 4f, 5f - 4f, 6f\n",
            ".popsection\n",
            "lea {t}, [rip + 3b]\n",
            "mov qword ptr fs:[{offset} + 8], {t}\n",
            "4:",
        )
    };
}

/// The row of the CPU that the thread is on, as bytes from the first, in `t`; or leaves by `7`.
macro_rules! row {
    () => {
        concat!("mov {t:e}, dword ptr fs:[{offset} + 4]\n", "cmp {t}, {cpus}\n", "jae 7f\n", "shl {t}, 7",)
    };
}

/// After the commit: the section is over. And, out of the way, what happens otherwise: interrupted (`6`, behind the
/// signature, the kernel has cleared `rseq_cs`) or left early (`7`).
macro_rules! end {
    ($failed:literal) => {
        concat!(
            "5:\n",
            "mov qword ptr fs:[{offset} + 8], 0\n",
            ".pushsection __rseq_failure, \"ax\", @progbits\n",
            // The signature, as the operand of an instruction that nobody executes.
            ".byte 0x0f, 0xb9, 0x3d\n",
            ".long 0x53053053\n",
            "6:\n",
            $failed,
            "\n7:\n",
            "mov qword ptr fs:[{offset} + 8], 0\n",
            $failed,
            "\n.popsection",
        )
    };
}

/// See [`super::section::add`].
#[inline(always)]
pub unsafe fn add(place: Place, by: u64) -> bool {
    // SAFETY: the caller's contract, with (1) to (3) of `section`.
    unsafe {
        asm!(
            arm!(),
            row!(),
            "add qword ptr [{word} + {t}], {by}",
            end!("jmp {failed}"),
            t = out(reg) _,
            offset = in(reg) place.offset,
            cpus = in(reg) place.cpus,
            word = in(reg) place.word,
            by = in(reg) by,
            failed = label { return false },
            options(nostack),
        );
    }
    true
}
