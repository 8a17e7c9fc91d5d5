//! A plain implementation of QSBR, to compare libraries with.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;
use rustix::thread::futex;

use crate::peers::std::BareLoad;
use crate::peers::{GracePeriods, ReadSide};

type Number = CachePadded<AtomicU64>;

/// Kinds of [`Reference`].
pub const AS_BEFORE: u8 = 0;
pub const ONE_FLAG: u8 = 1;
pub const READER_FLAGS: u8 = 2;

/// What a reader has.
#[derive(Debug)]
struct Own {
    /// The number that it has repeated.
    number: Number,
    /// Whether a sleeping updater waits for it.
    is_awaited: AtomicBool,
}

/// Each reader repeats a number after the updater, which waits until all have. There may be one updater.
///
/// A flag says that the updater sleeps. [`AS_BEFORE`]: the next reader that reports clears it and wakes the updater,
/// whether the updater waits for this reader or not; the updater sleeps once, and then waits busily, as liburcu did
/// before 2011. [`ONE_FLAG`]: it sleeps each time. [`READER_FLAGS`]: only a reader that has a flag of its own wakes
/// it, which the updater sets for those that it waits for. liburcu took this step in 2011. The three are the same
/// code but for these tests.
pub struct Reference<const KIND: u8> {
    number: Number,
    /// 1 while the updater sleeps, or is about to.
    flag: CachePadded<AtomicU32>,
    repeated: Mutex<Vec<Arc<Own>>>,
    wakes: AtomicU64,
    pointer: BareLoad,
}

/// A registered thread.
pub struct Repeater<'a, const KIND: u8> {
    shared: &'a Reference<KIND>,
    own: Arc<Own>,
}

impl<const KIND: u8> Reference<KIND> {
    /// Checks before the updater sleeps, as in the post.
    const ATTEMPTS: u32 = 100;

    fn threads(&self) -> MutexGuard<'_, Vec<Arc<Own>>> {
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

impl<const KIND: u8> Drop for Repeater<'_, KIND> {
    fn drop(&mut self) {
        self.shared.threads().retain(|thread| !Arc::ptr_eq(thread, &self.own));
        self.shared.wake();
    }
}

impl<const KIND: u8> ReadSide for Reference<KIND> {
    const NAME: &'static str = match KIND {
        AS_BEFORE => "as-before",
        ONE_FLAG => "one-flag",
        _ => "reader-flags",
    };
    type Reader<'a> = Repeater<'a, KIND>;
    type Guard<'a> = <BareLoad as ReadSide>::Guard<'a>;

    fn new() -> Self {
        let (number, flag, repeated, wakes) = Default::default();
        Self { number, flag, repeated, wakes, pointer: BareLoad::new() }
    }

    fn reader(&self) -> Repeater<'_, KIND> {
        let number = CachePadded::new(AtomicU64::new(self.number.load(Ordering::SeqCst)));
        let own = Arc::new(Own { number, is_awaited: AtomicBool::new(false) });
        self.threads().push(Arc::clone(&own));
        Repeater { shared: self, own }
    }

    #[inline(always)]
    fn enter<'a>(&'a self, _: &'a Repeater<'_, KIND>) -> Self::Guard<'a> {
        self.pointer.enter(&())
    }

    #[inline(always)]
    fn load(&self, guard: &Self::Guard<'_>) -> u64 {
        self.pointer.load(guard)
    }

    #[inline(always)]
    fn quiescent(reader: &mut Repeater<'_, KIND>, n: u32) -> u64 {
        let shared = reader.shared;
        for _ in 0..n {
            // Acquire: the writes of the updater; pairs with the increment in `synchronize`.
            let number = shared.number.load(Ordering::Acquire);
            // Relaxed: only this thread writes it.
            if number != reader.own.number.load(Ordering::Relaxed) {
                // Release: the reads of this thread; pairs with the loads in `synchronize`.
                reader.own.number.store(number, Ordering::Release);
                // Orders the store before the loads of the flags; pairs with the fence in `synchronize`.
                fence(Ordering::SeqCst);
            }
            // Relaxed: the fences order them.
            let is_awaited = KIND != READER_FLAGS || reader.own.is_awaited.load(Ordering::Relaxed);
            if is_awaited && shared.flag.load(Ordering::Relaxed) == 1 {
                // SeqCst: comes before a store of the next grace period, if the flag in `wake` does.
                reader.own.is_awaited.store(false, Ordering::SeqCst);
                shared.wake();
            }
        }
        u64::from(n)
    }
}

impl<const KIND: u8> GracePeriods for Reference<KIND> {
    fn synchronize(&self) {
        let number = self.number.fetch_add(1, Ordering::SeqCst) + 1;
        for checks in 0.. {
            let must_sleep = checks == Self::ATTEMPTS || KIND != AS_BEFORE && checks > Self::ATTEMPTS;
            let is_late = |thread: &&Arc<Own>| thread.number.load(Ordering::Acquire) < number;
            if must_sleep {
                self.flag.store(1, Ordering::SeqCst);
                if KIND == READER_FLAGS {
                    let threads = self.threads();
                    threads
                        .iter()
                        .filter(is_late)
                        .for_each(|thread| thread.is_awaited.store(true, Ordering::SeqCst));
                }
                // Orders the stores before the loads; pairs with the fence in `quiescent`.
                fence(Ordering::SeqCst);
            }
            if !self.threads().iter().any(|thread| is_late(&thread)) {
                return self.flag.store(0, Ordering::Relaxed);
            }
            if must_sleep {
                let _ = futex::wait(&self.flag, futex::Flags::PRIVATE, 1, None);
            } else {
                spin_loop();
            }
        }
    }

    fn wakes(&self) -> f64 {
        self.wakes.load(Ordering::Relaxed) as f64
    }
}
