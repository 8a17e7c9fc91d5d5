//! The flavors that one torture fits: what a read-side critical section is to each.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

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
    const READS_IN_HANDLERS: bool = true;
    /// How long a thread may sleep that nothing else wakes.
    const LONGEST_TIMER: Duration = Duration::ZERO;

    type Domain: Domain;
    fn domain() -> &'static Self::Domain;

    /// The state of a thread that reads.
    type Reader;
    fn reader() -> Self::Reader;

    /// A section, which ends when it is dropped.
    type Guard;
    fn enter() -> Self::Guard;

    /// Ends a section, and begins another one at once.
    fn repeat(guard: Self::Guard) -> Self::Guard {
        drop(guard);
        Self::enter()
    }

    /// Runs `f` and ends the section, in another thread if guards can move.
    fn end_elsewhere(guard: Self::Guard, f: impl FnOnce() + Send) {
        f();
        drop(guard);
    }

    /// Runs a section, or two: `first` at its beginning, and `second` at its end.
    #[inline]
    fn section<T: Send>(
        _reader: &mut Self::Reader,
        shape: Shape,
        first: impl Fn() -> T,
        second: impl Fn(T) + Send + Sync,
    ) {
        let guard = Self::enter();
        match shape {
            Shape::Plain => second(first()),
            Shape::Nested => {
                let seen = first();
                drop(Self::enter());
                second(seen);
            }
            Shape::Extended => {
                // Before `first`, as the section that continues protects what that sees.
                let _other = Self::enter();
                let seen = first();
                drop(guard);
                return second(seen);
            }
            Shape::Repeated => {
                second(first());
                let _guard = Self::repeat(guard);
                return second(first());
            }
            Shape::Moved => {
                let seen = first();
                return Self::end_elsewhere(guard, || second(seen));
            }
        }
        drop(guard);
    }

    /// Does what else a thread may do now and then between sections.
    fn between(_reader: &mut Self::Reader) {}

    /// Runs `f`, which may block, outside sections.
    fn outside(_reader: &mut Self::Reader, f: impl FnOnce()) {
        f();
    }

    /// Runs `f` in a section of a thread that mostly waits, or of a signal handler.
    fn visit(f: impl FnOnce()) {
        let _guard = Self::enter();
        f();
    }

    /// In the child of a fork, outside sections: waits for grace periods. Returns `true` if callbacks run.
    fn works_in_child() -> bool {
        Self::visit(|| ());
        works(Self::domain())
    }
}

fn works(domain: &impl Domain) -> bool {
    static CALLED: AtomicBool = AtomicBool::new(false);
    domain.synchronize();
    domain.call(|| CALLED.store(true, Relaxed));
    domain.barrier();
    GracePeriod::now_in(domain.clone()).wait();
    CALLED.load(Relaxed)
}

/// RCU: threads that enter and leave sections.
#[derive(Debug)]
pub(super) enum Rcu {}

impl Flavor for Rcu {
    const NAME: &str = "rcu";

    type Domain = rcu::Global;
    fn domain() -> &'static rcu::Global {
        &rcu::Global
    }

    type Reader = ();
    fn reader() {
        rcu::register();
    }

    type Guard = rcu::Guard;
    #[inline]
    fn enter() -> rcu::Guard {
        rcu::enter()
    }

    #[inline]
    fn repeat(mut guard: rcu::Guard) -> rcu::Guard {
        guard.repin();
        guard
    }

    fn between((): &mut ()) {
        rcu::hint_idle();
    }
}

/// QSBR: a section lasts from one quiescent state of its thread to the next.
#[derive(Debug)]
pub(super) enum Qsbr {}

impl Flavor for Qsbr {
    const NAME: &str = "qsbr";
    const READS_IN_HANDLERS: bool = false;

    type Domain = qsbr::Global;
    fn domain() -> &'static qsbr::Global {
        &qsbr::Global
    }

    type Reader = Option<qsbr::Handle>;
    fn reader() -> Self::Reader {
        Some(qsbr::register())
    }

    type Guard = qsbr::Handle;
    fn enter() -> qsbr::Handle {
        qsbr::register()
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
            // No quiescent state: the section continues in the next.
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

    fn outside(reader: &mut Self::Reader, f: impl FnOnce()) {
        reader.get_or_insert_with(qsbr::register).offline(f);
    }
}

/// SRCU: sections are counted on each CPU, and may end in any thread.
#[derive(Debug)]
pub(super) enum Srcu {}

static DOMAIN: srcu::Domain = srcu::Domain::new();

impl Flavor for Srcu {
    const NAME: &str = "srcu";
    /// A thread that defers is slowed down by up to a second at a time, also inside a section, which only it can end.
    const LONGEST_TIMER: Duration = Duration::from_secs(1);

    type Domain = srcu::Domain;
    fn domain() -> &'static srcu::Domain {
        &DOMAIN
    }

    type Reader = ();
    fn reader() {
        DOMAIN.prepare();
        stillpoint::percpu::register_thread();
    }

    type Guard = srcu::Guard<'static>;
    #[inline]
    fn enter() -> Self::Guard {
        DOMAIN.enter()
    }

    fn end_elsewhere(guard: Self::Guard, f: impl FnOnce() + Send) {
        let end = || {
            f();
            drop(guard);
        };
        thread::scope(|scope| _ = scope.spawn(end));
    }

    /// Sections of other threads are open for ever in the child, so another domain shows it.
    fn works_in_child() -> bool {
        let domain = srcu::Domain::new();
        drop(domain.enter());
        works(&domain)
    }
}
