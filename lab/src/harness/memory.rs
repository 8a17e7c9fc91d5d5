//! Where the memory of this process comes from, and how much there is, as the kernel counts it.

use std::fs;

/// That of the C library, if not.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Bytes that a field of `/proc/self/status` says: `VmRSS` is resident now, `VmHWM` was at most so far.
pub(crate) fn status(field: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_of_memory_is_in_bytes_and_absent_if_unknown() {
        let (now, most) = (status("VmRSS").expect("offered"), status("VmHWM").expect("offered"));
        assert!(now > 100 << 10 && most > 100 << 10);
        assert_eq!((status("Vm"), status("Name")), (None, None));
    }
}
