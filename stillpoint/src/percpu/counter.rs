//! Counters that are added to on each CPU without contention.

use core::fmt;
use core::marker::PhantomData;

use super::cpu_counters::CpuCounters;

mod sealed {
    use core::fmt::{Debug, Display};

    /// The number types of a [`Counter`](super::Counter): the integers of 64 bits.
    #[diagnostic::on_unimplemented(
        message = "a `Counter` does not count in `{Self}`",
        note = "it counts in `u64`, `i64`, `usize` or `isize`; `Counter` as a type, as in `let hits: Counter = \
                Counter::new()`, is that of `u64`"
    )]
    pub trait Number: Copy + Debug + Display {
        fn to_bits(self) -> u64;
        fn from_bits(bits: u64) -> Self;
    }

    macro_rules! number {
        ($($type:ty)*) => {
            $(impl Number for $type {
                #[inline(always)]
                fn to_bits(self) -> u64 {
                    self as u64
                }
                fn from_bits(bits: u64) -> Self {
                    bits as Self
                }
            })*
        };
    }

    number!(u64 i64 usize isize);
}

use sealed::Number;

/// A counter that changes often and is read seldom: of requests, of bytes, of work in flight.
///
/// [`inc`](Self::inc) and [`add`](Self::add) change a word of the current CPU, without a locked instruction.
/// [`get`](Self::get) reads a word of each CPU, which takes some nanoseconds for each. No add is lost. `Counter`
/// counts in `u64`, `Counter<usize>` in `usize`; `Counter<i64>` and `Counter<isize>` count up and down.
///
/// # Orderings
///
/// `add` is a Release and `get` an Acquire: a thread that finds an add in the sum sees what the adding thread did
/// before. A sum that is taken while other threads add contains all adds that happened before it, and may contain
/// others.
///
/// # Memory
///
/// Eight bytes for each CPU that the process runs on, in areas that counters share, and 24 in the counter: there may
/// be a million of them. The first add takes the words, and the destructor gives them back, in constant time. If
/// there is no memory, the counter uses a single word, as threads do that cannot run critical sections where others
/// can.
///
/// ```
/// use stillpoint::percpu::Counter;
///
/// static REQUESTS: Counter = Counter::new();
/// static IN_FLIGHT: Counter<i64> = Counter::new();
///
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| {
///             for _ in 0..1000 {
///                 IN_FLIGHT.add(1);
///                 REQUESTS.inc();
///                 IN_FLIGHT.add(-1);
///             }
///         });
///     }
/// });
/// assert_eq!(REQUESTS.get(), 4000);
/// assert_eq!(IN_FLIGHT.get(), 0);
/// ```
#[doc(alias("prometheus", "IntCounter", "metric"))]
pub struct Counter<T: Number = u64> {
    words: CpuCounters<1>,
    number: PhantomData<T>,
}

impl<T: Number> Counter<T> {
    /// Creates a counter of zero. Does not allocate.
    pub const fn new() -> Self {
        Self { words: CpuCounters::new(), number: PhantomData }
    }

    /// Adds 1, wrapping around. Waits for no other thread, but for the first time, when it takes memory.
    ///
    /// ```
    /// let requests: stillpoint::percpu::Counter = Default::default();
    /// requests.inc();
    /// requests.add(2);
    /// assert_eq!(requests.get(), 3);
    /// ```
    #[inline]
    pub fn inc(&self) {
        self.words.add(0, 1);
    }

    /// Adds `by`, wrapping around. Waits as [`inc`](Self::inc) does.
    #[doc(alias = "inc_by")]
    #[inline]
    pub fn add(&self, by: T) {
        self.words.add(0, by.to_bits());
    }

    /// Returns the sum of all adds, wrapping around. It is exact if all adds happened before.
    #[doc(alias("sum", "value"))]
    pub fn get(&self) -> T {
        T::from_bits(self.words.sum(0))
    }

    /// Allocates memory now, so that the first [`add`](Self::add) does not: for adds in signal handlers.
    ///
    /// A global allocator may add without this. Its adds while this memory is being allocated go to a single word.
    pub fn prepare(&self) {
        self.words.prepare();
    }

    /// [`prepare`](Self::prepare), which returns `false` if there is no memory.
    #[cfg(feature = "_capi")]
    #[doc(hidden)]
    pub fn try_prepare(&self) -> bool {
        self.prepare();
        self.words.is_allocated()
    }
}

impl<T: Number> Default for Counter<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Number> fmt::Debug for Counter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Counter").field(&self.get()).finish()
    }
}

impl<T: Number> fmt::Display for Counter<T> {
    /// The sum.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.get(), f)
    }
}
