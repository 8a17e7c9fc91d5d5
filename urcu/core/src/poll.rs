//! Polled grace periods.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

use stillpoint::urcu::GpCookie;

use crate::flavor::{Flavor, SignalsBlocked, registered};
use crate::queue::RcuHead;
use crate::workers;

/// A callback of the default worker makes grace periods pass that callers poll for.
#[derive(Debug)]
pub struct Polling {
    /// The last grace period that a caller polls for.
    wanted: AtomicU64,
    is_queued: AtomicBool,
    callback: UnsafeCell<RcuHead>,
}

// SAFETY: the callback is accessed by the thread that sets `is_queued`, and by the worker.
unsafe impl Sync for Polling {}

impl Polling {
    pub(crate) const fn new() -> Self {
        Self {
            wanted: AtomicU64::new(0),
            is_queued: AtomicBool::new(false),
            callback: UnsafeCell::new(RcuHead::new()),
        }
    }

    /// The callback may have been lost with its worker.
    pub(crate) fn reset_in_child(&self) {
        self.is_queued.store(false, Relaxed);
    }

    fn queue<F: Flavor>(&self) {
        // Release: publishes `wanted`. Acquire: sees it. Both pair with the swap in `served`.
        if !self.is_queued.swap(true, AcqRel) {
            // SAFETY: the callback is static, and in no queue.
            unsafe { workers::call::<F>(self.callback.get(), served::<F>) };
        }
    }
}

unsafe extern "C" fn served<F: Flavor>(_head: *mut RcuHead) {
    let polling = &F::domain().polling;
    // AcqRel: pairs with the swap in `queue`.
    polling.is_queued.swap(false, AcqRel);
    if !is_elapsed::<F>(polling.wanted.load(Relaxed)) {
        polling.queue::<F>();
    }
}

fn is_elapsed<F: Flavor>(number: u64) -> bool {
    F::domain().engine.is_done(GpCookie::from_number(number))
}

/// `start_poll_synchronize_rcu`: returns the number of a grace period that begins later.
pub fn start<F: Flavor>() -> u64 {
    let domain = F::domain();
    let number = domain.engine.snapshot().number();
    domain.polling.wanted.fetch_max(number, Relaxed);
    domain.polling.queue::<F>();
    number
}

/// `poll_state_synchronize_rcu`: returns `true` if the grace period has passed.
pub fn state<F: Flavor>(number: u64) -> bool {
    if is_elapsed::<F>(number) {
        return true;
    }
    if !workers::start_default::<F>() {
        // No thread serves the callback.
        let _blocked = SignalsBlocked::during::<F>();
        F::domain().engine.try_synchronize(registered::<F>().filter(|own| !own.in_section()));
    }
    is_elapsed::<F>(number)
}
