//! Unregisters threads from rseq, and pins them to CPUs.

use std::io;
use std::mem;

/// Bytes and signature with which the C library registers threads.
const SIZE: usize = 32;
const UNREGISTER: libc::c_int = 1;
const SIGNATURE: u32 = if cfg!(target_arch = "aarch64") {
    0xd428_bc00
} else if cfg!(target_arch = "riscv64") {
    0xf140_1073
} else {
    0x5305_3053
};

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
    assert!(size as usize <= SIZE, "an area larger than the first version's");
    // SAFETY: on the architectures tested `pthread_self` is the thread pointer.
    let area = unsafe { libc::pthread_self() as *mut u8 }.wrapping_offset(offset);
    // SAFETY: unregisters what the C library registered with the same arguments.
    let failed = unsafe { libc::syscall(libc::SYS_rseq, area, SIZE, UNREGISTER, SIGNATURE) };
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
