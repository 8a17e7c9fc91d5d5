//! The critical sections on riscv64. See `sections.rs` for what each does, and [`super`] for the invariants.
//!
//! A `fence rw, w` before each commit makes it a Release. A `fence r, rw` after the load of a word that threads on
//! other CPUs write makes it an Acquire. The abort handler and early exits follow the section directly, because
//! conditional branches do not reach far.

use core::arch::asm;

use super::layout::{Place, Pushed};

/// Loads the address of the rseq area into `rseq` and the limit into `x`, and leaves by `7` if its offset is 0. Then
/// arms the section. The store to `rseq_cs` comes last.
macro_rules! arm {
    () => {
        concat!(
            descriptor!(),
            "ld {rseq}, 0({place})\n",
            "fence r, rw\n",
            "slli {x}, {rseq}, 49\n",
            "srli {x}, {x}, 49\n",
            "srai {rseq}, {rseq}, 15\n",
            "beqz {rseq}, 7f\n",
            "add {rseq}, {rseq}, tp\n",
            fault_point!(0),
            "lla {t}, 3b\n",
            unless_mutant!(1, "sd {t}, 8({rseq})", ""),
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
            "lwu {t}, 4({rseq})\n",
            fault_point!(2),
            unless_mutant!(3, "bgeu {t}, {x}, 7f\n", ""),
            "slli {t}, {t}, 14\n",
            "ld {x}, 8({place})\n",
            "add {t}, {t}, {x}\n",
        )
    };
}

/// Leaves by `7` if the stack at `t` is stopped.
macro_rules! open_stack {
    () => {
        unless_mutant!(4, "ld {x}, 0({t})\nfence r, rw\nbnez {x}, 7f\n", "")
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

/// The end of a section that adds: adds to the word at `t`.
macro_rules! add_to_word {
    () => {
        concat!(
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
        open_word!(),
        add_to_word!(),
    }

    fn add_at(x) {
        open_word!(),
        "slli {x}, {index}, 3",
        "add {t}, {t}, {x}",
        add_to_word!(),
    }

    fn add_open(x) {
        unless_mutant!(7, "ld {t}, 0({gate})\nandi {t}, {t}, 1\nbnez {t}, 7f\n", ""),
        open_word!(),
        add_to_word!(),
    }

    fn push(x, len) {
        "ld {len}, 8({t})",
        unless_mutant!(2, "bgeu {len}, {capacity}, 8f\n", ""),
        fault_point!(3),
        unless_mutant!(5, "", "addi t6, {len}, 1\nsd t6, 8({t})\n"),
        "slli {x}, {len}, 3",
        "add {x}, {x}, {t}",
        "sd {value}, 16({x})",
        fault_point!(4),
        "addi {len}, {len}, 1",
        "fence rw, w",
        "sd {len}, 8({t})",
        end!(leave_by!("j {failed}", "li {how}, 1\nj 9f"), leave_by!("j {full}", "li {how}, 2")),
    }

    fn pop(x, len) {
        "ld {len}, 8({t})",
        "beqz {len}, 8f",
        "addi {len}, {len}, -1",
        fault_point!(3),
        "slli {x}, {len}, 3",
        "add {x}, {x}, {t}",
        "ld {value}, 16({x})",
        fault_point!(4),
        "fence rw, w",
        "sd {len}, 8({t})",
        end!(unless_mutant!(6, "li {value}, -1\nj 9f", "li {value}, 0\nj 9f"), "li {value}, 0"),
    }
}
