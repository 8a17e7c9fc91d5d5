//! A `cmpxchg` without `lock` in an rseq critical section: the third row of E5, which the library does not need.

use std::sync::atomic::AtomicU64;

use crossbeam_utils::CachePadded;

/// The counter of a CPU.
pub(super) type Row = CachePadded<AtomicU64>;

// The section multiplies by this.
const _: () = assert!(size_of::<Row>() == 128);

/// Returns the offset of each thread's rseq area from the thread pointer; `None` if the C library does not register
/// threads.
pub(super) fn area_offset() -> Option<isize> {
    // SAFETY: the names are C strings; the C library defines the symbols as constants of these types.
    unsafe {
        let find = |name: &std::ffi::CStr| libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
        let offset = find(c"__rseq_offset").cast::<isize>().as_ref()?;
        let size = find(c"__rseq_size").cast::<libc::c_uint>().as_ref()?;
        (*size > 0).then_some(*offset)
    }
}

/// Adds 1 to the counter of the current CPU. Returns `false` if the thread was interrupted.
///
/// # Safety
///
/// `offset` comes from [`area_offset`], and there is a row for each CPU.
#[inline(always)]
pub(super) unsafe fn increment(rows: *const Row, cpus: usize, offset: isize) -> bool {
    // SAFETY: the caller's contract. Until the exchange only `rseq_cs` is written; the kernel aborts the section if
    // another thread has run in between.
    unsafe {
        std::arch::asm!(
            ".pushsection __rseq_cs, \"aw\", @progbits",
            ".balign 32",
            "3:",
            ".long 0, 0",
            ".quad 4f, 5f - 4f, 6f",
            ".popsection",
            "lea {t}, [rip + 3b]",
            "mov qword ptr fs:[{offset} + 8], {t}",
            "4:",
            "mov {t:e}, dword ptr fs:[{offset} + 4]",
            "cmp {t}, {cpus}",
            "jae 7f",
            "shl {t}, 7",
            "add {t}, {rows}",
            "mov rax, qword ptr [{t}]",
            "lea {new}, [rax + 1]",
            "cmpxchg qword ptr [{t}], {new}",
            "5:",
            "mov qword ptr fs:[{offset} + 8], 0",
            ".pushsection __rseq_failure, \"ax\", @progbits",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "6:",
            "7:",
            "mov qword ptr fs:[{offset} + 8], 0",
            "jmp {interrupted}",
            ".popsection",
            t = out(reg) _,
            new = out(reg) _,
            out("rax") _,
            offset = in(reg) offset,
            cpus = in(reg) cpus,
            rows = in(reg) rows,
            interrupted = label { return false },
            options(nostack),
        );
    }
    true
}
