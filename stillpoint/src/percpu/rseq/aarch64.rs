//! The critical sections on aarch64. See `sections.rs` for what each does, and [`super`] for the invariants.
//!
//! A section commits by `stlr`, and reads words that threads on other CPUs write by `ldar`. The abort handler and
//! early exits follow the section directly, because conditional branches do not reach far.

use core::arch::asm;

use super::layout::{Place, Pushed};

/// Loads the address of the rseq area into `rseq` and the limit into `x`, and leaves by `7` if its offset is 0. Then
/// arms the section. The store to `rseq_cs` comes last.
macro_rules! arm {
    () => {
        concat!(
            descriptor!(),
            "ldar {rseq}, [{place}]\n",
            "and {x}, {rseq}, #0x7fff\n",
            "asr {rseq}, {rseq}, #15\n",
            "cbz {rseq}, 7f\n",
            "mrs {t}, tpidr_el0\n",
            "add {rseq}, {rseq}, {t}\n",
            fault_point!(0),
            "adrp {t}, 3b\n",
            "add {t}, {t}, :lo12:3b\n",
            unless_mutant!(1, "str {t}, [{rseq}, #8]", ""),
            "\n4:\n",
            fault_point!(1),
        )
    };
}

/// Loads the address of the current CPU's first word into `t`. Leaves by `7` if the CPU number, without its sign, is
/// not below the limit.
macro_rules! open_word {
    () => {
        concat!(
            "ldr {t:w}, [{rseq}, #4]\n",
            fault_point!(2),
            unless_mutant!(3, "cmp {t:w}, {x:w}\nb.hs 7f\n", ""),
            "ldr {x}, [{place}, #8]\n",
            "add {t}, {x}, {t}, lsl #14\n",
        )
    };
}

/// Leaves by `7` if the stack at `t` is stopped.
macro_rules! open_stack {
    () => {
        unless_mutant!(4, "ldar {x}, [{t}]\ncbnz {x}, 7f\n", "")
    };
}

/// Ends the section after the commit. The abort handler (`6`, behind the signature) and early exits (`7`, and `8`
/// without a value) follow.
macro_rules! end {
    ($failed:expr, $left:expr) => {
        concat!(
            "5:\n",
            fault_point!(5),
            "b 9f\n",
            ".inst 0xd428bc00\n",
            "6:\n",
            fault_point!(6),
            "7:\n",
            $failed,
            "\n8:\n",
            $left,
            "\n9:",
        )
    };
}

/// The end of a section that adds: adds to the word at `t`.
macro_rules! add_to_word {
    () => {
        concat!(
            "ldr {x}, [{t}]\n",
            "add {x}, {x}, {by}\n",
            fault_point!(3),
            "stlr {x}, [{t}]\n",
            end!(leave_by!("b {failed}", "mov {how}, #1\nb 9f"), ""),
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
        "add {t}, {t}, {index}, lsl #3",
        add_to_word!(),
    }

    fn add_open(x) {
        unless_mutant!(7, "ldr {t}, [{gate}]\ntbnz {t}, #0, 7f\n", ""),
        open_word!(),
        add_to_word!(),
    }

    fn push(x, len) {
        "ldr {len}, [{t}, #8]",
        unless_mutant!(2, "cmp {len}, {capacity}\nb.hs 8f\n", ""),
        fault_point!(3),
        unless_mutant!(5, "", "add x16, {len}, #1\nstr x16, [{t}, #8]\n"),
        "add {x}, {t}, {len}, lsl #3",
        "str {value}, [{x}, #16]",
        fault_point!(4),
        "add {len}, {len}, #1",
        "add {t}, {t}, #8",
        "stlr {len}, [{t}]",
        end!(leave_by!("b {failed}", "mov {how}, #1\nb 9f"), leave_by!("b {full}", "mov {how}, #2")),
    }

    fn pop(x, len) {
        "ldr {len}, [{t}, #8]",
        "cbz {len}, 8f",
        "sub {len}, {len}, #1",
        fault_point!(3),
        "add {x}, {t}, {len}, lsl #3",
        "ldr {value}, [{x}, #16]",
        fault_point!(4),
        "add {t}, {t}, #8",
        "stlr {len}, [{t}]",
        end!(unless_mutant!(6, "mov {value}, #-1\nb 9f", "mov {value}, #0\nb 9f"), "mov {value}, #0"),
    }
}
