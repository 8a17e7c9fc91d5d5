//! The ways to wait for a grace period that E3 compares.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};

use stillpoint::rcu;

use crate::harness::report::OURS;
use crate::harness::worker as lane;
use crate::peers::LIBURCU;

/// A way to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Track {
    /// `synchronize()`.
    Separate,
    /// A callback that wakes its caller: behind all other callbacks of the thread, which is how the kernel waited before.
    Callback,
    /// `synchronize_rcu()` of liburcu.
    Liburcu,
}

impl Track {
    pub(super) const ALL: [Self; 3] = [Self::Separate, Self::Callback, Self::Liburcu];

    /// Why this build lacks it, if it does.
    pub(super) fn missing(self) -> Option<String> {
        let wanted: &[_] = if self == Self::Liburcu { &[LIBURCU] } else { &[] };
        crate::peers::missing(wanted).pop().map(|skipped| skipped.why)
    }

    /// Registers the calling thread, which stays a waiter until the result is dropped.
    pub(super) fn waiter(self) -> Box<dyn Waiter> {
        match self {
            Self::Separate => Box::new(Separate::register()),
            Self::Callback => Box::new(Callback::register()),
            #[cfg(feature = "liburcu")]
            Self::Liburcu => Box::new(crate::peers::liburcu::Reader::register()),
            #[cfg(not(feature = "liburcu"))]
            Self::Liburcu => unreachable!("nobody asks for what is missing"),
        }
    }
}

impl lane::Role for Track {
    fn system(self) -> &'static str {
        match self {
            Self::Separate => OURS,
            Self::Callback => "callback-track",
            Self::Liburcu => LIBURCU,
        }
    }

    fn command(self) -> [&'static str; 2] {
        let name = match self {
            Self::Separate => "separate",
            Self::Callback => "callback",
            Self::Liburcu => "liburcu",
        };
        ["track", name]
    }

    fn fence(self) -> Option<&'static str> {
        None
    }
}

/// A registered thread that waits for grace periods, reads, and defers.
pub(super) trait Waiter {
    /// Waits for a grace period.
    fn wait(&self);

    /// Calls `body` inside a section.
    fn section(&self, body: &mut dyn FnMut());

    /// Has `f` called after a grace period.
    fn call(&self, f: fn());

    /// Waits for all callbacks.
    fn barrier(&self);
}

struct Separate;

impl Separate {
    fn register() -> Self {
        rcu::register();
        Self
    }
}

impl Waiter for Separate {
    fn wait(&self) {
        rcu::synchronize();
    }

    fn section(&self, body: &mut dyn FnMut()) {
        let _guard = rcu::enter();
        body();
    }

    fn call(&self, f: fn()) {
        rcu::call(f);
    }

    fn barrier(&self) {
        rcu::barrier();
    }
}

/// Where the callback leaves its message.
struct Wake {
    done: AtomicBool,
    thread: Thread,
}

struct Callback {
    own: Separate,
    wake: Arc<Wake>,
}

impl Callback {
    fn register() -> Self {
        let wake = Wake { done: AtomicBool::new(false), thread: thread::current() };
        Self { own: Separate::register(), wake: Arc::new(wake) }
    }
}

impl Waiter for Callback {
    fn wait(&self) {
        let wake = Arc::clone(&self.wake);
        rcu::call(move || {
            // Release: the grace period was over before; partner: the Acquire below.
            wake.done.store(true, Ordering::Release);
            wake.thread.unpark();
        });
        while !self.wake.done.load(Ordering::Acquire) {
            thread::park();
        }
        // Relaxed: the callback was the only other one to know, and it has run.
        self.wake.done.store(false, Ordering::Relaxed);
    }

    fn section(&self, body: &mut dyn FnMut()) {
        self.own.section(body);
    }

    fn call(&self, f: fn()) {
        self.own.call(f);
    }

    fn barrier(&self) {
        self.own.barrier();
    }
}

#[cfg(feature = "liburcu")]
impl Waiter for crate::peers::liburcu::Reader {
    fn wait(&self) {
        crate::peers::liburcu::synchronize();
    }

    fn section(&self, body: &mut dyn FnMut()) {
        let _section = self.enter();
        body();
    }

    fn call(&self, f: fn()) {
        Self::call(self, f);
    }

    fn barrier(&self) {
        crate::peers::liburcu::barrier();
    }
}
