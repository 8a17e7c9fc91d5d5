//! Stands for memory whose accesses loom checks. On the machine it is empty.

use super::{UnsafeCell, const_unless_loom};

/// See the [module](self).
#[derive(Debug)]
pub struct LoomAccess(UnsafeCell<()>);

// SAFETY: there is nothing in it.
unsafe impl Sync for LoomAccess {}

impl core::panic::RefUnwindSafe for LoomAccess {}

impl LoomAccess {
    const_unless_loom! {
        #[track_caller]
        pub fn new() -> Self {
            Self(UnsafeCell::new(()))
        }
    }

    /// The calling thread accesses the memory, as others may.
    #[inline(always)]
    #[track_caller]
    pub fn shared(&self) {
        self.0.with(|_| ());
    }

    /// The calling thread accesses the memory exclusively.
    #[inline(always)]
    #[track_caller]
    pub fn exclusive(&self) {
        self.0.with_mut(|_| ());
    }
}
