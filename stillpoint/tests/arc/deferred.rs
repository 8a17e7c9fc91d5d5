//! Stores that are `Deferred`.

use stillpoint::arc::{self, ArcCell, Deferred};
use support::prelude::*;

/// Sends its number when it is dropped.
struct Reports(u32, mpsc::Sender<(u32, thread::ThreadId)>);

impl Drop for Reports {
    fn drop(&mut self) {
        _ = self.1.send((self.0, thread::current().id()));
    }
}

#[test]
fn value_is_destroyed_soon_by_a_worker() {
    let _running = deadline();
    let (sender, receiver) = mpsc::channel();
    let cell = ArcCell::with_strategy(Arc::new(Reports(1, sender.clone())), Deferred);
    cell.store(Arc::new(Reports(2, sender)));
    // Nothing else is stored.
    let (number, thread) = receiver.recv().unwrap();
    assert_eq!(number, 1);
    assert_ne!(thread, thread::current().id());
    drop(cell);
    assert_eq!(receiver.recv(), Ok((2, thread::current().id())), "no load can be in progress");
}

#[test]
fn values_that_wait_are_weighed() {
    const BYTES: usize = 1 << 16;
    struct Large(Option<Arc<Barrier>>, #[expect(dead_code)] [u8; BYTES]);
    impl Drop for Large {
        fn drop(&mut self) {
            self.0.take().map(|end| end.wait());
        }
    }
    let _running = deadline();
    let end = Arc::new(Barrier::new(2));
    let cell = ArcCell::with_strategy(Arc::new(Large(Some(Arc::clone(&end)), [0; BYTES])), Deferred);
    cell.store(Arc::new(Large(None, [0; BYTES])));
    // The worker is in the first destructor, or comes to it.
    (0..8).for_each(|_| cell.store(Arc::new(Large(None, [0; BYTES]))));
    let stats = arc::domain().stats();
    end.wait();
    assert!(stats.queued_bytes >= 8 * BYTES as u64, "{stats:?}");
    arc::barrier();
}

#[test]
fn guard_keeps_its_value_beyond_the_release() {
    let _running = deadline();
    let value = Arc::new(1);
    let cell = ArcCell::with_strategy(Arc::clone(&value), Deferred);
    let guard = cell.load();
    cell.store(Arc::new(2));
    arc::barrier();
    assert_eq!(Arc::strong_count(&value), 2, "that of the guard");
    let old = cell.swap(Arc::new(3));
    assert_eq!(*old, 2);
    arc::barrier();
    assert_eq!(Arc::try_unwrap(old), Ok(2));
    drop(guard);
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn destructor_on_the_worker_may_use_cells() {
    static CELL: ArcCell<Option<Arc<Chain>>, Deferred> = ArcCell::empty_with(Deferred);
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    struct Chain(u32);
    impl Drop for Chain {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Relaxed);
            if self.0 > 0 {
                assert!(CELL.load().is_none());
                CELL.store(Some(Arc::new(Chain(self.0 - 1))));
                CELL.store(None);
            }
        }
    }
    let _running = deadline();
    CELL.store(Some(Arc::new(Chain(3))));
    CELL.store(None);
    until(|| DROPS.load(Relaxed) == 4);
}
