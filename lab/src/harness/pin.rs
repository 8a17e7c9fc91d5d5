//! Which CPUs this process may use, and binding a thread to one of them.

use anyhow::Context as _;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs that the calling thread may run on.
pub(crate) fn allowed() -> anyhow::Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("cannot read the CPU affinity of this process")?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Binds the calling thread to `cpu`.
pub(crate) fn to(cpu: usize) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).with_context(|| {
        format!("cannot bind a thread to CPU {cpu}: allow it with taskset or the cpuset of the cgroup")
    })
}
