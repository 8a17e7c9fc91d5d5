//! Counters that threads on different CPUs add to without getting into each other's way.

use core::fmt;
use core::marker::PhantomData;

use super::counters::CpuCounters;

mod sealed {
    /// Numbers a [`Counter`](super::Counter) counts in.
    pub trait Number: Copy {
        fn to_bits(self) -> u64;
        fn from_bits(bits: u64) -> Self;
    }

    impl Number for u64 {
        #[inline(always)]
        fn to_bits(self) -> u64 {
            self
        }
        fn from_bits(bits: u64) -> Self {
            bits
        }
    }

    impl Number for i64 {
        #[inline(always)]
        fn to_bits(self) -> u64 {
            self.cast_unsigned()
        }
        fn from_bits(bits: u64) -> Self {
            bits.cast_signed()
        }
    }
}

use sealed::Number;

/// A counter for numbers that change often and are read seldom: of requests, bytes, things in flight.
///
/// An [`add`](Self::add) changes a word of the CPU that the thread is on, without a locked instruction; [`sum`](Self::sum)
/// reads those of all CPUs. No add is ever lost, whatever interrupts it. `Counter` counts up, in `u64`; `Counter<i64>` up and
/// down.
///
/// # Orderings
///
/// `add` releases and `sum` acquires: whoever finds an add in the sum sees what that thread did before it. A sum that is
/// taken while others add contains all adds that happened before it, and perhaps some that did not.
///
/// # Memory
///
/// 128 bytes for each CPU that this machine may ever have ([`Report::cpus`](super::Report::cpus)), allocated by the first
/// add. If there is no memory, the counter works with a single word.
///
/// ```
/// use stillpoint::percpu::Counter;
///
/// static REQUESTS: Counter = Counter::new();
/// static IN_FLIGHT: Counter<i64> = Counter::signed();
///
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| {
///             for _ in 0..1000 {
///                 IN_FLIGHT.add(1);
///                 REQUESTS.add(1);
///                 IN_FLIGHT.add(-1);
///             }
///         });
///     }
/// });
/// assert_eq!(REQUESTS.sum(), 4000);
/// assert_eq!(IN_FLIGHT.sum(), 0);
/// ```
pub struct Counter<T: Number = u64> {
    words: CpuCounters<1>,
    number: PhantomData<T>,
}

impl Counter {
    /// Zero. Allocates nothing.
    pub const fn new() -> Self {
        Self { words: CpuCounters::new(), number: PhantomData }
    }
}

impl Counter<i64> {
    /// Zero. Allocates nothing.
    pub const fn signed() -> Self {
        Self { words: CpuCounters::new(), number: PhantomData }
    }
}

impl<T: Number> Counter<T> {
    /// Adds `by`, wrapping around. Never waits and never fails.
    #[inline]
    pub fn add(&self, by: T) {
        self.words.add(0, by.to_bits());
    }

    /// The sum of all adds, wrapping around: exact if they happened before.
    pub fn sum(&self) -> T {
        T::from_bits(self.words.sum(0))
    }

    /// Allocates memory now, so that the first [`add`](Self::add) need not: for adds in signal handlers.
    ///
    /// A global allocator may add without: what it counts while it is asked for this memory goes to a single word.
    pub fn prepare(&self) {
        self.words.prepare();
    }
}

impl<T: Number> Default for Counter<T> {
    fn default() -> Self {
        Self { words: CpuCounters::new(), number: PhantomData }
    }
}

impl<T: Number + fmt::Debug> fmt::Debug for Counter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Counter").field(&self.sum()).finish()
    }
}
