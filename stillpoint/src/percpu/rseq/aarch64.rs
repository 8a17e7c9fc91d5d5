//! The critical sections on aarch64. See [`super`] for what each does, and for the invariants.
//!
//! Commits are `stlr`; words that threads on other CPUs write are read by `ldar`. Abort handler and early exits stand right behind
//! the section, as conditional branches do not reach far.

use core::arch::asm;

use super::layout::{AreaRef, CounterRef, Pushed, rseq_area};

/// Arms the section that begins at `4` and ends before `5`, with the abort handler at `6`. The store to `rseq_cs` comes last.
macro_rules! arm {
    () => {
        concat!(
            ".pushsection __rseq_cs, \"aw\", @progbits\n",
            ".balign 32\n",
            "3:\n",
            ".long 0, 0\n",
            ".quad 4f, 5f - 4f, 6f\n",
            ".popsection\n",
            "adrp {t}, 3b\n",
            "add {t}, {t}, :lo12:3b\n",
            "str {t}, [{rseq}, #8]\n",
            "4:",
        )
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

/// Ends the section after the commit. Behind it come the abort handler (`6`, behind the signature) and early exits (`7`, and `8`
/// without a value).
macro_rules! end {
    ($failed:literal, $left:literal) => {
        concat!("5:\n", "b 9f\n", ".inst 0xd428bc00\n", "6:\n", "7:\n", $failed, "\n8:\n", $left, "\n9:",)
    };
}

/// See [`super::add`].
#[inline(always)]
pub unsafe fn add(counter: CounterRef, by: u64) -> bool {
    // SAFETY: the caller's contract, and (1) to (3) of `super`.
    unsafe {
        asm!(
            arm!(),
            cpu!(),
            "add {t}, {word}, {t}, lsl #7",
            "ldr {x}, [{t}]",
            "add {x}, {x}, {by}",
            "stlr {x}, [{t}]",
            end!("b {failed}", ""),
            t = out(reg) _,
            x = out(reg) _,
            rseq = in(reg) rseq_area(counter.offset),
            word = in(reg) counter.word,
            by = in(reg) by,
            failed = label { return false },
            options(nostack),
        );
    }
    true
}

/// See [`super::push`].
#[inline(always)]
pub unsafe fn push(target: AreaRef, value: u64) -> Pushed {
    // SAFETY: the caller's contract, and (1) to (4) of `super`.
    unsafe {
        asm!(
            arm!(),
            open_area!(),
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
            t = out(reg) _,
            x = out(reg) _,
            len = out(reg) _,
            rseq = in(reg) rseq_area(target.offset),
            areas = in(reg) target.areas,
            value = in(reg) value,
            failed = label { return Pushed::Failed },
            full = label { return Pushed::Full },
            options(nostack),
        );
    }
    Pushed::Done
}

/// See [`super::pop`].
#[inline(always)]
pub unsafe fn pop(target: AreaRef) -> u64 {
    let value: u64;
    // SAFETY: the caller's contract, and (1) to (4) of `super`.
    unsafe {
        asm!(
            arm!(),
            open_area!(),
            "ldr {len}, [{t}, #8]",
            "cbz {len}, 8f",
            "sub {len}, {len}, #1",
            "ldr {x}, [{t}, #24]",
            "ldr {value}, [{x}, {len}, lsl #3]",
            "add {t}, {t}, #8",
            "stlr {len}, [{t}]",
            end!("mov {value}, #-1\nb 9f", "mov {value}, #0"),
            t = out(reg) _,
            x = out(reg) _,
            len = out(reg) _,
            value = out(reg) value,
            rseq = in(reg) rseq_area(target.offset),
            areas = in(reg) target.areas,
            options(nostack),
        );
    }
    value
}

/// See [`super::push_batch`].
#[inline(always)]
pub unsafe fn push_batch(target: AreaRef, values: *const u64, count: usize) -> u64 {
    let pushed: u64;
    // SAFETY: the caller's contract, and (1) to (5) of `super`.
    unsafe {
        asm!(
            arm!(),
            open_area!(),
            "ldr {len}, [{t}, #8]",
            // As many as there is room for.
            "ldr {n}, [{t}, #16]",
            "sub {n}, {n}, {len}",
            "cmp {n}, {count}",
            "csel {n}, {n}, {count}, lo",
            "ldr {slots}, [{t}, #24]",
            "add {slots}, {slots}, {len}, lsl #3",
            "add {len}, {len}, {n}",
            "mov {i}, {n}",
            "cbz {i}, 32f",
            "31:",
            "sub {i}, {i}, #1",
            "ldr {x}, [{values}, {i}, lsl #3]",
            "str {x}, [{slots}, {i}, lsl #3]",
            "cbnz {i}, 31b",
            "32:",
            "add {t}, {t}, #8",
            "stlr {len}, [{t}]",
            end!("mov {n}, #-1\nb 9f", ""),
            t = out(reg) _,
            x = out(reg) _,
            len = out(reg) _,
            slots = out(reg) _,
            i = out(reg) _,
            n = out(reg) pushed,
            rseq = in(reg) rseq_area(target.offset),
            areas = in(reg) target.areas,
            values = in(reg) values,
            count = in(reg) count,
            options(nostack),
        );
    }
    pushed
}

/// See [`super::pop_batch`].
#[inline(always)]
pub unsafe fn pop_batch(target: AreaRef, values: *mut u64, count: usize) -> u64 {
    let popped: u64;
    // SAFETY: the caller's contract, and (1) to (5) of `super`.
    unsafe {
        asm!(
            arm!(),
            open_area!(),
            "ldr {len}, [{t}, #8]",
            // As many as there are.
            "cmp {len}, {count}",
            "csel {n}, {len}, {count}, lo",
            "sub {len}, {len}, {n}",
            "ldr {slots}, [{t}, #24]",
            "add {slots}, {slots}, {len}, lsl #3",
            "mov {i}, {n}",
            "cbz {i}, 32f",
            "31:",
            "sub {i}, {i}, #1",
            "ldr {x}, [{slots}, {i}, lsl #3]",
            "str {x}, [{values}, {i}, lsl #3]",
            "cbnz {i}, 31b",
            "32:",
            "add {t}, {t}, #8",
            "stlr {len}, [{t}]",
            end!("mov {n}, #-1\nb 9f", ""),
            t = out(reg) _,
            x = out(reg) _,
            len = out(reg) _,
            slots = out(reg) _,
            i = out(reg) _,
            n = out(reg) popped,
            rseq = in(reg) rseq_area(target.offset),
            areas = in(reg) target.areas,
            values = in(reg) values,
            count = in(reg) count,
            options(nostack),
        );
    }
    popped
}

/// See [`super::compare_and_store`].
#[inline(always)]
pub unsafe fn compare_and_store(target: AreaRef, expected: u64, new: u64) -> u64 {
    let area: u64;
    // SAFETY: the caller's contract, and (1) to (4) of `super`.
    unsafe {
        asm!(
            arm!(),
            open_area!(),
            "add {x}, {t}, #8",
            "ldar {x}, [{x}]",
            "cmp {x}, {expected}",
            "b.ne 8f",
            "str {new}, [{t}, #8]",
            end!("mov {t}, #-1\nb 9f", "mov {t}, #0"),
            t = out(reg) area,
            x = out(reg) _,
            rseq = in(reg) rseq_area(target.offset),
            areas = in(reg) target.areas,
            expected = in(reg) expected,
            new = in(reg) new,
            options(nostack),
        );
    }
    area
}

/// See [`super::record`].
#[inline(always)]
pub unsafe fn record(target: AreaRef, words: *const u64, count: usize) -> Pushed {
    // SAFETY: the caller's contract, and (1) to (5) of `super`.
    unsafe {
        asm!(
            arm!(),
            open_area!(),
            "ldr {head}, [{t}, #8]",
            "add {x}, {t}, #64",
            "ldar {x}, [{x}]",
            "sub {x}, {head}, {x}",
            "ldr {i}, [{t}, #16]",
            "cmp {x}, {i}",
            "b.hs 8f",
            // Orders the commit of the record before this one before the stores to the slot: see `Reader::drain`.
            "dmb ishst",
            "ldr {slot}, [{t}, #32]",
            "and {slot}, {slot}, {head}",
            "mul {slot}, {slot}, {count}",
            "ldr {x}, [{t}, #24]",
            "add {slot}, {x}, {slot}, lsl #3",
            "add {head}, {head}, #1",
            "mov {i}, {count}",
            "31:",
            "sub {i}, {i}, #1",
            "ldr {x}, [{words}, {i}, lsl #3]",
            "str {x}, [{slot}, {i}, lsl #3]",
            "cbnz {i}, 31b",
            "add {t}, {t}, #8",
            "stlr {head}, [{t}]",
            end!("b {failed}", "b {full}"),
            t = out(reg) _,
            x = out(reg) _,
            head = out(reg) _,
            slot = out(reg) _,
            i = out(reg) _,
            rseq = in(reg) rseq_area(target.offset),
            areas = in(reg) target.areas,
            words = in(reg) words,
            count = in(reg) count,
            failed = label { return Pushed::Failed },
            full = label { return Pushed::Full },
            options(nostack),
        );
    }
    Pushed::Done
}
