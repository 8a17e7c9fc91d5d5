//! Polled grace periods.

use core::sync::atomic::{AtomicU64, Ordering::*};

use stillpoint::urcu::{Engine, GpCookie};

use crate::flavor::{Flavor, SignalsBlocked, registered};
use crate::workers;

/// The default worker leads the grace periods that callers poll for.
#[derive(Debug)]
pub struct Polling {
    /// The last of them; 0 if there was none.
    wanted: AtomicU64,
}

impl Polling {
    pub(crate) const fn new() -> Self {
        Self { wanted: AtomicU64::new(0) }
    }

    /// Returns `true` if a caller polls for a grace period that has not passed.
    pub(crate) fn is_wanted<R>(&self, engine: &Engine<R>) -> bool {
        let wanted = self.wanted.load(Relaxed);
        wanted != 0 && !engine.is_done(GpCookie::from_number(wanted))
    }
}

fn is_elapsed<F: Flavor>(number: u64) -> bool {
    F::domain().engine.is_done(GpCookie::from_number(number))
}

/// `start_poll_synchronize_rcu`: returns the number of a grace period that begins later.
pub fn start<F: Flavor>() -> u64 {
    let domain = F::domain();
    let number = domain.engine.snapshot().number();
    // Relaxed: before the fence in `wake_if_idle`.
    domain.polling.wanted.fetch_max(number, Relaxed);
    workers::start_default::<F>();
    domain.workers.default.wake_if_idle();
    number
}

/// `poll_state_synchronize_rcu`: returns `true` if the grace period has passed.
pub fn state<F: Flavor>(number: u64) -> bool {
    if is_elapsed::<F>(number) {
        return true;
    }
    if !workers::start_default::<F>() {
        // No thread leads the grace period.
        let _blocked = SignalsBlocked::during::<F>();
        F::domain().engine.try_synchronize(registered::<F>().filter(|own| !own.in_section()));
    }
    is_elapsed::<F>(number)
}
