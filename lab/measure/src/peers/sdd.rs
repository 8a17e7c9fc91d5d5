//! sdd.

use std::sync::atomic::Ordering;

use sdd::{AtomicOwned, Guard};

use super::{ReadSide, VALUE, read_side};

/// A guard for each section, as its documentation does it.
pub struct Owned(AtomicOwned<u64>);

read_side!(Owned, "sdd", Guard, Self(AtomicOwned::new(VALUE)), |_this| Guard::new(), |this, guard| this
    .0
    .load(Ordering::Acquire, guard)
    .as_ref()
    .copied()
    .unwrap_or_default());
