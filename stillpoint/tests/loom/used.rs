//! A model of the set of CPUs that have pushed to a pool: a pop after a push finds the CPU.

use loom::sync::Arc;
use stillpoint::percpu::used::UsedCpus;
use stillpoint::sync::{AtomicU64, Ordering::*};
use support::model::{check, race_all};

/// Refutes: used-after-capacity, UsedCpus::open:Release
#[test]
fn pop_after_push_finds_the_cpu() {
    check(0, 2, || {
        let shared = Arc::new((UsedCpus::new(1), AtomicU64::new(0), AtomicU64::new(0)));
        let pop = |(used, _, len): &(UsedCpus, AtomicU64, AtomicU64)| {
            // The push came before.
            if len.load(Acquire) != 0 {
                assert!(used.from(0).eq([0]), "the value is not found");
            }
        };
        race_all(&shared, pop, 2, |(used, capacity, len), index| {
            if index == 0 {
                used.open(0, capacity, 1);
            } else if capacity.load(Acquire) != 0 {
                // The section.
                len.store(1, Release);
            }
        });
        assert!(shared.0.from(0).eq([0]));
    });
}
