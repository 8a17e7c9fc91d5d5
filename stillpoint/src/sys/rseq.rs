//! Restartable sequences: the registration of threads, the fields of an rseq area, and the number of possible CPUs.
//!
//! The kernel knows one rseq area per thread. glibc registers it since 2.35, unless
//! `GLIBC_TUNABLES=glibc.pthread.rseq=0`. Then the area is at the same offset from the thread pointer in every
//! thread. Otherwise a thread may register an area of its own, until it ends.
//!
//! Nothing here writes to an area: the critical sections write `rseq_cs`, and the kernel writes the rest.

use core::arch::asm;
use core::cell::{Cell, UnsafeCell};
use core::ffi::CStr;
use core::mem;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::io::Read as _;
use std::os::fd::AsRawFd as _;

/// There is code for this architecture, here and in `percpu`. Big endian is not supported: the kernel reads the
/// signature as data, and aarch64 always stores instructions in little endian. Miri interprets no instructions.
pub const SUPPORTED: bool =
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))
        && cfg!(all(target_pointer_width = "64", target_endian = "little", not(miri)));

/// Size of an area of the first version, which the kernel still accepts. Later fields fit into its padding.
const OWN_SIZE: usize = 32;

/// Offset of the current CPU's number in an area. The number is negative if the thread is not registered.
const CPU_ID: isize = 4;

/// Precedes each abort handler. The kernel compares it with the signature of the registration.
const SIGNATURE: u32 = if cfg!(target_arch = "aarch64") {
    0xd428_bc00
} else if cfg!(target_arch = "riscv64") {
    0xf140_1073
} else {
    0x5305_3053
};

/// Returns the offset from the thread pointer of the areas with which the C library registers threads. Returns `None`
/// if it does not: it knows nothing of rseq, the kernel refuses, or registration is disabled.
pub fn library_offset() -> Option<isize> {
    let (offset, size) = symbols()?;
    // SAFETY: glibc defines them as constants: `const ptrdiff_t __rseq_offset; const unsigned int __rseq_size`.
    let (offset, size) = unsafe { (offset.read(), size.read()) };
    (size != 0).then_some(offset)
}

/// Looks up the symbols. Linking them would require glibc 2.35.
#[cfg(not(all(target_env = "gnu", target_feature = "crt-static")))]
fn symbols() -> Option<(*const isize, *const libc::c_uint)> {
    // SAFETY: the names are C strings.
    let (offset, size) = unsafe {
        let find = |name: &CStr| libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
        (find(c"__rseq_offset"), find(c"__rseq_size"))
    };
    (!offset.is_null() && !size.is_null()).then_some((offset.cast(), size.cast()))
}

/// A static program cannot look up symbols. Weak ones are null if the C library lacks them. No symbol is defined
/// here, as a program may contain several versions of this crate.
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
fn symbols() -> Option<(*const isize, *const libc::c_uint)> {
    if !SUPPORTED {
        return None;
    }
    let addresses: *const [*const u8; 2];
    // The label belongs to two words in another section.
    macro_rules! address_of_words {
        ($($load:literal),*) => {
            asm!(
                ".weak __rseq_offset",
                ".weak __rseq_size",
                ".pushsection .data.rel.ro.stillpoint, \"aw\", @progbits",
                ".balign 8",
                "2: .quad __rseq_offset, __rseq_size",
                ".popsection",
                $($load,)*
                out(reg) addresses,
                options(nomem, nostack, preserves_flags),
            )
        };
    }
    // SAFETY: the instructions only compute the address of the words, which are never written after the program has
    // been loaded.
    let [offset, size] = unsafe {
        #[cfg(target_arch = "x86_64")]
        address_of_words!("lea {}, [rip + 2b]");
        #[cfg(target_arch = "aarch64")]
        address_of_words!("adrp {0}, 2b", "add {0}, {0}, :lo12:2b");
        #[cfg(target_arch = "riscv64")]
        address_of_words!("lla {}, 2b");
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
        {
            addresses = &[core::ptr::null(); 2];
        }
        addresses.read_volatile()
    };
    (!offset.is_null() && !size.is_null()).then_some((offset.cast(), size.cast()))
}

/// Returns the number of the current CPU, from the area at `offset` from the thread pointer. It is negative if the
/// thread is not registered, and meaningless if `offset` is 0.
///
/// # Safety
///
/// There is an area at `offset` in the calling thread, or `offset` is 0.
#[inline(always)]
pub unsafe fn cpu_id(offset: isize) -> u32 {
    // SAFETY: the caller's contract. The C library keeps at least a pointer at the thread pointer itself.
    unsafe { read(offset + CPU_ID) }
}

/// Reads 32 bits at `offset` from the thread pointer. The read is volatile, as the kernel changes them.
#[inline(always)]
unsafe fn read(offset: isize) -> u32 {
    if cfg!(miri) {
        return u32::MAX; // No thread is registered.
    }
    let value: u32;
    // SAFETY: the caller vouches for the place; the instruction does nothing but load it.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {value:e}, dword ptr fs:[{offset}]", value = out(reg) value, offset = in(reg) offset,
            options(nostack, readonly, preserves_flags));
        #[cfg(not(target_arch = "x86_64"))]
        {
            value = thread_pointer().wrapping_offset(offset).cast::<u32>().read_volatile();
        }
    }
    value
}

/// Returns the thread pointer, to which offsets are relative.
#[inline(always)]
pub fn thread_pointer() -> *const u8 {
    let pointer: *const u8;
    // SAFETY: each reads a register, or the word that by the ABI points to itself.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags));
        #[cfg(target_arch = "riscv64")]
        asm!("mv {}, tp", out(reg) pointer, options(nostack, nomem, preserves_flags));
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
        {
            pointer = core::ptr::null();
        }
    }
    pointer
}

/// An area that this library registers.
#[repr(C, align(32))]
struct OwnArea {
    area: UnsafeCell<[u8; OWN_SIZE]>,
    /// The result of `rseq(2)`, with the kernel's error; `None` before the call.
    registered: Cell<Option<Result<(), i32>>>,
}

thread_local! {
    // The destructor ends the registration before the memory is freed.
    static OWN: OwnArea = const { OwnArea { area: UnsafeCell::new([0; OWN_SIZE]), registered: Cell::new(None) } };
}

/// Registers the calling thread with an area of its own at the first call. Returns the offset of that area.
///
/// # Errors
///
/// Returns the kernel's error, at each call: `EINVAL` if another library has registered the thread. Returns `ESRCH`
/// if the thread is about to end.
pub fn register_own() -> Result<isize, i32> {
    let registered = OWN.try_with(|own| {
        // SAFETY: the area lives until `drop` below unregisters it.
        let result = own.registered.get().unwrap_or_else(|| unsafe { call(own.area.get().cast(), 0) });
        own.registered.set(Some(result));
        result.map(|()| own.area.get().cast::<u8>().addr().wrapping_sub(thread_pointer().addr()) as isize)
    });
    registered.unwrap_or(Err(libc::ESRCH))
}

impl Drop for OwnArea {
    fn drop(&mut self) {
        const UNREGISTER: libc::c_int = 1;
        if self.registered.get() == Some(Ok(())) {
            // SAFETY: unregisters what was registered.
            let _ = unsafe { call(self.area.get().cast(), UNREGISTER) };
        }
    }
}

/// `rseq(2)`. Returns the kernel's error.
///
/// # Safety
///
/// The area must live as long as it is registered.
unsafe fn call(area: *mut u8, flags: libc::c_int) -> Result<(), i32> {
    // SAFETY: the caller's contract.
    match unsafe { libc::syscall(libc::SYS_rseq, area, OWN_SIZE, flags, SIGNATURE) } {
        0 => Ok(()),
        // SAFETY: the place is the thread's own.
        _ => Err(unsafe { *libc::__errno_location() }),
    }
}

/// The error of [`register_own`] if another area is registered.
pub const OTHER_AREA: i32 = libc::EINVAL;

/// Returns the release of the running kernel: major, minor, patch.
pub fn kernel_release() -> Option<(u32, u32, u32)> {
    // SAFETY: plain data, which the call fills with C strings.
    unsafe {
        let mut name: libc::utsname = mem::zeroed();
        libc::uname(&mut name);
        parse_release(CStr::from_ptr(name.release.as_ptr()).to_bytes())
    }
}

fn parse_release(mut release: &[u8]) -> Option<(u32, u32, u32)> {
    // "6.18.4-something", "7.0-rc1": only the numbers matter.
    let (major, minor) = (take_number(&mut release)?, take_number(&mut release)?);
    Some((major, minor, take_number(&mut release).unwrap_or(0)))
}

/// Takes the number with which a text begins, and what separates it from the next. Returns `None` if there is none.
fn take_number(text: &mut &[u8]) -> Option<u32> {
    let mut number = None;
    while let Some((byte, rest)) = text.split_first() {
        *text = rest;
        if !byte.is_ascii_digit() {
            break;
        }
        number = Some(number.unwrap_or(0_u32).checked_mul(10)?.checked_add(u32::from(byte - b'0'))?);
    }
    number
}

/// Returns the CPU on which the calling thread runs, by `sched_getcpu(3)`.
pub fn getcpu() -> usize {
    if cfg!(miri) {
        return 0;
    }
    // SAFETY: takes nothing.
    usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

/// Returns the number of CPUs that this machine may ever have: all CPU numbers are lower. Every call returns the
/// same.
pub fn possible_cpus() -> usize {
    if cfg!(miri) {
        return 1; // `getcpu` returns no other.
    }
    /// 0 before the first call.
    static CPUS: AtomicUsize = AtomicUsize::new(0);
    // Relaxed, both: the number publishes nothing, and the first one stays.
    let known = CPUS.load(Relaxed);
    if known != 0 {
        return known;
    }
    let found = listed_cpus().unwrap_or_else(cpus_in_masks);
    CPUS.compare_exchange(0, found, Relaxed, Relaxed).map_or_else(|first| first, |_| found)
}

/// Reads the number from `/sys`, if that is the kernel's: in containers, another file system may show other numbers.
fn listed_cpus() -> Option<usize> {
    let mut text = [0; 4096];
    let mut file = std::fs::File::open("/sys/devices/system/cpu/possible").ok()?;
    // SAFETY: plain data, which outlives the call.
    let file_system = unsafe {
        let mut status: libc::statfs = mem::zeroed();
        (libc::fstatfs(file.as_raw_fd(), &mut status) == 0).then_some(status.f_type as u64)
    };
    if file_system != Some(libc::SYSFS_MAGIC as u64) {
        return None;
    }
    let len = file.read(&mut text).ok()?;
    parse_cpu_list(&text[..len])
}

/// Returns 1 more than the highest number of a list such as "0-3,6". Returns `None` for other text.
fn parse_cpu_list(mut list: &[u8]) -> Option<usize> {
    let mut highest = 0;
    loop {
        highest = take_number(&mut list)?.max(highest);
        if list.is_empty() {
            return (highest as usize).checked_add(1);
        }
    }
}

/// Returns the number of possible CPUs, rounded up to a multiple of 64: the size of the kernel's CPU masks.
fn cpus_in_masks() -> usize {
    /// Kernels are not built for more CPUs.
    const MOST: usize = 8192;
    let mut mask = [0_u64; MOST / 64];
    let fits = |words: &usize| {
        // SAFETY: the kernel writes at most that many bytes, and returns an error if its mask is larger.
        unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, words * 8, mask.as_mut_ptr()) > 0 }
    };
    (1..MOST / 64).find(fits).map_or(MOST, |words| words * 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_with_a_suffix_is_parsed() {
        assert_eq!(parse_release(b"6.18.44-12-generic"), Some((6, 18, 44)));
        assert_eq!(parse_release(b"7.0-rc1"), Some((7, 0, 0)));
        assert_eq!(parse_release(b"4.14.0+"), Some((4, 14, 0)));
        assert_eq!(parse_release(b"unknown"), None);
    }

    #[test]
    fn cpu_list_gives_its_highest_cpu() {
        assert_eq!(parse_cpu_list(b"0-1\n"), Some(2));
        assert_eq!(parse_cpu_list(b"0"), Some(1));
        assert_eq!(parse_cpu_list(b"0-3,6,8-9\n"), Some(10));
        assert_eq!(parse_cpu_list(b""), None);
        assert_eq!(parse_cpu_list(b"all"), None);
    }

    #[test]
    fn possible_cpus_include_the_current_one() {
        assert!(possible_cpus() > getcpu());
        assert!(listed_cpus().is_none_or(|listed| listed > getcpu() && listed <= cpus_in_masks()));
    }
}
