//! The memory of this process as the kernel counts it.

use std::fs;

/// Returns a field of `/proc/self/status`, in bytes: `VmRSS` is the resident memory, `VmHWM` its peak.
pub fn status(name: &str) -> Option<u64> {
    field(&fs::read_to_string("/proc/self/status").ok()?, name)
}

/// Returns the resident memory in bytes. Exact, and slower: `VmRSS` may lag by some dozens of pages for each thread.
pub fn resident() -> Option<u64> {
    field(&fs::read_to_string("/proc/self/smaps_rollup").ok()?, "Rss")
}

/// Returns how many bytes are allocated: what the C library has given, and what was mapped without it, written to or
/// not. Not a number without glibc.
pub fn allocated() -> f64 {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: takes nothing.
        let all = unsafe { libc::mallinfo2() };
        let mapped = status("VmData").map_or(f64::NAN, |bytes| bytes as f64);
        mapped + all.uordblks as f64 - all.arena as f64
    }
    #[cfg(not(target_env = "gnu"))]
    f64::NAN
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
