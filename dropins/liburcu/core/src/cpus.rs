//! The workers of CPUs.

use core::ffi::{c_int, c_ulong};
use core::ptr;
use core::sync::atomic::Ordering::*;

use crate::call_rcu::{CallRcu, create, free, free_and_join, set_errno};
use crate::cpu_table::cpu_count;
use crate::flavor::synchronize;
use crate::worker::Worker;

/// `get_cpu_call_rcu_data`.
pub fn get_cpu_worker<F: CallRcu>(cpu: c_int) -> *mut Worker {
    let cpus = F::workers().cpus.get();
    // Acquire: the worker; pairs with the AcqRel in `set_cpu_worker`.
    usize::try_from(cpu).ok().and_then(|cpu| cpus.get(cpu)).map_or(ptr::null_mut(), |cpu| cpu.load(Acquire))
}

/// `set_cpu_call_rcu_data`: 0, or a negative error number, which `errno` has as well.
pub fn set_cpu_worker<F: CallRcu>(cpu: c_int, worker: *mut Worker) -> c_int {
    let Some(index) = usize::try_from(cpu).ok().filter(|&cpu| cpu < cpu_count()) else {
        return fail(libc::EINVAL);
    };
    let Some(place) = F::workers().cpus.get_or_new().and_then(|cpus| cpus.get(index)) else {
        return fail(libc::ENOMEM);
    };
    if worker.is_null() {
        place.store(worker, Release);
        return 0;
    }
    match place.compare_exchange(ptr::null_mut(), worker, AcqRel, Relaxed) {
        Ok(_) => 0,
        Err(_) => fail(libc::EEXIST),
    }
}

/// `create_all_cpu_call_rcu_data`.
pub fn create_cpu_workers<F: CallRcu>(flags: c_ulong) -> c_int {
    for cpu in 0..cpu_count() as c_int {
        if !get_cpu_worker::<F>(cpu).is_null() {
            continue;
        }
        let worker = create::<F>(flags, cpu);
        // SAFETY: null, or no other thread has seen it.
        let Some(created) = (unsafe { worker.as_ref() }) else { return fail(libc::ENOMEM) };
        created.is_joined.store(true, Relaxed);
        let result = set_cpu_worker::<F>(cpu, worker);
        if result != 0 {
            // SAFETY: no other thread has seen it.
            unsafe { free_and_join::<F>(worker) };
            if result != -libc::EEXIST {
                return fail(-result);
            }
        }
    }
    0
}

/// `free_all_cpu_call_rcu_data`. Programs join the threads of the workers that they have created themselves.
pub fn free_cpu_workers<F: CallRcu>() {
    // The last one is its own next.
    let mut first: *mut Worker = ptr::null_mut();
    let workers = F::workers();
    for place in workers.cpus.get() {
        let worker = place.swap(ptr::null_mut(), AcqRel);
        // SAFETY: null, or valid: the program hands it over.
        let Some(taken) = (unsafe { worker.as_ref() }) else { continue };
        // It may have served several CPUs.
        if taken.next_freed.load(Relaxed).is_null() && !ptr::eq(taken, &workers.default) {
            taken.next_freed.store(if first.is_null() { worker } else { first }, Relaxed);
            first = worker;
        }
    }
    if first.is_null() {
        return;
    }
    // Callers inside sections may be using them.
    synchronize::<F>();
    let next = |&worker: &*mut Worker| {
        // SAFETY: this is called before the worker is freed.
        let next = unsafe { &*worker }.next_freed.load(Relaxed);
        (next != worker).then_some(next)
    };
    for worker in core::iter::successors(Some(first), next) {
        // SAFETY: no caller uses it any more.
        unsafe {
            if (*worker).is_joined.load(Relaxed) {
                free_and_join::<F>(worker);
            } else {
                free::<F>(worker);
            }
        }
    }
}

/// Sets `errno`. Returns the negative number.
fn fail(errno: c_int) -> c_int {
    set_errno(errno);
    -errno
}
