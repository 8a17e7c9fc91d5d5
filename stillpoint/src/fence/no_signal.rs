//! In the place of the signal backend without the feature `signal-fence`: it cannot be chosen.

use super::reason::BackendReason;

pub(super) fn install() -> Result<i32, BackendReason> {
    Err(BackendReason::SignalNotBuilt)
}

pub(super) fn is_registered() -> bool {
    false
}

pub(super) fn register() -> bool {
    false
}

pub(super) unsafe fn reset_in_child() {}

pub(super) fn fence() {
    unreachable!("the signal backend cannot be chosen");
}
