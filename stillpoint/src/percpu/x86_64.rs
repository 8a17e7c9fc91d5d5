//! The critical sections on x86-64. See [`super::section`] for what each does and what they have in common.
//!
//! The areas lie at the same distance from `fs` in every thread (`offset`), so a section needs no thread pointer. A plain
//! store releases and a plain load acquires, as on every x86.

use core::arch::asm;

use super::section::{BOUND, Place, Pushed, Tally};

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
            point!(0),
            "lea {t}, [rip + 3b]\n",
            unless_mutant!(1, "mov qword ptr fs:[{offset} + 8], {t}", ""),
            "\n4:\n",
            point!(1),
        )
    };
}

/// The row of the CPU that the thread is on, as bytes from the first, in `t`; or leaves by `7`.
macro_rules! row {
    ($cpus:literal) => {
        concat!(
            "mov {t:e}, dword ptr fs:[{offset} + 4]\n",
            point!(2),
            unless_mutant!(3, concat!("cmp {t}, ", $cpus, "\njae 7f\n"), ""),
            "shl {t}, 7\n",
        )
    };
}

/// The same as an address, of a row that nobody has stopped.
macro_rules! open_row {
    () => {
        concat!(
            row!("{cpus}"),
            "add {t}, {rows}\n",
            unless_mutant!(4, "cmp qword ptr [{t}], 0\njne 7f\n", ""),
        )
    };
}

/// After the commit: the section is over. And, out of the way, what happens otherwise: interrupted (`6`, behind the
/// signature, the kernel has cleared `rseq_cs`) or left early (`7`).
macro_rules! end {
    ($failed:expr) => {
        concat!(
            "5:\n",
            point!(5),
            unless_mutant!(6, "mov qword ptr fs:[{offset} + 8], 0", ""),
            "\n.pushsection __rseq_failure, \"ax\", @progbits\n",
            // The signature, as the operand of an instruction that nobody executes.
            ".byte 0x0f, 0xb9, 0x3d\n",
            ".long 0x53053053\n",
            "6:\n",
            point!(6),
            $failed,
            "\n7:\n",
            unless_mutant!(9, "mov qword ptr fs:[{offset} + 8], 0", ""),
            "\n",
            $failed,
            "\n.popsection\n",
        )
    };
}

/// Out of the way: left early by `8`.
macro_rules! leave {
    ($how:literal) => {
        concat!(
            ".pushsection __rseq_failure, \"ax\", @progbits\n",
            "8:\n",
            unless_mutant!(10, "mov qword ptr fs:[{offset} + 8], 0", ""),
            "\n",
            $how,
            "\n.popsection\n",
        )
    };
}

/// See [`super::section::add`].
#[inline(always)]
pub unsafe fn add(tally: Tally, by: u64) -> bool {
    // SAFETY: the caller's contract, with (1) to (3) of `section`.
    unsafe {
        asm!(
            arm!(),
            row!("qword ptr [{rows} - {BOUND}]"),
            "add {t}, {word}",
            // Not one `add` to memory, nor an index in the address: with these processors forward a store to the load of
            // the next add several cycles later.
            "mov {x}, qword ptr [{t}]",
            "lea {x}, [{x} + {by}]",
            point!(3),
            "mov qword ptr [{t}], {x}",
            end!("jmp {failed}"),
            t = out(reg) _,
            x = out(reg) _,
            offset = in(reg) tally.offset,
            rows = in(reg) tally.rows,
            word = in(reg) tally.word,
            by = in(reg) by,
            BOUND = const BOUND,
            failed = label { return false },
            options(nostack),
        );
    }
    true
}

/// See [`super::section::push`].
#[inline(always)]
pub unsafe fn push(place: Place, value: u64) -> Pushed {
    // SAFETY: the caller's contract, with (1) to (4) of `section`.
    unsafe {
        asm!(
            arm!(),
            open_row!(),
            "mov {len}, qword ptr [{t} + 8]",
            unless_mutant!(8, "cmp {len}, qword ptr [{t} + 16]\njae 8f\n", ""),
            point!(3),
            "mov {slots}, qword ptr [{t} + 24]",
            unless_mutant!(5, "", "inc qword ptr [{t} + 8]\n"),
            "mov qword ptr [{slots} + 8 * {len}], {value}",
            point!(4),
            "inc {len}",
            "mov qword ptr [{t} + 8], {len}",
            end!("jmp {failed}"),
            leave!("jmp {full}"),
            t = out(reg) _,
            len = out(reg) _,
            slots = out(reg) _,
            offset = in(reg) place.offset,
            cpus = in(reg) place.cpus,
            rows = in(reg) place.rows,
            value = in(reg) value,
            failed = label { return Pushed::Failed },
            full = label { return Pushed::Full },
            options(nostack),
        );
    }
    Pushed::Done
}

/// See [`super::section::pop`].
#[inline(always)]
pub unsafe fn pop(place: Place) -> u64 {
    let value: u64;
    // SAFETY: the caller's contract, with (1) to (4) of `section`.
    unsafe {
        asm!(
            arm!(),
            open_row!(),
            "mov {len}, qword ptr [{t} + 8]",
            "sub {len}, 1",
            "jb 8f",
            point!(3),
            "mov {value}, qword ptr [{t} + 24]",
            "mov {value}, qword ptr [{value} + 8 * {len}]",
            point!(4),
            "mov qword ptr [{t} + 8], {len}",
            end!(unless_mutant!(2, "mov {value}, -1\njmp 30f", "xor {value:e}, {value:e}\njmp 30f")),
            leave!("xor {value:e}, {value:e}\njmp 30f"),
            "30:",
            t = out(reg) _,
            len = out(reg) _,
            value = out(reg) value,
            offset = in(reg) place.offset,
            cpus = in(reg) place.cpus,
            rows = in(reg) place.rows,
            options(nostack),
        );
    }
    value
}

/// See [`super::section::push_batch`].
#[inline(always)]
pub unsafe fn push_batch(place: Place, values: *const u64, count: usize) -> u64 {
    let pushed: u64;
    // SAFETY: the caller's contract, with (1) to (5) of `section`.
    unsafe {
        asm!(
            arm!(),
            open_row!(),
            "mov {len}, qword ptr [{t} + 8]",
            // As many as there is room for.
            "mov {n}, qword ptr [{t} + 16]",
            "sub {n}, {len}",
            "cmp {n}, {count}",
            "cmova {n}, {count}",
            point!(3),
            "mov {slots}, qword ptr [{t} + 24]",
            "lea {slots}, [{slots} + 8 * {len}]",
            "add {len}, {n}",
            "mov {i}, {n}",
            "sub {i}, 1",
            "jb 12f",
            "31:",
            "mov {x}, qword ptr [{values} + 8 * {i}]",
            "mov qword ptr [{slots} + 8 * {i}], {x}",
            point!(4),
            "sub {i}, 1",
            "jae 31b",
            "12:",
            "mov qword ptr [{t} + 8], {len}",
            end!("mov {n}, -1\njmp 30f"),
            "30:",
            t = out(reg) _,
            len = out(reg) _,
            slots = out(reg) _,
            i = out(reg) _,
            x = out(reg) _,
            n = out(reg) pushed,
            offset = in(reg) place.offset,
            cpus = in(reg) place.cpus,
            rows = in(reg) place.rows,
            values = in(reg) values,
            count = in(reg) count,
            options(nostack),
        );
    }
    pushed
}

/// See [`super::section::pop_batch`].
#[inline(always)]
pub unsafe fn pop_batch(place: Place, values: *mut u64, count: usize) -> u64 {
    let popped: u64;
    // SAFETY: the caller's contract, with (1) to (5) of `section`.
    unsafe {
        asm!(
            arm!(),
            open_row!(),
            "mov {len}, qword ptr [{t} + 8]",
            // As many as there are.
            "mov {n}, {len}",
            "cmp {n}, {count}",
            "cmova {n}, {count}",
            point!(3),
            "sub {len}, {n}",
            "mov {slots}, qword ptr [{t} + 24]",
            "lea {slots}, [{slots} + 8 * {len}]",
            "mov {i}, {n}",
            "sub {i}, 1",
            "jb 12f",
            "31:",
            "mov {x}, qword ptr [{slots} + 8 * {i}]",
            "mov qword ptr [{values} + 8 * {i}], {x}",
            point!(4),
            "sub {i}, 1",
            "jae 31b",
            "12:",
            "mov qword ptr [{t} + 8], {len}",
            end!("mov {n}, -1\njmp 30f"),
            "30:",
            t = out(reg) _,
            len = out(reg) _,
            slots = out(reg) _,
            i = out(reg) _,
            x = out(reg) _,
            n = out(reg) popped,
            offset = in(reg) place.offset,
            cpus = in(reg) place.cpus,
            rows = in(reg) place.rows,
            values = in(reg) values,
            count = in(reg) count,
            options(nostack),
        );
    }
    popped
}

/// See [`super::section::compare_and_store`].
#[inline(always)]
pub unsafe fn compare_and_store(place: Place, expected: u64, new: u64) -> u64 {
    let row: u64;
    // SAFETY: the caller's contract, with (1) to (4) of `section`.
    unsafe {
        asm!(
            arm!(),
            open_row!(),
            "cmp qword ptr [{t} + 8], {expected}",
            "jne 8f",
            point!(3),
            "mov qword ptr [{t} + 8], {new}",
            end!("mov {t}, -1\njmp 30f"),
            leave!("xor {t:e}, {t:e}\njmp 30f"),
            "30:",
            t = out(reg) row,
            offset = in(reg) place.offset,
            cpus = in(reg) place.cpus,
            rows = in(reg) place.rows,
            expected = in(reg) expected,
            new = in(reg) new,
            options(nostack),
        );
    }
    row
}

/// See [`super::section::record`].
#[inline(always)]
pub unsafe fn record(place: Place, words: *const u64, count: usize) -> Pushed {
    // SAFETY: the caller's contract, with (1) to (5) of `section`.
    unsafe {
        asm!(
            arm!(),
            open_row!(),
            "mov {head}, qword ptr [{t} + 8]",
            "mov {x}, {head}",
            "sub {x}, qword ptr [{t} + 64]",
            unless_mutant!(7, "cmp {x}, qword ptr [{t} + 16]\njae 8f\n", ""),
            point!(3),
            "mov {slot}, qword ptr [{t} + 32]",
            "and {slot}, {head}",
            "imul {slot}, {count}",
            "mov {x}, qword ptr [{t} + 24]",
            "lea {slot}, [{x} + 8 * {slot}]",
            "inc {head}",
            unless_mutant!(5, "", "mov qword ptr [{t} + 8], {head}\n"),
            "mov {i}, {count}",
            "31:",
            "mov {x}, qword ptr [{words} + 8 * {i} - 8]",
            "mov qword ptr [{slot} + 8 * {i} - 8], {x}",
            point!(4),
            "dec {i}",
            "jnz 31b",
            "mov qword ptr [{t} + 8], {head}",
            end!("jmp {failed}"),
            leave!("jmp {full}"),
            t = out(reg) _,
            head = out(reg) _,
            slot = out(reg) _,
            i = out(reg) _,
            x = out(reg) _,
            offset = in(reg) place.offset,
            cpus = in(reg) place.cpus,
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
