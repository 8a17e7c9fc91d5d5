//! The allocator of this process, and its memory as the kernel counts it.

use std::fs;

/// Without the feature, memory is allocated by the C library.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Returns a field of `/proc/self/status`, in bytes: `VmRSS` is the resident memory, `VmHWM` its peak.
pub fn status(name: &str) -> Option<u64> {
    field(&fs::read_to_string("/proc/self/status").ok()?, name)
}

/// Returns the resident memory in bytes. Exact, and slower: `VmRSS` may lag by some dozens of pages for each thread.
pub fn resident() -> Option<u64> {
    field(&fs::read_to_string("/proc/self/smaps_rollup").ok()?, "Rss")
}

/// Returns a field of such a file, in bytes.
pub fn field(file: &str, name: &str) -> Option<u64> {
    let line = file.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_field_is_in_bytes_or_absent() {
        let file = "Name:\tstillpoint\nVmRSS:\t    1234 kB\nThreads:\t1\n";
        assert_eq!(field(file, "VmRSS"), Some(1234 << 10));
        assert_eq!(["Vm", "Name", "Threads"].map(|name| field(file, name)), [None; 3]);
        assert!(status("VmRSS").is_some() && status("VmHWM").is_some());
    }
}
