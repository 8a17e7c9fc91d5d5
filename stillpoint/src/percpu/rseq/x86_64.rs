//! The critical sections on x86-64. See `sections.rs` for what each does, and [`super`] for the invariants.
//!
//! The thread pointer is in `fs`, so `rseq` is an offset. Every store is a Release and every load an Acquire.

use core::arch::asm;

use super::layout::{Place, Pushed};

/// Loads the offset of the rseq area into `rseq` and the limit into the lower half of `x`'s lower half, and leaves by
/// `7` if the offset is 0. Then arms the section. The store to `rseq_cs` comes last.
macro_rules! arm {
    () => {
        concat!(
            descriptor!(),
            "mov {rseq}, qword ptr [{place}]\n",
            "mov {x}, {rseq}\n",
            "sar {rseq}, 16\n",
            "je 7f\n",
            fault_point!(0),
            "lea {t}, [rip + 3b]\n",
            unless_mutant!(1, "mov qword ptr fs:[{rseq} + 8], {t}", ""),
            "\n4:\n",
            fault_point!(1),
        )
    };
}

/// Loads the address of the current CPU's first word into `t`. Leaves by `7` if the CPU number, without its sign, is
/// not below the limit, of which there are 16 bits.
macro_rules! open_word {
    () => {
        concat!(
            "mov {t:e}, dword ptr fs:[{rseq} + 4]\n",
            fault_point!(2),
            unless_mutant!(3, "cmp {t:x}, {x:x}\njae 7f\n", ""),
            "shl {t}, 14\n",
            "add {t}, qword ptr [{place} + 8]\n",
        )
    };
}

/// Leaves by `7` if the stack at `t` is stopped.
macro_rules! open_stack {
    () => {
        unless_mutant!(4, "cmp qword ptr [{t}], 0\njne 7f\n", "")
    };
}

/// Ends the section after the commit. Out of line follow the abort handler (`6`, behind the signature) and early
/// exits (`7`).
macro_rules! end {
    ($failed:expr) => {
        concat!(
            "5:\n",
            fault_point!(5),
            ".pushsection __rseq_failure, \"ax\", @progbits\n",
            // The signature, as the operand of an instruction that is never executed.
            ".byte 0x0f, 0xb9, 0x3d\n",
            ".long 0x53053053\n",
            "6:\n",
            fault_point!(6),
            "7:\n",
            $failed,
            "\n.popsection\n",
        )
    };
}

/// Out of line: early exits by `8`, without a value.
macro_rules! leave {
    ($how:literal) => {
        concat!(".pushsection __rseq_failure, \"ax\", @progbits\n", "8:\n", $how, "\n.popsection\n")
    };
}

/// The end of a section that adds: adds to the word at `t`.
macro_rules! add_to_word {
    () => {
        concat!(
            // Neither a single `add` to memory nor an indexed address: processors forward such a store to the load of
            // the next add several cycles later.
            "mov {x}, qword ptr [{t}]\n",
            "lea {x}, [{x} + {by}]\n",
            fault_point!(3),
            "mov qword ptr [{t}], {x}\n",
            end!(leave_by!("jmp {failed}", "mov {how:e}, 1\njmp 30f")),
        )
    };
}

sections! {
    fn add(x) {
        open_word!(),
        add_to_word!(),
    }

    fn add_at(x) {
        open_word!(),
        "lea {t}, [{t} + 8 * {index}]",
        add_to_word!(),
    }

    fn add_open(x) {
        unless_mutant!(7, "test byte ptr [{gate}], 1\njne 7f\n", ""),
        open_word!(),
        add_to_word!(),
    }

    fn push(x) {
        "mov {x}, qword ptr [{t} + 8]",
        unless_mutant!(2, concat!("cmp {x}, {capacity}\n", leave_by!("jae {full}\n", "jae 8f\n")), ""),
        fault_point!(3),
        unless_mutant!(5, "", "inc qword ptr [{t} + 8]\n"),
        "mov qword ptr [{t} + 8 * {x} + 16], {value}",
        fault_point!(4),
        "inc {x}",
        "mov qword ptr [{t} + 8], {x}",
        end!(leave_by!("jmp {failed}", "mov {how:e}, 1\njmp 30f")),
        leave_by!("", leave!("mov {how:e}, 2\njmp 30f")),
    }

    fn pop(x) {
        "mov {x}, qword ptr [{t} + 8]",
        "sub {x}, 1",
        "jb 8f",
        fault_point!(3),
        "mov {value}, qword ptr [{t} + 8 * {x} + 16]",
        fault_point!(4),
        "mov qword ptr [{t} + 8], {x}",
        end!(unless_mutant!(6, "mov {value}, -1\njmp 30f", "xor {value:e}, {value:e}\njmp 30f")),
        leave!("xor {value:e}, {value:e}\njmp 30f"),
        "30:",
    }
}
