//! Polled grace periods. The default worker leads those that callers poll for.

use stillpoint::urcu::GpCookie;

use crate::call_rcu::{self, CallRcu};
use crate::flavor::{Flavor, SignalsBlocked, registered};

fn is_elapsed<F: Flavor>(number: u64) -> bool {
    F::engine().is_done(GpCookie::from_number(number))
}

/// `start_poll_synchronize_rcu`: returns the number of a grace period that begins later.
pub fn start<F: CallRcu>() -> u64 {
    let number = F::engine().snapshot().number();
    F::progress().poll(number);
    call_rcu::start_default::<F>();
    F::workers().default.wake_if_idle();
    number
}

/// `poll_state_synchronize_rcu`: returns `true` if the grace period has passed.
pub fn state<F: CallRcu>(number: u64) -> bool {
    if is_elapsed::<F>(number) {
        return true;
    }
    if !call_rcu::start_default::<F>() {
        // No thread leads the grace period.
        let _blocked = SignalsBlocked::during::<F>();
        F::engine().try_synchronize(registered::<F>().filter(|own| !own.in_section()), None);
    }
    is_elapsed::<F>(number)
}
