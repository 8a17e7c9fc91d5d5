//! No critical sections: on other architectures each attempt fails. See [`super::section`].

use super::section::Place;

/// See [`super::section`].
#[inline(always)]
pub unsafe fn add(_: Place, _: u64) -> bool {
    false
}
