//! Models of holders and of who waits for them: no wake-up is lost, and who has waited comes after the holder.
#![cfg(loom)]

mod model;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use model::check;
use stillpoint::awaited::Awaited;
use stillpoint::sync::model::reader as interruptible;
use stillpoint::sync::{AtomicU64, Ordering::*};

/// A value, held by the thread whose number is in the word.
struct World {
    holder: AtomicU64,
    awaited: Awaited,
    value: UnsafeCell<u64>,
}

// SAFETY: loom checks every access of the cell.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn held_by(thread: u64) -> Arc<Self> {
        Arc::new(Self { holder: AtomicU64::new(thread), awaited: Awaited::new(), value: UnsafeCell::new(0) })
    }

    fn write(&self) {
        // SAFETY: loom checks that nobody else has access.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }
}

#[test]
fn a_visitor_is_woken_and_comes_after_the_holder() {
    check(0, 2, || {
        let world = World::held_by(1);
        let holder = {
            let world = world.clone();
            thread::spawn(move || {
                interruptible(0, || {
                    world.write();
                    world.awaited.release(&world.holder);
                });
            })
        };
        world.awaited.wait_until(|| world.holder.load(Acquire) == 0);
        world.write();
        holder.join().unwrap();
    });
}
