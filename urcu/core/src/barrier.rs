//! `rcu_barrier`: waits for callbacks.

use crate::flavor::{Flavor, SignalsBlocked, is_misused, offline, synchronize};
use crate::workers::take_without_thread;

/// `rcu_barrier`: waits for all callbacks that have been queued.
///
/// It requests of each worker what is in its queue. If a worker is freed meanwhile, its callbacks and the request move
/// to the default one. If no thread can be started for that, the barrier calls the callbacks.
pub fn barrier<F: Flavor>() {
    if is_misused::<F>("rcu_barrier") {
        return;
    }
    offline::<F>(|_| {
        let workers = &F::domain().workers;
        let _alone = workers.barrier_lock.hold();
        let mut has_requested = false;
        loop {
            let seen = workers.progress.count();
            let batch = {
                let _blocked = SignalsBlocked::during::<F>();
                let _held = workers.lock.hold();
                let batch = take_without_thread::<F>();
                if !has_requested {
                    workers.running().for_each(|worker| worker.request());
                    has_requested = true;
                }
                if batch.is_none() && workers.running().all(|worker| worker.is_settled()) {
                    return;
                }
                batch
            };
            match batch {
                Some(batch) => {
                    synchronize::<F>();
                    batch.run();
                }
                None => workers.progress.wait(seen, None),
            }
        }
    });
}
