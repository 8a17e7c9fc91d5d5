//! A plain implementation of QSBR, to compare libraries with.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use rustix::thread::futex;

use crate::peers::std::BareLoad;
use crate::peers::{Events, GracePeriods, ReadSide};

type Number = CachePadded<AtomicU64>;

/// Each reader repeats a number after the updater, which waits until all have. There may be one updater.
///
/// If not `SLEEPS`, no thread makes a system call for another one, and the updates show how long the scheduler takes to
/// let every thread run. If `SLEEPS`, a single flag says that the updater sleeps. The next reader that reports clears
/// it and wakes the updater, whether the updater waits for this reader or not: liburcu did so before each reader had
/// its flag.
pub(crate) struct Reference<const SLEEPS: bool> {
    number: Number,
    /// 1 while the updater sleeps, or is about to.
    flag: CachePadded<AtomicU32>,
    repeated: Mutex<Vec<Arc<Number>>>,
    wakes: AtomicU64,
    pointer: BareLoad,
}

/// A registered thread.
pub(crate) struct Repeater<'a, const SLEEPS: bool> {
    shared: &'a Reference<SLEEPS>,
    own: Arc<Number>,
}

impl<const SLEEPS: bool> Reference<SLEEPS> {
    /// Checks before the updater sleeps.
    const ATTEMPTS: u32 = if SLEEPS { 200 } else { 1000 };

    fn threads(&self) -> MutexGuard<'_, Vec<Arc<Number>>> {
        self.repeated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn wake(&self) {
        if self.flag.swap(0, Ordering::SeqCst) == 1 {
            // Relaxed: statistics only.
            self.wakes.fetch_add(1, Ordering::Relaxed);
            let _ = futex::wake(&self.flag, futex::Flags::PRIVATE, 1);
        }
    }
}

impl<const SLEEPS: bool> Drop for Repeater<'_, SLEEPS> {
    fn drop(&mut self) {
        self.shared.threads().retain(|thread| !Arc::ptr_eq(thread, &self.own));
        self.shared.wake();
    }
}

impl<const SLEEPS: bool> ReadSide for Reference<SLEEPS> {
    const NAME: &'static str = if SLEEPS { "one-flag" } else { "run-queue" };
    type Reader<'a> = Repeater<'a, SLEEPS>;
    type Guard<'a> = <BareLoad as ReadSide>::Guard<'a>;

    fn new() -> Self {
        let (number, flag, repeated, wakes) = Default::default();
        Self { number, flag, repeated, wakes, pointer: BareLoad::new() }
    }

    fn reader(&self) -> Repeater<'_, SLEEPS> {
        let own = Arc::new(CachePadded::new(AtomicU64::new(self.number.load(Ordering::SeqCst))));
        self.threads().push(Arc::clone(&own));
        Repeater { shared: self, own }
    }

    #[inline(always)]
    fn enter<'a>(&'a self, _: &'a Repeater<'_, SLEEPS>) -> Self::Guard<'a> {
        self.pointer.enter(&())
    }

    #[inline(always)]
    fn load(&self, guard: &Self::Guard<'_>) -> u64 {
        self.pointer.load(guard)
    }

    #[inline(always)]
    fn quiescent(reader: &mut Repeater<'_, SLEEPS>, n: u32) -> u64 {
        let shared = reader.shared;
        for _ in 0..n {
            // Acquire: the writes of the updater; pairs with the increment in `synchronize`.
            let number = shared.number.load(Ordering::Acquire);
            if !SLEEPS {
                // Release: the reads of this thread; pairs with the loads in `synchronize`.
                reader.own.store(number, Ordering::Release);
                continue;
            }
            // Relaxed: only this thread writes it.
            if number != reader.own.load(Ordering::Relaxed) {
                reader.own.store(number, Ordering::Release);
                // Orders the store before the load of the flag; pairs with the fence in `synchronize`.
                fence(Ordering::SeqCst);
            }
            if shared.flag.load(Ordering::Relaxed) == 1 {
                shared.wake();
            }
        }
        u64::from(n)
    }
}

impl<const SLEEPS: bool> GracePeriods for Reference<SLEEPS> {
    fn synchronize(&self) {
        let number = self.number.fetch_add(1, Ordering::SeqCst) + 1;
        for checks in 0.. {
            let must_sleep = checks >= Self::ATTEMPTS;
            if SLEEPS && must_sleep {
                self.flag.store(1, Ordering::SeqCst);
                // Orders the store before the loads; pairs with the fence in `quiescent`.
                fence(Ordering::SeqCst);
            }
            if self.threads().iter().all(|thread| thread.load(Ordering::Acquire) >= number) {
                return self.flag.store(0, Ordering::Relaxed);
            }
            match (must_sleep, SLEEPS) {
                (false, true) => spin_loop(),
                (false, false) => (),
                (true, true) => drop(futex::wait(&self.flag, futex::Flags::PRIVATE, 1, None)),
                (true, false) => thread::sleep(Duration::from_micros(20)),
            }
        }
    }

    fn events(&self) -> Events {
        Events { wakes: self.wakes.load(Ordering::Relaxed), ..Events::default() }
    }
}
