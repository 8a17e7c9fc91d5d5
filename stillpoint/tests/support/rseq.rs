//! Unregisters threads from rseq, and pins them to CPUs.

use std::arch::asm;
use std::io;
use std::mem;

const UNREGISTER: libc::c_int = 1;
/// The signature with which the C library registers threads.
const SIGNATURE: u32 = if cfg!(target_arch = "aarch64") {
    0xd428_bc00
} else if cfg!(target_arch = "riscv64") {
    0xf140_1073
} else {
    0x5305_3053
};

/// Returns the thread pointer. Only on x86-64 is it `pthread_self`.
fn thread_pointer() -> *const u8 {
    let pointer;
    // SAFETY: each reads a register, or the word that by the ABI points to itself.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {}, qword ptr fs:[0]", out(reg) pointer);
        #[cfg(target_arch = "aarch64")]
        asm!("mrs {}, tpidr_el0", out(reg) pointer);
        #[cfg(target_arch = "riscv64")]
        asm!("mv {}, tp", out(reg) pointer);
    }
    pointer
}

/// Registers the calling thread with an area that is never freed, as other code may do where the C library does not.
/// Returns `false` if the kernel refuses.
pub fn register() -> bool {
    #[repr(align(32))]
    struct Area(#[expect(dead_code, reason = "the kernel writes it")] [u8; 32]);
    let area = Box::into_raw(Box::new(Area([0; 32])));
    // SAFETY: the area lives as long as the process.
    unsafe { libc::syscall(libc::SYS_rseq, area, size_of::<Area>(), 0, SIGNATURE) == 0 }
}

/// Ends the registration of the calling thread that the C library made. Returns `false` if it made none.
pub fn unregister() -> bool {
    // SAFETY: the names are C strings; glibc defines the symbols as constants of these types.
    let (offset, size) = unsafe {
        let find = |name: &std::ffi::CStr| libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
        let (offset, size) = (find(c"__rseq_offset").cast::<isize>(), find(c"__rseq_size").cast::<u32>());
        if offset.is_null() || size.is_null() || *size == 0 {
            return false;
        }
        (*offset, *size)
    };
    // The C library reports the size of the fields that it knows.
    let size = (size as usize).next_multiple_of(32);
    let area = thread_pointer().wrapping_offset(offset);
    // SAFETY: unregisters what the C library registered with the same arguments.
    let failed = unsafe { libc::syscall(libc::SYS_rseq, area, size, UNREGISTER, SIGNATURE) };
    assert_eq!(failed, 0, "the thread cannot be unregistered: {}", io::Error::last_os_error());
    true
}

/// Returns the CPUs on which the calling thread may run.
pub fn allowed_cpus() -> Vec<usize> {
    // SAFETY: a CPU set is plain data, which the call fills.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
        (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
    }
}

/// Restricts the calling thread to `cpus`, and so moves it there.
pub fn pin(cpus: &[usize]) {
    // SAFETY: a CPU set is plain data; all places outlive the calls.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        for &cpu in cpus {
            libc::CPU_SET(cpu, &mut set);
        }
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}
