//! `rcu_barrier`: waits for callbacks.

use crate::call_rcu::{CallRcu, complete_without_thread, take_without_thread};
use crate::flavor::{Flavor, SignalsBlocked, is_misused, offline, registered, synchronize};
use crate::queue::Batch;

/// `rcu_barrier`: waits for all callbacks that have been queued.
///
/// It requests of each worker what is in its queue. If a worker is freed before, its callbacks and the request move
/// to the default one. If no thread can be started for that, the barrier calls the callbacks.
pub fn barrier<F: CallRcu>() {
    if is_misused::<F>("rcu_barrier") {
        return;
    }
    offline::<F>(|_| {
        let (workers, progress) = (F::workers(), &F::progress().event);
        let _alone = workers.barrier_lock.hold();
        let mut has_requested = false;
        loop {
            let seen = progress.count();
            let taken = {
                let _blocked = SignalsBlocked::during::<F>();
                let _held = workers.lock.hold();
                if !has_requested {
                    workers.running_and_default().for_each(|worker| worker.request());
                    has_requested = true;
                }
                if workers.running_and_default().all(|worker| worker.is_settled()) {
                    return;
                }
                take_without_thread::<F>()
            };
            if let Some((requested, batch)) = taken {
                if !batch.is_empty() {
                    synchronize::<F>();
                    run_as_reader::<F>(batch);
                }
                complete_without_thread::<F>(requested);
            } else {
                progress.wait(seen, None);
            }
        }
    });
}

/// Calls the callbacks as a worker would: in a thread that is registered, and online. The calling thread is offline.
fn run_as_reader<F: Flavor>(batch: Batch) {
    match registered::<F>() {
        Some(own) if F::QSBR => {
            F::readers().online(own);
            batch.run();
            F::readers().report(own, 0);
        }
        Some(_) => batch.run(),
        None => {
            F::register_thread();
            batch.run();
            F::unregister_thread();
        }
    }
}
