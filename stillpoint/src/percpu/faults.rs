//! Faults inside critical sections, for tests: `--cfg stillpoint_faults` compiles them in. Otherwise nothing of this exists.
//!
//! Each section has numbered points. At a point a thread can be delayed, or trap: the kernel then delivers a signal in the
//! middle of the section, in whose handler a test does what it likes (it yields, sleeps, moves to another CPU, or executes
//! the same operation), and interrupts the section. The same way sections are broken, one step at a time, to show that the
//! tests see: these are the mutants of `docs/proof.md`.

/// A numbered point of a section: nothing, unless faults are compiled in. Changes the flags.
#[cfg(all(not(stillpoint_faults), target_arch = "x86_64"))]
macro_rules! point {
    ($number:literal) => {
        ""
    };
}

/// `$broken` if the mutant is selected, otherwise `$right`: instructions. Changes the flags.
#[cfg(all(not(stillpoint_faults), target_arch = "x86_64"))]
macro_rules! unless_mutant {
    ($number:literal, $right:expr, $broken:expr) => {
        $right
    };
}

#[cfg(all(stillpoint_faults, target_arch = "x86_64"))]
macro_rules! point {
    ($number:literal) => {
        concat!(
            "cmp dword ptr fs:[stillpoint_fault_points@tpoff + 4 * ",
            $number,
            "], 1\n",
            "jb 21f\n",
            "je 20f\n",
            ".rept 200\npause\n.endr\n",
            "jmp 21f\n",
            // With something behind it, which belongs to the point: the trap is where it is, not where the next thing begins.
            "20: int3\nnop\n",
            "21:\n",
        )
    };
}

#[cfg(all(stillpoint_faults, target_arch = "x86_64"))]
macro_rules! unless_mutant {
    ($number:literal, $right:expr, $broken:expr) => {
        concat!(
            "cmp dword ptr [rip + stillpoint_fault_mutant], ",
            $number,
            "\n",
            "jne 22f\n",
            $broken,
            "\njmp 23f\n",
            "22:\n",
            $right,
            "\n23:\n",
        )
    };
}

#[cfg(all(stillpoint_faults, target_arch = "x86_64"))]
pub use on::*;

#[cfg(all(stillpoint_faults, target_arch = "x86_64"))]
mod on {
    use core::arch::{asm, global_asm};
    use core::sync::atomic::{AtomicU32, Ordering::*};

    /// Points of a section.
    pub const POINTS: usize = 8;

    /// What happens at a point.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(u32)]
    pub enum Fault {
        /// Nothing.
        None = 0,
        /// A breakpoint: `SIGTRAP`.
        Trap = 1,
        /// Some microseconds pass.
        Delay = 2,
    }

    // Thread-local, where instructions find it without a register: in programs, not in shared libraries.
    global_asm!(
        ".pushsection .tbss, \"awT\", @nobits",
        ".balign 32",
        ".globl stillpoint_fault_points",
        "stillpoint_fault_points: .zero 32",
        ".popsection",
    );
    const _: () = assert!(4 * POINTS == 32);

    fn points() -> &'static [AtomicU32; POINTS] {
        let points: *const [AtomicU32; POINTS];
        // SAFETY: the address of the array above, which lives as long as the thread; no other thread gets the reference.
        unsafe {
            asm!("mov {p}, qword ptr fs:[0]", "lea {p}, [{p} + stillpoint_fault_points@tpoff]", p = out(reg) points);
            &*points
        }
    }

    #[unsafe(no_mangle)]
    static stillpoint_fault_mutant: AtomicU32 = AtomicU32::new(0);

    /// Mutants of the sections themselves; the first has number 1.
    const IN_SECTIONS: [&str; 10] = [
        "not-armed",
        "interrupted-pop-finds-nothing",
        "bound-not-checked",
        "stop-not-checked",
        "committed-early",
        "not-cleared",
        "tail-not-checked",
        "room-not-checked",
        "not-cleared-after-failure",
        "not-cleared-after-exit",
    ];

    /// Breaks the sections as the mutant of this name says, if it is one of theirs.
    pub(crate) fn select(name: &str) {
        if let Some(index) = IN_SECTIONS.iter().position(|known| *known == name) {
            stillpoint_fault_mutant.store(index as u32 + 1, SeqCst);
        }
    }

    /// Has `fault` happen when the calling thread passes `point`.
    pub fn set(point: usize, fault: Fault) {
        // Selects it, if that is still to be done.
        crate::sync::mutant("");
        points()[point].store(fault as u32, SeqCst);
    }

    /// Takes the fault away; true if there was one.
    pub fn disarm(point: usize) -> bool {
        points()[point].swap(0, SeqCst) != 0
    }
}
