//! The critical sections on riscv64. See `sections.rs` for what each does, and [`super`] for the invariants.
//!
//! A `fence rw, w` before each commit makes it a Release. A `fence r, rw` after the load of a word that threads on
//! other CPUs write makes it an Acquire. The abort handler and early exits follow the section directly, because
//! conditional branches do not reach far.

use core::arch::asm;

use super::layout::{AreaRef, CounterRef, Pushed, rseq};

/// Arms the section. The store to `rseq_cs` comes last.
macro_rules! arm {
    () => {
        concat!(
            descriptor!(),
            fault_point!(0),
            "lla {t}, 3b\n",
            unless_mutant!(1, "sd {t}, 8({rseq})", ""),
            "\n4:\n",
            fault_point!(1),
        )
    };
}

/// Loads the current CPU's area, as bytes from the first area, into `t`. Leaves by `7` if the CPU number is negative.
macro_rules! area_offset {
    () => {
        concat!(
            "lw {t}, 4({rseq})\n",
            fault_point!(2),
            unless_mutant!(3, "bltz {t}, 7f\n", ""),
            "slli {t}, {t}, 7\n",
        )
    };
}

/// Loads the address of the current CPU's area into `t`. Leaves by `7` if the area is stopped too.
macro_rules! open_area {
    () => {
        concat!(
            area_offset!(),
            "add {t}, {t}, {areas}\n",
            unless_mutant!(4, "ld {x}, 0({t})\nfence r, rw\nbnez {x}, 7f\n", ""),
        )
    };
}

/// Ends the section after the commit. The abort handler (`6`, behind the signature) and early exits (`7`, and `8`
/// without a value) follow.
macro_rules! end {
    ($failed:expr, $left:expr) => {
        concat!(
            "5:\n",
            fault_point!(5),
            "j 9f\n",
            ".balign 4\n",
            ".long 0xf1401073\n",
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

/// The end of a section that adds: adds to the word of the current CPU.
macro_rules! add_to_word {
    () => {
        concat!(
            area_offset!(),
            "add {t}, {t}, {word}\n",
            "ld {x}, 0({t})\n",
            "add {x}, {x}, {by}\n",
            fault_point!(3),
            "fence rw, w\n",
            "sd {x}, 0({t})\n",
            end!(leave_by!("j {failed}", "li {how}, 1\nj 9f"), ""),
        )
    };
}

sections! {
    fn add(x) {
        add_to_word!(),
    }

    fn add_open(x) {
        unless_mutant!(7, "ld {x}, 0({gate})\nandi {x}, {x}, 1\nbnez {x}, 7f\n", ""),
        add_to_word!(),
    }

    fn push(x, y, len) {
        "ld {len}, 8({t})",
        unless_mutant!(2, "ld {x}, 16({t})\nbgeu {len}, {x}, 8f\n", ""),
        fault_point!(3),
        "ld {y}, 24({t})",
        "slli {x}, {len}, 3",
        "add {x}, {x}, {y}",
        unless_mutant!(5, "", "addi t6, {len}, 1\nsd t6, 8({t})\n"),
        "sd {value}, 0({x})",
        fault_point!(4),
        "addi {len}, {len}, 1",
        "fence rw, w",
        "sd {len}, 8({t})",
        end!(leave_by!("j {failed}", "li {how}, 1\nj 9f"), leave_by!("j {full}", "li {how}, 2")),
    }

    fn pop(x, y, len) {
        "ld {len}, 8({t})",
        "beqz {len}, 8f",
        "addi {len}, {len}, -1",
        fault_point!(3),
        "ld {y}, 24({t})",
        "slli {x}, {len}, 3",
        "add {x}, {x}, {y}",
        "ld {value}, 0({x})",
        fault_point!(4),
        "fence rw, w",
        "sd {len}, 8({t})",
        end!(unless_mutant!(6, "li {value}, -1\nj 9f", "li {value}, 0\nj 9f"), "li {value}, 0"),
    }
}
