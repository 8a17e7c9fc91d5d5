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

/// Binds every thread of the process, and so those they start: a background reclaimer must not share the measured
/// CPU. A thread that exits meanwhile needs no CPU.
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
