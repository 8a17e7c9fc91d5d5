//! The critical sections on x86-64. See `sections.rs` for what each does, and [`super`] for the invariants.
//!
//! The thread pointer is in `fs`, so `rseq` is an offset. Every store is a Release and every load an Acquire.

use core::arch::asm;

use super::layout::{AreaRef, CounterRef, Pushed, rseq};

/// Arms the section. The store to `rseq_cs` comes last.
macro_rules! arm {
    () => {
        concat!(
            descriptor!(),
            fault_point!(0),
            "lea {t}, [rip + 3b]\n",
            unless_mutant!(1, "mov qword ptr fs:[{rseq} + 8], {t}", ""),
            "\n4:\n",
            fault_point!(1),
        )
    };
}

/// Loads the current CPU's area, as bytes from the first area, into `t`. Leaves by `7` if the CPU number is negative.
macro_rules! area_offset {
    () => {
        concat!(
            "movsxd {t}, dword ptr fs:[{rseq} + 4]\n",
            fault_point!(2),
            unless_mutant!(3, "shl {t}, 7\njs 7f\n", "shl {t}, 7\n"),
        )
    };
}

/// Loads the address of the current CPU's area into `t`. Leaves by `7` if the area is stopped too.
macro_rules! open_area {
    () => {
        concat!(
            area_offset!(),
            "add {t}, {areas}\n",
            unless_mutant!(4, "cmp qword ptr [{t}], 0\njne 7f\n", ""),
        )
    };
}

/// Ends the section after the commit. Out of line follow the abort handler (`6`, behind the signature) and early exits
/// (`7`).
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

/// The end of a section that adds: adds to the word of the current CPU.
macro_rules! add_to_word {
    () => {
        concat!(
            area_offset!(),
            "add {t}, {word}\n",
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
        add_to_word!(),
    }

    fn add_open(x) {
        unless_mutant!(7, "test byte ptr [{gate}], 1\njne 7f\n", ""),
        add_to_word!(),
    }

    fn push(len, slots) {
        "mov {len}, qword ptr [{t} + 8]",
        unless_mutant!(2, concat!("cmp {len}, qword ptr [{t} + 16]\n", leave_by!("jae {full}\n", "jae 8f\n")), ""),
        fault_point!(3),
        "mov {slots}, qword ptr [{t} + 24]",
        unless_mutant!(5, "", "inc qword ptr [{t} + 8]\n"),
        "mov qword ptr [{slots} + 8 * {len}], {value}",
        fault_point!(4),
        "inc {len}",
        "mov qword ptr [{t} + 8], {len}",
        end!(leave_by!("jmp {failed}", "mov {how:e}, 1\njmp 30f")),
        leave_by!("", leave!("mov {how:e}, 2\njmp 30f")),
    }

    fn pop(len) {
        "mov {len}, qword ptr [{t} + 8]",
        "sub {len}, 1",
        "jb 8f",
        fault_point!(3),
        "mov {value}, qword ptr [{t} + 24]",
        "mov {value}, qword ptr [{value} + 8 * {len}]",
        fault_point!(4),
        "mov qword ptr [{t} + 8], {len}",
        end!(unless_mutant!(6, "mov {value}, -1\njmp 30f", "xor {value:e}, {value:e}\njmp 30f")),
        leave!("xor {value:e}, {value:e}\njmp 30f"),
        "30:",
    }
}
