//! `rcu_barrier`: waits for callbacks.

use core::mem::offset_of;
use core::sync::atomic::Ordering::*;

use crate::flavor::{Flavor, SignalsBlocked, is_misused, offline, synchronize};
use crate::queue::RcuHead;
use crate::worker::{URGENT, Worker};
use crate::workers::start_default;

/// `rcu_barrier`: waits for all callbacks that have been queued.
pub fn barrier<F: Flavor>() {
    if is_misused::<F>("rcu_barrier") {
        return;
    }
    offline::<F>(|_| {
        let workers = &F::domain().workers;
        let _held = workers.barrier_lock.hold();
        workers.barrier_pending.store(1, Relaxed);
        let default_runs = workers.default.queue.is_empty() || start_default::<F>();
        {
            let _blocked = SignalsBlocked::during::<F>();
            let _held = workers.lock.hold();
            for worker in workers.running() {
                worker.references.fetch_add(1, Relaxed);
                workers.barrier_pending.fetch_add(1, Relaxed);
                let head = worker.barrier.get();
                // SAFETY: the reference keeps the callback valid. It is in no queue, as there is one barrier at a time.
                unsafe { worker.push(head, barrier_callback::<F>) };
                worker.command(URGENT);
            }
        }
        if !default_runs {
            let batch = workers.default.queue.take();
            synchronize::<F>();
            batch.run();
        }
        end_share::<F>();
        workers.barrier_done.wait_until(|| workers.barrier_pending.load(Acquire) == 0);
    });
}

/// Runs after all callbacks that were in the worker's queue before.
unsafe extern "C" fn barrier_callback<F: Flavor>(head: *mut RcuHead) {
    // SAFETY: the callback is part of a worker, to which the barrier has a reference.
    unsafe { (*head.byte_sub(offset_of!(Worker, barrier)).cast::<Worker>()).drop_reference() };
    end_share::<F>();
}

fn end_share<F: Flavor>() {
    let workers = &F::domain().workers;
    // AcqRel: the callbacks come before the end of the barrier.
    if workers.barrier_pending.fetch_sub(1, AcqRel) == 1 {
        workers.barrier_done.notify();
    }
}
