//! Readers that report quiescent states, and a single flag that says that the updater sleeps: how it was done before each
//! reader had a flag of its own. Whoever reports while the flag is set takes it away and wakes the updater, who looks whether
//! all have reported, and sets it again. For one updater; everything else is as plain as it can be.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*, fence};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_utils::CachePadded;
use rustix::thread::futex;

/// How often the updater looks before it sleeps.
const ATTEMPTS: u32 = 200;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct OneFlag {
    counter: CachePadded<AtomicU64>,
    /// 1 while the updater sleeps, or is about to.
    sleeps: CachePadded<AtomicU32>,
    /// What each reader has seen of the counter.
    readers: Mutex<Vec<Arc<CachePadded<AtomicU64>>>>,
    wakes: AtomicU64,
}

/// A registered thread.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    shared: &'a OneFlag,
    seen: Arc<CachePadded<AtomicU64>>,
}

impl OneFlag {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn register(&self) -> Reader<'_> {
        let seen = Arc::new(CachePadded::new(AtomicU64::new(self.counter.load(SeqCst))));
        self.lock().push(Arc::clone(&seen));
        Reader { shared: self, seen }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<CachePadded<AtomicU64>>>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wakes(&self) -> u64 {
        self.wakes.load(Relaxed)
    }

    /// Waits until every reader has reported.
    pub(super) fn synchronize(&self) {
        fence(SeqCst);
        let counter = self.counter.fetch_add(1, SeqCst) + 1;
        let mut attempts = 0;
        loop {
            let sleeps = attempts >= ATTEMPTS;
            if sleeps {
                self.sleeps.store(1, SeqCst);
                fence(SeqCst);
            }
            if self.lock().iter().all(|seen| seen.load(SeqCst) >= counter) {
                self.sleeps.store(0, SeqCst);
                return;
            }
            if sleeps {
                let _ = futex::wait(&self.sleeps, futex::Flags::PRIVATE, 1, None);
            } else {
                attempts += 1;
                spin_loop();
            }
        }
    }

    #[cold]
    fn wake(&self) {
        if self.sleeps.swap(0, SeqCst) == 1 {
            self.wakes.fetch_add(1, Relaxed);
            let _ = futex::wake(&self.sleeps, futex::Flags::PRIVATE, 1);
        }
    }
}

impl Reader<'_> {
    /// Reports. Cheap if nothing has changed and nobody sleeps, which the original was not.
    #[inline]
    pub(super) fn quiescent(&mut self) {
        let counter = self.shared.counter.load(Acquire);
        if counter != self.seen.load(Relaxed) {
            self.seen.store(counter, SeqCst);
            fence(SeqCst);
        }
        if self.shared.sleeps.load(Relaxed) == 1 {
            self.shared.wake();
        }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.shared.lock().retain(|seen| !Arc::ptr_eq(seen, &self.seen));
        self.shared.wake();
    }
}
