//! What the tests share.

#![allow(dead_code, reason = "not every test program uses all of it")]

pub use ::support::deadline;

use std::sync::atomic::AtomicUsize;
use std::thread;

use crossbeam_epoch::{self as epoch, Collector, Guard};

/// A way to pin a thread.
pub trait Participant {
    fn pin(&self) -> Guard;

    fn is_pinned(&self) -> bool;

    fn until(&self, condition: impl Fn() -> bool) {
        while !condition() {
            self.pin().flush();
            thread::yield_now();
        }
    }
}

/// The threads' own participants in the default collector.
pub struct Thread;

impl Participant for Thread {
    fn pin(&self) -> Guard {
        epoch::pin()
    }

    fn is_pinned(&self) -> bool {
        epoch::is_pinned()
    }
}

impl Participant for epoch::LocalHandle {
    fn pin(&self) -> Guard {
        self.pin()
    }

    fn is_pinned(&self) -> bool {
        self.is_pinned()
    }
}

/// Where threads take part.
pub trait Participants: Sync {
    type Participant: Participant;

    fn participant(&self) -> Self::Participant;
}

impl Participants for Thread {
    type Participant = Thread;

    fn participant(&self) -> Thread {
        Thread
    }
}

impl Participants for Collector {
    type Participant = epoch::LocalHandle;

    fn participant(&self) -> epoch::LocalHandle {
        self.register()
    }
}

/// Returns a counter, which a thread of the library may change as late as it likes.
pub fn counter() -> &'static AtomicUsize {
    Box::leak(Box::default())
}

/// Has the test run in all ways to pin, each inside `deadline`, or inside what another function returns.
#[macro_export]
macro_rules! in_all_ways {
    (inside $begin:path; $($test:ident),* $(,)?) => {$(
        mod $test {
            #[test]
            fn of_threads() {
                let _running = $begin();
                super::$test(&$crate::support::Thread);
            }

            #[test]
            fn of_handles_of_the_default_collector() {
                let _running = $begin();
                super::$test(crossbeam_epoch::default_collector());
            }

            #[test]
            fn of_handles_of_a_collector() {
                let _running = $begin();
                super::$test(&crossbeam_epoch::Collector::new());
            }
        }
    )*};
    ($($test:ident),* $(,)?) => { in_all_ways! { inside $crate::support::deadline::deadline; $($test),* } };
}
