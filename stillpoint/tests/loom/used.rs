//! A model of the set of CPUs that have pushed to a pool: a pop after a push finds the CPU.

use loom::sync::Arc;
use loom::thread;
use stillpoint::percpu::used::UsedCpus;
use stillpoint::sync::{AtomicU64, Ordering::*};
use support::model::check;

/// Refutes: used-after-capacity, UsedCpus::open:Release
#[test]
fn pop_after_push_finds_the_cpu() {
    check(0, 2, || {
        let shared = Arc::new((UsedCpus::new(1), AtomicU64::new(0), AtomicU64::new(0)));
        let s = shared.clone();
        let opens = thread::spawn(move || s.0.open(0, &s.1, 1));
        let s = shared.clone();
        let pushes = thread::spawn(move || {
            let (_, capacity, len) = &*s;
            // The section.
            if capacity.load(Acquire) != 0 {
                len.store(1, Release);
            }
        });
        let (used, _, len) = &*shared;
        // The push came before.
        if len.load(Acquire) != 0 {
            assert!(used.from(0).eq([0]), "the value is not found");
        }
        opens.join().unwrap();
        pushes.join().unwrap();
        assert!(used.from(0).eq([0]));
    });
}
