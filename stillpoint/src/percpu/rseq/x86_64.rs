//! The critical sections on x86-64. See [`super`] for what each does, and for the invariants.
//!
//! Rseq areas lie at the same distance from `fs` in every thread (`offset`), so a section needs no thread pointer. Every store is a
//! Release and every load an Acquire.

use core::arch::asm;

use super::layout::{AreaRef, CounterRef, Pushed};

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
            fault_point!(0),
            "lea {t}, [rip + 3b]\n",
            unless_mutant!(1, "mov qword ptr fs:[{offset} + 8], {t}", ""),
            "\n4:\n",
            fault_point!(1),
        )
    };
}

/// Loads the current CPU's area, as bytes from the first area, into `t`. Leaves by `7` if the CPU number is negative.
macro_rules! area_offset {
    () => {
        concat!(
            "movsxd {t}, dword ptr fs:[{offset} + 4]\n",
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

/// Ends the section after the commit. Out of line come the abort handler (`6`, behind the signature) and early exits (`7`).
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

/// See [`super::add`].
#[inline(always)]
pub unsafe fn add(counter: CounterRef, by: u64) -> bool {
    // SAFETY: the caller's contract, and (1) to (3) of `super`.
    unsafe {
        asm!(
            arm!(),
            area_offset!(),
            "add {t}, {word}",
            // Not one `add` to memory, nor an index in the address: processors forward such a store to the load of the next
            // add several cycles later.
            "mov {x}, qword ptr [{t}]",
            "lea {x}, [{x} + {by}]",
            fault_point!(3),
            "mov qword ptr [{t}], {x}",
            end!("jmp {failed}"),
            t = out(reg) _,
            x = out(reg) _,
            offset = in(reg) counter.offset,
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
            "mov {len}, qword ptr [{t} + 8]",
            unless_mutant!(2, "cmp {len}, qword ptr [{t} + 16]\njae {full}\n", ""),
            fault_point!(3),
            "mov {slots}, qword ptr [{t} + 24]",
            unless_mutant!(5, "", "inc qword ptr [{t} + 8]\n"),
            "mov qword ptr [{slots} + 8 * {len}], {value}",
            fault_point!(4),
            "inc {len}",
            "mov qword ptr [{t} + 8], {len}",
            end!("jmp {failed}"),
            t = out(reg) _,
            len = out(reg) _,
            slots = out(reg) _,
            offset = in(reg) target.offset,
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
            t = out(reg) _,
            len = out(reg) _,
            value = out(reg) value,
            offset = in(reg) target.offset,
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
            "mov {len}, qword ptr [{t} + 8]",
            // As many as there is room for.
            "mov {n}, qword ptr [{t} + 16]",
            "sub {n}, {len}",
            "cmp {n}, {count}",
            "cmova {n}, {count}",
            fault_point!(3),
            "mov {slots}, qword ptr [{t} + 24]",
            "lea {slots}, [{slots} + 8 * {len}]",
            "add {len}, {n}",
            "mov {i}, {n}",
            "sub {i}, 1",
            "jb 12f",
            "31:",
            "mov {x}, qword ptr [{values} + 8 * {i}]",
            "mov qword ptr [{slots} + 8 * {i}], {x}",
            fault_point!(4),
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
            offset = in(reg) target.offset,
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
            "mov {len}, qword ptr [{t} + 8]",
            // As many as there are.
            "mov {n}, {len}",
            "cmp {n}, {count}",
            "cmova {n}, {count}",
            fault_point!(3),
            "sub {len}, {n}",
            "mov {slots}, qword ptr [{t} + 24]",
            "lea {slots}, [{slots} + 8 * {len}]",
            "mov {i}, {n}",
            "sub {i}, 1",
            "jb 12f",
            "31:",
            "mov {x}, qword ptr [{slots} + 8 * {i}]",
            "mov qword ptr [{values} + 8 * {i}], {x}",
            fault_point!(4),
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
            offset = in(reg) target.offset,
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
            "cmp qword ptr [{t} + 8], {expected}",
            "jne 8f",
            fault_point!(3),
            "mov qword ptr [{t} + 8], {new}",
            end!("mov {t}, -1\njmp 30f"),
            leave!("xor {t:e}, {t:e}\njmp 30f"),
            "30:",
            t = out(reg) area,
            offset = in(reg) target.offset,
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
            "mov {head}, qword ptr [{t} + 8]",
            "mov {x}, {head}",
            "sub {x}, qword ptr [{t} + 64]",
            unless_mutant!(7, "cmp {x}, qword ptr [{t} + 16]\njae {full}\n", ""),
            fault_point!(3),
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
            fault_point!(4),
            "dec {i}",
            "jnz 31b",
            "mov qword ptr [{t} + 8], {head}",
            end!("jmp {failed}"),
            t = out(reg) _,
            head = out(reg) _,
            slot = out(reg) _,
            i = out(reg) _,
            x = out(reg) _,
            offset = in(reg) target.offset,
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
