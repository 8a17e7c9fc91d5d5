//! The CPUs that this process may use, and binding a thread to one of them.

use std::fs;

use anyhow::Context as _;
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the CPUs that the calling thread may run on.
pub fn allowed() -> anyhow::Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("cannot read the CPU affinity of this process")?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Binds the calling thread to `cpu`.
pub fn to(cpu: usize) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).with_context(|| {
        format!("cannot bind a thread to CPU {cpu}: allow it with taskset or the cpuset of the cgroup")
    })
}

/// A CPU for the measured thread and one for all others.
#[derive(Clone, Copy, Debug)]
pub struct CpuPair {
    pub first: usize,
    pub second: usize,
    /// They are hardware threads of one core, so each slows the other.
    pub one_core: bool,
}

/// Returns two CPUs that this process may use, of different cores if possible; `None` if it has one CPU only.
pub fn pair() -> anyhow::Result<Option<CpuPair>> {
    let allowed = allowed()?;
    let Some((&first, others)) = allowed.split_first() else { return Ok(None) };
    let path = format!("/sys/devices/system/cpu/cpu{first}/topology/thread_siblings_list");
    let siblings = parse_list(&fs::read_to_string(path).unwrap_or_default());
    let elsewhere = others.iter().find(|cpu| !siblings.contains(cpu));
    let second = elsewhere.or(others.first());
    Ok(second.map(|&second| CpuPair { first, second, one_core: elsewhere.is_none() }))
}

/// Parses a list such as `0,2-3`.
fn parse_list(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// Binds every thread of the process, and so those they start: a background reclaimer must not share the measured CPU.
/// A thread that exits meanwhile needs no CPU.
pub fn all_threads_to(cpus: &[usize]) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    for task in fs::read_dir("/proc/self/task").context("cannot list the threads of this process")? {
        let name = task.context("cannot list the threads of this process")?.file_name();
        let thread = name.to_str().and_then(|id| Pid::from_raw(id.parse().ok()?));
        match sched_setaffinity(thread, &set) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("cannot bind thread {name:?} to the CPUs {cpus:?}"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_list_has_numbers_and_ranges() {
        assert_eq!(parse_list("0,4\n"), [0, 4]);
        assert_eq!(parse_list("1-3,8\n"), [1, 2, 3, 8]);
        assert!(parse_list("").is_empty());
    }
}
