//! The workers that the program has set for CPUs.

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};

use crate::worker::Worker;

/// The worker of each CPU; null until one is set.
#[derive(Debug)]
pub struct CpuTable(AtomicPtr<AtomicPtr<Worker>>);

/// Returns the number of CPUs that may ever be there. The C library reads a file, and has another answer if it
/// cannot: the first answer is kept.
pub fn cpu_count() -> usize {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    match COUNT.load(Relaxed) {
        0 => {
            // SAFETY: has no preconditions.
            let count = usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }).unwrap_or(1);
            _ = COUNT.compare_exchange(0, count.max(1), Relaxed, Relaxed);
            COUNT.load(Relaxed)
        }
        count => count,
    }
}

impl CpuTable {
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Returns the table of the CPUs, if there is one.
    pub fn get(&self) -> &[AtomicPtr<Worker>] {
        // Acquire: the table; pairs with the AcqRel in `get_or_new`.
        let table = self.0.load(Acquire);
        // SAFETY: a table is never freed.
        if table.is_null() { &[] } else { unsafe { core::slice::from_raw_parts(table, cpu_count()) } }
    }

    /// Returns the table, which is allocated if there is none; `None` if there is no memory.
    pub fn get_or_new(&self) -> Option<&[AtomicPtr<Worker>]> {
        if self.0.load(Relaxed).is_null() {
            // SAFETY: zeros are null pointers. A table that another thread has set first stays.
            unsafe {
                let table = libc::calloc(cpu_count(), size_of::<AtomicPtr<Worker>>());
                if table.is_null() {
                    return None;
                }
                if self.0.compare_exchange(ptr::null_mut(), table.cast(), AcqRel, Acquire).is_err() {
                    libc::free(table);
                }
            }
        }
        Some(self.get())
    }

    /// Returns the worker of the CPU that the thread runs on, if one has been set.
    pub fn of_this_cpu(&self) -> *mut Worker {
        let cpus = self.get();
        if cpus.is_empty() {
            return ptr::null_mut();
        }
        // SAFETY: has no preconditions.
        let cpu = unsafe { libc::sched_getcpu() };
        usize::try_from(cpu)
            .ok()
            .and_then(|cpu| cpus.get(cpu))
            .map_or(ptr::null_mut(), |cpu| cpu.load(Acquire))
    }
}
