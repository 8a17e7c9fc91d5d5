//! What the subscribers of `tracing` are told of grace periods, with the feature `tracing`; nothing without it.
//!
//! A subscriber is code of the program: it may take locks, defer, panic. So it is called when the grace period has ended and
//! nobody waits for its leader any more, and what it does is not told in turn.

#[cfg(all(feature = "tracing", not(loom)))]
pub use told::*;
#[cfg(not(all(feature = "tracing", not(loom))))]
pub use untold::*;

#[cfg(all(feature = "tracing", not(loom)))]
mod told {
    use core::cell::Cell;
    use std::mem;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::{Duration, Instant};

    use tracing::level_filters::LevelFilter;
    use tracing::{Level, debug, trace};

    const TARGET: &str = "stillpoint";

    thread_local! {
        /// This thread is in a subscriber, on our behalf.
        static TELLS: Cell<bool> = const { Cell::new(false) };
    }

    /// When a grace period began, if anybody wants to know.
    #[derive(Debug)]
    pub struct GpSpan(Option<Instant>);

    impl GpSpan {
        pub fn start() -> Self {
            let is_told = Level::DEBUG <= LevelFilter::current() && !TELLS.get();
            Self(is_told.then(Instant::now))
        }

        /// The grace period, which has this number, has ended; `held_up` by readers, or not.
        pub fn end(self, number: impl FnOnce() -> u64, held_up: bool) -> Option<EndedSpan> {
            self.0.map(|begun| EndedSpan { number: number(), held_up, took: begun.elapsed() })
        }
    }

    /// A grace period to be told of.
    #[derive(Debug)]
    pub struct EndedSpan {
        number: u64,
        held_up: bool,
        took: Duration,
    }

    impl EndedSpan {
        #[cold]
        pub fn emit(self, domain: &'static str) {
            let Self { number, held_up, took } = self;
            TELLS.set(true);
            let told = catch_unwind(AssertUnwindSafe(|| {
                if held_up {
                    debug!(target: TARGET, domain, number, ?took, "grace period, held up by readers");
                } else {
                    trace!(target: TARGET, domain, number, ?took, "grace period");
                }
            }));
            TELLS.set(false);
            // The panic has reported itself. Its payload may be anything: dropping it might panic again.
            if let Err(payload) = told {
                mem::forget(payload);
            }
        }
    }
}

#[cfg(not(all(feature = "tracing", not(loom))))]
mod untold {
    #[derive(Debug)]
    pub struct GpSpan;

    impl GpSpan {
        #[inline(always)]
        pub fn start() -> Self {
            Self
        }

        #[inline(always)]
        pub fn end(self, _number: impl FnOnce() -> u64, _held_up: bool) -> Option<EndedSpan> {
            None
        }
    }

    #[derive(Debug)]
    pub enum EndedSpan {}

    impl EndedSpan {
        pub fn emit(self, _domain: &'static str) {
            match self {}
        }
    }
}
