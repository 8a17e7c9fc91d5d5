//! The flavors that one torture fits: what a read-side critical section is to each.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use stillpoint::rcu::{self, GracePeriod};
use stillpoint::{Domain, qsbr, srcu};

/// The shape of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Plain,
    /// Another begins and ends inside.
    Nested,
    /// Another begins inside, and ends after it.
    Extended,
    /// Another follows at once.
    Repeated,
    /// It ends in another thread.
    Moved,
}

impl Shape {
    pub(super) fn random() -> Self {
        match fastrand::u8(..) {
            0..32 => Self::Nested,
            32..64 => Self::Extended,
            64..96 => Self::Repeated,
            96 => Self::Moved,
            _ => Self::Plain,
        }
    }
}

/// A kind of readers, and their domain.
pub(super) trait Flavor: 'static {
    const NAME: &str;
    /// Signal handlers may read.
    const HANDLES: bool;
    /// The callbacks of one thread run in order.
    const ORDERED: bool;

    type Domain: Domain;
    fn domain() -> &'static Self::Domain;

    /// The state of a thread that reads.
    type Reader;
    fn reader() -> Self::Reader;

    /// Runs a section, or two: `first` in its beginning, and `second` at its end.
    fn section<T: Send>(
        reader: &mut Self::Reader,
        shape: Shape,
        first: impl Fn() -> T,
        second: impl Fn(T) + Send + Sync,
    );

    /// Does what else a thread may do now and then between sections.
    fn between(_reader: &mut Self::Reader) {}

    /// Runs `f`, which may block, outside sections.
    fn rest(_reader: &mut Self::Reader, f: impl FnOnce()) {
        f();
    }

    /// Runs `f` in a section of a thread that mostly waits, or of a signal handler.
    fn visit(f: impl FnOnce());

    /// In the child of a fork, outside sections: waits for grace periods. Returns `true` if callbacks run.
    fn works_in_child() -> bool {
        static CALLED: AtomicBool = AtomicBool::new(false);
        Self::visit(|| ());
        let domain = Self::domain();
        domain.synchronize();
        domain.call(|| CALLED.store(true, Relaxed));
        domain.barrier();
        GracePeriod::now_in(domain.clone()).wait();
        CALLED.load(Relaxed)
    }
}

/// RCU: threads that enter and leave sections.
#[derive(Debug)]
pub(super) enum Rcu {}

impl Flavor for Rcu {
    const NAME: &str = "rcu";
    const HANDLES: bool = true;
    const ORDERED: bool = true;

    type Domain = rcu::Global;
    fn domain() -> &'static rcu::Global {
        &rcu::Global
    }

    type Reader = ();
    fn reader() {
        rcu::register();
    }

    #[inline]
    fn section<T: Send>((): &mut (), shape: Shape, first: impl Fn() -> T, second: impl Fn(T) + Send + Sync) {
        let mut guard = rcu::enter();
        let seen = first();
        match shape {
            Shape::Plain | Shape::Moved => second(seen),
            Shape::Nested => {
                drop(rcu::enter());
                second(seen);
            }
            Shape::Extended => {
                let inner = rcu::enter();
                drop(guard);
                second(seen);
                drop(inner);
                return;
            }
            Shape::Repeated => {
                second(seen);
                guard.repin();
                second(first());
            }
        }
        drop(guard);
    }

    fn visit(f: impl FnOnce()) {
        let _guard = rcu::enter();
        f();
    }
}

/// QSBR: a section lasts from one quiescent state of its thread to the next.
#[derive(Debug)]
pub(super) enum Qsbr {}

impl Flavor for Qsbr {
    const NAME: &str = "qsbr";
    const HANDLES: bool = false;
    const ORDERED: bool = true;

    type Domain = qsbr::Global;
    fn domain() -> &'static qsbr::Global {
        &qsbr::Global
    }

    type Reader = Option<qsbr::Handle>;
    fn reader() -> Self::Reader {
        Some(qsbr::register())
    }

    #[inline]
    fn section<T: Send>(
        reader: &mut Self::Reader,
        shape: Shape,
        first: impl Fn() -> T,
        second: impl Fn(T) + Send + Sync,
    ) {
        let thread = reader.get_or_insert_with(qsbr::register);
        second(first());
        match shape {
            // No quiescent state: the section goes on in the next.
            Shape::Extended => {}
            Shape::Nested => thread.offline(|| ()),
            Shape::Repeated => {
                thread.quiescent();
                second(first());
                thread.quiescent();
            }
            Shape::Plain | Shape::Moved => thread.quiescent(),
        }
    }

    fn between(reader: &mut Self::Reader) {
        match fastrand::u8(..4) {
            0 => *reader = None,
            1 => reader.get_or_insert_with(qsbr::register).synchronize(),
            _ => reader.get_or_insert_with(qsbr::register).offline(thread::yield_now),
        }
    }

    fn rest(reader: &mut Self::Reader, f: impl FnOnce()) {
        reader.get_or_insert_with(qsbr::register).offline(f);
    }

    fn visit(f: impl FnOnce()) {
        let _thread = qsbr::register();
        f();
    }
}

/// SRCU: sections are counted on each CPU, and may end in any thread.
#[derive(Debug)]
pub(super) enum Srcu {}

static DOMAIN: srcu::Domain = srcu::Domain::new();

impl Flavor for Srcu {
    const NAME: &str = "srcu";
    const HANDLES: bool = true;
    // Threads append to the queue of the CPU that they are on.
    const ORDERED: bool = false;

    type Domain = srcu::Domain;
    fn domain() -> &'static srcu::Domain {
        &DOMAIN
    }

    type Reader = ();
    fn reader() {
        DOMAIN.prepare();
        stillpoint::percpu::register_thread();
    }

    #[inline]
    fn section<T: Send>((): &mut (), shape: Shape, first: impl Fn() -> T, second: impl Fn(T) + Send + Sync) {
        let guard = DOMAIN.enter();
        if shape == Shape::Extended {
            // Two sections, of which the second began before the first ended.
            let other = DOMAIN.enter();
            let seen = first();
            drop(guard);
            second(seen);
            drop(other);
            return;
        }
        let seen = first();
        match shape {
            Shape::Plain | Shape::Extended => second(seen),
            Shape::Nested => {
                drop(DOMAIN.enter());
                second(seen);
            }
            Shape::Repeated => {
                second(seen);
                drop(guard);
                let guard = DOMAIN.enter();
                second(first());
                drop(guard);
                return;
            }
            Shape::Moved => {
                thread::scope(|scope| {
                    scope.spawn(|| {
                        second(seen);
                        drop(guard);
                    });
                });
                return;
            }
        }
        drop(guard);
    }

    fn visit(f: impl FnOnce()) {
        let _guard = DOMAIN.enter();
        f();
    }

    /// Sections of other threads are open for ever in the child, so another domain shows it.
    fn works_in_child() -> bool {
        static CALLED: AtomicBool = AtomicBool::new(false);
        let domain = srcu::Domain::new();
        drop(domain.enter());
        domain.synchronize();
        domain.call(|| CALLED.store(true, Relaxed));
        domain.barrier();
        CALLED.load(Relaxed)
    }
}
