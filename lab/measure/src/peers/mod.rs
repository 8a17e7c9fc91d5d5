//! The libraries that are measured, each as its documentation recommends, in its fastest correct form: a file a
//! library.
//!
//! The benches measure what these traits offer. Each system is a type, so that every measured loop is compiled for it
//! alone.

pub mod arc_swap;
pub mod counters;
pub mod crossbeam;
pub(crate) mod guarantees;
pub mod hazarc;
pub mod hazards;
pub mod left_right;
#[cfg(feature = "liburcu")]
pub mod liburcu;
pub mod maps;
pub mod parking_lot;
pub mod pthread;
pub mod pvq;
pub mod rwlock;
pub mod seize;
pub mod std;
pub mod stillpoint;
pub mod tokio;

use ::std::cell::UnsafeCell;
use ::std::hint::black_box;
use ::std::sync::atomic::{AtomicPtr, Ordering};
use ::std::time::Duration;

use crossbeam_utils::CachePadded;

use harness::Skipped;
use harness::timed_loop::{Threads, repeat};

/// Name of liburcu's flavor whose readers report quiescent states, inlined.
pub const LIBURCU_QSBR: &str = "liburcu-qsbr";

/// Name of liburcu's flavor that relies on `membarrier`, with inlined readers.
pub const LIBURCU: &str = "liburcu-memb";

/// Why a build has no liburcu.
pub const NO_LIBURCU: &str =
    "not built in: install liburcu-dev and run with `cargo run --profile bench --features liburcu`";

/// Returns the `wanted` flavors of liburcu that are missing in this build.
pub fn missing(wanted: &[&'static str]) -> Vec<Skipped> {
    let wanted = if cfg!(feature = "liburcu") { &[] } else { wanted };
    wanted.iter().map(|&system| Skipped { system: system.into(), why: NO_LIBURCU.to_owned() }).collect()
}

/// The number that every reader finds.
pub const VALUE: u64 = 7;

/// A pointer to [`VALUE`] and what protects it from its updaters.
pub trait ReadSide: Sync + Sized {
    /// Name in the report.
    const NAME: &'static str;
    /// The calling thread, known to the library for as long as this lives.
    type Reader<'a>
    where
        Self: 'a;
    /// A read-side critical section.
    type Guard<'a>
    where
        Self: 'a;

    fn new() -> Self;

    /// Registers the calling thread.
    fn reader(&self) -> Self::Reader<'_>;

    /// Begins a section, which ends when the guard is dropped.
    fn enter<'a>(&'a self, reader: &'a Self::Reader<'_>) -> Self::Guard<'a>;

    /// Follows the pointer.
    fn load(&self, guard: &Self::Guard<'_>) -> u64;

    /// Enters, loads and leaves, `n` times. Not inlined: the measured loop is a function of its own, so that the
    /// compiler inlines the library's functions into it whatever surrounds the loop.
    #[inline(never)]
    fn read(&self, reader: &Self::Reader<'_>, n: u32) -> u64 {
        let this = black_box(self);
        repeat(n, move || {
            let guard = this.enter(reader);
            this.load(&guard)
        })
    }

    /// Loads `n` times in one section.
    #[inline(always)]
    fn load_many(&self, reader: &Self::Reader<'_>, n: u32) -> u64 {
        let this = black_box(self);
        let guard = this.enter(reader);
        repeat(n, || this.load(&guard))
    }

    /// Reports a quiescent state `n` times, in libraries whose readers report.
    #[inline(always)]
    fn quiescent(_: &mut Self::Reader<'_>, n: u32) -> u64 {
        u64::from(n)
    }
}

/// Implements [`ReadSide`] for readers that need no registration: the type, its name, its guard, the constructor, how
/// a section begins, and what it loads.
macro_rules! read_side {
    ($type:ty, $name:expr, $guard:ty, $new:expr, |$this:ident| $enter:expr, |$it:ident, $guarded:ident| $load:expr) => {
        impl ReadSide for $type {
            const NAME: &'static str = $name;
            type Reader<'a> = ();
            type Guard<'a> = $guard;

            fn new() -> Self {
                $new
            }

            fn reader(&self) {}

            #[inline(always)]
            fn enter<'a>(&'a self, (): &'a ()) -> Self::Guard<'a> {
                let $this = self;
                $enter
            }

            #[inline(always)]
            fn load(&self, $guarded: &Self::Guard<'_>) -> u64 {
                let $it = self;
                $load
            }
        }
    };
}
use read_side;

/// Returns the nanoseconds of a section of [`ReadSide::read`]: the mean of the threads.
pub fn time_reads<S: ReadSide>(threads: Threads, slice: Duration) -> anyhow::Result<f64> {
    let shared = CachePadded::new(S::new());
    threads.measure(slice, |timed_loop| {
        let reader = shared.reader();
        timed_loop.time(|n| shared.read(&reader, n))
    })
}

/// Readers of an atomic `Arc`.
pub trait Stores: ReadSide {
    /// Replaces the pointer.
    fn store(&self, pointer: ::std::sync::Arc<u64>);
}

/// Readers for which an updater can wait.
pub trait GracePeriods: ReadSide {
    /// Waits for a grace period; the calling thread is not registered.
    fn synchronize(&self);

    /// Returns how often readers have woken an updater so far; not a number if the library does not count that.
    fn wakes(&self) -> f64 {
        f64::NAN
    }
}

/// A value that can be published and retired.
pub trait Object: Send + Sync + 'static {}

impl<T: Send + Sync + 'static> Object for T {}

/// A library that frees, or calls back, after grace periods.
pub trait Reclaim: Sync + Sized {
    /// Name in the report.
    const NAME: &'static str;
    /// Whether deferred work runs although no thread enters sections any more.
    const RUNS_ALONE: bool = true;
    /// The calling thread, known to the library for as long as this lives.
    type Thread<'a>
    where
        Self: 'a;
    /// A read-side critical section. Sections nest.
    type Guard<'a>;
    /// A pointer that readers follow. Dropping it drops the value: no thread reads it then.
    type Slot<P: Object>: Send + Sync;

    fn new() -> anyhow::Result<Self>;

    /// Registers the calling thread.
    fn thread(&self) -> Self::Thread<'_>;

    /// Begins a section, which ends when the guard is dropped.
    fn enter<'a>(thread: &'a Self::Thread<'_>) -> Self::Guard<'a>;

    fn slot<P: Object>(value: P) -> Self::Slot<P>;

    /// Returns the published value.
    fn get<'a, P: Object>(guard: &'a Self::Guard<'_>, slot: &'a Self::Slot<P>) -> &'a P;

    /// Publishes `value` and retires the one before. The calling thread must not be inside a section.
    fn replace<P: Object>(thread: &Self::Thread<'_>, slot: &Self::Slot<P>, value: P);

    /// Calls `f` after a grace period, as soon as the library can.
    fn call<F: FnOnce() + Send + 'static>(thread: &Self::Thread<'_>, f: F);

    /// Sets how many bytes may await reclamation, if the library has such a limit.
    fn limit(_bytes: Option<u64>) {}

    /// Returns when all deferred work has been done. The result may take time to drop. All other threads have ended,
    /// and the caller is outside sections.
    fn finish(self) -> impl Sized;
}

/// A pointer made of a `Box`.
#[derive(Debug)]
pub struct BoxSlot<T>(AtomicPtr<T>);

impl<T> BoxSlot<T> {
    fn new(value: Box<T>) -> Self {
        Self(AtomicPtr::new(Box::into_raw(value)))
    }

    /// Publishes `new`. Returns the value before, which readers may still use.
    #[inline]
    fn swap(&self, new: Box<T>) -> *mut T {
        // Release: readers see the value initialized; pairs with the Acquire of their load. Acquire: the thread that
        // frees the old one sees it initialized, too; pairs with the Release of the swap that published it.
        self.0.swap(Box::into_raw(new), Ordering::AcqRel)
    }
}

impl<T> Drop for BoxSlot<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a Box, and readers and writers borrow the slot.
        drop(unsafe { Box::from_raw(*self.0.get_mut()) });
    }
}

/// The readers of a library that frees.
pub struct Published<R: Reclaim> {
    library: R,
    slot: R::Slot<u64>,
}

impl<R: Reclaim> ReadSide for Published<R> {
    const NAME: &'static str = R::NAME;
    type Reader<'a>
        = R::Thread<'a>
    where
        Self: 'a;
    type Guard<'a>
        = R::Guard<'a>
    where
        Self: 'a;

    fn new() -> Self {
        Self { library: R::new().expect("a library without workers of its own"), slot: R::slot(VALUE) }
    }

    fn reader(&self) -> R::Thread<'_> {
        self.library.thread()
    }

    #[inline(always)]
    fn enter<'a>(&'a self, reader: &'a R::Thread<'_>) -> R::Guard<'a> {
        R::enter(reader)
    }

    #[inline(always)]
    fn load(&self, guard: &R::Guard<'_>) -> u64 {
        *R::get(guard, &self.slot)
    }
}

/// A lock around a number.
pub trait Lock: Sync {
    /// Name in the report.
    const NAME: &'static str;

    fn new() -> Self;

    /// Calls `f` with the lock held.
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R;

    /// Calls `f` with the lock held for reading, if it has that.
    fn read<R>(&self, f: impl FnOnce(&u64) -> R) -> R {
        self.with(|value| f(value))
    }
}

/// A lock by itself.
pub trait RawLock: Sync {
    /// Name in the report.
    const NAME: &'static str;

    fn new() -> Self;

    /// Takes the lock; blocks until that is possible.
    fn lock(&self);

    /// Releases the lock.
    ///
    /// # Safety
    ///
    /// The caller holds it.
    unsafe fn unlock(&self);
}

/// A raw lock around a number.
#[derive(Debug)]
pub struct Around<R> {
    lock: R,
    value: UnsafeCell<u64>,
}

// SAFETY: a thread touches the value only while it holds the lock.
unsafe impl<R: RawLock> Sync for Around<R> {}

impl<R: RawLock> Lock for Around<R> {
    const NAME: &'static str = R::NAME;

    fn new() -> Self {
        Self { lock: R::new(), value: UnsafeCell::new(0) }
    }

    #[inline]
    fn with<T>(&self, f: impl FnOnce(&mut u64) -> T) -> T {
        self.lock.lock();
        // SAFETY: this thread holds the lock.
        let result = f(unsafe { &mut *self.value.get() });
        // SAFETY: as above.
        unsafe { self.lock.unlock() };
        result
    }
}

/// Implements [`Lock`] for a mutex whose `lock` returns a guard.
macro_rules! lock {
    ($type:ty, $name:expr) => {
        impl Lock for $type {
            const NAME: &'static str = $name;

            fn new() -> Self {
                Self::new(0)
            }

            #[inline]
            fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
                f(&mut self.lock())
            }
        }
    };
}
use lock;
