//! The critical sections on riscv64. See [`super`] for what each does, and for the invariants.
//!
//! A `fence rw, w` before each commit makes it a Release; a `fence r, rw` behind the load of a word that threads on other CPUs write
//! makes that an Acquire. Abort handler and early exits stand right behind the section, as conditional branches do not reach far.

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
            "lla {t}, 3b\n",
            "sd {t}, 8({rseq})\n",
            "4:",
        )
    };
}

/// Loads the current CPU's area, as bytes from the first area, into `t`. Leaves by `7` if the CPU number is negative.
macro_rules! area_offset {
    () => {
        concat!("lw {t}, 4({rseq})\n", "bltz {t}, 7f\n", "slli {t}, {t}, 7\n")
    };
}

/// Loads the address of the current CPU's area into `t`. Leaves by `7` if the area is stopped too.
macro_rules! open_area {
    () => {
        concat!(
            area_offset!(),
            "add {t}, {t}, {areas}\n",
            "ld {x}, 0({t})\n",
            "fence r, rw\n",
            "bnez {x}, 7f\n"
        )
    };
}

/// Ends the section after the commit. Behind it come the abort handler (`6`, behind the signature) and early exits (`7`, and `8`
/// without a value).
macro_rules! end {
    ($failed:literal, $left:literal) => {
        concat!(
            "5:\n",
            "j 9f\n",
            ".balign 4\n",
            ".long 0xf1401073\n",
            "6:\n",
            "7:\n",
            $failed,
            "\n8:\n",
            $left,
            "\n9:",
        )
    };
}

/// See [`super::add`].
#[inline(always)]
pub unsafe fn add(counter: CounterRef, by: u64) -> bool {
    // SAFETY: the caller's contract, and (1) to (3) of `super`.
    unsafe {
        asm!(
            arm!(),
            area_offset!(),
            "add {t}, {t}, {word}",
            "ld {x}, 0({t})",
            "add {x}, {x}, {by}",
            "fence rw, w",
            "sd {x}, 0({t})",
            end!("j {failed}", ""),
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
            "ld {len}, 8({t})",
            "ld {x}, 16({t})",
            "bgeu {len}, {x}, 8f",
            "ld {y}, 24({t})",
            "slli {x}, {len}, 3",
            "add {x}, {x}, {y}",
            "sd {value}, 0({x})",
            "addi {len}, {len}, 1",
            "fence rw, w",
            "sd {len}, 8({t})",
            end!("j {failed}", "j {full}"),
            t = out(reg) _,
            x = out(reg) _,
            y = out(reg) _,
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
            "ld {len}, 8({t})",
            "beqz {len}, 8f",
            "addi {len}, {len}, -1",
            "ld {y}, 24({t})",
            "slli {x}, {len}, 3",
            "add {x}, {x}, {y}",
            "ld {value}, 0({x})",
            "fence rw, w",
            "sd {len}, 8({t})",
            end!("li {value}, -1\nj 9f", "li {value}, 0"),
            t = out(reg) _,
            x = out(reg) _,
            y = out(reg) _,
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
            "ld {len}, 8({t})",
            // As many as there is room for.
            "ld {n}, 16({t})",
            "sub {n}, {n}, {len}",
            "bltu {n}, {count}, 33f",
            "mv {n}, {count}",
            "33:",
            "ld {slots}, 24({t})",
            "slli {x}, {len}, 3",
            "add {slots}, {slots}, {x}",
            "add {len}, {len}, {n}",
            "slli {i}, {n}, 3",
            "beqz {i}, 32f",
            "31:",
            "addi {i}, {i}, -8",
            "add {x}, {values}, {i}",
            "ld {y}, 0({x})",
            "add {x}, {slots}, {i}",
            "sd {y}, 0({x})",
            "bnez {i}, 31b",
            "32:",
            "fence rw, w",
            "sd {len}, 8({t})",
            end!("li {n}, -1\nj 9f", ""),
            t = out(reg) _,
            x = out(reg) _,
            y = out(reg) _,
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
            "ld {len}, 8({t})",
            // As many as there are.
            "mv {n}, {len}",
            "bltu {n}, {count}, 33f",
            "mv {n}, {count}",
            "33:",
            "sub {len}, {len}, {n}",
            "ld {slots}, 24({t})",
            "slli {x}, {len}, 3",
            "add {slots}, {slots}, {x}",
            "slli {i}, {n}, 3",
            "beqz {i}, 32f",
            "31:",
            "addi {i}, {i}, -8",
            "add {x}, {slots}, {i}",
            "ld {y}, 0({x})",
            "add {x}, {values}, {i}",
            "sd {y}, 0({x})",
            "bnez {i}, 31b",
            "32:",
            "fence rw, w",
            "sd {len}, 8({t})",
            end!("li {n}, -1\nj 9f", ""),
            t = out(reg) _,
            x = out(reg) _,
            y = out(reg) _,
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
            "ld {x}, 8({t})",
            "bne {x}, {expected}, 8f",
            "fence r, rw",
            "sd {new}, 8({t})",
            end!("li {t}, -1\nj 9f", "li {t}, 0"),
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
            "ld {head}, 8({t})",
            "ld {x}, 64({t})",
            // Orders the load of the tail, and the commit of the record before this one, before the stores to the slot: see
            // `Reader::drain`.
            "fence rw, rw",
            "sub {x}, {head}, {x}",
            "ld {y}, 16({t})",
            "bgeu {x}, {y}, 8f",
            "ld {slot}, 32({t})",
            "and {slot}, {slot}, {head}",
            "mul {slot}, {slot}, {count}",
            "slli {slot}, {slot}, 3",
            "ld {x}, 24({t})",
            "add {slot}, {slot}, {x}",
            "addi {head}, {head}, 1",
            "slli {i}, {count}, 3",
            "31:",
            "addi {i}, {i}, -8",
            "add {x}, {words}, {i}",
            "ld {y}, 0({x})",
            "add {x}, {slot}, {i}",
            "sd {y}, 0({x})",
            "bnez {i}, 31b",
            "fence rw, w",
            "sd {head}, 8({t})",
            end!("j {failed}", "j {full}"),
            t = out(reg) _,
            x = out(reg) _,
            y = out(reg) _,
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
