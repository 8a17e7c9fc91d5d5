//! The critical sections on aarch64. See [`super`] for what each does and what they have in common.
//!
//! Assembled, and never run: see `docs/proof.md`. Commits are `stlr`, words that threads on other CPUs write are read by
//! `ldar`. What happens when a section fails stands right behind it, as conditional branches do not reach far.

use core::arch::asm;

use super::layout::{Place, Pushed, Tally, area};

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
            "adrp {t}, 3b\n",
            "add {t}, {t}, :lo12:3b\n",
            "str {t}, [{area}, #8]\n",
            "4:",
        )
    };
}

/// The number of the CPU that the thread is on, in `t`; or leaves by `7`, if it is negative.
macro_rules! cpu {
    () => {
        concat!("ldrsw {t}, [{area}, #4]\n", "tbnz {t}, #63, 7f\n")
    };
}

/// The address of the row of that CPU, which nobody has stopped.
macro_rules! open_row {
    () => {
        concat!(cpu!(), "add {t}, {rows}, {t}, lsl #7\n", "ldar {x}, [{t}]\n", "cbnz {x}, 7f\n")
    };
}

/// After the commit: the section is over. And what happens otherwise: interrupted (`6`, behind the signature) or
/// left early (`7`, or `8`).
macro_rules! end {
    ($failed:literal, $left:literal) => {
        concat!("5:\n", "b 9f\n", ".inst 0xd428bc00\n", "6:\n", "7:\n", $failed, "\n8:\n", $left, "\n9:",)
    };
}

/// See [`super::add`].
#[inline(always)]
pub unsafe fn add(tally: Tally, by: u64) -> bool {
    // SAFETY: the caller's contract, with (1) to (3) of `super`.
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
            area = in(reg) area(tally.offset),
            word = in(reg) tally.word,
            by = in(reg) by,
            failed = label { return false },
            options(nostack),
        );
    }
    true
}

/// See [`super::push`].
#[inline(always)]
pub unsafe fn push(place: Place, value: u64) -> Pushed {
    // SAFETY: the caller's contract, with (1) to (4) of `super`.
    unsafe {
        asm!(
            arm!(),
            open_row!(),
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
            area = in(reg) area(place.offset),
            rows = in(reg) place.rows,
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
pub unsafe fn pop(place: Place) -> u64 {
    let value: u64;
    // SAFETY: the caller's contract, with (1) to (4) of `super`.
    unsafe {
        asm!(
            arm!(),
            open_row!(),
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
            area = in(reg) area(place.offset),
            rows = in(reg) place.rows,
            options(nostack),
        );
    }
    value
}

/// See [`super::push_batch`].
#[inline(always)]
pub unsafe fn push_batch(place: Place, values: *const u64, count: usize) -> u64 {
    let pushed: u64;
    // SAFETY: the caller's contract, with (1) to (5) of `super`.
    unsafe {
        asm!(
            arm!(),
            open_row!(),
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
            area = in(reg) area(place.offset),
            rows = in(reg) place.rows,
            values = in(reg) values,
            count = in(reg) count,
            options(nostack),
        );
    }
    pushed
}

/// See [`super::pop_batch`].
#[inline(always)]
pub unsafe fn pop_batch(place: Place, values: *mut u64, count: usize) -> u64 {
    let popped: u64;
    // SAFETY: the caller's contract, with (1) to (5) of `super`.
    unsafe {
        asm!(
            arm!(),
            open_row!(),
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
            area = in(reg) area(place.offset),
            rows = in(reg) place.rows,
            values = in(reg) values,
            count = in(reg) count,
            options(nostack),
        );
    }
    popped
}

/// See [`super::compare_and_store`].
#[inline(always)]
pub unsafe fn compare_and_store(place: Place, expected: u64, new: u64) -> u64 {
    let row: u64;
    // SAFETY: the caller's contract, with (1) to (4) of `super`.
    unsafe {
        asm!(
            arm!(),
            open_row!(),
            "add {x}, {t}, #8",
            "ldar {x}, [{x}]",
            "cmp {x}, {expected}",
            "b.ne 8f",
            "str {new}, [{t}, #8]",
            end!("mov {t}, #-1\nb 9f", "mov {t}, #0"),
            t = out(reg) row,
            x = out(reg) _,
            area = in(reg) area(place.offset),
            rows = in(reg) place.rows,
            expected = in(reg) expected,
            new = in(reg) new,
            options(nostack),
        );
    }
    row
}

/// See [`super::record`].
#[inline(always)]
pub unsafe fn record(place: Place, words: *const u64, count: usize) -> Pushed {
    // SAFETY: the caller's contract, with (1) to (5) of `super`.
    unsafe {
        asm!(
            arm!(),
            open_row!(),
            "ldr {head}, [{t}, #8]",
            "add {x}, {t}, #64",
            "ldar {x}, [{x}]",
            "sub {x}, {head}, {x}",
            "ldr {i}, [{t}, #16]",
            "cmp {x}, {i}",
            "b.hs 8f",
            // The head of the record before, by which the reader knows that this slot may change, comes before that.
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
            area = in(reg) area(place.offset),
            rows = in(reg) place.rows,
            words = in(reg) words,
            count = in(reg) count,
            failed = label { return Pushed::Failed },
            full = label { return Pushed::Full },
            options(nostack),
        );
    }
    Pushed::Done
}
