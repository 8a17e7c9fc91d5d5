//! This library, for the same measurements as its peers.

use stillpoint::lock::lab::{Policy, Raw};
use stillpoint::rcu::{self, DeferOptions, Guard, Limits, Rcu};
use stillpoint::{Domain as _, qsbr, srcu};

use super::{
    Around, GracePeriods, Lock, Object, Published, RawLock, ReadSide, Reclaim, VALUE, lock, read_side,
};
use harness::report::OURS;

/// `rcu`. The retiring thread runs destructors, as the guide recommends for values that only own memory.
pub struct Stillpoint;

fn options() -> DeferOptions {
    DeferOptions::new().run_on_retiring_thread()
}

impl Reclaim for Stillpoint {
    const NAME: &'static str = OURS;
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
        slot.replace(value).retire_with(options());
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

impl GracePeriods for RcuReaders {
    fn synchronize(&self) {
        rcu::synchronize();
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
        qsbr::Global.synchronize();
    }

    fn wakes(&self) -> f64 {
        qsbr::Global.stats().wakeups as f64
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
