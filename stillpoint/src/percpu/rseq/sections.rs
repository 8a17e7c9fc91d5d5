//! The functions of the critical sections: what each takes, does and returns, on every architecture.
//!
//! An architecture lists the instructions of its sections in `sections!`, with the scratch registers of each. It has
//! a macro `arm!`, which comes first, and a macro `open_word!`, which leaves the address of the current CPU's first
//! word in register `t`. For stacks, `open_stack!` then leaves the section if they are stopped. Each list ends with
//! the architecture's `end!`, which says what a failed section does. `arm!` leaves the place of the thread's rseq
//! area in register `rseq`: its offset on x86-64, otherwise its address.
//!
//! # Safety
//!
//! The same for all functions. The offset of the place is 0, and the section fails. Or the calling thread has an rseq
//! area there, and there is an object, whose words have the meaning that the section gives them, on each CPU below
//! the limit.

/// A fault point of a section: see `faults.rs`.
#[cfg(not(stillpoint_faults))]
macro_rules! fault_point {
    ($number:literal) => {
        ""
    };
}

/// The instructions `$right`, unless a mutant of `faults.rs` is selected.
#[cfg(not(stillpoint_faults))]
macro_rules! unless_mutant {
    ($number:literal, $right:expr, $broken:expr) => {
        $right
    };
}

/// The descriptor of a section, at label `3`. The section begins at `4` and ends before `5`, and its abort handler is
/// `6`.
macro_rules! descriptor {
    () => {
        concat!(
            ".pushsection __rseq_cs, \"aw\", @progbits\n",
            ".balign 32\n",
            "3:\n",
            ".long 0, 0\n",
            ".quad 4f, 5f - 4f, 6f\n",
            ".popsection\n",
        )
    };
}

/// Leaves a section for one of the caller's labels by `$jump`. Compilers before Rust 1.87 have no such operands:
/// there `$set` stores in `how` that the section failed (1), or that the area is full (2), and continues at label
/// `30`, or `9`.
#[cfg(asm_goto)]
macro_rules! leave_by {
    ($jump:expr, $set:expr) => {
        $jump
    };
}

#[cfg(not(asm_goto))]
macro_rules! leave_by {
    ($jump:expr, $set:expr) => {
        $set
    };
}

/// Defines the functions from the instructions of an architecture.
macro_rules! sections {
    ($(fn $name:ident($($scratch:ident),*) { $($line:tt)* })*) => {
        $(with_fault_scratch!($name, [$($line)*], [
            t = out(reg) _,
            $($scratch = out(reg) _,)*
        ]);)*
    };
}

/// Defines one of them, with the register that its fault points need.
#[cfg(not(all(stillpoint_faults, any(target_arch = "aarch64", target_arch = "riscv64"))))]
macro_rules! with_fault_scratch {
    ($name:ident, $lines:tt, $operands:tt) => {
        section!($name, $lines, $operands);
    };
}

#[cfg(all(stillpoint_faults, target_arch = "aarch64"))]
macro_rules! with_fault_scratch {
    ($name:ident, $lines:tt, [$($operands:tt)*]) => {
        section!($name, $lines, [$($operands)* out("x16") _,]);
    };
}

#[cfg(all(stillpoint_faults, target_arch = "riscv64"))]
macro_rules! with_fault_scratch {
    ($name:ident, $lines:tt, [$($operands:tt)*]) => {
        section!($name, $lines, [$($operands)* out("t6") _,]);
    };
}

/// Defines one of them.
macro_rules! section {
    (add, $($body:tt)*) => {
        /// Adds `by` to the object's first word of the current CPU. Returns `false` if the section failed.
        #[inline(always)]
        pub unsafe fn add(place: &Place, by: u64) -> bool {
            adding_section!(place, by, $($body)*, []);
            true
        }
    };
    (add_at, $($body:tt)*) => {
        /// [`add`] to word `index` of the object.
        #[inline(always)]
        pub unsafe fn add_at(place: &Place, index: usize, by: u64) -> bool {
            adding_section!(place, by, $($body)*, [index = in(reg) index,]);
            true
        }
    };
    (add_open, $($body:tt)*) => {
        /// [`add`], unless bit 0 of `gate` is set: then it fails. `gate` may be read.
        #[inline(always)]
        pub unsafe fn add_open(place: &Place, gate: *const u64, by: u64) -> bool {
            adding_section!(place, by, $($body)*, [gate = in(reg) gate,]);
            true
        }
    };
    (push, $($body:tt)*) => {
        /// Pushes `value` to the current CPU's stack, which has `capacity` slots.
        #[inline(always)]
        pub unsafe fn push(place: &Place, capacity: usize, value: u64) -> Pushed {
            #[cfg(asm_goto)]
            stack_section!(place, $($body)*, [], [
                capacity = in(reg) capacity,
                value = in(reg) value,
                failed = label { return Pushed::Failed },
                full = label { return Pushed::Full },
            ]);
            #[cfg(not(asm_goto))]
            {
                let how: u64;
                push_section!(place, $($body)*, how, [capacity = in(reg) capacity, value = in(reg) value,]);
                match how {
                    0 => {}
                    1 => return Pushed::Failed,
                    _ => return Pushed::Full,
                }
            }
            Pushed::Done
        }
    };
    (pop, $($body:tt)*) => {
        /// Pops a value from the current CPU's stack. Returns [`NOTHING`](super::NOTHING) if it is empty.
        #[inline(always)]
        pub unsafe fn pop(place: &Place) -> u64 {
            let value: u64;
            stack_section!(place, $($body)*, [value = out(reg) value,], []);
            value
        }
    };
}

/// A section that adds. The function returns `false` if the section failed.
macro_rules! adding_section {
    ($place:ident, $by:ident, [$($line:tt)*], [$($scratch:tt)*], [$($in:tt)*]) => {
        #[cfg(asm_goto)]
        // SAFETY: the caller's contract, and (1) to (3) of `super`.
        unsafe {
            asm!(
                arm!(),
                $($line)*
                $($scratch)*
                rseq = out(reg) _,
                place = in(reg) $place,
                by = in(reg) $by,
                $($in)*
                failed = label { return false },
                options(nostack),
            );
        }
        #[cfg(not(asm_goto))]
        {
            let how: u64;
            // SAFETY: as above.
            unsafe {
                asm!(
                    arm!(),
                    $($line)*
                    "30:",
                    $($scratch)*
                    rseq = out(reg) _,
                    place = in(reg) $place,
                    by = in(reg) $by,
                    $($in)*
                    how = inout(reg) 0_u64 => how,
                    options(nostack),
                );
            }
            if how != 0 {
                return false;
            }
        }
    };
}

/// The section of `push` for compilers without labels.
#[cfg(not(asm_goto))]
macro_rules! push_section {
    ($place:ident, [$($line:tt)*], $scratch:tt, $how:ident, $in:tt) => {
        stack_section!($place, [$($line)* "30:",], $scratch, [how = inout(reg) 0_u64 => $how,], $in)
    };
}

/// A section that takes or gives something. It fails if the stack is stopped.
macro_rules! stack_section {
    ($place:ident, [$($line:tt)*], [$($scratch:tt)*], [$($out:tt)*], [$($in:tt)*]) => {
        // SAFETY: the caller's contract, and (1) to (5) of `super`.
        unsafe {
            asm!(
                arm!(),
                open_word!(),
                open_stack!(),
                $($line)*
                $($scratch)*
                $($out)*
                rseq = out(reg) _,
                place = in(reg) $place,
                $($in)*
                options(nostack),
            );
        }
    };
}
