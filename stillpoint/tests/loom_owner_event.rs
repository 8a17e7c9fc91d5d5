//! A model of an owner and a waiter: no wake-up is lost, and the waiter sees what the owner did.
#![cfg(loom)]

mod model;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use model::check;
use stillpoint::percpu::owner_event::OwnerEvent;
use stillpoint::sync::model::reader as interruptible;
use stillpoint::sync::{AtomicU64, Ordering::*};

/// A value, owned by the thread whose number is in the word.
struct World {
    owner: AtomicU64,
    event: OwnerEvent,
    value: UnsafeCell<u64>,
}

// SAFETY: loom checks every access of the cell.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn owned_by(thread: u64) -> Arc<Self> {
        Arc::new(Self { owner: AtomicU64::new(thread), event: OwnerEvent::new(), value: UnsafeCell::new(0) })
    }

    fn write(&self) {
        // SAFETY: loom checks that no other thread has access.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }
}

#[test]
fn waiter_is_woken_and_sees_what_the_owner_did() {
    check(0, 2, || {
        let world = World::owned_by(1);
        let owner = {
            let world = world.clone();
            thread::spawn(move || {
                interruptible(0, || {
                    world.write();
                    world.event.release(&world.owner);
                });
            })
        };
        world.event.wait_until(|| world.owner.load(Acquire) == 0);
        world.write();
        owner.join().unwrap();
    });
}
