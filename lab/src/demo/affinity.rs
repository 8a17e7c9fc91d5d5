//! Which CPU the threads run on while the cost of an updater to a reader is measured.

use std::fs;

use anyhow::{Context, Result};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::harness::pin;

/// A CPU for the reader and one for everything else.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cpus {
    pub(super) reader: usize,
    pub(super) updater: usize,
    /// They are hardware threads of one core, so each slows the other whatever they run.
    pub(super) one_core: bool,
}

/// Two CPUs that this process may use, of different cores if it can be; `None` if it has one CPU only.
pub(super) fn choose() -> Result<Option<Cpus>> {
    let allowed = pin::allowed()?;
    let Some((&reader, others)) = allowed.split_first() else { return Ok(None) };
    let siblings = siblings(reader);
    let elsewhere = others.iter().find(|cpu| !siblings.contains(cpu));
    let updater = elsewhere.or(others.first());
    Ok(updater.map(|&updater| Cpus { reader, updater, one_core: elsewhere.is_none() }))
}

/// The CPUs of the same core; none if the kernel does not tell.
fn siblings(cpu: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    parse_list(&fs::read_to_string(path).unwrap_or_default())
}

/// A list such as `0,2-3`.
fn parse_list(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// Pins every thread that the process has, and so those they start: a background reclaimer is not to share the reader's
/// CPU.
pub(super) fn pin_all(cpu: usize) -> Result<()> {
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    for task in fs::read_dir("/proc/self/task").context("cannot list the threads of this process")? {
        let name = task.context("cannot list the threads of this process")?.file_name();
        let thread = name.to_str().and_then(|id| Pid::from_raw(id.parse().ok()?));
        sched_setaffinity(thread, &cpus)
            .with_context(|| format!("cannot bind thread {name:?} to CPU {cpu}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_has_numbers_and_ranges() {
        assert_eq!(parse_list("0\n"), [0]);
        assert_eq!(parse_list("0,4\n"), [0, 4]);
        assert_eq!(parse_list("1-3,8\n"), [1, 2, 3, 8]);
        assert!(parse_list("").is_empty());
    }
}
