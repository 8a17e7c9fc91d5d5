//! This library, for the same measurements as its peers.

use std::ptr::NonNull;

use stillpoint::lock::lab::{Policy, Raw};
use stillpoint::rcu::{self, DeferOptions, Guard, Limits, Rcu, Shared};
use stillpoint::{Domain as _, qsbr, srcu};

use super::{
    Around, Events, GracePeriods, Lock, Object, Published, RawLock, ReadSide, Reclaim, VALUE, lock, read_side,
};
use harness::report::OURS;

/// `rcu`. The retiring thread runs destructors, as the guide recommends for values that only own memory. If not
/// `LOCAL`, the worker runs them, and the thread may hold locks that they take.
pub struct Stillpoint<const LOCAL: bool = true>;

impl<const LOCAL: bool> Stillpoint<LOCAL> {
    #[inline(always)]
    fn options() -> DeferOptions {
        if LOCAL { DeferOptions::new().run_on_retiring_thread() } else { DeferOptions::new() }
    }
}

impl<const LOCAL: bool> Reclaim for Stillpoint<LOCAL> {
    const NAME: &'static str = if LOCAL { OURS } else { "stillpoint-worker" };
    type Thread<'a> = ();
    type Guard<'a> = Guard;
    type Slot<P: Object> = Rcu<P>;

    fn new() -> anyhow::Result<Self> {
        Ok(Self)
    }

    fn thread(&self) {
        rcu::register();
    }

    #[inline(always)]
    fn enter((): &()) -> Guard {
        rcu::enter()
    }

    fn slot<P: Object>(value: P) -> Rcu<P> {
        Rcu::new(value)
    }

    #[inline(always)]
    fn get<'a, P: Object>(guard: &'a Guard, slot: &'a Rcu<P>) -> &'a P {
        slot.load(guard)
    }

    #[inline]
    fn replace<P: Object>((): &(), slot: &Rcu<P>, value: P) {
        slot.replace(value).retire_with(Self::options());
    }

    #[inline]
    unsafe fn retire<N: Send + 'static>(_: &Guard, node: NonNull<N>) {
        // SAFETY: the caller's contract; the node comes from a Box.
        unsafe { rcu::Global.retire_shared(Shared::from_ptr(node.as_ptr()), Self::options()) };
    }

    fn call<F: FnOnce() + Send + 'static>((): &(), f: F) {
        rcu::call(f);
    }

    fn limit(bytes: Option<u64>) {
        let default = Limits::default();
        rcu::Global.set_limits(Limits { bytes: bytes.unwrap_or(default.bytes), ..default });
    }

    fn finish(self) -> impl Sized {
        rcu::barrier();
    }
}

/// The readers of `rcu`.
pub type RcuReaders = Published<Stillpoint>;

impl RcuReaders {
    /// Replaces the value, which retires the old one.
    pub fn replace(&self) {
        drop(self.slot.replace(VALUE));
    }
}

impl GracePeriods for RcuReaders {
    fn synchronize(&self) {
        rcu::synchronize();
    }

    fn events(&self) -> Events {
        let stats = rcu::stats();
        Events { grace_periods: stats.grace_periods, heavy: stats.heavy_fences, wakes: stats.wakeups }
    }
}

/// The readers of `qsbr`.
pub struct QsbrReaders(Rcu<u64, qsbr::Global>);

impl ReadSide for QsbrReaders {
    const NAME: &'static str = OURS;
    type Reader<'a> = qsbr::Handle;
    type Guard<'a> = &'a qsbr::Handle;

    fn new() -> Self {
        Self(Rcu::new_in(VALUE, qsbr::Global))
    }

    fn reader(&self) -> qsbr::Handle {
        qsbr::register()
    }

    #[inline(always)]
    fn enter<'a>(&'a self, reader: &'a qsbr::Handle) -> &'a qsbr::Handle {
        reader
    }

    #[inline(always)]
    fn load(&self, guard: &&qsbr::Handle) -> u64 {
        *self.0.load(guard)
    }

    #[inline(always)]
    fn quiescent(reader: &mut qsbr::Handle, n: u32) -> u64 {
        for _ in 0..n {
            reader.quiescent();
        }
        u64::from(n)
    }
}

impl GracePeriods for QsbrReaders {
    fn synchronize(&self) {
        qsbr::synchronize();
    }

    fn events(&self) -> Events {
        let stats = qsbr::Global.stats();
        Events { grace_periods: stats.grace_periods, heavy: stats.heavy_fences, wakes: stats.wakeups }
    }
}

/// The readers of an SRCU domain.
pub struct SrcuReaders {
    pointer: Rcu<u64, srcu::Domain>,
    pub domain: srcu::Domain,
}

read_side!(
    SrcuReaders,
    OURS,
    srcu::Guard<'a>,
    {
        let domain = srcu::Domain::new();
        Self { pointer: Rcu::new_in(VALUE, domain.clone()), domain }
    },
    |this| this.domain.enter(),
    |this, guard| *this.pointer.load(guard)
);

#[cfg(feature = "bench")]
pub mod arc;

lock!(stillpoint::lock::Mutex<u64>, OURS);

/// Our lock with another policy.
pub type Variant<P> = Around<Raw<P>>;

impl<P: Policy> RawLock for Raw<P> {
    const NAME: &'static str = "a variant of ours";

    fn new() -> Self {
        Self::new()
    }

    #[inline]
    fn lock(&self) {
        self.lock();
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.unlock() };
    }
}
