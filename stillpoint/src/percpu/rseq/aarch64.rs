//! The critical sections on aarch64. See `sections.rs` for what each does, and [`super`] for the invariants.
//!
//! A section commits by `stlr`, and reads words that threads on other CPUs write by `ldar`. The abort handler and early
//! exits follow the section directly, because conditional branches do not reach far.

use core::arch::asm;

use super::layout::{AreaRef, CounterRef, Pushed, rseq};

/// Arms the section. The store to `rseq_cs` comes last.
macro_rules! arm {
    () => {
        concat!(descriptor!(), "adrp {t}, 3b\n", "add {t}, {t}, :lo12:3b\n", "str {t}, [{rseq}, #8]\n", "4:",)
    };
}

/// Loads the current CPU's number into `t`. Leaves by `7` if it is negative.
macro_rules! cpu {
    () => {
        concat!("ldrsw {t}, [{rseq}, #4]\n", "tbnz {t}, #63, 7f\n")
    };
}

/// Loads the address of the current CPU's area into `t`. Leaves by `7` if the area is stopped too.
macro_rules! open_area {
    () => {
        concat!(cpu!(), "add {t}, {areas}, {t}, lsl #7\n", "ldar {x}, [{t}]\n", "cbnz {x}, 7f\n")
    };
}

/// Ends the section after the commit. The abort handler (`6`, behind the signature) and early exits (`7`, and `8`
/// without a value) follow.
macro_rules! end {
    ($failed:literal, $left:literal) => {
        concat!("5:\n", "b 9f\n", ".inst 0xd428bc00\n", "6:\n", "7:\n", $failed, "\n8:\n", $left, "\n9:",)
    };
}

/// The end of a section that moves `n` values: copies them, the last one first, and commits the length.
macro_rules! copy_batch {
    ($from:literal, $to:literal) => {
        concat!(
            "mov {i}, {n}\n",
            "cbz {i}, 32f\n",
            "31:\n",
            "sub {i}, {i}, #1\n",
            concat!("ldr {x}, [", $from, ", {i}, lsl #3]\n"),
            concat!("str {x}, [", $to, ", {i}, lsl #3]\n"),
            "cbnz {i}, 31b\n",
            "32:\n",
            "add {t}, {t}, #8\n",
            "stlr {len}, [{t}]\n",
            end!("mov {n}, #-1\nb 9f", ""),
        )
    };
}

sections! {
    fn add(x) {
        cpu!(),
        "add {t}, {word}, {t}, lsl #7",
        "ldr {x}, [{t}]",
        "add {x}, {x}, {by}",
        "stlr {x}, [{t}]",
        end!("b {failed}", ""),
    }

    fn push(x, len) {
        "ldr {len}, [{t}, #8]",
        "ldr {x}, [{t}, #16]",
        "cmp {len}, {x}",
        "b.hs 8f",
        "ldr {x}, [{t}, #24]",
        "str {value}, [{x}, {len}, lsl #3]",
        "add {len}, {len}, #1",
        "add {t}, {t}, #8",
        "stlr {len}, [{t}]",
        end!("b {failed}", "b {full}"),
    }

    fn pop(x, len) {
        "ldr {len}, [{t}, #8]",
        "cbz {len}, 8f",
        "sub {len}, {len}, #1",
        "ldr {x}, [{t}, #24]",
        "ldr {value}, [{x}, {len}, lsl #3]",
        "add {t}, {t}, #8",
        "stlr {len}, [{t}]",
        end!("mov {value}, #-1\nb 9f", "mov {value}, #0"),
    }

    fn push_batch(x, len, slots, i) {
        "ldr {len}, [{t}, #8]",
        // As many as there is room for.
        "ldr {n}, [{t}, #16]",
        "sub {n}, {n}, {len}",
        "cmp {n}, {count}",
        "csel {n}, {n}, {count}, lo",
        "ldr {slots}, [{t}, #24]",
        "add {slots}, {slots}, {len}, lsl #3",
        "add {len}, {len}, {n}",
        copy_batch!("{values}", "{slots}"),
    }

    fn pop_batch(x, len, slots, i) {
        "ldr {len}, [{t}, #8]",
        // As many as there are.
        "cmp {len}, {count}",
        "csel {n}, {len}, {count}, lo",
        "sub {len}, {len}, {n}",
        "ldr {slots}, [{t}, #24]",
        "add {slots}, {slots}, {len}, lsl #3",
        copy_batch!("{slots}", "{values}"),
    }
}
