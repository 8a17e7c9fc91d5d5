//! The critical sections on riscv64. See [`super`] for what each does and what they have in common.
//!
//! Assembled, and never run: see `docs/proof.md`. A `fence rw, w` before each commit releases, a `fence r, rw` behind the
//! load of a word that threads on other CPUs write acquires. What happens when a section fails stands right behind it, as
//! conditional branches do not reach far.

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
            "lla {t}, 3b\n",
            "sd {t}, 8({area})\n",
            "4:",
        )
    };
}

/// The row of the CPU that the thread is on, as bytes from the first, in `t`; or leaves by `7`, if the number is negative.
macro_rules! row {
    () => {
        concat!("lw {t}, 4({area})\n", "bltz {t}, 7f\n", "slli {t}, {t}, 7\n")
    };
}

/// The same as an address, of a row that nobody has stopped.
macro_rules! open_row {
    () => {
        concat!(row!(), "add {t}, {t}, {rows}\n", "ld {x}, 0({t})\n", "fence r, rw\n", "bnez {x}, 7f\n")
    };
}

/// After the commit: the section is over. And what happens otherwise: interrupted (`6`, behind the signature) or
/// left early (`7`, or `8`).
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
pub unsafe fn add(tally: Tally, by: u64) -> bool {
    // SAFETY: the caller's contract, with (1) to (3) of `super`.
    unsafe {
        asm!(
            arm!(),
            row!(),
            "add {t}, {t}, {word}",
            "ld {x}, 0({t})",
            "add {x}, {x}, {by}",
            "fence rw, w",
            "sd {x}, 0({t})",
            end!("j {failed}", ""),
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
            "ld {x}, 8({t})",
            "bne {x}, {expected}, 8f",
            "fence r, rw",
            "sd {new}, 8({t})",
            end!("li {t}, -1\nj 9f", "li {t}, 0"),
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
            "ld {head}, 8({t})",
            "ld {x}, 64({t})",
            // The tail, and the head of the record before, by which the reader knows that this slot may change, come before
            // that.
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
