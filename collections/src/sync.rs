//! What the algorithm is made of: the pointers of `stillpoint`, or their twins for the model checker.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU64, AtomicUsize};
#[cfg(not(loom))]
pub use stillpoint::Domain;
#[cfg(not(loom))]
pub use stillpoint::lock::Mutex;
#[cfg(not(loom))]
pub use stillpoint::percpu::Counter;
#[cfg(not(loom))]
pub use stillpoint::rcu::{Atomic, DeferOptions, Owned, Shared};

#[cfg(loom)]
pub use crate::model::{Atomic, AtomicU64, AtomicUsize, Counter, DeferOptions, Domain, Mutex, Owned, Shared};

pub use core::sync::atomic::Ordering;

/// Gives up a node that is not stored yet.
#[inline(always)]
pub fn share<'g, T: Send + Sync + 'static, D: Domain>(
    new: Owned<T>,
    section: &'g D::Section,
) -> Shared<'g, T> {
    Atomic::<T, D>::new(new).load(section)
}

/// Waits a little for another thread, for longer from round to round.
pub fn pause(round: u32) {
    #[cfg(loom)]
    loom::thread::yield_now();
    match round {
        _ if cfg!(loom) => {}
        0..64 => core::hint::spin_loop(),
        64..128 => std::thread::yield_now(),
        _ => std::thread::sleep(core::time::Duration::from_micros(50)),
    }
}

pub(crate) use stillpoint::step;
